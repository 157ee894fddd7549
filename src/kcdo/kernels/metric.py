"""Which rows are near one another, in the eyes of a kernel.

Where a kernel maps rows (it warps columns with long tails), nearness is judged after all maps.
"""

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.kernels.base import Kernel
from kcdo.kernels.parts import leaves, transformed
from kcdo.kernels.scaled import ScaledKernel
from kcdo.kernels.warped import Mapped

_FURTHEST = 1e150  # its square is finite


def has_metric(kernel: Kernel, X: NDArray) -> bool:
    """Whether the scales of a kernel say which rows are near one another."""
    if X.dtype == object or not without_warps(kernel).stationary:
        return False
    parts = list(leaves(kernel, range(X.shape[1])))
    seen = [column for _, columns in parts for column in columns]
    once = len(set(seen)) == len(seen) or without_warps(kernel) == kernel
    return once and all(isinstance(part, ScaledKernel) for part, _ in parts)


def metric_coordinates(kernel: Kernel, X: NDArray) -> Array:
    """Return coordinates whose distance says how near rows are to a kernel of scaled columns."""
    columns: list[Array] = []
    with np.errstate(over="ignore"):  # it is clipped
        for part, _, rows in leaves(kernel, range(X.shape[1]), X):
            assert isinstance(part, ScaledKernel)
            columns += part.metric_coordinates(rows)
    return np.clip(np.hstack(columns), -_FURTHEST, _FURTHEST)


def without_warps(kernel: Kernel) -> Kernel:
    """Return the kernel of the columns after all warps."""
    return transformed(
        kernel, lambda part: without_warps(part.kernel) if isinstance(part, Mapped) else None
    )


def after_warps(kernel: Kernel, X: Array) -> Array:
    """Return the rows after all warps of a kernel, each column of which one part sees at most."""
    if without_warps(kernel) == kernel:
        return X
    out = X.copy()
    for _, columns, rows in leaves(kernel, range(X.shape[1]), X):
        out[:, columns] = rows
    return out
