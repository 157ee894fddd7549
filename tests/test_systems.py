"""One contract for every input side, against refitting, literally, with a row left out."""

import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from kcdo.errors import InvalidInputError
from kcdo.inputs import GaussianInput, SampleInput
from kcdo.kernels import Adapter, Kernel, Laplace, Matern
from kcdo.systems import (
    Centres,
    Exact,
    ExactRows,
    Groups,
    Iterative,
    NearestRows,
    WhitenedSums,
)

ALPHA = 0.02
KERNEL = Matern((0.8, 1.3), smoothness=1.5)
N = 14
SCATTERED = np.random.default_rng(5).normal(size=(N, 2))
LATTICE = np.stack(np.meshgrid(np.arange(4) * 0.5, np.arange(5) * 0.4), axis=-1).reshape(-1, 2)
REPEATED = SCATTERED.copy()
REPEATED[[3, 7, 9]] = REPEATED[0]
REPEATED[12] = REPEATED[5]
INPUTS = {
    "scattered": SCATTERED,
    "repeated": REPEATED,
    "lattice": np.random.default_rng(0).permutation(LATTICE)[:N] - 1.0,
}
WEIGHTS = {
    "ones": np.ones(N),
    "counts": np.random.default_rng(1).integers(1, 4, N).astype(float),
    "floats": np.random.default_rng(2).uniform(0.3, 2.5, N),
}
B = np.random.default_rng(3).normal(size=(N, 3))
QUERIES = np.random.default_rng(4).normal(size=(5, 2))
SOME = np.array([9, 2, 0, 13, 3, 9])  # 0, 3 and 9 share an input where inputs repeat
for array in (*INPUTS.values(), *WEIGHTS.values(), B, QUERIES, SOME):
    array.setflags(write=False)


@dataclass(frozen=True)
class InputSide:
    """Rows of one kind, and how they are solved."""

    solver: str
    inputs: str
    weights: str
    tolerance: float = 1e-8
    kernel: Kernel = KERNEL

    @property
    def points(self):
        return INPUTS[self.inputs]

    @property
    def omega(self):
        return WEIGHTS[self.weights]

    @property
    def centres(self):
        """The five centres of a Nyström system, or every input."""
        return (
            self.points[[0, 1, 2, 4, 5]] + 0.1
            if "five" in self.solver
            else np.unique(self.points, axis=0)
        )

    def rows(self, n_jobs: int | None = None) -> Any:
        """Return the rows before α is known."""
        kernel, X, omega = self.kernel, self.points, self.omega
        if self.solver.startswith("Nyström"):
            return WhitenedSums.of_rows(kernel, self.centres, X, omega, n_jobs=n_jobs)
        if self.solver == "near rows":  # every other row is a neighbour
            return NearestRows(kernel, X, omega, neighbours=N, n_jobs=n_jobs)
        return ExactRows(kernel, Groups.of(X, omega), SOLVERS[self.solver], n_jobs)

    def system(self, alpha: float = ALPHA, n_jobs: int | None = None):
        return self.rows(n_jobs).factor(alpha)

    def plain(self, omega, targets, queries, ridge=None):
        """Predict from rows of given weights by dense algebra, with the ridge Σω α of all rows."""
        ridge = self.omega.sum() * ALPHA if ridge is None else ridge
        k, kept = self.kernel, omega > 0
        X, targets, omega = self.points[kept], targets[kept], omega[kept]
        if self.solver.startswith("Nyström"):
            K = k(X, self.centres)
            A = K.T @ (omega[:, None] * K) + ridge * k(self.centres)
            return k(queries, self.centres) @ np.linalg.solve(A, K.T @ (omega[:, None] * targets))
        return k(queries, X) @ np.linalg.solve(k(X) + ridge * np.diag(1.0 / omega), targets)

    def without(self, i):
        """Return the weights that stay when row i leaves: of a count, one leaves."""
        left = self.omega.copy()
        one = self.weights == "counts" and self.solver != "near rows"
        left[i] = self.omega[i] - 1.0 if one else 0.0
        return left

    def refitted(self, targets):
        """Return the prediction of each row from the others."""
        each = range(len(targets))
        return np.array(
            [self.plain(self.without(i), targets, self.points[i : i + 1])[0] for i in each]
        )

    @property
    def method(self):
        named = {"Nyström": "nystrom", "near": "nearest", "iterative": "iterative"}
        return named.get(self.solver.replace(",", "").split()[0], "exact")

    def close(self, found, expected, more=1.0):
        tolerance = more * self.tolerance
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


