"""What a vector of node masses means as a distribution.

A layout turns masses π (Q, M), one row per distribution, into answers. Most answers are linear in
the masses, so the layout gives a matrix: ``pdf = masses @ layout.pdf_matrix(points)``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kcdo.arrays import Array, Integers
from kcdo.errors import InvalidInputError

Matrix = Any  # a NumPy array or a SciPy sparse matrix

_LARGEST_BLOCK = 1 << 22  # elements


class Layout(ABC):
    """Nodes, and the bump of probability that each carries."""

    dim: int
    n_nodes: int
    nodes: Array  # (M, d)
    linear: bool = False  # whether bumps are products of functions that are linear on pieces

    @abstractmethod
    def pdf_matrix(self, points: Array) -> Matrix:
        """Return the density of every bump at every point (G, d), (M, G)."""

    @abstractmethod
    def cdf_matrix(self, points: Array) -> Array:
        """Return P(bump <= point in every column), (M, G)."""

    @abstractmethod
    def pdf_each(self, masses: Array, points: Array) -> Array:
        """Return the density of each row of masses at its own points (Q, G, d), (Q, G)."""

    @abstractmethod
    def cdf_each(self, masses: Array, points: Array, cumulated: Array | None = None) -> Array:
        """Return the joint cdf of each row of masses at its own points (Q, G, d), (Q, G).

        ``cumulated`` is what :meth:`cumulated` returned for the masses, if that is known.
        """

    def cumulated(self, masses: Array) -> Array | None:
        """Return what :meth:`cdf_each` would compute of the masses at every call."""
        return None

    @abstractmethod
    def heights(self, dims: Sequence[int], values: Array) -> Array:
        """Return the density of some outputs of every bump, at values (Q, k) of these, (Q, M)."""

    @abstractmethod
    def moments(self, centre: Array | None = None) -> tuple[Array, Array, Array]:
        """Return a centre c (d,), and each bump's E[y-c] (M, d) and E[(y-c)(y-c)ᵀ] (M, d, d)."""

    @abstractmethod
    def quadrature(self) -> tuple[Array, Matrix]:
        """For d > 1: return points (K, d), and the share of each bump that each has, (M, K)."""

    @abstractmethod
    def knots(self) -> Array:
        """For d = 1: return sorted places (K,) between which cdfs are nearly linear."""

    @abstractmethod
    def pieces(self) -> Array:
        """For d = 1: return edges (K,) of pieces on which densities are smooth."""

    @abstractmethod
    def overlaps(self) -> Matrix:
        """Return ∫ bump_i bump_j, (M, M)."""

    def entropy(self, masses: Array) -> Array | None:
        """Return -∫ p log p, (Q,), or None where nothing special is known of it."""
        return None

    @abstractmethod
    def quantile(self, masses: Array, q: Array) -> Array:
        """Return the quantiles of each marginal, (Q, k, d)."""

    @abstractmethod
    def sample(self, masses: Array, uniforms: Array) -> Array:
        """Return draws (Q, n, d) made of independent uniforms (Q, n, d + 1)."""

    @abstractmethod
    def support(self, masses: Array) -> Array:
        """Return the least and greatest place of positive density in each marginal, (Q, 2, d)."""

    @abstractmethod
    def marginal(self, dims: Sequence[int]) -> tuple["Layout", Callable[[Array], Array]]:
        """Return the layout of some columns, and the map of masses to it."""


@dataclass(frozen=True)
class RegionShape:
    """Density level and volume of a region, and of one output its intervals (n, 2)."""

    density_level: float
    volume: float
    intervals: Array | None


def as_points(y: ArrayLike, d: int) -> Array:
    """Return points (G, d) of a d-dimensional density; one point may come without its G axis."""
    points = np.asarray(y, dtype=float)
    if points.ndim <= 1 and d == 1:
        points = points.reshape(-1, 1)
    elif points.ndim == 1 and len(points) == d:
        points = points[None]
    if points.ndim != 2 or points.shape[1] != d:
        raise InvalidInputError(
            f"points must be (G, {d}){' or (G,)' if d == 1 else ''}; got {np.shape(y)}."
        )
    if np.any(np.isnan(points)):
        raise InvalidInputError("points contain NaN.")
    return points


def row_blocks(n_rows: int, width: int) -> list[slice]:
    """Return slices of rows so that rows x width numbers fit in little memory."""
    step = max(1, _LARGEST_BLOCK // max(1, width))
    return [slice(start, start + step) for start in range(0, max(1, n_rows), step)]


def choose_nodes(masses: Array, uniforms: Array) -> Integers:
    """Return the node of each draw, (Q, n), by inverting the cumulated masses."""
    total = np.cumsum(masses, axis=1)
    total /= total[:, -1:]
    offsets = 2.0 * np.arange(len(masses))[:, None]
    flat = (total + offsets).ravel()
    found = np.searchsorted(flat, uniforms + offsets, side="right")
    found -= masses.shape[1] * np.arange(len(masses))[:, None]
    return np.clip(found, 0, masses.shape[1] - 1)
