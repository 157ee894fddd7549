"""Fast structure equals plain algebra: FFT products, pivoting, solves, grids, groups, threads."""

import os
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import kcdo
from kcdo.errors import AccuracyWarning, NotEnoughMemoryError
from kcdo.kernels import DensityKernel
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
from kcdo.measures import Grid, Scattered
from kcdo.memory import available_memory, require_memory
from kcdo.operators import DensityOperator, mean_embeddings
from kcdo.parallel import ordered_map
from kcdo.progress import Progress
from kcdo.reconstruction import Reconstruction
from kcdo.systems import ExactSystem, Groups, Iterative
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


# --- the output side


def box(shape):
    d = len(shape)
    return Grid(np.full(d, -2.0), np.full(d, 3.0), shape)


def scattered(n, d):
    rng = np.random.default_rng(8)
    return Scattered(rng.uniform(-2, 3, (n, d)), rng.uniform(0.5, 1.5, n) / n)


SIDES = {
    "line": (box((30,)), kcdo.Gaussian(0.5)),
    "fine line": (box((400,)), kcdo.Gaussian(0.05)),
    "plane": (box((8, 11)), kcdo.Laplace((0.8, 1.1))),
    "space": (box((5, 4, 6)), kcdo.Gaussian((1.4, 1.5, 1.6))),
    "radial plane": (box((8, 11)), kcdo.Matern(0.9)),
    "scattered line": (scattered(25, 1), kcdo.Gaussian(0.5)),
    "scattered plane": (scattered(25, 2), kcdo.Matern(0.9, smoothness=2.5)),
}


def side_of(name, filter=None, ridge=0.1):
    measure, kernel = SIDES[name]
    return Reconstruction(measure, DensityKernel(kernel, measure.dim), ridge, filter or Tikhonov())


def dense_inverse(side, slope=False):
    v = side.measure.weights
    S = np.sqrt(v)[:, None] * side.kernel(side.measure.nodes) * np.sqrt(v)
    values, vectors = np.linalg.eigh(S)
    values = np.maximum(values, 0.0)
    function = side.filter.slope if slope else side.filter.gain
    return (vectors * function(values, side.ridge)) @ vectors.T


@pytest.mark.parametrize("name", SIDES)
def test_embeddings_are_kernel_values(name):
    side = side_of(name)
    Y = np.random.default_rng(0).uniform(-3, 4, (13, side.measure.dim))
    Y.setflags(write=False)
    expected = side.kernel(Y, side.measure.nodes)
    np.testing.assert_allclose(side.embed(Y), expected, rtol=1e-11, atol=1e-15)


def test_embeddings_on_the_nodes_near_each_output():
    side = side_of("fine line")
    Y = np.r_[np.random.default_rng(0).uniform(-2, 3, 40), -2.0, 3.0, -2.3, 3.2, 9.0, -40.0]
    near = side.near_embeddings(Y[:, None])
    assert near.getnnz(axis=1).max() < 400 / 3
    peak = side.kernel.diag(Y[:1, None])[0]
    np.testing.assert_allclose(near.toarray(), side.embed(Y[:, None]), atol=1e-14 * peak)
    for name in set(SIDES) - {"fine line"}:
        assert side_of(name).near_width is None


