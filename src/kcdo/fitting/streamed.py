"""The components of a streamed default fit, from additive passes over all chunks.

A pilot sample chooses kernels and output grids. Then all rows are summed: for the plain density and
the location in one pass, for the density of the residuals, which need the location, in the next.
Noise, α and the weights of the components are judged on rows of the sample, each held out in closed
form from the sums of all rows.
"""

from dataclasses import dataclass, replace

import numpy as np

from kcdo.arrays import Array, in_bits
from kcdo.components import (
    Component,
    ComponentParameters,
    DensityOperator,
    LocationScale,
    LocationScaleParameters,
    Mixture,
    ModelParameters,
    OperatorParameters,
    PlainDensity,
    about_location,
)
from kcdo.distributions import Batch, MixtureBatch, NodeBatch
from kcdo.fitting.binning import OutputBins
from kcdo.fitting.learning import Learnt
from kcdo.fitting.pilot import Chunk, Pilot
from kcdo.fitting.spec import ModelSpec
from kcdo.fitting.streamed_location import BITS, ResidualMap, StreamedLocation
from kcdo.fitting.streaming import StreamPlan
from kcdo.fitting.weights import combined_weights
from kcdo.measures import Grid
from kcdo.rows import Rows
from kcdo.systems import (
    KeptRows,
    Nystrom,
    NystromSums,
    NystromSystem,
)

_WEIGHT_DIGITS = 5


@dataclass(frozen=True, eq=False)
class ResidualPlan:
    """The sums of the residuals' density: outputs are replaced by residuals as rows are added."""

    plan: StreamPlan
    residuals: ResidualMap
    lower: Array
    upper: Array

    @classmethod
    def of(
        cls,
        chosen: OperatorParameters,
        located: StreamedLocation,
        options: Nystrom,
        pilot: Pilot,
        spec: ModelSpec,
    ) -> "ResidualPlan":
        """Plan with the output side that the sample chose."""
        output, rows = chosen.output, located.rows
        effort = spec.settings.effort.streamed
        assert isinstance(output.measure, Grid), "residuals are on a grid"
        lower, upper = output.measure.lower, output.measure.upper
        centres = pilot.centres(chosen.kernel, options, spec.seed)
        bins = OutputBins.of(output, len(centres), effort.bins_per_scale)
        clipped = np.clip(located.residuals.values, lower, upper)
        few = slice(0, effort.weighed_rows)
        judges = rows.X[few], clipped[few], rows.weights[few]
        open_spec = replace(spec, alpha=None)
        plan = StreamPlan(
            chosen.kernel, centres, output, bins, open_spec, options.chunk_rows, judges
        )
        plan.require_memory()
        return cls(plan, located.residual_map(effort), lower, upper)

    @property
    def judged(self) -> Rows:
        """Rows of the sample, with their residuals."""
        assert self.plan.judges is not None
        return Rows(*self.plan.judges)

    def alone(self) -> "ResidualPlan":
        """Return the plan for one of several tasks: it computes on one thread."""
        return replace(self, plan=self.plan.alone())

    def empty_sums(self) -> NystromSums:
        """Return sums over no rows."""
        return self.plan.empty_sums()

    def add(self, sums: NystromSums, chunk: Chunk) -> None:
        """Add rows to the sums, a few at a time."""
        X, Y, weights = chunk
        step = self.plan.chunk_rows
        for start in range(0, len(X), step):
            rows = slice(start, start + step)
            some = X[rows], Y[rows], weights[rows]
            residuals = np.clip(self.residuals(some), self.lower, self.upper)
            self.plan.add(sums, (some[0], residuals, some[2]))


