"""The public face of a prediction: laziness, regions, forms of points, errors, signed densities."""

import numpy as np
import pytest
from scipy.stats import norm

from kcdo.distributions import ConditionalDistribution, GridLayout, NodeBatch
from kcdo.distributions import lazy as module
from kcdo.errors import InvalidInputError, KcdoWarning, SignedDensityError
from kcdo.measures import Grid
from tests.distribution_kinds import LINES, Known, distribution, nested, on_grid

LINE, PLANE = on_grid(40, q=5), on_grid(12, 10, q=5)


def line():
    return distribution(LINE)


def plane():
    return distribution(PLANE)


def on(layout, masses, **options):
    """The distributions of masses on the nodes of a layout."""
    return distribution(NodeBatch(layout, np.atleast_2d(masses)), **options)


def test_a_marginal_never_asks_for_many_joint_masses(monkeypatch):
    source = Known(PLANE)
    monkeypatch.setattr(module, "_CHUNK_ELEMENTS", 2 * source.width)
    marginal = ConditionalDistribution(source, flat=False).marginal(0)
    assert marginal.mean().shape == (5,)
    assert source.asked == [2, 2, 1]
    assert len(marginal) == 5


def test_an_index_beyond_the_queries_is_an_error():
    with pytest.raises(IndexError):
        line()[5]
    with pytest.raises(InvalidInputError, match="no query is selected by"):
        line()[5:]


def test_lazy_and_kept_for_the_next_question():
    source = Known(LINE)
    dist = ConditionalDistribution(source, flat=True)
    assert source.asked == []
    dist.mean()
    dist.pdf([0.0])
    dist[2].sample(3)
    assert source.asked == [5]


# --- one dimension, in depth


def normal_mixture(means, sd=0.3, m=600):
    layout = GridLayout(Grid(np.array([-4.0]), np.array([4.0]), (m,)))
    p = sum(norm.pdf(layout.grid.axes[0], c, sd) for c in means)
    return on(layout, (p / p.sum())[None])


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
    (region,) = on(layout, u_shaped).hpd(0.5)
    assert region.intervals[0, 0] == 0.0
    assert region.intervals[-1, 1] == 4.0


def test_the_region_in_2d_holds_its_mass():
    layout = GridLayout(Grid(np.full(2, -4.0), np.full(2, 4.0), (40, 40)))
    p = norm.pdf(layout.grid.nodes).prod(axis=1)
    dist = on(layout, (p / p.sum())[None])
    (region,) = dist.hpd(0.8)
    assert region.intervals is None
    radius = np.sqrt(-2 * np.log(0.2))
    assert region.volume == pytest.approx(np.pi * radius**2, rel=0.02)
    assert region.density_level == pytest.approx(0.2 / (2 * np.pi), rel=0.05)
    draws = dist.sample(20_000, random_state=0)[0]
    assert region.contains(draws).mean() == pytest.approx(0.8, abs=0.015)
    np.testing.assert_array_equal(region.contains([[0.0, 0.0], [3.0, 3.0]]), [True, False])


# --- the outside world


def test_logpdf_outside_the_box_is_minus_infinity():
    dist = line()
    assert np.all(np.isneginf(dist.logpdf([-4.0, np.inf])))
    assert np.all(np.isneginf(dist.logpdf_pairs(np.full(5, 9.0))))


def test_points_come_in_every_sensible_form():
    expected = line().pdf([0.5])
    for y in (0.5, [[0.5]], np.array([0.5])):
        np.testing.assert_array_equal(line().pdf(y), expected)
    np.testing.assert_array_equal(plane().pdf([0.5, 0.1]), plane().pdf([[0.5, 0.1]]))


def test_each_query_has_its_own_points():
    for dist, d in ((line(), 1), (plane(), 2)):
        own = np.random.default_rng(2).uniform(-1.5, 1.5, (5, 6, d))
        wanted = [one.pdf(points)[0] for one, points in zip(dist, own, strict=True)]
        np.testing.assert_allclose(dist.pdf_each(own), wanted, rtol=1e-10, atol=1e-14)
        for wrong in (own[:3], own[0], np.zeros((5, 2, d + 1))):
            with pytest.raises(InvalidInputError, match=r"points must be \(5, G"):
                dist.pdf_each(wrong)


def test_expect_of_several_functions_and_of_a_column():
    dist = plane()
    both = dist.expect(lambda y: np.stack([y[:, 0], y[:, 0] * y[:, 1]], axis=1))
    np.testing.assert_allclose(both[:, 0], dist.mean()[:, 0], rtol=1e-9)
    cross = dist.cov()[:, 0, 1] + dist.mean()[:, 0] * dist.mean()[:, 1]
    np.testing.assert_allclose(both[:, 1], cross, atol=1e-9)
    assert dist.expect(lambda y: y[:, :1]).shape == (5, 1)


def test_summary_equals_the_single_questions():
    dist, y = plane(), np.random.default_rng(2).uniform(-1.5, 1.5, (5, 2))
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
    flat = line().summary(["mean", "q05"])
    assert flat["mean"].shape == flat["q05"].shape == (5,)


def test_summary_is_one_pass(monkeypatch):
    source = Known(LINE)
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
        call(plane())


# --- predictions of other kinds than node masses


def test_kept_chunks_are_joined(monkeypatch):
    source = Known(nested(1))
    monkeypatch.setattr(module, "_CHUNK_ELEMENTS", 2 * source.width)
    dist = ConditionalDistribution(source, flat=True)
    first = dist.mean()
    np.testing.assert_allclose(dist.mean(), first)
    np.testing.assert_allclose(dist[2].mean(), first[2:])
    assert source.asked == [2, 1]


def test_a_tail_reaches_beyond_the_box():
    dist = distribution(LINES["mixture"])
    far = np.full(3, 1e150)
    assert np.all(np.isfinite(dist.logpdf_pairs(far)))
    assert np.all(np.isfinite(dist.logpdf([-1e200, 40.0])))
    assert np.all(np.isfinite(dist.summary(["logpdf"], far)["logpdf"]))
    np.testing.assert_array_equal(dist.quantile([0.0, 1.0]), np.tile([-np.inf, np.inf], (3, 1)))


def test_crps_needs_one_output():
    with pytest.raises(InvalidInputError, match="crps is defined for one output, here are 2"):
        plane().crps(np.zeros((5, 2)))
    with pytest.raises(InvalidInputError, match="Y must have one row per query"):
        line().crps(np.zeros(2))


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
        call(distribution(LINE, signed=True)[0])


def test_a_signed_density_has_moments_and_values():
    layout, masses = LINE.layout, LINE.masses[:1].copy()
    masses[0, 0] -= 0.01
    masses[0, 20] += 0.01
    dist = on(layout, masses, signed=True)
    assert dist.pdf(layout.grid.axes[0]).min() < 0
    np.testing.assert_allclose(dist.expect(lambda y: y), dist.mean(), rtol=1e-9)
    assert np.isfinite(dist.var()[0])
    assert dist.mode().shape == (1,)


def test_a_negative_variance_is_nan_with_a_warning():
    layout = GridLayout(Grid(np.array([-3.0]), np.array([3.0]), (3,)))
    masses = np.array([[-0.5, 2.0, -0.5], [0.25, 0.5, 0.25]])
    dist = on(layout, masses, signed=True)
    for ask in (dist.var, dist.std):
        with pytest.warns(KcdoWarning, match="negative variance here; it is returned as NaN"):
            values = ask()
        assert np.isnan(values[0])
        assert values[1] > 0
