"""Answers agree with one another: each equals plain quadrature of the density, for every kind."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcdo.distributions import (
    AffineBatch,
    GridLayout,
    MixtureBatch,
    NodeBatch,
    ScatteredLayout,
    SpikesBatch,
    StudentTail,
    TransformedBatch,
)
from kcdo.measures import Grid
from kcdo.transforms import Above, Below, Between, Columns, Identity, Tabulated
from tests.distribution_kinds import distribution, gauss

# --- distributions made at random, one in each batch


def rough_masses(rng, n):
    masses = rng.exponential(size=n) ** rng.choice([0.5, 2.0, 4.0])
    masses[rng.random(n) < 0.3] = 0.0
    masses[rng.integers(n)] += 0.1
    return (masses / masses.sum())[None]


def grid(rng, d):
    shape = tuple(int(m) for m in rng.integers(2, {1: 30, 2: 9, 3: 6}[d], d))
    lower = rng.normal(size=d)
    layout = GridLayout(Grid(lower, lower + rng.uniform(0.5, 4.0, d), shape))
    return NodeBatch(layout, rough_masses(rng, layout.n_nodes))


def scattered(rng, d):
    n = int(rng.integers(1, 30))
    nodes = rng.normal(size=(n, d)) * rng.choice([0.3, 1.0, 3.0])
    return NodeBatch(ScatteredLayout(nodes, rng.uniform(0.2, 0.4, (n, d))), rough_masses(rng, n))


def affine(rng, d):
    inner = rng.choice([grid, scattered])(rng, d)
    return AffineBatch(inner, 3.0 * rng.normal(size=(1, d)), np.exp(rng.normal(size=(1, d))))


def near_zero(rng, d):
    return AffineBatch(
        grid(rng, d), 0.3 * rng.normal(size=(1, d)), np.exp(0.3 * rng.normal(size=(1, d)))
    )


def student(rng, d):
    dof = rng.choice([2.5, 3.0, 8.0, np.inf])
    return StudentTail(rng.normal(size=(1, d)), np.exp(0.5 * rng.normal(size=(1, d))), dof)


def mixture(rng, d):
    kinds = [grid, affine, affine, student][: int(rng.integers(2, 5))]
    weights = rng.dirichlet(np.ones(len(kinds)))
    return MixtureBatch([make(rng, d) for make in kinds], weights)


def bounded(rng, d):
    """Between bounds that are felt, without tails: densities are finite.

    Several outputs are integrated over points, which see nothing of what is rarer than they are.
    """
    inner = rng.choice([grid, affine if d == 1 else near_zero])(rng, d)
    maps = [Above(-0.5, 0.7), Below(1.0, 0.5), Between(-1.0, 2.0), Identity()]
    if d == 1:
        return TransformedBatch(inner, maps[rng.integers(4)])
    return TransformedBatch(inner, Columns(tuple(maps[i] for i in rng.integers(4, size=d))))


def tabulated(rng, d):
    places, values = (np.cumsum(rng.uniform(0.05, 0.5, 15)) for _ in range(2))
    table = Tabulated(places - places.mean(), values - values.mean())
    return TransformedBatch(mixture(rng, 1), table)


def atoms(rng, d):
    spikes = SpikesBatch(np.array([-1.0, 0.0, 0.7]), 0.05, rng.dirichlet(np.ones(3))[None])
    return MixtureBatch([tabulated(rng, 1), spikes], np.array([0.6, 0.4]))


LINES = [grid, scattered, affine, student, mixture, bounded, tabulated, atoms]
JOINT = [grid, scattered, affine, mixture, bounded]
SEEDS = st.integers(0, 10**9)
ON_LINES = pytest.mark.parametrize("kind", LINES, ids=lambda kind: kind.__name__)
ON_JOINT = pytest.mark.parametrize("kind", JOINT, ids=lambda kind: kind.__name__)
FEW = settings(max_examples=15, deadline=None)


def one_line(kind, seed):
    batch = kind(np.random.default_rng(seed), 1)
    return batch, distribution(batch)


def fine_edges(batch):
    """Places so near each other that a density is nearly linear between them."""
    if isinstance(batch, MixtureBatch):
        return np.concatenate([fine_edges(part) for part in batch.parts])
    if isinstance(batch, TransformedBatch):
        t = np.append(fine_edges(batch.inner), eighths(batch.transform.kinks()))
        return batch.transform.inverse(t[:, None])[:, 0]
    return eighths(np.unique(np.append(batch.knots()[0], batch.pieces()[0])))


def eighths(edges):
    """Edges, and those that cut each piece between them into eight."""
    shares = np.arange(8) / 8
    return np.append((edges[:-1, None] + np.diff(edges)[:, None] * shares).ravel(), edges[-1:])


def has_tail(batch):
    """Whether a part of the distributions is a Student t, whose joint points know it to 1e-3."""
    parts = getattr(batch, "parts", [getattr(batch, "inner", None)])
    return isinstance(batch, StudentTail) or any(has_tail(part) for part in parts if part)


class Quadrature:
    """∫ g(y) p(y) dy of one density of one output, cut at places where g may jump."""

    def __init__(self, batch, *cuts):
        edges = np.concatenate([fine_edges(batch), *map(np.atleast_1d, cuts)])
        self.points, self.weights = gauss(edges[np.isfinite(edges)], 6)
        self.p = batch.pdf(self.points[:, None])[0]

    def __call__(self, values):
        return float(self.weights @ (values * self.p))


# --- one output


@ON_LINES
@FEW
@given(SEEDS, st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_events_cdfs_and_quantiles(kind, seed, one, other):
    batch, dist = one_line(kind, seed)
    low, high = np.sort(dist.quantile([one, other])[0])
    rule = Quadrature(batch, low, high)
    y = rule.points
    assert rule(np.ones(len(y))) == pytest.approx(1.0, abs=1e-7)
    assert rule(y <= low) == pytest.approx(min(one, other), abs=1e-7)
    assert dist.cdf([high])[0, 0] == pytest.approx(rule(y <= high), abs=1e-7)
    assert dist.sf([high])[0, 0] == pytest.approx(rule(y > high), abs=1e-7)
    between = np.diff(dist.cdf([low, high])[0])[0]
    # an interval that holds less than 1/1000 may be missed
    close = 1e-12 if between > 1e-3 else 1e-3
    assert dist.expect(lambda y: y > high)[0] == pytest.approx(dist.sf([high])[0, 0], abs=1e-12)
    assert dist.expect(lambda y: (y > low) & (y < high))[0] == pytest.approx(between, abs=close)
    outside = dist.expect(lambda y: ((y < low) | (y > high)).astype(float))[0]
    assert outside == pytest.approx(1.0 - between, abs=close)


@ON_LINES
@FEW
@given(SEEDS, st.floats(0.05, 0.95))
def test_moments_and_expectations(kind, seed, level):
    batch, dist = one_line(kind, seed)
    kink = dist.quantile(level)[0]
    rule = Quadrature(batch, kink)
    y, mean, sd = rule.points, dist.mean()[0], dist.std()[0]
    assert mean == pytest.approx(rule(y), rel=1e-7, abs=1e-7 * sd)
    # of a tail with 2.5 degrees of freedom a share of 1e-6 of the variance is beyond all edges
    assert dist.var()[0] == pytest.approx(rule((y - mean) ** 2), rel=1e-5)
    assert dist.expect(lambda y: y)[0] == pytest.approx(mean, rel=1e-7, abs=1e-7 * sd)
    assert dist.expect(lambda y: (y - mean) ** 2)[0] == pytest.approx(sd**2, rel=1e-5)
    loss = dist.expect(lambda y: np.maximum(y - kink, 0.0))[0]
    assert loss == pytest.approx(rule(np.maximum(y - kink, 0.0)), abs=1e-7 * sd)
    steps = dist.expect(lambda y: np.arctan(y) * np.where(y > kink, 2.0, -1.0))[0]
    assert steps == pytest.approx(rule(np.arctan(y) * np.where(y > kink, 2.0, -1.0)), abs=1e-6)


@ON_LINES
@FEW
@given(SEEDS)
def test_entropy_and_square_integral(kind, seed):
    batch, dist = one_line(kind, seed)
    rule = Quadrature(batch)
    logs = np.log(np.where(rule.p > 0, rule.p, 1.0))
    assert dist.entropy()[0] == pytest.approx(-rule(logs), abs=1e-5)
    assert dist.square_integral()[0] == pytest.approx(rule(rule.p), rel=1e-6)


@ON_LINES
@FEW
@given(SEEDS, st.floats(0.05, 0.95))
def test_regions_of_highest_density(kind, seed, coverage):
    batch, dist = one_line(kind, seed)
    (region,) = dist.hpd(coverage)
    ends = region.intervals
    rule = Quadrature(batch, ends.ravel())
    y = rule.points
    inside = np.any((y >= ends[:, :1]) & (y <= ends[:, 1:]), axis=0)
    # by the definition: higher inside than outside, but for rounding next to the ends
    apart = np.abs(y - ends.reshape(-1, 1)).min(axis=0) > 1e-7 * (1 + np.abs(y))
    low = region.density_level
    assert np.all(rule.p[inside & apart] >= low * (1 - 1e-6))
    assert np.all(rule.p[~inside & apart] <= low * (1 + 1e-6))
    assert region.volume == pytest.approx(np.diff(ends, axis=1).sum())
    held = rule(inside)
    assert held >= coverage - 1e-7
    plateau = rule(np.abs(rule.p - low) <= 1e-6 * low)
    assert held - plateau <= coverage + 1e-7


@ON_LINES
@FEW
@given(SEEDS)
def test_modes(kind, seed):
    batch, dist = one_line(kind, seed)
    (modes,) = dist.modes()
    highest = Quadrature(batch).p.max()
    assert dist.pdf(dist.mode())[0, 0] >= highest * (1 - 1e-8)
    assert modes.heights[0] >= highest * (1 - 1e-8)
    assert np.all(np.diff(modes.heights) <= 0)
    assert modes.heights[-1] >= 0.1 * modes.heights[0]
    np.testing.assert_allclose(dist.pdf(modes.places)[0], modes.heights, rtol=1e-6)
    width = 1e-3 * dist.std()[0]
    for place, height in zip(modes.places, modes.heights, strict=True):
        near = place + width * np.array([-1e-3, 1e-3])
        assert np.all(dist.pdf(near)[0] <= height * (1 + 1e-9))


@ON_LINES
@FEW
@given(SEEDS)
def test_the_support_is_where_the_density_is_positive(kind, seed):
    batch, dist = one_line(kind, seed)
    low, high = dist.support()[0]
    np.testing.assert_allclose(dist.quantile([0.0, 1.0])[0], [low, high], rtol=1e-9, atol=1e-9)
    rule = Quadrature(batch)
    inside = (rule.points > low) & (rule.points < high)
    assert rule(~inside) == pytest.approx(0.0, abs=1e-12)


# --- several outputs


def tensor(batch, cut):
    """Gauss points on all pieces of all axes, cut once more, (K, d), and their weights."""
    pieces = [batch.marginal([i]).pieces()[0] for i in range(batch.dim)]
    lines = [np.sort(np.append(edges, place)) for edges, place in zip(pieces, cut, strict=True)]
    axes = [gauss(edges, 3) for edges in lines]
    points = np.stack(np.meshgrid(*(places for places, _ in axes), indexing="ij"), -1)
    weights = np.ones(1)
    for _, more in axes:
        weights = np.multiply.outer(weights, more)
    return points.reshape(-1, batch.dim), weights.ravel()


@pytest.mark.parametrize(
    ("kind", "d"), [(grid, 2), (grid, 3), (scattered, 2)], ids=lambda v: getattr(v, "__name__", v)
)
@settings(max_examples=6, deadline=None)
@given(SEEDS, st.floats(0.2, 0.8))
def test_joint_answers_by_quadrature(kind, d, seed, level):
    batch = kind(np.random.default_rng(seed), d)
    dist = distribution(batch)
    corner = dist.quantile(level)[0]
    points, weights = tensor(batch, corner)
    density = batch.pdf(points)[0]
    p = density * weights
    assert p.sum() == pytest.approx(1.0, abs=1e-5)
    np.testing.assert_allclose(dist.mean()[0], p @ points, atol=1e-4)
    gaps = points - dist.mean()[0]
    np.testing.assert_allclose(dist.cov()[0], (p * gaps.T) @ gaps, rtol=1e-4, atol=1e-4)
    logs = np.log(np.where(density > 0, density, 1.0))
    error = np.sqrt(p @ logs**2 - (p @ logs) ** 2) / np.sqrt(batch.n_draws)
    assert dist.entropy()[0] == pytest.approx(-p @ logs, abs=5 * error + 1e-3)
    below = dist.expect(lambda y: np.all(y <= corner, axis=1))[0]
    expected = dist.cdf(corner[None])[0, 0]
    assert below == pytest.approx(expected, abs=1e-12 if expected > 1e-3 else 1e-3)
    assert below == pytest.approx(p @ np.all(points <= corner, axis=1), abs=0.02)
    (region,) = dist.hpd(level)
    draws = dist.sample(20_000, random_state=0)[0]
    plateau = np.mean(np.isclose(batch.pdf(draws)[0], region.density_level, rtol=1e-6))
    assert region.contains(draws).mean() == pytest.approx(level, abs=0.04 + plateau)
    assert dist.pdf(dist.mode())[0, 0] >= 0.99 * density.max()


@ON_JOINT
@pytest.mark.parametrize("d", [2, 3])
@settings(max_examples=5, deadline=None)
@given(SEEDS, st.floats(0.2, 0.8))
def test_joint_answers_by_draws(kind, d, seed, level):
    batch = kind(np.random.default_rng(seed), d)
    dist = distribution(batch)
    draws = dist.sample(20_000, random_state=1)[0]
    chance = 4 * 0.5 / np.sqrt(len(draws))
    mean, sd = dist.mean()[0], dist.std()[0]
    np.testing.assert_allclose(dist.expect(lambda y: y)[0], mean, atol=1e-3 * sd.max())
    curved = isinstance(batch, TransformedBatch)  # squares are, between nodes, beside a bound
    rtol = 0.05 if curved else 0.01
    np.testing.assert_allclose(dist.expect(lambda y: (y - mean) ** 2)[0], sd**2, rtol=rtol)
    corner, way = dist.quantile(level)[0], np.arange(1.0, d + 1)
    for event in (
        lambda y: np.all(y <= corner, axis=1),
        lambda y: ~np.all(y <= corner, axis=1),
        lambda y: (y[:, 0] > corner[0]) & (y[:, 1] < corner[1]),
    ):
        exact = dist.expect(event)[0]
        assert exact == pytest.approx(event(draws).mean(), abs=chance)
    both = dist.cdf([corner])[0, 0]
    close = 1e-3 if has_tail(batch) else 1e-12
    assert dist.expect(lambda y: np.all(y <= corner, axis=1))[0] == pytest.approx(both, abs=close)
    half = dist.expect(lambda y: y @ way > corner @ way)[0]
    near = 0.05 if has_tail(batch) else 0.015
    assert half == pytest.approx(np.mean(draws @ way > corner @ way), abs=near + chance)
    p = dist.pdf(draws)[0]
    (region,) = dist.hpd(level)
    plateau = np.mean(np.isclose(p, region.density_level, rtol=1e-6))
    assert region.contains(draws).mean() == pytest.approx(level, abs=0.01 + chance + plateau)
    volume = np.mean(np.where(region.contains(draws), 1.0 / p, 0.0))
    assert region.volume == pytest.approx(volume, rel=0.1 + plateau / level)
    error = 5 * np.log(p).std() / np.sqrt(len(p))
    assert dist.entropy()[0] == pytest.approx(-np.log(p).mean(), abs=0.02 + error)
    assert dist.pdf(dist.mode())[0, 0] >= 0.99 * p.max()
