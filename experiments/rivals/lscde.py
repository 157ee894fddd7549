"""Least-squares conditional density estimation.

Sugiyama, Takeuchi, Suzuki, Kanamori, Hachiya and Okanohara: Conditional density estimation via
least-squares density ratio estimation (AISTATS 2010). Gaussian basis functions of one width at
randomly chosen rows, coefficients in closed form, negative ones set to zero; width and ridge by
cross-validation of the squared loss. As there, one width for standardised inputs and outputs.
"""

import numpy as np
from scipy.linalg import eigh

from kcdo.arrays import Array
from kcdo.rivals.base import Rival
from kcdo.rivals.mixtures import Mixture

_CENTRES = 200
_WIDTHS = np.geomspace(0.05, 5.0, 13)
_RIDGES = np.geomspace(1e-4, 10.0, 11)
_FOLDS = 5
_TUNED_ON = 5000


class LSCDE(Rival):
    """p(y | x) ∝ Σ_l α_l φ_l(x, y), with φ_l(x, y) = exp(-(|x - u_l|² + |y - v_l|²) / 2σ²)."""

    name = "lscde"

    def _fit(self, X: Array, Y: Array) -> None:
        rng = np.random.default_rng(self.seed)
        rows = rng.permutation(len(X))
        self._U, self._V = X[rows[:_CENTRES]], Y[rows[:_CENTRES]]
        part = rows[:_TUNED_ON]
        self.width, self.ridge = self._tuned(X[part], Y[part])
        H, h = moments(X, Y, self._U, self._V, self.width)
        self.alpha = np.linalg.solve(H + self.ridge * np.eye(len(H)), h)

    def _tuned(self, X: Array, Y: Array) -> tuple[float, float]:
        """Width and ridge of the least held-out ½ αᵀHα - hᵀα."""
        folds = np.arange(len(X)) % _FOLDS
        lowest = np.inf, 0.0, 0.0
        for width in _WIDTHS:
            losses = np.zeros(len(_RIDGES))
            parts = [
                moments(X[folds == k], Y[folds == k], self._U, self._V, width)
                for k in range(_FOLDS)
            ]
            for k, (H_out, h_out) in enumerate(parts):
                others = [parts[j] for j in range(_FOLDS) if j != k]
                H, h = (np.mean([part[i] for part in others], axis=0) for i in (0, 1))
                values, vectors = eigh(H)
                alphas = vectors @ ((vectors.T @ h)[:, None] / (values[:, None] + _RIDGES))
                alphas = np.maximum(alphas, 0)
                losses += 0.5 * (alphas * (H_out @ alphas)).sum(axis=0) - h_out @ alphas
            best = losses.argmin()
            lowest = min(lowest, (losses[best], width, _RIDGES[best]))
        return lowest[1:]

    def _conditional(self, X: Array) -> Mixture:
        weights = np.maximum(self.alpha, 0) * _gaussian(X, self._U, self.width)
        return Mixture.on_centres(weights, self._V, np.full(self._V.shape[1], self.width))


def moments(X: Array, Y: Array, U: Array, V: Array, width: float) -> tuple[Array, Array]:
    """H_lm = mean_i ∫ φ_l(x_i, y) φ_m(x_i, y) dy and h_l = mean_i φ_l(x_i, y_i)."""
    inputs = _gaussian(X, U, width)
    overlap = (np.sqrt(np.pi) * width) ** V.shape[1] * _gaussian(V, V, np.sqrt(2) * width)
    return inputs.T @ inputs / len(X) * overlap, (inputs * _gaussian(Y, V, width)).mean(axis=0)


def _gaussian(X: Array, U: Array, width: float) -> Array:
    squares = (X**2).sum(axis=1)[:, None] + (U**2).sum(axis=1) - 2 * X @ U.T
    return np.exp(-0.5 * np.maximum(squares, 0) / width**2)
