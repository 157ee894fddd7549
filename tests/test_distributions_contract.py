"""One contract for distributions of every kind, checked by plain quadrature and by draws."""

from itertools import pairwise

import numpy as np
import pytest

from kcdo.distributions import ConditionalDistribution, join, lazy
from kcdo.distributions import batch as batch_module
from tests.distribution_kinds import (
    EVERY,
    LINES,
    PLANES,
    STEEP,
    Known,
    Q,
    distribution,
    edges,
    gauss,
    integral,
    uniforms,
)

ON_ALL = pytest.mark.parametrize("batch", EVERY.values(), ids=EVERY)
ON_LINES = pytest.mark.parametrize("name", LINES)
BOUNDED = pytest.mark.parametrize("name", [name for name in LINES if name not in STEEP])
ON_PLANES = pytest.mark.parametrize("batch", PLANES.values(), ids=PLANES)
JOINT = {name: batch for name, batch in EVERY.items() if batch.dim > 1}
ON_JOINT = pytest.mark.parametrize("batch", JOINT.values(), ids=JOINT)


def some_points(batch, n=6, seed=3):
    return np.random.default_rng(seed).uniform(-1.5, 1.5, (n, batch.dim))


# --- shapes, rows, blocks and chunks


@ON_ALL
def test_shapes_of_batches(batch):
    d, points = batch.dim, some_points(batch)
    each = np.broadcast_to(points, (Q, *points.shape))
    assert len(batch) == Q
    assert batch.width >= 1
    for ask in (batch.pdf, batch.logpdf, batch.cdf):
        assert ask(points).shape == (Q, 6)
    for ask in (batch.pdf_each, batch.logpdf_each, batch.cdf_each):
        assert ask(each).shape == (Q, 6)
        assert ask(each[:, :0]).shape == (Q, 0)
    mean, cov = batch.moments()
    assert (mean.shape, cov.shape) == ((Q, d), (Q, d, d))
    assert batch.quantile(np.empty(0)).shape == (Q, 0, d)
    places, masses = batch.quadrature()
    assert places.shape == (*masses.shape, d)
    assert len(masses) == Q
    assert batch.expect(lambda y: y[:, :1] * np.ones(3)).shape == (Q, 3)


@ON_ALL
def test_shapes_of_distributions(batch):
    dist, d = distribution(batch), batch.dim
    y = some_points(batch)[:, 0] if d == 1 else some_points(batch)
    last = () if d == 1 else (d,)
    assert (len(dist), dist.n_outputs, dist.flat) == (Q, d, d == 1)
    assert repr(dist) == f"ConditionalDistribution({Q} queries, {d} outputs)"
    assert dist.pdf(y).shape == dist.logpdf(y).shape == dist.cdf(y).shape == (Q, 6)
    assert dist.logpdf_pairs(y[:Q]).shape == dist.entropy().shape == (Q,)
    np.testing.assert_allclose(dist.cdf_pairs(y[:Q]), np.diagonal(dist.cdf(y[:Q])), atol=1e-12)
    assert dist.square_integral().shape == (Q,)
    for answer in (dist.mean(), dist.var(), dist.std(), dist.mode(), dist.quantile(0.3)):
        assert answer.shape == (Q, *last)
    assert dist.cov().shape == (Q, d, d)
    assert dist.quantile([0.1, 0.2, 0.7]).shape == (Q, 3, *last)
    assert dist.interval(0.9).shape == (Q, 2, *last)
    assert dist.sample(4, random_state=0).shape == (Q, 4, *last)
    assert len(dist.hpd(0.5)) == Q
    assert dist.marginal(d - 1).mean().shape == (Q,)  # an int drops the axis
    assert dist.marginal([d - 1]).mean().shape == (Q, 1)


