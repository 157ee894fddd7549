"""Location and scale whose parameters are chosen, and the density of their residuals."""

from dataclasses import replace
from functools import lru_cache, partial

import numpy as np

from kcdo.components import (
    LocationParameters,
    LocationScale,
    LocationScaleParameters,
    Residuals,
    distinct_sample,
    fit_map,
    log_squares,
    student_tail,
)
from kcdo.fitting.densities import ChosenOperator, choose_residual
from kcdo.fitting.means import log_noise_bounds, search_mean
from kcdo.fitting.metric import Metric
from kcdo.fitting.objectives import normal_loss
from kcdo.fitting.problem import ChosenComponent, Problem, SoFar
from kcdo.fitting.search import BestSoFar, search_alpha, search_nugget
from kcdo.kernels import FreeScales, Kernel, with_median_scales
from kcdo.systems import ExactRows, Groups, RegressionSystem, System

_WIDE_NOISE = 0.5  # least noise ratio of the log squared residuals: they are noisy


def location_and_scale(problem: Problem, so_far: SoFar) -> list[ChosenComponent]:
    """Return location and scale, if any distribution about them is wanted."""
    with problem.spec.progress.stage("location and scale"):
        wanted = any(map(problem.spec.combination.wants, LocationScaleParameters.names))
        if not wanted or not problem.in_time("location and scale"):
            return []
        means = list(so_far.means)
        return [choose_location_scale(problem, means[-1:] if problem.metrics else means)]


def choose_location_scale(problem: Problem, means: list[Metric]) -> ChosenComponent:
    """Choose and fit location, scale and the density of the residuals."""
    best = _best_by_held_out_score(problem, means)
    parameters, system = _location_parameters(problem, best)
    model, residuals = fit_map(
        parameters, system, problem.rows, problem.floor, problem.spec.settings
    )
    inner = _chosen_residual(problem, best, residuals)
    component = LocationScale(model, inner.operator, residuals)
    return ChosenComponent(
        LocationScaleParameters(parameters, inner.parameters, problem.floor),
        component,
        LocationScaleParameters(parameters, inner.light_parameters, problem.floor),
        replace(component, residual=inner.light_operator),
        inner.choice.loss,
    )


def scale_of_residuals(
    problem: Problem, parameters: LocationParameters, best: Metric, system: RegressionSystem
) -> LocationScaleParameters:
    """Choose varying noise and the density of residuals for a location that is known.

    ``system`` is that of the location, as the rows of the problem see it.
    """
    chosen = _with_varying_noise(problem, parameters, best, system)
    _, residuals = fit_map(chosen, system, problem.rows, problem.floor, problem.spec.settings)
    inner = _chosen_residual(problem, best, residuals)
    return LocationScaleParameters(chosen, inner.parameters, problem.floor)


def _best_by_held_out_score(problem: Problem, means: list[Metric]) -> Metric:
    """Return the likeliest kernel or its variant, whose location and scale foretell rows better.

    The likelihood of the mean takes the noise for even. Where it varies by factors, as it does in
    long tails, the largest outputs rule it: whether to draw tails in is judged by both.
    """
    variants = problem.variants(means[0].template)
    rivals = [choice for choice in means if choice.template in variants]
    if len(rivals) == 1:
        return means[0]
    some = replace(problem, rows=problem.learning_rows())

    def loss(choice: Metric) -> float:
        parameters, system = _location_parameters(some, choice)
        _, residuals = fit_map(parameters, system, some.rows, some.floor, some.spec.settings)
        tail = student_tail(residuals.location, residuals.scale)
        scores = tail.logpdf_pairs(some.rows.Y)
        return -float(np.average(scores, weights=some.rows.weights))

    return min(rivals, key=loss)


