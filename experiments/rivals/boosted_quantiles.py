"""Boosted quantiles, by CatBoost: its loss MultiQuantile.

23 levels in one model, its defaults otherwise: the time of a tree grows with the levels, and 199 of
them take a quarter of an hour on 750 rows. The number of trees is chosen on a fifth of the rows, as
for CatBoost's normals. Between the levels the 199 quantiles are linear.
"""

from typing import Any

import numpy as np

from experiments.rivals.from_quantiles import FromQuantiles
from kcdo.arrays import Array
from kcdo.rivals.quantiles import LEVELS

_BOOSTED = np.r_[0.005, 0.025, np.linspace(0.05, 0.95, 19), 0.975, 0.995]


class CatBoostQuantiles(FromQuantiles):
    """Quantiles boosted together."""

    name = "catboost-quantiles"

    def __init__(self, seed: int = 0, gap: float = 0.0, trees: int = 1000) -> None:
        super().__init__(seed, gap)
        self.trees = trees

    def _trial(self, X: Array, y: Array, X_held: Array, y_held: Array) -> Any:
        model = self._model(self.trees)
        return model.fit(X, y, eval_set=(X_held, y_held), early_stopping_rounds=50)

    def _learn(self, X: Array, y: Array, trial: Any) -> Any:
        return self._model(max(trial.tree_count_, 1)).fit(X, y)

    def _model(self, trees: int) -> Any:
        from catboost import CatBoostRegressor

        levels = ",".join(f"{level:g}" for level in _BOOSTED)
        return CatBoostRegressor(
            iterations=trees, loss_function=f"MultiQuantile:alpha={levels}", thread_count=1,
            random_seed=self.seed, verbose=False, allow_writing_files=False,
        )  # fmt: skip

    def _quantiles(self, model: Any, X: Array) -> Array:
        rows = np.sort(model.predict(X), axis=1)
        return np.stack([np.interp(LEVELS, _BOOSTED, row) for row in rows])
