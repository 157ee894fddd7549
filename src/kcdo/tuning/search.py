"""The search for parameters: few rows for the scales, all rows for what depends on their number."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import ArrayLike, NDArray
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
    Remembering,
    Sum,
    with_median_scales,
)
from kcdo.measures import Grid
from kcdo.parallel import blas_limit, ordered_map
from kcdo.systems import Groups
from kcdo.tuning.likelihood import MarginalLikelihood
from kcdo.tuning.losses import Loss, Scoring
from kcdo.tuning.objective import FilterLoss, HeldOutLoss
from kcdo.tuning.outputs import OutputFamily, node_shares, scale_per_length
from kcdo.tuning.smoothers import ExactSmoother, FixedSmoother, Leave

Array = NDArray[np.floating]
Objective = Callable[[Array], tuple[float, Array]]
Bounds = list[tuple[float, float]]
Likelihoods = Callable[[Kernel], tuple[MarginalLikelihood, Bounds]]

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
_RIDGE_RANGE = (-9.2, 4.6)  # of log α': sharpening is bounded
_NOISE_RANGE = (-16.0, 3.0)
_FIRST_NOISES = (0.05, 1e-4)  # the likelihood has one optimum with noise, and one without
_LEADERS = 3  # starts that go on to more rows
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

    def sample(self, most: int, seed: int) -> "Rows":
        """Return at most so many rows at random."""
        if len(self) <= most:
            return self
        chosen = np.random.default_rng(seed).choice(len(self), most, replace=False)
        return self.take(np.sort(chosen))

    @cached_property
    def share_repeated(self) -> float:
        """Share of the rows that have others of the same input."""
        member = Groups.of(self.X).member_of
        return float(np.mean(np.bincount(member)[member] > 1))

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
    race_rows : int
        Rows on which kernel families and starts are compared.
    rows : int
        Rows on which the best of them are compared again.
    last_rows : int
        Rows on which the scales of the best are then learnt.
    held_out : int
        Rows on which α and the output filter are judged with all other rows in the fit.
    race_steps, steps : int
        Steps of a search from one start, and of the last one.
    n_jobs : int, optional
        Threads that search from different starts; None: all cores.
    """

    race_rows: int = 400
    rows: int = 800
    last_rows: int = 1500
    held_out: int = 500
    race_steps: int = 12
    steps: int = 15
    n_jobs: int | None = None


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
    theta: Array = field(repr=False, compare=False)  # their logarithms


@dataclass(frozen=True, eq=False)
class Start:
    """Where a search for a density begins.

    Parameters
    ----------
    template, kernel : Kernel
        A kernel with open scales, and with those to begin at.
    outputs : OutputFamily
        Output sides to choose from.
    least_length : (d,)
        Least cut-off length of each output.
    """

    template: Kernel
    kernel: Kernel
    outputs: OutputFamily
    least_length: Array


@dataclass(frozen=True, eq=False)
class DensityChoice:
    """Parameters of a plain conditional density operator, and their held-out loss."""

    start: Start
    kernel: Kernel
    alpha: float
    log_lengths: Array
    log_ridge: float
    loss: float

    @property
    def shape(self) -> Array:
        """Relative sds of the outputs."""
        return self.start.outputs.shape


def families(template: Kernel) -> list[Kernel]:
    """Return the kernels that an :class:`Automatic` part may become; the kernel itself if none."""
    made = [_with_family(template, family) for family in FAMILIES]
    return made if made[0] != made[1] else [template]


def _with_family(kernel: Kernel, family: Kernel) -> Kernel:
    if isinstance(kernel, Product | Sum):
        return type(kernel)(tuple(_with_family(part, family) for part in kernel.kernels))
    if isinstance(kernel, Remembering):
        return replace(kernel, kernel=_with_family(kernel.kernel, family))
    if isinstance(kernel, OnColumns):
        return OnColumns(_with_family(kernel.kernel, family), kernel.columns)
    return family if isinstance(kernel, Automatic) and not kernel.fitted else kernel


