"""Functions of a symmetric matrix, dense or a Kronecker product, through its eigenvectors."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

Array = NDArray[np.floating]


class Spectrum(Protocol):
    """An eigendecomposition V Λ Vᵀ that applies functions of the matrix to rows."""

    @property
    def eigenvalues(self) -> Array:
        """All eigenvalues, in the order of the last axis of :meth:`apply`'s middle step."""

    def apply(self, gains: Array, rows: Array) -> Array:
        """Return rows V diag(gains) Vᵀ, for rows (k, M)."""


class DenseSpectrum:
    """Eigendecomposition of a dense symmetric positive semidefinite matrix, (M, M)."""

    def __init__(self, matrix: Array) -> None:
        values, self._vectors = eigh(matrix)
        self._values = np.maximum(values, 0.0)

    @property
    def eigenvalues(self) -> Array:
        """All M eigenvalues."""
        return self._values

    def apply(self, gains: Array, rows: Array) -> Array:
        """Return rows V diag(gains) Vᵀ."""
        return ((rows @ self._vectors) * gains) @ self._vectors.T


class KroneckerSpectrum:
    """Eigendecomposition of c · (A_1 ⊗ … ⊗ A_d) from those of its small factors.

    Never forms the product: O(Σ m_i³) to set up, O(M Σ m_i) to apply to one vector.
    """

    def __init__(self, factors: Sequence[Array], constant: float) -> None:
        pairs = [eigh(factor) for factor in factors]
        self._vectors = [vectors for _, vectors in pairs]
        values = np.array(constant, dtype=float)
        for axis_values, _ in pairs:
            values = np.multiply.outer(values, np.maximum(axis_values, 0.0))
        self._values = values.ravel()

    @property
    def eigenvalues(self) -> Array:
        """All M = Π m_i eigenvalues, the last factor running fastest."""
        return self._values

    def apply(self, gains: Array, rows: Array) -> Array:
        """Return rows V diag(gains) Vᵀ, axis by axis."""
        middle = self._rotate(rows, transpose=False) * gains
        return self._rotate(middle, transpose=True)

    def _rotate(self, rows: Array, *, transpose: bool) -> Array:
        k = len(rows)
        tensor = rows
        for vectors in self._vectors:  # contract the leading axis, append it last: d steps cycle
            m = len(vectors)
            tensor = np.swapaxes(tensor.reshape(k, m, -1), 1, 2)
            tensor = tensor @ (vectors.T if transpose else vectors)
        return tensor.reshape(k, -1)
