"""The rows of a fit: some of them at random, folds of them, and what repeats among them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array, Integers, in_order
from kcdo.systems import Groups

Fold = tuple[Integers, Integers]  # rows that learn, rows that judge

_OUTLIER, _DRAWN_TO = 100.0, 5.0  # distances from the median, in interquartile ranges
_GAP = 300.0  # times the distance of the farthest other row
_FEW_OUTLIERS = 0.002  # of the weight
_MIXES = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))  # of splitmix64
_SHIFTS = (np.uint64(31), np.uint64(29))


@dataclass(frozen=True)
class Kin:
    """Labels of rows that belong together, whole numbers: groups, or moments in their order.

    >>> Kin(np.array([0, 1, 0, 1]), ordered=True).folds(5, seed=0)
    [(array([0, 2]), array([1, 3]))]
    """

    labels: Integers
    ordered: bool  # whether the labels are moments

    @property
    def count(self) -> int:
        """Number of different labels."""
        return len(np.unique(self.labels))

    def take(self, rows: Integers) -> "Kin":
        """Return the labels of some rows."""
        return replace(self, labels=self.labels[rows])

    def folds(self, count: int, seed: int) -> list[Fold]:
        """Return places of rows that learn and of rows that judge, for each fold.

        Groups judge as a whole. Of moments there are consecutive blocks, each judged by what all
        earlier rows say; the first block only learns.
        """
        _, labels, counts = np.unique(self.labels, return_inverse=True, return_counts=True)
        if not self.ordered:
            return _each_fold(fold_numbers(len(counts), min(count, len(counts)), seed)[labels])
        before = np.cumsum(counts) - counts  # rows of earlier moments
        block = (before * (count + 1) // len(labels))[labels]
        if not block.any():  # few rows before very many of one moment
            block = np.minimum(labels, 1)
        block = np.unique(block, return_inverse=True)[1]
        return [
            (np.flatnonzero(block < each), np.flatnonzero(block == each))
            for each in range(1, block.max() + 1)
        ]


@dataclass(frozen=True)
class Rows:
    """Inputs, outputs (N, d) and weights of some rows, and what keeps rows together in folds."""

    X: NDArray
    Y: Array
    weights: Array
    kin: "Kin | None" = None

    def __len__(self) -> int:
        return len(self.X)

    @property
    def total(self) -> float:
        """Sum of the weights."""
        return float(self.weights.sum())

    def in_order(self) -> "Rows":
        """Return the rows by inputs, then outputs, then weights.

        Folds and subsamples are drawn from places in this order, so that the same rows in another
        order are the same fit, to the last digit. Inputs that are no numbers have no order: such
        rows go by their outputs.

        >>> Rows(np.array([[1.0], [0.0], [1.0]]), np.array([[3.0], [5.0], [2.0]]), np.ones(3)
        ... ).in_order().Y.T
        array([[5., 2., 3.]])
        """
        inputs = () if self.X.dtype == object else self.X.T
        order = in_order([*inputs, *self.Y.T, self.weights])
        return self if np.array_equal(order, np.arange(len(self))) else self.take(order)

    def take(self, rows: Integers) -> "Rows":
        """Return some of the rows."""
        kin = None if self.kin is None else self.kin.take(rows)
        return Rows(self.X[rows], self.Y[rows], self.weights[rows], kin)

    def folds(self, count: int, seed: int) -> list[Fold]:
        """Return places of rows that learn and of rows that judge, for each fold."""
        return in_folds(len(self), count, seed, self.kin)

    def one_of_each(self, seed: int) -> "Rows":
        """Return one row of each group, at random; all rows where there are no groups."""
        if self.kin is None or self.kin.ordered:
            return self
        order = np.random.default_rng(seed).permutation(len(self))
        _, first = np.unique(self.kin.labels[order], return_index=True)
        return self.take(np.sort(order[first]))

    def sample(self, most: int, seed: int) -> "Rows":
        """Return at most so many rows at random."""
        return self if len(self) <= most else self.take(self.sampled(most, seed))

    def sampled(self, most: int, seed: int) -> Integers:
        """Return the places of the rows of a :meth:`sample`."""
        return sampled(len(self), most, seed)

    @cached_property
    def share_repeated(self) -> float:
        """Share of the rows that have others of the same input."""
        member = Groups.of(self.X).member_of
        return float(np.mean(np.bincount(member)[member] > 1))

    def of_effective_weight(self) -> "Rows":
        """Return the rows with weights that sum to the number of equal rows they amount to.

        A row of weight 3 stays one row: held out, it goes as a whole, as its copies predict it.
        """
        return replace(self, weights=self.weights * (self.weights.sum() / np.sum(self.weights**2)))

    def without_copies(self) -> "tuple[Rows, Integers]":
        """Return one row of each inputs and outputs, and the place of every row among these, (N,).

        A copy says nothing new, and when a row is left out, its copy foretells it exactly. The row
        has the greatest weight of its copies.

        >>> X, Y = np.array([[1.0], [2.0], [1.0]]), np.array([[3.0], [5.0], [3.0]])
        >>> fewer, places = Rows(X, Y, np.ones(3)).without_copies()
        >>> len(fewer), places
        (2, array([0, 1, 0]))
        """
        keys = row_keys(np.hstack([self.X, self.Y]))
        _, first, place = np.unique(keys, return_index=True, return_inverse=True)
        order = np.argsort(first)
        place = np.argsort(order)[place]
        greatest = np.zeros(len(order))
        np.maximum.at(greatest, place, self.weights)
        fewer = replace(self.take(first[order]), weights=greatest)
        return fewer.of_effective_weight(), place

    def with_outputs(self, Y: Array) -> "Rows":
        """Return the rows with other outputs."""
        return replace(self, Y=Y)

    def centred(self) -> Array:
        """Return the outputs less their mean: a ridge shrinks towards 0."""
        return self.Y - np.average(self.Y, axis=0, weights=self.weights)


def sampled(n: int, most: int, seed: int) -> Integers:
    """Return at most so many of n places at random, sorted; all of them where they are few."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, most, replace=False))


