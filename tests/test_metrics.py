"""Metrics against closed forms of Gaussians, properties, agreement with kcdo, errors."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import trapezoid
from scipy.stats import chi2, kstest, norm

import kcdo
from kcdo import metrics
from kcdo.errors import InvalidInputError, MissingExtraError, SignedDensityError
from tests.gaussian_truth import GaussianTruth, made

SCORES = [
    metrics.log_score,
    metrics.crps,
    metrics.cde_loss,
    metrics.energy_score,
    metrics.dawid_sebastiani_score,
]
SHARES = [metrics.interval_coverage, metrics.hpd_coverage]
JOINT = [f for f in SCORES + SHARES if f is not metrics.crps]
PAIRED = [*SCORES, *SHARES, metrics.pit_values, metrics.hpd_values, metrics.calibration_curve]


def gaussian_crps(y, mean, sd):
    z = (y - mean) / sd
    return sd * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))


def fitted(d=1, n=60):
    rng = np.random.default_rng(5)
    X = rng.uniform(-2, 2, (n, 1))
    Y = np.sin(X + np.arange(d)) + 0.2 * rng.standard_normal((n, d))
    Y = Y[:, 0] if d == 1 else Y
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    return model.conditional(X), Y


# --- closed forms


def test_log_score_of_a_gaussian():
    dist, y = made()
    each = norm.logpdf(y, dist.mean(), dist.std())
    np.testing.assert_allclose(metrics.log_score(dist, y, average=False), each)
    assert metrics.log_score(dist, y) == pytest.approx(each.mean())


def test_crps_by_quantiles_of_a_gaussian():
    dist, y = made(q=700)  # more than one chunk of queries
    exact = gaussian_crps(y, dist.mean(), dist.std())
    found = metrics.crps(dist, y, average=False)
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-4 * dist.std().max())
    assert metrics.crps(dist, y) == pytest.approx(exact.mean(), rel=2e-5)


def test_crps_of_a_nearly_certain_prediction_is_the_absolute_error():
    dist, y = GaussianTruth([1.0, 2.0], [1e-9, 1e-9]), [3.0, 1.5]
    np.testing.assert_allclose(metrics.crps(dist, y, average=False), [2.0, 0.5], rtol=1e-6)


def test_cde_loss_of_gaussians():
    dist, y = made(q=300)
    density = norm.pdf(y, dist.mean(), dist.std())
    exact = 1 / (2 * np.sqrt(np.pi) * dist.std()) - 2 * density
    np.testing.assert_allclose(metrics.cde_loss(dist, y, average=False), exact, atol=1e-4)


def test_cde_loss_of_joint_gaussians_by_draws():
    dist, Y = made(q=50, d=2)
    integral = np.prod(1 / (2 * np.sqrt(np.pi) * dist.std()), axis=1)
    density = np.prod(norm.pdf(Y, dist.mean(), dist.std()), axis=1)
    found = metrics.cde_loss(dist, Y, average=False) + 2 * density
    np.testing.assert_allclose(found, integral, rtol=0.08)
    assert found.mean() == pytest.approx(integral.mean(), rel=0.02)


def test_energy_score_of_one_output_is_its_crps():
    dist, y = made(q=300)
    exact = gaussian_crps(y, dist.mean(), dist.std())
    assert metrics.energy_score(dist, y) == pytest.approx(exact.mean(), rel=0.02)


def test_energy_score_of_a_joint_gaussian():
    # |Z - y| at y = mean is Rayleigh, |Z - Z'| the same times √2
    dist = GaussianTruth(np.zeros((200, 2)), np.ones((200, 2)))
    exact = np.sqrt(np.pi / 2) * (1 - 1 / np.sqrt(2))
    found = metrics.energy_score(dist, np.zeros((200, 2)))
    assert found == pytest.approx(exact, rel=0.02)


def test_energy_score_can_be_repeated_and_follows_the_seed():
    dist, Y = made(q=40, d=2)
    assert metrics.energy_score(dist, Y) == metrics.energy_score(dist, Y)
    assert metrics.energy_score(dist, Y) != metrics.energy_score(dist, Y, random_state=1)


def test_energy_score_in_chunks_differs_only_by_the_draws(monkeypatch):
    dist, Y = made(q=60, d=2)
    whole = metrics.energy_score(dist, Y, average=False)
    monkeypatch.setattr("kcdo.metrics.joint._NUMBERS", 1)
    np.testing.assert_allclose(metrics.energy_score(dist, Y, average=False), whole)


def test_pit_values_of_the_truth():
    dist, y = made(q=600)
    found = metrics.pit_values(dist, y)
    np.testing.assert_allclose(found, norm.cdf(y, dist.mean(), dist.std()))
    assert kstest(found, "uniform").pvalue > 0.05


def test_pit_values_of_joint_outputs_are_those_of_the_marginals():
    dist, Y = made(q=30, d=3)
    expected = norm.cdf(Y, dist.mean(), dist.std())
    np.testing.assert_allclose(metrics.pit_values(dist, Y), expected)


@pytest.mark.parametrize(("d", "tolerance"), [(None, 2 / 512), (2, 0.07)])
def test_hpd_values_of_gaussians(d, tolerance):
    dist, Y = made(q=150, d=d)
    z = ((Y - dist.mean()) / dist.std()).reshape(150, -1)
    exact = chi2.cdf((z**2).sum(axis=1), z.shape[1])
    np.testing.assert_allclose(metrics.hpd_values(dist, Y), exact, atol=tolerance)


def test_coverage_and_width_of_the_truth():
    dist, y = made(q=2000)
    assert metrics.interval_coverage(dist, y, 0.8) == pytest.approx(0.8, abs=0.03)
    assert metrics.hpd_coverage(dist, y, 0.8) == pytest.approx(0.8, abs=0.03)
    exact = 2 * norm.ppf(0.9) * dist.std()
    np.testing.assert_allclose(metrics.interval_width(dist, 0.8, average=False), exact)


def test_coverage_and_width_of_each_output():
    dist, Y = made(q=50, d=2)
    inside = metrics.interval_coverage(dist, Y, average=False)
    assert inside.shape == (50, 2)
    assert inside.dtype == bool
    np.testing.assert_allclose(metrics.interval_coverage(dist, Y), inside.mean(axis=0))
    width = metrics.interval_width(dist)
    np.testing.assert_allclose(width, 2 * norm.ppf(0.95) * dist.std().mean(axis=0))


@pytest.mark.parametrize("region", ["interval", "hpd"])
def test_calibration_curve_of_the_truth_is_the_diagonal(region):
    dist, y = made(q=2000)
    levels, shares = metrics.calibration_curve(dist, y, region=region)
    np.testing.assert_allclose(levels, np.arange(1, 20) / 20)
    np.testing.assert_allclose(shares, levels, atol=0.04)


def test_calibration_curve_says_how_overconfident_a_prediction_is():
    dist, y = made(q=2000)
    narrow = GaussianTruth(dist.mean(), 0.5 * dist.std())
    levels, shares = metrics.calibration_curve(narrow, y, levels=[0.5, 0.9])
    exact = 2 * norm.cdf(0.5 * norm.ppf(0.5 + levels / 2)) - 1
    np.testing.assert_allclose(shares, exact, atol=0.03)


def test_calibration_curve_is_the_coverage_of_every_level():
    dist, Y = made(q=100, d=2)
    levels, shares = metrics.calibration_curve(dist, Y)
    assert shares.shape == (19, 2)
    expected = [metrics.interval_coverage(dist, Y, level) for level in levels]
    np.testing.assert_allclose(shares, expected)


# --- properties


@given(st.floats(-3, 3), st.floats(0.1, 10.0), st.floats(-5, 5))
def test_scores_follow_a_change_of_units(y, factor, shift):
    one = GaussianTruth([0.3], [0.8])
    other = GaussianTruth([0.3 * factor + shift], [0.8 * factor])
    moved = [y * factor + shift]
    assert metrics.crps(other, moved) == pytest.approx(factor * metrics.crps(one, [y]), rel=1e-6)
    log_scores = metrics.log_score(other, moved), metrics.log_score(one, [y])
    assert log_scores[0] == pytest.approx(log_scores[1] - np.log(factor))
    losses = metrics.cde_loss(other, moved), metrics.cde_loss(one, [y])
    assert losses[0] == pytest.approx(losses[1] / factor, rel=1e-6, abs=1e-9)
    assert metrics.pit_values(other, moved) == pytest.approx(metrics.pit_values(one, [y]))


@given(st.floats(-1.5, 1.5), st.floats(0.4, 2.5))
def test_scores_are_proper(shift, stretch):
    # expected scores of another Gaussian, by evenly spaced outputs of the truth N(0, 1)
    y = norm.ppf((np.arange(100) + 0.5) / 100)
    truth = GaussianTruth(np.zeros(100), np.ones(100))
    other = GaussianTruth(np.full(100, shift), np.full(100, stretch))
    for score in (metrics.crps, metrics.cde_loss):
        assert score(truth, y) <= score(other, y) + 2e-4
    assert metrics.log_score(truth, y) >= metrics.log_score(other, y) - 1e-2


@pytest.mark.parametrize("metric", SCORES + SHARES)
def test_whole_weights_are_repeated_rows(metric):
    dist, y = made(q=12)
    weights = np.arange(12) % 4
    weighted = metric(dist, y, sample_weight=weights)
    each = metric(dist, y, average=False)
    assert isinstance(weighted, float)
    assert weighted == pytest.approx(np.repeat(each, weights).mean())
    assert metric(dist, y) == pytest.approx(each.mean())


def test_weights_of_the_curve_and_of_the_width():
    dist, y = made(q=12)
    weights = np.arange(12) % 4
    rows = np.repeat(np.arange(12), weights)
    _, shares = metrics.calibration_curve(dist, y, sample_weight=weights)
    _, repeated = metrics.calibration_curve(dist[rows], y[rows])
    np.testing.assert_allclose(shares, repeated)
    width = metrics.interval_width(dist, sample_weight=weights)
    assert width == pytest.approx(metrics.interval_width(dist[rows]))


def test_a_row_of_weight_zero_is_absent_even_where_its_score_is_infinite():
    dist, y = fitted()
    y = y.copy()
    y[3] = 1e6
    assert metrics.log_score(dist, y) == -np.inf
    weights = np.ones(len(y))
    weights[3] = 0.0
    assert np.isfinite(metrics.log_score(dist, y, sample_weight=weights))


@pytest.mark.parametrize("metric", PAIRED)
def test_chunks_of_queries_change_nothing(metric, monkeypatch):
    dist, y = made(q=30)
    options = {} if metric in PAIRED[-3:] else {"average": False}
    whole = metric(dist, y, **options)
    monkeypatch.setattr(metrics.predictive.by_chunks, "__defaults__", (7,))
    np.testing.assert_allclose(metric(dist, y, **options), whole)


@pytest.mark.parametrize("metric", PAIRED)
def test_outputs_may_come_as_series_frame_or_list(metric):
    dist, y = made(q=9)
    plain = metric(dist, y)
    for form in (pd.Series(y), pd.DataFrame({"y": y}), y.tolist()):
        np.testing.assert_allclose(metric(dist, form), plain)


# --- with the distributions of kcdo


@pytest.mark.parametrize("metric", PAIRED)
def test_every_metric_takes_a_conditional_distribution(metric):
    dist, y = fitted()
    value = np.asarray(metric(dist, y))
    assert np.all(np.isfinite(value))


@pytest.mark.parametrize("metric", JOINT)
def test_metrics_of_joint_outputs(metric):
    dist, Y = fitted(d=2, n=30)
    assert np.all(np.isfinite(metric(dist, Y)))


def test_a_single_column_counts_as_one_output():
    dist, y = fitted()
    column = kcdo.ConditionalDensityOperator(selection="heuristic")
    X = np.random.default_rng(5).uniform(-2, 2, (60, 1))
    columns = column.fit(X, y[:, None]).conditional(X)
    for metric in PAIRED[:-1]:
        expected, found = np.asarray(metric(dist, y)), np.asarray(metric(columns, y[:, None]))
        np.testing.assert_allclose(found.ravel(), expected.ravel(), rtol=1e-6)


def test_hpd_values_agree_with_the_regions():
    dist, y = fitted()
    values = metrics.hpd_values(dist, y)
    for level in (0.3, 0.6, 0.9):
        inside = metrics.hpd_coverage(dist, y, level, average=False)
        clear = np.abs(values - level) > 0.02
        np.testing.assert_array_equal(inside[clear], values[clear] <= level)


def test_cde_loss_agrees_with_a_fine_grid():
    dist, y = fitted()
    line = np.linspace(y.min() - 3, y.max() + 3, 20001)
    square = trapezoid(dist.pdf(line) ** 2, line, axis=1)
    expected = square - 2 * np.exp(dist.logpdf_pairs(y))
    np.testing.assert_allclose(metrics.cde_loss(dist, y, average=False), expected, atol=2e-3)


def test_crps_agrees_with_the_integral_of_the_cdf():
    dist, y = fitted()
    line = np.linspace(y.min() - 3, y.max() + 3, 20001)
    squares = (dist.cdf(line) - (y[:, None] <= line)) ** 2
    expected = trapezoid(squares, line, axis=1)
    np.testing.assert_allclose(metrics.crps(dist, y, average=False), expected, atol=1e-3)


def test_exact_methods_of_a_distribution_are_preferred():
    class Exact(GaussianTruth):
        def crps(self, Y):
            return np.arange(len(Y), dtype=float)

        def square_integral(self):
            return np.full(len(self), 100.0)

    dist = Exact([0.0, 0.0, 0.0], [1.0, 1.0, 1.0])
    assert metrics.crps(dist, [0.0, 1.0, 2.0]) == 1.0
    loss = metrics.cde_loss(dist, [0.0, 1.0, 2.0], average=False)
    np.testing.assert_allclose(loss, 100 - 2 * norm.pdf([0.0, 1.0, 2.0]))


# --- errors


@pytest.mark.parametrize("metric", PAIRED)
def test_wrong_outputs_are_refused(metric):
    dist, y = made(q=5)
    with pytest.raises(InvalidInputError, match="one row per query: 5 queries, 4 rows"):
        metric(dist, y[:4])
    with pytest.raises(InvalidInputError, match=r"Y contains NaN in 1 of 5 rows"):
        metric(dist, np.where(np.arange(5) == 2, np.nan, y))
    with pytest.raises(InvalidInputError, match=r"as many columns as .* outputs, 1; got 2"):
        metric(dist, np.column_stack([y, y]))


def test_crps_of_joint_outputs_is_refused():
    dist, Y = made(q=5, d=2)
    with pytest.raises(InvalidInputError, match=r"one output; .* have 2\. Use energy_score"):
        metrics.crps(dist, Y)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 90, float("nan")])
def test_levels_outside_the_unit_interval_are_refused(level):
    dist, y = made(q=5)
    for metric in SHARES:
        with pytest.raises(InvalidInputError, match="level must lie between 0 and 1"):
            metric(dist, y, level)
    with pytest.raises(InvalidInputError, match="level must lie between 0 and 1"):
        metrics.interval_width(dist, level)
    with pytest.raises(InvalidInputError, match="levels must be numbers between 0 and 1"):
        metrics.calibration_curve(dist, y, levels=[0.5, level])


def test_unknown_regions_are_refused():
    dist, y = made(q=5)
    with pytest.raises(InvalidInputError, match='"interval" or "hpd"; got \'box\''):
        metrics.calibration_curve(dist, y, region="box")


def test_weights_are_checked():
    dist, y = made(q=3)
    with pytest.raises(InvalidInputError, match=r"sample_weight must have shape \(3,\)"):
        metrics.log_score(dist, y, sample_weight=[1.0, 2.0])
    with pytest.raises(InvalidInputError, match="must not be negative"):
        metrics.log_score(dist, y, sample_weight=[1.0, -2.0, 1.0])
    with pytest.raises(InvalidInputError, match="with average=False there is none"):
        metrics.log_score(dist, y, sample_weight=[1.0, 2.0, 3.0], average=False)


def test_one_draw_has_no_energy_score():
    dist, y = made(q=3)
    with pytest.raises(InvalidInputError, match="n_draws >= 2; got 1"):
        metrics.energy_score(dist, y, n_draws=1)


def test_signed_densities_have_no_scores():
    X = np.linspace(-1, 1, 20)[:, None]
    model = kcdo.ConditionalDensityOperator(selection="heuristic", positivity="signed")
    with pytest.raises(SignedDensityError, match='use positivity="project"'):
        metrics.log_score(model.fit(X, X[:, 0]).conditional(X), X[:, 0])


def test_without_scoringrules_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "scoringrules", None)
    dist, y = made(q=3)
    for metric in (metrics.crps, metrics.energy_score):
        with pytest.raises(MissingExtraError, match=r'pip install "kcdo\[metrics\]"'):
            metric(dist, y)
    assert np.isfinite(metrics.cde_loss(dist, y))  # the others do without


def test_importing_kcdo_does_not_import_the_metrics():
    code = "import sys, kcdo; print('numpy' in sys.modules, 'kcdo.metrics' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False False\n"
