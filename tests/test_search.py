"""Marginal likelihood and the searches: against plain algebra, and against known truths."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from kcdo.kernels import (
    Adapter,
    Automatic,
    Categorical,
    FreeScales,
    Gaussian,
    Laplace,
    Matern,
    Periodic,
)
from kcdo.linalg import Tikhonov
from kcdo.measures import UniformBox
from kcdo.systems import ExactSystem, Groups
from kcdo.tuning import (
    FAMILIES,
    DensitySearch,
    Effort,
    ExactSmoother,
    FilterSearch,
    Fixed,
    FixedSmoother,
    HeldOutLoss,
    LogScore,
    MarginalLikelihood,
    OutputFamily,
    Rows,
    Start,
    families,
    lowest_alpha,
    minimise,
    ridge_above,
    scale_per_length,
    search_alpha,
    search_mean,
    shortest_length,
)
from kcdo.tuning.densities import share_beside
from tests.differences import assert_gradient

FREE = FreeScales(Matern(smoothness=2.5), 2)
THETAS = [np.array([0.0, 0.3, -2.0]), np.array([-0.5, 1.0, -4.0]), np.array([0.7, -0.2, 0.5])]


def repeated_rows(seed=0, d=2):
    """Twelve rows on eight inputs, centred outputs."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(12, 2))
    X[[3, 7]] = X[0]
    X[9:11] = X[5]
    Y = np.sin(X[:, :1] + np.arange(d)) + 0.3 * rng.normal(size=(12, d))
    return X, Y - Y.mean(axis=0)


# --- marginal likelihood


def plain_likelihood(theta, X, Y):
    """-log p(Y | X) / (N d) with the signal variance at its best, from the N x N system."""
    n = len(Y)
    C = FREE.kernel(theta[:-1])(X) + np.exp(theta[-1]) * np.eye(n)
    variance = np.sum(Y * np.linalg.solve(C, Y), axis=0) / n
    return 0.5 * np.mean(np.log(variance)) + 0.5 * np.linalg.slogdet(C)[1] / n


def test_without_repeats_it_is_the_plain_formula():
    X, Y = repeated_rows()
    X = X + 0.1 * np.arange(12)[:, None]
    likelihood = MarginalLikelihood(FREE, Groups.of(X), Y)
    for theta in THETAS:
        assert likelihood(theta)[0] == pytest.approx(plain_likelihood(theta, X, Y), abs=1e-7)


def test_with_repeats_it_differs_by_a_constant():
    """The determinant of the group means lacks Σ log n_u, whatever the parameters."""
    X, Y = repeated_rows()
    groups = Groups.of(X)
    likelihood = MarginalLikelihood(FREE, groups, Y)
    constant = 0.5 * np.log(groups.totals).sum() / len(X)
    for theta in THETAS:
        expected = plain_likelihood(theta, X, Y)
        assert likelihood(theta)[0] + constant == pytest.approx(expected, abs=1e-6)


def test_counts_are_repeats():
    X, Y = repeated_rows()
    times = np.random.default_rng(1).integers(1, 4, 12)
    counted = MarginalLikelihood(FREE, Groups.of(X, times.astype(float)), Y)
    copied = MarginalLikelihood(
        FREE, Groups.of(np.repeat(X, times, axis=0)), np.repeat(Y, times, axis=0)
    )
    for theta in THETAS:
        assert counted(theta)[0] == pytest.approx(copied(theta)[0], rel=1e-10)
        np.testing.assert_allclose(counted(theta)[1], copied(theta)[1], rtol=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("template", [*FAMILIES, Matern().on([0]) * Periodic(9.0).on([1])])
@settings(max_examples=3)
@given(seed=st.integers(0, 2**32 - 1))
def test_its_gradient_by_differences(weighted, template, seed):
    rng = np.random.default_rng(seed)
    X, Y = repeated_rows(seed)
    weights = rng.uniform(0.5, 2.0, 12) if weighted else np.ones(12)
    likelihood = MarginalLikelihood(FreeScales(template, 2), Groups.of(X, weights), Y)
    assert_gradient(likelihood, rng.normal([0.0, 0.0, -1.5], 0.4))


def test_an_indefinite_kernel_is_refused_not_raised():
    X, Y = repeated_rows()
    free = FreeScales(Adapter(lambda a, b: -(a @ b.T)), 2)
    value, gradient = MarginalLikelihood(free, Groups.of(X), Y)(np.array([-9.0]))
    assert value >= 1e5
    np.testing.assert_array_equal(gradient, [0.0])


# --- pieces of the search


def test_rows():
    rows = Rows(np.arange(8.0).reshape(4, 2), np.arange(4.0)[:, None], np.array([1.0, 2.0, 1.0, 4]))
    some = rows.take(np.array([3, 0]))
    assert len(rows) == 4
    assert len(some) == 2
    np.testing.assert_array_equal(some.Y[:, 0], [3.0, 0.0])
    np.testing.assert_array_equal(some.weights, [4.0, 1.0])
    assert rows.with_outputs(rows.Y + 1).X is rows.X


@settings(max_examples=30)
@given(st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=12), st.floats(1e-6, 1e6))
def test_effective_weights_depend_on_ratios_alone(weights, unit):
    weights = np.array(weights)
    rows = [Rows(weights, weights, w).of_effective_weight() for w in (weights, unit * weights)]
    np.testing.assert_allclose(rows[0].weights, rows[1].weights, rtol=1e-9)
    assert rows[0].weights.sum() == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    equal = Rows(weights, weights, np.full(len(weights), unit)).of_effective_weight()
    np.testing.assert_allclose(equal.weights, 1.0, rtol=1e-12)


