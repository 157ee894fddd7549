"""Preconditioned conjugate gradients for (K + diag(ridge)) X = B, many right-hand sides."""

import warnings
from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from kcdo.arrays import Array, Integers
from kcdo.errors import AccuracyWarning
from kcdo.linalg.cholesky import inverse_entries

_UNIT_COLUMNS = 64


class ConjugateGradients:
    """Solves an exact ridge system that is too large to factor, without forming K.

    Parameters
    ----------
    product : function
        Returns K @ P for P (n, k).
    ridge : (n,)
        Positive diagonal added to K.
    low_rank : (n, r)
        Factor of a preconditioner F Fᵀ + diag(ridge), close to the system.
    tolerance : float
        Relative residual at which a column is solved.
    max_iterations : int
        A warning tells if some column has not reached the tolerance by then.

    Attributes
    ----------
    iterations, residual : int, float
        Of the latest solve: steps taken, and the largest relative residual left.
    """

    def __init__(
        self,
        product: Callable[[Array], Array],
        ridge: Array,
        low_rank: Array,
        *,
        tolerance: float = 1e-8,
        max_iterations: int = 500,
    ) -> None:
        self._product, self._ridge, self._low_rank = product, ridge, low_rank
        self._tolerance, self._max_iterations = tolerance, max_iterations
        self.iterations, self.residual = 0, 0.0
        scaled = low_rank / ridge[:, None]
        self._small = cho_factor(np.eye(low_rank.shape[1]) + low_rank.T @ scaled, lower=True)

    def __len__(self) -> int:
        return len(self._ridge)

    @property
    def nbytes(self) -> int:
        """Memory of the preconditioner."""
        return self._low_rank.nbytes

    def solve(self, B: Array) -> Array:
        """Return (K + diag(ridge))⁻¹ B for B (n,) or (n, k); columns stop as they converge."""
        right = B.reshape(len(B), -1).astype(float)
        _, exponents = np.frexp(np.abs(right).max(axis=0, initial=0.0))
        right = np.ldexp(right, -exponents)  # squares of huge or tiny columns are no numbers
        sizes = np.linalg.norm(right, axis=0)
        solution = np.zeros_like(right)
        residual = right.copy()
        direction = self._precondition(residual)
        energy = np.einsum("nk,nk->k", residual, direction)
        active = np.flatnonzero(sizes > 0)
        iterations = 0  # local: threads may solve at the same time
        while len(active) and iterations < self._max_iterations:
            P = direction[:, active]
            AP = self._product(P) + self._ridge[:, None] * P
            step = energy[active] / np.einsum("nk,nk->k", P, AP)
            solution[:, active] += step * P
            residual[:, active] -= step * AP
            preconditioned = self._precondition(residual[:, active])
            new = np.einsum("nk,nk->k", residual[:, active], preconditioned)
            direction[:, active] = preconditioned + (new / energy[active]) * P
            energy[active] = new
            iterations += 1
            sizes_left = np.linalg.norm(residual[:, active], axis=0)
            active = active[sizes_left > self._tolerance * sizes[active]]
        self._report(residual, sizes, iterations)
        return np.ldexp(solution, exponents).reshape(B.shape)

    def inverse_diagonal(self, rows: Integers | None = None) -> Array:
        """Return entries of the diagonal of the inverse: one solve each."""
        rows = np.arange(len(self)) if rows is None else rows
        return inverse_entries(self.solve, len(self), rows, _UNIT_COLUMNS)

    def _precondition(self, R: Array) -> Array:
        """Return (F Fᵀ + diag(ridge))⁻¹ R by the Woodbury identity."""
        scaled = R / self._ridge[:, None]
        inner = cho_solve(self._small, self._low_rank.T @ scaled)
        return scaled - (self._low_rank @ inner) / self._ridge[:, None]

    def _report(self, residual: Array, sizes: Array, iterations: int) -> None:
        left = np.linalg.norm(residual, axis=0) / np.where(sizes > 0, sizes, 1.0)
        reached = float(left.max(initial=0.0))
        self.iterations, self.residual = iterations, reached
        if reached > self._tolerance:
            warnings.warn(
                f"conjugate gradients stopped after {iterations} iterations at a relative "
                f"residual of {reached:.1e}: raise the rank of the preconditioner, alpha or "
                "max_iterations.",
                AccuracyWarning,
                stacklevel=3,
            )
