"""kcdo as a model of ScoringBench: copy this file into scoringbench/univariate/wrappers/.

The benchmark scores histograms, on a regular grid of each row's own. Masses are differences of the
distribution function at its edges, which here is exact, so nothing is interpolated. Scores of the
density it takes on a grid that is as fine for every model, at least as long as the range of the
training outputs.
"""

from typing import Any

import numpy as np

import kcdo

try:
    from scoringbench.multivariate.prediction import MultivariateSamplePrediction
    from scoringbench.multivariate.wrappers.base import MultivariateWrapper
    from scoringbench.univariate.wrappers.base import DistributionPrediction, ProbabilisticWrapper
except ImportError:  # outside of the benchmark: its containers, as far as our tests need them
    from benchmarks.scoringbench.stand_ins import (
        DistributionPrediction,
        MultivariateSamplePrediction,
        MultivariateWrapper,
        ProbabilisticWrapper,
    )

TAIL = 1e-4  # probability beyond either end of the grid, which goes into the outermost bins


class KcdoWrapper(ProbabilisticWrapper):
    """Conditional densities of one target.

    Parameters
    ----------
    n_bins : int
        Bins of the histogram that is scored.
    options : dict, optional
        Options of :class:`kcdo.ConditionalDensityOperator`.
    """

    def __init__(self, n_bins: int = 500, options: dict[str, Any] | None = None) -> None:
        self.n_bins, self.options = n_bins, dict(options or {})

    def fit(self, X: Any, y: Any) -> "KcdoWrapper":
        y = np.asarray(y, dtype=float).ravel()
        self._set_train_range(y)
        self.model_ = kcdo.ConditionalDensityOperator(**self.options).fit(X, y)
        return self

    def predict(self, X: Any) -> np.ndarray:
        return self.model_.conditional(X).mean()

    def predict_distribution(self, X: Any) -> DistributionPrediction:
        dist = self.model_.conditional(X)
        ends = dist.quantile([TAIL, 1.0 - TAIL])
        widest = np.maximum(np.ptp(ends, axis=1), 1e-7 * (1.0 + np.abs(ends).max(axis=1)))
        shares = np.linspace(0.0, 1.0, self.n_bins + 1)
        edges = ends[:, :1] + widest[:, None] * shares
        below = np.stack([one.cdf(own)[0] for one, own in zip(dist, edges, strict=True)])
        below[:, 0], below[:, -1] = 0.0, 1.0
        masses = np.maximum(np.diff(below, axis=1), 0.0)
        masses /= masses.sum(axis=1, keepdims=True)
        return DistributionPrediction.from_histogram(
            edges, masses, mean=dist.mean(), train_range=self._y_train_range
        )


class KcdoEnsembleWrapper(MultivariateWrapper):
    """Joint densities of several targets, as draws.

    Parameters
    ----------
    n_draws : int
        Draws of each row.
    options : dict, optional
        Options of :class:`kcdo.ConditionalDensityOperator`.
    random_state : int
        Seed of the draws.
    """

    def __init__(
        self, n_draws: int = 1000, options: dict[str, Any] | None = None, random_state: int = 42
    ) -> None:
        self.n_draws, self.options, self.random_state = n_draws, dict(options or {}), random_state

    def fit(self, X: Any, Y: Any) -> "KcdoEnsembleWrapper":
        Y = np.asarray(Y, dtype=float)
        self.model_ = kcdo.ConditionalDensityOperator(**self.options).fit(
            X, Y[:, None] if Y.ndim == 1 else Y
        )
        return self

    def predict_ensemble(self, X: Any) -> MultivariateSamplePrediction:
        dist = self.model_.conditional(X)
        draws = dist.sample(self.n_draws, random_state=self.random_state)
        return MultivariateSamplePrediction(samples=draws, mean=dist.mean())
