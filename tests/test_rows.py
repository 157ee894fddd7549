"""The rows of a fit: samples, folds, weights by their ratios, inputs that repeat."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcdo.rows import Rows, fold_numbers, sampled


def test_rows():
    rows = Rows(np.arange(8.0).reshape(4, 2), np.arange(4.0)[:, None], np.array([1.0, 2.0, 1.0, 4]))
    some = rows.take(np.array([3, 0]))
    assert len(rows) == 4
    assert len(some) == 2
    np.testing.assert_array_equal(some.Y[:, 0], [3.0, 0.0])
    np.testing.assert_array_equal(some.weights, [4.0, 1.0])
    assert rows.with_outputs(rows.Y + 1).X is rows.X


@settings(max_examples=30)
@given(st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=12), st.floats(1e-6, 1e6))
def test_effective_weights_depend_on_ratios_alone(weights, unit):
    weights = np.array(weights)
    rows = [Rows(weights, weights, w).of_effective_weight() for w in (weights, unit * weights)]
    np.testing.assert_allclose(rows[0].weights, rows[1].weights, rtol=1e-9)
    assert rows[0].weights.sum() == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    equal = Rows(weights, weights, np.full(len(weights), unit)).of_effective_weight()
    np.testing.assert_allclose(equal.weights, 1.0, rtol=1e-12)


def test_samples_depend_on_the_seed_alone():
    np.testing.assert_array_equal(sampled(9, 9, seed=0), np.arange(9))
    some = sampled(100, 30, seed=1)
    assert len(np.unique(some)) == 30
    np.testing.assert_array_equal(some, np.sort(some))
    np.testing.assert_array_equal(some, sampled(100, 30, seed=1))
    assert not np.array_equal(some, sampled(100, 30, seed=2))
    rows = Rows(np.arange(100.0)[:, None], np.zeros((100, 1)), np.ones(100))
    np.testing.assert_array_equal(rows.sample(30, 1).X[:, 0], some)
    assert rows.sample(100, 1) is rows


def test_folds_are_of_equal_size_and_at_random():
    folds = fold_numbers(103, 10, seed=0)
    assert sorted(np.bincount(folds)) == [10] * 7 + [11] * 3
    assert not np.array_equal(folds, fold_numbers(103, 10, seed=1))


def test_the_share_of_rows_whose_input_repeats():
    X = np.array([[0.0, 1.0], [2.0, 3.0], [0.0, 1.0], [0.0, 3.0]])
    assert Rows(X, X, np.ones(4)).share_repeated == 0.5


def test_centred_outputs_have_a_weighted_mean_of_zero():
    rows = Rows(np.zeros((3, 1)), np.array([[1.0], [2.0], [6.0]]), np.array([1.0, 1.0, 2.0]))
    assert rows.weights @ rows.centred() == pytest.approx(0.0)
    assert rows.total == 4.0
