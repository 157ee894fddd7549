"""A model that knows the truth: two narrow branches, whose place depends on the inputs."""

import numpy as np

import kcdo
from kcdo.distributions import ConditionalDistribution, MixtureBatch, StudentTail

SD, APART = 0.3, 4.0
_FREEDOM = 300.0  # as good as a Gaussian


class Branches:
    """Distributions with two branches around centres (Q,)."""

    dim, signed, width, n_jobs = 1, False, 8, 1

    def __init__(self, centres, sd=SD):
        self.centres, self.sd = np.asarray(centres, dtype=float), sd

    def __len__(self):
        return len(self.centres)

    def batch(self, rows):
        places = [self.centres[rows, None] + side * APART / 2 for side in (-1, 1)]
        parts = [StudentTail(place, np.full(place.shape, self.sd), _FREEDOM) for place in places]
        return MixtureBatch(parts, np.array([0.5, 0.5]))


def centre(X):
    """Where the middle between the branches is: idle does not matter."""
    return X["a"] + 6 * X["b"] + 9 * (X["kind"].astype(str) == "high")


class ForkedTruth(kcdo.ConditionalDensityOperator):
    """A right model of outputs in two branches around :func:`centre`."""

    def conditional(self, X):
        return ConditionalDistribution(Branches(centre(X)), flat=True)
