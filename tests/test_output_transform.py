"""One output: its transform, atoms, rows that are smoothed, and the metric that is learnt."""

import numpy as np
import pytest

import kcdo
from kcdo.components import Atoms, Effort, Settings
from kcdo.distributions import SpikesBatch
from kcdo.fitting.local import LocalLoss, Neighbourhoods
from kcdo.fitting.metric import MetricSearch
from kcdo.fitting.metric_choice import _settled, choose_metrics, feature_map, used_features
from kcdo.fitting.objectives import RegressionLoss
from kcdo.fitting.smoothed import mixing_shares
from kcdo.fitting.transform import _or_normal_scores
from kcdo.kernels import FeatureMap, FreeScales, Gaussian, Laplace, Matern, metric_coordinates
from kcdo.rows import Rows
from kcdo.systems import ExactRows, Finder, Groups
from kcdo.transforms import normal_scores, standardised
from tests.differences import assert_gradient
from tests.efforts import SHORT

M = kcdo.ConditionalDensityOperator


def skewed(n=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.exp(X[:, 0] + 0.3 * rng.normal(size=n))


@pytest.fixture(scope="module")
def model():
    return M().fit(*skewed())


def test_densities_integrate_to_one_and_agree_with_cdf_and_quantiles(model):
    X, y = skewed(5, seed=1)
    dist = model.conditional(X)
    grid = np.linspace(0.0, 200.0, 400_001)
    pdf = dist.pdf(grid)
    np.testing.assert_allclose(np.trapezoid(pdf, grid, axis=1), 1.0, atol=5e-3)
    levels = np.array([0.05, 0.5, 0.9])
    quantiles = dist.quantile(levels)
    each = np.array([dist[i].cdf(quantiles[i])[0] for i in range(5)])
    np.testing.assert_allclose(each, np.tile(levels, (5, 1)), atol=1e-6)
    assert np.all(np.isfinite(dist.logpdf_pairs(y)))


def test_a_skewed_output_is_foretold_better_than_without(model):
    X, y = skewed(400, seed=2)
    straight = M(output_transform=None).fit(*skewed())
    assert model.score(X, y) > straight.score(X, y) - 0.02
    assert model.report_.weights["smoothed"] >= 0.0


def test_it_is_saved_refitted_and_asked_at_uncertain_inputs(model, tmp_path):
    X, y = skewed()
    model.save(tmp_path / "model.kcdo")
    loaded = kcdo.load(tmp_path / "model.kcdo")
    # arrays of a file lie in memory in one order, in which some processors round sums otherwise
    np.testing.assert_allclose(loaded.predict(X[:4]), model.predict(X[:4]), rtol=1e-12)
    again = model.refit(X, y)
    np.testing.assert_allclose(again.predict(X[:4]), model.predict(X[:4]), rtol=1e-6)
    narrow = model.conditional(kcdo.GaussianInput(X[:2], 1e-12)).mean()
    np.testing.assert_allclose(narrow, model.predict(X[:2]), rtol=1e-3)


@pytest.mark.usefixtures("short_searches")
def test_moments_of_certain_inputs_are_those_of_points_beside_a_bound():
    X, y = skewed(40)
    model = M(support=(0, None)).fit(X, y)
    expected = model.conditional(X[:2])
    for inputs in (kcdo.GaussianInput(X[:2], [0.0, 0.0]), kcdo.SampleInput(X[:2, None])):
        found = model.conditional(inputs)
        np.testing.assert_allclose(found.mean(), expected.mean(), rtol=1e-9)
        np.testing.assert_allclose(found.std(), expected.std(), rtol=1e-9)


@pytest.mark.parametrize("discrete", [True, False])
def test_atoms_keep_their_probability(discrete):
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (240, 1))
    zero = rng.uniform(size=240) < 0.5 + 0.4 * np.sign(X[:, 0])
    y = np.where(zero, 0.0, rng.integers(1, 4, 240) if discrete else 1.0 + rng.gamma(2.0, size=240))
    with pytest.warns(kcdo.DiscreteOutputWarning) if discrete else _nothing():
        model = M().fit(X, y)
    dist = model.conditional([[-0.5], [0.5]])
    at_zero = np.diff(dist.cdf([-0.2, 0.2]), axis=1)[:, 0]
    np.testing.assert_allclose(at_zero, [0.1, 0.9], atol=0.12)


