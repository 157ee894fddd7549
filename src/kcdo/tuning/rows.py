"""The rows of a search for parameters, and how much work it may do."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.systems import Groups


@dataclass(frozen=True)
class Rows:
    """Inputs, outputs and weights of some rows."""

    X: NDArray
    Y: Array
    weights: Array

    def __len__(self) -> int:
        return len(self.X)

    def take(self, rows: NDArray[np.integer]) -> "Rows":
        """Return some of the rows."""
        return Rows(self.X[rows], self.Y[rows], self.weights[rows])

    def sample(self, most: int, seed: int) -> "Rows":
        """Return at most so many rows at random."""
        return self if len(self) <= most else self.take(self.sampled(most, seed))

    def sampled(self, most: int, seed: int) -> NDArray[np.integer]:
        """Return the places of the rows of a :meth:`sample`."""
        if len(self) <= most:
            return np.arange(len(self))
        return np.sort(np.random.default_rng(seed).choice(len(self), most, replace=False))

    @cached_property
    def share_repeated(self) -> float:
        """Share of the rows that have others of the same input."""
        member = Groups.of(self.X).member_of
        return float(np.mean(np.bincount(member)[member] > 1))

    def of_effective_weight(self) -> "Rows":
        """Return the rows with weights that sum to the number of equal rows they amount to.

        A row of weight 3 stays one row: held out, it goes as a whole, as its copies foretell it.
        """
        return replace(self, weights=self.weights * (self.weights.sum() / np.sum(self.weights**2)))

    def with_outputs(self, Y: Array) -> "Rows":
        """Return the rows with other outputs."""
        return replace(self, Y=Y)


@dataclass(frozen=True)
class Effort:
    """How much work the search may do.

    Parameters
    ----------
    race_rows : int
        Rows on which kernel families and starts are compared.
    rows : int
        Rows on which the best of them are compared again, and the mean is learnt; of more rows a
        part judges the noise of the mean.
    last_rows : int
        Rows on which the scales of the best are then learnt.
    held_out : int
        Least number of rows on which α and the output filter are judged, with all others in the
        fit.
    judged_entries : float
        Held-out rows times all rows that cost little: so many are judged if they are more.
    race_steps, steps : int
        Steps of a search from one start, and of the last one.
    n_jobs : int, optional
        Threads that search from different starts; None: all cores.
    """

    race_rows: int = 400
    rows: int = 800
    last_rows: int = 1500
    held_out: int = 500
    judged_entries: float = 5e6
    race_steps: int = 12
    steps: int = 15
    n_jobs: int | None = None
