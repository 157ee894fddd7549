"""The input side for large N, seen from nearby: a ridge system of the rows next to each query.

    w(x') = [K_nn + (Σω) α diag(ω_n)⁻¹]⁻¹ k(n, x'),   n = the rows nearest to x'

A few thousand centres do not follow what varies from one row to the next, where there are many of
them. Here the section is the weights themselves, a sparse matrix: prediction = section(x') @ B.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kcdo.arrays import Array, Integers
from kcdo.consistency import need, shape
from kcdo.errors import InvalidInputError
from kcdo.inputs import Expectation, GaussianInput, SampleInput
from kcdo.kernels import (
    Average,
    Kernel,
    Radial,
    after_warps,
    has_metric,
    metric_coordinates,
    without_warps,
)
from kcdo.kernels.metric import FURTHEST
from kcdo.parallel import run_threaded
from kcdo.systems.base import (
    Condensed,
    Embed,
    Queries,
    SolverFacts,
    System,
    Weights,
    stacked,
)
from kcdo.systems.finding import Finder

NEIGHBOURS = 64
_BLOCK_ELEMENTS = 1 << 20
_JITTER = 1e-10  # rows may coincide


@dataclass(frozen=True, eq=False)
class NearestRows:
    """Rows among which the nearest to a query are found, before α is known.

    Parameters
    ----------
    kernel : Kernel
        Input kernel, for which :func:`kcdo.kernels.has_metric`; its scales say what is near.
    X, weights : (N, p), (N,)
        The rows.
    neighbours : int
        Rows of each system.

    Examples
    --------
    >>> from kcdo import Gaussian
    >>> X = np.linspace(0.0, 9.0, 400)[:, None]
    >>> near = NearestRows(Gaussian(1.0), X, np.ones(400), neighbours=20).factor(alpha=1e-9)
    >>> float((near.section(np.array([[5.0]])) @ np.sin(X))[0, 0].round(4))
    -0.9589
    """

    kernel: Kernel
    X: NDArray
    weights: Array
    neighbours: int = NEIGHBOURS
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        shape(self.X, None, None)
        shape(self.weights, len(self.X))
        need(len(self.X) and self.weights.min() > 0, "weights that are not positive")
        need(self.neighbours > 0, "the number of neighbours")
        need(has_metric(self.kernel, self.X), "a kernel without a metric")
        ends = np.stack([self.X.min(axis=0), self.X.max(axis=0)])  # the first that overflow
        with np.errstate(invalid="ignore"):
            coordinates = metric_coordinates(self.inner, after_warps(self.kernel, ends))
        need(np.isfinite(coordinates).all(), "inputs that are infinitely far apart")

    def factor(self, alpha: float) -> "NearestSystem":
        """Return the systems of the rows near each query; neighbours are found once for all α."""
        return NearestSystem(self.kernel, self.X, self.n_jobs, alpha, self)

    def __getstate__(self) -> dict[str, Any]:
        # what finds neighbours is made again when needed: it does not travel with the model
        found_again = ("_finder", "coordinates", "points", "inner")
        return {name: value for name, value in self.__dict__.items() if name not in found_again}

    @property
    def count(self) -> int:
        """Rows of each system: no more than there are."""
        return min(self.neighbours, len(self.X))

    @cached_property
    def inner(self) -> Kernel:
        """The kernel of the columns after all warps."""
        return without_warps(self.kernel)

    @cached_property
    def points(self) -> Array:
        """The rows after all warps, where the kernel depends on differences alone."""
        return after_warps(self.kernel, self.X)

    def near(self, queries: Array) -> Integers:
        """Return the places of the rows nearest to queries (after all warps), (Q, k)."""
        coordinates = metric_coordinates(self.inner, queries)
        return self._finder.nearest(coordinates, self.count, self.n_jobs)

    def near_others(self, rows: Integers) -> Integers:
        """Return the places of the rows nearest to some of the rows, each without itself."""
        return self._finder.nearest_others(rows, self.count, self.n_jobs)

    @cached_property
    def _finder(self) -> Finder:
        return Finder(self.coordinates)

    @cached_property
    def coordinates(self) -> Array:
        """The rows in the metric of the kernel, (N, F)."""
        return metric_coordinates(self.inner, self.points)


@dataclass(frozen=True, eq=False)
class NearestSystem(System):
    """The ridge systems of the rows next to each query, solved when a query comes."""

    rows: NearestRows
    near_rows_alone = True

    def __post_init__(self) -> None:
        super().__post_init__()
        shape(self.rows.X, *self.centres.shape)

    def to_state(self) -> dict[str, Any]:
        """Return what a file keeps: the rows once, as centres, and nothing of what finds them."""
        return {
            "kernel": self.kernel,
            "centres": self.centres,
            "n_jobs": self.n_jobs,
            "alpha": self.alpha,
            "row_weights": self.rows.weights,
            "neighbours": self.rows.count,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "NearestSystem":
        """Return the systems of the rows of a file."""
        kernel, X, n_jobs = state["kernel"], state["centres"], state["n_jobs"]
        need(state["neighbours"] <= len(X), "the number of neighbours")
        rows = NearestRows(kernel, X, state["row_weights"], state["neighbours"], n_jobs)
        return rows.factor(state["alpha"])

    @property
    def width(self) -> int:
        """Numbers of a section that are kept: places and weights."""
        return 2 * self.rows.count

    def section_with_error(self, queries: Queries) -> Expectation:
        """Return the embedding weights w(x'), a sparse (Q, N)."""
        if isinstance(queries, GaussianInput | SampleInput):
            raise InvalidInputError("only points have neighbours: take points of uncertain inputs.")
        queries = after_warps(self.kernel, queries)
        places = self.rows.near(queries)
        return Expectation(self._weights(queries, places)[0], 0.0)  # type: ignore[arg-type]

    @property
    def row_weights(self) -> Array:
        """Weights ω of all rows, (N,)."""
        return self.rows.weights

    def weights_and_variance(self, queries: NDArray) -> tuple[csr_array, Array]:
        """Return weights w(x'), sparse (Q, N), and k(x', x') + λ - kᵀw, the predictive variance.

        In units of the signal; λ is that of a row of weight 1.
        """
        places = self.rows.near(after_warps(self.kernel, queries))
        return self.weights_and_variance_among(queries, places)

    def weights_among(self, queries: NDArray, places: Integers) -> csr_array:
        """Return weights w(x'), sparse (Q, N), of near rows that are known, (Q, k)."""
        return self.weights_and_variance_among(queries, places)[0]

    def weights_and_variance_among(
        self, queries: NDArray, places: Integers
    ) -> tuple[csr_array, Array]:
        """Return weights and predictive variance as above, by near rows that are known, (Q, k)."""
        weights, explained = self._weights(after_warps(self.kernel, queries), places)
        return weights, self._variance(queries, explained)

    def _variance(self, queries: NDArray, explained: Array) -> Array:
        ridge = float(self.rows.weights.sum()) * self.alpha
        return np.maximum(self.kernel.diag(queries) + ridge - explained, 1e-12)

    def held_out_and_variance(self, B: Array) -> tuple[Array, Array]:
        """Return predictions of all rows without themselves, and predictive variances as above."""
        weights, explained = self._every_left_out
        return weights @ B, self._variance(self.centres, explained)

    def condensed(self, embed: Embed, Y: NDArray, step: int) -> Condensed:
        """Return all targets: every row is a centre."""
        targets = stacked(embed, Y, step)
        return Condensed(targets, np.ones(len(Y)), self.rows.weights @ targets)

    def solve(self, condensed: Array) -> Array:
        """Return the targets themselves: sections are weights."""
        return condensed

    def weights_of(self, section: Weights) -> Weights:
        """Return the section itself."""
        return section

    def applies_weights(self, n_nodes: int, *, product_grid: bool) -> bool:
        """Whether densities come from weights: always, as few rows have any."""
        return True

    def held_out_weights(self, rows: Integers) -> csr_array:
        """Return S, (len(rows), N), with S @ B the leave-one-out predictions of some rows."""
        return self._left_out(rows)[0]

    def held_out(
        self, B: Array, rows: Integers | None = None, one_minus_leverage: Array | None = None
    ) -> Array:
        """Return predictions of rows from the rows nearest to each, without that row itself."""
        weights, _ = self._every_left_out if rows is None else self._left_out(rows)
        return weights @ B

    def one_minus_leverage(self, rows: Integers | None = None) -> Array:
        """Return λ / (k(x, x) + λ - kᵀw): 1 - leverage of a row in a system with its neighbours."""
        _, explained = self._every_left_out if rows is None else self._left_out(rows)
        rows = np.arange(self.n_centres) if rows is None else rows
        ridge = self._ridge[rows]
        return ridge / (self.kernel.diag(self.centres[rows]) + ridge - explained)

    def describe(self) -> SolverFacts:
        """Return method and sizes; each small system has a condition of its own."""
        return SolverFacts("nearest", self.alpha, self.n_centres, float("nan"), 0)

    def without_factor(self) -> "NearestSystem":
        """Return the systems themselves: predictions need every row."""
        return self.with_own_rows()

    def with_own_rows(self) -> "NearestSystem":
        """Return the systems of copies of the rows."""
        rows = self.rows
        own = replace(rows, X=rows.X.copy(), weights=rows.weights.copy())
        return own.factor(self.alpha)

    @property
    def _by_distance(self) -> bool:
        """Whether the kernel depends on scaled distances alone."""
        return bool(self._radial)

    @cached_property
    def _radial(self) -> tuple[Radial, ...]:
        """The kernel, or the kernels that it is the average of, if these are radial."""
        inner = self.rows.inner
        if isinstance(inner, Radial):
            return (inner,)
        return (inner.radial or ()) if isinstance(inner, Average) else ()

    @cached_property
    def _ridge(self) -> Array:
        return self.rows.weights.sum() * self.alpha / self.rows.weights

    @cached_property
    def _every_left_out(self) -> tuple[csr_array, Array]:
        """Held-out weights of all rows, and kᵀw of each: questions of one fit share both."""
        return self._left_out(np.arange(self.n_centres))

    def _left_out(self, rows: Integers) -> tuple[csr_array, Array]:
        return self._weights(self.rows.points[rows], self.rows.near_others(rows))

    def _weights(self, queries: NDArray, places: Integers) -> tuple[csr_array, Array]:
        """Return the weights w of the given rows, sparse, and kᵀw of each query."""
        values, explained = np.empty(places.shape), np.empty(len(queries))
        k, p = places.shape[1], queries.shape[1]
        held = max(k, p) if self._by_distance else k * p  # numbers for each near row of a query
        step = max(1, _BLOCK_ELEMENTS // (k * held))

        def fill(part: slice) -> None:
            values[part], explained[part] = self._solved(queries[part], places[part])

        run_threaded(fill, [slice(s, s + step) for s in range(0, len(queries), step)], self.n_jobs)
        starts = np.arange(len(queries) + 1) * k
        shape = len(queries), self.n_centres
        return csr_array((values.ravel(), places.ravel(), starts), shape=shape), explained

    def _solved(self, queries: NDArray, places: Integers) -> tuple[Array, Array]:
        """Return the weights of the given rows, (Q, k), and kᵀw: one batch of small systems."""
        values = self._by_products if self._by_distance else self._by_differences
        matrix, own = values(queries, places)
        np.einsum("qii->qi", matrix)[:] += self._ridge[places] + _JITTER
        weights = np.linalg.solve(matrix, own[:, :, None])[:, :, 0]
        return weights, np.einsum("qk,qk->q", own, weights)

    def _by_products(self, queries: NDArray, places: Integers) -> tuple[Array, Array]:
        """Return k of all pairs of the given rows, (Q, k, k), and of rows and queries, (Q, k).

        Distances come from products of coordinates about the query, which are short: no difference
        of two large numbers.
        """
        with np.errstate(over="ignore"):  # clipped in units of the scales
            gaps = self.rows.points[places] - queries[:, None]
        found = [_of_gaps(kernel, gaps) for kernel in self._radial]
        pairs, own = (sum(each) / len(found) for each in zip(*found, strict=True))
        return pairs, own

    def _by_differences(self, queries: NDArray, places: Integers) -> tuple[Array, Array]:
        """Return the same for any kernel of differences."""
        points, k = self.rows.points[places], places.shape[1]
        i, j = np.tril_indices(k, -1)
        matrix = np.empty((len(queries), k, k))
        matrix[:, i, j] = matrix[:, j, i] = self._at(points[:, i] - points[:, j])
        np.einsum("qii->qi", matrix)[:] = self._at(np.zeros((1, 1, points.shape[2])))
        return matrix, self._at(points - queries[:, None])

    def _at(self, differences: Array) -> Array:
        """Return k(x, x') from x - x', (..., p) -> (...)."""
        flat = differences.reshape(-1, differences.shape[-1])
        values = self.rows.inner.block(flat, np.zeros((1, flat.shape[1])))
        return values.reshape(differences.shape[:-1])


def _of_gaps(kernel: Radial, gaps: Array) -> tuple[Array, Array]:
    """Return k of all pairs of points (Q, k, p), (Q, k, k), and of points and 0, (Q, k)."""
    with np.errstate(over="ignore"):  # it is clipped
        gaps = np.clip(gaps / kernel.scales(gaps.shape[2]), -FURTHEST, FURTHEST)
    squares = np.einsum("qkf,qkf->qk", gaps, gaps)
    pairs = gaps @ gaps.transpose(0, 2, 1)
    pairs *= -2.0
    pairs += squares[:, :, None]
    pairs += squares[:, None, :]
    np.maximum(pairs, 0.0, out=pairs)
    np.einsum("qii->qi", pairs)[:] = 0.0
    return kernel.of_squares(pairs), kernel.of_squares(squares)


def rows_used(weights: csr_array) -> tuple[Integers, csr_array]:
    """Return the rows that have weights, and the weights of these alone."""
    rows, places = np.unique(weights.indices, return_inverse=True)
    shape = weights.shape[0], len(rows)
    return rows, csr_array((weights.data, places, weights.indptr), shape=shape)
