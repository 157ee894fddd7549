"""Directions: sums of columns along which outputs vary, and where they are tried."""

from dataclasses import replace

import numpy as np
import pytest

import kcdo
from kcdo.components import Effort, Settings
from kcdo.fitting import metric_choice
from kcdo.fitting.metric import Metric
from kcdo.fitting.metric_choice import search_from
from kcdo.fitting.rotation import Directions, rotated
from kcdo.kernels import Automatic, FeatureMap, Gaussian, Matern
from kcdo.rows import Rows
from kcdo.systems import ExactRows, Groups

SETTINGS = Settings(n_jobs=1)
TRUTH = np.array([1.0, 1.0, -1.0, 0.0, 0.0]) / np.sqrt(3.0)


def along_a_sum(n, seed=0):
    """Outputs follow one sum of three columns of five."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5))
    return X, np.sin(3.0 * X @ TRUTH) + 0.1 * rng.standard_normal(n)


def along_columns(n, seed=0):
    """Outputs follow one column smoothly, and another one."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 + 0.2 * rng.standard_normal(n)


def learnt(X, y, settings=SETTINGS):
    features = FeatureMap.of(X, scores=False)
    rows = Rows(features(X), y[:, None], np.ones(len(X)))
    return features, metric_choice.choose_metrics(rows, settings, Automatic(), features), rows


@pytest.fixture(scope="module")
def fitted():
    return learnt(*along_a_sum(450))


@pytest.fixture(scope="module")
def found(fitted):
    features, metrics, rows = fitted
    return rotated(features, metrics[:1], rows, SETTINGS)


@pytest.mark.parametrize(
    "kernel", [Gaussian(0.7), *(Matern(0.7, smoothness=s) for s in (1.5, 2.5))]
)
def test_gradients_in_the_inputs_are_those_of_finite_differences(kernel, rng):
    A, B, c = rng.standard_normal((6, 3)), rng.standard_normal((9, 3)), rng.standard_normal(9)
    gradients = kernel.input_gradients(A, B, c)
    for column, step in enumerate(1e-5 * np.eye(3)):
        slope = (kernel(A + step, B) - kernel(A - step, B)) @ c / 2e-5
        np.testing.assert_allclose(gradients[:, column], slope, atol=1e-8)


def test_gradients_of_a_kink_are_those_beside_it(rng):
    A, kernel = rng.standard_normal((5, 2)), Matern((0.5, 2.0), smoothness=0.5)
    c = rng.standard_normal(5)
    gradients = kernel.input_gradients(A, A, c)
    step = np.array([1e-6, 0.0])
    slope = (kernel(A + step, A) - kernel(A - step, A)) @ c / 2e-6  # of the kink itself: 0
    np.testing.assert_allclose(gradients[:, 0], slope, atol=1e-5)


def test_directions_keep_the_kernel_and_have_unit_spread(fitted):
    _, (metric, *_), rows = fitted
    search, theta = search_from(metric, rows, SETTINGS)
    directions = Directions.of(search, theta)
    along = directions.search(search)
    kernel = along.scales.kernel(directions.start(theta)[:-1])
    np.testing.assert_allclose(kernel(along.X), search.scales.kernel(theta[:-1])(search.inputs))
    np.testing.assert_allclose(along.X.std(axis=0), 1.0)


def test_outputs_along_a_sum_are_foretold_much_better(fitted, found):
    _, (before, *_), rows = fitted
    features, (after,) = found
    along = np.abs(features.directions[:, -1] / np.linalg.norm(features.directions[:, -1]))
    np.testing.assert_allclose(along, np.abs(TRUTH), atol=0.15)  # the steepest is the last
    X, y = along_a_sum(1000, seed=1)

    def error(metric, seen):
        groups = Groups.of(seen(along_a_sum(450)[0]), rows.weights)
        system = ExactRows(metric.kernel, groups, n_jobs=1).factor(metric.noise / rows.total)
        return np.mean(np.abs(system.weights(seen(X)) @ rows.Y[:, 0] - y))

    assert error(after, features) < 0.7 * error(before, replace(features, directions=None))


def test_metrics_that_stay_do_not_see_the_directions(fitted, found):
    _, (before, *_), rows = fitted
    features, _ = found
    X = features.beside(rows.X)
    moved = before.among(np.arange(rows.X.shape[1]), X.shape[1])
    np.testing.assert_allclose(moved.kernel(X[:50]), before.kernel(rows.X[:50]), atol=1e-10)
    some = replace(before, columns=np.array([0, 2])).among(np.array([3, 4, 5, 6, 7]), 9)
    np.testing.assert_array_equal(some.columns, [3, 5])


@pytest.mark.parametrize("n", [40, 450])
def test_outputs_along_columns_and_few_rows_are_left_alone(n):
    features, metrics, rows = learnt(*along_columns(n))
    assert rotated(features, metrics, rows, SETTINGS) == (features, metrics)


def test_features_that_are_constant_in_most_rows_have_no_directions(rng):
    X = np.zeros((900, 2))
    X[:3, 0], X[3:6, 1] = 1.0, 1.0
    rows = Rows(X, rng.standard_normal((900, 1)), np.ones(900))
    metric = Metric(Gaussian(), Gaussian((1.0, 1.0)), 0.1, 0.0, columns=np.arange(2))
    settings = Settings(n_jobs=1, effort=Effort(average_rows=20, exact_judged=2000))
    features = FeatureMap.of(X, scores=False)
    assert rotated(features, [metric], rows, settings) == (features, [metric])


def test_directions_of_many_rows_are_learnt_by_samples_and_near_rows():
    settings = Settings(n_jobs=1, effort=Effort(exact_judged=200, average_rows=150))
    features, metrics, rows = learnt(*along_a_sum(600), settings)
    with_directions, (metric, *_) = rotated(features, metrics, rows, settings)
    assert with_directions.directions is not None
    assert metric.columns.min() == rows.X.shape[1]  # it sees directions alone


def test_a_default_fit_uses_them_and_survives_a_round_trip(tmp_path):
    X, y = along_a_sum(300)
    X = np.column_stack([X, np.ones(len(X)), 1e6 * X[:, 0]])  # constant, and a copy in other units
    model = kcdo.ConditionalDensityOperator(random_state=0).fit(X, y)
    assert model._chosen_parameters().features.directions is not None
    new = X[:20]
    expected = model.conditional(new).quantile([0.1, 0.9])
    model.save(tmp_path / "model.kcdo")
    again = kcdo.load(tmp_path / "model.kcdo").conditional(new)
    np.testing.assert_array_equal(again.quantile([0.1, 0.9]), expected)
    sample = model.conditional(kcdo.SampleInput([new[:1], new[1:2]]))
    np.testing.assert_allclose(sample.mean(), model.conditional(new[:2]).mean(), rtol=1e-6)
    same = model.refit(X, y)
    np.testing.assert_allclose(same.conditional(new).quantile([0.1, 0.9]), expected, atol=1e-6)
