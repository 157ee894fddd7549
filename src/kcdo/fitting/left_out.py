"""Held-out predictions of the exact input side as a function of its scales and α, with pullbacks.

A smoother takes targets B (N, k) and returns what each row is predicted to be without itself (or
without its group of equal inputs), and a pullback: for G = dL/d(predictions) it returns dL/dB,
dL/d(log scales) and dL/d(log α).
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from kcdo.arrays import Array
from kcdo.kernels import FreeScales
from kcdo.linalg import symmetric_inverse, weighted_square
from kcdo.systems import Groups, group_errors, left_out_share, one_minus_leverage, residuals

Leave = Literal["row", "group"]

_JITTER = 1e-10
_LEAST_REMAINING = 1e-12  # of 1 - leverage


class Pulled(NamedTuple):
    """Derivatives of a loss that a smoother passes back."""

    targets: Array
    log_scales: Array
    log_alpha: float


Smoother = Callable[[Array], tuple[Array, Callable[[Array], Pulled]]]


class _Inner(NamedTuple):
    """Derivatives with respect to what predictions are made of, see :func:`exact_smoother`."""

    targets: Array  # (N, k)
    means: Array  # (n, k) of b̄
    solved: Array  # (n, k) of a = A⁻¹ b̄
    diagonal: Array  # (n,) of diag(A⁻¹)
    ridge: Array  # (n,) of λ


def exact_smoother(
    scales: FreeScales, log_scales: Array, alpha: float, groups: Groups, leave: Leave
) -> Smoother:
    """Return the smoother of the exact system A = K + (Σω) α diag(ω)⁻¹ on distinct inputs.

    One factorisation and one inverse serve all targets. With b̄ the group means, a = A⁻¹b̄ and λ the
    ridge, row i of group u is predicted as in :mod:`kcdo.systems.leave_one_out`, a group as
    b̄_u - a_u / (A⁻¹)_uu.
    """
    matrix, gram_pullback = scales.gram(log_scales, groups.points)
    ridge = groups.weights.sum() * alpha / groups.totals
    np.einsum("ii->i", matrix)[:] += ridge + _JITTER
    inverse, _ = symmetric_inverse(matrix)
    diagonal = inverse.diagonal().copy()
    leave_out = _leave_group if leave == "group" else _leave_row

    def smoother(B: Array) -> tuple[Array, Callable[[Array], Pulled]]:
        means = groups.means(B)
        solved = inverse @ means
        predicted, inner_pullback = leave_out(groups, ridge, diagonal, B, means, solved)

        def pullback(G: Array) -> Pulled:
            inner = inner_pullback(G)
            through = inverse @ inner.solved
            # a = A⁻¹b̄ and diag(A⁻¹): d(A⁻¹) = -A⁻¹ dA A⁻¹
            system = -(through @ solved.T)
            system = 0.5 * (system + system.T) - weighted_square(inverse, inner.diagonal)
            through_means = groups.share[:, None] * (inner.means + through)[groups.member_of]
            ridge_slope = float(ridge @ (inner.ridge + system.diagonal()))
            return Pulled(inner.targets + through_means, gram_pullback(system), ridge_slope)

        return predicted, pullback

    return smoother


def fixed_smoother(weights: Any) -> Smoother:
    """Return the smoother S @ B with given weights S (Q, N): only the output side is tuned."""

    def smoother(B: Array) -> tuple[Array, Callable[[Array], Pulled]]:
        return weights @ B, lambda G: Pulled(weights.T @ G, np.zeros(0), 0.0)

    return smoother


def _leave_group(
    groups: Groups, ridge: Array, diagonal: Array, B: Array, means: Array, solved: Array
) -> tuple[Array, Callable[[Array], _Inner]]:
    def pullback(G: Array) -> _Inner:
        total = _sum_groups(groups, G)
        of_diagonal = np.sum(total * solved, axis=1) / diagonal**2
        none = np.zeros(len(ridge))
        return _Inner(np.zeros_like(G), total, -total / diagonal[:, None], of_diagonal, none)

    return (means - group_errors(solved, diagonal))[groups.member_of], pullback


def _leave_row(
    groups: Groups, ridge: Array, diagonal: Array, B: Array, means: Array, solved: Array
) -> tuple[Array, Callable[[Array], _Inner]]:
    member, share = groups.member_of, left_out_share(groups)
    residual = residuals(groups, ridge, B, means, solved)
    remaining = one_minus_leverage(groups, ridge, diagonal[member])
    remaining = np.maximum(remaining, _LEAST_REMAINING)[:, None]

    def pullback(G: Array) -> _Inner:
        R = G / remaining
        summed = _sum_groups(groups, R)
        pull = np.sum(R * residual, axis=1) / remaining[:, 0] * share
        per_group = np.bincount(member, weights=pull, minlength=len(ridge))
        of_ridge = per_group * diagonal - np.sum(summed * solved, axis=1)
        return _Inner(G - R, summed, -ridge[:, None] * summed, per_group * ridge, of_ridge)

    return B - residual / remaining, pullback


def _sum_groups(groups: Groups, rows: Array) -> Array:
    if groups.all_distinct:
        return groups.means(rows)
    out = np.zeros((len(groups.points), rows.shape[1]))
    np.add.at(out, groups.member_of, rows)
    return out
