"""Gaussian distributions with closed forms, and the public methods of a prediction."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import chi2


@dataclass
class Ball:
    """The region of highest density of independent Gaussians: an ellipsoid."""

    mean: np.ndarray
    sd: np.ndarray
    level: float

    @property
    def density_level(self):
        d = len(self.mean)
        return np.exp(-0.5 * chi2.ppf(self.level, d)) / np.prod(self.sd * np.sqrt(2 * np.pi))

    def contains(self, y):
        z = (np.reshape(y, (-1, len(self.mean))) - self.mean) / self.sd
        return (z**2).sum(axis=1) <= chi2.ppf(self.level, len(self.mean))


class GaussianTruth:
    """Independent Gaussians, one row of means and sds per query; vectors are one output."""

    def __init__(self, mean, sd):
        mean = np.asarray(mean, dtype=float)
        self.flat = mean.ndim == 1
        self.means = mean.reshape(len(mean), -1)
        self.sds = np.broadcast_to(
            np.reshape(sd, (-1, 1)) if np.ndim(sd) == 1 and self.flat else sd, self.means.shape
        )

    @property
    def n_outputs(self):
        return self.means.shape[1]

    def __len__(self):
        return len(self.means)

    def __getitem__(self, index):
        index = [index] if isinstance(index, int | np.integer) else index
        return self._with(self.means[index], self.sds[index], self.flat)

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def _with(self, means, sds, flat):
        new = type(self).__new__(type(self))
        new.means, new.sds, new.flat = means, sds, flat
        return new

    def _z(self, y):
        points = np.reshape(y, (1, -1, self.means.shape[1]))
        return (points - self.means[:, None]) / self.sds[:, None]

    def _shaped(self, values):
        return values[..., 0] if self.flat else values

    def pdf(self, y):
        return np.exp(self.logpdf(y))

    def logpdf(self, y):
        constant = np.log(self.sds * np.sqrt(2 * np.pi)).sum(axis=1)
        return -0.5 * (self._z(y) ** 2).sum(axis=2) - constant[:, None]

    def cdf(self, y):
        return np.prod(ndtr(self._z(y)), axis=2)

    def logpdf_pairs(self, Y):
        return np.diagonal(self.logpdf(Y))

    def mean(self):
        return self._shaped(self.means)

    def std(self):
        return self._shaped(self.sds)

    def cov(self):
        return self.sds[:, :, None] ** 2 * np.eye(self.sds.shape[1])

    def square_integral(self):
        return np.prod(1 / (2 * np.sqrt(np.pi) * self.sds), axis=1)

    def mode(self):
        return self._shaped(self.means)

    def quantile(self, q):
        values = self.means[:, None] + self.sds[:, None] * ndtri(np.reshape(q, (1, -1, 1)))
        values = values[:, 0] if np.ndim(q) == 0 else values
        return self._shaped(values)

    def interval(self, level):
        return self.quantile([0.5 - level / 2, 0.5 + level / 2])

    def hpd(self, level):
        return [Ball(m, s, level) for m, s in zip(self.means, self.sds, strict=True)]

    def sample(self, n, random_state=None):
        rng = np.random.default_rng(random_state)
        noise = rng.standard_normal((len(self), n, self.means.shape[1]))
        return self._shaped(self.means[:, None] + self.sds[:, None] * noise)

    def marginal(self, dims):
        columns = [dims] if isinstance(dims, int) else list(dims)
        return self._with(self.means[:, columns], self.sds[:, columns], isinstance(dims, int))


def made(q=400, d=None, seed=0):
    """Gaussians of different places and widths, and outputs drawn from them."""
    rng = np.random.default_rng(seed)
    shape = (q,) if d is None else (q, d)
    dist = GaussianTruth(rng.normal(size=shape), rng.uniform(0.3, 2.0, shape))
    return dist, dist.mean() + dist.std() * rng.standard_normal(shape)
