"""The parts of a report: units, plans of what can be combined, effects, accuracy, verdicts."""

import base64
import itertools
import re
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

import kcdo
from kcdo.distributions import ConditionalDistribution
from kcdo.errors import InvalidInputError
from kcdo.progress import Progress
from kcdo.reports import curves
from kcdo.reports.accuracy import Accuracy, OutputAccuracy, measure_accuracy
from kcdo.reports.budget import Budget
from kcdo.reports.columns import Column
from kcdo.reports.curves import Axis, bytes_per_curve, compute_curves
from kcdo.reports.effect_figures import effect_figures
from kcdo.reports.effects import measure_effects, predicted_statistics
from kcdo.reports.foretold import Foretold
from kcdo.reports.grids import plan_grids
from kcdo.reports.inputs import even_values
from kcdo.reports.sections import accuracy_section
from kcdo.reports.shown import MeasuredRows, Shown
from kcdo.reports.text import number, split_unit
from tests.forked_truth import Branches
from tests.gaussian_chain import COV, distribution, gaussian_chain
from tests.test_report import Page, small_model


def test_units_of_names():
    assert split_unit("speed [km/h]") == ("speed", "km/h")
    assert split_unit("speed(km/h) ") == ("speed", "km/h")
    assert split_unit("temp_degC") == ("temp", "°C")
    for plain in ("rain_1h", "temp_min", "group_a", "_km", "km", "[km]", "a)b("):
        assert split_unit(plain) == (plain, "")


@given(st.floats(-1e12, 1e12))
def test_numbers_are_readable_and_near(value):
    text = number(value).replace(",", "").replace("−", "-")
    assert float(text) == pytest.approx(value, rel=1e-3, abs=1e-8)


def some_columns(n, values=None):
    rng = np.random.default_rng(0)
    return [
        Column(f"x{i}", "number", rng.standard_normal(500) if values is None else values)
        for i in range(n)
    ]


@given(
    st.lists(st.floats(-1e4, 1e4), min_size=2, max_size=200),
    st.booleans(),
    st.integers(1, 3000),
    st.integers(0, 4),
)
def test_plans_take_usual_values_in_few_combinations(values, whole, limit, n_rows):
    column = np.round(values) if whole else np.array(values)
    columns = [
        replace(c, kind="whole number" if whole else "number") for c in some_columns(4, column)
    ]
    plan = plan_grids(columns, [1, 2, 3, 0], n_rows, limit)
    assert sorted(c.column for c in plan.controls) == [0, 1, 2, 3]
    assert plan.n_curves <= limit
    assert plan.n_rows <= n_rows
    spread = np.ptp(column)
    for c in plan.controls:
        assert len(c.texts) == len(c.values) > c.start >= 0
        assert np.all(np.diff(c.values) > 0)
        assert column.min() - 0.05 * spread - 1 <= c.values[0]
        assert c.values[-1] <= column.max() + 0.05 * spread + 1
        assert not whole or np.all(c.values == np.round(c.values))
    covered = {i for grid in plan.grids if grid.anchor == 0 for i in grid.inputs}
    assert covered == {i for i, c in enumerate(plan.controls) if len(c.values) > 1}


def test_values_reach_to_the_ends_of_the_data():
    column = some_columns(1, np.linspace(-0.99, 0.99, 500))[0]
    values = even_values(column, 9)
    np.testing.assert_allclose(values, [-0.96, -0.8, -0.4, 0, 0.4, 0.8, 0.96], atol=1e-12)
    hours = replace(column, values=np.arange(500.0) % 24, kind="whole number")
    np.testing.assert_array_equal(even_values(hours, 30), np.arange(24))
    np.testing.assert_array_equal(even_values(hours, 15), np.r_[0:23:2, 23])