def test_families_of_the_automatic_kernel():
    assert families(Automatic()) == list(FAMILIES)
    mixed = families(Automatic().on([0, 1]) * Categorical().on([2]))
    assert mixed == [family.on([0, 1]) * Categorical().on([2]) for family in FAMILIES]
    assert families(Automatic() + Periodic(3.0))[4] == Laplace() + Periodic(3.0)
    for kernel in (Gaussian(), Laplace(2.0), Periodic(24.0) * Categorical(), Automatic(1.0)):
        assert families(kernel) == [kernel]


def test_minimise_stays_within_bounds():
    def bowl(theta):
        return float(np.sum((theta - 3.0) ** 2)), 2.0 * (theta - 3.0)

    theta, value = minimise(bowl, np.array([9.0, -9.0]), [(-5.0, 5.0), (-1.0, 2.0)], 30)
    np.testing.assert_allclose(theta, [3.0, 2.0], atol=1e-6)
    assert value == pytest.approx(1.0)
    theta, _ = minimise(bowl, np.zeros(2), [(0.5, 0.5), (-9.0, 9.0)], 30)
    np.testing.assert_allclose(theta, [0.5, 3.0], atol=1e-6)


def test_the_search_for_alpha_finds_the_bottom():
    asked = []

    def judge(alpha):
        asked.append(alpha)
        return (np.log(alpha) - np.log(2e-3)) ** 2

    assert lowest_alpha(judge, (-12.0, 0.0), 20) == pytest.approx(2e-3, rel=0.2)
    assert all(np.exp(-12.0) <= alpha <= 1.0 for alpha in asked)
    asked.clear()
    assert search_alpha(judge, 2.5e-3, 6) == pytest.approx(2.5e-3)
    assert asked == pytest.approx([2.5e-3, 2.5e-3 / 4, 2.5e-3 * 4])  # it is the lowest of three
    asked.clear()
    assert search_alpha(judge, 1.0, 9) == pytest.approx(4.0**-4)  # downhill, step by step
    assert len(asked) == 6
    asked.clear()
    assert search_alpha(judge, 1e-6, 3) == pytest.approx(4e-6)  # as far as it may ask
    asked.clear()
    assert search_alpha(judge, 1e-6, 3, upwards=False) == pytest.approx(1e-6)
    assert asked == pytest.approx([1e-6, 2.5e-7])
    asked.clear()
    assert search_alpha(judge, 20.0, 9, bounds=(0.0, 3.0)) == pytest.approx(1.0)
    assert asked[0] == pytest.approx(20.0)
    assert min(asked) == pytest.approx(1.0)
    assert search_alpha(lambda a: 1.0 if a == 1.0 else np.nan, 1.0, 9) == 1.0


@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_a_descent_stops_where_steps_gain_little_whatever_the_level(shift):
    asked = []

    def valley(theta):
        asked.append(theta)
        u, v = theta
        value = (1 - u) ** 2 + 100 * (v - u**2) ** 2 + shift
        return value, np.array([-2 * (1 - u) - 400 * u * (v - u**2), 200 * (v - u**2)])

    bounds = [(-5.0, 5.0)] * 2
    exact, least = minimise(valley, np.array([-1.2, 1.0]), bounds, 100)
    np.testing.assert_allclose(exact, 1.0, atol=1e-3)
    assert least == pytest.approx(shift, abs=1e-6)
    long = len(asked)
    asked.clear()
    _, value = minimise(valley, np.array([-1.2, 1.0]), bounds, 100, 0.5)
    assert len(asked) < long / 2
    assert 1e-3 < value - shift < 24.2


