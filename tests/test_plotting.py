"""Figures: the artists carry the right numbers, names and styles; errors say what to do."""

import itertools
import subprocess
import sys
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib import pyplot as plt
from scipy.stats import norm
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

import kcdo
from kcdo.errors import InvalidInputError, MissingExtraError
from kcdo.metrics.nearness import nearness
from kcdo.plotting.comparison import plot_comparison
from kcdo.plotting.queries import held_label, resting_values, row_labels, sweep
from tests.gaussian_truth import GaussianTruth, made


@pytest.fixture(autouse=True)
def no_window():
    mpl.use("Agg")


class Truth:
    """A fitted model of y = slope * first column + noise, which keeps the queries."""

    def __init__(self, n_outputs=None, sd=0.5):
        self.flat, self.n_outputs, self.sd = n_outputs is None, n_outputs or 1, sd

    def conditional(self, X):
        self.asked = X
        first = X[X.columns[0]] if hasattr(X, "columns") else np.asarray(X)[:, 0]
        means = 2.0 * np.asarray(first, dtype=float)
        if not self.flat:
            means = means[:, None] + np.arange(self.n_outputs)
        return GaussianTruth(means, np.full(means.shape, self.sd))


def table(n=50):
    rng = np.random.default_rng(3)
    X = pd.DataFrame(
        {
            "flow": rng.uniform(0, 4, n),
            "hour": rng.integers(0, 24, n),
            "kind": pd.Categorical(["car"] * (n - 10) + ["bus"] * 10),
        }
    )
    return X, pd.Series(2 * X["flow"] + 0.5 * rng.standard_normal(n), name="speed")


# --- heat map


def test_heat_map_shows_the_density_over_the_input():
    X, y = table()
    display = kcdo.DensityHeatmapDisplay.from_estimator(Truth(), X, y)
    x, line = display.x, display.y
    assert (x[0], x[-1]) == (X["flow"].min(), X["flow"].max())
    expected = norm.pdf(line[None], 2 * x[:, None], 0.5)
    np.testing.assert_allclose(display.density, expected)
    np.testing.assert_allclose(display.mesh_.get_array(), expected.T)
    np.testing.assert_allclose(display.points_.get_offsets(), np.column_stack([X["flow"], y]))
    assert line[0] < y.min()
    assert line[-1] > y.max()


def test_heat_map_draws_median_intervals_and_modes():
    display = kcdo.DensityHeatmapDisplay.from_estimator(Truth(), table()[0], intervals=(0.8,))
    median, low, high = display.lines_
    np.testing.assert_allclose(median.get_ydata(), 2 * display.x)
    np.testing.assert_allclose(low.get_ydata(), 2 * display.x - 0.5 * norm.ppf(0.9))
    np.testing.assert_allclose(high.get_ydata(), 2 * display.x + 0.5 * norm.ppf(0.9))
    x, modes = display.modes_.get_data()
    np.testing.assert_allclose(x, display.x)  # one mode for each x
    np.testing.assert_allclose(modes, 2 * display.x, atol=np.diff(display.y)[0])
    assert display.points_ is None
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == ["median", "80 % interval", "modes"]


def test_heat_map_finds_both_modes_and_no_ripples():
    display = kcdo.plotting.heatmap
    y = np.linspace(-3, 3, 601)
    two = norm.pdf(y, -1, 0.3) + 0.5 * norm.pdf(y, 1.2, 0.3) + 0.01 * np.cos(30 * y)
    edge = np.exp(-(y + 3))  # highest at the end of the line
    found = display._local_modes(np.array([0.0, 1.0]), y, np.stack([two, edge]))
    np.testing.assert_allclose(found[:2], [[0, -1], [0, 1.2]], atol=0.05)
    assert len(found) == 3
    assert found[2, 0] == 1.0
    assert -3 <= found[2, 1] < -2.9


