"""Fits from sums: chunks, memory maps, partial fits, workers, interruptions."""

import sys
import threading
from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

import kcdo
from kcdo.distributed.sources import begun_chunks
from kcdo.errors import KcdoWarning
from kcdo.estimators.conditional import ConditionalDensityOperator
from kcdo.fitting import Pilot, StreamPlan
from kcdo.systems import NystromSums

QUERIES = np.random.default_rng(1).uniform(-1.5, 1.5, (9, 2))


def waves(n=600, seed=0, d=1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    Y = np.sin(2 * X[:, :1] + np.arange(d)) + 0.3 * rng.standard_normal((n, d))
    return X, Y[:, 0] if d == 1 else Y


def fixed(**options):
    """A model whose centres, kernels and reference do not depend on the data."""
    centres = np.random.default_rng(7).uniform(-2, 2, (25, 2))
    given = dict(
        kernel_x=kcdo.Laplace(1.0),
        kernel_y=kcdo.Gaussian(0.3),
        reference=kcdo.UniformBox(-3.0, 3.0, nodes=50),
        alpha=0.01,
        solver=kcdo.Nystrom(centres, chunk_rows=97),
        selection="heuristic",
    )
    return ConditionalDensityOperator(**(given | options))


def cut(*arrays, at=(0, 250, 300, 600)):
    return [tuple(a[i:j] for a in arrays) for i, j in pairwise(at)]


def assert_same_sums(found, expected, rtol=1e-12):
    assert found.n_rows == expected.n_rows
    assert found.counts == expected.counts
    for name in ("cross", "targets", "ones", "target_totals", "weight", "squared_weight"):
        one, other = np.asarray(getattr(found, name)), np.asarray(getattr(expected, name))
        np.testing.assert_allclose(one, other, rtol=0, atol=rtol * np.abs(other).max())


def assert_same_predictions(found, expected, atol=1e-10):
    assert expected.report_.condition < 1e7
    y = np.linspace(-2, 2, 30)
    one, other = (m.conditional(QUERIES).pdf(y) for m in (found, expected))
    np.testing.assert_allclose(one, other, rtol=0, atol=atol * other.max())


class Files:
    """Data that are read anew at every pass, as from files."""

    def __init__(self, chunks):
        self.chunks, self.passes = chunks, 0

    def __iter__(self):
        self.passes += 1
        return iter(self.chunks)


# --- where data may come from


@pytest.mark.parametrize("kind", ["list", "tuple", "custom"])
@pytest.mark.parametrize("weighted", [False, True])
def test_chunks_give_what_one_array_gives(kind, weighted):
    X, Y = waves()
    omega = np.random.default_rng(2).uniform(0.5, 2.0, 600) if weighted else np.ones(600)
    chunks = cut(X, Y, omega) if weighted else cut(X, Y)
    source = {"list": list, "tuple": tuple, "custom": Files}[kind](chunks)
    whole = fixed().fit(X, Y, sample_weight=omega if weighted else None)
    streamed = fixed().fit(source)
    assert_same_sums(streamed.sums_, whole.sums_)
    assert_same_predictions(streamed, whole)
    assert streamed.report_.method == "nystrom"
    assert (streamed.report_.n_samples, streamed.report_.n_centres) == (600, 25)


def test_a_memory_map_is_read_in_place(tmp_path):
    X, Y = waves()
    for name, array in (("X", X), ("Y", Y)):
        np.save(tmp_path / f"{name}.npy", array)
    maps = [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "XY"]
    assert all(isinstance(m, np.memmap) for m in maps)
    mapped, whole = fixed().fit(*maps), fixed().fit(X, Y)
    assert_same_sums(mapped.sums_, whole.sums_, rtol=0)
    np.testing.assert_array_equal(mapped.predict(QUERIES), whole.predict(QUERIES))
    assert_same_predictions(fixed().fit(cut(*maps)), whole)


def test_read_only_arrays_stay_as_they_are():
    X, Y = waves()
    omega = np.linspace(0.5, 2.0, 600)
    before = [a.copy() for a in (X, Y, omega)]
    for array in (X, Y, omega):
        array.setflags(write=False)
    fixed().fit(X, Y, sample_weight=omega)
    for array, copy in zip((X, Y, omega), before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_an_automatic_fit_of_chunks_chooses_from_a_subsample():
    X, Y = waves(5000)
    chunks = Files(cut(X, Y, at=range(0, 5001, 500)))
    model = ConditionalDensityOperator(solver=kcdo.Nystrom(100), selection="heuristic").fit(chunks)
    whole = ConditionalDensityOperator(solver=kcdo.Nystrom(100), selection="heuristic").fit(X, Y)
    assert model.report_.n_samples == 5000
    assert model.report_.kernel_x.scale == pytest.approx(whole.report_.kernel_x.scale, rel=0.1)
    assert model.report_.kernel_y.scale == pytest.approx(whole.report_.kernel_y.scale, rel=0.1)
    np.testing.assert_allclose(model.predict(QUERIES), whole.predict(QUERIES), atol=0.05)


def test_the_choice_does_not_look_at_the_head_of_sorted_data_only():
    """Noise grows along the file: the output scale must see all of it."""
    rng = np.random.default_rng(0)
    x = np.linspace(0, 1, 9000)
    y = np.where(x < 0.3, 0.01, 1.0) * rng.standard_normal(9000)
    scales = [
        ConditionalDensityOperator(solver=kcdo.Nystrom(300, "uniform"), selection="heuristic")
        .fit(x[order, None], y[order])
        .report_.kernel_y.scale
        for order in (np.arange(9000), rng.permutation(9000))
    ]
    assert scales[0] == pytest.approx(scales[1], rel=0.1)


def test_the_pilot_is_a_uniform_subsample():
    rows = np.arange(5000.0).reshape(50, 100, 1)
    chunks = [(part, part, np.ones(100)) for part in rows]
    pilot = Pilot.of_chunks(iter(chunks), 400, seed=3)
    rows = pilot.X[:, 0]
    assert len(np.unique(rows)) == 400
    assert (pilot.n_rows, pilot.lower, pilot.upper) == (5000, 0.0, 4999.0)
    assert abs(rows.mean() - 2499.5) < 4 * 1443 / 20
    assert abs(rows[:100].mean() - 2499.5) < 4 * 1443 / 10  # its head is a sample too
    np.testing.assert_array_equal(pilot.Y, pilot.X)


def test_data_frames_may_come_in_chunks():
    pd = pytest.importorskip("pandas")
    X, Y = waves()
    frames = [(pd.DataFrame(x, columns=["a", "b"]), pd.Series(y)) for x, y in cut(X, Y)]
    streamed = fixed().fit(frames)
    assert list(streamed.feature_names_in_) == ["a", "b"]
    assert_same_sums(streamed.sums_, fixed().fit(X, Y).sums_)


def test_what_counts_as_chunks():
    X, Y = waves(4)
    assert begun_chunks([(X, Y)]) is not None
    assert begun_chunks(Files([(X, Y, Y)])) is not None
    assert begun_chunks(X) is None
    assert begun_chunks(X.tolist()) is None
    assert begun_chunks([]) is None
    assert begun_chunks(3) is None
    assert begun_chunks([(X, Y, Y, Y)]) is None
    assert begun_chunks([((1.0, 2.0), (3.0, 4.0))]) is None


def test_a_generator_is_refused():
    X, Y = waves()
    with pytest.raises(kcdo.InvalidInputError, match="a fit reads them several times; got an iter"):
        fixed().fit((X, Y) for _ in range(3))


def spoiled(array, value):
    array = array.copy()
    array[5] = value
    return array


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda X, Y: (X[:, :1], Y), "X has 1 features, but .* is expecting 2 features"),
        (lambda X, Y: (spoiled(X, np.nan), Y), "Input X contains NaN in column 0, 1 of 50 rows"),
        (lambda X, Y: (X, spoiled(Y, np.nan)), "Input Y contains NaN in 1 of 50 rows"),
        (lambda X, Y: (X, spoiled(Y, np.inf)), "Input Y contains infinity"),
        (lambda X, Y: (X, np.stack([Y, Y], 1)), r"shape \(50, 2\); the first ones had no second"),
        (lambda X, Y: (X, Y[:-1]), "inconsistent numbers of samples: 50 and 49 rows"),
        (lambda X, Y: (X, Y, -np.ones(50)), "sample_weight must not be negative"),
        (lambda X, Y: (X, Y, np.ones(3)), r"sample_weight must have shape \(50,\)"),
    ],
)
def test_a_bad_chunk_is_named_and_leaves_nothing_fitted(spoil, message):
    X, Y = waves()
    good, bad, more = cut(X, Y)
    model = fixed().fit(X, Y)
    with pytest.raises(ValueError, match=message):
        model.fit([good, spoil(*bad), more])
    with pytest.raises(NotFittedError):
        model.predict(QUERIES)
    assert not hasattr(model, "report_")
    started = fixed().partial_fit(*good)
    kept = started.predict(QUERIES)
    with pytest.raises(ValueError, match=message):
        started.partial_fit(*spoil(*bad))
    np.testing.assert_array_equal(started.predict(QUERIES), kept)
    assert started.sums_.n_rows == 250


