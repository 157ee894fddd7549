"""Rows whose inputs are the very same: what one of them is, the other often is."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.consistency import need, shape

_MIXES = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))  # of splitmix64
_SHIFTS = (np.uint64(31), np.uint64(29))


@dataclass(frozen=True, eq=False)
class Twins:
    """x ↦ (P(x) + m/κ · shares of the atoms among m rows of the same inputs) / (1 + m/κ).

    Parameters
    ----------
    keys : (n,)
        :func:`row_keys` of the inputs of all rows.
    labels : (n,)
        Which atom the output of each row is.
    weights : (n,)
        Weights of the rows.
    prior : float
        κ, rows that the probabilities P of other rows count as.
    """

    keys: NDArray[np.integer]
    labels: NDArray[np.integer]
    weights: Array
    prior: float

    def __post_init__(self) -> None:
        for values in (self.labels, self.weights):
            shape(values, len(self.keys))
        need(0 < self.prior < np.inf, "the prior of twins")
        need(len(self.labels) > 0 and self.labels.min() >= 0, "labels of twins")

    def drawn(self, probabilities: Array, X: NDArray) -> Array:
        """Return probabilities (Q, A), drawn to those of the rows with the inputs X (Q, p)."""
        counts = self.counts(row_keys(X), probabilities.shape[1])
        return drawn_to(probabilities, counts, self.prior)

    def counts(self, keys: NDArray[np.integer], n_atoms: int) -> Array:
        """Return the weight of each atom among the rows of given keys (Q,), (Q, A)."""
        ordered, order = self._ordered
        first, last = (np.searchsorted(ordered, keys, side) for side in ("left", "right"))
        n = last - first
        query = np.repeat(np.arange(len(keys)), n)
        within = np.arange(len(query)) - np.repeat(np.cumsum(n) - n, n)
        rows = order[np.repeat(first, n) + within]
        places = query * n_atoms + self.labels[rows]
        size = len(keys) * n_atoms
        found = np.zeros(size) + np.bincount(places, self.weights[rows], size)
        return found.reshape(len(keys), n_atoms)

    def counts_of_others(self, n_atoms: int) -> Array:
        """Return the weight of each atom among the twins of every row, itself not counted."""
        counts = self.counts(self.keys, n_atoms)
        counts[np.arange(len(counts)), self.labels] -= self.weights
        return np.where(counts > 1e-9 * self.weights[:, None], counts, 0.0)

    @cached_property
    def _ordered(self) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        order = np.argsort(self.keys, kind="stable")
        return self.keys[order], order

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "_ordered"}


def drawn_to(probabilities: Array, counts: Array, prior: float) -> Array:
    """Return probabilities (Q, A), as those of ``prior`` rows, with rows of given counts (Q, A)."""
    return (prior * probabilities + counts) / (prior + counts.sum(axis=1, keepdims=True))


def row_keys(X: NDArray) -> NDArray[np.int64]:
    """Return a number of 64 bits for each row of inputs (N, p), the same for the same inputs.

    Other inputs have the same number once in 10¹⁹ pairs.

    >>> keys = row_keys(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -0.0]]))
    >>> bool(keys[0] == keys[2] != keys[1])
    True
    """
    bits = (np.ascontiguousarray(X, dtype=float) + 0.0).view(np.uint64)  # -0 is 0
    keys = np.zeros(len(bits), dtype=np.uint64)
    for column in bits.T:
        keys = (keys ^ column) * _MIXES[0]
        keys ^= keys >> _SHIFTS[0]
        keys *= _MIXES[1]
        keys ^= keys >> _SHIFTS[1]
    return keys.view(np.int64)
