"""Distributions on a few values: each is held as a narrow uniform density about its place."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kcdo.arrays import Array, Integers
from kcdo.distributions.batch import Batch, Rows

_BESIDE = 1e-9  # of a half width: where a spike has just ended


@dataclass(frozen=True, eq=False)
class SpikesBatch(Batch):
    """Σ_a q_a of uniform densities on [a - w/2, a + w/2], for one output.

    Parameters
    ----------
    places : (A,)
        The values a, increasing, farther apart than w.
    spike_width : float
        w.
    probabilities : (Q, A)
        Of each value; rows sum to 1.
    """

    places: Array
    spike_width: float
    probabilities: Array

    dim = 1

    @property
    def width(self) -> int:
        """Number of values."""
        return len(self.places)

    def __len__(self) -> int:
        return len(self.probabilities)

    def take(self, rows: Rows) -> "SpikesBatch":
        """Return some of the distributions."""
        return SpikesBatch(self.places, self.spike_width, self.probabilities[rows])

    def joined(self, others: Sequence["SpikesBatch"]) -> "SpikesBatch":
        """Return these distributions followed by others."""
        every = np.concatenate([self.probabilities, *(o.probabilities for o in others)])
        return SpikesBatch(self.places, self.spike_width, every)

    def marginal(self, dims: Sequence[int]) -> "SpikesBatch":
        """Return the distributions of the one output."""
        return self

    def atoms(self) -> tuple[Array, Array]:
        """Places and probabilities."""
        return self.places, self.probabilities

    def pdf_each(self, points: Array) -> Array:
        """Density of each distribution at its own points."""
        y = points[:, :, 0]
        nearest = self._nearest(y)
        inside = np.abs(y - self.places[nearest]) <= 0.5 * self.spike_width
        own = np.take_along_axis(self.probabilities, nearest, axis=1)
        return np.where(inside, own / self.spike_width, 0.0)

    def cdf_each(self, points: Array) -> Array:
        """P(output <= point) at each distribution's own points."""
        y = points[:, :, 0]
        nearest = self._nearest(y)
        own = np.take_along_axis(self.probabilities, nearest, axis=1)
        below = np.take_along_axis(self._levels, nearest, axis=1) - own
        share = np.clip((y - self.places[nearest]) / self.spike_width + 0.5, 0.0, 1.0)
        return below + own * share

    def moments(self) -> tuple[Array, Array]:
        """Mean and covariance."""
        mean = self.probabilities @ self.places
        square = np.einsum("qa,qa->q", self.probabilities, (self.places - mean[:, None]) ** 2)
        variance = square + self.spike_width**2 / 12.0
        return mean[:, None], variance[:, None, None]

    def quantile(self, levels: Array) -> Array:
        """Quantiles, (Q, len(levels), 1)."""
        out = np.empty((len(self), len(levels), 1))
        for k, level in enumerate(levels):
            out[:, k, 0] = self._at_level(np.full(len(self), level))
        return out

    def sample(self, uniforms: Array) -> Array:
        """Draws: the first uniform chooses the value, the second its place."""
        chosen = self._chosen(uniforms[:, :, 0])
        return (self.places[chosen] + self.spike_width * (uniforms[:, :, 1] - 0.5))[:, :, None]

    def support(self) -> Array:
        """The ends of the outermost spikes that have a probability."""
        present = self.probabilities > 0
        first, last = np.argmax(present, axis=1), np.argmax(present[:, ::-1], axis=1)
        half = 0.5 * self.spike_width
        ends = np.stack([self.places[first] - half, self.places[::-1][last] + half], axis=1)
        return ends[:, :, None]

    def pieces(self) -> Array:
        """The ends of the spikes."""
        return self._beside(np.array([-1.0, 1.0]))

    def knots(self) -> Array:
        """The ends of the spikes, from both sides, and their middles."""
        return self._beside(np.array([-1.0 - _BESIDE, -1.0, 0.0, 1.0, 1.0 + _BESIDE]))

    def _beside(self, offsets: Array) -> Array:
        """Return places at offsets from every value, in half widths, (Q, n)."""
        every = (self.places[:, None] + 0.5 * self.spike_width * offsets).ravel()
        return np.broadcast_to(every, (len(self), len(every)))

    @property
    def _levels(self) -> Array:
        return np.cumsum(self.probabilities, axis=1)

    def _nearest(self, y: Array) -> Integers:
        middles = 0.5 * (self.places[1:] + self.places[:-1])
        return np.searchsorted(middles, y)

    def _chosen(self, level: Array) -> Integers:
        """Return which value each level (Q, n) falls on."""
        found = (self._levels[:, None, :] < level[:, :, None]).sum(axis=2)
        return np.minimum(found, len(self.places) - 1)

    def _at_level(self, level: Array) -> Array:
        chosen = self._chosen(level[:, None])[:, 0]
        rows = np.arange(len(self))
        own = self.probabilities[rows, chosen]
        below = self._levels[rows, chosen] - own
        share = np.where(own > 0, (level - below) / np.where(own > 0, own, 1.0), 0.5)
        return self.places[chosen] + self.spike_width * (np.clip(share, 0.0, 1.0) - 0.5)
