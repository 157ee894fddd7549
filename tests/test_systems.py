"""The input side against refitting, literally, with a row left out."""

import numpy as np
import pytest

from kcdo.embeddings import SampleEmbedding
from kcdo.errors import AccuracyWarning, InvalidInputError
from kcdo.inputs import GaussianInput, SampleInput
from kcdo.kernels import Adapter, DensityKernel, Gaussian, Matern
from kcdo.measures import Grid
from kcdo.operators import DensityOperator, MeanOperator, condition
from kcdo.reconstruction import Reconstruction
from kcdo.systems import ExactSystem, Groups, NystromRows

KERNEL = Gaussian((0.8, 1.3))
ALPHA = 0.02


def plain_weights(X, weights, Xq, ridge):
    """A⁻¹ k(X, x') of the ungrouped system with the absolute ridge Σω α given."""
    return np.linalg.solve(KERNEL(X) + ridge * np.diag(1.0 / weights), KERNEL(X, Xq)).T


def case(kind):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(14, 2))
    if kind != "distinct":
        X[[3, 7, 9]] = X[0]
        X[12] = X[5]
    weights = {
        "counts": rng.integers(1, 4, 14).astype(float),
        "real": rng.uniform(0.3, 2.5, 14),
    }.get(kind, np.ones(14))
    B = rng.normal(size=(14, 3))
    for array in (X, B, weights):
        array.setflags(write=False)
    return X, B, weights


KINDS = pytest.mark.parametrize("kind", ["distinct", "duplicates", "counts", "real"])


@KINDS
def test_grouped_predictions_and_weights_equal_the_plain_system(kind):
    X, B, omega = case(kind)
    Xq = np.random.default_rng(6).normal(size=(5, 2))
    system = ExactSystem(KERNEL, Groups.of(X, omega), ALPHA)
    expected = plain_weights(X, omega, Xq, omega.sum() * ALPHA)
    np.testing.assert_allclose(system.weights(Xq), expected, rtol=1e-8, atol=1e-12)
    found = system.section(Xq) @ system.coefficients(B)
    np.testing.assert_allclose(found, expected @ B, rtol=1e-8, atol=1e-12)
    assert system.n_centres == (14 if kind == "distinct" else 10)


@KINDS
def test_held_out_is_refitting_without_the_row(kind):
    X, B, omega = case(kind)
    system = ExactSystem(KERNEL, Groups.of(X, omega), ALPHA)
    ridge = omega.sum() * ALPHA
    expected = np.empty_like(B)
    for i in range(len(X)):
        left = omega.copy()
        left[i] = omega[i] - 1 if kind == "counts" else 0.0
        kept = left > 0
        w = plain_weights(X[kept], left[kept], X[i : i + 1], ridge)
        expected[i] = (w @ B[kept])[0]
    np.testing.assert_allclose(system.held_out(B), expected, rtol=1e-8, atol=1e-10)
    rows = np.array([9, 2, 0, 13])
    np.testing.assert_allclose(system.held_out(B, rows), expected[rows], rtol=1e-8, atol=1e-10)


@KINDS
def test_group_held_out_is_refitting_without_the_group(kind):
    X, B, omega = case(kind)
    groups = Groups.of(X, omega)
    system = ExactSystem(KERNEL, groups, ALPHA)
    for u, found in enumerate(system.group_held_out(B)):
        kept = groups.member_of != u
        w = plain_weights(X[kept], omega[kept], groups.points[u][None], omega.sum() * ALPHA)
        np.testing.assert_allclose(found, (w @ B[kept])[0], rtol=1e-8, atol=1e-10)


@KINDS
def test_held_out_weights_and_kept_shares(kind):
    X, B, omega = case(kind)
    system = ExactSystem(KERNEL, Groups.of(X, omega), ALPHA)
    every = system.held_out(B)
    rows = np.array([9, 2, 0, 13, 3])  # 0, 3 and 9 share an input where rows repeat
    weights = system.held_out_weights(rows)
    np.testing.assert_allclose(weights @ B, every[rows], rtol=1e-8, atol=1e-10)
    left = omega[rows] - 1.0 if kind == "counts" else np.zeros(5)
    np.testing.assert_array_equal(weights[np.arange(5), rows][left == 0].round(10), 0.0)
    fitted = system.section(X) @ system.coefficients(B)
    np.testing.assert_allclose((B - fitted) / system.kept()[:, None], B - every, rtol=1e-7)
    np.testing.assert_allclose(system.kept(rows), system.kept()[rows], rtol=1e-10)


@pytest.fixture(params=["distinct", "counts", "real"])
def low_rank(request):
    """A system on five centres, and the predictor with given weights and the same ridge."""
    X, B, omega = case(request.param)
    centres = X[[0, 1, 2, 4, 5]] + 0.1
    system = NystromRows(KERNEL, centres, X, omega, ALPHA)

    def predict(weights, targets, queries):
        K = KERNEL(X, centres)
        A = K.T @ (weights[:, None] * K) + omega.sum() * ALPHA * KERNEL(centres)
        return KERNEL(queries, centres) @ np.linalg.solve(A, K.T @ (weights[:, None] * targets))

    return system, X, B, omega, predict


