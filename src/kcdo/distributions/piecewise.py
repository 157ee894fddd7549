"""Densities on an interval that are linear between breakpoints, many at once.

Rows are densities; ``knots`` are (Q, K), or (K,) where all rows share them. Everything is exact:
the cdf is piecewise quadratic.
"""

import numpy as np
from numpy.typing import NDArray

from kcdo.distributions.layouts import Array, RegionShape

_BISECTIONS = 60


def quantiles(lower: float, spacing: float, masses: Array, q: Array) -> Array:
    """Return inf {y : cdf(y) >= q}, (Q, k), of node masses on an even grid; q = 0: the support.

    At node j the cdf is Σ_{i<=j} π_i - π_j/2. Between nodes it is the quadratic
    π_j t + (π_{j+1} - π_j) t²/2, and linear over the half cells at the edges.
    """
    n_rows, m = masses.shape
    rows = np.arange(n_rows)[:, None]
    cdf = np.cumsum(masses, axis=1)
    wanted = q * cdf[:, -1:]
    cdf -= 0.5 * masses
    shifted = cdf + 2.0 * rows  # rows one after the other make one sorted list
    piece = _places(shifted.ravel(), wanted, q, m)
    before, after = np.maximum(piece - 1, 0), np.minimum(piece, m - 1)
    start, end = masses[rows, before], masses[rows, after]
    reached = np.where(piece > 0, cdf[rows, before], 0.0)
    missing = np.maximum(wanted - reached, 0.0)
    # the root in the form that does not cancel; nothing is missing where nothing lies
    root = start + np.sqrt(np.maximum(start**2 + 2.0 * (end - start) * missing, 0.0))
    step = np.where(root > 0, 2.0 * missing / np.where(root > 0, root, 1.0), 0.0)
    longest = np.where((piece == 0) | (piece == m), 0.5, 1.0)
    first = np.where(piece > 0, piece - 0.5, 0.0)
    return lower + spacing * (first + np.minimum(step, longest))


def cdf(lower: float, spacing: float, masses: Array, y: Array) -> Array:
    """Return the cdf at y (Q, k) of node masses on an even grid: see :func:`quantiles`."""
    m = masses.shape[1]
    rows = np.arange(len(masses))[:, None]
    at_nodes = np.cumsum(masses, axis=1) - 0.5 * masses
    position = np.clip((y - lower) / spacing, 0.0, m)
    piece = (position + 0.5).astype(np.int64)
    before, after = np.maximum(piece - 1, 0), np.minimum(piece, m - 1)
    start, end = masses[rows, before], masses[rows, after]
    reached = np.where(piece > 0, at_nodes[rows, before], 0.0)
    t = position - np.where(piece > 0, piece - 0.5, 0.0)
    return reached + t * (start + 0.5 * t * (end - start))


def _places(sorted_cdf: Array, wanted: Array, q: Array, m: int) -> NDArray[np.integer]:
    """Return how many of the m nodes of each row have a cdf below each value, (Q, k)."""
    rows = np.arange(len(wanted))[:, None]
    found = np.searchsorted(sorted_cdf, wanted + 2.0 * rows, side="left")
    if np.any(q == 0.0):
        after = np.searchsorted(sorted_cdf, wanted + 2.0 * rows, side="right")
        found = np.where(q == 0.0, after, found)
    return np.clip(found - m * rows, 0, m)


def regions(knots: Array, heights: Array, coverage: float) -> list[RegionShape]:
    """Return the region of highest density of each row."""
    knots = np.broadcast_to(knots, heights.shape)
    levels = density_level(knots, heights, coverage)
    shapes = []
    for row_knots, row, level in zip(knots, heights, levels, strict=True):
        intervals = intervals_above(row_knots, row, level)
        volume = float(np.diff(intervals, axis=1).sum())
        shapes.append(RegionShape(float(level), volume, intervals))
    return shapes


def density_level(knots: Array, heights: Array, coverage: float) -> Array:
    """Return the height t above which a share ``coverage`` of the probability lies, (Q,)."""
    low, high = np.zeros(len(heights)), heights.max(axis=1)
    wanted = coverage * _mass_above(knots, heights, low)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        enough = _mass_above(knots, heights, middle) >= wanted
        low, high = np.where(enough, middle, low), np.where(enough, high, middle)
    return low


def _mass_above(knots: Array, heights: Array, level: Array) -> Array:
    top = np.maximum(heights[:, 1:], heights[:, :-1])
    bottom = np.minimum(heights[:, 1:], heights[:, :-1])
    t = level[:, None]
    rise = np.where(top > bottom, top - bottom, 1.0)
    part = np.clip(top - t, 0.0, rise) / rise  # clipped first: a tiny rise must not overflow
    share = np.where(top > bottom, part, top >= t)
    mean_height = 0.5 * (top + np.maximum(bottom, np.minimum(t, top)))
    return np.sum(share * mean_height * np.diff(knots), axis=1)


def intervals_above(knots: Array, heights: Array, level: float) -> Array:
    """Return the intervals where one density (K,) is at least ``level``, (n, 2)."""
    inside = heights >= level
    edges: list[float] = [knots[0]] if inside[0] else []
    for k in np.flatnonzero(inside[1:] != inside[:-1]):  # crossings: a handful
        share = (level - heights[k]) / (heights[k + 1] - heights[k])
        edges.append(knots[k] + share * (knots[k + 1] - knots[k]))
    if inside[-1]:
        edges.append(knots[-1])
    return np.array(edges, dtype=float).reshape(-1, 2)
