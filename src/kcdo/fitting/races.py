"""The race for the scales of a density: families and starts compared on ever more rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar

from kcdo.arrays import Array
from kcdo.components import Effort
from kcdo.fitting.filters import OutputFamily, scale_per_length
from kcdo.fitting.left_out import Leave, exact_smoother
from kcdo.fitting.losses import Loss
from kcdo.fitting.objectives import HeldOutLoss
from kcdo.fitting.search import (
    ALPHA_RANGE,
    GOOD_ENOUGH,
    Bounds,
    median_log_scales,
    minimise,
    scale_bounds,
)
from kcdo.kernels import FreeScales, Kernel
from kcdo.parallel import blas_limit, ordered_map
from kcdo.rows import Rows
from kcdo.systems import Groups

_SCALE_PRIOR = 0.8  # sd, about the start, of log scales in the search
RIDGE_RANGE = (-9.2, 4.6)  # of log α': sharpening is bounded
_FIRST_RIDGE = 0.3  # α'
_LEAST_SHARE = 0.05  # of a mixture with the rival, below which a component is not worth refining
_FINEST = 0.35  # least cut-off length, in node spacings


@dataclass(frozen=True)
class Fixed:
    """Ridges that are given, not searched for: α and α'."""

    alpha: float | None = None
    ridge: float | None = None


OPEN = Fixed()


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
    dispensable: bool = False  # next to its rival: not worth more work

    @property
    def shape(self) -> Array:
        """Relative sds of the outputs."""
        return self.start.outputs.shape


@dataclass(frozen=True, eq=False)
class DensitySearch:
    """The search for the scales of an input kernel, with α and the output filter, on some rows.

    Parameters
    ----------
    rows : Rows
        Rows to choose some from.
    loss : Loss
        What is made small.
    effort : Effort
        How much work it may do.
    leave : {"row", "group"}
        What is held out.
    seed : int
        Of the choice of rows.
    fixed : Fixed
        Ridges that are given.
    rival : (n,), optional
        Held-out densities of another model at the outputs of the first, few rows: a search that
        adds next to nothing to it ends after these.
    n_jobs : int, optional
        Threads that search from different starts; None: all cores.
    """

    rows: Rows
    loss: Loss
    effort: Effort
    leave: Leave
    seed: int = 0
    fixed: Fixed = OPEN
    rival: Array | None = None
    n_jobs: int | None = None

    def best(self, starts: Sequence[Start], alpha: float, log_length: float) -> DensityChoice:
        """Return the best parameters, from several starts and a first α and log cut-off length.

        A few rows choose among the starts, more of them the parameters of the best.
        """
        p = self.rows.X.shape[-1]
        ranking = [_Entrant.at(start, p, float(np.log(alpha)), log_length) for start in starts]
        for entrants, n_rows, steps, tolerance in self._heats(len(starts)):
            ranking = self._race(ranking[:entrants], n_rows, steps, tolerance)
            if n_rows == self.effort.race_rows and self._dispensable(ranking[0]):
                return replace(ranking[0].choice(p), dispensable=True)
        return ranking[0].choice(p)

    def _heats(self, n_starts: int) -> Iterator[tuple[int, int, int, float]]:
        """Yield how many entrants race on how many rows, for how many steps, to what tolerance."""
        n, effort = len(self.rows), self.effort
        if n_starts == 1:
            yield 1, effort.race_rows, effort.race_steps, 0.0
        else:
            steps = 2 * effort.race_steps // 3
            yield n_starts, effort.race_rows, steps, 0.0
            yield effort.leaders[0], effort.race_rows, steps, 0.0
            if n > effort.race_rows:
                yield effort.leaders[1], effort.rows, steps, GOOD_ENOUGH
        if n_starts > 1 or min(n, effort.last_rows) > effort.race_rows:
            yield 1, effort.last_rows, effort.steps, GOOD_ENOUGH

    def _dispensable(self, entrant: "_Entrant") -> bool:
        """Whether it would hardly count in a mixture with the rival."""
        if self.rival is None:
            return False
        rows = self.rows.sample(self.effort.race_rows, self.seed)
        objective, _ = self._objective(entrant.start, rows)
        own = objective.objective.at_outputs(entrant.theta)
        return share_beside(own, self.rival, rows.weights) < _LEAST_SHARE

    def _race(
        self,
        entrants: Sequence["_Entrant"],
        n_rows: int,
        steps: int,
        tolerance: float,
    ) -> list["_Entrant"]:
        """Return the entrants where some steps on some rows bring them, the best first."""
        some = self.rows.sample(n_rows, self.seed)

        def run(entrant: "_Entrant") -> "_Entrant":
            objective, bounds = self._objective(entrant.start, some)
            theta, value = minimise(objective, entrant.theta, bounds, steps, tolerance)
            return replace(entrant, theta=theta, loss=value)

        with blas_limit(1):  # on such matrices threads of BLAS hinder one another
            found = list(ordered_map(run, entrants, self.n_jobs))
        return sorted(found, key=lambda entrant: entrant.loss)

    def _objective(self, start: Start, rows: Rows) -> tuple["_WithPrior", Bounds]:
        """Return the held-out loss of some rows with a prior of the scales, and bounds for it."""
        groups = Groups.of(rows.X, rows.weights)
        scales = FreeScales(start.template, rows.X.shape[-1])
        smoother = partial(exact_smoother, scales, groups=groups, leave=self.leave)
        held_out = HeldOutLoss(smoother, start.outputs, rows.Y, rows.weights, self.loss)
        bounds = [
            *scale_bounds(median_log_scales(scales, groups)),
            bounds_of(self.fixed.alpha, ALPHA_RANGE),
            *length_bounds(start.outputs, start.least_length),
            bounds_of(self.fixed.ridge, RIDGE_RANGE),
        ]
        return _WithPrior(held_out, scales.log_scales_of(start.kernel), len(rows)), bounds


