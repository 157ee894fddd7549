"""Quantiles by solving cdf(y) = level, many at once."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]

_MOST_STEPS = 200
_RELATIVE = 4e-15


def increasing_roots(
    cdf: Callable[[Array], Array],
    pdf: Callable[[Array], Array],
    level: Array,
    low: Array,
    high: Array,
) -> Array:
    """Return inf {y : cdf(y) >= level} within brackets; all arrays have one shape.

    Newton's steps where they stay within the bracket and it halves at least every other step, the
    middle of the bracket otherwise. Equal ends, finite or not, are the root.
    """
    known = ~(low < high)
    answer, level = low.copy(), np.where(known, 0.5, level)
    low, high = np.where(known, 0.0, low), np.where(known, 0.0, high)
    y, width = 0.5 * (low + high), high - low
    for step in range(_MOST_STEPS):
        tolerance = _RELATIVE * np.maximum(np.abs(low), np.abs(high))
        if np.all(high - low <= tolerance):
            break
        missing = level - cdf(y)
        low, high = np.where(missing > 0, y, low), np.where(missing > 0, high, y)
        slope = pdf(y)
        newton = y + missing / np.where(slope > 0, slope, np.inf)
        # a hair beyond the root, so that both ends of the bracket come near
        newton += np.sign(missing) * tolerance
        slow = (step % 2 == 1) & (high - low > 0.5 * width)
        width = high - low if step % 2 else width
        usable = (newton > low) & (newton < high) & (slope > 0) & ~slow
        y = np.where(usable, newton, 0.5 * (low + high))
    return np.where(known, answer, high)
