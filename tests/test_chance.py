"""Bands of chance: how often a calibrated model leaves them, and what is said then."""

import numpy as np
import pytest
from scipy.stats import binom

from kcdo.errors import InvalidInputError
from kcdo.metrics import calibration_test, pit_histogram_test
from kcdo.metrics.chance import _probability_inside


@pytest.mark.parametrize("n", [15, 200, 1500])
def test_a_calibrated_model_leaves_the_band_in_one_of_twenty_samples(n):
    rng = np.random.default_rng(n)
    samples = rng.random((800, n))
    curves = np.mean([calibration_test(pit).verdict != "calibrated" for pit in samples])
    bars = np.mean([len(pit_histogram_test(pit).outside) > 0 for pit in samples])
    assert curves == pytest.approx(0.05, abs=0.025)
    assert bars <= 0.05 + 0.015


def test_the_probability_of_one_level_is_binomial():
    n, level, error = 40, 0.3, 0.1
    ends = binom.ppf([error / 2, 1 - error / 2], n, level)
    exact = binom.cdf(ends[1], n, level) - binom.cdf(ends[0] - 1, n, level)
    assert _probability_inside(n, (level,), error) == pytest.approx(exact)


def test_the_probability_of_all_levels_is_that_of_samples():
    n, levels, error = 30, (0.2, 0.5, 0.9), 0.1
    ends = binom.ppf([[error / 2], [1 - error / 2]], n, levels)
    draws = np.random.default_rng(0).random((40_000, n, 1))
    counts = (draws <= levels).sum(axis=1)
    share = np.all((counts >= ends[0]) & (counts <= ends[1]), axis=1).mean()
    assert _probability_inside(n, levels, error) == pytest.approx(share, abs=0.005)


@pytest.mark.parametrize(
    ("pit", "verdict"),
    [
        (np.linspace(0, 1, 501), "calibrated"),
        (np.linspace(0.3, 0.7, 501), "too wide"),
        (np.r_[np.linspace(0, 0.1, 250), np.linspace(0.9, 1, 250)], "too narrow"),
        (np.r_[np.full(300, 0.15), np.full(200, 0.9)], "mixed"),
    ],
)
def test_verdicts(pit, verdict):
    test = calibration_test(pit)
    assert test.verdict == verdict
    assert (test.above | test.below).any() == (verdict != "calibrated")
    own = np.abs(2 * pit - 1)
    np.testing.assert_allclose(test.coverage, [np.mean(own <= level) for level in test.levels])


def test_weights_count_as_many_rows_as_they_are_worth():
    pit = np.random.default_rng(0).random(100)
    weights = np.repeat([0.0, 2.0], 50)
    test, half = calibration_test(pit, sample_weight=weights), calibration_test(pit[50:])
    for name in ("coverage", "low", "high"):
        np.testing.assert_allclose(getattr(test, name), getattr(half, name))
    bars = pit_histogram_test(pit, sample_weight=weights)
    np.testing.assert_allclose(bars.shares, pit_histogram_test(pit[50:]).shares)


def test_errors():
    for pit in (np.ones((3, 2)), [], [0.5, 1.5], [np.nan]):
        with pytest.raises(InvalidInputError, match="pit must be a vector of numbers in"):
            calibration_test(pit)
    for levels in ([0.5, 0.2], [0.0, 0.5], [[0.5]], []):
        with pytest.raises(InvalidInputError, match="levels must ascend between 0 and 1"):
            calibration_test([0.5], levels)
