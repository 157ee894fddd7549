"""Distributions on a regular grid: the multilinear interpolant of the node densities.

Node j carries the bump π_j · Π_i hat(y_i): a triangle between its neighbours and, beyond the
outermost nodes, flat up to the edge of the box half a cell away. Every bump has mass 1, the density
at a node is π_j / cell volume, and nothing lies outside the box.
"""

from collections.abc import Callable, Sequence
from functools import partial, reduce

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, kron

from kcdo.arrays import Array, Integers
from kcdo.distributions import piecewise
from kcdo.distributions.axes import AxisProduct
from kcdo.distributions.layouts import (
    Layout,
    Matrix,
    choose_nodes,
    row_blocks,
)
from kcdo.measures import Grid

_LEAST_POINTS = {2: 64, 3: 24}  # of a quadrature, on an axis


class GridLayout(Layout):
    """Multilinear densities on the box of a :class:`~kcdo.measures.Grid`."""

    linear = True

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.dim = grid.dim
        self.n_nodes = grid.n_nodes

    @property
    def nodes(self) -> Array:  # type: ignore[override]
        """The nodes of the grid."""
        return self.grid.nodes

    def pdf_matrix(self, points: Array) -> Matrix:
        """Return the density of every bump at every point; 0 outside the box."""
        return (self.grid.interpolation(points) / self.grid.cell_volume).T

    def cdf_matrix(self, points: Array) -> Array:
        """Return the joint cdf of every bump: a product over the axes."""
        out = np.ones((1, len(points)))
        for i in range(self.dim):
            axis = self._hat_cdf(i, points[:, i])
            out = (out[:, None, :] * axis[None, :, :]).reshape(len(out) * len(axis), len(points))
        return out

    def pdf_each(self, masses: Array, points: Array) -> Array:
        """Return the densities at points of their own, from the 2^d nodes around each."""
        if self.dim == 1:
            return piecewise.pdf(*self._line, masses, points[:, :, 0])
        shares = self.grid.interpolation(points.reshape(-1, self.dim))
        around = (*points.shape[:2], 2**self.dim)
        rows = np.arange(len(masses))[:, None, None]
        near = masses[rows, shares.indices.reshape(around)]
        return np.einsum("qgc,qgc->qg", near, shares.data.reshape(around)) / self.grid.cell_volume

    def cumulated(self, masses: Array) -> Array | None:
        """Return the cdf at the nodes, for d = 1."""
        return piecewise.cdf_at_nodes(masses) if self.dim == 1 else None

    def cdf_each(self, masses: Array, points: Array, cumulated: Array | None = None) -> Array:
        """Return the joint cdfs at points of their own, contracting one axis after the other."""
        if self.dim == 1:
            at_nodes = piecewise.cdf_at_nodes(masses) if cumulated is None else cumulated
            return piecewise.cdf(*self._line, masses, at_nodes, points[:, :, 0])
        return np.concatenate(
            [
                self._joint_cdf(masses[rows], points[rows])
                for rows in row_blocks(len(masses), points.shape[1] * self.n_nodes)
            ]
        )

    def _joint_cdf(self, masses: Array, points: Array) -> Array:
        q, g = points.shape[:2]
        tensor = np.broadcast_to(masses[:, None, :], (q, g, self.n_nodes))
        for i, m in enumerate(self.grid.shape):
            hats = self._hat_cdf(i, points[:, :, i].ravel()).T.reshape(q, g, m)
            tensor = tensor.reshape(q, g, m, int(np.prod(self.grid.shape[i + 1 :])))
            tensor = np.einsum("qgm,qgmr->qgr", hats, tensor)
        return tensor[:, :, 0]

    def heights(self, dims: Sequence[int], values: Array) -> Array:
        """Return the density of some outputs of every bump."""
        some = GridLayout(self.grid.marginal(list(dims)))
        places = np.ravel_multi_index([self._axis_index(i) for i in dims], some.grid.shape)
        return np.asarray(some.pdf_matrix(values).toarray())[places].T

    def moments(self, centre: Array | None = None) -> tuple[Array, Array, Array]:
        """Return the closed-form moments of the bumps, by default about the centre of the box."""
        centre = 0.5 * (self.grid.lower + self.grid.upper) if centre is None else centre
        first = self.grid.nodes - centre
        spread = np.empty_like(first)
        for i, (h, m) in enumerate(zip(self.grid.spacing, self.grid.shape, strict=True)):
            place = self._axis_index(i)
            leftmost, rightmost = place == 0, place == m - 1
            # a hat has E t² = h²/6; one that is flat over half a cell has h²/8 and E t = ±h/24
            shift = (h / 24) * (leftmost.astype(float) - rightmost)
            squared = np.where(leftmost | rightmost, h * h / 8, h * h / 6)
            first[:, i] += shift
            spread[:, i] = squared - shift**2
        second = first[:, :, None] * first[:, None, :]
        np.einsum("mdd->md", second)[:] += spread
        return centre, first, second

    def quadrature(self) -> tuple[Array, Matrix]:
        """Return Gauss points of every cell and axis: exact for cubic functions.

        Two on an axis; in few cells of several axes so many more that events, too, see enough.
        """
        least = _LEAST_POINTS.get(self.dim, 1)
        orders = [max(2, -(-least // (m + 1))) for m in self.grid.shape]
        rules = [self._axis_rule(i, order) for i, order in enumerate(orders)]
        points = np.stack(np.meshgrid(*(axis for axis, _ in rules), indexing="ij"), axis=-1)
        return points.reshape(-1, self.dim), AxisProduct([weighted for _, weighted in rules])

    def knots(self) -> Array:
        """Return edges and nodes, and places just outside, where the density is 0."""
        knots = self._knots(0)
        step = 1e-9 * (knots[-1] - knots[0])
        return np.concatenate([[knots[0] - step], knots, [knots[-1] + step]])

    def pieces(self) -> Array:
        """Return edges and nodes."""
        return self._knots(0)

    def overlaps(self) -> Matrix:
        """Return ∫ bump_i bump_j: products over the axes of integrals by exact Gauss points."""
        out = csr_matrix(np.ones((1, 1)))
        for i in range(self.dim):
            _, weighted = self._axis_rule(i, order=2)
            hats = csr_matrix(weighted / self._axis_weights(i, order=2))
            out = kron(out, hats @ csr_matrix(weighted).T, format="csr")
        return out

    def entropy(self, masses: Array) -> Array:
        """Return -∫ p log p: exact for d = 1, else by Gauss points in the cells."""
        if self.dim == 1:
            return piecewise.entropy(self._knots(0), self._axis_heights(0, masses))
        order = 3 if self.dim == 2 else 2
        axes = [self._axis_weights(i, order) for i in range(self.dim)]
        rules = [self._axis_rule(i, order)[1] / own for i, own in enumerate(axes)]
        bumps, weights = AxisProduct(rules), reduce(np.multiply.outer, axes).ravel()

        def of_block(rows: slice) -> Array:
            density = masses[rows] @ bumps
            logs = np.log(np.where(density > 0, density, 1.0))
            return -(density * logs) @ weights

        return np.concatenate([of_block(rows) for rows in row_blocks(len(masses), len(weights))])

    def _axis_rule(self, axis: int, order: int) -> tuple[Array, Array]:
        """Return Gauss points between the knots of one axis, and weight x hat there, (m, G)."""
        places, _ = np.polynomial.legendre.leggauss(order)
        knots = self._knots(axis)
        points = 0.5 * (knots[1:] + knots[:-1])[:, None] + 0.5 * np.diff(knots)[:, None] * places
        hats = self._axis_layout(axis).pdf_matrix(points.reshape(-1, 1)).toarray()
        return points.ravel(), hats * self._axis_weights(axis, order)

    def _axis_weights(self, axis: int, order: int) -> Array:
        _, weights = np.polynomial.legendre.leggauss(order)
        return (0.5 * np.diff(self._knots(axis))[:, None] * weights).ravel()

    def quantile(self, masses: Array, q: Array) -> Array:
        """Return the exact quantiles of each marginal."""
        out = np.empty((len(masses), len(q), self.dim))
        for i in range(self.dim):
            marginal = self._axis_masses(i, masses)
            lower, spacing = float(self.grid.lower[i]), float(self.grid.spacing[i])
            out[:, :, i] = piecewise.quantiles(lower, spacing, marginal, q)
        if np.any(q >= 1):  # where the cdf hardly rises any more, rounding moves its root
            out[:, q >= 1] = self.support(masses)[:, 1:]
        return out

    def sample(self, masses: Array, uniforms: Array) -> Array:
        """Return exact draws: choose a node, then add the noise of its bump."""
        chosen = choose_nodes(masses, uniforms[:, :, 0])
        places = np.unravel_index(chosen, self.grid.shape)
        draws = np.empty((*chosen.shape, self.dim))
        for i, (h, m) in enumerate(zip(self.grid.spacing, self.grid.shape, strict=True)):
            noise = _hat_noise(uniforms[:, :, i + 1], places[i] == 0, places[i] == m - 1)
            draws[:, :, i] = self.grid.axes[i][places[i]] + h * noise
        return draws

    def support(self, masses: Array) -> Array:
        """Return the ends of the outermost bumps that have a mass, of each marginal."""
        out = np.empty((len(masses), 2, self.dim))
        for i in range(self.dim):
            present = self._axis_masses(i, masses) > 0
            knots = self._knots(i)
            first, last = np.argmax(present, axis=1), np.argmax(present[:, ::-1], axis=1)
            out[:, 0, i], out[:, 1, i] = knots[first], knots[::-1][last]
        return out

    def marginal(self, dims: Sequence[int]) -> tuple[Layout, Callable[[Array], Array]]:
        """Return the grid of some axes; masses are summed over the others."""
        return GridLayout(self.grid.marginal(list(dims))), partial(
            _summed, self.grid.shape, list(dims)
        )

    @property
    def _line(self) -> tuple[float, float]:
        """Where the first axis begins, and the distance of its nodes."""
        return float(self.grid.lower[0]), float(self.grid.spacing[0])

    def _knots(self, axis: int) -> Array:
        return np.concatenate(
            [[self.grid.lower[axis]], self.grid.axes[axis], [self.grid.upper[axis]]]
        )

    def _axis_heights(self, axis: int, masses: Array) -> Array:
        """Return the density of one marginal at its knots, (Q, m + 2)."""
        marginal = self._axis_masses(axis, masses)
        return marginal[:, _clamped(self.grid.shape[axis])] / self.grid.spacing[axis]

    def _axis_masses(self, axis: int, masses: Array) -> Array:
        return masses if self.dim == 1 else self.marginal([axis])[1](masses)

    def _axis_layout(self, axis: int) -> "GridLayout":
        return GridLayout(self.grid.marginal([axis])) if self.dim > 1 else self

    def _axis_index(self, axis: int) -> Integers:
        """Return the position of every node along one axis."""
        return np.unravel_index(np.arange(self.n_nodes), self.grid.shape)[axis]

    def _hat_cdf(self, axis: int, y: Array) -> Array:
        """Return the cdf of each hat of one axis at each y, (m, G)."""
        m, h = self.grid.shape[axis], self.grid.spacing[axis]
        t = np.clip((y[None, :] - self.grid.axes[axis][:, None]) / h, -1.0, 1.0)
        values = np.where(t < 0, 0.5 * (1 + t) ** 2, 1.0 - 0.5 * (1 - t) ** 2)
        flat = np.clip(t, -0.5, 0.5) + 0.5
        values[0] = np.where(t[0] < 0, flat[0], values[0])
        values[m - 1] = np.where(t[m - 1] > 0, flat[m - 1], values[m - 1])
        return values


def _summed(shape: tuple[int, ...], dims: list[int], masses: Array) -> Array:
    """Return masses on a grid summed over the axes that are not among ``dims``, in their order."""
    others = tuple(1 + i for i in range(len(shape)) if i not in dims)
    kept = sorted(dims)
    tensor = masses.reshape(len(masses), *shape).sum(axis=others)
    return tensor.transpose([0, *(1 + kept.index(i) for i in dims)]).reshape(len(masses), -1)


def _clamped(m: int) -> Integers:
    """Return the node whose density holds at each knot: edge, nodes, edge."""
    return np.clip(np.arange(-1, m + 1), 0, m - 1)


def _hat_noise(u: Array, leftmost: NDArray[np.bool_], rightmost: NDArray[np.bool_]) -> Array:
    """Invert the cdf of a hat of half-width 1; its outer half is uniform at the edges."""
    left = u < 0.5
    triangle = np.where(
        left, np.sqrt(2.0 * u) - 1.0, 1.0 - np.sqrt(np.maximum(2.0 * (1.0 - u), 0.0))
    )
    return np.where((left & leftmost) | (~left & rightmost), u - 0.5, triangle)
