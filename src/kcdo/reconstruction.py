"""The output side: from embeddings on the nodes of ρ to densities u, C_ρ u = μ."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array, csr_matrix, issparse

from kcdo.arrays import Array
from kcdo.consistency import kernel_fits, need
from kcdo.errors import InvalidInputError
from kcdo.kernels import DensityKernel, cross_gram, gram, lower_gram
from kcdo.linalg import (
    CholeskyFactor,
    ConjugateGradients,
    DenseSpectrum,
    Filter,
    GridToeplitz,
    Inverse,
    KroneckerSpectrum,
    NotPositiveDefiniteError,
    ResolventInverse,
    SpectralInverse,
    Tikhonov,
)
from kcdo.measures import Grid, Measure
from kcdo.memory import require_memory
from kcdo.parallel import run_threaded, thread_count

_BLOCK_ELEMENTS = 1 << 23
_SPARSE_QUERIES = 64  # whose few observations are embedded at a time
_LARGEST_FACTOR = 8192  # nodes of a grid up to which a dense factor beats FFT products


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """The regularised inverse of C_ρ = ∫ ℓ(z,·) ⊗ ℓ(z,·) dρ(z), factored once.

    Parameters
    ----------
    measure : Measure
        Nodes Z and weights v of ρ.
    kernel : DensityKernel
        Output kernel ℓ.
    ridge : float
        α', in the convention of one ρ for all: Lebesgue measure on boxes.
    filter : Filter
        Spectral filter g.

    Examples
    --------
    >>> from kcdo import Gaussian, UniformBox
    >>> grid = UniformBox(-5.0, 5.0, nodes=100).realise(np.zeros((1, 1)))
    >>> side = Reconstruction(grid, DensityKernel(Gaussian(0.5), 1), ridge=0.1)
    >>> u = side.reconstruct(side.embed(np.array([[0.0]])))
    >>> (u @ grid.weights).round(5)  # 1 / (1 + ridge), before normalisation
    array([0.90909])
    """

    measure: Measure
    kernel: DensityKernel
    ridge: float
    filter: Filter = field(default_factory=Tikhonov)
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        if not (np.isfinite(self.ridge) and self.ridge > 0):
            raise InvalidInputError(f"alpha_prime must be positive; got {self.ridge!r}.")
        need(self.kernel.dim == self.measure.dim, "output kernel and reference measure")
        kernel_fits(self.kernel, np.zeros((1, self.measure.dim)))
        thread_count(self.n_jobs)

    def __getstate__(self) -> dict[str, Any]:
        # the factored inverse is found again when needed: it does not travel with the model
        return {name: value for name, value in self.__dict__.items() if name != "_inverse"}

    def embed(self, Y: Array) -> Array:
        """Return ℓ(y_n, z_j), (N, M): the embeddings of the rows of Y on the nodes."""
        factors = self._axis_embeddings(Y) if self.measure.dim > 1 else None
        if factors is None:
            return cross_gram(self.kernel, Y, self.measure.nodes, n_jobs=self.n_jobs)
        out = factors[0]
        for factor in factors[1:]:  # one exponential per axis, not one per node
            out = (out[:, :, None] * factor[:, None, :]).reshape(len(Y), -1)
        return out

    @property
    def near_width(self) -> int | None:
        """Number of nodes near an output, if few are (a narrow Gaussian, a 1-D grid); or None."""
        measure, reach = self.measure, self.kernel.kernel.reach
        if not isinstance(measure, Grid) or measure.dim > 1 or reach is None:
            return None
        half = int(np.ceil(reach * self.kernel.scales[0] / measure.spacing[0]))
        return 2 * half + 1 if 3 * (2 * half + 1) <= measure.n_nodes else None

    def near_embeddings(self, Y: Array) -> csr_matrix:
        """Return embed(Y) as a sparse matrix of the :attr:`near_width` nodes near each output.

        What is left out is below 1e-15 of the peak.
        """
        grid, width = self.measure, self.near_width
        assert isinstance(grid, Grid)
        assert width is not None
        (scale,), (h,), (lower,) = self.kernel.scales, grid.spacing, grid.lower
        n_nodes = grid.n_nodes
        # outputs far outside have no node near them, wherever exactly they are
        place = np.clip(np.floor((Y[:, 0] - lower) / h), -width, n_nodes + width)
        first = place.astype(np.int32) - width // 2
        index = first[:, None] + np.arange(width, dtype=np.int32)
        offset = (lower + h * (first + 0.5) - Y[:, 0]) / scale
        values = np.empty((len(Y), width))

        def fill(rows: slice) -> None:
            part = values[rows]
            np.add(offset[rows, None], (h / scale) * np.arange(width), out=part)
            part *= part
            part *= -0.5
            np.exp(part, out=part)
            part /= self.kernel.integral

        run_threaded(fill, [slice(s, s + 2048) for s in range(0, len(Y), 2048)], self.n_jobs)
        if first.min(initial=0) < 0 or first.max(initial=0) > n_nodes - width:
            values[(index < 0) | (index >= n_nodes)] = 0.0
            np.clip(index, 0, n_nodes - 1, out=index)
        starts = np.arange(len(Y) + 1, dtype=np.int32) * width
        return csr_matrix((values.ravel(), index.ravel(), starts), (len(Y), n_nodes))

    def combine(self, weights: Any, Y: Array) -> Array:
        """Return weights @ embed(Y), (Q, M), without the (N, M) matrix.

        On a product grid the embedding of an observation is a rank-one tensor: axes are contracted
        one after the other, in blocks of observations. Of sparse weights, a csr_array that has as
        many in each row, only the observations that have any are embedded.
        """
        if issparse(weights):
            return self._combine_sparse(weights, Y)
        factors = self._axis_embeddings(Y) if self.measure.dim > 1 else None
        if factors is None:
            total = np.zeros((len(weights), self.measure.n_nodes))
            step = max(1, _BLOCK_ELEMENTS // self.measure.n_nodes)
            for start in range(0, len(Y), step):
                block = slice(start, start + step)
                total += weights[:, block] @ self.embed(Y[block])
            return total
        first, *others = factors
        width = int(np.prod([f.shape[1] for f in others]))
        step = max(1, _BLOCK_ELEMENTS // max(width, len(weights) * first.shape[1]))
        out = np.zeros((len(weights) * first.shape[1], width))
        for start in range(0, len(Y), step):
            block = slice(start, start + step)
            right = np.ones((len(Y[block]), 1))
            for factor in others:
                right = (right[:, :, None] * factor[block][:, None, :]).reshape(len(right), -1)
            left = weights[:, :, None][:, block] * first[block]
            out += np.swapaxes(left, 1, 2).reshape(-1, len(right)) @ right
        return out.reshape(len(weights), -1)

    def _combine_sparse(self, weights: Any, Y: Array) -> Array:
        out = np.empty((weights.shape[0], self.measure.n_nodes))
        for start in range(0, len(out), _SPARSE_QUERIES):
            block = slice(start, start + _SPARSE_QUERIES)
            out[block] = self._combine_few(weights[block], Y)
        return out

    def _combine_few(self, weights: Any, Y: Array) -> Array:
        if self.measure.dim > 1 and isinstance(self.measure, Grid):
            places = weights.indices.reshape(weights.shape[0], -1)
            return self.combine_each(weights.data.reshape(places.shape), Y[places])
        rows, columns = np.unique(weights.indices, return_inverse=True)
        shape = weights.shape[0], len(rows)
        few = csr_array((weights.data, columns, weights.indptr), shape=shape)
        if self.near_width is not None:
            return (few @ self.near_embeddings(Y[rows])).toarray()
        return few @ self.embed(Y[rows])

    def combine_each(self, weights: Array, Y: Array) -> Array:
        """Return Σ_j w_qj ℓ(y_qj, ·), (Q, M), of outputs (Q, k, d) that each query has to itself.

        On a product grid one small product of axes for each query.
        """
        q, k, d = Y.shape
        factors = self._axis_embeddings(Y.reshape(-1, d)) if d > 1 else None
        if factors is None:
            embedded = self.embed(Y.reshape(-1, d)).reshape(q, k, -1)
            return np.einsum("qk,qkm->qm", weights, embedded)
        first, right, *others = (factor.reshape(q, k, -1) for factor in factors)
        for factor in others:
            right = (right[:, :, :, None] * factor[:, :, None, :]).reshape(q, k, -1)
        return np.matmul(np.swapaxes(weights[:, :, None] * first, 1, 2), right).reshape(q, -1)

    def reconstruct(self, embeddings: Array) -> Array:
        """Return u(Z) = D^{-1/2} g(S) D^{1/2} μ(Z) for each row μ(Z) of (k, M)."""
        if isinstance(self.measure, Grid):  # equal weights cancel
            return self._inverse.gain(embeddings)
        return self._inverse.gain(embeddings * self._root) / self._root

    def evaluate(self, points: Array, at_points: Array, at_nodes: Array) -> Array:
        """Return u anywhere, (k, G), exactly.

        u(y) = g(0) μ(y) + ℓ(y, Z) D^{1/2} h(S) D^{1/2} μ(Z), from the embedding at the points,
        μ(y) (k, G), and at the nodes, μ(Z) (k, M). For Tikhonov and a tiny ridge the two terms
        cancel badly; interpolate the node values then.
        """
        smooth = self.expansion(at_nodes) @ self.embed(points).T
        return self.filter.gain_at_zero(self.ridge) * at_points + smooth

    def expansion(self, embeddings: Array) -> Array:
        """Return β = D^{1/2} h(S) D^{1/2} μ(Z), (k, M): u = g(0) μ + Σ_j β_j ℓ(z_j, ·).

        For :class:`PrintedForm`, where g(0) = 0, this is the paper's β up to a constant.
        """
        return self._inverse.slope(embeddings * self._root) * self._root

    @cached_property
    def _root(self) -> Array:
        return np.sqrt(self.measure.weights)

    @cached_property
    def _inverse(self) -> Inverse:
        """The filter of S = D^{1/2} L_Z D^{1/2}, by the cheapest exact way."""
        measure, factors = self.measure, self.kernel.factors()
        if isinstance(measure, Grid) and factors is not None and measure.dim > 1:
            pairs = zip(factors, measure.axes, strict=True)
            grams = [gram(factor, axis[:, None]) for factor, axis in pairs]
            spectrum = KroneckerSpectrum(grams, measure.cell_volume)
            return SpectralInverse(spectrum, self.filter, self.ridge)
        by_solves = self.filter.gain_powers(self.ridge) is not None
        if by_solves and isinstance(measure, Grid) and measure.n_nodes > _LARGEST_FACTOR:
            return ResolventInverse(self._fft_solver(measure).solve, self.filter, self.ridge)
        if by_solves:
            matrix = self._weighted_gram(triangle=True)
            np.einsum("ii->i", matrix)[:] += self.ridge
            try:
                return ResolventInverse(CholeskyFactor(matrix).solve, self.filter, self.ridge)
            except NotPositiveDefiniteError:  # a ridge below rounding: eigenvalues bear it
                del matrix
        dense = DenseSpectrum(self._weighted_gram(triangle=False))
        return SpectralInverse(dense, self.filter, self.ridge)

    def _weighted_gram(self, *, triangle: bool) -> Array:
        """Return S, or an array whose lower triangle is that of S."""
        require_memory(
            8.0 * self.measure.n_nodes**2,
            f"a dense reconstruction on {self.measure.n_nodes} nodes",
            "use fewer nodes, or a UniformBox with a Gaussian or Laplace kernel.",
        )
        fill = lower_gram if triangle else gram
        matrix = fill(self.kernel, self.measure.nodes, n_jobs=self.n_jobs)
        with np.errstate(all="ignore"):  # the other triangle is arbitrary
            if isinstance(self.measure, Grid):
                matrix *= self.measure.cell_volume
            else:
                matrix *= self._root[:, None]
                matrix *= self._root[None, :]
        return matrix

    def _fft_solver(self, grid: Grid) -> ConjugateGradients:
        """Return a solver for S + ridge on a fine grid: Toeplitz products, O(M) memory."""
        origin = np.zeros((1, grid.dim))
        toeplitz = GridToeplitz(
            lambda step: cross_gram(self.kernel, step, origin)[:, 0] * grid.cell_volume,
            grid.spacing,
            np.indices(grid.shape).reshape(grid.dim, -1).T,
            thread_count(self.n_jobs),
        )
        ridge = np.full(grid.n_nodes, self.ridge)
        return ConjugateGradients(
            toeplitz.product, ridge, np.zeros((grid.n_nodes, 1)), tolerance=1e-12
        )

    def _axis_embeddings(self, Y: Array) -> list[Array] | None:
        """Return ℓ_i(y_ni, axis_i), (N, m_i), for each axis of a product grid, or None."""
        factors = self.kernel.factors()
        if factors is None or not isinstance(self.measure, Grid):
            return None
        return [
            cross_gram(factor, Y[:, i : i + 1], axis[:, None], n_jobs=self.n_jobs)
            for i, (factor, axis) in enumerate(zip(factors, self.measure.axes, strict=True))
        ]

    def mean_density(self, Y: Array) -> float:
        """Return the mean of (ρ * ℓ)(y_n): 1 for Lebesgue measure, ρ's height for a sample.

        A ridge that suits a box of any size suits any ρ once multiplied by this.
        """
        if isinstance(self.measure, Grid):
            return 1.0
        return float(np.mean(self.embed(Y[:: max(1, len(Y) // 1000)]) @ self.measure.weights))
