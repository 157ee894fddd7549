"""Mean embeddings μ_P = E k(x, ·): of weighted points and of Gaussians."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError, InvalidTypeError
from kcdo.inputs import GaussianInput
from kcdo.kernels import Kernel, cross_gram, expectation, gaussian_draws
from kcdo.kernels.gram import as_points

_BLOCK_ELEMENTS = 1 << 22


class MeanEmbedding(ABC):
    """The image of a distribution in the RKHS of ``kernel``; embeddings of one kernel compare."""

    kernel: Kernel

    @abstractmethod
    def __call__(self, points: ArrayLike) -> Array:
        """Return μ(y) = E k(x, y) at each of the points, (G,)."""

    @abstractmethod
    def mean_of(self, other: "MeanEmbedding") -> float:
        """Return the expectation of another embedding's function under this distribution."""

    @abstractmethod
    def candidates(self) -> Array:
        """Return points that cover the distribution, for herding."""

    def inner(self, other: "MeanEmbedding") -> float:
        """Return ⟨μ_P, μ_Q⟩ = E k(x, y), x ~ P and y ~ Q independent."""
        if self.kernel != other.kernel:
            raise InvalidInputError("embeddings of different kernels cannot be compared.")
        return self.mean_of(other)

    def norm(self) -> float:
        """Return ‖μ_P‖."""
        return float(np.sqrt(max(self.inner(self), 0.0)))

    def herd(self, n: int, candidates: ArrayLike | None = None) -> Array:
        """Return ``n`` super-samples: points whose plain average follows μ faster than draws do.

        Each next point maximises μ(x) - Σ_s k(x, x_s) / (t + 1) over the candidates (by default
        the embedding's own points), as in Chen, Welling, Smola (UAI 2010).

        Examples
        --------
        >>> from kcdo import Gaussian
        >>> SampleEmbedding([[0.0], [1.0], [2.0]], kernel=Gaussian(1.0)).herd(2).ravel()
        array([1., 0.])
        """
        if n < 1:
            raise InvalidInputError(f"herding needs n >= 1; got {n}.")
        pool = self.candidates() if candidates is None else as_points(candidates)
        target = self(pool)
        used = np.zeros(len(pool))
        chosen = np.empty(n, dtype=int)
        for t in range(n):  # each step needs the previous ones
            chosen[t] = int(np.argmax(target - used / (t + 1)))
            used += cross_gram(self.kernel, pool, pool[chosen[t]][None])[:, 0]
        return pool[chosen]


@dataclass(frozen=True, eq=False)
class SampleEmbedding(MeanEmbedding):
    """Σ w_i k(x_i, ·): the embedding of a sample; weights may be signed.

    Examples
    --------
    >>> from kcdo import Gaussian
    >>> mu = SampleEmbedding([0.0, 2.0], kernel=Gaussian(1.0))
    >>> mu([0.0]).round(4)
    array([0.5677])
    """

    points: Array
    weights: Array
    kernel: Kernel

    def __init__(
        self, points: ArrayLike, weights: ArrayLike | None = None, *, kernel: Kernel
    ) -> None:
        array = as_points(points)
        if len(array) == 0:
            raise InvalidInputError("an embedding needs at least one point; got none.")
        w = np.full(len(array), 1.0 / len(array))
        w = w if weights is None else np.asarray(weights, dtype=float)
        if w.shape != (len(array),) or not np.all(np.isfinite(w)):
            raise InvalidInputError("weights must be one finite number per point.")
        object.__setattr__(self, "points", array)
        object.__setattr__(self, "weights", w)
        object.__setattr__(self, "kernel", kernel)

    def __call__(self, points: ArrayLike) -> Array:
        """Return μ at the points, in blocks of kernel values."""
        where = as_points(points)
        out = np.empty(len(where))
        step = max(1, _BLOCK_ELEMENTS // len(self.points))
        for start in range(0, len(where), step):
            rows = slice(start, start + step)
            out[rows] = cross_gram(self.kernel, where[rows], self.points) @ self.weights
        return out

    def mean_of(self, other: MeanEmbedding) -> float:
        """Return Σ w_i μ_other(x_i)."""
        return float(self.weights @ other(self.points))

    def candidates(self) -> Array:
        """Return the points."""
        return self.points


@dataclass(frozen=True, eq=False)
class GaussianEmbedding(MeanEmbedding):
    """The embedding of N(mean, cov): closed form where the kernel has one, else quasi-random.

    Examples
    --------
    >>> from kcdo import Gaussian
    >>> GaussianEmbedding([0.0], [[3.0]], kernel=Gaussian(1.0))([0.0])
    array([0.5])
    """

    gaussian: GaussianInput
    kernel: Kernel

    def __init__(self, mean: ArrayLike, cov: ArrayLike, *, kernel: Kernel) -> None:
        gaussian = GaussianInput(np.atleast_2d(np.asarray(mean, dtype=float)), cov)
        if len(gaussian) != 1:
            raise InvalidInputError("GaussianEmbedding takes one mean of shape (d,).")
        object.__setattr__(self, "gaussian", gaussian)
        object.__setattr__(self, "kernel", kernel)

    def __call__(self, points: ArrayLike) -> Array:
        """Return μ at the points."""
        return expectation(self.kernel, as_points(points), self.gaussian).values[0]

    def mean_of(self, other: MeanEmbedding) -> float:
        """Return E k(x, y): the difference of two independent Gaussians is Gaussian."""
        if isinstance(other, SampleEmbedding):
            return other.mean_of(self)
        if not isinstance(other, GaussianEmbedding):
            raise InvalidTypeError(f"cannot compare with {type(other).__name__}.")
        if not self.kernel.stationary:
            return float(other(self.candidates()).mean())
        # k(x, y) depends on x - y ~ N(m - m', Σ + Σ'): a point against one wider Gaussian
        a, b = self.gaussian, other.gaussian
        diagonal = a.diagonal and b.diagonal
        cov = a.cov + b.cov if diagonal else a.full_cov() + b.full_cov()
        wider = GaussianInput(b.mean, cov, n_points=1 << 14)
        return float(expectation(self.kernel, a.mean, wider).values[0, 0])

    def candidates(self) -> Array:
        """Return quasi-random points of the Gaussian."""
        return gaussian_draws(self.gaussian)[0]


def mmd(first: MeanEmbedding, second: MeanEmbedding) -> float:
    """Return the maximum mean discrepancy ‖μ_P - μ_Q‖.

    Examples
    --------
    >>> from kcdo import Gaussian
    >>> p = SampleEmbedding([0.0], kernel=Gaussian(1.0))
    >>> mmd(p, SampleEmbedding([1e9], kernel=Gaussian(1.0))).__round__(4)
    1.4142
    """
    squared = first.inner(first) + second.inner(second) - 2.0 * first.inner(second)
    return float(np.sqrt(max(squared, 0.0)))
