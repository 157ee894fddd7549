"""Conformal predictive systems (Vovk et al. 2017), by crepes, on a random forest.

The forest has scikit-learn's defaults and is calibrated by its out-of-bag residuals, so that all
rows serve both. A row's difficulty is one of the package's: the mean absolute residual of its 25
nearest neighbours, not scaled to 0..1, which would make the easiest row a hundred times easier than
the hardest. The quantiles at x are the forest's mean plus difficulty times the quantiles of the
residuals over their difficulties.
"""

from typing import Any

import numpy as np

from experiments.rivals.from_quantiles import FromQuantiles
from kcdo.arrays import Array
from kcdo.rivals.quantiles import LEVELS


class ConformalForest(FromQuantiles):
    """A normalised conformal predictive system above a random forest."""

    name = "crepes"

    def _learn(self, X: Array, y: Array, trial: Any) -> Any:
        from crepes import ConformalPredictiveSystem
        from crepes.extras import DifficultyEstimator
        from sklearn.ensemble import RandomForestRegressor

        forest = RandomForestRegressor(oob_score=True, random_state=self.seed).fit(X, y)
        residuals = y - forest.oob_prediction_
        difficulty = DifficultyEstimator()
        difficulty.fit(X=X, residuals=residuals, scaler=False, oob=True)
        system = ConformalPredictiveSystem()
        system.fit(residuals, sigmas=difficulty.apply(), seed=self.seed)
        return forest, difficulty, system

    def _quantiles(self, model: Any, X: Array) -> Array:
        forest, difficulty, system = model
        # All rows share the scaled residuals: those of the row with mean 0 and difficulty 1.
        scaled = system.predict_cpds(np.zeros(1), sigmas=np.ones(1))[0]
        residuals = np.outer(difficulty.apply(X), np.quantile(scaled, LEVELS))
        return forest.predict(X)[:, None] + residuals
