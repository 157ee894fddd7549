"""Output kernels: kernels that are probability densities, ∫ ℓ(z, y) dy = 1."""

from dataclasses import dataclass, replace
from math import lgamma, log, pi

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import ndtr

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError, InvalidTypeError
from kcdo.inputs import GaussianInput
from kcdo.kernels.base import Kernel, OnColumns, Product, ScaledKernel, Wrapper
from kcdo.kernels.stationary import Gaussian, Laplace, Matern, scaled_squared_distances


@dataclass(frozen=True)
class DensityKernel(Wrapper):
    """A kernel divided by its integral: ℓ(z, ·) is the density of z plus noise.

    Parameters
    ----------
    kernel : Gaussian, Laplace, Matern, or a product of those over groups of columns
    dim : int
        Dimension d of the outputs.

    Examples
    --------
    >>> from kcdo import Gaussian
    >>> DensityKernel(Gaussian(1.0), dim=1)([[0.0]], [[0.0]]).round(4)
    array([[0.3989]])
    """

    dim: int

    def __post_init__(self) -> None:
        _check_density(self.kernel, self.dim)

    @property
    def integral(self) -> float:
        """∫ k(z, y) dy of the kernel that was normalised."""
        return float(np.exp(sum(_log_integral(k, len(c)) for k, c in self.parts())))

    @property
    def scales(self) -> Array:
        """Scale of each output column."""
        scales = np.empty(self.dim)
        for kernel, columns in self.parts():
            scales[columns] = kernel.scales(len(columns))
        return scales

    def parts(self) -> list[tuple[ScaledKernel, list[int]]]:
        """Return the independent factors, with the columns of each."""
        return _parts(self.kernel, self.dim)

    def factors(self) -> "list[DensityKernel] | None":
        """Return one 1-D density kernel per column, or None if the kernel is no such product."""
        found: dict[int, DensityKernel] = {}
        for kernel, columns in self.parts():
            if isinstance(kernel, Matern) and len(columns) > 1:
                return None
            for column, scale in zip(columns, kernel.scales(len(columns)), strict=True):
                found[column] = DensityKernel(_one_dimensional(kernel, float(scale)), 1)
        return [found[i] for i in range(self.dim)]

    def block(self, A: Array, B: Array) -> Array:
        """Return one block of ℓ(a_i, b_j)."""
        values = self.kernel.block(A, B)
        values /= self.integral
        return values

    def diag(self, A: Array) -> Array:
        """Return ℓ(a_i, a_i)."""
        return self.kernel.diag(A) / self.integral

    def scale_slope(self, A: Array, B: Array) -> Array:
        """Return dℓ(a_i, b_j)/dt when every scale grows as e^t."""
        growth = np.full((len(A), len(B)), -float(self.dim))
        for kernel, columns in self.parts():
            growth += _log_slope(kernel, A[:, columns], B[:, columns])
        growth *= self.block(A, B)
        return growth

    def gaussian_expectation(self, X: Array, inputs: GaussianInput) -> Array | None:
        """Return the closed form of the kernel that was normalised, if it has one."""
        values = self.kernel.gaussian_expectation(X, inputs)
        return None if values is None else values / self.integral

    def cdf(self, centres: Array, points: Array) -> Array:
        """P(z_i + noise <= y_j) in every column, (n, G), for centres (n, d) and points (G, d)."""
        factors = self.factors()
        if factors is None:
            raise InvalidTypeError("the joint cdf of a radial Matérn density is not available.")
        values = np.ones((len(centres), len(points)))
        for i, factor in enumerate(factors):
            t = (points[None, :, i] - centres[:, i, None]) / factor.scales[0]
            values *= _standard_cdf(factor.kernel, t)
        return values

    def covariance(self) -> Array:
        """Covariance matrix of the noise, (d, d)."""
        variances = np.empty(self.dim)
        for kernel, columns in self.parts():
            scales = kernel.scales(len(columns))
            variances[columns] = _variance_factor(kernel, len(columns)) * scales**2
        return np.diag(variances)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Return ``n`` draws of the noise, (n, d)."""
        out = np.empty((n, self.dim))
        for kernel, columns in self.parts():
            draws = _standard_draws(kernel, n, len(columns), rng)
            out[:, columns] = draws * kernel.scales(len(columns))
        return out


def with_output_sds(kernel: Kernel, sds: Array) -> Kernel:
    """Return an output kernel whose missing scales are set so that its noise has these sds.

    Examples
    --------
    >>> with_output_sds(Laplace(), np.array([1.0])).scale.__round__(4)
    0.7071
    """
    if kernel.fitted:
        return kernel
    if isinstance(kernel, Product):
        return Product(tuple(with_output_sds(k, sds) for k in kernel.kernels))
    if isinstance(kernel, OnColumns):
        return OnColumns(
            with_output_sds(kernel.kernel, sds[kernel.indices(len(sds))]), kernel.columns
        )
    ((part, _),) = _parts(kernel, len(sds))
    scales = sds / np.sqrt(_variance_factor(part, len(sds)))
    return replace(part, scale=float(scales[0]) if len(scales) == 1 else tuple(scales.tolist()))


def _parts(kernel: Kernel, dim: int) -> list[tuple[ScaledKernel, list[int]]]:
    if isinstance(kernel, Product):
        return [part for factor in kernel.kernels for part in _parts(factor, dim)]
    if isinstance(kernel, OnColumns) and isinstance(kernel.kernel, Gaussian | Laplace | Matern):
        return [(kernel.kernel, kernel.indices(dim))]
    if isinstance(kernel, Gaussian | Laplace | Matern):
        return [(kernel, list(range(dim)))]
    raise InvalidTypeError(
        f"{kernel!r} is not a probability density; output kernels are Gaussian, Laplace, Matern "
        "or products of those over groups of columns."
    )


def _check_density(kernel: Kernel, dim: int) -> None:
    columns = sorted(c for _, group in _parts(kernel, dim) for c in group)
    if columns != list(range(dim)):
        raise InvalidInputError(
            f"an output kernel must use each of the {dim} output columns once; got {columns}."
        )


def _log_integral(kernel: ScaledKernel, d: int) -> float:
    log_volume = float(np.sum(np.log(kernel.scales(d))))
    if isinstance(kernel, Gaussian):
        return log_volume + 0.5 * d * log(2 * pi)
    if isinstance(kernel, Laplace):
        return log_volume + d * log(2.0)
    assert isinstance(kernel, Matern)
    nu = kernel.smoothness  # the spectral density of a Matérn kernel at frequency 0
    return log_volume + d * log(2) + 0.5 * d * log(pi / (2 * nu)) + lgamma(nu + d / 2) - lgamma(nu)


def _variance_factor(kernel: ScaledKernel, d: int) -> float:
    if isinstance(kernel, Gaussian):
        return 1.0
    if isinstance(kernel, Laplace):
        return 2.0
    assert isinstance(kernel, Matern)
    return (kernel.smoothness + d / 2) / kernel.smoothness


def _log_slope(kernel: ScaledKernel, A: Array, B: Array) -> Array:
    """Return d(log k)/dt when every scale grows as e^t."""
    scales = kernel.scales(A.shape[1])
    if isinstance(kernel, Laplace):
        return np.asarray(cdist(A / scales, B / scales, "cityblock"))
    squared = scaled_squared_distances(A, B, scales)
    if isinstance(kernel, Gaussian):
        return squared
    assert isinstance(kernel, Matern)
    t = np.sqrt(2 * kernel.smoothness * squared)
    if kernel.smoothness == 0.5:
        return t
    if kernel.smoothness == 1.5:
        return t * t / (1.0 + t)
    return t * t * (1.0 + t) / (3.0 + 3.0 * t + t * t)


def _standard_cdf(kernel: Kernel, t: Array) -> NDArray:
    if isinstance(kernel, Gaussian):
        return ndtr(t)
    nu = kernel.smoothness if isinstance(kernel, Matern) else 0.5
    r = np.abs(t) * np.sqrt(2 * nu) if isinstance(kernel, Matern) else np.abs(t)
    polynomial = {0.5: 8.0 + 0 * r, 1.5: 8.0 + 4 * r, 2.5: 8.0 + 5 * r + r * r}[nu] / 16.0
    tail = polynomial * np.exp(-r)
    return np.where(t < 0, tail, 1.0 - tail)


def _standard_draws(kernel: ScaledKernel, n: int, d: int, rng: np.random.Generator) -> Array:
    if isinstance(kernel, Laplace):
        return rng.laplace(size=(n, d))
    normal = rng.standard_normal((n, d))
    if isinstance(kernel, Gaussian):
        return normal
    assert isinstance(kernel, Matern)
    # a Matérn kernel is the density of a Gaussian whose variance is gamma distributed
    mixing = rng.gamma(kernel.smoothness + d / 2, 1.0 / kernel.smoothness, size=(n, 1))
    return normal * np.sqrt(mixing)


def _one_dimensional(kernel: ScaledKernel, scale: float) -> Kernel:
    if isinstance(kernel, Matern):
        return Matern(scale, smoothness=kernel.smoothness)
    return type(kernel)(scale)
