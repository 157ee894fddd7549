"""Held-out predictions that a model keeps of its fit, for reports of the same table."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from kcdo.arrays import Array, Integers
from kcdo.consistency import need, shape
from kcdo.reports.accuracy import Accuracy, measure_in_parts


@dataclass(frozen=True, eq=False)
class Foretold:
    """Rows of a table that were held out, and how well they were foretold.

    Attributes
    ----------
    rows : (n,) array of int
        Their places among the rows of the table without missing values.
    outputs : (n, d) array
        What was observed.
    accuracy : Accuracy
        How good the predictions are.
    in_turn : bool
        Whether they were fitted, and foretold by other fits of the same parameters without them;
        else they were kept back from the fit.
    """

    rows: Integers
    outputs: Array
    accuracy: Accuracy
    in_turn: bool

    def __post_init__(self) -> None:
        n, d = len(self.rows), len(self.accuracy.outputs)
        shape(self.rows, n)
        shape(self.outputs, n, d)
        need(np.all(self.rows >= 0), "places of rows")
        need(len(self.accuracy.log_densities) == n, "the number of predictions")

    @classmethod
    def of(cls, model: Any, parts: Iterable[tuple[Integers, Any]], Y: Array, in_turn: bool) -> Self:
        """Measure distributions of some rows of outputs Y (N, d), in parts: rows with theirs."""
        marginal, found = model.marginal(), []
        for rows, dist in parts:
            found.append((rows, measure_in_parts(dist, Y[rows], model.flat, marginal)))
        rows = np.concatenate([rows for rows, _ in found])
        return cls(rows, Y[rows], Accuracy.joined([part for _, part in found]), in_turn)

    def at(self, rows: Integers) -> "Foretold":
        """Return the same of a larger table, whose rows at these places were the table so far."""
        return Foretold(rows[self.rows], self.outputs, self.accuracy, self.in_turn)

    def is_of(self, Y: Array) -> bool:
        """Whether outputs (N, d) are those of the table."""
        same = Y.shape[1] == self.outputs.shape[1] and self.rows.max(initial=-1) < len(Y)
        return bool(same and np.array_equal(Y[self.rows], self.outputs))
