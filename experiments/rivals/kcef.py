"""Kernel conditional exponential family, normalised numerically.

Arbel and Gretton: Kernel Conditional Exponential Family (AISTATS 2018). The model is
p(y | x) = q0(y) exp(T(x, y)) / Z(x), with T in the RKHS of k_X(x, x') k_Y(y, y'), and minimises
the score matching loss mean_b Σ_i [½ (∂_i T)² + ∂_i² T + ∂_i log q0 ∂_i T](x_b, y_b) + ½ λ |T|²,
which needs no Z. By the representer theorem

    T = -ξ / λ + Σ_(b,i) β_(b,i) k_X(x_b, ·) ∂_i k_Y(y_b, ·),   (G + n λ I) β = h / λ,

ξ = mean_b k_X(x_b, ·) Σ_i [∂_i² k_Y(y_b, ·) + ∂_i log q0(y_b) ∂_i k_Y(y_b, ·)].

Both kernels are Gaussian on standardised columns and q0 is a normal of sd 2, as there. The paper
chooses scales and λ by held-out score; as Z is at hand on a grid here, we choose them by held-out
log likelihood, which can only help. One or two outputs; discrete ones are dequantised.
"""

import itertools

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from experiments.rivals.rounding import dequantised
from kcdo.arrays import Array
from kcdo.rivals.base import NotApplicable, Rival
from kcdo.rivals.mixtures import crps_of_table

_ROWS = 3000
_TUNED_ON = 400
_X_SCALES, _Y_SCALES, _RIDGES = (0.3, 0.7, 1.5, 4.0), (0.3, 0.6, 1.2), (1e-4, 1e-3, 1e-2, 1e-1)
_BASE_SD = 2.0
_NODES = {1: 1000, 2: 150}  # for each axis
_TUNING_NODES = {1: 200, 2: 40}
_MARGIN = 0.8
_ELEMENTS = 1 << 22  # numbers in one temporary array


