"""Maps of outputs that have bounds onto the whole line.

Where outputs lie on a bound, a map has a margin: it begins so far beyond the bound, and what it
maps back to a place in the margin is told as the bound. A distribution then has a probability on
the bound itself, in its distribution function, quantiles, draws and moments alike.
"""

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
NUDGE = 1e-3  # the margin where outputs lie on a bound, in units of that; or how far they are moved
_ROUNDING = 1.0 + 1e-9  # so near to a bound with a margin, an output lies on it
SHARE_NUDGE = FELT * NUDGE  # the same between two bounds, in widths


class _OneBound(Transform):
    """One bound: T(y) = ±s log(exp(u) - 1) of the distance u = ±(y - bound)/s from it.

    The sign is + for outputs above the bound and - below it. Far from the bound T is a straight
    line of slope 1.
    """

    scale: float
    hair: float
    margin: float
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
        if not 0.0 <= self.margin < 1.0:
            raise InvalidInputError(
                f"the margin of a bound must be below 1 scale; got {self.margin!r}."
            )

    def forward(self, y: Array) -> Array:
        """Return ±s log(expm1(u)), as ±s (u + log(1 - e⁻ᵘ))."""
        u, hair = self._distance(y), self._hair
        beyond = np.maximum(u, hair.start)
        tau = np.where(u < hair.start, hair.forward(u), beyond + np.log(-np.expm1(-beyond)))
        return self._side * self.scale * tau

    def inverse(self, t: Array) -> Array:
        """Return bound ± s log(1 + exp(±t/s)); the bound in place of the margin."""
        tau, hair = self._side * t / self.scale, self._hair
        u = np.where(tau < hair.level, hair.inverse(tau), np.logaddexp(0.0, tau))
        u = np.where(u > self.margin * _ROUNDING, u - self.margin, 0.0)
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
        """Return T where the hair beside the bound begins, and on a bound with a margin."""
        hair = np.array([self._side * self.scale * self._hair.level])
        on_bound = self.forward(np.full(int(self.margin > 0), self._bound))
        return np.unique(np.append(hair, on_bound))

    def off_bounds(self, y: Array) -> Array:
        """Return y with entries on the bound moved inside, if there is no margin."""
        if self.margin > 0:
            return y
        return np.where(y == self._bound, self._bound + self._side * NUDGE * self.scale, y)

    def inside(self, y: Array) -> NDArray[np.bool_]:
        """Whether each entry is finite and on its side of the bound, or on one with a margin."""
        away = self._side * (y - self._bound)
        there = away >= 0 if self.margin > 0 else away > 0
        return there & (self._side * y < np.inf)

    def _distance(self, y: Array) -> Array:
        """Return how far from where the map begins, in scales; at most 0 beyond the bound."""
        u = self._side * (y - self._bound) / self.scale
        return np.where(u < 0, u, u + self.margin)

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
        How near to where it begins T goes on as -1/distance, in scales
        (:mod:`kcdo.transforms.near_bounds`).
    margin : float
        How far beyond the bound T begins, in scales; 0 where no outputs lie on the bound.

    Examples
    --------
    >>> transform = Above(0.0, scale=0.1)
    >>> transform.forward(np.array([0.01, 2.0])).round(4)
    array([-0.2252,  2.    ])
    >>> Above(0.0, scale=0.1, margin=1e-3).inverse(np.array([-9.0, 2.0])).round(4)
    array([0.    , 1.9999])
    """

    lower: float
    scale: float
    hair: float = NUDGE
    margin: float = 0.0
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
    margin: float = 0.0
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
        How near to where it begins and ends T goes on as -1/distance, in widths
        (:mod:`kcdo.transforms.near_bounds`).
    lower_margin, upper_margin : float
        How far beyond the bounds T begins and ends, in widths; 0 where no outputs lie on one.

    Examples
    --------
    >>> Between(0.0, 4.0).inverse(np.array([-np.inf, 0.0, np.inf]))
    array([0., 2., 4.])
    """

    lower: float
    upper: float
    lower_hair: float = SHARE_NUDGE
    upper_hair: float = SHARE_NUDGE
    lower_margin: float = 0.0
    upper_margin: float = 0.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.lower) and np.isfinite(self.upper) and self.lower < self.upper):
            raise InvalidInputError(
                f"bounds must be finite, lower below upper; got {self.lower!r} and {self.upper!r}."
            )
        for hair in (self.lower_hair, self.upper_hair):
            if not 0.0 < hair < 0.5:
                raise InvalidInputError(f"a hair between bounds must be below 0.5; got {hair!r}.")
        for margin in (self.lower_margin, self.upper_margin):
            if not 0.0 <= margin < 0.5:
                raise InvalidInputError(
                    f"a margin beside bounds must be below 0.5; got {margin!r}."
                )

    def forward(self, y: Array) -> Array:
        """Return log(y - lower) - log(upper - y)."""
        (below, above), (first, last) = self._shares(y), self._hairs
        with np.errstate(divide="ignore"):
            middle = np.log(np.maximum(below, 0.0)) - np.log(np.maximum(above, 0.0))
        low, high = first.forward(below), -last.forward(above)
        return np.where(below < first.start, low, np.where(above < last.start, high, middle))

    def inverse(self, t: Array) -> Array:
        """Return lower + (upper - lower)/(1 + exp(-t))."""
        (begin, end), (first, last) = self._ends, self._hairs
        width = end - begin
        low, high = begin + width * first.inverse(t), end - width * last.inverse(-t)
        middle = begin + width * expit(t)
        y = np.where(t < first.level, low, np.where(-t < last.level, high, middle))
        width = self.upper - self.lower
        y = np.where(y < self.lower + (_ROUNDING - 1.0) * self.lower_margin * width, self.lower, y)
        last_place = self.upper - (_ROUNDING - 1.0) * self.upper_margin * width
        return np.where(y > last_place, self.upper, y)

    def log_derivative(self, y: Array) -> Array:
        """Return log of (upper - lower)/((y - lower)(upper - y))."""
        (below, above), (first, last) = self._shares(y), self._hairs
        low, high = first.log_derivative(below), last.log_derivative(above)
        middle = -np.log(below) - np.log(above)
        slope = np.where(below < first.start, low, np.where(above < last.start, high, middle))
        return slope - np.log(self._width)

    def log_slope(self, t: Array) -> Array:
        """Return log of (1 + exp(t))(1 + exp(-t))/(upper - lower)."""
        first, last = self._hairs
        low, high = first.log_slope(t), last.log_slope(-t)
        middle = np.logaddexp(0.0, t) + np.logaddexp(0.0, -t)
        slope = np.where(t < first.level, low, np.where(-t < last.level, high, middle))
        return slope - np.log(self._width)

    def kinks(self) -> Array:
        """Return T where the hairs beside the bounds begin, and on bounds that have a margin."""
        first, last = self._hairs
        margins = np.array([self.lower_margin, self.upper_margin])
        on_bounds = self.forward(np.array([self.lower, self.upper])[margins > 0])
        return np.unique(np.append([first.level, -last.level], on_bounds))

    @property
    def _hairs(self) -> tuple[Hair, Hair]:
        return _share_hair(self.lower_hair), _share_hair(self.upper_hair)

    @property
    def _ends(self) -> tuple[float, float]:
        """Where the map begins and ends."""
        width = self.upper - self.lower
        return self.lower - self.lower_margin * width, self.upper + self.upper_margin * width

    @property
    def _width(self) -> float:
        begin, end = self._ends
        return end - begin

    def _shares(self, y: Array) -> tuple[Array, Array]:
        """Return the distances to both ends of the map, in its width; at most 0 beyond a bound."""
        begin, end = self._ends
        y = np.where(y < self.lower, np.minimum(y, begin), y)
        y = np.where(y > self.upper, np.maximum(y, end), y)
        return (y - begin) / self._width, (end - y) / self._width

    def off_bounds(self, y: Array) -> Array:
        """Return y with entries on a bound moved inside, if it has no margin."""
        nudge = SHARE_NUDGE * (self.upper - self.lower)
        if not self.lower_margin:
            y = np.where(y == self.lower, self.lower + nudge, y)
        return y if self.upper_margin else np.where(y == self.upper, self.upper - nudge, y)

    def inside(self, y: Array) -> NDArray[np.bool_]:
        """Whether lower < y < upper, or on a bound that has a margin."""
        above = y >= self.lower if self.lower_margin else y > self.lower
        below = y <= self.upper if self.upper_margin else y < self.upper
        return above & below


def _share_hair(start: float) -> Hair:
    """Return the hair that goes on from log(u/(1 - u))."""
    return Hair(start, float(np.log(start / (1.0 - start))), 1.0 / (1.0 - start))
