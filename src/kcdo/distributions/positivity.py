"""From a signed function on the nodes to a density (docs/theory.md)."""

from collections.abc import Callable
from typing import Literal

import numpy as np

from kcdo.arrays import Array

Positivity = Literal["project", "clip", "signed"]
_MASS_TOLERANCE = 1e-13
_LEAST_INTEGRAL = 1e-3
_MOST_STEPS = 200  # a handful suffice; each step drops at least one node

POSITIVITY: tuple[Positivity, ...] = ("project", "clip", "signed")


def make_positive(values: Array, weights: Array, how: Positivity) -> Array:
    """Return densities (Q, M) from signed ones that integrate to 1.

    ``"project"``: max(p - τ, 0) with τ such that the mass is 1, the L²-nearest density;
    ``"clip"``: max(p, 0), renormalised; ``"signed"``: as is.
    """
    if how == "signed":
        return values
    positive, masses = positive_parts(values, weights, how)
    positive /= masses[:, None]
    return positive


def positive_parts(values: Array, weights: Array, how: Positivity) -> tuple[Array, Array]:
    """Return multiples of the densities that :func:`make_positive` makes, and their masses (Q,).

    The values may integrate to anything positive, and are not written to.
    """
    if how == "signed":
        return values, values @ weights
    positive = np.maximum(values, 0.0) if how == "clip" else _project(values, weights)
    return positive, positive @ weights


def positive_density(values: Array, weights: Array) -> tuple[Array, Callable[[Array], Array]]:
    """Return projected densities of signed node values (Q, M), and the pullback of derivatives.

    Values are divided by their integral and projected: max(p - τ, 0), where τ is the mean excess of
    the nodes that stay. Rows without a positive integral are uniform, with derivative 0; rows of
    hardly any are partly so, for a loss that jumps cannot be made small.
    """
    integral = values @ weights
    share = np.clip(integral / _LEAST_INTEGRAL - 1.0, 0.0, 1.0)[:, None]
    partly = (share > 0) & (share < 1)
    uniform, integral = 1.0 / weights.sum(), np.maximum(integral, _LEAST_INTEGRAL)[:, None]
    own = values / integral
    density = make_positive(share * own + (1.0 - share) * uniform, weights, "project")
    active = density > 0

    def pullback(G: Array) -> Array:
        kept = np.where(active, G, 0.0)
        # τ moves by Σ_active v dp / Σ_active v
        slope = kept.sum(axis=1) / np.maximum(active @ weights, 1e-300)
        slopes = np.where(active, G - slope[:, None] * weights, 0.0)
        along = np.sum(slopes * own, axis=1, keepdims=True)
        of_share = np.where(partly, along - uniform * slopes.sum(axis=1, keepdims=True), 0.0)
        through_own = share / integral * (slopes - along * weights)
        return through_own + of_share / _LEAST_INTEGRAL * weights

    return density, pullback


def _project(values: Array, weights: Array) -> Array:
    """L²(ρ)-projection of each row on the positive functions of its mass."""
    level = np.zeros(len(values))
    # max(p - τ, 0) = max(p, τ) - τ
    raised = _raised(values, weights, values @ weights, level)
    raised -= level[:, None]
    return raised


def _raised(values: Array, weights: Array, masses: Array, level: Array) -> Array:
    """Raise τ, ``level``, until max(p - τ, 0) has the mass; return max(p, τ).

    Michelot's finite iteration: τ grows by (Σ_j v_j max(p_j - τ, 0) - mass) / Σ_{p_j > τ} v_j,
    Newton's step for a convex, piecewise linear function.
    """
    work = np.empty_like(values)
    total = weights.sum()
    for _ in range(_MOST_STEPS):
        raised = np.maximum(values, level[:, None], out=work)
        excess = raised @ weights - level * total - masses
        unsolved = excess > _MASS_TOLERANCE * masses
        n_unsolved = np.count_nonzero(unsolved)
        if 2 * n_unsolved < len(values) or not n_unsolved:
            break
        above = np.greater(values, level[:, None], out=work)
        level += np.maximum(excess, 0.0) / (above @ weights)
    else:  # a mass so small beside the values that rounding hides it
        return np.maximum(values, level[:, None], out=work)
    if n_unsolved:  # most are done: go on with the others
        rest = level[unsolved]
        work[unsolved] = _raised(values[unsolved], weights, masses[unsolved], rest)
        level[unsolved] = rest
    return work
