"""Joint distributions by the chain rule, against a Gaussian whose conditionals are known."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from kcdo.distributions import GroupedBatch, MixtureBatch, TransformedBatch, default_draws
from kcdo.errors import AccuracyWarning, InvalidInputError
from kcdo.frames import Labels
from kcdo.transforms import Above, Columns
from tests.gaussian_chain import (
    COV,
    SLOPES,
    GaussianLink,
    conditional_truth,
    distribution,
    gaussian_chain,
    truth,
    two_orders,
)

X = np.array([[0.0], [1.5]])
MEANS = X @ SLOPES
MAKERS = [gaussian_chain, two_orders, lambda X: gaussian_chain(X, (2, 1, 0))]


@pytest.fixture(params=MAKERS, ids=["one order", "two orders", "reversed"])
def dist(request):
    return distribution(request.param(X))


def test_log_densities_are_exact(dist, rng):
    points = rng.normal(size=(20, 3))
    expected = [truth(x).logpdf(points) for x in X]
    np.testing.assert_allclose(dist.logpdf(points), expected, rtol=1e-10)
    np.testing.assert_allclose(dist.pdf(points), np.exp(expected), rtol=1e-10)
    np.testing.assert_allclose(
        dist.logpdf_pairs(points[:2]), [expected[0][0], expected[1][1]], rtol=1e-10
    )


def test_points_that_agree_are_asked_once():
    """On a grid, the links after the first see few distinct rows."""
    chain = gaussian_chain(X[:1])
    asked = []
    last = chain.links[1].batch
    chain.links[1].batch = lambda rows: asked.append(len(rows)) or last(rows)
    grid = np.stack(np.meshgrid(*[np.arange(4.0)] * 3), axis=-1).reshape(1, -1, 3)
    chain.logpdf_each(grid)
    assert asked == [4]


def test_draws_are_those_of_the_joint_distribution(dist):
    draws = dist.sample(8000, random_state=1)
    assert draws.shape == (2, 8000, 3)
    np.testing.assert_allclose(draws.mean(axis=1), MEANS, atol=0.05)
    for each in draws:
        np.testing.assert_allclose(np.cov(each.T), COV, atol=0.06)
    np.testing.assert_array_equal(draws[:, :5], dist.sample(8000, random_state=1)[:, :5])


def test_moments_are_by_fixed_draws_within_their_standard_error(dist):
    error = dist.standard_error()
    assert error.shape == (2, 3)
    assert np.all(error < 0.1)
    assert np.all(np.abs(dist.mean() - MEANS) < 5 * error + 1e-12)
    np.testing.assert_array_equal(dist.mean(), dist.mean())
    np.testing.assert_allclose(dist.cov(), np.broadcast_to(COV, (2, 3, 3)), atol=0.12)
    assert np.all(np.linalg.eigvalsh(dist.cov()) > 0)


def rms_of_seeds(ask, exact):
    """Root mean squares over seeds of the errors of means, and of what is stated of them."""
    found = [ask(seed) for seed in range(24)]
    errors = np.array([each.mean() - exact for each in found])
    stated = np.array([each.standard_error() for each in found])
    return np.sqrt(np.mean(errors**2, axis=0)), np.sqrt(np.mean(stated**2, axis=0))


@pytest.mark.parametrize("maker", [gaussian_chain, two_orders], ids=["one order", "two orders"])
def test_stated_errors_are_those_over_seeds(maker):
    """Of joint means, also where orders share their seeds, and of marginals by draws."""

    def drawn(seed):
        return distribution(maker(X[1:])).with_draws(64, random_state=seed)

    asked = [(drawn, MEANS[1:]), (lambda seed: drawn(seed).marginal([1, 2]), MEANS[1:, 1:])]
    asked += [(lambda seed, k=k: drawn(seed).marginal(k), MEANS[1:, k]) for k in (1, 2)]
    for ask, exact in asked:
        error, stated = rms_of_seeds(ask, exact)
        assert np.all(error < 1.5 * stated + 1e-12)
        assert np.all(stated < 2.0 * error + 1e-12)


def test_errors_of_quantiles_regions_and_entropy_are_as_stated():
    """By n = 64 draws, over 40 seeds."""
    n, exact, quantiles, covered, entropies, stated = 64, truth(X[0]), [], [], [], []
    sd = np.sqrt(COV[1, 1])
    points = exact.rvs(2000, random_state=0)
    for seed in range(40):
        dist = distribution(gaussian_chain(X[:1])).with_draws(n, seed)
        quantiles.append(dist.quantile(0.9)[0, 1] - norm.ppf(0.9) * sd)
        covered.append(np.mean(dist.hpd(0.8)[0].contains(points)) - 0.8)
        entropies.append(dist.entropy()[0] - exact.entropy())
        stated.append(dist.standard_error(lambda y: -exact.logpdf(y))[0])
    at_most = np.sqrt(0.9 * 0.1 / n) * sd / norm.pdf(norm.ppf(0.9))
    assert np.sqrt(np.mean(np.square(quantiles))) < at_most
    assert np.sqrt(np.mean(np.square(covered))) < np.sqrt(0.8 * 0.2 / n)
    assert np.sqrt(np.mean(np.square(entropies))) < 1.5 * np.sqrt(np.mean(np.square(stated)))


@pytest.mark.parametrize("kept", [0, [0, 1]])
def test_stated_errors_of_some_given_others(kept):
    """By weighted draws, also of one output on a line; exact where nothing is drawn."""
    mean = conditional_truth(X[0], {2: 0.7})[0][kept]

    def rest(seed):
        return distribution(gaussian_chain(X[:1])).with_draws(64, seed).given({2: 0.7})

    error, stated = rms_of_seeds(lambda seed: rest(seed).marginal(kept), mean)
    assert np.all(error < 1.6 * stated)
    assert np.all(stated < 2.0 * error)
    alone = distribution(gaussian_chain(X)).given({1: 0.1, 2: 0.7})
    assert not alone.standard_error().any()


def test_stated_errors_of_events_and_of_bounded_outputs():
    chain = gaussian_chain(X)
    line = distribution(chain).marginal(2)
    assert 0 < line.standard_error(lambda y: y > 0)[0] < 0.02
    bounded = distribution(TransformedBatch(chain, Columns((Above(0.0, 1.0),) * 3)))
    assert np.all(bounded.standard_error()[:, 1:] > 0)
    assert not bounded.standard_error()[:, 0].any()
    np.testing.assert_allclose(
        bounded.marginal(2).standard_error(), bounded.standard_error()[:, 2], rtol=1e-6
    )


def test_the_first_output_of_an_order_is_exact():
    dist = distribution(gaussian_chain(X, (1, 0, 2)))
    np.testing.assert_allclose(dist.mean()[:, 1], MEANS[:, 1], atol=1e-12)
    np.testing.assert_allclose(dist.cov()[:, 1, 1], COV[1, 1], rtol=1e-10)
    exact = norm(MEANS[:, 1], np.sqrt(COV[1, 1])).ppf([[0.1], [0.9]]).T
    np.testing.assert_allclose(dist.marginal(1).quantile([0.1, 0.9]), exact, rtol=1e-8)


def test_more_draws_err_less():
    dist = distribution(gaussian_chain(X))
    few, many = dist.with_draws(32), dist.with_draws(4096, random_state=3)
    assert np.all(many.standard_error()[:, 1:] < few.standard_error()[:, 1:])
    np.testing.assert_allclose(many.mean(), MEANS, atol=0.01)
    np.testing.assert_allclose(many.cov()[0], COV, atol=0.03)
    assert np.any(dist.with_draws(64, random_state=1).mean() != dist.with_draws(64).mean())


def test_marginals_of_one_output(dist):
    levels = np.array([0.05, 0.5, 0.95])
    for i in range(3):
        line = dist.marginal(i)
        exact = norm(MEANS[:, [i]], np.sqrt(COV[i, i]))
        np.testing.assert_allclose(line.quantile(levels), exact.ppf(levels), atol=0.12)
        np.testing.assert_allclose(line.pdf([0.0, 1.0]), exact.pdf([[0.0, 1.0]]), atol=0.05)
        np.testing.assert_allclose(line.cdf(line.quantile(0.3))[0, 0], 0.3, atol=1e-8)
    np.testing.assert_allclose(dist.quantile(levels)[:, :, i], line.quantile(levels), atol=1e-8)


def test_marginals_of_two_outputs(dist, rng):
    points = rng.normal(size=(6, 2))
    for dims in ([0, 1], [2, 0], [1, 2]):
        pair = dist.marginal(dims)
        exact = truth(X[0])
        exact = type(exact)(exact.mean[dims], COV[np.ix_(dims, dims)])
        np.testing.assert_allclose(pair[0].pdf(points)[0], exact.pdf(points), atol=0.01)
        np.testing.assert_allclose(pair.mean(), MEANS[:, dims], atol=0.1)
        assert pair.sample(3, random_state=0).shape == (2, 3, 2)


@pytest.mark.parametrize("pair", [(0, 1), (2, 0), (1, 2), (2, 1)])
def test_pictures_of_two_outputs_are_smooth_densities(dist, pair):
    """Within an L1 distance of 0.2 of the truth, as drawn; their sum is 1."""
    across, up = np.linspace(-5.0, 5.0, 61), np.linspace(-5.0, 5.0, 51)
    picture = dist.pair_picture(pair, across, up)
    assert picture.shape == (2, 61, 51)
    exact = truth(X[0])
    exact = type(exact)(exact.mean[list(pair)], COV[np.ix_(pair, pair)])
    points = np.stack(np.meshgrid(across, up, indexing="ij"), axis=-1)
    cell = (across[1] - across[0]) * (up[1] - up[0])
    assert picture[0].sum() * cell == pytest.approx(1.0, abs=0.01)
    assert np.abs(picture[0] - exact.pdf(points)).sum() * cell < 0.2


def test_pictures_of_some_outputs_are_those_of_the_chain():
    """Not by draws of the others at every point of the grid."""
    chain, line = gaussian_chain(X), np.linspace(-2, 2, 7)
    part = chain.marginal([2, 1])
    found = part.pair_picture((0, 1), line, line)
    np.testing.assert_allclose(found, chain.pair_picture((2, 1), line, line))


def test_pictures_of_the_first_two_outputs_are_exact():
    across, up = np.linspace(-2.0, 2.0, 5), np.linspace(-1.0, 1.0, 4)
    dist = distribution(gaussian_chain(X, (2, 1, 0)))
    points = np.stack(np.meshgrid(across, up, indexing="ij"), axis=-1).reshape(-1, 2)
    expected = dist.marginal([1, 2]).pdf(points).reshape(2, 5, 4)
    np.testing.assert_allclose(dist.pair_picture((1, 2), across, up), expected, rtol=1e-12)


def test_pictures_of_bounded_outputs_have_the_slopes_of_their_maps():
    chain, above = gaussian_chain(X), Above(0.0, 1.0)
    bounded = distribution(TransformedBatch(chain, Columns((above,) * 3)))
    across, up = np.linspace(-0.5, 4.0, 7), np.linspace(0.1, 3.0, 6)
    inside = across[1:]
    inner = distribution(chain).pair_picture((1, 2), above.forward(inside), above.forward(up))
    slopes = np.exp(above.log_derivative(inside)[:, None] + above.log_derivative(up))
    found = bounded.pair_picture((1, 2), across, up)
    np.testing.assert_array_equal(found[:, 0], 0.0)
    np.testing.assert_allclose(found[:, 1:], inner * slopes, rtol=1e-9)


@pytest.mark.parametrize("given", [{0: 0.7}, {2: 0.7}, {1: -0.2}])
def test_two_outputs_given_one(dist, given):
    rest = dist.with_draws(1024).given(given)
    assert (rest.n_outputs, len(rest)) == (2, 2)
    mean, cov = conditional_truth(X[0], given)
    spread = np.sqrt(np.diag(cov))
    assert np.all(np.abs(rest.mean()[0] - mean) < 0.12 * spread + 5 * rest.standard_error()[0])
    np.testing.assert_allclose(rest.cov()[0], cov, atol=0.15)
    exact = type(truth(X[0]))(mean, cov)
    points = mean + np.array([[0.0, 0.0], [0.5, -0.3]])
    np.testing.assert_allclose(rest[0].logpdf(points)[0], exact.logpdf(points), atol=0.1)


@pytest.mark.parametrize("given", [{0: 0.7, 1: 0.1}, {1: 0.0, 2: 0.5}, {0: 0.3, 2: -0.5}])
def test_one_output_given_two(dist, given):
    """Of one output everything is known to the accuracy of interpolation, whatever the order."""
    rest = dist.given(given)
    for q in range(2):
        mean, cov = conditional_truth(X[q], given)
        exact = norm(mean[0], np.sqrt(cov[0, 0]))
        np.testing.assert_allclose(rest.mean()[q], mean[0], atol=1e-3)
        np.testing.assert_allclose(rest.std()[q], exact.std(), rtol=5e-3)
        np.testing.assert_allclose(
            rest[q].quantile([0.1, 0.9])[0], exact.ppf([0.1, 0.9]), atol=5e-3
        )


def test_given_leading_outputs_is_exact():
    rest = distribution(gaussian_chain(X, (1, 2, 0))).given({2: 0.5, 1: 0.0})
    mean, cov = conditional_truth(X[1], {1: 0.0, 2: 0.5})
    np.testing.assert_allclose([rest.mean()[1], rest.var()[1]], [mean[0], cov[0, 0]], rtol=1e-10)


def test_each_query_has_values_of_its_own():
    """A query may come several times, each time with another value."""
    given = {0: [0.0, 1.0, 2.0], 1: [0.5, 0.0, 0.5]}
    rest = distribution(gaussian_chain(X))[[0, 0, 1]].given(given)
    for k, x in enumerate(X[[0, 0, 1]]):
        mean, _ = conditional_truth(x, {i: values[k] for i, values in given.items()})
        np.testing.assert_allclose(rest.mean()[k], mean[0], atol=1e-10)


def test_outputs_are_given_by_name():
    dist = distribution(gaussian_chain(X)).labelled(Labels(outputs=("a", "b", "c")))
    rest = dist.given({"a": 1.0})
    assert rest.target_names == ("b", "c")
    np.testing.assert_array_equal(rest.mean(), dist.given({0: 1.0}).mean())


def test_regions_of_highest_density(dist):
    regions = dist.hpd(0.8)
    draws = dist.sample(2000, random_state=5)
    for region, each in zip(regions, draws, strict=True):
        assert abs(region.contains(each).mean() - 0.8) < 0.08  # 256 draws: sd 0.025
        assert region.contains(each).mean() < region.contains(each.mean(axis=0))[0]


def test_modes_and_entropy(dist):
    np.testing.assert_allclose(dist.mode(), MEANS, atol=0.05)
    np.testing.assert_allclose(dist.entropy(), truth(X[0]).entropy(), atol=0.1)


def exact_part(dims, given=None):
    """The truth at the first input: some outputs, or the others where some are given."""
    if given is not None:
        return multivariate_normal(*conditional_truth(X[0], given))
    return multivariate_normal((X[0] @ SLOPES)[dims], COV[np.ix_(dims, dims)])


@pytest.mark.parametrize("given", [None, {2: 0.7}], ids=["marginal", "given"])
def test_modes_regions_entropy_and_pictures_of_some_outputs(dist, given):
    """Of pairs whose densities are means over draws of the third output, or given it."""
    part = dist.marginal([2, 1]) if given is None else dist.given(given)
    exact = exact_part([2, 1], given)
    sd = np.sqrt(np.diag(exact.cov))
    assert np.all(np.abs(part.mode()[0] - exact.mean) < 0.3 * sd)
    np.testing.assert_allclose(part.entropy()[0], exact.entropy(), atol=0.25)
    inside = part.hpd(0.8)[0].contains(exact.rvs(2000, random_state=0))
    assert abs(inside.mean() - 0.8) < 0.1
    lines = np.linspace(-5.0, 5.0, 41), np.linspace(-5.0, 5.0, 51)
    points = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1)
    picture = part.pair_picture((0, 1), *lines)[0]
    assert np.abs(picture - exact.pdf(points)).sum() * 0.25 * 0.2 < 0.25


@pytest.mark.parametrize("n_draws", [64, 256])
@pytest.mark.parametrize("given", [None, {2: 0.7}], ids=["marginal", "given"])
def test_regions_and_entropy_of_some_outputs_are_not_biased(given, n_draws):
    """Their means over seeds: densities at draws are those that contains and logpdf tell."""
    exact, covered, entropies = exact_part([2, 1], given), [], []
    points = exact.rvs(400, random_state=0)
    heights = exact.logpdf(exact.rvs(20_000, random_state=1))
    held = np.mean(exact.logpdf(points) >= np.quantile(heights, 0.1))  # 0.9, but for few points
    for seed in range(12):
        dist = distribution(gaussian_chain(X[:1])).with_draws(n_draws, seed)
        part = dist.marginal([2, 1]) if given is None else dist.given(given)
        covered.append(part.hpd(0.9)[0].contains(points).mean() - held)
        entropies.append(part.entropy()[0])
    assert np.mean(covered) == pytest.approx(0.0, abs=0.02)
    assert np.mean(entropies) == pytest.approx(exact.entropy(), abs=0.07)


def about_an_input(sd):
    """The chain at 200 points of an uncertain input: N(0, sd²)."""
    xs = sd * np.random.default_rng(0).standard_normal((200, 1))
    chain = replace(gaussian_chain(xs, n_draws=32), warns=False)
    return GroupedBatch(chain, np.array([0, 200]), np.full(200, 1 / 200))


@pytest.mark.parametrize("sd", [0.5, 2.0, 5.0])
def test_regions_entropy_and_modes_of_uncertain_inputs(sd, rng):
    """All 200 points count, in levels, entropies and the heights of modes."""
    batch = about_an_input(sd)
    dist, members = distribution(batch), [truth(x) for x in batch.inner.inputs]
    draws = np.concatenate([member.rvs(10, random_state=rng) for member in members])

    def density(y):
        return np.mean([member.pdf(y) for member in members], axis=0)

    assert dist.hpd(0.8)[0].contains(draws).mean() == pytest.approx(0.8, abs=0.07)
    assert dist.entropy()[0] == pytest.approx(-np.log(density(draws)).mean(), abs=0.25)
    assert density(dist.mode()[0]) > 0.95 * density(draws).max()


def test_uncertain_inputs_given_a_value_leave_out_points_that_it_rules_out():
    """No draws are made at points for which the value is far off."""
    batch = about_an_input(5.0)
    rest = batch.given([2], np.array([[2.0]]))
    assert 50 < len(rest.inner) < 200
    shares = norm(batch.inner.inputs[:, 0] * SLOPES[0, 2], np.sqrt(COV[2, 2])).pdf(2.0)
    means = [conditional_truth(x, {2: 2.0})[0] for x in batch.inner.inputs]
    exact = np.average(means, axis=0, weights=shares)
    np.testing.assert_allclose(distribution(rest).mean()[0], exact, atol=0.3)


def rms_given_far(dist_of_seed, exact):
    """Root mean squares over seeds of errors of means, of stated errors, and of means of draws."""
    errors, stated, drawn = [], [], []
    for seed in range(12):
        dist = dist_of_seed(seed)
        errors.append(dist.mean()[0] - exact)
        stated.append(dist.standard_error()[0])
        drawn.append(dist.sample(500, random_state=seed)[0].mean(axis=0) - exact)
    return [np.sqrt(np.mean(np.square(each), axis=0)) for each in (errors, stated, drawn)]


FAR = {"pair": ({2: 2.1}, [0, 1]), "line": ({2: 2.1}, 0), "link": ({1: 2.7}, 1)}


@pytest.mark.parametrize("far", FAR)
def test_means_and_their_errors_given_unlikely_values(far):
    """Three standard deviations off, by 64 draws: more are taken, until enough have a weight."""
    given, kept = FAR[far]
    exact = conditional_truth(X[0], given)[0][kept]

    def rest(seed):
        dist = distribution(gaussian_chain(X[:1])).with_draws(64, seed)
        return dist.given(given).marginal(kept)

    error, stated, drawn = rms_given_far(rest, exact)
    assert np.all(error < 0.2)
    assert np.all(drawn < 0.2)
    assert np.all(error < 1.7 * stated)
    assert np.all(stated < 2.0 * error)


@pytest.mark.parametrize("far", FAR)
@pytest.mark.parametrize("sds", [7.0, 30.0])
def test_values_that_hardly_any_draw_has_are_warned_of(far, sds):
    """And the error that is stated is no less than the spread of the draws."""
    (output,), kept = FAR[far][0], FAR[far][1]
    value = sds * np.sqrt(COV[output, output])
    rest = distribution(gaussian_chain(X[:1], n_draws=64)).given({output: value}).marginal(kept)
    with pytest.warns(AccuracyWarning, match="carry the weight.*with_draws.*first columns of Y"):
        error = rest.standard_error()
    assert np.all(error > 0.15)


def test_how_many_draws_a_query_gets_does_not_hang_on_others():
    values = np.array([0.0, 0.7, 1.4, 2.1])
    dist = distribution(gaussian_chain(np.zeros((4, 1)), n_draws=64))
    for kept in ([0, 1], 0):
        together = dist.given({2: values}).marginal(kept)
        for k in range(4):
            alone = dist[[k]].given({2: values[[k]]}).marginal(kept)
            np.testing.assert_allclose(alone.mean()[0], together.mean()[k], rtol=1e-12)
            np.testing.assert_allclose(
                alone.standard_error()[0], together.standard_error()[k], rtol=1e-9
            )


def test_far_from_all_draws_one_output_given_all_others_is_still_found():
    """Thirty standard deviations off, where the grid of nodes must first be found."""
    given = {1: 0.0, 2: 30.0 * np.sqrt(COV[2, 2])}
    mean, cov = conditional_truth(X[0], given)
    rest = distribution(gaussian_chain(X[:1])).given(given)
    np.testing.assert_allclose(rest.mean(), mean, atol=0.01 * abs(mean[0]))
    np.testing.assert_allclose(rest.var(), cov[0], rtol=0.05)


@pytest.mark.parametrize("given", [{2: 0.7}, {1: -0.2}, {1: 0.3, 2: 1.0}])
def test_draws_given_outputs_that_are_not_first_in_the_order(given):
    """Chosen of weighted draws, other ones for every seed; few of them come again."""
    rest = distribution(gaussian_chain(X[:1])).given(given)
    draws = rest.sample(800, random_state=3).reshape(800, -1)
    mean, cov = conditional_truth(X[0], given)
    sd = np.sqrt(np.diag(cov))
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 0.15 * sd)
    np.testing.assert_allclose(draws.std(axis=0), sd, rtol=0.15)
    assert len(np.unique(draws[:, 0])) > 500
    again, other = (rest.sample(800, random_state=seed).reshape(800, -1) for seed in (3, 4))
    np.testing.assert_array_equal(draws, again)
    assert not np.intersect1d(draws, other).size


@pytest.mark.parametrize(
    ("ask", "most"),
    [
        (lambda dist: dist.mode(), 4_000),
        (lambda dist: dist.marginal([0, 2]).mode(), 50_000),
        (lambda dist: dist.marginal([0, 2]).hpd(0.9), 40_000),
        (lambda dist: dist.marginal([0, 2]).entropy(), 40_000),
        (lambda dist: dist.given({2: 0.7}).quantile([0.1, 0.5]), 25_000),
        (lambda dist: dist.given({2: 20.0}).marginal(0).mean(), 40_000),
        (lambda dist: distribution(about_an_input(1.0)).mode(), 150_000),
        (lambda dist: distribution(about_an_input(1.0)).hpd(0.9), 60_000),
        (lambda dist: dist.given({1: 0.7}).mode(), 10_000),
        (lambda dist: dist.given({2: 0.7}).sample(100, random_state=0), 2_000),
        (
            lambda dist: dist.given({1: 0.7}).pair_picture((0, 1), *[np.linspace(-3, 3, 99)] * 2),
            20_000,
        ),
    ],
    ids=[
        "mode",
        "marginal mode",
        "hpd",
        "entropy",
        "quantile",
        "unlikely",
        "mode of an uncertain input",
        "hpd of an uncertain input",
        "given mode",
        "sample",
        "picture",
    ],
)
@pytest.mark.filterwarnings("ignore::kcdo.errors.AccuracyWarning")
def test_few_distributions_of_links_are_asked_for(ask, most, monkeypatch):
    """By one query of three outputs: each costs a prediction of one output.

    An uncertain input has 200 points.
    """
    asked, own = [], GaussianLink.batch
    monkeypatch.setattr(
        GaussianLink, "batch", lambda link, rows: asked.append(len(rows)) or own(link, rows)
    )
    ask(distribution(gaussian_chain(X[:1])))
    assert sum(asked) < most


def test_expectations_and_joint_probabilities(dist):
    def above(y):
        return y[:, 0] > y[:, 1]

    exact = norm.cdf((MEANS[:, 0] - MEANS[:, 1]) / np.sqrt(COV[0, 0] + COV[1, 1] - 2 * COV[0, 1]))
    found, error = dist.expect(above), dist.standard_error(above)
    assert found.shape == error.shape == (2,)
    assert np.all(np.abs(found - exact) < 5 * error + 0.01)
    point = np.array([0.5, 0.5, 0.5])
    np.testing.assert_allclose(dist.cdf(point)[0], truth(X[0]).cdf(point), atol=0.05)


def test_summaries_have_a_column_for_each_output(dist):
    found = dist.summary(["mean", "sd", "q50", "logpdf"], MEANS)
    assert found["q50"].shape == (2, 3)
    assert found["logpdf"].shape == (2,)
    np.testing.assert_allclose(found["sd"], np.sqrt(np.diag(COV)) + 0 * MEANS, rtol=0.1)


def test_marginals_share_the_draws_of_the_joint_distribution():
    """What one question drew serves the next: d marginals do not draw d times."""
    chain = gaussian_chain(X)
    dist = distribution(chain)
    dist.mean()
    line = dist.marginal(2)
    line.mean()
    asked = []
    last = chain.links[1].batch
    chain.links[1].batch = lambda rows: asked.append(len(rows)) or last(rows)
    dist.marginal(2).mean()
    assert not asked  # output 1 was drawn before


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_links_at_the_draws_are_kept_where_they_are_few(order, monkeypatch):
    """They answer as links that are asked again, for all queries, for some, and joined."""
    few, many = gaussian_chain(X, order), gaussian_chain(X, order)
    kept = few.marginal([1])
    both = few.take([1]).joined([few.take([0])])
    monkeypatch.setattr("kcdo.distributions.chain._KEPT_NUMBERS", 0)
    again = many.marginal([1])
    assert few._drawing.links
    assert not many._drawing.links
    y = np.linspace(-2, 2, 9)[:, None]
    np.testing.assert_allclose(kept.pdf(y), again.pdf(y), rtol=1e-12)
    np.testing.assert_allclose(few.take([1]).marginal([1]).pdf(y), again.pdf(y)[1:], rtol=1e-12)
    assert both._drawing.links.keys() == few._drawing.links.keys()
    np.testing.assert_allclose(both.marginal([1]).pdf(y), again.pdf(y)[::-1], rtol=1e-12)
    assert not few.take([1]).joined([few.take([0])])._drawing.links  # beyond the limit
    mixed = few.joined([many])
    assert not mixed._drawing.links
    np.testing.assert_allclose(mixed.marginal([1]).pdf(y)[2:], again.pdf(y), rtol=1e-12)


def test_fewer_draws_for_more_outputs():
    assert default_draws(2) > default_draws(4) > default_draws(16) == 64


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "at least one output"),
        ({3: 0.0}, "numbers below 3"),
        ({"speed": 0.0}, "numbers below 3"),
        ({0: 0.0, -3: 1.0}, "each one once"),
        ({0: [1.0, 2.0, 3.0]}, "one for each of the 2 queries"),
        ({0: np.nan}, "one finite number"),
        ({0: 0.0, 1: 0.0, 2: 0.0}, "none is left"),
    ],
)
def test_values_that_cannot_be_given(values, words):
    with pytest.raises(InvalidInputError, match=words):
        distribution(gaussian_chain(X)).given(values)


def test_draws_must_be_enough():
    with pytest.raises(InvalidInputError, match="n_draws must lie between 16"):
        distribution(gaussian_chain(X)).with_draws(3)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_log_densities_of_fixed_draws_are_known_with_them(order):
    """Entropy and ∫ p² of a chain ask no link again; they are means over its draws."""
    dist = distribution(gaussian_chain(X, order))
    draws = dist.fixed_draws()
    logs = np.stack([truth(x).logpdf(d) for x, d in zip(X, draws, strict=True)])
    np.testing.assert_allclose(dist.entropy(), -logs.mean(axis=1), rtol=1e-9)
    np.testing.assert_allclose(dist.square_integral(), np.exp(logs).mean(axis=1), rtol=1e-9)
    np.testing.assert_array_equal(dist[1:].fixed_draws(), draws[1:])


def test_several_orders_give_draws_as_their_weights_say():
    batch = two_orders(X).with_draws(512, seed=1)
    assert [part.n_draws for part in batch.parts] == [256, 256]  # shared by the orders
    draws = distribution(batch).fixed_draws()
    first = round(256 * 0.3 / 0.7)
    assert draws.shape == (2, first + 256, 3)
    np.testing.assert_array_equal(draws[:, :first], batch.parts[0].fixed_draws()[:, :first])
    np.testing.assert_array_equal(draws[:, first:], batch.parts[1].fixed_draws())
    np.testing.assert_allclose(draws.mean(axis=1), MEANS, atol=0.06)
    np.testing.assert_allclose(np.cov(draws[0].T), COV, atol=0.1)


def test_weights_that_differ_between_queries_leave_no_common_draws():
    parts = two_orders(X).parts
    mixed = MixtureBatch(parts, np.array([[0.3, 0.7], [0.5, 0.5]]))
    assert distribution(mixed).fixed_draws() is None


@pytest.mark.parametrize("seed", [None, -1, "a"])
def test_draws_have_a_whole_number_as_seed(seed):
    with pytest.raises(InvalidInputError, match="random_state must be a whole number >= 0"):
        distribution(gaussian_chain(X)).with_draws(32, random_state=seed)
