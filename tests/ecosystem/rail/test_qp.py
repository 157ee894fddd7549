"""Ensembles of qp: the same distributions there and back, and the same scores."""

import numpy as np
import pytest

import kcdo

qp = pytest.importorskip("qp", reason="needs the extra rail; make ecosystem runs it")

from kcdo.adapters.normals import exact_normals  # noqa: E402
from kcdo.adapters.qp import from_qp, to_qp  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:::qp", "ignore:::scipy")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (150, 1))
    return X, rng.choice([-1.0, 1.0], 150) * X[:, 0] + 0.1 * rng.standard_normal(150)


@pytest.fixture(scope="module")
def dist(data):
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(*data)
    return model.conditional([[0.8], [0.0], [-0.4]])


@pytest.fixture(scope="module")
def normals(data):
    X, y = data
    rng = np.random.default_rng(1)
    model = kcdo.ConditionalDensityOperator(
        selection="heuristic", reference=kcdo.Sample(rng.uniform(-2, 2, 60))
    )
    return model.fit(X, y).conditional([[0.8], [0.0]])


def test_interp_is_exact_at_the_places(dist):
    places = np.linspace(-2, 2, 101)
    ensemble = dist.to_qp("interp", nodes=places)
    assert ensemble.npdf == 3
    np.testing.assert_allclose(ensemble.pdf(places), dist.pdf(places), rtol=1e-12)


def test_interp_chooses_places_that_hold_the_mass(dist):
    ensemble = dist.to_qp()
    places = ensemble.metadata["xvals"].ravel()
    assert len(places) == 301
    np.testing.assert_allclose(ensemble.pdf(places), dist.pdf(places), rtol=1e-12)
    np.testing.assert_allclose(ensemble.cdf(places), dist.cdf(places), atol=2e-3)
    assert dist.to_qp("interp", nodes=50).metadata["xvals"].size == 50


def test_quant_is_exact_at_the_levels(dist):
    ensemble = dist.to_qp("quant")
    levels = [0.01, 0.25, 0.5, 0.99]
    np.testing.assert_allclose(ensemble.ppf(levels), dist.quantile(levels), atol=1e-9)
    few = dist.to_qp("quant", nodes=4)
    np.testing.assert_allclose(few.ppf(0.375)[:, 0], dist.quantile(0.375), atol=1e-9)


def test_mixmod_of_normal_mixtures_is_exact(normals):
    ensemble = normals.to_qp("mixmod")
    y = np.linspace(-2, 2, 41)
    np.testing.assert_allclose(ensemble.pdf(y), normals.pdf(y), atol=1e-10)
    np.testing.assert_allclose(from_qp(ensemble).pdf(y), normals.pdf(y), atol=1e-10)


def test_mixmod_of_other_distributions_has_the_stated_error(dist):
    assert exact_normals(dist) is None
    ensemble = dist.to_qp("mixmod", nodes=10)
    y = np.linspace(-2, 2, 401)
    assert np.abs(ensemble.cdf(y) - dist.cdf(y)).max() < 0.01
    assert np.trapezoid(np.abs(ensemble.pdf(y) - dist.pdf(y)), y).max() < 0.1
    back = from_qp(ensemble)
    np.testing.assert_allclose(back.mean(), dist.mean(), atol=2e-3)
    np.testing.assert_allclose(back.std(), dist.std(), rtol=0.02)


@pytest.mark.parametrize("kind", ["interp", "mixmod", "quant"])
def test_there_and_back(dist, kind):
    back = from_qp(dist.to_qp(kind))
    assert len(back) == 3
    y = np.linspace(-1.5, 1.5, 61)
    np.testing.assert_allclose(back.cdf(y), dist.cdf(y), atol=0.01)
    np.testing.assert_allclose(back.mean(), dist.mean(), atol=0.02)
    assert back[1].sample(5, random_state=0).shape == (1, 5)


def test_from_qp_at_places_of_the_user(dist):
    places = np.linspace(-2, 2, 201)
    back = from_qp(dist.to_qp("mixmod"), nodes=places)
    np.testing.assert_allclose(back.cdf(places), dist.cdf(places), atol=0.01)
    with pytest.raises(kcdo.InvalidInputError, match="as far from each other"):
        from_qp(dist.to_qp(), nodes=[0.0, 1.0, 3.0])


def test_files_of_qp(dist, tmp_path):
    path = str(tmp_path / "pz.hdf5")
    dist.to_qp().write_to(path)
    y = np.linspace(-1, 1, 21)
    np.testing.assert_allclose(from_qp(qp.read(path)).cdf(y), dist.cdf(y), atol=2e-3)


def test_normal_components_are_found():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (60, 1))
    y = X[:, 0] + 0.2 * rng.standard_normal(60)
    only_normal = kcdo.Combination(normal=1.0)
    model = kcdo.ConditionalDensityOperator(combination=only_normal, output_transform=None)
    model.fit(X, y)
    dist = model.conditional(X[:4])
    found = exact_normals(dist)
    assert found is not None
    np.testing.assert_allclose((found.weights * found.means).sum(axis=1), dist.mean())


def test_pit_values_and_cde_loss_agree_with_ours(data, dist):
    from qp.metrics.pit import PIT
    from rail.evaluation.metrics.cdeloss import CDELoss

    X, y = data
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X[:100], y[:100])
    held_out = model.conditional(X[100:])
    ensemble = held_out.to_qp("interp", nodes=2001)
    pit = np.asarray(PIT(ensemble, y[100:]).pit_samps)
    np.testing.assert_allclose(pit, kcdo.metrics.pit_values(held_out, y[100:]), atol=2e-3)
    grid = ensemble.metadata["xvals"].ravel()
    theirs = CDELoss(ensemble, grid, y[100:]).evaluate().statistic
    assert theirs == pytest.approx(kcdo.metrics.cde_loss(held_out, y[100:]), abs=5e-3)
    # qp has no CRPS of its own; its cdf gives ours
    fine = np.linspace(grid[0], grid[-1], 4001)
    gap = ensemble.cdf(fine) - (fine >= y[100:, None])
    crps = np.trapezoid(gap**2, fine).mean()
    assert crps == pytest.approx(kcdo.metrics.crps(held_out, y[100:]), abs=2e-3)


def test_what_is_refused(dist):
    with pytest.raises(kcdo.InvalidInputError, match=r"one of \['interp', 'mixmod', 'quant'\]"):
        dist.to_qp("hist")
    with pytest.raises(kcdo.InvalidInputError, match="must be at least 2; got 1"):
        dist.to_qp("interp", nodes=1)
    with pytest.raises(kcdo.InvalidInputError, match="levels in increasing order"):
        dist.to_qp("quant", nodes=[0.5, 0.1])
    X, Y = kcdo.make_donut(20, random_state=0)
    two = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y).conditional(X[:1])
    with pytest.raises(kcdo.InvalidInputError, match="here are 2: take a marginal"):
        two.to_qp()
    assert to_qp(two.marginal([1]), "quant").npdf == 1
