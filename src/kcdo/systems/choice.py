"""Which solver suits so many inputs, and what it makes of rows and a kernel."""

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.kernels import Kernel
from kcdo.memory import available_memory
from kcdo.systems.base import Factorable
from kcdo.systems.exact import ExactRows
from kcdo.systems.groups import Groups
from kcdo.systems.nystrom import WhitenedSums
from kcdo.systems.options import WORKING_SHARE, Exact, Nystrom, Solver

_LARGEST_AUTOMATIC_EXACT = 12_000  # beyond this N³ costs minutes
_LARGEST_SMOOTH_EXACT = 5_000
_SMOOTH_CENTRES = 1000
_MISSED_SHARE = 0.03  # of α
_ROWS_PER_CENTRE = 20


def choose_solver(n_distinct: int, ridge: float | None = None) -> Solver:
    """Return the solver for a number of distinct inputs and the memory there is.

    ``ridge`` is an α so large, beside a kernel so smooth, that few directions pass: the centres
    that span all but a small share of it give the same answer as the exact system.
    """
    fits = WORKING_SHARE * 8.0 * n_distinct**2 <= 0.8 * available_memory()
    largest = _LARGEST_AUTOMATIC_EXACT if ridge is None else _LARGEST_SMOOTH_EXACT
    if n_distinct <= largest and fits:
        return Exact()
    if ridge is None:
        return Nystrom()
    return Nystrom(centers=_SMOOTH_CENTRES, tolerance=_MISSED_SHARE * ridge)


def may_repeat(X: NDArray, seed: int) -> bool:
    """Whether to look for equal rows: always where rows are few, else if a subsample has some."""
    if len(X) <= _LARGEST_AUTOMATIC_EXACT or X.dtype == object:
        return True
    rows = np.random.default_rng(seed).choice(len(X), _LARGEST_AUTOMATIC_EXACT, replace=False)
    return len(np.unique(X[rows], axis=0)) < 0.9 * len(rows)


def unfactored(
    solver: Solver,
    kernel: Kernel,
    X: NDArray,
    weights: Array,
    *,
    seed: int = 0,
    n_jobs: int | None = None,
) -> Factorable:
    """Return the rows as the solver takes them: all distinct inputs, or sums over centres."""
    if not isinstance(solver, Nystrom):
        return ExactRows(kernel, Groups.of(X, weights), solver, n_jobs)
    rng = np.random.default_rng(seed)
    m = solver.n_centres(len(X))
    some = X[rng.permutation(len(X))[: _ROWS_PER_CENTRE * m]]
    centres = solver.choose(kernel, some, m, rng)
    return WhitenedSums.of_rows(kernel, centres, X, weights, n_jobs=n_jobs)