def in_folds(n: int, count: int, seed: int, kin: Kin | None = None) -> list[Fold]:
    """Return places of rows that learn and of rows that judge, for each fold of n rows.

    At random, of equal size; where rows belong together, as :meth:`Kin.folds` says.

    >>> [(len(learn), len(judge)) for learn, judge in in_folds(7, 3, seed=0)]
    [(4, 3), (5, 2), (5, 2)]
    """
    if kin is not None:
        return kin.folds(count, seed)
    return _each_fold(fold_numbers(n, min(count, n), seed))


def _each_fold(fold_of: Integers) -> list[Fold]:
    return [
        (np.flatnonzero(fold_of != each), np.flatnonzero(fold_of == each))
        for each in range(int(fold_of.max()) + 1)
    ]


def fold_numbers(n: int, folds: int, seed: int) -> Integers:
    """Return the fold of each of n rows, (n,): folds of equal size, at random.

    >>> np.bincount(fold_numbers(7, 3, seed=0))
    array([3, 2, 2])
    """
    return np.random.default_rng(seed).permutation(n) % folds


def outliers_drawn_in(rows: Rows) -> Rows:
    """Return rows whose few outputs that lie absurdly far from all others are drawn near.

    One output at a million sds would otherwise be most of every mean, scale and box. A heavy tail
    is no outlier: between its rows there are no such gaps.
    """
    lower, middle, upper = weighted_quantiles(rows.Y, rows.weights, (0.25, 0.5, 0.75))
    spread = np.where(upper > lower, upper - lower, np.inf)
    distance = np.abs(rows.Y - middle) / spread
    far = distance > _OUTLIER
    edge = np.max(np.where(far, 0.0, distance), axis=0)  # of the rows that are not far
    far &= distance > _GAP * edge
    few = rows.weights[far.any(axis=1)].sum() <= max(1.0, _FEW_OUTLIERS * rows.total)
    if not far.any() or not few:
        return rows
    near = np.clip(rows.Y, middle - _DRAWN_TO * spread, middle + _DRAWN_TO * spread)
    return rows.with_outputs(np.where(far, near, rows.Y))


def weighted_quantiles(Y: Array, weights: Array, levels: Sequence[float]) -> Array:
    """Return the least outputs whose share of the weight reaches each level, (len(levels), d).

    >>> weighted_quantiles(np.array([[3.0], [1.0], [2.0]]), np.array([1.0, 1.0, 2.0]), (0.5,))
    array([[2.]])
    """
    order = np.argsort(Y, axis=0)
    shares = np.cumsum(weights[order], axis=0) / weights.sum()
    places = [np.argmax(shares >= level - 1e-12, axis=0) for level in levels]
    return np.stack(
        [np.take_along_axis(Y, order, axis=0)[p, np.arange(Y.shape[1])] for p in places]
    )


def row_keys(X: NDArray) -> NDArray[np.int64]:
    """Return a number of 64 bits for each row of inputs (N, p), the same for the same inputs.

    Other inputs have the same number once in 10¹⁹ pairs.

    >>> keys = row_keys(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -0.0]]))
    >>> bool(keys[0] == keys[2] != keys[1])
    True
    """
    bits = (np.ascontiguousarray(X, dtype=float) + 0.0).view(np.uint64)  # -0 is 0
    keys = np.zeros(len(bits), dtype=np.uint64)
    for column in bits.T:
        keys = (keys ^ column) * _MIXES[0]
        keys ^= keys >> _SHIFTS[0]
        keys *= _MIXES[1]
        keys ^= keys >> _SHIFTS[1]
    return keys.view(np.int64)
