"""Searches for parameters of small loss: many by L-BFGS, α and a nugget by a few judgements."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from kcdo.arrays import Array
from kcdo.kernels import FreeScales, Kernel, Nugget, with_median_scales
from kcdo.systems import Groups

Objective = Callable[[Array], tuple[float, Array]]
Bounds = list[tuple[float, float]]
Kept = TypeVar("Kept")

GOOD_ENOUGH = 1e-4  # gain of a step, in nats per row, that is not worth another one
_RESOLUTION = 2e-9
_LOG_STEP = float(np.log(4.0))
ALPHA_RANGE = (-22.0, 2.0)  # of log α
_SCALE_RANGE = (-5.0, 7.0)  # of log scales about the median heuristic
_NUGGETS = (0.5, 0.8, 0.95, 0.99, 0.998)  # shares of the ridge that are a nugget of the input


@dataclass
class BestSoFar(Generic[Kept]):
    """The candidate of the lowest loss so far; of the others nothing is kept."""

    loss: float = np.inf
    kept: Kept | None = None

    def offer(self, loss: float, candidate: Kept) -> float:
        """Keep the candidate if it is the best or the first; return its loss."""
        if self.kept is None or loss < self.loss or np.isnan(self.loss):
            self.loss, self.kept = loss, candidate
        return loss

    def best(self) -> Kept:
        """Return the candidate that was kept."""
        assert self.kept is not None, "nothing was offered"
        return self.kept


def minimise(
    objective: Objective,
    start: Array,
    bounds: Sequence[tuple[float, float]],
    steps: int,
    tolerance: float = 0.0,
) -> tuple[Array, float]:
    """Return the minimiser that L-BFGS finds within bounds, and its value.

    It stops after a step that gains less than the tolerance.
    """
    low, high = np.array(bounds).T
    begin = np.clip(start, low, high)
    first, slope = objective(begin)

    def gained(theta: Array) -> tuple[float, Array]:
        # L-BFGS takes its tolerance relative to the value, which depends on the unit of y
        value, gradient = (first, slope) if np.array_equal(theta, begin) else objective(theta)
        return value - first, gradient

    gain = max(tolerance, _RESOLUTION)
    result = minimize(
        gained,
        begin,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": steps, "maxfun": 2 * steps, "maxcor": 20, "ftol": gain},
    )
    return result.x, first + float(result.fun)


def search_alpha(
    judge: Callable[[float], float],
    start: float,
    judgements: int,
    *,
    bounds: tuple[float, float] = ALPHA_RANGE,
) -> float:
    """Return an α of small loss, with few judgements, from a first guess.

    It walks downhill by factors of 4: first to smaller values and, where already the first of
    these is worse, to larger ones. ``bounds`` are those of log α.
    """
    best = float(np.clip(np.log(start), *bounds))
    least = judge(float(np.exp(best)))
    left = judgements - 1
    for step in (-_LOG_STEP, _LOG_STEP):
        walked = False
        while left:
            there = float(np.clip(best + step, *bounds))
            if there == best:
                break
            loss, left = judge(float(np.exp(there))), left - 1
            if not loss < least:
                break
            best, least, walked = there, loss, True
        if walked:
            break
    return float(np.exp(best))


def lowest_alpha(
    judge: Callable[[float], float], bounds: tuple[float, float], judgements: int
) -> float:
    """Return the α of least loss between bounds of its logarithm, by Brent's method.

    Its logarithm is a multiple of 1/64, so that the last bits of the losses do not move it.
    """

    def on_grid(log_alpha: float) -> float:
        return float(np.exp(np.round(64.0 * log_alpha) / 64.0))

    result = minimize_scalar(
        lambda log_alpha: judge(on_grid(log_alpha)),
        bounds=bounds,
        method="bounded",
        options={"maxiter": judgements, "xatol": 0.2},
    )
    return on_grid(result.x)


def search_nugget(
    judge: Callable[[Kernel, float], float], kernel: Kernel, noise: float, least: float
) -> None:
    """Judge ever larger shares of the ridge as a nugget of the input, while that helps.

    ``noise`` is the ridge of a single row, ``least`` the loss without a nugget. The diagonal of
    inputs that come once stays; those that come often count for less at other inputs.
    """
    for share in _NUGGETS:
        own = share * noise
        loss = judge(Nugget(kernel, own / (1.0 + own)), (1.0 - share) * noise / (1.0 + own))
        if loss >= least:
            return
        least = loss


def median_log_scales(scales: FreeScales, groups: Groups) -> Array:
    """Return the log scales of the median heuristic."""
    filled = with_median_scales(scales.template, groups.points, groups.totals)
    return scales.log_scales_of(filled)


def scale_bounds(middle: Array) -> Bounds:
    """Return bounds of log scales, about those of the median heuristic."""
    return [(m + _SCALE_RANGE[0], m + _SCALE_RANGE[1]) for m in middle]
