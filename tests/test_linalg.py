"""Factorisations, structured spectra and filters against plain dense algebra."""

import numpy as np
import pytest

from kcdo.errors import InvalidInputError, KcdoError
from kcdo.linalg import (
    CholeskyFactor,
    DenseSpectrum,
    IteratedTikhonov,
    KroneckerSpectrum,
    PrintedForm,
    SpectralCutoff,
    Tikhonov,
    symmetric_inverse,
    weighted_square,
)
from kcdo.linalg.cholesky import inverse_entries

FILTERS = [Tikhonov(), IteratedTikhonov(1), IteratedTikhonov(4), SpectralCutoff(), PrintedForm()]
ALL_FILTERS = pytest.mark.parametrize("filter", FILTERS, ids=repr)


def positive_definite(n, seed=0):
    root = np.random.default_rng(seed).normal(size=(n, n + 3))
    return root @ root.T / n


@pytest.fixture
def matrix():
    return positive_definite(17)


def test_cholesky_solves_from_the_lower_triangle_alone(matrix):
    lower = np.tril(matrix)
    lower[np.triu_indices(17, 1)] = np.nan
    factor = CholeskyFactor(lower)
    B = np.random.default_rng(1).normal(size=(17, 4))
    B.setflags(write=False)
    assert len(factor) == 17
    np.testing.assert_allclose(factor.solve(B), np.linalg.solve(matrix, B), rtol=1e-9)
    np.testing.assert_allclose(factor.solve(B[:, 0]), np.linalg.solve(matrix, B[:, 0]), rtol=1e-9)


def test_diagonal_of_the_inverse_whole_and_in_parts(matrix):
    factor = CholeskyFactor(matrix.copy())
    expected = np.diag(np.linalg.inv(matrix))
    np.testing.assert_allclose(factor.inverse_diagonal(), expected, rtol=1e-10)
    rows = np.array([5, 0, 16, 2, 5, 8, 11])
    np.testing.assert_allclose(factor.inverse_diagonal(rows), expected[rows], rtol=1e-10)
    blocks = inverse_entries(factor.solve, len(factor), rows, columns=3)
    np.testing.assert_allclose(blocks, expected[rows], rtol=1e-10)