def test_values_that_are_foretold_more_exactly_than_they_are_rounded_are_atoms():
    X = np.random.default_rng(5).uniform(0.0, 40.0, (160, 1))
    y = np.round(X[:, 0]) / 10.0
    dist = M().fit(X, y).conditional([[10.0], [20.1]])
    places, probabilities = dist.atoms()
    assert len(places) == len(np.unique(y))
    np.testing.assert_allclose(places[np.argmax(probabilities, axis=1)], [1.0, 2.0])
    assert dist.crps([1.0, 2.0]).max() < 0.02  # a gap is 0.1


def _nothing():
    import contextlib

    return contextlib.nullcontext()


def test_an_unknown_transform_is_refused():
    with pytest.raises(kcdo.InvalidInputError, match="output_transform must be"):
        M(output_transform="log").fit([[0.0], [1.0]], [0.0, 1.0])


# --- the metric


@pytest.mark.parametrize("template", [Matern(smoothness=0.5), Matern(), Gaussian(), Laplace()])
def test_slopes_of_the_local_loss(template):
    rng = np.random.default_rng(0)
    X, targets = rng.normal(size=(60, 3)), rng.normal(size=(60, 2))
    scales, theta = FreeScales(template, 3), np.array([0.8, 0.9, 1.1, -2.0])
    coordinates = metric_coordinates(scales.kernel(theta[:-1]), X)
    near = Neighbourhoods.of(coordinates, np.arange(0, 60, 3), 12)
    assert_gradient(LocalLoss(scales, X, targets, near), theta)


@pytest.mark.parametrize("repeated", [False, True])
def test_slopes_of_the_exact_loss(repeated):
    rng = np.random.default_rng(1)
    X, targets = rng.normal(size=(30, 2)), rng.normal(size=(30, 2))
    X[: 12 if repeated else 0] = X[0]
    groups = Groups.of(X, rng.uniform(0.5, 2.0, 30))
    loss = RegressionLoss(FreeScales(Matern(), 2), groups, targets - targets.mean(axis=0))
    assert_gradient(loss, np.array([0.3, -0.2, -1.0]))


def test_with_all_other_rows_as_neighbours_it_is_exact_leave_one_out():
    rng = np.random.default_rng(1)
    X, targets = rng.normal(size=(25, 2)), rng.normal(size=(25, 1))
    scales, theta = FreeScales(Gaussian(), 2), np.array([0.2, 0.4, -1.0])
    local = LocalLoss(scales, X, targets, Neighbourhoods.of(X, np.arange(25), 24))
    noise = np.exp(-1.0)
    system = ExactRows(scales.kernel(theta[:-1]), Groups.of(X)).factor(noise / 25)
    kept, errors = system.one_minus_leverage(), targets - system.held_out(targets)
    v = noise / kept
    expected = 0.5 * np.log(np.mean(errors[:, 0] ** 2 / v)) + 0.5 * np.mean(np.log(v))
    assert local(theta)[0] == pytest.approx(expected, abs=1e-6)
    groups = Groups.of(X)
    exact = RegressionLoss(scales, groups, targets)
    gram = scales.kernel(theta[:-1])(groups.points)
    inverse = np.linalg.inv(gram + (noise + 1e-10) * np.eye(25))
    left_out = exact._left_out(inverse, noise)[0]
    assert left_out == pytest.approx(expected, abs=1e-6)
    for loss in (local, exact):
        value, error = loss.judged(theta)
        assert value == pytest.approx(loss(theta)[0], abs=1e-10)
        assert error == pytest.approx(np.abs(errors).mean(), abs=1e-6)


def test_a_column_that_says_nothing_gets_a_long_scale():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(200, 2))
    rows = Rows(X, np.sin(2 * X[:, :1]) + 0.1 * rng.normal(size=(200, 1)), np.ones(200))
    for effort in (Effort(), Effort(exact_judged=100, local_judged=(60, 80))):
        metric = choose_metrics(rows, Settings(effort=effort), Matern(), FeatureMap(()))[0]
        scales = np.array(metric.kernel.scale)
        assert scales[1] > 3.0 * scales[0]


