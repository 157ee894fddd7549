"""Regions of highest density, as a user sees them."""

from collections.abc import Callable
from dataclasses import dataclass

from numpy import bool_
from numpy.typing import ArrayLike, NDArray

from kcdo.arrays import Array

_ROUNDING = 1e-12


@dataclass(frozen=True)
class HighestDensityRegion:
    """The smallest region that holds ``coverage`` of the probability.

    Attributes
    ----------
    coverage, density_level, volume : float
        The region is where the density is at least ``density_level``. More than ``coverage`` lies
        there only where the density is ``density_level`` on a whole plateau.
    intervals : (n, 2) array or None
        Its intervals, for one output.
    """

    coverage: float
    density_level: float
    volume: float
    intervals: Array | None
    _pdf: Callable[[ArrayLike], Array]

    def contains(self, y: ArrayLike) -> NDArray[bool_]:
        """Whether each point, (G,) or (G, d), lies in the region."""
        return self._pdf(y)[0] >= self.density_level * (1 - _ROUNDING)