SOLVERS = {
    "exact": Exact(),
    "exact float32": Exact("float32"),
    "iterative": Iterative(rank=8, tolerance=1e-13),
}
SIDES = {
    "exact": InputSide("exact", "scattered", "ones"),
    "grouped": InputSide("exact", "repeated", "ones"),
    "counts": InputSide("exact", "repeated", "counts"),
    "float weights": InputSide("exact", "repeated", "floats"),
    "float32": InputSide("exact float32", "repeated", "floats", 1e-4),
    "iterative": InputSide("iterative", "scattered", "ones"),
    "iterative, grouped counts": InputSide("iterative", "repeated", "counts"),
    "iterative, float weights": InputSide("iterative", "repeated", "floats"),
    "iterative by FFT": InputSide("iterative", "lattice", "ones", kernel=Laplace((0.8, 1.3))),
    "Nyström": InputSide("Nyström, five centres", "scattered", "ones", 1e-7),
    "Nyström, counts": InputSide("Nyström, five centres", "repeated", "counts", 1e-7),
    "Nyström, float weights": InputSide("Nyström, five centres", "repeated", "floats", 1e-7),
    "Nyström, every input": InputSide("Nyström", "repeated", "floats", 1e-6),
    "near rows": InputSide("near rows", "scattered", "ones", 1e-6),
    "near rows, grouped": InputSide("near rows", "repeated", "ones", 1e-6),
    "near rows, counts": InputSide("near rows", "repeated", "counts", 1e-6),
    "near rows, float weights": InputSide("near rows", "scattered", "floats", 1e-6),
}


@pytest.fixture(params=SIDES)
def side(request):
    return SIDES[request.param]


def dense(weights):
    """Return weights as an array: near rows have sparse ones."""
    return weights if isinstance(weights, np.ndarray) else weights.toarray()


# --- the contract


def test_predictions_are_weights_times_targets_and_sections_times_coefficients(side):
    system = side.system()
    expected = side.plain(side.omega, B, QUERIES)
    side.close(system.section(QUERIES) @ system.coefficients(B), expected)
    side.close(system.weights(QUERIES) @ B, expected)
    side.close(system.weights_of(system.section(QUERIES)) @ B, expected)
    assert system.weights(QUERIES).shape == (5, N)
    assert system.section(QUERIES).shape == (5, system.n_centres)


def test_held_out_is_refitting_without_the_row(side):
    system, expected = side.system(), side.refitted(B)
    side.close(system.held_out(B), expected)
    side.close(system.held_out(B, SOME), expected[SOME])


def test_held_out_weights_apply_to_any_targets(side):
    system = side.system()
    weights = system.held_out_weights(SOME)
    assert weights.shape == (len(SOME), N)
    side.close(weights @ B, side.refitted(B)[SOME])
    gone = np.array([side.without(i)[i] == 0.0 for i in SOME])
    own = dense(weights)[np.arange(len(SOME)), SOME]
    side.close(own[gone], 0.0)


def test_one_minus_leverage_is_residual_over_held_out_residual(side):
    system = side.system()
    kept, fitted = system.one_minus_leverage(), side.plain(side.omega, B, side.points)
    assert kept.shape == (N,)
    assert np.all((kept > 0) & (kept <= 1))
    side.close((B - fitted) / kept[:, None], B - side.refitted(B), more=10)
    side.close(system.one_minus_leverage(SOME), kept[SOME])


