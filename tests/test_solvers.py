"""One contract for every way to solve the input side, and what each says of itself."""

import pickle
import re

import numpy as np
import pytest

import kcdo
from kcdo.systems import (
    Exact,
    ExactRows,
    Groups,
    Iterative,
    Nystrom,
    WhitenedSums,
    choose_solver,
    may_repeat,
)

ALPHA, ALPHA_PRIME = 0.02, 0.05
GIB = 1 << 30

# --- the plain formula, with explicit inverses


def density(kernel, A, B):
    """ℓ(a, b) of a Laplace product, divided by its integral."""
    return kernel(A, B) / np.prod(2.0 * np.asarray(kernel.scales(A.shape[1])))


def dense_answer(model, X, Y, omega, Xq):
    """Node densities by explicit inverses, of the ungrouped rows (docs/theory.md)."""
    k, ell = model.kernel_x, model.kernel_y
    Z, v = model._operator.output.measure.nodes, model._operator.output.measure.weights
    A = k(X, X) + omega.sum() * ALPHA * np.diag(1.0 / omega)
    w = (np.linalg.inv(A) @ k(X, Xq)).T
    D = np.diag(np.sqrt(v))
    S = D @ density(ell, Z, Z) @ D + ALPHA_PRIME * np.eye(len(Z))
    u = (np.linalg.inv(D) @ np.linalg.inv(S) @ D @ density(ell, Z, Y) @ w.T).T
    u /= (u @ v)[:, None]
    marginal = density(ell, Z, Y) @ (omega / omega.sum())
    marginal /= marginal @ v
    s = w.sum(axis=1)[:, None]
    return (s * u + 1e-3 * marginal) / (s + 1e-3)


def node_densities(model, Xq):
    return model._operator.batch(Xq).masses / model._operator.output.measure.weights


# --- the cases


def scattered_inputs(rng):
    return rng.uniform(-2.0, 2.0, (60, 2))


def partly_filled_grid(rng):
    full = np.stack(np.meshgrid(np.arange(9) * 0.4, np.arange(10) * 0.3), axis=-1).reshape(-1, 2)
    return rng.permutation(full)[:60] - 1.5


def repeated(rng):
    return scattered_inputs(rng)[rng.integers(0, 20, 60)]


def one(rng, n):
    return np.ones(n)


def counts(rng, n):
    return rng.integers(1, 4, n).astype(float)


def real(rng, n):
    return rng.uniform(0.3, 2.0, n)


ALL_POINTS = "every input is a centre"
STRUCTURES = {
    "exact": (Exact(), scattered_inputs, one, 1e-8),
    "exact float32": (Exact("float32"), scattered_inputs, one, 1e-3),
    "iterative": (Iterative(rank=10, tolerance=1e-12), scattered_inputs, one, 1e-8),
    "iterative by FFT": (Iterative(rank=10, tolerance=1e-12), partly_filled_grid, one, 1e-8),
    "iterative, real weights": (Iterative(rank=10, tolerance=1e-12), repeated, real, 1e-8),
    "Nyström": (ALL_POINTS, scattered_inputs, one, 1e-7),
    "Nyström, duplicates": (ALL_POINTS, repeated, one, 1e-7),
    "Nyström, counts": (ALL_POINTS, scattered_inputs, counts, 1e-7),
    "Nyström, real weights": (ALL_POINTS, scattered_inputs, real, 1e-7),
    "grouped": (Exact(), repeated, one, 1e-8),
    "grouped float32": (Exact("float32"), repeated, counts, 1e-3),
    "counts": (Exact(), scattered_inputs, counts, 1e-8),
    "grouped counts": (Exact(), repeated, counts, 1e-8),
    "real weights": (Exact(), repeated, real, 1e-8),
}
REFERENCES = {
    "1-D grid": (1, kcdo.UniformBox(-4.0, 4.0, nodes=40)),
    "2-D grid": (2, kcdo.UniformBox(-4.0, 4.0, nodes=(13, 11))),
    "scattered": (2, kcdo.Sample(np.random.default_rng(3).uniform(-4, 4, (80, 2)))),
}


