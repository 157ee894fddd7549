"""The form of the nearest rows: small systems by the dense formula, and in a combination."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

import kcdo
from kcdo.distributions import layout_of
from kcdo.kernels import Adapter, Categorical, DensityKernel, Gaussian, Laplace, Matern, Periodic
from kcdo.measures import UniformBox
from kcdo.operators import DensityOperator
from kcdo.reconstruction import Reconstruction
from kcdo.systems import ExactSystem, Groups, NearestRows, has_metric
from kcdo.systems.nearest import metric_coordinates

KERNELS = [
    Gaussian((0.5, 2.0)),
    Matern((0.5, 2.0), smoothness=0.5),
    Laplace((0.5, 2.0)),
    Gaussian(0.7).on([0]) + Matern(1.0).on([1]),
    Gaussian(0.7).on([0]) * Periodic(2.0, 0.4).on([1]),
]
EACH_KERNEL = pytest.mark.parametrize("kernel", KERNELS, ids=repr)


def rows(n=60, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(-2.0, 2.0, (n, 2)), rng.uniform(0.5, 2.0, n)


def dense_weights(kernel, X, weights, alpha, query, places):
    """The formula, for one query and the rows that are near it."""
    A = kernel(X[places]) + np.diag(weights.sum() * alpha / weights[places])
    return np.linalg.solve(A, kernel(X[places], query[None])[:, 0])


@EACH_KERNEL
def test_weights_are_those_of_the_small_dense_system(kernel):
    X, weights = rows()
    queries = rows(7, seed=1)[0]
    near = NearestRows(kernel, X, weights, 1e-3, neighbours=9)
    section = near.section(queries)
    assert section.shape == (7, 60)
    distances = cdist(metric_coordinates(kernel, queries), metric_coordinates(kernel, X))
    for i, query in enumerate(queries):
        places = np.argsort(distances[i])[:9]
        expected = np.zeros(60)
        expected[places] = dense_weights(kernel, X, weights, 1e-3, query, places)
        np.testing.assert_allclose(section.toarray()[i], expected, rtol=1e-5, atol=1e-7)


@EACH_KERNEL
def test_of_all_rows_it_is_the_exact_system(kernel):
    X, _ = rows(30)
    queries, ones, alpha = rows(5, seed=1)[0], np.ones(30), 1e-2
    exact = ExactSystem(kernel, Groups.of(X), alpha)
    near = NearestRows(kernel, X, ones, alpha, neighbours=64)
    np.testing.assert_allclose(
        near.section(queries).toarray(), exact.weights(queries), rtol=1e-6, atol=1e-8
    )
    judged = np.array([3, 11, 29])
    np.testing.assert_allclose(
        near.held_out_weights(judged).toarray(),
        exact.held_out_weights(judged),
        rtol=1e-6,
        atol=1e-8,
    )


def test_a_held_out_row_does_not_know_itself():
    X, weights = rows()
    near = NearestRows(KERNELS[0], X, weights, 1e-3, neighbours=5)
    judged = np.array([0, 17, 59])
    found = near.held_out_weights(judged).toarray()
    assert np.all(found[np.arange(3), judged] == 0.0)
    assert np.all((found != 0).sum(axis=1) == 5)
    np.testing.assert_array_equal(near.with_alpha(1e-3).held_out_weights(judged).toarray(), found)
    assert not np.allclose(near.with_alpha(1.0).held_out_weights(judged).toarray(), found)


def test_rows_that_coincide():
    X = np.repeat([[0.0, 0.0], [1.0, 1.0]], 20, axis=0)
    near = NearestRows(KERNELS[0], X, np.ones(40), 1e-3, neighbours=6)
    found = near.held_out_weights(np.arange(40))
    assert np.all((found.toarray() != 0).sum(axis=1) <= 6)
    assert np.all(found.toarray().diagonal() == 0.0)
    y = X[:, 0]  # equal rows foretell one another, but for the ridge
    np.testing.assert_allclose(found @ y, y, atol=0.02)


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30))
def test_threads_and_blocks_change_nothing(seed, neighbours):
    X, weights = rows(40, seed)
    queries = rows(9, seed + 1)[0]
    one = NearestRows(KERNELS[1], X, weights, 1e-2, neighbours, n_jobs=1).section(queries)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kcdo.systems.nearest._BLOCK_ELEMENTS", 1)
        two = NearestRows(KERNELS[1], X, weights, 1e-2, neighbours, n_jobs=2).section(queries)
    np.testing.assert_allclose(two.toarray(), one.toarray(), rtol=1e-9, atol=1e-12)


def test_what_is_near():
    phases = np.array([[23.9], [0.1], [12.0]])
    near, _, far = cdist(*[metric_coordinates(Periodic(24.0, 3.0), phases)] * 2)[0][[1, 0, 2]]
    chord = 24.0 / np.pi * np.sin(np.pi * 0.2 / 24.0) / 3.0
    assert near == pytest.approx(chord, rel=1e-9)
    assert far > 2.0
    codes = np.arange(60.0)[:, None]
    apart = cdist(*[metric_coordinates(Categorical(0.5), codes)] * 2)
    others = apart[np.triu_indices(60, 1)]
    assert np.sqrt(np.mean(others**2)) == pytest.approx(2.0, rel=0.02)  # 2/s = 4
    assert others.min() > 0.2
    differences = np.abs(codes - codes.T)[np.triu_indices(60, 1)]
    assert abs(np.corrcoef(differences, others)[0, 1]) < 0.15  # the order of codes means nothing


def test_kernels_without_a_metric():
    from sklearn.gaussian_process.kernels import DotProduct

    X, _ = rows()
    assert all(has_metric(kernel, X) for kernel in KERNELS)
    assert not has_metric(Adapter(DotProduct()), X)
    assert not has_metric(KERNELS[0], np.array([["a"]], dtype=object))


@pytest.mark.parametrize("p", [3, 40])
def test_all_distances_find_what_a_tree_finds(p, monkeypatch):
    rng = np.random.default_rng(6)
    X, queries = rng.normal(size=(300, p)), rng.normal(size=(8, p))
    found = []
    for most in (0, 100):
        monkeypatch.setattr("kcdo.systems.nearest._TREE_COORDINATES", most)
        near = NearestRows(Gaussian(1.0 * p), X, np.ones(300), 1e-3, neighbours=7)
        found.append((near.section(queries), near.held_out_weights(np.arange(0, 300, 50))))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one.toarray(), other.toarray(), rtol=1e-9, atol=1e-12)


def test_neighbours_are_found_once_for_every_ridge():
    X, weights = rows()
    near = NearestRows(KERNELS[0], X, weights, 1e-3, neighbours=5)
    assert near.with_alpha(0.1)._finder is near.with_alpha(0.2)._finder
    assert b"KDTree" not in pickle.dumps(near)


def test_uncertain_queries_have_no_neighbours():
    X, weights = rows()
    near = NearestRows(KERNELS[0], X, weights, 1e-3)
    with pytest.raises(kcdo.InvalidInputError, match="only points have neighbours"):
        near.section(kcdo.GaussianInput(X[:2], 0.1))


# --- densities


@pytest.mark.parametrize(
    ("d", "scale"),
    [(1, 0.5), (1, 0.02), (2, 0.5), (3, 0.5)],
    ids=["line", "narrow", "plane", "space"],
)
def test_the_density_is_the_formula(d, scale):
    X, weights = rows(200)
    rng = np.random.default_rng(2)
    Y = np.sin(X[:, :1]) + 0.1 * rng.standard_normal((200, d))
    grid = UniformBox(-2.0, 2.0, nodes={1: 400, 2: 30, 3: 9}[d]).realise(Y)
    output = Reconstruction(grid, DensityKernel(Gaussian(scale), d), ridge=0.1)
    near = NearestRows(Matern(0.5), X, weights, 1e-3, neighbours=12)
    operator = DensityOperator.of_rows(near, output, Y, "project")
    queries = rows(100, seed=1)[0]
    values, sums = operator.values(near.section(queries))
    section = near.section(queries).toarray()
    expected = output.reconstruct(section @ output.embed(Y))
    np.testing.assert_allclose(values, expected, atol=1e-9 * np.abs(expected).max())
    np.testing.assert_allclose(sums, section.sum(axis=1))
    batch = operator.batch(queries)
    assert len(batch) == 100
    np.testing.assert_allclose(batch.masses.sum(axis=1), 1.0)
    assert operator.width(queries) == layout_of(grid, output.kernel.scales).n_nodes
    assert operator.nbytes == Y.nbytes


# --- in a combination


@pytest.fixture(scope="module")
def rough():
    """A function too rough for twenty centres."""
    rng = np.random.default_rng(3)
    X = rng.uniform(0.0, 40.0, (2300, 1))
    Y = np.sin(3.0 * X[:, 0]) + 0.1 * rng.standard_normal(2300)
    return X[:2100], Y[:2100], X[2100:], Y[2100:]


def on_few_centres(**options):
    return kcdo.ConditionalDensityOperator(solver=kcdo.Nystrom(20), **options)


@pytest.fixture(scope="module")
def fitted(rough):
    return on_few_centres().fit(*rough[:2])


def test_near_rows_follow_what_centres_do_not(rough, fitted, short_searches):
    X, Y, X_new, Y_new = rough
    without = on_few_centres(combination=kcdo.Combination(nearest=0.0)).fit(X, Y)
    assert "nearest" not in without.report_.weights
    assert fitted.report_.weights["nearest"] > 0.8
    assert without.score(X_new, Y_new) < -0.7
    assert fitted.score(X_new, Y_new) > 0.6  # 0.88 is that of the truth
    assert np.abs(fitted.predict(X_new) - np.sin(3.0 * X_new[:, 0])).mean() < 0.1


def test_its_weight_may_be_given(rough, short_searches):
    X, Y, *_ = rough
    combination = kcdo.Combination(nearest=0.25)
    assert on_few_centres(combination=combination).fit(X, Y).report_.weights["nearest"] == 0.25


def test_exact_systems_have_no_use_for_it(rough, short_searches):
    X, Y, *_ = rough
    model = kcdo.ConditionalDensityOperator(kcdo.Matern(1.0), solver=kcdo.Exact()).fit(X, Y)
    assert "nearest" not in model.report_.weights
    assert model._operator.nearest is None


def test_it_may_be_all_there_is(rough, short_searches):
    X, Y, X_new, Y_new = rough
    alone = kcdo.Combination(0, 0, 0, 0, nearest=1.0)
    model = on_few_centres(kernel_x=kcdo.Matern(1.0), combination=alone).fit(X, Y)
    assert model.report_.weights == {"nearest": 1.0}
    assert np.abs(model.predict(X_new) - Y_new).mean() < 0.2
    with pytest.raises(kcdo.InvalidInputError, match="all weight is on the nearest rows"):
        on_few_centres(combination=alone).fit(X[:100], Y[:100])


def test_several_outputs_categories_and_weights(short_searches):
    rng = np.random.default_rng(4)
    X = np.c_[rng.uniform(0.0, 40.0, 2100), rng.integers(0, 5, 2100)]
    centre = np.c_[np.sin(3.0 * X[:, 0]), X[:, 1] % 2]
    Y = centre + 0.1 * rng.standard_normal((2100, 2))
    weights = np.where(X[:, 0] > 20.0, 1.0, 0.1)
    kernel = kcdo.Matern(1.0).on([0]) * kcdo.Categorical(0.5).on([1])
    model = on_few_centres(kernel_x=kernel).fit(X, Y, sample_weight=weights)
    assert model.report_.weights["nearest"] > 0.3
    assert np.abs(model.predict(X[:200]) - centre[:200]).mean() < 0.3
    assert model.report_.memory > model._operator.plain.nbytes + Y.nbytes


def test_kernels_without_a_metric_have_no_near_rows(short_searches):
    from sklearn.gaussian_process.kernels import RBF

    rng = np.random.default_rng(5)
    X = rng.uniform(0.0, 4.0, (2100, 1))
    Y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(2100)
    model = on_few_centres(kernel_x=RBF(1.0)).fit(X, Y)
    assert "nearest" not in model.report_.weights


def test_the_model_has_rows_of_its_own(rough, short_searches):
    X, Y, X_new, _ = (array.copy() for array in rough)
    model = on_few_centres(kernel_x=kcdo.Matern(1.0)).fit(X, Y)
    before = model.predict(X_new)
    X *= 0.0
    Y *= 0.0
    np.testing.assert_array_equal(model.predict(X_new), before)


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
def test_queries_far_from_all_rows(fitted):
    found = fitted.predict([[1e155], [-1e300], [1e308]])
    np.testing.assert_allclose(found, found[0])
    assert np.isfinite(found).all()


def test_uncertain_inputs_are_mixtures_over_points(rough, fitted):
    points = rough[2][:4]
    cloud = fitted.conditional(kcdo.SampleInput([points]))
    expected = fitted.conditional(points).pdf([-0.5, 0.3]).mean(axis=0)
    # the plain form averages before densities are made positive
    np.testing.assert_allclose(cloud.pdf([-0.5, 0.3])[0], expected, rtol=0.05, atol=0.02)


def test_refitted_and_pickled(rough, fitted):
    X, Y, X_new, Y_new = rough
    again = fitted.refit(X, Y)
    np.testing.assert_allclose(again.predict(X_new), fitted.predict(X_new), rtol=1e-8)
    copied = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copied.predict(X_new), fitted.predict(X_new))
    few = fitted.refit(X[:3], Y[:3])  # fewer rows than neighbours
    assert np.isfinite(few.predict(X_new)).all()
    assert fitted.refit(X[::2], Y[::2]).score(X_new, Y_new) > 0.3
