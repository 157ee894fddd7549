"""Location and scale: held-out residuals against refits, scales that follow the noise."""

import numpy as np
import pytest

import kcdo
from kcdo.components import (
    Effort,
    LocationParameters,
    LocationScaleParameters,
    Settings,
    fit_map,
    log_squares,
)
from kcdo.components.location_map import _believed_share
from kcdo.kernels import Gaussian, Matern
from kcdo.rows import Rows
from kcdo.systems import Centres, ExactRows, Groups, NearestRows, WhitenedSums

KERNEL = Matern((1.0, 2.0), smoothness=2.5)
NOISE = 0.15
SHARES = Effort().believed_shares


def data(n=40, seed=0, repeats=False):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    if repeats:
        X[5:9] = X[0]
        X[20] = X[21]
    Y = np.column_stack([np.sin(X[:, 0]), X[:, 0] * X[:, 1]]) + 0.3 * rng.normal(size=(n, 2))
    for array in (X, Y):
        array.setflags(write=False)
    return X, Y


def fit(X, Y, weights=None, parameters=None, floor=0.0, system=None, effort=None):
    weights = np.ones(len(X)) if weights is None else weights
    parameters = parameters or LocationParameters(KERNEL, NOISE)
    if system is None:
        alpha = parameters.noise / weights.sum()
        system = ExactRows(parameters.kernel, Groups.of(X, weights)).factor(alpha)
    settings = Settings(effort=effort or Effort())
    floors = np.full(Y.shape[1], floor)
    return fit_map(parameters, system, Rows(X, Y, weights), floors, settings)


def refitted(X, Y, i):
    """Predict row i and its variance ratio from the other rows, as a Gaussian process."""
    others = np.arange(len(X)) != i
    A = KERNEL(X[others]) + NOISE * np.eye(len(X) - 1)
    k = KERNEL(X[others], X[i : i + 1])
    centre = Y.mean(axis=0)
    mean = centre + k.T @ np.linalg.solve(A, Y[others] - centre)
    return mean[0], 1.0 + NOISE - (k.T @ np.linalg.solve(A, k))[0, 0]


@pytest.mark.parametrize("repeats", [False, True])
def test_residuals_are_those_of_a_refit(repeats):
    X, Y = data(repeats=repeats)
    model, residuals = fit(X, Y)
    means, ratios = zip(*(refitted(X, Y, i) for i in range(len(X))), strict=True)
    np.testing.assert_allclose(residuals.location, means, rtol=1e-6, atol=1e-8)
    # the scale is the predictive sd, times one factor for each output
    factors = residuals.scale / np.sqrt(ratios)[:, None]
    np.testing.assert_allclose(factors, np.broadcast_to(factors[0], factors.shape), rtol=1e-6)
    expected = (Y - residuals.location) / residuals.scale
    np.testing.assert_allclose(residuals.values, expected, rtol=1e-9)
    np.testing.assert_allclose(np.mean(residuals.values**2, axis=0), 1.0, rtol=1e-9)
    assert model.log_noise is None


def test_queries_get_the_predictive_mean_and_sd():
    X, Y = data()
    model, _ = fit(X, Y)
    Xq = np.array([[0.1, 0.2], [5.0, 5.0]])
    location, scale = model(Xq)
    A, k = KERNEL(X) + NOISE * np.eye(40), KERNEL(X, Xq)
    centre = Y.mean(axis=0)
    np.testing.assert_allclose(
        location, centre + k.T @ np.linalg.solve(A, Y - centre), rtol=1e-6, atol=1e-8
    )
    ratio = 1.0 + NOISE - np.sum(k * np.linalg.solve(A, k), axis=0)
    variance = ratio[:, None] * model.spread.signal * model.factor**2
    np.testing.assert_allclose(scale**2, variance, rtol=1e-6)
    assert np.all(scale[1] > 2.0 * scale[0])  # far from all rows


