"""Rivals on small problems with known answers."""

import functools
import importlib

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import check_grad
from scipy.stats import norm

from experiments.rivals import METHODS, NotApplicable
from experiments.rivals.flexible import Histogram
from experiments.rivals.kcef import ScoreMatching
from experiments.rivals.kde import ConditionalKDE, StatsmodelsKDE, loo_negative_log_likelihood
from experiments.rivals.lscde import LSCDE, moments
from experiments.rivals.rounding import dequantised
from kcdo.rivals.base import Rescaled, log_probability
from kcdo.rivals.gp import ExactGP, Rows, negative_log_likelihood
from kcdo.rivals.mixtures import Mixture
from kcdo.rivals.quantiles import LEVELS, Quantiles, chosen_smoothing, crps_of_values

NEEDS = {
    "hgp": "gpjax",
    "ngboost": "ngboost",
    "catboost": "catboost",
    "catboost-quantiles": "catboost",
    "lightgbmlss": "lightgbmlss",
    "gpboost": "gpboost",
    "crepes": "crepes",
    "flexcode": "flexcode",
    "bart": "stochtree",
    "bart-hetero": "stochtree",
    "qrf": "quantile_forest",
    "ckde-statsmodels": "statsmodels",
    "mdn": "optax",
    "realnvp": "flowjax",
    "maf": "flowjax",
    "spline-flow": "flowjax",
}
QUICK = {
    "hgp": {"steps": 500},
    "ngboost": {"stages": 130},
    "catboost-quantiles": {"trees": 150},
    "flexcode": {"basis": 15},
    "mdn": {"epochs": 60},
    "maf": {"epochs": 40, "layers": 1},
    "spline-flow": {"epochs": 40, "layers": 1},
}
# JAX takes seconds to compile; others import torch, or fit hundreds of trees for each coefficient.
SLOW = {"hgp", "mdn", "realnvp", "maf", "spline-flow", "lightgbmlss", "flexcode"}
# How far the log score may be behind the truth with 250 rows: trees see steps in a line.
BEHIND = {"catboost": 0.15, "catboost-quantiles": 0.15, "lightgbmlss": 0.25, "gpboost": 0.05}
BEHIND |= {"qrf": 0.15, "crepes": 0.35, "flexcode": 0.45, "bart": 0.1, "bart-hetero": 0.15}


def marked(names):
    slow = pytest.mark.slow
    return [pytest.param(m, marks=slow) if m in SLOW else m for m in names]


ONE_OUTPUT = marked(m for m in METHODS if m not in ("kcdo", "kcdo-paper", "realnvp"))
TWO_OUTPUTS = marked(["gp", "ckde", "ckde-statsmodels", "lscde", "mdn", "realnvp", "kcef"])
SD = 0.3


def require(package: str) -> None:
    try:
        importlib.import_module(package)
    except ImportError:
        alone = "pip install --no-deps lightgbmlss, lightgbm, pyro-ppl and torch"
        how = alone if package == "lightgbmlss" else 'pip install "kcdo[rivals]"'
        pytest.skip(f"{package} is missing: {how}")


def make(name: str, **settings):
    if name in NEEDS:
        require(NEEDS[name])
    return METHODS[name](**({"seed": 0} | QUICK.get(name, {}) | settings))