@pytest.mark.parametrize("step", [1, 5, 100])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_condensed_targets_are_all_that_solving_needs(side, step, sparse):
    system = side.system()
    Y = np.round(B[:, :1])  # some are equal
    matrix = np.random.default_rng(6).normal(size=(1, 4))

    def embed(outputs):
        values = np.cos(outputs @ matrix)
        return csr_matrix(values) if sparse else values

    found = system.condensed(embed, Y, step)
    embedded = np.cos(Y @ matrix)
    side.close(system.solve(found.targets), system.coefficients(embedded))
    side.close(system.solve(found.ones[:, None]), system.coefficients(np.ones((N, 1))))
    side.close(found.total, side.omega @ embedded)
    np.testing.assert_array_equal(system.row_weights, side.omega)


def test_a_system_describes_itself(side):
    system = side.system()
    system.coefficients(B)
    facts = system.describe()
    assert (facts.method, facts.alpha) == (side.method, ALPHA)
    assert facts.n_centres == system.n_centres == len(system.centres)
    assert facts.jitter == 0.0
    assert (facts.iterations > 0) == (0 < facts.residual <= 1e-13) == (side.method == "iterative")
    assert np.isnan(facts.condition) if side.method == "nearest" else facts.condition > 1.0
    assert (facts.nbytes > 0) == (side.method != "nearest")
    if side.method != "nystrom":  # near rows are not grouped
        distinct = N if side.method == "nearest" else len(np.unique(side.points, axis=0))
        assert facts.n_centres == distinct


def test_without_its_factor_a_system_predicts_the_same(side):
    system = side.system()
    bare = system.without_factor()
    found = bare.section(QUERIES) @ system.coefficients(B)
    side.close(found, side.plain(side.omega, B, QUERIES))
    if side.method != "nearest":  # whose predictions need every row
        assert type(bare) is Centres


def test_with_rows_of_its_own_a_system_predicts_the_same(side):
    system = side.system()
    expected = dense(system.weights(QUERIES)).copy()
    own = system.with_own_rows()
    np.testing.assert_array_equal(dense(own.weights(QUERIES)), expected)
    if system.applies_weights(10**12, product_grid=False):
        assert not np.shares_memory(own.centres, side.points)
        assert not np.shares_memory(own.row_weights, side.omega)


def test_the_same_rows_serve_every_alpha(side):
    rows = side.rows()
    first = rows.factor(ALPHA)
    before = first.held_out(B), first.one_minus_leverage()
    other, anew = rows.factor(5 * ALPHA), side.system(5 * ALPHA)
    np.testing.assert_allclose(other.held_out(B), anew.held_out(B), rtol=1e-10)
    side.close(
        other.weights(QUERIES) @ B,
        side.plain(side.omega, B, QUERIES, 5 * ALPHA * side.omega.sum()),
    )
    assert np.abs(other.one_minus_leverage() - before[1]).max() > 1e-3
    # what the first keeps is not that of the other
    np.testing.assert_array_equal(first.held_out(B), before[0])
    np.testing.assert_array_equal(first.one_minus_leverage(), before[1])
    assert (first.alpha, other.alpha) == (ALPHA, 5 * ALPHA)


def test_threads_change_nothing(side):
    one, three = (side.system(n_jobs=n) for n in (1, 3))
    np.testing.assert_allclose(
        dense(three.weights(QUERIES)), dense(one.weights(QUERIES)), rtol=1e-8, atol=1e-10
    )
    np.testing.assert_allclose(three.held_out(B), one.held_out(B), rtol=1e-8, atol=1e-10)


def test_a_system_can_be_pickled(side):
    system = side.system()
    again = pickle.loads(pickle.dumps(system))
    np.testing.assert_array_equal(dense(again.weights(QUERIES)), dense(system.weights(QUERIES)))


def test_sections_of_uncertain_queries(side):
    system = side.system()
    clouds = np.random.default_rng(7).normal(size=(2, 6, 2))
    if side.method == "nearest":
        with pytest.raises(InvalidInputError, match="only points have neighbours: take points"):
            system.section(SampleInput(clouds))
        return
    uncertain = system.section_with_error(SampleInput(clouds))
    assert uncertain.error == 0.0
    side.close(uncertain.values, [side.kernel(c, system.centres).mean(axis=0) for c in clouds])
    certain = system.section(GaussianInput(QUERIES, 1e-14))
    side.close(certain, side.kernel(QUERIES, system.centres), more=100)