@pytest.fixture(params=STRUCTURES)
def structure(request, monkeypatch):
    monkeypatch.setattr("kcdo.fitting.binning._LARGEST_SUMS", 0)  # binning has its own tests
    return STRUCTURES[request.param]


@pytest.fixture(params=REFERENCES)
def reference(request):
    return REFERENCES[request.param]


def fitted(structure, reference, n_jobs=None):
    solver, make_inputs, make_weights, _ = structure
    d, measure = reference
    rng = np.random.default_rng(11)
    X = make_inputs(rng)
    Y = np.sin(X[:, :1] + np.arange(d)) + 0.3 * rng.standard_normal((len(X), d))
    omega = make_weights(rng, len(X))
    for array in (X, Y, omega):
        array.setflags(write=False)
    if solver == ALL_POINTS:
        solver = Nystrom(centers=np.unique(X, axis=0), chunk_rows=7)
    model = kcdo.ConditionalDensityOperator(
        kernel_x=kcdo.Laplace((1.1, 1.7)),
        kernel_y=kcdo.Laplace((0.8, 1.2)[:d]),
        reference=measure,
        alpha=ALPHA,
        alpha_prime=ALPHA_PRIME,
        positivity="signed",
        solver=solver,
        n_jobs=n_jobs,
        selection="heuristic",
    )
    weights = None if make_weights is one else omega
    return model.fit(X, Y, sample_weight=weights), X, Y, omega


QUERIES = np.random.default_rng(12).uniform(-2.0, 2.0, (7, 2))
QUERIES.setflags(write=False)


def test_every_structure_equals_the_plain_formula(structure, reference):
    model, X, Y, omega = fitted(structure, reference)
    expected = dense_answer(model, X, Y, omega, QUERIES)
    found = node_densities(model, QUERIES)
    np.testing.assert_allclose(found, expected, rtol=0, atol=structure[3] * np.abs(expected).max())


def test_results_do_not_depend_on_the_number_of_threads(structure, reference):
    found = [node_densities(fitted(structure, reference, n)[0], QUERIES) for n in (1, 3)]
    tolerance = max(1e-10, structure[3] / 10)
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=tolerance)


def test_every_structure_can_be_pickled(structure):
    model, *_ = fitted(structure, REFERENCES["1-D grid"])
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(QUERIES), model.predict(QUERIES))


def test_the_report_of_every_structure(structure, reference):
    model, X, *_ = fitted(structure, reference)
    solver, report = structure[0], model.report_
    n_distinct = len(np.unique(X, axis=0))
    method = {Exact: "exact", Iterative: "iterative"}.get(type(solver), "nystrom")
    assert report.method == method
    assert report.selection == "heuristic"
    assert (report.n_samples, report.n_centres) == (len(X), n_distinct)
    assert report.n_nodes == model._operator.output.measure.n_nodes
    assert (report.alpha, report.alpha_prime) == (ALPHA, ALPHA_PRIME)
    assert (report.kernel_x, report.kernel_y) == (model.kernel_x, model.kernel_y)
    assert isinstance(report.filter, kcdo.Tikhonov)
    assert report.jitter == 0.0
    assert report.binning_error == 0.0
    assert 0 < report.seconds < 60
    assert (report.iterations > 0) == (method == "iterative")
    assert (0 < report.residual <= 1e-12) == (method == "iterative")
    width = solver.rank if method == "iterative" else n_distinct
    factor = (4 if solver == Exact("float32") else 8) * width * n_distinct
    assert factor < report.memory <= factor + 8 * n_distinct * (report.n_nodes + 1)
    text = str(report)
    assert repr(report) == text
    assert f"method         {method}" in text
    assert "_system" not in text
    assert re.search(r"^condition +\d", text, re.MULTILINE)


def test_the_condition_number_is_about_right():
    rng = np.random.default_rng(0)
    X, omega = rng.normal(size=(40, 2)), np.ones(40)
    kernel = kcdo.Gaussian(1.0)
    exact = np.linalg.cond(kernel(X) + 40 * 0.01 * np.eye(40))
    groups = Groups.of(X, omega)
    found, bound = (
        ExactRows(kernel, groups, solver).factor(0.01).describe().condition
        for solver in (Exact(), Iterative())
    )
    assert found == pytest.approx(exact, rel=0.1)
    assert exact <= bound <= 4 * exact