@pytest.fixture(scope="module")
def line():
    """y = 2 x + 1 + noise of sd 0.3, x uniform on [-1, 1]; a second input is constant."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 250)
    return np.column_stack([x, np.ones(250)]), 2 * x + 1 + SD * rng.standard_normal(250)


QUERIES = np.array([[-0.5, 1.0], [0.0, 1.0], [0.5, 1.0]])


@pytest.fixture(scope="module")
def fitted(line):
    """A function from the name of a method to its fit to the line."""
    return functools.cache(lambda name: make(name).fit(*line))


@pytest.mark.parametrize("name", marked(BEHIND))
def test_log_score_is_near_the_truth(name, fitted):
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, 1000)
    y = 2 * x + 1 + SD * rng.standard_normal(1000)
    truth = norm.logpdf(y, 2 * x + 1, SD).mean()
    predictive = fitted(name).conditional(np.column_stack([x, np.ones(1000)]))
    score = predictive.logpdf_pairs(y).mean()
    assert truth - BEHIND[name] < score < truth + 0.01


@pytest.mark.parametrize("name", ONE_OUTPUT)
def test_one_output(name, fitted):
    """Density integrates to 1; moments, quantiles, draws and CRPS agree with it and the truth."""
    predictive = fitted(name).conditional(QUERIES)
    truth = 2 * QUERIES[:, 0] + 1
    grid = np.linspace(-15, 17, 16_001)
    density = predictive.pdf(grid)
    assert density.shape == (3, len(grid))
    assert np.all(density >= 0)
    step = grid[1] - grid[0]
    np.testing.assert_allclose(density.sum(axis=1) * step, 1, atol=0.02)
    rough = 0.5 if name == "crepes" else 0.25  # trees of single rows follow the noise
    np.testing.assert_allclose(predictive.mean(), truth, atol=rough)
    assert np.all((predictive.std() > 0.15) & (predictive.std() < 0.8))
    pairs = predictive.logpdf_pairs(truth)
    at_truth = np.diag(predictive.pdf(truth))
    np.testing.assert_allclose(pairs, np.log(at_truth), atol=1e-4)
    below = np.cumsum(density, axis=1) * step - 0.5 * step * density
    np.testing.assert_allclose(predictive.cdf(grid[::100]), below[:, ::100], atol=0.02)
    draws = predictive.sample(4000, random_state=1)
    assert draws.shape == (3, 4000)
    np.testing.assert_array_equal(draws, predictive.sample(4000, random_state=1))
    np.testing.assert_allclose(draws.mean(axis=1), predictive.mean(), atol=0.08)
    quantiles = predictive.quantile([0.05, 0.5, 0.95])
    below = (draws[:, :, None] <= quantiles[:, None, :]).mean(axis=1)
    np.testing.assert_allclose(below, np.tile([0.05, 0.5, 0.95], (3, 1)), atol=0.03)
    if hasattr(predictive, "crps"):
        sorted_draws = np.sort(draws, axis=1)
        np.testing.assert_allclose(
            predictive.crps(truth), crps_of_values(sorted_draws, truth), atol=0.015
        )


@pytest.mark.parametrize("name", TWO_OUTPUTS)
def test_two_outputs(name, line):
    X, y = (part[:120] for part in line)
    Y = np.column_stack([y, -y + 0.2 * np.random.default_rng(1).standard_normal(len(y))])
    predictive = make(name, **({"epochs": 30, "layers": 2} if name == "realnvp" else {}))
    predictive = predictive.fit(X, Y).conditional(QUERIES[:1])
    axis = np.linspace(-8, 8, 161)
    square = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    mass = predictive.pdf(square).sum() * (axis[1] - axis[0]) ** 2
    np.testing.assert_allclose(mass, 1, atol=0.03)
    np.testing.assert_allclose(predictive.mean(), [[0.0, 0.0]], atol=0.35)
    assert predictive.sample(7, random_state=0).shape == (1, 7, 2)
    point = np.array([[0.1, -0.1]])
    logs = predictive.logpdf_pairs(point), np.log(predictive.pdf(point)[:, 0])
    np.testing.assert_allclose(*logs, atol=1e-4)


@pytest.mark.parametrize("name", ["ngboost", *BEHIND])
def test_methods_of_one_output_say_so(name, line):
    X, y = line
    with pytest.raises(NotApplicable, match="one output only"):
        make(name).fit(X, np.column_stack([y, y]))


def test_kcef_says_where_it_cannot_be_normalised():
    X = np.random.default_rng(0).standard_normal((20, 4))
    with pytest.raises(NotApplicable, match="one or two outputs"):
        METHODS["kcef"]().fit(X[:, :1], X[:, 1:])
    with pytest.raises(NotApplicable, match="N <= 3000"):
        METHODS["kcef"]().fit(np.arange(3001.0)[:, None], np.arange(3001.0))


@pytest.mark.parametrize("name", ["gp", "ckde", "qrf", "crepes"])
def test_rounded_outputs_have_probabilities(name):
    """An output on the integers, a function of x: densities have no bound, probabilities have."""
    x = np.repeat(np.arange(5.0), 20)
    predictive = make(name, gap=1.0).fit(x[:, None], x).conditional(np.arange(5.0)[:, None])
    below, above = (np.diag(predictive.cdf(np.arange(5.0) + side)) for side in (-0.5, 0.5))
    logs = log_probability(below, above)
    assert np.all(logs <= 0)
    assert np.all(logs > -0.1)


def test_probability_of_an_interval_has_a_least():
    """A row that a method rules out costs 23 nats, not all."""
    logs = log_probability(np.array([0.2, 1.0]), np.array([0.5, 1.0]))
    np.testing.assert_allclose(logs, np.log([0.3, 1e-10]))


class TestQuantiles:
    """Normal quantiles smoothed to a density."""

    quantiles = np.repeat(norm.ppf(LEVELS)[None], 400, axis=0)

    def test_little_smoothing_is_near_the_density(self):
        seen = Quantiles(self.quantiles[:1], 0.1, 0.01)
        points = np.linspace(-2, 2, 9)[:, None]
        np.testing.assert_allclose(seen.pdf(points)[0], norm.pdf(points[:, 0]), atol=0.02)
        point = np.array([[0.3]])
        np.testing.assert_allclose(seen.cdf_pairs(point), seen.cdf(point)[:, 0])

    def test_the_width_is_chosen_by_held_out_rows(self):
        """Outputs that spread wider than the quantiles ask for a wider density."""
        Y = np.random.default_rng(0).standard_normal((400, 1))
        near, wide = (chosen_smoothing(self.quantiles, Y * factor, 0.0) for factor in (1.0, 2.0))
        assert near[0] < wide[0] == 1.0

    def test_rounded_outputs_choose_no_spikes(self):
        """All quantiles on the integers: the density would take the narrowest width there is."""
        Y = np.random.default_rng(0).integers(-1, 2, (400, 1)).astype(float)
        spread = np.repeat(np.repeat([-1.0, 0.0, 1.0], [66, 67, 66])[None], 400, axis=0)
        assert chosen_smoothing(spread, Y, 0.0) == (0.1, 0.005)
        relative, absolute = chosen_smoothing(spread, Y, 1.0)
        seen = Quantiles(spread[:1], relative, absolute)
        below, above = (seen.cdf(np.array([[side]]))[0, 0] for side in (-0.5, 0.5))
        np.testing.assert_allclose(above - below, 1 / 3, atol=0.02)


def test_widths_may_be_chosen_again_for_rounded_outputs():
    """As if the gap had been told before the fit, which keeps its own width."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 6, (150, 1))
    y = (x[:, 0] + 0.5 * rng.standard_normal(150)).round()
    first, told = make("qrf").fit(x, y), make("qrf", gap=1.0).fit(x, y)
    before = first.smoothing
    assert first.for_rounded(1.0).smoothing == told.smoothing != before
    assert first.smoothing == before


