"""Densities on scattered nodes: Gaussian bumps, wide enough to join neighbouring nodes.

The width is half the local node spacing, but at least a quarter and at most half of the output
kernel's scale. It adds its square to the variance: a sixteenth to a quarter of the kernel's.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import identity, kron
from scipy.special import ndtr, ndtri

from kcdo.arrays import Array
from kcdo.consistency import need, shape
from kcdo.distributions.layouts import (
    Layout,
    Matrix,
    RegionShape,
    choose_nodes,
    row_blocks,
)
from kcdo.distributions.piecewise import intervals_above
from kcdo.distributions.roots import monotone_roots
from kcdo.measures import Scattered

_LINE_POINTS = 2048
_REGION_POINTS = 8192  # of all bumps together


class ScatteredLayout(Layout):
    """Gaussian bumps N(z_j, diag(sd_j²)) at nodes (M, d)."""

    def __init__(self, nodes: Array, sds: Array) -> None:
        shape(nodes, None, None)
        shape(sds, *nodes.shape)
        need(nodes.size and sds.min() > 0, "widths that are not positive")
        self.nodes, self.sds = nodes, sds
        self.n_nodes, self.dim = nodes.shape

    @classmethod
    def of(cls, measure: Scattered, scales: Array) -> "ScatteredLayout":
        """Return the mixture on the nodes of a measure, for the output kernel's scales (d,)."""
        spacing = measure.reach[:, None] * measure.unit
        return cls(measure.nodes, np.clip(spacing / 2.0, scales / 4.0, scales / 2.0))

    def pdf_matrix(self, points: Array) -> Array:
        """Return the density of every bump at every point."""
        exponent = np.zeros((self.n_nodes, len(points)))
        for i in range(self.dim):
            t = (points[None, :, i] - self.nodes[:, i, None]) / self.sds[:, i, None]
            exponent -= 0.5 * t * t
        scale = np.prod(self.sds * np.sqrt(2 * np.pi), axis=1)
        return np.exp(exponent) / scale[:, None]

    def cdf_matrix(self, points: Array) -> Array:
        """Return the joint cdf of every bump."""
        out = np.ones((self.n_nodes, len(points)))
        for i in range(self.dim):
            out *= ndtr((points[None, :, i] - self.nodes[:, i, None]) / self.sds[:, i, None])
        return out

    def pdf_each(self, masses: Array, points: Array) -> Array:
        """Return the densities at points of their own."""
        return self._each(masses, points, self.pdf_matrix)

    def cdf_each(self, masses: Array, points: Array, cumulated: Array | None = None) -> Array:
        """Return the joint cdfs at points of their own."""
        return self._each(masses, points, self.cdf_matrix)

    def _each(self, masses: Array, points: Array, matrix: Callable[[Array], Array]) -> Array:
        def of_block(rows: slice) -> Array:
            some = points[rows]
            bumps = matrix(some.reshape(-1, self.dim)).reshape(self.n_nodes, *some.shape[:2])
            return np.einsum("qm,mqg->qg", masses[rows], bumps)

        blocks = row_blocks(len(masses), points.shape[1] * self.n_nodes)
        return np.concatenate([of_block(rows) for rows in blocks])

    def moments(self) -> tuple[Array, Array, Array]:
        """Return the moments of the bumps about the mean node."""
        centre = self.nodes.mean(axis=0)
        first = self.nodes - centre
        second = first[:, :, None] * first[:, None, :]
        np.einsum("mdd->md", second)[:] += self.sds**2
        return centre, first, second

    def integrals(self, g: Callable[[Array], Array]) -> Array:
        """Return ∫ g over each bump from 2d points each: exact for cubic g."""
        return np.mean([g(points) for points in self._sigma_points()], axis=0)

    def quadrature(self) -> tuple[Array, Matrix]:
        """Return the 2d points of each bump that :meth:`integrals` uses."""
        points = np.concatenate(list(self._sigma_points()))
        n = 2 * self.dim
        return points, kron(np.full((1, n), 1.0 / n), identity(self.n_nodes), format="csr")

    def knots(self) -> Array:
        """Return places all over each bump."""
        n = int(np.clip(_LINE_POINTS // self.n_nodes, 13, 49))
        return np.sort((self.nodes + self.sds * np.linspace(-6.0, 6.0, n)).ravel())

    def overlaps(self) -> Array:
        """Return ∫ bump_i bump_j: the density of z_i - z_j under the summed variances."""
        out = np.ones((self.n_nodes, self.n_nodes))
        for z, sd in zip(self.nodes.T, self.sds.T, strict=True):
            variance = sd[:, None] ** 2 + sd**2
            out *= np.exp(-0.5 * (z[:, None] - z) ** 2 / variance)
            out /= np.sqrt(2 * np.pi * variance)
        return out

    def entropy(self, masses: Array) -> Array:
        """Return -Σ π_j E log p over bump j, from the 2d points of :meth:`integrals`."""
        out = np.zeros(len(masses))
        for points in self._sigma_points():
            density = masses @ self.pdf_matrix(points)
            logs = np.log(np.where(masses > 0, density, 1.0))
            out -= np.einsum("qm,qm->q", masses, logs)
        return out / (2 * self.dim)

    def mode(self, masses: Array) -> Array:
        """Return the node of highest density."""
        return self.nodes[np.argmax(self._density_at_nodes(masses), axis=1)]

    def quantile(self, masses: Array, q: Array) -> Array:
        """Return the quantiles of each marginal, as roots of its cdf."""
        out = np.empty((len(masses), len(q), self.dim))
        for i in range(self.dim):
            line = ScatteredLayout(self.nodes[:, [i]], self.sds[:, [i]])
            low = np.full(out.shape[:2], np.min(line.nodes - 9 * line.sds))
            high = np.full_like(low, np.max(line.nodes + 9 * line.sds))
            low, high = np.where(q >= 1, high, low), np.where(q <= 0, low, high)

            def excess(rows: NDArray[np.integer], y: Array, line: Layout = line) -> Array:
                return line.cdf_each(masses[rows], y[:, :, None]) - q

            out[:, :, i] = monotone_roots(excess, low, high, np.full_like(low, 1e-14))
        return out

    def sample(self, masses: Array, uniforms: Array) -> Array:
        """Return exact draws: choose a node, then add its Gaussian noise."""
        chosen = choose_nodes(masses, uniforms[:, :, 0])
        noise = ndtri(np.clip(uniforms[:, :, 1:], 1e-300, 1.0 - 1e-16))
        return self.nodes[chosen] + self.sds[chosen] * noise

    def regions(self, masses: Array, coverage: float) -> list[RegionShape]:
        """Return the regions by ranking a few points of every bump: volume = E 1/p(Y) inside."""
        n = max(2, _REGION_POINTS // self.n_nodes)
        rng = np.random.default_rng(0)  # a Latin hypercube: each column meets every stratum once
        strata = rng.permuted(np.tile(np.arange(n), (self.dim, 1)), axis=1).T
        offsets = ndtri((strata + 0.5) / n)
        points = self.nodes + self.sds * offsets[:, None, :]
        bumps = self.pdf_matrix(points.reshape(-1, self.dim))
        shapes = []
        for masses_of_one in masses:
            heights, row = masses_of_one @ bumps, np.tile(masses_of_one / n, n)
            order = np.argsort(-heights)
            order = order[row[order] > 0]
            total = np.cumsum(row[order])
            count = int(np.searchsorted(total, coverage * total[-1])) + 1
            inside = order[:count]
            volume = float(np.sum(row[inside] / heights[inside]))
            level = float(heights[inside[-1]])
            intervals = self._intervals(masses_of_one, level) if self.dim == 1 else None
            shapes.append(RegionShape(level, volume, intervals))
        return shapes

    def _intervals(self, masses: Array, level: float) -> Array:
        """Return where a 1-D density is at least ``level``, from a fine line of points."""
        z, sd = self.nodes[:, 0], self.sds[:, 0]
        line = np.linspace(np.min(z - 5 * sd), np.max(z + 5 * sd), _LINE_POINTS)
        return intervals_above(line, masses @ self.pdf_matrix(line[:, None]), level)

    def marginal(self, dims: Sequence[int]) -> tuple[Layout, Callable[[Array], Array]]:
        """Return the mixture of some columns; the masses stay."""
        columns = list(dims)
        return ScatteredLayout(self.nodes[:, columns], self.sds[:, columns]), np.asarray

    def _sigma_points(self) -> Iterator[Array]:
        """Yield 2d points of each bump, (M, d) a time, with the bump's mean and covariance."""
        for i in range(self.dim):
            for sign in (-1.0, 1.0):
                shifted = self.nodes.copy()
                shifted[:, i] += sign * np.sqrt(self.dim) * self.sds[:, i]
                yield shifted

    def _density_at_nodes(self, masses: Array) -> Array:
        return masses @ self.pdf_matrix(self.nodes)