@dataclass(frozen=True, eq=False)
class StreamedMixture:
    """A mixture from sums, with its parameters and the system of its plain density."""

    model: Mixture
    parameters: ModelParameters
    system: NystromSystem

    @classmethod
    def of(
        cls,
        plain: StreamPlan,
        sums: NystromSums,
        located: StreamedLocation,
        residual: ResidualPlan,
        residual_sums: NystromSums,
        near: tuple[Learnt, KeptRows] | None = None,
    ) -> "StreamedMixture":
        """Solve the sums, and weigh the components by held-out rows of the sample.

        Near rows are one of them where all rows are kept.
        """
        spec = plain.spec
        most = min(spec.settings.effort.streamed.weighed_rows, len(located.rows))
        rows = located.rows.take(np.arange(most))
        system, residual_system = plain.system(sums), residual.plan.system(residual_sums)
        operator = plain.operator(system, sums)
        residual_operator = residual.plan.operator(residual_system, residual_sums)
        inner = _held_out(
            residual.plan, residual_system, residual_sums, residual_operator, residual.judged
        )
        location = located.residuals.location[: len(rows)]
        scale = located.residuals.scale[: len(rows)]
        every: dict[str, Batch] = {"plain": _held_out(plain, system, sums, operator, rows)}
        every |= about_location(inner, location, scale)
        wanted = {name: batch for name, batch in every.items() if spec.combination.wants(name)}
        weights = _weighed(wanted, rows, spec)
        components: list[Component] = [
            PlainDensity(operator),
            LocationScale(located.map, residual_operator),
        ]
        parameters: list[ComponentParameters] = [
            OperatorParameters(plain.kernel, system.alpha, plain.output),
            LocationScaleParameters(
                located.parameters,
                OperatorParameters(
                    residual.plan.kernel, residual_system.alpha, residual.plan.output
                ),
                located.map.floor,
            ),
        ]
        if near is not None:
            found = _nearest_beside(*near, wanted, weights, rows, spec)
            if found is not None:
                (component, near_parameters), weights = found
                components.append(component)
                parameters.append(near_parameters)
        chosen = ModelParameters(tuple(parameters), weights)
        return cls(Mixture(tuple(components), weights), chosen, system)


def _nearest_beside(
    learnt: Learnt,
    kept: KeptRows,
    others: dict[str, Batch],
    weights: dict[str, float],
    rows: Rows,
    spec: ModelSpec,
) -> tuple[tuple[Component, ComponentParameters], dict[str, float]] | None:
    """Return near rows as one more component, and the weights of all; None if they bring nothing.

    Rows of the sample that have their near rows judge it beside the others at their weights.
    """
    some = np.arange(min(len(rows), learnt.near.judged))
    few = {name: batch.take(some) for name, batch in others.items()}
    mixture = MixtureBatch(list(few.values()), np.array([weights[name] for name in few]))
    rows = rows.take(some)
    nearest = learnt.nearest(some, in_bits(mixture.pdf_pairs(rows.Y), BITS))
    if nearest is None:
        return None
    few |= nearest.light_component.held_out(some)
    return learnt.component(nearest, kept), _weighed(few, rows, spec)


def _held_out(
    plan: StreamPlan,
    system: NystromSystem,
    sums: NystromSums,
    operator: DensityOperator,
    rows: Rows,
) -> NodeBatch:
    """Return the distributions of rows behind the sums, each without itself."""
    output, ones = plan.output, np.ones((len(rows), 1))
    embedded = output.embed(rows.Y)
    targets = plan.embedded_targets(sums)
    values = output.reconstruct(system.held_out_at(rows.X, rows.weights, embedded, targets))
    strength = system.held_out_at(rows.X, rows.weights, ones, sums.ones[:, None])[:, 0]
    return operator.batch_of(values, strength)


def _weighed(held_out: dict[str, Batch], rows: Rows, spec: ModelSpec) -> dict[str, float]:
    """Return the weights of components, rounded: the last bits of densities do not move them."""
    found = combined_weights(held_out, rows.Y, rows.weights, spec.combination, spec.n_jobs)
    if not any(map(spec.combination.leaves_open, found)):
        return found
    rounded = {name: round(weight, _WEIGHT_DIGITS) for name, weight in found.items()}
    total = sum(rounded.values())
    return {name: weight / total for name, weight in rounded.items()}
