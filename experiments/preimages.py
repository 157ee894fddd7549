"""Distributional pre-images: Gaussian mixtures fitted to a mean embedding in RKHS norm.

Song, Zhang, Smola, Gretton and Schölkopf: Tailoring density estimation via reproducing kernel
moment matching (ICML 2008). With ℓ(z, ·) = N(z, σ²I) and p_θ = Σ_k w_k N(m_k, s_k² I),

    ‖μ̂ - μ_θ‖² = ‖μ̂‖² - 2 Σ_k w_k mean_i N(y_i; m_k, s_k² + σ²)
                        + Σ_kl w_k w_l N(m_k; m_l, s_k² + s_l² + σ²),

which has no local structure that would make it convex: L-BFGS from several starts.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from kcdo.arrays import Array


@dataclass(frozen=True)
class IsotropicMixture:
    """Σ_k w_k N(m_k, s_k² I)."""

    weights: Array  # (K,)
    means: Array  # (K, d)
    sds: Array  # (K,)

    def pdf(self, points: Array) -> Array:
        """Density at points (G, d), (G,)."""
        return _normal(points[:, None, :] - self.means, self.sds**2) @ self.weights

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws, (n, d)."""
        chosen = rng.choice(len(self.weights), n, p=self.weights)
        noise = rng.standard_normal((n, self.means.shape[1]))
        return self.means[chosen] + self.sds[chosen, None] * noise

    def embedding(self, points: Array, scale: float) -> Array:
        """The mean embedding under the Gaussian density kernel of that scale, (G,)."""
        return _normal(points[:, None, :] - self.means, self.sds**2 + scale**2) @ self.weights


def preimage(
    points: Array, scale: float, components: int, seed: int, starts: int = 3
) -> IsotropicMixture:
    """The mixture whose embedding is nearest to that of the points, as far as L-BFGS finds it."""
    rng = np.random.default_rng(seed)
    n, d = points.shape
    runs = []
    for _ in range(starts):
        means = points[rng.choice(n, components, replace=False)]
        start = np.concatenate(
            [np.zeros(components), means.ravel(), np.full(components, np.log(scale))]
        )
        bounds = [(-8, 8)] * components + [(None, None)] * means.size
        bounds += [(np.log(0.05 * scale), np.log(np.ptp(points)))] * components
        found = minimize(
            squared_distance, start, (points, scale, components), jac=True, bounds=bounds,
            method="L-BFGS-B", options={"maxiter": 500},
        )  # fmt: skip
        runs.append(found)
    best = min(runs, key=lambda run: run.fun)
    return _unpack(best.x, components, d)


def squared_distance(
    theta: Array, points: Array, scale: float, components: int
) -> tuple[float, Array]:
    """‖μ̂ - μ_θ‖² - ‖μ̂‖² and its gradient; θ are logits, means, logs of sds."""
    n, d = points.shape
    w, m, s = (lambda p: (p.weights, p.means, p.sds))(_unpack(theta, components, d))
    to_data = points[:, None, :] - m  # (n, K, d)
    v = s**2 + scale**2
    A = _normal(to_data, v)
    between = m[:, None, :] - m
    v2 = (s**2)[:, None] + s**2 + scale**2
    B = _normal(between, v2)
    cross = A.mean(axis=0)
    value = w @ B @ w - 2 * w @ cross
    of_w = 2 * (B @ w - cross)
    pairs = w[:, None] * w * B
    of_m = -2 * (w / v)[:, None] * np.einsum("nk,nkd->kd", A, to_data) / n
    of_m -= 2 * np.einsum("kl,kld->kd", pairs / v2, between)
    slope_a = (A * _log_slope(to_data, v)).mean(axis=0)
    slope_b = (pairs * _log_slope(between, v2)).sum(axis=1)
    of_s = 4 * s**2 * (slope_b - w * slope_a)
    return float(value), np.concatenate([w * (of_w - w @ of_w), of_m.ravel(), of_s])


def _unpack(theta: Array, components: int, d: int) -> IsotropicMixture:
    logits, means, logs = np.split(theta, [components, components * (1 + d)])
    return IsotropicMixture(softmax(logits), means.reshape(components, d), np.exp(logs))


def _normal(differences: Array, variances: Array) -> Array:
    squares = (differences**2).sum(axis=-1)
    d = differences.shape[-1]
    return np.exp(-0.5 * squares / variances) / (2 * np.pi * variances) ** (d / 2)


def _log_slope(differences: Array, variances: Array) -> Array:
    """∂ log N / ∂ variance."""
    squares = (differences**2).sum(axis=-1)
    return 0.5 * (squares / variances - differences.shape[-1]) / variances
