"""The input side for large N, seen from nearby: a ridge system of the rows next to each query.

    w(x') = [K_nn + (Σω) α diag(ω_n)⁻¹]⁻¹ k(n, x'),   n = the rows nearest to x'

A few thousand centres do not follow what varies from one row to the next, where there are many of
them. Here the section is the weights themselves, a sparse matrix: prediction = section(x') @ B.
"""

from copy import copy
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.spatial import KDTree

from kcdo.errors import InvalidInputError
from kcdo.inputs import Expectation, GaussianInput, SampleInput
from kcdo.kernels import Categorical, Kernel, Periodic, ScaledKernel, leaves
from kcdo.parallel import run_threaded
from kcdo.systems.exact import Centres, Queries

Array = NDArray[np.floating]

NEIGHBOURS = 64
_BLOCK_ELEMENTS = 1 << 20
_JITTER = 1e-10  # rows may coincide


class NearestRows(Centres):
    """The ridge systems of the nearest rows, found when a query comes.

    Parameters
    ----------
    kernel : Kernel
        Input kernel, for which :func:`has_metric`; its scales say what is near.
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

    method = "nearest"

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

    def with_alpha(self, alpha: float) -> "NearestRows":
        """Return the systems of the same rows with another α."""
        other = copy(self)
        other.alpha = alpha
        return other

    def bare(self) -> "NearestRows":
        """Return itself: predictions need all of it."""
        return self

    @property
    def width(self) -> int:
        """Numbers of a section that are kept: places and weights."""
        return 2 * self.neighbours

    def section_with_error(self, queries: Queries) -> Expectation:
        """Return the embedding weights w(x'), a sparse (Q, N)."""
        if isinstance(queries, GaussianInput | SampleInput):
            raise InvalidInputError("only points have neighbours: take points of uncertain inputs.")
        places = self._nearest(queries, self.neighbours)
        return Expectation(self._weights(queries, places), 0.0)  # type: ignore[arg-type]

    def held_out_weights(self, rows: NDArray[np.integer]) -> csr_array:
        """Return S, (len(rows), N), with S @ B the leave-one-out predictions of some rows."""
        queries = self.centres[rows]
        places = self._nearest(queries, min(self.neighbours + 1, self.n_centres))
        itself = places == rows[:, None]
        itself[~itself.any(axis=1), -1] = True  # many rows coincide: the last one goes
        return self._weights(queries, places[~itself].reshape(len(rows), -1))

    def _nearest(self, queries: NDArray, count: int) -> NDArray[np.integer]:
        """Return the places of the rows nearest to each query, (Q, count)."""
        _, places = self._tree.query(metric_coordinates(self.kernel, queries), count)
        return np.reshape(places, (len(queries), count))

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
        points = self.centres[places]
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
        values = self.kernel.block(flat, np.zeros((1, flat.shape[1])))
        return values.reshape(differences.shape[:-1])

    @cached_property
    def _tree(self) -> KDTree:
        return KDTree(metric_coordinates(self.kernel, self.centres))


def has_metric(kernel: Kernel, X: NDArray) -> bool:
    """Whether the scales of a kernel say which rows are near one another."""
    if X.dtype == object or not kernel.stationary:
        return False
    parts = [part for part, _ in leaves(kernel, range(X.shape[1]))]
    return all(isinstance(part, ScaledKernel) for part in parts)


def metric_coordinates(kernel: Kernel, X: NDArray) -> Array:
    """Return coordinates whose distance says how near rows are to a kernel of scaled columns.

    A phase lies on its circle; categories lie apart, no nearer than exp(-1/s) says.
    """
    columns = []
    for part, inside in leaves(kernel, range(X.shape[1])):
        assert isinstance(part, ScaledKernel)
        values, scales = X[:, inside], part.scales(len(inside))
        if isinstance(part, Periodic):
            radii = part.periods(len(inside)) / (2.0 * np.pi)
            angles = values / radii
            columns += [radii / scales * np.cos(angles), radii / scales * np.sin(angles)]
        elif isinstance(part, Categorical):
            columns.append(values * np.sqrt(2.0 / scales))
        else:
            columns.append(values / scales)
    return np.hstack(columns)
