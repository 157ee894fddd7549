"""What node masses mean: one contract for every layout, checked by quadrature."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import ndtri

from kcdo.distributions import GridLayout, ScatteredLayout, layout_of
from kcdo.distributions.layouts import choose_nodes
from kcdo.measures import Grid, QuasiRandomBox, Scattered


def grid(*shape):
    d = len(shape)
    return GridLayout(Grid(np.linspace(-1.0, 0.5, d), np.linspace(2.0, 4.0, d), shape))


def mixture(m, d):
    rng = np.random.default_rng(m)
    return ScatteredLayout(rng.normal(size=(m, d)), rng.uniform(0.2, 0.6, (m, d)))


LAYOUTS = {
    "grid-1": grid(7),
    "grid-1-smallest": grid(2),
    "grid-2": grid(4, 3),
    "grid-3": grid(3, 2, 4),
    "mixture-1": mixture(6, 1),
    "mixture-2": mixture(5, 2),
}
EVERY = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
GRIDS = pytest.mark.parametrize(
    "layout", [v for k, v in LAYOUTS.items() if "grid" in k], ids=lambda v: f"{v.dim}-D"
)


def masses_of(layout, q=3, seed=0):
    masses = np.random.default_rng(seed).exponential(size=(q, layout.n_nodes)) ** 2
    masses[:, layout.n_nodes // 2] = 0.0
    masses /= masses.sum(axis=1, keepdims=True)
    masses.setflags(write=False)
    return masses


def axis_rule(layout, i):
    """Gauss points of one axis, piecewise between the knots; wide enough for a mixture."""
    if isinstance(layout, GridLayout):
        g = layout.grid
        knots = np.concatenate([[g.lower[i]], g.axes[i], [g.upper[i]]])
        order = 6
    else:
        low = np.min(layout.nodes[:, i] - 9 * layout.sds[:, i])
        high = np.max(layout.nodes[:, i] + 9 * layout.sds[:, i])
        knots, order = np.linspace(low, high, 25), 8
    x, w = np.polynomial.legendre.leggauss(order)
    half, middle = 0.5 * np.diff(knots), 0.5 * (knots[1:] + knots[:-1])
    return (middle[:, None] + half[:, None] * x).ravel(), (half[:, None] * w).ravel()


def rule(layout):
    """Product rule, independent of the layout's own quadrature."""
    axes, weights = zip(*(axis_rule(layout, i) for i in range(layout.dim)), strict=True)
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, layout.dim)
    total = weights[0]
    for w in weights[1:]:
        total = np.multiply.outer(total, w)
    return points, total.ravel()


def density(layout, masses, points):
    return np.asarray(masses @ layout.pdf_matrix(points))


@EVERY
def test_every_bump_is_a_density(layout):
    points, weights = rule(layout)
    bumps = layout.pdf_matrix(points)
    bumps = bumps if isinstance(bumps, np.ndarray) else bumps.toarray()
    assert bumps.shape == (layout.n_nodes, len(points))
    assert bumps.min() >= 0
    np.testing.assert_allclose(bumps @ weights, 1.0, rtol=1e-9)


@EVERY
def test_moments_equal_quadrature_edge_cells_too(layout):
    points, weights = rule(layout)
    bumps = layout.pdf_matrix(points)
    centre, first, second = layout.moments()
    t = points - centre
    np.testing.assert_allclose(bumps @ (weights[:, None] * t), first, atol=1e-9)
    squares = (t[:, :, None] * t[:, None, :]).reshape(len(t), -1)
    expected = bumps @ (weights[:, None] * squares)
    np.testing.assert_allclose(second.reshape(layout.n_nodes, -1), expected, atol=1e-9)


@EVERY
def test_joint_cdf_is_the_integral_of_the_density(layout):
    """P(Y <= y) by a rule rescaled to end at y in every axis."""
    masses = masses_of(layout, 2)
    low, high = _support(layout)
    for share in (0.0, 0.3, 0.55, 1.0):
        corner = low + share * (high - low)
        axes, weights = [], []
        for i in range(layout.dim):
            pieces = 60 if layout.dim < 3 else 24
            knots = np.linspace(low[i], corner[i], pieces + 1)
            if isinstance(layout, GridLayout):
                inner = layout.grid.axes[i]
                knots = np.concatenate([[low[i]], inner[inner < corner[i]], [corner[i]]])
            x, w = np.polynomial.legendre.leggauss(3)
            half = 0.5 * np.diff(knots)
            axes.append((0.5 * (knots[1:] + knots[:-1])[:, None] + half[:, None] * x).ravel())
            weights.append((half[:, None] * w).ravel())
        points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, layout.dim)
        total = weights[0]
        for w in weights[1:]:
            total = np.multiply.outer(total, w)
        expected = density(layout, masses, points) @ total.ravel()
        found = (masses @ layout.cdf_matrix(corner[None]))[:, 0]
        np.testing.assert_allclose(found, expected, atol=1e-7)


