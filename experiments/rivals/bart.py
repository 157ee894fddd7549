"""Bayesian additive regression trees (Chipman, George, McCulloch 2010), by stochtree.

Its defaults: 200 trees, 5 warm starts, 100 draws of the posterior. The predictive is the average of
the normals of the draws. ``varying=True`` adds a forest for the variance, as many trees as the
examples of the package take.
"""

import numpy as np

from kcdo.arrays import Array
from kcdo.rivals.base import NotApplicable, Rival
from kcdo.rivals.mixtures import Mixture

_VARIANCE_TREES = 50


class BART(Rival):
    """Sums of trees with normal noise, of one sd or of one that varies with x."""

    def __init__(self, seed: int = 0, gap: float = 0.0, *, varying: bool = False) -> None:
        super().__init__(seed, gap)
        self.name = "bart-hetero" if varying else "bart"
        self.varying = varying

    def _fit(self, X: Array, Y: Array) -> None:
        from stochtree import BARTModel

        if Y.shape[1] > 1:
            raise NotApplicable("one output only")
        forest = {"num_trees": _VARIANCE_TREES} if self.varying else {}
        general = {"random_seed": self.seed, "num_threads": 1}
        if self.varying:
            general["sample_sigma2_global"] = False
        self._model = BARTModel()
        self._model.sample(
            X_train=X, y_train=Y[:, 0], general_params=general, variance_forest_params=forest
        )

    def _conditional(self, X: Array) -> Mixture:
        means = self._model.predict(X, terms="y_hat")  # (Q, draws)
        if self.varying:
            variances = self._model.predict(X, terms="variance_forest")
        else:
            variances = np.broadcast_to(self._model.global_var_samples, means.shape)
        weights = np.full(means.shape, 1 / means.shape[1])
        return Mixture(weights, means[..., None], np.sqrt(variances)[..., None])
