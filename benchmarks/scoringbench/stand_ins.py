"""Containers with the fields that ScoringBench's have, for use without it."""

from dataclasses import dataclass

import numpy as np


class ProbabilisticWrapper:
    """A model of one target: fit, predict, predict_distribution."""


class MultivariateWrapper:
    """A model of several targets: fit, predict_ensemble."""

    def predict(self, X):
        return self.predict_ensemble(X).mean


@dataclass
class DistributionPrediction:
    """A histogram for each row."""

    probas: np.ndarray  # (rows, bins), of sum 1
    bin_edges: np.ndarray  # (rows, bins + 1)
    bin_midpoints: np.ndarray  # (rows, bins)
    mean: np.ndarray  # (rows,)


@dataclass
class MultivariateSamplePrediction:
    """Draws of each row."""

    samples: np.ndarray  # (rows, draws, targets)
    mean: np.ndarray  # (rows, targets)
