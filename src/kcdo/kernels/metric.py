"""Which rows are near one another, in the eyes of a kernel.

Where a kernel maps rows (it warps columns with long tails), nearness is judged after all maps.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.kernels.average import Average
from kcdo.kernels.base import Kernel
from kcdo.kernels.parts import leaves, transformed
from kcdo.kernels.scaled import ScaledKernel
from kcdo.kernels.warped import Mapped

FURTHEST = 1e150  # its square is finite


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
        for part, rows in _parts_with_metric(kernel, X):
            columns += part.metric_coordinates(rows)
    return np.clip(np.hstack(columns), -FURTHEST, FURTHEST)


def _parts_with_metric(
    kernel: Kernel, X: NDArray
) -> Iterator[tuple[ScaledKernel | Average, NDArray]]:
    """Yield the parts whose coordinates make the metric, each with what it sees of the rows."""
    if isinstance(kernel, ScaledKernel) or (isinstance(kernel, Average) and kernel.radial):
        yield kernel, X
        return
    for child in kernel.children:
        yield from _parts_with_metric(child, kernel.inner_rows(X))


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