@pytest.mark.parametrize("solver", [Exact(), Exact("float32"), Iterative(tolerance=1e-12)])
def test_embedding_weights_and_leave_one_out(solver):
    """What the embeddings and the parameter choice ask of an exact system."""
    rng = np.random.default_rng(4)
    X, omega = repeated(rng), real(rng, 60)
    B = rng.normal(size=(60, 2))
    kernel = kcdo.Laplace(1.0)
    system = ExactRows(kernel, Groups.of(X, omega), solver).factor(ALPHA)
    A = kernel(X) + omega.sum() * ALPHA * np.diag(1.0 / omega)
    tolerance = 2e-3 if solver == Exact("float32") else 1e-9
    expected = np.linalg.inv(A) @ kernel(X, QUERIES)
    np.testing.assert_allclose(system.weights(QUERIES), expected.T, atol=tolerance)
    inverse = np.linalg.inv(A)
    expected = B - inverse @ B / np.diag(inverse)[:, None]
    np.testing.assert_allclose(system.held_out(B), expected, atol=tolerance)
    rows = np.array([50, 3, 3])
    np.testing.assert_allclose(system.held_out(B, rows), expected[rows], atol=tolerance)


# --- jitter


def test_jitter_is_not_added_where_it_is_not_needed():
    X = np.linspace(0, 1, 100)[:, None]
    for dtype in ("float64", "float32"):
        assert ExactRows(kcdo.Gaussian(0.5), Groups.of(X), Exact(dtype)).factor(1e-4).jitter == 0.0


@pytest.mark.parametrize(
    ("dtype", "alpha", "largest"), [("float64", 1e-22, 1e-10), ("float32", 1e-12, 1e-1)]
)
def test_jitter_is_added_where_rounding_needs_it(dtype, alpha, largest):
    """A smooth kernel's matrix has eigenvalues below rounding: positive definite on paper only."""
    X = np.linspace(0, 1, 100)[:, None]
    model = kcdo.ConditionalDensityOperator(
        kernel_x=kcdo.Gaussian(2.0),
        kernel_y=kcdo.Gaussian(0.2),
        alpha=alpha,
        solver=Exact(dtype),
        selection="heuristic",
    ).fit(X, np.sin(6 * X[:, 0]))
    assert 0 < model.report_.jitter <= largest
    assert f"jitter         {model.report_.jitter}" in str(model.report_)
    assert np.all(np.isfinite(model.predict(X)))


def test_the_least_jitter_that_works_is_used():
    """A kernel with eigenvalue -1e-9 needs a little more than that, not a million times."""
    shift = kcdo.Adapter(lambda a, b: (1.0 + 1e-9) * np.ones((len(a), len(b))) - 1e-9 * (a == b.T))
    system = ExactRows(shift, Groups.of(np.arange(50.0)[:, None])).factor(1e-16)
    assert 1e-9 < system.jitter < 2e-8


def test_an_indefinite_kernel_is_refused():
    wrong = kcdo.Adapter(lambda a, b: -1.0 * (a == b.T))
    with pytest.raises(np.linalg.LinAlgError, match=r"even with .* added to its diagonal: is the"):
        ExactRows(wrong, Groups.of(np.arange(5.0)[:, None])).factor(1e-3)


def sums_of(cross):
    """Sums over two far centres, for which the whitened basis is the identity."""
    centres = np.array([[0.0], [1e3]])
    return WhitenedSums(kcdo.Gaussian(1.0), centres, np.eye(2), np.asarray(cross), 10.0, True)


def test_jitter_of_sums_over_centres():
    assert sums_of([[2.0, 0.0], [0.0, 1.0]]).factor(1e-6).jitter == 0.0
    rounded = sums_of([[1.0, 1.0 + 1e-12], [1.0 + 1e-12, 1.0]])  # an eigenvalue of -1e-12
    system = rounded.factor(1e-20)
    assert 1e-12 < system.jitter < 2e-11
    assert system.describe().jitter == system.jitter
    with pytest.raises(np.linalg.LinAlgError, match=r"over the centres .* even with .* A larger"):
        sums_of([[1.0, 0.0], [0.0, -1.0]]).factor(1e-3)