def test_heat_map_names_axes_and_says_what_is_held():
    X, y = table()
    model = Truth()
    display = kcdo.DensityHeatmapDisplay.from_estimator(model, X, at={"hour": 8})
    assert display.ax_.get_title() == "at hour = 8, kind = car"
    assert isinstance(model.asked, pd.DataFrame)
    assert model.asked["kind"].dtype == X["kind"].dtype
    assert set(model.asked["kind"]) == {"car"}
    assert set(model.asked["hour"]) == {8}
    display = kcdo.DensityHeatmapDisplay.from_estimator(model, X, y)
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("flow", "speed")
    colourbar = [ax for ax in display.figure_.axes if ax is not display.ax_]
    assert colourbar[0].get_ylabel() == "p(speed | flow)"


def test_heat_map_of_another_input_and_output():
    X = np.random.default_rng(0).uniform(size=(20, 2))
    display = kcdo.DensityHeatmapDisplay.from_estimator(
        Truth(n_outputs=2), X, np.ones((20, 2)), feature=1, output=1
    )
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("x1", "y1")
    held = np.quantile(X[:, 0], 0.5, method="inverted_cdf")
    np.testing.assert_allclose(display.median, 2 * held + 1)


def test_of_many_rows_some_are_drawn(monkeypatch):
    monkeypatch.setattr("kcdo.plotting.slices._MOST_ROWS", 15)
    X, y = table()
    display = kcdo.DensityHeatmapDisplay.from_estimator(Truth(), X, y)
    drawn = np.asarray(display.points_.get_offsets())
    assert len(drawn) == 15
    assert {tuple(row) for row in drawn} <= set(zip(X["flow"], y, strict=True))


class Plane:
    """A right model of y = a + 4 b + noise of sd 0.2, whatever the third input is."""

    def conditional(self, X):
        return GaussianTruth((X["a"] + 4 * X["b"]).to_numpy(), np.full(len(X), 0.2))


def plane(n=600):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(-1, 1, (n, 3)), columns=["a", "b", "idle"])
    return X, pd.Series(X["a"] + 4 * X["b"] + 0.2 * rng.standard_normal(n), name="y")


def test_rows_far_from_the_slice_are_not_drawn():
    X, y = plane()
    display = kcdo.DensityHeatmapDisplay.from_estimator(Plane(), X, y, feature="a", at={"b": 0.5})
    drawn, opacity = np.asarray(display.points_.get_offsets()), display.points_.get_alpha()
    rows = X.assign(y=y).set_index("a").loc[drawn[:, 0]]
    off = np.abs(rows["b"] - 0.5).to_numpy()
    assert 20 < len(drawn) < 60
    assert off.max() < 0.1
    assert np.abs(rows["idle"]).max() > 0.9  # what does not matter may differ
    assert opacity[off < 0.02].min() > 2 * opacity[off > 0.05].max()
    assert display.points_.get_label() == "data near the slice"
    # a right model looks right: most of what is drawn lies in its interval, of all rows little does
    low, high = display.intervals[0.9].T

    def inside(x, values):
        above = values >= np.interp(x, display.x, low)
        return above & (values <= np.interp(x, display.x, high))

    assert np.average(inside(*drawn.T), weights=opacity) > 0.7
    assert np.mean(inside(X["a"], y)) < 0.2


def test_all_rows_of_one_input_are_drawn_alike():
    X, y = plane(100)
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X[["a"]], y)
    display = kcdo.DensityHeatmapDisplay.from_estimator(model, X[["a"]], y)
    assert len(display.points_.get_offsets()) == 100
    assert len(set(display.points_.get_alpha())) == 1
    assert display.points_.get_label() == "data"


def test_weights_are_of_the_data():
    dist, _ = made(q=3)
    with pytest.raises(InvalidInputError, match="weights are of the data: there must be one for"):
        kcdo.DensityHeatmapDisplay.from_distribution(dist, [0, 1, 2], weights=np.ones(3))


def test_outputs_have_the_names_of_the_training_data():
    X, y = plane(60)
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, y.rename("height"))
    assert kcdo.DensityHeatmapDisplay.from_estimator(model, X).ax_.get_ylabel() == "height"
    named = kcdo.ConditionalDensityOperator(selection="heuristic")
    dist = named.fit(X, X[["a", "b"]].set_axis(["speed", "gap"], axis=1)).conditional(X[:3])
    assert dist.target_names == ("speed", "gap")
    assert dist.marginal(1).plot().get_xlabel() == "gap"
    assert kcdo.RidgelineDisplay.from_distribution(dist, output="gap").ax_.get_xlabel() == "gap"
    joint = kcdo.JointDensityDisplay.from_distribution(dist[0])
    assert joint.output_names == ("speed", "gap")


