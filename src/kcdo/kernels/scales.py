"""Scales from data: the median heuristic, also for weighted rows and large N."""

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from kcdo.arrays import Array
from kcdo.kernels.base import Kernel
from kcdo.kernels.parts import transformed

_MEDIAN_ROWS = 1000  # pairs of this many rows settle a median to about 1 %


def with_median_scales(
    kernel: Kernel, X: NDArray, weights: Array | None = None, *, seed: int = 0
) -> Kernel:
    """Return ``kernel`` with every missing scale set by the median heuristic.

    Columns are brought to unit standard deviation, the median distance of two distinct rows is
    taken, and each column's scale is that median times its standard deviation (one number when
    there is one column). Pairs of equal rows do not count. Constant columns get scale 1.

    Examples
    --------
    >>> from kcdo import Gaussian
    >>> with_median_scales(Gaussian(), np.array([[0.0], [1.0], [3.0]])).scale.__round__(6)
    2.0
    """
    if kernel.fitted:
        return kernel

    def scaled(part: Kernel, rows: NDArray) -> Kernel | None:
        if part.children:
            return None
        return part if part.fitted else part.with_median_scale(rows, weights, seed)

    return transformed(kernel, scaled, X)


def median_scales(
    X: Array, weights: Array | None = None, metric: str = "euclidean", seed: int = 0
) -> Array:
    """Return one scale per column: standard deviation times median standardised distance."""
    rows, inverse = np.unique(X, axis=0, return_inverse=True)
    mass = np.bincount(inverse.ravel(), weights=weights).astype(float)
    rows, mass = rows[mass > 0], mass[mass > 0]  # rows of weight 0 count as absent
    _, sd = weighted_mean_sd(rows, mass)
    varies = sd > 0
    sd = np.where(varies, sd, 1.0)
    if len(rows) > _MEDIAN_ROWS:
        chosen = np.random.default_rng(seed).choice(len(rows), _MEDIAN_ROWS, replace=False)
        rows, mass = rows[chosen], mass[chosen]
    if len(rows) < 2:
        return sd
    first, second = np.triu_indices(len(rows), 1)
    middle = weighted_median(pdist(rows / sd, metric), mass[first] * mass[second])  # type: ignore[call-overload]
    return np.where(varies, sd * middle, 1.0)


def weighted_mean_sd(X: Array, weights: Array | None = None) -> tuple[Array, Array]:
    """Return mean and standard deviation of the columns; tiny rounding noise counts as 0."""
    mean = np.average(X, axis=0, weights=weights)
    sd = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weights))
    return mean, np.where(sd > 1e-14 * np.abs(X).max(axis=0, initial=0.0), sd, 0.0)


def weighted_median(values: Array, weights: Array) -> float:
    """Return the value at half of the total weight; the middle of two where it lies between.

    >>> weighted_median(np.array([1.0, 2.0, 5.0]), np.array([1.0, 1.0, 1.0]))
    2.0
    """
    order = np.argsort(values)
    share = np.cumsum(weights[order])
    half = share[-1] / 2
    at = min(int(np.searchsorted(share, half * (1 - 1e-12))), len(order) - 1)
    low = values[order[at]]
    tied = abs(share[at] - half) <= 1e-12 * share[-1] and at + 1 < len(order)
    return float((low + values[order[at + 1]]) / 2 if tied else low)
