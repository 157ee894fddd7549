"""The input side for large N: a ridge system on m centres, from two sums over the data.

The sums G and H of :mod:`kcdo.systems.sums` are all that is needed of the data. The solution is
[G + (Σω) α K_cc]⁺ H, in the whitened basis of K_cc with its small eigenvalues cut: without the cut
the answer depends on the order of the chunks.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from kcdo.arrays import Array, Integers
from kcdo.kernels import Kernel, cross_gram, gram
from kcdo.linalg import CholeskyFactor, NotPositiveDefiniteError, mirrored
from kcdo.memory import require_memory
from kcdo.systems.base import Centres, Condensed, Embed, SolverFacts, System
from kcdo.systems.sums import NystromSums

EIGENVALUE_CUT = 1e-8
_ROWS_AT_A_TIME = 8192
_LEAST_OF_SUMS = 1e-9  # of 1 - leverage, where only sums over rows are left
_LEAST_REMAINING = 1e-12  # of 1 - leverage: a row that is the only one of its kind has leverage 1
_MOST_JITTERS = 8
_MATRICES = 5  # of centres by centres, while sums are whitened and factored


@dataclass(frozen=True, eq=False)
class InputRows:
    """Inputs and weights of the rows behind sums, where they are at hand."""

    X: NDArray
    weights: Array

    def __len__(self) -> int:
        return len(self.X)


@dataclass(frozen=True, eq=False)
class WhitenedSums:
    """The sums of a Nyström fit in the whitened basis of its centres, before α is known.

    Parameters
    ----------
    kernel : Kernel
        Input kernel, every scale set.
    centres : (m, p)
    basis : (m, r)
        Their :func:`whitened_basis`.
    cross : (r, r)
        G in that basis.
    weight : float
        Σω.
    counts : bool
        Whether weights are whole numbers: of a row that stands for several, one is held out.
    rows : InputRows, optional
        The rows behind the sums: held-out predictions need them, streams do not have them.
    """

    kernel: Kernel
    centres: NDArray
    basis: Array
    cross: Array
    weight: float
    counts: bool
    rows: InputRows | None = None
    n_jobs: int | None = None

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        centres: NDArray,
        basis: Array,
        sums: NystromSums,
        *,
        rows: InputRows | None = None,
        n_jobs: int | None = None,
    ) -> "WhitenedSums":
        """Bring sums into the basis of their centres."""
        cross = np.ascontiguousarray(basis.T @ mirrored(sums.cross.copy()) @ basis)
        return cls(kernel, centres, basis, cross, sums.weight, sums.counts, rows, n_jobs)

    @classmethod
    def of_rows(
        cls,
        kernel: Kernel,
        centres: NDArray,
        X: NDArray,
        weights: Array,
        *,
        n_jobs: int | None = None,
    ) -> "WhitenedSums":
        """Sum over rows that stay at hand; kernel values are computed in chunks."""
        m = len(centres)
        require_memory(
            8.0 * m * (_MATRICES * m + min(len(X), _ROWS_AT_A_TIME)),
            f"a fit of {m} centres",
            "use fewer centres, as solver=kcdo.Nystrom(300) has.",
        )
        rows, sums = InputRows(X, weights), NystromSums.empty(len(centres), 0)
        for part in _parts(len(rows)):
            section = cross_gram(kernel, X[part], centres, n_jobs=n_jobs)
            sums.add(section, np.zeros((len(section), 0)), weights[part])
        basis = whitened_basis(kernel, centres, n_jobs)
        return cls.of(kernel, centres, basis, sums, rows=rows, n_jobs=n_jobs)

    def factor(self, alpha: float) -> "NystromSystem":
        """Return the system G + (Σω) α K_cc; jitter is added only where that fails."""
        ridge, jitter = self.weight * alpha, 0.0
        for _ in range(_MOST_JITTERS):
            matrix = self.cross.copy()
            np.einsum("ii->i", matrix)[:] += ridge + jitter
            try:
                factor = CholeskyFactor(matrix)
            except NotPositiveDefiniteError:
                least = np.finfo(float).eps * float(np.trace(self.cross))
                jitter = max(10.0 * jitter, least)
                continue
            return NystromSystem(
                self.kernel, self.centres, self.n_jobs, alpha, self, factor, jitter
            )
        raise NotPositiveDefiniteError(
            f"the sums over the centres are not positive definite, even with {jitter:.1e} added "
            "to their diagonal: is the kernel positive definite? A larger alpha may help."
        )


@dataclass(frozen=True, eq=False)
class NystromSystem(System):
    """A ridge system on centres, factored from its sums.

    With K = k(X, centres) and A = KᵀΩK + (Σω) α K_cc the prediction of row i is k_iᵀ A⁻¹ KᵀΩ B,
    its leverage h_i = ω_i k_iᵀ A⁻¹ k_i, and without itself (f - hb) / (1 - h).
    """

    sums: WhitenedSums
    factor: CholeskyFactor
    jitter: float = 0.0

    @property
    def row_weights(self) -> Array:
        """Weights ω of all rows, (N,)."""
        return self._rows.weights

    def condensed(self, embed: Embed, Y: NDArray, step: int) -> Condensed:
        """Return Σ ω k(c, x) b and Σ ω k(c, x), from chunks of the rows."""
        rows = self._rows
        targets: Any = 0.0
        total: Any = 0.0
        ones = np.zeros(self.n_centres)
        for part in _parts(len(rows), min(step, _ROWS_AT_A_TIME)):
            embedded, weights = embed(Y[part]), rows.weights[part]
            section = self._section_of(part)
            section *= weights[:, None]
            targets += (embedded.T @ section).T
            ones += section.sum(axis=0)
            total += np.asarray(embedded.T @ weights).ravel()
        return Condensed(np.asarray(targets), ones, np.asarray(total))

    def solve(self, condensed: Array) -> Array:
        """Return the coefficients (m, k) for summed targets H (m, k)."""
        basis = self.sums.basis
        return basis @ self.factor.solve(basis.T @ condensed)

    def weights_of(self, section: Array) -> Array:
        """Return the embedding weights (Q, N) that belong to sections (Q, m)."""
        rows, scaled = self._rows, self.solve(section.T).T
        out = np.empty((len(section), len(rows)))
        for part in _parts(len(rows)):
            out[:, part] = scaled @ (self._section_of(part) * rows.weights[part, None]).T
        return out

    def one_minus_leverage(self, rows: Integers | None = None) -> Array:
        """Return 1 - leverage of each row, or of some."""
        return (
            self._all_one_minus_leverage.copy() if rows is None else self._one_minus_leverage(rows)
        )

    def held_out(
        self, B: Array, rows: Integers | None = None, one_minus_leverage: Array | None = None
    ) -> Array:
        """Return the leave-one-out predictions of B, (N, k) or of some rows."""
        if one_minus_leverage is None:
            one_minus_leverage = self.one_minus_leverage(rows)
        rows = np.arange(len(self._rows)) if rows is None else rows
        coefficients = self.coefficients(B)
        fitted = np.empty((len(rows), B.shape[1]))
        for part in _parts(len(rows)):
            fitted[part] = self._section_of(rows[part]) @ coefficients
        return B[rows] - (B[rows] - fitted) / one_minus_leverage[:, None]

    def held_out_at(self, X: NDArray, weights: Array, B: Array, condensed: Array) -> Array:
        """Return the leave-one-out predictions of rows that are among those behind the sums.

        ``condensed`` are the summed targets of all rows, ``B`` the targets of these: no second
        pass over the data.
        """
        section = cross_gram(self.kernel, X, self.centres, n_jobs=self.n_jobs)
        errors = B - section @ self.solve(condensed)
        return B - self.leverages.held_out_errors(errors, section, weights)

    def one_minus_leverage_at(self, X: NDArray, weights: Array) -> Array:
        """Return 1 - leverage of rows that are among those behind the sums, more than 0."""
        section = cross_gram(self.kernel, X, self.centres, n_jobs=self.n_jobs)
        return self.leverages.one_minus(section, weights)

    @property
    def leverages(self) -> "Leverages":
        """What tells leverages from sections, without the sums: for tasks of a streamed fit."""
        return Leverages(self.half_inverse, self.sums.counts)

    def held_out_weights(self, rows: Integers) -> Array:
        """Return S, (len(rows), N), with S @ B the leave-one-out predictions of some rows."""
        own = self._section_of(rows)
        out = self.weights_of(own)
        each, leaving = np.arange(len(rows)), self._leaving[rows]
        # ω_i k_iᵀ A⁻¹ k_i is what a row weighs in its own prediction
        leverage = out[each, rows] * leaving / self._rows.weights[rows]
        remaining = np.maximum(1.0 - leverage, _LEAST_REMAINING)
        out /= remaining[:, None]
        out[each, rows] += 1.0 - 1.0 / remaining
        return out

    def describe(self) -> SolverFacts:
        """Return method, sizes and condition of the whitened system."""
        ridge = self.sums.weight * self.alpha + self.jitter
        return SolverFacts(
            method="nystrom",
            alpha=self.alpha,
            n_centres=self.n_centres,
            condition=self.factor.largest_eigenvalue() / ridge,
            nbytes=self.factor.nbytes,
            jitter=self.jitter,
        )

    def without_factor(self) -> Centres:
        """Return the centres alone."""
        return Centres(self.kernel, self.centres, self.n_jobs)

    @property
    def _rows(self) -> InputRows:
        assert self.sums.rows is not None, "a streamed fit keeps no rows"
        return self.sums.rows

    @cached_property
    def _leaving(self) -> Array:
        """What leaves with each row: of one that stands for several, one."""
        weights = self._rows.weights
        return np.ones_like(weights) if self.sums.counts else weights

    @cached_property
    def _all_one_minus_leverage(self) -> Array:
        return self._one_minus_leverage(np.arange(len(self._rows)))

    def _one_minus_leverage(self, rows: Integers) -> Array:
        out = np.empty(len(rows))
        for part in _parts(len(rows)):
            out[part] = squared_norms(self._section_of(rows[part]), self.half_inverse)
        return np.maximum(1.0 - self._leaving[rows] * out, _LEAST_REMAINING)

    @cached_property
    def half_inverse(self) -> Array:
        """W, (m, r), with WWᵀ = A⁻¹."""
        return self.sums.basis @ self.factor.inverse_factor()

    def _section_of(self, rows: Integers | slice) -> Array:
        return cross_gram(self.kernel, self._rows.X[rows], self.centres, n_jobs=self.n_jobs)


@dataclass(frozen=True, eq=False)
class Leverages:
    """Leverages of rows that are among those behind the sums, from sections of their inputs."""

    half_inverse: Array  # W (m, r), with WWᵀ = A⁻¹
    counts: bool  # whether the weight of a row says how often it was seen

    def one_minus(self, section: Array, weights: Array) -> Array:
        """Return 1 - leverage of rows with sections (b, m) and weights (b,).

        It divides differences of two predictions: less than a little would divide rounding errors.
        """
        norms = squared_norms(section, self.half_inverse)
        return np.maximum(1.0 - norms * (1.0 if self.counts else weights), _LEAST_OF_SUMS)

    def held_out_errors(self, errors: Array, section: Array, weights: Array) -> Array:
        """Return errors (b, k) of such rows as they would be without each row itself."""
        return errors / self.one_minus(section, weights)[:, None]


def squared_norms(section: Array, half_inverse: Array) -> Array:
    """Return |kᵀW|² for sections k, (b, m) -> (b,): times its weight the leverage of a row."""
    halves = section @ half_inverse
    return np.einsum("ij,ij->i", halves, halves)


def whitened_basis(kernel: Kernel, centres: NDArray, n_jobs: int | None = None) -> Array:
    """Return W (m, r) with Wᵀ K_cc W = I, from the eigenvalues of K_cc above the cut."""
    values, vectors = eigh(gram(kernel, centres, n_jobs=n_jobs))
    above = values > EIGENVALUE_CUT * values[-1]
    return vectors[:, above] / np.sqrt(values[above])


def _parts(n: int, step: int | None = None) -> Iterator[slice]:
    """Yield n rows, a few at a time."""
    step = step or _ROWS_AT_A_TIME
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))
