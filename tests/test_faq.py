"""What the page of questions and answers says, where no other test does."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kcdo


def line(n=80, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    return X, X[:, 0] + 0.1 * rng.normal(size=n)


def heuristic(**options):
    return kcdo.ConditionalDensityOperator(selection="heuristic", **options)


def test_distributions_come_out_of_a_pipeline():
    X, y = line()
    X[3, 1] = np.nan
    pipeline = make_pipeline(SimpleImputer(), StandardScaler(), heuristic()).fit(X, y)
    dist = pipeline[-1].conditional(pipeline[:-1].transform(X))
    np.testing.assert_allclose(dist.mean(), pipeline.predict(X), rtol=1e-12)
    np.testing.assert_allclose(dist.logpdf_pairs(y).mean(), pipeline.score(X, y), rtol=1e-12)
    low, high = dist.interval(0.9).T
    assert 0.8 < np.mean((low < y) & (y < high)) <= 1.0


def test_a_search_is_for_the_likeliest_parameters():
    X, y = line()
    pipeline = make_pipeline(StandardScaler(), heuristic())
    name = "conditionaldensityoperator__alpha"
    search = GridSearchCV(pipeline, {name: [1e-3, 1e2]}, cv=3).fit(X, y)
    assert search.best_params_ == {name: 1e-3}


@pytest.mark.parametrize("kind", [pl.Enum(["b", "a"]), pl.Categorical])
def test_categories_of_polars_are_recognised(kind):
    rng = np.random.default_rng(0)
    road = np.repeat(["a", "b"], 40)
    table = pl.DataFrame({"speed": rng.uniform(size=80), "road": pl.Series(road, dtype=kind)})
    y = np.where(road == "a", 0.0, 5.0) + 0.1 * rng.normal(size=80)
    model = heuristic().fit(table, y)
    assert "Categorical" in repr(model.report_.kernel_x)
    np.testing.assert_allclose(model.predict(table), y, atol=0.6)
    same = pd.DataFrame({"speed": table["speed"].to_numpy(), "road": pd.Categorical(road)})
    np.testing.assert_allclose(heuristic().fit(same, y).predict(same), model.predict(table))
    other = pl.DataFrame({"speed": [0.5], "road": pl.Series(["c"], dtype=pl.Categorical)})
    with pytest.raises(kcdo.InvalidInputError, match="'road' has the category 'c'"):
        model.predict(other)


def test_far_from_the_data_answers_are_those_of_all_outputs():
    X, y = line(60)
    y = y + 10.0
    far = [[500.0, 0.0], [1e6, -1e6]]
    dist = heuristic().fit(X, y).conditional(far)
    np.testing.assert_allclose(dist.mean(), y.mean(), atol=0.01)
    np.testing.assert_allclose(dist.std(), y.std(), rtol=0.1)
    dist = kcdo.ConditionalDensityOperator(n_jobs=1).fit(X, y).conditional([[1.5, 0.0], *far])
    np.testing.assert_allclose(dist.mean()[1:], y.mean(), atol=0.05 * y.std())
    assert y.max() < dist.mean()[0] + 0.3  # the location went on a little
    assert np.all(dist.std()[1:] > y.std())
    low, high = dist.interval(0.9)[-1]
    assert np.mean((low < y) & (y < high)) >= 0.9


def test_inputs_with_long_tails_need_no_logarithm():
    rng = np.random.default_rng(0)
    x = np.exp(2.0 * rng.normal(size=(400, 1)))  # over four orders of magnitude
    y = np.sin(2 * np.log1p(x[:, 0])) + 0.2 * rng.normal(size=400)
    scores = [
        kcdo.ConditionalDensityOperator(n_jobs=1).fit(X[:120], y[:120]).score(X[120:], y[120:])
        for X in (x, np.log(x))
    ]
    assert scores[0] > scores[1] - 0.05
    assert heuristic().fit(x[:120], y[:120]).score(x[120:], y[120:]) < scores[0] - 0.2
