"""The conditional operators as immutable maths objects: where input and output side meet."""

import warnings
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from kcdo.arrays import Array
from kcdo.distributions import (
    Batch,
    ConditionalDistribution,
    Layout,
    NodeBatch,
    Positivity,
    TransformedBatch,
    layout_of,
    positive_parts,
)
from kcdo.embeddings import MeanEmbedding, SampleEmbedding
from kcdo.errors import AccuracyWarning, InvalidInputError
from kcdo.kernels import Kernel
from kcdo.linalg import CholeskyFactor, narrow_factors
from kcdo.measures import Grid, Measure
from kcdo.reconstruction import Reconstruction
from kcdo.systems import (
    Centres,
    ExactSystem,
    Groups,
    NearestRows,
    NystromRows,
    NystromSums,
    NystromSystem,
    Queries,
    rows_used,
)
from kcdo.transforms import Transform

# Weight of the marginal density: negligible near data, everything far from all of it.
FALLBACK_WEIGHT = 1e-3
_COARSE_EXPECTATION = 1e-2
_LARGEST_MODEL = 1 << 29  # bytes of the one matrix; beyond, weights are applied query by query
_BLOCK_ELEMENTS = 1 << 22
_NEAR_QUERIES = 64  # whose nearest rows are embedded at a time


@dataclass(frozen=True, eq=False)
class MeanOperator:
    """x' ↦ Σ_n w_n(x') k_y(y_n, ·): the conditional mean embedding."""

    system: ExactSystem
    outputs: Array
    kernel: Kernel

    def embeddings(self, queries: Queries) -> list[SampleEmbedding]:
        """Return the embedding of Y given each query."""
        rows = self.system.weights(queries)
        return [SampleEmbedding(self.outputs, w, kernel=self.kernel) for w in rows]

    def sum_rule(self, prior: MeanEmbedding) -> SampleEmbedding:
        """Return the embedding of Y when x has the embedding ``prior``: w = A⁻¹ μ(X)."""
        section = prior(self.system.centres)[None]
        weights = self.system.weights_of(section)[0]
        return SampleEmbedding(self.outputs, weights, kernel=self.kernel)


@dataclass(frozen=True, eq=False)
class DensityOperator:
    """x' ↦ the density (C_ρ + α')⁻¹ Σ_n w_n(x') ℓ(y_n, ·), on the nodes of ρ.

    Where it is small the model is one matrix, node values = section(x') @ coefficients; for large
    output grids ``values`` keeps the outputs and applies the weights to them instead.
    """

    system: Centres  # bare, unless the values need its factor
    output: Reconstruction
    values: "_Matrix | _Weights | _NearRows"  # section -> node values (Q, M), Σ weights (Q,)
    marginal: Array  # (M,) density of Y
    layout: Layout
    positivity: Positivity

    @classmethod
    def exact(
        cls, system: ExactSystem, output: Reconstruction, Y: Array, positivity: Positivity
    ) -> "DensityOperator":
        """Solve for all observations; the filter acts on group means, not on observations."""
        ones = np.ones((system.n_centres, 1))
        if _applies_weights(system, output.measure):
            marginal = output.combine(system.groups.weights[None], Y)[0]
            weights = _Weights(system, output, Y.copy(), system.factor.solve(ones)[:, 0])
            return cls._made(system, output, weights, marginal, positivity)
        means = mean_embeddings(system.groups, output, Y)
        targets, basis = narrow_factors(means)
        solved = system.factor.solve(np.hstack([targets, ones]))  # all right-hand sides at once
        matrix = _Matrix.of(output, solved, basis)
        marginal = system.groups.totals @ means
        return cls._made(system.bare(), output, matrix, marginal, positivity)

    @classmethod
    def of_rows(
        cls,
        system: ExactSystem | NystromRows | NearestRows,
        output: Reconstruction,
        Y: Array,
        positivity: Positivity,
    ) -> "DensityOperator":
        """Solve for all observations, which are at hand."""
        if isinstance(system, ExactSystem):
            return cls.exact(system, output, Y, positivity)
        if isinstance(system, NearestRows):
            marginal = output.combine(system.row_weights[None], Y)[0]
            values = _NearRows(output, Y.copy())
            return cls._made(system.bare(), output, values, marginal, positivity)
        embedded = np.hstack([output.embed(Y), np.ones((len(Y), 1))])
        solved = system.coefficients(embedded)
        marginal = system.row_weights @ embedded[:, :-1]
        matrix = _Matrix.of(output, solved, None)
        return cls._made(system.bare(), output, matrix, marginal, positivity)

    @classmethod
    def streamed(
        cls,
        system: NystromSystem,
        output: Reconstruction,
        sums: NystromSums,
        targets: Array,
        marginal: Array,
        positivity: Positivity,
    ) -> "DensityOperator":
        """Solve from sums over the data: of embeddings on the nodes, (m, M) and (M,)."""
        targets, basis = narrow_factors(targets)
        solved = system.coefficients(np.hstack([targets, sums.ones[:, None]]))
        matrix = _Matrix.of(output, solved, basis)
        return cls._made(system.bare(), output, matrix, marginal, positivity)

    @classmethod
    def _made(
        cls,
        system: Centres,
        output: Reconstruction,
        values: "_Matrix | _Weights | _NearRows",
        marginal: Array,
        positivity: Positivity,
    ) -> "DensityOperator":
        # the kernel density estimate of Y, positive wherever data are near
        total = float(marginal @ output.measure.weights)
        if not total > 0:
            raise InvalidInputError(
                "no output lies anywhere near the reference measure: move or widen it."
            )
        marginal = marginal / total
        layout = layout_of(output.measure, output.kernel.scales)
        return cls(system, output, values, marginal, layout, positivity)

    @property
    def nbytes(self) -> int:
        """Memory of the node values' source, in bytes."""
        return self.values.nbytes

    def masses(self, queries: Queries) -> Array:
        """Return the probability that each node carries, (Q, M)."""
        section = self.system.section_with_error(queries)
        if section.error > _COARSE_EXPECTATION:
            warnings.warn(
                f"E k(X, x') of an uncertain input has a standard error of {section.error:.1e}: "
                "raise n_points of the GaussianInput.",
                AccuracyWarning,
                stacklevel=2,
            )
        values, sums = self.values(section.values)
        return node_masses(values, sums, self.output.measure, self.marginal, self.positivity)

    def batch(self, queries: Queries) -> NodeBatch:
        """Return the distributions of the queries."""
        return NodeBatch(self.layout, self.masses(queries))

    def width(self, queries: Queries) -> int:
        """Return the numbers held for each query."""
        return max(self.layout.n_nodes, self.system.width)

    @property
    def dim(self) -> int:
        """Number of outputs d."""
        return self.layout.dim

    @property
    def signed(self) -> bool:
        """Whether densities may be negative."""
        return self.positivity == "signed"

    @property
    def n_jobs(self) -> int | None:
        """Threads to use."""
        return self.system.n_jobs


