"""Maps of outputs that have bounds onto the whole line."""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError
from kcdo.transforms.base import Transform
from kcdo.transforms.near_bounds import Hair

FELT = 0.5  # how near a bound is felt, in sds of the output
NUDGE = 1e-3  # outputs on a bound are moved inside by so much of that
SHARE_NUDGE = FELT * NUDGE  # the same between two bounds, in widths


class _OneBound(Transform):
    """One bound: T(y) = ±s log(exp(u) - 1) of the distance u = ±(y - bound)/s from it.

    The sign is + for outputs above the bound and - below it. Far from the bound T is a straight
    line of slope 1.
    """

    scale: float
    hair: float
    _side: float  # 1 for outputs above the bound, -1 below it

    @property
    @abstractmethod
    def _bound(self) -> float: ...

    def __post_init__(self) -> None:
        if not np.isfinite(self._bound):
            raise InvalidInputError(
                f"a bound must be finite; got {self._bound!r}: use Identity for none."
            )
        if not (np.isfinite(self.scale) and self.scale > 0):
            raise InvalidInputError(f"the scale of a bound must be positive; got {self.scale!r}.")
        if not 0.0 < self.hair < 1.0:
            raise InvalidInputError(
                f"the hair beside a bound must be below 1 scale; got {self.hair!r}."
            )

    def forward(self, y: Array) -> Array:
        """Return ±s log(expm1(u)), as ±s (u + log(1 - e⁻ᵘ))."""
        u, hair = self._distance(y), self._hair
        beyond = np.maximum(u, hair.start)
        tau = np.where(u < hair.start, hair.forward(u), beyond + np.log(-np.expm1(-beyond)))
        return self._side * self.scale * tau

    def inverse(self, t: Array) -> Array:
        """Return bound ± s log(1 + exp(±t/s))."""
        tau, hair = self._side * t / self.scale, self._hair
        u = np.where(tau < hair.level, hair.inverse(tau), np.logaddexp(0.0, tau))
        return self._bound + self._side * self.scale * u

    def log_derivative(self, y: Array) -> Array:
        """Return -log(1 - exp(-u))."""
        u, hair = self._distance(y), self._hair
        beyond = np.maximum(u, hair.start)
        return np.where(u < hair.start, hair.log_derivative(u), -np.log(-np.expm1(-beyond)))

    def log_slope(self, t: Array) -> Array:
        """Return log(1 + exp(-(±t)/s))."""
        tau, hair = self._side * t / self.scale, self._hair
        return np.where(tau < hair.level, hair.log_slope(tau), np.logaddexp(0.0, -tau))

    def kinks(self) -> Array:
        """Return T where the hair beside the bound begins."""
        return np.array([self._side * self.scale * self._hair.level])

    def off_bounds(self, y: Array) -> Array:
        """Return y with entries on the bound moved inside."""
        return np.where(y == self._bound, self._bound + self._side * NUDGE * self.scale, y)

    def inside(self, y: Array) -> NDArray[np.bool_]:
        """Whether each entry is finite and on its side of the bound."""
        return (self._side * (y - self._bound) > 0) & (self._side * y < np.inf)

    def _distance(self, y: Array) -> Array:
        return self._side * (y - self._bound) / self.scale

    @property
    def _hair(self) -> Hair:
        """The hair that goes on from log(exp(u) - 1)."""
        start = self.hair
        return Hair(start, float(np.log(np.expm1(start))), start / -float(np.expm1(-start)))


@dataclass(frozen=True)
class Above(_OneBound):
    """Outputs above a bound: T(y) = s log(exp((y - lower)/s) - 1), y - lower far above the bound.

    Parameters
    ----------
    lower : float
        The bound.
    scale : float
        s: how near the bound is felt.
    hair : float
        How near to the bound T goes on as -1/distance, in scales
        (:mod:`kcdo.transforms.near_bounds`).

    Examples
    --------
    >>> transform = Above(0.0, scale=0.1)
    >>> transform.forward(np.array([0.01, 2.0])).round(4)
    array([-0.2252,  2.    ])
    """

    lower: float
    scale: float
    hair: float = NUDGE
    _side = 1.0

    @property
    def _bound(self) -> float:
        return self.lower


