"""The output side as a function of its filter: cut-off length and ridge, with derivatives.

A Gaussian ℓ of scale σ and ridge α' pass frequencies up to ω_c, where the gain has halved:
e^{σ²ω_c²/2} = 2 + 1/α' (docs/theory.md). The cut-off length 1/ω_c and α' are nearly independent,
σ and α' are not, so the search moves (log cut-off length, log α').
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kcdo.errors import InvalidInputError
from kcdo.kernels import DensityKernel, Kernel, with_output_sds
from kcdo.linalg import DenseSpectrum, Filter, KroneckerSpectrum
from kcdo.measures import Grid, Measure

Array = NDArray[np.floating]


def scale_per_length(alpha_prime: float) -> float:
    """Return σ divided by the cut-off length.

    >>> round(scale_per_length(1e9), 4)  # a plain Gaussian: √(2 log 2)
    1.1774
    """
    return float(np.sqrt(2.0 * np.log(2.0 + 1.0 / alpha_prime)))


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
        Relative sds of the outputs: column i has cut-off length × shape_i.
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

    def sds(self, log_length: float, log_ridge: float) -> Array:
        """Return the sd of the output kernel in each column."""
        return np.exp(log_length) * scale_per_length(float(np.exp(log_ridge))) * self.shape

    def density_kernel(self, log_length: float, log_ridge: float) -> DensityKernel:
        """Return the output kernel."""
        sds = self.sds(log_length, log_ridge)
        return DensityKernel(with_output_sds(self.kernel, sds), len(sds))

    def at(self, Y: Array, log_length: float, log_ridge: float) -> "FilteredOutputs":
        """Return one member of the family, at outputs Y."""
        return FilteredOutputs(self, Y, log_length, log_ridge)


class FilteredOutputs:
    """Embeddings of outputs and the filter that turns (smoothed) embeddings into densities."""

    def __init__(self, family: OutputFamily, Y: Array, log_length: float, log_ridge: float) -> None:
        self.family, self.Y = family, Y
        self.ridge = float(np.exp(log_ridge))
        self.kernel = family.density_kernel(log_length, log_ridge)
        self.embeddings, self._embedding_slopes = _with_slope(self.kernel, Y, family.measure.nodes)

    def reconstruct(self, embeddings: Array) -> Array:
        """Return the node densities of (smoothed) embeddings, (N, M)."""
        self._given = embeddings * self._root
        gains = self.family.filter.gain(self._spectrum.eigenvalues, self.ridge)
        return self._spectrum.apply(gains, self._given) / self._root

    def pull_embeddings(self, G: Array) -> Array:
        """Return dL/d(embeddings) for G = dL/d(node densities)."""
        self._pulled = G / self._root
        gains = self.family.filter.gain(self._spectrum.eigenvalues, self.ridge)
        return self._spectrum.apply(gains, self._pulled) * self._root

    def pull_parameters(self, embedding_gradient: Array) -> tuple[float, float]:
        """Return dL/d(log length), dL/d(log ridge), after :meth:`pull_embeddings`.

        ``embedding_gradient`` is dL/dE of the embeddings E themselves.
        """
        log_scale = 0.0
        if not self.family.kernel.fitted:
            log_scale = float(np.sum(embedding_gradient * self._embedding_slopes))
            log_scale += self._gram_part()
        slope = self.family.filter.ridge_derivative(self._spectrum.eigenvalues, self.ridge)
        assert slope is not None
        filtered = self._spectrum.apply(slope, self._given)
        direct = self.ridge * float(np.sum(self._pulled * filtered))
        inverse = 1.0 / self.ridge
        squared = scale_per_length(self.ridge) ** 2
        return log_scale, direct - log_scale * inverse / ((2.0 + inverse) * squared)

    def _gram_part(self) -> float:
        """Return <dL/dS, dS/d(log scale)> of g(S) = Σ_k c_k r^k: d(r^k) = -Σ r^i dS r^{k+1-i}."""
        powers = self.family.filter.gain_powers(self.ridge)
        assert powers is not None
        r = 1.0 / (self._spectrum.eigenvalues + self.ridge)
        total = 0.0
        for k, coefficient in enumerate(powers, start=1):
            for i in range(1, k + 1):
                left = self._spectrum.apply(r**i, self._pulled)
                right = self._spectrum.apply(r ** (k + 1 - i), self._given)
                total -= coefficient * float(np.sum(left * self._gram_slope(right)))
        return total

    @cached_property
    def _root(self) -> Array:
        return np.sqrt(self.family.measure.weights)

    @cached_property
    def _grams(self) -> list[tuple[Array, Array]]:
        """Gram matrix and its slope in log scale: one per axis of a grid, or one in all."""
        measure = self.family.measure
        factors = self.kernel.factors() if isinstance(measure, Grid) else None
        if factors is None or not isinstance(measure, Grid):
            values, slopes = _with_slope(self.kernel, measure.nodes, measure.nodes)
            outer = self._root[:, None] * self._root[None, :]
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

    def _gram_slope(self, rows: Array) -> Array:
        """Return rows dS/d(log scale): the product rule over the axes."""
        total = np.zeros_like(rows)
        for moving in range(len(self._grams)):
            matrices = [g[1] if i == moving else g[0] for i, g in enumerate(self._grams)]
            total += _along_axes(matrices, rows)
        return total


def _with_slope(kernel: DensityKernel, A: Array, B: Array) -> tuple[Array, Array]:
    return kernel.block(A, B), kernel.scale_slope(A, B)


def _along_axes(matrices: list[Array], rows: Array) -> Array:
    """Return rows (⊗ A_i) for symmetric matrices, one axis after the other."""
    shape = [len(matrix) for matrix in matrices]
    tensor = rows.reshape(len(rows), *shape)
    for axis, matrix in enumerate(matrices, start=1):
        tensor = np.moveaxis(np.tensordot(tensor, matrix, axes=(axis, 0)), -1, axis)
    return tensor.reshape(rows.shape)