# --- memory


def few_bytes(monkeypatch, n):
    monkeypatch.setattr("kcdo.memory.available_memory", lambda: int(n))
    monkeypatch.setattr("kcdo.systems.choice.available_memory", lambda: int(n))


def no_matrix(*args, **kwargs):
    raise AssertionError("a matrix was allocated")


@pytest.mark.parametrize(("dtype", "needed"), [("float64", "1.0"), ("float32", "0.5")])
def test_an_exact_fit_beyond_memory_is_refused_before_allocating(monkeypatch, dtype, needed):
    few_bytes(monkeypatch, 0.25 * GIB)
    monkeypatch.setattr("kcdo.systems.exact.lower_gram", no_matrix)
    X = np.arange(10_000.0)[:, None]
    model = kcdo.ConditionalDensityOperator(
        solver=Exact(dtype), kernel_x=kcdo.Gaussian(1.0), selection="heuristic"
    )
    message = (
        rf"an exact fit of 10000 distinct inputs needs {needed} GiB of memory, but 0\.2 GiB are "
        r"available: use ConditionalDensityOperator\(solver=kcdo\.Nystrom\(\)\)"
    )
    with pytest.raises(kcdo.NotEnoughMemoryError, match=message):
        model.fit(X, X[:, 0])
    assert not hasattr(model, "report_")


def test_repeated_inputs_need_little_memory(monkeypatch):
    few_bytes(monkeypatch, 20 << 20)
    X = np.repeat(np.arange(20.0), 100)[:, None]
    model = kcdo.ConditionalDensityOperator(
        solver=Exact(), reference=kcdo.UniformBox(nodes=40), selection="heuristic"
    )
    report = model.fit(X, np.sin(X[:, 0]) + np.tile(np.linspace(-1, 1, 100), 20)).report_
    assert (report.method, report.n_centres, report.n_samples) == ("exact", 20, 2000)


def test_a_streamed_fit_on_a_large_grid_is_refused_before_allocating(monkeypatch):
    few_bytes(monkeypatch, 4 * GIB)
    monkeypatch.setattr("kcdo.fitting.streaming.StreamPlan.empty_sums", no_matrix)
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(2000, 4)), rng.normal(size=(2000, 3))
    model = kcdo.ConditionalDensityOperator(
        kernel_y=kcdo.Gaussian(0.5),
        reference=kcdo.UniformBox(nodes=64),
        solver=Nystrom(1000, choice="uniform"),
        selection="heuristic",
    )
    message = (
        r"a streamed fit of 1000 centres on 262144 output nodes needs 7\.\d GiB of memory, but "
        r"4\.0 GiB are available: use fewer centres or nodes, or solver=kcdo\.Exact\(\)"
    )
    with pytest.raises(kcdo.NotEnoughMemoryError, match=message):
        model.fit(X, Y)


def test_a_dense_reconstruction_beyond_memory_is_refused(monkeypatch):
    few_bytes(monkeypatch, 20 << 20)
    X = np.linspace(0, 1, 50)[:, None]
    model = kcdo.ConditionalDensityOperator(
        reference=kcdo.QuasiRandomBox(n_nodes=2048),
        kernel_y=kcdo.Gaussian(0.2),
        selection="heuristic",
    )
    with pytest.raises(kcdo.NotEnoughMemoryError, match="dense reconstruction on 2048 nodes"):
        model.fit(X, X[:, 0])


# --- the automatic choice


