"""The input side: ridge regression on inputs, whatever the targets are.

    prediction(x') = section(x') @ coefficients(B),
    section(x') = k(x', centres),  coefficients(B) = A⁻¹ B,  A = K + (Σω) α diag(ω)⁻¹

B = Y gives the conditional mean, B = 1 the sum of the embedding weights, B = ℓ(Y, Z) the
conditional embedding on the nodes of a reference measure.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from kcdo.errors import InvalidInputError
from kcdo.inputs import Expectation, GaussianInput, SampleInput
from kcdo.kernels import Kernel, cross_gram, expectation, lower_gram
from kcdo.linalg import CholeskyFactor

Array = NDArray[np.floating]
Queries = NDArray | GaussianInput | SampleInput


@dataclass(frozen=True, eq=False)
class Groups:
    """Which observations share an input: the paper's factorisation trick, for any counts.

    Rows of equal input enter the ridge system once, with their weights summed and their targets
    averaged; the answer is exactly that of the ungrouped system.
    """

    points: NDArray
    member_of: NDArray[np.integer]
    weights: Array  # ω of each observation

    @classmethod
    def of(cls, X: NDArray, weights: Array | None = None) -> "Groups":
        """Group equal rows of X; objects are not compared."""
        weights = np.ones(len(X)) if weights is None else weights
        if X.dtype == object or X.ndim != 2:
            return cls(X, np.arange(len(X)), weights)
        points, member_of = np.unique(X, axis=0, return_inverse=True)
        return cls(points, member_of.ravel(), weights)

    @property
    def are_counts(self) -> bool:
        """Whether the weights are whole numbers: a weight of 3 then equals three rows."""
        return bool(np.all(self.weights == np.round(self.weights)))

    @property
    def n_effective(self) -> float:
        """Σω for counts; (Σω)²/Σω² for other weights, of which only the ratios matter."""
        total = self.weights.sum()
        return float(total if self.are_counts else total**2 / np.sum(self.weights**2))

    @property
    def totals(self) -> Array:
        """Sum of the weights of each group."""
        counts = np.bincount(self.member_of, weights=self.weights, minlength=len(self.points))
        return counts.astype(float)

    @property
    def share(self) -> Array:
        """Weight of each observation within its group."""
        return self.weights / self.totals[self.member_of]

    def means(self, B: Array) -> Array:
        """Return the weighted mean of the rows of B (N, k) in each group, (n, k)."""
        if len(self.points) == len(self.member_of):  # nothing to average
            out = np.empty_like(B)
            out[self.member_of] = B
            return out
        columns = np.arange(len(self.member_of))
        averaging = csr_matrix((self.share, (self.member_of, columns)))
        return averaging @ B


class DenseSystem:
    """The exact ridge system, by one in-place Cholesky factorisation.

    Parameters
    ----------
    kernel : Kernel
        Input kernel k, every scale set.
    groups : Groups
        Inputs, with their weights.
    alpha : float
        Tikhonov parameter α.

    Examples
    --------
    >>> from kcdo import Gaussian
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> system = DenseSystem(Gaussian(1.0), Groups.of(X), alpha=1e-9)
    >>> (system.section(X) @ system.coefficients(X**2)).round(4).ravel() + 0.0
    array([0., 1., 4.])
    """

    method = "exact"

    def __init__(
        self, kernel: Kernel, groups: Groups, alpha: float, *, n_jobs: int | None = None
    ) -> None:
        if not (np.isfinite(alpha) and alpha > 0):
            raise InvalidInputError(f"alpha must be positive; got {alpha!r}.")
        self.kernel, self.groups, self.alpha, self.n_jobs = kernel, groups, alpha, n_jobs
        self.ridge = groups.weights.sum() * alpha / groups.totals
        matrix = lower_gram(kernel, groups.points, n_jobs=n_jobs)
        np.einsum("ii->i", matrix)[:] += self.ridge
        self.factor = CholeskyFactor(matrix)

    @property
    def n_centres(self) -> int:
        """Number of columns of a section."""
        return len(self.groups.points)

    def section(self, queries: Queries) -> Array:
        """Return k(x', centres), (Q, n), or its expectation for uncertain queries."""
        return self.section_with_error(queries).values

    def section_with_error(self, queries: Queries) -> Expectation:
        """Return the section and the standard error of its expectation."""
        points = self.groups.points
        if isinstance(queries, GaussianInput | SampleInput):
            return expectation(self.kernel, points, queries, n_jobs=self.n_jobs)
        return Expectation(cross_gram(self.kernel, queries, points, n_jobs=self.n_jobs), 0.0)

    def coefficients(self, B: Array) -> Array:
        """Return A⁻¹ B̄, (n, k), for targets B (N, k)."""
        return self.factor.solve(self.groups.means(B))

    def weights(self, queries: Queries) -> Array:
        """Return the embedding weights w(x') of all observations, (Q, N)."""
        grouped = self.factor.solve(self.section(queries).T).T
        return grouped[:, self.groups.member_of] * self.groups.share

    def held_out(self, B: Array, rows: NDArray[np.integer] | None = None) -> Array:
        """Return the leave-one-out predictions of B, (N, k) or of some rows, in closed form.

        With b̄ the group means and a = A⁻¹b̄, the residual of observation i in group u is
        (b_i - b̄_u) + λ_u a_u, and 1 - leverage is (1 - share_i) + share_i λ_u (A⁻¹)_uu:
        nothing cancels (THEORY, section 3). Of a counted row one count is left out.
        """
        g = self.groups
        rows = np.arange(len(g.member_of)) if rows is None else rows
        member, inverse = np.unique(g.member_of[rows], return_inverse=True)
        every = len(member) == self.n_centres
        diagonal = self.factor.inverse_diagonal(None if every else member)[inverse]
        means = g.means(B)
        group, share = g.member_of[rows], g.share[rows]
        share = share / g.weights[rows] if g.are_counts else share
        ridge = self.ridge[group]
        shrunk = self.factor.solve(means)[group] * ridge[:, None]
        residual = (B[rows] - means[group]) + shrunk
        kept = (1.0 - share) + share * ridge * diagonal
        return B[rows] - residual / kept[:, None]

    def group_held_out(self, B: Array) -> Array:
        """Return leave-*group*-out predictions of the group means, (n, k)."""
        means = self.groups.means(B)
        return means - self.factor.solve(means) / self.factor.inverse_diagonal()[:, None]
