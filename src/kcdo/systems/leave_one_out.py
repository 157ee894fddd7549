"""Leave-one-out in closed form for rows that may share inputs.

With A = K + diag(λ) on the distinct inputs, λ_u = (Σω) α / ω_u, group means b̄ and a = A⁻¹ b̄, the
residual of row i in group u is (b_i - b̄_u) + λ_u a_u, and

    1 - leverage_i = (1 - share_i) + share_i λ_u (A⁻¹)_uu,

so that the held-out residual is the quotient of the two: nothing cancels (docs/theory.md). Of a
row that is counted several times one count is left out.
"""

import numpy as np

from kcdo.arrays import Array, Integers
from kcdo.systems.groups import Groups


def left_out_share(groups: Groups) -> Array:
    """Return the share of its group that leaves with each row: of a count, one."""
    return groups.share / groups.weights if groups.are_counts else groups.share


def one_minus_leverage(
    groups: Groups, ridge: Array, diagonal: Array, rows: Integers | None = None
) -> Array:
    """Return 1 - leverage of some rows from (A⁻¹)_uu of their own groups, (len(rows),)."""
    rows = np.arange(len(groups.member_of)) if rows is None else rows
    share = left_out_share(groups)[rows]
    return (1.0 - share) + share * ridge[groups.member_of[rows]] * diagonal


def residuals(
    groups: Groups,
    ridge: Array,
    B: Array,
    means: Array,
    solved: Array,
    rows: Integers | None = None,
) -> Array:
    """Return the residuals b - ŷ of some rows, from b̄ and a = A⁻¹ b̄ of all groups."""
    rows = np.arange(len(groups.member_of)) if rows is None else rows
    group = groups.member_of[rows]
    return (B[rows] - means[group]) + solved[group] * ridge[group][:, None]


def group_errors(solved: Array, diagonal: Array) -> Array:
    """Return what group means b̄ are off by without their whole group, a_u / (A⁻¹)_uu, (n, k)."""
    return solved / diagonal[:, None]