@pytest.mark.parametrize("p", [1, 2, 3, 4, 10, 40])
def test_any_input_moves_whatever_their_number(p):
    plan = plan_grids(some_columns(p), list(range(p)), 10, 15_000)
    assert all(control.kind == "slider" for control in plan.controls)
    assert plan.n_rows == 10
    pairs = set(itertools.combinations(range(p), 2))
    together = {
        pair
        for grid in plan.grids
        if grid.anchor == 0
        for pair in itertools.combinations(sorted(grid.inputs), 2)
    }
    if p <= 10:
        assert together == pairs
    else:
        assert {(0, 1), (0, 2), (1, 2)} <= together  # those of the most important inputs
    assert max(len(grid.inputs) for grid in plan.grids) >= min(p, 3 if p <= 10 else 2)


def test_the_default_size_is_below_ten_megabytes():
    """Whatever the outputs, the plan has few enough curves; so none need be computed here."""
    columns = some_columns(12)
    for d in (1, 2, 3, 8, 40):
        each = bytes_per_curve([Axis(0.0, 1.0, 320)] * d)
        plan = plan_grids(columns, list(range(12)), 10, min(24_000, int(7.5e6 / each)))
        assert 50 < 4 / 3 * plan.n_curves * each <= 10_000_000
        assert all(len(control.values) > 1 for control in plan.controls) or d == 40


def test_slow_models_are_asked_less():
    parts = ("importances", "accuracy", "effects", "curves")
    fast, slow, stuck = (Budget(dict.fromkeys(parts, s)) for s in (1e-6, 0.01, 10.0))
    assert fast.queries("curves", 250, 24_000) == 24_000
    assert slow.queries("curves", 250, 24_000) == 1500  # at most 24 s
    assert stuck.queries("curves", 250, 24_000) == 250
    assert 15 < sum(0.01 * slow.queries(what, 1, 1 << 20) for what in parts) <= 47


def test_how_fast_a_model_answers_is_measured():
    model, X, _ = small_model()

    class Slow:
        report_ = model.report_

        def conditional(self, rows):
            time.sleep(0.02)
            return model.conditional(rows)

    found = Budget.measured(Slow(), X[:10], [Axis(-2.0, 2.0, 9)])
    assert set(found.seconds) == {"importances", "accuracy", "effects", "curves"}
    assert all(0.002 <= seconds < 0.1 for seconds in found.seconds.values())


def test_pictures_of_pairs_of_outputs_are_part_of_the_budget(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 1))
    Y = X + rng.normal(size=(60, 2))
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    slow = curves._Joint.add

    def sleeping(self, dist):
        time.sleep(0.3)
        slow(self, dist)

    monkeypatch.setattr(curves._Joint, "add", sleeping)
    found = Budget.measured(model, X[:10], [Axis(-2.0, 2.0, 9)] * 2)
    assert found.seconds["curves"] >= 0.03


def test_a_slow_model_shows_importances_on_fewer_rows():
    model, X, y = small_model()
    asked = []

    class Counting:
        report_, n_features_in_ = model.report_, model.n_features_in_

        def conditional(self, rows):
            asked.append(len(rows))
            return model.conditional(rows)

    shown = Shown.of(Counting(), X, y, None)
    for most, rows in ((1600, 200), (10, 40)):
        asked.clear()
        found, _ = shown.importances(True, most)
        assert set(asked) == {rows}
        assert len(found) == X.shape[1]


@pytest.mark.slow
def test_the_page_of_ten_thousand_rows_of_ten_columns_is_small(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(10_000, 10)), columns=list("abcdefghij"))
    y = np.sin(2 * X["a"]) + X["b"] + 0.3 * rng.standard_normal(10_000)
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X[:8000], y[:8000])
    path = model.report(tmp_path / "r.html", X, y, verbose=True)
    assert path.stat().st_size < 10_000_000


