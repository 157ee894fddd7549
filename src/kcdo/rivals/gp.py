"""Exact Gaussian process regression with per-dimension scales, by marginal likelihood.

Rasmussen and Williams (2006), chapters 2 and 5. Kernel family (Gaussian or Matérn 3/2), scales,
signal and noise variance by the marginal likelihood and its gradient, L-BFGS from two starts.
Rows with the same inputs enter by their mean and the spread around it, which is exact too.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.linalg.lapack import dpotri
from scipy.optimize import minimize

from kcdo.arrays import Array, Integers
from kcdo.rivals.base import Rival
from kcdo.rivals.mixtures import Mixture

_FIRST = 1500  # distinct inputs for the marginal likelihood of both families
_EXACT_UP_TO = 12_000  # distinct inputs conditioned on; beyond, a random subset of the next size
_SUBSET = 8000
_QUERIES = 500
_BOUNDS = {"scale": (-4.0, 7.0), "signal": (-4.0, 4.0), "noise": (-7.0, 1.0)}  # logs of sds


class ExactGP(Rival):
    """Independent exact GPs for the outputs."""

    name = "gp"

    def __init__(self, seed: int = 0, gap: float = 0.0, *, learnt_on: int = _FIRST) -> None:
        super().__init__(seed, gap)
        self.learnt_on = learnt_on  # distinct inputs; beyond 1500 only the better family goes on

    def _fit(self, X: Array, Y: Array) -> None:
        rng = np.random.default_rng(self.seed)
        data = [Rows.of(X, y) for y in Y.T]
        distinct = len(data[0].X)
        learn = rng.permutation(distinct)[: self.learnt_on]
        large = distinct > _EXACT_UP_TO
        kept = rng.permutation(distinct)[:_SUBSET] if large else np.arange(distinct)
        self._processes = [_Process(*_learn(rows.part(learn)), rows.part(kept)) for rows in data]

    def _conditional(self, X: Array) -> Mixture:
        predictions = [process.predict(X) for process in self._processes]
        mean = np.stack([m for m, _ in predictions], axis=1)
        sd = np.stack([s for _, s in predictions], axis=1)
        return Mixture.normal(mean, sd)


@dataclass(frozen=True)
class Rows:
    """Distinct inputs, how often each occurs, the means of their outputs and squares around them.

    Under normal noise nothing else of the outputs matters.
    """

    X: Array
    y: Array
    counts: Array
    squares: Array

    @classmethod
    def of(cls, X: Array, y: Array) -> "Rows":
        """Rows gathered by their inputs; in their own order where all differ."""
        inputs, member, counts = np.unique(X, axis=0, return_inverse=True, return_counts=True)
        if len(inputs) == len(X):
            return cls(X, y, np.ones(len(X)), np.zeros(len(X)))
        member = member.ravel()
        mean = np.bincount(member, y) / counts
        squares = np.asarray(np.bincount(member, (y - mean[member]) ** 2), dtype=float)
        return cls(inputs, mean, counts.astype(float), squares)

    def part(self, chosen: Integers) -> "Rows":
        """The rows of some inputs."""
        return Rows(self.X[chosen], self.y[chosen], self.counts[chosen], self.squares[chosen])


class _Process:
    """A GP with known parameters, conditioned on all rows."""

    def __init__(self, family: str, theta: Array, rows: Rows) -> None:
        self._family = family
        self._scales, self._signal, self._noise = _unpack(theta)
        self._X = rows.X
        K = self._signal * _kernel(family, rows.X / self._scales, rows.X / self._scales)
        K[np.diag_indices_from(K)] += self._noise / rows.counts
        self._factor = cholesky(K, lower=True, overwrite_a=True, check_finite=False)
        self._weights = cho_solve((self._factor, True), rows.y, check_finite=False)

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of an observation at each row."""
        parts = [self._part(X[i : i + _QUERIES]) for i in range(0, len(X), _QUERIES)]
        return np.concatenate([m for m, _ in parts]), np.concatenate([s for _, s in parts])

    def _part(self, X: Array) -> tuple[Array, Array]:
        K = self._signal * _kernel(self._family, self._X / self._scales, X / self._scales)
        half = solve_triangular(self._factor, K, lower=True, check_finite=False)
        variance = self._signal - (half**2).sum(axis=0)
        return K.T @ self._weights, np.sqrt(np.maximum(variance, 0) + self._noise)


