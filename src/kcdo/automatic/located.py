"""The location-scale form: parameters of location and scale, and the density of residuals."""

from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.automatic.plain import Tuned, refitted, tuned_residual
from kcdo.automatic.problem import Lowest, Problem, RowSystem, Side, search_memory
from kcdo.combination import Located, located_forms, student_tail
from kcdo.distributions import Batch
from kcdo.kernels import (
    FreeScales,
    Kernel,
    with_median_scales,
)
from kcdo.location import (
    NOISE_ROWS,
    SPREAD_ROWS,
    LocationParameters,
    Residuals,
    fit_location_scale,
    log_squares,
    some_rows,
)
from kcdo.systems import ExactSystem, Groups
from kcdo.tuning import (
    MeanChoice,
    Rows,
    log_noise_bounds,
    search_alpha,
    search_mean,
)

_FACTORISATIONS = 4  # of the system of all rows, in the search for the noise
_LARGEST_RESIDUAL = 7.0
_TAIL_SHARE = 0.01  # so that no single row decides
_WIDE_NOISE = 0.5  # least noise ratio of the log squared residuals: they are noisy


@dataclass(frozen=True, eq=False)
class TunedLocated:
    """The location-scale component with its parameters and held-out residuals."""

    parameters: LocationParameters
    residuals: Residuals
    inner: Tuned
    model: Located

    def held_out(self, judged: NDArray[np.integer]) -> dict[str, Batch]:
        """Return the leave-one-out distributions of some rows, of each form, by name."""
        location, scale = self.residuals.location[judged], self.residuals.scale[judged]
        return located_forms(self.inner.held_out(judged), location, scale)


def tuned_located(problem: Problem, means: list[MeanChoice]) -> TunedLocated:
    """Choose and fit the location-scale form."""
    rows = problem.rows
    best = _best_by_held_out_score(problem, means)
    parameters, system = _location_parameters(problem, best)
    model, residuals = fit_location_scale(
        parameters, system, (rows.X, rows.Y, rows.weights), problem.floor, problem.seed
    )
    inner = _tuned_residual(problem, best, residuals)
    return TunedLocated(parameters, residuals, inner, Located(model, inner.operator))


def _best_by_held_out_score(problem: Problem, means: list[MeanChoice]) -> MeanChoice:
    """Return the likeliest kernel or its variant, whose location and scale foretell rows better.

    The likelihood of the mean takes the noise for even. Where it varies by factors, as it does in
    long tails, the largest outputs rule it: whether to draw tails in is judged by both.
    """
    variants = problem.variants(means[0].template)
    rivals = [choice for choice in means if choice.template in variants]
    if len(rivals) == 1:
        return means[0]
    some = replace(problem, rows=problem.few())
    Y, weights = some.rows.Y, some.rows.weights

    def loss(choice: MeanChoice) -> float:
        parameters, system = _location_parameters(some, choice)
        rows = some.rows.X, Y, weights
        _, residuals = fit_location_scale(parameters, system, rows, some.floor, some.seed)
        tail = student_tail(residuals.location, residuals.scale)
        return -float(np.average(tail.logpdf_pairs(Y), weights=weights))

    return min(rivals, key=loss)


def held_out_densities(problem: Problem, located: TunedLocated) -> Array:
    """Return densities of the form, with a little of its tail, at held-out rows of a race."""
    judged = problem.rows.sampled(problem.effort.race_rows, problem.seed)
    Y = problem.rows.Y[judged]
    forms = located.held_out(judged)
    density, tail = (forms[name].pdf_pairs(Y) for name in ("location_scale", "residual_tail"))
    return (1.0 - _TAIL_SHARE) * density + _TAIL_SHARE * tail


