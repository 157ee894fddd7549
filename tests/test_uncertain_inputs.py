"""Inputs given as distributions."""

import numpy as np
import pytest

import kcdo
from kcdo.components.base import points_of


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (200, 2))
    return X, X[:, 0] ** 2 + 0.3 * X[:, 1] + 0.2 * rng.standard_normal(200)


@pytest.mark.parametrize(
    ("kernel", "cov"),
    [
        (kcdo.Gaussian((0.8, 1.5)), [[0.3, 0.1], [0.1, 0.2]]),
        (kcdo.Laplace(1.0), [0.3, 0.2]),
        (kcdo.Matern(1.0), [[0.3, 0.1], [0.1, 0.2]]),
        (kcdo.Gaussian(1.0).on([0]) * kcdo.Laplace(1.0).on([1]), [0.3, 0.2]),
    ],
)
def test_gaussian_input_agrees_with_a_large_sample(data, kernel, cov):
    X, Y = data
    model = kcdo.ConditionalDensityOperator(
        kernel_x=kernel, positivity="signed", selection="heuristic"
    ).fit(X, Y)
    mean = np.array([0.5, -0.5])
    full = np.diag(cov) if np.ndim(cov) == 1 else np.array(cov)
    draws = np.random.default_rng(1).multivariate_normal(mean, full, 20_000)
    gaussian = model.conditional(kcdo.GaussianInput([mean], np.array(cov)))
    sample = model.conditional(kcdo.SampleInput([draws]))
    assert gaussian.mean()[0] == pytest.approx(sample.mean()[0], abs=0.02)
    assert gaussian.std()[0] == pytest.approx(sample.std()[0], abs=0.02)


def test_a_certain_gaussian_is_a_point(data):
    X, Y = data
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    point = model.conditional(X[:3]).mean()
    gaussian = model.conditional(kcdo.GaussianInput(X[:3], 0.0)).mean()
    sample = model.conditional(kcdo.SampleInput(X[:3, None, :])).mean()
    np.testing.assert_allclose(gaussian, point, atol=1e-10)
    np.testing.assert_allclose(sample, point, atol=1e-10)


def test_samples_of_different_sizes_and_weights(data):
    X, Y = data
    model = kcdo.ConditionalDensityOperator(positivity="signed", selection="heuristic").fit(X, Y)
    ragged = kcdo.SampleInput([X[:2], X[2:7]], weights=[[3.0, 1.0], [1.0] * 5])
    dist = model.conditional(ragged)
    assert len(dist) == 2
    alone = model.conditional(kcdo.SampleInput([X[:2]], weights=[[0.75, 0.25]]))
    np.testing.assert_allclose(dist[0].mean(), alone.mean(), atol=1e-12)
    np.testing.assert_allclose(dist[1:].mean(), dist.mean()[1:], atol=1e-12)


def test_uncertainty_widens_the_prediction(data):
    X, Y = data
    model = kcdo.ConditionalDensityOperator(
        kernel_x=kcdo.Gaussian(0.7), alpha=1e-4, selection="heuristic"
    ).fit(X, Y)
    sharp, wide = (
        model.conditional(kcdo.GaussianInput([[1.0, 0.0]], v)).std()[0] for v in (0.0, 0.5)
    )
    assert wide > 1.2 * sharp


def test_a_coarse_expectation_warns(data):
    X, Y = data
    model = kcdo.ConditionalDensityOperator(kernel_x=kcdo.Matern(0.05), selection="heuristic").fit(
        X, Y
    )
    with pytest.warns(kcdo.AccuracyWarning, match="n_points"):
        model.conditional(kcdo.GaussianInput([[0.0, 0.0]], 1.0, n_points=8)).mean()


def test_wrong_width_is_an_error(data):
    X, Y = data
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    with pytest.raises(ValueError, match="features"):
        model.conditional(kcdo.GaussianInput([[0.0]], 1.0))


@pytest.mark.parametrize(("asked", "made"), [(None, 256), (8, 8), (2048, 2048)])
def test_as_many_points_as_are_asked_for(asked, made):
    inputs = kcdo.GaussianInput([[0.5, -0.5], [0.0, 0.0]], 0.25, n_points=asked)
    for each in (inputs, inputs[:1], inputs.columns([1]), inputs.replace(inputs.mean + 1.0)):
        points, starts, weights = points_of(each)
        assert len(points) == len(weights) == made * len(each)
        assert set(np.diff(starts)) == {made}
