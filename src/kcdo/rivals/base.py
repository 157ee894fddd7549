"""What a method is: fit, condition, then query; and the standardising that all rivals share."""

from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from kcdo.arrays import Array, Integers

_LEAST = 1e-10  # of the probability of an interval, so that no single row decides a mean


class NotApplicable(ValueError):  # noqa: N818 - a reason, not a fault
    """The method cannot, or should not, be run on this problem; the message says why."""


class Predictive(Protocol):
    """Distributions of Q queries. For outputs of shape (N,) the trailing d axis is absent."""

    def logpdf_pairs(self, Y: ArrayLike) -> Array:
        """Log density of query i at Y[i], (Q,)."""

    def pdf(self, y: ArrayLike) -> Array:
        """Density of every query at every point, (Q, G)."""

    def sample(self, n: int, random_state: Any = None) -> Array:
        """Draws of each query, (Q, n) or (Q, n, d)."""

    def mean(self) -> Array:
        """Means, (Q,) or (Q, d)."""

    def std(self) -> Array:
        """Standard deviations, (Q,) or (Q, d)."""


class Method(Protocol):
    """A conditional density estimator. One-output predictives also have ``quantile(levels)``.

    ``cdf(y)``, (Q, G), and ``crps(Y)``, (Q,), are there where they are exact.
    """

    name: str

    def fit(self, X: Array, Y: Array) -> Self:
        """Learn from rows of inputs (N, p) and outputs (N,) or (N, d)."""

    def conditional(self, X: Array) -> Predictive:
        """Distributions of the outputs given each row."""


def held_out_split(n: int, seed: int) -> tuple[Integers, Integers]:
    """Return the rows that judge a choice, a fifth, and those that learn."""
    rows = np.random.default_rng(seed).permutation(n)
    return rows[: n // 5], rows[n // 5 :]


def log_probability(below: Array, above: Array) -> Array:
    """Return log(F(y + gap/2) - F(y - gap/2)) of a rounded y, at least log 1e-10."""
    return np.log(np.maximum(above - below, _LEAST))


class Rival:
    """Base of the rivals: standardises inputs and outputs, and maps predictions back.

    Parameters
    ----------
    seed : int
        Decides everything random.
    gap : float
        Distance between the values of a rounded output, 0 for a continuous one. Widths that
        held-out rows choose are then judged by the probability of the rounding interval, and
        methods without a width learn from outputs with noise of one gap. No scale has a floor:
        a rounded output is to be scored by :func:`log_probability`, which rewards no spikes.
    """

    name = ""

    def __init__(self, seed: int = 0, gap: float = 0.0) -> None:
        self.seed = seed
        self.gap = gap

    def fit(self, X: Array, Y: Array) -> Self:
        """Learn from rows of inputs (N, p) and outputs (N,) or (N, d)."""
        X, Y = np.asarray(X, dtype=float), np.asarray(Y, dtype=float)
        self._flat = Y.ndim == 1
        Y = Y.reshape(len(Y), -1)
        self._varies = X.std(axis=0) > 1e-12 * (1 + np.abs(X).max(axis=0))
        X = X[:, self._varies]
        self._x_centre, self._x_scale = X.mean(axis=0), X.std(axis=0)
        self._y_centre, self._y_scale = Y.mean(axis=0), Y.std(axis=0)
        self._gap = self.gap / self._y_scale  # (d,), in standardised units
        self._fit((X - self._x_centre) / self._x_scale, (Y - self._y_centre) / self._y_scale)
        return self

    def conditional(self, X: Array) -> "Rescaled":
        """Distributions of the outputs given each row."""
        X = np.asarray(X, dtype=float)[:, self._varies]
        inner = self._conditional((X - self._x_centre) / self._x_scale)
        return Rescaled(inner, self._y_centre, self._y_scale, self._flat)

    def _fit(self, X: Array, Y: Array) -> None:
        raise NotImplementedError

    def _conditional(self, X: Array) -> Any:
        raise NotImplementedError


class Rescaled:
    """A predictive in standardised units, always with a d axis, seen in the user's units."""

    def __init__(self, inner: Any, centre: Array, scale: Array, flat: bool) -> None:
        self._inner, self._centre, self._scale, self._flat = inner, centre, scale, flat

    def logpdf_pairs(self, Y: ArrayLike) -> Array:
        """Log density of query i at Y[i], (Q,)."""
        return self._inner.logpdf_pairs(self._standard(Y)) - np.log(self._scale).sum()

    def pdf(self, y: ArrayLike) -> Array:
        """Density of every query at every point, (Q, G)."""
        return self._inner.pdf(self._standard(y)) / self._scale.prod()

    def cdf(self, y: ArrayLike) -> Array:
        """P(Y <= y) for one output, (Q, G)."""
        return self._inner.cdf(self._standard(y))

    def crps(self, Y: ArrayLike) -> Array:
        """Continuous ranked probability score of query i at Y[i] for one output, (Q,)."""
        return self._inner.crps(self._standard(Y)) * self._scale[0]

    def quantile(self, levels: ArrayLike) -> Array:
        """Quantiles of one output, (Q, len(levels))."""
        return self._inner.quantile(np.asarray(levels, float)) * self._scale[0] + self._centre[0]

    def sample(self, n: int, random_state: Any = None) -> Array:
        """Draws of each query, (Q, n) or (Q, n, d)."""
        rng = np.random.default_rng(random_state)
        return self._shaped(self._inner.sample(n, rng) * self._scale + self._centre)

    def mean(self) -> Array:
        """Means, (Q,) or (Q, d)."""
        return self._shaped(self._inner.mean() * self._scale + self._centre)

    def std(self) -> Array:
        """Standard deviations, (Q,) or (Q, d)."""
        return self._shaped(self._inner.std() * self._scale)

    def _standard(self, y: ArrayLike) -> Array:
        points = np.asarray(y, dtype=float)
        return (points.reshape(len(points), -1) - self._centre) / self._scale

    def _shaped(self, values: Array) -> Array:
        return values[..., 0] if self._flat else values