@pytest.mark.parametrize("block", [1, 50, 1 << 23])
@pytest.mark.parametrize("name", SIDES)
def test_combining_equals_weights_times_embeddings(monkeypatch, name, block):
    monkeypatch.setattr("kcdo.reconstruction._BLOCK_ELEMENTS", block)
    side = side_of(name)
    rng = np.random.default_rng(0)
    Y, weights = rng.uniform(-3, 4, (13, side.measure.dim)), rng.normal(size=(4, 13))
    Y.setflags(write=False)
    weights.setflags(write=False)
    found = side.combine(weights, Y)
    np.testing.assert_allclose(found, weights @ side.embed(Y), rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("filter", [*RATIONAL, SpectralCutoff()], ids=repr)
@pytest.mark.parametrize("name", SIDES)
@pytest.mark.parametrize("largest", [8192, 10])
def test_reconstruction_by_every_way_equals_the_dense_filter(monkeypatch, name, filter, largest):
    """With ``largest`` 10 the grids use FFT products and conjugate gradients."""
    monkeypatch.setattr("kcdo.reconstruction._LARGEST_FACTOR", largest)
    side = side_of(name, filter)
    rows = side.embed(np.random.default_rng(0).uniform(-1.5, 2.5, (6, side.measure.dim)))
    rows.setflags(write=False)
    root = np.sqrt(side.measure.weights)
    expected = (rows * root) @ dense_inverse(side) / root
    np.testing.assert_allclose(side.reconstruct(rows), expected, atol=1e-8)
    expected = (rows * root) @ dense_inverse(side, slope=True) * root
    np.testing.assert_allclose(side.expansion(rows), expected, atol=1e-8)


def test_large_grids_are_solved_by_fft(monkeypatch):
    monkeypatch.setattr("kcdo.reconstruction.lower_gram", None)  # no dense matrix
    grid = Grid(np.zeros(1), np.ones(1), (9001,))
    side = Reconstruction(grid, DensityKernel(kcdo.Gaussian(0.05), 1), 0.1)
    u = side.reconstruct(side.embed(np.array([[0.5]])))
    assert u @ grid.weights == pytest.approx(1 / 1.1, rel=1e-6)


def test_a_radial_kernel_on_a_large_plane():
    grid = box((95, 90))
    side = Reconstruction(grid, DensityKernel(kcdo.Matern(0.3), 2), 0.1)
    u = side.reconstruct(side.embed(np.array([[0.5, 0.4]])))
    again = side.kernel(grid.nodes[::50], grid.nodes) @ u[0] * grid.cell_volume + 0.1 * u[0, ::50]
    np.testing.assert_allclose(again, side.embed(np.array([[0.5, 0.4]]))[0, ::50], atol=1e-9)


def test_a_ridge_below_rounding_falls_back_on_eigenvalues():
    side = Reconstruction(box((120,)), DensityKernel(kcdo.Gaussian(1.5), 1), 1e-19)
    u = side.reconstruct(side.embed(np.array([[0.5]])))
    assert np.all(np.isfinite(u))
    assert isinstance(side._inverse, SpectralInverse)


# --- operators


def density_operator(shape=(40,), n=60, repeated=False, kernel=None):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, 2))
    if repeated:
        X = X[rng.integers(0, n // 3, n)]
    Y = rng.uniform(-1.5, 2.5, (n, len(shape)))
    system = ExactSystem(kcdo.Laplace(1.0), Groups.of(X), 0.01)
    kernel = DensityKernel(kernel or kcdo.Gaussian(0.8), len(shape))
    return DensityOperator.exact(system, Reconstruction(box(shape), kernel, 0.1), Y, "project")


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize(
    ("shape", "kernel"),
    [((40,), None), ((9, 11), None), ((9, 11), kcdo.Matern(0.8)), ((6, 7, 8), None)],
)
def test_the_lazy_model_equals_the_compressed_one(monkeypatch, shape, kernel, repeated):
    monkeypatch.setattr("kcdo.operators._applies_weights", lambda system, measure: False)
    compressed = density_operator(shape, repeated=repeated, kernel=kernel)
    monkeypatch.setattr("kcdo.operators._applies_weights", lambda system, measure: True)
    lazy = density_operator(shape, repeated=repeated, kernel=kernel)
    assert type(lazy.values) is not type(compressed.values)
    assert lazy.nbytes == 8 * 60 * len(shape)
    queries = np.random.default_rng(5).normal(size=(7, 2))
    np.testing.assert_allclose(lazy.masses(queries), compressed.masses(queries), atol=1e-12)


def test_the_lazy_model_of_an_estimator_by_every_exact_solver(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (150, 1))
    Y = np.column_stack([np.sin(X[:, 0]), X[:, 0] ** 2]) + 0.2 * rng.standard_normal((150, 2))
    options = dict(
        kernel_y=kcdo.Gaussian(0.4), reference=kcdo.UniformBox(nodes=25), selection="heuristic"
    )
    expected = kcdo.ConditionalDensityOperator(**options).fit(X, Y).predict(X[:9])
    monkeypatch.setattr("kcdo.operators._LARGEST_MODEL", 0)
    for solver, atol in (("auto", 1e-10), (Iterative(), 1e-6), (kcdo.Exact("float32"), 1e-3)):
        model = kcdo.ConditionalDensityOperator(solver=solver, **options).fit(X, Y)
        np.testing.assert_allclose(model.predict(X[:9]), expected, atol=atol)


def test_a_grid_of_64_cubed_nodes():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (300, 1))
    Y = np.hstack([X, np.sin(X), -X]) + 0.2 * rng.standard_normal((300, 3))
    model = kcdo.ConditionalDensityOperator(
        kernel_y=kcdo.Gaussian(0.3),
        reference=kcdo.UniformBox(-4.0, 4.0, nodes=64),
        selection="heuristic",
    ).fit(X, Y)
    assert (model.report_.method, model.report_.n_nodes) == ("exact", 64**3)
    assert model.report_.memory < 1 << 21  # weights and outputs, no (centres, nodes) matrix
    dist = model.conditional([[0.5], [-1.0]])
    expected = [[0.5, np.sin(0.5), -0.5], [-1.0, -np.sin(1.0), 1.0]]
    np.testing.assert_allclose(dist.mean(), expected, atol=0.2)
    assert np.all(dist.std() < 0.6)


@pytest.mark.parametrize("block", [1, 200, 1 << 22])
@pytest.mark.parametrize("inputs", ["distinct", "repeated"])
@pytest.mark.parametrize("outputs", ["distinct", "repeated"])
@pytest.mark.parametrize("line", ["line", "fine line"])
def test_mean_embeddings_of_groups(monkeypatch, inputs, outputs, line, block):
    monkeypatch.setattr("kcdo.operators._BLOCK_ELEMENTS", block)
    rng = np.random.default_rng(6)
    X, Y, omega = rng.normal(size=(30, 2)), rng.normal(size=(30, 1)), rng.uniform(0.5, 2, 30)
    X = X[rng.integers(0, 8, 30)] if inputs == "repeated" else X
    Y = Y[rng.integers(0, 6, 30)] if outputs == "repeated" else Y
    groups, side = Groups.of(X, omega), side_of(line)
    found = mean_embeddings(groups, side, Y)
    assert found.shape == (len(groups.points), side.measure.n_nodes)
    for point, row in zip(groups.points, found, strict=True):
        here = np.all(point == X, axis=1)
        expected = np.average(side.embed(Y[here]), axis=0, weights=omega[here])
        np.testing.assert_allclose(row, expected, rtol=1e-11, atol=1e-14)


# --- groups


SMALL = st.sampled_from([0.0, -0.0, 1.0, -1.5, 1e-300, 7e20])


@given(
    hnp.arrays(float, st.tuples(st.integers(1, 25), st.integers(1, 3)), elements=SMALL),
    st.randoms(use_true_random=False),
)
def test_groups_are_the_distinct_rows_in_any_order(X, random):
    groups = Groups.of(X)
    np.testing.assert_array_equal(groups.points[groups.member_of], X)
    assert len(groups.points) == len(np.unique(X + 0.0, axis=0))
    order = list(range(len(X)))
    random.shuffle(order)
    again = Groups.of(X[order])
    np.testing.assert_array_equal(again.points, groups.points)
    np.testing.assert_array_equal(again.member_of, groups.member_of[order])


def test_rows_that_meet_in_one_number_are_told_apart(monkeypatch):
    class Same:
        def standard_normal(self, p):
            return np.ones(p)

    monkeypatch.setattr("kcdo.systems.groups.np.random.default_rng", lambda seed: Same())
    X = np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0], [3.0, 0.0]])  # every sum is 3
    groups = Groups.of(X)
    np.testing.assert_array_equal(groups.points, [[1.0, 2.0], [2.0, 1.0], [3.0, 0.0]])
    np.testing.assert_array_equal(groups.member_of, [0, 1, 0, 2])


