"""Missing numbers of inputs: plausible values for them, from rows that are near in what is there.

A query whose cells x_M are missing is answered by p(y | x_O) = E[p(y | x_O, x_M) | x_O], a mixture
over values of x_M that training rows have whose x_O is near. Training rows with missing cells get
one such value, drawn from rows near in x_O and in the outputs: without the outputs the values would
tell nothing of them, and more than one would leave copies of a row behind when it is held out.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array, Integers, in_order
from kcdo.consistency import need, shape
from kcdo.inputs import SampleInput

MISSING = ("raise", "marginalise")

_KEPT_ROWS = 2000
_PLAUSIBLE = 64  # values of a missing cell that a query is asked at
_DRAWN_FROM = 10  # near rows, of which one completes a training row
_UNLIKE = 2.0  # squared difference to expect of two standardised numbers
_ROWS_AT_A_TIME = 1024


@dataclass(frozen=True, eq=False)
class PlausibleInputs:
    """Training rows from which missing cells take their values.

    Rows are near where standardised numbers differ little and categories are the same.

    Parameters
    ----------
    points : (M, p)
        Inputs in random order, so that ties are broken by chance.
    outputs : (M, d)
        Their outputs.
    weights : (M,)
        Their sample weights.
    middle, scales : (p + d,)
        Median and spread of inputs and outputs, to standardise by.
    categorical : tuple of int
        Columns of categories, which are never missing.
    """

    points: Array
    outputs: Array
    weights: Array
    middle: Array
    scales: Array
    categorical: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        shape(self.points, None, None)
        shape(self.outputs, len(self.points), None)
        shape(self.weights, len(self.points))
        columns = self.points.shape[1] + self.outputs.shape[1]
        for values in (self.middle, self.scales):
            shape(values, columns)
        need(len(self.points) and self.weights.min() > 0, "weights that are not positive")
        need(self.scales.min() > 0, "scales that are not positive")
        need(set(self.categorical) <= set(range(self.points.shape[1])), "columns of categories")

    @classmethod
    def of(
        cls, X: Array, Y: Array, weights: Array, categorical: tuple[int, ...], seed: int
    ) -> tuple["PlausibleInputs", Array]:
        """Return rows to take values from, and all inputs (N, p) with their missing cells filled.

        Every column has a value in some row.
        """
        order = np.random.default_rng(seed).permutation(in_order([*X.T, *Y.T, weights]))
        kept = order[_enough(~np.isnan(X[order]))]
        middle, scales = _standards(np.hstack([X, Y]))
        raw = cls(X[kept], Y[kept], weights[kept], middle, scales, categorical)
        filled = raw.filled(X, Y, weights, seed)
        return replace(raw, points=filled[kept]), filled

    def filled(self, X: Array, Y: Array, weights: Array, seed: int) -> Array:
        """Return inputs with each missing cell drawn from rows near in cells and outputs.

        The same rows in another order get the same values.
        """
        found, rng = X.copy(), np.random.default_rng(seed)
        order = in_order([*X.T, *Y.T, weights])
        for pattern, places_in_order in _patterns(np.isnan(X[order])):
            rows = order[places_in_order]
            left = np.flatnonzero(pattern)
            while len(left):
                donors = self._with_values(left)
                # no row has all of them: one after the other
                some = left if len(donors) else left[:1]
                donors = donors if len(donors) else self._with_values(some)
                for part in _parts(rows):
                    places, shares = self._near(found[part], Y[part], donors, _DRAWN_FROM)
                    chosen = (shares.cumsum(axis=1) < rng.random((len(part), 1))).sum(axis=1)
                    chosen = places[np.arange(len(part)), np.minimum(chosen, places.shape[1] - 1)]
                    found[np.ix_(part, some)] = self.points[np.ix_(chosen, some)]
                left = left[len(some) :]
        return found

    def queries(self, X: Array) -> SampleInput:
        """Return queries with missing cells as samples of what they may be."""
        unknown = np.isnan(X).any(axis=1)
        count = min(_PLAUSIBLE, len(self.points))
        sizes = np.where(unknown, count, 1)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        points, weights = np.repeat(X, sizes, axis=0), np.ones(starts[-1])
        every = np.arange(len(self.points))
        for part in _parts(np.flatnonzero(unknown)):
            places, shares = self._near(X[part], None, every, count)
            values = np.where(np.isnan(X[part, None]), self.points[places], X[part, None])
            spots = starts[part, None] + np.arange(count)
            points[spots], weights[spots] = values, shares
        return SampleInput._make(points, starts, weights)

    def _with_values(self, columns: Integers) -> Integers:
        return np.flatnonzero(~np.isnan(self.points[:, columns]).any(axis=1))

    def _near(
        self, X: Array, Y: Array | None, donors: Integers, count: int
    ) -> tuple[Integers, Array]:
        """Return the rows nearest to some by the cells that are there, (n, k), and their shares."""
        squares = self._squares(X, Y, donors)
        nearest = np.argsort(squares, axis=1, kind="stable")[:, :count]
        distance = np.take_along_axis(squares, nearest, axis=1)
        unit = np.maximum(0.25 * distance[:, -1:], 1e-12)  # half the distance of the farthest
        places = donors[nearest]
        shares = self.weights[places] * np.exp(-0.5 * distance / unit)
        return places, shares / shares.sum(axis=1, keepdims=True)

    def _squares(self, X: Array, Y: Array | None, donors: Integers) -> Array:
        """Return squared distances (n, m); a cell that a donor lacks counts as unlike."""
        asked, there = self._placed(X, Y)
        values, known = self._placed(self.points[donors], self.outputs[donors])
        squares = (asked**2) @ known.T - 2.0 * asked @ values.T + there @ (values**2).T
        squares += _UNLIKE * (there @ (1.0 - known).T)
        return np.maximum(squares, 0.0)

    def _placed(self, X: Array, Y: Array | None) -> tuple[Array, Array]:
        """Return standardised numbers, categories as corners, and which are there; 0 if not."""
        outputs = np.full((len(X), self.outputs.shape[1]), np.nan) if Y is None else Y
        numbers = (np.hstack([X, outputs]) - self.middle) / self.scales
        corners = [X[:, [j]] == np.unique(self.points[:, j]) for j in self.categorical]
        numbers[:, list(self.categorical)] = 0.0
        placed = np.hstack([numbers, *corners])
        there = ~np.isnan(placed)
        return np.where(there, placed, 0.0), there.astype(float)


def _enough(there: NDArray[np.bool_]) -> Integers:
    """Return the first rows (N, p), and as many more as give every column some values."""
    most = np.arange(len(there)) < _KEPT_ROWS
    for column in there.T:
        most[np.flatnonzero(column)[:_PLAUSIBLE]] = True
    return np.flatnonzero(most)


def _standards(values: Array) -> tuple[Array, Array]:
    """Return median and spread of columns; the spread is robust to outliers where possible."""
    lower, middle, upper = np.nanpercentile(values, [16.0, 50.0, 84.0], axis=0)
    spread = 0.5 * (upper - lower)
    spread = np.where(spread > 0, spread, np.nanstd(values, axis=0))
    return middle, np.where(spread > 0, spread, 1.0)


def _patterns(
    missing: NDArray[np.bool_],
) -> list[tuple[NDArray[np.bool_], Integers]]:
    """Return which cells are missing together, and in which rows; none for complete rows."""
    rows = np.flatnonzero(missing.any(axis=1))
    if not len(rows):
        return []
    patterns, member = np.unique(missing[rows], axis=0, return_inverse=True)
    member = np.ravel(member)
    return [(pattern, rows[member == i]) for i, pattern in enumerate(patterns)]


def _parts(rows: Integers) -> list[Integers]:
    return [rows[s : s + _ROWS_AT_A_TIME] for s in range(0, len(rows), _ROWS_AT_A_TIME)]