def search_mean(
    templates: Sequence[Kernel], rows: Rows, effort: Effort, least_noise: float, seed: int
) -> list[MeanChoice]:
    """Return kernel and noise of highest marginal likelihood for each template, best first.

    The first template is searched from the median heuristic, the others from its result, all on a
    few rows; the best is then searched on more.
    """
    few = _likelihoods(rows, effort.race_rows, least_noise, seed)
    objective, _ = few(templates[0])
    middle = _start_scales(objective.scales, objective.groups)
    starts = [np.append(middle, np.log(noise)) for noise in _FIRST_NOISES]
    first, second = sorted(
        _searched_means(
            few, [(templates[0], start) for start in starts], 2 * effort.race_steps, effort
        ),
        key=lambda choice: choice.loss,
    )
    others = [(template, first.theta) for template in templates[1:]]
    found = [first, *_searched_means(few, others, effort.race_steps, effort)]
    found.sort(key=lambda choice: choice.loss)
    if len(rows) > effort.race_rows:  # also from the other noise: more rows may show less of it
        more = _likelihoods(rows, effort.rows, least_noise, seed)
        again = [(found[0].template, start) for start in (found[0].theta, second.theta)]
        found[0] = min(
            _searched_means(more, again, effort.steps, effort), key=lambda choice: choice.loss
        )
    return found


def _searched_means(
    likelihoods: Likelihoods,
    starts: Sequence[tuple[Kernel, Array]],
    steps: int,
    effort: Effort,
) -> list[MeanChoice]:
    """Return the choice that the likelihood of some rows finds from each start."""

    def search(start: tuple[Kernel, Array]) -> MeanChoice:
        objective, bounds = likelihoods(start[0])
        theta, loss = minimise(objective, start[1], bounds, steps)
        kernel, noise = objective.scales.kernel(theta[:-1]), float(np.exp(theta[-1]))
        return MeanChoice(start[0], kernel, noise, loss, theta)

    with blas_limit(1):
        return list(ordered_map(search, starts, effort.n_jobs))


def _likelihoods(rows: Rows, most: int, least_noise: float, seed: int) -> Likelihoods:
    """Return, as a function of the template, the likelihood of some rows and bounds for it."""
    some = rows.sample(most, seed)
    groups = Groups.of(some.X, some.weights)
    centred = some.Y - np.average(some.Y, axis=0, weights=some.weights)
    varies = np.ptp(centred, axis=0) > 0
    least = np.log(least_noise) if least_noise > 0 else -np.inf
    low = float(np.clip(least, _NOISE_RANGE[0], _NOISE_RANGE[1] - 0.1))

    def of_template(template: Kernel) -> tuple[MarginalLikelihood, Bounds]:
        scales = FreeScales(template, some.X.shape[-1])
        bounds = [*_scale_bounds(_start_scales(scales, groups)), (low, _NOISE_RANGE[1])]
        return MarginalLikelihood(scales, groups, centred[:, varies]), bounds

    return of_template


