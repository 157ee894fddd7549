"""Densities on an interval that are linear between breakpoints, many at once.

Rows are densities; ``knots`` are (Q, K), or (K,) where all rows share them. Everything is exact:
the cdf is piecewise quadratic.
"""

import numpy as np
from scipy.special import xlogy

from kcdo.arrays import Array, Integers

_FLAT = 0.05  # rises of a density, in its mean, below which differences would cancel


def quantiles(lower: float, spacing: float, masses: Array, q: Array) -> Array:
    """Return inf {y : cdf(y) >= q}, (Q, k), of node masses on an even grid; q = 0: the support.

    At node j the cdf is Σ_{i<=j} π_i - π_j/2. Between nodes it is the quadratic
    π_j t + (π_{j+1} - π_j) t²/2, and linear over the half cells at the edges.
    """
    n_rows, m = masses.shape
    first = m * np.arange(n_rows)  # of each row, in a list of the nodes of all
    cumulated = np.cumsum(masses, axis=1)
    wanted = q[:, None] * cumulated[:, -1]  # (k, Q): rows along the longer axis are faster
    node = _places(cumulated, wanted, q)
    heights, sums = masses.ravel(), cumulated.ravel()
    piece = node + (sums[node + first] - 0.5 * heights[node + first] < wanted)
    before = np.maximum(piece - 1, 0) + first
    start, end = heights[before], heights[np.minimum(piece, m - 1) + first]
    reached = np.where(piece > 0, sums[before] - 0.5 * start, 0.0)
    missing = np.maximum(wanted - reached, 0.0)
    # the root in the form that does not cancel; nothing is missing where nothing lies
    root = start + np.sqrt(np.maximum(start**2 + 2.0 * (end - start) * missing, 0.0))
    step = np.where(root > 0, 2.0 * missing / np.where(root > 0, root, 1.0), 0.0)
    longest = np.where((piece == 0) | (piece == m), 0.5, 1.0)
    begin = np.where(piece > 0, piece - 0.5, 0.0)
    return (lower + spacing * (begin + np.minimum(step, longest))).T


def pdf(lower: float, spacing: float, masses: Array, y: Array) -> Array:
    """Return the density at y (Q, k) of node masses on an even grid; 0 outside of it."""
    m = masses.shape[1]
    place = (y - lower) / spacing
    inside = (place >= 0.0) & (place <= m)
    place = np.clip(np.fmax(place - 0.5, 0.0), 0.0, m - 1.0)  # NaN is outside
    left = np.minimum(place.astype(np.int64), m - 2)
    start, end = _at(masses, left), _at(masses, left + 1)
    return np.where(inside, start + (place - left) * (end - start), 0.0) / spacing


def cdf_at_nodes(masses: Array) -> Array:
    """Return the cdf of node masses on an even grid at the nodes, (Q, M)."""
    return np.cumsum(masses, axis=1) - 0.5 * masses


def cdf(lower: float, spacing: float, masses: Array, at_nodes: Array, y: Array) -> Array:
    """Return the cdf at y (Q, k) of node masses on an even grid: see :func:`quantiles`."""
    m = masses.shape[1]
    position = np.clip((y - lower) / spacing, 0.0, m)
    piece = (np.fmax(position, 0.0) + 0.5).astype(np.int64)  # at NaN the cdf is NaN, too
    before = np.maximum(piece - 1, 0)
    start, end = _at(masses, before), _at(masses, np.minimum(piece, m - 1))
    t = position - (piece - 0.5)  # beyond the first node; negative in the first half cell
    return _at(at_nodes, before) + np.where(
        piece > 0, t * (start + 0.5 * t * (end - start)), (position - 0.5) * start
    )


def _at(table: Array, columns: Integers) -> Array:
    """Return entries (Q, k) of each row of a table (Q, M)."""
    first = table.shape[1] * np.arange(len(table))[:, None]
    return np.take(table.ravel(), columns + first)


def _places(cumulated: Array, wanted: Array, q: Array) -> Integers:
    """Return the first node of each row that cumulates at least the value, (k, Q).

    For q = 0 it is the first that cumulates anything.
    """
    n_rows, m = cumulated.shape
    rows = np.arange(n_rows)
    one_list = (cumulated + 2.0 * rows[:, None]).ravel()  # rows one after the other are sorted
    keys = wanted + 2.0 * rows
    found = np.searchsorted(one_list, keys.T).T  # row by row, whose nodes then are in the cache
    lowest = q == 0.0
    if lowest.any():
        found[lowest] = np.searchsorted(one_list, keys[lowest], side="right")
    return np.clip(found - m * rows, 0, m - 1)


def entropy(knots: Array, heights: Array) -> Array:
    """Return -∫ p log p of densities (Q, K) that are linear between knots (K,)."""
    start, end = heights[:, :-1], heights[:, 1:]
    middle, half = 0.5 * (start + end), 0.5 * (end - start)
    share = np.divide(half, middle, out=np.zeros_like(half), where=middle > 0)
    flat = np.abs(share) < _FLAT
    with np.errstate(divide="ignore", invalid="ignore"):
        exact = (_primitive(end) - _primitive(start)) / (end - start)
    s = share**2
    series = xlogy(middle, middle) + middle * s * (1 / 6 + s * (1 / 60 + s * (1 / 210 + s / 504)))
    return -np.where(flat, series, exact) @ np.diff(knots)


def _primitive(height: Array) -> Array:
    """Return ∫ t log t dt from 0."""
    return 0.5 * xlogy(height**2, height) - 0.25 * height**2
