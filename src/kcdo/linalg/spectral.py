"""Filters of a symmetric matrix: through its eigenvectors, or by solves alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import eigh

from kcdo.arrays import Array
from kcdo.linalg.filters import Filter


class Inverse(Protocol):
    """A regularised inverse g(S), and h(S), of a symmetric matrix S, applied to rows."""

    def gain(self, rows: Array) -> Array:
        """Return rows g(S), for rows (k, M)."""

    def slope(self, rows: Array) -> Array:
        """Return rows h(S)."""


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

    @property
    def axes(self) -> list[tuple[Array, Array]]:
        """Eigenvalues and eigenvectors of each factor: of the one there is."""
        return [(self._values, self._vectors)]

    def rotated(self, rows: Array) -> Array:
        """Return rows V."""
        return rows @ self._vectors

    def rotated_back(self, rows: Array) -> Array:
        """Return rows Vᵀ."""
        return rows @ self._vectors.T

    def apply(self, gains: Array, rows: Array) -> Array:
        """Return rows V diag(gains) Vᵀ."""
        return self.rotated_back(self.rotated(rows) * gains)


class KroneckerSpectrum:
    """Eigendecomposition of c · (A_1 ⊗ … ⊗ A_d) from those of its small factors.

    Never forms the product: O(Σ m_i³) to set up, O(M Σ m_i) to apply to one vector.
    """

    def __init__(self, factors: Sequence[Array], constant: float) -> None:
        pairs = [eigh(factor) for factor in factors]
        self.axes = [(np.maximum(values, 0.0), vectors) for values, vectors in pairs]
        values = np.array(constant, dtype=float)
        for axis_values, _ in self.axes:
            values = np.multiply.outer(values, axis_values)
        self._values = values.ravel()

    @property
    def eigenvalues(self) -> Array:
        """All M = Π m_i eigenvalues, the last factor running fastest."""
        return self._values

    def apply(self, gains: Array, rows: Array) -> Array:
        """Return rows V diag(gains) Vᵀ, axis by axis."""
        return self.rotated_back(self.rotated(rows) * gains)

    def rotated(self, rows: Array) -> Array:
        """Return rows V."""
        return self._rotate(rows, transpose=False)

    def rotated_back(self, rows: Array) -> Array:
        """Return rows Vᵀ."""
        return self._rotate(rows, transpose=True)

    def _rotate(self, rows: Array, *, transpose: bool) -> Array:
        tensor, right = rows, rows.shape[1]
        for _, vectors in self.axes:  # each axis in its place: no copy but the product itself
            matrix = vectors if transpose else vectors.T
            m = len(vectors)
            right //= m
            if right == 1:
                tensor = tensor.reshape(-1, m) @ matrix.T
            else:
                tensor = np.matmul(matrix, tensor.reshape(-1, m, right))
        return tensor.reshape(rows.shape)


@dataclass(frozen=True, eq=False)
class SpectralInverse:
    """Any filter, from the eigenvalues."""

    spectrum: Spectrum
    filter: Filter
    ridge: float

    def gain(self, rows: Array) -> Array:
        """Return rows g(S)."""
        return self.spectrum.apply(self.filter.gain(self.spectrum.eigenvalues, self.ridge), rows)

    def slope(self, rows: Array) -> Array:
        """Return rows h(S)."""
        return self.spectrum.apply(self.filter.slope(self.spectrum.eigenvalues, self.ridge), rows)


@dataclass(frozen=True, eq=False)
class ResolventInverse:
    """A filter that is a polynomial in (S + ridge)⁻¹, by solves: no eigenvectors are needed."""

    solve: Callable[[Array], Array]  # (M, k) -> (S + ridge)⁻¹ (M, k)
    filter: Filter
    ridge: float

    def gain(self, rows: Array) -> Array:
        """Return rows g(S)."""
        return self._polynomial(self.filter.gain_powers(self.ridge), rows)

    def slope(self, rows: Array) -> Array:
        """Return rows h(S)."""
        return self._polynomial(self.filter.slope_powers(self.ridge), rows)

    def _polynomial(self, coefficients: Sequence[float] | None, rows: Array) -> Array:
        assert coefficients is not None, "this filter needs eigenvalues"
        power = self.solve(rows.T)
        total = power if coefficients[0] == 1.0 else coefficients[0] * power
        for coefficient in coefficients[1:]:
            power = self.solve(power)
            total = total + coefficient * power
        return total.T
