"""How large model files are, how much of a model they leave out, and in which precision."""

import collections
import contextlib
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import kcdo
from kcdo.components import MatrixValues, RowValues, SolvedValues
from kcdo.persistence.metadata import model_info
from tests.model_files import (
    assert_same_distributions,
    cdo,
    data,
    forge,
    npy,
    nystrom,
    records,
    with_field,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.kcdo"


def saved(model, path, **options):
    """Return the model of the file of a model."""
    model.save(path, **options)
    return kcdo.load(path)


# --- what is left out


@pytest.fixture
def matrices_are_left_out(monkeypatch):
    monkeypatch.setattr("kcdo.components.node_values._LARGEST_STORED", 1000)


@pytest.mark.parametrize("solver", [kcdo.Exact(), kcdo.Exact("float32"), kcdo.Iterative(rank=10)])
def test_a_large_matrix_is_solved_for_when_a_query_comes(solver, path, matrices_are_left_out):
    X, Y = data(80)
    X[40:] = X[:40]  # rows of equal inputs
    model = cdo(solver=solver).fit(X, Y, sample_weight=np.linspace(0.5, 2.0, 80))
    loaded = saved(model, path)
    values = loaded._operator.values
    assert isinstance(values, SolvedValues)
    assert "matrix" not in vars(values)
    assert path.stat().st_size < 10_000
    assert_same_distributions(model.conditional(X), loaded.conditional(X))
    assert "matrix" in vars(values)
    assert vars(values.system).keys() & {"_found"} == set()  # the factor is gone again


def test_threads_solve_for_a_matrix_once(path, matrices_are_left_out, monkeypatch):
    X, Y = data(80)
    loaded = saved(cdo(n_jobs=4).fit(X, Y), path)
    solved, calls = MatrixValues.solved, []

    def counted(*arguments):
        calls.append(arguments)
        return solved(*arguments)

    monkeypatch.setattr(MatrixValues, "solved", counted)
    queries = np.random.default_rng(0).uniform(-1, 1, (60_000, 2))
    loaded.conditional(queries).mean()
    assert len(calls) == 1


def test_a_model_is_saved_again_before_it_is_asked(path, matrices_are_left_out):
    model, X = cdo().fit(*data()), data()[0]
    again = path.with_name("again.kcdo")
    saved(model, path).save(again)
    assert again.read_bytes() == path.read_bytes()
    assert_same_distributions(model.conditional(X), kcdo.load(again).conditional(X))


def test_centres_keep_their_matrix(path, matrices_are_left_out):
    model, X = nystrom()
    loaded = saved(model, path)
    assert isinstance(loaded._operator.values, MatrixValues)
    assert_same_distributions(model.conditional(X), loaded.conditional(X))


def test_an_automatic_fit_leaves_its_matrices_out(path, matrices_are_left_out):
    X, Y = data(25)
    model = kcdo.ConditionalDensityOperator().fit(X, Y)
    loaded = saved(model, path)
    assert isinstance(loaded._operator.primary.values, SolvedValues)
    assert_same_distributions(model.conditional(X), loaded.conditional(X))
    second = loaded.refit(X[:20], Y[:20])
    assert_same_distributions(model.refit(X[:20], Y[:20]).conditional(X), second.conditional(X))


@pytest.mark.parametrize("n", [300, 600])
def test_files_grow_with_the_rows_not_with_their_square(n, path):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((n, 3)), rng.standard_normal((n, 2))
    model = cdo(reference=kcdo.UniformBox(nodes=40)).fit(X, Y)
    assert isinstance(model._operator.values, RowValues)
    model.save(path)
    assert path.stat().st_size < 100 * n + 30_000


@pytest.mark.slow
def test_five_thousand_rows_of_two_outputs_take_little(path):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (5000, 3))
    Y = np.sin(X[:, :2]) + 0.2 * rng.standard_normal((5000, 2))
    options = {"kernel_x": kcdo.Gaussian(1.0), "kernel_y": kcdo.Gaussian(0.15), "alpha": 1e-5}
    model = cdo(reference=kcdo.UniformBox(nodes=101), **options).fit(X, Y)
    loaded = saved(model, path)
    assert path.stat().st_size < 1_000_000  # the factor would be 100 MB
    np.testing.assert_allclose(loaded.predict(X[:3]), model.predict(X[:3]), rtol=1e-9)


