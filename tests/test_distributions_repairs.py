"""Answers that once disagreed with one another, each with the case that showed it."""

import numpy as np
import pytest
from scipy.stats import norm

import kcdo
from kcdo.distributions import (
    AffineBatch,
    GridLayout,
    MixtureBatch,
    NodeBatch,
    ScatteredLayout,
    StudentTail,
    TransformedBatch,
)
from kcdo.errors import AccuracyWarning, InvalidInputError, SignedDensityError
from kcdo.measures import Grid
from kcdo.transforms import Above, Between
from tests.distribution_kinds import LINES, PLANES, distribution, on_grid, with_tail


@pytest.fixture(scope="module")
def waves():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (120, 1))
    return X, np.sin(X[:, 0]) + 0.3 * rng.standard_normal(120)


# --- events


@pytest.mark.parametrize(
    "options",
    [
        {"kernel_y": kcdo.Laplace(0.2)},
        {"reference": "sample"},
        {"reference": kcdo.QuasiRandomBox(-2.5, 2.5, 200)},
        {"support": (-2.5, 2.5)},
        {"support": (-2.5, None)},
    ],
    ids=str,
)
def test_the_expectation_of_an_event_is_its_probability(options, waves):
    X, y = waves
    if options.get("reference") == "sample":
        options = {"reference": kcdo.Sample(y[:, None])}
    model = kcdo.ConditionalDensityOperator(selection="heuristic", **options).fit(X, y)
    dist = model.conditional(X[:20])
    low, high = dist.cdf([-0.1, 0.1]).T
    event = dist.expect(lambda z: (z > -0.1) & (z < 0.1))
    np.testing.assert_allclose(event, high - low, atol=1e-9)
    np.testing.assert_allclose(dist.expect(lambda z: z > 0.1), 1.0 - high, atol=1e-9)


def test_several_events_at_once_and_narrow_ones():
    dist = distribution(LINES["nested mixture"])
    places = dist.quantile([0.3, 0.302, 0.5])[0]
    found = dist.expect(lambda y: y[:, None] <= places)
    np.testing.assert_allclose(found, dist.cdf(places), atol=1e-9)
    narrow = dist.expect(lambda y: (y > places[0]) & (y < places[1]))
    np.testing.assert_allclose(narrow, np.diff(dist.cdf(places[:2]))[:, 0], atol=1e-9)


def test_steps_kinks_and_poles_of_functions():
    dist = distribution(
        NodeBatch(GridLayout(Grid(np.zeros(1), np.ones(1), (2,))), np.full((1, 2), 0.5))
    )
    assert dist.expect(lambda y: np.floor(37 * y))[0] == pytest.approx(18.0, abs=1e-8)
    assert dist.expect(lambda y: np.abs(y - 0.3))[0] == pytest.approx(0.29, abs=1e-10)
    assert dist.expect(lambda y: np.log(np.abs(y - 0.3)))[0] == pytest.approx(
        0.3 * np.log(0.3) + 0.7 * np.log(0.7) - 1.0, abs=1e-8
    )
    assert dist.expect(lambda y: np.cos(200 * y))[0] == pytest.approx(np.sin(200) / 200, abs=1e-9)


def test_a_function_without_order_is_answered_with_a_warning():
    dist = distribution(LINES["grid"])
    rng = np.random.default_rng(0)
    with pytest.warns(AccuracyWarning, match="too rough to be followed everywhere"):
        found = dist.expect(lambda y: rng.random(len(y)))
    np.testing.assert_allclose(found, 0.5, atol=0.1)