def _location_parameters(problem: Problem, best: Metric) -> tuple[LocationParameters, System]:
    """Return the parameters of location and scale; the noise is judged on thousands."""
    rows, effort, settings = problem.rows, problem.effort, problem.spec.settings
    near = bool(problem.metrics) and settings.sees_near_rows(best.of_mean, rows)
    # where rows share few inputs, to judge all of them costs little
    few_inputs = problem.every_input and len(Groups.of(rows.X).points) <= effort.spread_rows
    some = problem
    if problem.every_input and not few_inputs and not near:
        # a system of all rows costs their third power
        some = replace(problem, rows=rows.sample(effort.noise_systems, problem.spec.seed))
    judged = np.arange(len(rows)) if few_inputs else some.judged_rows(effort.rows)
    unfactored = lru_cache(maxsize=1)(
        lambda kernel: (settings.near if near else some.unfactored)(kernel, some.rows)
    )
    centred = some.rows.centred()
    lowest: BestSoFar[tuple[Kernel, float, System]] = BestSoFar()

    def judge(kernel: Kernel, noise: float) -> float:
        system = unfactored(kernel).factor(noise / some.rows.total)
        return lowest.offer(normal_loss(system, centred, judged), (kernel, noise, system))

    if len(rows) > effort.rows:  # what few rows do not resolve looks like noise to them
        bounds = log_noise_bounds(problem.least_noise)
        judge_noise = partial(judge, best.of_mean)
        search_alpha(judge_noise, best.noise, effort.factorisations, bounds=bounds)
    else:
        judge(best.of_mean, best.noise)
    if few_inputs and problem.may_have_nugget(rows):  # the spread must know the same inputs
        search_nugget(judge, *lowest.best()[:2], lowest.loss)
    kernel, noise, system = lowest.best()
    if len(some.rows) < len(rows):
        system = problem.unfactored(kernel, rows).factor(noise / rows.total)
    parameters = LocationParameters(kernel, noise, inflation=best.inflation, near=near)
    return _with_varying_noise(problem, parameters, best, system), system


def _with_varying_noise(
    problem: Problem, parameters: LocationParameters, best: Metric, system: RegressionSystem
) -> LocationParameters:
    """Learn how the log squared residuals vary with x; at inputs that come back, from all rows."""
    rows, spec = problem.rows, problem.spec
    _, residuals = fit_map(parameters, system, rows, problem.floor, spec.settings)
    logs = rows.with_outputs(log_squares(residuals.values**2))
    effort = replace(problem.effort, rows=problem.effort.race_rows)
    found = [
        search_mean([template], logs, effort, _WIDE_NOISE, spec.seed, spec.n_jobs)[0]
        for template in problem.variants(best.template)
    ]
    choice = min(found, key=lambda each: each.loss)
    lowest: BestSoFar[tuple[Kernel, float]] = BestSoFar()
    some = logs.take(distinct_sample(logs.X, effort.noise_rows, spec.seed))
    centred, groups = some.centred(), Groups.of(some.X, some.weights)

    def judge(kernel: Kernel, noise: float) -> float:
        noisy = ExactRows(kernel, groups, n_jobs=spec.n_jobs).factor(noise / some.total)
        errors = centred - noisy.held_out(centred)
        loss = float(np.mean(np.average(errors**2, axis=0, weights=some.weights)))
        return lowest.offer(loss, (kernel, noise))

    judge(choice.kernel, choice.noise)
    if problem.may_have_nugget(some):
        search_nugget(judge, choice.kernel, choice.noise, lowest.loss)
    kernel, noise = lowest.best()
    n_scales = len(FreeScales(choice.template, rows.X.shape[-1]))
    return replace(parameters, noise_kernel=kernel, noise_of_noise=noise, noise_scales=n_scales)


def _chosen_residual(problem: Problem, best: Metric, residuals: Residuals) -> ChosenOperator:
    """Choose the density of the residuals, which varies slowly with x."""
    rows = problem.rows.with_outputs(residuals.clipped)
    kernels = [(best.template, best.kernel)]
    if problem.few_per_column:
        kernels = [(best.kernel, best.kernel)]
    elif len(FreeScales(best.template, rows.X.shape[-1])):
        kernels = [
            (template, _wide(problem, template)) for template in problem.variants(best.template)
        ]
    floor = np.max(problem.floor / residuals.scale, axis=0)
    return choose_residual(problem, rows, kernels, floor)


def _wide(problem: Problem, template: Kernel) -> Kernel:
    """Return the kernel with scales e times those of the median heuristic."""
    scales = FreeScales(template, problem.rows.X.shape[-1])
    middle = with_median_scales(template, problem.learning_rows().X)
    return scales.kernel(scales.log_scales_of(middle) + 1.0)
