"""The output side: from embeddings on the nodes of ρ to densities u, C_ρ u = μ."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kcdo.errors import InvalidInputError
from kcdo.kernels import DensityKernel, cross_gram, gram
from kcdo.linalg import DenseSpectrum, Filter, KroneckerSpectrum, Tikhonov
from kcdo.linalg.spectral import Spectrum
from kcdo.measures import Grid, Measure

Array = NDArray[np.floating]


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

    def embed(self, Y: Array) -> Array:
        """Return ℓ(y_n, z_j), (N, M): the embeddings of the rows of Y on the nodes."""
        return cross_gram(self.kernel, Y, self.measure.nodes, n_jobs=self.n_jobs)

    def reconstruct(self, embeddings: Array) -> Array:
        """Return u(Z) = D^{-1/2} g(S) D^{1/2} μ(Z) for each row μ(Z) of (k, M)."""
        gains = self.filter.gain(self._spectrum.eigenvalues, self.ridge)
        if isinstance(self.measure, Grid):  # equal weights cancel
            return self._spectrum.apply(gains, embeddings)
        return self._spectrum.apply(gains, embeddings * self._root) / self._root

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
        slopes = self.filter.slope(self._spectrum.eigenvalues, self.ridge)
        return self._spectrum.apply(slopes, embeddings * self._root) * self._root

    @cached_property
    def _root(self) -> Array:
        return np.sqrt(self.measure.weights)

    @cached_property
    def _spectrum(self) -> Spectrum:
        """Eigendecomposition of S = D^{1/2} L_Z D^{1/2}."""
        factors = self.kernel.factors()
        if isinstance(self.measure, Grid) and factors is not None:
            grams = [
                gram(factor, axis[:, None])
                for factor, axis in zip(factors, self.measure.axes, strict=True)
            ]
            return KroneckerSpectrum(grams, self.measure.cell_volume)
        matrix = gram(self.kernel, self.measure.nodes, n_jobs=self.n_jobs)
        matrix *= self._root[:, None]
        matrix *= self._root[None, :]
        return DenseSpectrum(matrix)

    def mean_density(self, Y: Array) -> float:
        """Return the mean of (ρ * ℓ)(y_n): 1 for Lebesgue measure, ρ's height for a sample.

        A ridge that suits a box of any size suits any ρ once multiplied by this.
        """
        if isinstance(self.measure, Grid):
            return 1.0
        return float(np.mean(self.embed(Y[:: max(1, len(Y) // 1000)]) @ self.measure.weights))
