"""Distributions that node masses make of a layout."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from kcdo.arrays import Array
from kcdo.distributions.batch import Batch, Rows
from kcdo.distributions.integration import NO_CUTS, between, is_shared, split_for
from kcdo.distributions.layouts import Layout

_MATRIX_ELEMENTS = 1 << 23  # nodes x points evaluated at a time
_MOMENT_NODES = 64  # from here on a few points in every cell tell moments through a table
_CANCELS = 1e5  # squares about the centre, in variances, that leave few digits of a variance


@dataclass(frozen=True, eq=False)
class NodeBatch(Batch):
    """Masses (Q, M) on the nodes of one layout: most answers are one matrix product.

    Masses may be negative, for answers that are linear in them.
    """

    layout: Layout
    masses: Array

    @property
    def dim(self) -> int:
        """Number of outputs."""
        return self.layout.dim

    @property
    def width(self) -> int:
        """Number of nodes."""
        return self.masses.shape[1]

    def __len__(self) -> int:
        return len(self.masses)

    def take(self, rows: Rows) -> "NodeBatch":
        """Return some of the distributions."""
        return NodeBatch(self.layout, self.masses[rows])

    def joined(self, others: Sequence["NodeBatch"]) -> "NodeBatch":
        """Return these distributions followed by others."""
        return NodeBatch(self.layout, np.concatenate([self.masses, *(o.masses for o in others)]))

    def marginal(self, dims: Sequence[int]) -> "NodeBatch":
        """Return the distributions of some outputs."""
        layout, fold = self.layout.marginal(dims)
        return NodeBatch(layout, fold(self.masses))

    def given(self, dims: Sequence[int], values: Array) -> "NodeBatch":
        """Return the distributions of the other outputs: each bump counts as much as it is there.

        Exact, as bumps are products over the outputs. Where nothing of a distribution is, the
        others stay as they are.
        """
        others = [i for i in range(self.dim) if i not in dims]
        masses = self.masses * self.layout.heights(dims, values)
        total = masses.sum(axis=1, keepdims=True)
        known = np.where(total > 0, masses / np.where(total > 0, total, 1.0), self.masses)
        return replace(self, masses=known).marginal(others)

    def pdf(self, points: Array) -> Array:
        """Density at shared points, one product for all distributions."""
        return self._product(self.layout.pdf_matrix, points)

    def cdf(self, points: Array) -> Array:
        """Joint cdf at shared points, one product for all distributions."""
        return self._product(self.layout.cdf_matrix, points)

    def pdf_each(self, points: Array) -> Array:
        """Density of each distribution at its own points."""
        if is_shared(points):
            return self.pdf(points[0])
        return self.layout.pdf_each(self.masses, points)

    def cdf_each(self, points: Array) -> Array:
        """Joint cdf of each distribution at its own points."""
        if is_shared(points):
            return self.cdf(points[0])
        return self.layout.cdf_each(self.masses, points, self._cumulated)

    def moments(self) -> tuple[Array, Array]:
        """Mean and covariance, from moments about the centre of the layout."""
        d = self.dim
        centre, powers = _powers(self.layout)
        values = self.masses @ powers
        mean, square = values[:, :d], values[:, d:].reshape(-1, d, d)
        cov = square - mean[:, :, None] * mean[:, None, :]
        lost = np.einsum("qdd->qd", square) > _CANCELS * np.abs(np.einsum("qdd->qd", cov))
        mean = mean + centre
        for row in np.flatnonzero(lost.any(axis=1)):  # far from the centre, as beside outliers
            _, first, second = self.layout.moments(mean[row])
            mean[row] += self.masses[row] @ first
            cov[row] = np.einsum("m,mde->de", self.masses[row], second)
        return mean, cov

    def quantile(self, levels: Array) -> Array:
        """Quantiles of each marginal."""
        return self.layout.quantile(self.masses, levels)

    def sample(self, uniforms: Array) -> Array:
        """Exact draws."""
        return self.layout.sample(self.masses, uniforms)

    def support(self) -> Array:
        """Least and greatest place of positive density in each marginal."""
        return self.layout.support(self.masses)

    def quadrature(self) -> tuple[Array, Array]:
        """Points shared by all distributions, and their masses."""
        if self.dim == 1:
            return super().quadrature()
        points, shares = self.layout.quadrature()
        return np.broadcast_to(points, (len(self), *points.shape)), self.masses @ shares

    @property
    def has_moment_points(self) -> bool:
        """Whether nodes are so many, on a grid of one output, that points are close enough."""
        return self.dim == 1 and self.layout.linear and self.layout.n_nodes >= _MOMENT_NODES

    def moment_points(self) -> tuple[Array, Array]:
        """Two Gauss points in every cell."""
        points, shares = self.layout.quadrature()
        masses = np.asarray(self.masses @ shares)
        return np.broadcast_to(points[:, 0], masses.shape), masses

    def knots(self) -> Array:
        """Knots shared by all distributions."""
        knots = self.layout.knots()
        return np.broadcast_to(knots, (len(self), len(knots)))

    def pieces(self) -> Array:
        """Pieces shared by all distributions."""
        edges = self.layout.pieces()
        return np.broadcast_to(edges, (len(self), len(edges)))

    @property
    def linear(self) -> bool:
        """Whether densities are linear on the pieces: those on grids are."""
        return self.layout.linear

    def mode(self) -> Array:
        """Place of the highest density."""
        if self.dim > 1 and self.layout.linear:
            return self.layout.nodes[np.argmax(self.masses, axis=1)]  # where a bump is highest
        return super().mode()

    def candidates(self) -> Array:
        """The nodes, for d > 1."""
        return np.broadcast_to(self.layout.nodes, (len(self), *self.layout.nodes.shape))

    def entropy(self) -> Array:
        """-∫ p log p."""
        found = self.layout.entropy(self.masses)
        return super().entropy() if found is None else found

    def square_integral(self) -> Array:
        """∫ p² = πᵀ G π, with G the overlaps of the bumps."""
        return np.einsum("qm,qm->q", self.masses @ self.layout.overlaps(), self.masses)

    def expect(self, g: Callable[[Array], Array], cuts: Array = NO_CUTS) -> Array:
        """E g(Y): one quadrature for all distributions."""
        if self.dim > 1:
            points, shares = self.layout.quadrature()
            values = g(points)
            return self._with_events(self.masses @ (shares @ values), g, points, values)
        edges = np.sort(np.concatenate([self.layout.pieces(), cuts]))
        masses = np.abs(np.diff(self.cdf(edges[:, None]), axis=1)).max(axis=0)
        split = split_for(lambda y: g(y[:, None]), edges[None], masses[None])
        points, weights = (part[0] for part in between(split))
        return self.pdf(points[:, None]) @ (weights[:, None] * g(points[:, None]))

    @cached_property
    def _cumulated(self) -> Array | None:
        return self.layout.cumulated(self.masses)

    def _product(self, matrix: Callable[[Array], Array], points: Array) -> Array:
        step = max(1, _MATRIX_ELEMENTS // self.width)
        blocks = [points[s : s + step] for s in range(0, len(points), step)] or [points]
        return np.hstack([self.masses @ matrix(block) for block in blocks])


@lru_cache(maxsize=2)  # the same for every chunk of queries
def _powers(layout: Layout) -> tuple[Array, Array]:
    """Return the centre, and the first and second moments of the bumps, (M, d + d²)."""
    centre, first, second = layout.moments()
    return centre, np.hstack([first, second.reshape(len(second), -1)])
