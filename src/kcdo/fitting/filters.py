"""The output side as a function of its filter: cut-off length and ridge, with pullbacks.

A Gaussian ℓ of scale σ and ridge α' pass frequencies up to ω_c, where the gain has halved:
e^{σ²ω_c²/2} = 2 + 1/α' (docs/theory.md). The cut-off length 1/ω_c and α' are nearly independent,
σ and α' are not, so the search moves (log cut-off length, log α').
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_matrix

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError
from kcdo.kernels import DensityKernel, Kernel, with_output_sds
from kcdo.linalg import DenseSpectrum, Filter, KroneckerSpectrum
from kcdo.measures import Grid, Measure


def scale_per_length(alpha_prime: float) -> float:
    """Return σ divided by the cut-off length.

    >>> round(scale_per_length(1e9), 4)  # a plain Gaussian: √(2 log 2)
    1.1774
    """
    return float(np.sqrt(2.0 * np.log(2.0 + 1.0 / alpha_prime)))


class FilterSlopes(NamedTuple):
    """Derivatives of a loss through the filter F(S): of S by log scales, and of F by the ridge."""

    log_scales: Array
    ridge: float


Pullback = Callable[[Array], tuple[Array, FilterSlopes]]


@dataclass(frozen=True, eq=False)
class OutputFamily:
    """Output sides that differ in cut-off length and ridge only.

    Parameters
    ----------
    measure : Measure
        Nodes of ρ.
    kernel : Kernel
        Output kernel, its scales open; of one with scales only the ridge is tuned.
    shape : (d,)
        Units of the cut-off lengths: a length, one for all columns or one each, is in shape_i.
    filter : Filter
        Spectral filter, smooth in its ridge.
    """

    measure: Measure
    kernel: Kernel
    shape: Array
    filter: Filter

    def __post_init__(self) -> None:
        if self.filter.gain_powers(1.0) is None:
            raise InvalidInputError(
                f"{self.filter!r} is not smooth in its ridge, which therefore cannot be tuned: use "
                'kcdo.Tikhonov() or kcdo.IteratedTikhonov(), or selection="heuristic".'
            )

    @cached_property
    def spacing(self) -> Array:
        """Distance of neighbouring nodes in each column, (d,)."""
        if isinstance(self.measure, Grid):
            return self.measure.spacing
        return float(np.median(self.measure.reach)) * self.measure.unit

    @cached_property
    def separable(self) -> bool:
        """Whether the kernel is a product over the columns."""
        return self.density_kernel(0.0, 0.0).factors() is not None

    @cached_property
    def n_lengths(self) -> int:
        """Number of cut-off lengths: one for each column where the kernel is a product."""
        return len(self.shape) if isinstance(self.measure, Grid) and self.separable else 1

    @cached_property
    def moves(self) -> Array:
        """1 for each length that sets a scale of the kernel, 0 for scales that are given."""
        if self.n_lengths == 1:
            return np.ones(1)
        short, long = (self.density_kernel(length, 0.0).scales for length in (0.0, 1.0))
        return (short != long).astype(float)

    def sds(self, log_length: ArrayLike, log_ridge: float) -> Array:
        """Return the sd of the output kernel in each column."""
        return np.exp(log_length) * scale_per_length(float(np.exp(log_ridge))) * self.shape

    def density_kernel(self, log_length: ArrayLike, log_ridge: float) -> DensityKernel:
        """Return the output kernel."""
        sds = self.sds(log_length, log_ridge)
        return DensityKernel(with_output_sds(self.kernel, sds), len(sds))

    def at(self, Y: Array, log_length: ArrayLike, log_ridge: float) -> "FilteredOutputs":
        """Return one member of the family, at outputs Y."""
        return FilteredOutputs(self, log_length, log_ridge, Y)

    def binned(self, log_length: ArrayLike, log_ridge: float) -> "BinnedOutputs":
        """Return one member of the family, for outputs on the nodes of the grid."""
        return BinnedOutputs(self, log_length, log_ridge)


@dataclass(frozen=True, eq=False)
class _FilterFunction:
    """Rows F(S), for a smooth function F of the Gram matrix S of the nodes, with pullbacks.

    Everything happens between the eigenvectors of S, which are found once.
    """

    family: OutputFamily
    log_length: ArrayLike
    log_ridge: float

    @property
    def ridge(self) -> float:
        """α'."""
        return float(np.exp(self.log_ridge))

    @cached_property
    def kernel(self) -> DensityKernel:
        """The output kernel."""
        return self.family.density_kernel(self.log_length, self.log_ridge)

    def filtered(self, rows: Array) -> tuple[Array, Pullback]:
        """Return rows F(S), and the pullback dL/d(rows F(S)) -> dL/d(rows), slopes of F(S)."""
        given = self._spectrum.rotated(rows)

        def pullback(G: Array) -> tuple[Array, FilterSlopes]:
            pulled = self._spectrum.rotated(G)
            back = self._spectrum.rotated_back(pulled * self._function)
            return back, self._slopes(given, pulled)

        return self._spectrum.rotated_back(given * self._function), pullback

    def parameter_slopes(
        self, through_filter: FilterSlopes, embedding_part: Array | float = 0.0
    ) -> tuple[Array, float]:
        """Return dL/d(log lengths), dL/d(log ridge).

        ``embedding_part`` is what the log scales add to L other than through F(S).
        """
        log_scales = np.zeros(self.family.n_lengths)
        if not self.family.kernel.fitted:
            log_scales += self.family.moves * (embedding_part + through_filter.log_scales)
        inverse = 1.0 / self.ridge
        squared = scale_per_length(self.ridge) ** 2
        through_scale = float(log_scales.sum()) * inverse / ((2.0 + inverse) * squared)
        return log_scales, self.ridge * through_filter.ridge - through_scale

    def _slopes(self, given: Array, pulled: Array) -> FilterSlopes:
        """Return <dL/dS, dS/d(log scales)>, by d(r^k) = -Σ r^i dS r^{k+1-i}, and dL/d(ridge)."""
        ridge = float(np.einsum("qm,qm->m", pulled, given) @ self._ridge_derivative)
        total = np.zeros(len(self._grams))
        if not self.family.kernel.fitted:
            r = 1.0 / (self._spectrum.eigenvalues + self.ridge)
            for k, coefficient in enumerate(self._powers, start=1):
                for i in range(1, k + 1):
                    left, right = pulled * r**i, given * r ** (k + 1 - i)
                    total -= coefficient * self._slope_form(left, right)
        return FilterSlopes(total, ridge)

    @property
    def _function(self) -> Array:
        """F at the eigenvalues."""
        return self.family.filter.gain(self._spectrum.eigenvalues, self.ridge)

    @property
    def _ridge_derivative(self) -> Array:
        """∂F/∂ridge at the eigenvalues."""
        slope = self.family.filter.ridge_derivative(self._spectrum.eigenvalues, self.ridge)
        assert slope is not None
        return slope

    @property
    def _powers(self) -> Sequence[float]:
        """C with F = c_0 + Σ_k c_k r^k, r = (S + ridge)⁻¹, without c_0."""
        powers = self.family.filter.gain_powers(self.ridge)
        assert powers is not None
        return powers

    def _slope_form(self, left: Array, right: Array) -> Array:
        """Return Σ left dS/d(log scale) rightᵀ between eigenvectors, for the scale of each axis."""
        found = np.empty(len(self._grams))
        axes = self._spectrum.axes
        shape = [len(values) for values, _ in axes]
        for moving, ((_, slope), (_, vectors)) in enumerate(zip(self._grams, axes, strict=True)):
            others = np.ones(1)
            for i, (values, _) in enumerate(axes):
                others = np.multiply.outer(others, np.ones_like(values) if i == moving else values)
            tensor = (right * others.ravel()).reshape(-1, *shape)
            turned = vectors.T @ slope @ vectors
            moved = np.tensordot(tensor, turned, axes=(moving + 1, 0))
            found[moving] = np.vdot(left.reshape(-1, *shape), np.moveaxis(moved, -1, moving + 1))
        return found

    @cached_property
    def _grams(self) -> list[tuple[Array, Array]]:
        """Gram matrix and its slope in log scale: one per axis of a grid, or one in all."""
        measure = self.family.measure
        factors = self.kernel.factors() if isinstance(measure, Grid) else None
        if factors is None or not isinstance(measure, Grid):
            values, slopes = _with_slope(self.kernel, measure.nodes, measure.nodes)
            root = np.sqrt(measure.weights)
            outer = root[:, None] * root[None, :]
            return [(values * outer, slopes * outer)]
        found = []
        for factor, axis, h in zip(factors, measure.axes, measure.spacing, strict=True):
            values, slopes = _with_slope(factor, axis[:, None], axis[:, None])
            found.append((values * h, slopes * h))
        return found

    @cached_property
    def _spectrum(self) -> DenseSpectrum | KroneckerSpectrum:
        grams = [values for values, _ in self._grams]
        return DenseSpectrum(grams[0]) if len(grams) == 1 else KroneckerSpectrum(grams, 1.0)