def test_negative_zero_is_zero():
    groups = Groups.of(np.array([[0.0, 1.0], [-0.0, 1.0]]))
    assert len(groups.points) == 1
    np.testing.assert_array_equal(groups.member_of, 0)
    assert not groups.all_distinct


def test_averages_of_groups():
    groups = Groups.of(np.array([[2.0], [1.0], [2.0]]), np.array([1.0, 5.0, 3.0]))
    averaging = groups.averaging(np.array([0, 1, 0]), 2).toarray()  # two distinct outputs
    np.testing.assert_allclose(averaging, [[0.0, 1.0], [1.0, 0.0]])
    distinct = Groups.of(np.array([[2.0], [1.0]]))
    assert distinct.all_distinct
    np.testing.assert_array_equal(distinct.means(np.array([[5.0], [7.0]])), [[7.0], [5.0]])


# --- interpolation on grids


def test_interpolation_is_exact_for_multilinear_functions():
    grid = Grid(np.array([0.0, -1.0]), np.array([2.0, 3.0]), (5, 8))
    inner = np.random.default_rng(0).uniform([0.25, -0.7], [1.75, 2.7], (40, 2))

    def bilinear(P):
        return 2.0 + P[:, 0] - 3.0 * P[:, 1] + 0.5 * P[:, 0] * P[:, 1]

    shares = grid.interpolation(inner)
    assert shares.shape == (40, 40)
    assert shares.getnnz(axis=1).max() <= 4
    np.testing.assert_allclose(shares @ bilinear(grid.nodes), bilinear(inner), rtol=1e-12)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)


def test_interpolation_at_nodes_edges_and_outside():
    grid = Grid(np.array([0.0]), np.array([4.0]), (4,))
    np.testing.assert_allclose(grid.interpolation(grid.nodes).toarray(), np.eye(4), atol=1e-15)
    edges = grid.interpolation(np.array([[0.0], [0.3], [3.9], [4.0], [-0.1], [4.1], [1e300]]))
    expected = np.zeros((7, 4))
    expected[[0, 1], 0] = expected[[2, 3], 3] = 1.0
    np.testing.assert_allclose(edges.toarray(), expected, atol=1e-15)