def test_the_number_of_columns_is_said_too():
    X, Y = waves(d=2)
    with pytest.raises(kcdo.InvalidInputError, match=r"shape \(600,\); the first ones had 2 col"):
        fixed().partial_fit(X, Y).partial_fit(X, Y[:, 0])


def test_weights_of_chunks_come_with_them():
    X, Y = waves()
    with pytest.raises(kcdo.InvalidInputError, match="weights of chunks come with them"):
        fixed().fit(cut(X, Y), sample_weight=np.ones(600))


@pytest.mark.parametrize("n", [0, 1])
def test_too_few_rows_in_all_chunks(n):
    X, Y = waves(4)
    weight = np.zeros(4)
    weight[:n] = 1.0
    with pytest.raises(kcdo.InvalidInputError, match=f"Found {n} sample.* in the chunks; 2 are"):
        fixed().fit([(X, Y, weight)])


def test_only_a_few_rows_are_held_at_a_time(monkeypatch):
    X, Y = waves(1000)
    sizes, embedded = [], []
    add = NystromSums.add

    def watched(self, section, targets, weights):
        sizes.append(section.shape)
        embedded.append(targets.shape)
        add(self, section, targets, weights)

    monkeypatch.setattr(NystromSums, "add", watched)
    model = fixed().fit(X, Y)
    assert {rows for rows, _ in sizes} == {97, 1000 % 97}
    assert sum(rows for rows, _ in sizes) == 1000
    sizes.clear()
    embedded.clear()
    monkeypatch.setattr("kcdo.fitting.binning._LARGEST_SUMS", 0)
    monkeypatch.setattr("kcdo.fitting.streaming._EMBEDDED_ELEMENTS", 600)  # 12 rows of 50 nodes
    assert_same_predictions(fixed().fit(X, Y), model, atol=2e-3)
    assert max(embedded) == (12, 50)
    assert sum(rows for rows, _ in sizes) == 1000