@pytest.mark.parametrize("batch", PLANES.values(), ids=PLANES)
def test_events_of_two_outputs(batch):
    dist = distribution(batch)
    low, high = dist.quantile([0.2, 0.7]).mean(axis=0)
    ends = np.array([high, [low[0], high[1]], [high[0], low[1]], low])
    box = dist.cdf(ends) @ [1, -1, -1, 1]

    def inside(y):
        return np.all((y > low) & (y < high), axis=1)

    np.testing.assert_allclose(dist.expect(inside), box, atol=1e-12)
    np.testing.assert_allclose(dist.expect(lambda y: ~inside(y)), 1 - box, atol=1e-12)
    quadrant = dist.expect(lambda y: (y[:, 0] > low[0]) & (y[:, 1] <= high[1]))
    expected = dist.marginal(1).cdf([high[1]])[:, 0] - dist.cdf(ends[1:2])[:, 0]
    np.testing.assert_allclose(quadrant, expected, atol=1e-12)
    # no boxes: a disc, a half plane, nowhere, everywhere
    centre, radius = 0.5 * (low + high), 0.5 * np.min(high - low)
    draws = dist.sample(20_000, random_state=0)
    for event in (
        lambda y: np.sum((y - centre) ** 2, axis=-1) < radius**2,
        lambda y: y[..., 0] + y[..., 1] > centre.sum(),
    ):
        np.testing.assert_allclose(dist.expect(event), event(draws).mean(axis=1), atol=0.03)
    np.testing.assert_array_equal(dist.expect(lambda y: np.zeros(len(y))), 0.0)
    np.testing.assert_allclose(dist.expect(lambda y: np.ones(len(y))), 1.0, rtol=1e-9)


# --- modes


def test_the_mode_of_bumps_is_between_nodes():
    """Three bumps side by side are higher between nodes than at any of them."""
    nodes = np.array([[0.0], [0.5], [5.0]])
    layout = ScatteredLayout(nodes, np.array([[0.5], [0.5], [0.45]]))
    batch = NodeBatch(layout, np.array([[0.34, 0.34, 0.32]]))
    assert batch.mode()[0, 0] == pytest.approx(0.25, abs=1e-6)
    (modes,) = distribution(batch).modes()
    np.testing.assert_allclose(modes.places, [0.25, 5.0], atol=1e-6)
    expected = 0.68 * norm.pdf(0.25, 0, 0.5), 0.32 * norm.pdf(0, 0, 0.45)
    np.testing.assert_allclose(modes.heights, expected, rtol=1e-6)


def test_joint_modes_are_between_nodes_too():
    nodes = np.array([[0.0, 0.0], [0.5, 0.0], [0.25, 0.4]])
    batch = NodeBatch(ScatteredLayout(nodes, np.full((3, 2), 0.5)), np.full((1, 3), 1 / 3))
    points = np.stack(np.meshgrid(*[np.linspace(-0.5, 1, 151)] * 2), -1).reshape(-1, 2)
    assert batch.pdf_pairs(batch.mode())[0] >= batch.pdf(points).max() * (1 - 1e-4)


def test_modes_of_a_grid_are_its_nodes_and_a_plateau_has_one():
    layout = GridLayout(Grid(np.zeros(1), np.array([8.0]), (8,)))
    masses = np.array([[0.05, 0.3, 0.05, 0.05, 0.15, 0.15, 0.05, 0.2]])
    (modes,) = distribution(NodeBatch(layout, masses)).modes()
    np.testing.assert_array_equal(modes.places, [1.5, 7.75, 5.0])  # flat beyond the last node
    np.testing.assert_allclose(modes.heights, [0.3, 0.2, 0.15])
    (few,) = distribution(NodeBatch(layout, masses)).modes(prominence=0.4)
    assert len(few.places) == 2


def test_ripples_are_no_modes_unless_they_are_asked_for():
    """Two hills with ripples: a reader of the curve names two modes, also of equal heights."""
    layout = GridLayout(Grid(np.array([-4.0]), np.array([4.0]), (200,)))
    y = layout.nodes[:, 0]
    for second, places in ((0.5, [-1.5, 1.5]), (0.12, [-1.5, 1.5]), (0.08, [-1.5])):
        hills = norm.pdf(y, -1.5, 0.5) + second * norm.pdf(y, 1.5, 0.5)
        masses = hills * (1 + 0.01 * np.cos(np.pi * np.arange(200)))
        dist = distribution(NodeBatch(layout, masses[None] / masses.sum()))
        np.testing.assert_allclose(dist.modes()[0].places, places, atol=0.05)
        assert len(dist.modes(prominence=1e-4)[0].places) > len(places)
    even = np.cos(np.pi * (np.arange(200) - 99.5) / 2) ** 2 + 20.0  # ripples of one height
    dist = distribution(NodeBatch(layout, even[None] / even.sum()))
    assert len(dist.modes()[0].places) == 1


