"""kcdo in the form of ScoringBench: histograms that are its distributions, and their scores."""

import numpy as np
import pytest

import kcdo
from benchmarks.scoringbench.kcdo_wrapper import KcdoEnsembleWrapper, KcdoWrapper
from benchmarks.scoringbench.rivals import LEVELS, histogram
from benchmarks.scoringbench.run import fold_scores
from benchmarks.scoringbench.scores import scores

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
    assert found["crps"] == pytest.approx(kcdo.metrics.crps(dist, y[60:]), rel=0.01)
    assert found["cde loss"] == pytest.approx(kcdo.metrics.cde_loss(dist, y[60:]), abs=0.02)
    assert found["log score"] == pytest.approx(-dist.logpdf_pairs(y[60:]).mean(), abs=0.02)
    assert found["PIT deviation"] < 0.5
    assert found["crls"] > found["crps"]


def test_scores_of_a_certain_histogram():
    made = histogram(np.tile(LEVELS, (2, 1)), np.full(2, 0.5))  # uniform on [0, 1]
    found = scores(made, [0.5, 0.5])
    assert found["crps"] == pytest.approx(1 / 12, rel=1e-3)  # 2 ∫ t² from 0 to 1/2
    assert found["log score"] == pytest.approx(0.0, abs=1e-6)
    assert found["cde loss"] == pytest.approx(-1.0, abs=1e-6)
    assert found["interval score 90"] == pytest.approx(0.9, abs=1e-6)
    assert scores(made, [2.0, 2.0])["crps"] == pytest.approx(1 + 1 / 3, rel=1e-2)


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
    assert 0.05 < row["crps"] < 0.25  # the noise has 0.11
    assert row["seconds"] > 0
