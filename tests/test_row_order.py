"""Permuted rows give the same model, to the last digit."""

import numpy as np
import pandas as pd
import pytest

import kcdo
from kcdo.rows import Rows

M = kcdo.ConditionalDensityOperator


def table(rng, n=40, p=2, d=1):
    X = rng.normal(size=(n, p))
    Y = X[:, :1] ** 2 + 0.3 * rng.normal(size=(n, d))
    return X, Y[:, 0] if d == 1 else Y


def answers(model, queries):
    dist = model.conditional(queries)
    points = np.linspace(-2, 4, 9)
    found = [dist.mean(), dist.std(), dist.sample(3, random_state=0)]
    if dist.n_outputs == 1:
        found += [dist.pdf(points), dist.quantile([0.05, 0.5])]
    return found


def assert_same(model, other, queries):
    for a, b in zip(answers(model, queries), answers(other, queries), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("n", "d", "options"),
    [
        (40, 1, {}),
        (25, 2, {}),
        (40, 1, {"output_transform": "auto"}),
        (40, 1, {"support": (-5.0, None)}),
        (7, 1, {}),
        (40, 1, {"selection": "heuristic"}),
        (40, 1, {"selection": "paper"}),
        (40, 1, {"solver": kcdo.Nystrom(centers=10)}),
    ],
    ids=lambda value: str(value),
)
def test_permuted_rows_are_the_same_model(rng, short_searches, n, d, options):
    X, y = table(rng, n, d=d)
    order = rng.permutation(n)
    model, other = M(**options).fit(X, y), M(**options).fit(X[order], y[order])
    assert_same(model, other, X[:4])
    assert model.report_.weights == other.report_.weights
    assert_same(model.refit(X, y), model.refit(X[order], y[order]), X[:4])


def test_weights_ties_and_categories_in_any_order(rng, short_searches):
    X, y = table(rng, 60)
    frame = pd.DataFrame({"x": np.round(X[:, 0]), "g": rng.choice(["b", "c", "a"], 60)})
    weights, y, order = rng.uniform(0.5, 2.0, 60), np.round(y, 1), rng.permutation(60)
    model = M().fit(frame, y, weights)
    other = M().fit(frame.iloc[order], y[order], weights[order])
    assert model.categories == other.categories == {1: ("a", "b", "c")}
    assert_same(model, other, frame[:4])


def test_categories_that_are_numbers_are_in_the_order_of_numbers(rng):
    frame = pd.DataFrame({"g": pd.Categorical([10, 9, 9, 10, 100, 100])})
    model = M(selection="heuristic").fit(frame, rng.normal(size=6))
    assert model.categories == {0: (9, 10, 100)}


def test_rows_in_order_go_by_inputs_outputs_weights(rng):
    X = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    Y, weights = np.array([[0.0], [0.0], [2.0], [1.0], [1.0]]), np.array([1.0, 1.0, 1.0, 3.0, 2.0])
    rows = Rows(X, Y, weights).in_order()
    assert rows.X.tolist() == [[0, 0], [0, 0], [0, 0], [0, 1], [1, 0]]
    assert rows.Y.ravel().tolist() == [1, 1, 2, 0, 0]
    assert rows.weights.tolist() == [2, 3, 1, 1, 1]
    assert rows.in_order() is rows


def test_rows_of_objects_go_by_their_outputs():
    objects = np.array(["b", "a", "c"], dtype=object)
    rows = Rows(objects, np.array([[2.0], [1.0], [3.0]]), np.ones(3)).in_order()
    assert rows.X.tolist() == ["a", "b", "c"]
