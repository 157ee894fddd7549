"""Kernels of the difference of two points: Gaussian, Laplace, Matérn, periodic, categorical."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import erfcx

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError
from kcdo.inputs import GaussianInput
from kcdo.kernels.base import Scale, ScaledKernel, checked_scale, per_column

_NOTHING_LEFT = 1e4  # the exponential of minus this is 0
_DIRECT_COLUMNS = 3  # up to here differences are cheaper than, and as fast as, a matrix product

_FAR_APART = 1e4  # half squared norms, in scales, up to which a matrix product keeps 1e-11


@dataclass(frozen=True)
class Gaussian(ScaledKernel):
    """k(x, x') = exp(-Σ (x_i - x'_i)² / (2 s_i²)).

    Examples
    --------
    >>> Gaussian(2.0)([[0.0]], [[2.0]]).round(4)
    array([[0.6065]])
    """

    def block(self, A: Array, B: Array) -> Array:
        """Return one block of kernel values."""
        out = np.empty((len(A), len(B)), dtype=A.dtype)
        self.filler(B)(A, out)
        return out

    def filler(self, B: Array) -> Callable[[Array, Array], None]:
        """Return a function (A, out) that writes k(A, B): one product and one exponential.

        -|a - b|²/2 = (a, -|a|²/2, 1)·(b, 1, -|b|²/2). The error of the product is absolute,
        eps·|a|², which exp(·) turns into a relative one; where points lie so many scales apart
        that it would be seen, or in few columns, differences are taken instead.
        """
        p = B.shape[1]
        scales, centre = self.scales(p), B.mean(axis=0)
        right = _augmented(B, centre, scales, norms_last=True)
        near = p > _DIRECT_COLUMNS and -right[:, p + 1].min(initial=0.0) <= _FAR_APART

        def fill(A: Array, out: Array) -> None:
            left = _augmented(A, centre, scales, norms_last=False) if near else None
            if left is None or -left[:, p].min(initial=0.0) > _FAR_APART:
                np.multiply(scaled_squared_distances(A, B, scales), -0.5, out=out)
            else:
                np.matmul(left, right.T, out=out)
            np.exp(out, out=out)

        return fill

    def gaussian_expectation(self, X: Array, inputs: GaussianInput) -> Array:
        """``|S(S+Σ)⁻¹|^½ exp(-½ (x-m)ᵀ(S+Σ)⁻¹(x-m))``, S the squared scales (any covariance)."""
        squared_scales = self.scales(X.shape[1]) ** 2
        form = _diagonal_mahalanobis if inputs.diagonal else _mahalanobis
        exponent, gain = form(X, inputs, squared_scales)
        return gain[:, None] * np.exp(-0.5 * exponent)


class Automatic(Gaussian):
    """A kernel of the scaled distance whose family is left to ``selection="auto"``.

    Gaussian, Matérn 5/2, 3/2, 1/2 and Laplace are compared by the loss; other rules take it for a
    :class:`Gaussian`. It composes, e.g. ``Automatic().on([0, 1]) * Periodic(24.0).on([2])``.
    """


def _augmented(A: Array, centre: Array, scales: Array, *, norms_last: bool) -> Array:
    """Return scaled differences from the centre, beside -|a|²/2 and 1 (in this or that order)."""
    p = A.shape[1]
    out = np.ones((len(A), p + 2), A.dtype)
    np.divide(A - centre, scales, out=out[:, :p], casting="same_kind")
    out[:, p + norms_last] = -0.5 * np.einsum("ij,ij->i", out[:, :p], out[:, :p])
    return out


def _diagonal_mahalanobis(
    X: Array, inputs: GaussianInput, squared_scales: Array
) -> tuple[Array, Array]:
    total = squared_scales + inputs.cov
    exponent = np.empty((len(inputs), len(X)))
    for q in range(len(inputs)):  # never a (Q, N, p) array
        exponent[q] = (X - inputs.mean[q]) ** 2 @ (1.0 / total[q])
    return exponent, np.sqrt(np.prod(squared_scales / total, axis=1))


def _mahalanobis(X: Array, inputs: GaussianInput, squared_scales: Array) -> tuple[Array, Array]:
    """Return (x-m)ᵀ(S+Σ)⁻¹(x-m), (Q, N), and |S(S+Σ)⁻¹|^½, (Q,), any covariance."""
    sd = np.sqrt(squared_scales + inputs.variances)
    total = np.diag(squared_scales) + inputs.cov
    # in units of sd the eigenvalues sum to p; a floor keeps nearly singular covariances solvable
    values, vectors = np.linalg.eigh(total / (sd[:, :, None] * sd[:, None, :]))
    values = np.maximum(values, np.finfo(float).eps)
    exponent = np.empty((len(inputs), len(X)))
    for q in range(len(inputs)):  # never a (Q, N, p) array
        white = ((X - inputs.mean[q]) / sd[q]) @ (vectors[q] / np.sqrt(values[q]))
        exponent[q] = np.einsum("np,np->n", white, white)
    gain = np.prod(np.sqrt(squared_scales) / sd, axis=1) / np.sqrt(np.prod(values, axis=1))
    return exponent, gain


@dataclass(frozen=True)
class Laplace(ScaledKernel):
    """``k(x, x') = exp(-Σ |x_i - x'_i| / s_i)``, a product over the columns.

    Examples
    --------
    >>> Laplace(1.0)([[0.0, 0.0]], [[1.0, 1.0]]).round(4)
    array([[0.1353]])
    """

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
class Matern(ScaledKernel):
    """Matérn kernel of smoothness 1/2, 3/2 or 5/2 of the scaled distance r.

    exp(-r);  (1 + √3 r) exp(-√3 r);  (1 + √5 r + 5r²/3) exp(-√5 r).

    Examples
    --------
    >>> Matern(1.0, smoothness=1.5)([[0.0]], [[1.0]]).round(4)
    array([[0.4834]])
    """

    smoothness: float = field(default=1.5)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.smoothness not in {0.5, 1.5, 2.5}:
            raise InvalidInputError(
                f"Matern: smoothness must be 0.5, 1.5 or 2.5; got {self.smoothness!r} "
                "(as it grows the kernel tends to kcdo.Gaussian)."
            )

    def block(self, A: Array, B: Array) -> Array:
        """Return one block of kernel values."""
        t = scaled_squared_distances(A, B, self.scales(A.shape[1]))
        t *= 2 * self.smoothness
        np.sqrt(t, out=t)
        if self.smoothness == 0.5:
            np.negative(t, out=t)
            return np.exp(t, out=t)
        np.minimum(t, _NOTHING_LEFT, out=t)  # infinity times 0 is not a number
        polynomial = t + 1.0
        if self.smoothness == 2.5:
            polynomial += t * t / 3.0
        np.negative(t, out=t)
        np.exp(t, out=t)
        t *= polynomial
        return t


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
        for i, scale in enumerate(self.scales(A.shape[1])):
            angle = (A[:, i, None] - B[None, :, i]) * (np.pi / periods[i])
            exponent -= 0.5 * (periods[i] / (np.pi * scale) * np.sin(angle)) ** 2
        return np.exp(exponent, out=exponent)


@dataclass(frozen=True)
class Categorical(ScaledKernel):
    """k(x, x') = exp(-Σ [x_i ≠ x'_i] / s_i): a small scale keeps categories apart.

    Examples
    --------
    >>> Categorical(1.0)([[0.0]], [[0.0], [1.0]]).round(4)
    array([[1.    , 0.3679]])
    """

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


def scaled_squared_distances(A: Array, B: Array, scales: Array) -> Array:
    """Σ ((a_i - b_i)/s_i)², to full relative accuracy even where points nearly coincide.

    A matrix product forms |a|² + |b|² - 2ab; where that cancels, the few entries concerned are
    computed again from differences of the points themselves (an outlier may move the centre).
    """
    scales = scales.astype(A.dtype)
    if A.shape[1] <= _DIRECT_COLUMNS:
        squared = np.zeros((len(A), len(B)), dtype=A.dtype)
        for i, scale in enumerate(scales):
            difference = (A[:, i] / scale)[:, None] - (B[:, i] / scale)[None, :]
            difference *= difference
            squared += difference
        return squared
    centre = B.mean(axis=0)
    a, b = (A - centre) / scales, (B - centre) / scales
    a_norms, b_norms = np.einsum("ij,ij->i", a, a), np.einsum("ij,ij->i", b, b)
    squared = a @ b.T
    squared *= -2.0
    squared += a_norms[:, None]
    squared += b_norms[None, :]
    tolerance = np.finfo(A.dtype).eps ** 0.375  # relative error left: eps/tolerance, 1e-10
    rows, columns = np.nonzero(squared < tolerance * (a_norms.max() + b_norms.max()))
    if len(rows):
        squared[rows, columns] = _paired_squared_distances(A, B, scales, rows, columns)
    return squared


def _paired_squared_distances(
    A: Array, B: Array, scales: Array, rows: NDArray, columns: NDArray
) -> Array:
    out = np.empty(len(rows), dtype=A.dtype)
    for start in range(0, len(rows), 1 << 16):  # bounded memory, however many pairs coincide
        part = slice(start, start + (1 << 16))
        difference = (A[rows[part]] - B[columns[part]]) / scales
        out[part] = np.einsum("ij,ij->i", difference, difference)
    return out
