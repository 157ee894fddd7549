"""Quantile regression forest (Meinshausen 2006), by the package quantile-forest.

100 trees, its default; the smallest leaf by the out-of-bag quantile loss. Out-of-bag quantiles also
choose how they become a density: see :mod:`kcdo.rivals.quantiles`.
"""

from typing import Any

import numpy as np

from kcdo.arrays import Array, Integers
from kcdo.rivals.base import NotApplicable
from kcdo.rivals.quantiles import LEVELS, Quantiles, Smoothed, crps_of_values

_LEAVES = (1, 3, 5, 10, 20)
_SCORED = 2000  # out-of-bag rows for the choices


class QuantileForest(Smoothed):
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
            loss = crps_of_values(quantiles, y[scored]).mean()
            if loss < lowest:
                lowest, self._fitted, kept, self.leaf = loss, forest, quantiles, leaf
        self._smooth(kept, Y[scored])

    def _forest(self, leaf: int) -> Any:
        from quantile_forest import RandomForestQuantileRegressor

        return RandomForestQuantileRegressor(
            min_samples_leaf=leaf, max_samples_leaf=None, bootstrap=True, random_state=self.seed,
            n_jobs=1,
        )  # fmt: skip

    def _conditional(self, X: Array) -> Quantiles:
        quantiles = np.sort(self._fitted.predict(X, quantiles=list(LEVELS)), axis=1)
        return Quantiles(quantiles, *self.smoothing)


def _out_of_bag(forest: Any, X: Array, scored: Integers) -> Array:
    predicted = forest.predict(X[scored], quantiles=list(LEVELS), oob_score=True, indices=scored)
    return np.where(np.isnan(predicted), np.nanmedian(predicted, axis=0), predicted)