@settings(max_examples=50)
@given(st.floats(1e-3, 10.0), st.floats(0.0, 3.0), st.floats(-4.6, 4.6))
def test_no_output_kernel_is_narrower_than_its_floor(floor, longer, log_ridge):
    log_length = np.log(shortest_length(floor)) + longer
    lowered = ridge_above(floor, log_length, log_ridge)
    assert lowered <= log_ridge
    scale = np.exp(log_length) * scale_per_length(np.exp(lowered))
    assert scale >= floor * (1 - 1e-9)
    if np.exp(log_length) * scale_per_length(np.exp(log_ridge)) > floor * (1 + 1e-9):
        assert lowered == log_ridge


# --- what the searches find


def waves(n=80, seed=0):
    """A smooth function of the first of two inputs."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 2))
    return Rows(X, np.sin(X[:, :1]) + 0.1 * rng.normal(size=(n, 1)), np.ones(n))


def test_the_mean_finds_noise_and_switches_off_what_does_not_matter():
    (best,) = search_mean([Gaussian()], waves(), Effort(), 0.0, 0)
    relevant, irrelevant = best.kernel.scale
    assert 0.5 < relevant < 4.0
    assert irrelevant > 50.0
    system = ExactSystem(best.kernel, Groups.of(waves().X), best.noise / 80)
    errors = waves().Y - system.held_out(waves().Y)
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(0.1, rel=0.3)


@pytest.mark.parametrize(
    ("truth", "rough"), [(Gaussian(0.7), False), (Matern(0.7, smoothness=0.5), True)]
)
def test_the_likelihood_tells_smooth_from_rough(truth, rough):
    rng = np.random.default_rng(3)
    X = np.sort(rng.uniform(0, 4, (70, 1)), axis=0)
    path = np.linalg.cholesky(truth(X) + 1e-9 * np.eye(70)) @ rng.normal(size=(70, 1))
    rows = Rows(X, path + 0.01 * rng.normal(size=(70, 1)), np.ones(70))
    found = search_mean(families(Automatic()), rows, Effort(), 0.0, 0)
    assert [choice.loss for choice in found] == sorted(choice.loss for choice in found)
    assert {choice.template for choice in found} == set(FAMILIES)
    assert (found[0].template in (Matern(smoothness=0.5), Laplace())) == rough


def test_the_noise_has_a_floor_and_constant_outputs_do_not_count():
    rows = waves()
    rows = rows.with_outputs(np.column_stack([np.sin(rows.X[:, 0]), np.ones(80)]))
    free, floored = (search_mean([Gaussian()], rows, Effort(), least, 0)[0] for least in (0, 0.3))
    assert free.noise < 1e-3
    assert floored.noise == pytest.approx(0.3, rel=1e-9)
    assert np.isfinite(floored.loss)


def test_a_noise_above_every_first_guess_is_searched_once_and_on_more_rows():
    found = search_mean([Gaussian()], waves(), Effort(race_rows=20, rows=30), 0.5, 0)
    assert len(found) == 1
    assert found[0].noise >= 0.5


def test_rows_of_which_none_varies_have_no_likelihood():
    rows = waves().with_outputs(np.ones((80, 1)))
    (best,) = search_mean([Gaussian()], rows, Effort(), 0.0, 0)
    assert best.loss == 0.0
    assert np.all(np.isfinite(best.kernel.scale))


def test_searches_on_a_subset_depend_on_the_seed_alone():
    rows, effort = waves(), Effort(race_rows=20, rows=30, steps=5)
    one, same, other = (search_mean([Gaussian()], rows, effort, 0.0, seed)[0] for seed in (1, 1, 2))
    assert one == same
    assert one.kernel != other.kernel


@pytest.fixture(scope="module")
def tuned():
    """A density search, what it was started with, and the objective it makes small."""
    rows = waves(50)
    measure = UniformBox(nodes=40).realise(rows.Y)
    family = OutputFamily(measure, Gaussian(), np.array([0.3]), Tikhonov())
    start = (Gaussian(), Gaussian((2.0, 2.0)))
    guess = (1e-2, np.log(0.8))

    def search(starts=(start,), least=1e-3, **options):
        begun = [Start(*pair, family, np.array([least])) for pair in starts]
        search = DensitySearch(rows, LogScore(), Effort(race_steps=12), "row", **options)
        return search.best(begun, *guess)

    def loss_of(choice):
        free = FreeScales(choice.start.template, 2)
        groups = Groups.of(rows.X)
        objective = HeldOutLoss(
            lambda ls, a: ExactSmoother(free, ls, a, groups, "row"),
            family,
            rows.Y,
            rows.weights,
            LogScore(),
        )
        tail = [np.log(choice.alpha), *choice.log_lengths, choice.log_ridge]
        return objective(np.append(free.log_scales_of(choice.kernel), tail))[0]

    return rows, family, search, loss_of


def test_beside_a_rival_that_says_it_all_the_search_ends(tuned):
    rows, _, search, _ = tuned
    starts = [(Gaussian(), Gaussian((2.0, 2.0))), (Gaussian(), Gaussian((1.0, 1.0)))]
    assert not search(starts).dispensable
    assert not search(starts, rival=np.full(len(rows), 1e-3)).dispensable
    early = search(starts, rival=np.full(len(rows), 50.0))
    assert early.dispensable
    assert early.loss > search(starts).loss  # fewer steps


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_share_beside_a_rival_is_that_of_the_likeliest_mixture(share):
    rng = np.random.default_rng(0)
    y = np.where(rng.uniform(size=4000) < share, rng.normal(size=4000), rng.normal(4.0, 1.0, 4000))
    own, rival = norm.pdf(y), norm.pdf(y, 4.0)
    assert share_beside(own, rival, np.ones(4000)) == pytest.approx(share, abs=0.03)
    assert share_beside(own, rival, (y > 2).astype(float)) < 0.1


def test_a_density_search_lowers_the_held_out_loss(tuned):
    *_, search, loss_of = tuned
    found = search()
    first = replace(
        found,
        kernel=Gaussian((2.0, 2.0)),
        alpha=1e-2,
        log_lengths=np.array([np.log(0.8)]),
        log_ridge=np.log(0.3),
    )
    assert loss_of(found) < loss_of(first) - 0.1
    assert found.loss == pytest.approx(loss_of(found), abs=0.1)  # a weak prior is added
    assert found.kernel.scale[1] > 3 * found.kernel.scale[0]


def test_several_starts_are_no_worse_than_one(tuned):
    *_, search, _ = tuned
    rough = (Matern(smoothness=0.5), Matern((2.0, 20.0), smoothness=0.5))
    both = search(starts=((Gaussian(), Gaussian((2.0, 2.0))), rough))
    assert both.loss < search().loss
    assert both.start.template in (Gaussian(), Matern(smoothness=0.5))


def test_a_density_search_keeps_what_is_given(tuned):
    *_, search, _ = tuned
    found = search(fixed=Fixed(alpha=0.02, ridge=0.25))
    assert (found.alpha, np.exp(found.log_ridge)) == pytest.approx((0.02, 0.25), rel=1e-12)
    wide = search(least=1.5)
    assert np.exp(wide.log_lengths[0]) >= 1.5 * (1 - 1e-12)


def test_the_filter_is_tuned_to_given_weights(tuned):
    rows, family, search, _ = tuned
    choice = search()
    judged = np.arange(0, 50, 3)
    system = ExactSystem(choice.kernel, Groups.of(rows.X), choice.alpha)
    weights = system.held_out_weights(judged)
    blurred = replace(choice, log_lengths=choice.log_lengths + 2.0, log_ridge=0.0, loss=np.inf)
    found = FilterSearch(rows, judged, family, LogScore()).best(blurred, weights)
    assert (found.kernel, found.alpha) == (choice.kernel, choice.alpha)
    smoother = FixedSmoother(weights)
    objective = HeldOutLoss(
        lambda ls, a: smoother, family, rows.Y, np.ones(len(judged)), LogScore(), rows.Y[judged]
    )
    at = objective(np.array([0.0, *found.log_lengths, found.log_ridge]))[0]
    assert found.loss == pytest.approx(at, abs=2e-3)  # outputs are shared among the nodes
    assert at < objective(np.array([0.0, *blurred.log_lengths, blurred.log_ridge]))[0] - 0.1
    fixed = FilterSearch(rows, judged, family, LogScore(), Fixed(ridge=2.0)).best(blurred, weights)
    assert np.exp(fixed.log_ridge) == pytest.approx(2.0)
