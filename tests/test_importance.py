"""Importance of inputs: one definition for arrays and frames, fits and reports."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import kcdo
from kcdo.errors import InvalidInputError
from kcdo.metrics import importances
from kcdo.metrics.importance import shuffled_divergences


def test_they_are_the_divergence_of_gaussians_when_a_column_is_shuffled():
    """A model whose mean and spread are known: the formula, written out once more."""

    class Known:
        def __init__(self, X):
            self.X = np.asarray(X)

        def mean(self):
            return 3 * self.X[:, 0]

        def cov(self):
            return np.exp(2 * self.X[:, 1])[:, None, None]

    class Model:
        conditional = Known

    X = np.random.default_rng(1).uniform(-1, 1, (50, 3))
    found = importances(Model(), X)
    assert list(found) == ["x0", "x1", "x2"]
    rng = np.random.default_rng(0)
    rows = X[rng.integers(50, size=200)]
    other = rows[rng.permutation(200)]
    mean = 0.5 * np.mean((3 * rows[:, 0] - 3 * other[:, 0]) ** 2 * np.exp(-2 * rows[:, 1]))
    spread = 0.5 * np.mean((rows[:, 1] - other[:, 1]) ** 2)
    assert found["x0"] == pytest.approx(1 - np.exp(-mean))
    assert found["x1"] == pytest.approx(1 - np.exp(-spread))
    assert found["x2"] == 0.0


def test_of_many_columns_those_that_say_nothing_are_shuffled_together():
    asked = []

    class Known:
        def __init__(self, X):
            asked.append(len(X))
            self.X = np.asarray(X)

        def mean(self):
            return self.X[:, 7] + 0.3 * self.X[:, 400] + 0.01 * self.X[:, 401]

        def cov(self):
            return np.ones((len(self.X), 1, 1))

    X = np.random.default_rng(1).normal(size=(60, 500))
    found = shuffled_divergences(Known, X, n_rows=64)
    assert len(asked) < 40
    assert found[7] > 5 * found[400] > 0.05
    columns = [7, 400]
    alone = shuffled_divergences(Known, X, n_rows=64, shuffled_columns=columns)
    np.testing.assert_array_equal(found[columns], alone)
    others = np.delete(found, columns)
    (tiny,) = shuffled_divergences(Known, X, n_rows=64, shuffled_columns=[401])
    assert others.sum() == pytest.approx(tiny)
    assert others.max() <= tiny
    some = shuffled_divergences(Known, X, n_rows=64, shuffled_columns=range(300, 450))
    assert some[100] == found[400]
    assert len(some) == 150


def test_inputs_that_move_only_the_spread_are_found():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (400, 2))
    y = (0.1 + 2 * X[:, 1]) * rng.standard_normal(400)
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, y)
    found = importances(model, X)
    assert found["x1"] > 5 * found["x0"]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_frames_and_categories(make):
    rng = np.random.default_rng(0)
    kind = rng.choice(["a", "b"], 120)
    X = make({"size": rng.uniform(0, 1, 120), "kind": kind.tolist()})
    kernel = kcdo.Gaussian().on("size") * kcdo.Categorical().on("kind")
    y = (kind == "a") + 0.1 * rng.standard_normal(120)
    model = kcdo.ConditionalDensityOperator(kernel, selection="heuristic").fit(X, y)
    found = importances(model, X)
    assert list(found) == ["size", "kind"]
    assert found["kind"] > 0.5 > found["size"]


@pytest.mark.parametrize("support", [None, (0.0, None)])
def test_an_automatic_fit_reports_them_of_its_training_rows(support, short_searches):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.uniform(-1, 1, 40), "b": rng.uniform(-1, 1, 40)})
    y = np.exp(X["a"] + 0.2 * rng.standard_normal(40))
    model = kcdo.ConditionalDensityOperator(support=support).fit(X, y)
    # the same definition, on fewer rows
    assert model.report_.importances == pytest.approx(importances(model, X), abs=0.02)


def test_no_rows():
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(
        np.ones((9, 2)), np.arange(9)
    )
    with pytest.raises(InvalidInputError, match="importances need rows of inputs; there are none"):
        importances(model, np.empty((0, 2)))