class KCEF(Rival):
    """Score matching in closed form, density by a grid."""

    name = "kcef"

    def _fit(self, X: Array, Y: Array) -> None:
        if Y.shape[1] > 2:
            raise NotApplicable("the normalising constant needs a grid: one or two outputs only")
        if len(X) > _ROWS:
            raise NotApplicable(f"the system has one row for each datum and output: N <= {_ROWS}")
        Y = dequantised(Y, self._gap, self.seed)
        self._box = np.stack([Y.min(axis=0) - _MARGIN, Y.max(axis=0) + _MARGIN])
        part = np.random.default_rng(self.seed).permutation(len(X))[:_TUNED_ON]
        held, rest = np.split(part, [len(part) // 4])
        nodes = _TUNING_NODES[Y.shape[1]]

        def score(choice: tuple[float, float, float]) -> float:
            model = ScoreMatching(X[rest], Y[rest], *choice)
            predictive = _GridPredictive(model, X[held], self._box, nodes)
            return float(np.nan_to_num(predictive.logpdf_pairs(Y[held]), nan=-1e6).mean())

        self.choice = max(itertools.product(_X_SCALES, _Y_SCALES, _RIDGES), key=score)
        self._model = ScoreMatching(X, Y, *self.choice)

    def _conditional(self, X: Array) -> "_GridPredictive":
        d = self._box.shape[1]
        return _GridPredictive(self._model, X, self._box, _NODES[d])


class ScoreMatching:
    """T for given scales and ridge."""

    def __init__(self, X: Array, Y: Array, x_scale: float, y_scale: float, ridge: float) -> None:
        self._X, self._Y, self._x_scale, self._s2, self._ridge = X, Y, x_scale, y_scale**2, ridge
        n, d = Y.shape
        self._slope = -Y / _BASE_SD**2  # ∂ log q0
        K = _gaussian(X, X, x_scale)
        r = Y[:, None, :] - Y[None, :, :]  # (b, a, d)
        k = K * np.exp(-0.5 * (r**2).sum(axis=2) / self._s2)
        G = -(r[..., :, None] * r[..., None, :]) / self._s2**2 + np.eye(d) / self._s2
        G = (k[..., None, None] * G).transpose(0, 2, 1, 3).reshape(n * d, n * d)
        G[np.diag_indices(n * d)] += n * ridge
        h = self._gradient_of_xi(k, r)
        beta = cho_solve(cho_factor(G, lower=True, overwrite_a=True), h.ravel() / ridge)
        self._beta = beta.reshape(n, d)

    def _gradient_of_xi(self, k: Array, r: Array) -> Array:
        """h_(a,j) = ∂'_j ξ(x_a, y_a), with r = y_b - y_a."""
        s2, d = self._s2, r.shape[2]
        radial = (r**2).sum(axis=2) / s2**3 - (d + 2) / s2**2
        along = np.einsum("bad,bd->ba", r, self._slope)
        terms = (radial - along / s2**2)[..., None] * r + self._slope[:, None, :] / s2
        return np.einsum("ba,bad->ad", k, terms) / len(k)

    def __call__(self, X: Array, y: Array) -> Array:
        """T(x_q, y_g), (Q, G)."""
        of_inputs = _gaussian(X, self._X, self._x_scale)
        return np.hstack([of_inputs @ self._of_outputs(block) for block in self._blocks(y)])

    def pairs(self, X: Array, Y: Array) -> Array:
        """T(x_q, y_q), (Q,)."""
        parts = [
            np.einsum("qn,nq->q", _gaussian(x, self._X, self._x_scale), self._of_outputs(y))
            for x, y in zip(self._blocks(X), self._blocks(Y), strict=True)
        ]
        return np.concatenate(parts)

    def _blocks(self, rows: Array) -> list[Array]:
        step = max(1, _ELEMENTS // len(self._Y))
        return [rows[i : i + step] for i in range(0, len(rows), step)]

    def _of_outputs(self, y: Array) -> Array:
        """The part of T that depends on y: (N, G)."""
        s2, n = self._s2, len(self._Y)
        squares = np.zeros((n, len(y)))
        of_slope, of_beta = np.zeros_like(squares), np.zeros_like(squares)
        for k in range(y.shape[1]):
            r = self._Y[:, k, None] - y[:, k]
            squares += r**2
            of_slope += self._slope[:, k, None] * r
            of_beta += self._beta[:, k, None] * r
        xi = squares / s2**2 - y.shape[1] / s2 - of_slope / s2
        return np.exp(-0.5 * squares / s2) * (-xi / (n * self._ridge) - of_beta / s2)


class _GridPredictive:
    """q0 exp(T) / Z with Z, moments and draws from equal cells of a box."""

    def __init__(self, model: ScoreMatching, X: Array, box: Array, nodes: int) -> None:
        self._model, self._X = model, X
        steps = (box[1] - box[0]) / nodes
        axes = [
            low + step * (np.arange(nodes) + 0.5) for low, step in zip(box[0], steps, strict=True)
        ]
        mesh = np.meshgrid(*axes, indexing="ij")
        self._steps, self._cells = steps, np.stack([m.ravel() for m in mesh], axis=1)
        logs = model(X, self._cells) + _log_base(self._cells)
        top = logs.max(axis=1, keepdims=True)
        masses = np.exp(logs - top)
        total = masses.sum(axis=1, keepdims=True)
        self._log_z = (top + np.log(total * steps.prod()))[:, 0]
        self._masses = masses / total

    def logpdf_pairs(self, Y: Array) -> Array:
        """Log density of query i at Y[i], (Q,)."""
        return self._model.pairs(self._X, Y) + _log_base(Y) - self._log_z

    def pdf(self, y: Array) -> Array:
        """Density of every query at every point, (Q, G)."""
        return np.exp(self._model(self._X, y) + _log_base(y) - self._log_z[:, None])

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws of each query, uniform within cells, (Q, n, d)."""
        cumulated = np.cumsum(self._masses, axis=1)
        uniforms = rng.random((len(cumulated), n)) * cumulated[:, -1:]
        chosen = np.stack([np.searchsorted(c, u) for c, u in zip(cumulated, uniforms, strict=True)])
        noise = rng.uniform(-0.5, 0.5, (*chosen.shape, len(self._steps)))
        return self._cells[chosen] + noise * self._steps

    def mean(self) -> Array:
        """Means, (Q, d)."""
        return self._masses @ self._cells

    def std(self) -> Array:
        """Standard deviations, (Q, d)."""
        return np.sqrt(np.maximum(self._masses @ self._cells**2 - self.mean() ** 2, 0))

    def quantile(self, levels: Array) -> Array:
        """Quantiles of one output, (Q, L)."""
        edges, cdf = self._table()
        return np.stack([np.interp(levels, row, edges) for row in cdf])

    def cdf(self, y: Array) -> Array:
        """P(Y <= y) of one output, (Q, G)."""
        edges, cdf = self._table()
        return np.stack([np.interp(y[:, 0], edges, row) for row in cdf])

    def crps(self, Y: Array) -> Array:
        """CRPS of one output, (Q,)."""
        return crps_of_table(*self._table(), Y[:, 0])

    def _table(self) -> tuple[Array, Array]:
        half = 0.5 * self._steps[0]
        edges = np.r_[self._cells[0, 0] - half, self._cells[:, 0] + half]
        return edges, np.hstack([np.zeros((len(self._X), 1)), np.cumsum(self._masses, axis=1)])


def _log_base(y: Array) -> Array:
    return (-0.5 * (y / _BASE_SD) ** 2 - np.log(_BASE_SD) - 0.5 * np.log(2 * np.pi)).sum(axis=1)


def _gaussian(X: Array, U: Array, scale: float) -> Array:
    squares = (X**2).sum(axis=1)[:, None] + (U**2).sum(axis=1) - 2 * X @ U.T
    return np.exp(-0.5 * np.maximum(squares, 0) / scale**2)