@ON_ALL
def test_rows_are_independent_of_each_other(batch):
    points, levels, u = some_points(batch), np.array([0.2, 0.9]), uniforms(batch, 6)
    for rows in (slice(1, 3), np.array([2, 0])):
        some = batch.take(rows)
        np.testing.assert_allclose(some.pdf(points), batch.pdf(points)[rows], rtol=1e-12)
        np.testing.assert_allclose(some.quantile(levels), batch.quantile(levels)[rows], rtol=1e-9)
        np.testing.assert_allclose(some.sample(u[rows]), batch.sample(u)[rows], rtol=1e-12)
    again = join([batch.take(slice(0, 1)), batch.take(slice(1, 3))])
    assert type(again) is type(batch)
    np.testing.assert_allclose(again.cdf(points), batch.cdf(points), rtol=1e-12)
    assert join([batch]) is batch


def all_answers(dist):
    d = dist.n_outputs
    y = np.random.default_rng(2).uniform(-1.5, 1.5, (5, d))
    y = y[:, 0] if d == 1 else y
    pairs = y[: len(dist)]
    regions = dist.hpd(0.6)
    answers = {
        "pdf": dist.pdf(y),
        "cdf": dist.cdf(y),
        "cov": dist.cov(),
        "mode": dist.mode(),
        "quantile": dist.quantile([0.0, 0.1, 0.5, 1.0]),
        "sample": dist.sample(7, random_state=3),
        "entropy": dist.entropy(),
        "expect": dist.expect(np.sin),
        "volume": np.array([region.volume for region in regions]),
        "contains": np.array([region.contains(y) for region in regions]),
        "marginal": dist.marginal(d - 1).quantile(0.4),
        "square": dist.square_integral(),
        "crps": dist.marginal(0).crps(pairs if d == 1 else pairs[:, 0]),
    }
    return answers | dist.summary(["mean", "sd", "q05", "logpdf"], pairs)


@ON_ALL
def test_blocks_and_chunks_change_nothing(batch, monkeypatch):
    whole = all_answers(distribution(batch))
    monkeypatch.setattr(batch_module, "_BLOCK_ELEMENTS", 1)
    monkeypatch.setattr("kcdo.distributions.layouts._LARGEST_BLOCK", 1)
    monkeypatch.setattr(lazy, "_CACHE_ELEMENTS", 0)
    monkeypatch.setattr(lazy, "_CHUNK_ELEMENTS", 2 * batch.width)
    source = Known(batch)
    chunked = all_answers(ConditionalDistribution(source, flat=batch.dim == 1))
    for key, expected in whole.items():
        # places where a density is flat are known to the square root of rounding
        rtol = 1e-6 if key == "mode" else 1e-8
        np.testing.assert_allclose(chunked[key], expected, rtol=rtol, atol=1e-12, err_msg=key)
    assert max(source.asked) == 2


@ON_ALL
def test_indexing_slicing_and_iteration(batch):
    dist = distribution(batch)
    y = some_points(batch)
    whole, means = dist.pdf(y), dist.mean()
    for part, rows in [
        (dist[2], [2]),
        (dist[-1], [2]),
        (dist[1:3], [1, 2]),
        (dist[np.array([2, 0])], [2, 0]),
        (dist[1:3][1], [2]),
        (distribution(batch)[::-1], [2, 1, 0]),  # nothing kept yet
    ]:
        assert isinstance(part, ConditionalDistribution)
        assert len(part) == len(rows)
        np.testing.assert_allclose(part.pdf(y), whole[rows], rtol=1e-12)
        np.testing.assert_allclose(part.mean(), means[rows], rtol=1e-12)
    np.testing.assert_allclose(np.concatenate([one.pdf(y) for one in dist]), whole, rtol=1e-12)


# --- densities, cdfs and quantiles