def test_few_rows_of_many_columns_without_signal_share_one_scale():
    rng = np.random.default_rng(3)
    X, Y = rng.normal(size=(40, 12)), rng.normal(size=(40, 1))
    metric = choose_metrics(Rows(X, Y, np.ones(40)), Settings(), Matern(), FeatureMap(()))[0]
    search = MetricSearch(X, Y, np.ones(40), Matern(), np.arange(12), Settings(), None)
    free = search.learnt(np.append(search.middle, np.log(0.1)))
    assert metric.shared or metric.inflation > 1.0
    assert np.ptp(np.log(metric.kernel.scale)) <= np.ptp(free[:-1]) + 1e-9


@pytest.mark.parametrize("p", [3, 30])
def test_no_metric_leaves_columns_out(p):
    # beyond 24 columns there are no ranks, and the second metric is that of another family
    rng = np.random.default_rng(3)
    X, Y = rng.normal(size=(60, p)), rng.normal(size=(60, 1))
    features = feature_map(X, kcdo.Automatic(), Effort())
    rows = Rows(features(X), Y, np.ones(60))
    settings = Settings(effort=SHORT)
    for metric in choose_metrics(rows, settings, kcdo.Automatic(), features):
        assert np.all(np.log(metric.kernel.scale[:p]) < 15.0)


@pytest.mark.parametrize(("n", "exact_judged"), [(240, 1000), (900, 300)])
def test_held_out_errors_choose_how_long_tails_are_seen(n, exact_judged):
    rng = np.random.default_rng(5)
    x = np.exp(1.5 * rng.normal(size=(n, 6)))
    settings = Settings(effort=Effort(exact_judged=exact_judged, local_judged=(200, 300)))
    features = feature_map(x, kcdo.Automatic(), Effort())
    raw = {i for i, feature in enumerate(features.features) if feature.kind == "raw"}
    assert len(raw) == 6
    for y, expected in ((x.sum(axis=1), True), (np.log(x).sum(axis=1), False)):
        noisy = (y - y.mean()) / y.std() + 0.3 * rng.normal(size=n)
        rows = Rows(features(x), np.clip(noisy, -4, 4)[:, None], np.ones(n))
        metric = choose_metrics(rows, settings, kcdo.Automatic(), features)[0]
        scales = np.array(metric.kernel.scale)  # a column with a long one does not count
        assert bool(scales[list(raw)].min() < 5.0 * scales[metric.columns].min()) is expected
        used = used_features([metric], 18)
        pruned, X = metric.on(used, 18), features.take(used)(x)
        np.testing.assert_allclose(pruned.kernel(X), metric.kernel(rows.X), atol=1e-4)


def test_outputs_that_are_normal_already_need_no_scores(monkeypatch, rng):
    """No metric is learnt for normal scores of outputs that are about a straight line of them."""
    tried = []
    monkeypatch.setattr("kcdo.fitting.transform.same_metric", lambda *given: tried.append(given))
    rows = Rows(rng.normal(size=(200, 2)), rng.normal(size=(200, 1)), np.ones(200))
    straight, metrics = standardised(rows.Y[:, 0], rows.weights), [object()]
    assert _or_normal_scores(straight, metrics, rows, Settings()) == (straight, metrics)
    assert not tried


def test_locations_that_hardly_differ_do_not_tell_outputs():
    # a held-out mean moves away from the output that it leaves out: neighbours in its order know it
    rng = np.random.default_rng(4)
    x = rng.uniform(-np.pi, np.pi, 500)
    y = np.sign(rng.normal(size=500)) * np.sin(x) + 0.1 * rng.normal(size=500)
    model = M().fit(x[:300, None], y[:300])
    levels = np.array(
        [model.conditional(x[i : i + 1, None]).cdf(y[i])[0, 0] for i in range(300, 400)]
    )
    assert np.mean(np.abs(levels - 0.5) < 0.45) > 0.8


# --- pieces


def test_coinciding_points_are_no_neighbours():
    points = np.repeat(np.arange(5.0), 3)[:, None]
    found = Finder(points).nearest_distinct(np.array([0, 7]), 3)
    assert not np.any(points[found[0]] == 0.0)
    assert not np.any(points[found[1]] == points[7])


def test_normal_scores_are_normal_and_invertible():
    y = np.exp(2 * np.random.default_rng(4).normal(size=500))
    table = normal_scores(y)
    scores = table.forward(y)
    assert abs(scores.mean()) < 0.1
    assert 0.85 < scores.std() < 1.1
    np.testing.assert_allclose(table.inverse(scores), y, rtol=1e-9)
    np.testing.assert_allclose(standardised(y).forward(y).std(), 1.0)


