"""Heavy tails: a finite, honest log density for outputs that no other component foresees."""

from dataclasses import dataclass

import numpy as np

from kcdo.arrays import Array, Integers
from kcdo.components.settings import Settings
from kcdo.consistency import need, shape
from kcdo.distributions import Batch, StudentTail
from kcdo.kernels import weighted_mean_sd
from kcdo.rows import Rows
from kcdo.systems import Queries, effective_size

NAMES = ("marginal_tail",)
FREEDOM = 3.0  # degrees of freedom: a mean and a variance exist


def student_tail(location: Array, scale: Array) -> StudentTail:
    """Return Student distributions whose sd is the scale."""
    return StudentTail(location, scale * np.sqrt(1.0 - 2.0 / FREEDOM), FREEDOM)


@dataclass(frozen=True)
class MarginalTailParameters:
    """The marginal tail has no parameters but what it takes from the rows."""

    names = NAMES
    dim = None
    kernels = ()

    def fit(self, rows: Rows, settings: Settings) -> "MarginalTail":
        """Return the tail about the mean of these rows.

        Its variance is that of the next of n + 1 normal draws, (n + 1)/(n - 3) of theirs.
        """
        mean, sd = weighted_mean_sd(rows.Y, rows.weights)
        n = effective_size(rows.weights)
        return MarginalTail(mean, sd * np.sqrt((n + 1.0) / max(n - 3.0, 1.0)))


@dataclass(frozen=True, eq=False)
class MarginalTail:
    """A Student t about the mean of all outputs, the same for every input."""

    centre: Array  # (d,)
    spread: Array  # (d,)

    names = NAMES
    n_inputs = None  # it asks for none
    linear = True
    exact_held_out = True
    nbytes = 0

    def __post_init__(self) -> None:
        shape(self.centre, None)
        shape(self.spread, len(self.centre))
        need(len(self.spread) and self.spread.min() > 0, "a tail without width")

    @property
    def dim(self) -> int:
        """Number of outputs d."""
        return len(self.centre)

    def width(self, queries: Queries) -> int:
        """Return the numbers held for each query: hardly any."""
        return 0

    def predict(self, queries: Queries) -> dict[str, Batch]:
        """Return the same distribution for each query."""
        return self._repeated(len(queries))

    def held_out(self, rows: Integers) -> dict[str, Batch]:
        """Return the same distribution for each row, which one row does not move."""
        return self._repeated(len(rows))

    def without_training(self) -> "MarginalTail":
        """Return itself."""
        return self

    def _repeated(self, n: int) -> dict[str, Batch]:
        tail = student_tail(np.tile(self.centre, (n, 1)), np.tile(self.spread, (n, 1)))
        return {"marginal_tail": tail}
