"""Near rows of a few judged rows among all rows of a stream.

Each chunk returns the rows nearest to the judged rows; merged, they are the nearest among all rows.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array, Integers
from kcdo.fitting.pilot import Chunk, Pilot
from kcdo.kernels import Kernel, after_warps, metric_coordinates, without_warps
from kcdo.rows import Rows
from kcdo.systems import Finder

_BLOCK_NUMBERS = 1 << 20  # distances held at a time
_MOST_NUMBERS = 1 << 23  # of all candidates of one pass


@dataclass(frozen=True, eq=False)
class NearRowJudges:
    """Rows whose near rows are sought in one metric or several, and how far to look.

    Parameters
    ----------
    X : (J, p)
        Inputs of the judged rows.
    kernels : tuple of Kernel
        Their scales say what is near.
    count : int
        Near rows of each judged row in each metric.
    reach : (len(kernels), J)
        Squared distances within which so many rows are to be expected: by those of the sample.
    """

    X: NDArray
    kernels: tuple[Kernel, ...]
    count: int
    reach: Array

    @classmethod
    def of(
        cls, kernels: tuple[Kernel, ...], pilot: Pilot, judges: int, count: int
    ) -> "NearRowJudges":
        """Take the first rows of a sample, whose other rows say how far away near rows are."""
        numbers = len(kernels) * judges * (pilot.X.shape[1] + pilot.Y.shape[1] + 3)
        count = max(1, min(count, _MOST_NUMBERS // numbers, pilot.n_rows - 1))
        expected = count * len(pilot.X) / pilot.n_rows
        place = int(np.ceil(expected + 3.0 * np.sqrt(expected) + 3.0))
        rows = np.arange(min(judges, len(pilot.X)))
        reach = [_reach(kernel, pilot.X, rows, place) for kernel in kernels]
        return cls(pilot.X[rows], kernels, count, np.array(reach))

    def nearest(self, chunk: Chunk) -> "NearRows":
        """Return the rows of a chunk that may be among the nearest."""
        X, Y, weights = chunk
        groups, rows, squared = [], [], []
        for number, kernel in enumerate(self.kernels):
            judge, row, gap = _within(kernel, self.X, X, self.reach[number])
            groups.append(judge + number * len(self.X))
            rows.append(row)
            squared.append(gap)
        row = np.concatenate(rows)
        found = NearRows(
            np.concatenate(groups), np.concatenate(squared), X[row], Y[row], weights[row]
        )
        return found.nearest(self.count)

    def merged(self, first: "NearRows", second: "NearRows") -> "NearRows":
        """Return the nearest of the rows of both, those of earlier chunks first."""
        parts = zip(vars(first).values(), vars(second).values(), strict=True)
        return NearRows(*(np.concatenate(pair) for pair in parts)).nearest(self.count)


@dataclass(frozen=True, eq=False)
class NearRows:
    """Near rows of judged rows: for each its group (metric and judge), squared distance, values."""

    group: Integers
    squared: Array
    X: NDArray
    Y: Array
    weights: Array

    def nearest(self, count: int) -> "NearRows":
        """Return the nearest of each group, so many at most; of equals the first ones."""
        order = np.lexsort((self.squared, self.group))
        group = self.group[order]
        starts = np.flatnonzero(np.diff(group, prepend=-1))
        rank = np.arange(len(group)) - np.repeat(starts, np.diff(np.append(starts, len(group))))
        kept = order[rank < count]
        return NearRows(*(values[kept] for values in vars(self).values()))


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """Judged rows and all their candidates as one table of different rows, the judged ones first.

    Parameters
    ----------
    rows : Rows
        The table.
    lists : (J, C)
        Places of the candidates of each judged row, -1 where it has fewer.
    """

    rows: Rows
    lists: Integers

    @classmethod
    def of(cls, judges: NearRowJudges, near: NearRows, pilot: Pilot) -> "Neighbourhood":
        """Give every row one place: a judged row may be near another one."""
        n = len(judges.X)
        both = Rows(
            np.concatenate([pilot.X[:n], near.X]),
            np.concatenate([pilot.Y[:n], near.Y]),
            np.concatenate([pilot.weights[:n], near.weights]),
        )
        table = np.ascontiguousarray(np.column_stack([both.X, both.Y, both.weights]))
        keys = table.view(np.dtype((np.void, table.itemsize * table.shape[1]))).ravel()
        _, first, place = np.unique(keys, return_index=True, return_inverse=True)
        order = np.argsort(first)  # in the order in which they come: judged rows first
        back = np.empty(len(order), dtype=np.intp)
        back[order] = np.arange(len(order))
        return cls(both.take(first[order]), _lists(near.group % n, back[place[n:]], n))

    @property
    def judged(self) -> int:
        """Number of judged rows."""
        return len(self.lists)


def _reach(kernel: Kernel, X: NDArray, rows: Integers, place: int) -> Array:
    """Return the squared distance of rows to their so-manieth neighbour among all."""
    coordinates = _coordinates(kernel, X)
    near = Finder(coordinates).nearest_distinct(rows, min(place, len(X) - 1))
    return _squared(coordinates[rows], coordinates[near[:, -1]])


def _within(
    kernel: Kernel, judges: NDArray, X: NDArray, reach: Array
) -> tuple[Integers, Integers, Array]:
    """Return pairs of judges and rows with other inputs within reach, and squared distances."""
    ours, theirs = _coordinates(kernel, judges), _coordinates(kernel, X)
    middle = np.median(ours, axis=0)
    about, others = ours - middle, theirs - middle
    lengths = np.einsum("ij,ij->i", others, others)
    # products round: a little more is looked at, and distances are then taken of differences
    own = np.einsum("ij,ij->i", about, about)
    most = reach * (1.0 + 1e-9) + 1e-9 * own - own
    found = []
    step = max(1, _BLOCK_NUMBERS // max(len(X), 1))
    lengths *= 1.0 - 1e-9
    for start in range(0, len(judges), step):
        part = slice(start, start + step)
        squared = about[part] @ (-2.0 * others.T)
        squared += lengths
        judge, row = np.nonzero(squared <= most[part, None])
        found.append(np.stack([judge + start, row]))
    judge, row = np.concatenate(found, axis=1) if found else np.zeros((2, 0), dtype=np.intp)
    gaps = _squared(ours[judge], theirs[row])
    kept = (gaps <= reach[judge]) & np.any(judges[judge] != X[row], axis=1)
    return judge[kept], row[kept], gaps[kept]


def _coordinates(kernel: Kernel, X: NDArray) -> Array:
    return metric_coordinates(without_warps(kernel), after_warps(kernel, X))


def _squared(first: Array, second: Array) -> Array:
    """Return squared distances of pairs, the same bits for any number of pairs."""
    total = np.zeros(len(first))
    for column in range(first.shape[1]):
        total += (first[:, column] - second[:, column]) ** 2
    return total


def _lists(judge: Integers, place: Integers, n: int) -> Integers:
    """Return the different places of each judge, (n, C), filled up with -1."""
    pairs = np.unique(np.stack([judge, place], axis=1), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    counts = np.bincount(pairs[:, 0], minlength=n)
    lists = np.full((n, max(int(counts.max(initial=0)), 1)), -1, dtype=np.intp)
    within = np.arange(len(pairs)) - np.repeat(np.cumsum(counts) - counts, counts)
    lists[pairs[:, 0], within] = pairs[:, 1]
    return lists
