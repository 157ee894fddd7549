"""Values with a probability of their own: caps, zeros, outputs that take few values.

An atom a of probability q is held as the uniform density q/w on [a - w/2, a + w/2]: density,
distribution function, quantiles, draws and moments agree, and the density integrates to 1.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array, Integers
from kcdo.components.likeness import Bandwidths, Likeness, RowTable
from kcdo.components.smoothed import SmoothedRows
from kcdo.consistency import need, shape
from kcdo.distributions import Batch

_FEW_VALUES = 25  # up to which every value is an atom
_ROWS_PER_VALUE = 5
_LEAST_SHARE, _LEAST_ROWS = 0.01, 8
_STANDS_OUT = 8.0  # times as often as a value usually comes
_GAP_SHARE = 0.1  # width of an atom, of the gap between values that are all atoms
_RANGE_SHARE = 1.0 / 150.0  # of the range, where atoms stand among other values


@dataclass(frozen=True, eq=False)
class Atoms:
    """Values that come again and again, and how wide each is drawn."""

    places: Array  # (A,), increasing
    width: float
    every_value: bool  # whether outputs take no others

    def __post_init__(self) -> None:
        shape(self.places, None)
        increase = len(self.places) > 0 and np.all(np.diff(self.places) > 0)
        need(increase and self.width > 0, "atoms that do not increase, or have no width")

    @classmethod
    def of(cls, y: Array) -> "Atoms | None":
        """Look for atoms among outputs (N,); None where no value stands out."""
        values, counts = np.unique(y, return_counts=True)
        if len(values) < 2:
            return None
        if len(values) <= _FEW_VALUES and len(y) >= _ROWS_PER_VALUE * len(values):
            return cls.of_every_value(y)
        least = max(_LEAST_ROWS, _LEAST_SHARE * len(y), _STANDS_OUT * float(np.median(counts)))
        places = values[counts >= least]
        if not len(places):
            return None
        low, high = np.quantile(y, [0.001, 0.999])
        width = _RANGE_SHARE * float(high - low)
        if len(places) > 1:
            width = min(width, 0.9 * float(np.diff(places).min()))
        return cls(places, width, False) if width > 0 else None

    @classmethod
    def of_every_value(cls, y: Array) -> "Atoms":
        """Make an atom of every value of outputs (N,), of which there are at least two."""
        values = np.unique(y)
        return cls(values, _GAP_SHARE * float(np.diff(values).min()), True)

    def labels(self, y: Array) -> Integers:
        """Return which atom each output is, (N,); their number for none."""
        nearest = np.searchsorted(0.5 * (self.places[1:] + self.places[:-1]), y)
        return np.where(self.places[nearest] == y, nearest, len(self.places))


@dataclass(frozen=True, eq=False)
class AtomShares:
    """x ↦ probabilities of the atoms, by smoothing which rows are which.

    Where all outputs are atoms, what a continuous distribution gives to the interval about each
    may have a share too: it knows their order.
    """

    atoms: Atoms
    rows: SmoothedRows  # all rows
    labels: Integers  # (N,)
    bandwidths: tuple[Bandwidths, ...]
    shares: Array  # of the bandwidths, of sum 1 with that of intervals
    of_intervals: float = 0.0

    def __post_init__(self) -> None:
        shape(self.labels, len(self.rows.table))
        shape(self.shares, len(self.bandwidths))
        inside = (self.labels >= 0) & (self.labels <= len(self.atoms.places))
        need(np.all(inside) and np.all(self.shares >= 0), "labels or shares of atoms")
        need(0 <= self.of_intervals <= 1, "the share of intervals")

    def predict(self, X: NDArray, continuous: Batch) -> Array:
        """Return the probability of each atom at inputs (Q, p), (Q, A).

        ``continuous`` are distributions of the outputs there.
        """
        return self._of_likeness(self.rows.likeness(X), continuous)

    def held_out(self, rows: Integers, continuous: Batch) -> Array:
        """Return these probabilities at some of the rows, each left out, (n, A).

        ``continuous`` are distributions of the outputs there, held out too.
        """
        likeness = self.rows.table.likeness_left_out(rows, self.rows.n_jobs)
        return self._of_likeness(likeness, continuous)

    def _of_likeness(self, likeness: Likeness, continuous: Batch) -> Array:
        table, n_atoms = self.rows.table, len(self.atoms.places)
        total = np.zeros((len(likeness), n_atoms + 1))
        for bandwidths, share in zip(self.bandwidths, self.shares, strict=True):
            total += share * class_shares(table, likeness, bandwidths, self.labels, n_atoms)
        if self.of_intervals:
            total[:, :n_atoms] += self.of_intervals * interval_masses(self.atoms, continuous)
        few = 1.0 / (table.weights.sum() + 1.0)
        total = (1.0 - few) * total + few * self.prior
        return (1.0 - self.unseen) * total[:, :n_atoms]

    @property
    def prior(self) -> Array:
        """Shares of the atoms among all rows, and of no atom, (A + 1,)."""
        n_atoms, weights = len(self.atoms.places), self.rows.table.weights
        counts = np.bincount(self.labels, weights, n_atoms + 1)
        counts[n_atoms] += 1.0 / (weights.sum() + 1.0)  # some output may be like none so far
        return counts / counts.sum()

    @property
    def unseen(self) -> float:
        """Probability of a value that no row has, where every value is an atom.

        As many as values that came once (Good and Turing).
        """
        if not self.atoms.every_value:
            return 0.0
        return float(np.sum(np.bincount(self.labels) == 1)) / (len(self.labels) + 1.0)


def interval_masses(atoms: Atoms, batch: Batch) -> Array:
    """Return the probability that is nearest to each atom, (Q, A)."""
    middle = 0.5 * (atoms.places[1:] + atoms.places[:-1])
    levels = np.clip(batch.cdf(middle[:, None]), 0.0, 1.0)
    ends = np.zeros((len(levels), 1)), np.ones((len(levels), 1))
    return np.maximum(np.diff(np.hstack([ends[0], levels, ends[1]]), axis=1), 0.0)


def class_shares(
    table: RowTable,
    likeness: Likeness,
    bandwidths: Bandwidths,
    labels: Integers,
    n_atoms: int,
) -> Array:
    """Return the share of each label among the rows that are like queries, (Q, A + 1)."""
    weights = table.shares(likeness, bandwidths)
    found = labels[likeness.places(bandwidths)]
    row = np.arange(len(weights))[:, None] * (n_atoms + 1)
    size = len(weights) * (n_atoms + 1)
    flat: Array = np.zeros(size)
    flat += np.bincount((row + found).ravel(), weights.ravel(), size)
    return flat.reshape(len(weights), n_atoms + 1)
