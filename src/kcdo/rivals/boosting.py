"""Boosted trees with normal distributions: NGBoost and CatBoost.

NGBoost: Duan et al. (ICML 2020), depth-3 trees, learning rate 0.01, natural gradient, the number of
stages (at most 500, the package's default) chosen on 20 % of the training rows, then a fit to all.

CatBoost: its loss RMSEWithUncertainty, a normal distribution whose mean and variance are boosted
together (Malinin, Prokhorenkova, Ustimenko, ICLR 2021), with its defaults otherwise, and the number
of trees chosen in the same way.
"""

from typing import Any

import numpy as np

from kcdo.arrays import Array
from kcdo.rivals.base import NotApplicable, Rival, held_out_split
from kcdo.rivals.mixtures import Mixture


class NGBoost(Rival):
    """Natural gradient boosting of mean and log sd."""

    name = "ngboost"

    def __init__(self, seed: int = 0, gap: float = 0.0, stages: int = 500) -> None:
        super().__init__(seed, gap)
        self.stages = stages

    def _fit(self, X: Array, Y: Array) -> None:
        if Y.shape[1] > 1:
            raise NotApplicable("one output only")
        y, (held, rest) = Y[:, 0], held_out_split(len(X), self.seed)
        stages = self.stages
        trial = self._model(stages)
        trial.fit(X[rest], y[rest], X[held], y[held], early_stopping_rounds=50)
        if trial.best_val_loss_itr:
            stages = int(trial.best_val_loss_itr) + 1
        self._fitted = self._model(stages).fit(X, y)

    def _model(self, stages: int) -> Any:
        from ngboost import NGBRegressor  # a package of others

        return NGBRegressor(
            n_estimators=stages, learning_rate=0.01, verbose=False, random_state=self.seed
        )

    def _conditional(self, X: Array) -> Mixture:
        parameters = self._fitted.pred_dist(X).params
        return Mixture.normal(parameters["loc"][:, None], parameters["scale"][:, None])


class CatBoost(Rival):
    """Gradient boosting of mean and variance, by the package catboost."""

    name = "catboost"

    def __init__(self, seed: int = 0, gap: float = 0.0, trees: int = 1000) -> None:
        super().__init__(seed, gap)
        self.trees = trees

    def _fit(self, X: Array, Y: Array) -> None:
        if Y.shape[1] > 1:
            raise NotApplicable("one output only")
        y, (held, rest) = Y[:, 0], held_out_split(len(X), self.seed)
        trial = self._model(self.trees)
        trial.fit(X[rest], y[rest], eval_set=(X[held], y[held]), early_stopping_rounds=50)
        self._fitted = self._model(max(trial.tree_count_, 1)).fit(X, y)

    def _model(self, trees: int) -> Any:
        from catboost import CatBoostRegressor  # a package of others

        return CatBoostRegressor(
            iterations=trees,
            loss_function="RMSEWithUncertainty",
            random_seed=self.seed,
            thread_count=1,
            verbose=False,
            allow_writing_files=False,
        )

    def _conditional(self, X: Array) -> Mixture:
        mean, variance = self._fitted.predict(X).T
        sd = np.sqrt(np.maximum(variance, 1e-12))
        return Mixture.normal(mean[:, None], sd[:, None])
