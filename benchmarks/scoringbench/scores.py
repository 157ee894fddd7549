"""Scores of histograms, each row of a regular grid of its own, by plain formulas.

The benchmark has many more; these are the ones that the page shows, so that models can be compared
where the benchmark itself, which needs PyTorch, is not installed. Lower is better, but for PIT.
"""

import numpy as np
from scipy.special import xlogy


def scores(prediction, y):
    """Return mean scores of a histogram prediction at outcomes y (rows,)."""
    y = np.asarray(y, dtype=float)
    edges, masses = prediction.bin_edges, prediction.probas
    widths = np.diff(edges, axis=1)
    below = np.concatenate([np.zeros((len(y), 1)), np.cumsum(masses, axis=1)], axis=1)
    place = np.array([np.interp(t, e, c) for t, e, c in zip(y, edges, below, strict=True)])
    inside = (y >= edges[:, 0]) & (y <= edges[:, -1])
    column = np.array([np.searchsorted(e[1:-1], t) for e, t in zip(edges, y, strict=True)])
    heights = masses / widths
    density = np.where(inside, np.take_along_axis(heights, column[:, None], axis=1)[:, 0], 0.0)
    low, high = (_quantiles(edges, below, q) for q in (0.05, 0.95))
    miss = 20.0 * (np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0))
    return {
        "crps": _over_thresholds(edges, below, y, lambda p, hit: (p - hit) ** 2).mean(),
        "crls": _over_thresholds(edges, below, y, _log_loss).mean(),
        "log score": -np.log(np.maximum(density, 1e-12)).mean(),
        "cde loss": ((masses**2 / widths).sum(axis=1) - 2.0 * density).mean(),
        "interval score 90": (high - low + miss).mean(),
        "coverage 90": np.mean((low <= y) & (y <= high)),
        "PIT deviation": np.abs(np.sort(place) - (np.arange(len(y)) + 0.5) / len(y)).max(),
    }


def _log_loss(p, hit):
    p = np.clip(p, 1e-12, 1.0 - 1e-12)
    return -(xlogy(hit, p) + xlogy(1.0 - hit, 1.0 - p))


def _over_thresholds(edges, below, y, loss):
    """Integrate a loss of P(Y <= t) over t; beyond the grid the distribution is certain."""
    nodes = np.array([0.5 - np.sqrt(15) / 10, 0.5, 0.5 + np.sqrt(15) / 10])
    weights = np.array([5.0, 8.0, 5.0]) / 18.0
    grid = np.sort(np.hstack([edges, y[:, None]]), axis=1)
    steps = np.diff(grid, axis=1)
    total = np.zeros(len(y))
    for node, weight in zip(nodes, weights, strict=True):
        t = grid[:, :-1] + node * steps
        p = np.stack([np.interp(*row) for row in zip(t, edges, below, strict=True)])
        total += weight * (steps * loss(p, (t >= y[:, None]).astype(float))).sum(axis=1)
    return total


def _quantiles(edges, below, q):
    return np.array([np.interp(q, c, e) for e, c in zip(edges, below, strict=True)])