@dataclass(frozen=True, eq=False)
class FilteredOutputs(_FilterFunction):
    """Densities g(S) of embeddings of outputs Y, which depend on the scales of the kernel too."""

    Y: Array

    @cached_property
    def embeddings(self) -> Array:
        """ℓ(Y, nodes), (N, M)."""
        return reduce(_outer, [values for values, _ in self._by_axis])

    def densities(self, embeddings: Array) -> tuple[Array, Pullback]:
        """Return node densities of (smoothed) embeddings (N, M), and the pullback."""
        root = np.sqrt(self.family.measure.weights)
        values, filter_pullback = self.filtered(embeddings * root)

        def pullback(G: Array) -> tuple[Array, FilterSlopes]:
            back, slopes = filter_pullback(G / root)
            return back * root, slopes

        return values / root, pullback

    def slopes(
        self, through_filter: FilterSlopes, embedding_gradient: Array
    ) -> tuple[Array, float]:
        """Return dL/d(log lengths), dL/d(log ridge) from dL/dE of the embeddings E themselves."""
        parts = []
        for moving in range(len(self._by_axis)):
            slope = [pair[i == moving] for i, pair in enumerate(self._by_axis)]
            parts.append(np.vdot(embedding_gradient, reduce(_outer, slope)))
        return self.parameter_slopes(through_filter, np.array(parts))

    @cached_property
    def _by_axis(self) -> list[tuple[Array, Array]]:
        return _embedded(self.kernel, self.Y, self.family)


