"""Distributions of one output whose levels are bent: recalibration by held-out levels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kcdo.arrays import Array
from kcdo.distributions.batch import Batch, Rows, join, log
from kcdo.distributions.integration import ORDER, between

_HALVINGS = 60
_MANY_PIECES, _FEW_POINTS = 256, 3  # so many pieces are so narrow that three points of each do
_TOLD_FROM_1 = 1.0 - 1e-9  # levels above are rounded too coarsely to be integrated far out


@dataclass(frozen=True, eq=False)
class RecalibratedBatch(Batch):
    """Each draw is the least, the middle or the greatest of three draws of ``inner``.

    The cdf is B(F(y)) with F that of ``inner`` and B(u) = Σ_k w_k P(k-th smallest of three uniform
    numbers <= u), a cubic polynomial; its slope, the density of levels u, is a Bernstein polynomial
    of degree 2 with coefficients 3w. Equal shares w leave everything as it is; a larger middle
    share makes distributions narrower, unequal outer shares move them.

    Parameters
    ----------
    inner : Batch
        Q distributions of one output.
    shares : (3,)
        Probabilities w that a draw is the least, the middle, the greatest; positive, of sum 1.
    """

    inner: Batch
    shares: Array

    dim = 1

    @property
    def width(self) -> int:
        """Numbers held for each distribution."""
        return self.inner.width

    @property
    def uniforms(self) -> int:
        """Uniform numbers that a draw is made of: those of three, and one that chooses."""
        return uniforms_of_three(self.inner.uniforms)

    def __len__(self) -> int:
        return len(self.inner)

    def take(self, rows: Rows) -> "RecalibratedBatch":
        """Return some of the distributions."""
        return replace(self, inner=self.inner.take(rows))

    def joined(self, others: Sequence["RecalibratedBatch"]) -> "RecalibratedBatch":
        """Return these distributions followed by others."""
        return replace(self, inner=join([self.inner, *(other.inner for other in others)]))

    def marginal(self, dims: Sequence[int]) -> "RecalibratedBatch":
        """Return the distributions of the one output."""
        return self

    def with_mapped_parts(self, mapped: Callable[[Batch], Batch]) -> "RecalibratedBatch":
        """Return the same of mapped distributions: a monotone map does not change levels."""
        inner = self.inner.with_mapped_parts(mapped)
        return replace(self, inner=mapped(self.inner) if inner is None else inner)

    def pdf_each(self, points: Array) -> Array:
        """Density of each distribution at its own points."""
        return self.inner.pdf_each(points) * level_density(self.inner.cdf_each(points), self.shares)

    def logpdf_each(self, points: Array) -> Array:
        """Log density of each distribution at its own points."""
        density = level_density(self.inner.cdf_each(points), self.shares)
        return self.inner.logpdf_each(points) + log(density)

    def pdf(self, points: Array) -> Array:
        """Density at shared points."""
        return self.inner.pdf(points) * level_density(self.inner.cdf(points), self.shares)

    def logpdf(self, points: Array) -> Array:
        """Log density at shared points."""
        return self.inner.logpdf(points) + log(level_density(self.inner.cdf(points), self.shares))

    def cdf_each(self, points: Array) -> Array:
        """Distribution function of each distribution at its own points."""
        return bent(self.inner.cdf_each(points), self.shares)

    def cdf(self, points: Array) -> Array:
        """Distribution function at shared points."""
        return bent(self.inner.cdf(points), self.shares)

    def quantile(self, levels: Array) -> Array:
        """Quantiles of the inner distributions, at the levels that are bent into these."""
        return self.inner.quantile(_unbent(levels, self.shares))

    def sample(self, uniforms: Array) -> Array:
        """Three draws each, of which one is taken."""
        of_one = self.inner.uniforms
        parts = (uniforms[:, :, 1 + k * of_one : 1 + (k + 1) * of_one] for k in range(3))
        draws = np.sort(np.concatenate([self.inner.sample(part) for part in parts], axis=2), axis=2)
        edges = np.cumsum(self.shares)[:2]
        chosen = np.sum(uniforms[:, :, :1] >= edges, axis=2, keepdims=True)
        return np.take_along_axis(draws, chosen, axis=2)

    def support(self) -> Array:
        """Ends of the inner distributions."""
        return self.inner.support()

    def knots(self) -> Array:
        """Knots of the inner distributions."""
        return self.inner.knots()

    def pieces(self) -> Array:
        """Pieces of the inner distributions."""
        return self.inner.pieces()

    def moments(self) -> tuple[Array, Array]:
        """Mean and covariance: those of the inner distributions, and what bent levels add."""
        mean, variance = self.inner.moments()

        def added(batch: Batch, rows: slice) -> Array:
            assert isinstance(batch, RecalibratedBatch)
            return batch._added_moments(mean[rows], variance[rows, :, 0])

        both = self._in_blocks(added)
        shift, spread = both[:, :1], both[:, 1:]
        return mean + shift, np.maximum(variance + (spread - shift**2)[:, :, None], 0.0)

    def _added_moments(self, mean: Array, variance: Array) -> Array:
        """Return E g - E g of the inner distributions for g = y - mean and its square, (Q, 2).

        By parts, as far as levels are told from 1: ∫ g d(B - F) = [g (B - F)] - ∫ g' (B - F) dy.
        Beyond, B' is 3w of the greatest, and the rest of the inner moments is there.
        """
        edges = self.pieces()
        at_edges = self.inner.cdf_each(edges[:, :, None])
        inside = at_edges[:, 1:] < _TOLD_FROM_1
        end = inside.sum(axis=1)[:, None]
        level_end = np.take_along_axis(at_edges, end, axis=1)
        gap_end = np.take_along_axis(edges, end, axis=1) - mean
        order = ORDER if edges.shape[1] <= _MANY_PIECES else _FEW_POINTS
        y, weights = between(edges, order)
        weights = np.where(np.repeat(inside, order, axis=1), weights, 0.0)
        level = self.inner.cdf_each(y[:, :, None])
        lost, gaps = bent(level, self.shares) - level, np.where(weights > 0, y - mean, 0.0)
        lost_end = bent(level_end, self.shares) - level_end
        beyond = 3.0 * self.shares[2] - 1.0

        def of(g_end: Array, slope: Array | float, whole: Array | float) -> Array:
            of_lost, of_level = (
                np.sum(weights * slope * each, axis=1, keepdims=True) for each in (lost, level)
            )
            left = whole - (g_end * level_end - of_level)
            return g_end * lost_end - of_lost + beyond * left

        return np.hstack([of(gap_end, 1.0, 0.0), of(gap_end**2, 2.0 * gaps, variance)])


def uniforms_of_three(uniforms: int) -> int:
    """Return how many uniform numbers a draw takes, of distributions that take so many each."""
    return 3 * uniforms + 1


def level_density(levels: Array, shares: Array) -> Array:
    """Return the density of levels u of which a share is least, middle or greatest of three."""
    least, middle, greatest = shares
    below = 1.0 - levels
    return 3.0 * (least * below**2 + 2.0 * middle * levels * below + greatest * levels**2)


def bent(levels: Array, shares: Array) -> Array:
    """Return B(u), whose slope is :func:`level_density`; exactly 0 at 0 and 1 at 1."""
    least, _, greatest = shares
    below = 1.0 - levels
    # u + u (1 - u) times a line: nothing cancels where levels are near 0 or 1
    at_0, at_1 = 3.0 * least - 1.0, 1.0 - 3.0 * greatest
    return levels + levels * below * (at_0 * below + at_1 * levels)


def _unbent(levels: Array, shares: Array) -> Array:
    """Return u with B(u) = levels, by halving."""
    low, high = np.zeros_like(levels, dtype=float), np.ones_like(levels, dtype=float)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        above = bent(middle, shares) > levels
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    inside = (levels > 0) & (levels < 1)
    return np.where(inside, 0.5 * (low + high), levels)
