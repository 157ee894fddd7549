"""Scores and ranks of several outputs, against plain formulas and closed forms of Gaussians."""

import numpy as np
import pytest
from scipy.special import gamma, hyp1f1
from scipy.stats import kstest, multivariate_normal

import kcdo
from kcdo import metrics
from kcdo.errors import InvalidInputError
from tests.gaussian_truth import GaussianTruth, made

ORDERS = ["average", "band", "dominance"]


class Tied(GaussianTruth):
    """Gaussians whose outputs move together, all with one mean and width."""

    def sample(self, n, random_state=None):
        rng = np.random.default_rng(random_state)
        noise = rng.standard_normal((len(self), n, 1)) * np.ones(self.means.shape[1])
        return self.means[:, None] + self.sds[:, None] * noise


def fitted(d=2, n=80):
    rng = np.random.default_rng(5)
    X = rng.uniform(-2, 2, (n, 1))
    Y = np.sin(X + np.arange(d)) + 0.2 * rng.standard_normal((n, d))
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y if d > 1 else Y[:, 0])
    return model.conditional(X), Y if d > 1 else Y[:, 0]


# --- variogram score


def absolute_moment(mean, sd, p):
    """E|N(mean, sd²)|^p."""
    factor = sd**p * 2 ** (p / 2) * gamma((1 + p) / 2) / np.sqrt(np.pi)
    return factor * hyp1f1(-p / 2, 0.5, -0.5 * (mean / sd) ** 2)


@pytest.mark.parametrize("p", [0.5, 1.0, 2.0])
def test_variogram_score_of_gaussians(p):
    dist, Y = made(q=50, d=3)
    exact = np.zeros(50)
    for j in range(3):
        for k in set(range(3)) - {j}:
            mean = dist.means[:, j] - dist.means[:, k]
            sd = np.hypot(dist.sds[:, j], dist.sds[:, k])
            exact += (absolute_moment(mean, sd, p) - np.abs(Y[:, j] - Y[:, k]) ** p) ** 2
    found = metrics.variogram_score(dist, Y, p=p, n_draws=4000, average=False)
    np.testing.assert_allclose(found, exact, rtol=0.05, atol=0.08 * exact.mean())
    assert metrics.variogram_score(dist, Y, p=p, n_draws=4000) == pytest.approx(
        exact.mean(), rel=0.03
    )


def test_variogram_score_is_the_plain_formula_on_its_draws():
    dist, Y = fitted(3)
    draws = dist.sample(64, random_state=np.random.default_rng(2))
    pairs = np.abs(draws[:, :, :, None] - draws[:, :, None, :]) ** 0.5
    own = np.abs(Y[:, :, None] - Y[:, None, :]) ** 0.5
    exact = ((pairs.mean(axis=1) - own) ** 2).sum(axis=(1, 2))
    found = metrics.variogram_score(dist, Y, n_draws=64, random_state=2, average=False)
    np.testing.assert_allclose(found, exact, rtol=1e-9)


def test_variogram_score_notices_dependence():
    """The energy score of these is nearly the same."""
    rng = np.random.default_rng(0)
    mean, sd = np.zeros((500, 3)), np.ones((500, 3))
    Y = rng.standard_normal((500, 1)) * np.ones(3) + 0.05 * rng.standard_normal((500, 3))
    right, wrong = (metrics.variogram_score(kind(mean, sd), Y) for kind in (Tied, GaussianTruth))
    assert right < 0.1 * wrong


# --- Dawid-Sebastiani score


def test_dawid_sebastiani_score_of_gaussians():
    dist, Y = made(q=200, d=2)
    variances = dist.sds**2
    exact = np.sum(np.log(variances) + (Y - dist.means) ** 2 / variances, axis=1)
    found = metrics.dawid_sebastiani_score(dist, Y, n_draws=4000, average=False)  # by draws
    np.testing.assert_allclose(found, exact, atol=0.1, rtol=0.1)
    dist.cov = lambda: np.stack([np.diag(v) for v in variances])
    np.testing.assert_allclose(
        metrics.dawid_sebastiani_score(dist, Y, average=False), exact, rtol=1e-12
    )
    flat, y = made(q=200)
    found = metrics.dawid_sebastiani_score(flat, y, n_draws=4000)
    exact = np.mean(np.log(flat.std() ** 2) + ((y - flat.mean()) / flat.std()) ** 2)
    assert found == pytest.approx(exact, abs=0.02)