# --- violins


def lanes(n=200):
    rng = np.random.default_rng(4)
    kind = rng.choice(["left", "right", "middle"], n)
    X = pd.DataFrame({"lane": pd.Categorical(kind), "flow": rng.uniform(0, 1, n)})
    y = pd.Series(3.0 * (kind == "left") + 5 * X["flow"] + 0.3 * rng.standard_normal(n))
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, y.rename("speed"))
    return model, X, y.rename("speed")


def test_violins_are_the_densities_of_the_categories():
    model, X, y = lanes()
    display = kcdo.ViolinDisplay.from_estimator(model, X, y, feature="lane", at={"flow": 0.5})
    assert display.labels == ["left", "middle", "right"]
    assert [t.get_text() for t in display.ax_.get_xticklabels()] == display.labels
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("lane", "speed")
    assert display.ax_.get_title() == "at flow = 0.5"
    queries = pd.DataFrame({"lane": pd.Categorical(display.labels), "flow": 0.5})
    dist = model.conditional(queries)
    np.testing.assert_allclose(display.densities, dist.pdf(display.y))
    np.testing.assert_allclose(display.medians, dist.quantile(0.5))
    widest = display.violins_[0].get_paths()[0].vertices[:, 0]
    assert 0.3 < np.ptp(widest) < 1.0  # violins do not touch
    drawn = np.asarray(display.points_.get_offsets())
    assert 10 < len(drawn) < 150
    shown = np.isin(y, drawn[:, 1])
    assert np.abs(X["flow"][shown] - 0.5).max() < 0.45


def test_violins_of_distributions():
    dist, _ = made(q=3)
    display = kcdo.ViolinDisplay.from_distribution(dist, list("abc"), ax=plt.subplots()[1])
    assert display.points_ is None
    assert len(display.violins_) == 3
    with pytest.raises(InvalidInputError, match="3 queries need as many labels; got 2"):
        kcdo.ViolinDisplay.from_distribution(dist, ["a", "b"])


def test_numbers_of_few_values_may_be_violins():
    X = np.column_stack([np.repeat([2.0, 10.0, 1.0], 10), np.arange(30.0)])
    display = kcdo.ViolinDisplay.from_estimator(Truth(), X, np.arange(30.0))
    assert display.labels == ["1.0", "2.0", "10.0"]
    np.testing.assert_allclose(display.medians, [2.0, 4.0, 20.0])


# --- heat map, drawn again


def test_heat_map_draws_into_given_axes_and_again():
    figure, (left, right) = plt.subplots(1, 2)
    display = kcdo.DensityHeatmapDisplay.from_estimator(Truth(), table()[0], ax=left)
    assert display.ax_ is left
    assert display.figure_ is figure
    assert display.plot(ax=right, colorbar=False) is display
    assert display.ax_ is right
    assert len(figure.axes) == 3  # two, and one scale


def test_heat_map_of_a_fitted_model():
    X, y = table()
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, y)
    display = kcdo.DensityHeatmapDisplay.from_estimator(model, X, y, resolution=(20, 30))
    assert display.density.shape == (20, 30)
    assert np.corrcoef(display.median, display.x)[0, 1] > 0.9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"feature": "kind"}, "'kind' is not numeric.*ViolinDisplay"),
        ({"feature": "speed"}, r"no input is called 'speed'; there are \['flow', 'hour', 'kind'\]"),
        ({"feature": 3}, "input 3 does not exist: there are 3"),
        ({"feature": 1.5}, "input must be a name or a position; got 1.5"),
        ({"output": 1}, "output 1 does not exist: there are 1"),
        ({"at": {"flow": 1.0}}, "'flow' is varied; `at` must not hold it"),
        ({"at": {"day": 1.0}}, "no input is called 'day'"),
        ({"y": np.ones((50, 2))}, "have 1 outputs, the data 2 columns"),
    ],
)
def test_heat_map_errors(options, message):
    with pytest.raises(InvalidInputError, match=message):
        kcdo.DensityHeatmapDisplay.from_estimator(Truth(), table()[0], **options)


