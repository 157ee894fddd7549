"""Rows whose inputs are the very same: what one of them is, the other often is."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array, Integers
from kcdo.components.atoms import Atoms
from kcdo.consistency import need, shape
from kcdo.distributions import Batch, GroupedBatch, MixtureBatch, StudentTail
from kcdo.rows import row_keys


@dataclass(frozen=True, eq=False)
class Twins:
    """x ↦ (κ p(y | x) + Σ_j bump at y_j) / (κ + m), y_j the outputs of the m rows of inputs x.

    Parameters
    ----------
    keys : (n,)
        :func:`kcdo.rows.row_keys` of the inputs of all rows.
    outputs : (n,)
        Outputs of the rows.
    weights : (n,)
        Weights of the rows: what m is a sum of.
    prior : float
        κ, rows that p counts as.
    width : float
        Standard deviation of a bump, a normal density; 0 where outputs are atoms.
    """

    keys: Integers
    outputs: Array
    weights: Array
    prior: float
    width: float

    def __post_init__(self) -> None:
        need(len(self.keys) > 0, "twins without rows")
        for values in (self.outputs, self.weights):
            shape(values, len(self.keys))
        need(0 < self.prior < np.inf and 0 <= self.width < np.inf, "prior or width of twins")

    def beside(self, batch: Batch, X: NDArray) -> Batch:
        """Return distributions of one output at inputs X (Q, p), with those of twins mixed in."""
        query, rows = self.found(row_keys(X))
        total = summed(query, self.weights[rows], len(X))
        query, centre, weight = _of_equal_outputs(query, self.outputs[rows], self.weights[rows])
        n = np.bincount(query, minlength=len(X))
        starts = np.concatenate([[0], np.cumsum(np.maximum(n, 1))])  # without twins, a stand-in
        place = starts[query] + np.arange(len(query)) - (np.cumsum(n) - n)[query]
        centres, shares = np.full(starts[-1], self.outputs[0]), np.ones(starts[-1])
        centres[place], shares[place] = centre, weight / total[query]
        bumps = StudentTail(centres[:, None], np.full((len(centres), 1), self.width), np.inf)
        share = total / (self.prior + total)
        parts = [batch, GroupedBatch(bumps, starts, shares)]
        return MixtureBatch(parts, np.stack([1.0 - share, share], axis=1))

    def drawn(self, probabilities: Array, atoms: Atoms, X: NDArray) -> Array:
        """Return probabilities (Q, A) of atoms, drawn to those of the twins of X."""
        query, rows = self.found(row_keys(X))
        labels = atoms.labels(self.outputs[rows])
        known = labels < len(atoms.places)  # rows of a refit may have other values
        cells = query[known] * len(atoms.places) + labels[known]
        counts = summed(cells, self.weights[rows[known]], probabilities.size)
        return drawn_to(probabilities, counts.reshape(probabilities.shape), self.prior)

    def found(self, keys: Integers) -> tuple[Integers, Integers]:
        """Return pairs of a query and a row of the same key, query after query, for keys (Q,)."""
        ordered, order = self._ordered
        first, last = (np.searchsorted(ordered, keys, side) for side in ("left", "right"))
        n = last - first
        query = np.repeat(np.arange(len(keys)), n)
        within = np.arange(len(query)) - np.repeat(np.cumsum(n) - n, n)
        return query, order[np.repeat(first, n) + within]

    def sizes(self) -> Integers:
        """Return how many rows have the inputs of each row, itself counted, (n,)."""
        ordered, _ = self._ordered
        first, last = (np.searchsorted(ordered, self.keys, side) for side in ("left", "right"))
        return last - first

    @cached_property
    def _ordered(self) -> tuple[Integers, Integers]:
        order = np.argsort(self.keys, kind="stable")
        return self.keys[order], order

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "_ordered"}


def drawn_to(own: Array, sums: Array, prior: float, totals: Array | None = None) -> Array:
    """Return (κ own + sums) / (κ + totals): what ``prior`` rows say, with sums over others.

    ``totals`` are the weights of the others, by default the sums over the last axis.
    """
    if totals is None:
        totals = sums.sum(axis=-1, keepdims=True)
    return (prior * own + sums) / (prior + totals)


def _of_equal_outputs(
    query: Integers, outputs: Array, weights: Array
) -> tuple[Integers, Array, Array]:
    """Return queries, outputs and weights, those of one query and output as one."""
    order = np.lexsort([outputs, query])
    query, outputs = query[order], outputs[order]
    new = np.ones(len(query), dtype=bool)
    new[1:] = (np.diff(query) > 0) | (np.diff(outputs) > 0)
    total = summed(np.cumsum(new) - 1, weights[order], int(new.sum()))
    return query[new], outputs[new], total


def summed(places: Integers, values: Array, size: int) -> Array:
    """Return the sums of the values at each of so many places."""
    found: Array = np.zeros(size)
    found += np.bincount(places, values, size)
    return found
