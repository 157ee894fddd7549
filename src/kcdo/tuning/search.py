"""The search for parameters: few rows for the scales, all rows for what depends on their number."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar

from kcdo.kernels import (
    Automatic,
    FreeScales,
    Gaussian,
    Kernel,
    Laplace,
    Matern,
    OnColumns,
    Product,
    Sum,
    with_median_scales,
)
from kcdo.systems import Groups
from kcdo.tuning.likelihood import MarginalLikelihood
from kcdo.tuning.losses import Loss
from kcdo.tuning.objective import HeldOutLoss
from kcdo.tuning.outputs import OutputFamily, scale_per_length
from kcdo.tuning.smoothers import ExactSmoother, FixedSmoother, Leave

Array = NDArray[np.floating]
Objective = Callable[[Array], tuple[float, Array]]

FAMILIES: tuple[Kernel, ...] = (
    Matern(smoothness=1.5),
    Matern(smoothness=2.5),
    Gaussian(),
    Matern(smoothness=0.5),
    Laplace(),
)
_SCALE_RANGE = (-5.0, 7.0)  # of log scales about the median heuristic
_SCALE_PRIOR = 0.8  # sd, about the start, of log scales in the search
_ALPHA_RANGE = (-22.0, 2.0)
_RIDGE_RANGE = (-4.6, 4.6)  # of log α': sharpening is bounded
_NOISE_RANGE = (-16.0, 3.0)
_FIRST_NOISES = (0.05, 1e-4)  # the likelihood has one optimum with noise, and one without
_FINEST = 0.35  # least cut-off length, in node spacings


@dataclass(frozen=True)
class Rows:
    """Inputs, outputs and weights of some rows."""

    X: NDArray
    Y: Array
    weights: Array

    def __len__(self) -> int:
        return len(self.X)

    def take(self, rows: NDArray[np.integer]) -> "Rows":
        """Return some of the rows."""
        return Rows(self.X[rows], self.Y[rows], self.weights[rows])

    def of_effective_weight(self) -> "Rows":
        """Return the rows with weights that sum to the number of equal rows they amount to.

        A row of weight 3 stays one row: held out, it goes as a whole, as its copies foretell it.
        """
        return replace(self, weights=self.weights * (self.weights.sum() / np.sum(self.weights**2)))

    def with_outputs(self, Y: Array) -> "Rows":
        """Return the rows with other outputs."""
        return replace(self, Y=Y)


@dataclass(frozen=True)
class Effort:
    """How much work the search may do.

    Parameters
    ----------
    rows : int
        Rows on which the scales of densities are learnt.
    mean_rows : int
        Rows on which the scales of the conditional mean are learnt.
    held_out : int
        Rows on which α and the output filter are judged with all other rows in the fit.
    steps : int
        Steps of a search from one start.
    """

    rows: int = 400
    mean_rows: int = 800
    held_out: int = 500
    steps: int = 40


@dataclass(frozen=True)
class Fixed:
    """Ridges that are given, not searched for: α and α'."""

    alpha: float | None = None
    ridge: float | None = None


_OPEN = Fixed()


@dataclass(frozen=True)
class MeanChoice:
    """A kernel and a noise ratio for a conditional mean, and their loss."""

    template: Kernel
    kernel: Kernel
    noise: float
    loss: float


@dataclass(frozen=True)
class DensityChoice:
    """Parameters of a plain conditional density operator, and their held-out loss."""

    template: Kernel
    kernel: Kernel
    alpha: float
    log_length: float
    log_ridge: float
    loss: float


def families(template: Kernel) -> list[Kernel]:
    """Return the kernels that an :class:`Automatic` part may become; the kernel itself if none."""
    made = [_with_family(template, family) for family in FAMILIES]
    return made if made[0] != made[1] else [template]


def _with_family(kernel: Kernel, family: Kernel) -> Kernel:
    if isinstance(kernel, Product | Sum):
        return type(kernel)(tuple(_with_family(part, family) for part in kernel.kernels))
    if isinstance(kernel, OnColumns):
        return OnColumns(_with_family(kernel.kernel, family), kernel.columns)
    return family if isinstance(kernel, Automatic) and not kernel.fitted else kernel


