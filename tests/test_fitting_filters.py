"""The output filter and the losses that choose it: plain formulas, gradients of the whole chain."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcdo.distributions import positive_density
from kcdo.errors import InvalidInputError
from kcdo.fitting.filters import OutputFamily, node_shares, scale_per_length
from kcdo.fitting.left_out import exact_smoother, fixed_smoother
from kcdo.fitting.losses import BalancedScore, CrpsLoss, LogScore, Scoring
from kcdo.fitting.objectives import FilterLoss, HeldOutLoss
from kcdo.kernels import DensityKernel, FreeScales, Gaussian, Laplace, Matern
from kcdo.linalg import (
    IteratedTikhonov,
    NotPositiveDefiniteError,
    PrintedForm,
    SpectralCutoff,
    Tikhonov,
)
from kcdo.measures import Grid, Sample, UniformBox
from kcdo.reconstruction import Reconstruction
from kcdo.systems import Groups
from tests.differences import assert_gradient
from tests.output_sides import EACH_MEASURE, measures, outputs

LOSSES = {"log score": LogScore(), "crps": CrpsLoss(), "balanced": BalancedScore()}
EACH_LOSS = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


@settings(max_examples=20)
@given(st.floats(1e-3, 1e3), st.floats(0.01, 10.0))
def test_the_cutoff_length_is_where_the_gain_has_halved(ridge, length):
    sigma = scale_per_length(ridge) * length
    transform = np.exp(-0.5 * (sigma * np.array([0.0, 1.0 / length])) ** 2)
    response = transform * Tikhonov().gain(transform, ridge)
    assert response[1] / response[0] == pytest.approx(0.5, rel=1e-9)


@EACH_MEASURE
@pytest.mark.parametrize("filter", [Tikhonov(), IteratedTikhonov(3), PrintedForm()], ids=repr)
@pytest.mark.parametrize("kernel", [Gaussian(), Laplace(), Matern(smoothness=2.5)], ids=repr)
def test_filtered_outputs_are_the_reconstruction(measure, filter, kernel):
    d = measure.nodes.shape[1]
    family = OutputFamily(measure, kernel, np.array([0.8, 1.3])[:d], filter)
    side = family.at(outputs(d), np.log(0.4), np.log(0.2))
    sds = np.sqrt(side.kernel.covariance().diagonal())
    np.testing.assert_allclose(sds, 0.4 * scale_per_length(0.2) * np.array([0.8, 1.3])[:d])
    whole = Reconstruction(measure, side.kernel, 0.2, filter)
    np.testing.assert_allclose(side.embeddings, whole.embed(outputs(d)), rtol=1e-9, atol=1e-12)
    found, _ = side.densities(side.embeddings)
    expected = whole.reconstruct(whole.embed(outputs(d)))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8 * np.abs(expected).max())


GRIDS = {name: measure for name, measure in measures().items() if isinstance(measure, Grid)}
EACH_GRID = pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)


@EACH_GRID
@pytest.mark.parametrize("filter", [Tikhonov(), IteratedTikhonov(3), PrintedForm()], ids=repr)
@pytest.mark.parametrize("kernel", [Gaussian(), Laplace()], ids=repr)
def test_outputs_on_the_nodes_need_no_embeddings(grid, filter, kernel):
    """Densities and slopes are those of the plain formula, with the nodes as outputs."""
    d = grid.dim
    family = OutputFamily(grid, kernel, np.array([0.8, 1.3])[:d], filter)
    lengths = np.log([0.4, 0.5])[:d]
    plain, binned = family.at(grid.nodes, lengths, -1.0), family.binned(lengths, -1.0)
    rng = np.random.default_rng(0)
    weights, G = rng.normal(size=(2, 3, grid.n_nodes))
    expected, plain_pullback = plain.densities(weights @ plain.embeddings)
    found, binned_pullback = binned.densities(weights)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9 * np.abs(expected).max())
    back, through_filter = plain_pullback(G)
    pulled = plain.slopes(through_filter, weights.T @ back)
    slopes, ridge_slope = binned_pullback(G)
    np.testing.assert_allclose(slopes, pulled[0], rtol=1e-7, atol=1e-8 * np.abs(slopes).max())
    assert ridge_slope == pytest.approx(pulled[1], rel=1e-7, abs=1e-8 * np.abs(slopes).max())


@EACH_GRID
def test_cubic_shares_embed_as_the_outputs_do(grid):
    rng = np.random.default_rng(1)
    inside = rng.uniform(grid.lower + grid.spacing, grid.upper - grid.spacing, (9, grid.dim))
    shares = node_shares(grid, inside)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    np.testing.assert_allclose(shares @ grid.nodes**3, inside**3, atol=1e-9)  # exact for cubics
    kernel = DensityKernel(Gaussian(tuple(2.0 * grid.spacing)), grid.dim)
    expected = kernel.block(inside, grid.nodes)
    found = shares @ kernel.block(grid.nodes, grid.nodes)
    assert np.abs(found - expected).max() < 5e-3 * expected.max()
    assert node_shares(grid, inside + 100.0) is None


@EACH_GRID
def test_gradients_of_the_filter_alone(grid):
    rng = np.random.default_rng(2)
    Y = outputs(grid.dim, 5)
    family = OutputFamily(grid, Gaussian(), np.full(grid.dim, 0.8), Tikhonov())
    weights = rng.dirichlet(np.ones(grid.n_nodes), size=5)
    objective = FilterLoss(weights, family, Scoring(grid, Y, np.ones(5), family.shape), LogScore())
    theta = np.append(np.log(np.full(grid.dim, 0.4)), -1.0)
    assert_gradient(objective, theta, step=1e-6)


@pytest.mark.parametrize("loss", [LogScore(), BalancedScore()], ids=repr)
def test_beside_another_model_the_score_is_that_of_an_even_mixture(loss):
    grid = measures()["line"]
    rng = np.random.default_rng(3)
    family = OutputFamily(grid, Gaussian(), np.array([0.8]), Tikhonov())
    weights, Y = rng.dirichlet(np.ones(grid.n_nodes), size=5), outputs(1, 5)
    beside = rng.uniform(0.0, 0.5, 5)
    scoring = Scoring(grid, Y, np.ones(5), family.shape, beside)
    objective = FilterLoss(weights, family, scoring, loss)
    theta = np.array([-0.9, -1.0])
    assert_gradient(objective, theta, step=1e-6)
    values, _ = family.binned(theta[:1], theta[1]).densities(weights)
    density, _ = positive_density(values, grid.weights)
    expected = -np.mean(np.log(0.5 * scoring.at_outputs(density) + 0.5 * beside))
    if loss == BalancedScore():
        crps = CrpsLoss().of_density(scoring, density)[0]
        expected += np.log(np.mean(crps))
    assert objective(theta)[0] == pytest.approx(expected, rel=1e-12)
    np.testing.assert_array_equal(scoring.part(slice(1, 3)).beside, beside[1:3])


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(
    ("where", "losses"),
    [
        ("plane", {LogScore(): 4}),
        ("line", {CrpsLoss(): 4, BalancedScore(): 1}),  # the latter is no mean over rows
    ],
)
def test_the_filter_loss_in_parts_is_that_of_all_rows(monkeypatch, n_jobs, where, losses):
    grid = measures()[where]
    rng = np.random.default_rng(4)
    family = OutputFamily(grid, Gaussian(), np.full(grid.dim, 0.8), Tikhonov())
    weights = rng.dirichlet(np.ones(grid.n_nodes), size=7)
    scoring = Scoring(grid, outputs(grid.dim, 7), rng.uniform(0.5, 2.0, 7), family.shape)
    theta = np.append(np.linspace(-1.0, -0.8, grid.dim), -1.0)
    for loss, n_parts in losses.items():
        expected = FilterLoss(weights, family, scoring, loss)(theta)
        with monkeypatch.context() as patch:
            patch.setattr("kcdo.fitting.objectives._CACHED_VALUES", 2 * grid.n_nodes)
            parts = FilterLoss(weights, family, scoring, loss, n_jobs)
            assert len(parts._parts) == n_parts
            found = parts(theta)
        assert found[0] == pytest.approx(expected[0], rel=1e-12)
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-10, atol=1e-12)


def test_node_spacing():
    grid = OutputFamily(measures()["plane"], Gaussian(), np.ones(2), Tikhonov())
    np.testing.assert_allclose(grid.spacing, measures()["plane"].spacing)
    line = Sample(np.linspace(0.0, 1.0, 11)[:, None]).realise(outputs(1))
    scattered = OutputFamily(line, Gaussian(), np.ones(1), Tikhonov())
    assert 0.05 < scattered.spacing[0] < 0.4


def test_a_filter_must_be_smooth_in_its_ridge():
    with pytest.raises(InvalidInputError, match=r"SpectralCutoff\(\) is not smooth in its ridge"):
        OutputFamily(measures()["line"], Gaussian(), np.ones(1), SpectralCutoff())


# --- the whole chain: input scales, α, cut-off length, α'


def chain(measure, kernel, filter, loss, leave, seed):
    """A held-out loss of rows with repeated inputs and unequal weights, and where to ask it."""
    rng = np.random.default_rng(seed)
    d = measure.nodes.shape[1]
    X = rng.normal(size=(14, 2)).round(1)
    X[9:12] = X[:3]
    Y, weights = outputs(d, 14, seed), rng.integers(1, 3, 14).astype(float)
    free = FreeScales(Matern(smoothness=1.5).on([0]) * Laplace().on([1]), 2)
    groups = Groups.of(X, weights)
    family = OutputFamily(measure, kernel, np.full(d, 0.8), filter)

    def smoother(log_scales, alpha):
        return exact_smoother(free, log_scales, alpha, groups, leave)

    lengths = np.full(family.n_lengths, np.log(0.4))
    theta = np.concatenate([[0.1, 0.3, np.log(0.05)], lengths, [-1.0]])
    theta += rng.normal(scale=0.1, size=len(theta))
    return HeldOutLoss(smoother, family, Y, weights, loss), theta


@EACH_LOSS
@pytest.mark.parametrize("leave", ["row", "group"])
def test_gradients_of_every_loss(loss, leave):
    objective, theta = chain(measures()["line"], Gaussian(), Tikhonov(), loss, leave, 0)
    assert_gradient(objective, theta, step=1e-6)


@EACH_MEASURE
@pytest.mark.parametrize("filter", [Tikhonov(), IteratedTikhonov(3), PrintedForm()], ids=repr)
@pytest.mark.parametrize(
    "kernel",
    [Gaussian(), Laplace(), Matern(smoothness=0.5), Matern(smoothness=2.5)],
    ids=repr,
)
def test_gradients_of_every_output_side(measure, filter, kernel):
    objective, theta = chain(measure, kernel, filter, LogScore(), "row", 1)
    assert_gradient(objective, theta, step=1e-6)


@settings(max_examples=5)
@given(st.integers(0, 2**32 - 1))
def test_gradients_anywhere(seed):
    objective, theta = chain(measures()["line"], Gaussian(), Tikhonov(), LogScore(), "row", seed)
    assert_gradient(objective, theta, step=1e-6)


def test_an_output_kernel_with_a_scale_is_not_moved():
    objective, theta = chain(measures()["line"], Gaussian(0.3), Tikhonov(), LogScore(), "row", 2)
    assert objective(theta)[1][-2] == 0.0
    assert_gradient(objective, theta, step=1e-6)
    assert objective.outputs.density_kernel(0.7, 0.1) == DensityKernel(Gaussian(0.3), 1)


def test_scales_that_are_given_do_not_move():
    half = Gaussian(0.5).on(0) * Gaussian().on(1)
    objective, theta = chain(measures()["plane"], half, Tikhonov(), LogScore(), "row", 3)
    assert_gradient(objective, theta, step=1e-6)
    assert objective(theta)[1][-3] == 0.0


def test_held_out_densities_are_those_of_a_refit():
    """Every row's density from the others alone, with the same ridges."""
    rng = np.random.default_rng(4)
    X, Y, alpha = rng.normal(size=(10, 2)), outputs(1, 10), 0.04
    measure = UniformBox(nodes=20).realise(Y)
    free, groups = FreeScales(Gaussian(), 2), Groups.of(X)
    family = OutputFamily(measure, Gaussian(), np.ones(1), Tikhonov())
    objective = HeldOutLoss(
        lambda ls, a: exact_smoother(free, ls, a, groups, "row"),
        family,
        Y,
        np.ones(10),
        LogScore(),
    )
    theta = np.array([0.2, -0.1, np.log(alpha), np.log(0.3), np.log(0.2)])
    kernel = free.kernel(theta[:2])
    side = Reconstruction(measure, family.density_kernel(theta[-2], theta[-1]), 0.2, Tikhonov())
    expected = np.empty((10, 20))
    for i in range(10):
        others = np.arange(10) != i
        A = kernel(X[others]) + 10 * alpha * np.eye(9)
        w = np.linalg.solve(A, kernel(X[others], X[i : i + 1]))[:, 0]
        expected[i] = side.reconstruct((w @ side.embed(Y[others]))[None])[0]
    scoring = Scoring(measure, Y, np.ones(10), np.ones(1))
    assert objective(theta)[0] == pytest.approx(LogScore()(scoring, expected)[0], rel=1e-6)
    density, _ = positive_density(expected, measure.weights)
    np.testing.assert_allclose(
        objective.at_outputs(theta), scoring.at_outputs(density), rtol=1e-5, atol=1e-7
    )


