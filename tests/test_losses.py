"""Held-out losses against their formulas; gradients of the whole chain by differences."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from kcdo.distributions import NodeBatch, layout_of
from kcdo.errors import InvalidInputError
from kcdo.kernels import DensityKernel, FreeScales, Gaussian, Laplace, Matern
from kcdo.linalg import (
    IteratedTikhonov,
    NotPositiveDefiniteError,
    PrintedForm,
    SpectralCutoff,
    Tikhonov,
)
from kcdo.measures import Grid, QuasiRandomBox, Sample, UniformBox
from kcdo.reconstruction import Reconstruction
from kcdo.systems import Groups
from kcdo.tuning import (
    BalancedScore,
    CdeLoss,
    CrpsLoss,
    ExactSmoother,
    FilterLoss,
    FixedSmoother,
    HeldOutLoss,
    LogScore,
    NystromPoints,
    NystromSmoother,
    OutputFamily,
    Scoring,
    node_shares,
    scale_per_length,
)
from kcdo.tuning.losses import positive_density
from tests.differences import assert_gradient, numeric_gradient

LOSSES = {
    "log score": LogScore(),
    "cde": CdeLoss(),
    "crps": CrpsLoss(),
    "balanced": BalancedScore(),
}
EACH_LOSS = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


def outputs(d, n=12, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def measures():
    return {
        "line": UniformBox(nodes=15).realise(outputs(1)),
        "plane": UniformBox(nodes=(6, 5)).realise(outputs(2)),
        "scattered": QuasiRandomBox(-3.0, 3.0, n_nodes=32).realise(outputs(2)),
        "sample": Sample(outputs(1, 20, 7)).realise(outputs(1)),
    }


EACH_MEASURE = pytest.mark.parametrize("measure", measures().values(), ids=measures())


def scoring_on(measure, n=12):
    rng = np.random.default_rng(1)
    d = measure.nodes.shape[1]
    return Scoring(measure, outputs(d, n), rng.uniform(0.5, 2.0, n), np.full(d, 0.4))


def gaussian_values(scoring, sds=0.7):
    """Node values of Gaussians about other places than the outputs, not normalised."""
    centres = scoring.Y + 0.3 * outputs(scoring.Y.shape[1], len(scoring.Y), 2)
    nodes = scoring.measure.nodes
    return 0.8 * np.prod(norm.pdf(nodes[None], centres[:, None], sds), axis=2)


@EACH_MEASURE
def test_densities_are_positive_and_normalised(measure):
    scoring = scoring_on(measure)
    values = gaussian_values(scoring)
    values -= 0.2 * values.mean(axis=1, keepdims=True)  # some nodes are negative
    density, _ = positive_density(measure, values)
    assert density.min() >= 0
    np.testing.assert_allclose(density @ measure.weights, 1.0, rtol=1e-10)
    signed = values / (values @ measure.weights)[:, None]
    for p, projected in zip(signed, density, strict=True):  # max(p - τ, 0), one τ per row
        tau = (p - projected)[projected > 0]
        np.testing.assert_allclose(tau, tau[0], atol=1e-10)
        assert np.all(p[projected == 0] <= tau[0] + 1e-10)


def test_rows_without_mass_are_uniform_and_do_not_move():
    measure = UniformBox(0.0, 2.0, nodes=8).realise(outputs(1))
    values = np.vstack([np.full(8, -1.0), np.zeros(8), np.ones(8)])
    density, back = positive_density(measure, values)
    np.testing.assert_allclose(density, 0.5)
    np.testing.assert_array_equal(back(np.ones((3, 8)))[:2], 0.0)


@EACH_MEASURE
def test_the_readout_is_the_density_of_the_layout(measure):
    scoring = scoring_on(measure)
    density, _ = positive_density(measure, gaussian_values(scoring))
    batch = NodeBatch(layout_of(measure, scoring.scales), density * measure.weights)
    np.testing.assert_allclose(scoring.at_outputs(density), batch.pdf_pairs(scoring.Y), rtol=1e-10)


@EACH_MEASURE
def test_losses_are_their_formulas(measure):
    scoring = scoring_on(measure)
    values = gaussian_values(scoring)
    density, _ = positive_density(measure, values)
    at = NodeBatch(layout_of(measure, scoring.scales), density * measure.weights).pdf_pairs(
        scoring.Y
    )
    volume = np.prod(np.ptp(measure.nodes, axis=0))
    expected = np.average(-np.log(0.99 * at + 0.01 / volume), weights=scoring.weights)
    assert LogScore()(scoring, values)[0] == pytest.approx(expected, rel=1e-10)
    squares = (density**2 * measure.weights).sum(axis=1)
    expected = np.average(squares - 2.0 * at, weights=scoring.weights)
    assert CdeLoss()(scoring, values)[0] == pytest.approx(expected, rel=1e-10)


def test_crps_and_cde_of_a_fine_grid_are_those_of_the_distribution():
    Y = outputs(1)
    measure = UniformBox(-6.0, 6.0, nodes=3000).realise(Y)
    scoring = Scoring(measure, Y, np.ones(len(Y)), np.ones(1))
    centres, sd = Y + 0.5 * outputs(1, seed=3), 0.7
    values = norm.pdf(measure.nodes[:, 0], centres, sd)
    z = ((Y - centres) / sd)[:, 0]
    exact = sd * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    assert CrpsLoss()(scoring, values)[0] == pytest.approx(exact.mean(), abs=2e-3)
    cde = 1 / (2 * sd * np.sqrt(np.pi)) - 2 * norm.pdf(z) / sd
    assert CdeLoss()(scoring, values)[0] == pytest.approx(cde.mean(), abs=1e-4)
    assert LogScore(epsilon=0.0)(scoring, values)[0] == pytest.approx(
        -np.log(norm.pdf(z) / sd).mean(), abs=1e-4
    )


def test_the_balanced_score_joins_both():
    scoring = scoring_on(measures()["line"])
    values = gaussian_values(scoring)
    parts = LogScore()(scoring, values)[0] + np.log(CrpsLoss()(scoring, values)[0])
    assert BalancedScore()(scoring, values)[0] == pytest.approx(parts, rel=1e-12)


def test_a_unit_changes_the_balanced_score_by_nothing_but_a_constant():
    """Log score and log CRPS of outputs in metres and in feet differ by ± log 3.28."""
    scores = []
    for unit in (1.0, 3.28):
        measure = UniformBox(-4.0 * unit, 4.0 * unit, nodes=60).realise(outputs(1))
        scoring = Scoring(measure, unit * outputs(1), np.ones(12), np.ones(1))
        centres = unit * (outputs(1) + 0.2)
        shapes = [norm.pdf(measure.nodes[:, 0], centres, unit * sd) for sd in (0.5, 1.1)]
        scores.append([BalancedScore()(scoring, values)[0] for values in shapes])
    assert np.diff(scores[0]) == pytest.approx(np.diff(scores[1]), abs=1e-9)


@EACH_LOSS
def test_gradients_of_losses_by_differences(loss):
    measure = measures()["line"]
    scoring = scoring_on(measure)
    values = gaussian_values(scoring) - 0.03

    def value(flat):
        return loss(scoring, flat.reshape(values.shape))[0]

    gradient = loss(scoring, values)[1]
    expected = numeric_gradient(value, values.ravel(), step=1e-6).reshape(values.shape)
    np.testing.assert_allclose(gradient, expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("name", ["plane", "scattered", "sample"])
@pytest.mark.parametrize("loss", [LogScore(), CdeLoss()])
def test_gradients_on_other_measures_by_differences(name, loss):
    scoring = scoring_on(measures()[name], n=5)
    values = gaussian_values(scoring) - 0.01
    value = lambda flat: loss(scoring, flat.reshape(values.shape))[0]  # noqa: E731
    expected = numeric_gradient(value, values.ravel(), step=1e-6).reshape(values.shape)
    np.testing.assert_allclose(
        loss(scoring, values)[1], expected, atol=1e-6 * np.abs(expected).max()
    )


@pytest.mark.parametrize("name", ["plane", "sample"])
def test_the_crps_needs_one_output_on_a_grid(name):
    scoring = scoring_on(measures()[name])
    with pytest.raises(InvalidInputError, match="the CRPS needs one output on a grid: use the log"):
        CrpsLoss()(scoring, gaussian_values(scoring))


# --- the output side


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
    found = side.reconstruct(side.embeddings)
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
    expected = plain.reconstruct(weights @ plain.embeddings)
    found = binned.densities(weights)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9 * np.abs(expected).max())
    pulled = plain.pull_parameters(weights.T @ plain.pull_embeddings(G))
    slopes, ridge_slope = binned.pull(G)
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


@pytest.mark.parametrize("loss", [LogScore(), CdeLoss()], ids=repr)
@EACH_GRID
def test_gradients_of_the_filter_alone(grid, loss):
    rng = np.random.default_rng(2)
    Y = outputs(grid.dim, 5)
    family = OutputFamily(grid, Gaussian(), np.full(grid.dim, 0.8), Tikhonov())
    weights = rng.dirichlet(np.ones(grid.n_nodes), size=5)
    objective = FilterLoss(weights, family, Scoring(grid, Y, np.ones(5), family.shape), loss)
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
    density, _ = positive_density(grid, family.binned(theta[:1], theta[1]).densities(weights))
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
        ("plane", {LogScore(): 4, CdeLoss(): 4}),
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
            patch.setattr("kcdo.tuning.objective._CACHED_VALUES", 2 * grid.n_nodes)
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
        if leave == "low rank":
            return NystromSmoother(free, log_scales, alpha, NystromPoints(X, X[:6], weights))
        return ExactSmoother(free, log_scales, alpha, groups, leave)

    lengths = np.full(family.n_lengths, np.log(0.4))
    theta = np.concatenate([[0.1, 0.3, np.log(0.05)], lengths, [-1.0]])
    theta += rng.normal(scale=0.1, size=len(theta))
    return HeldOutLoss(smoother, family, Y, weights, loss), theta


@EACH_LOSS
@pytest.mark.parametrize("leave", ["row", "group", "low rank"])
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
        lambda ls, a: ExactSmoother(free, ls, a, groups, "row"),
        family,
        Y,
        np.ones(10),
        LogScore(),
    )
    theta = np.array([0.2, -0.1, np.log(alpha), np.log(0.3), np.log(0.2)])
    found = objective.densities(theta)
    kernel = free.kernel(theta[:2])
    side = Reconstruction(measure, family.density_kernel(theta[-2], theta[-1]), 0.2, Tikhonov())
    for i in range(10):
        others = np.arange(10) != i
        A = kernel(X[others]) + 10 * alpha * np.eye(9)
        w = np.linalg.solve(A, kernel(X[others], X[i : i + 1]))[:, 0]
        expected = side.reconstruct((w @ side.embed(Y[others]))[None])[0]
        np.testing.assert_allclose(found[i], expected, rtol=1e-5, atol=1e-7)
    scores = LogScore()(Scoring(measure, Y, np.ones(10), np.ones(1)), found)[0]
    assert objective(theta)[0] == pytest.approx(scores, rel=1e-10)


def test_some_rows_are_scored_by_given_weights():
    rng = np.random.default_rng(5)
    Y, S = outputs(1, 10), rng.dirichlet(np.ones(10), size=3)
    family = OutputFamily(measures()["line"], Gaussian(), np.ones(1), Tikhonov())
    smoother = FixedSmoother(S)
    few = HeldOutLoss(lambda ls, a: smoother, family, Y, np.ones(3), LogScore(), Y[:3])
    theta = np.array([0.0, np.log(0.4), np.log(0.3)])
    assert few.densities(theta).shape == (3, 15)
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
