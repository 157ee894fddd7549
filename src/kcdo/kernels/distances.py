"""Scaled distances, and the distribution functions of noise of an exponential distance."""

from collections.abc import Sequence

import numpy as np
from numpy.polynomial.polynomial import polyval
from numpy.typing import NDArray

from kcdo.arrays import Array

DIRECT_COLUMNS = 3  # up to here differences are cheaper than, and as fast as, a matrix product


def scaled_squared_distances(A: Array, B: Array, scales: Array) -> Array:
    """Σ ((a_i - b_i)/s_i)², to full relative accuracy even where points nearly coincide.

    A matrix product forms |a|² + |b|² - 2ab; where that cancels, the few entries concerned are
    computed again from differences of the points themselves (an outlier may move the centre).
    """
    scales = scales.astype(A.dtype)
    if A.shape[1] <= DIRECT_COLUMNS:
        squared = np.zeros((len(A), len(B)), dtype=A.dtype)
        for i, scale in enumerate(scales):
            difference = (A[:, i] / scale)[:, None] - (B[:, i] / scale)[None, :]
            difference *= difference
            squared += difference
        return squared
    centre = B.mean(axis=0)
    a, b = (A - centre) / scales, (B - centre) / scales
    a_norms, b_norms = np.einsum("ij,ij->i", a, a), np.einsum("ij,ij->i", b, b)
    squared = a @ b.T
    squared *= -2.0
    squared += a_norms[:, None]
    squared += b_norms[None, :]
    tolerance = np.finfo(A.dtype).eps ** 0.375  # relative error left: eps/tolerance, 1e-10
    rows, columns = np.nonzero(squared < tolerance * (a_norms.max() + b_norms.max()))
    # the bound above is that of the largest; beside an outlier, few of these pairs cancel
    cancels = squared[rows, columns] < tolerance * (a_norms[rows] + b_norms[columns])
    rows, columns = rows[cancels], columns[cancels]
    if len(rows):
        squared[rows, columns] = _paired_squared_distances(A, B, scales, rows, columns)
    return squared


def _paired_squared_distances(
    A: Array, B: Array, scales: Array, rows: NDArray, columns: NDArray
) -> Array:
    out = np.empty(len(rows), dtype=A.dtype)
    for start in range(0, len(rows), 1 << 16):  # bounded memory, however many pairs coincide
        part = slice(start, start + (1 << 16))
        difference = (A[rows[part]] - B[columns[part]]) / scales
        out[part] = np.einsum("ij,ij->i", difference, difference)
    return out


def two_sided_cdf(t: Array, r: Array, polynomial: Sequence[float]) -> Array:
    """Return the symmetric cdf at t whose tail beyond |t| is Σ c_i r^i exp(-r) / 16."""
    tail = polyval(r, polynomial) / 16.0 * np.exp(-r)
    return np.where(t < 0, tail, 1.0 - tail)