def test_factor_of_the_inverse(matrix):
    W = CholeskyFactor(matrix.copy()).inverse_factor()
    np.testing.assert_allclose(W @ W.T, np.linalg.inv(matrix), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(W, np.triu(W))


def test_inverse_and_determinant_from_the_lower_triangle_alone(matrix):
    lower = np.tril(matrix)
    lower[np.triu_indices(17, 1)] = np.nan
    inverse, log_determinant = symmetric_inverse(lower)
    np.testing.assert_allclose(inverse, np.linalg.inv(matrix), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(inverse, inverse.T)
    assert log_determinant == pytest.approx(np.linalg.slogdet(matrix)[1], rel=1e-12)


def test_inverse_of_a_matrix_of_several_blocks():
    rng = np.random.default_rng(3)
    half = rng.normal(size=(300, 300))
    matrix = half @ half.T / 300 + np.eye(300)
    inverse, _ = symmetric_inverse(matrix.copy())
    np.testing.assert_allclose(inverse, np.linalg.inv(matrix), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(inverse, inverse.T)


@pytest.mark.parametrize("n", [1, 5, 300])
def test_weighted_square_is_the_product_for_weights_of_any_sign(n):
    rng = np.random.default_rng(n)
    matrix = rng.normal(size=(n, n))
    matrix += matrix.T
    weights = rng.normal(size=n)
    weights[0] = 0.0
    found = weighted_square(matrix, weights)
    np.testing.assert_allclose(found, (matrix * weights) @ matrix, rtol=1e-12, atol=1e-11)
    np.testing.assert_array_equal(found, found.T)


def test_largest_eigenvalue_by_power_iteration():
    values = np.array([5.0, 1.0, 0.5, 0.1])
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    matrix = rotation @ np.diag(values) @ rotation.T
    assert CholeskyFactor(np.ascontiguousarray(matrix)).largest_eigenvalue() == pytest.approx(5.0)


def test_an_indefinite_matrix_is_refused():
    with pytest.raises(np.linalg.LinAlgError, match="order 2 is not positive definite: use a lar"):
        CholeskyFactor(np.diag([1.0, -1.0, 1.0]))
    with pytest.raises(KcdoError):
        CholeskyFactor(np.zeros((2, 2)))
    with pytest.raises(np.linalg.LinAlgError, match="order 2 is not positive definite: use a lar"):
        symmetric_inverse(np.diag([1.0, -1.0, 1.0]))


def test_dense_spectrum_applies_functions_of_the_matrix(matrix):
    spectrum = DenseSpectrum(matrix)
    rows = np.random.default_rng(2).normal(size=(3, 17))
    inverse = spectrum.apply(1.0 / (spectrum.eigenvalues + 0.3), rows)
    expected = np.linalg.solve(matrix + 0.3 * np.eye(17), rows.T).T
    np.testing.assert_allclose(inverse, expected, rtol=1e-10)
    np.testing.assert_allclose(spectrum.apply(spectrum.eigenvalues, rows), rows @ matrix)


def test_rounding_never_leaves_a_negative_eigenvalue():
    v = np.random.default_rng(3).normal(size=(20, 1))
    assert DenseSpectrum(v @ v.T).eigenvalues.min() >= 0
    assert KroneckerSpectrum([v @ v.T, v @ v.T], 2.0).eigenvalues.min() >= 0


@pytest.mark.parametrize("sizes", [(6,), (3, 5), (2, 4, 3), (2, 3, 2, 3)])
def test_kronecker_spectrum_equals_dense(sizes):
    factors = [positive_definite(m, seed) for seed, m in enumerate(sizes)]
    product = np.array([[0.7]])
    for factor in factors:
        factor.setflags(write=False)
        product = np.kron(product, factor)
    fast, dense = KroneckerSpectrum(factors, 0.7), DenseSpectrum(product)
    rows = np.random.default_rng(4).normal(size=(3, len(product)))
    rows.setflags(write=False)
    np.testing.assert_allclose(np.sort(fast.eigenvalues), dense.eigenvalues, rtol=1e-9)
    for filter in FILTERS:
        np.testing.assert_allclose(
            fast.apply(filter.gain(fast.eigenvalues, 0.05), rows),
            dense.apply(filter.gain(dense.eigenvalues, 0.05), rows),
            rtol=1e-8,
            atol=1e-10,
        )


@ALL_FILTERS
def test_slope_is_the_divided_difference_of_the_gain(filter):
    eigenvalues = np.geomspace(0.02, 50.0, 40)
    for ridge in (0.05, 1.0):
        gain, zero = filter.gain(eigenvalues, ridge), filter.gain_at_zero(ridge)
        np.testing.assert_allclose(
            filter.slope(eigenvalues, ridge), (gain - zero) / eigenvalues, rtol=1e-9, atol=1e-12
        )
        assert filter.gain(np.zeros(1), ridge)[0] == pytest.approx(zero)


@ALL_FILTERS
def test_gain_is_about_the_inverse_far_above_the_ridge(filter):
    eigenvalues = np.array([1.0, 10.0])
    np.testing.assert_allclose(filter.gain(eigenvalues, 1e-7) * eigenvalues, 1.0, rtol=1e-6)


@ALL_FILTERS
def test_slope_does_not_cancel_for_tiny_eigenvalues(filter):
    tiny = filter.slope(np.array([0.0, 1e-18]), 0.1)
    assert np.all(np.isfinite(tiny))
    np.testing.assert_allclose(tiny[1], tiny[0], rtol=1e-12)


@pytest.mark.parametrize("filter", [f for f in FILTERS if f != SpectralCutoff()], ids=repr)
@pytest.mark.parametrize("ridge", [1e-3, 0.2, 30.0])
def test_slope_in_the_ridge_by_differences(filter, ridge):
    eigenvalues, step = np.geomspace(1e-4, 5.0, 30), 1e-6 * ridge
    gains = [filter.gain(eigenvalues, ridge + sign * step) for sign in (1, -1)]
    expected = (gains[0] - gains[1]) / (2 * step)
    found = filter.ridge_derivative(eigenvalues, ridge)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-8 * np.abs(expected).max())


def test_a_cutoff_is_not_smooth_in_its_ridge():
    assert SpectralCutoff().ridge_derivative(np.ones(3), 0.1) is None


def test_iterated_tikhonov_is_the_iteration():
    """u_0 = 0, u_{i+1} = u_i + (λ + a)⁻¹ (1 - λ u_i)."""
    eigenvalues, ridge, u = np.geomspace(1e-3, 10, 20), 0.2, 0.0
    for _ in range(5):
        u = u + (1 - eigenvalues * u) / (eigenvalues + ridge)
    np.testing.assert_allclose(IteratedTikhonov(5).gain(eigenvalues, ridge), u, rtol=1e-10)
    np.testing.assert_allclose(
        IteratedTikhonov(1).gain(eigenvalues, ridge), Tikhonov().gain(eigenvalues, ridge)
    )


def test_iterated_tikhonov_needs_an_iteration():
    with pytest.raises(InvalidInputError, match="times must be >= 1; got 0"):
        IteratedTikhonov(0)


def test_filters_are_values():
    assert IteratedTikhonov(3) == IteratedTikhonov(3) != IteratedTikhonov(2)
    assert Tikhonov() == Tikhonov() != PrintedForm()