def test_heat_map_of_distributions_needs_ascending_values():
    dist, _ = made(q=3)
    with pytest.raises(InvalidInputError, match="x must hold 3 ascending values"):
        kcdo.DensityHeatmapDisplay.from_distribution(dist, [0.0, 2.0, 1.0])
    with pytest.raises(InvalidInputError, match="one per query; got shape"):
        kcdo.DensityHeatmapDisplay.from_distribution(dist, [0.0, 2.0])
    with pytest.raises(InvalidInputError, match="at least 2 queries"):
        kcdo.DensityHeatmapDisplay.from_distribution(dist[:1], [0.0])


# --- queries that vary one input


def resting(X, place=0, at=None):
    return resting_values(X, place, at)


def test_sweep_of_a_polars_frame():
    X = pl.DataFrame({"a": [1, 2, 4, 9], "b": ["u", "v", "v", "v"]}).with_columns(
        pl.col("b").cast(pl.Categorical)
    )
    queries = sweep(X, 0, np.array([0.5, 1.5]), resting(X))
    assert isinstance(queries, pl.DataFrame)
    assert queries["a"].to_list() == [0.5, 1.5]
    assert queries["b"].to_list() == ["v", "v"]
    assert queries["b"].dtype == X["b"].dtype


def test_sweep_of_lists_with_text():
    X = [[1.0, "u"], [2.0, "v"], [3.0, "v"]]
    queries = sweep(X, 0, np.array([0.5]), resting(X))
    assert queries.tolist() == [[0.5, "v"]]


def test_the_median_that_others_rest_at_was_observed():
    X = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 4.0], [0.0, 4.0]])
    assert resting(X) == {1: 1.0}
    assert resting(X, at={1: 2.0}) == {1: 2.0}
    assert resting(X, place=1) == {0: 0.0}


def test_labels_of_what_is_held():
    X = np.zeros((2, 7))
    assert held_label(X, {}) == ""
    assert held_label(X, {1: 0.25, 2: 3.0}) == "at x1 = 0.25, x2 = 3"
    held = dict.fromkeys(range(6), 0.0)
    assert held_label(X, held) == "6 other inputs held"
    assert held_label(X, held, {2: 0.0}) == "at x2 = 0; 5 other inputs held"
    lines = held_label(X, dict.fromkeys(range(4), -1.234e-200)).splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) <= 56


def test_labels_of_rows_name_what_differs():
    assert row_labels(np.array([[1.0], [2.5]])) == ["x = 1", "x = 2.5"]
    frame = pd.DataFrame({"a": [1, 1], "b": ["u", "v"]})
    assert row_labels(frame) == ["b = u", "b = v"]
    assert row_labels(frame[:1]) == ["a = 1, b = u"]
    assert row_labels(np.arange(8.0).reshape(2, 4)) == ["query 0", "query 1"]


def test_inputs_that_are_no_table_are_refused():
    with pytest.raises(
        InvalidInputError, match=r"a table of inputs, one row per observation; got shape \(3,\)"
    ):
        kcdo.DensityHeatmapDisplay.from_estimator(Truth(), np.zeros(3))


# --- ridgeline


def test_ridges_are_the_densities_one_above_the_other():
    display = kcdo.RidgelineDisplay.from_estimator(Truth(), [[0.0], [1.0], [2.0]])
    assert [t.get_text() for t in display.ax_.get_yticklabels()] == ["x = 0", "x = 1", "x = 2"]
    heights = [line.get_ydata() - i for i, line in enumerate(display.lines_)]
    expected = norm.pdf(display.y[None], 2 * np.arange(3)[:, None], 0.5)
    np.testing.assert_allclose(display.densities, expected)
    np.testing.assert_allclose(heights, 1.7 * expected / expected.max(), atol=1e-12)
    orders = [line.get_zorder() for line in display.lines_]
    assert orders == sorted(orders, reverse=True)  # the lowest stands in front


def test_ridges_of_a_distribution():
    dist, _ = made(q=4, d=2)
    display = kcdo.RidgelineDisplay.from_distribution(dist, output=1, labels="abcd")
    np.testing.assert_allclose(display.medians, dist.mean()[:, 1])
    assert display.labels == ["a", "b", "c", "d"]
    assert display.ax_.get_xlabel() == "y1"
    assert kcdo.RidgelineDisplay.from_distribution(dist).labels[2] == "query 2"


