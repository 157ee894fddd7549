"""Mixture weights that vary with x: responsibilities of near rows, drawn to the weights of all."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array, Integers
from kcdo.consistency import need, shape
from kcdo.kernels import Kernel, metric_coordinates
from kcdo.systems import Finder


@dataclass(frozen=True, eq=False)
class Gate:
    """x ↦ π(x) = (κ π + Σ_j r_j) / (κ + k), r_j the responsibilities of the k rows nearest to x.

    Parameters
    ----------
    kernel : Kernel
        Its metric says which rows are near.
    X : (n, p)
        Inputs of rows that were held out.
    responsibilities : (n, C)
        Share of each component in the held-out density at the output of each row.
    weights : (C,)
        π, the weights of all rows.
    names : tuple of str
        Of the components.
    neighbours : int
        k.
    prior : float
        κ, rows that π counts as.
    """

    kernel: Kernel
    X: NDArray
    responsibilities: Array
    weights: Array
    names: tuple[str, ...]
    neighbours: int
    prior: float

    def __post_init__(self) -> None:
        shape(self.X, None, None)
        shape(self.responsibilities, len(self.X), len(self.names))
        shape(self.weights, len(self.names))
        need(0 < self.neighbours < len(self.X) and self.prior >= 0, "neighbours of a gate")
        need(self.weights.min() >= 0 and self.responsibilities.min() >= 0, "weights of a gate")

    def __call__(self, queries: NDArray) -> Array:
        """Return the weights at queries, (Q, C)."""
        near = self._finder.nearest(metric_coordinates(self.kernel, queries), self.neighbours, 1)
        return self._drawn(near)

    def held_out(self) -> Array:
        """Return the weights at its own rows, each without itself, (n, C)."""
        return self._drawn(self._finder.nearest_others(np.arange(len(self.X)), self.neighbours, 1))

    def _drawn(self, near: Integers) -> Array:
        total = self.responsibilities[near].sum(axis=1) + self.prior * self.weights
        return total / total.sum(axis=1, keepdims=True)

    @cached_property
    def _finder(self) -> Finder:
        return Finder(metric_coordinates(self.kernel, self.X))

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "_finder"}