def test_a_heavy_tail_has_no_density_at_a_bound():
    """The tail has a tenth of the probability, and a density that vanishes at the bound."""
    dist = distribution(LINES["above with a tail"])
    centre = dist.quantile([0.001, 0.999])
    for one, mode, (low, high) in zip(dist, dist.mode(), centre, strict=True):
        line = np.linspace(low, high, 5001)
        assert one.pdf(mode)[0, 0] >= one.pdf(line).max() * (1 - 1e-8)
        near = one.pdf([1e-300, 1e-12, 1e-6])[0]
        assert np.all(np.diff(near) > 0)
        assert near[-1] < one.pdf(mode)[0, 0]
        (region,) = one.hpd(0.8)
        held = np.diff(one.cdf(region.intervals.ravel()).reshape(-1, 2), axis=1).sum()
        assert held == pytest.approx(0.8, abs=1e-9)
        assert not np.any(region.contains([1e-200, 1e-100]))


@pytest.mark.parametrize("transform", [Between(-1.0, 1.0), Above(0.0, 1.0)], ids=repr)
def test_regions_of_heavy_tails_do_not_reach_the_bounds(transform):
    batch = TransformedBatch(with_tail(on_grid(31)), transform)
    moved = AffineBatch(batch, np.full((3, 1), 5.0), np.full((3, 1), 2.0))
    low, high = transform.lower, getattr(transform, "upper", np.inf)
    for each, shift, scale in ((batch, 0.0, 1.0), (moved, 5.0, 2.0)):
        for shape in each.regions(0.999):
            ends = (shape.intervals - shift) / scale
            assert np.all((ends > low + 1e-6) & (ends < high - 1e-6))


# --- regions


def test_a_plateau_at_the_top_is_the_region():
    """Its probability is more than asked for: no smaller region is higher."""
    layout = GridLayout(Grid(np.zeros(1), np.ones(1), (5,)))
    masses = np.array([[0.5, 3.6484375, 3.6484375, 3.6484375, 3.6484375]])
    masses /= masses.sum()
    (region,) = distribution(NodeBatch(layout, masses)).hpd(0.25)
    np.testing.assert_allclose(region.intervals, [[0.3, 1.0]], atol=1e-9)
    assert region.density_level == pytest.approx(masses[0, 1] / 0.2)


@pytest.mark.parametrize("reference", ["sample", "quasi"])
def test_regions_on_scattered_nodes_hold_what_they_say(reference, waves):
    X, y = waves
    measure = kcdo.Sample(y[:, None]) if reference == "sample" else kcdo.QuasiRandomBox(-2, 2, 64)
    model = kcdo.ConditionalDensityOperator(selection="heuristic", reference=measure).fit(X, y)
    dist = model.conditional(X[:10])
    for one, region in zip(dist, dist.hpd(0.7), strict=True):
        held = np.diff(one.cdf(region.intervals.ravel()).reshape(-1, 2), axis=1).sum()
        assert held == pytest.approx(0.7, abs=1e-9)
        assert region.volume == pytest.approx(np.diff(region.intervals, axis=1).sum())


# --- moments and entropy


def test_outliers_among_the_nodes_do_not_spoil_variances():
    rng = np.random.default_rng(0)
    nodes = np.append(rng.normal(size=200), 1e7)[:, None]
    masses = np.exp(-0.5 * nodes.T**2)
    batch = NodeBatch(ScatteredLayout(nodes, np.full((201, 1), 0.1)), masses / masses.sum())
    near = NodeBatch(ScatteredLayout(nodes[:-1], np.full((200, 1), 0.1)), batch.masses[:, :-1])
    np.testing.assert_allclose(batch.moments()[0], near.moments()[0], rtol=1e-9)
    np.testing.assert_allclose(batch.moments()[1], near.moments()[1], rtol=1e-9)


def test_variances_of_mixtures_with_outliers_are_expectations():
    box = on_grid(31, q=1)
    far = AffineBatch(box, np.array([[900.0]]), np.array([[0.5]]))
    tails = StudentTail(np.zeros((1, 1)), np.array([[40.0]]), 3.0)
    mixed = MixtureBatch([box, far, tails], np.array([0.98, 0.01, 0.01]))
    dist = distribution(mixed)
    mean = dist.mean()[0]
    assert dist.expect(lambda y: y)[0] == pytest.approx(mean, rel=1e-9)
    assert dist.expect(lambda y: (y - mean) ** 2)[0] == pytest.approx(dist.var()[0], rel=1e-9)


