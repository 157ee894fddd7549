"""How near rows are to a slice: in units over which predictions move."""

import numpy as np
import pandas as pd
import pytest

import kcdo
from kcdo.distributions import ConditionalDistribution
from kcdo.metrics.nearness import InputScale, input_scales, nearness, periods, place_and_width
from tests.forked_truth import SD, Branches
from tests.gaussian_truth import GaussianTruth


class Line:
    """y = 3 a + noise of sd 0.5, whatever b is; a category shifts it by 2."""

    def conditional(self, X):
        shift = 2.0 * (np.asarray(X["kind"]) == "high")
        return GaussianTruth(3 * np.asarray(X["a"], dtype=float) + shift, np.full(len(X), 0.5))


def table(n=2000):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(0, 0.1, n), "b": rng.normal(size=n)})
    frame["kind"] = pd.Categorical(rng.choice(["low", "high"], n))
    return frame


def test_one_scale_moves_predictions_by_half_their_width():
    a, b, kind = input_scales(Line(), table())
    assert a.scale == pytest.approx(0.25 / 3, rel=0.2)
    assert b.scale == np.inf
    assert (a.category, b.category, kind.category) == (False, False, True)
    # another category moves the mean by four standard deviations
    assert kind.distances(np.array(["low", "high"]), "low") == pytest.approx([0, 8], rel=0.2)


def test_rows_are_the_less_near_the_farther_they_are():
    X = table(200)
    a, _, _ = input_scales(Line(), X)
    weights = nearness(Line(), X, {0: 0.0, 1: 7.0, 2: "low"})
    same = (X["kind"] == "low").to_numpy()
    off = X["a"][same].to_numpy()
    # half for the distance in units of the scale, half for what the prediction moves by
    wanted = np.exp(-0.25 * (off / a.scale) ** 2 - (3 * off / 0.5) ** 2)
    np.testing.assert_allclose(weights[same], wanted, rtol=0.15, atol=0.01)
    assert weights[~same].max() < 1e-4
    np.testing.assert_array_equal(nearness(Line(), X, {}), 1.0)


class Gate:
    """The second input moves y only where the first is above 1."""

    def conditional(self, X):
        first, second = np.asarray(X).T
        return GaussianTruth(np.where(first > 1, 5 * second, 0.0), np.ones(len(first)))


def test_an_input_may_matter_in_places_only():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=3000), rng.uniform(-1, 1, 3000)])
    weights = nearness(Gate(), X, {1: 1.0})
    far = np.abs(X[:, 1] - 1.0) > 0.5
    assert weights[far & (X[:, 0] > 1)].max() < 0.05
    assert weights[far & (X[:, 0] < 1)].mean() > 10 * weights[far & (X[:, 0] > 1)].mean()


def test_only_the_outputs_shown_count():
    class Two:
        def conditional(self, X):
            means = np.column_stack([np.zeros(len(X)), 9 * np.asarray(X)[:, 0]])
            return GaussianTruth(means, np.ones((len(X), 2)))

    X = np.random.default_rng(0).normal(size=(300, 2))
    both, first = nearness(Two(), X, {0: 0.0}), nearness(Two(), X, {0: 0.0}, outputs=[0])
    assert both.sum() < first.sum()


def test_two_narrow_modes_are_not_one_wide():
    """Rows that move the modes by more than their own width are far, though the sd is large."""
    dist = ConditionalDistribution(Branches([0.0]), flat=True)
    assert dist.std()[0] > 2
    place, width = place_and_width(dist)
    assert place[0, 0] == pytest.approx(0.0, abs=1e-9)
    assert width[0, 0] == pytest.approx(2 * SD, rel=0.03)
    two = GaussianTruth(np.array([[1.0, -4.0]]), np.array([[0.7, 3.0]]))
    np.testing.assert_allclose(place_and_width(two)[0], [[1.0, -4.0]], atol=1e-9)
    np.testing.assert_allclose(place_and_width(two)[1], [[0.7, 3.0]], rtol=0.01)


def test_hours_come_back():
    hour = InputScale(2.0, period=24.0)
    np.testing.assert_allclose(
        hour.distances(np.array([0.0, 22.0, 12.0, 26.0]), 1.0), [0.5, 1.5, 5.5, 0.5]
    )
    kernel = kcdo.Gaussian().on([0]) * kcdo.Periodic(24.0).on([1])
    assert periods(kernel, 2) == {1: 24.0}
    assert periods(None, 2) == {}


def test_kernels_say_what_is_a_category():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 3, 90), rng.uniform(size=90)])
    kernel = kcdo.Categorical().on(0) * kcdo.Gaussian().on(1)
    y = X[:, 0] + 0.1 * rng.standard_normal(90)
    model = kcdo.ConditionalDensityOperator(kernel, selection="heuristic").fit(X, y)
    assert [scale.category for scale in input_scales(model, X)] == [True, False]
