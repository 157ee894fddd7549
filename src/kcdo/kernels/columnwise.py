"""Kernels that are products over the columns: Laplace, periodic, categorical."""

from dataclasses import dataclass, replace
from math import log

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import erfcx

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError
from kcdo.inputs import GaussianInput
from kcdo.kernels.base import Kernel
from kcdo.kernels.distances import two_sided_cdf
from kcdo.kernels.scaled import (
    NoiseKernel,
    Scale,
    ScaledKernel,
    as_scale,
    checked_scale,
    per_column,
)

_IRRATIONALS = np.sqrt([2.0, 3.0, 5.0, 7.0]) % 1.0


@dataclass(frozen=True)
class Laplace(NoiseKernel):
    """``k(x, x') = exp(-Σ |x_i - x'_i| / s_i)``, a product over the columns.

    Examples
    --------
    >>> Laplace(1.0)([[0.0, 0.0]], [[1.0, 1.0]]).round(4)
    array([[0.1353]])
    """

    distance = "cityblock"

    def block(self, A: Array, B: Array) -> Array:
        """Return one block of kernel values."""
        scales = self.scales(A.shape[1]).astype(A.dtype)
        distances = cdist(A / scales, B / scales, "cityblock").astype(A.dtype, copy=False)
        np.negative(distances, out=distances)
        return np.exp(distances, out=distances)

    def gaussian_expectation(self, X: Array, inputs: GaussianInput) -> Array | None:
        """Return the product of the 1-D forms of :func:`laplace_gaussian_mean`; diagonal only."""
        if not inputs.diagonal:
            return None
        values = np.ones((len(inputs), len(X)))
        for i, scale in enumerate(self.scales(X.shape[1])):
            distance = np.abs(X[:, i] - inputs.mean[:, i, None]) / scale
            values *= laplace_gaussian_mean(distance, np.sqrt(inputs.cov[:, i, None]) / scale)
        return values

    def column_slope(self, A: NDArray, B: NDArray, j: int) -> Array:
        """Return the distance in column j, in units of its scale."""
        return np.abs(A[:, j, None] - B[None, :, j]) / self.scales(A.shape[1])[j]

    def log_integral(self, d: int) -> float:
        """Return the logarithm of 2^d."""
        return d * log(2.0)

    def noise_variance(self, d: int) -> float:
        """Return 2."""
        return 2.0

    def noise_cdf(self, t: Array) -> Array:
        """Return the cdf of the Laplace distribution."""
        return two_sided_cdf(t, np.abs(t), (8.0,))

    def noise_draws(self, n: int, d: int, rng: np.random.Generator) -> Array:
        """Return draws of the Laplace distribution, (n, d)."""
        return rng.laplace(size=(n, d))

    def log_slope(self, A: Array, B: Array) -> Array:
        """Return the scaled distance: the sum of the distances in each column."""
        scales = self.scales(A.shape[1])
        return np.asarray(cdist(A / scales, B / scales, "cityblock"))


def laplace_gaussian_mean(distance: Array, sd: Array) -> Array:
    """E exp(-|t|) for t ~ N(distance, sd²), distance >= 0, without overflow (erfcx form)."""
    positive = np.maximum(sd, 1e-17)  # E|t| is of order sd: below that the answer is a point's
    near = (positive - distance / positive) / np.sqrt(2.0)
    far = (positive + distance / positive) / np.sqrt(2.0)
    bell = 0.5 * np.exp(-0.5 * (distance / positive) ** 2)
    # erfcx(a) = 2 exp(a²) - erfcx(-a) keeps the argument of erfcx non-negative
    left_tail = np.exp(np.minimum(0.5 * positive**2 - distance, 0.0)) - bell * erfcx(np.abs(near))
    return bell * erfcx(far) + np.where(near < 0, left_tail, bell * erfcx(np.abs(near)))