def test_effects_are_averages_over_the_rows(fitted_waves):
    model, X, y = fitted_waves
    shown = Shown.of(model, X, y, None)
    effects, left_out = measure_effects(shown, [1, 0], 400)
    assert left_out == 0
    assert [effect.column for effect in effects] == [1, 0]
    effect = effects[1]
    assert effect.n_rows == 400 // (len(effects[0].values) + len(effect.values))
    rows = X[shown.some_rows(effect.n_rows)]
    for v in (0, 7):
        moved = rows.copy()
        moved[:, 0] = effect.values[v]
        answers = model.conditional(moved).summary(["mean", "q05", "q95"])
        for name, values in answers.items():
            assert effect.averages[name][v, 0] == pytest.approx(values.mean())


def test_effects_ask_fewer_values_where_few_queries_are_allowed(fitted_waves, monkeypatch):
    model, X, y = fitted_waves
    shown = Shown.of(model, X, y, None)
    monkeypatch.setattr("kcdo.reports.effects._MOST_EFFECTS", 1)
    (effect,), left_out = measure_effects(shown, [0, 1], 60)
    assert effect.n_rows == 60 // len(effect.values)
    assert left_out == 1
    (finer,), _ = measure_effects(shown, [0, 1], 2000)
    assert len(effect.values) < 0.5 * len(finer.values)


def test_statistics_of_a_chain_are_those_of_its_draws():
    """Few draws of each query: rows are averaged."""
    dist = distribution(gaussian_chain(np.zeros((2, 1)), n_draws=4096))
    found = predicted_statistics(dist)
    draws = dist.with_draws(32).fixed_draws()
    np.testing.assert_allclose(found["mean"], draws.mean(axis=1))
    sd = np.sqrt(np.diag(COV))
    np.testing.assert_allclose(found["mean"], 0.0, atol=0.15)
    assert np.mean(found["q95"] / (norm.ppf(0.95) * sd)) == pytest.approx(1.0, abs=0.05)
    np.testing.assert_allclose(found["q25"], [norm.ppf(0.25) * sd] * 2, atol=0.3)


def test_few_queries_measure_the_effects_of_few_inputs(rng):
    X = rng.normal(size=(60, 6))
    y = X @ np.arange(1.0, 7.0) + rng.normal(size=60)
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, y)
    shown, order = Shown.of(model, X, y, None), [5, 4, 3, 2, 1, 0]
    few, left_out = measure_effects(shown, order, 7 * 8 * 4)
    assert [effect.column for effect in few] == order[:4]
    assert left_out == 2
    every, left_out = measure_effects(shown, order, 7 * 8 * 6)
    assert (len(every), left_out) == (6, 0)


def test_effect_curves_show_what_an_input_does(fitted_waves):
    model, X, y = fitted_waves
    shown = Shown.of(model, X, y, None)
    effects, _ = measure_effects(shown, [0, 1], 2000)
    wave, idle = effect_figures(effects, shown.inputs, shown.outputs[0], 0)
    heights = [np.ptp([dot.y for dot in figure.dots]) for figure in (wave, idle)]
    assert heights[0] > 4 * heights[1]  # on one axis, so they compare
    assert wave.dots[0].text.startswith("−0.96: mean −1.9")
    assert all(
        figure.left <= dot.x <= figure.right for figure in (wave, idle) for dot in figure.dots
    )


@pytest.fixture(scope="module")
def fitted_waves():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (200, 2))
    y = 2 * np.sin(2 * X[:, 0]) + 0.2 * rng.standard_normal(200)
    return kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, y), X, y


def test_importances_are_those_of_the_one_definition(tmp_path):
    model, X, Y = small_model(p=2)
    wanted = kcdo.metrics.importances(model, X)
    made = Page(model.report(tmp_path / "r.html", X, Y[:, 0], held_out=True))
    shown = dict(
        re.findall(r'<th scope="row">(x\d)</th><td class="share">.*?>([\d.]+)<', made.source)
    )
    assert shown == {name: f"{value:.2f}" for name, value in wanted.items()}
    assert "when this input alone is shuffled, from 0 to 1; measured on held-out rows" in made.text


