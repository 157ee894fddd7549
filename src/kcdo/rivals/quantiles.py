"""Densities from quantiles: what forests, boosted quantiles and conformal systems share.

Such methods give quantiles, not a density. For log scores the 199 quantiles at x become as many
normal components of sd √((a s(x))² + (b s_y)²), with s(x) their spread and s_y that of all
outputs, plus the 1 % of tail that all kernel methods get; a and b by the log score of held-out
rows, for rounded outputs by the probability of the rounding interval. CRPS, quantiles and moments
are those of the quantiles themselves.
"""

from copy import copy
from typing import Self

import numpy as np

from kcdo.arrays import Array
from kcdo.rivals.base import Rival, log_probability
from kcdo.rivals.mixtures import Mixture

LEVELS = (np.arange(199) + 0.5) / 199
_RELATIVE = (0.1, 0.2, 0.35, 0.6, 1.0)
_ABSOLUTE = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)


class Quantiles(Mixture):
    """Equally likely quantiles (Q, 199), smoothed where a density is asked for."""

    def __init__(self, quantiles: Array, relative: float, absolute: float) -> None:
        Q, K = quantiles.shape
        spread = quantiles.std(axis=1, keepdims=True)
        sds = np.repeat(np.sqrt((relative * spread) ** 2 + absolute**2), K, axis=1)
        means = np.hstack([quantiles, np.zeros((Q, 1))])
        sds = np.hstack([sds, np.full((Q, 1), 2.0)])
        weights = np.repeat(np.r_[np.full(K, 0.99 / K), 0.01][None], Q, axis=0)
        super().__init__(weights, means[..., None], sds[..., None])
        self._quantiles = quantiles

    def quantile(self, levels: Array) -> Array:
        """Quantiles as the method gives them, linear between its levels."""
        return np.stack([np.interp(levels, LEVELS, row) for row in self._quantiles])

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws of the quantiles themselves, (Q, n, 1)."""
        levels = rng.random((len(self._quantiles), n))
        rows = zip(levels, self._quantiles, strict=True)
        return np.stack([np.interp(u, LEVELS, row) for u, row in rows])[..., None]

    def crps(self, Y: Array) -> Array:
        """CRPS of the quantiles as equally likely values, (Q,)."""
        return crps_of_values(self._quantiles, Y[:, 0])

    def mean(self) -> Array:
        """Means, (Q, 1)."""
        return self._quantiles.mean(axis=1, keepdims=True)

    def std(self) -> Array:
        """Standard deviations, (Q, 1)."""
        return self._quantiles.std(axis=1, keepdims=True)


class Smoothed(Rival):
    """Base of methods whose quantiles are smoothed by a width that unseen outputs choose."""

    def for_rounded(self, gap: float) -> Self:
        """The same fit for outputs rounded to gaps: the width is chosen anew."""
        told = copy(self)
        told.smoothing = chosen_smoothing(*self._judged, gap / self._y_scale[0])
        return told

    def _smooth(self, quantiles: Array, Y: Array) -> None:
        """Choose the width by quantiles (N, 199) of outputs (N, 1) that were not seen."""
        self._judged = quantiles, Y
        self.smoothing = chosen_smoothing(quantiles, Y, self._gap[0])


def chosen_smoothing(quantiles: Array, Y: Array, gap: float) -> tuple[float, float]:
    """Return a and b of the best log score of outputs (N, 1) that the method has not seen."""

    def score(choice: tuple[float, float]) -> float:
        smoothed = Quantiles(quantiles, *choice)
        if gap == 0:
            return float(smoothed.logpdf_pairs(Y).mean())
        edges = (smoothed.cdf_pairs(Y + side * gap) for side in (-0.5, 0.5))
        return float(log_probability(*edges).mean())

    return max(((a, b) for a in _RELATIVE for b in _ABSOLUTE), key=score)


def crps_of_values(values: Array, y: Array) -> Array:
    """E|V - y| - ½ E|V - V'| of K equally likely sorted values in each row."""
    K = values.shape[1]
    ranks = 2 * np.arange(1, K + 1) - K - 1
    return np.abs(values - y[:, None]).mean(axis=1) - values @ ranks / K**2