def test_features_have_unit_spread_and_constant_columns_none():
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.normal(size=300), np.exp(2 * rng.normal(size=300)), np.ones(300)])
    features = FeatureMap.of(X, scores=True)(X)
    assert features.shape == (300, 5)  # the long tail twice, drawn in and as it is
    np.testing.assert_allclose(features.std(axis=0), 1.0, atol=0.05)


def test_which_values_are_atoms():
    rng = np.random.default_rng(6)
    assert Atoms.of(rng.normal(size=200)) is None
    capped = np.minimum(rng.normal(size=400), 1.0)
    np.testing.assert_array_equal(Atoms.of(capped).places, [1.0])
    counts = Atoms.of(rng.integers(0, 4, 100).astype(float))
    assert counts.every_value
    assert counts.width == pytest.approx(0.1)


def test_spikes_agree_with_themselves():
    rng = np.random.default_rng(7)
    spikes = SpikesBatch(np.array([0.0, 1.0, 3.0]), 0.2, rng.dirichlet(np.ones(3), 4))
    grid = np.linspace(-1.0, 4.0, 100_001)
    pdf = spikes.pdf(grid[:, None])
    np.testing.assert_allclose(np.trapezoid(pdf, grid, axis=1), 1.0, atol=1e-3)
    mean, variance = spikes.moments()
    np.testing.assert_allclose(mean[:, 0], np.trapezoid(pdf * grid, grid, axis=1), atol=1e-2)
    levels = np.array([0.1, 0.6, 0.95])
    quantiles = spikes.quantile(levels)
    np.testing.assert_allclose(spikes.cdf_each(quantiles), np.tile(levels, (4, 1)), atol=1e-9)
    draws = spikes.sample(rng.uniform(size=(4, 20_000, 2)))
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=0.05)
    assert spikes.take([0]).joined([spikes.take([1])]).probabilities.shape == (2, 3)
    assert np.all(variance > 0)


def test_shares_find_the_component_that_made_the_rows():
    table = np.column_stack([np.full(50, 2.0), np.full(50, 0.5)])
    assert mixing_shares(table, np.ones(50), 200)[0] > 0.99


def test_moments_through_a_table_are_within_a_thousandth_of_an_sd(model, monkeypatch):
    dist = model.conditional(skewed(40, seed=7)[0])
    mean, sd = dist.mean(), dist.std()
    monkeypatch.setattr(type(model._operator.transform), "nearly_linear", False)
    exact = model.conditional(skewed(40, seed=7)[0])
    np.testing.assert_allclose(mean, exact.mean(), atol=1e-3 * exact.std().min(), rtol=1e-3)
    np.testing.assert_allclose(sd, exact.std(), rtol=1e-2)


# --- the shape of densities through a table


@pytest.fixture(scope="module", params=range(3))
def beside_zero(request):
    """Fits to 100 rows of a gamma distribution that does not depend on the input."""
    rng = np.random.default_rng(request.param)
    X = rng.uniform(-1, 1, (100, 1))
    return M(support=(0, None)).fit(X, rng.gamma(3.0, size=100))


def test_a_gamma_density_has_one_mode_away_from_its_bound(beside_zero):
    dist = beside_zero.conditional([[-0.5], [0.0], [0.5]])
    assert np.all((dist.mode() > 1.0) & (dist.mode() < 3.5))  # the truth is 2
    # what a component leaves below the outputs may be a sliver beside the bound
    assert all(np.sum(modes.places > 0.2) == 1 for modes in dist.modes())
    assert max(len(region.intervals) for region in dist.hpd(0.9)) <= 2
    assert max(len(region.intervals) for region in dist.hpd(0.5)) <= 2


def test_a_gamma_density_is_small_beside_its_bound(beside_zero):
    pdf = beside_zero.conditional([[0.0]]).pdf(np.logspace(-12, -1, 200))
    assert pdf.max() < 0.15  # half of the highest, 0.27 in truth


def test_densities_do_not_jump_at_knots(beside_zero, model):
    for fitted, x in ((beside_zero, [[0.2]]), (model, [[0.2, 0.1]])):
        table, outer = fitted._operator.transform, fitted._transform
        dist, knots = fitted.conditional(x), table.places
        knots = knots if outer is None else outer.inverse(knots[:, None])[:, 0]
        hair = 1e-9 * (knots[-1] - knots[0])
        left, right = (dist.pdf(knots + sign * hair) for sign in (-1.0, 1.0))
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-12)


