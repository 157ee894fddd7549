"""Kernels of inputs with long tails: by their formula, in the search, in files and near rows."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kcdo
from kcdo.errors import InvalidInputError, InvalidTypeError
from kcdo.fitting import ModelSpec
from kcdo.fitting.families import families
from kcdo.fitting.problem import Problem
from kcdo.kernels import (
    Automatic,
    Categorical,
    FreeScales,
    Gaussian,
    Matern,
    Nugget,
    Periodic,
    Warped,
    after_warps,
    cross_gram,
    has_metric,
    warped,
    warped_columns,
    with_median_scales,
    without_warps,
)
from kcdo.reports.sections import _scales
from kcdo.rows import Rows
from kcdo.systems import NearestRows
from tests.differences import assert_gradient

INNER = Matern((0.5, 2.0), smoothness=1.5)
KERNEL = Warped(INNER, (1,), (3.0,), (0.5,))


def inputs(n=30, seed=0):
    rng = np.random.default_rng(seed)
    return np.c_[rng.normal(size=n), np.exp(2.0 * rng.normal(size=n))]


def flat(X):
    return np.c_[X[:, 0], np.arcsinh((X[:, 1] - 3.0) / 0.5)]


def test_it_is_the_kernel_of_drawn_in_inputs():
    A, B = inputs(), inputs(7, 1)
    expected = INNER(flat(A), flat(B))
    np.testing.assert_allclose(KERNEL(A, B), expected, rtol=1e-12)
    np.testing.assert_allclose(cross_gram(KERNEL, A, B, n_jobs=2), expected, rtol=1e-12)
    np.testing.assert_array_equal(KERNEL.diag(A), np.ones(30))
    assert KERNEL.fitted
    assert not KERNEL.stationary
    assert KERNEL.thread_safe
    np.testing.assert_array_equal(A, inputs())  # which are not touched


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (((0,), (0.0, 1.0), (1.0,)), "must be as many"),
        (((0,), (0.0,), (0.0,)), "widths must be positive"),
        (((0,), (np.inf,), (1.0,)), "must be finite"),
    ],
)
def test_what_is_no_warp(options, message):
    with pytest.raises(InvalidInputError, match=message):
        Warped(INNER, *options)
    with pytest.raises(InvalidTypeError, match="needs kcdo kernels"):
        Warped("gaussian", (0,), (0.0,), (1.0,))
    with pytest.raises(InvalidInputError, match="warps column 5, but the data have 2 columns"):
        Warped(INNER, (5,), (0.0,), (1.0,))(inputs())


# --- where it is used


def test_long_tails_are_drawn_in_and_others_are_not():
    rng = np.random.default_rng(0)
    long, even = np.exp(1.5 * rng.normal(size=400)), rng.normal(size=400)
    X = np.c_[even, long, -long, rng.integers(0, 3, 400), rng.uniform(size=400)]
    found = warped(Automatic(), X)
    assert found.columns == (1, 2)
    assert found.origins == (long.min(), -long.min())
    drawn = found.inner_rows(X)
    for j in (1, 2):
        spread = np.ptp(X[:, j]) / X[:, j].std(), np.ptp(drawn[:, j]) / drawn[:, j].std()
        assert spread[1] < 0.6 * spread[0]
    np.testing.assert_array_equal(drawn[:, [0, 3, 4]], X[:, [0, 3, 4]])
    assert warped(Automatic(), X[:, [0, 4]]) == Automatic()
    assert warped(Gaussian(), X) == Gaussian()  # what the user asked for stays


def test_only_automatic_parts_are_warped():
    X = np.c_[np.arange(50.0), np.exp(np.arange(50.0) / 5.0), np.tile([0.0, 1.0], 25)]
    kernel = Automatic().on([1, 0]) * Categorical().on([2])
    found = warped(kernel, X)
    assert found.kernels[0].kernel == Warped(
        Automatic(), (0,), (1.0,), (float(np.quantile(X[:, 1], 0.25)) - 1.0,)
    )
    assert found.kernels[1] == kernel.kernels[1]
    made = families(found)
    assert len(made) == 5
    assert all(isinstance(each.kernels[0].kernel, Warped) for each in made)
    inside = warped(Nugget(Automatic(), 0.2), X[:, 1:2])
    assert isinstance(inside.kernel, Warped)


def test_a_report_says_which_scales_are_of_drawn_in_columns():
    kernel = Gaussian(2.0).on([1]) * Warped(Matern((3.0, 4.0)), (1,), (0.0,), (1.0,)).on([0, 2])
    assert list(warped_columns(kernel, range(3))) == [2]
    assert _scales(kernel, 3) == [
        "Matern, scale 3",
        "Gaussian, scale 2",
        "Matern, scale 4 of its asinh",
    ]


def test_some_rows_have_the_variants_of_all():
    X = np.exp(1.5 * np.random.default_rng(0).normal(size=(200, 1)))
    even = np.linspace(0.0, 1.0, 50)[:, None]
    problem = Problem.of(ModelSpec(Automatic()), Rows(X, X, np.ones(200)))
    assert problem.warped_kernel == warped(Automatic(), X)
    some = replace(problem, rows=problem.rows.sample(50, 0))
    for each in problem.templates:
        for template in each:
            first, other = problem.variants(template)
            assert first == template != other
            assert isinstance(first, Warped) != isinstance(other, Warped)
            assert some.variants(template) == [first, other]
    assert problem.variants(Gaussian(3.0)) == [Gaussian(3.0)]
    assert len(Problem.of(ModelSpec(Automatic()), Rows(even, even, np.ones(50))).templates) == 1


def test_columns_of_ties_have_no_tail():
    X = np.r_[np.zeros(90), np.arange(1.0, 31.0) ** 3][:, None]  # no body to measure
    assert warped(Automatic(), X) == Automatic()
    assert warped(Automatic(), np.zeros((20, 1))) == Automatic()


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_gradients_of_the_scales(seed):
    X = inputs(8, seed)
    free = FreeScales(Warped(Matern(smoothness=1.5), (1,), (3.0,), (0.5,)), 2)
    W = np.random.default_rng(seed).normal(size=(8, 8))

    def objective(log_scales):
        values, pull = free.gram(log_scales, X)
        return float(np.sum(W * values)), pull(W)

    assert_gradient(objective, np.array([0.1, 0.4]), step=1e-6)
    kernel = free.kernel(np.array([0.1, 0.4]))
    np.testing.assert_allclose(free.log_scales_of(kernel), [0.1, 0.4])
    assert free.columns == (0, 1)


def test_median_scales_are_those_of_drawn_in_inputs():
    X = inputs()
    template = Warped(Gaussian(), (1,), (3.0,), (0.5,))
    found = with_median_scales(template, X)
    assert found.kernel == with_median_scales(Gaussian(), flat(X))
    assert without_warps(found) == found.kernel
    np.testing.assert_array_equal(after_warps(found, X), found.inner_rows(X))


def test_near_rows_are_near_after_warps():
    X = inputs(80)
    near = NearestRows(KERNEL, X, np.ones(80), neighbours=9).factor(1e-3)
    same = NearestRows(INNER, flat(X), np.ones(80), neighbours=9).factor(1e-3)
    queries = inputs(5, 3)
    np.testing.assert_allclose(
        near.section(queries).toarray(), same.section(flat(queries)).toarray(), rtol=1e-9
    )
    rows = np.arange(0, 80, 9)
    np.testing.assert_allclose(
        near.held_out_weights(rows).toarray(), same.held_out_weights(rows).toarray(), rtol=1e-9
    )
    both = KERNEL.on([0, 1]) * Periodic(2.0, 1.0).on([1])
    assert has_metric(KERNEL, X)
    assert not has_metric(both, X)  # one column, before and after


def test_an_uncertain_input_is_integrated(tmp_path):
    rng = np.random.default_rng(1)
    X = np.exp(1.5 * rng.normal(size=(60, 1)))
    Y = np.log(X[:, 0]) + 0.1 * rng.normal(size=60)
    model = kcdo.ConditionalDensityOperator(
        Warped(Matern(1.0), (0,), (0.0,), (0.3,)), selection="heuristic"
    ).fit(X, Y)
    cloud = kcdo.GaussianInput([[2.0]], 0.2)
    draws = rng.normal(2.0, np.sqrt(0.2), size=(1, 4000, 1))
    expected = model.conditional(kcdo.SampleInput(draws)).mean()
    np.testing.assert_allclose(model.conditional(cloud).mean(), expected, atol=0.02)
    model.save(tmp_path / "model.kcdo")
    again = kcdo.load(tmp_path / "model.kcdo")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_the_default_draws_in_what_is_better_drawn_in():
    rng = np.random.default_rng(2)
    X = np.exp(2.0 * rng.normal(size=(250, 1)))
    Y = np.sin(np.log(X[:, 0])) + 0.1 * rng.normal(size=250)
    model = kcdo.ConditionalDensityOperator().fit(X[:150], Y[:150])
    drawn_in = model._operator.features.features[0]
    assert len(drawn_in.places) > 2  # asinh, not a straight line
    error = model.predict(X[150:]) - np.sin(np.log(X[150:, 0]))
    assert np.abs(error).mean() < 0.06


def test_several_outputs_draw_in_what_is_better_drawn_in(short_searches):
    rng = np.random.default_rng(2)
    X = np.exp(2.0 * rng.normal(size=(80, 1)))
    Y = np.sin(np.log(X)) + 0.1 * rng.normal(size=(80, 2))
    model = kcdo.ConditionalDensityOperator(kernel_y=kcdo.Gaussian()).fit(X, Y)
    assert isinstance(without_nugget(model.report_.kernel_x), Warped)
    X = rng.exponential(4.0, size=(80, 1))
    assert isinstance(warped(Automatic(), X), Warped)  # it could have been
    waves = kcdo.ConditionalDensityOperator(kernel_y=kcdo.Gaussian())
    waves.fit(X, np.sin(X) + 0.1 * rng.normal(size=(80, 2)))
    located = waves._parameters.components[1]
    assert not isinstance(without_nugget(located.location.kernel), Warped)


def without_nugget(kernel):
    return kernel.kernel if isinstance(kernel, Nugget) else kernel