@given(hnp.arrays(float, (6, 3), elements=st.floats(-1.0, 2.0)))
def test_shares_are_not_negative_and_sum_to_one_inside(points):
    grid = Grid(np.zeros(3), np.ones(3), (2, 5, 3))
    shares = grid.interpolation(points)
    assert shares.min() >= 0
    np.testing.assert_allclose(np.ravel(shares.sum(axis=1)), 1.0 - grid.outside(points), atol=1e-12)


# --- threads


@pytest.mark.parametrize("n_jobs", [1, 2, 4, None])
def test_results_come_in_order(n_jobs):
    wait = threading.Event()

    def square(i):
        wait.wait(0.001 * (i % 3))
        return i * i

    assert list(ordered_map(square, range(50), n_jobs)) == [i * i for i in range(50)]
    assert list(ordered_map(square, [], n_jobs)) == []


def test_threads_do_not_start_threads():
    def names(_):
        return set(ordered_map(lambda _: threading.current_thread().name, range(5), 3))

    found = list(ordered_map(names, range(4), 2))
    assert all(len(inner) == 1 for inner in found)
    assert threading.current_thread().name not in set().union(*found)


def test_few_results_wait_to_be_taken():
    begun = []
    results = ordered_map(begun.append, range(1000), 2)
    next(results)
    results.close()
    assert len(begun) < 50
    assert not [t for t in threading.enumerate() if "ThreadPool" in t.name]


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_an_error_ends_the_work(n_jobs, error):
    begun = []

    def fail_at_five(i):
        begun.append(i)
        if i == 5:
            raise error("five")
        return i

    taken = []
    with pytest.raises(error, match="five"):
        taken.extend(i for i in ordered_map(fail_at_five, range(1000), n_jobs))
    assert len(begun) < 100
    assert not [t for t in threading.enumerate() if "ThreadPool" in t.name]
    assert list(ordered_map(lambda i: i, range(9), n_jobs)) == list(range(9))


# --- memory and progress


def meminfo(monkeypatch, text):
    def read_text(self):
        if str(self) != "/proc/meminfo" or text is None:
            raise FileNotFoundError
        return text

    monkeypatch.setattr(Path, "read_text", read_text)


def test_memory_as_linux_says(monkeypatch):
    meminfo(monkeypatch, "MemTotal: 9 kB\nMemAvailable:    1234 kB\nSwapFree: 5 kB\n")
    assert available_memory() == 1234 * 1024


def test_memory_left_to_a_container(monkeypatch):
    files = {"meminfo": "MemAvailable: 9999 kB\n", "memory.max": "5000\n", "memory.current": "2000"}
    monkeypatch.setattr(Path, "read_text", lambda self: files[self.name])
    assert available_memory() == 3000


@pytest.mark.parametrize("text", [None, "MemTotal: 9 kB\n"])
def test_memory_as_other_systems_say(monkeypatch, text):
    meminfo(monkeypatch, text)
    values = {"SC_PAGE_SIZE": 4096, "SC_AVPHYS_PAGES": 10}
    monkeypatch.setattr(os, "sysconf", values.__getitem__, raising=False)
    assert available_memory() == 40_960


def test_memory_that_nobody_knows(monkeypatch):
    meminfo(monkeypatch, None)
    monkeypatch.delattr(os, "sysconf", raising=False)
    assert available_memory() == 4 << 30


def test_memory_is_asked_for_before_it_is_taken(monkeypatch):
    monkeypatch.setattr("kcdo.memory.available_memory", lambda: 3 << 30)
    require_memory(3 << 30, "a matrix", "use less")
    message = r"^a matrix needs 3\.5 GiB of memory, but 3\.0 GiB are available: use less$"
    with pytest.raises(NotEnoughMemoryError, match=message) as caught:
        require_memory(3.5 * (1 << 30), "a matrix", "use less")
    assert isinstance(caught.value, MemoryError)


def test_progress_tells_every_five_per_cent_once(capsys):
    progress = Progress(verbose=True)
    for name in ("first", "second"):
        with progress.stage(name):
            for done in range(1, 201):
                progress.update(done, 200)
    text = capsys.readouterr().err
    assert text.count("first: ") == text.count("second: ") == 22  # 0, 5, ..., 100 and the time
    assert text.count("\n") == 2


def test_silence(capsys):
    progress = Progress()
    with progress.stage("nothing"):
        progress.update(1, 2)
    assert capsys.readouterr().err == ""