def test_noise_is_estimated_from_held_out_errors():
    """Of a Gaussian process with known noise, the scale is about the noise where rows are many."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, (300, 1))
    Y = np.sin(X) + 0.2 * rng.normal(size=(300, 1))
    parameters = LocationParameters(Gaussian(1.0), 0.04)
    model, residuals = fit(X, Y, parameters=parameters)
    location, scale = model(np.linspace(-1.8, 1.8, 9)[:, None])
    np.testing.assert_allclose(scale, 0.2, rtol=0.15)
    np.testing.assert_allclose(location[:, 0], np.sin(np.linspace(-1.8, 1.8, 9)), atol=0.1)
    assert np.mean(np.abs(residuals.values) < 1.0) == pytest.approx(0.68, abs=0.06)


def test_the_scale_follows_noise_that_varies():
    rng = np.random.default_rng(2)
    X = rng.uniform(0, 3, (300, 1))
    Y = np.sin(X) + np.exp(X - 2.5) * rng.normal(size=(300, 1))
    even = LocationParameters(Gaussian(1.0), 0.3)
    varying = LocationParameters(Gaussian(1.0), 0.3, Gaussian(1.5), 1.0)
    queries = np.array([[0.5], [1.5], [2.5]])
    flat = fit(X, Y, parameters=even)[0](queries)[1][:, 0]
    model, residuals = fit(X, Y, parameters=varying)
    followed = model(queries)[1][:, 0]
    assert flat[2] / flat[0] < 1.2
    assert followed[2] / followed[0] > 4.0  # truth: e² = 7.4
    spread = [residuals.values[np.abs(X[:, 0] - x) < 0.5].std() for x in (0.5, 2.5)]
    assert spread[1] / spread[0] == pytest.approx(1.0, abs=0.35)


def test_varying_noise_is_held_out_too():
    """The factor of a row's noise is regressed on the other rows."""
    whole = Effort(believed_shares=(1.0,))
    X, Y = data(30)
    kernel, noise = Gaussian((1.0, 1.5)), 0.7
    even_model, even = fit(X, Y)
    parameters = LocationParameters(KERNEL, NOISE, kernel, noise)
    _, varying = fit(X, Y, parameters=parameters, effort=whole)
    variance = even.scale**2 / even_model.factor**2
    logs = log_squares((Y - even.location) ** 2 / variance)
    centre = logs.mean(axis=0)
    ratios = []
    for i in range(30):
        others = np.arange(30) != i
        A = kernel(X[others]) + noise * np.eye(29)
        w = np.linalg.solve(A, kernel(X[others], X[i : i + 1]))[:, 0]
        expected = np.exp(centre + w @ (logs[others] - centre))
        ratios.append(varying.scale[i] ** 2 / variance[i] / expected)
    np.testing.assert_allclose(ratios, np.tile(ratios[0], (30, 1)), rtol=1e-6)  # one factor


@pytest.mark.parametrize(("steepness", "share"), [(0.0, 0.0), (1.0, 1.0)])
def test_varying_noise_is_believed_as_far_as_the_residuals_vary(steepness, share):
    rng = np.random.default_rng(5)
    logs = rng.normal(size=(400, 2))
    squared = np.exp(steepness * logs) * rng.normal(size=(400, 2)) ** 2
    squared[0] = 1e6  # one outlier does not decide
    found = _believed_share(logs, squared, np.ones(400), 3, SHARES)
    np.testing.assert_allclose(found, share, atol=0.25)


def test_a_gain_of_chance_is_not_believed():
    """Noise that hardly varies gains a little: less than the scales it took to find it."""
    rng = np.random.default_rng(6)
    logs = 0.2 * rng.normal(size=(400, 1))
    squared = np.exp(logs) * rng.normal(size=(400, 1)) ** 2
    assert _believed_share(logs, squared, np.ones(400), 0, SHARES)[0] > 0.0
    assert _believed_share(logs, squared, np.ones(400), 11, SHARES)[0] == 0.0
    assert _believed_share(logs, squared, np.full(400, 30.0), 11, SHARES)[0] > 0.0  # many rows


def test_a_floor_of_the_scale():
    X, Y = data()
    model, residuals = fit(X, Y, floor=2.0)
    free, _ = fit(X, Y)
    np.testing.assert_allclose(model(X)[1] ** 2, free(X)[1] ** 2 + 4.0, rtol=1e-9)
    assert residuals.scale.min() >= 2.0


def test_one_outlier_does_not_set_the_factor():
    X, Y = data(60)
    wild = Y.copy()
    wild[0] += 1e4
    scale = fit(X, wild)[0](X[30:])[1]
    # noise and signal grow with the squares, the factor takes most of it back
    assert np.all(scale < 1e4 / 5)