def test_histogram():
    """Two cells of [0, 2], three times as likely above 1, and 1 % of tail."""
    seen = Histogram(np.array([[0.25, 0.75]]), 0.0, 2.0)
    points = np.array([[0.5], [1.5], [5.0]])
    tail = norm.cdf([1.0, 2.0, 6.0], scale=2) - norm.cdf([0.0, 1.0, 5.0], scale=2)
    expected = 0.99 * np.array([0.25, 0.75, 0.0]) + 0.01 * tail
    np.testing.assert_allclose(seen.pdf(points)[0], expected, atol=1e-5)
    np.testing.assert_allclose(seen.logpdf_pairs(points[:1]), np.log(expected[:1]), atol=1e-4)
    np.testing.assert_allclose(seen.cdf(seen.quantile([0.2, 0.9]).T)[0], [0.2, 0.9])
    assert seen.logpdf_pairs(np.array([[99.0]]))[0] == -np.inf


def test_dequantised_outputs_stay_within_half_a_gap():
    y = np.repeat(np.arange(4.0), 30)
    noisy = dequantised(y[:, None] / 2, np.array([0.5]), seed=0) * 2
    assert 0.4 < np.abs(noisy[:, 0] - y).max() <= 0.5


class TestMixture:
    mixture = Mixture(
        np.array([[0.3, 0.7]]), np.array([[[-1.0], [2.0]]]), np.array([[[0.5], [1.5]]])
    )

    def cdf(self, t):
        return 0.3 * norm.cdf(t, -1, 0.5) + 0.7 * norm.cdf(t, 2, 1.5)

    def test_closed_crps_is_the_integral(self):
        for y in (-2.0, 0.4, 5.0):
            below = quad(lambda t: self.cdf(t) ** 2, -20, y)[0]
            above = quad(lambda t: (1 - self.cdf(t)) ** 2, y, 20)[0]
            got = self.mixture.crps(np.array([[y]]))
            np.testing.assert_allclose(got, below + above, rtol=1e-6)

    def test_quantiles_invert_the_cdf(self):
        levels = np.array([0.01, 0.3, 0.5, 0.99])
        quantiles = self.mixture.quantile(levels)
        np.testing.assert_allclose(self.cdf(quantiles[0]), levels, atol=1e-9)
        np.testing.assert_allclose(self.mixture.cdf(quantiles.T)[0], levels, atol=1e-9)

    def test_moments(self):
        mean = 0.3 * -1 + 0.7 * 2
        variance = 0.3 * (1 + 0.25) + 0.7 * (4 + 2.25) - mean**2
        np.testing.assert_allclose(self.mixture.mean(), [[mean]])
        np.testing.assert_allclose(self.mixture.std(), [[np.sqrt(variance)]])

    def test_shared_centres_equal_their_copies(self):
        """The table of the cdf against the closed forms, with the tail."""
        rng = np.random.default_rng(0)
        centres, weights = rng.standard_normal((6, 1)), rng.random((3, 6))
        weights[2] = 0  # only the tail is left
        shared = Mixture.on_centres(weights, centres, np.array([0.3]))
        copies = Mixture(shared.weights, np.repeat(shared.means, 3, 0), np.repeat(shared.sds, 3, 0))
        Y = np.array([[0.1], [4.0], [-1.0]])
        assert shared.shared
        assert not copies.shared
        np.testing.assert_allclose(shared.weights.sum(axis=1), 1)
        np.testing.assert_allclose(shared.weights[2, -1], 1)
        np.testing.assert_allclose(shared.crps(Y), copies.crps(Y), atol=1e-4)
        np.testing.assert_allclose(shared.logpdf_pairs(Y), copies.logpdf_pairs(Y))
        np.testing.assert_allclose(shared.pdf(Y), copies.pdf(Y))
        levels = np.array([0.05, 0.95])
        np.testing.assert_allclose(shared.quantile(levels), copies.quantile(levels), atol=1e-2)


