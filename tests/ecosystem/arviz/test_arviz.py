"""Predictions in xarray and ArviZ: shapes, names, and plots that run."""

import numpy as np
import pytest

import kcdo

az = pytest.importorskip("arviz", reason="needs the extra arviz; make ecosystem runs it")
import matplotlib.pyplot as plt  # noqa: E402

N = 60


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (2 * N, 1))
    return X, np.hstack([X, -X]) + 0.2 * rng.standard_normal((2 * N, 2))


@pytest.fixture(scope="module")
def held_out(data):
    X, Y = data
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X[:N], Y[:N, 0])
    return model.conditional(X[N:])


@pytest.fixture(autouse=True)
def close_figures():
    plt.switch_backend("agg")
    yield
    plt.close("all")


def test_a_dataset_has_means_and_quantiles(held_out):
    found = held_out.to_xarray()
    np.testing.assert_array_equal(found["mean"], held_out.mean())
    np.testing.assert_array_equal(found["sd"], held_out.std())
    np.testing.assert_array_equal(found["quantiles"].sel(quantile=0.5), held_out.median())


def test_names_of_rows_and_outputs_are_kept(data):
    pd = pytest.importorskip("pandas")
    X, Y = data
    frame = pd.DataFrame(X, columns=["x"], index=[f"row {i}" for i in range(len(X))])
    outputs = pd.DataFrame(Y, columns=["u", "v"])
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(frame, outputs)
    dist = model.conditional(frame)[5:8]
    found = dist.to_xarray(0.5)
    assert found["query"].values.tolist() == ["row 5", "row 6", "row 7"]
    assert found["mean"].sel(output="v", query="row 6") == dist.mean()[1, 1]
    tree = dist.to_arviz(Y[5:8], draws=7, random_state=0)
    assert tree["posterior_predictive"]["y"].shape == (1, 7, 3, 2)
    assert tree["log_likelihood"]["y"].shape == (1, 7, 3)
    assert tree["observed_data"]["y"].sel(query="row 7", output="u") == Y[7, 0]


def test_draws_and_log_likelihood(data, held_out):
    y = data[1][N:, 0]
    tree = held_out.to_arviz(y, draws=20, random_state=0)
    made = tree["posterior_predictive"]["y"].values
    np.testing.assert_array_equal(made[0].T, held_out.sample(20, random_state=0))
    np.testing.assert_array_equal(
        tree["log_likelihood"]["y"].values[0, 3], held_out.logpdf_pairs(y)
    )
    alone = held_out.to_arviz(draws=5)
    groups = alone.groups() if callable(alone.groups) else alone.groups
    assert not [name for name in groups if "observed" in name or "likelihood" in name]


def test_predictive_checks_are_drawn(data, held_out):
    tree = held_out.to_arviz(data[1][N:, 0], draws=100, random_state=0)
    if az.__version__.startswith("0."):
        az.plot_ppc(tree, num_pp_samples=20)
        # held-out rows need no weights: those of ArviZ would ask for posterior draws
        az.plot_loo_pit(tree, y="y", y_hat="y", ecdf=True, log_weights=np.zeros((N, 100)))
        az.plot_bpv(tree, kind="u_value")
    else:
        az.plot_ppc_dist(tree, num_samples=20)
        az.plot_ppc_pit(tree)
    assert plt.get_fignums()


def test_outputs_must_fit(held_out):
    with pytest.raises(kcdo.InvalidInputError, match=r"one row per query: 60 queries, 3 rows"):
        held_out.to_arviz([0.0, 1.0, 2.0])