def search_density(
    starts: Sequence[Start],
    rows: Rows,
    loss: Loss,
    effort: Effort,
    guess: tuple[float, float],
    leave: Leave,
    seed: int,
    fixed: Fixed = _OPEN,
) -> DensityChoice:
    """Return the best parameters on a subset of the rows, from several starts.

    ``guess`` is a first α and log cut-off length. A few rows choose among the starts, more of them
    the parameters of the best.
    """
    log_alpha, log_length = np.log(guess[0]), guess[1]

    def race(
        entrants: Sequence[tuple[Start, Array | None]], n_rows: int, steps: int
    ) -> list[tuple[Start, Array, float]]:
        some = rows.sample(n_rows, seed)

        def run(entrant: tuple[Start, Array | None]) -> tuple[Start, Array, float]:
            start, theta = entrant
            objective, bounds = _density_objective(start, some, loss, leave, fixed)
            if theta is None:
                lengths = np.full(start.outputs.n_lengths, log_length)
                theta = np.concatenate([objective.centre, [log_alpha], lengths, [np.log(0.3)]])
            return (start, *minimise(objective, theta, bounds, steps))

        with blas_limit(1):  # on such matrices threads of BLAS hinder one another
            found = list(ordered_map(run, entrants, effort.n_jobs))
        return sorted(found, key=lambda run: run[2])

    runs = race([(start, None) for start in starts], effort.race_rows, effort.race_steps)
    if len(rows) > effort.race_rows and len(runs) > 1:
        runs = race([run[:2] for run in runs[:_LEADERS]], effort.rows, effort.race_steps // 2)
    if len(rows) > effort.race_rows or len(starts) > 1:
        runs = race([runs[0][:2]], effort.last_rows, effort.steps)
    start, theta, value = runs[0]
    scales = FreeScales(start.template, rows.X.shape[-1])
    kernel, alpha = scales.kernel(theta[: len(scales)]), float(np.exp(theta[len(scales)]))
    lengths, log_ridge = theta[len(scales) + 1 : -1], float(theta[-1])
    return DensityChoice(start, kernel, alpha, lengths, log_ridge, value)


def _density_objective(
    start: Start, rows: Rows, loss: Loss, leave: Leave, fixed: Fixed
) -> tuple["_WithPrior", list[tuple[float, float]]]:
    """Return the held-out loss of some rows with a prior of the scales, and bounds for it."""
    groups = Groups.of(rows.X, rows.weights)
    scales = FreeScales(start.template, rows.X.shape[-1])
    smoother = partial(ExactSmoother, scales, groups=groups, leave=leave)
    held_out = HeldOutLoss(smoother, start.outputs, rows.Y, rows.weights, loss)
    bounds = [
        *_scale_bounds(_start_scales(scales, groups)),
        _bounds_of(fixed.alpha, _ALPHA_RANGE),
        *_length_bounds(start.outputs, start.least_length),
        _bounds_of(fixed.ridge, _RIDGE_RANGE),
    ]
    return _WithPrior(held_out, scales.log_scales_of(start.kernel), len(rows)), bounds


def search_filter(
    choice: DensityChoice,
    weights: Array,
    rows: Rows,
    held_out: NDArray[np.integer],
    outputs: OutputFamily,
    loss: Loss,
    fixed: Fixed = _OPEN,
    steps: int = 12,
) -> DensityChoice:
    """Return the choice with the output filter tuned to given held-out weights (rows, N).

    ``outputs`` are the output sides of the choice, on other nodes.
    """
    objective = _filter_objective(weights, rows, held_out, outputs, loss)
    start = np.append(choice.log_lengths, choice.log_ridge)
    least = choice.start.least_length
    bounds = [*_length_bounds(outputs, least), _bounds_of(fixed.ridge, _RIDGE_RANGE)]
    with blas_limit(1):
        theta, value = minimise(objective, start, bounds, steps)
    return replace(choice, log_lengths=theta[:-1], log_ridge=float(theta[-1]), loss=value)


def _filter_objective(
    weights: Array,
    rows: Rows,
    held_out: NDArray[np.integer],
    outputs: OutputFamily,
    loss: Loss,
) -> Objective:
    """Return the loss as a function of the filter; on a grid it costs the same for any N."""
    scored, row_weights = rows.Y[held_out], rows.weights[held_out]
    measure = outputs.measure
    if isinstance(measure, Grid) and outputs.separable:
        shares = node_shares(measure, rows.Y)
        if shares is not None:
            scoring = Scoring(measure, scored, row_weights, outputs.shape)
            return FilterLoss(np.asarray(weights @ shares), outputs, scoring, loss)
    smoother = FixedSmoother(weights)
    objective = HeldOutLoss(
        lambda log_scales, alpha: smoother, outputs, rows.Y, row_weights, loss, scored
    )

    def of_filter(theta: Array) -> tuple[float, Array]:
        value, gradient = objective(np.concatenate([[0.0], theta]))
        return value, gradient[1:]

    return of_filter


def search_alpha(
    judge: Callable[[float], float], start: float, judgements: int, ratio: float
) -> float:
    """Return an α of small loss, with few judgements, from one found on a share of the rows.

    ``ratio`` is that share: α falls at least with the number of rows. From there it walks
    downhill by factors of 4.
    """
    step = -np.log(4.0)
    best = float(np.clip(np.log(start * ratio), *_ALPHA_RANGE))
    least = judge(float(np.exp(best)))
    turned = False
    for _ in range(judgements - 1):
        there = float(np.clip(best + step, *_ALPHA_RANGE))
        loss = judge(float(np.exp(there)))
        if loss < least:
            best, least, turned = there, loss, True
        elif turned:
            break
        else:
            step, turned = -step, True
    return float(np.exp(best))


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


def shortest_length(least_scale: Array, ridge: float | None = None) -> Array:
    """Return the least cut-off length that an output kernel of a least scale can have.

    With a ridge α' that is given, or with the one that sharpens most.
    """
    return least_scale / scale_per_length(ridge or float(np.exp(_RIDGE_RANGE[0])))


def ridge_above(least_scale: ArrayLike, log_lengths: ArrayLike, log_ridge: float) -> float:
    """Return log α', lowered where a kernel of these cut-off lengths would be below its floor.

    >>> ridge_above(0.0, 0.0, 1.0)
    1.0
    """
    exponent = float(np.max(0.5 * (np.asarray(least_scale) / np.exp(log_lengths)) ** 2))
    if exponent <= np.log(2.0):
        return log_ridge
    return float(np.clip(-np.log(np.exp(exponent) - 2.0), _RIDGE_RANGE[0], log_ridge))


@dataclass(frozen=True, eq=False)
class _WithPrior:
    """An objective with a Gaussian prior of the log scales, which counts as one of n observations.

    The loss of a few hundred rows says little about scales that hardly matter: they stay near the
    centre.
    """

    objective: Objective
    centre: Array
    n: int

    def __call__(self, theta: Array) -> tuple[float, Array]:
        value, gradient = self.objective(theta)
        offset = theta[: len(self.centre)] - self.centre
        gradient = gradient.copy()
        gradient[: len(offset)] += offset / (_SCALE_PRIOR**2 * self.n)
        return value + 0.5 * float(offset @ offset) / (_SCALE_PRIOR**2 * self.n), gradient


def _start_scales(scales: FreeScales, groups: Groups) -> Array:
    filled = with_median_scales(scales.template, groups.points, groups.totals)
    return scales.log_scales_of(filled)


def _scale_bounds(middle: Array) -> list[tuple[float, float]]:
    return [(m + _SCALE_RANGE[0], m + _SCALE_RANGE[1]) for m in middle]


def _bounds_of(given: float | None, otherwise: tuple[float, float]) -> tuple[float, float]:
    return otherwise if given is None else (float(np.log(given)), float(np.log(given)))


def _length_bounds(outputs: OutputFamily, least: Array) -> list[tuple[float, float]]:
    """Return bounds of the log cut-off lengths: resolved by the nodes, and not above the range."""
    low = np.maximum(_FINEST * outputs.spacing / outputs.shape, least)
    high = np.ptp(outputs.measure.nodes, axis=0) / outputs.shape
    if outputs.n_lengths < len(low):
        low, high = low.max(keepdims=True), high.max(keepdims=True)
    return [(np.log(a), max(np.log(b), np.log(a) + 0.1)) for a, b in zip(low, high, strict=True)]