def test_entropy_of_one_bump_is_that_of_a_normal_distribution():
    layout = ScatteredLayout(np.array([[3.0]]), np.array([[0.2]]))
    found = NodeBatch(layout, np.ones((1, 1))).entropy()
    np.testing.assert_allclose(found, norm(3.0, 0.2).entropy(), rtol=1e-9)


def test_entropy_of_a_triangle_and_of_nearly_flat_densities():
    layout = GridLayout(Grid(np.zeros(1), np.array([3.0]), (3,)))
    triangle = NodeBatch(layout, np.array([[0.0, 1.0, 0.0]]))  # from 0.5 to 2.5
    np.testing.assert_allclose(triangle.entropy(), 0.5, rtol=1e-12)
    for rise in (0.0, 1e-9, 1e-3, 0.03, 0.0999, 0.1001):
        masses = np.array([[1.0 - rise, 1.0, 1.0 + rise]]) / 3
        dist = distribution(NodeBatch(layout, masses))
        by_pieces = dist.expect(lambda y, one=dist: -one.logpdf(y)[0])
        np.testing.assert_allclose(dist.entropy(), by_pieces, rtol=1e-10)


# --- scipy's names


def test_names_of_scipy():
    dist = distribution(LINES["mixture"])
    y = [-1.0, 0.0, 2.0]
    np.testing.assert_array_equal(dist.ppf([0.1, 0.5]), dist.quantile([0.1, 0.5]))
    np.testing.assert_array_equal(dist.median(), dist.quantile(0.5))
    np.testing.assert_array_equal(dist.sf(y), 1.0 - dist.cdf(y))
    np.testing.assert_allclose(dist.logsf(y), np.log(dist.sf(y)), rtol=1e-12)
    np.testing.assert_array_equal(dist.rvs(4, random_state=1), dist.sample(4, random_state=1))
    assert dist.rvs(random_state=1).shape == (3, 1)
    plane = distribution(PLANES["grid"])
    assert plane.median().shape == (3, 2)
    assert plane.support().shape == (3, 2, 2)
    np.testing.assert_array_equal(plane.support()[:, 0], plane.quantile(0.0))


def test_logsf_beyond_the_support_is_minus_infinity_but_for_rounding():
    assert np.all(distribution(LINES["grid"]).logsf([3.0, 10.0]) < -35)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: d.sf([[0.0, 0.0]]), "sf is defined for one output, here are 2"),
        (lambda d: d.logsf([[0.0, 0.0]]), "logsf is defined for one output, here are 2"),
        (lambda d: d.modes(), "modes is defined for one output, here are 2: take a marginal"),
        (lambda d: d.marginal(0).modes(0.0), "prominence must lie between 0 and 1; got 0.0"),
        (lambda d: d.marginal(0).modes(1.5), "prominence must lie between 0 and 1; got 1.5"),
    ],
)
def test_questions_without_an_answer(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call(distribution(PLANES["grid"]))


@pytest.mark.parametrize("ask", ["support", "median"])
def test_signed_densities_have_no_support(ask):
    with pytest.raises(SignedDensityError, match="not defined for positivity"):
        getattr(distribution(LINES["grid"], signed=True), ask)()


def test_an_event_that_is_rare_in_one_part_is_found_in_the_mixture():
    """A narrow part within one piece of a wide one: by parts, the wide one sees nothing of it."""
    wide = StudentTail(np.zeros((1, 1)), np.full((1, 1), 100.0), np.inf)
    narrow = StudentTail(np.full((1, 1), 0.3), np.full((1, 1), 1e-2), np.inf)
    batch = MixtureBatch([wide, narrow], np.array([0.9, 0.1]))
    dist = distribution(batch)
    low, high = 0.295, 0.305
    between = np.diff(dist.cdf([low, high])[0])[0]
    found = dist.expect(lambda y: (y > low) & (y < high))[0]
    assert found == pytest.approx(between, abs=1e-14)
    both = dist.expect(lambda y: np.stack([y > low, y < high], axis=1))[0]
    assert both == pytest.approx([dist.sf([low])[0, 0], dist.cdf([high])[0, 0]], abs=1e-14)
