"""The exact ridge system on all distinct inputs: factored, or solved iteratively."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array, Integers
from kcdo.consistency import need, shape
from kcdo.kernels import Kernel, cross_gram, lower_gram
from kcdo.linalg import (
    CholeskyFactor,
    ConjugateGradients,
    GridToeplitz,
    NotPositiveDefiniteError,
    grid_places,
    randomly_pivoted_cholesky,
)
from kcdo.parallel import shared_property, thread_count
from kcdo.progress import SILENT, Progress
from kcdo.systems import leave_one_out
from kcdo.systems.base import (
    Centres,
    Condensed,
    Embed,
    SolverFacts,
    System,
    dense,
    stacked,
)
from kcdo.systems.groups import Groups
from kcdo.systems.options import Exact, Iterative

_PRODUCT_BYTES = 1 << 26
_MOST_JITTERS = 8
_LARGEST_MODEL = 1 << 29  # bytes of the one matrix; beyond, weights are applied query by query


@dataclass(frozen=True, eq=False)
class ExactRows:
    """Distinct inputs with their weights, and the kernel on them.

    Parameters
    ----------
    kernel : Kernel
        Input kernel k, every scale set.
    groups : Groups
        Inputs, with their weights.
    solver : Exact or Iterative
        How A⁻¹B is found.

    Examples
    --------
    >>> from kcdo import Gaussian
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> system = ExactRows(Gaussian(1.0), Groups.of(X)).factor(alpha=1e-9)
    >>> (system.section(X) @ system.coefficients(X**2)).round(4).ravel() + 0.0
    array([0., 1., 4.])
    """

    kernel: Kernel
    groups: Groups
    solver: Exact | Iterative = field(default_factory=Exact)
    n_jobs: int | None = None
    progress: Progress = SILENT

    def factor(self, alpha: float) -> "ExactSystem":
        """Return the system A = K + (Σω) α diag(ω)⁻¹ of these rows."""
        groups, solver = self.groups, self.solver
        centres = groups.points
        if isinstance(solver, Exact) and centres.dtype != object:
            centres = centres.astype(solver.dtype, copy=False)
        system = ExactSystem(self.kernel, centres, self.n_jobs, alpha, groups, solver)
        with self.progress.stage(f"{solver.name}, {len(centres)} distinct inputs"):
            return system.factored()


@dataclass(frozen=True, eq=False)
class ExactSystem(System):
    """The system A = K + (Σω) α diag(ω)⁻¹ on the distinct inputs, see ExactRows.

    It is factored once, by the fit; one that comes from a file, which holds no factor, when it is
    first asked.
    """

    groups: Groups
    solver: Exact | Iterative = field(default_factory=Exact)

    def __post_init__(self) -> None:
        super().__post_init__()
        points = self.groups.points
        shape(points, *self.centres.shape)
        if points is not self.centres:  # in single precision, or of another array
            same = np.array_equal(points.astype(self.centres.dtype, copy=False), self.centres)
            need(same, "centres and groups of other inputs")

    @cached_property
    def ridge(self) -> Array:
        """What is added to the diagonal of K, (n,)."""
        return self.groups.weights.sum() * self.alpha / self.groups.totals

    @property
    def factor(self) -> CholeskyFactor | ConjugateGradients:
        """What solves the system."""
        return self._found[0]

    @property
    def jitter(self) -> float:
        """Added to the diagonal beyond the ridge, because the factorisation failed without it."""
        return self._found[1]

    def factored(self) -> "ExactSystem":
        """Return the system itself, after its factor was found."""
        vars(self)["_found"] = self._find()
        return self

    @shared_property
    def _found(self) -> tuple[CholeskyFactor | ConjugateGradients, float]:
        return self._find()

    def _find(self) -> tuple[CholeskyFactor | ConjugateGradients, float]:
        """Return factor and jitter."""
        if isinstance(self.solver, Iterative):
            parts = self.kernel, self.centres, self.ridge, self.solver, self.n_jobs
            return _conjugate_gradients(*parts), 0.0
        self.solver.require_memory(self.n_centres)
        return _factored(self.kernel, self.centres, self.ridge, self.n_jobs)

    @property
    def row_weights(self) -> Array:
        """Weights ω of all rows, (N,)."""
        return self.groups.weights

    def condensed(self, embed: Embed, Y: NDArray, step: int) -> Condensed:
        """Return the mean of the targets in each group of equal inputs.

        Equal outputs are embedded once; the embeddings are made and averaged in blocks.
        """
        means = self._means(embed, Y, step)
        return Condensed(means, np.ones(self.n_centres), self.groups.totals @ means)

    def _means(self, embed: Embed, Y: NDArray, step: int) -> Array:
        groups, distinct = self.groups, Groups.of(Y)
        if groups.all_distinct and distinct.all_distinct:
            ordered = np.empty_like(Y)
            ordered[groups.member_of] = Y
            return stacked(embed, ordered, step)
        averaging = groups.averaging(distinct.member_of, len(distinct.points)).tocsc()
        means: Array | float = 0.0
        for start in range(0, len(distinct.points), step):
            block = slice(start, start + step)
            means = means + dense(averaging[:, block] @ embed(distinct.points[block]))
        return np.asarray(means)

    def solve(self, condensed: Array) -> Array:
        """Return A⁻¹ times group means."""
        return self.factor.solve(condensed)

    def coefficients(self, B: Array) -> Array:
        """Return A⁻¹ B̄, (n, k), for targets B (N, k)."""
        return self.factor.solve(self.groups.means(B))

    def weights_of(self, section: Array) -> Array:
        """Return the embedding weights (Q, N) that belong to sections (Q, n)."""
        grouped = self.factor.solve(section.T).T
        return grouped[:, self.groups.member_of] * self.groups.share

    def held_out(
        self, B: Array, rows: Integers | None = None, one_minus_leverage: Array | None = None
    ) -> Array:
        """Return the leave-one-out predictions of B, (N, k) or of some rows, in closed form."""
        if one_minus_leverage is None:
            one_minus_leverage = self.one_minus_leverage(rows)
        means = self.groups.means(B)
        solved = self.factor.solve(means)
        residual = leave_one_out.residuals(self.groups, self.ridge, B, means, solved, rows)
        own = B if rows is None else B[rows]
        return own - residual / one_minus_leverage[:, None]

    def one_minus_leverage(self, rows: Integers | None = None) -> Array:
        """Return 1 - leverage of each row, or of some: residual over held-out residual."""
        g = self.groups
        rows = np.arange(len(g.member_of)) if rows is None else rows
        member, inverse = np.unique(g.member_of[rows], return_inverse=True)
        every = len(member) == self.n_centres
        diagonal = self.factor.inverse_diagonal(None if every else member)[inverse]
        return leave_one_out.one_minus_leverage(g, self.ridge, diagonal, rows)

    def held_out_weights(self, rows: Integers) -> Array:
        """Return S, (len(rows), N), with S @ B the leave-one-out predictions of some rows."""
        g = self.groups
        group, member = np.unique(g.member_of[rows], return_inverse=True)
        units = np.zeros((self.n_centres, len(group)))
        units[group, np.arange(len(group))] = 1.0
        inverse = self.factor.solve(units)[:, member]  # columns of A⁻¹, (n, len(rows))
        own, each = g.member_of[rows], np.arange(len(rows))
        remaining = leave_one_out.one_minus_leverage(g, self.ridge, inverse[own, each], rows)
        grouped = -inverse.T * (self.ridge[own] / remaining)[:, None]
        grouped[each, own] += 1.0 / remaining
        weights = grouped[:, g.member_of] * g.share
        weights[each, rows] += 1.0 - 1.0 / remaining
        return weights

    def applies_weights(self, n_nodes: int, *, product_grid: bool) -> bool:
        """Whether solving for every node costs more than it saves.

        On grids of several axes a bump is a product of its axes', and applying weights to it costs
        no more than the one matrix, which takes n² operations for each node to find.
        """
        n = self.n_centres
        wide = product_grid and isinstance(self.solver, Exact) and n_nodes > 2 * n
        return wide or 8 * n * n_nodes > _LARGEST_MODEL

    def describe(self) -> SolverFacts:
        """Return method, sizes and condition."""
        facts = SolverFacts(
            method="exact",
            alpha=self.alpha,
            n_centres=self.n_centres,
            condition=self._condition(),
            nbytes=self.factor.nbytes,
            jitter=self.jitter,
        )
        if isinstance(self.factor, CholeskyFactor):
            return facts
        done, left = self.factor.iterations, self.factor.residual
        return replace(facts, method="iterative", iterations=done, residual=left)

    def without_factor(self) -> Centres:
        """Return the centres alone."""
        return Centres(self.kernel, self.centres, self.n_jobs)

    def unfactored(self) -> "ExactSystem":
        """Return the system without the factor that was found: it takes little memory."""
        return replace(self)

    def _condition(self) -> float:
        """Return an estimate of the condition number: largest eigenvalue over least ridge."""
        if isinstance(self.factor, CholeskyFactor):
            largest = self.factor.largest_eigenvalue(iterations=1)
            return largest / float(self.ridge.min() + self.jitter)
        return float((self.kernel.diag(self.centres).sum() + self.ridge.max()) / self.ridge.min())


def _factored(
    kernel: Kernel, centres: NDArray, ridge: Array, n_jobs: int | None
) -> tuple[CholeskyFactor, float]:
    """Fill one triangle and factor it in place; jitter is added only when that fails."""
    matrix, jitter = None, 0.0
    for _ in range(_MOST_JITTERS):
        matrix = lower_gram(kernel, centres, out=matrix, n_jobs=n_jobs)
        np.einsum("ii->i", matrix)[:] += ridge + jitter
        try:
            return CholeskyFactor(matrix), jitter
        except NotPositiveDefiniteError:
            least = np.finfo(matrix.dtype).eps * float(kernel.diag(centres).sum())
            jitter = max(10.0 * jitter, float(least))
    raise NotPositiveDefiniteError(
        f"the kernel matrix is not positive definite, even with {jitter:.1e} added to "
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
        return BlockProduct(kernel, points, n_jobs)
    origin = np.zeros((1, points.shape[1]))
    toeplitz = GridToeplitz(
        lambda step: cross_gram(kernel, step, origin)[:, 0], *lattice, thread_count(n_jobs)
    )
    return toeplitz.product


@dataclass(frozen=True, eq=False)
class BlockProduct:
    """K @ P from blocks of rows of K; an object, so that a fitted model can be pickled."""

    kernel: Kernel
    points: NDArray
    n_jobs: int | None

    def __call__(self, P: Array) -> Array:
        """Return K @ P."""
        step = max(1, _PRODUCT_BYTES // (8 * len(self.points)))
        out = np.empty_like(P)
        for start in range(0, len(self.points), step):
            rows = slice(start, start + step)
            part = cross_gram(self.kernel, self.points[rows], self.points, n_jobs=self.n_jobs)
            out[rows] = part @ P
        return out
