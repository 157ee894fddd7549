"""kcdo in the form of ScoringBench: histograms that are its distributions, and their scores."""

import numpy as np
import pytest

import kcdo
from benchmarks.scoringbench.kcdo_wrapper import KcdoEnsembleWrapper, KcdoWrapper
from benchmarks.scoringbench.rivals import LEVELS, histogram
from benchmarks.scoringbench.run import fold_scores
from benchmarks.scoringbench.scores import _energy, scores, scores_of_draws
from benchmarks.scoringbench.stand_ins import DistributionPrediction, MultivariateSamplePrediction

QUICK = {"selection": "heuristic"}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (90, 1))
    return X, X[:, 0] + 0.2 * rng.standard_normal(90)


def test_histograms_are_the_distributions(data):
    X, y = data
    model = KcdoWrapper(n_bins=400, options=QUICK).fit(X[:60], y[:60])
    made = model.predict_distribution(X[60:])
    assert made.probas.shape == (30, 400)
    np.testing.assert_allclose(made.probas.sum(axis=1), 1.0)
    dist = model.model_.conditional(X[60:])
    np.testing.assert_allclose(
        (made.probas * made.bin_midpoints).sum(axis=1), dist.mean(), atol=0.01
    )
    found = scores(made, y[60:])
    assert found["CRPS"] == pytest.approx(kcdo.metrics.crps(dist, y[60:]), rel=0.01)
    assert found["CDE loss"] == pytest.approx(kcdo.metrics.cde_loss(dist, y[60:]), abs=0.02)
    assert found["log score"] == pytest.approx(-dist.logpdf_pairs(y[60:]).mean(), abs=0.02)
    assert found["PIT deviation"] < 0.5
    assert found["CRLS"] > found["CRPS"]
    assert made.train_range == (y[:60].min(), y[:60].max())


def test_scores_of_a_certain_histogram():
    made = histogram(np.tile(LEVELS, (2, 1)), np.full(2, 0.5), (0.0, 1.0))  # uniform on [0, 1]
    found = scores(made, [0.5, 0.5])
    assert found["CRPS"] == pytest.approx(1 / 12, rel=1e-3)  # 2 ∫ t² from 0 to 1/2
    assert found["log score"] == pytest.approx(0.0, abs=1e-6)
    assert found["CDE loss"] == pytest.approx(-1.0, abs=1e-6)
    assert found["interval score 90"] == pytest.approx(0.9, abs=1e-6)
    assert scores(made, [2.0, 2.0])["CRPS"] == pytest.approx(1 + 1 / 3, rel=1e-2)


@pytest.mark.parametrize("beta", [0.5, 1.0, 1.5])
def test_energy_scores_are_those_of_draws(beta):
    rng = np.random.default_rng(0)
    masses = rng.dirichlet(np.ones(40), 2)
    edges = np.linspace([-1.0, 0.0], [1.0, 3.0], 41, axis=1)
    found = _energy(edges, masses, np.array([0.2, 5.0]), beta)
    u = rng.uniform(size=(2, 200_000))
    for row, y in enumerate((0.2, 5.0)):
        below = np.r_[0.0, np.cumsum(masses[row])]
        first, second = np.interp(u, below, edges[row])
        among = np.abs(first - second) ** beta
        own = (np.abs(first - y) ** beta).mean() - 0.5 * among.mean()
        assert found[row] == pytest.approx(own, rel=0.01)


def test_densities_are_scored_on_bins_of_a_length_that_no_model_chooses():
    edges = 0.5 + np.linspace(-1e-6, 1e-6, 11)[None, :]
    masses = np.full((1, 10), 0.1)
    point = DistributionPrediction.from_histogram(
        edges, masses, np.array([0.5]), train_range=(0.0, 1.0)
    )
    seen = point.resampled
    assert seen.probas.shape == (1, 200)
    assert (seen.probas / np.diff(seen.bin_edges, axis=1)).max() <= 200.0
    far = DistributionPrediction.from_histogram(
        edges + 3.0, masses, np.array([3.5]), train_range=(0.0, 1.0)
    ).resampled
    assert far.bin_edges[0, 0] == 0.0
    assert far.bin_edges[0, -1] == pytest.approx(3.5, abs=1e-5)
    assert (far.probas * far.bin_midpoints).sum() == pytest.approx(3.5, abs=0.01)


def test_scores_of_draws_of_several_targets():
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((1, 1500, 2))
    found = scores_of_draws(MultivariateSamplePrediction(draws, draws.mean(axis=1)), [[0.0, 0.0]])
    # E|Z| = sqrt(π/2) and E|Z - Z'| = sqrt(π) in two dimensions
    assert found["energy"] == pytest.approx(np.sqrt(np.pi / 2) - 0.5 * np.sqrt(np.pi), abs=0.02)
    root = np.sqrt(np.abs(draws[0, :, 0] - draws[0, :, 1])).mean()
    assert found["variogram"] == pytest.approx(2 * root**2)


def test_draws_of_several_targets(data):
    X, y = data
    model = KcdoEnsembleWrapper(n_draws=7, options=QUICK).fit(X, np.column_stack([y, -y]))
    made = model.predict_ensemble(X[:4])
    assert made.samples.shape == (4, 7, 2)
    assert np.isfinite(made.samples).all()
    np.testing.assert_array_equal(model.predict(X[:4]), made.mean)
    assert KcdoEnsembleWrapper(3, QUICK).fit(X, y).predict_ensemble(X[:2]).samples.shape == (
        2,
        3,
        1,
    )


def test_folds_are_averaged(data):
    row = fold_scores(lambda: KcdoWrapper(n_bins=50, options=QUICK), *data)
    assert 0.05 < row["CRPS"] < 0.25  # the noise has 0.11
    assert row["seconds"] > 0
    X, y = data
    row = fold_scores(lambda: KcdoEnsembleWrapper(20, QUICK), X, np.column_stack([y, -y]))
    assert 0.05 < row["energy"] < 0.4