def test_ridge_errors():
    dist, _ = made(q=41)
    with pytest.raises(InvalidInputError, match=r"41 ridges would not be readable.* at most 40"):
        kcdo.RidgelineDisplay.from_distribution(dist)
    with pytest.raises(InvalidInputError, match="3 queries need as many labels; got 2"):
        kcdo.RidgelineDisplay.from_distribution(dist[:3], labels=["a", "b"])


# --- joint density


def test_contours_of_a_joint_gaussian():
    dist = GaussianTruth([[1.0, -2.0]], [[0.5, 2.0]])
    display = kcdo.JointDensityDisplay.from_distribution(dist, levels=(0.9, 0.5))
    grid = np.stack(np.meshgrid(*display.axes, indexing="ij"), axis=-1)
    expected = np.prod(norm.pdf(grid, [1.0, -2.0], [0.5, 2.0]), axis=-1)
    np.testing.assert_allclose(display.density, expected)
    peak = 1 / (2 * np.pi)
    assert display.regions == pytest.approx({0.5: 0.5 * peak, 0.9: 0.1 * peak})
    np.testing.assert_allclose(display.regions_.levels, [0.1 * peak, 0.5 * peak])
    for path, radius in zip(display.regions_.get_paths(), np.sqrt([4.605, 1.386]), strict=True):
        found = np.hypot(*((path.vertices - [1.0, -2.0]) / [0.5, 2.0]).T)
        np.testing.assert_allclose(found, radius, rtol=0.01)
    assert {t.get_text() for t in display.ax_.texts} == {"50 %", "90 %"}


def test_contours_of_a_model_carry_names_and_data():
    Y = pd.DataFrame(np.random.default_rng(0).normal(size=(9, 3)), columns=["u", "v", "w"])
    display = kcdo.JointDensityDisplay.from_estimator(
        Truth(n_outputs=3), [[0.25]], Y, outputs=("w", "u")
    )
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("w", "u")
    assert display.ax_.get_title() == "given x = 0.25"
    np.testing.assert_allclose(display.mean, [2.5, 0.5])
    (points,) = [c for c in display.ax_.collections if c.get_label() == "data"]
    np.testing.assert_allclose(points.get_offsets(), Y[["w", "u"]])


def test_contours_of_a_fitted_model_hold_the_share_they_say():
    X, Y = kcdo.make_donut(10, random_state=0)
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    display = kcdo.JointDensityDisplay.from_estimator(model, [[0.5]])
    mass = display.density / display.density.sum()
    for level, height in display.regions.items():
        assert mass[display.density >= height].sum() == pytest.approx(level, abs=0.03)


def test_rows_far_from_the_query_are_not_among_the_contours():
    X, Y = kcdo.make_donut(6, random_state=0)
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    display = kcdo.JointDensityDisplay.from_estimator(model, [[0.5]], Y, inputs=X)
    np.testing.assert_allclose(display.weights, nearness(model, X, {0: 0.5}), rtol=1e-12)
    near = np.abs(X[:, 0] - 0.5) < 0.03
    assert display.weights[near].min() > 0.5
    assert display.weights[np.abs(X[:, 0] - 0.5) > 0.8].max() < 0.1
    points = display.ax_.collections[1]
    assert len(points.get_offsets()) == np.count_nonzero(display.weights > 0.05) < len(X)


def test_contours_of_several_queries_have_a_panel_each():
    dist, _ = made(q=5, d=2)
    panels = kcdo.plot_distribution(dist)
    assert [panel.get_title() for panel in panels] == [f"query {i}" for i in range(5)]
    assert len({panel.get_xlim() for panel in panels}) == 1
    assert len({panel.get_ylim() for panel in panels}) == 1
    assert [panel.get_legend() is None for panel in panels] == [False, True, True, True, True]
    assert len(kcdo.plot_distribution(made(q=30, d=2)[0])) == 8
    _, axes = plt.subplots(1, 2)
    assert list(kcdo.plot_distribution(dist[:2], ax=axes)) == list(axes)
    with pytest.raises(InvalidInputError, match="contours of 5 queries need as many axes; got 2"):
        kcdo.plot_distribution(dist, ax=axes)


