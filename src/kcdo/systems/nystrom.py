"""The input side for large N: a ridge system on m centres, from two sums over the data.

    G = Σ_n ω_n k(c, x_n) k(x_n, c)  (m, m),   H = Σ_n ω_n k(c, x_n) b_n  (m, T)

are all that is needed of the data: they stream, merge, and may come from several machines. The
solution is [G + (Σω) α K_cc]⁺ H, in the whitened basis of K_cc with its small eigenvalues cut:
without the cut the answer depends on the order of the chunks.
"""

from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.linalg.blas import dsyrk

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError
from kcdo.kernels import Kernel, cross_gram, gram
from kcdo.linalg import CholeskyFactor, mirrored
from kcdo.systems.exact import Centres

_EIGENVALUE_CUT = 1e-8
_ROWS_AT_A_TIME = 8192


@dataclass
class NystromSums:
    """What a Nyström fit keeps of the data; add chunks of rows, merge workers.

    Targets b may be a dense (rows, T) array or a SciPy sparse matrix of that shape.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> section, targets = rng.random((6, 2)), rng.random((6, 3))
    >>> whole = NystromSums.empty(2, 3)
    >>> whole.add(section, targets, np.ones(6))
    >>> first, second = NystromSums.empty(2, 3), NystromSums.empty(2, 3)
    >>> first.add(section[:4], targets[:4], np.ones(4))
    >>> second.add(section[4:], targets[4:], np.ones(2))
    >>> np.allclose(first.merged(second).targets, whole.targets)
    True
    """

    cross: Array  # G, lower triangle of a Fortran array
    targets: Array  # Hᵀ, (T, m)
    ones: Array  # Σ ω k(c, x), (m,)
    target_totals: Array  # Σ ω b, (T,)
    weight: float = 0.0
    squared_weight: float = 0.0
    n_rows: int = 0
    counts: bool = True  # whether every weight was a whole number

    @classmethod
    def empty(cls, m: int, n_targets: int) -> "NystromSums":
        """Return sums over no rows."""
        cross = np.zeros((m, m), order="F")
        return cls(cross, np.zeros((n_targets, m)), np.zeros(m), np.zeros(n_targets))

    def add(self, section: Array, targets: Any, weights: Array) -> None:
        """Add rows: their sections k(x_n, c) (b, m), targets (b, T) and weights (b,).

        The section is overwritten: it is scaled by the weights in place.
        """
        unit = bool(np.all(weights == 1.0))
        if not unit:
            section *= np.sqrt(weights)[:, None]
        # the transpose of a C-ordered section is a Fortran array: no copy, half the work of gemm
        self.cross = dsyrk(1.0, section.T, beta=1.0, c=self.cross, lower=1, overwrite_c=1)
        if not unit:
            section *= np.sqrt(weights)[:, None]
        self.targets += targets.T @ section
        self.ones += section.sum(axis=0)
        self.target_totals += np.asarray(targets.T @ weights).ravel()
        self.weight += float(weights.sum())
        self.squared_weight += float(weights @ weights)
        self.n_rows += int(np.count_nonzero(weights))
        self.counts = self.counts and bool(np.all(weights == np.round(weights)))

    def merged(self, other: "NystromSums") -> "NystromSums":
        """Return the sums over the rows of both."""
        if self.targets.shape != other.targets.shape:
            raise InvalidInputError(
                f"cannot merge sums of {self.targets.shape} with {other.targets.shape}: the "
                "workers must use the same centres and output grid."
            )
        return NystromSums(
            self.cross + other.cross,
            self.targets + other.targets,
            self.ones + other.ones,
            self.target_totals + other.target_totals,
            self.weight + other.weight,
            self.squared_weight + other.squared_weight,
            self.n_rows + other.n_rows,
            self.counts and other.counts,
        )

    @property
    def n_effective(self) -> float:
        """Σω for counts, (Σω)²/Σω² for other weights."""
        return self.weight if self.counts else self.weight**2 / self.squared_weight