def _support(layout):
    if isinstance(layout, GridLayout):
        return layout.grid.lower, layout.grid.upper
    return (layout.nodes - 9 * layout.sds).min(axis=0), (layout.nodes + 9 * layout.sds).max(axis=0)


@EVERY
def test_cdf_starts_at_0_and_ends_at_1(layout):
    low, high = _support(layout)
    ends = layout.cdf_matrix(np.array([low - 1, high + 1]))
    np.testing.assert_allclose(ends[:, 0], 0.0, atol=1e-15)
    np.testing.assert_allclose(ends[:, 1], 1.0, rtol=1e-14)
    infinite = layout.cdf_matrix(np.array([[-np.inf] * layout.dim, [np.inf] * layout.dim]))
    np.testing.assert_allclose(infinite, np.tile([0.0, 1.0], (layout.n_nodes, 1)), atol=1e-15)


@EVERY
def test_quantiles_invert_the_cdf_of_each_marginal(layout):
    masses = masses_of(layout)
    q = np.array([0.0, 1e-6, 0.05, 0.37, 0.5, 0.9, 1 - 1e-9, 1.0])
    values = layout.quantile(masses, q)
    assert values.shape == (3, len(q), layout.dim)
    assert np.all(np.diff(values, axis=1) >= 0)
    for i in range(layout.dim):
        axis, fold = layout.marginal([i])
        for row, mass in zip(values[:, :, i], fold(masses), strict=True):
            np.testing.assert_allclose(mass @ axis.cdf_matrix(row[:, None]), q, atol=1e-12)
    assert layout.quantile(masses, np.empty(0)).shape == (3, 0, layout.dim)


@EVERY
def test_draws_follow_the_distribution(layout):
    masses, n = masses_of(layout), 20_000
    uniforms = np.random.default_rng(3).random((3, n, layout.dim + 1))
    draws = layout.sample(masses, uniforms)
    assert draws.shape == (3, n, layout.dim)
    centre, first, second = layout.moments()
    mean = masses @ first
    cov = (masses @ second.reshape(layout.n_nodes, -1)).reshape(3, layout.dim, layout.dim)
    cov -= mean[:, :, None] * mean[:, None, :]
    sd = np.sqrt(np.einsum("qii->qi", cov))
    error = np.abs(draws.mean(axis=1) - centre - mean) / (sd / np.sqrt(n))
    assert error.max() < 4.5
    found = np.stack([np.cov(x.T).reshape(layout.dim, layout.dim) for x in draws])
    scale = sd[:, :, None] * sd[:, None, :]
    assert np.abs((found - cov) / scale).max() < 0.06
    for i in range(layout.dim):  # Kolmogorov-Smirnov, 1.95/√n is the 0.1 % point
        axis, fold = layout.marginal([i])
        for x, mass in zip(np.sort(draws[:, :, i], axis=1), fold(masses), strict=True):
            cdf = mass @ axis.cdf_matrix(x[::10, None])
            assert np.abs(cdf - np.arange(0, n, 10) / n).max() < 1.95 / np.sqrt(n) + 1 / n


@EVERY
def test_no_draw_comes_from_a_node_without_mass(layout):
    masses = np.zeros((2, layout.n_nodes))
    masses[0, 0] = masses[1, -1] = 1.0
    edges = np.array([0.0, 0.5, 1 - 2**-53])
    chosen = choose_nodes(masses, np.tile(edges, (2, 1)))
    np.testing.assert_array_equal(chosen, [[0] * 3, [layout.n_nodes - 1] * 3])


