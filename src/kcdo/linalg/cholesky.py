"""A Cholesky factor that is computed in place once and then solves many systems."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy.linalg import get_blas_funcs

from kcdo.arrays import Array, Integers
from kcdo.errors import KcdoError
from kcdo.linalg.routines import potrf, potrs, trsm_right, trtri

_COLUMNS = 512  # right-hand sides at a time


class NotPositiveDefiniteError(KcdoError, np.linalg.LinAlgError):
    """The matrix has a negative eigenvalue beyond rounding."""


class CholeskyFactor:
    """Factor of a symmetric positive definite matrix, taking over its memory.

    Parameters
    ----------
    matrix : (n, n), C-contiguous
        Only the lower triangle is read; it is overwritten by the factor.
    """

    def __init__(self, matrix: Array) -> None:
        self._upper = upper_factor(matrix)
        # found once; a cached_property would let threads with other factors wait, up to Python 3.11
        self._diagonal: Array | None = None

    def __len__(self) -> int:
        return len(self._upper)

    @property
    def nbytes(self) -> int:
        """Memory of the factor."""
        return self._upper.nbytes

    def solve(self, B: Array) -> Array:
        """Return A⁻¹ B for B (n,) or (n, k)."""
        if B.ndim == 2 and B.flags.c_contiguous and B.dtype == self._upper.dtype:
            # rows of B are columns to BLAS: solve Bᵀ U⁻¹ U⁻ᵀ from the right, without reordering B
            half = self._half_solve(B)
            trsm_right(self._upper, half, transposed=True)
            return half.T
        solved = np.array(B, dtype=self._upper.dtype, order="F")
        potrs(self._upper, solved)
        return solved

    def _half_solve(self, B: Array, *, overwrite: bool = False) -> Array:
        """Return Bᵀ U⁻¹ for a C-contiguous B (n, k): half of a solve."""
        half = B.T if overwrite else B.T.copy(order="F")
        trsm_right(self._upper, half, transposed=False)
        return half

    def largest_eigenvalue(self, iterations: int = 15) -> float:
        """Return the largest eigenvalue of A = UᵀU, by power iterations from the constant vector.

        For kernel matrices, whose first eigenvector hardly changes sign, one or two are close.
        """
        trmv: Any = get_blas_funcs("trmv", (self._upper,))
        vector = np.ones(len(self), dtype=self._upper.dtype)
        for _ in range(iterations):
            vector /= np.linalg.norm(vector)
            vector = trmv(self._upper, trmv(self._upper, vector), trans=1)
        return float(np.linalg.norm(vector))

    def inverse_factor(self) -> Array:
        """Return W, (n, n), with W Wᵀ = A⁻¹."""
        return np.triu(self._inverse_upper())

    def _inverse_upper(self) -> Array:
        """Return U⁻¹, above the diagonal; what is below is arbitrary."""
        inverse = self._upper.copy(order="F")
        trtri(inverse)
        return inverse

    def inverse_diagonal(self, rows: Integers | None = None) -> Array:
        """Return the diagonal of A⁻¹, or some of its entries.

        All of it takes one triangular inverse (n³/3 and a second matrix), once; k entries take k
        half solves: (A⁻¹)_ii = |U⁻ᵀ e_i|².
        """
        if rows is None:
            if self._diagonal is None:
                self._diagonal = self._whole_diagonal()
            return self._diagonal.copy()
        out = np.empty(len(rows))
        for part, units in _unit_vectors(len(self), rows, _COLUMNS, self._upper.dtype):
            half = self._half_solve(units, overwrite=True)
            out[part] = np.einsum("ij,ij->i", half, half)
        return out

    def _whole_diagonal(self) -> Array:
        inverse, out = self._inverse_upper(), np.zeros(len(self))
        for start in range(0, len(self), _COLUMNS):  # columns lie together in memory
            stop = start + _COLUMNS
            above, corner = inverse[:start, start:stop], np.triu(inverse[start:stop, start:stop])
            out[:start] += np.einsum("ij,ij->i", above, above)
            out[start:stop] += np.einsum("ij,ij->i", corner, corner)
        return out


def upper_factor(matrix: Array) -> Array:
    """Return U, upper triangle of a Fortran array, with UᵀU the matrix, whose memory is used.

    Only the lower triangle of the C-ordered matrix is read.
    """
    # The transpose of a C-ordered array is what LAPACK calls its own order: lower is upper.
    upper = np.asfortranarray(matrix.T)
    info = potrf(upper)
    if info:
        raise NotPositiveDefiniteError(
            f"the leading minor of order {info} is not positive definite: use a larger alpha."
        )
    return upper


def inverse_entries(
    solve: Callable[[Array], Array], n: int, rows: Integers, columns: int = _COLUMNS
) -> Array:
    """Return entries of the diagonal of an (n, n) inverse: one solve each, a few at a time."""
    out = np.empty(len(rows))
    for part, units in _unit_vectors(n, rows, columns, np.dtype(float)):
        out[part] = solve(units)[rows[part], np.arange(units.shape[1])]
    return out


def _unit_vectors(
    n: int, rows: Integers, columns: int, dtype: DTypeLike
) -> Iterator[tuple[slice, Array]]:
    """Yield columns of the (n, n) identity, a few at a time, with their places in ``rows``."""
    for start in range(0, len(rows), columns):
        part = slice(start, start + columns)
        units = np.zeros((n, len(rows[part])), dtype=dtype)
        units[rows[part], np.arange(units.shape[1])] = 1.0
        yield part, units
