"""Components: where input and output side meet, what each one promises, and their mixture."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

import kcdo
from kcdo.components import (
    DensityOperator,
    LocationParameters,
    LocationScaleParameters,
    MarginalTail,
    MarginalTailParameters,
    MatrixValues,
    MeanOperator,
    Mixture,
    ModelParameters,
    NearestParameters,
    OperatorParameters,
    PlainDensity,
    RowValues,
    Settings,
    condition,
    student_tail,
)
from kcdo.distributions import AffineBatch, NodeBatch, layout_of
from kcdo.embeddings import SampleEmbedding
from kcdo.errors import AccuracyWarning, InvalidInputError
from kcdo.inputs import GaussianInput, SampleInput
from kcdo.kernels import DensityKernel, Gaussian, Laplace, Matern
from kcdo.measures import Grid, UniformBox
from kcdo.reconstruction import Reconstruction
from kcdo.rows import Rows
from kcdo.systems import Exact, ExactRows, ExactSystem, Groups, Iterative, NearestRows, Nystrom
from tests.component_contract import assert_keeps_its_promises

KERNEL, ALPHA = Gaussian((0.8, 1.3)), 0.02
POINTS = np.linspace(-3, 3, 41)[:, None]


def inputs(n=14, seed=5):
    """Inputs of which some repeat, and whole-number weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    X[[3, 7, 9]] = X[0]
    return X, rng.integers(1, 4, n).astype(float)


def plain_weights(X, weights, Xq):
    """A⁻¹ k(X, x') of the ungrouped system."""
    ridge = weights.sum() * ALPHA * np.diag(1.0 / weights)
    return np.linalg.solve(KERNEL(X) + ridge, KERNEL(X, Xq)).T


def node_densities(operator, queries):
    return operator.batch(queries).masses / operator.output.measure.weights


# --- the density operator


@pytest.fixture
def operator():
    X, omega = inputs()
    Y = X[:, :1] + 0.1 * np.random.default_rng(8).normal(size=(14, 1))
    grid = Grid(np.array([-6.0]), np.array([6.0]), (120,))
    side = Reconstruction(grid, DensityKernel(Gaussian(0.4), 1), 0.1)
    system = ExactRows(KERNEL, Groups.of(X, omega)).factor(ALPHA)
    return DensityOperator.solved(system, side, Y, "signed"), X, Y, omega


def test_the_density_is_the_weighted_sum_of_reconstructed_bumps(operator):
    """p̂ = Σ_j w_j T_j, normalised, with a little of the marginal (docs/theory.md)."""
    op, X, Y, omega = operator
    Xq = X[:4] + 0.05
    v = op.output.measure.weights
    targets = op.output.reconstruct(op.output.embed(Y))
    w = plain_weights(X, omega, Xq)
    p = w @ targets
    p /= (p @ v)[:, None]
    s = w.sum(axis=1)[:, None]
    expected = (s * p + 1e-3 * op.marginal) / (s + 1e-3)
    np.testing.assert_allclose(node_densities(op, Xq), expected, rtol=1e-8, atol=1e-10)
    assert (op.dim, op.signed, op.n_jobs) == (1, True, None)
    assert op.primary is op


def test_far_from_all_data_the_answer_is_the_marginal(operator):
    op, *_, Y, omega = operator
    far = node_densities(op, np.array([[1e6, -1e6]]))[0]
    np.testing.assert_allclose(far, op.marginal, rtol=1e-10)
    assert np.all(op.marginal >= 0)
    assert op.marginal @ op.output.measure.weights == pytest.approx(1.0)
    mean = (op.marginal * op.output.measure.weights) @ op.output.measure.nodes[:, 0]
    assert mean == pytest.approx(np.average(Y[:, 0], weights=omega), abs=0.05)