@EVERY
def test_expectations_of_polynomials(layout):
    """Exact up to a degree: linear on grids of three axes at any node, more below."""
    masses = masses_of(layout)
    points, weights = rule(layout)
    p = density(layout, masses, points) * weights

    def g(y):
        return np.stack([np.ones(len(y)), y.sum(axis=1), (y**2).sum(axis=1)], axis=1)

    found, expected = masses @ layout.integrals(g), p @ g(points)
    np.testing.assert_allclose(found[:, 0], 1.0, rtol=1e-12)
    tolerance = 0.1 if layout.dim == 3 else 1e-9
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@EVERY
def test_entropy_is_near_quadrature(layout):
    """Within the resolution of these very coarse layouts: close in 1-D, rougher above."""
    masses = masses_of(layout)
    points, weights = rule(layout)
    p = density(layout, masses, points)
    expected = -(p * np.log(np.where(p > 0, p, 1.0))) @ weights
    exact = {1: 1e-3, 2: 0.01, 3: 0.3}[layout.dim]
    tolerance = exact if isinstance(layout, GridLayout) else 0.2
    np.testing.assert_allclose(layout.entropy(masses), expected, atol=tolerance)


@EVERY
def test_mode_is_where_the_density_is_highest(layout):
    masses = masses_of(layout)
    points, _ = rule(layout)
    places = layout.mode(masses)
    assert places.shape == (3, layout.dim)
    at_mode = np.diag(density(layout, masses, places))
    highest = density(layout, masses, points).max(axis=1)
    slack = 1e-12 if isinstance(layout, GridLayout) else 0.1
    assert np.all(at_mode >= highest * (1 - slack))


@pytest.mark.parametrize("name", [name for name in LAYOUTS if "smallest" not in name])
def test_regions_hold_their_coverage(name):
    """By draws: the share that falls inside, and E 1/p(Y) inside, which is the volume."""
    layout = LAYOUTS[name]
    masses = masses_of(layout)
    draws = layout.sample(masses, np.random.default_rng(7).random((3, 4000, layout.dim + 1)))
    for coverage in (0.3, 0.8):
        for i, shape in enumerate(layout.regions(masses, coverage)):
            p = density(layout, masses[i : i + 1], draws[i])[0]
            inside = p >= shape.density_level
            tolerance = 0.04 if isinstance(layout, GridLayout) else 0.1
            assert inside.mean() == pytest.approx(coverage, abs=tolerance)
            assert shape.volume == pytest.approx(np.mean(inside / p), rel=3 * tolerance)
            assert (shape.intervals is not None) == (layout.dim == 1)
            if layout.dim == 1:
                length = np.diff(shape.intervals, axis=1).sum()
                assert length == pytest.approx(shape.volume, rel=3 * tolerance)


@pytest.mark.parametrize(
    ("name", "dims"),
    [("grid-2", [1]), ("grid-2", [1, 0]), ("grid-3", [2, 0]), ("grid-3", [1]), ("mixture-2", [1])],
)
def test_marginals_equal_quadrature_in_the_order_asked(name, dims):
    layout = LAYOUTS[name]
    masses = masses_of(layout)
    part, fold = layout.marginal(dims)
    others = [i for i in range(layout.dim) if i not in dims]
    axes = [axis_rule(layout, i) for i in others]
    low, high = _support(layout)
    for share in (0.2, 0.45, 0.8):
        at = (low + share * (high - low))[dims]
        if axes:
            mesh = np.stack(np.meshgrid(*(a for a, _ in axes), indexing="ij"), -1)
            mesh = mesh.reshape(-1, len(others))
            w = np.prod(
                np.stack(np.meshgrid(*(b for _, b in axes), indexing="ij"), -1), axis=-1
            ).ravel()
        else:
            mesh, w = np.empty((1, 0)), np.ones(1)
        points = np.empty((len(mesh), layout.dim))
        points[:, others], points[:, dims] = mesh, at
        expected = density(layout, masses, points) @ w
        found = density(part, fold(masses), at[None])[:, 0]
        np.testing.assert_allclose(found, expected, rtol=1e-8)


# --- grids


@GRIDS
def test_the_density_at_a_node_is_its_mass_by_volume_and_0_outside(layout):
    masses = masses_of(layout)
    expected = masses / layout.grid.cell_volume
    np.testing.assert_allclose(density(layout, masses, layout.grid.nodes), expected, atol=1e-14)
    beyond = np.array([layout.grid.lower - 1e-9, layout.grid.upper + 1e-9])
    assert np.all(density(layout, masses, beyond) == 0)
    corners = np.array([layout.grid.lower, layout.grid.upper])
    np.testing.assert_allclose(density(layout, masses, corners), expected[:, [0, -1]])


