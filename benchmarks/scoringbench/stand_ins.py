"""Containers with the fields that ScoringBench's have, for use without it."""

from dataclasses import dataclass, field

import numpy as np
from scipy.interpolate import PchipInterpolator

DENSITY_BINS = 200


class ProbabilisticWrapper:
    """A model of one target: fit, predict, predict_distribution."""

    def _set_train_range(self, y):
        self._y_train_range = float(np.min(y)), float(np.max(y))


class MultivariateWrapper:
    """A model of several targets: fit, predict_ensemble."""

    def predict(self, X):
        return self.predict_ensemble(X).mean


@dataclass
class DistributionPrediction:
    """A histogram for each row, on equal bins of a grid of its own."""

    probas: np.ndarray  # (rows, bins), of sum 1
    bin_edges: np.ndarray  # (rows, bins + 1)
    bin_midpoints: np.ndarray  # (rows, bins)
    mean: np.ndarray  # (rows,)
    train_range: tuple[float, float] = field(kw_only=True)  # of the training outputs

    @classmethod
    def from_histogram(cls, bin_edges, probas, mean, *, train_range):
        """Return the histograms with these edges (rows, bins + 1) and masses (rows, bins)."""
        middles = 0.5 * (bin_edges[:, :-1] + bin_edges[:, 1:])
        return cls(probas, bin_edges, middles, mean, train_range=train_range)

    @property
    def resampled(self):
        """The same on DENSITY_BINS bins over the training range, longer where a row needs it.

        Densities are scored there: bins that a model makes as narrow as it likes would let it
        gain without end at outputs that repeat.
        """
        low = np.minimum(self.bin_edges[:, 0], self.train_range[0])
        high = np.maximum(self.bin_edges[:, -1], self.train_range[1])
        edges = np.linspace(low, high, DENSITY_BINS + 1, axis=1)
        below = np.pad(np.cumsum(self.probas, axis=1), ((0, 0), (1, 0)))
        inside = np.clip(edges, self.bin_edges[:, :1], self.bin_edges[:, -1:])
        rows = zip(self.bin_edges, below, inside, strict=True)
        masses = np.stack([np.diff(PchipInterpolator(e, c)(at)) for e, c, at in rows])
        masses = np.maximum(masses, 0.0) / masses.sum(axis=1, keepdims=True)
        return self.from_histogram(edges, masses, self.mean, train_range=self.train_range)


@dataclass
class MultivariateSamplePrediction:
    """Draws of each row."""

    samples: np.ndarray  # (rows, draws, targets)
    mean: np.ndarray  # (rows, targets)