def test_the_choice_follows_the_number_of_inputs_and_memory(monkeypatch):
    few_bytes(monkeypatch, 64 * GIB)
    assert choose_solver(12_000) == Exact()
    assert choose_solver(12_001) == Nystrom()
    assert choose_solver(5_000, 1e-3) == Exact()
    few = choose_solver(5_001, 1e-3)
    assert few == Nystrom(centers=1000, tolerance=few.tolerance)
    assert few.tolerance == pytest.approx(3e-5)
    few_bytes(monkeypatch, 1 * GIB)
    assert choose_solver(9_000) == Exact()
    assert choose_solver(9_500) == Nystrom()  # 1.3 · 8 · 9,500² exceeds 0.8 GiB


def test_a_tolerance_takes_no_more_centres_than_reach_it():
    X = np.random.default_rng(0).normal(size=(400, 2))
    kernel, rng = kcdo.Gaussian(1.0), np.random.default_rng(1)
    centres = Nystrom(tolerance=1e-3).choose(kernel, X, 300, rng)
    assert len(centres) < 150
    cross = kernel(X, centres)
    spanned = np.einsum("ij,ij->i", cross @ np.linalg.inv(kernel(centres)), cross)
    assert 0.0 <= 1.0 - spanned.mean() < 1e-3


def test_a_kernel_of_the_user_keeps_the_exact_system(monkeypatch):
    monkeypatch.setattr("kcdo.systems.choice._LARGEST_SMOOTH_EXACT", 100)
    X = np.random.default_rng(0).normal(size=(150, 2))
    for options, method in (
        ({}, "nystrom"),
        ({"kernel_x": "auto"}, "nystrom"),
        ({"kernel_x": kcdo.Gaussian(0.05)}, "exact"),
        ({"alpha": 1e-8}, "exact"),
    ):
        model = kcdo.ConditionalDensityOperator(selection="heuristic", **options).fit(X, X[:, 0])
        assert model.report_.method == method


def test_centres_answer_like_the_exact_system_at_the_ridge_of_the_heuristic():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5001, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * rng.choice([-1, 1], 5001) + 0.2 * rng.normal(size=5001)
    chosen, exact = (
        kcdo.ConditionalDensityOperator(selection="heuristic", solver=solver).fit(X, y)
        for solver in ("auto", Exact())
    )
    assert chosen.report_.method == "nystrom"
    assert 100 < chosen.report_.n_centres < 500
    found, expected = (model.conditional(X[:200]) for model in (chosen, exact))
    np.testing.assert_allclose(found.mean(), expected.mean(), atol=0.02 * y.std())
    np.testing.assert_allclose(found.std(), expected.std(), atol=0.02 * y.std())


@pytest.mark.parametrize(
    ("n_distinct", "repeats", "method"),
    [(40, 1, "exact"), (200, 1, "nystrom"), (40, 20, "exact"), (200, 3, "nystrom")],
)
def test_the_choice_of_a_fit(monkeypatch, n_distinct, repeats, method):
    monkeypatch.setattr("kcdo.systems.choice._LARGEST_SMOOTH_EXACT", 100)
    rng = np.random.default_rng(0)
    X = rng.permutation(np.repeat(rng.normal(size=(n_distinct, 2)), repeats, axis=0))
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(
        X, X[:, 0] + rng.normal(size=len(X))
    )
    assert model.report_.method == method
    assert model.report_.n_samples == n_distinct * repeats
    assert model.report_.n_centres <= n_distinct


def test_a_fit_that_memory_does_not_allow_exactly_is_streamed(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    monkeypatch.setattr("kcdo.systems.choice.available_memory", lambda: 1 << 19)
    assert (
        kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, X[:, 0]).report_.method
        == "nystrom"
    )


def test_the_papers_rule_is_exact_without_a_look_at_rows_or_memory(monkeypatch):
    def asked(*_):
        raise AssertionError("the paper's rule needs no choice of a solver")

    monkeypatch.setattr("kcdo.estimators.conditional.choose_solver", asked)
    monkeypatch.setattr("kcdo.estimators.conditional.may_repeat", asked)
    X = np.linspace(0, 1, 30)[:, None]
    model = kcdo.ConditionalDensityOperator(selection="paper").fit(X, X[:, 0] ** 2)
    assert model.report_.method == "exact"


