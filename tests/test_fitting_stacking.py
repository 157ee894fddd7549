"""Averages of regressions: shares by held-out rows, on all rows and on near ones."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import approx_fprime

import kcdo
from kcdo.components import Effort, Location, Regressor, Settings, averaged
from kcdo.fitting.metric import Metric
from kcdo.fitting.stacking import _by_each_other, _Foretold, _shares, stacked
from kcdo.kernels import Gaussian, Matern
from kcdo.rows import Rows

SMOOTH, ROUGH = Gaussian((0.5, 0.3)), Matern((0.7, 0.7), smoothness=0.5)
ALL = Settings(n_jobs=1)
NEAR = replace(ALL, effort=Effort(exact_rows=50))  # of more rows a location sees near ones


def two_columns(n=300, seed=0):
    """Return rows whose outputs follow one column smoothly and jump along the other."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    y = np.sin(2 * X[:, 0]) + np.sign(X[:, 1]) + 0.1 * rng.normal(size=n)
    return Rows(X, y[:, None], np.ones(n))


def metrics(*kernels, noise=0.3):
    return [Metric(kernel, kernel, noise, loss=0.0) for kernel in kernels]


def test_the_slope_of_the_shares_is_that_of_the_loss():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(40, 1))
    values = truth + rng.normal(size=(40, 3)) * [0.1, 0.3, 0.5]
    judged = _Foretold.of(
        values, rng.uniform(0.1, 3.0, (40, 3)), truth, rng.uniform(0.3, 1.0, 40), np.ones(40)
    )
    theta = np.array([0.1, 0.2, -0.3, -0.5])
    for freedom in (1.0, 12.0):
        slope = approx_fprime(theta, lambda at, freedom=freedom: judged.loss(freedom, at)[0])
        assert judged.loss(freedom, theta)[1] == pytest.approx(slope, abs=1e-5)
    assert judged.loss(1.0, np.append(theta[:-1] + 5.0, theta[-1]))[0] == pytest.approx(
        judged.loss(1.0, theta)[0]
    )


def test_normal_errors_are_averaged_as_their_variances_say():
    rng = np.random.default_rng(1)
    truth = rng.normal(size=(4000, 1))
    values = truth + rng.normal(size=(4000, 2)) * [0.2, 0.4]
    even = np.ones(4000)
    shares = _Foretold.of(values, np.ones_like(values), truth, even, even).shares(200)
    assert shares == pytest.approx([0.8, 0.2], abs=0.02)  # 1/0.04 beside 1/0.16


@pytest.mark.parametrize("settings", [ALL, NEAR])
def test_an_average_foretells_new_rows_better_than_either(settings):
    rows, new = two_columns(), two_columns(seed=1)
    rough, smooth, other = metrics(ROUGH, SMOOTH, Matern((1.0, 0.2), smoothness=1.5), noise=0.1)
    first, second = stacked([rough, smooth, other], rows, settings)
    assert first.kernel == ROUGH
    assert second is smooth
    assert len(first.beside) > 0
    assert sum(each.share for each in first.regressors) == pytest.approx(1.0)

    def error(regressors):
        location = Location.fit(regressors, rows.X, rows, settings)[0]
        return np.abs(location(new.X)[0] - new.Y[:, 0]).mean()

    alone = [error([Regressor(each.kernel, each.noise)]) for each in (rough, smooth, other)]
    assert error(first.regressors) < 0.97 * min(alone)


def test_what_is_clearly_worse_gets_no_share_and_few_rows_stay_as_they_are():
    rows = two_columns()
    good = metrics(Matern((0.7, 0.7), smoothness=0.5), noise=0.05)
    useless = metrics(Gaussian((50.0, 50.0)), Gaussian((90.0, 90.0)), noise=10.0)
    first, _ = stacked([*good, *useless], rows, ALL)
    assert first.beside == ()
    pair = metrics(SMOOTH, ROUGH)
    assert stacked(pair, rows, ALL) is pair


def test_of_few_rows_half_stays_with_the_first_and_the_rest_is_even():
    three = metrics(ROUGH, SMOOTH, Matern((1.0, 0.2), smoothness=1.5), noise=0.1)
    first, second = stacked(three, two_columns(150), ALL)
    assert first.kernel == ROUGH
    assert second is three[1]
    shares = [each.share for each in first.regressors]
    assert shares == pytest.approx([2 / 3, 1 / 6, 1 / 6])


