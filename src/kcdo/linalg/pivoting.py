"""Randomly pivoted Cholesky: good columns of a positive matrix that is never formed."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from kcdo.arrays import Array, Integers

Columns = Callable[[Integers], Array]


@dataclass(frozen=True, eq=False)
class PivotedCholesky:
    """K ≈ F Fᵀ from the columns of K at the pivots."""

    factor: Array  # (n, r)
    pivots: Integers  # (r,)


def randomly_pivoted_cholesky(
    columns: Columns,
    diagonal: Array,
    rank: int,
    rng: np.random.Generator,
    block: int = 128,
    tolerance: float = 0.0,
) -> PivotedCholesky:
    """Choose pivots with probability proportional to the residual diagonal.

    The accelerated form: candidates are drawn a block at a time and thinned by rejection, which
    leaves their distribution that of the plain algorithm while all large work is matrix products
    (Epperly, Tropp, Webber, 2024). Stops early when the matrix is exhausted.

    Parameters
    ----------
    columns : function
        Returns K[:, pivots], (n, b).
    diagonal : (n,)
        Diagonal of K.
    rank : int
        Largest number of pivots.
    tolerance : float
        Share of the trace that may be left out.

    Examples
    --------
    >>> A = np.diag([3.0, 2.0, 0.0])
    >>> found = randomly_pivoted_cholesky(
    ...     lambda i: A[:, i], np.diag(A), 3, np.random.default_rng(0)
    ... )
    >>> np.sort(found.pivots), np.allclose(found.factor @ found.factor.T, A)
    (array([0, 1]), True)
    """
    n = len(diagonal)
    rank = min(rank, n)
    factor = np.zeros((n, rank))
    pivots = np.empty(rank, dtype=int)
    residual = diagonal.astype(float).copy()
    exhausted = max(tolerance, 1e-14) * residual.sum()
    count = 0
    while count < rank and residual.sum() > exhausted:
        draws = rng.choice(n, min(block, 2 * (rank - count)), p=residual / residual.sum())
        candidates = draws[np.sort(np.unique(draws, return_index=True)[1])]  # as they came
        new = columns(candidates) - factor[:, :count] @ factor[candidates, :count].T
        kept, root = _thin(new[candidates], residual[candidates], rng, rank - count)
        if not len(kept):  # what seemed left of these columns was rounding
            residual[candidates] = 0.0
            continue
        fresh = solve_triangular(root, new[:, kept].T, lower=True).T
        factor[:, count : count + len(kept)] = fresh
        pivots[count : count + len(kept)] = candidates[kept]
        residual = np.maximum(residual - np.einsum("ij,ij->i", fresh, fresh), 0.0)
        residual[candidates[kept]] = 0.0
        count += len(kept)
    return PivotedCholesky(factor[:, :count], pivots[:count])


def _thin(H: Array, proposed: Array, rng: np.random.Generator, most: int) -> tuple[Integers, Array]:
    """Keep candidate i with probability (what is left of H_ii) / (its value when proposed).

    Returns the kept candidates and the Cholesky factor of their block.
    """
    left = np.diag(H).copy()
    rows = np.zeros((0, len(H)))  # rows of the factor, one per candidate kept
    kept: list[int] = []
    for i in range(len(H)):
        if len(kept) == most:
            break
        if left[i] <= 1e-13 * proposed[i] or rng.random() * proposed[i] > left[i]:
            continue
        row = (H[i] - rows[:, i] @ rows) / np.sqrt(left[i])
        rows = np.vstack([rows, row])
        left = np.maximum(left - row**2, 0.0)
        kept.append(i)
    return np.array(kept, dtype=int), rows[:, kept].T.copy()
