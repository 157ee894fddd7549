"""What is special about each kind of batch, and roots; the contract has the rest."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from scipy.stats import t as student

from kcdo.distributions import (
    AffineBatch,
    GridLayout,
    MixtureBatch,
    NodeBatch,
    StudentTail,
)
from kcdo.distributions.roots import monotone_roots
from kcdo.errors import InvalidInputError
from kcdo.measures import Grid
from tests.distribution_kinds import LINES, Q, affine, on_grid, tail, uniforms


def test_crps_of_a_normal_distribution():
    layout = GridLayout(Grid(np.array([-8.0]), np.array([8.0]), (800,)))
    p = norm.pdf(layout.grid.axes[0])
    batch = AffineBatch(
        NodeBatch(layout, np.tile(p / p.sum(), (3, 1))), np.full((3, 1), 5.0), np.full((3, 1), 0.1)
    )
    y = np.array([[5.0], [5.17], [4.5]])
    z = (y[:, 0] - 5.0) / 0.1
    closed = z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi)
    np.testing.assert_allclose(batch.crps(y), 0.1 * closed, rtol=1e-4)


@given(st.floats(-1e300, 1e300), st.floats(2.1, 50))
def test_the_log_density_of_student_is_finite_everywhere(y, dof):
    batch = StudentTail(np.array([[1.0]]), np.array([[2.0]]), dof)
    found = batch.logpdf_pairs(np.array([[y]]))[0]
    assert np.isfinite(found)
    if abs(y) < 1e60:
        assert found == pytest.approx(student.logpdf(y, dof, 1.0, 2.0), rel=1e-9, abs=1e-9)


def test_student_in_closed_form():
    batch = tail(1, dof=4.5)
    t = student(4.5, batch.location[:, 0], batch.scale[:, 0])
    np.testing.assert_allclose(batch.entropy(), t.entropy(), rtol=1e-10)
    np.testing.assert_allclose(batch.moments()[1][:, 0, 0], t.var(), rtol=1e-12)
    np.testing.assert_allclose(batch.quantile(np.array([0.3]))[:, 0, 0], t.ppf(0.3), rtol=1e-9)
    assert np.all(np.isinf(batch.quantile(np.array([0.0, 1.0]))))
    assert np.all(np.isfinite(batch.sample(np.zeros((Q, 1, 2)))))
    with pytest.raises(InvalidInputError, match="degrees of freedom must be above 2"):
        StudentTail(batch.location, batch.scale, 2.0)


def test_infinite_degrees_of_freedom_are_normal():
    batch = tail(1, dof=np.inf)
    z = norm(batch.location[:, 0], batch.scale[:, 0])
    np.testing.assert_allclose(batch.entropy(), z.entropy(), rtol=1e-12)
    np.testing.assert_allclose(batch.moments()[1][:, 0, 0], z.var(), rtol=1e-12)
    levels = np.array([0.001, 0.3, 0.9])
    np.testing.assert_allclose(batch.quantile(levels)[:, :, 0].T, z.ppf(levels[:, None]))
    points = np.array([[-3.0], [0.1], [40.0]])
    np.testing.assert_allclose(batch.logpdf(points).T, z.logpdf(points), rtol=1e-12)
    np.testing.assert_allclose(batch.cdf(points).T, z.cdf(points), rtol=1e-12)
    np.testing.assert_allclose(
        batch.square_integral(), 0.5 / np.sqrt(np.pi) / batch.scale[:, 0], rtol=1e-12
    )
    nearly = StudentTail(batch.location, batch.scale, 1e6)
    for answer in ("entropy", "square_integral"):
        np.testing.assert_allclose(getattr(batch, answer)(), getattr(nearly, answer)(), rtol=1e-4)


def test_a_tail_makes_the_log_density_finite_beyond_the_box():
    box = on_grid(31)
    assert np.all(np.isneginf(box.logpdf(np.array([[50.0]]))))
    mixed = MixtureBatch([box, tail(1)], np.array([0.99, 0.01]))
    far = np.array([[50.0], [-1e200]])
    expected = np.log(0.01) + tail(1).logpdf(far)
    np.testing.assert_allclose(mixed.logpdf(far), expected, rtol=1e-12)


def test_levels_0_and_1_are_the_ends_of_the_support():
    box = on_grid(31)
    ends = np.array([0.0, 1.0])
    mixed = MixtureBatch([box, affine(box)], np.array([[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]]))
    own, other = box.quantile(ends)[:, :, 0], affine(box).quantile(ends)[:, :, 0]
    found = mixed.quantile(ends)[:, :, 0]
    np.testing.assert_allclose(found[0, 0], min(own[0, 0], other[0, 0]))
    np.testing.assert_allclose(found[0, 1], max(own[0, 1], other[0, 1]))
    np.testing.assert_allclose(found[1:], [own[1], other[2]])
    heavy = MixtureBatch([box, tail(1)], np.array([0.9, 0.1])).quantile(ends)
    np.testing.assert_array_equal(heavy[:, :, 0], np.tile([-np.inf, np.inf], (Q, 1)))


def test_a_gap_between_parts():
    box = on_grid(5)
    far = AffineBatch(box, np.full((Q, 1), 100.0), np.ones((Q, 1)))
    mixed = MixtureBatch([box, far], np.array([0.5, 0.5]))
    found = mixed.quantile(np.array([0.499, 0.5, 0.501]))[:, :, 0]
    assert np.all(found[:, 0] < 3.0)
    assert np.all(found[:, 2] > 97.0)
    np.testing.assert_allclose(mixed.cdf_each(found[:, :, None]), [[0.499, 0.5, 0.501]] * Q)


def test_mixtures_explain_what_does_not_fit():
    with pytest.raises(InvalidInputError, match="a mixture needs parts of as many distributions"):
        MixtureBatch([on_grid(5), on_grid(5, 5)], np.array([0.5, 0.5]))
    with pytest.raises(InvalidInputError, match="a mixture needs parts"):
        MixtureBatch([], np.array([]))
    with pytest.raises(InvalidInputError, match=r"weights of a mixture must be \(3, 1\) or \(1,\)"):
        MixtureBatch([on_grid(5)], np.ones(2))


def test_very_many_knots_are_thinned_out():
    many = MixtureBatch([affine(on_grid(400), s) for s in range(20)], np.full(20, 0.05))
    assert many.knots().shape == (Q, 4096)
    assert np.all(np.diff(many.knots(), axis=1) >= 0)
    square = many.expect(lambda y: np.ones((len(y), 1)))
    np.testing.assert_allclose(square, 1.0)


def test_transformed_outputs_stay_within_their_bounds():
    batch = LINES["between"]
    draws = batch.sample(uniforms(batch, 1000))
    assert np.all((draws > -1.0) & (draws < 2.0))
    outside = np.array([[-1.0], [2.0], [-5.0], [np.inf]])
    assert np.all(batch.pdf(outside) == 0)
    assert np.all(np.isneginf(batch.logpdf(outside)))
    np.testing.assert_allclose(batch.cdf(outside), np.tile([0.0, 1.0, 0.0, 1.0], (Q, 1)))


def test_mode_and_regions_do_not_run_to_the_bound():
    batch = LINES["above with a tail"]
    assert np.all(batch.mode() > 0.01)
    for shape in batch.regions(0.8):
        assert np.isfinite(shape.density_level)


@settings(max_examples=30, deadline=None)
@given(st.floats(-1e4, 1e4), st.floats(1e-3, 1e3), st.floats(0.0, 1.0), st.floats(1e-6, 1 - 1e-6))
def test_mixture_quantiles_by_roots(shift, scale, weight, level):
    box = on_grid(9).take(slice(0, 1))
    moved = AffineBatch(box, np.array([[shift]]), np.array([[scale]]))
    mixed = MixtureBatch([box, moved], np.array([weight, 1 - weight]))
    y = mixed.quantile(np.array([level]))
    assert mixed.cdf_each(y)[0, 0] == pytest.approx(level, abs=1e-9)


def test_mixture_is_the_same_however_nested():
    a, b, c = on_grid(31), affine(on_grid(31, seed=5)), tail(1)
    flat = MixtureBatch([a, b, c], np.array([0.42, 0.18, 0.4]))
    deep = MixtureBatch([MixtureBatch([a, b], np.array([0.7, 0.3])), c], np.array([0.6, 0.4]))
    points = np.linspace(-3, 3, 9)[:, None]
    np.testing.assert_allclose(deep.pdf(points), flat.pdf(points), rtol=1e-12)
    levels = np.array([0.01, 0.5])
    np.testing.assert_allclose(deep.quantile(levels), flat.quantile(levels), rtol=1e-9)
    u = uniforms(a, 500)
    np.testing.assert_allclose(deep.sample(u), flat.sample(u), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(deep.moments()[1], flat.moments()[1], rtol=1e-12)


# --- roots


@settings(max_examples=100, deadline=None)
@given(st.floats(-1e3, 1e3), st.floats(1e-3, 1e3), st.sampled_from([1, 3, 5, 0.2]))
def test_roots_of_steep_and_flat_functions(root, width, power):
    def function(rows, x):
        return np.sign(x - root) * np.abs(x - root) ** power

    low, high = np.array([[root - width]]), np.array([[root + 2 * width]])
    found = monotone_roots(function, low, high, np.zeros((1, 1)))
    assert found[0, 0] == pytest.approx(root, rel=1e-10, abs=1e-5 * width)


def test_roots_at_jumps_and_known_ends():
    def step(rows, x):
        return np.where(x < 0.3, -1.0, 2.0)

    def call(low, high):
        low, high = np.array([low]), np.array([high])
        return monotone_roots(step, low, high, np.full(low.shape, 1e-12))[0]

    below, above = call([0.0, -1.0], [1.0, 7.0])
    assert below < 0.3
    assert above == pytest.approx(below, rel=1e-12)
    np.testing.assert_array_equal(call([np.inf, 2.0], [np.inf, 2.0]), [np.inf, 2.0])
    np.testing.assert_allclose(call([-np.inf, 0.0], [-np.inf, 1.0]), [-np.inf, 0.3])


def test_roots_that_are_done_do_not_hold_up_the_others():
    asked = []

    def function(rows, x):
        asked.append(len(rows))
        return np.where(rows[:, None] < 9, x, np.sign(x - 0.123) * np.abs(x - 0.123) ** 7)

    low, high = np.full((10, 1), -1.0), np.full((10, 1), 1.0)
    found = monotone_roots(function, low, high, np.full((10, 1), 1e-30))
    np.testing.assert_allclose(found[:9], 0.0, atol=1e-12)
    assert found[9, 0] == pytest.approx(0.123, rel=1e-3)
    assert asked[-1] == 1
