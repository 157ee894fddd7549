"""Strictly increasing maps of outputs, for outputs that have bounds.

A model of T(y) on the whole line is a model of y between its bounds. Arrays are (..., d), one
column per output.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr, ndtri

from kcdo.arrays import Array
from kcdo.consistency import need
from kcdo.errors import InvalidInputError
from kcdo.near_bounds import Hair
from kcdo.splines import MonotoneSpline

_FELT = 0.5  # how near a bound is felt, in sds of the output
_NUDGE = 1e-3  # outputs on a bound are moved inside by so much of that
_SHARE_NUDGE = _FELT * _NUDGE  # the same between two bounds, in widths
_HAIR_SHARE = 0.25  # of the distance of the nearest output from a bound: where a hair begins
_WIDEST_HAIR = 0.25  # in units of how near a bound is felt


class Transform(ABC):
    """A map T of each column onto the whole line, smooth and strictly increasing."""

    #: whether T⁻¹ grows no faster than a line, so that a few points give moments through it
    nearly_linear = False

    @abstractmethod
    def forward(self, y: Array) -> Array:
        """T(y); -inf and inf at the bounds and beyond them."""

    @abstractmethod
    def inverse(self, t: Array) -> Array:
        """T⁻¹(t)."""

    @abstractmethod
    def log_derivative(self, y: Array) -> Array:
        """Logarithm of T'(y), for y strictly within the bounds."""

    @abstractmethod
    def log_slope(self, t: Array) -> Array:
        """Logarithm of T'(y) at y = T⁻¹(t), finite even where y is a bound but for rounding."""

    @abstractmethod
    def inside(self, y: Array) -> NDArray[np.bool_]:
        """Whether each entry lies strictly within the bounds."""

    def kinks(self) -> Array:
        """Return the values of T, (K,), between which it is smooth: its slope is continuous there.

        Integrals are cut there. Of one column.
        """
        return np.empty(0)

    def off_bounds(self, y: Array) -> Array:
        """Return y with entries that lie exactly on a bound moved inside."""
        return y

    def of_columns(self, dims: Sequence[int]) -> "Transform":
        """Return the map of some columns."""
        return self


@dataclass(frozen=True)
class Identity(Transform):
    """No bounds: T(y) = y."""

    def forward(self, y: Array) -> Array:
        """Return y."""
        return y

    def inverse(self, t: Array) -> Array:
        """Return t."""
        return t

    def log_derivative(self, y: Array) -> Array:
        """Return zeros."""
        return np.zeros_like(y)

    def log_slope(self, t: Array) -> Array:
        """Return zeros."""
        return np.zeros_like(t)

    def inside(self, y: Array) -> NDArray[np.bool_]:
        """Return True for every number that is finite."""
        return np.isfinite(y)


@dataclass(frozen=True)
class Above(Transform):
    """Outputs above a bound: T(y) = s log(exp((y - lower)/s) - 1), y - lower far above the bound.

    Parameters
    ----------
    lower : float
        The bound.
    scale : float
        s: how near the bound is felt.
    hair : float
        How near to the bound T goes on as -1/distance, in scales (:mod:`kcdo.near_bounds`).

    Examples
    --------
    >>> transform = Above(0.0, scale=0.1)
    >>> transform.forward(np.array([0.01, 2.0])).round(4)
    array([-0.2252,  2.    ])
    """

    lower: float
    scale: float
    hair: float = _NUDGE

    def __post_init__(self) -> None:
        _check_bound(self.lower, self.scale, self.hair)

    def forward(self, y: Array) -> Array:
        """Return s log(expm1(u)), u = (y - lower)/s, as s (u + log(1 - e⁻ᵘ))."""
        return self.scale * _from_distance((y - self.lower) / self.scale, _hair(self.hair))

    def inverse(self, t: Array) -> Array:
        """Return lower + s log(1 + exp(t/s))."""
        return self.lower + self.scale * _to_distance(t / self.scale, _hair(self.hair))

    def log_derivative(self, y: Array) -> Array:
        """Return -log(1 - exp(-(y - lower)/s))."""
        return _log_derivative((y - self.lower) / self.scale, _hair(self.hair))

    def log_slope(self, t: Array) -> Array:
        """Return log(1 + exp(-t/s))."""
        return _log_slope(t / self.scale, _hair(self.hair))

    def kinks(self) -> Array:
        """Return T where the hair beside the bound begins."""
        return np.array([self.scale * _hair(self.hair).level])

    def off_bounds(self, y: Array) -> Array:
        """Return y with entries on the bound moved inside."""
        return np.where(y == self.lower, self.lower + _NUDGE * self.scale, y)

    def inside(self, y: Array) -> NDArray[np.bool_]:
        """Whether lower < y < inf."""
        return (y > self.lower) & (y < np.inf)


