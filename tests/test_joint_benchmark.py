"""The joint benchmark: its sets, and rivals whose answers are known."""

import numpy as np
import pytest

from benchmarks.joint import table
from benchmarks.joint_data import JointSet, banana, moons, ring, without_rounding
from benchmarks.joint_rivals import Forest, GaussianCopula, RidgeNormal


@pytest.mark.parametrize("make", [ring, moons, banana])
def test_true_densities_are_those_of_the_draws(make, rng):
    """The truth scores better than the same density elsewhere, and integrates to one."""
    data = make()
    X, Y = data.X[:200], data.Y[:200]
    assert data.log_density(X, Y).mean() > data.log_density(X, np.roll(Y, 1, axis=0)).mean()
    if Y.shape[1] == 2:
        line = np.linspace(-4, 4, 161)
        grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
        density = np.exp(data.log_density(np.full((len(grid), 1), 0.5), grid))
        assert density.sum() * (line[1] - line[0]) ** 2 == pytest.approx(1.0, abs=1e-3)


def test_splits_are_standardised_by_their_training_rows(rng):
    data = JointSet(rng.normal(size=(50, 2)), 5 + 3 * rng.normal(size=(50, 2)))
    X, Y, X_test, _ = data.split(1)
    assert (len(X), len(X_test)) == (40, 10)
    np.testing.assert_allclose([Y.mean(axis=0), Y.std(axis=0)], [[0, 0], [1, 1]], atol=1e-12)


def test_rounded_outputs_get_noise_of_one_gap(rng):
    Y = np.stack([np.arange(40) % 4, rng.normal(size=40)], axis=1)
    moved = without_rounding(Y, 0) - Y
    assert 0.3 < np.abs(moved[:, 0]).max() <= 0.5
    assert not moved[:, 1].any()


def test_a_normal_about_a_line(rng):
    X = rng.normal(size=(400, 1))
    Y = X @ [[1.0, 2.0]] + rng.normal(size=(400, 2)) @ [[0.5, 0.3], [0.0, 0.4]]
    rival = RidgeNormal().fit(X, Y)
    exact = np.log(2 * np.pi * np.e) + np.log(0.5 * 0.4)  # entropy
    assert -rival.logpdf_pairs(X, Y).mean() == pytest.approx(exact, abs=0.1)
    draws = rival.sample(X[:2], 2000, 0)
    np.testing.assert_allclose(draws.mean(axis=1), X[:2] @ [[1.0, 2.0]], atol=0.1)


def test_a_forest_knows_two_groups(rng):
    X = rng.uniform(size=(120, 1))
    Y = np.where(X > 0.5, 3.0, -3.0) + 0.1 * rng.normal(size=(120, 2))
    rival = Forest().fit(X, Y)
    assert np.all(rival.sample(np.array([[0.9]]), 50, 0) > 1.0)
    assert rival.logpdf_pairs(np.array([[0.9]]), np.array([[3.0, 3.0]]))[0] > 0


def test_a_gaussian_copula_of_normal_scores(rng):
    from scipy.stats import multivariate_normal, norm

    cov = np.array([[1.0, 0.8], [0.8, 1.0]])
    scores = rng.multivariate_normal([0, 0], cov, 4000)
    rival = GaussianCopula()
    rival.join(norm.cdf(scores))
    exact = multivariate_normal(cov=cov).logpdf(scores) - norm.logpdf(scores).sum(axis=1)
    assert rival.log_copula(norm.cdf(scores)).mean() == pytest.approx(exact.mean(), abs=0.02)
    assert np.corrcoef(rival.draw_ranks(4000, 0).T)[0, 1] == pytest.approx(0.79, abs=0.04)


def test_the_table_has_a_row_for_each_set():
    record = {"set": "ring", "method": "kcdo", "split": 0, "nll": 1.0, "energy": 0.5, "truth": 0.9}
    text = table([record, record | {"split": 1, "nll": 1.2}], "nll")
    assert "| ring | 1.100 ± 0.1 | 0.900 ± 0 |" in text