def test_queries_are_computed_when_asked_and_independent(operator):
    op, X, *_ = operator
    dist = condition(op, X, flat=True)
    assert len(dist) == 14
    y = np.linspace(-2, 2, 9)
    np.testing.assert_allclose(dist[3].pdf(y), dist.pdf(y)[3:4], rtol=1e-10, atol=1e-13)
    alone = condition(op, X[3:4], flat=True).pdf(y)
    np.testing.assert_allclose(alone, dist.pdf(y)[3:4], rtol=1e-10, atol=1e-13)


def test_a_coarse_expectation_warns():
    X = np.linspace(0, 1, 8)[:, None]
    grid = Grid(np.array([-1.0]), np.array([2.0]), (30,))
    side = Reconstruction(grid, DensityKernel(Gaussian(0.3), 1), 0.1)
    system = ExactRows(Matern(0.02, smoothness=1.5), Groups.of(X)).factor(ALPHA)
    op = DensityOperator.solved(system, side, X, "project")
    with pytest.warns(AccuracyWarning, match=r"standard error of .* raise n_points"):
        op.batch(GaussianInput([[0.5]], 0.04, n_points=8))


def test_outputs_nowhere_near_the_reference_are_refused(operator):
    op, _, Y, _ = operator
    with pytest.raises(InvalidInputError, match="near the reference measure: move or widen it"):
        DensityOperator.solved(op.training.system, op.output, Y + 1e5, "project")


