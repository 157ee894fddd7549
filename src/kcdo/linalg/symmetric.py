"""Whole symmetric matrices, for derivatives: an inverse, and products that give a triangle only."""

import numpy as np

from kcdo.arrays import Array
from kcdo.linalg.cholesky import upper_factor
from kcdo.linalg.routines import potri, syrk

_BLOCK = 128


def symmetric_inverse(matrix: Array) -> tuple[Array, float]:
    """Return the inverse and the log determinant of a positive definite matrix.

    Only the lower triangle of the C-ordered matrix is read; its memory is used.
    """
    upper = upper_factor(matrix)
    log_determinant = 2.0 * float(np.sum(np.log(upper.diagonal())))
    potri(upper)
    return mirrored(upper.T), log_determinant


def weighted_square(matrix: Array, weights: Array) -> Array:
    """Return M diag(w) M for a symmetric C-ordered M, by half the work of a product.

    >>> weighted_square(np.array([[1.0, 2.0], [2.0, 0.0]]), np.array([1.0, -1.0]))
    array([[-3.,  2.],
           [ 2.,  4.]])
    """
    total = np.zeros_like(matrix, order="F")
    for sign in (1.0, -1.0):
        chosen = np.flatnonzero(sign * weights > 0)
        if len(chosen):
            rows = matrix[chosen] * np.sqrt(np.abs(weights[chosen]))[:, None]
            syrk(sign, rows.T, total, lower=False)
    return mirrored(total.T)


def mirrored(matrix: Array) -> Array:
    """Return the matrix with its upper triangle made that of the lower one, in place, by blocks."""
    for start in range(0, len(matrix), _BLOCK):
        stop = start + _BLOCK
        matrix[start:stop, stop:] = matrix[stop:, start:stop].T
        lower = np.tril(matrix[start:stop, start:stop])
        matrix[start:stop, start:stop] = lower + np.tril(lower, -1).T
    return matrix
