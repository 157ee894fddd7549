"""Kernels of the scaled distance of two points: Gaussian and Matérn."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from math import lgamma, log, pi

import numpy as np
from scipy.special import ndtr

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError
from kcdo.inputs import GaussianInput
from kcdo.kernels.base import Differentiable
from kcdo.kernels.distances import DIRECT_COLUMNS, scaled_squared_distances, two_sided_cdf
from kcdo.kernels.scaled import NoiseKernel

_NOTHING_LEFT = 1e4  # the exponential of minus this is 0
_FAR_APART = 1e4  # half squared norms, in scales, up to which a matrix product keeps 1e-11
_CDF_POLYNOMIALS = {0.5: (8.0,), 1.5: (8.0, 4.0), 2.5: (8.0, 5.0, 1.0)}


class Radial(NoiseKernel):
    """A kernel of the scaled distance r, r² = Σ (Δ_j/s_j)²."""

    @abstractmethod
    def profile(self, squared: Array) -> tuple[Array, Array]:
        """Return k and h = -k'(r)/r as functions of r², whose memory is used."""

    @abstractmethod
    def of_squares(self, squared: Array) -> Array:
        """Return k as a function of r², whose memory is used."""

    def block_with_pullback(self, A: Array, B: Array) -> Differentiable:
        """Return k(A, B) and its pullback: ∂k/∂log s_j = h(r) (Δ_j/s_j)².

        Σ_kl F_kl (a_kj - b_lj)² is formed by products, without a (n, m, p) array.
        """
        scales = self.scales(A.shape[1])
        values, h = self.profile(scaled_squared_distances(A, B, scales))
        centre = B.mean(axis=0)
        a, b = (A - centre) / scales, (B - centre) / scales

        def pullback(W: Array) -> list[float]:
            F = W * h
            gradient = F.sum(axis=1) @ a**2 + F.sum(axis=0) @ b**2
            return (gradient - 2.0 * np.einsum("ij,ij->j", a, F @ b)).tolist()

        return values, pullback

    def input_gradients(self, A: Array, B: Array, coefficients: Array) -> Array:
        """Return the gradients of Σ_j c_j k(·, b_j) at points a_i, (n, p).

        ∂k/∂a = -h(r) (a - b)/s²; where the kernel has a kink, at r = 0, it counts as 0.
        """
        scales = self.scales(A.shape[1])
        _, h = self.profile(scaled_squared_distances(A, B, scales))
        F = h * coefficients
        gradients: Array = (F @ B - F.sum(axis=1)[:, None] * A) / scales**2
        return gradients


@dataclass(frozen=True)
class Gaussian(Radial):
    """k(x, x') = exp(-Σ (x_i - x'_i)² / (2 s_i²)).

    Examples
    --------
    >>> Gaussian(2.0)([[0.0]], [[2.0]]).round(4)
    array([[0.6065]])
    """

    curvature = 1.0
    reach = 8.4

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
        near = p > DIRECT_COLUMNS and -right[:, p + 1].min(initial=0.0) <= _FAR_APART

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

    def profile(self, squared: Array) -> tuple[Array, Array]:
        """Return k and h, which is k too."""
        values = self.of_squares(squared)
        return values, values

    def of_squares(self, squared: Array) -> Array:
        """Return k as a function of r², whose memory is used."""
        squared *= -0.5
        return np.exp(squared, out=squared)

    def log_integral(self, d: int) -> float:
        """Return the logarithm of (2π)^(d/2)."""
        return 0.5 * d * log(2 * pi)

    def noise_variance(self, d: int) -> float:
        """Return 1."""
        return 1.0

    def noise_cdf(self, t: Array) -> Array:
        """Return the cdf of the standard normal distribution."""
        return ndtr(t)

    def noise_draws(self, n: int, d: int, rng: np.random.Generator) -> Array:
        """Return standard normal draws, (n, d)."""
        return rng.standard_normal((n, d))

    def log_slope(self, A: Array, B: Array) -> Array:
        """Return r²."""
        return scaled_squared_distances(A, B, self.scales(A.shape[1]))


