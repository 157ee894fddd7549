"""The exact ridge system on all distinct inputs: factored, or solved iteratively."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError
from kcdo.inputs import Expectation, GaussianInput, SampleInput
from kcdo.kernels import Kernel, cross_gram, expectation, lower_gram
from kcdo.linalg import (
    CholeskyFactor,
    ConjugateGradients,
    GridToeplitz,
    NotPositiveDefiniteError,
    grid_places,
    randomly_pivoted_cholesky,
)
from kcdo.parallel import scratch, thread_count
from kcdo.progress import SILENT, Progress
from kcdo.systems.groups import Groups
from kcdo.systems.options import Exact, Iterative

Queries = NDArray | GaussianInput | SampleInput

_PRODUCT_BYTES = 1 << 26
_MOST_JITTERS = 8


class Centres:
    """What predictions need of a system: its kernel at its centres."""

    def __init__(self, kernel: Kernel, centres: NDArray, n_jobs: int | None = None) -> None:
        self.kernel, self.centres, self.n_jobs = kernel, centres, n_jobs

    @property
    def n_centres(self) -> int:
        """Number of columns of a section."""
        return len(self.centres)

    @property
    def width(self) -> int:
        """Numbers that a section takes."""
        return self.n_centres

    def section(self, queries: Queries) -> Array:
        """Return k(x', centres), (Q, n), or its expectation for uncertain queries."""
        return self.section_with_error(queries).values

    def section_with_error(self, queries: Queries) -> Expectation:
        """Return the section and the standard error of its expectation."""
        if isinstance(queries, GaussianInput | SampleInput):
            return expectation(self.kernel, self.centres, queries, n_jobs=self.n_jobs)
        if self.centres.dtype == np.float32:
            queries = queries.astype(np.float32)
            return Expectation(
                cross_gram(self.kernel, queries, self.centres, n_jobs=self.n_jobs), 0.0
            )
        out = scratch((len(queries), len(self.centres)))
        values = cross_gram(self.kernel, queries, self.centres, out=out, n_jobs=self.n_jobs)
        return Expectation(values, 0.0)

    def bare(self) -> "Centres":
        """Return the centres alone, without factors or sums."""
        return Centres(self.kernel, self.centres, self.n_jobs)


class ExactSystem(Centres):
    """The ridge system A = K + (Σω) α diag(ω)⁻¹ on the distinct inputs.

    Parameters
    ----------
    kernel : Kernel
        Input kernel k, every scale set.
    groups : Groups
        Inputs, with their weights.
    alpha : float
        Tikhonov parameter α.
    solver : Exact or Iterative
        How A⁻¹B is found.

    Examples
    --------
    >>> from kcdo import Gaussian
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> system = ExactSystem(Gaussian(1.0), Groups.of(X), alpha=1e-9)
    >>> (system.section(X) @ system.coefficients(X**2)).round(4).ravel() + 0.0
    array([0., 1., 4.])
    """

    def __init__(
        self,
        kernel: Kernel,
        groups: Groups,
        alpha: float,
        solver: Exact | Iterative | None = None,
        *,
        n_jobs: int | None = None,
        progress: Progress = SILENT,
    ) -> None:
        if not (np.isfinite(alpha) and alpha > 0):
            raise InvalidInputError(f"alpha must be positive; got {alpha!r}.")
        solver = solver or Exact()
        super().__init__(kernel, groups.points, n_jobs)
        self.groups, self.alpha = groups, alpha
        self.ridge = groups.weights.sum() * alpha / groups.totals
        self.jitter = 0.0
        self.factor: CholeskyFactor | ConjugateGradients
        with progress.stage(f"{solver.name}, {len(self.centres)} distinct inputs"):
            if isinstance(solver, Iterative):
                self.method = "iterative"
                self.factor = _conjugate_gradients(kernel, self.centres, self.ridge, solver, n_jobs)
            else:
                self.method = "exact"
                solver.require_memory(len(self.centres))
                if self.centres.dtype != object:
                    self.centres = self.centres.astype(solver.dtype, copy=False)
                self.factor = self._factored()

    def coefficients(self, B: Array) -> Array:
        """Return A⁻¹ B̄, (n, k), for targets B (N, k)."""
        return self.factor.solve(self.groups.means(B))

    def weights(self, queries: Queries) -> Array:
        """Return the embedding weights w(x') of all observations, (Q, N)."""
        return self.weights_of(self.section(queries))

    def weights_of(self, section: Array) -> Array:
        """Return the embedding weights (Q, N) that belong to sections (Q, n)."""
        grouped = self.factor.solve(section.T).T
        return grouped[:, self.groups.member_of] * self.groups.share

    def held_out(self, B: Array, rows: NDArray[np.integer] | None = None) -> Array:
        """Return the leave-one-out predictions of B, (N, k) or of some rows, in closed form.

        With b̄ the group means and a = A⁻¹b̄, the residual of observation i in group u is
        (b_i - b̄_u) + λ_u a_u, and 1 - leverage is (1 - share_i) + share_i λ_u (A⁻¹)_uu:
        nothing cancels (docs/theory.md). Of a counted row one count is left out.
        """
        g = self.groups
        rows = np.arange(len(g.member_of)) if rows is None else rows
        means, group = g.means(B), g.member_of[rows]
        shrunk = self.factor.solve(means)[group] * self.ridge[group][:, None]
        residual = (B[rows] - means[group]) + shrunk
        return B[rows] - residual / self.kept(rows)[:, None]

    def kept(self, rows: NDArray[np.integer] | None = None) -> Array:
        """Return 1 - leverage of each row, or of some: residual over held-out residual."""
        g = self.groups
        rows = np.arange(len(g.member_of)) if rows is None else rows
        member, inverse = np.unique(g.member_of[rows], return_inverse=True)
        every = len(member) == self.n_centres
        diagonal = self.factor.inverse_diagonal(None if every else member)[inverse]
        return self._kept(rows, diagonal)

    def held_out_weights(self, rows: NDArray[np.integer]) -> Array:
        """Return S, (len(rows), N), with S @ B the leave-one-out predictions of some rows.

        One solve for each: for few rows of many, and targets that change.
        """
        g = self.groups
        group, member = np.unique(g.member_of[rows], return_inverse=True)
        units = np.zeros((self.n_centres, len(group)))
        units[group, np.arange(len(group))] = 1.0
        inverse = self.factor.solve(units)[:, member]  # columns of A⁻¹, (n, len(rows))
        own, each = g.member_of[rows], np.arange(len(rows))
        kept = self._kept(rows, inverse[own, each])
        grouped = -inverse.T * (self.ridge[own] / kept)[:, None]
        grouped[each, own] += 1.0 / kept
        weights = grouped[:, g.member_of] * g.share
        weights[each, rows] += 1.0 - 1.0 / kept
        return weights

    def _kept(self, rows: NDArray[np.integer], diagonal: Array) -> Array:
        """Return (1 - share) + share λ (A⁻¹)_uu; of a counted row one count is left out."""
        g = self.groups
        share = g.share[rows] / g.weights[rows] if g.are_counts else g.share[rows]
        return (1.0 - share) + share * self.ridge[g.member_of[rows]] * diagonal

    def group_held_out(self, B: Array) -> Array:
        """Return leave-*group*-out predictions of the group means, (n, k)."""
        means = self.groups.means(B)
        return means - self.factor.solve(means) / self.factor.inverse_diagonal()[:, None]

    def condition(self) -> float:
        """Return an estimate of the condition number: largest eigenvalue over least ridge."""
        if isinstance(self.factor, CholeskyFactor):
            return self.factor.largest_eigenvalue(iterations=1) / float(
                self.ridge.min() + self.jitter
            )
        return float((self.kernel.diag(self.centres).sum() + self.ridge.max()) / self.ridge.min())

    def _factored(self) -> CholeskyFactor:
        """Fill one triangle and factor it in place; jitter is added only when that fails."""
        matrix = None
        for _ in range(_MOST_JITTERS):
            matrix = lower_gram(self.kernel, self.centres, out=matrix, n_jobs=self.n_jobs)
            np.einsum("ii->i", matrix)[:] += self.ridge + self.jitter
            try:
                return CholeskyFactor(matrix)
            except NotPositiveDefiniteError:
                least = np.finfo(matrix.dtype).eps * float(self.kernel.diag(self.centres).sum())
                self.jitter = max(10.0 * self.jitter, float(least))
        raise NotPositiveDefiniteError(
            f"the kernel matrix is not positive definite, even with {self.jitter:.1e} added to "
            "its diagonal: is the kernel positive definite? A larger alpha may help."
        )


def _conjugate_gradients(
    kernel: Kernel, points: NDArray, ridge: Array, options: Iterative, n_jobs: int | None
) -> ConjugateGradients:
    """Return a matrix-free solver: FFT products on grids, blocks of kernel values elsewhere."""
    pivoted = randomly_pivoted_cholesky(
        lambda pivots: cross_gram(kernel, points, points[pivots], n_jobs=n_jobs),
        kernel.diag(points),
        options.rank,
        np.random.default_rng(0),
    )
    return ConjugateGradients(
        kernel_product(kernel, points, n_jobs),
        ridge,
        pivoted.factor,
        tolerance=options.tolerance,
        max_iterations=options.max_iterations,
    )


def kernel_product(kernel: Kernel, points: NDArray, n_jobs: int | None) -> Callable[[Array], Array]:
    """Return the function P -> K @ P that never holds K."""
    lattice = grid_places(points) if kernel.stationary and points.dtype != object else None
    if lattice is None:
        return _BlockProduct(kernel, points, n_jobs)
    origin = np.zeros((1, points.shape[1]))
    toeplitz = GridToeplitz(
        lambda step: cross_gram(kernel, step, origin)[:, 0], *lattice, thread_count(n_jobs)
    )
    return toeplitz.product


@dataclass(frozen=True, eq=False)
class _BlockProduct:
    """K @ P from blocks of rows of K; an object, so that a fitted model can be pickled."""

    kernel: Kernel
    points: NDArray
    n_jobs: int | None

    def __call__(self, P: Array) -> Array:
        step = max(1, _PRODUCT_BYTES // (8 * len(self.points)))
        out = np.empty_like(P)
        for start in range(0, len(self.points), step):
            rows = slice(start, start + step)
            part = cross_gram(self.kernel, self.points[rows], self.points, n_jobs=self.n_jobs)
            out[rows] = part @ P
        return out
