"""Densities on an interval that are linear between breakpoints, many at once.

Rows are densities; ``knots`` (K,) are shared. Everything is exact: the cdf is piecewise
quadratic.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]

_BISECTIONS = 60


def cumulative(knots: Array, heights: Array) -> Array:
    """Return the cdf at the knots, (Q, K), scaled so that it ends at 1."""
    pieces = 0.5 * np.diff(knots) * (heights[:, 1:] + heights[:, :-1])
    out = np.zeros_like(heights)
    np.cumsum(pieces, axis=1, out=out[:, 1:])
    return out / out[:, -1:]


def quantiles(knots: Array, heights: Array, q: Array) -> Array:
    """Return inf {y : cdf(y) >= q}, (Q, k); for q = 0 the start of the support."""
    cdf = cumulative(knots, heights)
    piece = _bracket(cdf, q)
    rows = np.arange(len(cdf))[:, None]
    start, end = heights[rows, piece], heights[rows, piece + 1]
    length = np.diff(knots)[piece]
    scale = (cdf[rows, piece + 1] - cdf[rows, piece]) / np.where(
        start + end > 0, 0.5 * length * (start + end), 1.0
    )
    missing = np.where(scale > 0, (q - cdf[rows, piece]) / np.where(scale > 0, scale, 1.0), 0.0)
    missing = np.maximum(missing, 0.0)
    # start·t + (end - start) t²/(2 length) = missing, in the form that does not cancel
    root = np.sqrt(np.maximum(start**2 + 2.0 * (end - start) * missing / length, 0.0))
    step = np.where(
        start + root > 0, 2.0 * missing / np.where(start + root > 0, start + root, 1), 0
    )
    return knots[piece] + np.clip(step, 0.0, length)


def _bracket(cdf: Array, q: Array) -> NDArray[np.integer]:
    """Return the piece in which each quantile lies, (Q, k): one sorted search for all rows."""
    n_rows, n_knots = cdf.shape
    offsets = 2.0 * np.arange(n_rows)[:, None]
    flat = (cdf + offsets).ravel()
    left = np.searchsorted(flat, q + offsets, side="left")
    right = np.searchsorted(flat, q + offsets, side="right")
    found = np.where(q == 0.0, right, left) - n_knots * np.arange(n_rows)[:, None] - 1
    return np.clip(found, 0, n_knots - 2)


def density_level(knots: Array, heights: Array, coverage: float) -> Array:
    """Return the height t with P(density >= t) = coverage, (Q,)."""
    low, high = np.zeros(len(heights)), heights.max(axis=1)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        enough = _mass_above(knots, heights, middle) >= coverage
        low, high = np.where(enough, middle, low), np.where(enough, high, middle)
    return low


def _mass_above(knots: Array, heights: Array, level: Array) -> Array:
    top = np.maximum(heights[:, 1:], heights[:, :-1])
    bottom = np.minimum(heights[:, 1:], heights[:, :-1])
    t = level[:, None]
    rise = np.where(top > bottom, top - bottom, 1.0)
    share = np.clip(np.where(top > bottom, (top - t) / rise, top >= t), 0.0, 1.0)
    mean_height = 0.5 * (top + np.maximum(bottom, np.minimum(t, top)))
    return (share * mean_height) @ np.diff(knots)


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
