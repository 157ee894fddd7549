"""Distributions moved and stretched, each by its own numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kcdo.arrays import Array
from kcdo.distributions.batch import Batch, Rows, join
from kcdo.distributions.layouts import RegionShape
from kcdo.distributions.lines import Modes


@dataclass(frozen=True, eq=False)
class AffineBatch(Batch):
    """y = shift + scale r of each output, with r distributed as ``inner`` says.

    Parameters
    ----------
    inner : Batch
        Q distributions of d outputs.
    shift, scale : (Q, d)
        Scales are positive.
    """

    inner: Batch
    shift: Array
    scale: Array

    @property
    def dim(self) -> int:
        """Number of outputs."""
        return self.inner.dim

    @property
    def width(self) -> int:
        """Numbers held for each distribution."""
        return self.inner.width + 2 * self.dim

    def __len__(self) -> int:
        return len(self.shift)

    def take(self, rows: Rows) -> "AffineBatch":
        """Return some of the distributions."""
        return AffineBatch(self.inner.take(rows), self.shift[rows], self.scale[rows])

    def joined(self, others: Sequence["AffineBatch"]) -> "AffineBatch":
        """Return these distributions followed by others."""
        every = [self, *others]
        return AffineBatch(
            join([b.inner for b in every]),
            np.concatenate([b.shift for b in every]),
            np.concatenate([b.scale for b in every]),
        )

    @property
    def has_moment_points(self) -> bool:
        """Whether the inner distributions have moment points."""
        return self.inner.has_moment_points

    def moment_points(self) -> tuple[Array, Array]:
        """Points of the inner distributions, mapped."""
        points, masses = self.inner.moment_points()
        return self.shift + self.scale * points, masses

    def marginal(self, dims: Sequence[int]) -> "AffineBatch":
        """Return the distributions of some outputs."""
        columns = list(dims)
        return AffineBatch(
            self.inner.marginal(columns), self.shift[:, columns], self.scale[:, columns]
        )

    def given(self, dims: Sequence[int], values: Array) -> "AffineBatch":
        """Return the distributions of the other outputs, given values of outputs ``dims``."""
        known, others = list(dims), [i for i in range(self.dim) if i not in dims]
        standard = (values - self.shift[:, known]) / self.scale[:, known]
        inner = self.inner.given(known, standard)
        return AffineBatch(inner, self.shift[:, others], self.scale[:, others])

    def pdf_each(self, points: Array) -> Array:
        """Density of each distribution at its own points."""
        return self.inner.pdf_each(self._back(points)) / self._volume[:, None]

    def logpdf(self, points: Array) -> Array:
        """Log density at shared points."""
        return self._at_shared(points, lambda batch, each: batch.logpdf_each(each))

    def logpdf_each(self, points: Array) -> Array:
        """Log density of each distribution at its own points."""
        return self.inner.logpdf_each(self._back(points)) - np.log(self._volume)[:, None]

    def cdf_each(self, points: Array) -> Array:
        """Joint cdf of each distribution at its own points."""
        return self.inner.cdf_each(self._back(points))

    def moments(self) -> tuple[Array, Array]:
        """Mean and covariance."""
        mean, cov = self.inner.moments()
        return self.shift + self.scale * mean, self.scale[:, :, None] * self.scale[:, None, :] * cov

    def quantile(self, levels: Array) -> Array:
        """Quantiles of each marginal."""
        return self._there(self.inner.quantile(levels))

    def sample(self, uniforms: Array) -> Array:
        """Draws of the inner distributions, mapped."""
        return self._there(self.inner.sample(uniforms))

    def support(self) -> Array:
        """Ends of the inner distributions, mapped."""
        return self._there(self.inner.support())

    def quadrature(self) -> tuple[Array, Array]:
        """Points of the inner distributions, mapped."""
        points, masses = self.inner.quadrature()
        return self._there(points), masses

    def knots(self) -> Array:
        """Knots of the inner distributions, mapped."""
        return self._there(self.inner.knots()[:, :, None])[:, :, 0]

    def pieces(self) -> Array:
        """Pieces of the inner distributions, mapped."""
        return self._there(self.inner.pieces()[:, :, None])[:, :, 0]

    def mode(self) -> Array:
        """Place of the highest density."""
        return self.shift + self.scale * self.inner.mode()

    def peaks(self, least: float, prominence: float = 0.0) -> list[Modes]:
        """Return the peaks of the inner densities, mapped."""
        found = self.inner.peaks(least, prominence)
        return [
            Modes(shift + scale * modes.places, modes.heights / scale)
            for modes, (shift,), (scale,) in zip(found, self.shift, self.scale, strict=True)
        ]

    def regions(self, coverage: float) -> list[RegionShape]:
        """Return the regions of the inner distributions, mapped."""
        shapes = self.inner.regions(coverage)
        out = []
        for shape, shift, scale, volume in zip(
            shapes, self.shift, self.scale, self._volume, strict=True
        ):
            intervals = None if shape.intervals is None else shift + scale * shape.intervals
            level = shape.density_level / float(volume)
            out.append(RegionShape(level, shape.volume * float(volume), intervals))
        return out

    def entropy(self) -> Array:
        """-∫ p log p."""
        return self.inner.entropy() + np.log(self._volume)

    def square_integral(self) -> Array:
        """∫ p²."""
        return self.inner.square_integral() / self._volume

    def crps(self, Y: Array) -> Array:
        """Score of distribution q at Y[q], for d = 1."""
        return self.scale[:, 0] * self.inner.crps((Y - self.shift) / self.scale)

    @property
    def _volume(self) -> Array:
        return np.prod(self.scale, axis=1)

    def _back(self, points: Array) -> Array:
        return (points - self.shift[:, None, :]) / self.scale[:, None, :]

    def _there(self, points: Array) -> Array:
        return self.shift[:, None, :] + self.scale[:, None, :] * points