@dataclass(frozen=True, eq=False)
class BinnedOutputs(_FilterFunction):
    """Densities of outputs that lie on the nodes of a grid: weights of nodes times S g(S).

    The embedding of a node is a row of S, so that the number of outputs no longer matters.
    """

    def densities(
        self, node_weights: Array
    ) -> tuple[Array, Callable[[Array], tuple[Array, float]]]:
        """Return node densities of weights on the nodes (Q, M), and the pullback to parameters."""
        assert isinstance(self.family.measure, Grid)
        cell = self.family.measure.cell_volume
        values, filter_pullback = self.filtered(node_weights)

        def pullback(G: Array) -> tuple[Array, float]:
            return self.parameter_slopes(filter_pullback(G / cell)[1])

        return values / cell, pullback

    @property
    def _function(self) -> Array:
        return self._spectrum.eigenvalues * super()._function

    @property
    def _ridge_derivative(self) -> Array:
        return self._spectrum.eigenvalues * super()._ridge_derivative

    @property
    def _powers(self) -> Sequence[float]:
        # S r = 1 - ridge r
        powers = super()._powers
        return [
            after - self.ridge * power
            for power, after in zip(powers, [*powers[1:], 0.0], strict=True)
        ]


def node_shares(grid: Grid, Y: Array) -> csr_matrix | None:
    """Return C, (N, M), with ℓ(y, ·) ≈ Σ_j C_j ℓ(z_j, ·) on the nodes of a grid.

    Cubic interpolation between four nodes of each axis: for kernels of two node spacings it errs
    by 1e-3 of the peak. None where outputs lie outside of the grid, or the grid has too few nodes.
    """
    if min(grid.shape) < 4 or np.any((grid.lower > Y) | (grid.upper < Y)):
        return None
    places = np.zeros((len(Y), 1), dtype=np.int64)
    shares: Array = np.ones((len(Y), 1))
    for i, (m, h) in enumerate(zip(grid.shape, grid.spacing, strict=True)):
        position = (Y[:, i] - grid.axes[i][0]) / h
        first = np.clip(np.floor(position).astype(np.int64) - 1, 0, m - 4)
        t = (position - first)[:, None]
        cubic = np.hstack(
            [
                -(t - 1) * (t - 2) * (t - 3) / 6,
                t * (t - 2) * (t - 3) / 2,
                -t * (t - 1) * (t - 3) / 2,
                t * (t - 1) * (t - 2) / 6,
            ]
        )
        places = (places[:, :, None] * m + (first[:, None] + np.arange(4))[:, None]).reshape(
            len(Y), -1
        )
        shares = _outer(shares, cubic)
    ends = np.arange(len(Y) + 1) * shares.shape[1]
    return csr_matrix((shares.ravel(), places.ravel(), ends), shape=(len(Y), grid.n_nodes))


def _embedded(kernel: DensityKernel, Y: Array, family: OutputFamily) -> list[tuple[Array, Array]]:
    """Return ℓ(Y, nodes) and its slope in log scale: one for each axis of a grid, or one in all."""
    measure, factors = family.measure, kernel.factors()
    if factors is None or not isinstance(measure, Grid):
        return [_with_slope(kernel, Y, measure.nodes)]
    columns = zip(factors, Y.T, measure.axes, strict=True)
    return [_with_slope(factor, y[:, None], axis[:, None]) for factor, y, axis in columns]


def _outer(left: Array, right: Array) -> Array:
    """Return the products of every entry of a row with every entry of the other's row."""
    return (left[:, :, None] * right[:, None, :]).reshape(len(left), -1)


def _with_slope(kernel: DensityKernel, A: Array, B: Array) -> tuple[Array, Array]:
    return kernel.block(A, B), kernel.scale_slope(A, B)
