"""Location and scale of a streamed fit: sums of all rows, judged on rows of the sample.

Residuals of rows behind the sums are held out in closed form.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array, in_bits
from kcdo.components import (
    LocationParameters,
    LocationScaleMap,
    LocationScaleParameters,
    Residuals,
    Settings,
    StreamEffort,
    fit_map,
    student_tail,
)
from kcdo.fitting.learning import PilotChoice
from kcdo.fitting.location import scale_of_residuals
from kcdo.fitting.means import log_noise_bounds
from kcdo.fitting.metric import Metric
from kcdo.fitting.objectives import normal_loss_of
from kcdo.fitting.pilot import Chunk, Pilot
from kcdo.fitting.search import BestSoFar, lowest_alpha
from kcdo.fitting.spec import ModelSpec
from kcdo.kernels import Kernel, cross_gram
from kcdo.rows import Rows
from kcdo.systems import (
    Centres,
    Leverages,
    Nystrom,
    NystromSums,
    NystromSystem,
    WhitenedSums,
    whitened_basis,
)

_EVEN_NOISES = (0.03, 1.0)
BITS = 20  # of numbers that searches see: other chunks, other last bits, and the same choice


@dataclass(frozen=True, eq=False)
class LocationPlan:
    """The sums of a regression of the outputs, less an offset, on centres."""

    kernel: Kernel
    centres: NDArray
    offset: Array
    chunk_rows: int
    n_jobs: int | None

    @classmethod
    def of(
        cls, parameters: LocationParameters, options: Nystrom, pilot: Pilot, spec: ModelSpec
    ) -> "LocationPlan":
        """Choose centres among the rows of the sample."""
        rows = pilot.rows(spec.settings.effort.streamed.located_rows)
        offset = np.average(rows.Y, axis=0, weights=rows.weights)
        centres = pilot.centres(parameters.kernel, options, spec.seed)
        return cls(parameters.kernel, centres, offset, options.chunk_rows, spec.n_jobs)

    def alone(self) -> "LocationPlan":
        """Return the plan for one of several tasks: it computes on one thread."""
        return replace(self, n_jobs=1)

    def empty_sums(self) -> NystromSums:
        """Return sums over no rows."""
        return NystromSums.empty(len(self.centres), len(self.offset))

    def add(self, sums: NystromSums, chunk: Chunk) -> None:
        """Add rows to the sums, a few at a time."""
        X, Y, weights = chunk
        for start in range(0, len(X), self.chunk_rows):
            rows = slice(start, start + self.chunk_rows)
            section = cross_gram(self.kernel, X[rows], self.centres, n_jobs=self.n_jobs)
            sums.add(section, Y[rows] - self.offset, weights[rows])

    def whitened(self, sums: NystromSums) -> WhitenedSums:
        """Return the sums before the noise is known."""
        basis = whitened_basis(self.kernel, self.centres, self.n_jobs)
        return WhitenedSums.of(self.kernel, self.centres, basis, sums, n_jobs=self.n_jobs)


@dataclass(frozen=True, eq=False)
class SampleSystem:
    """A streamed system as rows of the sample see it, which are among those behind the sums."""

    system: NystromSystem
    condensed: Array  # Σ ω k(c, x) b, (m, d)
    rows: Rows
    bits: int = 53  # of predictions

    def without_factor(self) -> Centres:
        """Return the centres alone."""
        return self.system.without_factor()

    def coefficients(self, B: Array) -> Array:
        """Return the coefficients of all rows."""
        return self.system.solve(self.condensed)

    def held_out(self, B: Array) -> Array:
        """Return predictions of the sample, each row without itself."""
        found = self.system.held_out_at(self.rows.X, self.rows.weights, B, self.condensed)
        return in_bits(found, self.bits)

    def one_minus_leverage(self) -> Array:
        """Return 1 - leverage of the rows of the sample."""
        return self.system.one_minus_leverage_at(self.rows.X, self.rows.weights)


@dataclass(frozen=True, eq=False)
class StreamedLocation:
    """Location and scale of all rows, with the residuals of the sample."""

    parameters: LocationParameters
    map: LocationScaleMap
    system: NystromSystem
    rows: Rows
    residuals: Residuals
    loss: float  # held-out log score of a normal distribution, up to a constant
    condensed: Array
    even: float  # noise ratio by which the predictive variance varies

    @classmethod
    def of(
        cls,
        plan: LocationPlan,
        sums: NystromSums,
        chosen: LocationScaleParameters,
        pilot: Pilot,
        spec: ModelSpec,
    ) -> "StreamedLocation":
        """Judge the noise on the sample and fit location and scale."""
        effort, settings = spec.settings.effort.streamed, _light(spec.settings)
        rows = pilot.rows(effort.located_rows)
        whitened, condensed = plan.whitened(sums), sums.targets.T
        centred = rows.Y - plan.offset

        def loss(noise: float) -> float:
            at = SampleSystem(whitened.factor(noise / sums.weight), condensed, rows)
            errors = centred - at.held_out(centred)
            return normal_loss_of(errors, at.one_minus_leverage(), rows.weights)

        noise = lowest_alpha(loss, log_noise_bounds(0.0), effort.noises)
        parameters = replace(chosen.location, noise=noise)
        system = whitened.factor(noise / sums.weight)
        at = SampleSystem(system, condensed, rows)
        found, residuals, even = _best_scale(parameters, at, chosen.floor, settings)
        return cls(parameters, found, system, rows, residuals, loss(noise), condensed, even)

    def with_scale(
        self, choice: PilotChoice, metric: Metric
    ) -> "tuple[StreamedLocation, LocationScaleParameters]":
        """Choose varying noise and the density of residuals anew, for residuals of all rows."""
        assert choice.problem is not None
        problem = replace(choice.problem, rows=self.rows.take(np.arange(len(choice.problem.rows))))
        at = SampleSystem(self.system, self.condensed, problem.rows)
        rounded = replace(at, bits=BITS)
        parameters = replace(self.parameters, noise=self.even)
        chosen = scale_of_residuals(problem, parameters, metric, rounded)
        location = replace(chosen.location, noise=self.parameters.noise)
        every, settings = replace(at, rows=self.rows), _light(choice.spec.settings)
        found, residuals, even = _best_scale(location, every, chosen.floor, settings)
        made = replace(self, parameters=location, map=found, residuals=residuals, even=even)
        return made, replace(chosen, location=location)

    def residual_map(self, effort: StreamEffort) -> "ResidualMap":
        """Return what tasks need, without what they do not."""
        few = self.system.sums.weight <= effort.many_per_centre * len(self.system.centres)
        leverages = self.system.leverages if few else None
        light = replace(self.map, spread=replace(self.map.spread))  # each worker factors its own
        return ResidualMap(light, leverages)


@dataclass(frozen=True, eq=False)
class ResidualMap:
    """Held-out residuals of rows behind the sums of a location."""

    map: LocationScaleMap
    leverages: Leverages | None  # None: there are so many rows that none counts

    def __call__(self, chunk: Chunk) -> Array:
        """Return the residuals, (N, d)."""
        X, Y, weights = chunk
        location, scale = self.map(X)
        errors: Array = Y - location
        if self.leverages is not None:  # all of them together are at most m
            section = self.map.location.centres.section(X)
            errors = self.leverages.held_out_errors(errors, section, weights)
        return errors / scale


def _best_scale(
    parameters: LocationParameters, at: SampleSystem, floor: Array, settings: Settings
) -> tuple[LocationScaleMap, Residuals, float]:
    """Return the map to location and scale that foretells the sample best, and its noise ratio.

    The predictive variance is that of a few hundred rows, which a location that knows all of them
    does not share: with more noise it is more even.
    """
    rows, best = at.rows, BestSoFar[tuple[LocationScaleMap, Residuals, float]]()
    more = [noise for noise in _EVEN_NOISES if noise > parameters.noise]
    for noise in (parameters.noise, *more):
        found, residuals = fit_map(replace(parameters, noise=noise), at, rows, floor, settings)
        scores = student_tail(residuals.location, residuals.scale).logpdf_pairs(rows.Y)
        loss = -float(np.average(scores, weights=rows.weights))
        best.offer(loss, (found, residuals, noise))
    return best.best()


def _light(settings: Settings) -> Settings:
    """Return settings for a scale that costs less than the sums."""
    few = settings.effort.streamed
    effort = replace(settings.effort, spread_rows=few.spread_rows, noise_rows=few.noise_rows)
    return replace(settings, effort=effort)
