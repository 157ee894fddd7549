"""Distributions seen through a monotone map of each output: how bounded outputs are predicted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kcdo.arrays import Array
from kcdo.distributions import piecewise
from kcdo.distributions.batch import Batch, Rows, between, join
from kcdo.distributions.layouts import RegionShape
from kcdo.transforms import Transform

_EDGE = 1e-3  # probability beyond which a mode is not sought
_REFINED = 4


@dataclass(frozen=True, eq=False)
class TransformedBatch(Batch):
    """y = T⁻¹(t) of each output, with t distributed as ``inner`` says.

    Parameters
    ----------
    inner : Batch
        Q distributions of T(y).
    transform : Transform
        T; one for all outputs, or :class:`~kcdo.transforms.Columns`.
    """

    inner: Batch
    transform: Transform

    @property
    def dim(self) -> int:
        """Number of outputs."""
        return self.inner.dim

    @property
    def width(self) -> int:
        """Numbers held for each distribution."""
        return self.inner.width

    def __len__(self) -> int:
        return len(self.inner)

    def take(self, rows: Rows) -> "TransformedBatch":
        """Return some of the distributions."""
        return replace(self, inner=self.inner.take(rows))

    def joined(self, others: Sequence["TransformedBatch"]) -> "TransformedBatch":
        """Return these distributions followed by others."""
        return replace(self, inner=join([self.inner, *(o.inner for o in others)]))

    def marginal(self, dims: Sequence[int]) -> "TransformedBatch":
        """Return the distributions of some outputs."""
        return TransformedBatch(self.inner.marginal(dims), self.transform.of_columns(dims))

    def pdf_each(self, points: Array) -> Array:
        """Density of each distribution at its own points; 0 beyond the bounds."""
        return _exp(self.logpdf_each(points))

    def logpdf(self, points: Array) -> Array:
        """Log density at shared points."""
        return self._with_jacobian(points, self.inner.logpdf)

    def logpdf_each(self, points: Array) -> Array:
        """Log density of each distribution at its own points; -inf beyond the bounds."""
        return self._with_jacobian(points, self.inner.logpdf_each)

    def pdf(self, points: Array) -> Array:
        """Density at shared points."""
        return _exp(self.logpdf(points))

    def cdf(self, points: Array) -> Array:
        """Joint cdf at shared points."""
        return self.inner.cdf(self.transform.forward(points))

    def cdf_each(self, points: Array) -> Array:
        """Joint cdf of each distribution at its own points."""
        return self.inner.cdf_each(self.transform.forward(points))

    def moments(self) -> tuple[Array, Array]:
        """Mean and covariance, by quadrature."""

        def of_block(batch: Batch, _: slice) -> Array:
            points, masses = batch.quadrature()
            masses = masses / masses.sum(axis=1, keepdims=True)
            mean = np.einsum("qk,qkd->qd", masses, points)
            gap = points - mean[:, None, :]
            cov = np.einsum("qk,qkd,qke->qde", masses, gap, gap)
            return np.concatenate([mean[:, None, :], cov], axis=1)

        both = self._in_blocks(of_block)
        return both[:, 0], both[:, 1:]

    def quantile(self, levels: Array) -> Array:
        """Quantiles of each marginal, mapped."""
        return self.transform.inverse(self.inner.quantile(levels))

    def sample(self, uniforms: Array) -> Array:
        """Draws of the inner distributions, mapped."""
        return self.transform.inverse(self.inner.sample(uniforms))

    def quadrature(self) -> tuple[Array, Array]:
        """Points of the inner distributions, mapped."""
        points, masses = self.inner.quadrature()
        return self.transform.inverse(points), masses

    def knots(self) -> Array:
        """Knots of the inner distributions, mapped."""
        return self.transform.inverse(self.inner.knots()[:, :, None])[:, :, 0]

    def candidates(self) -> Array:
        """Places where the inner density is high, away from the outermost probability.

        At a bound the derivative of T is infinite, and with it the density of a heavy tail.
        """
        places = self.inner.candidates()
        if self.dim == 1:
            places = _refined(places[:, :, 0])[:, :, None]
        edges = self.inner.quantile(np.array([_EDGE, 1.0 - _EDGE]))
        return self.transform.inverse(np.clip(places, edges[:, :1], edges[:, 1:]))

    def regions(self, coverage: float) -> list[RegionShape]:
        """Return the regions of highest density, without the outermost probability."""
        if self.dim > 1:
            return super().regions(coverage)
        edge = _EDGE * (1.0 - coverage)
        shapes = []
        for rows in self._blocks():
            batch = self.take(rows)
            ends = batch.quantile(np.array([edge, 1.0 - edge]))[:, :, 0]
            places = _refined(np.clip(batch.knots(), ends[:, :1], ends[:, 1:]))
            shapes += piecewise.regions(places, batch.pdf_each(places[:, :, None]), coverage)
        return shapes

    def square_integral(self) -> Array:
        """∫ p², over t in 1-D: ∫ p_t² T' dt; infinite for a heavy tail at a bound."""
        if self.dim > 1:
            return super().square_integral()

        def of_block(batch: Any, _: slice) -> Array:
            t, weights = between(batch.inner.knots(), 3)
            logs = batch.logpdf_each(self.transform.inverse(t[:, :, None]))
            p = np.where(np.isneginf(logs), 0.0, batch.inner.pdf_each(t[:, :, None]))
            return np.einsum("qk,qk->q", weights * p, _exp(logs))

        return self._in_blocks(of_block)

    def entropy(self) -> Array:
        """-∫ p log p = that of the inner distribution - E log T'(Y)."""

        def of_block(batch: Any, _: slice) -> Array:
            points, masses = batch.quadrature()
            inside = self.transform.inside(points)
            middle = self.transform.inverse(np.zeros(self.dim))
            slopes = self.transform.log_derivative(np.where(inside, points, middle))
            return np.einsum("qk,qkd->q", masses, slopes)

        return self.inner.entropy() - self._in_blocks(of_block)

    def _with_jacobian(self, points: Array, inner: Callable[[Array], Array]) -> Array:
        points = self.transform.off_bounds(points)  # where training outputs on a bound were moved
        inside = np.all(self.transform.inside(points), axis=-1)
        middle = self.transform.inverse(np.zeros(self.dim))
        safe = np.where(inside[..., None], points, middle)
        slope = self.transform.log_derivative(safe).sum(axis=-1)
        return np.where(inside, inner(self.transform.forward(safe)) + slope, -np.inf)


def _refined(knots: Array) -> Array:
    """Return knots (Q, K) with more in each interval: a transform makes densities curved there."""
    shares = np.arange(_REFINED) / _REFINED
    inner = knots[:, :-1, None] + np.diff(knots, axis=1)[:, :, None] * shares
    return np.hstack([inner.reshape(len(knots), -1), knots[:, -1:]])


def _exp(logs: Array) -> Array:
    """Return the exponential; a density may be infinite at a bound."""
    with np.errstate(over="ignore"):
        return np.exp(logs)
