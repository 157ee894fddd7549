"""Monotone rational quadratic splines: smooth maps of the line through increasing knots.

Between two knots, with ξ the share of the way from one to the next in x, and a and b the slopes at
both in units of that of the chord, the share of the way in y is

    θ(ξ) = (ξ² + a ξ(1 - ξ)) / (1 + (a + b - 2) ξ(1 - ξ)),

which increases for all positive a and b (Gregory and Delbourgo, 1982; Durkan et al., 2019).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kcdo.arrays import Array, Integers

_BEND = 0.25  # change of a log slope that five Gauss points follow to 1e-6
_MOST_CUTS = 32


@dataclass(frozen=True, eq=False)
class MonotoneSpline:
    """A once continuously differentiable, increasing map, straight beyond its outermost knots.

    Parameters
    ----------
    x, y : (K,)
        Knots, both strictly increasing; two of them make a straight line.

    Examples
    --------
    >>> spline = MonotoneSpline(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 4.0]))
    >>> np.exp(spline.log_slopes).round(3)
    array([0.577, 1.732, 5.196])
    >>> spline.inverse(spline.forward(np.array([-1.0, 0.3, 1.9, 7.0]))).round(12)
    array([-1. ,  0.3,  1.9,  7. ])
    """

    x: Array
    y: Array

    def forward(self, x: Array) -> Array:
        """Return y of x."""
        if self._straight:
            return _on_line(x, self.x, self.y)
        i = _pieces(x, self.x)
        xi = _share(x, self.x, i)
        a, excess = self._a[i], self._excess[i]
        both = xi * (1.0 - xi)
        theta = (xi * xi + a * both) / (1.0 + excess * both)
        beyond = np.exp(self.log_slopes[[0, -1]])
        return _placed(theta, i, self.y) + _beyond(x, self.x, beyond)

    def inverse(self, y: Array) -> Array:
        """Return x of y."""
        if self._straight:
            return _on_line(y, self.y, self.x)
        i = _pieces(y, self.y)
        beyond = np.exp(-self.log_slopes[[0, -1]])
        return _placed(self._way_back(y, i), i, self.x) + _beyond(y, self.y, beyond)

    def log_derivative(self, x: Array) -> Array:
        """Return the logarithm of dy/dx at x."""
        i = _pieces(x, self.x)
        return self._chords[i] + self._log_relative_slope(_share(x, self.x, i), i)

    def log_slope(self, y: Array) -> Array:
        """Return the logarithm of dy/dx at x(y)."""
        i = _pieces(y, self.y)
        return self._chords[i] + self._log_relative_slope(self._way_back(y, i), i)

    @cached_property
    def log_slopes(self) -> Array:
        """Logarithms of the slopes at the knots, (K,): of geometric means of those of the chords.

        The nearer chord counts more, as in a parabola through three knots. At both ends the slope
        is such that it only rises or only falls on the outermost piece, where a b = 1.
        """
        chords, width = self._chords, np.diff(self.x)
        if self._straight:
            return np.repeat(chords, 2)
        share = 1.0 / (1.0 + width[:-1] / width[1:])  # of the chord before a knot
        inner = share * chords[:-1] + (1.0 - share) * chords[1:]
        first, last = 2.0 * chords[[0, -1]] - inner[[0, -1]]
        return np.concatenate([[first], inner, [last]])

    def cuts(self) -> Array:
        """Return values of y, (C,), between which the slope changes little, knots among them."""
        if self._straight:
            return np.empty(0)
        bend = np.abs(np.log(self._a)) + np.abs(np.log(self._b))
        n = np.ceil(bend / _BEND).clip(1, _MOST_CUTS).astype(int)
        i = np.repeat(np.arange(len(n)), n)
        share = (np.arange(len(i)) - np.repeat(np.cumsum(n) - n, n)) / n[i]
        even_in_y = _placed(share, i, self.y)
        even_in_x = self.forward(_placed(share, i, self.x))
        return np.unique(np.concatenate([even_in_y, even_in_x, self.y]))

    @property
    def _straight(self) -> bool:
        return len(self.x) == 2

    @cached_property
    def _chords(self) -> Array:
        """Logarithms of the slopes of the chords, (K - 1,)."""
        return np.log(np.diff(self.y)) - np.log(np.diff(self.x))

    @cached_property
    def _a(self) -> Array:
        return np.exp(self.log_slopes[:-1] - self._chords)

    @cached_property
    def _b(self) -> Array:
        return np.exp(self.log_slopes[1:] - self._chords)

    @cached_property
    def _excess(self) -> Array:
        return self._a + self._b - 2.0

    def _way_back(self, y: Array, i: Integers) -> Array:
        """Return ξ for y: the root of u ξ² + v ξ = θ, by the formula in which less cancels."""
        theta = _share(y, self.y, i)
        a, excess = self._a[i], self._excess[i]
        v = a - theta * excess
        u = 1.0 - v
        root = np.sqrt(np.maximum(v * v + 4.0 * u * theta, 0.0))
        falls = v < 0.0  # then u > 1
        over, under = np.where(falls, root - v, 2.0 * theta), np.where(falls, 2.0 * u, v + root)
        return np.where(theta > 0.0, over / np.where(under > 0.0, under, 1.0), 0.0)

    def _log_relative_slope(self, xi: Array, i: Integers) -> Array:
        """Return log dθ/dξ."""
        a, b, excess, rest = self._a[i], self._b[i], self._excess[i], 1.0 - xi
        both = xi * rest
        rise = b * xi * xi + 2.0 * both + a * rest * rest
        return np.log(rise) - 2.0 * np.log1p(excess * both)


def _pieces(x: Array, knots: Array) -> Integers:
    return np.clip(np.searchsorted(knots, x, side="right") - 1, 0, len(knots) - 2)


def _share(x: Array, knots: Array, i: Integers) -> Array:
    """Return which share of its piece lies before x: 0 or 1 for x beyond all knots."""
    return np.clip((x - knots[i]) / np.diff(knots)[i], 0.0, 1.0)


def _placed(share: Array, i: Integers, knots: Array) -> Array:
    """Return the place at a share of a piece; never beyond its ends, whatever is rounded."""
    low, high = knots[i], knots[i + 1]
    return np.clip(low + share * (high - low), low, high)


def _beyond(x: Array, knots: Array, slopes: Array) -> Array:
    """Return how far a map has gone beyond its outermost knots; 0 between them."""
    below, above = np.minimum(x - knots[0], 0.0), np.maximum(x - knots[-1], 0.0)
    return slopes[0] * below + slopes[1] * above


def _on_line(x: Array, knots: Array, values: Array) -> Array:
    return values[0] + (x - knots[0]) * ((values[1] - values[0]) / (knots[1] - knots[0]))
