"""Which observations share an input: the paper's factorisation trick, for any counts."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from kcdo.arrays import Array, Integers
from kcdo.consistency import need, shape


@dataclass(frozen=True, eq=False)
class Groups:
    """Distinct rows, and which observation belongs to which.

    Rows of equal input enter the ridge system once, with their weights summed and their targets
    averaged; the answer is exactly that of the ungrouped system.
    """

    points: NDArray
    member_of: Integers
    weights: Array  # ω of each observation

    def __post_init__(self) -> None:
        n, member_of = len(self.points), self.member_of
        shape(member_of, None)
        shape(self.weights, len(member_of))
        need(n and len(member_of), "no rows")
        inside = member_of.min() >= 0 and member_of.max() < n
        need(inside and np.bincount(member_of, minlength=n).all(), "groups of equal inputs")
        need(self.weights.min() > 0, "weights that are not positive")

    @classmethod
    def of(cls, X: NDArray, weights: Array | None = None) -> "Groups":
        """Group equal rows of X; objects are not compared.

        The order of the groups depends on the rows alone, not on the order they come in.

        Examples
        --------
        >>> groups = Groups.of(np.array([[1.0], [0.0], [1.0]]))
        >>> groups.points.ravel(), groups.member_of
        (array([0., 1.]), array([1, 0, 1]))
        """
        # a copy: what users do to their weights later changes no fitted model
        weights = np.ones(len(X)) if weights is None else weights.copy()
        if X.dtype == object or X.ndim != 2:
            return cls(X, np.arange(len(X)), weights)
        return cls(*_distinct_rows(X), weights)

    @property
    def all_distinct(self) -> bool:
        """Whether no two rows are equal."""
        return len(self.points) == len(self.member_of)

    @cached_property
    def are_counts(self) -> bool:
        """Whether the weights are whole numbers: a weight of 3 then equals three rows."""
        return are_counts(self.weights)

    @property
    def n_effective(self) -> float:
        """Number of observations that the weights amount to."""
        return effective_size(self.weights)

    @cached_property
    def totals(self) -> Array:
        """Sum of the weights of each group."""
        counts = np.bincount(self.member_of, weights=self.weights, minlength=len(self.points))
        return counts.astype(float)

    @cached_property
    def share(self) -> Array:
        """Weight of each observation within its group."""
        return self.weights / self.totals[self.member_of]

    def averaging(self, columns: Integers, n_columns: int) -> csr_matrix:
        """Return the sparse (n, n_columns) matrix that averages rows ``columns`` in each group."""
        shape = (len(self.points), n_columns)
        return csr_matrix((self.share, (self.member_of, columns)), shape=shape)

    def means(self, B: Array) -> Array:
        """Return the weighted mean of the rows of B (N, k) in each group, (n, k)."""
        if self.all_distinct:
            out = np.empty_like(B)
            out[self.member_of] = B
            return out
        return self.averaging(np.arange(len(B)), len(B)) @ B


def are_counts(weights: Array) -> bool:
    """Whether weights are whole numbers."""
    return bool(np.all(weights == np.round(weights)))


def effective_size(weights: Array) -> float:
    """Return Σω for counts; (Σω)²/Σω² for other weights, of which only the ratios matter."""
    total = weights.sum()
    return float(total if are_counts(weights) else total**2 / np.sum(weights**2))


def _distinct_rows(X: Array) -> tuple[Array, Integers]:
    """Return the distinct rows and the place of each row among them.

    Rows are compared by one number each, a fixed random combination of their entries, which sorts
    many times faster than rows; every match is then checked.
    """
    mix = np.random.default_rng(0).standard_normal(X.shape[1])
    keys = (X * mix).sum(axis=1) if X.shape[1] > 1 else X[:, 0]
    _, first, member_of = np.unique(keys, return_index=True, return_inverse=True)
    points = X[first]
    if np.array_equal(points[member_of], X):
        return points, member_of
    points, member_of = np.unique(X, axis=0, return_inverse=True)  # two rows met in one number
    return points, member_of.ravel()
