"""kcdo inside MAPIE and crepes, as docs/ecosystem.md shows it."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin

import kcdo

pytest.importorskip("mapie", reason="needs the extra conformal; make ecosystem runs it")
pytest.importorskip("crepes", reason="needs the extra conformal; make ecosystem runs it")

from crepes import WrapRegressor
from mapie.conformity_scores import ResidualNormalisedScore
from mapie.regression import (
    ConformalizedQuantileRegressor,
    CrossConformalRegressor,
    SplitConformalRegressor,
)

LEVEL = 0.8
pytestmark = pytest.mark.filterwarnings("ignore:::mapie", "ignore:::crepes")


class Answer(RegressorMixin, BaseEstimator):
    """One answer of a fitted model as a regressor of its own."""

    def __init__(self, model, answer):
        self.model, self.answer = model, answer

    def fit(self, X, y):
        return self

    def predict(self, X):
        return self.answer(self.model.conditional(X))

    def __sklearn_is_fitted__(self):
        return True


@pytest.fixture(scope="module")
def parts():
    """Noise that grows with x, in three parts: to fit, to calibrate, to judge."""
    rng = np.random.default_rng(1)
    X = rng.uniform(0, 1, (1400, 1))
    y = np.sin(4 * X[:, 0]) + (0.05 + 0.4 * X[:, 0]) * rng.standard_normal(1400)
    return [(X[i:j], y[i:j]) for i, j in ((0, 200), (200, 800), (800, 1400))]


@pytest.fixture(scope="module")
def model(parts):
    return kcdo.ConditionalDensityOperator(selection="heuristic").fit(*parts[0])


def covers_and_adapts(limits, parts, adapts=True):
    X, y = parts[2]
    low, high = np.squeeze(limits).T
    assert np.mean((low <= y) & (y <= high)) == pytest.approx(LEVEL, abs=0.06)
    widths = high - low
    if adapts:
        assert widths[X[:, 0] > 0.8].mean() > 1.5 * widths[X[:, 0] < 0.2].mean()
    return widths.mean()


def test_mapie_with_our_mean(model, parts):
    regressor = SplitConformalRegressor(model, confidence_level=LEVEL, prefit=True)
    points, limits = regressor.conformalize(*parts[1]).predict_interval(parts[2][0])
    np.testing.assert_allclose(points, model.predict(parts[2][0]))
    covers_and_adapts(limits, parts, adapts=False)


def test_mapie_refits_our_model_in_folds(parts):
    X, y = (np.concatenate(both) for both in zip(*parts[:2], strict=True))
    rule = kcdo.ConditionalDensityOperator(selection="heuristic")
    regressor = CrossConformalRegressor(rule, confidence_level=LEVEL, cv=3)
    _, limits = regressor.fit_conformalize(X, y).predict_interval(parts[2][0])
    covers_and_adapts(limits, parts, adapts=False)


def test_mapie_with_our_quantiles(model, parts):
    levels = (0.5 - LEVEL / 2, 0.5 + LEVEL / 2, 0.5)
    quantiles = [Answer(model, lambda dist, q=q: dist.quantile(q)) for q in levels]
    regressor = ConformalizedQuantileRegressor(quantiles, confidence_level=LEVEL, prefit=True)
    _, limits = regressor.conformalize(*parts[1]).predict_interval(parts[2][0])
    theirs = covers_and_adapts(limits, parts)
    ours = kcdo.conformalize(model, *parts[1]).conditional(parts[2][0]).interval(LEVEL)
    assert covers_and_adapts(ours, parts) == pytest.approx(theirs, rel=0.15)


def test_mapie_with_our_spread_in_its_score(model, parts):
    spread = Answer(model, lambda dist: dist.std())
    score = ResidualNormalisedScore(residual_estimator=spread, prefit=True)
    regressor = SplitConformalRegressor(
        model, confidence_level=LEVEL, conformity_score=score, prefit=True
    )
    _, limits = regressor.conformalize(*parts[1]).predict_interval(parts[2][0])
    covers_and_adapts(limits, parts)


class Spread:
    """What crepes calls a difficulty estimator."""

    fitted = True

    def __init__(self, model):
        self.model = model

    def apply(self, X):
        return self.model.conditional(X).std()


def test_crepes_with_our_mean_and_spread(model, parts):
    wrapped = WrapRegressor(model)
    wrapped.calibrate(*parts[1], de=Spread(model))
    covers_and_adapts(wrapped.predict_int(parts[2][0], confidence=LEVEL), parts)


def test_predictive_systems_of_crepes(model, parts):
    wrapped = WrapRegressor(model)
    wrapped.calibrate(*parts[1], de=Spread(model), cps=True)
    X, y = parts[2]
    values = wrapped.predict_p(X, y)
    assert np.quantile(values, 0.5) == pytest.approx(0.5, abs=0.06)
    limits = wrapped.predict_percentiles(X, lower_percentiles=10, higher_percentiles=90)
    covers_and_adapts(limits, parts)