@GRIDS
def test_draws_stay_in_the_box(layout):
    masses = np.full((1, layout.n_nodes), 1.0 / layout.n_nodes)
    extremes = np.array([0.0, 1e-300, 0.5, 1 - 2**-53])
    uniforms = np.stack(np.meshgrid(*[extremes] * (layout.dim + 1)), -1).reshape(
        1, -1, layout.dim + 1
    )
    draws = layout.sample(masses, uniforms)[0]
    assert not np.any(layout.grid.outside(draws + 0.0)), "a draw left the box"


def test_a_product_of_marginals_is_a_product():
    layout = grid(5, 4)
    rng = np.random.default_rng(5)
    a, b = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(4))
    joint = np.multiply.outer(a, b).reshape(1, -1)
    y = np.array([[0.3, 1.9], [-0.8, 0.6], [1.9, 3.0]])
    first, second = grid(5, 4).marginal([0])[0], grid(5, 4).marginal([1])[0]
    for method in ("pdf_matrix", "cdf_matrix"):
        whole = joint @ getattr(layout, method)(y)
        parts = (a @ getattr(first, method)(y[:, :1])) * (b @ getattr(second, method)(y[:, 1:]))
        np.testing.assert_allclose(whole[0], parts, rtol=1e-12)


HEIGHTS = arrays(
    float, st.tuples(st.integers(1, 3), st.integers(2, 9)), elements=st.floats(0, 5)
).filter(lambda m: np.all(m.sum(axis=1) > 1e-3))


@settings(deadline=None, max_examples=60)
@given(HEIGHTS, st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_quantile_then_cdf_gives_the_level_back(masses, q):
    masses = masses / masses.sum(axis=1, keepdims=True)
    layout = grid(masses.shape[1])
    values = layout.quantile(masses, np.array(q))[:, :, 0]
    for row, y in zip(masses, values, strict=True):
        np.testing.assert_allclose(row @ layout.cdf_matrix(y[:, None]), q, atol=1e-12)


@settings(deadline=None, max_examples=60)
@given(HEIGHTS, st.floats(0.02, 0.98))
def test_the_region_of_a_1d_grid_is_exact(masses, coverage):
    """By the cdf at the ends of its intervals, unless a plateau makes the mass jump."""
    masses = masses / masses.sum(axis=1, keepdims=True)
    layout = grid(masses.shape[1])
    for row, shape in zip(masses, layout.regions(masses, coverage), strict=True):
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


# --- mixtures


def test_layout_follows_the_measure():
    box = Grid(np.zeros(1), np.ones(1), (4,))
    assert isinstance(layout_of(box, np.ones(box.dim)), GridLayout)
    points = Scattered(np.random.default_rng(0).normal(size=(20, 2)), np.ones(20))
    layout = layout_of(points, np.full(points.dim, 0.01))
    assert isinstance(layout, ScatteredLayout)
    spacing = points.reach[:, None] * points.unit
    np.testing.assert_allclose(layout.sds, np.clip(spacing / 2, 0.0025, 0.005))


def test_mixture_quantiles_do_not_depend_on_the_block_size(monkeypatch):
    layout = mixture(6, 1)
    masses, q = masses_of(layout, 5), np.array([0.1, 0.9])
    whole = layout.quantile(masses, q)
    monkeypatch.setattr("kcdo.distributions.layouts._LARGEST_BLOCK", 1)
    np.testing.assert_allclose(layout.quantile(masses, q), whole, rtol=1e-12)


def test_one_bump_is_a_gaussian():
    layout = ScatteredLayout(np.array([[1.0, -2.0]]), np.array([[0.5, 2.0]]))
    one = np.ones((1, 1))
    q = np.array([0.02, 0.5, 0.9])
    expected = np.array([1.0, -2.0]) + np.array([0.5, 2.0]) * ndtri(q)[:, None]
    np.testing.assert_allclose(layout.quantile(one, q)[0], expected, atol=1e-12)
    entropy = np.log(2 * np.pi * np.e) + np.log(0.5 * 2.0)
    np.testing.assert_allclose(layout.entropy(one), entropy, rtol=1e-12)
    np.testing.assert_allclose(layout.mode(one), [[1.0, -2.0]])


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
    shape = layout.regions(np.array([[0.5, 0.5, 1e-308, 2e-308]]), 0.5)[0]
    assert shape.volume == pytest.approx(0.375)  # the whole plateau
