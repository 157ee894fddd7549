"""The systems of near rows: small dense systems, what is near, and how it is found."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from kcdo.kernels import (
    Adapter,
    Average,
    Categorical,
    Gaussian,
    Laplace,
    Matern,
    Periodic,
    has_metric,
    metric_coordinates,
)
from kcdo.systems import ExactRows, Groups, NearestRows, rows_used
from kcdo.systems.finding import Finder

KERNELS = [
    Gaussian((0.5, 2.0)),
    Matern((0.5, 2.0), smoothness=0.5),
    Laplace((0.5, 2.0)),
    Gaussian(0.7).on([0]) + Matern(1.0).on([1]),
    Gaussian(0.7).on([0]) * Periodic(2.0, 0.4).on([1]),
    Average((Gaussian((0.5, 2.0)), Matern((2.0, 0.5), smoothness=0.5))),
    Average((Gaussian((0.5, 2.0)), Laplace(0.7).on([0]))),
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
    near = NearestRows(kernel, X, weights, neighbours=9).factor(1e-3)
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
    exact = ExactRows(kernel, Groups.of(X)).factor(alpha)
    near = NearestRows(kernel, X, ones, neighbours=64).factor(alpha)
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
    near = NearestRows(KERNELS[0], X, weights, neighbours=5)
    judged = np.array([0, 17, 59])
    found = near.factor(1e-3).held_out_weights(judged).toarray()
    assert np.all(found[np.arange(3), judged] == 0.0)
    assert np.all((found != 0).sum(axis=1) == 5)
    assert not np.allclose(near.factor(1.0).held_out_weights(judged).toarray(), found)


def test_rows_that_coincide():
    X = np.repeat([[0.0, 0.0], [1.0, 1.0]], 20, axis=0)
    near = NearestRows(KERNELS[0], X, np.ones(40), neighbours=6).factor(1e-3)
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
    one, two = (
        NearestRows(KERNELS[1], X, weights, neighbours, n_jobs).factor(1e-2) for n_jobs in (1, 2)
    )
    expected = one.section(queries)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kcdo.systems.nearest._BLOCK_ELEMENTS", 1)
        found = two.section(queries)
    np.testing.assert_allclose(found.toarray(), expected.toarray(), rtol=1e-9, atol=1e-12)


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
    monkeypatch.setattr("kcdo.systems.finding._TREE_COORDINATES", p)
    for most in (0, 300):
        monkeypatch.setattr("kcdo.systems.finding._TREE_POINTS", most)
        near = NearestRows(Gaussian(1.0 * p), X, np.ones(300), neighbours=7).factor(1e-3)
        found.append((near.section(queries), near.held_out_weights(np.arange(0, 300, 50))))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one.toarray(), other.toarray(), rtol=1e-9, atol=1e-12)


def test_neighbours_are_found_once_for_every_ridge(monkeypatch):
    X, weights = rows()
    near = NearestRows(KERNELS[0], X, weights, neighbours=5)
    made = []
    monkeypatch.setattr(
        "kcdo.systems.nearest.Finder", lambda points: made.append(1) or Finder(points)
    )
    for alpha in (0.1, 0.2):
        near.factor(alpha).held_out(X)
    assert len(made) == 1
    assert b"finder" not in pickle.dumps(near)  # what finds neighbours does not travel
    again = pickle.loads(pickle.dumps(near)).factor(0.1)
    np.testing.assert_array_equal(again.held_out(X), near.factor(0.1).held_out(X))


def test_rows_used():
    X, weights = rows()
    near = NearestRows(KERNELS[0], X, weights, neighbours=5).factor(1e-3)
    section = near.section(rows(3, seed=1)[0])
    used, compact = rows_used(section)
    assert len(used) == compact.shape[1] <= 15
    np.testing.assert_allclose(compact @ X[used], section @ X)