@dataclass(frozen=True)
class Below(Transform):
    """Outputs below a bound: the mirror image of :class:`Above`.

    >>> Below(1.0, scale=0.1).forward(np.array([-2.0, 0.99])).round(4)
    array([-3.    ,  0.2252])
    """

    upper: float
    scale: float
    hair: float = _NUDGE

    def __post_init__(self) -> None:
        _check_bound(self.upper, self.scale, self.hair)

    def forward(self, y: Array) -> Array:
        """Return -s log(expm1((upper - y)/s))."""
        return -self.scale * _from_distance((self.upper - y) / self.scale, _hair(self.hair))

    def inverse(self, t: Array) -> Array:
        """Return upper - s log(1 + exp(-t/s))."""
        return self.upper - self.scale * _to_distance(-t / self.scale, _hair(self.hair))

    def log_derivative(self, y: Array) -> Array:
        """Return -log(1 - exp(-(upper - y)/s))."""
        return _log_derivative((self.upper - y) / self.scale, _hair(self.hair))

    def log_slope(self, t: Array) -> Array:
        """Return log(1 + exp(t/s))."""
        return _log_slope(-t / self.scale, _hair(self.hair))

    def kinks(self) -> Array:
        """Return T where the hair beside the bound begins."""
        return np.array([-self.scale * _hair(self.hair).level])

    def off_bounds(self, y: Array) -> Array:
        """Return y with entries on the bound moved inside."""
        return np.where(y == self.upper, self.upper - _NUDGE * self.scale, y)

    def inside(self, y: Array) -> NDArray[np.bool_]:
        """Whether -inf < y < upper."""
        return (y > -np.inf) & (y < self.upper)


@dataclass(frozen=True)
class Between(Transform):
    """Outputs between two bounds: T(y) = log((y - lower)/(upper - y)).

    Parameters
    ----------
    lower, upper : float
        The bounds.
    lower_hair, upper_hair : float
        How near to each of them T goes on as -1/distance, in widths (:mod:`kcdo.near_bounds`).

    Examples
    --------
    >>> Between(0.0, 4.0).inverse(np.array([-np.inf, 0.0, np.inf]))
    array([0., 2., 4.])
    """

    lower: float
    upper: float
    lower_hair: float = _SHARE_NUDGE
    upper_hair: float = _SHARE_NUDGE

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
        nudge = _SHARE_NUDGE * (self.upper - self.lower)
        y = np.where(y == self.lower, self.lower + nudge, y)
        return np.where(y == self.upper, self.upper - nudge, y)

    def inside(self, y: Array) -> NDArray[np.bool_]:
        """Whether lower < y < upper."""
        return (y > self.lower) & (y < self.upper)


