"""NGBoost with normal distributions.

Duan et al. (ICML 2020): depth-3 trees, learning rate 0.01, natural gradient, the number of stages
(at most 500, the package's default) chosen on 20 % of the training rows, then a fit to all rows.
"""

import numpy as np

from experiments.rivals.base import Array, NotApplicable, Rival
from experiments.rivals.mixtures import Mixture


class NGBoost(Rival):
    """Natural gradient boosting of mean and log sd."""

    name = "ngboost"

    def __init__(self, seed: int = 0, gap: float = 0.0, stages: int = 500) -> None:
        super().__init__(seed, gap)
        self.stages = stages

    def _fit(self, X: Array, Y: Array) -> None:
        if Y.shape[1] > 1:
            raise NotApplicable("one output only")
        rows = np.random.default_rng(self.seed).permutation(len(X))
        held, rest = np.split(rows, [len(X) // 5])
        y = Y[:, 0]
        stages = self.stages
        trial = self._model(stages)
        trial.fit(X[rest], y[rest], X[held], y[held], early_stopping_rounds=50)
        if trial.best_val_loss_itr:
            stages = int(trial.best_val_loss_itr) + 1
        self._fitted = self._model(stages).fit(X, y)

    def _model(self, stages: int):
        from ngboost import NGBRegressor

        return NGBRegressor(
            n_estimators=stages, learning_rate=0.01, verbose=False, random_state=self.seed
        )

    def _conditional(self, X: Array) -> Mixture:
        parameters = self._fitted.pred_dist(X).params
        sd = np.maximum(parameters["scale"], self._floor[0])
        return Mixture.normal(parameters["loc"][:, None], sd[:, None])
