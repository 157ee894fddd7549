"""From signed functions to densities: against a sort-based projection and a solver."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from kcdo.distributions import make_positive, positive_parts

FINITE = st.floats(-3, 3, allow_subnormal=False)


@st.composite
def signed_densities(draw):
    """Rows of signed values with integral 1, and weights that are not all equal."""
    m = draw(st.integers(2, 12))
    weights = draw(arrays(float, m, elements=st.floats(0.05, 2.0)))
    values = draw(arrays(float, (draw(st.integers(1, 4)), m), elements=FINITE))
    values += (1.0 - values @ weights)[:, None] / weights.sum()
    return values, weights


def sorted_projection(p, v):
    """The textbook algorithm: try every number of active nodes, from the highest down."""
    order = np.argsort(-p)
    mass, first = np.cumsum(v[order]), np.cumsum((v * p)[order])
    thresholds = (first - 1.0) / mass
    count = np.flatnonzero(p[order] > thresholds)[-1]
    return np.maximum(p - thresholds[count], 0.0)


@settings(deadline=None, max_examples=60)
@given(signed_densities(), st.sampled_from(["project", "clip"]))
def test_the_result_is_a_density(case, how):
    values, weights = case
    before = values.copy()
    p = make_positive(values, weights, how)
    assert np.all(p >= 0)
    np.testing.assert_allclose(p @ weights, 1.0, rtol=1e-12)
    np.testing.assert_array_equal(values, before)


@settings(deadline=None, max_examples=60)
@given(signed_densities())
def test_projection_equals_the_sorting_algorithm(case):
    values, weights = case
    expected = [sorted_projection(row, weights) for row in values]
    np.testing.assert_allclose(
        make_positive(values, weights, "project"), expected, rtol=1e-9, atol=1e-11
    )


def test_projection_solves_the_quadratic_programme():
    rng = np.random.default_rng(0)
    v, p = rng.uniform(0.1, 1.0, 8), rng.normal(size=8)
    p += (1 - p @ v) / v.sum()
    solved = minimize(
        lambda u: v @ (u - p) ** 2,
        np.full(8, 1 / v.sum()),
        jac=lambda u: 2 * v * (u - p),
        bounds=[(0, None)] * 8,
        constraints={"type": "eq", "fun": lambda u: v @ u - 1, "jac": lambda u: v},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert solved.success
    np.testing.assert_allclose(make_positive(p[None], v, "project")[0], solved.x, atol=1e-6)


@settings(deadline=None, max_examples=60)
@given(signed_densities(), st.integers(0, 2**31))
def test_projection_is_never_farther_from_a_true_density(case, seed):
    values, weights = case
    truth = np.random.default_rng(seed).exponential(size=values.shape) ** 2
    truth /= (truth @ weights)[:, None]
    before = (values - truth) ** 2 @ weights
    after = (make_positive(values, weights, "project") - truth) ** 2 @ weights
    assert np.all(after <= before * (1 + 1e-12) + 1e-14)


@pytest.mark.parametrize("how", ["project", "clip"])
def test_a_density_stays_as_it_is(how):
    density = np.array([[0.0, 0.5, 0.5, 1.0]])
    np.testing.assert_allclose(make_positive(density, np.full(4, 0.5), how), density)


def test_clip_and_signed_are_what_they_say():
    signed = np.array([[-1.0, 2.0, 1.0]])
    v = np.array([1.0, 0.5, 1.0])
    np.testing.assert_allclose(make_positive(signed, v, "clip"), [[0.0, 1.0, 0.5]])
    assert make_positive(signed, v, "signed") is signed


def test_rows_do_not_depend_on_each_other():
    rng = np.random.default_rng(1)
    values, v = rng.normal(size=(30, 20)), np.full(20, 0.1)
    values += (1 - values @ v)[:, None] / v.sum()
    together = make_positive(values, v, "project")
    alone = np.concatenate([make_positive(row[None], v, "project") for row in values])
    np.testing.assert_allclose(together, alone, rtol=1e-12, atol=1e-13)


def test_parts_are_multiples_of_the_densities_and_come_with_their_masses():
    rng = np.random.default_rng(1)
    v, p = rng.uniform(0.1, 1.0, 9), rng.normal(size=(5, 9))
    p += ((1 - p @ v) / v.sum())[:, None]
    factors = np.array([1e-8, 0.5, 1.0, 3.0, 1e9])[:, None]
    for how in ("project", "clip", "signed"):
        parts, masses = positive_parts(factors * p, v, how)
        np.testing.assert_allclose(parts @ v, masses, rtol=1e-12)
        expected = make_positive(p, v, how)
        np.testing.assert_allclose(parts / masses[:, None], expected, rtol=1e-9, atol=1e-12)


def test_a_mass_that_rounding_hides_still_gives_a_density():
    v, p = np.ones(4), np.array([[1e12, -1e12, 0.3, 0.7], [0.25, 0.25, 0.25, 0.25]])
    density = make_positive(p, v, "project")
    np.testing.assert_allclose(density, [[1.0, 0.0, 0.0, 0.0], [0.25] * 4], atol=1e-3)
    np.testing.assert_allclose(density @ v, 1.0, rtol=1e-12)
