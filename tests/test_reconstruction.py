"""The output side against the formulas of its definition, written out densely."""

import numpy as np
import pytest

from kcdo.errors import InvalidInputError
from kcdo.kernels import DensityKernel, Gaussian, Laplace, Matern
from kcdo.linalg import IteratedTikhonov, PrintedForm, SpectralCutoff, Tikhonov
from kcdo.measures import Grid, Scattered
from kcdo.reconstruction import Reconstruction

FILTERS = [Tikhonov(), IteratedTikhonov(3), SpectralCutoff(), PrintedForm()]
ALL_FILTERS = pytest.mark.parametrize("filter", FILTERS, ids=repr)


def gaussian_density(A, B, scales):
    t = (A[:, None, :] - B[None, :, :]) / scales
    return np.prod(np.exp(-0.5 * t**2) / (scales * np.sqrt(2 * np.pi)), axis=2)


def grid(*shape):
    d = len(shape)
    return Grid(np.full(d, -2.0), np.linspace(2.0, 3.0, d), shape)


def scattered(m=25, d=2, seed=0):
    rng = np.random.default_rng(seed)
    return Scattered(rng.normal(size=(m, d)), rng.uniform(0.2, 2.0, m))


def brute_force(matrix, filter, ridge):
    """The filter as a matrix function, without eigenvectors where there is a formula."""
    identity = np.eye(len(matrix))
    inverse = np.linalg.inv(matrix + ridge * identity)
    if isinstance(filter, Tikhonov):
        return inverse
    if isinstance(filter, PrintedForm):
        return matrix @ inverse @ inverse
    if isinstance(filter, IteratedTikhonov):
        total, power = 0.0, identity
        for _ in range(filter.times):
            total, power = total + power @ inverse, power @ (ridge * inverse)
        return total
    values, vectors = np.linalg.eigh(matrix)
    kept = values >= ridge
    return (vectors[:, kept] / values[kept]) @ vectors[:, kept].T


@ALL_FILTERS
@pytest.mark.parametrize("measure", [grid(30), grid(6, 5), grid(4, 3, 5), scattered()])
def test_node_values_are_those_of_the_dense_formula(measure, filter):
    scales = np.linspace(0.6, 0.9, measure.dim)
    side = Reconstruction(
        measure, DensityKernel(Gaussian(tuple(scales)), measure.dim), 0.05, filter
    )
    Y = np.random.default_rng(1).normal(size=(7, measure.dim))
    Y.setflags(write=False)
    L_ZY = gaussian_density(measure.nodes, Y, scales)
    np.testing.assert_allclose(side.embed(Y), L_ZY.T, rtol=1e-10, atol=1e-14)
    root = np.sqrt(measure.weights)
    S = root[:, None] * gaussian_density(measure.nodes, measure.nodes, scales) * root
    g = brute_force(S, filter, 0.05)
    expected = (g @ (root[:, None] * L_ZY) / root[:, None]).T
    found = side.reconstruct(side.embed(Y))
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("kernel", [Laplace(0.7), Matern((0.7, 0.5), smoothness=1.5)])
def test_any_kernel_on_a_grid_equals_the_same_nodes_scattered(kernel):
    """A product kernel takes the Kronecker path, a radial one does not; both are exact."""
    on_grid = grid(6, 7)
    density = DensityKernel(kernel, 2)
    fast = Reconstruction(on_grid, density, 0.1)
    dense = Reconstruction(Scattered(on_grid.nodes, on_grid.weights), density, 0.1)
    mu = fast.embed(np.random.default_rng(2).normal(size=(4, 2)))
    np.testing.assert_allclose(fast.reconstruct(mu), dense.reconstruct(mu), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fast.expansion(mu), dense.expansion(mu), rtol=1e-9, atol=1e-12)


def test_the_solution_solves_the_operator_equation():
    """C u + a u = μ holds at points off the nodes: C u = Σ_j v_j ℓ(z_j,·) u(z_j)."""
    measure, ridge, scales = scattered(), 0.05, np.array([0.6, 0.8])
    side = Reconstruction(measure, DensityKernel(Gaussian((0.6, 0.8)), 2), ridge)
    rng = np.random.default_rng(3)
    Y, points = rng.normal(size=(3, 2)), rng.normal(size=(11, 2))
    at_points = gaussian_density(Y, points, scales)
    u = side.evaluate(points, at_points, side.embed(Y))
    nodes = side.reconstruct(side.embed(Y))
    Cu = (nodes * measure.weights) @ gaussian_density(measure.nodes, points, scales)
    np.testing.assert_allclose(Cu + ridge * u, at_points, rtol=1e-9, atol=1e-12)
    # the formula of docs/theory.md
    np.testing.assert_allclose(u, (at_points - Cu) / ridge, rtol=1e-8, atol=1e-10)


def test_node_values_in_a_finite_feature_space():
    """The definition, (C + a)⁻¹ μ in an explicit feature space, for a kernel φ(x)ᵀφ(y)."""

    class Polynomial(DensityKernel):
        def __post_init__(self):
            pass

        def factors(self):
            return None

        def block(self, A, B):
            return features(A) @ features(B).T

    def features(A):
        x, y = A.T
        return np.stack([np.ones_like(x), x, y, x * y, x**2], axis=1)

    measure, ridge = scattered(), 0.3
    Y = np.random.default_rng(4).normal(size=(5, 2))
    points = np.random.default_rng(5).normal(size=(6, 2))
    phi = features(measure.nodes)
    C = phi.T @ (measure.weights[:, None] * phi)
    eigenvalues, eigenvectors = np.linalg.eigh(C)
    for filter in FILTERS:
        g = eigenvectors @ np.diag(filter.gain(eigenvalues, ridge)) @ eigenvectors.T
        u = features(Y) @ g
        side = Reconstruction(measure, Polynomial(Gaussian(1.0), 2), ridge, filter)
        embedded = side.embed(Y)
        np.testing.assert_allclose(side.reconstruct(embedded), u @ phi.T, rtol=1e-8, atol=1e-9)
        off_nodes = side.evaluate(points, features(Y) @ features(points).T, embedded)
        np.testing.assert_allclose(off_nodes, u @ features(points).T, rtol=1e-8, atol=1e-9)