def test_one_scale_for_all_columns_costs_one_nat_of_all_rows():
    rng = np.random.default_rng(5)
    X, settings = (
        rng.normal(size=(80, 6)),
        Settings(effort=Effort(crossed_rows=0, crossed_per_column=0)),
    )
    targets = X.sum(axis=1, keepdims=True) / 6**0.5 + 0.3 * rng.normal(size=(80, 1))
    search = MetricSearch(X, targets, np.ones(80), Gaussian(), np.arange(6), settings, None)
    hopeless = np.append(search.middle + 6.0, np.log(3.0))
    metric = _settled(search, [hopeless])
    assert metric.shared
    theta = metric.theta(6)
    assert np.ptp(theta[:-1]) == pytest.approx(0.0, abs=1e-12)
    loss, error = search.objective(theta, 1).judged(theta)
    assert metric.loss == pytest.approx(loss + 1.0 / 80 + np.log(error), abs=1e-9)


@pytest.mark.usefixtures("short_searches")
def test_a_kernel_of_the_user_takes_inputs_in_any_unit(rng):
    """Its scales are sought about the spread of the columns, which no feature brings to 1."""
    X = rng.normal(size=(40, 2))
    y = np.sin(X[:, 0]) + 0.2 * rng.normal(size=40)
    units = np.array([2.0**12, 2.0**-10])
    one, other = (kcdo.ConditionalDensityOperator(Matern()).fit(X * u, y) for u in (1.0, units))
    np.testing.assert_allclose(one.predict(X[:9]), other.predict(X[:9] * units), rtol=1e-6)


def cells(n, seed):
    """Inputs of 20 cells, which come back as a rule."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, [5, 4], size=(n, 2)).astype(float), rng


def test_inputs_that_come_back_have_transformed_outputs(short_searches, tmp_path):
    X, rng = cells(300, 0)
    y = np.exp(X[:, 0] - X[:, 1] + 0.8 * rng.normal(size=300))
    model, straight = M().fit(X, y), M(output_transform=None).fit(X, y)
    test, rng = cells(500, 1)
    outputs = np.exp(test[:, 0] - test[:, 1] + 0.8 * rng.normal(size=500))
    assert model.score(test, outputs) > straight.score(test, outputs) + 0.1
    levels = kcdo.metrics.pit_values(model.conditional(test), outputs)
    assert np.mean(np.abs(levels - 0.5) < 0.45) == pytest.approx(0.9, abs=0.05)
    again = model.refit(X, y).conditional(test[:5])
    np.testing.assert_allclose(again.quantile(0.9), model.conditional(test[:5]).quantile(0.9))
    model.save(tmp_path / "model.kcdo")
    loaded = kcdo.load(tmp_path / "model.kcdo").conditional(test[:5])
    np.testing.assert_array_equal(loaded.quantile(0.9), model.conditional(test[:5]).quantile(0.9))


def test_inputs_that_come_back_have_atoms(short_searches):
    X, rng = cells(300, 0)
    zero = rng.random(300) < 0.1 + 0.15 * X[:, 0]
    y = np.where(zero, 0.0, np.exp(0.5 * rng.normal(size=300)))
    places, probabilities = M().fit(X, y).conditional([[0.0, 1.0], [4.0, 1.0]]).atoms()
    np.testing.assert_array_equal(places, [0.0])
    np.testing.assert_allclose(probabilities[:, 0], [0.1, 0.7], atol=0.15)


@pytest.mark.filterwarnings("ignore::kcdo.KcdoWarning")
def test_values_that_no_row_has_are_possible(short_searches, rng):
    """Counts: one beyond all that were seen has the probability of those that were seen once."""
    X = rng.uniform(0, 2, size=(400, 1))
    y = rng.poisson(1 + X[:, 0]).astype(float)
    y[0] = y.max() + 1  # that came once
    dist = M().fit(X, y).conditional(X[:20])
    beyond = dist.logpdf(np.array([y.max() + 1]))
    assert np.all(np.isfinite(beyond))
    total = dist.atoms()[1].sum(axis=1)
    once = np.sum(np.unique(y, return_counts=True)[1] == 1)
    np.testing.assert_allclose(1 - total, once / 401, rtol=1e-3)
