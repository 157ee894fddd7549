"""How outputs next to a bound are mapped: so that heavy tails have bounded densities there.

Logarithms of the distance to a bound map a Student's t to a density that is infinite at the bound.
Within a hair of it the maps of :mod:`kcdo.transforms` go on as -1/distance instead: they stay
once differentiable, and a tail that falls faster than t⁻² has a density that vanishes at the bound.
The hair ends before the nearest output: below it a fit knows nothing, and a logarithm is so steep
there that the little probability of a tail would be a high density.
"""

from dataclasses import dataclass

import numpy as np

from kcdo.arrays import Array


@dataclass(frozen=True)
class Hair:
    """The map τ(u) = level - slope (start/u - 1) of distances 0 < u < start.

    Parameters
    ----------
    start : float
        Distance at which the other map takes over.
    level, slope : float
        Its value there, and start times its derivative.

    Examples
    --------
    >>> hair = Hair(0.01, level=-4.0, slope=1.0)
    >>> hair.forward(np.array([0.005, 0.01])), hair.inverse(np.array([-5.0, -np.inf]))
    (array([-5., -4.]), array([0.005, 0.   ]))
    """

    start: float
    level: float
    slope: float

    def forward(self, u: Array) -> Array:
        """Return τ; -inf for u <= 0."""
        with np.errstate(divide="ignore", over="ignore"):
            return self.level - self.slope * (self.start / np.maximum(u, 0.0) - 1.0)

    def inverse(self, tau: Array) -> Array:
        """Return u."""
        return self.start / self._ratio(tau)

    def log_derivative(self, u: Array) -> Array:
        """Return the logarithm of dτ/du."""
        return np.log(self.slope * self.start) - 2.0 * np.log(u)

    def log_slope(self, tau: Array) -> Array:
        """Return the logarithm of dτ/du at u(τ)."""
        return np.log(self.slope / self.start) + 2.0 * np.log(self._ratio(tau))

    def _ratio(self, tau: Array) -> Array:
        """Return start / u, 1 where the other map is in charge."""
        return 1.0 + np.maximum(self.level - tau, 0.0) / self.slope
