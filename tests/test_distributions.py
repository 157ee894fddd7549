"""The public face of a prediction: shapes, agreement of its answers, laziness, errors."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from kcdo.distributions import (
    AffineBatch,
    ConditionalDistribution,
    GridLayout,
    MixtureBatch,
    NodeBatch,
    ScatteredLayout,
    StudentTail,
    TransformedBatch,
)
from kcdo.distributions import conditional as module
from kcdo.errors import InvalidInputError, KcdoWarning, SignedDensityError
from kcdo.measures import Grid
from kcdo.transforms import Above


class Source:
    """Known masses, and a record of what was asked."""

    def __init__(self, layout, masses, signed=False):
        self.layout, self.dim, self.signed, self.all = layout, layout.dim, signed, masses
        self.width, self.n_jobs = layout.n_nodes, 1
        self.asked = []

    def __len__(self):
        return len(self.all)

    def batch(self, rows):
        self.asked.append(len(rows))
        return NodeBatch(self.layout, self.all[rows])


def smooth_masses(nodes, q, seed=0):
    """Masses of q bimodal densities on the nodes."""
    rng = np.random.default_rng(seed)
    out = np.zeros((q, len(nodes)))
    for _ in range(2):
        centres = rng.uniform(-1.2, 1.2, (q, 1, nodes.shape[1]))
        out += np.exp(-0.5 * np.sum(((nodes - centres) / 0.5) ** 2, axis=2))
    return out / out.sum(axis=1, keepdims=True)


def layouts():
    rng = np.random.default_rng(1)
    scattered = rng.uniform(-3, 3, (60, 2))
    return {
        "grid-1": GridLayout(Grid(np.array([-3.0]), np.array([3.0]), (40,))),
        "grid-2": GridLayout(Grid(np.full(2, -3.0), np.array([3.0, 2.5]), (12, 10))),
        "grid-3": GridLayout(Grid(np.full(3, -3.0), np.full(3, 3.0), (6, 5, 7))),
        "mixture-1": ScatteredLayout(scattered[:, :1], np.full((60, 1), 0.3)),
        "mixture-2": ScatteredLayout(scattered, np.full((60, 2), 0.5)),
    }


LAYOUTS = layouts()
EVERY = pytest.mark.parametrize("name", LAYOUTS)


def source_of(name, q=5, signed=False):
    layout = LAYOUTS[name]
    nodes = layout.grid.nodes if isinstance(layout, GridLayout) else layout.nodes
    masses = smooth_masses(nodes, q)
    masses.setflags(write=False)
    return Source(layout, masses, signed)


def make(name, q=5, signed=False):
    return ConditionalDistribution(source_of(name, q, signed), flat=LAYOUTS[name].dim == 1)


def some_points(name, n=6):
    points = np.random.default_rng(2).uniform(-1.5, 1.5, (n, LAYOUTS[name].dim))
    return points[:, 0] if LAYOUTS[name].dim == 1 else points


# --- one contract for every layout


@EVERY
def test_shapes(name):
    dist, d = make(name), LAYOUTS[name].dim
    tail = () if d == 1 else (d,)
    y = some_points(name)
    assert len(dist) == 5
    assert dist.pdf(y).shape == dist.logpdf(y).shape == dist.cdf(y).shape == (5, 6)
    assert dist.logpdf_pairs(y[:5]).shape == dist.entropy().shape == (5,)
    for answer in (dist.mean(), dist.var(), dist.std(), dist.mode(), dist.quantile(0.3)):
        assert answer.shape == (5, *tail)
    assert dist.cov().shape == (5, d, d)
    assert dist.quantile([0.1, 0.2, 0.7]).shape == (5, 3, *tail)
    assert dist.interval(0.9).shape == (5, 2, *tail)
    assert dist.sample(4, random_state=0).shape == (5, 4, *tail)
    assert len(dist.hpd(0.5)) == 5
    assert repr(dist) == f"ConditionalDistribution(5 queries, {d} outputs)"


@EVERY
def test_each_query_at_its_own_points(name):
    dist, y = make(name), some_points(name)
    d = y.reshape(len(y), -1).shape[1]
    own = np.stack([np.roll(y.reshape(-1, d), i, axis=0) for i in range(5)])
    wanted = [one.pdf(points)[0] for one, points in zip(dist, own, strict=True)]
    np.testing.assert_allclose(dist.pdf_each(own), wanted, rtol=1e-10, atol=1e-14)
    for wrong in (own[:3], own[0], np.zeros((5, 2, d + 1))):
        with pytest.raises(InvalidInputError, match=r"points must be \(5, G"):
            dist.pdf_each(wrong)


@EVERY
def test_answers_agree_with_each_other(name):
    dist, y = make(name), some_points(name)
    np.testing.assert_allclose(np.exp(dist.logpdf(y)), dist.pdf(y), rtol=1e-12)
    np.testing.assert_allclose(dist.logpdf_pairs(y[:5]), np.diag(dist.logpdf(y[:5])), rtol=1e-12)
    np.testing.assert_allclose(dist.std() ** 2, dist.var(), rtol=1e-12)
    variances = np.einsum("qii->qi", dist.cov())
    np.testing.assert_allclose(dist.var().reshape(5, -1), variances, rtol=1e-9)
    np.testing.assert_allclose(dist.cov(), np.swapaxes(dist.cov(), 1, 2))
    np.testing.assert_allclose(dist.interval(0.8), dist.quantile([0.1, 0.9]), rtol=1e-12)
    np.testing.assert_allclose(dist.quantile(0.3), dist.quantile([0.3])[:, 0])
    loose = 0.05 if LAYOUTS[name].dim == 3 else 1e-9
    np.testing.assert_allclose(dist.expect(lambda y: y), dist.mean(), rtol=loose, atol=loose)
    np.testing.assert_allclose(dist.expect(lambda y: np.ones(len(y))), 1.0)


@EVERY
def test_indexing_slicing_and_iteration(name):
    dist, y = make(name), some_points(name)
    whole = dist.pdf(y)
    for part, rows in [
        (dist[2], [2]),
        (dist[-1], [4]),
        (dist[1:4], [1, 2, 3]),
        (dist[np.array([3, 0])], [3, 0]),
        (dist[1:4][2], [3]),
    ]:
        assert isinstance(part, ConditionalDistribution)
        assert len(part) == len(rows)
        np.testing.assert_allclose(part.pdf(y), whole[rows], rtol=1e-12)
        np.testing.assert_allclose(part.mean(), dist.mean()[rows], rtol=1e-12)
    fresh = make(name)[1:3]  # nothing kept yet
    np.testing.assert_allclose(fresh.pdf(y), whole[1:3], rtol=1e-12)
    np.testing.assert_allclose(np.concatenate([one.pdf(y) for one in dist]), whole, rtol=1e-12)
    with pytest.raises(IndexError):
        dist[5]


def all_answers(dist, y):
    d = dist.n_outputs
    answers = {
        "pdf": dist.pdf(y),
        "cdf": dist.cdf(y),
        "pairs": dist.logpdf_pairs(y[:5]),
        "mean": dist.mean(),
        "cov": dist.cov(),
        "mode": dist.mode(),
        "quantile": dist.quantile([0.0, 0.1, 0.5, 1.0]),
        "sample": dist.sample(7, random_state=3),
        "entropy": dist.entropy(),
        "expect": dist.expect(lambda y: np.sin(y)),
        "volume": np.array([r.volume for r in dist.hpd(0.6)]),
        "contains": np.array([r.contains(y) for r in dist.hpd(0.6)]),
        "marginal": dist.marginal(d - 1).quantile(0.4),
        "square": dist.square_integral(),
        "crps": dist.marginal(0).crps(y[:5] if d == 1 else y[:5, 0]),
    }
    return answers | dist.summary(["mean", "sd", "q05", "logpdf"], y[:5])


@EVERY
@pytest.mark.parametrize("rows", [1, 2])
def test_chunks_change_nothing(name, rows, monkeypatch):
    y = some_points(name)
    whole = all_answers(make(name), y)
    source = source_of(name)
    monkeypatch.setattr(module, "_CACHE_ELEMENTS", 0)
    monkeypatch.setattr(module, "_CHUNK_ELEMENTS", rows * source.layout.n_nodes)
    chunked = all_answers(ConditionalDistribution(source, flat=source.layout.dim == 1), y)
    for key, expected in whole.items():
        np.testing.assert_allclose(chunked[key], expected, rtol=1e-10, err_msg=key)
    assert max(source.asked) == rows


def test_a_marginal_never_asks_for_many_joint_masses(monkeypatch):
    source = source_of("grid-2")
    monkeypatch.setattr(module, "_CHUNK_ELEMENTS", 2 * source.layout.n_nodes)
    marginal = ConditionalDistribution(source, flat=False).marginal(0)
    assert marginal.mean().shape == (5,)
    assert source.asked == [2, 2, 1]
    assert len(marginal) == 5


def test_lazy_and_kept_for_the_next_question():
    source = source_of("grid-1")
    dist = ConditionalDistribution(source, flat=True)
    assert source.asked == []
    dist.mean()
    dist.pdf([0.0])
    dist[2].sample(3)
    assert source.asked == [5]


@EVERY
def test_sampling_repeats_and_accepts_any_random_state(name):
    dist = make(name)
    np.testing.assert_array_equal(dist.sample(5, random_state=1), dist.sample(5, random_state=1))
    assert np.any(dist.sample(5, random_state=1) != dist.sample(5, random_state=2))
    generator = np.random.default_rng(1)
    np.testing.assert_array_equal(dist.sample(5, generator), dist.sample(5, random_state=1))
    assert np.any(dist.sample(5, generator) != dist.sample(5, random_state=1))
    legacy = [dist.sample(5, np.random.RandomState(4)) for _ in range(2)]
    np.testing.assert_array_equal(*legacy)


@EVERY
def test_sample_moments(name):
    """Standardised errors of the mean over many seeds are themselves standard normal."""
    dist, n, seeds = make(name), 2000, 20
    draws = np.stack([dist.sample(n, random_state=seed) for seed in range(seeds)])
    z = (draws.mean(axis=2) - dist.mean()) / (dist.std() / np.sqrt(n))
    assert np.abs(z.mean(axis=0)).max() < 4 / np.sqrt(seeds)
    assert 0.75 < z.std() < 1.25
    np.testing.assert_allclose(draws.var(axis=2).mean(axis=0), dist.var(), rtol=0.03)


@EVERY
def test_marginals(name):
    dist, d = make(name), LAYOUTS[name].dim
    last = dist.marginal(d - 1)
    assert last.mean().shape == (5,)  # an int drops the axis
    np.testing.assert_allclose(last.mean(), dist.mean().reshape(5, -1)[:, -1], rtol=1e-10)
    np.testing.assert_allclose(dist.marginal(-1).var(), last.var())
    np.testing.assert_allclose(
        last.quantile([0.2, 0.9]), dist.quantile([0.2, 0.9]).reshape(5, 2, -1)[:, :, -1], atol=1e-9
    )
    every = list(range(d))[::-1]
    reversed_ = dist.marginal(every)
    assert reversed_.mean().shape == (5, d)
    np.testing.assert_allclose(reversed_.mean(), dist.mean().reshape(5, -1)[:, ::-1], rtol=1e-10)
    y = np.atleast_2d(some_points(name).T).T
    np.testing.assert_allclose(reversed_.pdf(y[:, ::-1]), dist.pdf(y), rtol=1e-9)
    np.testing.assert_allclose(dist[1:3].marginal(0).mean(), dist.marginal(0).mean()[1:3])


# --- one dimension, in depth


@settings(deadline=None, max_examples=25)
@given(st.integers(2, 30), st.integers(0, 10**6), st.floats(-1e3, 1e3), st.floats(1e-3, 1e3))
def test_density_cdf_quantile_and_moments_in_1d(m, seed, lower, width):
    rng = np.random.default_rng(seed)
    layout = GridLayout(Grid(np.array([lower]), np.array([lower + width]), (m,)))
    masses = rng.exponential(size=(2, m)) ** 3
    masses /= masses.sum(axis=1, keepdims=True)
    dist = ConditionalDistribution(Source(layout, masses), flat=True)
    y = np.sort(rng.uniform(lower - 0.2 * width, lower + 1.2 * width, 40))
    assert np.all(dist.pdf(y) >= 0)
    cdf = dist.cdf(y)
    assert np.all(np.diff(cdf, axis=1) >= -1e-14)
    assert np.all((cdf >= 0) & (cdf <= 1))
    # midpoints within the pieces: the trapezoid of a piecewise linear function is exact
    knots = np.unique(np.concatenate([[lower], layout.grid.axes[0], [lower + width], y]))
    knots = knots[(knots >= lower) & (knots <= lower + width)]
    heights = dist.pdf(np.clip(knots, lower, layout.grid.upper[0]))
    pieces = 0.5 * np.diff(knots) * (heights[:, 1:] + heights[:, :-1])
    np.testing.assert_allclose(pieces.sum(axis=1), 1.0, rtol=1e-9)
    total = np.concatenate([np.zeros((2, 1)), np.cumsum(pieces, axis=1)], axis=1)
    np.testing.assert_allclose(dist.cdf(knots), total, atol=1e-9)
    q = rng.random(5)
    values = dist.quantile(q)
    for i in range(2):
        np.testing.assert_allclose(dist[i].cdf(values[i])[0], q, atol=1e-9)


def test_moments_and_expectations_by_adaptive_quadrature():
    dist = make("grid-1", 1)
    nodes = LAYOUTS["grid-1"].grid.axes[0]

    def integral(g):
        edges = np.concatenate([[-3.0], nodes, [3.0]])
        return sum(
            quad(lambda t: g(t) * dist.pdf([t])[0, 0], a, b, epsabs=1e-12)[0]
            for a, b in pairwise(edges)
        )

    mean = integral(lambda t: t)
    assert dist.mean()[0] == pytest.approx(mean, abs=1e-10)
    assert dist.var()[0] == pytest.approx(integral(lambda t: (t - mean) ** 2), abs=1e-10)
    wave = dist.expect(lambda t: np.cos(3 * t))[0]
    assert wave == pytest.approx(integral(lambda t: np.cos(3 * t)), abs=1e-9)
    entropy = -integral(lambda t: np.log(max(dist.pdf([t])[0, 0], 1e-300)))
    assert dist.entropy()[0] == pytest.approx(entropy, abs=1e-6)


def test_two_dimensional_density_integrates_to_1():
    dist = make("grid-2")
    axes = [np.linspace(-3, 3, 12 * 8 + 1), np.linspace(-3, 2.5, 10 * 8 + 1)]
    middles = [0.5 * (a[1:] + a[:-1]) for a in axes]
    points = np.stack(np.meshgrid(*middles, indexing="ij"), -1).reshape(-1, 2)
    cell = (6 / 96) * (5.5 / 80)
    p = dist.pdf(points)
    assert p.min() >= 0
    np.testing.assert_allclose(p.sum(axis=1) * cell, 1.0, rtol=1e-9)  # bilinear in every cell
    corner = np.array([0.25, -0.25])
    below = np.all(points <= corner, axis=1)
    np.testing.assert_allclose(
        dist.cdf(corner[None])[:, 0], p[:, below].sum(axis=1) * cell, atol=1e-9
    )


def normal_mixture(means, sd=0.3, m=600):
    layout = GridLayout(Grid(np.array([-4.0]), np.array([4.0]), (m,)))
    p = sum(norm.pdf(layout.grid.axes[0], c, sd) for c in means)
    return ConditionalDistribution(Source(layout, (p / p.sum())[None]), flat=True)


def test_against_a_normal_distribution():
    dist = normal_mixture([0.5])
    assert dist.mean()[0] == pytest.approx(0.5, abs=1e-6)
    assert dist.std()[0] == pytest.approx(0.3, rel=1e-3)
    assert dist.mode()[0] == pytest.approx(0.5, abs=8 / 600)
    assert dist.entropy()[0] == pytest.approx(norm(0.5, 0.3).entropy(), abs=1e-3)
    np.testing.assert_allclose(
        dist.quantile([0.1, 0.975])[0], norm.ppf([0.1, 0.975], 0.5, 0.3), atol=1e-3
    )
    (region,) = dist.hpd(0.95)
    np.testing.assert_allclose(region.intervals, [norm.interval(0.95, 0.5, 0.3)], atol=1e-3)
    np.testing.assert_allclose(dist.interval(0.95), region.intervals, atol=1e-3)


def test_the_region_of_a_bimodal_density_is_two_intervals():
    dist = normal_mixture([-2.0, 2.0])
    (region,) = dist.hpd(0.9)
    assert region.coverage == 0.9
    assert region.intervals.shape == (2, 2)
    held = np.diff(dist.cdf(region.intervals.ravel()).reshape(2, 2), axis=1).sum()
    assert held == pytest.approx(0.9, abs=1e-10)
    assert region.volume == pytest.approx(np.diff(region.intervals, axis=1).sum())
    inside = region.contains([-2.0, 0.0, 2.0, 3.9, 5.0])
    np.testing.assert_array_equal(inside, [True, False, True, False, False])
    edges = region.intervals.ravel()
    np.testing.assert_allclose(dist.pdf(edges)[0], region.density_level, rtol=1e-9)
    inward = np.array([1e-6, -1e-6, 1e-6, -1e-6])
    assert np.all(region.contains(edges + inward))
    assert not np.any(region.contains(edges - inward))
    (wide,) = dist.hpd(0.99)
    assert wide.volume > region.volume
    assert wide.density_level < region.density_level


def test_a_region_may_touch_the_edges_of_the_box():
    layout = GridLayout(Grid(np.array([0.0]), np.array([4.0]), (4,)))
    u_shaped = np.array([[0.45, 0.05, 0.05, 0.45]])
    (region,) = ConditionalDistribution(Source(layout, u_shaped), flat=True).hpd(0.5)
    assert region.intervals[0, 0] == 0.0
    assert region.intervals[-1, 1] == 4.0


def test_the_region_in_2d_holds_its_mass():
    layout = GridLayout(Grid(np.full(2, -4.0), np.full(2, 4.0), (40, 40)))
    p = norm.pdf(layout.grid.nodes).prod(axis=1)
    dist = ConditionalDistribution(Source(layout, (p / p.sum())[None]), flat=False)
    (region,) = dist.hpd(0.8)
    assert region.intervals is None
    radius = np.sqrt(-2 * np.log(0.2))
    assert region.volume == pytest.approx(np.pi * radius**2, rel=0.02)
    assert region.density_level == pytest.approx(0.2 / (2 * np.pi), rel=0.05)
    draws = dist.sample(20_000, random_state=0)[0]
    assert region.contains(draws).mean() == pytest.approx(0.8, abs=0.015)
    np.testing.assert_array_equal(region.contains([[0.0, 0.0], [3.0, 3.0]]), [True, False])


def test_regions_of_a_mixture_hold_their_mass():
    dist = make("mixture-1")
    draws = dist.sample(5_000, random_state=0)
    for i, region in enumerate(dist.hpd(0.7)):
        assert region.contains(draws[i]).mean() == pytest.approx(0.7, abs=0.06)


# --- the outside world


def test_logpdf_outside_the_box_is_minus_infinity():
    dist = make("grid-1")
    assert np.all(np.isneginf(dist.logpdf([-4.0, np.inf])))
    assert np.all(np.isneginf(dist.logpdf_pairs(np.full(5, 9.0))))


def test_points_come_in_every_sensible_form():
    dist, plane = make("grid-1"), make("grid-2")
    expected = dist.pdf([0.5])
    for y in (0.5, [[0.5]], np.array([0.5])):
        np.testing.assert_array_equal(dist.pdf(y), expected)
    np.testing.assert_array_equal(plane.pdf([0.5, 0.1]), plane.pdf([[0.5, 0.1]]))


def test_expect_of_several_functions_and_of_a_column():
    dist = make("grid-2")
    both = dist.expect(lambda y: np.stack([y[:, 0], y[:, 0] * y[:, 1]], axis=1))
    np.testing.assert_allclose(both[:, 0], dist.mean()[:, 0], rtol=1e-9)
    cross = dist.cov()[:, 0, 1] + dist.mean()[:, 0] * dist.mean()[:, 1]
    np.testing.assert_allclose(both[:, 1], cross, atol=1e-9)
    assert dist.expect(lambda y: y[:, :1]).shape == (5, 1)


def test_summary_equals_the_single_questions():
    dist, y = make("grid-2"), some_points("grid-2", 5)
    table = dist.summary(["q2.5", "mean", "mode", "sd", "var", "q50", "logpdf", "q100"], y)
    assert list(table) == ["q2.5", "mean", "mode", "sd", "var", "q50", "logpdf", "q100"]
    for name, expected in {
        "mean": dist.mean(),
        "sd": dist.std(),
        "var": dist.var(),
        "mode": dist.mode(),
        "q2.5": dist.quantile(0.025),
        "q50": dist.quantile(0.5),
        "q100": dist.quantile(1.0),
        "logpdf": dist.logpdf_pairs(y),
    }.items():
        np.testing.assert_allclose(table[name], expected, rtol=1e-12)
    flat = make("grid-1").summary(["mean", "q05"])
    assert flat["mean"].shape == flat["q05"].shape == (5,)


def test_summary_is_one_pass(monkeypatch):
    source = source_of("grid-1")
    monkeypatch.setattr(module, "_CACHE_ELEMENTS", 0)
    ConditionalDistribution(source, flat=True).summary(
        ["mean", "q05", "mode", "logpdf"], np.zeros(5)
    )
    assert source.asked == [5]


BAD_CALLS = {
    "wrong columns": (lambda d: d.pdf(np.zeros((3, 3))), r"points must be \(G, 2\); got \(3, 3\)"),
    "a vector": (lambda d: d.pdf(np.zeros(6)), r"points must be \(G, 2\); got \(6,\)"),
    "too many axes": (lambda d: d.cdf(np.zeros((1, 1, 2))), r"points must be \(G, 2\)"),
    "columns in 1-D": (
        lambda d: d.marginal(0).pdf(np.zeros((3, 2))),
        r"points must be \(G, 1\) or \(G,\); got \(3, 2\)",
    ),
    "NaN": (lambda d: d.pdf([[np.nan, 0.0]]), "points contain NaN"),
    "level above": (lambda d: d.quantile(1.1), r"quantile levels must lie in \[0, 1\]; got 1.1"),
    "level below": (lambda d: d.quantile([0.5, -0.1]), r"quantile levels must lie in \[0, 1\]"),
    "level NaN": (lambda d: d.quantile(np.nan), r"quantile levels must lie in \[0, 1\]"),
    "levels 2-D": (lambda d: d.quantile([[0.5]]), r"quantile levels must lie in \[0, 1\]"),
    "interval": (lambda d: d.interval(1.0), "level must lie between 0 and 1; got 1.0"),
    "hpd": (lambda d: d.hpd(95), "level must lie between 0 and 1; got 95"),
    "draws": (lambda d: d.sample(0), "the number of draws must be >= 1; got 0"),
    "g shape": (
        lambda d: d.expect(lambda y: np.ones(3)),
        r"g must map .* it returned shape \(3,\)",
    ),
    "g axes": (lambda d: d.expect(lambda y: np.ones((len(y), 1, 1))), "g must map"),
    "no columns": (lambda d: d.summary([]), "summary needs at least one column; got none"),
    "a column": (lambda d: d.summary(["median"]), "unknown column 'median' in a summary: use mean"),
    "a quantile": (lambda d: d.summary(["qx"]), "unknown column 'qx'"),
    "a percentage": (lambda d: d.summary(["q101"]), "unknown column 'q101'"),
    "no Y": (lambda d: d.summary(["logpdf"]), 'summary of "logpdf" needs Y: one output per query'),
    "short Y": (
        lambda d: d.logpdf_pairs(np.zeros((2, 2))),
        "Y must have one row per query: 5 queries, 2 rows",
    ),
    "dims": (lambda d: d.marginal(2), "dims must be distinct columns below 2; got 2"),
    "negative dims": (lambda d: d.marginal([-3]), "dims must be distinct columns below 2"),
    "same dims": (lambda d: d.marginal([0, -2]), "dims must be distinct columns below 2"),
    "no dims": (lambda d: d.marginal([]), "dims must be distinct columns below 2"),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_bad_calls_are_explained(case):
    call, message = BAD_CALLS[case]
    with pytest.raises(InvalidInputError, match=message):
        call(make("grid-2"))


# --- predictions of other kinds than node masses


class MixtureSource(Source):
    """A moved grid and a tail, of each query."""

    def batch(self, rows):
        self.asked.append(len(rows))
        d = self.dim
        place = np.tile(np.linspace(-1, 1, len(self))[:, None], (1, d))[rows]
        grid = AffineBatch(NodeBatch(self.layout, self.all[rows]), place, np.full(place.shape, 0.5))
        parts = [grid, StudentTail(place, np.full(place.shape, 0.7))]
        mixed = MixtureBatch(parts, np.array([0.9, 0.1]))
        return TransformedBatch(mixed, Above(-4.0, 0.5)) if self.transformed else mixed


def mixture_source(name, *, transformed=False):
    plain = source_of(name)
    source = MixtureSource(plain.layout, plain.all)
    source.width = 2 * plain.width
    source.transformed = transformed
    return source


@pytest.mark.parametrize("name", ["grid-1", "grid-2"])
@pytest.mark.parametrize("transformed", [False, True])
def test_chunks_of_mixtures_change_nothing(name, transformed, monkeypatch):
    y = some_points(name)
    flat = LAYOUTS[name].dim == 1
    source = mixture_source(name, transformed=transformed)
    dist = ConditionalDistribution(source, flat=flat)
    whole = all_answers(dist, y)
    again = all_answers(dist[::-1], y)  # from what was kept
    assert set(source.asked) == {5}
    np.testing.assert_allclose(again["pdf"][::-1], whole["pdf"], rtol=1e-12)
    monkeypatch.setattr(module, "_CACHE_ELEMENTS", 0)
    source = mixture_source(name, transformed=transformed)
    monkeypatch.setattr(module, "_CHUNK_ELEMENTS", 2 * source.width)
    chunked = all_answers(ConditionalDistribution(source, flat=flat), y)
    for key, expected in whole.items():
        np.testing.assert_allclose(chunked[key], expected, rtol=1e-8, err_msg=key)
    assert max(source.asked) == 2


def test_kept_chunks_are_joined(monkeypatch):
    source = mixture_source("grid-1")
    monkeypatch.setattr(module, "_CHUNK_ELEMENTS", 2 * source.width)
    dist = ConditionalDistribution(source, flat=True)
    first = dist.mean()
    np.testing.assert_allclose(dist.mean(), first)
    np.testing.assert_allclose(dist[3].mean(), first[3:4])
    assert source.asked == [2, 2, 1]


def test_a_tail_reaches_beyond_the_box():
    dist = ConditionalDistribution(mixture_source("grid-1"), flat=True)
    far = np.full(5, 1e150)
    assert np.all(np.isfinite(dist.logpdf_pairs(far)))
    assert np.all(np.isfinite(dist.logpdf([-1e200, 40.0])))
    assert np.all(np.isfinite(dist.summary(["logpdf"], far)["logpdf"]))
    np.testing.assert_array_equal(dist.quantile([0.0, 1.0]), np.tile([-np.inf, np.inf], (5, 1)))


def test_crps_is_the_integral_of_the_squared_gap():
    dist = make("grid-1")
    y = np.array([-5.0, -1.0, 0.0, 0.4, 3.3])
    line = np.linspace(-6, 6, 40_001)
    gap = dist.cdf(line) - (line >= y[:, None])
    expected = np.sum(gap**2, axis=1) * (line[1] - line[0])
    np.testing.assert_allclose(dist.crps(y), expected, rtol=1e-3)
    draws = dist.sample(4000, random_state=0)
    energy = np.abs(draws - y[:, None]).mean(axis=1)
    energy -= 0.5 * np.abs(draws[:, ::2] - draws[:, 1::2]).mean(axis=1)
    np.testing.assert_allclose(dist.crps(y), energy, atol=0.05)


def test_crps_needs_one_output():
    with pytest.raises(InvalidInputError, match="crps is defined for one output, here are 2"):
        make("grid-2").crps(np.zeros((5, 2)))
    with pytest.raises(InvalidInputError, match="Y must have one row per query"):
        make("grid-1").crps(np.zeros(2))


# --- signed densities


@pytest.mark.parametrize(
    "call",
    [
        lambda d: d.logpdf([0.0]),
        lambda d: d.cdf([0.0]),
        lambda d: d.logpdf_pairs([0.0]),
        lambda d: d.quantile(0.5),
        lambda d: d.interval(0.5),
        lambda d: d.hpd(0.5),
        lambda d: d.entropy(),
        lambda d: d.crps([0.0]),
        lambda d: d.sample(1),
        lambda d: d.summary(["mean", "q50"]),
        lambda d: d.marginal(0).quantile(0.5),
    ],
)
def test_a_signed_density_refuses_what_needs_a_density(call):
    with pytest.raises(SignedDensityError, match='not defined for positivity="signed"'):
        call(make("grid-1", 1, signed=True))


def test_a_signed_density_has_moments_and_values():
    layout = LAYOUTS["grid-1"]
    masses = np.array([smooth_masses(layout.grid.nodes, 1)[0]])
    masses[0, 0] -= 0.05
    masses[0, 20] += 0.05
    dist = ConditionalDistribution(Source(layout, masses, signed=True), flat=True)
    assert dist.pdf(layout.grid.axes[0]).min() < 0
    np.testing.assert_allclose(dist.expect(lambda y: y), dist.mean(), rtol=1e-9)
    assert np.isfinite(dist.var()[0])
    assert dist.mode().shape == (1,)


def test_a_negative_variance_is_nan_with_a_warning():
    layout = GridLayout(Grid(np.array([-3.0]), np.array([3.0]), (3,)))
    masses = np.array([[-0.5, 2.0, -0.5], [0.25, 0.5, 0.25]])
    dist = ConditionalDistribution(Source(layout, masses, signed=True), flat=True)
    for ask in (dist.var, dist.std):
        with pytest.warns(KcdoWarning, match="negative variance here; it is returned as NaN"):
            values = ask()
        assert np.isnan(values[0])
        assert values[1] > 0