@dataclass(frozen=True, eq=False)
class _Matrix:
    """Node values as one matrix product, or as two narrow ones where the matrix allows it.

    The last column of the first factor gives the sum of the weights.
    """

    first: Array  # (centres, M + 1), or (centres, r + 1)
    second: Array | None  # (r, M)

    @classmethod
    def of(cls, output: Reconstruction, solved: Array, basis: Array | None) -> "_Matrix":
        """Filter the embeddings ``solved @ basis``: only the rows of the basis, if there is one."""
        if basis is not None:
            return cls(np.ascontiguousarray(solved), output.reconstruct(basis))
        values = output.reconstruct(np.ascontiguousarray(solved[:, :-1]))
        return cls(np.hstack([values, solved[:, -1:]]), None)

    @property
    def nbytes(self) -> int:
        """Memory of the matrices."""
        return self.first.nbytes + (0 if self.second is None else self.second.nbytes)

    def __call__(self, section: Array) -> tuple[Array, Array]:
        product = section @ self.first
        values = product[:, :-1]
        values = values.copy() if self.second is None else values @ self.second
        return values, product[:, -1]


@dataclass(frozen=True, eq=False)
class _Weights:
    """Node values from the embedding weights, for models too large for one matrix."""

    system: ExactSystem
    output: Reconstruction
    Y: Array
    weight_sums: Array  # (centres,)

    @property
    def nbytes(self) -> int:
        """Memory of the outputs."""
        return self.Y.nbytes

    def __call__(self, section: Array) -> tuple[Array, Array]:
        weights = self.system.weights_of(section)
        values = self.output.reconstruct(self.output.combine(weights, self.Y))
        return values, section @ self.weight_sums


