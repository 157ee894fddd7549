"""Output kernels: kernels that are probability densities, ∫ ℓ(z, y) dy = 1."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.consistency import need
from kcdo.errors import InvalidInputError, InvalidTypeError
from kcdo.inputs import Expectation, GaussianInput
from kcdo.kernels.base import Differentiable, Kernel, PartExpectation, Parts, Wrapper
from kcdo.kernels.parts import transformed, walk
from kcdo.kernels.scaled import NoiseKernel, as_scale

_MOST_OUTPUTS = 1000  # its columns are listed


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
        need(0 < self.dim < _MOST_OUTPUTS, "the dimension of an output kernel")
        _check_density(self.kernel, self.dim)

    @property
    def integral(self) -> float:
        """∫ k(z, y) dy of the kernel that was normalised."""
        log_integral = 0.0
        for kernel, columns in self.parts():
            scales = kernel.scales(len(columns))
            log_integral += float(np.sum(np.log(scales))) + kernel.log_integral(len(columns))
        return float(np.exp(log_integral))

    @property
    def peak(self) -> float:  # type: ignore[override]
        """Largest value of a density: it has the unit of the outputs."""
        return 1.0 / self.integral

    @property
    def scales(self) -> Array:
        """Scale of each output column."""
        scales = np.empty(self.dim)
        for kernel, columns in self.parts():
            scales[columns] = kernel.scales(len(columns))
        return scales

    def parts(self) -> list[tuple[NoiseKernel, list[int]]]:
        """Return the independent factors, with the columns of each."""
        return _parts(self.kernel, self.dim)

    def factors(self) -> "list[DensityKernel] | None":
        """Return one 1-D density kernel per column, or None if the kernel is no such product."""
        found: dict[int, DensityKernel] = {}
        for kernel, columns in self.parts():
            if len(columns) > 1 and not kernel.independent_columns:
                return None
            for column, scale in zip(columns, kernel.scales(len(columns)), strict=True):
                found[column] = DensityKernel(replace(kernel, scale=float(scale)), 1)
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
            growth += kernel.log_slope(A[:, columns], B[:, columns])
        growth *= self.block(A, B)
        return growth

    def gram_of_parts(self, parts: Parts, A: NDArray, B: NDArray) -> Differentiable:
        """Return Gram matrix and pullback over the integral, which grows with every scale."""
        ((inner, pull),) = parts
        integral = self.integral
        values = inner / integral

        def pullback(W: Array) -> list[float]:
            shrunk = float(np.sum(W * values))
            return [slope - shrunk for slope in pull(W / integral)]

        return values, pullback

    def expectation_of_parts(self, part: PartExpectation, inputs: GaussianInput) -> Expectation:
        """Return E k of the kernel before normalisation, over its integral."""
        return part(self.kernel).scaled(1.0 / self.integral)

    def cdf(self, centres: Array, points: Array) -> Array:
        """P(z_i + noise <= y_j) in every column, (n, G), for centres (n, d) and points (G, d)."""
        factors = self.factors()
        if factors is None:
            raise InvalidTypeError("the joint cdf of a radial Matérn density is not available.")
        values = np.ones((len(centres), len(points)))
        for i, factor in enumerate(factors):
            t = (points[None, :, i] - centres[:, i, None]) / factor.scales[0]
            ((kernel, _),) = factor.parts()
            values *= kernel.noise_cdf(t)
        return values

    def covariance(self) -> Array:
        """Covariance matrix of the noise, (d, d)."""
        variances = np.empty(self.dim)
        for kernel, columns in self.parts():
            scales = kernel.scales(len(columns))
            variances[columns] = kernel.noise_variance(len(columns)) * scales**2
        return np.diag(variances)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Return ``n`` draws of the noise, (n, d)."""
        out = np.empty((n, self.dim))
        for kernel, columns in self.parts():
            draws = kernel.noise_draws(n, len(columns), rng)
            out[:, columns] = draws * kernel.scales(len(columns))
        return out


def with_output_sds(kernel: Kernel, sds: Array) -> Kernel:
    """Return an output kernel whose missing scales are set so that its noise has these sds.

    Examples
    --------
    >>> from kcdo import Laplace
    >>> with_output_sds(Laplace(), np.array([1.0])).scale.__round__(4)
    0.7071
    """
    if kernel.fitted:
        return kernel
    _parts(kernel, len(sds))  # what is no density is refused

    def scaled(part: Kernel, own: Array) -> Kernel | None:
        if part.fitted or not isinstance(part, NoiseKernel):
            return None
        d = own.shape[1]
        return replace(part, scale=as_scale(own[0] / np.sqrt(part.noise_variance(d))))

    return transformed(kernel, scaled, sds[None])


def _parts(kernel: Kernel, dim: int) -> list[tuple[NoiseKernel, list[int]]]:
    found = []
    for part, columns in walk(kernel, range(dim)):
        if isinstance(part, NoiseKernel):
            found.append((part, columns))
        elif not part.multiplies:
            raise InvalidTypeError(
                f"{part!r} is not a probability density; output kernels are Gaussian, Laplace, "
                "Matern or products of those over groups of columns."
            )
    return found


def _check_density(kernel: Kernel, dim: int) -> None:
    columns = sorted(c for _, group in _parts(kernel, dim) for c in group)
    if columns != list(range(dim)):
        raise InvalidInputError(
            f"an output kernel must use each of the {dim} output columns once; got {columns}."
        )