@ALL_FILTERS
@pytest.mark.parametrize("measure", [grid(9, 8), scattered()])
def test_evaluation_anywhere_agrees_on_the_nodes(measure, filter):
    side = Reconstruction(measure, DensityKernel(Gaussian(0.7), 2), 0.1, filter)
    mu = side.embed(np.random.default_rng(6).normal(size=(4, 2)))
    u = side.evaluate(measure.nodes, mu, mu)
    np.testing.assert_allclose(u, side.reconstruct(mu), rtol=1e-8, atol=1e-10)


def test_printed_form_is_the_expansion_of_the_paper():
    """β ∝ (L_Z + a)⁻² L_ZY w with the ridge a·v for equal weights v."""
    measure = grid(20)
    v, a = measure.cell_volume, 0.4
    side = Reconstruction(measure, DensityKernel(Gaussian(0.5), 1), a * v, PrintedForm())
    Y = np.array([[0.1], [-0.4]])
    L = gaussian_density(measure.nodes, measure.nodes, np.array([0.5]))
    ridged = np.linalg.inv(L + a * np.eye(20))
    beta = ridged @ ridged @ gaussian_density(measure.nodes, Y, np.array([0.5]))
    found = side.expansion(side.embed(Y))
    np.testing.assert_allclose(found * v, beta.T, rtol=1e-8)


@pytest.mark.parametrize("kernel", [Gaussian(0.1), Matern(0.1, smoothness=2.5)])
@pytest.mark.parametrize("ridge", [1e-3, 0.1, 2.0])
def test_integral_before_normalisation(ridge, kernel):
    measure = Grid(np.array([-2.3]), np.array([2.3]), (200,))
    side = Reconstruction(measure, DensityKernel(kernel, 1), ridge)
    u = side.reconstruct(side.embed(np.array([[-0.3], [0.0], [0.25]])))  # 20 scales from the edge
    np.testing.assert_allclose(u @ measure.weights, 1 / (1 + ridge), rtol=1e-4)


def test_integral_in_two_dimensions():
    measure = Grid(np.array([-4.2, -2.1]), np.array([4.2, 2.1]), (80, 80))
    side = Reconstruction(measure, DensityKernel(Gaussian((0.2, 0.1)), 2), 0.1)
    u = side.reconstruct(side.embed(np.array([[0.1, 0.05]])))
    np.testing.assert_allclose(u @ measure.weights, 1 / 1.1, rtol=1e-4)


def test_the_reconstruction_is_a_low_pass_filter():
    """û(ω) = φ̂_w(ω) / (1 + a exp(σ²ω²/2)) for a Gaussian kernel (docs/theory.md)."""
    sigma, ridge = 0.3, 0.02
    measure = Grid(np.array([-8.0]), np.array([8.0]), (240,))
    side = Reconstruction(measure, DensityKernel(Gaussian(sigma), 1), ridge)
    rng = np.random.default_rng(7)
    Y, w = rng.uniform(-1, 1, (6, 1)), rng.normal(size=6)
    u = (w @ side.reconstruct(side.embed(Y))) * measure.cell_volume
    omega = np.linspace(0.0, 15.0, 31)
    transform = np.exp(1j * omega[:, None] * measure.nodes[:, 0]) @ u
    characteristic = np.exp(1j * omega[:, None] * Y[:, 0]) @ w
    expected = characteristic / (1 + ridge * np.exp(0.5 * (sigma * omega) ** 2))
    np.testing.assert_allclose(transform, expected, atol=1e-6)
    cutoff = np.sqrt(2 * np.log(1 / ridge)) / sigma
    assert abs(1 / (1 + ridge * np.exp(0.5 * (sigma * cutoff) ** 2)) - 0.5) < 1e-12


def test_mean_density_is_one_for_lebesgue_and_the_height_of_a_sample():
    kernel = DensityKernel(Gaussian(0.05), 1)
    assert Reconstruction(grid(50), kernel, 0.1).mean_density(np.ones((3, 1))) == 1.0
    nodes = np.linspace(-1, 3, 2001)[:, None]
    lebesgue = Scattered(nodes, np.full(2001, 4.0 / 2001))
    assert Reconstruction(lebesgue, kernel, 0.1).mean_density(np.ones((3, 1))) == pytest.approx(
        1.0, rel=0.02
    )
    probability = Scattered(nodes, np.full(2001, 1.0 / 2001))
    assert Reconstruction(probability, kernel, 0.1).mean_density(np.ones((3, 1))) == pytest.approx(
        0.25, rel=0.02
    )


@pytest.mark.parametrize("ridge", [0.0, -1.0, np.nan, np.inf])
def test_a_ridge_must_be_positive(ridge):
    with pytest.raises(InvalidInputError, match="alpha_prime must be positive; got"):
        Reconstruction(grid(5), DensityKernel(Gaussian(1.0), 1), ridge)
