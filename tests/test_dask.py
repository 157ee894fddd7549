"""The same fit on a Dask cluster: bits, deaths, bad input, predictions. Real processes."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import kcdo
from kcdo.components import StreamEffort
from kcdo.distributed import TreeSum
from kcdo.systems.nystrom import EIGENVALUE_CUT

pytest.importorskip("distributed")

import dask.array as da
import dask.config
from dask import delayed
from dask.array.utils import assert_eq
from distributed import Client, LocalCluster, get_worker, wait
from distributed.core import Status

from kcdo.distributed.dask_engine import DaskEngine, Standstill, Watch
from tests.dask_chunks import (
    CUTS,
    Deadly,
    DeadlyAdd,
    N,
    counted,
    cut,
    noted,
    quick,
    same_bits,
    waves,
)

ROWS = tuple(j - i for i, j in pairwise(CUTS))


def start(n_workers, **options):
    return LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        dashboard_address="127.0.0.1:0",
        host="127.0.0.1",
        **options,
    )


@pytest.fixture(scope="module")
def cluster():
    settings = {
        "distributed.scheduler.allowed-failures": 2,
        "distributed.deploy.lost-worker-timeout": "10 minutes",  # to start again on a busy machine
    }
    with dask.config.set(settings), start(1) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    cluster.scale(2)
    with Client(cluster) as client:
        client.wait_for_workers(2, timeout=60)
        yield client


@pytest.fixture(scope="module")
def serial():
    return quick().fit(cut(*waves()))


def dask_arrays():
    X, y = waves()
    return da.from_array(X, chunks=(ROWS, 1)), da.from_array(y, chunks=(ROWS,))


def slow(chunk, seconds=0.3):
    time.sleep(seconds)
    return chunk


def test_a_worker_may_come_during_the_fit(cluster, serial, tmp_path):
    """This test comes first: the cluster begins with one worker."""
    chunks = [delayed(read_slowly_by_one)(str(tmp_path), chunk) for chunk in cut(*waves())]
    with Client(cluster) as client:
        (first,) = client.run(os.getpid).values()
        timer = threading.Timer(0.2, cluster.scale, [2])
        timer.start()
        same_bits(quick().fit(chunks), serial)
        timer.join()
        client.wait_for_workers(2, timeout=60)
        pids = set(client.run(os.getpid).values())
    assert first in pids
    assert {int(path.name) for path in tmp_path.iterdir()} == pids  # both have read chunks


def read_slowly_by_one(folder, chunk):
    """Return a chunk after some seconds, or as soon as two processes have been here."""
    Path(folder, str(os.getpid())).touch()
    end = time.monotonic() + 4
    while len(list(Path(folder).iterdir())) < 2 and time.monotonic() < end:
        time.sleep(0.05)
    return chunk


# --- the same bits, wherever the chunks are


def test_dask_arrays_give_the_bits_of_the_serial_fit(client, serial):
    X, y = dask_arrays()  # X is cut between its columns too
    model = quick().fit(X, y)
    same_bits(model, serial)
    assert (model.stream_.rows, model.stream_.chunks, model.stream_.passes) == (N, 6, 3)
    assert model.stream_.retries == 0
    same_bits(quick().fit(X, y.rechunk(77), client=client), serial)  # y is cut as X is


def test_lists_of_delayed_chunks_and_of_futures(client, serial):
    chunks = cut(*waves())
    same_bits(quick().fit([delayed(chunk) for chunk in chunks]), serial)
    inputs, outputs = ([client.submit(lambda a: a, c[k]) for c in chunks] for k in (0, 1))
    same_bits(quick().fit(inputs, outputs), serial)


def test_without_a_client_the_chunks_are_read_here(serial):
    same_bits(quick().fit(*dask_arrays()), serial)


def test_threads_do_not_change_the_bits(serial, monkeypatch):
    same_bits(quick(n_jobs=1).fit(cut(*waves())), serial)
    monkeypatch.setattr("kcdo.distributed.passes.PART_ROWS", 32)
    one, two = (quick(n_jobs=n).fit(cut(*waves())) for n in (1, 3))
    same_bits(one, two)


def test_small_chunks_share_tasks_and_change_no_bit(client):
    X, y = waves()
    single = [delayed(chunk) for chunk in cut(X, y, at=range(0, 65))]  # one row each
    model = quick().fit(single)
    assert (model.stream_.rows, model.stream_.chunks) == (64, 64)
    same_bits(model, quick().fit(cut(X, y, at=range(0, 65))))
    engine = DaskEngine(client, single)
    engine.facts.rows = 64
    assert engine._group_size() == 8


def test_one_chunk_for_two_workers(client):
    X, y = waves()
    same_bits(quick().fit([delayed((X, y))]), quick().fit([(X, y)]))


def test_weights_come_as_a_third_collection(client):
    X, y = waves()
    weights = np.random.default_rng(3).integers(0, 3, N).astype(float)
    serial = quick().fit(cut(X, y, weights))
    same_bits(quick().fit(*dask_arrays(), da.from_array(weights, chunks=(ROWS,))), serial)


def test_other_chunks_give_the_same_answers_to_rounding(serial):
    X, y = waves()
    other = quick().fit(cut(X, y, at=(0, 5, 300, 600)))
    np.testing.assert_array_equal(other._plan.centres, serial._plan.centres)
    tolerance = max(1e-10, 10 * np.finfo(float).eps * serial.report_.condition)
    queries, at = X[:20], np.linspace(-2, 2, 30)
    one, two = (model.conditional(queries).pdf(at) for model in (other, serial))
    assert np.abs(one - two).max() <= tolerance * two.max()


def test_other_chunks_make_the_same_choices(give_effort, tmp_path):
    """Near rows included: searches do not see the last bits, by which sums differ."""
    give_effort(streamed=StreamEffort(sample_rows=200))
    X, y = waves()
    one, two = (
        quick(selection="auto").fit(cut(X, y, at=at), rows_at=tmp_path / str(len(at)))
        for at in ((0, 5, 300, 600), (0, 600))
    )
    assert one.report_.weights == two.report_.weights
    for first, second in zip(one._parameters.components, two._parameters.components, strict=True):
        assert first.kernels == second.kernels
        assert getattr(first, "alpha", 0.0) == getattr(second, "alpha", 0.0)
        assert getattr(first, "location", None) == getattr(second, "location", None)
    first, second = (model.conditional(X[:20]).pdf(np.linspace(-2, 2, 30)) for model in (one, two))
    # the centres of the location nearly coincide: their Gram matrix is cut at this condition
    tolerance = max(1e-10, 10 * np.finfo(float).eps / EIGENVALUE_CUT)
    assert np.abs(first - second).max() <= tolerance * second.max()


def test_bounds_are_felt_alike_for_any_chunks():
    X, y = waves()
    models = [
        quick(support=(-3.0, None)).fit(cut(X, y, at=at)) for at in ((0, 5, 300, 600), (0, 600))
    ]
    one, two = (model.conditional(X[:20]).pdf(np.linspace(-2, 2, 9)) for model in models)
    np.testing.assert_allclose(one, two, rtol=0, atol=1e-9 * two.max())


def test_the_default_selection(client, short_searches):
    X, y = waves()
    serial = quick(selection="auto").fit(cut(X, y))
    same_bits(quick(selection="auto").fit([delayed(chunk) for chunk in cut(X, y)]), serial)


def test_data_frames(client):
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    X, y = waves(90)
    table = pd.DataFrame(X, columns=["a", "b"]).assign(c=["u", "v", "w"] * 30, y=y)
    frames = [table.iloc[i:j] for i, j in ((0, 40), (40, 41), (41, 90))]
    serial = quick().fit([(frame[["a", "b", "c"]], frame["y"]) for frame in frames])
    collection = dd.from_delayed([delayed(frame) for frame in frames], meta=table.iloc[:0])
    model = quick().fit(collection[["a", "b", "c"]], collection["y"])
    np.testing.assert_array_equal(model.sums_.cross, serial.sums_.cross)
    assert model.target_names_ == ("y",)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    assert model.categories == {2: ("u", "v", "w")}
    found = model.summary(collection[["a", "b", "c"]], ["mean", "q05", "logpdf"], collection["y"])
    expected = serial.summary(table[["a", "b", "c"]], ["mean", "q05", "logpdf"], table["y"])
    assert list(found._meta.columns) == ["mean", "q05", "logpdf"]
    pd.testing.assert_frame_equal(found.compute(), expected)


def test_the_tree_is_that_of_the_numbers():
    for n in range(1, 20):
        tree = TreeSum(lambda a, b: (a, b))
        for i in range(n):
            tree.push(i)
        level = list(range(n))
        while len(level) > 1:
            pairs = [tuple(level[i : i + 2]) for i in range(0, len(level), 2)]
            level = [pair if len(pair) == 2 else pair[0] for pair in pairs]
        assert tree.total() == level[0]


# --- predictions


def test_predictions_are_lazy(client, serial):
    X, y = waves()
    lazy_X, lazy_y = dask_arrays()
    found = serial.predict(lazy_X)
    assert isinstance(found, da.Array)
    assert (found.shape, found.dtype) == ((N,), float)
    np.testing.assert_allclose(found.compute(), serial.predict(X), rtol=1e-12)
    scores = serial.score_samples(lazy_X, lazy_y)
    np.testing.assert_allclose(scores.compute(), serial.score_samples(X, y), rtol=1e-10)
    entropies = serial.score_samples(lazy_X[:50])
    np.testing.assert_allclose(entropies.compute(), serial.score_samples(X[:50]), rtol=1e-10)
    with pytest.raises(kcdo.InvalidTypeError, match="of Dask collections take predict, summary"):
        serial.conditional(lazy_X)
    with pytest.raises(kcdo.InvalidInputError, match="summary of a Dask collection needs a data f"):
        serial.summary(lazy_X, ["mean"])
    assert len(models_in(found)) == 1
    assert models_in(found) == models_in(scores)  # which share it
    assert models_in(found).isdisjoint(models_in(quick().fit(X[:300], y[:300]).predict(lazy_X)))


def models_in(lazy):
    return {key for key in dict(lazy.__dask_graph__()) if str(key).startswith("kcdo-model")}


def test_predictions_of_two_outputs_have_two_columns():
    X, y = waves(60)
    model = quick().fit(X, np.column_stack([y, -y]))
    found = model.predict(da.from_array(X, chunks=((20, 0, 40), 2)))
    assert found.shape == (60, 2)
    assert_eq(found, model.predict(X))


def test_predictions_of_empty_partitions():
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    from dask.dataframe.utils import assert_eq as assert_frames_eq

    X, y = waves(60)
    table = pd.DataFrame(X, columns=["a", "b"]).assign(y=y, z=-y)
    model = quick().fit(table[["a", "b"]], table[["y", "z"]])
    one = quick().fit(table[["a", "b"]], table["y"])
    frames = [table[:20], table[20:20], table[20:]]
    lazy = dd.from_delayed([delayed(frame) for frame in frames], meta=table[:0])
    for fitted, outputs in ((model, ["y", "z"]), (one, "y")):
        inputs, known = lazy[["a", "b"]], table[["a", "b"]]
        assert_eq(fitted.predict(inputs), fitted.predict(known))
        scores = fitted.score_samples(inputs, lazy[outputs])
        assert_eq(scores, fitted.score_samples(known, table[outputs]))
        found = fitted.summary(inputs, ["mean", "q05", "logpdf"], lazy[outputs])
        expected = fitted.summary(known, ["mean", "q05", "logpdf"], table[outputs])
        assert_frames_eq(found, expected)


def test_a_prediction_names_the_chunk_that_it_cannot_read():
    X, y = waves(60)
    model = quick().fit(X, y)
    X[33, 1] = np.nan
    with pytest.raises(kcdo.InvalidInputError, match="chunk 1: Input X contains NaN in column 1"):
        model.predict(da.from_array(X, chunks=(20, 2))).compute()


# --- workers that die


def deadly(monkeypatch, folder, adding=()):
    """Let a worker die in every pass, and where the passes named by ``adding`` add; return which.

    A pass is called by its number and the kind of its task.
    """
    run, passes = DaskEngine._run, []
    folder.mkdir()

    def killed(self, task, add, groups, **options):
        kind = type(task).__name__
        passes.append(f"{len(passes)}-{kind}")
        task = Deadly(task, str(folder), passes[-1])
        if kind in adding:
            add = DeadlyAdd(add, str(folder), f"{passes[-1]}-adding")
            passes.append(f"{passes[-1]}-adding")
        return run(self, task, add, groups, **options)

    monkeypatch.setattr(DaskEngine, "_run", killed)
    return passes


def assert_died_in(folder, passes):
    """Every pass was begun, ended by a death, and begun again."""
    for name in passes:
        assert (folder / f"{name}-0").exists(), name
        assert (folder / f"{name}-1").exists(), name


def test_workers_killed_in_every_pass_cost_their_chunks_alone(
    client, serial, tmp_path, monkeypatch
):
    """When they look at chunks, draw, sum, and when they add sums of two chunks."""
    passes = deadly(monkeypatch, tmp_path / "deaths", adding=["Sum"])
    with leaves_nothing(client):
        model = quick().fit([delayed(chunk) for chunk in cut(*waves())])
    same_bits(model, serial)
    kinds = ["0-_LearnColumns", "1-Look", "2-Draw", "3-Sum", "3-Sum-adding"]
    assert passes == kinds
    assert_died_in(tmp_path / "deaths", passes)
    assert model.stream_.retries >= len(kinds)
    assert model.stream_.passes == 3


def test_workers_killed_in_every_phase_of_a_default_fit(client, tmp_path, monkeypatch, give_effort):
    """Neighbours, both times, rows that are kept, sums and residuals; centres and weights too.

    Centres and weights are chosen by the client: a worker that dies then holds nothing.
    """
    give_effort(streamed=StreamEffort(sample_rows=200))
    chunks = cut(*waves(), at=(0, 100, 200, 300, 400, 500, 600))
    serial = quick(selection="auto").fit(chunks, rows_at=tmp_path / "serial")
    killed = [kill_before(monkeypatch, client, name) for name in ("StreamPlan", "StreamedMixture")]
    passes = deadly(monkeypatch, tmp_path / "deaths")
    with leaves_nothing(client):
        parts = [delayed(chunk) for chunk in chunks]
        model = quick(selection="auto").fit(parts, client=client, rows_at=tmp_path / "rows")
    assert all(killed)
    kinds = ["_LearnColumns", "Look", "Draw", "FindNear", "FindNear", "KeepRows", "Sum", "Sum"]
    assert passes == [f"{number}-{kind}" for number, kind in enumerate(kinds)]
    assert_died_in(tmp_path / "deaths", passes)
    assert model.stream_.retries >= len(kinds)
    assert model.stream_.passes == serial.stream_.passes == 7
    same_bits(model, serial)
    for name in ("inputs", "outputs", "weights", "coordinates"):
        one, two = (np.load(tmp_path / each / f"{name}.npy") for each in ("rows", "serial"))
        np.testing.assert_array_equal(one, two)


def kill_before(monkeypatch, client, name):
    """Kill a worker, by its own process id, when a class of the fit is first made."""
    cls = getattr(kcdo.fitting, name)
    killed, make = [], cls.of

    def of(*arguments, **options):
        if not killed:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)
        return make(*arguments, **options)

    monkeypatch.setattr(cls, "of", of)
    return killed


def test_chunks_that_share_a_task_are_counted_one_by_one():
    watch = Watch("topic")
    for number in (0, 1, 2, 3, 0, 1):  # a task of chunks 0 and 1 died, and was done again
        watch.hear((0.0, ("begun", number, None)))
    assert watch.retries == 2


def test_a_chunk_that_kills_every_worker_is_named(client):
    chunks = [delayed(chunk) for chunk in cut(*waves())]
    chunks[2] = delayed(always_killing)()
    model = quick()
    with (
        leaves_nothing(client),
        pytest.raises(kcdo.ClusterError, match=r"^chunk 2: every worker .* died, the last at tcp"),
    ):
        model.fit(chunks)
    assert not hasattr(model, "report_")


def always_killing():
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_read_that_fails_is_tried_again(client, serial, tmp_path):
    chunks = [delayed(chunk) for chunk in cut(*waves())]
    chunks[1] = delayed(failing_once)(str(tmp_path), cut(*waves())[1])
    same_bits(quick().fit(chunks), serial)


def failing_once(folder, chunk):
    if counted(folder, "failed") == 1:
        raise OSError("the network is down")
    return chunk


def failing(kind):
    raise kind("cannot open file")


@pytest.mark.parametrize(
    ("kind", "expected", "message"),
    [
        (OSError, kcdo.ClusterError, "^chunk 2: OSError: cannot open file"),
        (kcdo.DataNotFoundError, kcdo.DataNotFoundError, "^chunk 2: cannot open file"),
        (ValueError, kcdo.InvalidInputError, "^chunk 2: cannot open file"),
        (MemoryError, MemoryError, "^chunk 2 does not fit into memory"),
    ],
)
def test_a_read_that_always_fails_is_named(client, kind, expected, message):
    chunks = [delayed(chunk) for chunk in cut(*waves())]
    chunks[2] = delayed(failing)(kind)
    model = quick()
    with leaves_nothing(client), pytest.raises(expected, match=message):
        model.fit(chunks)
    assert not hasattr(model, "report_")


def test_a_read_below_a_dask_array_is_named(client):
    """What fails is not the chunk itself but something that it is made from."""
    X, y = dask_arrays()
    bad = da.from_delayed(delayed(failing)(OSError), shape=(ROWS[1], 2), dtype=float)
    X = da.concatenate([X[: ROWS[0]].rechunk({1: 2}), bad + 1.0, X[CUTS[2] :].rechunk({1: 2})])
    with (
        leaves_nothing(client),
        pytest.raises(kcdo.ClusterError, match=r"^chunk 1: OSError: cannot open file"),
    ):
        quick().fit(X, y)


def tasks_of(dask_scheduler):
    return set(map(str, dask_scheduler.tasks))


def executed_by(dask_worker):
    return [str(task.key) for task in dask_worker.state.tasks.values() if task.state == "executing"]


@contextmanager
def leaves_nothing(client, seconds=20.0):
    """See to it that no task is left which was not there before, and that no worker is at any."""
    before = client.run_on_scheduler(tasks_of)
    yield
    end = time.monotonic() + seconds
    while True:
        running = client.run(executed_by, on_error="ignore")  # waits for workers that start again
        left = client.run_on_scheduler(tasks_of) - before
        if not left and not any(running.values()):
            return
        assert time.monotonic() < end, f"left: {sorted(left)[:5]}, running: {running}"
        time.sleep(0.1)


def test_scattered_data_are_lost_with_their_worker(client):
    """They cannot be computed again, and the error says so instead of blaming the scheduler."""
    chunks = cut(*waves())
    pids = client.run(os.getpid)
    address = next(iter(pids))
    parts = [client.submit(same, chunk, pure=False) for chunk in chunks]
    parts[2] = scattered(client, chunks[2], address)
    wait(parts)
    os.kill(pids[address], signal.SIGKILL)
    model = quick()
    started = time.monotonic()
    with (
        leaves_nothing(client),
        pytest.raises(kcdo.ClusterError, match=r"^chunk 2 is lost: its fut"),
    ):
        model.fit(parts)
    assert time.monotonic() - started < 20
    assert not hasattr(model, "report_")


def same(chunk):
    return chunk


def scattered(client, chunk, address):
    """Return a chunk as a future whose value one worker alone holds."""
    (future,) = client.scatter([chunk], workers=[address], hash=False)
    return future


def kill_process(folder, pid, chunk):
    if counted(folder, "killed") == 0:  # later the number may be that of another process
        os.kill(pid, signal.SIGKILL)
    return chunk


def test_scattered_data_are_lost_during_the_fit(client, tmp_path):
    chunks = cut(*waves())
    address, pid = next(iter(client.run(os.getpid).items()))
    parts = [delayed(chunk) for chunk in chunks]
    parts[2] = scattered(client, chunks[2], address)
    # the first chunk is read before any other: nobody else has taken a copy by then
    parts[0] = delayed(kill_process)(str(tmp_path), pid, chunks[0])
    with (
        leaves_nothing(client),
        pytest.raises(kcdo.ClusterError, match=r"^chunk 2 is lost: its fu"),
    ):
        quick().fit(parts)


def test_data_below_a_chunk_are_lost_during_the_fit(client, tmp_path):
    """It is not known of which chunk they are part."""
    chunks = cut(*waves())
    address, pid = next(iter(client.run(os.getpid).items()))
    parts = [delayed(chunk) for chunk in chunks]
    held = scattered(client, chunks[2], address)
    parts[2] = delayed(same)(held)
    # the first chunk is read before any other: nobody else has taken a copy by then
    parts[0] = delayed(kill_process)(str(tmp_path), pid, chunks[0])
    with leaves_nothing(client), pytest.raises(kcdo.ClusterError, match=r"were cancelled: by some"):
        quick().fit(parts)


# --- how often chunks are read, and how many sums are held


class Noted:
    """Chunks that count how often each is read in this process."""

    def __init__(self, chunks):
        self.chunks, self.reads = chunks, [0] * len(chunks)

    def __iter__(self):
        for number, chunk in enumerate(self.chunks):
            self.reads[number] += 1
            yield chunk


def test_chunks_are_read_once_in_every_pass(client, give_effort, tmp_path):
    """The first one too, which says what the columns are; and one without rows before it."""
    give_effort(streamed=StreamEffort(sample_rows=200))
    chunks = [(np.empty((0, 2)), np.empty(0)), *cut(*waves())]
    for options, passes in (({}, 3), ({"selection": "auto"}, 7)):
        folder = tmp_path / str(passes)
        (folder / "reads").mkdir(parents=True)
        here, there = ({"rows_at": folder / name} if options else {} for name in "ab")
        local = Noted(chunks)
        quick(**options).fit(local, **here)
        assert local.reads == [passes] * len(chunks)
        parts = [delayed(noted)(str(folder / "reads"), c, i) for i, c in enumerate(chunks)]
        model = quick(**options).fit(parts, client=client, **there)
        assert len(list((folder / "reads").iterdir())) == passes * len(chunks)
        assert model.stream_.passes == passes


class Holding(Deadly):
    """A task that notes how many results of chunks and of additions its worker holds."""

    def __call__(self, item):
        names = [str(key).split("-") for key in get_worker().data]
        held = sum(name[0] == "kcdo" and name[2] in ("chunk", "sum") for name in names)
        counted(self.folder, f"held-{held}")
        return self.task(item)


def test_workers_hold_few_sums(client, monkeypatch, tmp_path):
    """Not half of all, although tasks that take no time run ahead of the scheduler."""
    monkeypatch.setattr("kcdo.distributed.dask_engine._TASK_ROWS", 0)
    run = DaskEngine._run

    def holding(self, task, add, groups, **options):
        return run(self, Holding(task, str(tmp_path), ""), add, groups, **options)

    monkeypatch.setattr(DaskEngine, "_run", holding)
    chunks = cut(*waves(640), at=range(0, 641, 10))
    assert len(chunks) == 64
    model = quick().fit([delayed(chunk) for chunk in chunks])
    assert model.stream_.chunks == 64
    held = {int(path.name.split("-")[1]) for path in tmp_path.iterdir()}
    assert max(held) < 32


# --- two fits, more workers, Ctrl-C


def test_two_fits_at_once(client, serial):
    found = {}
    chunks = [delayed(chunk) for chunk in cut(*waves())]

    def fit(name):
        found[name] = quick().fit(chunks, client=client)

    threads = [threading.Thread(target=fit, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for name in "ab":
        same_bits(found[name], serial)


def test_a_fit_that_fails_beside_one_that_does_not(client, serial):
    good = [delayed(slow)(chunk) for chunk in cut(*waves())]
    bad = [*good[:2], delayed(failing)(OSError), *good[3:]]  # chunks that both fits read
    found = []
    thread = threading.Thread(target=lambda: found.append(quick().fit(good, client=client)))
    with leaves_nothing(client):
        thread.start()
        with pytest.raises(kcdo.ClusterError, match=r"^chunk 2: OSError: cannot open file"):
            quick().fit(bad, client=client)
        thread.join(60)
    same_bits(found[0], serial)


def test_ctrl_c_cancels_the_tasks(client):
    chunks = [delayed(slow)(chunk, 1.0) for chunk in cut(*waves())]
    model = quick()
    with leaves_nothing(client):
        for _ in range(3):  # a signal may come between two bytecodes that swallow it
            timer = threading.Timer(1.5, os.kill, [os.getpid(), signal.SIGINT])
            timer.start()
            try:
                model.fit(chunks)
            except KeyboardInterrupt:
                break
        else:
            pytest.fail("no interrupt reached the fit")
    assert not hasattr(model, "report_")


# --- what cannot be fitted


def spoiled(X, y):
    X = X.copy()
    X[5, 1] = np.nan
    return X, y


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda X, y: (X[:, :1], y), "chunk 1: X has 1 features, but .* is expecting 2 features"),
        (spoiled, "chunk 1: Input X contains NaN in column 1, 1 of 120 rows"),
        (lambda X, y: (X, y[:-1]), "chunk 1: X and Y have inconsistent numbers of samples: 120 a"),
        (lambda X, y: (X, y[:, None]), r"chunk 1: these outputs have shape \(120, 1\); the first"),
        (lambda X, y: (X.astype(str), y), "chunk 1: "),
        (lambda X, y: (X, y, -np.ones(120)), "chunk 1: sample_weight must not be negative"),
        (lambda X, y: (X, y, y, y), r"chunk 1: a chunk is \(X, y\) or \(X, y, weight\); got 4 par"),
    ],
)
def test_a_bad_chunk_is_named(client, spoil, message):
    chunks = cut(*waves())
    bad = [chunks[0], spoil(*chunks[1]), *chunks[2:]]
    if message == "chunk 1: ":  # numbers as text are numbers
        quick().fit([delayed(chunk) for chunk in bad])
        return
    model = quick()
    refused(client, bad, message, model)
    assert not hasattr(model, "n_features_in_")


def refused(client, chunks, message, model=None):
    """A fit of chunks ends with an error within seconds, on the cluster and in one process."""
    model = quick() if model is None else model
    client.run(loaded)  # a worker that has just begun takes its time
    with leaves_nothing(client):
        started = time.monotonic()
        with pytest.raises(kcdo.InvalidInputError, match=message):
            model.fit([delayed(chunk) for chunk in chunks])
        assert time.monotonic() - started < 30
    assert not hasattr(model, "report_")
    with pytest.raises(kcdo.InvalidInputError, match=message):
        model.fit(chunks)


def loaded():
    return kcdo.ConditionalDensityOperator


def frames(*tables):
    return [(table, np.arange(len(table)) + 0.5) for table in tables]


def test_columns_of_chunks_must_agree(client):
    pd = pytest.importorskip("pandas")
    first = pd.DataFrame({"a": [0.0, 1.0, 3.0], "b": [2.0, 0.0, 1.0]})
    cases = {
        "chunk 1: column 0 is 'b', but 'a' in the first chunk": first[["b", "a"]],
        "chunk 1: column 1 is missing, but 'b' in the first chunk": first[["a"]],
        "chunk 1: column 'c' is not in the first chunk, which has 2": first.assign(c=1.0),
        "chunk 1: column 'b' of X is not numeric": first.assign(b=["x", "y", "z"]),
    }
    for message, other in cases.items():
        refused(client, frames(first, other), message)


def test_categories_may_come_late_but_not_as_numbers(client):
    pd = pytest.importorskip("pandas")
    first = pd.DataFrame({"a": [0.0, 1.0, 3.0], "c": ["u", "v", "u"]})
    chunks = frames(first, first.assign(c=["w", "u", "w"]))
    for data in (chunks, [delayed(chunk) for chunk in chunks]):
        assert quick().fit(data).categories == {1: ("u", "v", "w")}
    message = "column 'c' has texts such as 'u' in chunk 0 and numbers such as 7 in chunk 2: give"
    refused(client, frames(first, first, first.assign(c=[7, 8, 7])), message)


def test_chunks_without_rows(client):
    empty = [delayed((np.empty((0, 2)), np.empty(0)))] * 2
    for chunks, n in ((empty, 0), ([delayed((np.ones((1, 2)), np.ones(1)))], 1)):
        message = f"Found {n} sample.* in the chunks; 2"
        with leaves_nothing(client), pytest.raises(kcdo.InvalidInputError, match=message):
            quick().fit(chunks)


def test_chunks_that_change_between_passes(tmp_path):
    chunks = [delayed(growing)(str(tmp_path))]
    with pytest.raises(kcdo.InvalidInputError, match="the chunks had 30 rows when they were first"):
        quick().fit(chunks)


def growing(folder):
    from tests.dask_chunks import counted

    return waves(31 if counted(folder, "read") == 2 else 30)


def test_collections_that_do_not_fit_one_another():
    X, y = dask_arrays()
    cases = [
        ((X, y[:500]), "X and y have inconsistent numbers of samples: 600 and 500 rows"),
        (([delayed(1)] * 3, [delayed(1)] * 2), "at the same rows; got X in 3, y in 2 chunks"),
        ((X,), "fit requires y to be passed"),
        ((X[:, 0], y), "X must have two axes, rows and columns; got 1"),
        (([delayed(1)], None, [delayed(1)]), "weights of chunks come with them"),
    ]
    for data, message in cases:
        with pytest.raises(kcdo.InvalidInputError, match=message):
            quick().fit(*data)
    for data, message in (
        ((X, np.ones(N)), "y must be a Dask array or data frame, .* got a ndarray"),
        (([delayed(1), 3], [delayed(1)] * 2), "chunk 1 of X is a int; a list of chunks on a clus"),
    ):
        with pytest.raises(kcdo.InvalidTypeError, match=message):
            quick().fit(*data)
    with pytest.raises(kcdo.InvalidTypeError, match="client= is for data on a cluster: X and y mu"):
        quick().fit(*waves(), client=3)


def test_clients_that_are_none_or_closed(client):
    X, y = dask_arrays()
    with pytest.raises(kcdo.InvalidTypeError, match=r"must be a distributed.Client; got a int"):
        quick().fit(X, y, client=3)
    other = Client(client.scheduler.address)
    other.close()
    with pytest.raises(kcdo.ClusterError, match="the Dask client is closed: make a new distribute"):
        quick().fit(X, y, client=other)


def paused(value, dask_worker=None):
    """Let a worker find its memory full, or not: it then pauses itself, or goes on."""
    worker = dask_worker or get_worker()
    worker.memory_manager.memory_pause_fraction = 1e-6 if value else 0.8


def pause(client, value, workers):
    """Pause some workers or let them go on, and wait until they do."""
    client.run(paused, value, workers=workers)
    expected = "paused" if value else "running"
    end = time.monotonic() + 30
    while set(client.run(status, workers=workers).values()) != {expected}:
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_worker_that_is_paused_does_nothing_and_hinders_nothing(client, serial):
    address = next(iter(client.nthreads()))
    pause(client, True, [address])
    try:
        same_bits(quick().fit([delayed(chunk) for chunk in cut(*waves())]), serial)
        assert client.run(status, workers=[address])[address] == "paused"
    finally:
        pause(client, False, [address])


def paused_once(folder, chunk):
    """Return a chunk; the first worker that comes here takes no more tasks for two seconds."""
    if counted(folder, "paused") == 0:
        paused(True)
        end = time.monotonic() + 10
        while get_worker().status != Status.paused and time.monotonic() < end:
            time.sleep(0.05)
        threading.Timer(2.0, paused, (False, get_worker())).start()
    return chunk


def test_a_worker_paused_during_the_fit(client, serial, tmp_path):
    chunks = [delayed(chunk) for chunk in cut(*waves())]
    chunks[1] = delayed(paused_once)(str(tmp_path), cut(*waves())[1])
    same_bits(quick().fit(chunks), serial)
    assert (tmp_path / "paused-0").exists()


def test_tasks_that_wait_for_a_paused_worker_are_not_waited_for(monkeypatch):
    """Whoever is free has nothing to do, and a worker that is paused keeps the tasks it has."""
    monkeypatch.setattr("kcdo.distributed.dask_engine._LONGEST_PAUSE", 5.0)

    def worker(state, **counts):
        return {"status": state, "metrics": {"task_counts": counts}}

    waiting = [worker("paused", ready=1), worker("running")]
    standstill = Standstill()
    standstill.check(waiting, 0.0)
    standstill.check([worker("paused", ready=1), worker("running", executing=1)], 4.0)
    standstill.check(waiting, 5.0)
    standstill.check([worker("paused", memory=3), worker("running")], 9.0)  # it holds results
    standstill.check(waiting, 10.0)
    with pytest.raises(kcdo.ClusterError, match="paused for want of memory for 6 seconds"):
        standstill.check(waiting, 16.0)


def test_workers_that_are_all_paused_end_the_fit(client, monkeypatch):
    monkeypatch.setattr("kcdo.distributed.dask_engine._LONGEST_PAUSE", 1.0)
    workers = list(client.nthreads())
    pause(client, True, workers)
    model, started = quick(), time.monotonic()
    try:
        with (
            leaves_nothing(client),
            pytest.raises(kcdo.ClusterError, match="workers have been paused for want of mem"),
        ):
            model.fit([delayed(chunk) for chunk in cut(*waves())])
    finally:
        pause(client, False, workers)
    assert time.monotonic() - started < 30
    assert not hasattr(model, "report_")


def hold(dask_worker):
    dask_worker.held = np.ones(70 << 20)  # 560 MiB


def status(dask_worker):
    return dask_worker.status.name


def test_a_worker_paused_by_its_memory_limit(serial):
    limits = {"target": False, "spill": False, "pause": 0.5, "terminate": False}
    with (
        dask.config.set({f"distributed.worker.memory.{key}": at for key, at in limits.items()}),
        start(2, memory_limit="900MiB") as cluster,
        Client(cluster) as client,
    ):
        address = next(iter(client.nthreads()))
        client.run(hold, workers=[address])
        end = time.monotonic() + 30
        while client.run(status, workers=[address])[address] != "paused":
            assert time.monotonic() < end
            time.sleep(0.1)
        same_bits(quick().fit([delayed(chunk) for chunk in cut(*waves())]), serial)
        assert client.run(status, workers=[address])[address] == "paused"


def test_chunks_of_other_dtypes_are_the_same_numbers(client):
    X, y = waves()
    X, y = np.round(4 * X), np.round(y, 3)
    kinds = [np.float64, np.float32, np.int64, np.int8, object, np.float16]
    parts = [(part.astype(kind), out) for (part, out), kind in zip(cut(X, y), kinds, strict=True)]
    same_bits(quick().fit([delayed(part) for part in parts]), quick().fit(cut(X, y)))


def test_a_category_that_one_chunk_alone_has_is_unknown_to_predictions(client):
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    X, y = waves(90)
    table = pd.DataFrame(X, columns=["a", "b"]).assign(c=["u", "v", "w"] * 30)
    model = quick().fit([(table, y)])
    frames = [table[:40], table[40:].assign(c="z")]
    collection = dd.from_delayed([delayed(frame) for frame in frames], meta=table.iloc[:0])
    with pytest.raises(kcdo.InvalidInputError, match=r"chunk 1: .*'c'.*'z'"):
        model.predict(collection).compute()


def test_a_scheduler_without_workers_and_one_that_goes_away(monkeypatch):
    chunks = [delayed(chunk) for chunk in cut(*waves())]
    script = (
        "import asyncio\n"
        "from distributed import Scheduler\n"
        "async def main():\n"
        "    async with Scheduler(host='127.0.0.1', port=0, dashboard_address=':0') as s:\n"
        "        print(s.address, flush=True)\n"
        "        await s.finished()\n"
        "asyncio.run(main())\n"
    )
    scheduler = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        address = scheduler.stdout.readline().strip()
        with Client(address) as client:
            monkeypatch.setattr("kcdo.distributed.dask_engine._LONGEST_WAIT", 0.5)
            with pytest.raises(kcdo.ClusterError, match=r"no worker has been there for \d+ s"):
                quick().fit(chunks, client=client)
            monkeypatch.undo()
            threading.Timer(1.0, scheduler.kill).start()
            started = time.monotonic()
            with pytest.raises(kcdo.ClusterError, match=r"scheduler went away|the Dask client is"):
                quick().fit(chunks, client=client)
            assert time.monotonic() - started < 20
    finally:
        scheduler.kill()
        scheduler.wait()
        scheduler.stdout.close()


def hungry(chunk):
    held = np.ones(100 << 20)  # 800 MiB
    time.sleep(30)
    return chunk if held.any() else None


@pytest.mark.slow
def test_a_worker_out_of_memory():
    chunks = [delayed(chunk) for chunk in cut(*waves(), at=(0, 300, 600))]
    chunks[1] = delayed(hungry)(waves(300))
    # the chunk that waits beside it dies with it as often, and cannot be told from it
    message = "^(chunk [01]|one of the chunks 0 to 1): every worker .* cause is memory: make the"
    model = quick()
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        start(1, memory_limit="600MiB") as cluster,
        Client(cluster) as client,
        leaves_nothing(client),
    ):
        started = time.monotonic()
        with pytest.raises(kcdo.ClusterError, match=message):
            model.fit(chunks)
        assert time.monotonic() - started < 60
    assert not hasattr(model, "report_")


def test_nothing_of_dask_is_loaded_before_it_is_needed():
    code = (
        "import sys, numpy as np, kcdo\n"
        "X = np.random.default_rng(0).random((50, 1))\n"
        "kcdo.ConditionalDensityOperator(selection='heuristic').fit(X, X[:, 0]).predict(X)\n"
        "print({'dask', 'distributed'} & set(sys.modules))\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"


def test_a_fit_leaves_no_task_behind(client, serial):
    future = client.submit(sum, [1, 2])
    wait(future)
    with leaves_nothing(client):
        quick().fit([delayed(chunk) for chunk in cut(*waves())])
    assert future.result() == 3