@dataclass(frozen=True)
class Periodic(ScaledKernel):
    """Gaussian kernel of the chord between two phases; one period or one per column.

    k(x, x') = exp(-Σ c_i² / (2 s_i²)),  c = (T/π) sin(π (x - x')/T): near x the chord is the
    distance, so that the scale is in the units of the column (hours, weekdays).

    Examples
    --------
    >>> Periodic(24.0, scale=3.0)([[23.5]], [[0.5]]).round(4)
    array([[0.9463]])
    """

    period: float | tuple[float, ...] = 1.0

    def __init__(self, period: float | tuple[float, ...], scale: Scale = None) -> None:
        object.__setattr__(self, "scale", scale)
        object.__setattr__(self, "period", period)
        self.__post_init__()

    def __post_init__(self) -> None:
        super().__post_init__()
        period = checked_scale(self.period, "Periodic", "period")
        if period is None:
            raise InvalidInputError("Periodic needs a period, such as 24.0 for hours of the day.")
        object.__setattr__(self, "period", period)

    def periods(self, p: int) -> Array:
        """Return the period of each of ``p`` columns."""
        return per_column(self.period, p, "Periodic", "periods")

    def block(self, A: Array, B: Array) -> Array:
        """Return one block of kernel values."""
        periods = self.periods(A.shape[1]).astype(A.dtype)
        exponent = np.zeros((len(A), len(B)), dtype=A.dtype)
        A, B = A % periods, B % periods  # differences of huge numbers have no phase
        for i, scale in enumerate(self.scales(A.shape[1])):
            angle = (A[:, i, None] - B[None, :, i]) * (np.pi / periods[i])
            exponent -= 0.5 * (periods[i] / (np.pi * scale) * np.sin(angle)) ** 2
        return np.exp(exponent, out=exponent)

    def column_periods(self, p: int) -> Array:
        """Return the period of each of ``p`` columns."""
        return self.periods(p)

    def with_median_scale(self, X: NDArray, weights: Array | None, seed: int) -> Kernel:
        """Return the kernel with an eighth of the period as scale, whatever the data."""
        return replace(self, scale=as_scale(self.periods(X.shape[1]) / 8.0))

    def metric_coordinates(self, X: NDArray) -> list[Array]:
        """Return points of a circle for each column."""
        scales = self.scales(X.shape[1])
        radii = self.periods(X.shape[1]) / (2.0 * np.pi)
        angles = X % self.periods(X.shape[1]) / radii
        return [radii / scales * np.cos(angles), radii / scales * np.sin(angles)]

    def column_slope(self, A: NDArray, B: NDArray, j: int) -> Array:
        """Return the squared scaled chord."""
        scale, period = self.scales(A.shape[1])[j], self.periods(A.shape[1])[j]
        angle = (A[:, j, None] % period - B[None, :, j] % period) * (np.pi / period)
        return (period / (np.pi * scale) * np.sin(angle)) ** 2


@dataclass(frozen=True)
class Categorical(ScaledKernel):
    """k(x, x') = exp(-Σ [x_i ≠ x'_i] / s_i): a small scale keeps categories apart.

    Examples
    --------
    >>> Categorical(1.0)([[0.0]], [[0.0], [1.0]]).round(4)
    array([[1.    , 0.3679]])
    """

    categorical = True

    def block(self, A: NDArray, B: NDArray) -> Array:
        """Return one block of kernel values."""
        dtype = A.dtype if np.issubdtype(A.dtype, np.floating) else np.dtype(float)
        exponent = np.zeros((len(A), len(B)), dtype=dtype)
        for i, scale in enumerate(self.scales(A.shape[1])):
            exponent -= (A[:, i, None] != B[None, :, i]) / dtype.type(scale)
        return np.exp(exponent, out=exponent)

    def gaussian_expectation(self, X: Array, inputs: GaussianInput) -> Array:
        """Kernel values at the means: a category has no variance, which is checked here."""
        if np.any(inputs.variances > 0):
            raise InvalidInputError("a categorical column must have variance 0 in a GaussianInput.")
        return self.block(inputs.mean, X)

    def with_median_scale(self, X: NDArray, weights: Array | None, seed: int) -> Kernel:
        """Return the kernel with scale 1, whatever the data."""
        return replace(self, scale=1.0)

    def metric_coordinates(self, X: NDArray) -> list[Array]:
        """Return points of several circles for each column, at angles that no code shares.

        Two categories are about as far apart as exp(-1/s) says, whichever two they are.
        """
        radii = 1.0 / np.sqrt(len(_IRRATIONALS) * self.scales(X.shape[1]))
        angles = [2.0 * np.pi * turns * X for turns in _IRRATIONALS]
        return [radii * circle(angle) for angle in angles for circle in (np.cos, np.sin)]

    def column_slope(self, A: NDArray, B: NDArray, j: int) -> Array:
        """Return [Δ_j ≠ 0]/s_j."""
        return (A[:, j, None] != B[None, :, j]) / self.scales(A.shape[1])[j]