@dataclass(frozen=True)
class Below(_OneBound):
    """Outputs below a bound: the mirror image of :class:`Above`.

    >>> Below(1.0, scale=0.1).forward(np.array([-2.0, 0.99])).round(4)
    array([-3.    ,  0.2252])
    """

    upper: float
    scale: float
    hair: float = NUDGE
    _side = -1.0

    @property
    def _bound(self) -> float:
        return self.upper


@dataclass(frozen=True)
class Between(Transform):
    """Outputs between two bounds: T(y) = log((y - lower)/(upper - y)).

    Parameters
    ----------
    lower, upper : float
        The bounds.
    lower_hair, upper_hair : float
        How near to each of them T goes on as -1/distance, in widths
        (:mod:`kcdo.transforms.near_bounds`).

    Examples
    --------
    >>> Between(0.0, 4.0).inverse(np.array([-np.inf, 0.0, np.inf]))
    array([0., 2., 4.])
    """

    lower: float
    upper: float
    lower_hair: float = SHARE_NUDGE
    upper_hair: float = SHARE_NUDGE

    def __post_init__(self) -> None:
        if not (np.isfinite(self.lower) and np.isfinite(self.upper) and self.lower < self.upper):
            raise InvalidInputError(
                f"bounds must be finite, lower below upper; got {self.lower!r} and {self.upper!r}."
            )
        for hair in (self.lower_hair, self.upper_hair):
            if not 0.0 < hair < 0.5:
                raise InvalidInputError(f"a hair between bounds must be below 0.5; got {hair!r}.")

    def forward(self, y: Array) -> Array:
        """Return log(y - lower) - log(upper - y)."""
        (below, above), (first, last) = self._shares(y), self._hairs
        with np.errstate(divide="ignore"):
            middle = np.log(np.maximum(below, 0.0)) - np.log(np.maximum(above, 0.0))
        low, high = first.forward(below), -last.forward(above)
        return np.where(below < first.start, low, np.where(above < last.start, high, middle))

    def inverse(self, t: Array) -> Array:
        """Return lower + (upper - lower)/(1 + exp(-t))."""
        width, (first, last) = self.upper - self.lower, self._hairs
        low = self.lower + width * first.inverse(t)
        high = self.upper - width * last.inverse(-t)
        middle = self.lower + width * expit(t)
        return np.where(t < first.level, low, np.where(-t < last.level, high, middle))

    def log_derivative(self, y: Array) -> Array:
        """Return log of (upper - lower)/((y - lower)(upper - y))."""
        (below, above), (first, last) = self._shares(y), self._hairs
        low, high = first.log_derivative(below), last.log_derivative(above)
        middle = -np.log(below) - np.log(above)
        slope = np.where(below < first.start, low, np.where(above < last.start, high, middle))
        return slope - np.log(self.upper - self.lower)

    def log_slope(self, t: Array) -> Array:
        """Return log of (1 + exp(t))(1 + exp(-t))/(upper - lower)."""
        first, last = self._hairs
        low, high = first.log_slope(t), last.log_slope(-t)
        middle = np.logaddexp(0.0, t) + np.logaddexp(0.0, -t)
        slope = np.where(t < first.level, low, np.where(-t < last.level, high, middle))
        return slope - np.log(self.upper - self.lower)

    def kinks(self) -> Array:
        """Return T where the hairs beside the bounds begin."""
        first, last = self._hairs
        return np.array([first.level, -last.level])

    @property
    def _hairs(self) -> tuple[Hair, Hair]:
        return _share_hair(self.lower_hair), _share_hair(self.upper_hair)

    def _shares(self, y: Array) -> tuple[Array, Array]:
        """Return the distances to both bounds, in widths."""
        width = self.upper - self.lower
        return (y - self.lower) / width, (self.upper - y) / width

    def off_bounds(self, y: Array) -> Array:
        """Return y with entries on a bound moved inside."""
        nudge = SHARE_NUDGE * (self.upper - self.lower)
        y = np.where(y == self.lower, self.lower + nudge, y)
        return np.where(y == self.upper, self.upper - nudge, y)

    def inside(self, y: Array) -> NDArray[np.bool_]:
        """Whether lower < y < upper."""
        return (y > self.lower) & (y < self.upper)


def _share_hair(start: float) -> Hair:
    """Return the hair that goes on from log(u/(1 - u))."""
    return Hair(start, float(np.log(start / (1.0 - start))), 1.0 / (1.0 - start))