def test_contour_errors():
    dist, _ = made(q=2, d=2)
    with pytest.raises(InvalidInputError, match=r"one query; got 2\. Choose one: dist\[i\]"):
        kcdo.JointDensityDisplay.from_distribution(dist)
    with pytest.raises(InvalidInputError, match="need two outputs; there is one"):
        kcdo.JointDensityDisplay.from_distribution(dist.marginal(0)[:1])
    with pytest.raises(InvalidInputError, match="output 2 does not exist"):
        kcdo.JointDensityDisplay.from_distribution(dist[:1], outputs=(0, 2))


# --- calibration


def test_calibration_draws_the_metrics():
    dist, y = made(q=400)
    display = kcdo.CalibrationDisplay.from_distribution(dist, y)
    heights, edges = np.histogram(kcdo.metrics.pit_values(dist, y), 20, (0, 1), density=True)
    np.testing.assert_allclose(20 * display.histograms_[0].shares, heights)
    stairs = display.ax_[0].patches[-1].get_data()
    np.testing.assert_allclose(stairs.values, heights)
    np.testing.assert_allclose(stairs.edges, edges)
    levels, shares = kcdo.metrics.calibration_curve(dist, y)
    curve = display.ax_[1].lines[-1]
    np.testing.assert_allclose(curve.get_xdata(), levels)
    np.testing.assert_allclose(curve.get_ydata(), shares)


def test_the_band_holds_the_truth_and_not_a_wrong_model():
    dist, y = made(q=1000, seed=1)
    wrong = GaussianTruth(dist.mean(), 2.0 * dist.std())
    outside, verdicts = [], []
    for one in (dist, wrong):
        display = kcdo.CalibrationDisplay.from_distribution(one, y)
        test = display.tests_[0]
        band = display.ax_[1].collections[0].get_paths()[0].vertices  # as it is drawn
        for level, low, high in zip(test.levels, test.low, test.high, strict=True):
            ends = band[np.isclose(band[:, 0], level), 1]
            np.testing.assert_allclose([ends.min(), ends.max()], [low, high])
        outside.append(np.mean(test.below | test.above))
        verdicts = [test.verdict, *verdicts]
    assert verdicts == ["too wide", "calibrated"]
    assert outside[0] == 0.0
    assert outside[1] > 0.9


def test_calibration_of_several_outputs_by_name():
    dist, Y = made(q=60, d=2)
    display = kcdo.CalibrationDisplay.from_distribution(dist, pd.DataFrame(Y, columns=["u", "v"]))
    lines = display.ax_[1].lines[1:]
    assert [line.get_label() for line in lines] == ["u", "v"]
    assert len({line.get_linestyle() for line in lines}) == 2  # not told apart by colour alone
    assert [len(test.shares) for test in display.histograms_] == [5, 5]


def test_calibration_with_weights():
    dist, y = made(q=200)
    weights = np.repeat([0.0, 3.0], 100)
    display = kcdo.CalibrationDisplay.from_distribution(dist, y, sample_weight=weights)
    half = kcdo.CalibrationDisplay.from_distribution(dist[100:], y[100:])
    for name in ("coverage", "low", "high"):
        np.testing.assert_allclose(getattr(display.tests_[0], name), getattr(half.tests_[0], name))
    for name in ("shares", "low", "high"):
        pair = [getattr(d.histograms_[0], name) for d in (display, half)]
        np.testing.assert_allclose(*pair)


def test_calibration_of_a_fitted_model_into_given_axes():
    X, y = table()
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, y)
    figure, axes = plt.subplots(1, 2)
    display = kcdo.CalibrationDisplay.from_estimator(model, X, y, ax=axes)
    assert display.figure_ is figure
    assert display.output_names == ["speed"]
    assert len(display.plot(bins=4).histograms_[0].shares) == 4


def test_calibration_needs_a_pair_of_axes():
    dist, y = made(q=9)
    _, ax = plt.subplots()
    with pytest.raises(InvalidInputError, match="pair of axes, for histogram and curve; got 1"):
        kcdo.CalibrationDisplay.from_distribution(dist, y, ax=ax)


# --- importances and report