def test_equal_inputs_are_written_once(path):
    X, Y = data(40, p=50)
    kcdo.ConditionalDensityOperator().fit(X, Y).save(path)
    with zipfile.ZipFile(path) as file:
        members = [file.read(name) for name in file.namelist()]
    assert len(set(members)) == len(members)
    assert members[0].count(b'"$array": "a0"') > 3  # of location, scale, density and residuals


def test_members_are_compressed_where_it_pays(path):
    X, Y = data(300)
    model = cdo(solver=kcdo.Nystrom(60)).fit(np.round(20 * X), Y)
    model.save(path)
    with zipfile.ZipFile(path) as file:
        members = file.infolist()
    kinds = {m.filename: (m.compress_type, m.file_size, m.compress_size) for m in members}
    for kind, size, packed in kinds.values():
        assert packed < 0.9 * size if kind == zipfile.ZIP_DEFLATED else packed == size
    assert kinds["metadata.json"][0] == zipfile.ZIP_DEFLATED
    assert {kind for kind, *_ in kinds.values()} == {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}


def test_numbers_that_are_nearly_all_zero_are_not_packed_too_tightly(path, monkeypatch):
    monkeypatch.setattr("kcdo.persistence.archive._SMALL", 1000)
    model = cdo(solver=kcdo.Nystrom(np.zeros((300, 60)))).fit(*data(p=60))
    loaded = saved(model, path)  # a reader refuses what unpacks to many times its size
    queries = np.ones((2, 60))
    assert_same_distributions(model.conditional(queries), loaded.conditional(queries))


def test_a_file_says_how_large_it_is(path):
    exact = cdo().fit(*data())
    exact.save(path)
    with zipfile.ZipFile(path) as file:
        unpacked = sum(member.file_size for member in file.infolist())
    assert model_info(path)["size"] == {"file": path.stat().st_size, "unpacked": unpacked}


# --- in single precision


def two_outputs():
    X, Y = data(150)
    return cdo(reference=kcdo.UniformBox(nodes=12)).fit(X, np.c_[Y, Y + X[:, 1]]), X


def smooth():
    X, Y = data(150)
    return cdo(alpha=0.1).fit(X, Y), X


def rough():
    X, Y = data(150)
    return cdo(kernel_x=kcdo.Gaussian(2.0), alpha=1e-7, positivity="clip").fit(X, Y), X


def automatic():
    X, Y = data(40)
    return kcdo.ConditionalDensityOperator().fit(X, Y), X


def centres():
    X, Y = data(150)
    return cdo(solver=kcdo.Nystrom(40)).fit(X, Y), X


def scattered():
    X, Y = data(100)
    return cdo(reference=kcdo.QuasiRandomBox(n_nodes=128)).fit(X, np.c_[Y, -Y]), X


@pytest.mark.parametrize(
    "case", [smooth, rough, two_outputs, automatic, centres, scattered], ids=lambda c: c.__name__
)
def test_single_precision_keeps_six_digits(case, path):
    model, X = case()
    loaded = saved(model, path, precision="float32")
    queries = np.random.default_rng(1).uniform(-1.0, 1.0, (200, X.shape[1]))
    exact, found = model.conditional(queries), loaded.conditional(queries)
    sd = exact.std()
    assert np.abs((found.mean() - exact.mean()) / sd).max() < 1e-6
    assert np.abs(found.std() / sd - 1.0).max() < 1e-6
    levels = [0.05, 0.5, 0.95]
    moved = found.quantile(levels) - exact.quantile(levels)
    assert np.abs(moved / sd[:, None]).max() < 1e-6
    points = exact.sample(3, 0).reshape(len(queries), 3, -1)[:, 0]
    there = exact.pdf(points)
    assert np.abs(found.pdf(points) - there).max() < 1e-6 * there.max()


