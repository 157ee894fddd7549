"""Densities on scattered nodes: Gaussian bumps, wide enough to join neighbouring nodes.

The width is half the local node spacing, but at least a quarter and at most half of the output
kernel's scale. It adds its square to the variance: a sixteenth to a quarter of the kernel's.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.sparse import identity, kron
from scipy.special import ndtr, ndtri
from scipy.stats import qmc

from kcdo.arrays import Array, Integers
from kcdo.consistency import need, shape
from kcdo.distributions.layouts import (
    Layout,
    Matrix,
    choose_nodes,
    row_blocks,
)
from kcdo.distributions.roots import monotone_roots
from kcdo.measures import Scattered

_LINE_POINTS = 2048
_POINTS = 1 << 14  # of all bumps together, in a quadrature
_REACH = 9.0  # sds; beyond them there is nothing of a bump


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
            t = points[None, :, i] - self.nodes[:, i, None]
            t /= np.sqrt(2.0) * self.sds[:, i, None]
            t *= t
            exponent -= t
        np.exp(exponent, out=exponent)
        exponent /= np.prod(self.sds * np.sqrt(2 * np.pi), axis=1)[:, None]
        return exponent

    def cdf_matrix(self, points: Array) -> Array:
        """Return the joint cdf of every bump."""
        out = np.ones((self.n_nodes, len(points)))
        for i in range(self.dim):
            out *= ndtr((points[None, :, i] - self.nodes[:, i, None]) / self.sds[:, i, None])
        return out

    def heights(self, dims: Sequence[int], values: Array) -> Array:
        """Return the density of some outputs of every bump."""
        columns = list(dims)
        return ScatteredLayout(self.nodes[:, columns], self.sds[:, columns]).pdf_matrix(values).T

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
            return np.matmul(masses[rows, None], bumps.transpose(1, 0, 2))[:, 0]

        blocks = row_blocks(len(masses), points.shape[1] * self.n_nodes)
        return np.concatenate([of_block(rows) for rows in blocks])

    def moments(self, centre: Array | None = None) -> tuple[Array, Array, Array]:
        """Return the moments of the bumps, by default about the mean node."""
        centre = self.nodes.mean(axis=0) if centre is None else centre
        first = self.nodes - centre
        second = first[:, :, None] * first[:, None, :]
        np.einsum("mdd->md", second)[:] += self.sds**2
        return centre, first, second

    def quadrature(self) -> tuple[Array, Matrix]:
        """Return points of each bump that have its mean and covariance: exact for cubic g."""
        offsets = _offsets(max(4 * self.dim, _POINTS // self.n_nodes), self.dim)
        points = (self.nodes + self.sds * offsets[:, None, :]).reshape(-1, self.dim)
        n = len(offsets)
        return points, kron(np.full((1, n), 1.0 / n), identity(self.n_nodes), format="csr")

    def knots(self) -> Array:
        """Return places all over each bump."""
        n = int(np.clip(_LINE_POINTS // self.n_nodes, 13, 49))
        return np.sort((self.nodes + self.sds * np.linspace(-6.0, 6.0, n)).ravel())

    def pieces(self) -> Array:
        """Return edges an sd of the narrowest bump apart, wherever there are bumps."""
        low, high = (np.sort(self.nodes[:, 0] + s * _REACH * self.sds[:, 0]) for s in (-1, 1))
        # sorted ends: a gap is where as many bumps have ended as have begun
        gaps = np.flatnonzero(low[1:] > high[:-1])
        starts, stops = low[np.append(0, gaps + 1)], high[np.append(gaps, -1)]
        step = self.sds.min()
        counts = np.ceil((stops - starts) / step).astype(int) + 1
        return np.concatenate(list(map(np.linspace, starts, stops, counts)))

    def overlaps(self) -> Array:
        """Return ∫ bump_i bump_j: the density of z_i - z_j under the summed variances."""
        out = np.ones((self.n_nodes, self.n_nodes))
        for z, sd in zip(self.nodes.T, self.sds.T, strict=True):
            variance = sd[:, None] ** 2 + sd**2
            out *= np.exp(-0.5 * (z[:, None] - z) ** 2 / variance)
            out /= np.sqrt(2 * np.pi * variance)
        return out

    def quantile(self, masses: Array, q: Array) -> Array:
        """Return the quantiles of each marginal, as roots of its cdf; infinite for 0 and 1."""
        out = np.empty((len(masses), len(q), self.dim))
        for i in range(self.dim):
            line = ScatteredLayout(self.nodes[:, [i]], self.sds[:, [i]])
            low = np.full(out.shape[:2], np.min(line.nodes - _REACH * line.sds))
            high = np.full_like(low, np.max(line.nodes + _REACH * line.sds))
            low = np.where(q >= 1, np.inf, np.where(q <= 0, -np.inf, low))
            high = np.where((q <= 0) | (q >= 1), low, high)

            def excess(rows: Integers, y: Array, line: Layout = line) -> Array:
                return line.cdf_each(masses[rows], y[:, :, None]) - q

            out[:, :, i] = monotone_roots(excess, low, high, np.full_like(low, 1e-14))
        return out

    def sample(self, masses: Array, uniforms: Array) -> Array:
        """Return exact draws: choose a node, then add its Gaussian noise."""
        chosen = choose_nodes(masses, uniforms[:, :, 0])
        noise = ndtri(np.clip(uniforms[:, :, 1:], 1e-300, 1.0 - 1e-16))
        return self.nodes[chosen] + self.sds[chosen] * noise

    def support(self, masses: Array) -> Array:
        """Return infinities: Gaussian bumps have no end."""
        ends = np.array([-np.inf, np.inf])[:, None]
        return np.broadcast_to(ends, (len(masses), 2, self.dim))

    def marginal(self, dims: Sequence[int]) -> tuple[Layout, Callable[[Array], Array]]:
        """Return the mixture of some columns; the masses stay."""
        columns = list(dims)
        return ScatteredLayout(self.nodes[:, columns], self.sds[:, columns]), np.asarray


@lru_cache(maxsize=8)
def _offsets(n: int, dim: int) -> Array:
    """Return about n points of a standard normal distribution, of mean 0 and covariance 1."""
    levels = qmc.Sobol(dim, rng=0).random(2 ** int(np.ceil(np.log2(n / 2))))
    half = ndtri(np.clip(levels, 1e-9, 1.0 - 1e-9))
    half = solve_triangular(cholesky(half.T @ half / len(half), lower=True), half.T, lower=True).T
    return np.concatenate([half, -half])
