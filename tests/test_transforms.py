"""Monotone maps of bounded outputs: inverse of each other, right slopes, right bounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.signal import find_peaks

from kcdo.errors import InvalidInputError
from kcdo.transforms import (
    Above,
    Below,
    Between,
    Columns,
    Identity,
    Tabulated,
    normal_scores,
    standardised,
    transform_for,
)

MAPS = [
    Identity(),
    Above(-1.0, 0.3),
    Below(2.0, 1.5),
    Between(-1.0, 4.0),
    Above(-1.0, 0.3, hair=0.2),
    Below(2.0, 1.5, hair=0.05),
    Between(-1.0, 4.0, lower_hair=0.02, upper_hair=0.1),
]
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
        (lambda: Above(0.0, 1.0, 0.1, 1.0), "the margin of a bound must be below 1 scale; got 1.0"),
        (lambda: Between(0.0, 1.0, 0.1, 0.1, 0.6), "a margin beside bounds .* got 0.6"),
        (lambda: Above(0.0, 1.0, 0.0), "the hair beside a bound must be below 1 scale; got 0.0"),
        (lambda: Below(0.0, 1.0, 2.0), "the hair beside a bound must be below 1 scale; got 2.0"),
        (lambda: Between(0.0, 1.0, 0.5), "a hair between bounds must be below 0.5; got 0.5"),
        (lambda: Between(0.0, 1.0, 0.1, np.nan), "a hair between bounds must .*; got nan"),
    ],
)
def test_bad_bounds_are_explained(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()


# --- normal scores


def marginal_modes(table, y):
    """Number of peaks of φ(T(y)) T'(y) that stand out by a tenth."""
    grid = np.linspace(*np.quantile(y, [0.01, 0.99]), 4000)
    density = np.exp(stats.norm.logpdf(table.forward(grid)) + table.log_derivative(grid))
    peaks, _ = find_peaks(np.pad(density / density.max(), 1), prominence=0.1)
    return len(peaks)


SHAPES = {
    "normal": lambda rng, n: rng.normal(size=n),
    "gamma": lambda rng, n: rng.gamma(3.0, size=n),
    "log-normal": lambda rng, n: np.exp(rng.normal(size=n)),
    "student": lambda rng, n: rng.standard_t(3, n),
}


@pytest.mark.parametrize("n", [100, 1000])
@pytest.mark.parametrize("shape", SHAPES)
def test_normal_scores_of_one_mode_do_not_ripple(shape, n):
    samples = [SHAPES[shape](np.random.default_rng(seed), n) for seed in range(10)]
    counts = [marginal_modes(normal_scores(y), y) for y in samples]
    assert np.sum(np.array(counts) > 1) <= 2


@given(
    st.integers(0, 10**9),
    st.sampled_from([1e-100, 1.0, 1e100]),
    st.sampled_from(["free", "tied", "two values", "outlier"]),
)
def test_normal_scores_of_any_outputs_are_invertible(seed, unit, kind):
    rng = np.random.default_rng(seed)
    y = rng.gamma(2.0, size=rng.integers(2, 200))
    y = {"free": y, "tied": np.round(y), "two values": np.sign(y - 1.0), "outlier": y}[kind]
    y[-1] = 1e6 if kind == "outlier" else y[-1]
    table = normal_scores(unit * y)
    t = np.sort(np.append(np.linspace(-8.0, 8.0, 200), table.values))
    places = table.inverse(t)
    assert np.all(np.diff(places) >= 0)
    size = np.maximum(np.abs(places), np.abs(unit * y).max())  # what places are rounded by
    rounding = 4e-15 * np.exp(table.log_slope(t)) * size
    assert np.all(np.abs(table.forward(places) - t) <= 1e-12 * (1.0 + np.abs(t)) + rounding)
    assert np.all(np.isfinite(table.log_derivative(unit * y)))


def test_scores_have_no_sudden_slope_beyond_the_outputs():
    y = np.exp(np.random.default_rng(0).normal(size=200))
    table = normal_scores(y)
    t = np.linspace(table.values[0] - 1.0, table.values[-1] + 1.0, 20_001)
    assert np.abs(np.diff(table.log_slope(t))).max() < 0.01
    assert np.all(np.isin(table.values, table.kinks()))
    assert standardised(y).kinks().size == 0
    assert len(table.places) < 100
    assert len(table.kinks()) < 150


@pytest.mark.parametrize(
    ("places", "values", "message"),
    [
        (np.array([0.0]), np.array([0.0]), "must be as many, at least two"),
        (np.arange(3.0), np.arange(2.0), "must be as many, at least two"),
        (np.array([0.0, 0.0, 1.0]), np.arange(3.0), "must increase"),
        (np.arange(3.0), np.array([0.0, 2.0, 1.0]), "must increase"),
        (np.array([0.0, np.nan, 1.0]), np.arange(3.0), "must increase"),
    ],
)
def test_bad_tables_are_explained(places, values, message):
    with pytest.raises(InvalidInputError, match=message):
        Tabulated(places, values)


# --- hairs beside bounds


def test_a_hair_ends_before_the_nearest_output():
    Y = np.array([[0.4], [1.0], [3.0]])
    (above,) = transform_for((0.0, None), Y).parts
    assert above.hair == pytest.approx(0.1 / above.scale)
    (below,) = transform_for((None, 3.5), Y).parts
    assert below.hair == pytest.approx(0.125 / below.scale)
    (between,) = transform_for((0.0, 4.0), Y).parts
    assert (between.lower_hair, between.upper_hair) == pytest.approx((0.025, 0.0625))


def test_a_hair_is_neither_wide_nor_narrower_than_outputs_on_a_bound_are_moved():
    far, on = np.array([[50.0], [51.0]]), np.array([[0.0], [1.0]])
    assert transform_for((0.0, None), far).parts[0].hair == 0.25
    assert transform_for((0.0, None), on).parts[0] == Above(0.0, 0.25, margin=1e-3)
    assert transform_for((0.0, 1.0), on).parts[0] == Between(
        0.0, 1.0, lower_margin=5e-4, upper_margin=5e-4
    )
    seen = transform_for((0.0, None), far, ends=np.array([[1e-9], [51.0]])).parts[0]
    assert seen == Above(0.0, 0.25)