def test_rescaled_units():
    """A standard normal seen at mean 5 and sd 2."""
    inner = Mixture.normal(np.zeros((1, 1)), np.ones((1, 1)))
    seen = Rescaled(inner, np.array([5.0]), np.array([2.0]), flat=True)
    np.testing.assert_allclose(seen.pdf([4.0]), [norm.pdf([4.0], 5, 2)])
    np.testing.assert_allclose(seen.cdf([4.0]), [norm.cdf([4.0], 5, 2)])
    np.testing.assert_allclose(seen.quantile([0.3]), [norm.ppf([0.3], 5, 2)], atol=1e-8)
    np.testing.assert_allclose(seen.crps([4.0]), 2 * inner.crps(np.array([[-0.5]])))


def test_crps_of_values():
    values, y = np.array([[0.0, 1.0, 3.0]]), np.array([0.5])
    spread = np.abs(values[0][:, None] - values[0]).mean()
    np.testing.assert_allclose(crps_of_values(values, y), np.abs(values - y).mean() - 0.5 * spread)


@pytest.mark.parametrize("family", ["gaussian", "matern32"])
def test_gradient_of_the_marginal_likelihood(family):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((25, 2))[rng.integers(25, size=40)], rng.standard_normal(40)
    rows = Rows.of(X, y)
    assert len(rows.X) < 25
    theta = np.array([0.3, -0.2, 0.1, -0.7])
    error = check_grad(
        lambda t: negative_log_likelihood(t, family, rows)[0],
        lambda t: negative_log_likelihood(t, family, rows)[1],
        theta,
    )
    assert error < 1e-4


