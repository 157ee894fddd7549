"""Reference measures as nodes with weights: on a regular grid, or scattered."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.spatial import KDTree

from kcdo.arrays import Array
from kcdo.consistency import need, shape

_MOST_NODES = 1 << 40  # of any grid: far from where 64-bit products overflow


@dataclass(frozen=True, eq=False)
class Grid:
    """Lebesgue measure on a box, as a regular grid of cell centres, last axis fastest.

    Parameters
    ----------
    lower, upper : (d,)
        Corners of the box.
    shape : tuple of d ints
        Nodes per axis.
    """

    lower: Array
    upper: Array
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        shape(self.lower, len(self.shape))
        shape(self.upper, len(self.shape))
        need(self.shape and min(self.shape) >= 1, "a grid without nodes")
        need(math.prod(self.shape) < _MOST_NODES, "a grid of too many nodes")
        need(np.all(self.upper > self.lower), "a box without width")

    @property
    def dim(self) -> int:
        """Dimension d."""
        return len(self.shape)

    @property
    def n_nodes(self) -> int:
        """Number of nodes M."""
        return int(np.prod(self.shape))

    @property
    def spacing(self) -> Array:
        """Edge lengths of a cell, (d,)."""
        return (self.upper - self.lower) / np.array(self.shape)

    @property
    def axes(self) -> list[Array]:
        """Node coordinates along each axis."""
        return [
            lo + h * (np.arange(m) + 0.5)
            for lo, h, m in zip(self.lower, self.spacing, self.shape, strict=True)
        ]

    @cached_property
    def nodes(self) -> Array:
        """All nodes, (M, d)."""
        return np.stack(np.meshgrid(*self.axes, indexing="ij"), axis=-1).reshape(-1, self.dim)

    @property
    def cell_volume(self) -> float:
        """Volume of a cell: the weight of every node."""
        return float(np.prod(self.spacing))

    @property
    def weights(self) -> Array:
        """Node weights, (M,)."""
        return np.full(self.n_nodes, self.cell_volume)

    @property
    def total(self) -> float:
        """ρ of the whole space: the volume of the box."""
        return float(np.prod(self.upper - self.lower))

    def outside(self, Y: Array) -> NDArray[np.bool_]:
        """Whether each row of Y lies outside the support."""
        return np.any((self.lower > Y) | (self.upper < Y), axis=1)

    def interpolation(self, points: Array) -> csr_matrix:
        """Return the multilinear shares of each point's 2^d neighbouring nodes, (G, M).

        Beyond the outermost nodes the nearest node has all; outside the box nothing.
        """
        index = np.zeros((len(points), 1), dtype=np.int64)
        share = np.ones((len(points), 1))
        for lower, h, m, y in zip(self.lower, self.spacing, self.shape, points.T, strict=True):
            place = np.clip((y - lower) / h - 0.5, 0.0, m - 1.0)
            left = np.minimum(place.astype(np.int64), m - 2)
            right_share = place - left
            pair = np.stack([left, left + 1], axis=1)
            shares = np.stack([1.0 - right_share, right_share], axis=1)
            corners = (len(points), 2 * index.shape[1])
            index = (index[:, :, None] * m + pair[:, None, :]).reshape(corners)
            share = (share[:, :, None] * shares[:, None, :]).reshape(corners)
        share[self.outside(points)] = 0.0
        starts = np.arange(len(points) + 1) * index.shape[1]
        return csr_matrix((share.ravel(), index.ravel(), starts), (len(points), self.n_nodes))

    def marginal(self, dims: Sequence[int]) -> "Grid":
        """Return the grid of some of the axes."""
        d = list(dims)
        return Grid(self.lower[d], self.upper[d], tuple(self.shape[i] for i in d))


@dataclass(frozen=True, eq=False)
class Scattered:
    """A measure carried by scattered nodes with weights."""

    nodes: Array
    weights: Array

    def __post_init__(self) -> None:
        shape(self.nodes, None, None)
        shape(self.weights, len(self.nodes))
        need(self.nodes.size, "a measure without nodes")
        need(self.weights.min() > 0, "weights of nodes that are not positive")

    @property
    def dim(self) -> int:
        """Dimension d."""
        return self.nodes.shape[1]

    @property
    def n_nodes(self) -> int:
        """Number of nodes M."""
        return len(self.nodes)

    @property
    def total(self) -> float:
        """ρ of the whole space."""
        return float(self.weights.sum())

    @cached_property
    def reach(self) -> Array:
        """Distance of each node to its (2d)-th neighbour, in units of :attr:`unit`: local spacing.

        On a regular grid this is the spacing. Repeated nodes have the smallest positive reach.
        """
        scaled = self.nodes / self.unit
        k = min(2 * self.dim + 1, self.n_nodes)
        distances = np.asarray(KDTree(scaled).query(scaled, k=[k])[0])[:, 0]
        positive = distances[distances > 0]
        return np.maximum(distances, positive.min() if len(positive) else 1.0)

    @cached_property
    def unit(self) -> Array:
        """Standard deviation of each column of the nodes (1 where constant)."""
        sd = self.nodes.std(axis=0)
        return np.where(sd > 1e-14 * np.abs(self.nodes).max(axis=0), sd, 1.0)

    def outside(self, Y: Array) -> NDArray[np.bool_]:
        """Whether each row of Y is farther from every node than three times the usual spacing."""
        distance = np.asarray(KDTree(self.nodes / self.unit).query(Y / self.unit)[0])
        return distance > 3.0 * np.quantile(self.reach, 0.9)


Measure = Grid | Scattered
