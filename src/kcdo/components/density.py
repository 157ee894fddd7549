"""The density operator: x' ↦ (C_ρ + α')⁻¹ Σ_n w_n(x') ℓ(y_n, ·), where both sides meet."""

import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.components.settings import Settings
from kcdo.distributions import (
    Batch,
    Layout,
    NodeBatch,
    Positivity,
    layout_of,
    positive_parts,
)
from kcdo.errors import AccuracyWarning, InvalidInputError
from kcdo.kernels import Kernel
from kcdo.linalg import narrow_factors
from kcdo.measures import Grid, Measure
from kcdo.reconstruction import Reconstruction
from kcdo.rows import Rows
from kcdo.systems import Centres, Condensed, Embed, Queries, System

# Weight of the marginal density: negligible near data, everything far from all of it.
FALLBACK_WEIGHT = 1e-3
_COARSE_EXPECTATION = 1e-2
_BLOCK_ELEMENTS = 1 << 22


@dataclass(frozen=True, eq=False)
class Training:
    """The rows that an operator was solved from, for predictions that leave some out."""

    system: System
    Y: Array


@dataclass(frozen=True, eq=False)
class DensityOperator:
    """A conditional density on the nodes of ρ, solved for all rows.

    Where it is small the model is one matrix, node values = section(x') @ coefficients; for large
    output grids, and for near rows, ``values`` keeps the outputs and applies weights to them.
    """

    system: Centres  # without its factor, unless the values need it
    output: Reconstruction
    values: "MatrixValues | RowValues"  # section -> node values (Q, M), Σ weights (Q,)
    marginal: Array  # (M,) density of Y
    layout: Layout
    positivity: Positivity
    training: Training | None = None

    @classmethod
    def solved(
        cls, system: System, output: Reconstruction, Y: Array, positivity: Positivity
    ) -> "DensityOperator":
        """Solve for all rows; the filter acts on what the system condenses them to."""
        grid = output.measure
        product_grid = isinstance(grid, Grid) and grid.dim > 1
        training = Training(system, Y)
        if system.applies_weights(grid.n_nodes, product_grid=product_grid):
            return cls.by_weights(training, output, positivity)
        condensed = system.condensed(_embedding(output), Y, _step(output))
        made = cls.of_condensed(system, output, condensed, positivity)
        return replace(made, training=training)

    @classmethod
    def of_condensed(
        cls, system: System, output: Reconstruction, condensed: Condensed, positivity: Positivity
    ) -> "DensityOperator":
        """Solve for targets that were summed up, perhaps over data that are gone."""
        targets, basis = narrow_factors(condensed.targets)
        # all right-hand sides at once
        solved = system.solve(np.hstack([targets, condensed.ones[:, None]]))
        matrix = MatrixValues.of(output, solved, basis)
        return cls._made(system.without_factor(), output, matrix, condensed.total, positivity)

    @classmethod
    def by_weights(
        cls, training: Training, output: Reconstruction, positivity: Positivity
    ) -> "DensityOperator":
        """Keep the outputs, to which weights are applied when a query comes: nothing is solved."""
        system, Y = training.system, training.Y
        marginal = output.combine(system.row_weights[None], Y)[0]
        made = cls._made(system, output, RowValues(output, Y.copy()), marginal, positivity)
        return replace(made, training=training)

    @classmethod
    def _made(
        cls,
        system: Centres,
        output: Reconstruction,
        values: "MatrixValues | RowValues",
        marginal: Array,
        positivity: Positivity,
    ) -> "DensityOperator":
        # the kernel density estimate of Y, positive wherever data are near
        total = float(marginal @ output.measure.weights)
        if not total > 0:
            raise InvalidInputError(
                "no output lies anywhere near the reference measure: move or widen it."
            )
        layout = layout_of(output.measure, output.kernel.scales)
        return cls(system, output, values, marginal / total, layout, positivity)

    @property
    def nbytes(self) -> int:
        """Memory of the node values' source, in bytes."""
        return self.values.nbytes

    @property
    def primary(self) -> "DensityOperator":
        """The operator itself: what a report describes."""
        return self

    def batch(self, queries: Queries) -> NodeBatch:
        """Return the distributions of the queries."""
        section = self.system.section_with_error(queries)
        if section.error > _COARSE_EXPECTATION:
            warnings.warn(
                f"E k(X, x') of an uncertain input has a standard error of {section.error:.1e}: "
                "raise n_points of the GaussianInput.",
                AccuracyWarning,
                stacklevel=2,
            )
        return self._batch(*self.values.at(self.system, section.values))

    def held_out(self, rows: NDArray[np.integer]) -> NodeBatch:
        """Return the distributions of some training rows, each predicted without itself."""
        assert self.training is not None, "the training rows are gone"
        weights = self.training.system.held_out_weights(rows)
        return self._batch(*_node_values(self.output, weights, self.training.Y))

    def marginal_batch(self) -> NodeBatch:
        """Return the distribution of Y whatever the input, that of one query.

        It is reconstructed as the conditional ones are, not as smooth as ``marginal``.
        """
        weights = self.output.measure.weights
        values = self.output.reconstruct(self.marginal[None])
        if not float((values @ weights)[0]) > 0:
            values = self.marginal[None]
        density, mass = positive_parts(values, weights, "clip" if self.signed else self.positivity)
        return NodeBatch(self.layout, density * weights / mass[:, None])

    def _batch(self, values: Array, sums: Array) -> NodeBatch:
        masses = node_masses(values, sums, self.output.measure, self.marginal, self.positivity)
        return NodeBatch(self.layout, masses)

    def without_training(self) -> "DensityOperator":
        """Return the operator with rows of its own, if any: what held-out predictions need goes."""
        if self.training is None:
            return self
        keeps_rows = isinstance(self.values, RowValues)
        system = self.training.system.with_own_rows() if keeps_rows else self.system
        return replace(self, system=system, training=None)

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
class MatrixValues:
    """Node values as one matrix product, or as two narrow ones where the matrix allows it.

    The last column of the first factor gives the sum of the weights.
    """

    first: Array  # (centres, M + 1), or (centres, r + 1)
    second: Array | None  # (r, M)

    @classmethod
    def of(cls, output: Reconstruction, solved: Array, basis: Array | None) -> "MatrixValues":
        """Filter the embeddings ``solved @ basis``: only the rows of the basis, if there is one."""
        if basis is not None:
            return cls(np.ascontiguousarray(solved), output.reconstruct(basis))
        values = output.reconstruct(np.ascontiguousarray(solved[:, :-1]))
        return cls(np.hstack([values, solved[:, -1:]]), None)

    @property
    def nbytes(self) -> int:
        """Memory of the matrices."""
        return self.first.nbytes + (0 if self.second is None else self.second.nbytes)

    def at(self, system: Centres, section: Array) -> tuple[Array, Array]:
        """Return node values (Q, M) and sums of weights (Q,) of sections (Q, n)."""
        product = section @ self.first
        values = product[:, :-1]
        values = values.copy() if self.second is None else values @ self.second
        return values, product[:, -1]