def density_operator(shape=(40,), n=60, repeated=False, kernel=None):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, 2))
    if repeated:
        X = X[rng.integers(0, n // 3, n)]
    d = len(shape)
    Y = rng.uniform(-1.5, 2.5, (n, d))
    system = ExactRows(Laplace(1.0), Groups.of(X)).factor(0.01)
    grid = Grid(np.full(d, -2.0), np.full(d, 3.0), shape)
    side = Reconstruction(grid, DensityKernel(kernel or Gaussian(0.8), d), 0.1)
    return DensityOperator.solved(system, side, Y, "project")


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize(
    ("shape", "kernel"),
    [((40,), None), ((9, 11), None), ((9, 11), Matern(0.8)), ((6, 7, 8), None)],
)
def test_weights_applied_query_by_query_equal_the_one_matrix(monkeypatch, shape, kernel, repeated):
    made = []
    for by_weights in (False, True):
        monkeypatch.setattr(
            ExactSystem, "applies_weights", lambda *_, answer=by_weights, **__: answer
        )
        made.append(density_operator(shape, repeated=repeated, kernel=kernel))
    matrix, rows = made
    assert isinstance(matrix.values, MatrixValues)
    assert isinstance(rows.values, RowValues)
    assert rows.nbytes == 8 * 60 * len(shape)
    queries = np.random.default_rng(5).normal(size=(7, 2))
    np.testing.assert_allclose(rows.batch(queries).masses, matrix.batch(queries).masses, atol=1e-12)
    for each in made:
        bare = each.without_training()
        np.testing.assert_allclose(bare.batch(queries).masses, each.batch(queries).masses)
        assert bare.training is None
        assert bare.without_training() is bare


def test_which_models_apply_weights():
    """Wide product grids, and matrices beyond half a GiB."""
    system = density_operator().training.system
    assert not system.applies_weights(120, product_grid=True)
    assert system.applies_weights(121, product_grid=True)
    assert not system.applies_weights(10**6, product_grid=False)
    assert system.applies_weights(2 * 10**6, product_grid=False)
    iterative = ExactRows(Laplace(1.0), system.groups, Iterative(rank=5)).factor(0.01)
    assert not iterative.applies_weights(121, product_grid=True)


def test_a_matrix_of_low_rank_is_two_narrow_ones():
    """Wide bumps on many nodes: node values have far fewer directions than nodes."""
    wide, narrow = (density_operator((200,), 300, kernel=Gaussian(s)) for s in (2.0, 0.05))
    assert wide.values.second is not None
    assert wide.nbytes < 0.3 * 8 * 300 * 200
    assert narrow.values.second is None
    queries = np.random.default_rng(5).normal(size=(7, 2))
    for op in (wide, narrow):
        w = op.training.system.weights(queries)
        expected = op.output.reconstruct(w @ op.output.embed(op.training.Y))
        found, sums = op.values.at(op.system, op.system.section(queries))
        np.testing.assert_allclose(found, expected, atol=1e-8 * np.abs(expected).max())
        np.testing.assert_allclose(sums, w.sum(axis=1))


@pytest.mark.parametrize("shape", [(50,), (8, 9)])
def test_a_large_matrix_is_solved_for_in_parts(monkeypatch, shape):
    small = density_operator(shape, 40, kernel=Gaussian(0.05))
    assert small.values.second is None
    monkeypatch.setattr("kcdo.components.node_values._AT_ONCE", 1)
    monkeypatch.setattr("kcdo.components.node_values._BLOCK_ELEMENTS", 300)
    large = density_operator(shape, 40, kernel=Gaussian(0.05))
    np.testing.assert_allclose(large.values.first, small.values.first, rtol=1e-9, atol=1e-12)


def test_a_matrix_that_does_not_fit_is_refused_before_it_is_made(monkeypatch):
    monkeypatch.setattr("kcdo.memory.available_memory", lambda: 3 * 8 * 60 * 41 - 1)
    with pytest.raises(kcdo.NotEnoughMemoryError, match=r"60 centres on 40 output nodes.*chain"):
        density_operator()
    monkeypatch.setattr("kcdo.memory.available_memory", lambda: 8 * 60 * 60 * 40)
    assert density_operator().nbytes > 0


@pytest.mark.parametrize(
    ("d", "scale"),
    [(1, 0.5), (1, 0.02), (2, 0.5), (3, 0.5)],
    ids=["line", "narrow", "plane", "space"],
)
def test_the_density_of_near_rows_is_the_formula(d, scale):
    rng = np.random.default_rng(2)
    X, weights = rng.uniform(-2.0, 2.0, (200, 2)), rng.uniform(0.5, 2.0, 200)
    Y = np.sin(X[:, :1]) + 0.1 * rng.standard_normal((200, d))
    grid = UniformBox(-2.0, 2.0, nodes={1: 400, 2: 30, 3: 9}[d]).realise(Y)
    output = Reconstruction(grid, DensityKernel(Gaussian(scale), d), ridge=0.1)
    near = NearestRows(Matern(0.5), X, weights, neighbours=12).factor(1e-3)
    operator = DensityOperator.solved(near, output, Y, "project")
    queries = rng.uniform(-2.0, 2.0, (100, 2))
    section = near.section(queries)
    values, sums = operator.values.at(near, section)
    expected = output.reconstruct(section.toarray() @ output.embed(Y))
    np.testing.assert_allclose(values, expected, atol=1e-9 * np.abs(expected).max())
    np.testing.assert_allclose(sums, section.toarray().sum(axis=1))
    batch = operator.batch(queries)
    assert len(batch) == 100
    np.testing.assert_allclose(batch.masses.sum(axis=1), 1.0)
    assert operator.width(queries) == layout_of(grid, output.kernel.scales).n_nodes
    assert operator.nbytes == Y.nbytes


def test_weights_of_an_estimator_by_every_exact_solver(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (150, 1))
    Y = np.column_stack([np.sin(X[:, 0]), X[:, 0] ** 2]) + 0.2 * rng.standard_normal((150, 2))
    options = dict(kernel_y=Gaussian(0.4), reference=UniformBox(nodes=25), selection="heuristic")
    expected = kcdo.ConditionalDensityOperator(**options).fit(X, Y).predict(X[:9])
    monkeypatch.setattr("kcdo.systems.exact._LARGEST_MODEL", 0)
    for solver, atol in (("auto", 1e-10), (Iterative(), 1e-6), (Exact("float32"), 1e-3)):
        model = kcdo.ConditionalDensityOperator(solver=solver, **options).fit(X, Y)
        np.testing.assert_allclose(model.predict(X[:9]), expected, atol=atol)


def test_a_grid_of_64_cubed_nodes():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (300, 1))
    Y = np.hstack([X, np.sin(X), -X]) + 0.2 * rng.standard_normal((300, 3))
    model = kcdo.ConditionalDensityOperator(
        kernel_y=Gaussian(0.3),
        reference=UniformBox(-4.0, 4.0, nodes=64),
        selection="heuristic",
    ).fit(X, Y)
    assert (model.report_.method, model.report_.n_nodes) == ("exact", 64**3)
    assert model.report_.memory < 1 << 21  # weights and outputs, no (centres, nodes) matrix
    dist = model.conditional([[0.5], [-1.0]])
    expected = [[0.5, np.sin(0.5), -0.5], [-1.0, -np.sin(1.0), 1.0]]
    np.testing.assert_allclose(dist.mean(), expected, atol=0.2)
    assert np.all(dist.std() < 0.6)


def test_mean_operator_weights_and_sum_rule():
    X, omega = inputs()
    Y = np.random.default_rng(9).normal(size=(14, 3))
    system = ExactRows(KERNEL, Groups.of(X, omega)).factor(ALPHA)
    op = MeanOperator(system, Y, Gaussian(1.0))
    Xq = X[:3] + 0.1
    w = plain_weights(X, omega, Xq)
    for embedding, expected in zip(op.embeddings(Xq), w, strict=True):
        np.testing.assert_allclose(embedding.weights, expected, rtol=1e-8, atol=1e-12)
    prior = SampleEmbedding(Xq, [0.2, 0.5, 0.3], kernel=KERNEL)
    posterior = op.sum_rule(prior)
    np.testing.assert_allclose(posterior.weights, [0.2, 0.5, 0.3] @ w, rtol=1e-8, atol=1e-12)


# --- what every component promises


def rows_of(n=40, d=1, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    Y = np.sin(X[:, :1]) + 0.3 * rng.normal(size=(n, d))
    return Rows(X, Y, rng.uniform(0.5, 2.0, n))


def output_side(d=1):
    box = UniformBox(-4.0, 4.0, nodes={1: 80, 2: 20}[d]).realise(np.zeros((2, d)))
    return Reconstruction(box, DensityKernel(Gaussian(0.5), d), 0.2)


def parameters_of(name, d=1):
    plain = OperatorParameters(KERNEL, 0.01, output_side(d))
    location = LocationParameters(KERNEL, 0.2, Gaussian((2.0, 2.0)), 1.0)
    return {
        "plain": plain,
        "location and scale": LocationScaleParameters(location, plain, np.zeros(d)),
        "nearest": NearestParameters(KERNEL, 0.01, output_side(d)),
        "marginal tail": MarginalTailParameters(),
    }[name]


SOLVERS = {"exact": Exact(), "iterative": Iterative(rank=10), "nystrom": Nystrom(20)}
EACH_COMPONENT = pytest.mark.parametrize(
    "name", ["plain", "location and scale", "nearest", "marginal tail"]
)


@EACH_COMPONENT
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_component_keeps_its_promises(name, d, solver):
    rows, settings = rows_of(d=d), Settings(solver=SOLVERS[solver], seed=1)
    component = parameters_of(name, d).fit(rows, settings)
    assert_keeps_its_promises(component, rows, rows.X[:5] + 0.1)


@pytest.mark.parametrize("name", ["plain", "location and scale", "nearest"])
def test_without_training_rows_nothing_is_held_out(name):
    bare = parameters_of(name).fit(rows_of(), Settings()).without_training()
    with pytest.raises(AssertionError, match="the training rows are gone"):
        bare.held_out(np.arange(3))


@pytest.mark.parametrize("solver", ["exact", "iterative"])
@pytest.mark.parametrize("name", ["plain", "nearest"])
@pytest.mark.parametrize("d", [1, 2])
def test_held_out_densities_are_those_of_a_refit(name, d, solver):
    rows, settings = rows_of(30, d), Settings(solver=SOLVERS[solver])
    parameters = parameters_of(name, d)
    component, judged = parameters.fit(rows, settings), np.array([4, 17, 29])
    found = component.held_out(judged)[name].pdf(rows.Y[:7])
    for i, row in enumerate(judged):
        others = rows.take(np.setdiff1d(np.arange(30), [row]))
        alpha = parameters.alpha * rows.total / others.total  # the same ridge
        refitted = replace(parameters, alpha=alpha).operator(others, settings)
        # the marginal, which answers where no row is near, still knows the row
        refitted = replace(refitted, marginal=component.operator.marginal)
        expected = refitted.batch(rows.X[row : row + 1]).pdf(rows.Y[:7])[0]
        np.testing.assert_allclose(found[i], expected, rtol=1e-5, atol=1e-6 * expected.max())


# --- the mixture


@pytest.fixture(scope="module")
def parts():
    """A plain density, location and scale, a tail, and the rows of all three."""
    rows = rows_of()
    names = ("plain", "location and scale", "marginal tail")
    return tuple(parameters_of(name).fit(rows, Settings()) for name in names), rows


def mixture(parts, **weights):
    return Mixture(parts[0], weights)


def test_location_and_scale_map_residuals_back(parts):
    (_, located, _), rows = parts
    X = rows.X[:3]
    made = located.predict(X)
    body, tail, normal = (made[name] for name in ("location_scale", "residual_tail", "normal"))
    location, scale = located.map(X)
    inner = located.residual.batch(X)
    for i in range(3):
        expected = inner.pdf((POINTS - location[i]) / scale[i])[i] / scale[i]
        np.testing.assert_allclose(body.pdf(POINTS)[i], expected, rtol=1e-8, atol=1e-12)
    for shape in (tail, normal):
        np.testing.assert_allclose(shape.moments()[0], location)
        np.testing.assert_allclose(shape.moments()[1][:, :, 0], scale**2)
    expected = norm(location, scale).pdf(POINTS.T)
    np.testing.assert_allclose(normal.pdf(POINTS), expected, rtol=1e-10, atol=1e-300)
    assert isinstance(body, AffineBatch)


def test_tails_have_the_sd_that_they_are_given():
    tail = student_tail(np.array([[1.0]]), np.array([[0.5]]))
    mean, cov = tail.moments()
    assert mean[0, 0] == pytest.approx(1.0)
    assert cov[0, 0, 0] == pytest.approx(0.25)


def test_the_density_is_the_mixture_of_the_components(parts):
    components, rows = parts
    names = ("plain", "location_scale", "residual_tail", "marginal_tail", "normal")
    weights = dict(zip(names, (0.3, 0.3, 0.2, 0.1, 0.1), strict=True))
    operator = mixture(parts, **weights)
    made = {}
    for component in components:
        made |= component.predict(rows.X[:4])
    expected = sum(weights[name] * part.pdf(POINTS) for name, part in made.items())
    found = operator.batch(rows.X[:4]).pdf(POINTS)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    assert (operator.dim, operator.signed, operator.n_jobs) == (1, False, None)
    plain, located, _ = components
    assert operator.nbytes == plain.nbytes + located.residual.nbytes
    assert operator.primary is plain.operator


def test_one_component_alone_stays_what_it_is(parts):
    (_, located, _), rows = parts
    assert isinstance(mixture(parts, plain=1.0).batch(rows.X), NodeBatch)
    alone = mixture(parts, location_scale=1.0).batch(rows.X[:2])
    expected = located.predict(rows.X[:2])["location_scale"]
    np.testing.assert_allclose(alone.pdf(POINTS), expected.pdf(POINTS), rtol=1e-10)


def test_components_without_weight_are_not_asked(parts):
    (plain, *_), rows = parts

    class Unasked(MarginalTail):
        def predict(self, queries):
            raise AssertionError("asked")

    operator = Mixture((plain, Unasked(np.zeros(1), np.ones(1))), {"plain": 1.0})
    assert isinstance(operator.batch(rows.X), NodeBatch)


def test_a_model_is_fitted_again_from_its_parameters(parts):
    _, rows = parts
    names = ("plain", "location and scale", "marginal tail")
    weights = {"plain": 0.4, "normal": 0.3, "marginal_tail": 0.3}
    chosen = ModelParameters(tuple(map(parameters_of, names)), weights)
    model = chosen.fit(rows, Settings())
    again = ModelParameters(chosen.components, weights).fit(
        replace(rows, weights=7.0 * rows.weights), Settings()
    )  # ratios of weights alone matter
    np.testing.assert_allclose(
        again.batch(rows.X).pdf(POINTS), model.batch(rows.X).pdf(POINTS), rtol=1e-9, atol=1e-12
    )
    bare = model.without_training()
    assert bare.primary.training is None
    np.testing.assert_array_equal(bare.batch(rows.X).pdf(POINTS), model.batch(rows.X).pdf(POINTS))


# --- uncertain inputs


@pytest.mark.parametrize("name", ["location_scale", "residual_tail", "normal"])
def test_a_sample_of_inputs_is_a_mixture_over_its_points(parts, name):
    X = parts[1].X
    operator = mixture(parts, **{name: 1.0})
    samples, weights = [X[:3], X[5:6], X[7:12]], [[1.0, 2.0, 1.0], [5.0], [1, 1, 1, 1, 0.0]]
    found = operator.batch(SampleInput(samples, weights)).pdf(POINTS)
    for row, points, w in zip(found, samples, weights, strict=True):
        expected = np.average(operator.batch(points).pdf(POINTS), axis=0, weights=w)
        np.testing.assert_allclose(row, expected, rtol=1e-8, atol=1e-12)


def test_queries_of_a_sample_are_independent_of_each_other(parts):
    X = parts[1].X
    operator = mixture(parts, plain=0.5, location_scale=0.5)
    both = operator.batch(SampleInput([X[:2], X[3:8]])).pdf(POINTS)
    for i, points in enumerate((X[:2], X[3:8])):
        alone = operator.batch(SampleInput([points])).pdf(POINTS)[0]
        np.testing.assert_allclose(alone, both[i], rtol=1e-9, atol=1e-12)


def test_a_certain_gaussian_is_a_point(parts):
    X = parts[1].X[:3]
    operator = mixture(parts, plain=0.3, location_scale=0.4, residual_tail=0.3)
    found = operator.batch(GaussianInput(X, 1e-16)).pdf(POINTS)
    np.testing.assert_allclose(found, operator.batch(X).pdf(POINTS), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("cov", [[0.1, 0.05], [[[0.1, 0.04], [0.04, 0.05]]]])
def test_a_gaussian_input_is_the_mixture_over_its_draws(parts, cov):
    operator = mixture(parts, location_scale=0.7, residual_tail=0.3)
    mean = np.array([0.8, -0.3])
    full = np.diag(cov) if np.ndim(cov) == 1 else np.array(cov[0])
    draws = np.random.default_rng(0).multivariate_normal(mean, full, size=4000)
    expected = operator.batch(draws).pdf(POINTS).mean(axis=0)
    found = operator.batch(GaussianInput([mean], cov)).pdf(POINTS)[0]
    np.testing.assert_allclose(found, expected, atol=0.04 * expected.max())  # of 64 points


def test_uncertain_inputs_cost_what_their_points_cost(parts):
    (plain, located, tail), rows = parts
    X = rows.X
    operator = mixture(parts, plain=0.5, location_scale=0.5)
    certain = operator.width(X)
    assert certain == plain.width(X) + located.residual.width(X)
    assert tail.width(X) == 0
    assert operator.width(GaussianInput(X, 0.1)) > 20 * certain
    three = operator.width(SampleInput([X[:3], X[:1]]))
    assert three == plain.width(X) + 3 * located.residual.width(X)
    bare = Mixture((PlainDensity(plain.operator),), {"plain": 1.0})
    assert bare.width(GaussianInput(X, 0.1)) == plain.width(X)
    assert bare.nbytes == plain.nbytes