def test_low_rank_predictions(low_rank):
    system, _, B, omega, predict = low_rank
    Xq = np.random.default_rng(6).normal(size=(5, 2))
    found = system.section(Xq) @ system.coefficients(B)
    np.testing.assert_allclose(found, predict(omega, B, Xq), rtol=1e-7, atol=1e-10)
    assert (system.method, system.n_centres) == ("nystrom", 5)
    assert system.condition() > 1.0
    assert len(system.factor) == 5


def test_low_rank_held_out_is_refitting_without_the_row(low_rank):
    system, X, B, omega, predict = low_rank
    expected = np.empty_like(B)
    counted = np.array_equal(omega, np.round(omega))
    for i in range(len(X)):
        left = omega.copy()
        left[i] = omega[i] - 1.0 if counted else 0.0
        expected[i] = predict(left, B, X[i : i + 1])[0]
    np.testing.assert_allclose(system.held_out(B), expected, rtol=1e-7, atol=1e-9)
    rows = np.array([7, 0, 11])
    np.testing.assert_allclose(system.held_out(B, rows), expected[rows], rtol=1e-7, atol=1e-9)
    weights = system.held_out_weights(rows)
    np.testing.assert_allclose(weights @ B, expected[rows], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(system.kept(rows), system.kept()[rows], rtol=1e-10)


def test_chunks_of_low_rank_systems_change_nothing(low_rank, monkeypatch):
    system, X, B, omega, _ = low_rank
    monkeypatch.setattr("kcdo.systems.nystrom._ROWS_AT_A_TIME", 4)
    again = NystromRows(KERNEL, system.centres, X, omega, ALPHA)
    rows = np.array([3, 12, 0, 5, 7])
    np.testing.assert_allclose(again.held_out(B), system.held_out(B), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(
        again.held_out_weights(rows), system.held_out_weights(rows), rtol=1e-8, atol=1e-10
    )


def test_the_same_sums_serve_every_alpha(low_rank):
    system, X, B, omega, _ = low_rank
    before = system.held_out(B), system.kept()  # what they keep is not that of another α
    other = system.with_alpha(5 * ALPHA)
    anew = NystromRows(KERNEL, system.centres, X, omega, 5 * ALPHA)
    np.testing.assert_allclose(other.held_out(B), anew.held_out(B), rtol=1e-10)
    np.testing.assert_allclose(other.kept(), anew.kept(), rtol=1e-10)
    assert np.abs(other.kept() - before[1]).max() > 1e-3
    assert (system.alpha, other.alpha) == (ALPHA, 5 * ALPHA)
    unchanged = NystromRows(KERNEL, system.centres, X, omega, ALPHA)
    np.testing.assert_allclose(system.held_out(B), unchanged.held_out(B), rtol=1e-10)


@KINDS
def test_with_all_inputs_as_centres_low_rank_is_exact(kind):
    X, B, omega = case(kind)
    exact = ExactSystem(KERNEL, Groups.of(X, omega), ALPHA)
    rows = NystromRows(KERNEL, np.unique(X, axis=0), X, omega, ALPHA)
    np.testing.assert_allclose(rows.held_out(B), exact.held_out(B), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(rows.kept(), exact.kept(), rtol=1e-5)


def test_a_count_equals_so_many_rows():
    X, B, omega = case("counts")
    times = omega.astype(int)
    repeated = ExactSystem(KERNEL, Groups.of(np.repeat(X, times, axis=0)), ALPHA)
    counted = ExactSystem(KERNEL, Groups.of(X, omega), ALPHA)
    rows = np.repeat(B, times, axis=0)
    np.testing.assert_allclose(counted.coefficients(B), repeated.coefficients(rows), rtol=1e-9)
    held_out = np.repeat(counted.held_out(B), times, axis=0)
    np.testing.assert_allclose(held_out, repeated.held_out(rows), rtol=1e-9)
    assert counted.groups.n_effective == repeated.groups.n_effective == omega.sum()


def test_only_ratios_of_real_weights_matter():
    X, B, omega = case("real")
    one, other = (ExactSystem(KERNEL, Groups.of(X, c * omega), ALPHA) for c in (1.0, 7.7))
    np.testing.assert_allclose(one.coefficients(B), other.coefficients(B), rtol=1e-9)
    np.testing.assert_allclose(one.held_out(B), other.held_out(B), rtol=1e-9)
    assert one.groups.n_effective == pytest.approx(omega.sum() ** 2 / np.sum(omega**2))
    assert other.groups.n_effective == pytest.approx(one.groups.n_effective)


def test_groups_know_their_members():
    groups = Groups.of(np.array([[2.0], [1.0], [2.0]]), np.array([1.0, 5.0, 3.0]))
    np.testing.assert_array_equal(groups.points, [[1.0], [2.0]])
    np.testing.assert_array_equal(groups.member_of, [1, 0, 1])
    np.testing.assert_allclose(groups.totals, [5.0, 4.0])
    np.testing.assert_allclose(groups.share, [0.25, 1.0, 0.75])
    np.testing.assert_allclose(groups.means(np.array([[0.0], [7.0], [4.0]])), [[7.0], [3.0]])


def test_objects_are_not_grouped():
    words = np.array(["a", "bb", "a"], dtype=object)
    groups = Groups.of(words)
    assert len(groups.points) == 3
    kernel = Adapter(lambda a, b: a[:, None] == b[None, :])
    system = ExactSystem(kernel, groups, 1.0 / 3)
    B = np.array([[1.0], [5.0], [3.0]])
    found = system.section(np.array(["a", "bb", "c"], dtype=object)) @ system.coefficients(B)
    np.testing.assert_allclose(found[:, 0], [4 / 3, 5 / 2, 0.0], atol=1e-12)


def test_sections_of_uncertain_queries():
    X, _, _ = case("distinct")
    system = ExactSystem(KERNEL, Groups.of(X), ALPHA)
    samples = np.random.default_rng(7).normal(size=(2, 6, 2))
    uncertain = system.section_with_error(SampleInput(samples))
    assert uncertain.error == 0.0
    expected = [KERNEL(s, system.groups.points).mean(axis=0) for s in samples]
    np.testing.assert_allclose(uncertain.values, expected, rtol=1e-10)
    certain = system.section(GaussianInput(X[:3], 1e-14))
    np.testing.assert_allclose(certain, system.section(X[:3]), rtol=1e-8)


@pytest.mark.parametrize("alpha", [0.0, -1.0, np.nan, np.inf])
def test_alpha_must_be_positive(alpha):
    with pytest.raises(InvalidInputError, match="alpha must be positive; got"):
        ExactSystem(KERNEL, Groups.of(np.zeros((2, 2))), alpha)


# --- where input and output side meet


@pytest.fixture
def operator():
    X, _, omega = case("counts")
    Y = X[:, :1] + 0.1 * np.random.default_rng(8).normal(size=(14, 1))
    grid = Grid(np.array([-6.0]), np.array([6.0]), (120,))
    side = Reconstruction(grid, DensityKernel(Gaussian(0.4), 1), 0.1)
    system = ExactSystem(KERNEL, Groups.of(X, omega), ALPHA)
    return DensityOperator.exact(system, side, Y, "signed"), X, Y, omega


def test_the_density_is_the_weighted_sum_of_reconstructed_bumps(operator):
    """p̂ = Σ_j w_j T_j, normalised, with a little of the marginal (docs/theory.md)."""
    op, X, Y, omega = operator
    Xq = X[:4] + 0.05
    v = op.output.measure.weights
    targets = op.output.reconstruct(op.output.embed(Y))
    w = plain_weights(X, omega, Xq, omega.sum() * ALPHA)
    p = w @ targets
    p /= (p @ v)[:, None]
    s = w.sum(axis=1)[:, None]
    expected = (s * p + 1e-3 * op.marginal) / (s + 1e-3)
    np.testing.assert_allclose(
        op.masses(Xq) / op.output.measure.weights, expected, rtol=1e-8, atol=1e-10
    )


def test_far_from_all_data_the_answer_is_the_marginal(operator):
    op, *_, Y, omega = operator
    far = op.masses(np.array([[1e6, -1e6]]))[0] / op.output.measure.weights
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
    system = ExactSystem(Matern(0.02, smoothness=1.5), Groups.of(X), ALPHA)
    op = DensityOperator.exact(system, side, X, "project")
    with pytest.warns(AccuracyWarning, match=r"standard error of .* raise n_points"):
        op.masses(GaussianInput([[0.5]], 0.04, n_points=8))


def test_mean_operator_weights_and_sum_rule():
    X, B, omega = case("real")
    system = ExactSystem(KERNEL, Groups.of(X, omega), ALPHA)
    op = MeanOperator(system, B, Gaussian(1.0))
    Xq = X[:3] + 0.1
    w = plain_weights(X, omega, Xq, omega.sum() * ALPHA)
    for embedding, expected in zip(op.embeddings(Xq), w, strict=True):
        np.testing.assert_allclose(embedding.weights, expected, rtol=1e-8, atol=1e-12)
    prior = SampleEmbedding(Xq, [0.2, 0.5, 0.3], kernel=KERNEL)
    posterior = op.sum_rule(prior)
    np.testing.assert_allclose(posterior.weights, [0.2, 0.5, 0.3] @ w, rtol=1e-8, atol=1e-12)