@pytest.mark.parametrize("d", [1, 2])
def test_dawid_sebastiani_score_is_that_of_the_moments(d):
    dist, Y = fitted(d)
    covariances, means = dist.cov(), dist.mean().reshape(-1, d)
    exact = [
        -2 * multivariate_normal(m, c).logpdf(y) - d * np.log(2 * np.pi)
        for m, c, y in zip(means, covariances, Y, strict=True)
    ]
    found = metrics.dawid_sebastiani_score(dist, Y, average=False)
    np.testing.assert_allclose(found, exact, rtol=1e-9)
    assert metrics.dawid_sebastiani_score(dist, Y) == pytest.approx(np.mean(exact))


# --- ranks


def plain_number(points, i, order):
    """The number by which point i of (n, d) is ranked, in plain loops."""
    ranks = [sum(other[k] <= points[i][k] for other in points) for k in range(len(points[0]))]
    if order == "average":
        return sum(ranks) / len(ranks)
    if order == "band":
        return sum((r - 1) * (len(points) - r) for r in ranks) / len(ranks)
    return sum(all(o <= v for o, v in zip(other, points[i], strict=True)) for other in points)


@pytest.mark.parametrize("order", ORDERS)
def test_ranks_are_the_plain_ones(order):
    dist, Y = made(q=12, d=3)
    found = metrics.multivariate_ranks(dist, Y, order=order, n_draws=9)
    draws = dist.sample(9, random_state=np.random.default_rng([0, 0]))
    for row in range(12):
        points = [Y[row], *draws[row]]
        own, *others = [plain_number(points, i, order) for i in range(10)]
        below, equal = sum(n < own for n in others), sum(n == own for n in others)
        assert below / 10 <= found[row] <= (below + equal + 1) / 10


@pytest.mark.parametrize("order", ORDERS)
def test_ranks_of_the_truth_are_uniform_and_others_are_not(order):
    dist, Y = made(q=800, d=3)
    assert kstest(metrics.multivariate_ranks(dist, Y, order=order), "uniform").pvalue > 0.01
    narrow = GaussianTruth(dist.means, 0.4 * dist.sds)
    assert kstest(metrics.multivariate_ranks(narrow, Y, order=order), "uniform").pvalue < 1e-4


def test_shapes_of_rank_histograms_mean_what_they_say():
    dist, Y = made(q=800, d=3)

    def share(order, low, high, *, widen=1.0, shift=0.0, outputs=Y):
        other = GaussianTruth(dist.means + shift, widen * dist.sds)
        ranks = metrics.multivariate_ranks(other, outputs, order=order)
        return np.mean((low <= ranks) & (ranks <= high))

    assert share("average", 0, 0.1, widen=0.6) > 0.13  # too narrow: near both ends
    assert share("average", 0.9, 1, widen=0.6) > 0.13
    assert share("average", 0.9, 1, shift=-1.0) > 0.3  # biased: at one end
    assert share("band", 0, 0.1, widen=0.6) > 0.2  # too narrow
    assert share("band", 0.9, 1, widen=1.8) > 0.2  # too wide
    together = dist.means + dist.sds * np.random.default_rng(1).standard_normal((800, 1))
    assert share("average", 0, 0.1, outputs=together) > 0.13  # correlated more than predicted
    assert share("average", 0.9, 1, outputs=together) > 0.13


def test_ranks_follow_the_seed_and_not_the_chunks(monkeypatch):
    dist, Y = made(q=30, d=2)
    first = metrics.multivariate_ranks(dist, Y)
    assert np.any(first != metrics.multivariate_ranks(dist, Y, random_state=1))
    monkeypatch.setattr("kcdo.metrics.ranks._NUMBERS", 1)
    np.testing.assert_array_equal(metrics.multivariate_ranks(dist, Y), first)
    found = metrics.multivariate_ranks(*fitted(1))
    assert found.shape == (80,)


# --- errors


def test_wrong_options_are_refused():
    dist, Y = made(q=5, d=2)
    flat, y = made(q=5)
    with pytest.raises(InvalidInputError, match="compares outputs with each other; there is one"):
        metrics.variogram_score(flat, y)
    for p in (0.0, -1.0, np.nan):
        with pytest.raises(InvalidInputError, match="order p of the variogram score must be pos"):
            metrics.variogram_score(dist, Y, p=p)
    for score in (metrics.variogram_score, metrics.dawid_sebastiani_score):
        with pytest.raises(InvalidInputError, match="n_draws >= 2; got 1"):
            score(dist, Y, n_draws=1)
    with pytest.raises(InvalidInputError, match="ranks need n_draws >= 1; got 0"):
        metrics.multivariate_ranks(dist, Y, n_draws=0)
    with pytest.raises(InvalidInputError, match="order must be one of"):
        metrics.multivariate_ranks(dist, Y, order="mean")
    dist.cov = lambda: np.zeros((5, 2, 2))
    with pytest.raises(InvalidInputError, match="positive definite covariances; query 0 has none"):
        metrics.dawid_sebastiani_score(dist, Y)
