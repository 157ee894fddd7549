"""Centres of a Nyström system: rows that cover the data, in an order that means nothing."""

import numpy as np
import pytest

import kcdo


def clusters(n=4000):
    """Most rows in one small cluster, few in twenty others."""
    rng = np.random.default_rng(5)
    middles = rng.uniform(-10, 10, (20, 2))
    of = np.where(rng.random(n) < 0.97, 0, rng.integers(1, 20, n))
    return middles[of] + 0.2 * rng.standard_normal((n, 2))


def trace_error(kernel, X, centres):
    K = kernel(X, centres)
    explained = np.einsum("nm,mn->n", K, np.linalg.pinv(kernel(centres), rcond=1e-12) @ K.T)
    return np.mean(1.0 - explained)


@pytest.mark.parametrize("choice", ["rpcholesky", "kmeans++"])
def test_chosen_centres_cover_clusters_that_uniform_ones_miss(choice):
    X, kernel = clusters(), kcdo.Gaussian(0.7)

    def error(choice):
        errors = [
            trace_error(
                kernel, X, kcdo.Nystrom(40, choice).choose(kernel, X, 40, np.random.default_rng(s))
            )
            for s in range(5)
        ]
        return np.mean(errors)

    assert error(choice) < 0.5 * error("uniform")


@pytest.mark.parametrize("choice", ["uniform", "kmeans++", "rpcholesky"])
def test_centres_are_rows_distinct_and_in_an_order_that_means_nothing(choice):
    X = np.repeat(clusters(60), 3, axis=0)
    X[:, 1] = np.floor(X[:, 1])
    options = kcdo.Nystrom(30, choice)
    kernel = kcdo.Laplace(1.0)
    found = options.choose(kernel, X, 30, np.random.default_rng(0))
    assert found.shape == (30, 2)
    assert len(np.unique(found, axis=0)) == 30
    assert {tuple(c) for c in found} <= {tuple(x) for x in X}
    shuffled = np.random.default_rng(1).permutation(X)
    np.testing.assert_array_equal(
        options.choose(kernel, shuffled, 30, np.random.default_rng(0)), found
    )
    every = options.choose(kernel, X, 1000, np.random.default_rng(0))
    np.testing.assert_array_equal(every, np.unique(X, axis=0))


def test_a_constant_column_does_not_disturb_the_choice():
    X = np.column_stack([np.arange(50.0), np.full(50, 3.0)])
    found = kcdo.Nystrom(5, "kmeans++").choose(kcdo.Gaussian(1.0), X, 5, np.random.default_rng(0))
    assert len(np.unique(found[:, 0])) == 5


@pytest.mark.filterwarnings("ignore::kcdo.DiscreteOutputWarning")
def test_objects_can_be_centres():
    words = ["a", "bb", "ccc", "dddd"] * 20
    lengths = np.array([len(w) for w in words], dtype=float)

    def kernel(A, B):
        return np.array([[float(a == b) for b in B] for a in A])

    model = kcdo.ConditionalDensityOperator(
        kernel_x=kcdo.Adapter(kernel),
        kernel_y=kcdo.Gaussian(0.3),
        alpha=1e-6,
        solver=kcdo.Nystrom(4),
        selection="heuristic",
    ).fit(words, lengths)
    assert model.report_.method == "nystrom"
    np.testing.assert_allclose(model.predict(["a", "dddd"]), [1.0, 4.0], atol=0.1)
