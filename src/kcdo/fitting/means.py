"""The search for the kernel and the noise of a conditional mean, by marginal likelihood."""

from collections.abc import Callable, Sequence

import numpy as np

from kcdo.arrays import Array
from kcdo.components import Effort
from kcdo.fitting.local import LOG_NOISE_RANGE
from kcdo.fitting.metric import Metric
from kcdo.fitting.objectives import MarginalLikelihood
from kcdo.fitting.problem import Problem
from kcdo.fitting.search import GOOD_ENOUGH, Bounds, median_log_scales, minimise, scale_bounds
from kcdo.kernels import FreeScales, Kernel, weighted_mean_sd
from kcdo.parallel import blas_limit, ordered_map
from kcdo.rows import Rows
from kcdo.systems import ExactRows, Groups

Likelihoods = Callable[[Kernel], tuple[MarginalLikelihood, Bounds]]

_FIRST_NOISES = (0.05, 1e-4)  # the likelihood has one optimum with noise, and one without


def mean_choices(problem: Problem) -> list[Metric]:
    """Return kernels of the conditional mean, one of each family, the likeliest first.

    Where inputs have long tails, those of kernels that draw them in, or not, whichever are
    likelier; the same family of the others comes last.
    """
    if problem.metrics:
        return list(problem.metrics)
    found = [
        search_mean(
            each,
            problem.rows,
            problem.effort,
            problem.least_noise,
            problem.spec.seed,
            problem.spec.n_jobs,
        )
        for each in problem.templates
    ]
    found.sort(key=lambda choices: choices[0].loss)
    counterparts = problem.variants(found[0][0].template)[1:]
    others = [choice for choices in found[1:] for choice in choices]
    return found[0] + [choice for choice in others if choice.template in counterparts]


def residual_sds(choice: Metric, problem: Problem) -> Array:
    """Return the sd of held-out residuals of the conditional mean, from a few hundred rows."""
    some = problem.learning_rows()
    centred, groups = some.centred(), Groups.of(some.X, some.weights)
    rows = ExactRows(choice.of_mean, groups, n_jobs=problem.spec.n_jobs)
    errors = centred - rows.factor(choice.noise / some.total).held_out(centred)
    sds = np.sqrt(np.average(errors**2, axis=0, weights=some.weights))
    _, all_sds = weighted_mean_sd(problem.rows.Y, problem.rows.weights)
    return np.maximum(sds, 1e-6 * all_sds)  # some rows may all be equal


def search_mean(
    templates: Sequence[Kernel],
    rows: Rows,
    effort: Effort,
    least_noise: float,
    seed: int,
    n_jobs: int | None = None,
) -> list[Metric]:
    """Return kernel and noise of highest marginal likelihood for each template, best first.

    The first template is searched from the median heuristic, the others from its result, all on a
    few rows; the best is then searched on more.
    """
    few = _likelihoods(rows, effort.race_rows, least_noise, seed)
    objective, bounds = few(templates[0])
    middle = median_log_scales(objective.scales, objective.groups)
    noises = sorted({max(noise, np.exp(bounds[-1][0])) for noise in _FIRST_NOISES})
    starts = [(templates[0], np.append(middle, np.log(noise))) for noise in noises]
    first = _searched_means(few, starts, 2 * effort.race_steps, n_jobs)
    columns = rows.X.shape[-1]
    others = [(template, first[0].theta(columns)) for template in templates[1:]]
    found = [first[0], *_searched_means(few, others, effort.race_steps, n_jobs)]
    found.sort(key=lambda choice: choice.loss)
    if min(len(rows), effort.rows) > effort.race_rows:
        # also from the other noise: more rows may show less of it
        more = _likelihoods(rows, effort.rows, least_noise, seed)
        again = [(found[0].template, each.theta(columns)) for each in (found[0], *first[1:])]
        found[0] = _searched_means(more, again, effort.steps, n_jobs, GOOD_ENOUGH)[0]
    return found


def _searched_means(
    likelihoods: Likelihoods,
    starts: Sequence[tuple[Kernel, Array]],
    steps: int,
    n_jobs: int | None,
    tolerance: float = 0.0,
) -> list[Metric]:
    """Return what the likelihood of some rows finds from each start, the best first."""

    def search(start: tuple[Kernel, Array]) -> Metric:
        objective, bounds = likelihoods(start[0])
        theta, loss = minimise(objective, start[1], bounds, steps, tolerance)
        kernel, noise = objective.scales.kernel(theta[:-1]), float(np.exp(theta[-1]))
        return Metric(start[0], kernel, noise, loss)

    with blas_limit(1):
        found = list(ordered_map(search, starts, n_jobs))
    return sorted(found, key=lambda choice: choice.loss)


def _likelihoods(rows: Rows, most: int, least_noise: float, seed: int) -> Likelihoods:
    """Return, as a function of the template, the likelihood of some rows and bounds for it."""
    some = rows.sample(most, seed)
    groups = Groups.of(some.X, some.weights)
    centred = some.centred()
    varies = np.ptp(centred, axis=0) > 0
    noise_bounds = log_noise_bounds(least_noise)

    def of_template(template: Kernel) -> tuple[MarginalLikelihood, Bounds]:
        scales = FreeScales(template, some.X.shape[-1])
        bounds = [*scale_bounds(median_log_scales(scales, groups)), noise_bounds]
        return MarginalLikelihood(scales, groups, centred[:, varies]), bounds

    return of_template


def log_noise_bounds(least_noise: float) -> tuple[float, float]:
    """Return bounds of the logarithm of a noise ratio that is at least so large."""
    least = np.log(least_noise) if least_noise > 0 else -np.inf
    return float(np.clip(least, LOG_NOISE_RANGE[0], LOG_NOISE_RANGE[1] - 0.1)), LOG_NOISE_RANGE[1]
