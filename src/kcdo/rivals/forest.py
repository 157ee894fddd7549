"""Quantile regression forest (Meinshausen 2006), by the package quantile-forest.

100 trees, its default; the smallest leaf by the out-of-bag quantile loss. The forest gives
quantiles, not a density. For the log score its 199 quantiles at x become as many normal
components of sd √((a s(x))² + (b s_y)²), with s(x) their spread and s_y that of all outputs, plus
the 1 % of tail that all kernel methods get; a and b by the out-of-bag log score. CRPS, intervals
and moments are those of the quantiles themselves.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.rivals.base import NotApplicable, Rival
from kcdo.rivals.mixtures import Mixture

_LEVELS = (np.arange(199) + 0.5) / 199
_LEAVES = (1, 3, 5, 10, 20)
_RELATIVE = (0.1, 0.2, 0.35, 0.6, 1.0)
_ABSOLUTE = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
_SCORED = 2000  # out-of-bag rows for the choices


class QuantileForest(Rival):
    """Quantile regression forest."""

    name = "qrf"

    def _fit(self, X: Array, Y: Array) -> None:
        if Y.shape[1] > 1:
            raise NotApplicable("one output only")
        y = Y[:, 0]
        scored = np.random.default_rng(self.seed).permutation(len(X))[:_SCORED]
        lowest = np.inf
        for leaf in _LEAVES if len(X) < 5000 else _LEAVES[1::2]:
            forest = self._forest(leaf).fit(X, y)
            quantiles = np.sort(_out_of_bag(forest, X, scored), axis=1)
            loss = _crps(quantiles, y[scored]).mean()
            if loss < lowest:
                lowest, self._fitted, kept, self.leaf = loss, forest, quantiles, leaf
        choices = [(a, b) for a in _RELATIVE for b in _ABSOLUTE]
        scores = [
            _Quantiles(kept, *c, self._floor[0]).logpdf_pairs(Y[scored]).mean() for c in choices
        ]
        self.smoothing = choices[int(np.argmax(scores))]

    def _forest(self, leaf: int) -> Any:
        from quantile_forest import RandomForestQuantileRegressor

        return RandomForestQuantileRegressor(
            min_samples_leaf=leaf, max_samples_leaf=None, bootstrap=True, random_state=self.seed,
            n_jobs=1,
        )  # fmt: skip

    def _conditional(self, X: Array) -> "_Quantiles":
        quantiles = np.sort(self._fitted.predict(X, quantiles=list(_LEVELS)), axis=1)
        return _Quantiles(quantiles, *self.smoothing, self._floor[0])


def _out_of_bag(forest: Any, X: Array, scored: NDArray[np.integer]) -> Array:
    predicted = forest.predict(X[scored], quantiles=list(_LEVELS), oob_score=True, indices=scored)
    return np.where(np.isnan(predicted), np.nanmedian(predicted, axis=0), predicted)


class _Quantiles(Mixture):
    """Equally likely quantiles (Q, 199), smoothed where a density is asked for."""

    def __init__(self, quantiles: Array, relative: float, absolute: float, floor: float) -> None:
        Q, K = quantiles.shape
        spread = quantiles.std(axis=1, keepdims=True)
        sds = np.sqrt((relative * spread) ** 2 + absolute**2)
        sds = np.repeat(np.maximum(sds, floor), K, axis=1)
        means = np.hstack([quantiles, np.zeros((Q, 1))])
        sds = np.hstack([sds, np.full((Q, 1), 2.0)])
        weights = np.repeat(np.r_[np.full(K, 0.99 / K), 0.01][None], Q, axis=0)
        super().__init__(weights, means[..., None], sds[..., None])
        self._quantiles = quantiles

    def quantile(self, levels: Array) -> Array:
        """Quantiles as the forest gives them, linear between its levels."""
        return np.stack([np.interp(levels, _LEVELS, row) for row in self._quantiles])

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws of the quantiles themselves, (Q, n, 1)."""
        levels = rng.random((len(self._quantiles), n))
        rows = zip(levels, self._quantiles, strict=True)
        return np.stack([np.interp(u, _LEVELS, row) for u, row in rows])[..., None]

    def crps(self, Y: Array) -> Array:
        """CRPS of the quantiles as equally likely values, (Q,)."""
        return _crps(self._quantiles, Y[:, 0])

    def mean(self) -> Array:
        """Means, (Q, 1)."""
        return self._quantiles.mean(axis=1, keepdims=True)

    def std(self) -> Array:
        """Standard deviations, (Q, 1)."""
        return self._quantiles.std(axis=1, keepdims=True)


def _crps(values: Array, y: Array) -> Array:
    """E|V - y| - ½ E|V - V'| of K equally likely sorted values in each row."""
    K = values.shape[1]
    ranks = 2 * np.arange(1, K + 1) - K - 1
    return np.abs(values - y[:, None]).mean(axis=1) - values @ ranks / K**2
