"""Elementary kernels with scales, and those of them that are densities of noise."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError, InvalidTypeError
from kcdo.kernels.base import Differentiable, Kernel
from kcdo.kernels.scales import median_scales

Scale = float | tuple[float, ...] | None


@dataclass(frozen=True)
class ScaledKernel(Kernel):
    """A kernel with one scale, or one per column, in the units of the data.

    Parameters
    ----------
    scale : float, sequence of floats or None
        ``None`` leaves the choice to the estimator that uses the kernel.
    """

    scale: Scale = None
    stationary = True
    #: the distance whose median is the scale of the median heuristic
    distance = "euclidean"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", checked_scale(self.scale, type(self).__name__))

    @property
    def fitted(self) -> bool:
        """Whether the scale is set."""
        return self.scale is not None

    def scales(self, p: int) -> Array:
        """Return the scale of each of ``p`` columns."""
        if self.scale is None:
            raise InvalidInputError(
                f"{type(self).__name__}() has no scale yet: give one, or fit it to data with "
                "kcdo.with_median_scales(kernel, X)."
            )
        return per_column(self.scale, p, type(self).__name__, "scales")

    def with_median_scale(self, X: NDArray, weights: Array | None, seed: int) -> Kernel:
        """Return the kernel with the median heuristic's scale of each column."""
        return replace(self, scale=as_scale(median_scales(X, weights, self.distance, seed)))

    def metric_coordinates(self, X: NDArray) -> list[Array]:
        """Return coordinates, (N, ·) each, whose distance says how near the kernel finds rows."""
        return [X / self.scales(X.shape[1])]

    def block_with_pullback(self, A: NDArray, B: NDArray) -> Differentiable:
        """Return k(A, B), and its pullback to the log scale of each column.

        That of kernels exp(-Σ_j e_j), ∂k/∂log s_j = k · (-∂e_j/∂log s_j), column by column.
        """
        values = self.block(A, B)

        def pullback(W: Array) -> list[float]:
            F = W * values
            return [float(np.sum(F * self.column_slope(A, B, j))) for j in range(A.shape[1])]

        return values, pullback

    def column_slope(self, A: NDArray, B: NDArray, j: int) -> Array:
        """Return ∂log k/∂log s_j, (len(A), len(B)), of one column."""
        raise NotImplementedError(
            f"{type(self).__name__} does not say how it changes with its scales: define "
            "column_slope or block_with_pullback, or give every scale."
        )


class NoiseKernel(ScaledKernel):
    """A kernel that, divided by its integral, is the density of z plus noise.

    Noise of scale 1 is described here; :class:`kcdo.kernels.DensityKernel` does the rest.
    """

    #: whether noise is independent in all columns
    independent_columns = True
    #: largest |k''| of one column of scale 1; None where k has a kink, with |k'| at most 1
    curvature: ClassVar[float | None] = None

    def interpolation_error(self, step: float) -> float:
        """Bound the error of linear interpolation of k between points ``step`` scales apart.

        ``max |k''| step² / 8``; for a kernel with a kink ``max |k'| step / 2``.
        """
        return step / 2.0 if self.curvature is None else self.curvature * step**2 / 8.0

    @abstractmethod
    def log_integral(self, d: int) -> float:
        """Return the logarithm of the integral of the kernel of ``d`` columns of scale 1."""

    @abstractmethod
    def noise_variance(self, d: int) -> float:
        """Return the variance of each of ``d`` columns of noise of scale 1."""

    @abstractmethod
    def noise_cdf(self, t: Array) -> Array:
        """Return the cdf of one column of noise of scale 1."""

    @abstractmethod
    def noise_draws(self, n: int, d: int, rng: np.random.Generator) -> Array:
        """Return draws of noise of scale 1, (n, d)."""

    @abstractmethod
    def log_slope(self, A: Array, B: Array) -> Array:
        """Return d(log k)/dt, (len(A), len(B)), when every scale grows as e^t."""


def as_scale(scales: Array) -> float | tuple[float, ...]:
    """Return the scales of all columns as kernels keep them: a number if there is one column."""
    return float(scales[0]) if len(scales) == 1 else tuple(scales.tolist())


def per_column(value: float | tuple[float, ...], p: int, owner: str, what: str) -> Array:
    """Return one number for all columns, or one each, as one for each of ``p`` columns."""
    values = np.asarray(value, dtype=float)
    if values.ndim and len(values) != p:
        raise InvalidInputError(f"{owner} has {len(values)} {what} but the data have {p} columns.")
    return np.broadcast_to(values, (p,))


def checked_scale(scale: Any, owner: str, what: str = "scale") -> Scale:
    """Return a scale (or period) as float or tuple of floats; positive and finite, or None."""
    if scale is None:
        return None
    try:
        values = np.asarray(scale, dtype=float)
    except (TypeError, ValueError):
        raise InvalidTypeError(f"{owner}: {what} must be numbers; got {scale!r}.") from None
    if values.ndim > 1 or values.size == 0 or not np.all(np.isfinite(values) & (values > 0)):
        raise InvalidInputError(f"{owner}: {what}s must be positive and finite; got {scale!r}.")
    return float(values) if values.ndim == 0 else tuple(values.tolist())
