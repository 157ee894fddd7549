"""From a signed function on the nodes to a density (THEORY, section 4)."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
Positivity = Literal["project", "clip", "signed"]
POSITIVITY: tuple[Positivity, ...] = ("project", "clip", "signed")


def make_positive(values: Array, weights: Array, how: Positivity) -> Array:
    """Return densities (Q, M) from signed ones that integrate to 1.

    ``"project"``: max(p - τ, 0) with τ such that the mass is 1, the L²-nearest density;
    ``"clip"``: max(p, 0), renormalised; ``"signed"``: as is.
    """
    if how == "signed":
        return values
    if how == "clip":
        positive = np.maximum(values, 0.0)
        return positive / (positive @ weights)[:, None]
    return _project(values, weights)


def _project(values: Array, weights: Array) -> Array:
    """L²(ρ)-projection of each row on the densities, by Michelot's finite iteration.

    τ ← (Σ_active v p - 1) / Σ_active v only grows, and stops when no active node is below τ.
    """
    tau = np.zeros(len(values))
    positive = values.copy()
    open_rows = np.flatnonzero(values.min(axis=1) < 0)
    np.maximum(positive, 0.0, out=positive)
    while len(open_rows):
        active = positive[open_rows] > 0
        mass = active @ weights
        next_tau = (np.where(active, values[open_rows], 0.0) @ weights - 1.0) / mass
        moved = next_tau > tau[open_rows] * (1 + 1e-15)
        tau[open_rows] = np.maximum(next_tau, tau[open_rows])
        shifted = values[open_rows] - tau[open_rows, None]
        positive[open_rows] = np.maximum(shifted, 0.0)
        open_rows = open_rows[moved]
    return positive / (positive @ weights)[:, None]  # removes the last rounding