@dataclass(frozen=True, eq=False)
class RowValues:
    """Node values from the embedding weights of rows, whose outputs are kept.

    For models too large for one matrix, and for weights of a few rows for each query.
    """

    output: Reconstruction
    Y: Array

    @property
    def nbytes(self) -> int:
        """Memory of the outputs."""
        return self.Y.nbytes

    def at(self, system: Any, section: Any) -> tuple[Array, Array]:
        """Return node values (Q, M) and sums of weights (Q,) of sections of a system."""
        return _node_values(self.output, system.weights_of(section), self.Y)


def _node_values(output: Reconstruction, weights: Any, Y: Array) -> tuple[Array, Array]:
    """Return signed node values (Q, M) of embedding weights (Q, N), and their sums (Q,)."""
    return output.reconstruct(output.combine(weights, Y)), weights.sum(axis=1)


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


def _embedding(output: Reconstruction) -> Embed:
    """Return the cheaper way to embed outputs on the nodes."""
    return output.embed if output.near_width is None else output.near_embeddings


def _step(output: Reconstruction) -> int:
    """Return how many outputs are embedded at a time."""
    return max(1, _BLOCK_ELEMENTS // (output.near_width or output.measure.n_nodes))


@dataclass(frozen=True, eq=False)
class OperatorParameters:
    """Parameters of one density operator: input kernel, α, and the whole output side."""

    kernel: Kernel
    alpha: float
    output: Reconstruction

    def fit(self, rows: Rows, settings: Settings) -> "DensityComponent":
        """Return the component of these rows."""
        return PlainDensity(self.operator(rows, settings))

    def operator(self, rows: Rows, settings: Settings) -> DensityOperator:
        """Return the operator of these rows."""
        system = settings.unfactored(self.kernel, rows).factor(self.alpha)
        return DensityOperator.solved(system, self.output, rows.Y, settings.positivity)


@dataclass(frozen=True, eq=False)
class DensityComponent:
    """A density operator as the component of a mixture."""

    operator: DensityOperator
    names: ClassVar[tuple[str, ...]]
    linear: ClassVar[bool]
    exact_held_out: ClassVar[bool] = True

    @property
    def dim(self) -> int:
        """Number of outputs d."""
        return self.operator.dim

    @property
    def nbytes(self) -> int:
        """Memory of the operator."""
        return self.operator.nbytes

    def width(self, queries: Queries) -> int:
        """Return the numbers held for each query."""
        return self.operator.width(queries)

    def predict(self, queries: Queries) -> dict[str, Batch]:
        """Return the densities of the queries."""
        return {self.names[0]: self.operator.batch(queries)}

    def held_out(self, rows: NDArray[np.integer]) -> dict[str, Batch]:
        """Return the densities of some training rows without themselves."""
        return {self.names[0]: self.operator.held_out(rows)}

    def without_training(self) -> "DensityComponent":
        """Return what predictions need."""
        return replace(self, operator=self.operator.without_training())


class PlainDensity(DensityComponent):
    """The conditional density operator itself."""

    names = ("plain",)
    linear = True
