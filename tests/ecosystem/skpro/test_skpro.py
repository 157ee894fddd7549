"""kcdo in skpro: its own checks, and answers that are those of kcdo."""

import numpy as np
import pytest
from scipy.integrate import trapezoid
from sklearn.model_selection import KFold

import kcdo

pd = pytest.importorskip("pandas")
pytest.importorskip("skpro", reason="needs the extra skpro; make ecosystem runs it")

from skpro.benchmarking.evaluate import evaluate  # noqa: E402
from skpro.metrics import CRPS, LogLoss  # noqa: E402
from skpro.utils.estimator_checks import check_estimator  # noqa: E402

from kcdo.adapters.skpro import KernelCDE, KernelDistribution  # noqa: E402

QUICK = kcdo.ConditionalDensityOperator(selection="heuristic")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(-1, 1, (80, 2)), columns=["a", "b"], index=range(100, 180))
    side = rng.choice([-1.0, 1.0], 80)
    Y = pd.DataFrame({"u": side * X["a"], "v": X["b"]}, index=X.index)
    return X, Y + 0.1 * rng.standard_normal((80, 2))


@pytest.mark.parametrize("kind", [KernelDistribution, KernelCDE])
@pytest.mark.filterwarnings("ignore")
def test_the_checks_of_skpro_pass(kind):
    results = check_estimator(kind, raise_exceptions=True, verbose=False)
    assert len(results) > 50
    assert set(results.values()) == {"PASSED"}


def test_predictions_are_those_of_the_model(table):
    X, Y = table
    regressor = KernelCDE(QUICK).fit(X, Y)
    dist = regressor.estimator_.conditional(X)
    proba = regressor.predict_proba(X)
    assert proba.columns.tolist() == ["u", "v"]
    np.testing.assert_array_equal(regressor.predict(X), dist.mean())
    np.testing.assert_array_equal(proba.var(), dist.var())
    np.testing.assert_array_equal(regressor.predict_var(X), dist.var())
    levels = [0.1, 0.5]
    quantiles = regressor.predict_quantiles(X, alpha=levels)
    np.testing.assert_array_equal(quantiles["v"], dist.marginal(1).quantile(levels))
    interval = regressor.predict_interval(X, coverage=0.8)
    np.testing.assert_array_equal(interval["u"][0.8], dist.marginal(0).interval(0.8))


def test_densities_are_marginal_and_draws_joint(table):
    X, Y = table
    proba = KernelCDE(QUICK).fit(X, Y).predict_proba(X[:7])
    for j, name in enumerate(Y.columns):
        line = proba.dist.marginal(j)
        values = Y[name][:7]
        np.testing.assert_allclose(proba.pdf(Y[:7])[name], np.diag(line.pdf(values)), rtol=1e-9)
        np.testing.assert_allclose(proba.cdf(Y[:7])[name], np.diag(line.cdf(values)), rtol=1e-9)
    same = Y[:7] * 0 + 0.1  # one value for all rows
    np.testing.assert_allclose(proba.cdf(same)["u"], proba.dist.marginal(0).cdf([0.1])[:, 0])
    np.random.seed(0)  # noqa: NPY002 - what users of skpro do
    first = proba.sample(2000)
    np.random.seed(0)  # noqa: NPY002
    assert first.equals(proba.sample(2000))
    one = first.xs(100, level=1)
    np.testing.assert_allclose(np.cov(one.T), proba.dist.cov()[0], atol=0.03)


def test_energies_are_exact(table):
    X, Y = table
    proba = KernelCDE(QUICK).fit(X, Y["u"]).predict_proba(X[:3])
    np.random.seed(0)  # noqa: NPY002
    draws = np.stack([proba.sample(4000).to_numpy().reshape(4000, 3) for _ in range(2)])
    own = np.abs(draws[0] - draws[1]).mean(axis=0)
    np.testing.assert_allclose(proba.energy()["energy"], own, atol=0.05)
    point = proba.mean() + 0.3
    to_point = np.abs(draws[0] - point.to_numpy().T).mean(axis=0)
    np.testing.assert_allclose(proba.energy(point)["energy"], to_point, atol=0.05)


def test_powers_of_the_density_integrate(table):
    X, Y = table
    proba = KernelCDE(QUICK).fit(X, Y["u"]).predict_proba(X[:2])
    y = np.linspace(-4, 4, 40_001)
    for a in (2, 3):
        truth = trapezoid(proba.dist.pdf(y) ** a, y)
        np.testing.assert_allclose(proba.pdfnorm(a).iloc[:, 0], truth, rtol=1e-4)


def test_a_single_entry_is_a_scalar_distribution(table):
    X, Y = table
    proba = KernelCDE(QUICK).fit(X, Y).predict_proba(X[:3])
    one = proba.iloc[1, 0]
    line = proba.dist[1].marginal(0)
    assert one.shape == ()
    assert one.pdf(0.2) == pytest.approx(line.pdf([0.2])[0, 0])
    assert one.energy(0.2) == pytest.approx(line.expect(lambda y: np.abs(y - 0.2))[0])
    assert one.ppf(0.5) == proba.iat[1, 0].ppf(0.5) == line.median()[0]


def test_names_must_fit():
    dist = kcdo.ConditionalDensityOperator(selection="heuristic").fit([[0], [1]], [0.0, 1.0])
    with pytest.raises(kcdo.InvalidInputError, match=r"must name 2 queries and 1 outputs; got 3"):
        KernelDistribution(dist.conditional([[0], [1]]), index=["a", "b", "c"])


def test_metrics_of_skpro_agree_with_ours(table):
    X, Y = table
    regressor = KernelCDE(QUICK).fit(X[:60], Y[["u"]][:60])
    proba = regressor.predict_proba(X[60:])
    dist, y = proba.dist, Y["u"][60:]
    ours = kcdo.metrics.crps(dist, y)
    assert CRPS()(Y[["u"]][60:], proba) == pytest.approx(ours, rel=1e-6)
    assert LogLoss()(Y[["u"]][60:], proba) == pytest.approx(-dist.logpdf_pairs(y).mean())


def test_benchmarks_of_skpro_run(table):
    X, Y = table
    result = evaluate(estimator=KernelCDE(QUICK), cv=KFold(2), X=X, y=Y[["v"]], scoring=[CRPS()])
    assert result["test_CRPS"].max() < 0.2  # the noise has 0.056
