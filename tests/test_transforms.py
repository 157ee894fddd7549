"""Monotone maps of bounded outputs: inverse of each other, right slopes, right bounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kcdo.errors import InvalidInputError
from kcdo.transforms import Above, Below, Between, Columns, Identity

MAPS = [Identity(), Above(-1.0, 0.3), Below(2.0, 1.5), Between(-1.0, 4.0)]
ON_ALL = pytest.mark.parametrize("transform", MAPS, ids=repr)


def line_inside(transform):
    return transform.inverse(np.linspace(-1, 4, 41)[:, None])


@ON_ALL
@given(t=st.floats(-3, 3))
def test_forward_undoes_inverse(transform, t):
    again = transform.forward(transform.inverse(np.array([t])))[0]
    assert again == pytest.approx(t, rel=1e-6, abs=1e-6)


@ON_ALL
def test_slopes_by_differences(transform):
    y, step = line_inside(transform), 1e-6
    slope = (transform.forward(y + step) - transform.forward(y - step)) / (2 * step)
    np.testing.assert_allclose(np.exp(transform.log_derivative(y)), slope, rtol=1e-3)
    assert np.all(np.diff(transform.forward(y)[:, 0]) > 0)
    assert np.all(transform.inside(y))


def test_far_from_its_bound_a_map_is_the_identity():
    y = np.array([5.0, 1e3, 1e300])
    np.testing.assert_allclose(Above(0.0, 0.1).forward(y), y, rtol=1e-15)
    np.testing.assert_allclose(Above(0.0, 0.1).inverse(y), y, rtol=1e-15)
    np.testing.assert_allclose(Below(0.0, 0.1).forward(-y), -y, rtol=1e-15)
    np.testing.assert_allclose(Above(0.0, 0.1).log_derivative(y), 0.0, atol=1e-20)


def test_next_to_its_bound_nothing_cancels():
    tiny = np.array([1e-300, 1e-30, 1e-9])
    hair = 2e-3  # scales
    wanted = 2.0 * np.log(np.expm1(1e-3)) - 2.001 * (hair / tiny - 1.0)
    np.testing.assert_allclose(Above(0.0, 2.0).forward(tiny), wanted, rtol=1e-6)
    np.testing.assert_allclose(Above(0.0, 2.0).inverse(wanted), tiny, rtol=1e-6)
    np.testing.assert_allclose(
        Above(0.0, 2.0).log_derivative(tiny), np.log(2.001 * hair) - 2 * np.log(tiny), rtol=1e-6
    )
    just_beyond = np.array([2.1e-3, 0.01])
    np.testing.assert_allclose(
        Above(0.0, 2.0).forward(just_beyond), 2 * np.log(np.expm1(just_beyond / 2)), rtol=1e-12
    )


NEAR = np.concatenate([-np.logspace(5, -3, 60), np.logspace(-3, 5, 60)])[:, None]


@pytest.mark.parametrize("transform", MAPS[1:], ids=repr)
def test_maps_are_smooth_up_to_the_bounds(transform):
    y = transform.inverse(NEAR)
    assert np.all(np.diff(y[:, 0]) >= 0)
    inside = transform.inside(y)[:, 0] & (np.abs(NEAR[:, 0]) < 3e3)
    again = transform.forward(y[inside])
    np.testing.assert_allclose(again, NEAR[inside], rtol=1e-6, atol=1e-9)
    slope = transform.log_derivative(y[inside])
    np.testing.assert_allclose(slope, transform.log_slope(NEAR[inside]), rtol=1e-6, atol=1e-6)
    step = 1e-4
    for kink in transform.kinks():
        left, right = (transform.log_slope(np.array([kink + sign * step])) for sign in (-1, 1))
        assert left == pytest.approx(right, abs=20 * step)
        ends = transform.inverse(np.array([kink - step, kink, kink + step]))
        assert np.diff(ends, 2)[0] == pytest.approx(0.0, abs=1e-3 * np.diff(ends)[0])


@pytest.mark.parametrize("transform", MAPS[1:], ids=repr)
def test_heavy_tails_vanish_at_a_bound(transform):
    t = np.array([[-1e2], [-1e4], [-1e6], [1e2], [1e4], [1e6]])
    logs = stats.t(3).logpdf(t) + transform.log_slope(t)
    for outward in (logs[:3, 0], logs[3:, 0]):
        assert np.all(np.diff(outward) < 0)


@pytest.mark.parametrize(
    ("transform", "y", "t"),
    [
        (Above(1.0, 0.5), [1.0, 0.0, -np.inf, np.inf], [-np.inf, -np.inf, -np.inf, np.inf]),
        (Below(1.0, 0.5), [1.0, 2.0, -np.inf, np.inf], [np.inf, np.inf, -np.inf, np.inf]),
        (Between(0.0, 1.0), [0.0, 1.0, -3.0, 3.0], [-np.inf, np.inf, -np.inf, np.inf]),
    ],
)
def test_at_the_bounds_and_beyond(transform, y, t):
    np.testing.assert_array_equal(transform.forward(np.array(y)), t)
    assert not np.any(transform.inside(np.array(y)))


def test_each_column_has_its_own_map():
    both = Columns((Identity(), Above(0.0, 1.0)))
    y = np.array([[-3.0, 2.0], [1.0, -1.0]])
    np.testing.assert_array_equal(both.inside(y), [[True, True], [True, False]])
    np.testing.assert_allclose(both.inverse(both.forward(y[:1])), y[:1])
    np.testing.assert_array_equal(both.log_derivative(y[:1])[:, 0], 0.0)
    assert both.of_columns([1, 0]) == Columns((Above(0.0, 1.0), Identity()))
    assert MAPS[1].of_columns([0]) is MAPS[1]
    with pytest.raises(
        InvalidInputError, match=r"2 transforms need \(\.\.\., 2\) values; got \(3,\)"
    ):
        both.forward(np.zeros(3))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Above(np.inf, 1.0), "a bound must be finite; got inf: use Identity for none"),
        (lambda: Above(0.0, 0.0), "the scale of a bound must be positive; got 0.0"),
        (lambda: Below(0.0, np.nan), "the scale of a bound must be positive; got nan"),
        (lambda: Between(1.0, 1.0), "bounds must be finite, lower below upper; got 1.0 and 1.0"),
    ],
)
def test_bad_bounds_are_explained(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()
