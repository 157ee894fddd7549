"""Student's t, for the heavy tails of a prediction, and its limit, the normal distribution."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.special import beta, betaln, digamma, ndtr, ndtri, stdtr, stdtrit
from scipy.stats import qmc

from kcdo.arrays import Array
from kcdo.distributions.batch import Batch, Rows
from kcdo.errors import InvalidInputError

_KNOTS = 121
_KNOT_REACH = 10.0  # asinh of the furthest knot, in scales
_PIECES = 140
_REACH = 28.0  # the same of the furthest piece: beyond, there is nothing even of the variance
_NORMAL_REACH = 20  # scales
_CLOUD_POINTS = 2048
_POINT_PIECES, _POINT_REACH = 48, 8.0  # of those that moments are taken by
_HEAVY = 1.0  # degrees of freedom of the points of a quadrature
_SMALLEST_UNIFORM = 2.0**-54


@dataclass(frozen=True, eq=False)
class StudentTail(Batch):
    """Independent outputs y_i = location_i + scale_i t_i with t of ``dof`` degrees of freedom.

    The log density is finite everywhere, but for that of the normal limit, which falls to -∞.

    Parameters
    ----------
    location, scale : (Q, d)
        Scales are positive.
    dof : float
        Above 2: the variance is scale² dof/(dof - 2). Infinity means normal distributions.
    """

    location: Array
    scale: Array
    dof: float = 3.0

    def __post_init__(self) -> None:
        if not self.dof > 2:
            raise InvalidInputError(
                f"the degrees of freedom must be above 2, so that there is a variance; got "
                f"{self.dof!r}."
            )

    @property
    def dim(self) -> int:
        """Number of outputs."""
        return self.location.shape[1]

    @property
    def width(self) -> int:
        """Size of the quadrature."""
        return _KNOTS if self.dim == 1 else _CLOUD_POINTS

    def __len__(self) -> int:
        return len(self.location)

    def take(self, rows: Rows) -> "StudentTail":
        """Return some of the distributions."""
        return StudentTail(self.location[rows], self.scale[rows], self.dof)

    def joined(self, others: Sequence["StudentTail"]) -> "StudentTail":
        """Return these distributions followed by others."""
        location = np.concatenate([self.location, *(o.location for o in others)])
        scale = np.concatenate([self.scale, *(o.scale for o in others)])
        return StudentTail(location, scale, self.dof)

    def marginal(self, dims: Sequence[int]) -> "StudentTail":
        """Return the distributions of some outputs."""
        columns = list(dims)
        return StudentTail(self.location[:, columns], self.scale[:, columns], self.dof)

    def given(self, dims: Sequence[int], values: Array) -> "StudentTail":
        """Return the distributions of the other outputs: outputs say nothing of one another."""
        return self.marginal([i for i in range(self.dim) if i not in dims])

    def pdf_each(self, points: Array) -> Array:
        """Density of each distribution at its own points."""
        return np.exp(self.logpdf_each(points))

    def logpdf(self, points: Array) -> Array:
        """Log density at shared points."""
        return self._at_shared(points, lambda batch, each: batch.logpdf_each(each))

    def logpdf_each(self, points: Array) -> Array:
        """Log density of each distribution at its own points: of Student finite, however far."""
        t = self._standardised(points)
        return np.sum(_standard_logpdf(self.dof, t) - np.log(self.scale)[:, None, :], axis=2)

    def cdf_each(self, points: Array) -> Array:
        """Joint cdf of each distribution at its own points."""
        return np.prod(_standard_cdf(self.dof, self._standardised(points)), axis=2)

    def moments(self) -> tuple[Array, Array]:
        """Mean and covariance."""
        variance = self.scale**2 / (1.0 - 2.0 / self.dof)
        return self.location, variance[:, :, None] * np.eye(self.dim)

    def quantile(self, levels: Array) -> Array:
        """Quantiles of each marginal; infinite at levels 0 and 1."""
        return self._scaled(self._standard_quantile(levels)[:, None])

    def sample(self, uniforms: Array) -> Array:
        """Draws by inversion."""
        inner = np.clip(uniforms[:, :, 1:], _SMALLEST_UNIFORM, 1.0 - _SMALLEST_UNIFORM)
        return self._scaled(_standard_quantile(self.dof, inner))

    def support(self) -> Array:
        """Return infinities."""
        ends = np.array([-np.inf, np.inf])[:, None]
        return np.broadcast_to(ends, (len(self), 2, self.dim))

    def quadrature(self) -> tuple[Array, Array]:
        """For d > 1, points of low discrepancy; so many far out that the variance is right."""
        if self.dim == 1:
            return super().quadrature()
        points, masses = _cloud(self.dof, self.dim)
        return self._scaled(points), np.broadcast_to(masses, (len(self), len(masses)))

    @property
    def has_moment_points(self) -> bool:
        """Whether there is one output."""
        return self.dim == 1

    def moment_points(self) -> tuple[Array, Array]:
        """Gauss points between places that reach far into the tails."""
        points, masses = _standard_points(self.dof)
        return self._on_lines(points), np.broadcast_to(masses, (len(self), len(masses)))

    def knots(self) -> Array:
        """Places that are dense in the middle and reach far into the tails."""
        return self._on_lines(np.sinh(np.linspace(-_KNOT_REACH, _KNOT_REACH, _KNOTS)))

    def pieces(self) -> Array:
        """Edges at growing distances; of the normal limit, an sd apart."""
        if np.isinf(self.dof):
            return self._on_lines(np.linspace(-_NORMAL_REACH, _NORMAL_REACH, 2 * _NORMAL_REACH + 1))
        return self._on_lines(np.sinh(np.linspace(-_REACH, _REACH, _PIECES + 1)))

    def mode(self) -> Array:
        """Return the locations."""
        return self.location.copy()

    def entropy(self) -> Array:
        """-∫ p log p, in closed form."""
        return np.sum(_standard_entropy(self.dof) + np.log(self.scale), axis=1)

    def square_integral(self) -> Array:
        """∫ p², in closed form."""
        return np.prod(_standard_square_integral(self.dof) / self.scale, axis=1)

    def _standard_quantile(self, levels: Array) -> Array:
        clipped = np.clip(levels, _SMALLEST_UNIFORM, 1.0 - _SMALLEST_UNIFORM)
        inner = _standard_quantile(self.dof, clipped)
        return np.where(levels <= 0, -np.inf, np.where(levels >= 1, np.inf, inner))

    def _standardised(self, points: Array) -> Array:
        return (points - self.location[:, None, :]) / self.scale[:, None, :]

    def _on_lines(self, t: Array) -> Array:
        """Return location + scale t, (Q, n), for t (n,) of one output."""
        return self._scaled(t[:, None])[:, :, 0]

    def _scaled(self, t: Array) -> Array:
        """Return location + scale t, (Q, n, d), for t that broadcasts to it."""
        return self.location[:, None, :] + self.scale[:, None, :] * t


def _standard_logpdf(dof: float, t: Array) -> Array:
    if np.isinf(dof):
        with np.errstate(over="ignore"):  # beyond 1e154 the square is infinite
            return -0.5 * t * t - 0.5 * np.log(2.0 * np.pi)
    peak = betaln(0.5, 0.5 * dof) + 0.5 * np.log(dof)
    return -(dof + 1) * np.log(np.hypot(1.0, t / np.sqrt(dof))) - peak


def _standard_quantile(dof: float, levels: Array) -> Array:
    return ndtri(levels) if np.isinf(dof) else stdtrit(dof, levels)


def _standard_entropy(dof: float) -> float:
    if np.isinf(dof):
        return 0.5 * float(np.log(2.0 * np.pi) + 1.0)
    one = 0.5 * (dof + 1) * (digamma(0.5 * (dof + 1)) - digamma(0.5 * dof))
    return float(one + 0.5 * np.log(dof) + betaln(0.5, 0.5 * dof))


def _standard_square_integral(dof: float) -> float:
    if np.isinf(dof):
        return 0.5 / float(np.sqrt(np.pi))
    return float(beta(0.5, dof + 0.5) / (np.sqrt(dof) * beta(0.5, 0.5 * dof) ** 2))


def _standard_cdf(dof: float, t: Array) -> Array:
    if np.isinf(dof):
        return ndtr(t)
    if dof != 3.0:
        return stdtr(dof, t)
    # three degrees of freedom, the default, have a formula that is ten times faster
    x = np.clip(t, -1e150, 1e150) / np.sqrt(3.0)
    return (np.arctan2(1.0, -x) + x / (1.0 + x * x)) / np.pi


@lru_cache(maxsize=8)
def _standard_points(dof: float) -> tuple[Array, Array]:
    """Return points and masses of one standard distribution, of its mean and variance."""
    edges = np.sinh(np.linspace(-_POINT_REACH, _POINT_REACH, _POINT_PIECES + 1))
    nodes, weights = leggauss(3)
    half, middle = 0.5 * np.diff(edges), 0.5 * (edges[1:] + edges[:-1])
    points = (middle[:, None] + half[:, None] * nodes).ravel()
    masses = (half[:, None] * weights).ravel() * np.exp(_standard_logpdf(dof, points))
    masses /= masses.sum()
    variance = 1.0 / (1.0 - 2.0 / dof)
    # what lies beyond the furthest points is put on these
    missing = variance - float(masses @ points**2)
    masses[[0, -1]] += 0.5 * max(missing, 0.0) / points[0] ** 2
    return points, masses / masses.sum()


@lru_cache(maxsize=8)
def _cloud(dof: float, dim: int) -> tuple[Array, Array]:
    """Return points and masses: drawn from a distribution of heavier tails, and weighted."""
    heavy = min(_HEAVY, dof)
    levels = qmc.Sobol(dim, rng=0).random(_CLOUD_POINTS)
    points = _standard_quantile(heavy, np.clip(levels, _SMALLEST_UNIFORM, 1 - _SMALLEST_UNIFORM))
    points = np.concatenate([points, -points])
    masses = np.exp(np.sum(_standard_logpdf(dof, points) - _standard_logpdf(heavy, points), axis=1))
    return points, masses / masses.sum()