@dataclass(frozen=True, eq=False)
class _NearRows:
    """Node values from weights of a few rows for each query, a sparse matrix."""

    output: Reconstruction
    Y: Array

    @property
    def nbytes(self) -> int:
        """Memory of the outputs."""
        return self.Y.nbytes

    def __call__(self, section: Any) -> tuple[Array, Array]:
        embedded = np.empty((section.shape[0], self.output.measure.n_nodes))
        for start in range(0, len(embedded), _NEAR_QUERIES):
            block = slice(start, start + _NEAR_QUERIES)
            embedded[block] = self._embedded(section[block])
        return self.output.reconstruct(embedded), section.sum(axis=1)

    def _embedded(self, weights: csr_array) -> Array:
        if self.output.measure.dim > 1 and isinstance(self.output.measure, Grid):
            places = weights.indices.reshape(weights.shape[0], -1)  # as many for each query
            return self.output.combine_each(weights.data.reshape(places.shape), self.Y[places])
        rows, few = rows_used(weights)
        if self.output.near_width is not None:
            return (few @ self.output.near_embeddings(self.Y[rows])).toarray()
        return few @ self.output.embed(self.Y[rows])


def node_masses(
    values: Array, sums: Array, measure: Measure, marginal: Array, positivity: Positivity
) -> Array:
    """Return node masses from signed node values (Q, M), overwritten, and Σ weights (Q,).

    ``marginal`` (M,) is the density of Y, which takes over where no data are near.
    """
    v = measure.weights
    strength = np.maximum(sums, 0.0)
    unusable = ~((values @ v > 0) & (strength > 0))
    if unusable.any():
        values[unusable] = marginal
    values, totals = positive_parts(values, v, positivity)
    # p = (s p̂ + δ q) / (s + δ): the marginal where no data are near (docs/theory.md)
    own = strength / (strength + FALLBACK_WEIGHT)
    if isinstance(measure, Grid):  # equal weights: one factor per query
        values *= (own * v[0] / totals)[:, None]
    else:
        values *= (own / totals)[:, None]
        values *= v
    values += np.outer(1.0 - own, marginal * v)
    return values


def _applies_weights(system: ExactSystem, measure: Measure) -> bool:
    """Whether solving for every node costs more than it saves.

    On grids of several axes a bump is a product of its axes', and applying weights to it costs no
    more than the one matrix, which takes n² operations for each node to find.
    """
    n, m = system.n_centres, measure.n_nodes
    factored = isinstance(system.factor, CholeskyFactor)
    wide = factored and isinstance(measure, Grid) and measure.dim > 1 and m > 2 * n
    return wide or 8 * n * m > _LARGEST_MODEL


def mean_embeddings(groups: Groups, output: Reconstruction, Y: Array) -> Array:
    """Return the mean of ℓ(y, Z) in each group of equal inputs, (n, M).

    Equal outputs are embedded once; the embeddings are made and averaged in blocks.
    """
    distinct = Groups.of(Y)
    if groups.all_distinct and distinct.all_distinct:
        ordered = np.empty_like(Y)
        ordered[groups.member_of] = Y
        return output.embed(ordered)
    averaging = groups.averaging(distinct.member_of, len(distinct.points)).tocsc()
    means = np.zeros((len(groups.points), output.measure.n_nodes))
    width = output.near_width
    embed = output.embed if width is None else output.near_embeddings
    step = max(1, _BLOCK_ELEMENTS // (width or output.measure.n_nodes))
    for start in range(0, len(distinct.points), step):
        block = slice(start, start + step)
        part = averaging[:, block] @ embed(distinct.points[block])
        means += part.toarray() if issparse(part) else part
    return means


class Conditioner(Protocol):
    """An operator that turns queries into distributions."""

    @property
    def dim(self) -> int:
        """Number of outputs d."""

    @property
    def signed(self) -> bool:
        """Whether densities may be negative."""

    @property
    def n_jobs(self) -> int | None:
        """Threads to use."""

    def batch(self, queries: Queries) -> Batch:
        """Return the distributions of the queries."""

    def width(self, queries: Queries) -> int:
        """Return the numbers held for each query while its distribution is computed."""


def condition(
    operator: Conditioner, queries: Queries, *, flat: bool, transform: Transform | None = None
) -> ConditionalDistribution:
    """Return the distributions of the queries, computed when asked.

    ``flat`` drops the output axis; a transform maps the operator's outputs to the user's.
    """
    return ConditionalDistribution(_QuerySource(operator, queries, transform), flat=flat)


class _QuerySource:
    """Distributions of queries, computed when asked."""

    def __init__(
        self, operator: Conditioner, queries: Queries, transform: Transform | None
    ) -> None:
        self._operator, self._queries, self._transform = operator, queries, transform
        self.dim, self.signed, self.n_jobs = operator.dim, operator.signed, operator.n_jobs
        self.width = operator.width(queries)

    def __len__(self) -> int:
        return len(self._queries)

    def batch(self, rows: NDArray[np.integer]) -> Batch:
        """Return the distributions of some queries."""
        batch = self._operator.batch(self._queries[rows])
        return batch if self._transform is None else TransformedBatch(batch, self._transform)