# --- partial fits and workers


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_partial_fits_in_any_order_equal_one_fit(order):
    X, Y = waves()
    omega = np.random.default_rng(2).integers(1, 4, 600).astype(float)
    whole = fixed().fit(X, Y, sample_weight=omega)
    chunks = cut(X, Y, omega)
    parts = fixed()
    for i in order:
        x, y, w = chunks[i]
        parts.partial_fit(x, y, sample_weight=w)
    assert_same_sums(parts.sums_, whole.sums_)
    assert_same_predictions(parts, whole)
    assert parts.report_.n_samples == 600
    assert parts.report_.alpha == whole.report_.alpha


@pytest.mark.parametrize(
    "reference",
    [
        kcdo.UniformBox(-3.0, 3.0, nodes=(21, 22)),
        kcdo.Sample(np.random.default_rng(4).uniform(-2, 2, (60, 2))),
    ],
)
def test_partial_fits_on_other_references(reference):
    X, Y = waves(d=2)
    options = dict(reference=reference, alpha_prime=0.1, kernel_y=kcdo.Gaussian(0.8))
    whole, parts = fixed(**options).fit(X, Y), fixed(**options)
    for chunk in cut(X, Y):
        parts.partial_fit(*chunk)
    assert_same_sums(parts.sums_, whole.sums_)
    np.testing.assert_allclose(parts.predict(QUERIES), whole.predict(QUERIES), atol=1e-10)


