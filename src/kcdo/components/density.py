"""The density operator: x' ↦ (C_ρ + α')⁻¹ Σ_n w_n(x') ℓ(y_n, ·), where both sides meet."""

import warnings
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from kcdo.arrays import Array, Integers
from kcdo.components.node_values import (
    MatrixValues,
    RowValues,
    SolvedValues,
    Values,
    embedded_rows,
    embedding,
    node_values,
    require_memory_of,
)
from kcdo.components.settings import Settings
from kcdo.consistency import need, shape
from kcdo.distributions import (
    Batch,
    GridLayout,
    Layout,
    NodeBatch,
    Positivity,
    layout_of,
    positive_parts,
)
from kcdo.errors import AccuracyWarning, InvalidInputError
from kcdo.kernels import Kernel
from kcdo.measures import Grid, Measure
from kcdo.reconstruction import Reconstruction
from kcdo.rows import Rows
from kcdo.systems import Centres, Condensed, Queries, System

# Weight of the marginal density: negligible near data, everything far from all of it.
FALLBACK_WEIGHT = 1e-3
_COARSE_EXPECTATION = 1e-2
_JUDGES = 256  # inputs at which rounded numbers are compared with exact ones
_UNSEEN = 5e-8  # how far predictions there may move, so that six digits stay everywhere
PLAIN = ("plain",)


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
    values: Values  # section -> node values (Q, M), Σ weights (Q,)
    marginal: Array  # (M,) density of Y
    layout: Layout
    positivity: Positivity
    training: Training | None = None

    def __post_init__(self) -> None:
        measure, layout = self.output.measure, self.layout
        shape(self.marginal, measure.n_nodes)
        need(layout.n_nodes == measure.n_nodes and layout.dim == measure.dim, "layout and measure")
        on_grids = isinstance(layout, GridLayout), isinstance(measure, Grid)
        need(on_grids[0] == on_grids[1], "a layout of another kind of nodes")
        self.values.check(self.system, self.output)

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
        require_memory_of(system.n_centres, grid.n_nodes)
        condensed = system.condensed(embedding(output), Y, embedded_rows(output))
        matrix = MatrixValues.solved(system, output, condensed)
        values = SolvedValues.of(matrix, system, output, Y)
        made = cls._made(system.without_factor(), output, values, condensed.total, positivity)
        return replace(made, training=training)

    @classmethod
    def of_condensed(
        cls, system: System, output: Reconstruction, condensed: Condensed, positivity: Positivity
    ) -> "DensityOperator":
        """Solve for targets that were summed up, perhaps over data that are gone."""
        matrix = MatrixValues.solved(system, output, condensed)
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
        values: Values,
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
        return self.batch_of(*self.values.at(self.system, section.values))

    def held_out(self, rows: Integers) -> NodeBatch:
        """Return the distributions of some training rows, each predicted without itself."""
        assert self.training is not None, "the training rows are gone"
        weights = self.training.system.held_out_weights(rows)
        return self.batch_of(*node_values(self.output, weights, self.training.Y))

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

    def batch_of(self, values: Array, sums: Array) -> NodeBatch:
        """Return the distributions of node values (Q, M), overwritten, and Σ weights (Q,)."""
        masses = node_masses(values, sums, self.output.measure, self.marginal, self.positivity)
        return NodeBatch(self.layout, masses)

    def without_training(self) -> "DensityOperator":
        """Return the operator with rows of its own, if any: what held-out predictions need goes."""
        if self.training is None:
            return self
        keeps_rows = isinstance(self.values, RowValues)
        system = self.training.system.with_own_rows() if keeps_rows else self.system
        return replace(self, system=system, training=None)

    def in_single_precision(self) -> "DensityOperator":
        """Return the operator with its matrix rounded as far as its predictions allow.

        Coefficients are larger than what they add up to, so that not every matrix bears the 24
        bits of single precision: the fewest are taken that change hardly anything at the centres.
        """
        values, n = self.values, self.system.n_centres
        if not isinstance(values, MatrixValues):
            return self
        some = self.system.centres[np.linspace(0, n - 1, min(n, _JUDGES)).astype(int)]
        exact = self.batch(some)
        for bits in range(24, 49, 4):
            operator = replace(self, values=values.rounded(bits), training=None)
            if _difference(operator.batch(some), exact) < _UNSEEN:
                return operator
        return self

    def width(self, queries: Queries) -> int:
        """Return the numbers held for each query."""
        return max(self.layout.n_nodes, self.system.width)

    @property
    def n_inputs(self) -> int | None:
        """Number of columns of the inputs."""
        return self.system.n_inputs

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


def _difference(one: NodeBatch, other: NodeBatch) -> float:
    """Return how far distributions are apart: in mean and sd, over the sd, and in masses."""
    (mean, cov), (its_mean, its_cov) = one.moments(), other.moments()
    variances = np.einsum("qii->qi", its_cov)
    moved = np.abs(mean - its_mean) / np.sqrt(variances)
    widened = np.abs(np.einsum("qii->qi", cov) / variances - 1.0) / 2.0
    masses = np.abs(one.masses - other.masses).sum(axis=1)
    return float(max(moved.max(), widened.max(), masses.max()))


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


@dataclass(frozen=True, eq=False)
class OperatorParameters:
    """Parameters of one density operator: input kernel, α, and the whole output side."""

    kernel: Kernel
    alpha: float
    output: Reconstruction
    on_centres: bool = False  # whether centres are enough for it, beside other components
    names: ClassVar[tuple[str, ...]] = PLAIN

    def __post_init__(self) -> None:
        need(0 < self.alpha < np.inf, "ridges that are not positive")

    @property
    def dim(self) -> int:
        """Number of outputs d."""
        return self.output.measure.dim

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernel of the inputs."""
        return (self.kernel,)

    def fit(self, rows: Rows, settings: Settings) -> "DensityComponent":
        """Return the component of these rows."""
        return PlainDensity(self.operator(rows, settings))

    def operator(self, rows: Rows, settings: Settings) -> DensityOperator:
        """Return the operator of these rows."""
        if self.on_centres:
            settings = settings.on_centres()
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
    def n_inputs(self) -> int | None:
        """Number of columns of the inputs."""
        return self.operator.n_inputs

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

    def held_out(self, rows: Integers) -> dict[str, Batch]:
        """Return the densities of some training rows without themselves."""
        return {self.names[0]: self.operator.held_out(rows)}

    def without_training(self) -> "DensityComponent":
        """Return what predictions need."""
        return replace(self, operator=self.operator.without_training())


class PlainDensity(DensityComponent):
    """The conditional density operator itself."""

    names = PLAIN
    linear = True
