"""Batches of distributions: one contract for every kind, checked by quadrature and draws."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad, trapezoid
from scipy.stats import norm
from scipy.stats import t as student

from kcdo.distributions import (
    AffineBatch,
    GridLayout,
    MixtureBatch,
    NodeBatch,
    ScatteredLayout,
    StudentTail,
    TransformedBatch,
    join,
)
from kcdo.distributions import batch as batch_module
from kcdo.distributions.roots import monotone_roots
from kcdo.errors import InvalidInputError
from kcdo.measures import Grid
from kcdo.transforms import Above, Below, Between, Columns, Identity

Q = 3
RNG = np.random.default_rng(0)


def frozen(array):
    array = np.array(array, dtype=float)
    array.setflags(write=False)
    return array


def masses_on(nodes, seed):
    rng = np.random.default_rng(seed)
    out = np.zeros((Q, len(nodes)))
    for _ in range(2):
        centres = rng.uniform(-1, 1, (Q, 1, nodes.shape[1]))
        out += np.exp(-0.5 * np.sum(((nodes - centres) / 0.5) ** 2, axis=2))
    return frozen(out / out.sum(axis=1, keepdims=True))


def on_grid(shape, seed=0):
    d = len(shape)
    grid = Grid(np.full(d, -2.5), np.full(d, 3.0), shape)
    return NodeBatch(GridLayout(grid), masses_on(grid.nodes, seed))


def on_nodes(n, d, seed=0):
    nodes = np.random.default_rng(seed).uniform(-2, 2, (n, d))
    return NodeBatch(ScatteredLayout(nodes, np.full((n, d), 0.4)), masses_on(nodes, seed))


def affine(inner, seed=1):
    rng = np.random.default_rng(seed)
    shape = (Q, inner.dim)
    return AffineBatch(inner, frozen(rng.normal(size=shape)), frozen(rng.uniform(0.3, 2, shape)))


def tail(d, seed=2, dof=3.0):
    rng = np.random.default_rng(seed)
    return StudentTail(frozen(rng.normal(size=(Q, d))), frozen(rng.uniform(0.3, 1, (Q, d))), dof)


def nested(d):
    shape = (31,) if d == 1 else (12, 14)
    inner = MixtureBatch([on_grid(shape), affine(on_grid(shape, 5))], frozen([0.3, 0.7]))
    weights = frozen([[0.2, 0.5, 0.3], [0.0, 0.6, 0.4], [0.9, 0.1, 0.0]])
    return MixtureBatch([inner, affine(on_nodes(30, d)), tail(d, dof=5.0)], weights)


LINES = {
    "grid": on_grid((31,)),
    "nodes": on_nodes(40, 1),
    "affine grid": affine(on_grid((31,))),
    "affine nodes": affine(on_nodes(25, 1)),
    "student": tail(1),
    "student 7": tail(1, dof=7.0),
    "mixture": MixtureBatch([affine(on_grid((31,))), tail(1)], frozen([0.9, 0.1])),
    "nested mixture": nested(1),
    "affine mixture": affine(nested(1), 7),
    "identity": TransformedBatch(on_grid((31,)), Identity()),
    "above": TransformedBatch(on_grid((31,)), Above(0.5, 0.7)),
    "below": TransformedBatch(affine(on_grid((31,))), Below(2.0, 0.5)),
    "between": TransformedBatch(affine(on_grid((31,))), Between(-1.0, 2.0)),
    "above with a tail": TransformedBatch(
        MixtureBatch([affine(on_grid((31,))), tail(1)], frozen([0.9, 0.1])), Above(0.0, 1.0)
    ),
    "mixture of transformed": MixtureBatch(
        [TransformedBatch(on_grid((31,)), Above(0.5, 0.7)), on_grid((31,), 3)], frozen([0.5, 0.5])
    ),
}
PLANES = {
    "grid": on_grid((12, 14)),
    "nodes": on_nodes(40, 2),
    "affine grid": affine(on_grid((12, 14))),
    "student": tail(2),
    "nested mixture": nested(2),
    "transformed": TransformedBatch(
        affine(on_grid((12, 14))), Columns((Identity(), Above(-1.0, 0.5)))
    ),
}
EVERY = {f"{name}, d={d}": b for d, of in ((1, LINES), (2, PLANES)) for name, b in of.items()}
SINGULAR = {"above with a tail"}  # the density is not bounded at the bound
ON_LINES = pytest.mark.parametrize("name", LINES)
ON_ALL = pytest.mark.parametrize("batch", EVERY.values(), ids=EVERY)


def uniforms(batch, n, seed=0):
    return np.random.default_rng(seed).random((len(batch), n, batch.dim + 1))


def numeric(batch, row, g):
    """∫ g(y, p(y)) dy of one distribution by adaptive quadrature between knots."""
    one = batch.take(np.array([row]))
    knots = np.unique(one.knots()[0])
    x, w = np.polynomial.legendre.leggauss(12)
    half = 0.5 * np.diff(knots)[:, None]
    points = (0.5 * (knots[1:] + knots[:-1])[:, None] + half * x).ravel()
    return float(np.sum((half * w).ravel() * g(points, one.pdf(points[:, None])[0])))


# --- the contract


@ON_ALL
def test_shapes(batch):
    d, points = batch.dim, np.zeros((5, batch.dim)) + 0.7
    assert len(batch) == Q
    assert (
        batch.pdf(points).shape == batch.logpdf(points).shape == batch.cdf(points).shape == (Q, 5)
    )
    each = np.broadcast_to(points, (Q, 5, d))
    for ask in (batch.pdf_each, batch.logpdf_each, batch.cdf_each):
        assert ask(each).shape == (Q, 5)
        assert ask(each[:, :0]).shape == (Q, 0)
    assert batch.pdf_pairs(points[:Q]).shape == batch.logpdf_pairs(points[:Q]).shape == (Q,)
    mean, cov = batch.moments()
    assert (mean.shape, cov.shape) == ((Q, d), (Q, d, d))
    assert batch.quantile(np.array([0.1, 0.5])).shape == (Q, 2, d)
    assert batch.quantile(np.empty(0)).shape == (Q, 0, d)
    assert batch.sample(uniforms(batch, 4)).shape == (Q, 4, d)
    places, masses = batch.quadrature()
    assert places.shape == (*masses.shape, d)
    assert masses.shape[0] == Q
    assert batch.mode().shape == (Q, d)
    assert batch.entropy().shape == batch.square_integral().shape == (Q,)
    assert batch.expect(lambda y: y[:, :1] * np.ones(3)).shape == (Q, 3)
    assert len(batch.regions(0.5)) == Q
    assert batch.width >= 1


@ON_ALL
def test_rows_are_independent_of_each_other(batch):
    points = np.random.default_rng(3).uniform(-1.5, 1.5, (4, batch.dim))
    levels = np.array([0.2, 0.9])
    for rows in (slice(1, 3), np.array([2, 0])):
        some = batch.take(rows)
        np.testing.assert_allclose(some.pdf(points), batch.pdf(points)[rows], rtol=1e-12)
        np.testing.assert_allclose(some.quantile(levels), batch.quantile(levels)[rows], rtol=1e-9)
        u = uniforms(batch, 6)
        np.testing.assert_allclose(some.sample(u[rows]), batch.sample(u)[rows], rtol=1e-12)
    again = join([batch.take(slice(0, 1)), batch.take(slice(1, 3))])
    assert type(again) is type(batch)
    np.testing.assert_allclose(again.cdf(points), batch.cdf(points), rtol=1e-12)
    assert join([batch]) is batch


@ON_ALL
def test_points_of_each_and_shared_points_agree(batch):
    points = np.random.default_rng(3).uniform(-1.5, 2.5, (7, batch.dim))
    each = np.broadcast_to(points, (Q, *points.shape))
    np.testing.assert_allclose(batch.pdf_each(each), batch.pdf(points), rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(batch.cdf_each(each), batch.cdf(points), rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(np.exp(batch.logpdf_each(each)), batch.pdf(points), rtol=1e-10)
    np.testing.assert_allclose(batch.logpdf(points), batch.logpdf_each(each), rtol=1e-9)
    pairs = np.diagonal(batch.pdf(points[:Q]))
    np.testing.assert_allclose(batch.pdf_pairs(points[:Q]), pairs, rtol=1e-10)
    assert np.all(batch.pdf(points) >= 0)


@ON_ALL
def test_blocks_change_nothing(batch, monkeypatch):
    def answers():
        points = np.linspace(-1, 1, 3 * batch.dim).reshape(3, batch.dim)
        yield batch.pdf(points)
        yield batch.cdf(points)
        yield batch.mode()
        yield batch.entropy()
        yield batch.square_integral()
        yield batch.moments()[1]
        yield [r.volume for r in batch.regions(0.7)]
        yield batch.expect(np.sin)
        if batch.dim == 1:
            yield batch.crps(np.full((Q, 1), 0.3))

    whole = list(answers())
    monkeypatch.setattr(batch_module, "_BLOCK_ELEMENTS", 1)
    for small, expected in zip(answers(), whole, strict=True):
        np.testing.assert_allclose(small, expected, rtol=1e-10)


@ON_LINES
def test_densities_integrate_to_the_cdf(name):
    batch = LINES[name]
    for row in range(Q):
        ends = batch.quantile(np.array([0.02, 0.3, 0.9]))[row, :, 0]
        if name not in SINGULAR:
            assert numeric(batch, row, lambda y, p: p) == pytest.approx(1.0, abs=1e-6)
        one = batch.take(np.array([row]))
        knots = one.knots()[0]
        for low, high in pairwise(ends):
            inner = knots[(knots > low) & (knots < high)]
            edges = np.unique(np.concatenate([[low], inner, [high]]))
            x, w = np.polynomial.legendre.leggauss(8)
            half = 0.5 * np.diff(edges)[:, None]
            points = (0.5 * (edges[1:] + edges[:-1])[:, None] + half * x).ravel()
            found = one.pdf(points[:, None])[0] @ (half * w).ravel()
            expected = np.diff(one.cdf(np.array([[low], [high]]))[0])[0]
            assert found == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("name", PLANES)
def test_densities_in_the_plane_integrate_to_the_cdf(name):
    batch = PLANES[name]
    low, high = (batch.quantile(np.array([q]))[:, 0] for q in (0.1, 0.8))
    n = 150
    middles = (np.arange(n) + 0.5) / n
    unit = np.stack(np.meshgrid(middles, middles, indexing="ij"), -1).reshape(-1, 2)
    points = low[:, None] + (high - low)[:, None] * unit
    found = batch.pdf_each(points).mean(axis=1) * np.prod(high - low, axis=1)
    corners = np.stack([high, np.c_[low[:, 0], high[:, 1]], np.c_[high[:, 0], low[:, 1]], low], 1)
    expected = batch.cdf_each(corners) @ [1, -1, -1, 1]
    np.testing.assert_allclose(found, expected, atol=1e-3)


@ON_ALL
def test_quantiles_invert_the_cdf_of_each_marginal(batch):
    levels = np.array([1e-6, 0.01, 0.25, 0.5, 0.77, 0.999])
    values = batch.quantile(levels)
    for i in range(batch.dim):
        line = batch.marginal([i])
        found = line.cdf_each(values[:, :, i, None])
        np.testing.assert_allclose(found, np.broadcast_to(levels, found.shape), atol=1e-10)


@ON_ALL
def test_draws_have_the_moments(batch):
    n = 20_000
    draws = batch.sample(uniforms(batch, n))
    mean, cov = batch.moments()
    sd = np.sqrt(np.einsum("qdd->qd", cov))
    assert np.all(np.abs(draws.mean(axis=1) - mean) < 5 * sd / np.sqrt(n))
    for i in range(batch.dim):
        ranks = batch.marginal([i]).cdf_each(draws[:, :, i, None])
        assert np.abs(np.sort(ranks, axis=1) - (np.arange(n) + 0.5) / n).max() < 2.0 / np.sqrt(n)


@ON_ALL
def test_draws_of_joint_distributions(batch):
    draws = batch.sample(uniforms(batch, 40_000, seed=5))
    corner = batch.quantile(np.array([0.6]))
    share = np.all(draws <= corner, axis=2).mean(axis=1)
    np.testing.assert_allclose(share, batch.cdf_each(corner)[:, 0], atol=0.012)


@ON_ALL
def test_quadrature_has_the_moments(batch):
    points, masses = batch.quadrature()
    np.testing.assert_allclose(masses.sum(axis=1), 1.0, rtol=1e-9)
    mean, cov = batch.moments()
    tolerance = 1e-4 if batch.dim == 1 else 0.2  # heavy tails in the plane have few points
    sd = np.sqrt(np.einsum("qdd->qd", cov))
    found = np.einsum("qk,qkd->qd", masses, points)
    assert np.all(np.abs(found - mean) < tolerance * sd)
    gap = points - mean[:, None]
    second = np.einsum("qk,qkd,qkd->qd", masses, gap, gap)
    np.testing.assert_allclose(second, sd**2, rtol=tolerance)
    np.testing.assert_allclose(batch.expect(lambda y: y), mean, atol=tolerance)


@ON_LINES
def test_moments_in_1d_by_adaptive_quadrature(name):
    batch = LINES[name]
    mean, cov = batch.moments()
    tolerance = 5e-3
    levels = (np.arange(2000) + 0.5) / 2000
    places = batch.quantile(levels)[:, :, 0]
    np.testing.assert_allclose(places.mean(axis=1), mean[:, 0], atol=tolerance)
    if "student" not in name and "tail" not in name and "mixture" not in name:
        np.testing.assert_allclose(places.var(axis=1), cov[:, 0, 0], rtol=tolerance)


@pytest.mark.parametrize("name", PLANES)
def test_marginals(name):
    batch = PLANES[name]
    mean, cov = batch.moments()
    for dims in ([0], [1], [1, 0]):
        part = batch.marginal(dims)
        m, c = part.moments()
        # the moments of transformed outputs come from quadratures of different orders
        np.testing.assert_allclose(m, mean[:, dims], atol=1e-3)
        np.testing.assert_allclose(c, cov[:, dims][:, :, dims], atol=5e-3)
    points = np.random.default_rng(1).uniform(-0.9, 1, (5, 2))
    swapped = batch.marginal([1, 0])
    np.testing.assert_allclose(swapped.pdf(points[:, ::-1]), batch.pdf(points), rtol=1e-10)
    far = np.column_stack([points[:, 0], np.full(5, 1e9)])
    found = batch.marginal([0]).cdf(points[:, :1])
    np.testing.assert_allclose(found, batch.cdf(far), atol=1e-9)


# --- scores and summaries


@ON_LINES
@pytest.mark.parametrize("level", [1e-4, 0.3, 0.95])
def test_crps_by_numbers(name, level):
    batch = LINES[name]
    y = batch.quantile(np.array([level]))[:, 0]
    found = batch.crps(y)
    for row in range(Q):
        one = batch.take(np.array([row]))
        knots = np.unique(np.append(one.knots()[0], y[row]))
        x, w = np.polynomial.legendre.leggauss(16)
        half = 0.5 * np.diff(knots)[:, None]
        points = (0.5 * (knots[1:] + knots[:-1])[:, None] + half * x).ravel()
        gap = one.cdf(points[:, None])[0] - (points >= y[row])
        assert found[row] == pytest.approx(gap**2 @ (half * w).ravel(), rel=1e-5)


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


@ON_LINES
def test_crps_of_an_outlier_grows_by_the_distance(name):
    batch = LINES[name]
    far = np.full((Q, 1), batch.quantile(np.array([1 - 1e-9])).max() + 1e4)
    assert np.all(np.isfinite(batch.crps(far)))
    np.testing.assert_allclose(batch.crps(far + 7.0) - batch.crps(far), 7.0, rtol=1e-4)


@pytest.mark.parametrize("name", [name for name in LINES if name not in SINGULAR])
def test_square_integral_and_entropy_by_numbers(name):
    batch = LINES[name]
    squares, entropies = batch.square_integral(), batch.entropy()
    for row in range(Q):
        square = numeric(batch, row, lambda y, p: p * p)
        assert squares[row] == pytest.approx(square, rel=1e-4)
        entropy = numeric(batch, row, lambda y, p: -p * np.log(np.maximum(p, 1e-300)))
        assert entropies[row] == pytest.approx(entropy, abs=2e-2 if "nodes" in name else 2e-3)


@pytest.mark.parametrize("name", PLANES)
def test_square_integral_and_entropy_in_the_plane(name):
    batch = PLANES[name]
    n = 20_000
    p = batch.pdf_each(batch.sample(uniforms(batch, n)))
    error = 5 * p.std(axis=1) / np.sqrt(n)
    assert np.all(np.abs(batch.square_integral() - p.mean(axis=1)) < error + 0.03 * p.mean(axis=1))
    logs = np.log(p)
    error = 5 * logs.std(axis=1) / np.sqrt(n)
    assert np.all(np.abs(batch.entropy() + logs.mean(axis=1)) < error + 0.04)


@ON_ALL
@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_regions_hold_their_mass(batch, coverage):
    draws = batch.sample(uniforms(batch, 20_000, seed=8))
    p = batch.pdf_each(draws)
    for row, shape in enumerate(batch.regions(coverage)):
        loose = 0.012 if batch.dim == 1 else 0.05
        assert np.mean(p[row] >= shape.density_level) == pytest.approx(coverage, abs=loose)
        inside = np.where(p[row] >= shape.density_level, 1 / np.maximum(p[row], 1e-300), 0.0)
        assert shape.volume == pytest.approx(inside.mean(), rel=0.04 if batch.dim == 1 else 0.12)
        assert (shape.intervals is None) == (batch.dim > 1)


@ON_ALL
def test_no_draw_is_denser_than_the_mode(batch):
    at_mode = batch.pdf_pairs(batch.mode())
    centre = batch.quantile(np.array([0.002, 0.998]))
    draws = batch.sample(uniforms(batch, 3000))
    p = batch.pdf_each(np.clip(draws, centre[:, :1], centre[:, 1:])).max(axis=1)
    assert np.all(at_mode >= p * (0.985 if batch.dim == 1 else 0.88))


# --- each kind


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
    box = on_grid((31,))
    assert np.all(np.isneginf(box.logpdf(np.array([[50.0]]))))
    mixed = MixtureBatch([box, tail(1)], np.array([0.99, 0.01]))
    far = np.array([[50.0], [-1e200]])
    expected = np.log(0.01) + tail(1).logpdf(far)
    np.testing.assert_allclose(mixed.logpdf(far), expected, rtol=1e-12)


def test_levels_0_and_1_are_the_ends_of_the_support():
    box = on_grid((31,))
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
    box = on_grid((5,))
    far = AffineBatch(box, np.full((Q, 1), 100.0), np.ones((Q, 1)))
    mixed = MixtureBatch([box, far], np.array([0.5, 0.5]))
    found = mixed.quantile(np.array([0.499, 0.5, 0.501]))[:, :, 0]
    assert np.all(found[:, 0] < 3.0)
    assert np.all(found[:, 2] > 97.0)
    np.testing.assert_allclose(mixed.cdf_each(found[:, :, None]), [[0.499, 0.5, 0.501]] * Q)


def test_mixtures_explain_what_does_not_fit():
    with pytest.raises(InvalidInputError, match="a mixture needs parts of as many distributions"):
        MixtureBatch([on_grid((5,)), on_grid((5, 5))], np.array([0.5, 0.5]))
    with pytest.raises(InvalidInputError, match="a mixture needs parts"):
        MixtureBatch([], np.array([]))
    with pytest.raises(InvalidInputError, match=r"weights of a mixture must be \(3, 1\) or \(1,\)"):
        MixtureBatch([on_grid((5,))], np.ones(2))


def test_very_many_knots_are_thinned_out():
    many = MixtureBatch([affine(on_grid((400,)), s) for s in range(20)], np.full(20, 0.05))
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
    box = on_grid((9,)).take(slice(0, 1))
    moved = AffineBatch(box, np.array([[shift]]), np.array([[scale]]))
    mixed = MixtureBatch([box, moved], np.array([weight, 1 - weight]))
    y = mixed.quantile(np.array([level]))
    assert mixed.cdf_each(y)[0, 0] == pytest.approx(level, abs=1e-9)


def test_mixture_is_the_same_however_nested():
    a, b, c = on_grid((31,)), affine(on_grid((31,), 5)), tail(1)
    flat = MixtureBatch([a, b, c], np.array([0.42, 0.18, 0.4]))
    deep = MixtureBatch([MixtureBatch([a, b], np.array([0.7, 0.3])), c], np.array([0.6, 0.4]))
    points = np.linspace(-3, 3, 9)[:, None]
    np.testing.assert_allclose(deep.pdf(points), flat.pdf(points), rtol=1e-12)
    levels = np.array([0.01, 0.5])
    np.testing.assert_allclose(deep.quantile(levels), flat.quantile(levels), rtol=1e-9)
    u = uniforms(a, 500)
    np.testing.assert_allclose(deep.sample(u), flat.sample(u), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(deep.moments()[1], flat.moments()[1], rtol=1e-12)


def test_numbers_of_a_single_density_by_scipy():
    batch = LINES["mixture"].take(np.array([0]))
    low, high = batch.quantile(np.array([0.2, 0.6]))[0, :, 0]
    kinks = batch.knots()[0]
    kinks = kinks[(kinks > low) & (kinks < high)]
    found, _ = quad(lambda y: batch.pdf(np.array([[y]]))[0, 0], low, high, points=kinks, limit=200)
    assert found == pytest.approx(0.4, abs=1e-9)
    line = np.linspace(low, high, 20_001)
    assert trapezoid(batch.pdf(line[:, None])[0], line) == pytest.approx(0.4, abs=1e-5)


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
