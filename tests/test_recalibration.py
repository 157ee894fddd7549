"""Recalibration by held-out levels: what is chosen, and what it does to distributions."""

import numpy as np
import pytest

import kcdo
from kcdo.distributions import RecalibratedBatch, StudentTail, bent, level_density
from kcdo.fitting.recalibration import HeldOut
from tests.distribution_kinds import nested, tail

SHARES = np.array([0.2, 0.5, 0.3])


def normal(q=1, sd=1.0):
    return StudentTail(np.zeros((q, 1)), np.full((q, 1), sd), np.inf)


def held_out(levels, weights=None):
    n = len(levels)
    weights = np.ones(n) if weights is None else weights
    return HeldOut(np.zeros((n, 1)), weights, np.zeros(n), levels)


def test_bent_levels_are_those_of_order_statistics():
    draws = np.sort(np.random.default_rng(0).random((200_000, 3)), axis=1)
    for u in (0.1, 0.5, 0.8):
        below = (draws <= u).mean(axis=0) @ SHARES
        assert bent(np.array(u), SHARES) == pytest.approx(below, abs=0.005)
    u = np.linspace(0, 1, 2001)
    np.testing.assert_allclose(
        np.gradient(bent(u, SHARES), u)[1:-1], level_density(u, SHARES)[1:-1], atol=1e-5
    )
    assert bent(np.array([0.0, 1.0]), SHARES).tolist() == [0.0, 1.0]


def test_equal_shares_change_nothing():
    inner = nested(1)
    same = RecalibratedBatch(inner, np.full(3, 1 / 3))
    points = np.linspace(-2, 2, 7)[:, None]
    np.testing.assert_allclose(same.pdf(points), inner.pdf(points), rtol=1e-12)
    np.testing.assert_allclose(
        same.quantile(np.array([0.1, 0.9])), inner.quantile(np.array([0.1, 0.9]))
    )
    for mine, theirs in zip(same.moments(), inner.moments(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9)


def test_moments_of_the_median_of_three_normals():
    """The middle one has variance 1 - √3/π, the least has mean -3/(2√π)."""
    middle = RecalibratedBatch(normal(), np.array([1e-12, 1.0 - 2e-12, 1e-12]))
    mean, variance = middle.moments()
    assert mean[0, 0] == pytest.approx(0.0, abs=1e-8)
    assert variance[0, 0, 0] == pytest.approx(1 - np.sqrt(3) / np.pi, rel=1e-6)
    least = RecalibratedBatch(normal(), np.array([1.0 - 2e-12, 1e-12, 1e-12]))
    assert least.moments()[0][0, 0] == pytest.approx(-1.5 / np.sqrt(np.pi), rel=1e-6)


def test_moments_with_tails_so_heavy_that_levels_near_1_are_rounded():
    """A mirrored distribution has mirrored moments, though levels near 0 are exact."""
    wide = StudentTail(np.zeros((1, 1)), np.full((1, 1), 1e-6), 2.5)
    mean, variance = RecalibratedBatch(wide, SHARES).moments()
    mirrored_mean, mirrored = RecalibratedBatch(wide, SHARES[::-1]).moments()
    np.testing.assert_allclose(mean, -mirrored_mean, rtol=1e-3)
    np.testing.assert_allclose(variance, mirrored, rtol=1e-3)
    assert variance[0, 0, 0] > 0


def test_levels_that_are_even_are_left_alone():
    found = [
        held_out(np.random.default_rng(seed).random(100)).recalibration(200) for seed in range(100)
    ]
    assert sum(shares is not None for shares in found) <= 12  # five expected


def test_distributions_that_are_too_wide_become_narrower():
    y = np.random.default_rng(1).normal(size=600)
    wide = normal(len(y), sd=1.3)
    judged = HeldOut.of(wide, y[:, None], np.ones(len(y)))
    shares = judged.recalibration(200)
    assert shares is not None
    new = np.random.default_rng(2).normal(size=20_000)
    levels = wide.take(slice(0, 1)).cdf(new[:, None])[0]
    before, after = (np.mean(np.abs(u - 0.5) < 0.25) for u in (levels, bent(levels, shares)))
    assert before > 0.6
    assert after == pytest.approx(0.5, abs=0.04)
    assert np.log(level_density(levels, shares)).mean() > 0.01  # likelier, too


def test_rows_that_count_twice_are_two_rows():
    levels = np.random.default_rng(3).beta(2, 2, 150)
    once = held_out(np.repeat(levels, 2)).recalibration(200)
    twice = held_out(levels, np.full(150, 2.0)).recalibration(200)
    np.testing.assert_allclose(once, twice, rtol=1e-9)


def test_several_outputs_have_no_levels():
    judged = HeldOut.of(tail(2), np.zeros((3, 2)), np.ones(3))
    assert judged.levels is None
    assert judged.recalibration(200) is None


def recalibrated_model(monkeypatch, shares=SHARES):
    rng = np.random.default_rng(5)
    X = rng.uniform(-2, 2, (60, 1))
    y = np.sin(X[:, 0]) + 0.2 * rng.normal(size=60)
    monkeypatch.setattr(HeldOut, "recalibration", lambda self, steps: shares)
    return kcdo.ConditionalDensityOperator().fit(X, y), X, y


def test_a_recalibrated_model_is_one_distribution(short_searches, monkeypatch, tmp_path):
    model, X, y = recalibrated_model(monkeypatch)
    dist = model.conditional(X[:3])
    levels = np.array([0.05, 0.3, 0.9])
    for q, row in zip(dist.quantile(levels), range(3), strict=True):
        np.testing.assert_allclose(dist[row].cdf(q)[0], levels, atol=1e-7)
    draws = dist.sample(40_000, random_state=0)
    np.testing.assert_allclose(draws.mean(axis=1), dist.mean(), atol=0.01)
    np.testing.assert_allclose(dist.expect(lambda v: v), dist.mean(), atol=1e-6)
    model.save(tmp_path / "model.kcdo")
    again = kcdo.load(tmp_path / "model.kcdo").conditional(X[:3])
    np.testing.assert_array_equal(again.quantile(levels), dist.quantile(levels))
    refit = model.refit(X, y).conditional(X[:3])
    np.testing.assert_allclose(refit.quantile(levels), dist.quantile(levels), rtol=1e-6)


def test_an_uncertain_input_mixes_recalibrated_distributions(short_searches, monkeypatch):
    model, X, _ = recalibrated_model(monkeypatch)
    points, grid = X[:2], np.linspace(-1.5, 1.5, 9)
    mixed = model.conditional(kcdo.SampleInput([points], [np.array([0.25, 0.75])])).cdf(grid)
    each = model.conditional(points).cdf(grid)
    np.testing.assert_allclose(np.ravel(mixed), 0.25 * each[0] + 0.75 * each[1], atol=1e-9)


def test_the_loss_of_a_report_is_the_log_score_of_held_out_rows():
    """Not that of one component on a scale of its own: new rows are nearly as likely."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 50))
    y = 1e3 * (X[:, 0] + 0.5 * X[:, 1] + 0.5 * rng.normal(size=100))
    X_new = rng.normal(size=(500, 50))
    y_new = 1e3 * (X_new[:, 0] + 0.5 * X_new[:, 1] + 0.5 * rng.normal(size=500))
    model = kcdo.ConditionalDensityOperator().fit(X, y)
    assert model.report_.loss == pytest.approx(-model.score(X_new, y_new), abs=0.5)