def test_of_many_rows_a_metric_that_is_clearly_better_comes_first():
    good = metrics(Matern((0.7, 0.7), smoothness=0.5), noise=0.05)
    useless = metrics(Gaussian((50.0, 50.0)), Gaussian((90.0, 90.0)), noise=10.0)
    first, second = stacked([*useless, *good], two_columns(), NEAR)
    assert first.kernel == good[0].kernel
    assert second is useless[1]


@pytest.mark.parametrize("settings", [ALL, NEAR])
def test_held_out_locations_are_those_of_the_other_rows(settings):
    rows = two_columns(60)  # fewer than near rows: all others are near
    regressors = [Regressor(SMOOTH, 0.3, 0.4), Regressor(ROUGH, 0.2, 0.6)]
    model, held_out, variance = Location.fit(regressors, rows.X, rows, settings)
    assert np.all(variance > 0)
    for row in (0, 7, 31):
        others = np.delete(np.arange(60), row)
        values, precision = [], []
        for each in regressors:
            matrix = each.kernel(rows.X[others], rows.X[others])
            matrix += np.diag(each.noise / rows.weights[others])
            own = each.kernel(rows.X[others], rows.X[[row]])[:, 0]
            weights = np.linalg.solve(matrix, own)
            values.append(weights @ (rows.Y[others, 0] - model.offset))
            precision.append(1.0 / (1.0 + each.noise - own @ weights))
        shares = np.array([0.4, 0.6]) * (precision if model.regression is None else 1.0)
        expected = model.offset + shares @ values / shares.sum()
        assert held_out[row] == pytest.approx(expected, abs=1e-6)


def test_shares_count_as_much_as_a_regression_is_sure():
    values, precision = np.array([[0.0, 1.0]]), np.array([[3.0, 1.0]])
    assert averaged(np.array([0.5, 0.5]), values) == pytest.approx([0.5])
    assert averaged(np.array([0.5, 0.5]), values, precision) == pytest.approx([0.25])
    assert averaged(np.array([0.25, 0.75]), values, precision) == pytest.approx([0.5])


def test_a_default_fit_with_an_average_is_refitted_and_saved_as_it_is(tmp_path):
    rng = np.random.default_rng(3)
    X = rng.uniform(-2, 2, (400, 3))
    y = np.sin(3 * X[:, 0]) + np.sign(X[:, 1]) + 0.1 * rng.normal(size=400)
    model = kcdo.ConditionalDensityOperator(random_state=0).fit(X, y)
    smoothed = next(c for c in model._operator.components if "smoothed" in c.names)
    assert len(smoothed.location.shares) > 1
    expected = model.conditional(X[:20]).quantile([0.1, 0.5, 0.9])
    assert model.refit(X, y).conditional(X[:20]).quantile([0.1, 0.5, 0.9]) == pytest.approx(
        expected, abs=1e-6
    )
    model.save(tmp_path / "model.kcdo")
    again = kcdo.load(tmp_path / "model.kcdo")
    assert again.conditional(X[:20]).quantile([0.1, 0.5, 0.9]) == pytest.approx(expected, abs=1e-9)


def test_outputs_that_are_foretold_exactly_have_shares():
    truth = np.linspace(-1, 1, 30)[:, None]
    even = np.ones(30)
    for values in (np.hstack([truth, truth]), np.hstack([truth, -truth])):
        shares = _Foretold.of(values, np.ones_like(values), truth, even, even).shares(50)
        assert np.all(shares > 0)
        assert shares.sum() == pytest.approx(1.0)


def test_a_heavy_row_is_no_less_sure():
    """Variances are those of a row of weight 1, as locations of queries have them."""
    rows = replace(two_columns(), weights=np.where(np.arange(300) % 10, 0.5, 50.5))
    judged, _ = _by_each_other(metrics(ROUGH, SMOOTH), rows, np.arange(300), ALL)
    expected = []
    for row in (0, 1, 2):  # the first weighs 50.5
        others = np.delete(np.arange(300), row)
        matrix = ROUGH(rows.X[others], rows.X[others]) + np.diag(0.3 / rows.weights[others])
        own = ROUGH(rows.X[others], rows.X[[row]])[:, 0]
        expected.append(1.3 - own @ np.linalg.solve(matrix, own))
    found = judged.variance[:3] / judged.variance[0]
    assert found == pytest.approx(np.array(expected) / expected[0], rel=1e-6)


def test_no_more_than_five_are_averaged():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(300, 1))
    values, even = truth + 0.3 * rng.normal(size=(300, 8)), np.ones(300)
    judged = _Foretold.of(values, np.ones_like(values), truth, even, even)
    for first in range(8):
        shares = _shares(judged, first, Effort())
        assert np.count_nonzero(shares) == 5
        assert shares[first] > 0
