"""Maps of outputs given by a table: the spline itself, normal scores, and a straight line."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError
from kcdo.transforms.base import Transform
from kcdo.transforms.splines import MonotoneSpline

_LOOKS = 400  # places at which a distribution function is smoothed
_KNOT_STEP = 0.15  # from knot to knot, in scores and units of asinh together
_FARTHEST = 6.0  # interquartile ranges beyond the quartiles up to which a table reaches
_TABLE_BANDWIDTH = 1.0  # less than that leaves ripples, which would be modes of densities
_SMOOTHINGS = 4  # the wider the bandwidth, the more of them it takes to follow sudden ends
_OUTER = 1.0  # normal scores beyond which a table is in its outer parts
_QUARTILES = np.array([0.25, 0.5, 0.75])


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