class Automatic(Gaussian):
    """A kernel of the scaled distance whose family is left to ``selection="auto"``.

    Gaussian, Matérn 5/2, 3/2, 1/2 and Laplace are compared by the loss; other rules take it for a
    :class:`Gaussian`. It composes, e.g. ``Automatic().on([0, 1]) * Periodic(24.0).on([2])``.
    """

    @property
    def family_open(self) -> bool:  # type: ignore[override]
        """Whether the family is still to be chosen: with a scale, it is that of the Gaussian."""
        return not self.fitted


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
class Matern(Radial):
    """Matérn kernel of smoothness 1/2, 3/2 or 5/2 of the scaled distance r.

    exp(-r);  (1 + √3 r) exp(-√3 r);  (1 + √5 r + 5r²/3) exp(-√5 r).

    Examples
    --------
    >>> Matern(1.0, smoothness=1.5)([[0.0]], [[1.0]]).round(4)
    array([[0.4834]])
    """

    smoothness: float = field(default=1.5)
    independent_columns = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.smoothness not in {0.5, 1.5, 2.5}:
            raise InvalidInputError(
                f"Matern: smoothness must be 0.5, 1.5 or 2.5; got {self.smoothness!r} "
                "(as it grows the kernel tends to kcdo.Gaussian)."
            )

    @property
    def curvature(self) -> float | None:  # type: ignore[override]
        """Largest ``|k''|`` of one column of scale 1; smoothness 1/2 has a kink."""
        return {0.5: None, 1.5: 3.0, 2.5: 5.0 / 3.0}[self.smoothness]

    def block(self, A: Array, B: Array) -> Array:
        """Return one block of kernel values."""
        return self.of_squares(scaled_squared_distances(A, B, self.scales(A.shape[1])))

    def of_squares(self, squared: Array) -> Array:
        """Return k as a function of r², whose memory is used."""
        squared *= 2 * self.smoothness
        t = np.sqrt(squared, out=squared)
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

    def profile(self, squared: Array) -> tuple[Array, Array]:
        """Return k and h; of h at r = 0, where smoothness 1/2 has none, 0."""
        squared *= 2 * self.smoothness
        t = np.sqrt(squared, out=squared)
        decay = np.negative(t)
        np.exp(decay, out=decay)
        if self.smoothness == 0.5:
            with np.errstate(divide="ignore", invalid="ignore"):
                return decay, np.where(t > 0, decay / t, 0.0)
        rising = t + 1.0
        if self.smoothness == 1.5:
            values = np.multiply(rising, decay, out=rising)
            decay *= 3.0
            return values, decay
        t *= t
        t *= 1.0 / 3.0
        t += rising
        t *= decay
        rising *= decay
        rising *= 5.0 / 3.0
        return t, rising

    def log_integral(self, d: int) -> float:
        """Return the logarithm of the spectral density at frequency 0."""
        nu = self.smoothness
        return d * log(2) + 0.5 * d * log(pi / (2 * nu)) + lgamma(nu + d / 2) - lgamma(nu)

    def noise_variance(self, d: int) -> float:
        """Return the mean of the variance that :meth:`noise_draws` draws."""
        return (self.smoothness + d / 2) / self.smoothness

    def noise_cdf(self, t: Array) -> Array:
        """Return the cdf of one column: a polynomial times an exponential."""
        r = np.abs(t) * np.sqrt(2 * self.smoothness)
        return two_sided_cdf(t, r, _CDF_POLYNOMIALS[self.smoothness])

    def noise_draws(self, n: int, d: int, rng: np.random.Generator) -> Array:
        """Return draws, (n, d), of a Gaussian whose variance is gamma distributed."""
        normal = rng.standard_normal((n, d))
        mixing = rng.gamma(self.smoothness + d / 2, 1.0 / self.smoothness, size=(n, 1))
        return normal * np.sqrt(mixing)

    def log_slope(self, A: Array, B: Array) -> Array:
        """Return -r k'(r)/k(r)."""
        squared = scaled_squared_distances(A, B, self.scales(A.shape[1]))
        t = np.sqrt(2 * self.smoothness * squared)
        if self.smoothness == 0.5:
            return t
        if self.smoothness == 1.5:
            return t * t / (1.0 + t)
        return t * t * (1.0 + t) / (3.0 + 3.0 * t + t * t)