@dataclass(frozen=True)
class Columns(Transform):
    """One map per output column.

    >>> Columns((Identity(), Between(0.0, 1.0))).forward(np.array([[3.0, 0.5]]))
    array([[3., 0.]])
    """

    parts: tuple[Transform, ...]

    def __post_init__(self) -> None:
        need(self.parts, "a transform of no outputs")
        nested = any(isinstance(part, Columns) for part in self.parts)
        need(not nested, "transforms in transforms")

    def forward(self, y: Array) -> Array:
        """Return T_i(y_i) of each column."""
        return self._each("forward", y)

    def inverse(self, t: Array) -> Array:
        """Return T_i⁻¹(t_i) of each column."""
        return self._each("inverse", t)

    def log_derivative(self, y: Array) -> Array:
        """Return log T_i'(y_i) of each column."""
        return self._each("log_derivative", y)

    def log_slope(self, t: Array) -> Array:
        """Return log T_i'(y_i) at y_i = T_i⁻¹(t_i) of each column."""
        return self._each("log_slope", t)

    def kinks(self) -> Array:
        """Return the kinks of the one map there is."""
        (part,) = self.parts
        return part.kinks()

    def off_bounds(self, y: Array) -> Array:
        """Return y with entries on a bound of their column moved inside."""
        return self._each("off_bounds", y)

    def inside(self, y: Array) -> NDArray[np.bool_]:
        """Whether each entry lies within its column's bounds."""
        return self._each("inside", y)

    def of_columns(self, dims: Sequence[int]) -> "Columns":
        """Return the maps of some columns."""
        return Columns(tuple(self.parts[i] for i in dims))

    def _each(self, method: str, values: Array) -> Any:
        if values.shape[-1:] != (len(self.parts),):
            raise InvalidInputError(
                f"{len(self.parts)} transforms need (..., {len(self.parts)}) values; got "
                f"{values.shape}."
            )
        columns = [getattr(part, method)(values[..., i]) for i, part in enumerate(self.parts)]
        return np.stack(columns, axis=-1)


def _hair(start: float) -> Hair:
    """Return the hair that goes on from log(exp(u) - 1)."""
    return Hair(start, float(np.log(np.expm1(start))), start / -float(np.expm1(-start)))


def _share_hair(start: float) -> Hair:
    """Return the hair that goes on from log(u/(1 - u))."""
    return Hair(start, float(np.log(start / (1.0 - start))), 1.0 / (1.0 - start))


def _from_distance(u: Array, hair: Hair) -> Array:
    """Return log(exp(u) - 1) for a distance u from a bound, in scales; -inf for u <= 0."""
    beyond = np.maximum(u, hair.start)
    return np.where(u < hair.start, hair.forward(u), beyond + np.log(-np.expm1(-beyond)))


def _to_distance(tau: Array, hair: Hair) -> Array:
    """Return the distance log(1 + exp(τ))."""
    return np.where(tau < hair.level, hair.inverse(tau), np.logaddexp(0.0, tau))


def _log_derivative(u: Array, hair: Hair) -> Array:
    """Return the logarithm of dτ/du at a distance u."""
    beyond = np.maximum(u, hair.start)
    return np.where(u < hair.start, hair.log_derivative(u), -np.log(-np.expm1(-beyond)))


def _log_slope(tau: Array, hair: Hair) -> Array:
    """Return the logarithm of dτ/du at τ."""
    return np.where(tau < hair.level, hair.log_slope(tau), np.logaddexp(0.0, -tau))


def _check_bound(bound: float, scale: float, hair: float) -> None:
    if not np.isfinite(bound):
        raise InvalidInputError(f"a bound must be finite; got {bound!r}: use Identity for none.")
    if not (np.isfinite(scale) and scale > 0):
        raise InvalidInputError(f"the scale of a bound must be positive; got {scale!r}.")
    if not 0.0 < hair < 1.0:
        raise InvalidInputError(f"the hair beside a bound must be below 1 scale; got {hair!r}.")


Bounds = tuple[float | None, float | None]
Support = Bounds | Sequence[Bounds]