# --- how the sides go together


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("inputs", ["scattered", "repeated"])
def test_with_every_input_as_a_centre_low_rank_is_exact(inputs, weights):
    exact, low_rank = (
        InputSide(solver, inputs, weights).system() for solver in ("exact", "Nyström")
    )
    np.testing.assert_allclose(low_rank.held_out(B), exact.held_out(B), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(low_rank.one_minus_leverage(), exact.one_minus_leverage(), rtol=1e-5)


def test_a_count_equals_so_many_rows():
    side = SIDES["counts"]
    times = side.omega.astype(int)
    repeated = ExactRows(KERNEL, Groups.of(np.repeat(side.points, times, axis=0))).factor(ALPHA)
    counted, rows = side.system(), np.repeat(B, times, axis=0)
    np.testing.assert_allclose(counted.coefficients(B), repeated.coefficients(rows), rtol=1e-9)
    held_out = np.repeat(counted.held_out(B), times, axis=0)
    np.testing.assert_allclose(held_out, repeated.held_out(rows), rtol=1e-9)
    assert counted.groups.n_effective == repeated.groups.n_effective == side.omega.sum()


def test_only_ratios_of_real_weights_matter():
    X, omega = REPEATED, WEIGHTS["floats"]
    one, other = (ExactRows(KERNEL, Groups.of(X, c * omega)).factor(ALPHA) for c in (1.0, 7.7))
    np.testing.assert_allclose(one.coefficients(B), other.coefficients(B), rtol=1e-9)
    np.testing.assert_allclose(one.held_out(B), other.held_out(B), rtol=1e-9)
    assert one.groups.n_effective == pytest.approx(omega.sum() ** 2 / np.sum(omega**2))
    assert other.groups.n_effective == pytest.approx(one.groups.n_effective)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_chunks_of_low_rank_systems_change_nothing(weights, monkeypatch):
    side = InputSide("Nyström, five centres", "scattered", weights)
    system = side.system()
    monkeypatch.setattr("kcdo.systems.nystrom._ROWS_AT_A_TIME", 4)
    again = side.system()
    for found, expected in (
        (again.held_out(B), system.held_out(B)),
        (again.held_out_weights(SOME), system.held_out_weights(SOME)),
        (again.coefficients(B), system.coefficients(B)),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_held_out_rows_of_a_stream_need_no_second_pass(weights):
    """From the summed targets of all rows, and the rows themselves of a few."""
    side = InputSide("Nyström, five centres", "scattered", weights)
    system = side.system()
    summed = system.condensed(lambda rows: rows, B, N).targets
    found = system.held_out_at(side.points[SOME], side.omega[SOME], B[SOME], summed)
    np.testing.assert_allclose(found, side.refitted(B)[SOME], rtol=1e-7, atol=1e-9)
    section = system.section(side.points[SOME])
    errors = B[SOME] - section @ system.solve(summed)
    found = system.leverages.held_out_errors(errors, section, side.omega[SOME])
    np.testing.assert_allclose(B[SOME] - found, side.refitted(B)[SOME], rtol=1e-7, atol=1e-9)


def test_objects_are_not_grouped():
    words = np.array(["a", "bb", "a"], dtype=object)
    groups = Groups.of(words)
    assert len(groups.points) == 3
    kernel = Adapter(lambda a, b: a[:, None] == b[None, :])
    system = ExactRows(kernel, groups).factor(1.0 / 3)
    targets = np.array([[1.0], [5.0], [3.0]])
    found = system.section(np.array(["a", "bb", "c"], dtype=object)) @ system.coefficients(targets)
    np.testing.assert_allclose(found[:, 0], [4 / 3, 5 / 2, 0.0], atol=1e-12)


@pytest.mark.parametrize("alpha", [0.0, -1.0, np.nan, np.inf])
def test_alpha_must_be_positive(alpha):
    with pytest.raises(InvalidInputError, match="alpha must be positive; got"):
        ExactRows(KERNEL, Groups.of(np.zeros((2, 2)))).factor(alpha)
