"""Scores of rounded outputs on equal terms: by the probability of the interval that was rounded.

A density of a rounded output can be made as high as one likes by narrowing its bumps, so that log
densities compare widths, not predictions. The probability F(y + g/2) - F(y - g/2) that an output
rounds to y cannot exceed 1. All it needs is a cdf, so that every method is scored alike.
"""

from typing import Any

import numpy as np

from kcdo.arrays import Array
from kcdo.rivals.base import log_probability

_BLOCK = 200  # test rows whose cdfs are taken at the edges of all of them


def smallest_gap(y: Array) -> float:
    """Return the smallest distance between different outputs."""
    return float(np.diff(np.unique(y)).min())


def edges(fitted: Any, X: Array, y: Array, gap: float) -> tuple[Array, Array]:
    """Return F(y - gap/2) and F(y + gap/2) of each row, by the cdf at that row."""
    below, above = y - gap / 2, y + gap / 2
    found = []
    for start in range(0, len(y), _BLOCK):
        rows = slice(start, start + _BLOCK)
        points = np.unique(np.r_[below[rows], above[rows]])
        cdf = fitted.conditional(X[rows]).cdf(points)
        places = [np.searchsorted(points, side[rows]) for side in (below, above)]
        found.append(np.stack([cdf[np.arange(len(cdf)), place] for place in places]))
    low, high = np.concatenate(found, axis=1)
    return low, high


def covered(low: Array, high: Array, level: float) -> Array:
    """Return how likely the randomised PIT of each row is in the central interval of that level.

    The randomised PIT is uniform between F(y - g/2) and F(y + g/2); this is its expectation.
    """
    first, last = (1 - level) / 2, (1 + level) / 2
    width = high - low
    overlap = np.minimum(high, last) - np.maximum(low, first)
    share = np.clip(overlap, 0, None) / np.where(width > 0, width, 1)
    inside = (first <= low) & (high <= last)
    return np.where(width > 0, share, inside)


def rounded_scores(fitted: Any, X: Array, y: Array, gap: float) -> dict[str, Array]:
    """Return log probabilities of rounding intervals and coverages of every row.

    A method that chose a width by log densities may choose it again by these probabilities.
    """
    if hasattr(fitted, "for_rounded"):
        fitted = fitted.for_rounded(gap)
    low, high = edges(fitted, X, y, gap)
    return {
        "log_prob": log_probability(low, high),
        "coverage_90": covered(low, high, 0.9),
        "coverage_50": covered(low, high, 0.5),
    }
