"""Synthetic data whose true densities are known in closed form."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp
from sklearn.utils import check_random_state

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError

__all__ = ["Donut", "make_donut"]


@dataclass(frozen=True)
class Donut:
    r"""The Gaussian donut: a noisy circle in three dimensions, tilted.

    The means lie evenly on the unit circle of the (x, y) plane, which is then rotated by
    ``tilt`` about one axis. With :math:`m_k` the rotated means and :math:`s` the noise,

    .. math::

        p(x, y, z) = \frac1K \sum_{k=1}^K \mathcal N\bigl((x, y, z); m_k, s^2 I\bigr).

    The task is to estimate :math:`p(y, z \mid x)`, which at x = 0 has two separate modes.
    See Schuster et al. (2020), section 5.1, where the circle is tilted about the y axis.

    Parameters
    ----------
    n_means : int
        Number K of means on the circle.
    noise : float
        Standard deviation s of the isotropic noise around each mean.
    tilt : float
        Angle of the rotation in radians.
    axis : {"y", "x"}
        The axis to rotate about. Rotated about y, the height z follows x: each x has few
        heights. Rotated about x, the height z follows y.

    Examples
    --------
    >>> donut = Donut()
    >>> X, Y = donut.sample(50, random_state=0)
    >>> X.shape, Y.shape
    ((2500, 1), (2500, 2))
    >>> donut.conditional_pdf(0.0, [[1.0, 0.0], [0.0, 0.0]]).round(3)
    array([6.946, 0.   ])
    """

    n_means: int = 50
    noise: float = 0.1
    tilt: float = 0.5
    axis: Literal["y", "x"] = "y"

    def __post_init__(self) -> None:
        _require_count("n_means", self.n_means)
        if not (_is_finite(self.noise) and self.noise > 0):
            raise InvalidInputError(f"noise must be a positive number, got {self.noise!r}.")
        if not _is_finite(self.tilt):
            raise InvalidInputError(f"tilt must be a finite angle in radians, got {self.tilt!r}.")
        if self.axis not in ("y", "x"):
            raise InvalidInputError(f'axis must be "y" or "x", got {self.axis!r}.')

    @property
    def means(self) -> Array:
        r"""Means of the mixture, shape (K, 3).

        With :math:`t_k = 2 \pi k / K` and tilt :math:`\theta`, right-handed rotation gives
        :math:`(\cos t_k \cos\theta, \sin t_k, -\cos t_k \sin\theta)` about the y axis and
        :math:`(\cos t_k, \sin t_k \cos\theta, \sin t_k \sin\theta)` about the x axis.
        """
        angle = 2 * np.pi * np.arange(self.n_means) / self.n_means
        cosine, sine = np.cos(angle), np.sin(angle)
        if self.axis == "y":
            coordinates = (cosine * math.cos(self.tilt), sine, -cosine * math.sin(self.tilt))
        else:
            coordinates = (cosine, sine * math.cos(self.tilt), sine * math.sin(self.tilt))
        return np.column_stack(coordinates)

    def sample(
        self, n_per_mean: int = 50, random_state: int | np.random.RandomState | None = None
    ) -> tuple[Array, Array]:
        """Draw the same number of points around every mean, in random order.

        Parameters
        ----------
        n_per_mean : int
            Number of points per mean.
        random_state : int, RandomState or None
            Seed or generator.

        Returns
        -------
        X : ndarray of shape (N, 1)
            The x coordinates, N = K * n_per_mean.
        Y : ndarray of shape (N, 2)
            The coordinates (y, z).
        """
        _require_count("n_per_mean", n_per_mean)
        rng = check_random_state(random_state)
        # Shuffled, so that a split into consecutive blocks of rows is a fair one.
        points = rng.permutation(np.repeat(self.means, n_per_mean, axis=0))
        points += self.noise * rng.standard_normal(points.shape)
        return points[:, :1], points[:, 1:]

    def pdf_x(self, x: ArrayLike) -> Array:
        """Marginal density p(x) at a scalar, or at each of Q values: shape () or (Q,)."""
        log_densities = self._log_normal(_as_queries(x)[..., None] - self.means[:, 0])
        return np.exp(logsumexp(log_densities, axis=-1)) / self.n_means

    def joint_pdf(self, x: ArrayLike, YZ: ArrayLike) -> Array:
        """Joint density p(x, y, z).

        Parameters
        ----------
        x : float or array of shape (Q,)
            First coordinate.
        YZ : array of shape (G, 2)
            Points (y, z).

        Returns
        -------
        ndarray of shape (G,) for scalar x, else (Q, G)
            Every x at every point.
        """
        return self.pdf_x(x)[..., None] * self.conditional_pdf(x, YZ)

    def conditional_pdf(self, x: ArrayLike, YZ: ArrayLike) -> Array:
        r"""Conditional density p(y, z | x), a Gaussian mixture.

        .. math::

            p(y, z \mid x) = \sum_k r_k(x) \, \mathcal N\bigl((y, z); (m_{k2}, m_{k3}), s^2 I\bigr),
            \qquad r_k(x) \propto \mathcal N(x; m_{k1}, s^2).

        Parameters
        ----------
        x : float or array of shape (Q,)
            What is conditioned on. Any finite value, however far from the data.
        YZ : array of shape (G, 2)
            Points (y, z).

        Returns
        -------
        ndarray of shape (G,) for scalar x, else (Q, G)
            Every x at every point.
        """
        YZ = _as_points(YZ)
        y_part = self._log_normal(YZ[:, :1] - self.means[:, 1])
        z_part = self._log_normal(YZ[:, 1:] - self.means[:, 2])
        return self._responsibilities(x) @ np.exp(y_part + z_part).T

    def conditional_mean(self, x: ArrayLike) -> Array:
        """Mean of (y, z) given x, shape (2,) for scalar x, else (Q, 2)."""
        return self._responsibilities(x) @ self.means[:, 1:]

    def conditional_std(self, x: ArrayLike) -> Array:
        """Standard deviations of y and of z given x, shape (2,) for scalar x, else (Q, 2)."""
        deviations = self.means[:, 1:] - self.conditional_mean(x)[..., None, :]
        between = np.einsum("...k,...kd->...d", self._responsibilities(x), deviations**2)
        return np.sqrt(self.noise**2 + between)

    def _log_normal(self, deviations: Array) -> Array:
        """Log density of N(0, noise²), elementwise."""
        log_scale = math.log(self.noise * math.sqrt(2 * math.pi))
        return -0.5 * (deviations / self.noise) ** 2 - log_scale

    def _responsibilities(self, x: ArrayLike) -> Array:
        """Probability of each mean given x; in logarithms, so that far x give no 0/0."""
        log_densities = self._log_normal(_as_queries(x)[..., None] - self.means[:, 0])
        return np.exp(log_densities - logsumexp(log_densities, axis=-1, keepdims=True))


def make_donut(
    n_per_mean: int = 50,
    *,
    n_means: int = 50,
    noise: float = 0.1,
    tilt: float = 0.5,
    axis: Literal["y", "x"] = "y",
    random_state: int | np.random.RandomState | None = None,
) -> tuple[Array, Array]:
    """Draw a sample of the Gaussian donut; see :class:`Donut` for its true densities.

    Parameters
    ----------
    n_per_mean : int
        Number of points around each mean.
    n_means, noise, tilt, axis
        As in :class:`Donut`.
    random_state : int, RandomState or None
        Seed or generator.

    Returns
    -------
    X : ndarray of shape (N, 1)
        The x coordinates, N = n_means * n_per_mean.
    Y : ndarray of shape (N, 2)
        The coordinates (y, z).

    Examples
    --------
    >>> X, Y = make_donut(n_per_mean=2, n_means=10, random_state=0)
    >>> X.shape, Y.shape
    ((20, 1), (20, 2))
    """
    donut = Donut(n_means=n_means, noise=noise, tilt=tilt, axis=axis)
    return donut.sample(n_per_mean, random_state)


def _is_finite(value: object) -> bool:
    return isinstance(value, Real) and math.isfinite(value)


def _require_count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise InvalidInputError(f"{name} must be an integer of at least 1, got {value!r}.")


def _as_queries(x: ArrayLike) -> Array:
    queries = np.asarray(x, dtype=np.float64)
    if queries.ndim > 1:
        raise InvalidInputError(
            f"x must be a number or have shape (Q,), got shape {queries.shape}."
        )
    if not np.isfinite(queries).all():
        raise InvalidInputError("x must be finite, got NaN or infinity.")
    return queries


def _as_points(YZ: ArrayLike) -> Array:
    points = np.asarray(YZ, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != 2:
        raise InvalidInputError(f"YZ must have shape (G, 2), got {points.shape}.")
    return points
