"""Scores of histograms, each row on equal bins of its own, and of draws, by plain formulas.

The benchmark has many more; these are the ones that the page shows, so that models can be compared
where the benchmark itself, which needs PyTorch, is not installed. Lower is better, but for
coverage.
"""

import numpy as np
from scipy.signal import fftconvolve
from scipy.special import xlogy

BETAS = (0.5, 1.5)  # orders of the energy score; of order 1 it is the CRPS


def scores(prediction, y):
    """Return mean scores of a histogram prediction at outcomes y (rows,)."""
    y = np.asarray(y, dtype=float)
    edges, masses = prediction.bin_edges, prediction.probas
    below = np.pad(np.cumsum(masses, axis=1), ((0, 0), (1, 0)))
    place = np.array([np.interp(t, e, c) for t, e, c in zip(y, edges, below, strict=True)])
    low, high = (_quantiles(edges, below, q) for q in (0.05, 0.95))
    miss = 20.0 * (np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0))
    return {
        "CRPS": _over_thresholds(edges, below, y, lambda p, hit: (p - hit) ** 2).mean(),
        "CRLS": _over_thresholds(edges, below, y, _log_loss).mean(),
        **_of_density(prediction.resampled, y),
        "interval score 90": (high - low + miss).mean(),
        **{f"energy {beta}": _energy(edges, masses, y, beta).mean() for beta in BETAS},
        "coverage 90": np.mean((low <= y) & (y <= high)),
        "PIT deviation": np.abs(np.sort(place) - (np.arange(len(y)) + 0.5) / len(y)).max(),
    }


def scores_of_draws(prediction, Y):
    """Return mean scores of draws (rows, draws, targets) at outcomes Y (rows, targets)."""
    draws, Y = prediction.samples, np.asarray(Y, dtype=float)
    count = draws.shape[1]
    to_outcome = np.linalg.norm(draws - Y[:, None], axis=2).mean(axis=1)
    among = [np.linalg.norm(one[:, None] - one[None], axis=2).sum() for one in draws]
    energy = to_outcome - 0.5 * np.array(among) / (count * (count - 1))
    expected = np.stack([_roots(one).mean(axis=0) for one in draws])
    return {
        "energy": energy.mean(),
        "variogram": ((_roots(Y) - expected) ** 2).sum(axis=(1, 2)).mean(),
    }


def _roots(Y):
    return np.sqrt(np.abs(Y[:, :, None] - Y[:, None, :]))


def _of_density(prediction, y):
    """Return the log score and the CDE loss of histograms on the grid for densities."""
    edges, masses = prediction.bin_edges, prediction.probas
    widths = np.diff(edges, axis=1)
    column = np.array([np.searchsorted(e[1:-1], t) for e, t in zip(edges, y, strict=True)])
    inside = (y >= edges[:, 0]) & (y <= edges[:, -1])
    heights = np.take_along_axis(masses / widths, column[:, None], axis=1)[:, 0]
    density = np.where(inside, heights, 0.0)
    return {
        "log score": -np.log(np.maximum(density, 1e-12)).mean(),
        "CDE loss": ((masses**2 / widths).sum(axis=1) - 2.0 * density).mean(),
    }


def _energy(edges, masses, y, beta):
    """Return E|Y - y|^beta - E|Y - Y'|^beta / 2 of histograms, exact for equal bins."""
    bins = masses.shape[1]
    width = (edges[:, -1] - edges[:, 0]) / bins
    power = np.sign(edges - y[:, None]) * np.abs(edges - y[:, None]) ** (beta + 1.0)
    to_outcome = (masses * np.diff(power, axis=1)).sum(axis=1) / (width * (beta + 1.0))
    apart = np.arange(bins, dtype=float)
    distance = np.abs(apart - 1.0) ** (beta + 2.0) + (apart + 1.0) ** (beta + 2.0)
    distance = (distance - 2.0 * apart ** (beta + 2.0)) / ((beta + 1.0) * (beta + 2.0))
    shared = np.stack([fftconvolve(one, one[::-1])[bins - 1 :] for one in masses])
    shared[:, 1:] *= 2.0
    return to_outcome - 0.5 * width**beta * (shared @ distance)


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