def test_equal_rows_are_looked_for_where_a_sample_has_them(monkeypatch):
    monkeypatch.setattr("kcdo.systems.choice._LARGEST_AUTOMATIC_EXACT", 100)
    distinct = np.arange(1000.0)[:, None]
    assert not may_repeat(distinct, 0)
    assert may_repeat(distinct[:100], 0)
    assert may_repeat(np.floor(distinct / 100), 0)
    assert may_repeat(np.array(["word"] * 1000, dtype=object), 0)


# --- conjugate gradients


def test_conjugate_gradients_say_how_far_they_came():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    model = kcdo.ConditionalDensityOperator(
        kernel_x=kcdo.Laplace(1.0),
        kernel_y=kcdo.Gaussian(0.3),
        alpha=1e-7,
        solver=Iterative(rank=2, max_iterations=3),
        selection="heuristic",
    )
    message = r"stopped after 3 iterations at a relative residual of \d.*: raise the rank"
    with pytest.warns(kcdo.AccuracyWarning, match=message):
        model.fit(X, X[:, 0])
    assert model.report_.iterations == 3
    assert model.report_.residual > 1e-8


def test_a_better_preconditioner_needs_fewer_iterations():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    groups, B = Groups.of(X), rng.normal(size=(300, 1))
    steps = []
    for rank in (1, 30, 300):
        system = ExactRows(kcdo.Matern(2.0), groups, Iterative(rank)).factor(1e-5)
        system.coefficients(B)
        steps.append(system.describe().iterations)
    assert steps[0] > 2 * steps[1] > 4 * steps[2]
    assert steps[2] <= 3


# --- options


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Exact("float16"), "dtype must be float64 or float32; got 'float16'"),
        (lambda: Iterative(rank=0), "rank and max_iterations must be >= 1"),
        (lambda: Iterative(max_iterations=0), "rank and max_iterations must be >= 1"),
        (lambda: Iterative(tolerance=0.0), "tolerance between 0 and 1"),
        (lambda: Nystrom(0), r"centers must be a number >= 1 or an \(m, p\) array; got 0"),
        (lambda: Nystrom(2.5), "centers must be a number >= 1 or an"),
        (lambda: Nystrom([1.0, 2.0]), "centers must be a number >= 1 or an"),
        (lambda: Nystrom(choice="best"), r"choice must be one of \['uniform', .*; got 'best'"),
        (lambda: Nystrom(chunk_rows=0), "chunk_rows must be >= 1; got 0"),
        (lambda: Nystrom(tolerance=1.0), "tolerance must be at least 0 and less than 1; got 1.0"),
    ],
)
def test_options_check_themselves(make, message):
    with pytest.raises(kcdo.InvalidInputError, match=message):
        make()


@pytest.mark.parametrize("solver", ["exact", Exact, None, 3])
def test_a_solver_is_an_object_or_auto(solver):
    with pytest.raises(TypeError, match=r'solver must be "auto", kcdo.Exact\(\), .*; got'):
        kcdo.ConditionalDensityOperator(solver=solver, selection="heuristic").fit(
            [[0.0], [1.0]], [0.0, 1.0]
        )


def test_options_are_values():
    assert Nystrom(np.array([[1.0], [2.0]])) == Nystrom([[1.0], [2.0]]) != Nystrom(2)
    assert hash(Nystrom([[1.0]])) == hash(Nystrom([[1.0]]))
    assert Nystrom([[1.0], [2.0]]).n_centres(1000) == 2


@pytest.mark.parametrize(
    ("n", "expected"), [(500, 500), (20_000, 2000), (10**5, 1124), (10**6, 1000), (10**8, 1000)]
)
def test_the_default_number_of_centres(n, expected):
    assert Nystrom().n_centres(n) == expected
    assert Nystrom(50).n_centres(n) == 50


def test_a_fitted_exact_model_does_not_keep_the_factor():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (1500, 1))
    model = kcdo.ConditionalDensityOperator(solver=kcdo.Exact(), selection="heuristic").fit(
        X, np.sin(X[:, 0]) + rng.normal(size=1500)
    )
    assert len(pickle.dumps(model)) < 0.5 * 8 * 1500**2
    assert model.report_.memory > 8 * 1500**2  # what the fit took