def test_an_automatic_fit_shows_its_weights_and_importances(tmp_path):
    model, X, Y = small_model(p=2, n=40, selection="auto")
    made = Page(model.report(tmp_path / "r.html", X, Y[:, 0]))
    for name, value in model.report_.importances.items():
        line = rf'<th scope="row">x{name}</th><td class="share">.*?>{value:.2f}<'
        assert re.search(line, made.source)
    assert "from 0 to 1; measured on training rows" in made.text
    assert re.search(r"Weights of the components plain \d+%, location scale \d+%", made.text)
    assert "Loss" not in made.text  # of a search, in units of its own
    assert "the model gives density 0" not in made.text  # heavy tails foresee everything


def test_accuracy_agrees_with_definitions():
    model, X, Y = small_model(n=150)
    dist = model.conditional(X)
    found = measure_accuracy(dist, Y, True, model.marginal()).outputs[0]
    inside = dist.interval(0.8)
    held = np.mean((inside[:, 0] <= Y[:, 0]) & (Y[:, 0] <= inside[:, 1]))
    assert found.coverage(0.8) == pytest.approx(held)
    assert found.widths[1] == pytest.approx(np.mean(inside[:, 1] - inside[:, 0]))
    draws = dist.sample(4000, random_state=0)
    other = dist.sample(4000, random_state=1)
    crps = np.abs(draws - Y).mean(axis=1) - 0.5 * np.abs(draws - other).mean(axis=1)
    assert found.crps == pytest.approx(crps.mean(), rel=0.02)
    assert found.crps < found.crps_without_inputs


def test_the_score_without_inputs_is_that_of_the_training_outputs():
    """Test rows of one region alone would make a marginal that no one could have predicted."""
    model, X, Y = small_model(n=400)
    rows = X[:, 0] > 1
    dist = model.conditional(X[rows])
    found = measure_accuracy(dist, Y[rows], True, model.marginal()).outputs[0]
    distances = np.abs(Y[rows] - Y[:, 0]).mean(axis=1)
    spread = 0.5 * np.abs(Y - Y.T).mean()
    assert found.crps_without_inputs == pytest.approx((distances - spread).mean(), rel=0.05)
    own = 0.5 * np.abs(Y[rows] - Y[rows].T).mean()
    assert found.crps_without_inputs > 2 * own


PITS = [
    (np.linspace(0, 1, 501), "hold as many rows as they promise"),
    (np.linspace(0.3, 0.7, 501), "too wide"),
    (np.r_[np.linspace(0, 0.1, 250), np.linspace(0.9, 1, 250)], "too narrow"),
    (np.r_[np.full(300, 0.15), np.full(200, 0.9)], "Some intervals hold more"),
]


def calibration_of(pit):
    found = OutputAccuracy(1.0, 2.0, 1.0, pit, (1.0,) * 4)
    rows = MeasuredRows("given", len(pit), "")
    column = Column("y", "number", pit)
    accuracy = Accuracy(np.full(len(pit), -1.0), (found,))
    return accuracy_section(accuracy, [column], rows)["outputs"][0]


@pytest.mark.parametrize(("pit", "words"), PITS)
def test_the_verdict_on_calibration(pit, words):
    assert words in calibration_of(pit)["verdict"]


def corners(path):
    return np.array([[float(v) for v in p.split(",")] for p in path.strip("MZ").split("L")])


