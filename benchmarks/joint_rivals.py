"""Joint distributions by other means: independent marginals, copulas, a normal, a forest, a flow.

Each method has ``fit(X, Y)``, then ``logpdf_pairs(X, Y)`` and ``sample(X, n, seed)``, (Q, n, d).
Those that join the marginals also have ``fit_to(fits)``: one fit of the marginals serves them all.
"""

import time
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.special import logsumexp, ndtri
from scipy.stats import norm
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.preprocessing import StandardScaler

import kcdo
from experiments.rivals.flows import ConditionalFlow
from kcdo.arrays import Array

_EDGE = 1e-6  # probabilities of copulas lie so far inside
_FOLDS = 5


class Joint:
    """The default of the library for several outputs."""

    def __init__(self, form: str = "auto") -> None:
        self._model = kcdo.ConditionalDensityOperator(joint=form)

    def fit(self, X: Array, Y: Array) -> Self:
        """Fit to all outputs at once."""
        self._model.fit(X, Y)
        return self

    def logpdf_pairs(self, X: Array, Y: Array) -> Array:
        """Return the log density of each row."""
        return self._model.conditional(X).logpdf_pairs(Y)

    def sample(self, X: Array, n: int, seed: int) -> Array:
        """Return draws."""
        return self._model.conditional(X).sample(n, random_state=seed)


class MarginalFits:
    """One univariate default for each output, and the processor time that they took."""

    def __init__(self, X: Array, Y: Array) -> None:
        started = time.process_time()
        self._X, self._Y = X, Y
        self.models = [kcdo.ConditionalDensityOperator().fit(X, y) for y in Y.T]
        self.seconds = time.process_time() - started

    @cached_property
    def ranks(self) -> Array:
        """Probabilities below the outputs of rows held out, (N, d)."""
        X, Y, ranks = self._X, self._Y, np.empty(self._Y.shape)
        for train, test in KFold(_FOLDS, shuffle=True, random_state=0).split(X):
            for j, model in enumerate(self.models):
                part = model.refit(X[train], Y[train, j])
                ranks[test, j] = _pit(part, X[test], Y[test, j])
        return np.clip(ranks, _EDGE, 1 - _EDGE)


class Marginals:
    """Independent marginals; a copula, fitted to held-out ranks, may join them."""

    def fit(self, X: Array, Y: Array) -> Self:
        """Fit the marginals, then the copula."""
        return self.fit_to(MarginalFits(X, Y))

    def fit_to(self, fits: MarginalFits) -> Self:
        """Join marginals that are fitted."""
        self.models = fits.models
        self.join(fits)
        return self

    def logpdf_pairs(self, X: Array, Y: Array) -> Array:
        """Return the sum of the marginals' log densities, and that of the copula."""
        logs = sum(m.conditional(X).logpdf_pairs(y) for m, y in zip(self.models, Y.T, strict=True))
        ranks = np.stack([_pit(m, X, y) for m, y in zip(self.models, Y.T, strict=True)], axis=1)
        return np.asarray(logs + self.log_copula(np.clip(ranks, _EDGE, 1 - _EDGE)))

    def sample(self, X: Array, n: int, seed: int) -> Array:
        """Return draws of the copula, mapped by the quantiles of the marginals."""
        draws = np.empty((len(X), n, len(self.models)))
        ranks = self.draw_ranks(n, seed)
        for j, model in enumerate(self.models):
            draws[:, :, j] = model.conditional(X).quantile(ranks[:, j])
        return draws

    def join(self, fits: MarginalFits) -> None:
        """Fit the copula to the ranks of the marginals."""

    def log_copula(self, ranks: Array) -> Array:
        """Return the log density of the copula."""
        return np.zeros(len(ranks))

    def draw_ranks(self, n: int, seed: int) -> Array:
        """Return draws of the copula, (n, d)."""
        return np.random.default_rng(seed).random((n, len(self.models)))


class GaussianCopula(Marginals):
    """Marginals joined by the correlation of their normal scores."""

    def join(self, fits: MarginalFits) -> None:
        """Learn the correlation, shrunk a little."""
        ranks = fits.ranks
        n, d = ranks.shape
        found = np.corrcoef(ndtri(ranks), rowvar=False)
        share = d / (n + d)
        self.correlation = (1 - share) * found + share * np.eye(d)

    def log_copula(self, ranks: Array) -> Array:
        """Return log N(z; 0, R) - Σ log N(z_j; 0, 1)."""
        scores = ndtri(ranks)
        extra = np.linalg.inv(self.correlation) - np.eye(len(self.correlation))
        squares = np.einsum("qd,de,qe->q", scores, extra, scores)
        return -0.5 * (squares + np.linalg.slogdet(self.correlation)[1])

    def draw_ranks(self, n: int, seed: int) -> Array:
        """Return draws of the copula."""
        root = np.linalg.cholesky(self.correlation)
        normal = np.random.default_rng(seed).standard_normal((n, len(root)))
        return np.asarray(norm.cdf(normal @ root.T))