def transform_for(
    support: Support, Y: Array, weights: Array | None = None, ends: Array | None = None
) -> Columns:
    """Return the map that declared bounds ask for; outputs tell how near a bound is felt.

    The hair beside a bound ends before the nearest output, so that what a fit knows nothing about
    has no density to speak of; ``ends`` (2, d) are the smallest and largest outputs, where Y is but
    a sample.

    Examples
    --------
    >>> transform_for((0.0, None), np.array([[0.0], [1.0], [3.0]])).parts[0].lower
    0.0
    """
    pairs = _bounds(support, Y.shape[1])
    weights = np.ones(len(Y)) if weights is None else weights
    sds = (_sd_in_any_order(y, weights) or 1.0 for y in Y.T)
    ends = np.stack([Y.min(axis=0), Y.max(axis=0)]) if ends is None else ends
    each = zip(pairs, sds, ends.T, strict=True)
    return Columns(tuple(_part(pair, _FELT * sd, *nearest) for pair, sd, nearest in each))


def _sd_in_any_order(y: Array, weights: Array) -> float:
    """Return the standard deviation, to the last bit the same for permuted rows."""
    order = np.lexsort((weights, y))
    y, share = y[order], weights[order] / weights[order].sum()
    return float(np.sqrt(share @ (y - share @ y) ** 2))


def _part(bounds: Bounds, scale: float, least: float, greatest: float) -> Transform:
    """Return the map of one output, by the smallest and the largest there is."""
    lower, upper = bounds
    if lower is not None and upper is not None:
        width = float(upper) - float(lower)
        below = _hair_start((least - lower) / width, _SHARE_NUDGE, _FELT * _WIDEST_HAIR)
        above = _hair_start((upper - greatest) / width, _SHARE_NUDGE, _FELT * _WIDEST_HAIR)
        return Between(float(lower), float(upper), below, above)
    if lower is not None:
        start = _hair_start((least - lower) / scale, _NUDGE, _WIDEST_HAIR)
        return Above(float(lower), scale, start)
    if upper is not None:
        start = _hair_start((upper - greatest) / scale, _NUDGE, _WIDEST_HAIR)
        return Below(float(upper), scale, start)
    return Identity()


def _hair_start(nearest: float, least: float, most: float) -> float:
    """Return where a hair begins, by the distance of the nearest output from the bound."""
    return float(np.clip(_HAIR_SHARE * nearest, least, most))


def strictly_inside(transform: Columns, Y: Array) -> Array:
    """Return outputs with those on a bound moved inside; raise if any lies beyond its bounds.

    Examples
    --------
    >>> strictly_inside(Columns((Above(0.0, scale=0.1),)), np.array([[0.0], [2.0]]))
    array([[1.e-04],
           [2.e+00]])
    """
    for i, part in enumerate(transform.parts):
        low, high = getattr(part, "lower", -np.inf), getattr(part, "upper", np.inf)
        beyond = int(np.sum((Y[:, i] < low) | (Y[:, i] > high)))
        if beyond:
            raise InvalidInputError(
                f"{beyond} values of output {i} lie outside its support [{low:g}, {high:g}]."
            )
    return transform.off_bounds(Y)


def _bounds(support: Support, d: int) -> list[Bounds]:
    """Return one pair of bounds per output; infinite bounds count as none."""
    given = support.tolist() if isinstance(support, np.ndarray) else support
    nested = isinstance(given, Sequence) and any(isinstance(part, Sequence) for part in given)
    pairs: Any = given if nested else [given] * d
    if len(pairs) != d or not all(isinstance(p, Sequence) and len(p) == 2 for p in pairs):
        raise InvalidInputError(
            f"support must be (lower, upper), or one such pair for each of {d} outputs; got "
            f"{support!r}."
        )
    return [(None if a == -np.inf else a, None if b == np.inf else b) for a, b in pairs]