@settings(max_examples=15)
@given(st.sets(st.integers(1, 119), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_any_partition_gives_the_same_sums(cuts, random):
    X, Y = waves(120)
    chunks = cut(X, Y, at=[0, *sorted(cuts), 120])
    random.shuffle(chunks)
    whole, first = fixed().fit(X, Y), fixed()
    chunks.sort(key=lambda chunk: len(chunk[0]) < 2)  # the first call needs two rows
    for chunk in chunks:
        first.partial_fit(*chunk)
    assert_same_sums(first.sums_, whole.sums_)


def test_sums_that_were_loaded_may_go_on():
    """They may be read-only or lie in C's order; sections may be of float32."""
    rng = np.random.default_rng(0)
    section, targets = rng.random((20, 3)).astype(np.float32), rng.random((20, 2))
    expected, loaded = NystromSums.empty(3, 2), NystromSums.empty(3, 2)
    loaded.cross = np.ascontiguousarray(loaded.cross)
    loaded.cross.flags.writeable = False
    expected.add(section.astype(float), targets, np.ones(20))
    loaded.add(section, targets, np.ones(20))
    np.testing.assert_allclose(np.tril(loaded.cross), np.tril(expected.cross), rtol=1e-6)


def test_alpha_follows_the_rows_seen():
    X, Y = waves()
    parts = fixed(alpha=None)
    for chunk, n in zip(cut(X, Y), (250, 300, 600), strict=True):
        assert parts.partial_fit(*chunk).report_.alpha == pytest.approx(0.1 * n**-0.5)


def test_the_first_call_fixes_centres_box_and_kernels():
    X, Y = waves()
    model = ConditionalDensityOperator(selection="heuristic").partial_fit(X[:200], Y[:200])
    first = model.report_
    with pytest.warns(kcdo.SupportWarning, match="outside the support"):  # the box stays
        model.partial_fit(X[200:] * 3, Y[200:] * 3)
    for name in ("kernel_x", "kernel_y", "n_nodes", "n_centres", "alpha_prime"):
        assert getattr(model.report_, name) == getattr(first, name)
    assert model.report_.n_samples == 600


def test_inputs_far_from_all_centres_are_told():
    X, Y = waves()
    model = ConditionalDensityOperator(selection="heuristic").partial_fit(X[:200], Y[:200])
    with pytest.warns(kcdo.SupportWarning, match="about 100 % of these inputs are far from all"):
        model.partial_fit(X[200:300] + 100.0, Y[200:300])
    model.partial_fit(X[300:], Y[300:])  # without a word


def test_a_partial_fit_continues_a_streamed_fit():
    X, Y = waves()
    model = fixed().fit(X[:300], Y[:300]).partial_fit(X[300:], Y[300:])
    assert_same_sums(model.sums_, fixed().fit(X, Y).sums_)


def test_a_partial_fit_says_that_it_forgets_an_exact_fit():
    X, Y = waves(100)
    model = ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    assert model.report_.method == "exact"
    with pytest.warns(KcdoWarning, match=r"starts anew: the fit before it kept no sums. Begin"):
        model.partial_fit(X[:60], Y[:60])
    assert (model.report_.method, model.report_.n_samples) == ("nystrom", 60)


@pytest.mark.parametrize("solver", [kcdo.Exact(), kcdo.Iterative()])
def test_forms_whose_sums_do_not_merge_are_refused(solver):
    X, Y = waves(50)
    model = ConditionalDensityOperator(solver=solver, selection="heuristic")
    message = rf"{type(solver).__name__}\(\) needs all rows at once, its sums do not merge"
    with pytest.raises(kcdo.InvalidInputError, match=message):
        model.partial_fit(X, Y)
    with pytest.raises(kcdo.InvalidInputError, match=message):
        model.fit([(X, Y)])
    model.fit(X, Y)
    with pytest.raises(kcdo.InvalidInputError, match="this model keeps no sums to merge"):
        model.worker()
    with pytest.raises(kcdo.InvalidInputError, match="this model keeps no sums to merge"):
        model.merge(model)


def test_the_papers_rule_does_not_stream():
    X, Y = waves(50)
    for solver in ("auto", kcdo.Nystrom(10)):
        model = ConditionalDensityOperator(selection="paper", solver=solver)
        with pytest.raises(kcdo.InvalidInputError, match='selection="paper" has no streamed form'):
            model.partial_fit(X, Y)
        with pytest.raises(kcdo.InvalidInputError, match='selection="paper" has no streamed form'):
            model.fit([(X, Y)])
    with pytest.raises(kcdo.InvalidInputError, match='selection="paper" has no streamed form'):
        model.fit(X, Y)


def test_workers_merge_to_the_whole():
    X, Y = waves()
    whole = fixed().fit(X, Y)
    a, b, c = cut(X, Y)
    model = fixed().fit(*a)
    workers = [model.worker().partial_fit(*chunk) for chunk in (b, c)]
    assert model.merge(*workers) is model
    assert_same_sums(model.sums_, whole.sums_)
    assert_same_predictions(model, whole)
    assert model.report_.n_samples == 600
    assert workers[0].report_.n_samples == 50


def test_a_worker_starts_empty_and_on_its_own():
    X, Y = waves()
    model = ConditionalDensityOperator(solver=kcdo.Nystrom(20), selection="heuristic").fit(
        X[:300], Y[:300]
    )
    before = model.predict(QUERIES)
    worker = model.worker()
    assert worker.sums_.n_rows == 0
    assert not hasattr(worker, "report_")
    with pytest.raises(NotFittedError):
        worker.predict(QUERIES)
    worker.partial_fit(X[300:], Y[300:])
    assert (worker.sums_.n_rows, model.sums_.n_rows) == (300, 300)
    np.testing.assert_array_equal(model.predict(QUERIES), before)
    gathered = model.worker().merge(model, worker)
    assert_same_predictions(gathered, model.merge(worker))


@pytest.mark.parametrize(("move", "weight"), [(0.0, 0.0), (1e3, 1.0)])
@pytest.mark.filterwarnings("ignore::kcdo.SupportWarning")
def test_a_worker_may_see_nothing_that_counts(move, weight):
    """Rows without weight, or far from the grid: it has no model, and its sums still merge."""
    X, Y = waves()
    model = fixed().fit(X[:300], Y[:300])
    weights = np.full(300, weight)
    worker = model.worker().partial_fit(X[300:], Y[300:] + move, weights)
    with pytest.raises(NotFittedError):
        worker.predict(QUERIES)
    one = fixed().fit(X[:300], Y[:300]).partial_fit(X[300:], Y[300:] + move, weights)
    assert_same_predictions(model.merge(worker), one)


def test_workers_may_be_made_apart_from_equal_parameters():
    X, Y = waves()
    a, b, c = (fixed().partial_fit(*chunk) for chunk in cut(X, Y))
    assert_same_sums(a.merge(b, c).sums_, fixed().fit(X, Y).sums_)


def middle_moved(i):
    points = np.random.default_rng(4).uniform(-2, 2, 60)
    points[30] += i
    return kcdo.Sample(points)


@pytest.mark.parametrize(
    ("options", "others"),
    [
        ({}, {"kernel_x": kcdo.Laplace(1.1)}),
        ({}, {"kernel_y": kcdo.Gaussian(0.31)}),
        ({}, {"reference": kcdo.UniformBox(-3.0, 3.1, nodes=50)}),
        ({}, {"reference": kcdo.UniformBox(-3.0, 3.0, nodes=51)}),
        ({}, {"solver": kcdo.Nystrom(25)}),
        ({"reference": middle_moved(0)}, {"reference": middle_moved(0.1)}),
    ],
)
def test_sums_of_different_plans_do_not_merge(options, others):
    X, Y = waves()
    model = fixed(**options).fit(X, Y)
    good = model.worker().partial_fit(X, Y)
    with pytest.raises(kcdo.InvalidInputError, match="they must share centres, kernels and output"):
        model.merge(good, fixed(**options | others).fit(X, Y))
    assert model.sums_.n_rows == 600  # nothing was added


def test_what_cannot_merge():
    X, Y = waves(50)
    model = fixed().fit(X, Y)
    for other in (
        fixed(),
        ConditionalDensityOperator(solver=kcdo.Exact(), selection="heuristic").fit(X, Y),
    ):
        with pytest.raises(kcdo.InvalidInputError, match=r"merge takes models made by worker\(\)"):
            model.merge(other)
    with pytest.raises(NotFittedError):
        fixed().merge(model)
    with pytest.raises(NotFittedError):
        fixed().worker()
    with pytest.raises(kcdo.InvalidInputError, match=r"sums of \(3, 2\) with \(4, 2\): the wor"):
        NystromSums.empty(2, 3).merged(NystromSums.empty(2, 4))


# --- weights


def test_counts_equal_repeated_rows():
    X, Y = waves(200)
    omega = np.random.default_rng(2).integers(0, 4, 200)
    counted = fixed(alpha=None).fit(X, Y, sample_weight=omega)
    rows = np.repeat(np.arange(200), omega)
    repeated = fixed(alpha=None).fit(X[rows], Y[rows])
    assert counted.report_.alpha == repeated.report_.alpha
    assert counted.report_.n_samples == np.count_nonzero(omega)
    assert_same_predictions(counted, repeated)


def test_only_ratios_of_real_weights_matter():
    X, Y = waves(200)
    omega = np.random.default_rng(2).uniform(0.2, 3.0, 200)
    one, other = (fixed(alpha=None).fit(X, Y, sample_weight=c * omega) for c in (1.0, 7.7))
    assert one.report_.alpha == pytest.approx(0.1 * (omega.sum() ** 2 / (omega @ omega)) ** -0.5)
    assert_same_predictions(one, other)


def test_rows_and_chunks_of_weight_zero_count_as_absent():
    X, Y = waves()
    far = (X[:7] + 50, Y[:7] + 50, np.zeros(7))
    (a, b, c) = cut(X, Y, np.ones(600))
    mixed = tuple(np.concatenate(p) for p in zip(b, far, strict=True))
    whole = fixed().fit(X, Y)
    for source in ([far, a, mixed, c], [a, far, mixed, c]):
        model = fixed().fit(source)
        assert_same_sums(model.sums_, whole.sums_)
    model.partial_fit(*far[:2], sample_weight=far[2])
    assert_same_sums(model.sums_, whole.sums_)
    chosen = ConditionalDensityOperator(solver=kcdo.Nystrom(20), selection="heuristic").fit(
        [far, a, mixed, c]
    )
    assert chosen._operator.output.measure.upper[0] < 10


# --- binned outputs and centres


@pytest.mark.parametrize("d", [1, 2])
def test_a_binned_fit_is_close_to_the_unbinned(monkeypatch, d):
    X, Y = waves(d=d)
    Y[:3] += 40.0  # far outside the box, and of its bins
    options = dict(reference=kcdo.UniformBox(-3.0, 3.0, nodes=30))
    binned = fixed(**options).fit(X, Y)
    assert 0 < binned.report_.binning_error < 5e-4
    assert binned._plan.bins is not None
    monkeypatch.setattr("kcdo.fitting.binning._LARGEST_SUMS", 0)
    plain = fixed(**options).fit(X, Y)
    assert plain.report_.binning_error == 0.0
    one, other = (m._operator.batch(QUERIES).masses for m in (binned, plain))
    # α' = 0.1 lets the inverse of C_ρ enlarge an error tenfold
    assert np.abs(one - other).max() < 10 * binned.report_.binning_error * other.max()


@pytest.mark.parametrize("choice", ["uniform", "rpcholesky"])
def test_more_centres_come_closer_to_the_exact_fit(choice):
    X, Y = waves(500)
    options = dict(kernel_x=kcdo.Laplace(1.5), alpha=0.01)

    def masses(solver):
        return fixed(solver=solver, **options).fit(X, Y)._operator.batch(QUERIES).masses

    exact = masses(kcdo.Exact())
    errors = [np.abs(masses(kcdo.Nystrom(m, choice)) - exact).max() for m in (10, 80, 500)]
    assert errors[0] > 2 * errors[1] > 4 * errors[2]
    assert errors[2] < 3e-4 * exact.max()  # what binning leaves


def test_centres_of_the_wrong_width():
    X, Y = waves(50)
    model = fixed(solver=kcdo.Nystrom([[0.0], [1.0]]))
    with pytest.raises(kcdo.InvalidInputError, match="rows of one width; got 2 and 1 columns"):
        model.fit(X, Y)


# --- interruption and progress


class Interrupted(kcdo.Laplace):
    """A kernel during whose evaluation Ctrl-C is pressed."""

    def block(self, A, B):
        Interrupted.calls -= 1
        if Interrupted.calls < 0:
            raise KeyboardInterrupt
        return super().block(A, B)


INTERRUPTED_FITS = {
    "exact": (kcdo.Exact(), lambda m, X, Y: m.fit(X, Y)),
    "iterative": (kcdo.Iterative(rank=5), lambda m, X, Y: m.fit(X, Y)),
    "nystrom": (kcdo.Nystrom(10, "uniform", 50), lambda m, X, Y: m.fit(X, Y)),
    "chunks": (kcdo.Nystrom(10, "uniform", 50), lambda m, X, Y: m.fit(cut(X, Y))),
    "partial": (kcdo.Nystrom(10, "uniform", 50), lambda m, X, Y: m.partial_fit(X, Y)),
}


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("kind", INTERRUPTED_FITS)
def test_ctrl_c_leaves_no_fit_and_no_threads(kind, n_jobs):
    X, Y = waves()
    solver, fit = INTERRUPTED_FITS[kind]
    model = fixed(kernel_x=Interrupted(1.0), solver=solver, n_jobs=n_jobs)
    if kind != "partial":
        Interrupted.calls = 10**6
        fit(model, X, Y)
    Interrupted.calls = 2
    threads = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        fit(model, X, Y)
    assert threading.active_count() == threads
    assert not hasattr(model, "report_")
    with pytest.raises(NotFittedError):
        model.predict(QUERIES)
    Interrupted.calls = 10**6
    assert fit(model, X, Y).report_.n_samples == 600  # and a new fit begins anew


def test_an_interrupted_partial_fit_keeps_what_was_there():
    X, Y = waves()
    options = dict(kernel_x=Interrupted(1.0), n_jobs=1)
    Interrupted.calls = 10**6
    model = fixed(**options).fit(X[:300], Y[:300])
    before = model.predict(QUERIES)
    Interrupted.calls = 2
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X[300:], Y[300:])
    Interrupted.calls = 10**6
    np.testing.assert_array_equal(model.predict(QUERIES), before)
    model.partial_fit(X[300:], Y[300:])
    assert_same_sums(model.sums_, fixed().fit(X, Y).sums_)


@pytest.mark.parametrize(
    ("solver", "name"),
    [
        (kcdo.Exact(), "exact solver, 600 distinct inputs"),
        (kcdo.Iterative(), "conjugate gradients, 600 distinct inputs"),
        (kcdo.Nystrom(20, chunk_rows=30), "Nyström, 20 centres, 600 rows"),
    ],
)
def test_progress_is_shown_when_asked(capsys, monkeypatch, solver, name):
    X, Y = waves()
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    fixed(solver=solver).fit(X, Y)
    silent = capsys.readouterr()
    assert (silent.out, silent.err) == ("", "")
    fixed(solver=solver, verbose=True).fit(X, Y)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert f"kcdo  {name}: " in shown.err
    assert shown.err.rstrip(" \n").endswith(" s")
    if isinstance(solver, kcdo.Nystrom):
        parts = [part for part in shown.err.split("\r") if " %" in part]
        shares = [int(part.split(" %")[0].split(": ")[1]) for part in parts]
        assert shares == list(range(5, 101, 5))


def test_the_plan_is_refused_where_it_does_not_fit(monkeypatch):
    X, Y = waves()
    plan = fixed().fit(X, Y)._plan
    assert isinstance(plan, StreamPlan)
    monkeypatch.setattr("kcdo.memory.available_memory", lambda: 1000)
    with pytest.raises(kcdo.NotEnoughMemoryError, match="25 centres on 50 output nodes needs"):
        plan.require_memory()


def skewed(n=700, seed=0):
    """Outputs over orders of magnitude."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.exp(1.5 * X[:, 0] + 0.4 * rng.normal(size=n))


@pytest.mark.parametrize("way", ["fit", "partial_fit"])
def test_long_tails_are_seen_through_a_transform(short_searches, tmp_path, way):
    (X, y), (X_new, y_new) = skewed(), skewed(300, 1)
    parts = list(zip(np.array_split(X, 3), np.array_split(y, 3), strict=True))

    def fitted(output_transform):
        model = kcdo.ConditionalDensityOperator(
            solver=kcdo.Nystrom(60), output_transform=output_transform
        )
        if way == "fit":
            return model.fit(parts)
        for part in parts:
            model.partial_fit(*part)
        return model

    model = fitted("auto")
    assert model.score(X_new, y_new) > fitted(None).score(X_new, y_new) + 0.1
    dist = model.conditional(X_new[:3])
    np.testing.assert_allclose(
        dist.sample(20_000, random_state=0).mean(axis=1), dist.mean(), rtol=0.1
    )
    model.save(tmp_path / "model.kcdo")
    np.testing.assert_array_equal(
        kcdo.load(tmp_path / "model.kcdo").predict(X_new), model.predict(X_new)
    )


def test_a_declared_support_wins_over_a_transform_of_a_stream(short_searches):
    X, y = skewed(300)
    model = kcdo.ConditionalDensityOperator(solver=kcdo.Nystrom(60), support=(0, None))
    model.partial_fit(X, y)
    assert (model.conditional(X[:5]).support()[:, 0] >= 0.0).all()
    assert model.conditional(X[:5]).pdf([-1.0]).max() == 0.0