@dataclass(frozen=True, eq=False)
class _Entrant:
    """A start and how far the search has come from there."""

    start: Start
    theta: Array  # log scales, log α, log cut-off lengths, log α'
    loss: float = np.inf

    @classmethod
    def at(cls, start: Start, p: int, log_alpha: float, log_length: float) -> "_Entrant":
        """Return a start of a kernel of p columns that has not moved yet."""
        log_scales = FreeScales(start.template, p).log_scales_of(start.kernel)
        lengths = np.full(start.outputs.n_lengths, log_length)
        first = np.concatenate([log_scales, [log_alpha], lengths, [np.log(_FIRST_RIDGE)]])
        return cls(start, first)

    def choice(self, p: int) -> DensityChoice:
        """Return where it has come."""
        scales = FreeScales(self.start.template, p)
        log_scales, (log_alpha, *log_lengths, log_ridge) = np.split(self.theta, [len(scales)])
        return DensityChoice(
            self.start,
            scales.kernel(log_scales),
            float(np.exp(log_alpha)),
            np.array(log_lengths),
            float(log_ridge),
            self.loss,
        )


def share_beside(densities: Array, rival: Array, weights: Array) -> float:
    """Return the w that makes the densities w p + (1 - w) q likeliest.

    >>> share_beside(np.array([1.0, 1.0]), np.array([0.5, 2.0]), np.ones(2)) > 0.4
    True
    """

    def loss(share: float) -> float:
        mixed = np.maximum(share * densities + (1.0 - share) * rival, 1e-300)
        return -float(weights @ np.log(mixed))

    return float(minimize_scalar(loss, bounds=(0.0, 1.0), method="bounded").x)


def shortest_length(least_scale: Array, ridge: float | None = None) -> Array:
    """Return the least cut-off length that an output kernel of a least scale can have.

    With a ridge α' that is given, or with the one that sharpens most.
    """
    return least_scale / scale_per_length(ridge or float(np.exp(RIDGE_RANGE[0])))


def ridge_above(least_scale: ArrayLike, log_lengths: ArrayLike, log_ridge: float) -> float:
    """Return log α', lowered where a kernel of these cut-off lengths would be below its floor.

    >>> ridge_above(0.0, 0.0, 1.0)
    1.0
    """
    exponent = float(np.max(0.5 * (np.asarray(least_scale) / np.exp(log_lengths)) ** 2))
    if exponent <= np.log(2.0):
        return log_ridge
    return float(np.clip(-np.log(np.exp(exponent) - 2.0), RIDGE_RANGE[0], log_ridge))


@dataclass(frozen=True, eq=False)
class _WithPrior:
    """An objective with a Gaussian prior of the log scales, which counts as one of n observations.

    The loss of a few hundred rows says little about scales that hardly matter: they stay near the
    centre.
    """

    objective: HeldOutLoss
    centre: Array
    n: int

    def __call__(self, theta: Array) -> tuple[float, Array]:
        value, gradient = self.objective(theta)
        offset = theta[: len(self.centre)] - self.centre
        gradient = gradient.copy()
        gradient[: len(offset)] += offset / (_SCALE_PRIOR**2 * self.n)
        return value + 0.5 * float(offset @ offset) / (_SCALE_PRIOR**2 * self.n), gradient


def bounds_of(given: float | None, otherwise: tuple[float, float]) -> tuple[float, float]:
    """Return bounds of a logarithm: of the number itself where it is given."""
    return otherwise if given is None else (float(np.log(given)), float(np.log(given)))


def length_bounds(outputs: OutputFamily, least: Array) -> list[tuple[float, float]]:
    """Return bounds of the log cut-off lengths: resolved by the nodes, and not above the range."""
    low = np.maximum(_FINEST * outputs.spacing / outputs.shape, least)
    high = np.ptp(outputs.measure.nodes, axis=0) / outputs.shape
    if outputs.n_lengths < len(low):
        low, high = low.max(keepdims=True), high.max(keepdims=True)
    return [(np.log(a), max(np.log(b), np.log(a) + 0.1)) for a, b in zip(low, high, strict=True)]