def test_single_precision_makes_files_smaller(path):
    model, _ = smooth()
    model.save(path)
    size = path.stat().st_size
    loaded = saved(model, path, precision="float32")
    assert path.stat().st_size < 0.7 * size
    assert not np.array_equal(loaded._operator.values.first, model._operator.values.first)
    assert loaded._operator.values.first.dtype == np.float64  # it computes as before


def test_a_matrix_of_large_coefficients_keeps_more_digits(path):
    model, _ = rough()
    first = saved(model, path, precision="float32")._operator.values.first
    assert not np.array_equal(first, first.astype(np.float32))


def test_a_second_save_in_single_precision_changes_nothing(path):
    loaded = saved(smooth()[0], path, precision="float32")
    again = saved(loaded, path.with_name("again.kcdo"), precision="float32")
    np.testing.assert_array_equal(again._operator.values.first, loaded._operator.values.first)


def test_other_precisions_are_refused(path):
    with pytest.raises(kcdo.InvalidInputError, match='"float64" or "float32"; got \'half\''):
        cdo().fit(*data()).save(path, precision="half")
    assert not path.exists()


# --- what is read without making a model


def test_the_model_is_not_made_to_tell_of_it(path, monkeypatch):
    pages = cdo().fit(*data())
    pages.save(path)

    def refuse(*_):
        raise AssertionError("a model was made")

    monkeypatch.setattr("kcdo.persistence.models.decode", refuse)
    monkeypatch.setattr("kcdo.persistence.archive.ArchiveReader.arrays", refuse)
    assert model_info(path)["report"]["n_samples"] == 60
    with pytest.raises(kcdo.ModelFileError, match="a model was made"):
        kcdo.load(path)


def test_a_file_whose_objects_are_junk_tells_of_itself(path):
    cdo().fit(*data()).save(path)
    forge(path, path, lambda m: m.update(objects=[{"junk": 1}]), members={"arrays/a0.npy": b"junk"})
    assert model_info(path)["model"] == "ConditionalDensityOperator"
    with pytest.raises(kcdo.ModelFileError, match="not an array of plain numbers"):
        kcdo.load(path)


# --- what it may cost to refuse a file


def kernels_in_kernels(depth, times, users=0):
    """Sums of products of sums, each of the one before, and objects that hold the last."""

    def edit(metadata):
        objects = metadata["objects"]
        objects.append({"class": "Gaussian", "fields": {"scale": 1.0}})
        for i in range(depth):
            last = {"$ref": len(objects) - 1}
            fields = {"kernels": {"$tuple": [last] * times}}
            objects.append({"class": ("Sum", "Product")[i % 2], "fields": fields})
        fields = {"kernel": {"$ref": len(objects) - 1}, "centres": {"$array": "a0"}, "n_jobs": None}
        objects += [{"class": "Centres", "fields": fields}] * users

    return edit


def nested_wrappers(depth):
    def edit(metadata):
        objects = metadata["objects"]
        objects.append({"class": "Gaussian", "fields": {"scale": 1.0}})
        for _ in range(depth):
            fields = {"kernel": {"$ref": len(objects) - 1}, "share": 0.1}
            objects.append({"class": "Nugget", "fields": fields})

    return edit


def many(name, count):
    def edit(metadata):
        record = next(r for r in metadata["objects"] if r["class"] == name)
        metadata["objects"] += [record] * count

    return edit


def filled(value, count):
    return with_field("Grid", "lower", [value] * count)


def deep(metadata):
    value = []
    for _ in range(400):
        value = [value]
    records(metadata, "Grid")[0]["lower"] = value


