"""The search for the kernel and the noise of a conditional mean."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from kcdo.arrays import Array
from kcdo.kernels import FreeScales, Kernel
from kcdo.parallel import blas_limit, ordered_map
from kcdo.systems import Groups
from kcdo.tuning.descent import GOOD_ENOUGH, Bounds, median_log_scales, minimise, scale_bounds
from kcdo.tuning.likelihood import MarginalLikelihood
from kcdo.tuning.rows import Effort, Rows

Likelihoods = Callable[[Kernel], tuple[MarginalLikelihood, Bounds]]

_NOISE_RANGE = (-16.0, 3.0)  # of its logarithm
_FIRST_NOISES = (0.05, 1e-4)  # the likelihood has one optimum with noise, and one without


@dataclass(frozen=True)
class MeanChoice:
    """A kernel and a noise ratio for a conditional mean, and their loss."""

    template: Kernel
    kernel: Kernel
    noise: float
    loss: float
    theta: Array = field(repr=False, compare=False)  # their logarithms


def search_mean(
    templates: Sequence[Kernel], rows: Rows, effort: Effort, least_noise: float, seed: int
) -> list[MeanChoice]:
    """Return kernel and noise of highest marginal likelihood for each template, best first.

    The first template is searched from the median heuristic, the others from its result, all on a
    few rows; the best is then searched on more.
    """
    few = _likelihoods(rows, effort.race_rows, least_noise, seed)
    objective, bounds = few(templates[0])
    middle = median_log_scales(objective.scales, objective.groups)
    noises = sorted({max(noise, np.exp(bounds[-1][0])) for noise in _FIRST_NOISES})
    starts = [(templates[0], np.append(middle, np.log(noise))) for noise in noises]
    first = _searched_means(few, starts, 2 * effort.race_steps, effort)
    others = [(template, first[0].theta) for template in templates[1:]]
    found = [first[0], *_searched_means(few, others, effort.race_steps, effort)]
    found.sort(key=lambda choice: choice.loss)
    if min(len(rows), effort.rows) > effort.race_rows:
        # also from the other noise: more rows may show less of it
        more = _likelihoods(rows, effort.rows, least_noise, seed)
        thetas = [found[0].theta, *(choice.theta for choice in first[1:])]
        again = [(found[0].template, theta) for theta in thetas]
        found[0] = _searched_means(more, again, effort.steps, effort, GOOD_ENOUGH)[0]
    return found


def _searched_means(
    likelihoods: Likelihoods,
    starts: Sequence[tuple[Kernel, Array]],
    steps: int,
    effort: Effort,
    tolerance: float = 0.0,
) -> list[MeanChoice]:
    """Return what the likelihood of some rows finds from each start, the best first."""

    def search(start: tuple[Kernel, Array]) -> MeanChoice:
        objective, bounds = likelihoods(start[0])
        theta, loss = minimise(objective, start[1], bounds, steps, tolerance)
        kernel, noise = objective.scales.kernel(theta[:-1]), float(np.exp(theta[-1]))
        return MeanChoice(start[0], kernel, noise, loss, theta)

    with blas_limit(1):
        found = list(ordered_map(search, starts, effort.n_jobs))
    return sorted(found, key=lambda choice: choice.loss)


def _likelihoods(rows: Rows, most: int, least_noise: float, seed: int) -> Likelihoods:
    """Return, as a function of the template, the likelihood of some rows and bounds for it."""
    some = rows.sample(most, seed)
    groups = Groups.of(some.X, some.weights)
    centred = some.Y - np.average(some.Y, axis=0, weights=some.weights)
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
    return float(np.clip(least, _NOISE_RANGE[0], _NOISE_RANGE[1] - 0.1)), _NOISE_RANGE[1]
