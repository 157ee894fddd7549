"""The input side for large N, seen from nearby: a ridge system of the rows next to each query.

    w(x') = [K_nn + (Σω) α diag(ω_n)⁻¹]⁻¹ k(n, x'),   n = the rows nearest to x'

A few thousand centres do not follow what varies from one row to the next, where there are many of
them. Here the section is the weights themselves, a sparse matrix: prediction = section(x') @ B.
"""

from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.spatial import KDTree

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError
from kcdo.inputs import Expectation, GaussianInput, SampleInput
from kcdo.kernels import Kernel, after_warps, metric_coordinates, without_warps
from kcdo.parallel import run_threaded
from kcdo.systems.exact import Centres, Queries

NEIGHBOURS = 64
_TREE_COORDINATES = 16  # of more, a tree looks at nearly every point
_BLOCK_ELEMENTS = 1 << 20
_JITTER = 1e-10  # rows may coincide


class NearestRows(Centres):
    """The ridge systems of the nearest rows, found when a query comes.

    Parameters
    ----------
    kernel : Kernel
        Input kernel, for which :func:`kcdo.kernels.has_metric`; its scales say what is near.
    X, weights : (N, p), (N,)
        The rows.
    alpha : float
        Tikhonov parameter α.
    neighbours : int
        Rows of each system.

    Examples
    --------
    >>> from kcdo import Gaussian
    >>> X = np.linspace(0.0, 9.0, 400)[:, None]
    >>> near = NearestRows(Gaussian(1.0), X, np.ones(400), alpha=1e-9, neighbours=20)
    >>> float((near.section(np.array([[5.0]])) @ np.sin(X))[0, 0].round(4))
    -0.9589
    """

    def __init__(
        self,
        kernel: Kernel,
        X: NDArray,
        weights: Array,
        alpha: float,
        neighbours: int = NEIGHBOURS,
        *,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(kernel, X, n_jobs)
        self.row_weights, self.alpha = weights, alpha
        self.neighbours = min(neighbours, len(X))

    def __getstate__(self) -> dict[str, Any]:
        # what finds neighbours is made again when needed: it does not travel with the model
        found_again = ("_finder", "_points", "_inner")
        return {name: value for name, value in self.__dict__.items() if name not in found_again}

    def with_alpha(self, alpha: float) -> "NearestRows":
        """Return the systems of the same rows with another α; neighbours are found once."""
        finder = self._finder  # made before its place is copied
        other = copy(self)
        vars(other).update(vars(self), _finder=finder, alpha=alpha)
        return other

    def bare(self) -> "NearestRows":
        """Return the systems with rows of their own, which predictions need."""
        X, weights = self.centres.copy(), self.row_weights.copy()
        return NearestRows(self.kernel, X, weights, self.alpha, self.neighbours, n_jobs=self.n_jobs)

    @property
    def width(self) -> int:
        """Numbers of a section that are kept: places and weights."""
        return 2 * self.neighbours

    def section_with_error(self, queries: Queries) -> Expectation:
        """Return the embedding weights w(x'), a sparse (Q, N)."""
        if isinstance(queries, GaussianInput | SampleInput):
            raise InvalidInputError("only points have neighbours: take points of uncertain inputs.")
        queries = after_warps(self.kernel, queries)
        coordinates = metric_coordinates(self._inner, queries)
        places = self._finder.nearest(coordinates, self.neighbours, self.n_jobs)
        return Expectation(self._weights(queries, places), 0.0)  # type: ignore[arg-type]

    def held_out_weights(self, rows: NDArray[np.integer]) -> csr_array:
        """Return S, (len(rows), N), with S @ B the leave-one-out predictions of some rows."""
        places = self._finder.nearest_others(rows, self.neighbours, self.n_jobs)
        return self._weights(self._points[rows], places)

    def _weights(self, queries: NDArray, places: NDArray[np.integer]) -> csr_array:
        values = np.empty(places.shape)
        k = places.shape[1]
        step = max(1, _BLOCK_ELEMENTS // (k * k * queries.shape[1]))

        def fill(part: slice) -> None:
            values[part] = self._solved(queries[part], places[part])

        run_threaded(fill, [slice(s, s + step) for s in range(0, len(queries), step)], self.n_jobs)
        starts = np.arange(len(queries) + 1) * k
        shape = len(queries), self.n_centres
        return csr_array((values.ravel(), places.ravel(), starts), shape=shape)

    def _solved(self, queries: NDArray, places: NDArray[np.integer]) -> Array:
        """Return the weights of the given rows, (Q, k): one batch of small systems."""
        points = self._points[places]
        k = places.shape[1]
        i, j = np.tril_indices(k, -1)
        matrix = np.empty((len(queries), k, k))
        matrix[:, i, j] = matrix[:, j, i] = self._at(points[:, i] - points[:, j])
        ridge = self.row_weights.sum() * self.alpha / self.row_weights[places]
        np.einsum("qii->qi", matrix)[:] = self._at(np.zeros((1, 1, points.shape[2]))) + ridge
        np.einsum("qii->qi", matrix)[:] += _JITTER
        own = self._at(points - queries[:, None])
        return np.linalg.solve(matrix, own[:, :, None])[:, :, 0]

    def _at(self, differences: Array) -> Array:
        """Return k(x, x') from x - x', (..., p) -> (...)."""
        flat = differences.reshape(-1, differences.shape[-1])
        values = self._inner.block(flat, np.zeros((1, flat.shape[1])))
        return values.reshape(differences.shape[:-1])

    @cached_property
    def _inner(self) -> Kernel:
        return without_warps(self.kernel)

    @cached_property
    def _points(self) -> Array:
        """The rows after all warps, where the kernel depends on differences alone."""
        return after_warps(self.kernel, self.centres)

    @cached_property
    def _finder(self) -> "_Finder":
        return _Finder(metric_coordinates(self._inner, self._points))


class _Finder:
    """Finds the nearest of some points: by a tree, or, of many coordinates, by all distances."""

    def __init__(self, points: Array) -> None:
        self._points = points
        self._asked: tuple[bytes, NDArray[np.integer]] | None = None
        if points.shape[1] <= _TREE_COORDINATES:
            self._tree: KDTree | None = KDTree(points)
            return
        from sklearn.neighbors import NearestNeighbors  # a long import, for wide data alone

        self._tree, self._brute = None, NearestNeighbors(algorithm="brute").fit(points)

    def nearest(self, queries: Array, count: int, n_jobs: int | None) -> NDArray[np.integer]:
        """Return the places of the points nearest to each query, (Q, count)."""
        if self._tree is None:
            return self._brute.kneighbors(queries, count, return_distance=False)
        tree, out = self._tree, np.empty((len(queries), count), dtype=np.intp)

        def fill(part: slice) -> None:
            out[part] = np.reshape(tree.query(queries[part], count)[1], (-1, count))

        run_threaded(fill, [slice(s, s + 256) for s in range(0, len(queries), 256)], n_jobs)
        return out

    def nearest_others(
        self, rows: NDArray[np.integer], count: int, n_jobs: int | None
    ) -> NDArray[np.integer]:
        """Return the points nearest to some of them, but for each itself; the last are kept."""
        if self._asked is None or self._asked[0] != rows.tobytes():
            more = min(count + 1, len(self._points))
            places = self.nearest(self._points[rows], more, n_jobs)
            itself = places == rows[:, None]
            itself[~itself.any(axis=1), -1] = True  # many points coincide: the last one goes
            self._asked = rows.tobytes(), places[~itself].reshape(len(rows), -1)
        return self._asked[1]


def rows_used(weights: csr_array) -> tuple[NDArray[np.integer], csr_array]:
    """Return the rows that have weights, and the weights of these alone."""
    rows, places = np.unique(weights.indices, return_inverse=True)
    shape = weights.shape[0], len(rows)
    return rows, csr_array((weights.data, places, weights.indptr), shape=shape)
