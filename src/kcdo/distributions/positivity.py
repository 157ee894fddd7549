"""From a signed function on the nodes to a density (THEORY, section 4)."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
Positivity = Literal["project", "clip", "signed"]
_MASS_TOLERANCE = 1e-13
_MOST_STEPS = 200  # a handful suffice; each step drops at least one node

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

    τ grows by (Σ_j v_j max(p_j - τ, 0) - 1) / Σ_{p_j > τ} v_j, Newton's step for a convex,
    piecewise linear function, until the mass is 1.
    """
    tau = np.zeros(len(values))
    total = weights.sum()
    raised, above = np.empty_like(values), np.empty_like(values)
    for _ in range(_MOST_STEPS):
        np.maximum(values, tau[:, None], out=raised)  # max(p - τ, 0) = max(p, τ) - τ
        excess = raised @ weights - tau * total - 1.0
        if not np.any(excess > _MASS_TOLERANCE):
            break
        np.greater(values, tau[:, None], out=above)
        tau += np.maximum(excess, 0.0) / (above @ weights)
    raised -= tau[:, None]
    raised /= (raised @ weights)[:, None]  # removes the last rounding
    return raised
