"""Gram matrices: blocks, triangles and threads change nothing but the time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import RBF

from kcdo.errors import InvalidInputError
from kcdo.kernels import (
    Adapter,
    Categorical,
    Gaussian,
    Laplace,
    Matern,
    Periodic,
    cross_gram,
    gram,
    lower_gram,
)
from kcdo.kernels.distances import scaled_squared_distances
from kcdo.kernels.gram import as_points

FAMILIES = {
    "gaussian": Gaussian(0.8),
    "laplace": Laplace(0.8),
    "matern": Matern(0.8, smoothness=1.5),
    "periodic": Periodic(3.0, 0.8),
    "product": Gaussian(0.8).on([0]) * Laplace(0.5).on([1]),
    "foreign": Adapter(RBF(0.8)),
}
EVERY = pytest.mark.parametrize("kernel", FAMILIES.values(), ids=FAMILIES)


def read_only(array):
    array.setflags(write=False)
    return array


def naive_gaussian(A, B, scales):
    """Evaluate without any cancellation, in extended precision."""
    difference = (A[:, None, :].astype(np.longdouble) - B[None, :, :]) / scales
    return np.exp(-0.5 * np.sum(difference**2, axis=-1)).astype(float)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (255, 1023), (256, 1024), (257, 1025), (600, 3)])
@pytest.mark.parametrize("p", [1, 3, 4, 6])
def test_cross_gram_across_block_borders(rng, n, m, p):
    A, B = read_only(rng.normal(size=(n, p))), read_only(rng.normal(size=(m, p)))
    scales = np.linspace(0.5, 2.0, p)
    found = cross_gram(Gaussian(scales), A, B)
    np.testing.assert_allclose(found, naive_gaussian(A, B, scales), rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("n", [1, 2, 255, 256, 257, 513, 1030])
@pytest.mark.parametrize("p", [2, 5])
def test_triangles_across_block_borders(rng, n, p):
    A = read_only(rng.normal(size=(n, p)))
    naive = naive_gaussian(A, A, np.ones(p))
    full = gram(Gaussian(1.0), A)
    np.testing.assert_allclose(full, naive, rtol=1e-12)
    np.testing.assert_array_equal(full, full.T)
    np.testing.assert_allclose(np.diag(full), 1.0, rtol=1e-13)
    np.testing.assert_array_equal(np.tril(lower_gram(Gaussian(1.0), A)), np.tril(full))


@EVERY
def test_every_kernel_in_blocks_equals_one_block(rng, kernel):
    A, B = read_only(rng.normal(size=(300, 2))), read_only(rng.normal(size=(1100, 2)))
    np.testing.assert_allclose(cross_gram(kernel, A, B), kernel.block(A, B), rtol=1e-14)
    np.testing.assert_allclose(gram(kernel, A), kernel.block(A, A), rtol=1e-14)


def test_only_the_needed_triangle_is_evaluated(rng):
    evaluated = []

    def counting(A, B):
        evaluated.append(len(A) * len(B))
        return np.ones((len(A), len(B)))

    n = 2048
    lower_gram(Adapter(counting), rng.normal(size=(n, 1)))
    assert sum(evaluated) < 0.6 * n**2


@EVERY
def test_the_number_of_threads_changes_nothing(rng, kernel):
    A, B = rng.normal(size=(700, 2)), rng.normal(size=(1100, 2))
    one, two = (cross_gram(kernel, A, B, n_jobs=n) for n in (1, 2))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(gram(kernel, A, n_jobs=1), gram(kernel, A, n_jobs=3))
    np.testing.assert_array_equal(
        np.tril(lower_gram(kernel, A, n_jobs=1)), np.tril(lower_gram(kernel, A, n_jobs=-1))
    )


def test_fills_a_given_array_in_place(rng):
    A, B = rng.normal(size=(300, 2)), rng.normal(size=(10, 2))
    out = np.full((300, 10), np.nan)
    assert cross_gram(Gaussian(1.0), A, B, out=out) is out
    np.testing.assert_array_equal(out, Gaussian(1.0)(A, B))
    square = np.full((300, 300), np.nan, order="F")
    assert lower_gram(Gaussian(1.0), A, out=square) is square
    np.testing.assert_allclose(np.tril(square), np.tril(Gaussian(1.0)(A)), rtol=1e-13)


def test_nothing_to_compare():
    empty, some = np.empty((0, 2)), np.zeros((3, 2))
    assert cross_gram(Gaussian(1.0), empty, some).shape == (0, 3)
    assert cross_gram(Gaussian(1.0), some, empty).shape == (3, 0)
    assert gram(Gaussian(1.0), empty).shape == (0, 0)


@pytest.mark.parametrize(
    "kernel", [*FAMILIES.values(), Categorical(1.0), Matern(1.0, smoothness=2.5)], ids=repr
)
def test_float32_stays_float32_and_close(rng, kernel):
    A, B = rng.normal(size=(40, 2)), rng.normal(size=(30, 2))
    found = cross_gram(kernel, A.astype(np.float32), B.astype(np.float32))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, kernel(A, B), rtol=1e-5, atol=1e-6)


def test_float32_with_many_columns(rng):
    A = rng.normal(size=(300, 6))
    single = gram(Gaussian(3.0), A.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, Gaussian(3.0)(A), atol=2e-6)
    np.testing.assert_allclose(np.diag(single), 1.0, rtol=1e-5)


@pytest.mark.parametrize(("dtype", "threshold"), [(np.float64, 1e-150), (np.float32, 1e-18)])
def test_tiny_values_are_flushed_to_zero(dtype, threshold):
    A = np.linspace(0.0, 45.0 if dtype == np.float64 else 14.0, 400, dtype=dtype)[:, None]
    for kernel in (Gaussian(1.0), Gaussian(1.0) * Gaussian(3.0)):
        values = kernel(A)
        positive = values[values > 0]
        assert positive.min() >= threshold
        assert positive.min() < 1e3 * threshold  # values above the threshold are left alone
        assert np.any(values == 0)
        assert np.all(kernel.block(A[:1], A)[values[:1] == 0] < threshold)


def test_negative_values_survive():
    kernel = Adapter(lambda A, B: A @ B.T)
    np.testing.assert_array_equal(kernel([[-2.0]], [[3.0], [1e-200]]), [[-6.0, 0.0]])


@pytest.mark.parametrize("family", [Gaussian, Matern, Laplace], ids=lambda f: f.__name__)
@pytest.mark.parametrize("p", [2, 4, 7])
@pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-9, 0.0])
def test_nearly_equal_points_far_from_the_origin(rng, family, p, gap):
    A = 100.0 + 10.0 * rng.normal(size=(50, p))
    B = A + gap * rng.normal(size=(50, p))
    found = np.diag(family(2.0)(A, B))
    wide = (A.astype(np.longdouble) - B) / 2.0
    if family is Gaussian:
        expected = np.exp(-0.5 * np.sum(wide**2, axis=1))
    elif family is Laplace:
        expected = np.exp(-np.sum(np.abs(wide), axis=1))
    else:
        r = np.sqrt(3 * np.sum(wide**2, axis=1))
        expected = (1 + r) * np.exp(-r)
    np.testing.assert_allclose(found, expected.astype(float), rtol=1e-13)
    if gap == 0.0:
        np.testing.assert_allclose(found, 1.0, rtol=1e-13)


@given(
    p=st.integers(4, 8),
    exponent=st.integers(-6, 0),
    offset=st.sampled_from([0.0, 1e3, -1e6]),
    seed=st.integers(0, 99),
)
@settings(max_examples=40)
def test_squared_distances_of_close_pairs_keep_their_digits(p, exponent, offset, seed):
    rng = np.random.default_rng(seed)
    A = offset + rng.normal(size=(30, p))
    B = A + 10.0**exponent * rng.normal(size=(30, p))
    scales = rng.uniform(0.5, 2.0, size=p)
    found = scaled_squared_distances(A, B, scales)
    exact = ((A[:, None, :].astype(np.longdouble) - B) / scales) ** 2
    np.testing.assert_allclose(found, exact.sum(axis=-1).astype(float), rtol=2e-8)
    assert np.all(found >= 0)


def test_many_coinciding_pairs_are_corrected_in_bounded_pieces(rng):
    A = np.repeat(rng.normal(size=(3, 5)), 100, axis=0)  # 90,000 close pairs beside an outlier
    A[0] = 1e9
    squared = scaled_squared_distances(A, A, np.ones(5))
    exact = np.sum((A[:, None, :] - A) ** 2, axis=-1)
    np.testing.assert_allclose(squared, exact, rtol=1e-12)


@pytest.mark.parametrize("unit", [1e-12, 1e12])
@pytest.mark.parametrize("p", [1, 5])
def test_extreme_units(rng, unit, p):
    A = rng.normal(size=(40, p))
    for family in (Gaussian, Laplace, Matern):
        np.testing.assert_allclose(family(unit)(A * unit), family(1.0)(A), rtol=1e-12)


def test_points_come_as_vectors_lists_and_integers():
    kernel = Gaussian(1.0)
    expected = kernel(np.array([[0.0], [1.0], [3.0]]))
    for form in ([0, 1, 3], [0.0, 1.0, 3.0], np.array([[0], [1], [3]]), np.uint8([0, 1, 3])):
        np.testing.assert_array_equal(kernel(form), expected)
        np.testing.assert_array_equal(kernel(form, form), expected)
    assert as_points([True, False]).tolist() == [[1.0], [0.0]]
    assert as_points(["a", "b"]).shape == (2,)


@pytest.mark.parametrize("p", [1, 2, 5])
def test_rows_of_different_width(p):
    with pytest.raises(InvalidInputError, match=f"rows of one width; got {p} and {p + 1} columns"):
        Gaussian(1.0)(np.zeros((2, p)), np.zeros((2, p + 1)))