@pytest.mark.parametrize("repeats", [1, 3])
def test_gp_equals_scikit_learn(repeats):
    """The same marginal likelihood, also of repeated inputs, which enter by their means."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((40, 2)), repeats, axis=0)
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(len(X))
    theta = np.log([0.8, 2.0, 1.3, 0.2])
    kernel = ConstantKernel(1.3**2) * RBF([0.8, 2.0]) + WhiteKernel(0.2**2)
    peer = GaussianProcessRegressor(kernel, optimizer=None).fit(X, y)
    ours = -negative_log_likelihood(theta, "gaussian", Rows.of(X, y))[0]
    np.testing.assert_allclose(ours, peer.log_marginal_likelihood_value_, rtol=1e-5)
    fitted = ExactGP().fit(X, y)
    np.testing.assert_allclose(fitted.conditional(X).mean(), y, atol=0.4)


def test_gradient_of_the_kde_likelihood():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((20, 2)), rng.standard_normal((20, 1))
    theta = np.array([-0.3, 0.4, -0.5])
    error = check_grad(
        lambda t: loo_negative_log_likelihood(t, X, Y)[0],
        lambda t: loo_negative_log_likelihood(t, X, Y)[1],
        theta,
    )
    assert error < 1e-5


def test_kde_loss_is_the_leave_one_out_log_density():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((8, 1)), rng.standard_normal((8, 1))
    logs = []
    for i in range(8):
        others = np.arange(8) != i
        weights = norm.pdf(X[i], X[others], 0.5)
        logs.append(np.log((weights * norm.pdf(Y[i], Y[others], 0.7)).sum() / weights.sum()))
    got = loo_negative_log_likelihood(np.log([0.5, 0.7]), X, Y)[0]
    np.testing.assert_allclose(got, -np.mean(logs))


def test_statsmodels_density_is_its_own(line):
    require("statsmodels")
    from statsmodels.nonparametric.kernel_density import KDEMultivariateConditional

    X, y = line[0][:60, :1], line[1][:60]
    ours = StatsmodelsKDE().fit(X, y)
    # It standardises, which changes bandwidths by the rule only in the units.
    bandwidths = [ours._h_y[0] * y.std(), ours._h_x[0] * X.std()]
    theirs = KDEMultivariateConditional(y, X, "c", "c", bw=bandwidths)
    query, at = np.array([[0.2]]), np.array([1.3])
    tail = 0.01 * norm.pdf(at, y.mean(), 2 * y.std())
    expected = 0.99 * theirs.pdf(at, query) + tail
    np.testing.assert_allclose(ours.conditional(query).pdf(at)[0], expected, rtol=1e-6)


def test_lscde_closed_form():
    """H and h by quadrature over y, and the coefficients from them."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((5, 1)), rng.standard_normal((5, 1))
    U, V = X[:2], Y[:2]
    width = 0.6

    def basis(line, x, y):
        return np.exp(-0.5 * ((x - U[line, 0]) ** 2 + (y - V[line, 0]) ** 2) / width**2)

    H, h = moments(X, Y, U, V, width)
    for a in range(2):
        expected = np.mean([basis(a, x, y) for x, y in zip(X[:, 0], Y[:, 0], strict=True)])
        np.testing.assert_allclose(h[a], expected)
        for b in range(2):
            overlap = [
                quad(lambda y, x=x, a=a, b=b: basis(a, x, y) * basis(b, x, y), -9, 9)[0]
                for x in X[:, 0]
            ]
            np.testing.assert_allclose(H[a, b], np.mean(overlap), rtol=1e-7)


def test_lscde_coefficients_solve_the_ridge_problem(line):
    X, y = line
    model = LSCDE(seed=0).fit(X, y)
    Z, V = (X[:, :1] - X[:, 0].mean()) / X[:, 0].std(), ((y - y.mean()) / y.std())[:, None]
    H, h = moments(Z, V, model._U, model._V, model.width)
    np.testing.assert_allclose((H + model.ridge * np.eye(len(H))) @ model.alpha, h, atol=1e-9)


def test_score_matching_minimises_its_loss():
    """Its T against a numerical minimum over the span of the representer theorem."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((6, 1)), rng.standard_normal((6, 1))
    ridge, step = 0.05, 1e-4
    model = ScoreMatching(X, Y, 0.8, 0.7, ridge)

    def empirical(tilt):
        """The loss at T + tilt k_X(x_0, .) k_Y(0.3, .), up to a constant."""

        def value(X, Y):
            extra = np.exp(-0.5 * ((X - X0) / 0.8) ** 2 - 0.5 * ((Y - 0.3) / 0.7) ** 2)
            return model.pairs(X, Y) + tilt * extra[:, 0]

        up, middle, down = (value(X, Y + s * step) for s in (1, 0, -1))
        slope, bend = (up - down) / (2 * step), (up - 2 * middle + down) / step**2
        fit = (0.5 * slope**2 + bend - Y[:, 0] / 4 * slope).mean()
        at = model.pairs(X0, np.array([[0.3]]))[0]  # <T, k> = T there
        return fit + ridge * (tilt * at + 0.5 * tilt**2)

    X0 = X[:1]
    derivative = (empirical(1e-3) - empirical(-1e-3)) / 2e-3
    assert abs(derivative) < 1e-4


def test_bandwidths_switch_off_an_irrelevant_input():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (200, 2))
    model = ConditionalKDE().fit(X, np.sin(3 * X[:, 0]) + 0.1 * rng.standard_normal(200))
    assert model._h_x[1] > 5 * model._h_x[0]
