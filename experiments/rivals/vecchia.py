"""Gaussian process with Vecchia's approximation, by GPBoost.

Matérn 3/2 with a scale for each input, a constant mean, scales and noise by the package's marginal
likelihood, its defaults otherwise (20 neighbours). Sigrist (JMLR 2022).
"""

import numpy as np

from kcdo.arrays import Array
from kcdo.rivals.base import NotApplicable, Rival
from kcdo.rivals.mixtures import Mixture


class VecchiaGP(Rival):
    """A Gaussian process whose rows are conditioned on near rows only."""

    name = "gpboost"

    def _fit(self, X: Array, Y: Array) -> None:
        import gpboost

        if Y.shape[1] > 1:
            raise NotApplicable("one output only")
        self._process = gpboost.GPModel(
            gp_coords=X, cov_function="matern_ard", cov_fct_shape=1.5, gp_approx="vecchia",
            likelihood="gaussian", seed=self.seed, num_parallel_threads=1,
        )  # fmt: skip
        self._process.fit(y=Y[:, 0], X=np.ones((len(X), 1)))

    def _conditional(self, X: Array) -> Mixture:
        found = self._process.predict(
            gp_coords_pred=X, X_pred=np.ones((len(X), 1)), predict_var=True, predict_response=True
        )
        sd = np.sqrt(np.maximum(found["var"], 1e-12))
        return Mixture.normal(found["mu"][:, None], sd[:, None])