class Vine(Marginals):
    """Marginals joined by a vine copula (pyvinecopulib)."""

    def join(self, fits: MarginalFits) -> None:
        """Choose the vine and its pair copulas."""
        import pyvinecopulib as pv  # a rival, not among the dependencies

        controls = pv.FitControlsVinecop(selection_criterion="aic", trunc_lvl=4)
        self.vine: Any = pv.Vinecop.from_data(fits.ranks, controls=controls)

    def log_copula(self, ranks: Array) -> Array:
        """Return the log density of the vine."""
        return np.log(np.maximum(self.vine.pdf(ranks), 1e-300))

    def draw_ranks(self, n: int, seed: int) -> Array:
        """Return draws of the vine."""
        return np.asarray(self.vine.simulate(n, seeds=[seed + 1]))


class RidgeNormal:
    """A normal about ridge regression, with the covariance of held-out residuals."""

    def fit(self, X: Array, Y: Array) -> Self:
        """Fit the regression and the covariance."""
        self._scale = StandardScaler().fit(X)
        ridge = RidgeCV(np.logspace(-3, 5, 25))
        inputs = self._scale.transform(X)
        held_out = cross_val_predict(
            ridge, inputs, Y, cv=KFold(_FOLDS, shuffle=True, random_state=0)
        )
        n, d = Y.shape
        cov = np.cov((Y - held_out).T) + 1e-9 * np.eye(d)
        share = d / (n + d)
        self._cov = (1 - share) * cov + share * np.diag(np.diag(cov))
        self._ridge = ridge.fit(inputs, Y)
        return self

    def logpdf_pairs(self, X: Array, Y: Array) -> Array:
        """Return the log density of each row."""
        gap = Y - self._ridge.predict(self._scale.transform(X))
        squares = np.einsum("qd,de,qe->q", gap, np.linalg.inv(self._cov), gap)
        constant = np.linalg.slogdet(2 * np.pi * self._cov)[1]
        return -0.5 * (squares + constant)

    def sample(self, X: Array, n: int, seed: int) -> Array:
        """Return draws."""
        root = np.linalg.cholesky(self._cov)
        mean = self._ridge.predict(self._scale.transform(X))
        noise = np.random.default_rng(seed).standard_normal((len(X), n, len(root)))
        return np.asarray(mean[:, None] + noise @ root.T)


class Forest:
    """Training outputs weighted by how often they share a leaf, with normal bumps about them."""

    def fit(self, X: Array, Y: Array) -> Self:
        """Fit the forest; the width of the bumps is that of highest out-of-bag log score."""
        self._forest = RandomForestRegressor(300, min_samples_leaf=5, random_state=0, n_jobs=1)
        self._forest.fit(X, Y)
        self._Y, self._leaves = Y, self._forest.apply(X)
        weights = self._weights(self._leaves)
        np.fill_diagonal(weights, 0.0)
        weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
        widths = np.geomspace(0.03, 1.0, 12)
        scores = [self._logs(weights, Y, width).mean() for width in widths]
        self._width = widths[int(np.argmax(scores))]
        return self

    def logpdf_pairs(self, X: Array, Y: Array) -> Array:
        """Return the log density of each row."""
        return self._logs(self._weights(self._forest.apply(X)), Y, self._width)

    def sample(self, X: Array, n: int, seed: int) -> Array:
        """Return draws: outputs of training rows, and the noise of a bump."""
        rng = np.random.default_rng(seed)
        weights = self._weights(self._forest.apply(X))
        rows = np.stack([rng.choice(len(self._Y), n, p=w / w.sum()) for w in weights])
        return self._Y[rows] + self._width * rng.standard_normal((*rows.shape, self._Y.shape[1]))

    def _weights(self, leaves: Array) -> Array:
        weights = np.zeros((len(leaves), len(self._leaves)))
        for here, known in zip(leaves.T, self._leaves.T, strict=True):
            same = here[:, None] == known[None, :]
            weights += same / np.maximum(same.sum(axis=1, keepdims=True), 1)
        return weights / leaves.shape[1]

    def _logs(self, weights: Array, Y: Array, width: float) -> Array:
        d = Y.shape[1]
        squares = ((Y[:, None] - self._Y[None]) ** 2).sum(axis=2) / width**2
        normal = -0.5 * squares - d * np.log(np.sqrt(2 * np.pi) * width)
        with np.errstate(divide="ignore"):
            return np.asarray(logsumexp(normal + np.log(weights), axis=1))


class Flow:
    """A conditional masked autoregressive flow (flowjax), as among the rivals of one output."""

    def fit(self, X: Array, Y: Array) -> Self:
        """Train the flow."""
        self._flow = ConditionalFlow(kind="maf").fit(X, Y)
        return self

    def logpdf_pairs(self, X: Array, Y: Array) -> Array:
        """Return the log density of each row."""
        return self._flow.conditional(X).logpdf_pairs(Y)

    def sample(self, X: Array, n: int, seed: int) -> Array:
        """Return draws."""
        return self._flow.conditional(X).sample(n, random_state=seed)


def _pit(model: Any, X: Array, y: Array) -> Array:
    """Return the probability below each output."""
    return kcdo.metrics.pit_values(model.conditional(X), y)


METHODS: dict[str, Any] = {
    "kcdo": Joint,
    "kcdo-marginals": Marginals,
    "gaussian-copula": GaussianCopula,
    "vine": Vine,
    "ridge-normal": RidgeNormal,
    "forest": Forest,
    "maf": Flow,
}
NEEDS = {"vine": "pyvinecopulib", "maf": "flowjax"}  # packages of the extra "rivals"