class NystromSystem(Centres):
    """A ridge system on centres, solved from its sums.

    Parameters
    ----------
    kernel : Kernel
        Input kernel, every scale set.
    centres : (m, p)
    basis : (m, r)
        Their :func:`whitened_basis`.
    sums : NystromSums
    alpha : float
        Tikhonov parameter α.
    """

    method = "nystrom"

    def __init__(
        self,
        kernel: Kernel,
        centres: NDArray,
        basis: Array,
        sums: NystromSums,
        alpha: float,
        *,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(kernel, centres, n_jobs)
        self._white, self._weight = basis, sums.weight
        self._cross = np.ascontiguousarray(basis.T @ mirrored(sums.cross.copy()) @ basis)
        self._factorise(alpha)

    def with_alpha(self, alpha: float) -> "NystromSystem":
        """Return the system of the same sums with another α."""
        other = copy(self)
        other._factorise(alpha)
        return other

    def _factorise(self, alpha: float) -> None:
        self.alpha, self._least = alpha, self._weight * alpha
        matrix = self._cross.copy()
        np.einsum("ii->i", matrix)[:] += self._least
        self.factor = CholeskyFactor(matrix)
        self.__dict__.pop("_half", None)

    def condition(self) -> float:
        """Return an estimate of the condition number of the whitened system."""
        return self.factor.largest_eigenvalue() / self._least

    def coefficients(self, sums: Array) -> Array:
        """Return the coefficients (m, k) for summed targets H (m, k)."""
        return self._white @ self.factor.solve(self._white.T @ sums)

    def squared_norms(self, section: Array) -> Array:
        """Return kᵀ A⁻¹ k for sections k, (b, m) -> (b,), by one product with a half of A⁻¹."""
        halves = section @ self._half
        return np.einsum("ij,ij->i", halves, halves)

    @cached_property
    def _half(self) -> Array:
        return self._white @ self.factor.inverse_factor()


def whitened_basis(kernel: Kernel, centres: NDArray, n_jobs: int | None = None) -> Array:
    """Return W (m, r) with Wᵀ K_cc W = I, from the eigenvalues of K_cc above the cut."""
    values, vectors = eigh(gram(kernel, centres, n_jobs=n_jobs))
    kept = values > _EIGENVALUE_CUT * values[-1]
    return vectors[:, kept] / np.sqrt(values[kept])


class NystromRows(Centres):
    """A ridge system on centres whose rows are at hand: held-out predictions as well.

    With K = k(X, centres) and A = KᵀΩK + (Σω) α K_cc the prediction of row i is
    k_iᵀ A⁻¹ KᵀΩ B, its leverage h_i = ω_i k_iᵀ A⁻¹ k_i, and without itself (f - hb) / (1 - h).

    Parameters
    ----------
    kernel, centres, alpha
        As for :class:`NystromSystem`.
    X, weights : (N, p), (N,)
        The rows; their kernel values are computed in chunks, when needed.
    """

    method = "nystrom"

    def __init__(
        self,
        kernel: Kernel,
        centres: NDArray,
        X: NDArray,
        weights: Array,
        alpha: float,
        *,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(kernel, centres, n_jobs)
        self.X, self.row_weights = X, weights
        sums = NystromSums.empty(len(centres), 0)
        for rows in self._chunks():
            section = cross_gram(kernel, X[rows], centres, n_jobs=n_jobs)
            sums.add(section, np.zeros((len(section), 0)), weights[rows])
        # of a row that stands for several, one is held out
        self._held_out_weights = np.ones_like(weights) if sums.counts else weights
        basis = whitened_basis(kernel, centres, n_jobs)
        self._system = NystromSystem(kernel, centres, basis, sums, alpha, n_jobs=n_jobs)

    def with_alpha(self, alpha: float) -> "NystromRows":
        """Return the system of the same sums with another α."""
        other = copy(self)
        other._system = self._system.with_alpha(alpha)
        other.__dict__.pop("_all_kept", None)
        return other

    @property
    def alpha(self) -> float:
        """Tikhonov parameter α."""
        return self._system.alpha

    @property
    def factor(self) -> CholeskyFactor:
        """The factor of the whitened system."""
        return self._system.factor

    def condition(self) -> float:
        """Return an estimate of the condition number of the whitened system."""
        return self._system.condition()

    def coefficients(self, B: Array) -> Array:
        """Return the coefficients (m, k) for targets B (N, k)."""
        summed = np.zeros((self.n_centres, B.shape[1]))
        for rows in self._chunks():
            section = cross_gram(self.kernel, self.X[rows], self.centres, n_jobs=self.n_jobs)
            summed += section.T @ (self.row_weights[rows, None] * B[rows])
        return self._system.coefficients(summed)

    def kept(self, rows: NDArray[np.integer] | None = None) -> Array:
        """Return 1 - leverage of each row, or of some."""
        return self._all_kept.copy() if rows is None else self._kept(rows)

    @cached_property
    def _all_kept(self) -> Array:
        return self._kept(np.arange(len(self.X)))

    def _kept(self, rows: NDArray[np.integer]) -> Array:
        out = np.empty(len(rows))
        for start in range(0, len(rows), _ROWS_AT_A_TIME):
            part = rows[start : start + _ROWS_AT_A_TIME]
            section = cross_gram(self.kernel, self.X[part], self.centres, n_jobs=self.n_jobs)
            out[start : start + len(part)] = self._system.squared_norms(section)
        return self._without_leverage(rows, out)

    def _without_leverage(self, rows: NDArray[np.integer], squared_norms: Array) -> Array:
        return np.maximum(1.0 - self._held_out_weights[rows] * squared_norms, 1e-12)

    def held_out(self, B: Array, rows: NDArray[np.integer] | None = None) -> Array:
        """Return the leave-one-out predictions of B, (N, k) or of some rows."""
        kept = self.kept(rows)[:, None]
        rows = np.arange(len(self.X)) if rows is None else rows
        coefficients = self.coefficients(B)
        fitted = np.empty((len(rows), B.shape[1]))
        for start in range(0, len(rows), _ROWS_AT_A_TIME):
            part = slice(start, start + _ROWS_AT_A_TIME)
            section = cross_gram(self.kernel, self.X[rows[part]], self.centres, n_jobs=self.n_jobs)
            fitted[part] = section @ coefficients
        return B[rows] - (B[rows] - fitted) / kept

    def held_out_weights(self, rows: NDArray[np.integer]) -> Array:
        """Return S, (len(rows), N), with S @ B the leave-one-out predictions of some rows."""
        own = cross_gram(self.kernel, self.X[rows], self.centres, n_jobs=self.n_jobs)
        scaled = self._system.coefficients(own.T).T
        kept = self._without_leverage(rows, np.einsum("ij,ij->i", own, scaled))
        out = np.empty((len(rows), len(self.X)))
        for part in self._chunks():
            section = cross_gram(self.kernel, self.X[part], self.centres, n_jobs=self.n_jobs)
            out[:, part] = scaled @ (section * self.row_weights[part, None]).T
        out /= kept[:, None]
        out[np.arange(len(rows)), rows] += 1.0 - 1.0 / kept
        return out

    def _chunks(self) -> list[slice]:
        starts = range(0, len(self.X), _ROWS_AT_A_TIME)
        return [slice(start, start + _ROWS_AT_A_TIME) for start in starts]
