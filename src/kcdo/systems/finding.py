"""Finding the rows nearest to a query: by all distances, or by a tree where they are many."""

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from kcdo.arrays import Array, Integers
from kcdo.parallel import run_threaded

_TREE_COORDINATES = 16  # of more, a tree looks at nearly every point
_TREE_POINTS = 20_000  # up to here all distances are as quick
_BLOCK_NUMBERS = 1 << 22
_LEAST_SPREAD = 1e-6  # of a column, beside the widest, that tells points apart
_SAME = 1e-18  # squared distance, relative to squared lengths, of points that coincide
_WIDER = 4  # times as many neighbours are looked at where points coincide


class Finder:
    """Finds the nearest of some points.

    Examples
    --------
    >>> finder = Finder(np.array([[0.0], [1.0], [5.0], [1.0]]))
    >>> finder.nearest(np.array([[0.9]]), 2)
    array([[1, 3]])
    >>> finder.nearest_distinct(np.array([1]), 2)
    array([[0, 2]])
    """

    def __init__(self, points: Array) -> None:
        # about their middle: far from 0 the differences of squares would round distances away
        self._seen = _that_tell(points)
        points = points[:, self._seen]
        self._middle = np.median(points, axis=0)
        self._points = points = points - self._middle
        self._squares = np.einsum("ij,ij->i", points, points)
        by_tree = points.shape[1] <= _TREE_COORDINATES and len(points) > _TREE_POINTS
        self._tree = KDTree(points) if by_tree else None
        self._asked: tuple[bytes, int, Integers] | None = None

    def nearest(self, queries: Array, count: int, n_jobs: int | None = None) -> NDArray:
        """Return the places of the points nearest to each query, (Q, count), the nearest first."""
        return self._found(queries[:, self._seen] - self._middle, None, count, n_jobs)

    def nearest_others(self, rows: Integers, count: int, n_jobs: int | None = None) -> NDArray:
        """Return the points nearest to some of the points, each without itself; keeps the last."""
        asked = self._asked
        if asked is None or asked[0] != rows.tobytes() or asked[1] != count:
            more = min(count + 1, len(self._points))
            places = self._found(self._points[rows], None, more, n_jobs)
            itself = places == rows[:, None]
            itself[~itself.any(axis=1), -1] = True  # many points coincide: the last one goes
            asked = rows.tobytes(), count, places[~itself].reshape(len(rows), -1)
            self._asked = asked
        return asked[2]

    def nearest_distinct(self, rows: Integers, count: int, n_jobs: int | None = None) -> NDArray:
        """Return the points nearest to some of the points, without those that coincide with them.

        Where nearly all points coincide the last are those that do.
        """
        return self._found(self._points[rows], rows, count, n_jobs)

    def _found(
        self, queries: Array, rows: Integers | None, count: int, n_jobs: int | None
    ) -> NDArray:
        out = np.empty((len(queries), count), dtype=np.intp)
        step = 256 if self._tree is not None else max(1, _BLOCK_NUMBERS // len(self._points))

        def fill(part: slice) -> None:
            own = None if rows is None else rows[part]
            by = self._by_tree if self._tree is not None else self._by_distances
            out[part] = by(queries[part], own, count)

        run_threaded(fill, [slice(s, s + step) for s in range(0, len(queries), step)], n_jobs)
        return out

    def _by_distances(self, queries: Array, rows: Integers | None, count: int) -> NDArray:
        squared = np.einsum("ij,ij->i", queries, queries)[:, None] + self._squares
        squared -= 2.0 * (queries @ self._points.T)
        if rows is not None:
            lengths = np.maximum(self._squares[rows, None], self._squares)
            same = squared <= 1e-12 * lengths
            same[np.arange(len(rows)), rows] = True
            for i, j in np.argwhere(same):  # rounding hides small distances: look again
                gap = queries[i] - self._points[j]
                if gap @ gap <= _SAME * lengths[i, j]:
                    squared[i, j] = np.inf
        places = np.argpartition(squared, min(count, squared.shape[1]) - 1, axis=1)[:, :count]
        order = np.argsort(np.take_along_axis(squared, places, axis=1), axis=1, kind="stable")
        return np.take_along_axis(places, order, axis=1)

    def _by_tree(self, queries: Array, rows: Integers | None, count: int) -> NDArray:
        assert self._tree is not None
        if rows is None:
            return np.reshape(self._tree.query(queries, count)[1], (-1, count))
        more = min(_WIDER * count + 1, len(self._points))
        distances, places = self._tree.query(queries, more)
        same = distances**2 <= _SAME * np.maximum(self._squares[rows, None], 1e-300)
        order = np.argsort(same, axis=1, kind="stable")  # those that coincide come last
        return np.take_along_axis(places, order, axis=1)[:, :count]


def _that_tell(points: Array) -> Integers:
    """Return the columns that tell points apart: a metric may not see all, and trees are slow."""
    spread = np.ptp(points, axis=0)
    if not np.isfinite(spread).all() or not spread.any():
        return np.arange(points.shape[1])
    return np.flatnonzero(spread > _LEAST_SPREAD * spread.max())