def _learn(rows: Rows) -> tuple[str, Array]:
    """Family and logs of (scales, signal sd, noise sd) of highest marginal likelihood."""
    first = rows.part(np.arange(min(_FIRST, len(rows.y))))
    n, p = first.X.shape
    starts = [np.r_[np.full(p, 0.5 * np.log(p) + shift), 0.0, noise] for shift, noise in _STARTS]
    found: list[tuple[float, str, Array]] = []
    for family in ("gaussian", "matern32"):
        # The second family starts where the first one ended; small problems have two starts.
        tries = starts if n <= 500 else starts[:1]
        for start in [found[-1][2]] if found and n > 500 else tries:
            found.append(_descend(start, family, first))
    best = min(found, key=lambda item: item[0])
    return (_descend(best[2], best[1], rows) if len(rows.y) > n else best)[1:]


def _descend(start: Array, family: str, rows: Rows) -> tuple[float, str, Array]:
    p = rows.X.shape[1]
    bounds = [_BOUNDS["scale"]] * p + [_BOUNDS["signal"], _BOUNDS["noise"]]
    run = minimize(
        negative_log_likelihood, start, (family, rows), jac=True, bounds=bounds,
        method="L-BFGS-B", options={"maxiter": 60},
    )  # fmt: skip
    return run.fun, family, run.x


_STARTS = ((0.0, np.log(0.1)), (1.0, np.log(0.5)))


def negative_log_likelihood(theta: Array, family: str, rows: Rows) -> tuple[float, Array]:
    """-log p(y | X, θ) and its gradient; θ are logs of scales, signal sd and noise sd."""
    scales, signal, noise = _unpack(theta)
    Z, n = rows.X / scales, len(rows.y)
    R = _kernel(family, Z, Z)
    K = signal * R
    K[np.diag_indices(n)] += noise / rows.counts + 1e-9
    try:
        factor = cholesky(K, lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        return 1e10, np.zeros_like(theta)
    alpha = cho_solve((factor, True), rows.y, check_finite=False)
    value = 0.5 * rows.y @ alpha + np.log(np.diag(factor)).sum() + 0.5 * n * np.log(2 * np.pi)
    inverse = dpotri(factor, lower=1)[0]
    inverse = np.tril(inverse) + np.tril(inverse, -1).T
    G = inverse - np.outer(alpha, alpha)  # ∂value = ½ tr(G ∂K)
    A = signal * G * _slope(family, Z, R)
    # Σ_ij A_ij (z_ik - z_jk)² for every k without an array of (n, n, p)
    squares = 2 * (A.sum(axis=1) @ Z**2 - (Z * (A @ Z)).sum(axis=0))
    around, of_noise = _around_means(rows, noise)
    of_noise += noise * (np.diag(G) / rows.counts).sum()
    return value + around, np.r_[0.5 * squares, signal * (G * R).sum(), of_noise]


def _around_means(rows: Rows, noise: float) -> tuple[float, float]:
    """What repeated inputs add to the likelihood, and its slope in the log of the noise sd."""
    freedom, total = (rows.counts - 1).sum(), rows.squares.sum()
    value = 0.5 * (freedom * np.log(2 * np.pi * noise) + np.log(rows.counts).sum() + total / noise)
    return value, freedom - total / noise


def _unpack(theta: Array) -> tuple[Array, float, float]:
    """Scales, signal variance, noise variance."""
    return np.exp(theta[:-2]), float(np.exp(2 * theta[-2])), float(np.exp(2 * theta[-1]))


def _kernel(family: str, Z: Array, W: Array) -> Array:
    squares = _squared_distances(Z, W)
    if family == "gaussian":
        return np.exp(-0.5 * squares)
    r = np.sqrt(3 * squares)
    return (1 + r) * np.exp(-r)


def _slope(family: str, Z: Array, R: Array) -> Array:
    """The factor c with ∂R_ij/∂log scale_k = c_ij (z_ik - z_jk)²."""
    if family == "gaussian":
        return R
    return 3 * np.exp(-np.sqrt(3 * _squared_distances(Z, Z)))


def _squared_distances(Z: Array, W: Array) -> Array:
    squares = (Z**2).sum(axis=1)[:, None] + (W**2).sum(axis=1) - 2 * Z @ W.T
    return np.maximum(squares, 0)