@dataclass
class Report:
    importances: dict
    memory: int = 5 << 20


class Fitted(BaseEstimator):
    def __init__(self, report=None):
        if report is not None:
            self.report_ = report

    def __sklearn_is_fitted__(self):
        return True

    def fit(self):
        """Look like an estimator to scikit-learn."""


def test_importances_from_the_report_the_highest_on_top():
    model = Fitted(Report({"a": 0.2, "b": 0.9, "c": 0.0}))
    display = kcdo.ImportanceDisplay.from_estimator(model)
    assert [t.get_text() for t in display.ax_.get_yticklabels()] == ["b", "a", "c"]
    assert [bar.get_width() for bar in display.bars_] == [0.9, 0.2, 0.0]
    assert display.ax_.yaxis_inverted()


def test_only_the_most_important_inputs_are_drawn():
    display = kcdo.ImportanceDisplay({f"x{i}": i / 50 for i in range(50)}).plot()
    assert len(display.bars_) == 30
    assert display.bars_[0].get_width() == 0.98
    assert display.ax_.get_title() == "20 less important inputs are not shown"


def test_importances_of_given_rows():
    X, y = table()
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, y)
    display = kcdo.ImportanceDisplay.from_estimator(model, X)
    assert display.importances == kcdo.metrics.importances(model, X)


def test_importance_errors():
    with pytest.raises(InvalidInputError, match="mapping is empty"):
        kcdo.ImportanceDisplay({})
    with pytest.raises(InvalidInputError, match="'a' has nan"):
        kcdo.ImportanceDisplay({"a": float("nan")})
    with pytest.raises(InvalidInputError, match='no importances: fit it with selection="auto"'):
        kcdo.ImportanceDisplay.from_estimator(Fitted(Report({})))
    with pytest.raises(NotFittedError):
        kcdo.ImportanceDisplay.from_estimator(
            kcdo.ConditionalDensityOperator(selection="heuristic")
        )


def test_report_of_a_fitted_model():
    X, y = table()
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, y)
    display = kcdo.ReportDisplay.from_estimator(model)
    rows = dict(display.rows)
    assert rows["method"] == "exact"
    assert rows["number of samples"] == "50"
    assert rows["alpha"] == f"{model.report_.alpha:.3g}"
    assert rows["seconds"].endswith(" s")
    cells = display.table_.get_celld()
    assert [cells[i, 1].get_text().get_text() for i in range(len(rows))] == list(rows.values())


def test_report_entries_are_short():
    long = kcdo.Gaussian((1.23456789, 0.000123456789)) * kcdo.Laplace(12345.678901)
    entries = {"a": {"u": 0.25, "v": 1}, "b": None, "n_c": 12345, "d": 1e-12, "e": long, "f": True}
    rows = dict(kcdo.ReportDisplay(entries).rows)
    assert rows["a"] == "u: 0.25, v: 1"
    assert rows["b"] == "–"
    assert rows["number of c"] == "12,345"
    assert rows["d"] == "1e-12"
    assert "1.235" in rows["e"]
    assert "1.2345" not in rows["e"]
    assert max(map(len, rows["e"].split("\n"))) <= 56
    assert rows["f"] == "True"


def test_report_errors():
    with pytest.raises(InvalidInputError, match="the report is empty"):
        kcdo.ReportDisplay({})
    with pytest.raises(InvalidInputError, match="Fitted has no report"):
        kcdo.ReportDisplay.from_estimator(Fitted())
    with pytest.raises(NotFittedError):
        kcdo.ReportDisplay.from_estimator(kcdo.ConditionalDensityOperator(selection="heuristic"))


# --- a quick look


def test_curves_of_a_few_queries():
    dist, _ = made(q=3)
    ax = kcdo.plot_distribution(dist)
    assert [line.get_label() for line in ax.lines] == ["query 0", "query 1", "query 2"]
    for i, line in enumerate(ax.lines):
        np.testing.assert_allclose(line.get_ydata(), dist[i].pdf(line.get_xdata())[0])
    assert not ax.collections  # shading is for one query