@given(st.integers(20, 400), st.floats(0.5, 2.0), st.integers(0, 99))
def test_the_verdict_is_what_the_picture_shows(n, width, seed):
    """The curve as drawn is inside the band as drawn if and only if the sentence says so."""
    pit = norm.cdf(width * np.random.default_rng(seed).standard_normal(n))
    said = calibration_of(pit)
    curve, band = corners(said["calibration"].curve), corners(said["calibration"].band)
    upper, lower = band[: len(curve)], band[len(curve) :][::-1]
    rounding = 0.11  # pixels
    inside = (curve[:, 1] >= upper[:, 1] - rounding) & (curve[:, 1] <= lower[:, 1] + rounding)
    assert inside.all() == ("hold as many rows" in said["verdict"])
    tops = np.array([bar.y for bar in said["pit"].bars])
    grey = corners(said["pit"].band)[:, 1]
    outside = (tops < grey.min() - rounding) | (tops > grey.max() + rounding)
    assert outside.any() == ("outside its band" in said["pit_verdict"])
    for i in np.flatnonzero(outside):
        assert f"{i / 10:g} to {(i + 1) / 10:g} (" in said["pit_verdict"]


def test_impossible_rows_are_counted(tmp_path):
    model, X, Y = small_model()
    far = Y[:, 0].copy()
    far[:3] = 1e6
    accuracy = measure_accuracy(model.conditional(X), far[:, None], True, model.marginal())
    assert accuracy.n_impossible == 3
    assert np.isfinite(accuracy.log_score)
    made = Page(model.report(tmp_path / "r.html", X, far))
    assert "without 3 of 120 rows, which the model gives density 0" in made.text


def test_spikes_keep_their_mass_in_the_curves():
    """A point mass is narrower than any axis is fine; what lies below a threshold must be right."""

    class Model:
        report_ = SimpleNamespace(n_nodes=100)

        def conditional(self, X):
            centres = 10 * np.asarray(X)[:, 0]
            return ConditionalDistribution(Branches(centres, sd=1e-4), flat=True)

    axis = Axis(-20.0, 20.0, 96)
    X = np.array([[0.0], [0.3], [1.0]])
    found = compute_curves(Model(), X, [X[:, 0]], [axis], True, Progress())["outputs"][0]
    whole = np.frombuffer(base64.b64decode(found["curves"]), "<u2").reshape(3, 96)
    peaks = np.frombuffer(base64.b64decode(found["peaks"]), "<f4")
    masses = whole / 65535 * peaks[:, None] * 40 / 95
    np.testing.assert_allclose(masses.sum(axis=1), 1.0, atol=1e-4)
    for centre, mass in zip(10 * X[:, 0], masses, strict=True):
        below = np.linspace(-20, 20, 96) < centre
        assert mass[below].sum() == pytest.approx(0.5, abs=1e-3)


def test_predictions_of_held_out_rows_belong_to_their_table():
    rng = np.random.default_rng(0)
    X, Y = rng.uniform(size=(50, 1)), rng.standard_normal((50, 2))
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X[:30], Y[:30])
    rows = np.arange(5, 20)
    kept = Foretold.of(model, [(rows, model.conditional(X[30:][rows]))], Y[30:], in_turn=False)
    expected = model.conditional(X[30:][rows]).logpdf_pairs(Y[30:][rows])
    np.testing.assert_allclose(kept.accuracy.log_densities, expected)
    assert kept.is_of(Y[30:])
    assert not kept.is_of(Y)  # other rows are there
    assert not kept.is_of(Y[30:, :1])
    assert not kept.is_of(Y[30:45])
    whole = kept.at(np.arange(30, 50))
    assert whole.is_of(Y)
    np.testing.assert_array_equal(whole.rows, rows + 30)
    for changes in (
        {"rows": rows - 10},
        {"rows": rows[1:]},
        {"outputs": kept.outputs[:, :1]},
        {"accuracy": Accuracy(kept.accuracy.log_densities, ())},
    ):
        with pytest.raises(InvalidInputError, match="parts do not fit"):
            replace(kept, **changes)
    with pytest.raises(InvalidInputError, match="rows of outputs"):
        replace(kept.accuracy, log_densities=np.zeros(3))
    with pytest.raises(InvalidInputError, match="widths"):
        replace(kept.accuracy.outputs[0], widths=(1.0,))
