"""Conditional kernel density estimates: p(y | x) = Σ_i w_i(x) N(y; y_i, h_y²).

The weights w_i(x) are Gaussian kernels of the inputs, normalised (Rosenblatt 1969). Two choices of
the bandwidths: likelihood cross-validation (Hall, Racine and Li 2004), and those of statsmodels.
"""

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from kcdo.arrays import Array
from kcdo.rivals.base import Rival
from kcdo.rivals.mixtures import Mixture

_TUNED_ON = 1000
_KEPT = 10_000  # centres, a random subset of the rows beyond
_STATSMODELS_ROWS = 250  # up to here its cross-validation takes seconds


class ConditionalKDE(Rival):
    """Bandwidths, one for each column, by leave-one-out likelihood with its gradient, L-BFGS.

    Learnt on at most 1000 rows and shrunk to all rows by the rate n^(-1/(p + d + 4)).
    """

    name = "ckde"

    def _fit(self, X: Array, Y: Array) -> None:
        chosen = np.random.default_rng(self.seed).permutation(len(X))
        part, kept = chosen[:_TUNED_ON], chosen[:_KEPT]
        bandwidths = self._bandwidths(X[part], Y[part])
        shrink = (len(part) / len(kept)) ** (1 / (X.shape[1] + Y.shape[1] + 4))
        self._set(bandwidths * shrink, X[kept], Y[kept])

    def _set(self, bandwidths: Array, X: Array, Y: Array) -> None:
        self._h_x, self._h_y = np.split(bandwidths, [X.shape[1]])
        self._X, self._Y = X, Y

    def _bandwidths(self, X: Array, Y: Array) -> Array:
        p, d = X.shape[1], Y.shape[1]
        rule = np.full(p + d, 1.06 * len(X) ** (-1 / (4 + p + d)))
        bounds = [(np.log(0.01), np.log(100.0))] * p + [(np.log(0.01), np.log(3.0))] * d
        low, high = np.array(bounds).T
        runs = [
            minimize(
                loo_negative_log_likelihood, np.clip(np.log(rule * factor), low, high), (X, Y),
                jac=True, bounds=bounds, method="L-BFGS-B", options={"maxiter": 60},
            )
            for factor in (0.5, 2.0)
        ]  # fmt: skip
        return np.exp(min(runs, key=lambda run: run.fun).x)

    def _conditional(self, X: Array) -> Mixture:
        exponent = -0.5 * _distances(X / self._h_x, self._X / self._h_x)
        weights = np.exp(exponent - exponent.max(axis=1, keepdims=True))
        return Mixture.on_centres(weights, self._Y, self._h_y)


class StatsmodelsKDE(ConditionalKDE):
    """``statsmodels`` KDEMultivariateConditional: its bandwidths, its (Gaussian) kernels.

    Maximum likelihood cross-validation ("cv_ml") up to 250 rows and two inputs, the normal
    reference rule beyond, as its documentation advises for large data. The density is evaluated by
    our own formula, which equals its ``pdf`` but for 1 % of tail.
    """

    name = "ckde-statsmodels"

    def _fit(self, X: Array, Y: Array) -> None:
        from statsmodels.nonparametric.kernel_density import KDEMultivariateConditional

        kept = np.random.default_rng(self.seed).permutation(len(X))[:_KEPT]
        X, Y = X[kept], Y[kept]
        small = len(X) <= _STATSMODELS_ROWS and X.shape[1] + Y.shape[1] <= 3
        self.rule = "cv_ml" if small else "normal_reference"
        types = "c" * Y.shape[1], "c" * X.shape[1]
        fitted = KDEMultivariateConditional(Y, X, *types, bw=self.rule)
        self._set(np.roll(np.abs(fitted.bw), X.shape[1]), X, Y)  # its order: outputs, inputs


def loo_negative_log_likelihood(theta: Array, X: Array, Y: Array) -> tuple[float, Array]:
    """-mean_i log p_{-i}(y_i | x_i) and its gradient; θ are logs of bandwidths, inputs first."""
    p = X.shape[1]
    Z, V = X / np.exp(theta[:p]), Y / np.exp(theta[p:])
    of_x = -0.5 * _distances(Z, Z)
    np.fill_diagonal(of_x, -np.inf)
    of_xy = of_x - 0.5 * _distances(V, V)
    joint, marginal = logsumexp(of_xy, axis=1), logsumexp(of_x, axis=1)
    constant = theta[p:].sum() + 0.5 * Y.shape[1] * np.log(2 * np.pi)
    posterior = np.exp(of_xy - joint[:, None])
    excess = posterior - np.exp(of_x - marginal[:, None])
    gradient = np.r_[_moments(excess, Z), _moments(posterior, V) - len(X)]
    return constant - (joint - marginal).mean(), -gradient / len(X)


def _moments(A: Array, Z: Array) -> Array:
    """Σ_ij A_ij (z_ik - z_jk)² for every column k."""
    return A.sum(axis=1) @ Z**2 + A.sum(axis=0) @ Z**2 - 2 * (Z * (A @ Z)).sum(axis=0)


def _distances(Z: Array, W: Array) -> Array:
    squares = (Z**2).sum(axis=1)[:, None] + (W**2).sum(axis=1) - 2 * Z @ W.T
    return np.maximum(squares, 0)
