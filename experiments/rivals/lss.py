"""Boosted location and scale, by LightGBMLSS (März 2023): a normal whose mean and sd are boosted.

LightGBM's defaults but for the learning rate, which is its 0.1 with at most 100 rounds or 0.02 with
at most 500, and the number of rounds: both by a fifth of the rows, then a fit to all. With 0.1 the
sds of the set cpu_act are too small after ten rounds already. It starts from the normal of all
outputs, an option of the package: from its default start some sds there fall to 1e-6 at once.
"""

from typing import Any

import numpy as np

from kcdo.arrays import Array
from kcdo.rivals.base import NotApplicable, Rival, held_out_split
from kcdo.rivals.mixtures import Mixture

_RATES = {0.1: 100, 0.02: 500}  # learning rates and the most rounds of each
_PATIENCE = 20


class BoostedNormal(Rival):
    """A normal with boosted mean and sd."""

    name = "lightgbmlss"

    def _fit(self, X: Array, Y: Array) -> None:
        if Y.shape[1] > 1:
            raise NotApplicable("one output only")
        y, (held, rest) = Y[:, 0], held_out_split(len(X), self.seed)
        trials = [
            (self._learn(X[rest], y[rest], rate, most, (X[held], y[held])).booster, rate)
            for rate, most in _RATES.items()
        ]
        best, self.rate = min(trials, key=lambda trial: trial[0].best_score["held out"]["nll"])
        self.rounds = max(best.best_iteration, 1)
        self._fitted = self._learn(X, y, self.rate, self.rounds)

    def _learn(self, X: Array, y: Array, rate: float, rounds: int, judged: Any = None) -> Any:
        import lightgbm
        from lightgbmlss.distributions.Gaussian import Gaussian
        from lightgbmlss.model import LightGBMLSS

        model = LightGBMLSS(Gaussian(initialize=True))
        data = lightgbm.Dataset(X, label=y)
        stop: dict[str, Any] = {}
        if judged:
            stop["valid_sets"] = [lightgbm.Dataset(judged[0], label=judged[1], reference=data)]
            stop["valid_names"] = ["held out"]
            stop["callbacks"] = [lightgbm.early_stopping(_PATIENCE, verbose=False)]
        settings = {"num_threads": 1, "seed": self.seed, "learning_rate": rate}
        model.train(settings, data, num_boost_round=rounds, **stop)
        return model

    def _conditional(self, X: Array) -> Mixture:
        found = self._fitted.predict(X, pred_type="parameters").to_numpy(float)
        return Mixture.normal(found[:, :1], np.maximum(found[:, 1:], 1e-6))