def _location_parameters(
    problem: Problem, best: MeanChoice
) -> tuple[LocationParameters, RowSystem]:
    """Return the parameters of location and scale; the noise is judged on all rows."""
    rows = problem.rows
    total = float(rows.weights.sum())
    # where rows share few inputs, to judge all of them costs little
    few_inputs = problem.exact and len(Groups.of(rows.X).points) <= SPREAD_ROWS
    judged = np.arange(len(rows)) if few_inputs else problem.judges(problem.effort.rows)
    systems = lru_cache(maxsize=1)(lambda kernel: problem.systems(kernel, rows))
    weights = rows.weights[judged]
    centred = rows.Y - np.average(rows.Y, axis=0, weights=rows.weights)
    lowest: Lowest[tuple[Kernel, float, RowSystem]] = Lowest()

    def judge(kernel: Kernel, noise: float) -> float:
        """Return the held-out Gaussian log score, each output's variance at its best."""
        system = systems(kernel)(noise / total)
        kept = system.kept(judged)[:, None]
        errors = (centred[judged] - system.held_out(centred, judged)) ** 2
        variance = np.average(errors * kept, axis=0, weights=weights)
        loss = float(np.sum(np.log(variance) - np.average(np.log(kept), axis=0, weights=weights)))
        return lowest.offer(loss, (kernel, noise, system))

    if len(rows) > problem.effort.rows:  # what few rows do not resolve looks like noise to them
        bounds = log_noise_bounds(problem.least_noise)
        judge_noise = partial(judge, best.kernel)
        search_alpha(judge_noise, best.noise, _FACTORISATIONS, bounds=bounds, upwards=False)
    else:
        judge(best.kernel, best.noise)
    if few_inputs and problem.may_remember(rows):  # the spread must know the same inputs
        search_memory(judge, *lowest.best()[:2], lowest.loss)
    kernel, noise, system = lowest.best()
    parameters = LocationParameters(kernel, noise)
    return _with_varying_noise(problem, parameters, best, system), system


def _with_varying_noise(
    problem: Problem, parameters: LocationParameters, best: MeanChoice, system: RowSystem
) -> LocationParameters:
    """Learn how the log squared residuals vary with x; at inputs that come back, from all rows."""
    rows = problem.rows
    _, residuals = fit_location_scale(
        parameters, system, (rows.X, rows.Y, rows.weights), problem.floor, problem.seed
    )
    logs = rows.with_outputs(log_squares(residuals.values**2))
    effort = replace(problem.effort, rows=problem.effort.race_rows)
    found = [
        search_mean([template], logs, effort, _WIDE_NOISE, problem.seed)[0]
        for template in problem.variants(best.template)
    ]
    choice = min(found, key=lambda each: each.loss)
    lowest: Lowest[tuple[Kernel, float]] = Lowest()
    some = logs.take(some_rows(logs.X, NOISE_ROWS, problem.seed))
    centred = some.Y - np.average(some.Y, axis=0, weights=some.weights)

    def judge(kernel: Kernel, noise: float) -> float:
        alpha, n_jobs = noise / some.weights.sum(), problem.wishes.n_jobs
        system = ExactSystem(kernel, Groups.of(some.X, some.weights), alpha, n_jobs=n_jobs)
        errors = centred - system.held_out(centred)
        loss = float(np.mean(np.average(errors**2, axis=0, weights=some.weights)))
        return lowest.offer(loss, (kernel, noise))

    judge(choice.kernel, choice.noise)
    if problem.may_remember(some):
        search_memory(judge, choice.kernel, choice.noise, lowest.loss)
    kernel, noise = lowest.best()
    n_scales = len(FreeScales(choice.template, rows.X.shape[-1]))
    return replace(parameters, noise_kernel=kernel, noise_of_noise=noise, noise_scales=n_scales)


def _tuned_residual(problem: Problem, best: MeanChoice, residuals: Residuals) -> Tuned:
    """Tune the operator of the residuals, whose density varies slowly with x."""
    rows = problem.rows.with_outputs(_clipped(residuals))
    kernels = [(best.template, best.kernel)]
    if len(FreeScales(best.template, rows.X.shape[-1])):
        kernels = [
            (template, _wide(problem, template)) for template in problem.variants(best.template)
        ]
    floor = np.max(problem.floor / residuals.scale, axis=0)
    return tuned_residual(problem, rows, kernels, floor)


def _wide(problem: Problem, template: Kernel) -> Kernel:
    """Return the kernel with scales e times those of the median heuristic."""
    scales = FreeScales(template, problem.rows.X.shape[-1])
    middle = with_median_scales(template, problem.few().X)
    return scales.kernel(scales.log_scales_of(middle) + 1.0)


def refitted_located(
    problem: Problem, parameters: LocationParameters, inner: Side, rows: Rows
) -> Located:
    """Return the form of other rows, at the same parameters."""
    system = problem.systems(parameters.kernel, rows)(parameters.noise / rows.weights.sum())
    model, residuals = fit_location_scale(
        parameters, system, (rows.X, rows.Y, rows.weights), problem.floor, problem.seed
    )
    clipped = rows.with_outputs(_clipped(residuals))
    return Located(model, refitted(problem, inner, clipped))


def _clipped(residuals: Residuals) -> Array:
    return np.clip(residuals.values, -_LARGEST_RESIDUAL, _LARGEST_RESIDUAL)
