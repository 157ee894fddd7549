"""Rows of a table that are kept back from a fit, to test or to calibrate it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kcdo.arrays import Array, Integers
from kcdo.errors import InvalidInputError

_LEAST_ROWS = 2  # that a fit needs


@dataclass(frozen=True)
class Parts:
    """Which rows of a table are fitted, and which are kept back: masks of all rows, (N,)."""

    fitted: NDArray[np.bool_]
    test: NDArray[np.bool_]
    calibration: NDArray[np.bool_]

    @classmethod
    def of(cls, frame: pd.DataFrame, test: Holdout | None, calibration: Holdout | None) -> Parts:
        """Keep back rows for a test, and of those left rows for a calibration."""
        none = np.zeros(len(frame), dtype=bool)
        tested = none if test is None else test.rows(frame)
        calibrated = none.copy()
        if calibration is not None:
            share = calibration.fraction / (1.0 - (test.fraction if test else 0.0))
            of_rest = replace(calibration, fraction=min(share, 1.0)).rows(frame[~tested])
            calibrated[np.flatnonzero(~tested)[of_rest]] = True
        return cls(~tested & ~calibrated, tested, calibrated)


@dataclass(frozen=True)
class Holdout:
    """Which rows to keep back.

    Attributes
    ----------
    fraction : float
        Share of the rows.
    group : str or None
        Column whose values stay together: all rows of a station, say, are kept back or none.
    time : str or None
        Column by whose order the last rows are kept back.
    seed : int
        Of the random choice, where there is one.
    option : str
        Who asks for them.
    """

    fraction: float
    group: str | None = None
    time: str | None = None
    seed: int = 0
    option: str = "--test"

    @property
    def words(self) -> str:
        """How the rows are chosen."""
        share = f"{self.fraction:.0%}"
        if self.time is not None:
            return f"the last {share} by {self.time}"
        by = f" by groups of {self.group}" if self.group is not None else ""
        return f"{share} at random{by}, seed {self.seed}"

    def rows(self, frame: pd.DataFrame) -> NDArray[np.bool_]:
        """Return which rows of a table are kept back, (N,)."""
        if self.time is not None:
            found = self._last(times_of(frame, self.time))
        elif self.group is not None:
            found = self._groups(pd.factorize(frame[self.group])[0])
        else:
            found = self._groups(np.arange(len(frame)))
        left = int(np.count_nonzero(~found))
        if left < _LEAST_ROWS or not found.any():
            raise InvalidInputError(
                f"{self.option} {self.fraction:g} leaves {left} of {len(frame)} rows to fit and "
                f"{len(frame) - left} to {self.option[2:]}; there must be some of both."
            )
        return found

    def _groups(self, groups: Integers) -> NDArray[np.bool_]:
        """Keep back whole groups in a random order, as many as come nearest to the share."""
        sizes = np.bincount(groups)
        order = np.random.default_rng(self.seed).permutation(len(sizes))
        reached = np.cumsum(sizes[order]) / len(groups)
        n = 1 + int(np.argmin(np.abs(reached - self.fraction)))
        return np.isin(groups, order[: min(n, len(sizes) - 1)])

    def _last(self, time: NDArray[np.floating]) -> NDArray[np.bool_]:
        """Keep back the last rows; those of one moment stay together."""
        n = round(self.fraction * len(time))
        first = np.sort(time)[len(time) - max(n, 1)]
        return time >= first


def times_of(frame: pd.DataFrame, time: str) -> Array:
    """Return the values of the column of times."""
    if not pd.api.types.is_numeric_dtype(frame[time]):  # an input, read as categories
        raise InvalidInputError(f"--time {time}: its values are names, and not in time.")
    return frame[time].to_numpy(dtype=float)