@dataclass(frozen=True, eq=False)
class Tabulated(Transform):
    """A map given by knots: once continuously differentiable, straight beyond the outermost.

    Between knots it is a monotone rational quadratic spline (Gregory and Delbourgo, 1982), which
    has an inverse and a derivative in closed form. Its slope at a knot is a geometric mean of
    those of the chords beside it, so that it never leaves the range of theirs by much. Two knots
    make a straight line.

    Parameters
    ----------
    places, values : (K,)
        y and T(y), both strictly increasing.

    Examples
    --------
    >>> table = Tabulated(np.array([0.0, 1.0, 3.0]), np.array([0.0, 2.0, 3.0]))
    >>> table.forward(np.array([-1.0, 0.5, 5.0])).round(3)
    array([-3.175,  1.227,  3.397])
    >>> table.inverse(table.forward(np.array([-1.0, 0.5, 5.0])))
    array([-1. ,  0.5,  5. ])
    """

    places: Array
    values: Array

    def __post_init__(self) -> None:
        shapes_fit = self.places.ndim == 1 and self.places.shape == self.values.shape
        if not (shapes_fit and len(self.places) >= 2):
            raise InvalidInputError("Tabulated: places and values must be as many, at least two.")
        if not all(np.all(np.diff(knots) > 0) for knots in (self.places, self.values)):
            raise InvalidInputError("Tabulated: places and values must increase.")

    def forward(self, y: Array) -> Array:
        """Return T(y)."""
        return self._spline.forward(y)

    def inverse(self, t: Array) -> Array:
        """Return T⁻¹(t)."""
        return self._spline.inverse(t)

    def log_derivative(self, y: Array) -> Array:
        """Return the logarithm of T'(y)."""
        return self._spline.log_derivative(y)

    def log_slope(self, t: Array) -> Array:
        """Return the logarithm of T'(y) at y = T⁻¹(t)."""
        return self._spline.log_slope(t)

    @cached_property
    def _spline(self) -> MonotoneSpline:
        return MonotoneSpline(self.places, self.values)

    nearly_linear = True

    @property
    def is_straight(self) -> bool:
        """Whether the map is one straight line."""
        return len(self.places) == 2

    def kinks(self) -> Array:
        """Return the values at the knots, where the curvature jumps, and others at sharp bends."""
        return self._spline.cuts()

    def inside(self, y: Array) -> NDArray[np.bool_]:
        """Return True for every number that is finite."""
        return np.isfinite(y)


_LOOKS = 400  # places at which a distribution function is smoothed
_KNOT_STEP = 0.15  # from knot to knot, in scores and units of asinh together
_FARTHEST = 6.0  # interquartile ranges beyond the quartiles up to which a table reaches
_TABLE_BANDWIDTH = 1.0  # less than that leaves ripples, which would be modes of densities
_SMOOTHINGS = 4  # the wider the bandwidth, the more of them it takes to follow sudden ends
_OUTER = 1.0  # normal scores beyond which a table is in its outer parts
_QUARTILES = np.array([0.25, 0.5, 0.75])


def normal_scores(y: Array, weights: Array | None = None) -> Tabulated:
    """Return the map of outputs (N,) to normal scores: Φ⁻¹ of their smoothed distribution.

    It begins with asinh about the median and is smoothed again in its own scores, so that outputs
    are resolved where they are dense; outliers far beyond lie on the straight continuation.
    """
    weights = np.ones(len(y)) if weights is None else weights
    share = weights / weights.sum()
    quarter, middle, upper = _weighted_quantiles(y, share, _QUARTILES)
    spread = (upper - quarter) / 1.349 or float(np.sqrt(np.cov(y, aweights=share))) or 1.0
    scores = np.arcsinh((y - middle) / spread)
    low, _, high = _weighted_quantiles(scores, share, _QUARTILES)
    reach = _FARTHEST * max(high - low, 0.5)
    scores = np.clip(scores, low - reach, high + reach)
    first = knots = np.linspace(scores.min() - 0.3, scores.max() + 0.3, _LOOKS)
    for _ in range(_SMOOTHINGS):
        level = _smooth_level(scores, share, knots)
        new_knots = ndtri(level)
        scores, knots = np.interp(scores, knots, new_knots), new_knots
    places = middle + spread * np.sinh(first)
    kept = np.append(True, (np.diff(knots) > 1e-9) & (np.diff(places) > 0))
    kept[kept] = _spaced((first + knots)[kept], _KNOT_STEP)
    return _continued(places[kept], knots[kept], float(scores.min()), float(scores.max()))


