"""Monotone splines: smooth at knots, increasing, with an exact inverse and an exact slope."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcdo.transforms.splines import MonotoneSpline
from tests.distribution_kinds import gauss

SEEDS = st.integers(0, 10**9)
UNITS = st.sampled_from([1.0, 1e-100, 1e100])


def random_spline(seed, unit=1.0, steepest=50.0):
    """Knots at random distances, which differ by a factor of up to ``steepest``."""
    rng = np.random.default_rng(seed)
    steps = np.exp(rng.uniform(-np.log(steepest), 0.0, (2, rng.integers(2, 40))))
    x, y = (np.cumsum(np.append(0.0, each)) for each in steps)
    return MonotoneSpline(unit * (x - x.mean()), y - y.mean())


def inside_and_beyond(knots, n=300):
    """Places between knots, at them, next to them, and beyond the outermost."""
    beyond = 0.3 * np.ptp(knots)
    even = np.linspace(knots[0] - beyond, knots[-1] + beyond, n)
    return np.sort(np.concatenate([even, knots, np.nextafter(knots, np.inf)]))


@given(SEEDS, UNITS)
def test_forward_undoes_inverse_and_inverse_undoes_forward(seed, unit):
    spline = random_spline(seed, unit)
    y, x = inside_and_beyond(spline.y), inside_and_beyond(spline.x)
    np.testing.assert_allclose(spline.forward(spline.inverse(y)), y, rtol=1e-12, atol=1e-12)
    back = spline.inverse(spline.forward(x))
    np.testing.assert_allclose(back, x, rtol=1e-12, atol=1e-11 * np.ptp(spline.x))


@given(SEEDS, UNITS)
def test_it_goes_through_its_knots_and_increases_to_the_last_digit(seed, unit):
    spline = random_spline(seed, unit, steepest=1e6)
    x, y = inside_and_beyond(spline.x), inside_and_beyond(spline.y)
    assert np.all(np.diff(spline.forward(x)) >= 0)
    assert np.all(np.diff(spline.inverse(y)) >= 0)
    np.testing.assert_allclose(spline.forward(spline.x), spline.y, rtol=1e-14, atol=1e-14)
    even = np.linspace(spline.x[0], spline.x[-1], 200)
    assert np.all(np.diff(random_spline(seed).forward(even / unit)) > 0)


@given(SEEDS)
def test_slopes_are_exact_derivatives(seed):
    spline = random_spline(seed, steepest=10.0)
    x = inside_and_beyond(spline.x)
    step = 1e-6
    x = x[np.abs(x[:, None] - spline.x).min(axis=1) > 2 * step]  # no knot in between
    found = (spline.forward(x + step) - spline.forward(x - step)) / (2 * step)
    np.testing.assert_allclose(np.exp(spline.log_derivative(x)), found, rtol=1e-6)
    np.testing.assert_allclose(
        spline.log_slope(spline.forward(x)), spline.log_derivative(x), atol=1e-10
    )


@given(SEEDS, UNITS)
def test_slopes_from_both_sides_of_a_knot_agree(seed, unit):
    spline = random_spline(seed, unit)
    near = 1e-12 * unit
    left, right = (spline.log_derivative(spline.x + sign * near) for sign in (-1, 1))
    np.testing.assert_allclose(left, right, atol=1e-6)
    np.testing.assert_allclose(spline.log_derivative(spline.x), spline.log_slopes, atol=1e-9)


def test_a_slope_between_two_knots_rises_or_falls_where_those_of_chords_do():
    x = np.linspace(-2.0, 2.0, 9)
    spline = MonotoneSpline(x, np.exp(x))
    assert np.all(np.diff(spline.log_derivative(np.linspace(-2.0, 2.0, 1001))) > 0)
    np.testing.assert_allclose(spline.log_derivative(x[1:-1]), x[1:-1], atol=0.03)


@given(SEEDS)
def test_five_gauss_points_between_cuts_integrate_slopes(seed):
    spline = random_spline(seed, steepest=8.0)
    cuts = np.append(spline.cuts(), spline.y[[0, -1]])
    y, weights = gauss(cuts, order=5)
    found = weights @ np.exp(-spline.log_slope(y))
    assert found == pytest.approx(np.ptp(spline.x), rel=1e-6)


def test_two_knots_are_a_straight_line():
    spline = MonotoneSpline(np.array([1.0, 3.0]), np.array([-1.0, 1.0]))
    y = np.array([-1e3, -1.0, 0.25, 1.0, 1e3])
    np.testing.assert_array_equal(spline.forward(y + 2.0), y)
    np.testing.assert_array_equal(spline.inverse(y), y + 2.0)
    np.testing.assert_array_equal(spline.log_slope(y), 0.0)


@pytest.mark.parametrize("n_knots", [2, 5])
def test_infinity_and_what_is_no_number(n_knots):
    spline = MonotoneSpline(np.arange(n_knots, dtype=float), np.arange(n_knots) ** 2.0)
    odd = np.array([-np.inf, np.inf, np.nan])
    np.testing.assert_array_equal(spline.forward(odd), odd)
    np.testing.assert_array_equal(spline.inverse(odd), odd)