def test_one_query_is_shaded_where_its_intervals_are():
    dist = GaussianTruth([1.0], [2.0])
    ax = kcdo.plot_distribution(dist)
    assert len(ax.lines) == 1
    shades = {c.get_label(): c.get_paths()[0].get_extents() for c in ax.collections}
    for level in (50, 90):
        box = shades[f"{level} % interval"]
        np.testing.assert_allclose([box.x0, box.x1], dist.interval(level / 100)[0])
    assert shades["median"].x0 == 1.0


def test_many_queries_are_thinned():
    dist, _ = made(q=100)
    ax = kcdo.plot_distribution(dist)
    labels = [line.get_label() for line in ax.lines]
    assert len(labels) == 8
    assert (labels[0], labels[-1]) == ("query 0", "query 99")
    assert ax.get_title() == "8 of 100 queries"


def test_two_outputs_are_contours():
    dist, _ = made(q=1, d=2)
    _, ax = plt.subplots()
    assert kcdo.plot_distribution(dist, ax) is ax
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("y0", "y1")
    dist, _ = made(q=1, d=3)
    with pytest.raises(InvalidInputError, match=r"3 outputs at once: .*marginal\(\[0, 1\]\)"):
        kcdo.plot_distribution(dist)


def test_pairs_of_three_outputs_are_panels():
    dist, _ = made(q=1, d=3)
    figure = kcdo.plot_pairs(dist, title="given x = 1")
    labels = [(ax.get_xlabel(), ax.get_ylabel()) for ax in figure.axes]
    singles = [(f"y{i}", "density") for i in range(3)]
    assert sorted(labels) == sorted([("y0", "y1"), ("y0", "y2"), ("y1", "y2"), *singles])
    drawn = {ax.get_xlabel(): ax for ax in figure.axes if ax.get_ylabel() == "density"}
    line = drawn["y1"].lines[0]
    np.testing.assert_allclose(line.get_ydata(), dist.marginal(1).pdf(line.get_xdata())[0])
    assert sum(ax.get_legend() is not None for ax in figure.axes) == 2  # one of each kind
    assert figure.get_suptitle() == "given x = 1"
    with pytest.raises(InvalidInputError, match="two to 5 outputs; there are 1"):
        kcdo.plot_pairs(dist.marginal(0))


def test_distributions_draw_themselves():
    X, y = table()
    dist = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, y).conditional(X[:2])
    _, ax = plt.subplots()
    assert dist.plot(ax) is ax
    np.testing.assert_allclose(ax.lines[1].get_ydata(), dist[1].pdf(ax.lines[1].get_xdata())[0])
    assert dist.plot().lines[0].get_label() == "query 0"


# --- manners


def test_nothing_is_shown(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("show was called")

    monkeypatch.setattr(plt, "show", refuse)
    monkeypatch.setattr(mpl.figure.Figure, "show", refuse)
    dist, y = made(q=5)
    kcdo.CalibrationDisplay.from_distribution(dist, y)
    kcdo.RidgelineDisplay.from_distribution(dist)
    kcdo.DensityHeatmapDisplay.from_estimator(Truth(), table()[0])
    kcdo.ImportanceDisplay({"a": 1.0}).plot()
    kcdo.plot_distribution(dist)


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    dist, y = made(q=5)
    for draw in (
        lambda: kcdo.RidgelineDisplay.from_distribution(dist),
        lambda: kcdo.CalibrationDisplay.from_distribution(dist, y),
        lambda: kcdo.plot_distribution(dist),
    ):
        with pytest.raises(MissingExtraError, match=r"Figures need an extra: .*kcdo\[plots\]"):
            draw()


def test_displays_are_found_without_matplotlib():
    code = "import sys, kcdo; kcdo.RidgelineDisplay; print('matplotlib' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"


def test_numbers_below_a_comparison_do_not_run_into_one_another():
    differences = np.array([0.0, -0.00076, 0.00023, -0.0014, -0.0012])
    panels = {"score": (differences, np.full(5, 0.0003)), "CRPS": (differences, np.full(5, 3e-4))}
    figure = plot_comparison([f"method {i}" for i in range(5)], panels, "a note")
    figure.canvas.draw()
    for ax in figure.axes:
        boxes = [label.get_window_extent() for label in ax.get_xticklabels() if label.get_text()]
        assert len(boxes) > 2
        assert all(left.x1 + 2 < right.x0 for left, right in itertools.pairwise(boxes))
