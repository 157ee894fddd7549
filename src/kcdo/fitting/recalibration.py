"""What held-out rows say of a mixture as a whole: how likely they are, and how it is calibrated."""

from dataclasses import dataclass

import numpy as np

from kcdo.arrays import Array
from kcdo.distributions import Batch, level_density
from kcdo.fitting.smoothed import mixing_shares

_EVEN = np.full(3, 1.0 / 3.0)
_SURE = 7.0  # twice the gain in nats: by chance alone more is gained in one fit of twenty
_FREE = 2.0  # shares that are free, each of which gains one by chance


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Held-out rows of a mixture.

    Parameters
    ----------
    Y : (n, d)
        Outputs of the rows.
    weights : (n,)
        How much each row counts.
    log_density : (n,)
        Of the mixture at the outputs, without each row.
    levels : (n,), optional
        Its cdf there, for one output: even between 0 and 1 if intervals hold what they promise.
    """

    Y: Array
    weights: Array
    log_density: Array
    levels: Array | None

    @classmethod
    def of(cls, batch: Batch, Y: Array, weights: Array) -> "HeldOut":
        """Ask held-out distributions about the outputs of their rows."""
        levels = batch.cdf_each(Y[:, None, :])[:, 0] if batch.dim == 1 else None
        return cls(Y, weights, batch.logpdf_pairs(Y), levels)

    def loss(self, more: Array | float = 0.0) -> float:
        """Return the mean negative log density, to which logarithms of factors are added."""
        return -float(np.average(self.log_density + more, weights=self.weights))

    def recalibration(self, steps: int) -> Array | None:
        """Return shares of least, middle and greatest of three draws; None where chance would do.

        They make the levels likeliest, by so many steps of EM, drawn towards equal shares by what
        chance gains.
        """
        if self.levels is None:
            return None
        table = np.column_stack([level_density(self.levels, each) for each in np.eye(3)])
        shares = mixing_shares(table, self.weights, steps)
        gain = 2.0 * float(self.weights @ np.log(table @ shares))
        return None if gain < _SURE else _EVEN + (1.0 - _FREE / gain) * (shares - _EVEN)