def _spaced(values: Array, step: float) -> NDArray[np.bool_]:
    """Return which of increasing values to keep: about one in each step, and both ends."""
    steps = np.floor((values - values[0]) / step)
    return np.append(True, np.diff(steps) > 0) | (np.arange(len(values)) == len(values) - 1)


def _continued(places: Array, knots: Array, first: float, last: float) -> Tabulated:
    """Return the table between the outermost scores, continued as steeply as its outer parts.

    Beyond the data the slope of a smoothed distribution function is but that of its smoothing. Over
    one more score it turns from the one at the end into that of the outer part, which holds beyond.
    """
    first, last = min(first, -2.0 * _OUTER), max(last, 2.0 * _OUTER)
    inside = (knots >= first) & (knots <= last)
    if inside.sum() < 2 or np.abs(knots[inside][[0, -1]]).min() < 1.5 * _OUTER:
        return Tabulated(places, knots)  # few values: no outer parts
    places, knots = places[inside], knots[inside]
    low, high = np.interp([-_OUTER, _OUTER], knots, places)
    steps = []
    for end, next_to_it, middle, sign in ((0, 1, low, -1.0), (-1, -2, high, 1.0)):
        of_part = (places[end] - middle) / (knots[end] - sign * _OUTER)
        at_end = (places[end] - places[next_to_it]) / (knots[end] - knots[next_to_it])
        chord = np.sqrt(of_part) * np.sqrt(at_end)  # of a piece that turns from one into the other
        steps.append((places[end] + sign * chord, knots[end] + sign))
    places = np.concatenate([[steps[0][0]], places, [steps[1][0]]])
    knots = np.concatenate([[steps[0][1]], knots, [steps[1][1]]])
    return Tabulated(places, knots)


def _smooth_level(scores: Array, share: Array, knots: Array) -> Array:
    """Return the distribution function of scores at knots, smoothed, nowhere flat."""
    n = 1.0 / float(np.sum(share**2))
    low, _, high = _weighted_quantiles(scores, share, _QUARTILES)
    sd = max(min(float(scores.std()), (high - low) / 1.349 or np.inf), 1e-3)
    grid = np.linspace(knots[0], knots[-1], _LOOKS)
    width = max(_TABLE_BANDWIDTH * sd * n**-0.2, grid[1] - grid[0])
    places = np.clip(np.rint((scores - grid[0]) / (grid[1] - grid[0])), 0, len(grid) - 1)
    binned = np.bincount(places.astype(int), share, len(grid))
    smooth = ndtr((knots[:, None] - grid) / width) @ binned
    few = 1.0 / (n + 1.0)  # of a wide normal: no gap is without slope
    wide = ndtr((knots - float(share @ scores)) / (1.5 * max(float(scores.std()), sd)))
    return np.clip((1.0 - few) * smooth + few * wide, 1e-9, 1.0 - 1e-9)


def standardised(y: Array, weights: Array | None = None) -> Tabulated:
    """Return the straight map of outputs (N,) to zero mean and unit sd, outliers aside."""
    weights = np.ones(len(y)) if weights is None else weights
    mean = float(np.average(y, weights=weights))
    sd = float(np.sqrt(np.average((y - mean) ** 2, weights=weights))) or 1.0
    return Tabulated(np.array([mean - sd, mean + sd]), np.array([-1.0, 1.0]))


def _weighted_quantiles(values: Array, weights: Array, levels: Array) -> Array:
    order = np.argsort(values)
    share = np.cumsum(weights[order])
    return np.interp(levels * share[-1], share - 0.5 * weights[order], values[order])
