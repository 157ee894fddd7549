"""Metrics as scorers of scikit-learn: signs, pipelines, searches, errors."""

import pickle

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kcdo
from kcdo import metrics
from kcdo.errors import InvalidTypeError

SCORERS = [name for name in metrics.__all__ if name.endswith("_scorer")]
JOINT = ["energy_score", "variogram_score", "dawid_sebastiani_score"]


def model(**options):
    return kcdo.ConditionalDensityOperator(selection="heuristic", n_jobs=1, **options)


def rows(d=1, n=60):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (n, 2))
    Y = np.sin(X[:, :1] + np.arange(d)) + 0.2 * rng.standard_normal((n, d))
    return X, Y[:, 0] if d == 1 else Y


def data_for(name):
    return rows(2 if any(name.startswith(joint) for joint in JOINT) else 1)


@pytest.mark.parametrize("name", SCORERS)
def test_a_scorer_is_its_metric_with_the_better_higher(name):
    X, y = data_for(name)
    scorer, metric = getattr(metrics, name), getattr(metrics, name.removesuffix("_scorer"))
    fitted = model().fit(X[:40], y[:40])
    dist, sign = fitted.conditional(X[40:]), 1 if name == "log_score_scorer" else -1
    assert scorer(fitted, X[40:], y[40:]) == pytest.approx(sign * metric(dist, y[40:]))
    weights = np.arange(20.0)
    assert scorer(fitted, X[40:], y[40:], weights) == pytest.approx(
        sign * metric(dist, y[40:], sample_weight=weights)
    )
    blind = model(alpha=1e3).fit(X[:40], y[:40])  # knows the outputs, not what they depend on
    if name != "variogram_score_scorer":  # of two outputs of one noise it tells these little
        assert scorer(fitted, X[40:], y[40:]) > scorer(blind, X[40:], y[40:])
    assert pickle.loads(pickle.dumps(scorer)) == scorer


@pytest.mark.parametrize("name", SCORERS)
def test_cross_validation_takes_scorers(name):
    X, y = data_for(name)
    scorer, folds = getattr(metrics, name), KFold(3)
    found = cross_val_score(model(), X, y, scoring=scorer, cv=folds)
    wanted = [scorer(model().fit(X[a], y[a]), X[b], y[b]) for a, b in folds.split(X)]
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_several_scorers_at_once_and_pipelines():
    X, y = rows()
    pipeline = make_pipeline(StandardScaler(), model())
    scoring = {"crps": metrics.crps_scorer, "log": metrics.log_score_scorer}
    found = cross_validate(pipeline, X, y, scoring=scoring, cv=KFold(3))
    assert found["test_crps"].shape == (3,)
    np.testing.assert_allclose(
        found["test_log"], cross_val_score(pipeline, X, y, cv=KFold(3)), rtol=1e-9
    )


def test_a_search_by_a_scorer_can_be_scored_itself():
    X, y = rows()
    search = GridSearchCV(model(), {"alpha": [1e-3, 1e3]}, scoring=metrics.crps_scorer, cv=3)
    search.fit(X, y)
    assert search.best_params_ == {"alpha": 1e-3}
    best = make_pipeline(search.best_estimator_)
    assert metrics.crps_scorer(search, X, y) == metrics.crps_scorer(best, X, y)


def test_options_of_a_metric_are_options_of_its_scorer():
    X, Y = rows(2)
    fitted = model().fit(X, Y)
    scorer = metrics.Scorer(metrics.energy_score, options={"n_draws": 8})
    assert scorer(fitted, X, Y) == -metrics.energy_score(fitted.conditional(X), Y, n_draws=8)
    assert repr(scorer) == "Scorer(-energy_score, n_draws=8)"
    assert repr(metrics.log_score_scorer) == "Scorer(log_score)"


def test_estimators_without_distributions_are_refused():
    X, y = rows()
    for estimator in (LinearRegression().fit(X, y), make_pipeline(LinearRegression()).fit(X, y)):
        with pytest.raises(InvalidTypeError, match=r"method conditional.*LinearRegression\(\)"):
            metrics.crps_scorer(estimator, X, y)
