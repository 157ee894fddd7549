"""Events: functions that are 0 or 1. Their probability is a sum of values of the cdf.

Of one output they are any intervals; of several outputs boxes, such as
``(y[:, 0] > 0) & (y[:, 1] < 2)``: sides may be open, and an event may be what is outside of a box.
Whether a function is one is found by asking it.
"""

from collections.abc import Callable
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from kcdo.arrays import Array

Event = Callable[[Array], NDArray[np.bool_]]  # of points (G, d)

_HALVINGS = 100  # of the distance to a side, which then is known to rounding
_CHECKS = 2048  # points in and around a box that is found
_ROUNDING = 1e-9  # next to a side nothing is checked
_SHARES = 1000  # of the probability of one output, in each of which an event is looked for


def on_lines(
    g: Callable[[Array], Array], knots: Array, cdf: Callable[[Array], Array]
) -> Array | None:
    """Return P(g(Y) = 1) of distributions of one output, (Q, k), or None if g is no event.

    Parameters
    ----------
    g : function of points (G,), 0 or 1 in each of k columns
    knots : (Q, K)
        Integers between which the cdf is nearly linear.
    cdf : function
        Of points (Q, G) of each distribution, (Q, G).
    """
    first = g(knots[0])
    if not _are_events(first):
        return None
    points = _evenly(knots, cdf(knots))
    values = g(points.ravel()).reshape(*points.shape, -1)
    if not _are_events(values):
        return None
    columns = [
        _on_lines(lambda y, k=k: g(y)[:, k], points, values[:, :, k], cdf)  # type: ignore[misc]
        for k in range(values.shape[2])
    ]
    return np.stack(columns, axis=1)


def _are_events(values: Array) -> bool:
    return bool(np.all((values == 0) | (values == 1)))


def _evenly(knots: Array, shares: Array) -> Array:
    """Return the knots together with places of even probability between them, (Q, K + 1000)."""
    levels = (np.arange(_SHARES) + 0.5) / _SHARES
    rows = zip(np.maximum.accumulate(shares, axis=1), knots, strict=True)
    more = np.stack([np.interp(levels, below, places) for below, places in rows])
    return np.sort(np.hstack([knots, more]), axis=1)


def _on_lines(
    g: Callable[[Array], Array], points: Array, values: Array, cdf: Callable[[Array], Array]
) -> Array:
    """Return E g of each row: v - Σ (change of g) F(place of the change), v far to the right."""
    steps = np.diff(values, axis=1)
    row, place = np.nonzero(steps)
    low, high, before = points[row, place], points[row, place + 1], values[row, place]
    for _ in range(_HALVINGS if len(row) else 0):
        middle = low + 0.5 * (high - low)
        same = g(middle) == before
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    counts = np.bincount(row, minlength=len(points))
    column = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    cuts = np.repeat(points[:, -1:], max(1, counts.max()), axis=1)
    sizes = np.zeros_like(cuts)
    cuts[row, column], sizes[row, column] = high, steps[row, place]
    return values[:, -1] - np.sum(sizes * cdf(cuts), axis=1)


def probability(
    g: Callable[[Array], Array], points: Array, values: Array, cdf: Callable[[Array], Array]
) -> Array | None:
    """Return P(g(Y) = 1), (Q,), if g is 1 in a box and 0 elsewhere, or the reverse; else None.

    Parameters
    ----------
    g : function of points (G, d), 0 or 1 for each
    points, values : (K, d) and (K,)
        Where g was asked already, and what it said.
    cdf : function
        Joint cdf of each distribution at points (G, d), (Q, G).
    """
    if not _are_events(values):
        return None
    for one in (1, 0):
        sides = _box(lambda y, one=one: g(y) == one, points, values == one)  # type: ignore[misc]
        if sides is not None:
            inside = _probability_of(*sides, cdf)
            return inside if one else 1.0 - inside
    return None


def _probability_of(low: Array, high: Array, cdf: Callable[[Array], Array]) -> Array:
    upper = np.array(list(product([False, True], repeat=len(low))))
    signs = (-1.0) ** np.sum(~upper, axis=1)
    return cdf(np.where(upper, high, low)) @ signs


def _box(event: Event, points: Array, inside: NDArray[np.bool_]) -> tuple[Array, Array] | None:
    """Return the lower and upper sides of the box that an event is, infinite if open, or None."""
    if not inside.any() or inside.all():
        return None
    low, high = points[inside].min(axis=0), points[inside].max(axis=0)
    if np.any(_within(points[~inside], low, high)):
        return None
    start = points[inside][np.argmin(np.abs(points[inside] - 0.5 * (low + high)).max(axis=1))]
    extent = points.min(axis=0), points.max(axis=0)
    reach = extent[1] - extent[0] + np.abs(start)
    low = _side(event, start, extent[0] - reach, low)
    high = _side(event, start, extent[1] + reach, high)
    return (low, high) if _is_box(event, low, high, points, inside, extent) else None


def _side(event: Event, start: Array, far: Array, near: Array) -> Array:
    """Return where the event ends on the way from ``near`` to ``far``, along each axis."""
    lines = np.tile(start, (len(start), 1))
    axis = np.arange(len(start))

    def happens(places: Array) -> NDArray[np.bool_]:
        lines[axis, axis] = places
        return event(lines)

    is_open = happens(far)
    out, into = far.copy(), near.copy()
    for _ in range(_HALVINGS):
        middle = 0.5 * (out + into)
        there = happens(middle)
        into, out = np.where(there, middle, into), np.where(there, out, middle)
    return np.where(is_open, np.sign(far - near) * np.inf, into)


def _is_box(
    event: Event,
    low: Array,
    high: Array,
    points: Array,
    inside: NDArray[np.bool_],
    extent: tuple[Array, Array],
) -> bool:
    """Whether the event agrees with a box at all points asked, and at many in and around it."""
    if not np.all(_within(points[inside], low, high)) or np.any(
        _within(points[~inside], low, high)
    ):
        return False
    bottom, top = np.maximum(low, extent[0]), np.minimum(high, extent[1])
    margin = 0.1 * (top - bottom)
    more = bottom - margin + (top - bottom + 2 * margin) * _even_points(len(low))
    near = np.any((np.abs(more - low) < _ROUNDING) | (np.abs(more - high) < _ROUNDING), axis=1)
    return bool(np.all(near | (event(more) == _within(more, low, high))))


def _within(points: Array, low: Array, high: Array) -> NDArray[np.bool_]:
    return np.all((points >= low) & (points <= high), axis=1)


@lru_cache(maxsize=4)
def _even_points(dim: int) -> Array:
    return qmc.Sobol(dim, scramble=False).random(_CHECKS)
