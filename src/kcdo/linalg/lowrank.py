"""Matrices whose rows lie in a small space, as a product of two narrow ones."""

import numpy as np
from scipy.linalg import qr, svd

from kcdo.arrays import Array

_QR_ROWS = 1024
_WIDEST = 512  # columns up to which the factors are worth finding


def narrow_factors(matrix: Array) -> tuple[Array, Array | None]:
    """Return T (n, r) and B (r, k) with T @ B equal to the matrix (n, k) to rounding.

    Smooth rows need far fewer than k dimensions. Where they do not, T is the matrix and B is None,
    which stands for the identity.

    Examples
    --------
    >>> rank_one = np.outer(np.arange(1.0, 9.0), [1.0, 2.0, 3.0, 4.0])
    >>> T, B = narrow_factors(rank_one)
    >>> T.shape, np.allclose(T @ B, rank_one)
    ((8, 1), True)
    """
    n, k = matrix.shape
    if k <= min(n, _WIDEST):
        _, sizes, basis = svd(_triangle(matrix), check_finite=False)
        rank = max(1, int(np.count_nonzero(sizes > 1e-14 * sizes[0])))
        if rank * (n + k) < 0.8 * n * k:
            return matrix @ basis[:rank].T, basis[:rank]
    return matrix, None


def _triangle(matrix: Array) -> Array:
    """Return R of the QR decomposition, block by block: each fits the cache."""
    triangle = np.zeros((0, matrix.shape[1]))
    for start in range(0, len(matrix), _QR_ROWS):
        stacked = np.concatenate([triangle, matrix[start : start + _QR_ROWS]])
        triangle = qr(stacked, mode="r", overwrite_a=True, check_finite=False)[0]
        triangle = triangle[: matrix.shape[1]]
    return triangle
