"""A Gaussian joint distribution as a chain whose links are known in closed form."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import multivariate_normal

from kcdo.distributions import ChainBatch, ConditionalDistribution, MixtureBatch, StudentTail

SLOPES = np.array([[1.0, -1.0, 0.5]])  # of the means, one input
COV = np.array([[1.0, 0.6, -0.4], [0.6, 0.8, 0.1], [-0.4, 0.1, 0.5]])


@dataclass
class GaussianLink:
    """y_target | x, earlier outputs: normal about a linear function of them."""

    target: int
    earlier: tuple[int, ...]

    def batch(self, queries):
        p = len(SLOPES)
        means, known = queries[:, :p] @ SLOPES, queries[:, p:]
        earlier = list(self.earlier)
        gains = np.linalg.solve(COV[np.ix_(earlier, earlier)], COV[earlier, self.target])
        mean = means[:, self.target] + (known - means[:, earlier]) @ gains
        sd = np.sqrt(COV[self.target, self.target] - gains @ COV[earlier, self.target])
        return StudentTail(mean[:, None], np.full((len(mean), 1), sd), np.inf)

    uniforms = 2

    def width(self, queries):
        return 8


def gaussian_chain(X, order=(0, 1, 2), n_draws=256):
    links = tuple(GaussianLink(order[j], tuple(order[:j])) for j in range(len(order)))
    return ChainBatch(np.asarray(X, dtype=float), links, tuple(order), n_draws)


def two_orders(X):
    chains = [gaussian_chain(X, order) for order in ((0, 1, 2), (2, 0, 1))]
    return MixtureBatch(chains, np.array([0.3, 0.7]))


def truth(x):
    """The joint distribution at one input."""
    return multivariate_normal(np.asarray(x) @ SLOPES, COV)


def conditional_truth(x, given):
    """Mean and covariance of the other outputs, where some are given."""
    held = list(given)
    rest = [i for i in range(3) if i not in held]
    mean = (np.asarray(x) @ SLOPES).ravel()
    gains = COV[np.ix_(rest, held)] @ np.linalg.inv(COV[np.ix_(held, held)])
    centre = mean[rest] + gains @ (np.array(list(given.values())) - mean[held])
    return centre, COV[np.ix_(rest, rest)] - gains @ COV[np.ix_(held, rest)]


class Source:
    """A batch as the source of a distribution."""

    signed, n_jobs, width = False, 1, 1000

    def __init__(self, batch):
        self._batch, self.dim = batch, batch.dim

    def __len__(self):
        return len(self._batch)

    def batch(self, rows):
        return self._batch.take(rows)


def distribution(batch):
    return ConditionalDistribution(Source(batch), flat=batch.dim == 1)
