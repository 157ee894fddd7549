"""From a signed function on the nodes to a density (docs/theory.md)."""

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
    tau, rows, some = np.zeros(len(values)), np.arange(len(values)), values
    work = np.empty_like(values)
    total = weights.sum()
    for _ in range(_MOST_STEPS):
        level = tau[rows, None]
        # max(p - τ, 0) = max(p, τ) - τ
        raised = np.maximum(some, level, out=work[: len(some)])
        excess = raised @ weights - level[:, 0] * total - 1.0
        open_rows = excess > _MASS_TOLERANCE
        if not np.any(open_rows):
            break
        if 2 * np.count_nonzero(open_rows) < len(rows):  # most are done: go on with the others
            rows, excess, level = rows[open_rows], excess[open_rows], level[open_rows]
            some = values[rows]
        above = np.greater(some, level, out=work[: len(some)])
        tau[rows] += np.maximum(excess, 0.0) / (above @ weights)
    np.subtract(values, tau[:, None], out=work)
    np.maximum(work, 0.0, out=work)
    work /= (work @ weights)[:, None]  # removes the last rounding
    return work