COSTLY = {
    "doubled": (kernels_in_kernels(60, 2), "so many parts; one more: "),
    "many users": (kernels_in_kernels(1, 990, users=40), "so many parts; one more: Centres"),
    "deep": (nested_wrappers(80), "Nugget has parts that are nested too deeply"),
    "objects": (many("Centres", 9000), "so many parts; one more: Centres"),
    "sums": (many("NystromSums", 20), "so many parts; one more: NystromSums"),
    "output sides": (many("Reconstruction", 9000), "so many parts; one more: Reconstruction"),
    "lists": (filled([], 149_000), "lower must not be of the kind list"),
    "tables": (filled({"$dict": []}, 99_000), "lower must not be of the kind list"),
    "too many lists": (filled([], 300_000), "its metadata are too large"),
    "long text": (lambda m: m.update(x="a" * (1 << 25)), "its metadata are too large"),
    "deep lists": (deep, "lower must not be of the kind list"),
}


@contextlib.contextmanager
def counted_calls():
    """Count calls and returns of Python and of C: a clock would measure the machine."""
    calls = collections.Counter()

    def count(_frame, event, _argument):
        calls[event] += 1

    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("name", COSTLY)
def test_costly_files_are_refused(name, path):
    edit, message = COSTLY[name]
    nystrom()[0].save(path)
    forge(path, path, edit, compression=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 60_000
    with pytest.raises(kcdo.ModelFileError, match=message), counted_calls() as calls:
        kcdo.load(path)
    assert sum(calls.values()) < 3_000_000  # a second or two


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({f"arrays/b{i}.npy": npy(np.zeros(1)) for i in range(9000)}, "it has too many parts"),
        ({"arrays/b.npy": npy(np.zeros(20_000_000))}, "many times larger than the file"),
        ({"metadata.json": b"[" * 900_000 + b"]" * 900_000}, "metadata are too large"),
        ({"metadata.json": b"[" * 200_000 + b"]" * 200_000}, "values are nested too deeply"),
    ],
    ids=["members", "zeros", "very deep", "deep"],
)
def test_costly_members_are_refused(members, message, path):
    nystrom()[0].save(path)
    forge(path, path, members=members, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(kcdo.ModelFileError, match=message):
        kcdo.load(path)


def test_arrays_are_not_looked_at_without_end(path, monkeypatch):
    monkeypatch.setattr("kcdo.persistence.tree._MOST_REPEATED", 0)
    nystrom()[0].save(path)
    forge(path, path, many("NystromSums", 100))
    with pytest.raises(kcdo.ModelFileError, match="uses its arrays too often"):
        kcdo.load(path)


_LOAD = """
import sys, kcdo
for file in sys.argv[1:]:
    try:
        kcdo.load(file)
    except kcdo.ModelFileError:
        print([line for line in open("/proc/self/status") if line.startswith("VmHWM:")][0])
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="nothing tells of memory here")
def test_refusing_takes_little_memory(tmp_path):
    whole, files = tmp_path / "whole.kcdo", []
    nystrom()[0].save(whole)
    for name in ("lists", "tables", "long text"):
        files.append(tmp_path / f"{name}.kcdo")
        forge(whole, files[-1], COSTLY[name][0], compression=zipfile.ZIP_DEFLATED)
    command = [sys.executable, "-c", _LOAD, *files]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told = [int(line.split()[1]) for line in done.stdout.splitlines() if line]
    assert len(told) == 3
    assert max(told) < 500_000  # kB, of which the libraries are 200,000


def test_a_model_of_too_many_parts_is_not_saved(path, monkeypatch):
    monkeypatch.setattr("kcdo.persistence.tree._MOST_WORK", 100)
    cdo().fit(*data()).save(path)
    path.unlink()
    kernel = kcdo.Sum(tuple(kcdo.Gaussian(float(i + 1)) for i in range(50)))
    model = cdo(kernel_x=kernel, alpha=0.1).fit(*data())
    with pytest.raises(kcdo.ModelFileError, match="a model file cannot hold so many parts"):
        model.save(path)
    assert not path.exists()
