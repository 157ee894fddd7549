"""What is special about grids and about scattered nodes; the contract has the rest."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import ndtri

from kcdo.distributions import GridLayout, NodeBatch, ScatteredLayout, layout_of
from kcdo.distributions.layouts import choose_nodes
from kcdo.measures import Grid, QuasiRandomBox, Scattered
from tests.distribution_kinds import box, rough_masses

GRIDS = {"smallest": box(2), "line": box(7), "plane": box(4, 3), "space": box(3, 2, 4)}
ON_GRIDS = pytest.mark.parametrize("layout", GRIDS.values(), ids=GRIDS)


def density(layout, masses, points):
    return np.asarray(masses @ layout.pdf_matrix(points))


@pytest.mark.parametrize("n_nodes", [2, 7, 24])
def test_no_draw_comes_from_a_node_without_mass(n_nodes):
    masses = np.zeros((2, n_nodes))
    masses[0, 0] = masses[1, -1] = 1.0
    edges = np.array([0.0, 0.5, 1 - 2**-53])
    chosen = choose_nodes(masses, np.tile(edges, (2, 1)))
    np.testing.assert_array_equal(chosen, [[0] * 3, [n_nodes - 1] * 3])


# --- grids


@ON_GRIDS
def test_the_density_at_a_node_is_its_mass_by_volume_and_0_outside(layout):
    masses = rough_masses(layout.n_nodes)
    expected = masses / layout.grid.cell_volume
    np.testing.assert_allclose(density(layout, masses, layout.grid.nodes), expected, atol=1e-14)
    beyond = np.array([layout.grid.lower - 1e-9, layout.grid.upper + 1e-9])
    assert np.all(density(layout, masses, beyond) == 0)
    corners = np.array([layout.grid.lower, layout.grid.upper])
    np.testing.assert_allclose(density(layout, masses, corners), expected[:, [0, -1]])


@ON_GRIDS
def test_draws_stay_in_the_box(layout):
    masses = np.full((1, layout.n_nodes), 1.0 / layout.n_nodes)
    extremes = np.array([0.0, 1e-300, 0.5, 1 - 2**-53])
    uniforms = np.stack(np.meshgrid(*[extremes] * (layout.dim + 1)), -1).reshape(
        1, -1, layout.dim + 1
    )
    draws = layout.sample(masses, uniforms)[0]
    assert not np.any(layout.grid.outside(draws + 0.0)), "a draw left the box"


def test_a_product_of_marginals_is_a_product():
    layout = box(5, 4)
    rng = np.random.default_rng(5)
    a, b = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(4))
    joint = np.multiply.outer(a, b).reshape(1, -1)
    y = np.array([[0.3, 1.9], [-0.8, 0.6], [1.9, 3.0]])
    first, second = layout.marginal([0])[0], layout.marginal([1])[0]
    for method in ("pdf_matrix", "cdf_matrix"):
        whole = joint @ getattr(layout, method)(y)
        parts = (a @ getattr(first, method)(y[:, :1])) * (b @ getattr(second, method)(y[:, 1:]))
        np.testing.assert_allclose(whole[0], parts, rtol=1e-12)


HEIGHTS = arrays(
    float, st.tuples(st.integers(1, 3), st.integers(2, 9)), elements=st.floats(0, 5)
).filter(lambda m: np.all(m.sum(axis=1) > 1e-3))


@settings(deadline=None, max_examples=60)
@given(HEIGHTS, st.floats(0.02, 0.98))
def test_the_region_of_a_1d_grid_is_exact(masses, coverage):
    """By the cdf at the ends of its intervals, unless a plateau makes the mass jump."""
    masses = masses / masses.sum(axis=1, keepdims=True)
    layout = box(masses.shape[1])
    for row, shape in zip(masses, NodeBatch(layout, masses).regions(coverage), strict=True):
        cdf = (row @ layout.cdf_matrix(shape.intervals.reshape(-1, 1))).reshape(-1, 2)
        held = np.sum(cdf[:, 1] - cdf[:, 0])
        assert held >= coverage - 1e-9
        heights = row / layout.grid.spacing[0]
        if np.abs(heights - shape.density_level).min() > 1e-6:
            assert held == pytest.approx(coverage, abs=1e-9)
        ends = shape.intervals.ravel()
        inner = ends[(ends > layout.grid.lower[0]) & (ends < layout.grid.upper[0])]
        at_ends = density(layout, row[None], inner[:, None])[0]
        np.testing.assert_allclose(at_ends, shape.density_level, rtol=1e-7, atol=1e-9)
        assert shape.volume == pytest.approx(np.diff(shape.intervals, axis=1).sum())


def test_quantiles_with_plateaus_and_the_ends_of_the_support():
    layout = GridLayout(Grid(np.array([0.0]), np.array([10.0]), (10,)))
    masses = np.zeros((2, 10))
    masses[0, [2, 7]] = 0.5
    masses[1, 5] = 1.0
    low, middle, high = layout.quantile(masses, np.array([0.0, 0.5, 1.0]))[0, :, 0]
    assert (low, middle, high) == pytest.approx((1.5, 3.5, 8.5))  # the left end of the plateau
    just_above = layout.quantile(masses, np.array([0.5 + 1e-12]))[0, 0, 0]
    assert just_above == pytest.approx(6.5, abs=1e-5)
    np.testing.assert_allclose(
        layout.quantile(masses, np.array([0.0, 0.125, 0.5, 1.0]))[1, :, 0], [4.5, 5.0, 5.5, 6.5]
    )
    edges = np.zeros((1, 10))
    edges[0, 0] = edges[0, -1] = 0.5
    np.testing.assert_allclose(layout.quantile(edges, np.array([0.0, 1.0]))[0, :, 0], [0.0, 10.0])


# --- scattered nodes


def test_layout_follows_the_measure():
    box = Grid(np.zeros(1), np.ones(1), (4,))
    assert isinstance(layout_of(box, np.ones(box.dim)), GridLayout)
    points = Scattered(np.random.default_rng(0).normal(size=(20, 2)), np.ones(20))
    layout = layout_of(points, np.full(points.dim, 0.01))
    assert isinstance(layout, ScatteredLayout)
    spacing = points.reach[:, None] * points.unit
    np.testing.assert_allclose(layout.sds, np.clip(spacing / 2, 0.0025, 0.005))


def test_one_bump_is_a_gaussian():
    layout = ScatteredLayout(np.array([[1.0, -2.0]]), np.array([[0.5, 2.0]]))
    one = np.ones((1, 1))
    q = np.array([0.02, 0.5, 0.9])
    expected = np.array([1.0, -2.0]) + np.array([0.5, 2.0]) * ndtri(q)[:, None]
    np.testing.assert_allclose(layout.quantile(one, q)[0], expected, atol=1e-12)
    entropy = np.log(2 * np.pi * np.e) + np.log(0.5 * 2.0)
    np.testing.assert_allclose(NodeBatch(layout, one).entropy(), entropy, atol=0.01)
    np.testing.assert_allclose(NodeBatch(layout, one).mode(), [[1.0, -2.0]], atol=1e-6)


@pytest.mark.parametrize(("d", "n_nodes"), [(1, 256), (2, 2048)])
def test_the_mixture_does_not_blur(d, n_nodes):
    """Its width adds little to the variance, and the density stays near the truth."""
    measure = QuasiRandomBox(-4.5, 4.5, n_nodes=n_nodes).realise(np.zeros((1, d)))
    layout = layout_of(measure, np.full(d, 0.5))

    def truth(y):
        return np.exp(-0.5 * np.sum(y**2, axis=1)) / (2 * np.pi) ** (d / 2)

    masses = (truth(measure.nodes) * measure.weights)[None]
    masses /= masses.sum()
    assert np.all(masses @ layout.sds**2 < 0.02)  # of a variance of 1
    points = np.random.default_rng(1).normal(size=(300, d))
    error = density(layout, masses, points)[0] - truth(points)
    relative = np.sqrt(np.mean(error**2) / np.mean(truth(points) ** 2))
    assert relative < 0.1  # irregular nodes leave ripples


def test_a_density_with_a_vanishing_rise_has_a_region():
    """Differences of heights may be as small as numbers get."""
    layout = GridLayout(Grid(np.zeros(1), np.ones(1), (4,)))
    shape = NodeBatch(layout, np.array([[0.5, 0.5, 1e-308, 2e-308]])).regions(0.5)[0]
    assert shape.volume == pytest.approx(0.375)  # the whole plateau


def test_at_no_number_a_cdf_is_no_number_and_a_density_is_zero():
    layout = GridLayout(Grid(np.zeros(1), np.ones(1), (4,)))
    batch = NodeBatch(layout, np.full((2, 4), 0.25))
    points = np.array([[[np.nan], [0.5]], [[0.25], [np.nan]]])
    np.testing.assert_allclose(batch.cdf_each(points), [[np.nan, 0.5], [0.25, np.nan]])
    np.testing.assert_allclose(batch.pdf_each(points), [[0.0, 1.0], [1.0, 0.0]])