@ON_ALL
def test_densities_at_shared_points_at_own_points_and_in_logarithms_agree(batch):
    points = np.random.default_rng(3).uniform(-1.5, 2.5, (7, batch.dim))
    each = np.broadcast_to(points, (Q, *points.shape))
    expected = batch.pdf(points)
    assert np.all(expected >= 0)
    np.testing.assert_allclose(batch.pdf_each(each), expected, rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(np.exp(batch.logpdf(points)), expected, rtol=1e-10)
    np.testing.assert_allclose(batch.logpdf_each(each), batch.logpdf(points), rtol=1e-9)
    np.testing.assert_allclose(batch.cdf_each(each), batch.cdf(points), rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(batch.pdf_pairs(points[:Q]), np.diag(expected[:, :Q]), rtol=1e-10)
    dist = distribution(batch)
    np.testing.assert_array_equal(dist.pdf_each(each), batch.pdf_each(each))
    np.testing.assert_array_equal(dist.logpdf_pairs(points[:Q]), batch.logpdf_pairs(points[:Q]))


@ON_LINES
def test_densities_on_a_line_integrate_to_the_cdf(name):
    batch = LINES[name]
    ends = batch.quantile(np.array([0.02, 0.3, 0.9]))[:, :, 0]
    for row in range(Q):
        if name not in STEEP:
            assert integral(batch, row, lambda y, p: p) == pytest.approx(1.0, abs=1e-6)
        one = batch.take(np.array([row]))
        knots = edges(one)
        for low, high in pairwise(ends[row]):
            inner = knots[(knots > low) & (knots < high)]
            points, weights = gauss(np.concatenate([[low], inner, [high]]))
            expected = np.diff(one.cdf(np.array([[low], [high]]))[0])[0]
            assert one.pdf(points[:, None])[0] @ weights == pytest.approx(expected, abs=1e-7)


@ON_JOINT
def test_joint_densities_integrate_to_the_cdf(batch):
    """Over a box, by middles of small cells; its probability is a sum over its corners."""
    d, n = batch.dim, {2: 150, 3: 40}[batch.dim]
    low, high = (batch.quantile(np.array([q]))[:, 0] for q in (0.1, 0.8))
    middles = np.stack(np.meshgrid(*[(np.arange(n) + 0.5) / n] * d, indexing="ij"), -1)
    points = low[:, None] + (high - low)[:, None] * middles.reshape(-1, d)
    found = batch.pdf_each(points).mean(axis=1) * np.prod(high - low, axis=1)
    upper = np.stack(np.meshgrid(*[[0, 1]] * d, indexing="ij"), -1).reshape(-1, d)
    corners = np.where(upper, high[:, None], low[:, None])
    expected = batch.cdf_each(corners) @ (-1.0) ** (d - upper.sum(axis=1))
    np.testing.assert_allclose(found, expected, atol=1e-3)


@ON_ALL
def test_the_cdf_starts_at_0_and_ends_at_1(batch):
    ends = np.array([[-np.inf] * batch.dim, [np.inf] * batch.dim])
    np.testing.assert_allclose(batch.cdf(ends), [[0.0, 1.0]] * Q, atol=1e-14)


@ON_ALL
def test_quantiles_invert_the_cdf_of_each_marginal(batch):
    levels = np.array([0.0, 1e-6, 0.01, 0.25, 0.5, 0.77, 0.999, 1 - 1e-9, 1.0])
    values = batch.quantile(levels)
    assert np.all(values[:, 1:] >= values[:, :-1])
    for i in range(batch.dim):
        found = batch.marginal([i]).cdf_each(values[:, :, i, None])
        np.testing.assert_allclose(found, np.broadcast_to(levels, found.shape), atol=1e-10)


@ON_ALL
def test_draws_follow_the_distribution(batch):
    n = 10_000
    draws = batch.sample(uniforms(batch, n))
    mean, cov = batch.moments()
    sd = np.sqrt(np.einsum("qdd->qd", cov))
    assert np.all(np.abs(draws.mean(axis=1) - mean) < 5 * sd / np.sqrt(n))
    for i in range(batch.dim):
        ranks = batch.marginal([i]).cdf_each(draws[:, :, i, None])
        assert np.abs(np.sort(ranks, axis=1) - (np.arange(n) + 0.5) / n).max() < 2.0 / np.sqrt(n)
    corner = batch.quantile(np.array([0.6]))
    share = np.all(draws <= corner, axis=2).mean(axis=1)
    np.testing.assert_allclose(share, batch.cdf_each(corner)[:, 0], atol=0.015)


# --- moments, expectations, marginals


@BOUNDED
def test_moments_on_a_line_are_those_of_the_density(name):
    batch = LINES[name]
    mean, cov = batch.moments()
    for row in range(Q):
        first = integral(batch, row, lambda y, p: y * p)
        square = integral(batch, row, lambda y, p, m=first: (y - m) ** 2 * p)
        assert mean[row, 0] == pytest.approx(first, abs=2e-3)
        # variance far out in a heavy tail is beyond the knots
        assert cov[row, 0, 0] == pytest.approx(square, rel=5e-3)


@ON_ALL
def test_expectations_agree_with_moments(batch):
    dist = distribution(batch)
    np.testing.assert_allclose(dist.expect(lambda y: np.ones(len(y))), 1.0, rtol=1e-9)
    tolerance = 1e-4 if batch.dim == 1 else 0.2  # heavy tails in the plane have few points
    mean, sd = dist.mean().reshape(Q, -1), dist.std().reshape(Q, -1)
    found = dist.expect(lambda y: np.reshape(y, (len(y), -1)))
    assert np.all(np.abs(found - mean) < tolerance * sd)
    for row, one in enumerate(dist):
        square = one.expect(lambda y, m=mean[row]: (np.reshape(y, (len(y), -1)) - m) ** 2)
        np.testing.assert_allclose(square[0], sd[row] ** 2, rtol=tolerance)


@ON_ALL
def test_moments_agree_with_each_other(batch):
    dist = distribution(batch)
    np.testing.assert_allclose(dist.std() ** 2, dist.var(), rtol=1e-12)
    np.testing.assert_allclose(dist.var().reshape(Q, -1), np.einsum("qii->qi", dist.cov()))
    np.testing.assert_allclose(dist.cov(), np.swapaxes(dist.cov(), 1, 2))
    np.testing.assert_allclose(dist.interval(0.8), dist.quantile([0.1, 0.9]), rtol=1e-12)
    np.testing.assert_allclose(dist.quantile(0.3), dist.quantile([0.3])[:, 0])


@ON_JOINT
def test_marginals_are_integrals_of_the_joint_density(batch):
    """Of the first output: the derivative of the joint cdf, the others being anything."""
    places = batch.quantile(np.array([0.2, 0.5, 0.9]))[:, :, 0]
    far = np.full((*places.shape, batch.dim), 1e9)
    far[:, :, 0] = places
    first = batch.marginal([0])
    np.testing.assert_allclose(first.cdf_each(places[:, :, None]), batch.cdf_each(far), atol=1e-9)
    every = list(range(batch.dim))[::-1]
    points = some_points(batch)
    swapped = batch.marginal(every)
    np.testing.assert_allclose(swapped.pdf(points[:, ::-1]), batch.pdf(points), rtol=1e-9)
    mean, cov = batch.moments()
    for dims in ([0], [1], every):
        m, c = batch.marginal(dims).moments()
        np.testing.assert_allclose(m, mean[:, dims], atol=1e-3)
        np.testing.assert_allclose(c, cov[:, dims][:, :, dims], atol=5e-3)
    dist = distribution(batch)
    np.testing.assert_allclose(dist.marginal(-1).var(), dist.marginal(batch.dim - 1).var())
    np.testing.assert_allclose(dist[1:3].marginal(0).mean(), dist.marginal(0).mean()[1:3])


# --- scores, regions, modes


@ON_LINES
@pytest.mark.parametrize("level", [1e-4, 0.3])
def test_crps_by_numbers(name, level):
    batch = LINES[name]
    y = batch.quantile(np.array([level]))[:, 0]
    found = batch.crps(y)
    for row in range(Q):
        one = batch.take(np.array([row]))
        points, weights = gauss(np.append(edges(one), y[row]), 16)
        gap = one.cdf(points[:, None])[0] - (points >= y[row])
        assert found[row] == pytest.approx(gap**2 @ weights, rel=1e-5)


@ON_LINES
def test_crps_of_an_outlier_grows_by_the_distance(name):
    batch = LINES[name]
    far = np.full((Q, 1), batch.quantile(np.array([1 - 1e-9])).max() + 1e4)
    assert np.all(np.isfinite(batch.crps(far)))
    np.testing.assert_allclose(batch.crps(far + 7.0) - batch.crps(far), 7.0, rtol=1e-4)


@BOUNDED
def test_square_integral_and_entropy_by_numbers(name):
    batch = LINES[name]
    squares, entropies = batch.square_integral(), batch.entropy()
    for row in range(Q):
        square = integral(batch, row, lambda y, p: p * p)
        assert squares[row] == pytest.approx(square, rel=1e-4)
        entropy = integral(batch, row, lambda y, p: -p * np.log(np.maximum(p, 1e-300)))
        assert entropies[row] == pytest.approx(entropy, abs=2e-2 if "nodes" in name else 2e-3)


@ON_JOINT
def test_square_integral_and_entropy_by_draws(batch):
    n = 10_000
    p = batch.pdf_each(batch.sample(uniforms(batch, n)))
    error = 5 * p.std(axis=1) / np.sqrt(n)
    assert np.all(np.abs(batch.square_integral() - p.mean(axis=1)) < error + 0.03 * p.mean(axis=1))
    logs = np.log(p)
    error = 5 * logs.std(axis=1) / np.sqrt(n)
    assert np.all(np.abs(batch.entropy() + logs.mean(axis=1)) < error + 0.08)


@ON_ALL
def test_regions_hold_their_mass(batch):
    """By draws: the share that falls inside, and E 1/p(Y) inside, which is the volume."""
    p = batch.pdf_each(batch.sample(uniforms(batch, 10_000, seed=8)))
    loose = 0.02 if batch.dim == 1 else 0.08
    for coverage in (0.5, 0.9):
        for row, shape in enumerate(batch.regions(coverage)):
            inside = p[row] >= shape.density_level * (1 - 1e-12)
            assert inside.mean() >= coverage - loose
            plateau = np.mean(np.isclose(p[row], shape.density_level, rtol=1e-9))
            assert inside.mean() - plateau <= coverage + loose
            volumes = np.where(inside, 1 / np.maximum(p[row], 1e-300), 0.0)
            chance = 4.0 * volumes.std() / np.sqrt(len(volumes))
            wanted = pytest.approx(volumes.mean(), rel=0.05 if batch.dim == 1 else 0.2, abs=chance)
            assert shape.volume == wanted
            assert (shape.intervals is None) == (batch.dim > 1)


@ON_ALL
def test_no_draw_is_denser_than_the_mode(batch):
    at_mode = batch.pdf_pairs(batch.mode())
    centre = batch.quantile(np.array([0.002, 0.998]))
    draws = batch.sample(uniforms(batch, 3000))
    p = batch.pdf_each(np.clip(draws, centre[:, :1], centre[:, 1:])).max(axis=1)
    assert np.all(at_mode >= p * (0.985 if batch.dim == 1 else 0.8))


# --- random states


@ON_PLANES
def test_sampling_repeats_and_accepts_any_random_state(batch):
    dist = distribution(batch)
    np.testing.assert_array_equal(dist.sample(5, random_state=1), dist.sample(5, random_state=1))
    assert np.any(dist.sample(5, random_state=1) != dist.sample(5, random_state=2))
    generator = np.random.default_rng(1)
    np.testing.assert_array_equal(dist.sample(5, generator), dist.sample(5, random_state=1))
    assert np.any(dist.sample(5, generator) != dist.sample(5, random_state=1))
    legacy = [dist.sample(5, np.random.RandomState(4)) for _ in range(2)]
    np.testing.assert_array_equal(*legacy)