def test_counts_are_repeated_rows():
    X, Y = data()
    times = np.random.default_rng(3).integers(1, 4, 40)
    counted, _ = fit(X, Y, times.astype(float))
    copied, _ = fit(np.repeat(X, times, axis=0), np.repeat(Y, times, axis=0))
    for one, other in zip(counted(X), copied(X), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_a_low_rank_location():
    X, Y = data()
    low_rank = WhitenedSums.of_rows(KERNEL, X, X, np.ones(40)).factor(NOISE / 40)
    one, exact = fit(X, Y, system=low_rank), fit(X, Y)
    for found, expected in zip(one[0](X), exact[0](X), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(one[1].values, exact[1].values, rtol=1e-4, atol=1e-6)


def test_of_many_rows_variances_and_noise_come_from_some():
    X, Y = data(200)
    parameters = LocationParameters(KERNEL, NOISE, Gaussian((2.0, 2.0)), 1.0)
    whole, residuals = fit(X, Y, parameters=parameters)
    some = Effort(spread_rows=120, noise_rows=120)
    part, fewer = fit(X, Y, parameters=parameters, effort=some)
    assert part.spread.centres.n_centres == part.log_noise.centres.n_centres == 120
    np.testing.assert_allclose(part(X)[0], whole(X)[0])
    assert np.median(part(X)[1] / whole(X)[1]) == pytest.approx(1.0, abs=0.1)
    assert np.corrcoef(fewer.values[:, 0], residuals.values[:, 0])[0, 1] > 0.98


def test_logarithms_of_squares_are_finite():
    assert np.isfinite(log_squares(np.array([0.0, 1e-300]))).all()
    assert log_squares(np.array([4.0]))[0] == pytest.approx(np.log(4.0), abs=1e-4)


def test_many_queries_are_answered_some_at_a_time(monkeypatch):
    """A section of a million queries would take gigabytes."""
    X = np.random.default_rng(0).normal(size=(50, 2))
    rows = Rows(X, X[:, :1] ** 2, np.ones(50))
    parameters = LocationParameters(Gaussian(1.0), 0.1, Gaussian(2.0), 1.0)
    system = ExactRows(parameters.kernel, Groups.of(X)).factor(0.1 / 50)
    model, _ = fit_map(parameters, system, rows, np.zeros(1), Settings())
    whole = model(X)
    largest = []
    section = Centres.section

    def watched(self, queries):
        largest.append(len(queries))
        return section(self, queries)

    monkeypatch.setattr("kcdo.components.location_map._QUERIES_AT_A_TIME", 16)
    monkeypatch.setattr(Centres, "section", watched)
    for found, expected in zip(model(X), whole, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert max(largest) <= 16


def test_a_location_of_near_rows_is_that_of_all_where_all_are_near():
    """With as many neighbours as rows, systems of near rows are the exact one."""
    X, Y = data(40)
    rows, alpha = Rows(X, Y, np.ones(40)), NOISE / 40
    near = NearestRows(KERNEL, X, rows.weights, neighbours=40).factor(alpha)
    some = LocationParameters(KERNEL, NOISE, near=True)
    model, residuals = fit_map(some, near, rows, np.zeros(2), Settings())
    exact_model, exact = fit(X, Y)
    queries = X[:5] + 0.1
    for one, other in zip(model(queries), exact_model(queries), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    np.testing.assert_allclose(residuals.values, exact.values, rtol=1e-6, atol=1e-8)


def test_many_rows_in_a_learnt_metric_are_located_by_near_ones(give_effort, tmp_path):
    give_effort(exact_rows=150)
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (220, 2))
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.standard_normal(220)
    model = kcdo.ConditionalDensityOperator().fit(X, y)
    (chosen,) = [p for p in model._parameters.components if isinstance(p, LocationScaleParameters)]
    assert chosen.location.near
    model.save(tmp_path / "near.kcdo")
    np.testing.assert_allclose(
        kcdo.load(tmp_path / "near.kcdo").predict(X[:4]), model.predict(X[:4]), rtol=1e-12
    )
    refitted = model.refit(X, y)
    np.testing.assert_allclose(refitted.predict(X[:4]), model.predict(X[:4]), atol=1e-6)
    assert np.abs(model.predict(X) - np.sin(2 * X[:, 0])).mean() < 0.15
