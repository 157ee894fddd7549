"""Fast linear algebra equals the plain one: FFT products, pivots, gradients, filters by solves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kcdo
from kcdo.errors import AccuracyWarning
from kcdo.linalg import (
    ConjugateGradients,
    DenseSpectrum,
    GridToeplitz,
    IteratedTikhonov,
    PrintedForm,
    ResolventInverse,
    SpectralCutoff,
    SpectralInverse,
    Tikhonov,
    grid_places,
    randomly_pivoted_cholesky,
)
from kcdo.systems.exact import kernel_product

RATIONAL = [Tikhonov(), IteratedTikhonov(1), IteratedTikhonov(4), PrintedForm()]


def lattice(shape, spacing, origin):
    axes = [o + h * np.arange(m) for m, h, o in zip(shape, spacing, origin, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(shape))


def some_rows(points, share, seed=0):
    rng = np.random.default_rng(seed)
    return rng.permutation(points)[: int(share * len(points))]


# --- Toeplitz products

INPUTS = {
    "line": lattice((40,), (0.1,), (3.0,)),
    "line with gaps": some_rows(lattice((60,), (0.1,), (-2.0,)), 0.6),
    "plane": lattice((7, 9), (0.5, 0.3), (0.0, 10.0)),
    "plane, partly filled": some_rows(lattice((11, 8), (0.5, 0.3), (0.0, 10.0)), 0.4),
    "space, partly filled": some_rows(lattice((5, 4, 6), (1.0, 0.5, 0.2), (0.0, 1.0, 2.0)), 0.5),
    "one constant column": np.column_stack([np.arange(20.0), np.full(20, 7.0)]),
}
KERNELS = [
    kcdo.Gaussian(0.8),
    kcdo.Laplace(0.8),
    kcdo.Matern(0.8, smoothness=0.5),
    kcdo.Matern(0.8, smoothness=2.5),
    kcdo.Periodic(2.3, 0.6),
    kcdo.Gaussian(0.4) + kcdo.Laplace(2.0),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("inputs", INPUTS)
def test_fft_products_equal_the_dense_product(monkeypatch, kernel, inputs):
    X = INPUTS[inputs]
    X.setflags(write=False)
    monkeypatch.setattr("kcdo.linalg.toeplitz._BLOCK_ELEMENTS", 2000)  # a few columns at a time
    product = kernel_product(kernel, X, n_jobs=2)
    assert isinstance(product.__self__, GridToeplitz)
    P = np.random.default_rng(1).normal(size=(len(X), 5))
    P.setflags(write=False)
    np.testing.assert_allclose(product(P), kernel(X) @ P, rtol=0, atol=1e-11)


@pytest.mark.parametrize("kernel", KERNELS[:2], ids=repr)
def test_blocked_products_equal_the_dense_product(monkeypatch, kernel):
    X = np.random.default_rng(0).normal(size=(50, 2))
    monkeypatch.setattr("kcdo.systems.exact._PRODUCT_BYTES", 8 * 50 * 7)  # seven rows at a time
    P = np.random.default_rng(1).normal(size=(50, 3))
    np.testing.assert_allclose(kernel_product(kernel, X, None)(P), kernel(X) @ P, atol=1e-12)


def test_kernels_that_are_not_stationary_use_blocks():
    X = INPUTS["line"]
    linear = kcdo.Adapter(lambda a, b: 1.0 + a @ b.T)
    P = np.ones((len(X), 1))
    np.testing.assert_allclose(kernel_product(linear, X, 1)(P), (1.0 + X @ X.T) @ P)


@pytest.mark.parametrize("inputs", INPUTS)
def test_points_on_a_grid_are_recognised(inputs):
    X = INPUTS[inputs]
    spacing, places = grid_places(X)
    assert places.min() == 0
    np.testing.assert_allclose(X, X.min(axis=0) + places * spacing, rtol=0, atol=1e-12)


def test_a_grid_far_from_the_origin_is_recognised():
    X = 1e6 + 0.01 * np.arange(2000.0)[:, None]  # a gap is known to 1e-8 only
    spacing, places = grid_places(X)
    assert spacing[0] == pytest.approx(0.01, rel=1e-9)
    np.testing.assert_array_equal(places[:, 0], np.arange(2000))


@pytest.mark.parametrize(
    "X",
    [
        np.random.default_rng(0).normal(size=(30, 2)),
        np.array([[0.0], [1.0], [2.5], [3.0], [4.2]]),
        some_rows(lattice((20, 20), (1.0, 1.0), (0.0, 0.0)), 0.2),  # too empty to pay
        np.array([[0.0], [1e-300], [1e300]]),
        np.column_stack([np.arange(30.0), np.arange(30.0) ** 1.1]),
    ],
)
def test_other_points_are_not_taken_for_a_grid(X):
    assert grid_places(X) is None


@given(st.lists(st.integers(0, 30), min_size=2, max_size=40, unique=True), st.floats(0.01, 100.0))
def test_subsets_of_a_line_multiply_alike(places, spacing):
    X = spacing * np.array(places, dtype=float)[:, None]
    kernel = kcdo.Laplace(3.0 * spacing)
    P = np.cos(np.arange(len(X)))[:, None]
    np.testing.assert_allclose(kernel_product(kernel, X, 1)(P), kernel(X) @ P, atol=1e-10)


# --- randomly pivoted Cholesky


def pivoted(matrix, rank, seed=0, block=128):
    return randomly_pivoted_cholesky(
        lambda i: matrix[:, i], np.diag(matrix), rank, np.random.default_rng(seed), block
    )


@pytest.mark.parametrize("block", [1, 5, 128])
def test_at_full_rank_the_factor_is_exact(block):
    matrix = kcdo.Laplace(1.0)(np.random.default_rng(0).normal(size=(40, 2)))
    matrix.setflags(write=False)
    found = pivoted(matrix, 100, block=block)
    assert sorted(found.pivots) == list(range(40))
    np.testing.assert_allclose(found.factor @ found.factor.T, matrix, atol=1e-10)


@pytest.mark.parametrize("rank", [5, 20, 50])
def test_the_factor_is_the_nystrom_approximation_of_its_pivots(rank):
    matrix = kcdo.Matern(1.0)(np.random.default_rng(0).normal(size=(120, 2)))
    found = pivoted(matrix, rank)
    assert len(set(found.pivots)) == rank == found.factor.shape[1]
    chosen = matrix[:, found.pivots]
    expected = chosen @ np.linalg.solve(chosen[found.pivots], chosen.T)
    np.testing.assert_allclose(found.factor @ found.factor.T, expected, atol=1e-8)


@pytest.mark.parametrize("block", [1, 16, 128])
def test_the_trace_error_is_near_the_best_possible(block):
    matrix = kcdo.Matern(1.5)(np.random.default_rng(0).normal(size=(300, 2)))
    values = np.linalg.eigvalsh(matrix)
    for rank in (10, 40):
        errors = [
            np.trace(matrix) - np.sum(pivoted(matrix, rank, seed, block).factor ** 2)
            for seed in range(5)
        ]
        assert values[:-rank].sum() <= np.mean(errors) < 3.0 * values[:-rank].sum()


def test_large_residuals_are_chosen_first():
    """A block of candidates keeps the distribution of the plain algorithm."""
    matrix = np.diag(np.r_[np.full(5, 1.0), np.full(95, 1e-6)])
    for seed in range(20):
        assert sorted(pivoted(matrix, 5, seed).pivots) == list(range(5))


def test_the_first_pivot_follows_the_diagonal():
    diagonal = np.array([6.0, 3.0, 1.0])
    firsts = [pivoted(np.diag(diagonal), 3, seed).pivots[0] for seed in range(2000)]
    share = np.bincount(firsts, minlength=3) / 2000
    np.testing.assert_allclose(share, diagonal / 10, atol=0.05)


def test_repeated_points_are_chosen_once():
    X = np.repeat(np.random.default_rng(0).normal(size=(15, 2)), 20, axis=0)
    matrix = kcdo.Laplace(1.0)(X)
    found = pivoted(matrix, 100)
    assert len(found.pivots) == 15
    assert len(np.unique(X[found.pivots], axis=0)) == 15
    np.testing.assert_allclose(found.factor @ found.factor.T, matrix, atol=1e-12)


@pytest.mark.parametrize("scale", [3.0, 30.0, 1e3, 1e6])
def test_an_exhausted_matrix_ends_the_search(scale):
    matrix = kcdo.Gaussian(scale)(np.random.default_rng(0).normal(size=(200, 1)))
    for seed in range(10):
        found = pivoted(matrix, 200, seed)
        assert 1 <= len(found.pivots) < 60
        assert np.all(np.isfinite(found.factor))
        np.testing.assert_allclose(found.factor @ found.factor.T, matrix, atol=1e-6)


def test_a_residual_that_is_only_rounding_ends_the_search():
    """The diagonal promises more than the columns hold."""
    ones = np.ones((30, 30))
    found = randomly_pivoted_cholesky(
        lambda i: ones[:, i], np.full(30, 1.0 + 1e-9), 30, np.random.default_rng(0)
    )
    assert len(found.pivots) == 1
    np.testing.assert_allclose(found.factor, 1.0)


def test_a_matrix_of_zeros_has_no_pivots():
    assert pivoted(np.zeros((4, 4)), 3).factor.shape == (4, 0)


# --- conjugate gradients


def gradients(matrix, ridge, rank, **options):
    found = pivoted(matrix, rank)
    return ConjugateGradients(lambda P: matrix @ P, ridge, found.factor, **options)


@pytest.fixture
def system():
    rng = np.random.default_rng(2)
    matrix = kcdo.Matern(1.0)(rng.normal(size=(80, 2)))
    return matrix, rng.uniform(0.01, 0.1, 80)


@pytest.mark.parametrize("rank", [1, 20, 80])
def test_conjugate_gradients_solve(system, rank):
    matrix, ridge = system
    solver = gradients(matrix, ridge, rank, tolerance=1e-12)
    B = np.random.default_rng(3).normal(size=(80, 6))
    B[:, 2] = 0.0  # solved before it begins
    B[:, 3] *= 1e-12  # each column to its own size
    B[:, 4] *= 1e200  # whose square is no number
    B.setflags(write=False)
    expected = np.linalg.solve(matrix + np.diag(ridge), B)
    np.testing.assert_allclose(solver.solve(B), expected, rtol=1e-8, atol=1e-20)
    np.testing.assert_allclose(solver.solve(B[:, 0]), expected[:, 0], rtol=1e-8)
    assert len(solver) == 80
    assert 0 < solver.iterations <= 200
    assert 0 < solver.residual <= 1e-12
    assert solver.nbytes == 8 * 80 * rank


def test_conjugate_gradients_of_nothing(system):
    solver = gradients(*system, 5)
    np.testing.assert_array_equal(solver.solve(np.zeros((80, 2))), 0.0)
    assert (solver.iterations, solver.residual) == (0, 0.0)


def test_the_diagonal_of_the_inverse_by_solves(monkeypatch, system):
    matrix, ridge = system
    monkeypatch.setattr("kcdo.linalg.conjugate._UNIT_COLUMNS", 9)
    solver = gradients(matrix, ridge, 30, tolerance=1e-12)
    expected = np.diag(np.linalg.inv(matrix + np.diag(ridge)))
    np.testing.assert_allclose(solver.inverse_diagonal(), expected, rtol=1e-8)
    rows = np.array([5, 79, 5, 0])
    np.testing.assert_allclose(solver.inverse_diagonal(rows), expected[rows], rtol=1e-8)


def test_stopping_early_is_said(system):
    matrix, ridge = system
    solver = gradients(matrix, ridge, 1, tolerance=1e-10, max_iterations=4)
    B = np.random.default_rng(3).normal(size=(80, 2))
    with pytest.warns(AccuracyWarning, match=r"stopped after 4 iterations at a relative residual"):
        found = solver.solve(B)
    left = B - (matrix + np.diag(ridge)) @ found
    size = (np.linalg.norm(left, axis=0) / np.linalg.norm(B, axis=0)).max()
    assert solver.residual == pytest.approx(size, rel=1e-6)
    assert solver.iterations == 4


# --- filters by solves


@pytest.mark.parametrize("filter", RATIONAL, ids=repr)
@pytest.mark.parametrize("ridge", [0.05, 2.0])
def test_solves_and_eigenvectors_agree(filter, ridge):
    root = np.random.default_rng(0).normal(size=(20, 9))
    S = root @ root.T  # half of its eigenvalues are 0
    rows = np.random.default_rng(1).normal(size=(4, 20))
    rows.setflags(write=False)
    by_solves = ResolventInverse(
        lambda B: np.linalg.solve(S + ridge * np.eye(20), B), filter, ridge
    )
    by_eigenvectors = SpectralInverse(DenseSpectrum(S), filter, ridge)
    for name in ("gain", "slope"):
        found, expected = (getattr(i, name)(rows) for i in (by_solves, by_eigenvectors))
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10 / ridge**2)


def test_a_cut_off_is_not_rational():
    assert SpectralCutoff().gain_powers(0.1) is None
    assert SpectralCutoff().slope_powers(0.1) is None
    with pytest.raises(AssertionError, match="needs eigenvalues"):
        ResolventInverse(lambda B: B, SpectralCutoff(), 0.1).gain(np.ones((1, 2)))
