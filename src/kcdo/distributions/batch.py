"""A batch: Q distributions of d outputs, and the answers that follow from a few of them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.distributions import piecewise
from kcdo.distributions.layouts import RegionShape

Rows = slice | NDArray[np.integer]

_BLOCK_ELEMENTS = 1 << 17  # numbers of one array of points


class Batch(ABC):
    """Q distributions of d outputs.

    ``points`` (G, d) are shared by all distributions; methods ``*_each`` take points of each
    distribution, (Q, G, d). Answers have the Q axis first.
    """

    @property
    @abstractmethod
    def dim(self) -> int:
        """Number of outputs d."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Numbers held for each distribution."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of distributions Q."""

    @abstractmethod
    def take(self, rows: Rows) -> "Batch":
        """Return some of the distributions."""

    @abstractmethod
    def joined(self, others: Sequence[Any]) -> "Batch":
        """Return these distributions followed by others of the same kind."""

    @abstractmethod
    def marginal(self, dims: Sequence[int]) -> "Batch":
        """Return the distributions of some outputs."""

    @abstractmethod
    def pdf_each(self, points: Array) -> Array:
        """Density of each distribution at its own points (Q, G, d): (Q, G)."""

    @abstractmethod
    def cdf_each(self, points: Array) -> Array:
        """P(every output <= the point's) at each distribution's own points (Q, G, d): (Q, G)."""

    @abstractmethod
    def moments(self) -> tuple[Array, Array]:
        """Mean (Q, d) and covariance (Q, d, d)."""

    @abstractmethod
    def quantile(self, levels: Array) -> Array:
        """Quantiles of each marginal, (Q, len(levels), d)."""

    @abstractmethod
    def sample(self, uniforms: Array) -> Array:
        """Draws (Q, n, d) made of independent uniforms (Q, n, d + 1).

        The first uniform of a draw chooses its component and its node, the others its place.
        """

    @abstractmethod
    def quadrature(self) -> tuple[Array, Array]:
        """Points (Q, K, d) and masses (Q, K) with E g(Y) ≈ Σ_k mass_k g(point_k)."""

    @abstractmethod
    def knots(self) -> Array:
        """For d = 1: sorted places (Q, K) between which the density is smooth, nearly linear."""

    # --- what follows from the above; kinds that know better override it

    def pdf(self, points: Array) -> Array:
        """Density of each distribution at shared points (G, d): (Q, G)."""
        return self._at_shared(points, lambda batch, each: batch.pdf_each(each))

    def logpdf(self, points: Array) -> Array:
        """Logarithm of :meth:`pdf`."""
        return log(self.pdf(points))

    def logpdf_each(self, points: Array) -> Array:
        """Logarithm of :meth:`pdf_each`."""
        return log(self.pdf_each(points))

    def pdf_pairs(self, Y: Array) -> Array:
        """Density of distribution q at Y[q], (Q,)."""
        return self.pdf_each(Y[:, None, :])[:, 0]

    def logpdf_pairs(self, Y: Array) -> Array:
        """Logarithm of :meth:`pdf_pairs`."""
        return self.logpdf_each(Y[:, None, :])[:, 0]

    def cdf(self, points: Array) -> Array:
        """Joint cdf of each distribution at shared points (G, d): (Q, G)."""
        return self._at_shared(points, lambda batch, each: batch.cdf_each(each))

    def mode(self) -> Array:
        """Place of the highest density, (Q, d), among :meth:`candidates`."""

        def highest(batch: Batch, _: slice) -> Array:
            places = batch.candidates()
            best = np.argmax(batch.pdf_each(places), axis=1)
            return places[np.arange(len(places)), best]

        return self._in_blocks(highest)

    def candidates(self) -> Array:
        """Places among which the density is highest, (Q, C, d): sorted for d = 1."""
        return self.knots()[:, :, None] if self.dim == 1 else self.quadrature()[0]

    def regions(self, coverage: float) -> list[RegionShape]:
        """Return the region of highest density of each distribution."""
        find = _regions_on_a_line if self.dim == 1 else _regions_by_points
        blocks = (self.take(rows) for rows in self._blocks())
        return [shape for batch in blocks for shape in find(batch, coverage)]

    def entropy(self) -> Array:
        """-∫ p log p, (Q,)."""

        def of_block(batch: Batch, _: slice) -> Array:
            if batch.dim == 1:
                points, weights = between(batch.knots(), 4)
                p = batch.pdf_each(points[:, :, None])
                return -np.einsum("qk,qk,qk->q", weights, p, log(np.where(p > 0, p, 1.0)))
            points, masses = batch.quadrature()
            p = batch.pdf_each(points)
            return -np.einsum("qk,qk->q", masses, log(np.where(masses > 0, p, 1.0)))

        return self._in_blocks(of_block)

    def square_integral(self) -> Array:
        """∫ p², (Q,)."""

        def of_block(batch: Batch, _: slice) -> Array:
            if batch.dim == 1:
                points, weights = between(batch.knots(), 3)
                return np.einsum("qk,qk->q", weights, batch.pdf_each(points[:, :, None]) ** 2)
            points, masses = batch.quadrature()
            return np.einsum("qk,qk->q", masses, batch.pdf_each(points))

        return self._in_blocks(of_block)

    def crps(self, Y: Array) -> Array:
        """∫ (cdf(t) - 1{y <= t})² dt of distribution q at Y[q], (Q,), for d = 1.

        Exact where the density is linear between knots: the integrand has degree 4 there.
        """

        def of_block(batch: Batch, rows: slice) -> Array:
            y = Y[rows]
            points, weights = between(np.sort(np.hstack([batch.knots(), y]), axis=1), 3)
            gap = batch.cdf_each(points[:, :, None]) - (points > y)
            return np.einsum("qk,qk->q", weights, gap**2)

        return self._in_blocks(of_block)

    def expect(self, g: Callable[[Array], Array]) -> Array:
        """E g(Y), (Q, k), for g that maps (G, d) to (G, k)."""

        def of_block(batch: Batch, _: slice) -> Array:
            points, masses = batch.quadrature()
            values = g(np.ascontiguousarray(points).reshape(-1, self.dim))
            return np.einsum("qk,qkv->qv", masses, values.reshape(*masses.shape, -1))

        return self._in_blocks(of_block)

    def _at_shared(self, points: Array, answer: Callable[["Batch", Array], Array]) -> Array:
        def of_block(batch: Batch, _: slice) -> Array:
            return answer(batch, np.broadcast_to(points, (len(batch), *points.shape)))

        return self._in_blocks(of_block, points.size)

    def _in_blocks(
        self, answer: Callable[["Batch", slice], Array], width: int | None = None
    ) -> Array:
        """Return answers for blocks of distributions: arrays of points of each are large."""
        return np.concatenate([answer(self.take(rows), rows) for rows in self._blocks(width)])

    def _blocks(self, width: int | None = None) -> list[slice]:
        step = max(1, _BLOCK_ELEMENTS // max(1, 3 * self.width if width is None else width))
        return [slice(start, start + step) for start in range(0, max(1, len(self)), step)]


def join(batches: Sequence[Batch]) -> Batch:
    """Return the distributions of batches of one kind as one batch."""
    return batches[0] if len(batches) == 1 else batches[0].joined(batches[1:])


def log(values: Array) -> Array:
    """Return the logarithm; -inf at 0."""
    with np.errstate(divide="ignore"):
        return np.log(values)


def between(knots: Array, order: int) -> tuple[Array, Array]:
    """Return Gauss points between knots (Q, K) and their weights, (Q, order (K - 1)) each."""
    places, weights = leggauss(order)
    half = 0.5 * np.diff(knots, axis=1)[:, :, None]
    middle = 0.5 * (knots[:, 1:] + knots[:, :-1])[:, :, None]
    points, shares = middle + half * places, half * weights
    return points.reshape(len(knots), -1), shares.reshape(len(knots), -1)


def _regions_on_a_line(batch: Batch, coverage: float) -> list[RegionShape]:
    knots = batch.knots()
    return piecewise.regions(knots, batch.pdf_each(knots[:, :, None]), coverage)


def _regions_by_points(batch: Batch, coverage: float) -> list[RegionShape]:
    """Rank the points of the quadrature: volume = E 1/p(Y) inside."""
    points, masses = batch.quadrature()
    heights = batch.pdf_each(points)
    order = np.argsort(-heights, axis=1)
    heights = np.take_along_axis(heights, order, axis=1)
    masses = np.where(heights > 0, np.take_along_axis(masses, order, axis=1), 0.0)
    total = np.cumsum(masses, axis=1)
    last = np.sum(total < coverage * total[:, -1:], axis=1)
    inside = np.arange(masses.shape[1]) <= last[:, None]
    volumes = np.where(inside, masses / np.where(heights > 0, heights, 1.0), 0.0).sum(axis=1)
    levels = heights[np.arange(len(last)), last]
    return [
        RegionShape(float(level), float(volume), None)
        for level, volume in zip(levels, volumes, strict=True)
    ]