def search_mean(
    templates: Sequence[Kernel], rows: Rows, effort: Effort, least_noise: float, seed: int
) -> list[MeanChoice]:
    """Return kernel and noise of highest marginal likelihood for each template, best first.

    The first template is searched from the median heuristic, the others from its result.
    """
    some = rows.take(_sample(len(rows), effort.mean_rows, seed))
    groups = Groups.of(some.X, some.weights)
    centred = some.Y - np.average(some.Y, axis=0, weights=some.weights)
    varies = np.ptp(centred, axis=0) > 0
    low = max(_NOISE_RANGE[0], np.log(least_noise)) if least_noise > 0 else _NOISE_RANGE[0]
    found: list[MeanChoice] = []
    best: Array | None = None
    for template in templates:
        scales = FreeScales(template, some.X.shape[-1])
        middle = _start_scales(scales, groups)
        objective = MarginalLikelihood(scales, groups, centred[:, varies])
        bounds = [*_scale_bounds(middle), (low, _NOISE_RANGE[1])]
        if best is None:
            starts = [np.append(middle, np.log(noise)) for noise in _FIRST_NOISES]
            races = [minimise(objective, start, bounds, effort.steps) for start in starts]
            theta, loss = min(races, key=lambda race: race[1])
            best = theta
        else:
            theta, loss = minimise(objective, best, bounds, effort.steps // 3)
        kernel = scales.kernel(theta[:-1])
        found.append(MeanChoice(template, kernel, float(np.exp(theta[-1])), loss))
    found.sort(key=lambda choice: choice.loss)
    return found


def search_density(
    starts: Sequence[tuple[Kernel, Kernel]],
    rows: Rows,
    outputs: OutputFamily,
    loss: Loss,
    effort: Effort,
    guess: tuple[float, float],
    least_length: float,
    leave: Leave,
    seed: int,
    fixed: Fixed = _OPEN,
) -> DensityChoice:
    """Return the best parameters on a subset of the rows, from several starts.

    ``starts`` are templates with a kernel to begin at, ``guess`` is a first α and log cut-off
    length. Scales are drawn weakly towards their start: the loss of a few hundred rows says
    little about those that hardly matter.
    """
    some = rows.take(_sample(len(rows), effort.rows, seed))
    groups = Groups.of(some.X, some.weights)
    lengths = _length_bounds(outputs, least_length)
    races = []
    for template, kernel in starts:
        scales = FreeScales(template, some.X.shape[-1])
        smoother = partial(ExactSmoother, scales, groups=groups, leave=leave)
        held_out = HeldOutLoss(smoother, outputs, some.Y, some.weights, loss)
        first = scales.log_scales_of(kernel)
        start = np.concatenate([first, [np.log(guess[0]), guess[1], np.log(0.3)]])
        middle = _start_scales(scales, groups)
        ridges = _bounds_of(fixed.ridge, _RIDGE_RANGE)
        alphas = _bounds_of(fixed.alpha, _ALPHA_RANGE)
        bounds = [*_scale_bounds(middle), alphas, lengths, ridges]
        objective = _with_prior(held_out, first, len(some))
        steps = effort.steps if len(starts) == 1 else effort.steps // 3
        theta, value = minimise(objective, start, bounds, steps)
        races.append((value, scales, objective, bounds, theta))
    value, scales, objective, bounds, theta = min(races, key=lambda race: race[0])
    if len(starts) > 1:  # only the best start is followed to the end
        theta, value = minimise(objective, theta, bounds, effort.steps)
    return DensityChoice(
        scales.template,
        scales.kernel(theta[: len(scales)]),
        float(np.exp(theta[-3])),
        float(theta[-2]),
        float(theta[-1]),
        value,
    )


def search_filter(
    choice: DensityChoice,
    weights: Array,
    rows: Rows,
    held_out: NDArray[np.integer],
    outputs: OutputFamily,
    loss: Loss,
    least_length: float,
    fixed: Fixed = _OPEN,
    steps: int = 12,
) -> DensityChoice:
    """Return the choice with the output filter tuned to given held-out weights (rows, N)."""
    smoother = FixedSmoother(weights)
    objective = HeldOutLoss(
        lambda log_scales, alpha: smoother,
        outputs,
        rows.Y,
        rows.weights[held_out],
        loss,
        rows.Y[held_out],
    )

    def of_filter(theta: Array) -> tuple[float, Array]:
        value, gradient = objective(np.concatenate([[0.0], theta]))
        return value, gradient[1:]

    start = np.array([choice.log_length, choice.log_ridge])
    bounds = [_length_bounds(outputs, least_length), _bounds_of(fixed.ridge, _RIDGE_RANGE)]
    theta, value = minimise(of_filter, start, bounds, steps)
    return replace(choice, log_length=float(theta[0]), log_ridge=float(theta[1]), loss=value)


def search_alpha(
    judge: Callable[[float], float], start: float, factorisations: int, ratio: float
) -> float:
    """Return an α of small loss, with few judgements, from one found on a share of the rows.

    ``ratio`` is that share: α falls with the number of rows.
    """
    low = np.log(start) + 2.0 * np.log(max(ratio, 1e-4)) - 1.0
    high = np.log(start) + 2.0
    bounds = max(low, _ALPHA_RANGE[0]), min(high, _ALPHA_RANGE[1])
    return lowest_alpha(judge, bounds, factorisations)


def lowest_alpha(
    judge: Callable[[float], float], bounds: tuple[float, float], judgements: int
) -> float:
    """Return the α of least loss between bounds of its logarithm, by Brent's method."""
    result = minimize_scalar(
        lambda log_alpha: judge(float(np.exp(log_alpha))),
        bounds=bounds,
        method="bounded",
        options={"maxiter": judgements, "xatol": 0.2},
    )
    return float(np.exp(result.x))


def minimise(
    objective: Objective, start: Array, bounds: Sequence[tuple[float, float]], steps: int
) -> tuple[Array, float]:
    """Return the minimiser that L-BFGS finds within bounds, and its value."""
    low, high = np.array(bounds).T
    result = minimize(
        objective,
        np.clip(start, low, high),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": steps, "maxfun": 2 * steps, "maxcor": 20},
    )
    return result.x, float(result.fun)


def shortest_length(least_scale: float) -> float:
    """Return the least cut-off length that an output kernel of a least scale can have."""
    return least_scale / scale_per_length(float(np.exp(_RIDGE_RANGE[0])))


def ridge_above(least_scale: float, log_length: float, log_ridge: float) -> float:
    """Return log α', lowered where the kernel of that cut-off length would be below its floor.

    >>> ridge_above(0.0, 0.0, 1.0)
    1.0
    """
    exponent = 0.5 * (least_scale / np.exp(log_length)) ** 2
    if exponent <= np.log(2.0):
        return log_ridge
    return float(np.clip(-np.log(np.exp(exponent) - 2.0), _RIDGE_RANGE[0], log_ridge))


def _with_prior(objective: Objective, centre: Array, n: int) -> Objective:
    """Add the Gaussian prior of the log scales, as one of n observations."""

    def penalised(theta: Array) -> tuple[float, Array]:
        value, gradient = objective(theta)
        step = (theta[: len(centre)] - centre) / _SCALE_PRIOR**2
        gradient = gradient.copy()
        gradient[: len(centre)] += step / n
        return value + 0.5 * float(step @ (theta[: len(centre)] - centre)) / n, gradient

    return penalised


def _start_scales(scales: FreeScales, groups: Groups) -> Array:
    filled = with_median_scales(scales.template, groups.points, groups.totals)
    return scales.log_scales_of(filled)


def _scale_bounds(middle: Array) -> list[tuple[float, float]]:
    return [(m + _SCALE_RANGE[0], m + _SCALE_RANGE[1]) for m in middle]


def _bounds_of(given: float | None, otherwise: tuple[float, float]) -> tuple[float, float]:
    return otherwise if given is None else (float(np.log(given)), float(np.log(given)))


def _length_bounds(outputs: OutputFamily, least: float) -> tuple[float, float]:
    """Return bounds of the log cut-off length: resolved by the nodes, and not above the range."""
    spacing = outputs.spacing
    low = max(float(np.max(_FINEST * spacing / outputs.shape)), least)
    high = float(np.max(np.ptp(outputs.measure.nodes, axis=0) / outputs.shape))
    return np.log(low), max(np.log(high), np.log(low) + 0.1)


def _sample(n: int, most: int, seed: int) -> NDArray[np.integer]:
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, most, replace=False))