def test_some_rows_are_scored_by_given_weights():
    rng = np.random.default_rng(5)
    Y, S = outputs(1, 10), rng.dirichlet(np.ones(10), size=3)
    family = OutputFamily(measures()["line"], Gaussian(), np.ones(1), Tikhonov())
    smoother = fixed_smoother(S)
    few = HeldOutLoss(lambda ls, a: smoother, family, Y, np.ones(3), LogScore(), Y[:3])
    theta = np.array([0.0, np.log(0.4), np.log(0.3)])
    assert few.at_outputs(theta).shape == (3,)
    value, gradient = few(theta)
    assert gradient[0] == 0.0
    assert_gradient(few, theta, step=1e-6)
    shifted = HeldOutLoss(lambda ls, a: smoother, family, Y, np.ones(3), LogScore(), Y[3:6])
    assert shifted(theta)[0] != value


def test_where_the_system_cannot_be_factored_the_search_turns_back():
    def refused(log_scales, alpha):
        raise NotPositiveDefiniteError("no")

    family = OutputFamily(measures()["line"], Gaussian(), np.ones(1), Tikhonov())
    objective = HeldOutLoss(refused, family, outputs(1), np.ones(12), LogScore())
    value, gradient = objective(np.zeros(5))
    assert value >= 1e5
    np.testing.assert_array_equal(gradient, np.zeros(5))
