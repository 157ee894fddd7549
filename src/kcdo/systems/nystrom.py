"""The input side for large N: a ridge system on m centres, from two sums over the data.

    G = Σ_n ω_n k(c, x_n) k(x_n, c)  (m, m),   H = Σ_n ω_n k(c, x_n) b_n  (m, T)

are all that is needed of the data: they stream, merge, and may come from several machines. The
solution is [G + (Σω) α K_cc]⁺ H, in the whitened basis of K_cc with its small eigenvalues cut:
without the cut the answer depends on the order of the chunks.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.linalg.blas import dsyrk

from kcdo.errors import InvalidInputError
from kcdo.kernels import Kernel, gram
from kcdo.linalg import CholeskyFactor
from kcdo.systems.exact import Centres

Array = NDArray[np.floating]

_EIGENVALUE_CUT = 1e-8


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
        self.alpha = alpha
        self._white = basis
        lower = np.tril(sums.cross)
        full = lower + np.tril(lower, -1).T
        matrix = np.ascontiguousarray(self._white.T @ full @ self._white)
        self._least = sums.weight * alpha
        np.einsum("ii->i", matrix)[:] += self._least
        self.factor = CholeskyFactor(matrix)

    def condition(self) -> float:
        """Return an estimate of the condition number of the whitened system."""
        return self.factor.largest_eigenvalue() / self._least

    def coefficients(self, sums: Array) -> Array:
        """Return the coefficients (m, k) for summed targets H (m, k)."""
        return self._white @ self.factor.solve(self._white.T @ sums)


def whitened_basis(kernel: Kernel, centres: NDArray, n_jobs: int | None = None) -> Array:
    """Return W (m, r) with Wᵀ K_cc W = I, from the eigenvalues of K_cc above the cut."""
    values, vectors = eigh(gram(kernel, centres, n_jobs=n_jobs))
    kept = values > _EIGENVALUE_CUT * values[-1]
    return vectors[:, kept] / np.sqrt(values[kept])
