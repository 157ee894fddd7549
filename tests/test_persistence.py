"""Model files: round trips, older files, and everything that must not load."""

import errno
import io
import json
import pickle
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import kernels as sklearn_kernels

import kcdo
from kcdo import operators
from kcdo.linalg import CholeskyFactor, ConjugateGradients, GridToeplitz
from kcdo.persistence import archive, forms, model_info, register
from kcdo.persistence.archive import dtype_of, kind_of
from kcdo.persistence.forms import matches
from kcdo.persistence.tree import decode, encode
from tests import make_model_fixture
from tests.model_files import (
    assert_same_distributions,
    assert_same_fit,
    forge,
    forge_somewhere,
    loads_or_refuses,
    npy,
    part_of_fit,
    records,
    reseal,
    seal,
    with_field,
)

FIXTURES = sorted((Path(__file__).parent / "data").glob("model-*.kcdo"))

# --- models of every kind


def data(n=60, p=2):
    rng = np.random.default_rng(3)
    X = rng.uniform(-1.0, 1.0, (n, p))
    return X, X[:, 0] + 0.2 * rng.standard_normal(n)


def cdo(**options):
    options = {"reference": kcdo.UniformBox(nodes=24), "selection": "heuristic"} | options
    return kcdo.ConditionalDensityOperator(**options)


def exact():
    X, Y = data()
    return cdo().fit(X, Y), X


def grouped():
    X, Y = data()
    X = np.round(2.0 * X)
    return cdo().fit(X, Y, sample_weight=np.linspace(0.0, 2.0, len(X))), X[:5]


def single_precision():
    X, Y = data()
    return cdo(solver=kcdo.Exact("float32")).fit(X, Y), X


def iterative():
    X, Y = data()
    return cdo(solver=kcdo.Iterative(rank=20), alpha=0.1).fit(X, Y), X


def nystrom():
    X, Y = data()
    return cdo(solver=kcdo.Nystrom(15), alpha=kcdo.CorrectedScheme()).fit(X, Y), X


def nystrom_with_given_centres():
    X, Y = data()
    return cdo(solver=kcdo.Nystrom(X[:10]), reference=kcdo.Sample(Y)).fit(X, Y), X


def scattered_outputs():
    X, Y = data()
    sobol = kcdo.QuasiRandomBox(n_nodes=64)
    return cdo(reference=sobol, filter=kcdo.IteratedTikhonov(3)).fit(X, np.c_[Y, -Y]), X


def by_the_paper():
    X, Y = data()
    return kcdo.ConditionalDensityOperator(selection="paper").fit(X, Y), X


def signed_options():
    X, Y = data()
    model = cdo(
        kernel_x=kcdo.Matern(1.0, smoothness=2.5) + kcdo.Laplace(2.0).on([1]),
        kernel_y=kcdo.Laplace(0.2),
        positivity="clip",
        filter=kcdo.PrintedForm(),
        alpha=np.float64(0.05),
        alpha_prime=kcdo.PowerScheme(0.2, 0.3),
        n_jobs=1,
        random_state=np.int64(4),
    )
    return model.fit(X, Y), X


def scikit_learn_kernel():
    X, Y = data()
    kernel = sklearn_kernels.RBF([0.5, 2.0]) * sklearn_kernels.RationalQuadratic() + 0.1
    return cdo(kernel_x=kernel).fit(X, Y), X


def uncertain():
    X, Y = data()
    return cdo().fit(X, Y), kcdo.GaussianInput(X[:4], [0.1, 0.2])


def pandas_frame():
    table = make_model_fixture.traffic(60)
    model = cdo(reference=kcdo.UniformBox(nodes=12))
    model.fit(table[["flow", "hour", "road"]], table[["speed", "noise"]])
    return model, make_model_fixture.queries()


def polars_frame():
    X, Y = data()
    frame = pl.DataFrame(X, schema=["a", "b"])
    return cdo().fit(frame, pl.Series("target", Y)), frame


CONDITIONAL = [
    exact,
    grouped,
    single_precision,
    iterative,
    nystrom,
    nystrom_with_given_centres,
    scattered_outputs,
    by_the_paper,
    signed_options,
    scikit_learn_kernel,
    uncertain,
    pandas_frame,
    polars_frame,
]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.kcdo"


@pytest.fixture(scope="module")
def whole_file(tmp_path_factory):
    """A small model file."""
    file = tmp_path_factory.mktemp("files") / "whole.kcdo"
    nystrom()[0].save(file)
    return file


# --- round trips


@pytest.mark.parametrize("case", CONDITIONAL, ids=lambda case: case.__name__)
def test_a_round_trip_changes_no_bit(case, path):
    model, queries = case()
    model.save(path)
    loaded = kcdo.load(path)
    assert_same_fit(model, loaded)
    assert_same_distributions(model.conditional(queries), loaded.conditional(queries))
    again = path.with_name("again.kcdo")
    loaded.save(again)
    assert again.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("solver", [kcdo.Exact(), kcdo.Iterative(rank=10)])
@pytest.mark.parametrize("on_grid", [True, False])
def test_models_too_large_for_one_matrix(solver, on_grid, path, monkeypatch):
    monkeypatch.setattr(operators, "_LARGEST_MODEL", 1)
    X, Y = data(64)
    if on_grid:
        X = np.stack(np.meshgrid(np.arange(8.0), np.arange(8.0)), axis=-1).reshape(-1, 2)
    model = cdo(solver=solver).fit(X, Y)
    model.save(path)
    loaded = kcdo.load(path)
    assert_same_distributions(model.conditional(X), loaded.conditional(X))
    assert loaded._operator.values.system is loaded._operator.system
    factor = loaded._operator.system.factor
    if isinstance(solver, kcdo.Exact):
        assert isinstance(factor, CholeskyFactor)
    else:
        assert isinstance(factor, ConjugateGradients)
        assert isinstance(getattr(factor._product, "__self__", None), GridToeplitz) == on_grid


def test_the_mean_operator(path):
    X, Y = data()
    model = kcdo.ConditionalMeanOperator().fit(X, np.c_[Y, Y**2])
    model.save(path)
    loaded = kcdo.load(path)
    assert_same_fit(model, loaded)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    first, second = model.embedding(X[:1])[0], loaded.embedding(X[:1])[0]
    np.testing.assert_array_equal(first([[0.1, 0.2]]), second([[0.1, 0.2]]))
    assert path.stat().st_size < 8 * len(X) * (len(X) / 2 + 10) + 16_000  # half of the factor


@pytest.mark.parametrize("reference", [None, kcdo.Sample(np.linspace(-1, 1, 20))])
def test_the_density_of_a_sample(reference, path):
    _, Y = data()
    frame = pl.DataFrame({"y": Y})
    model = kcdo.DensityReconstruction(reference=reference).fit(frame)
    model.save(path)
    loaded = kcdo.load(path)
    assert_same_fit(model, loaded)
    np.testing.assert_array_equal(loaded.pdf(frame), model.pdf(frame))
    assert isinstance(loaded.distribution().to_frame(["mean"]), pl.DataFrame)


def test_columns_and_categories_are_kept(path):
    model, queries = pandas_frame()
    model.save(path)
    loaded = kcdo.load(str(path))
    assert list(loaded.feature_names_in_) == ["flow", "hour", "road"]
    assert loaded.target_names_ == ("speed", "noise")
    pd.testing.assert_frame_equal(
        loaded.conditional(queries).to_frame(["mean"]),
        model.conditional(queries).to_frame(["mean"]),
    )
    with pytest.raises(ValueError, match="feature names"):
        loaded.conditional(queries.rename(columns={"flow": "other"}))
    queries["road"] = "footpath"
    with pytest.raises(kcdo.InvalidInputError, match="'road' has the category 'footpath'"):
        loaded.conditional(queries)


def test_categories_may_be_numbers_and_tuples(path):
    X = np.empty((6, 1), dtype=object)
    X[:, 0] = [1, 2.5, True, (1, "a"), "b", np.int64(7)]
    model = cdo(kernel_x=kcdo.Categorical(1.0)).fit(X, np.arange(6.0))
    model.save(path)
    np.testing.assert_array_equal(kcdo.load(path).predict(X), model.predict(X))


def test_partial_fit_goes_on_after_loading(path):
    X, Y = data(120)
    model = cdo(solver=kcdo.Nystrom(15)).fit(X[:60], Y[:60])
    model.save(path)
    loaded = kcdo.load(path)
    worker = loaded.worker().partial_fit(X[90:], Y[90:])
    for each in (model, loaded):
        each.partial_fit(X[60:90], Y[60:90])
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.merge(worker).report_.n_samples == 120


def test_sums_may_be_left_out(path):
    model, X = nystrom()
    model.save(path)
    size = path.stat().st_size
    model.save(path, sums=False)
    assert path.stat().st_size < 0.7 * size
    assert hasattr(model, "sums_")
    loaded = kcdo.load(path)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    with pytest.warns(kcdo.KcdoWarning, match="kept no sums"):
        loaded.partial_fit(*data())


def test_what_was_shared_is_shared_again(path):
    nystrom()[0].save(path)
    loaded = kcdo.load(path)
    assert loaded._plan.output is loaded._operator.output
    assert loaded._plan.centres is loaded._operator.system.centres


def test_a_file_says_what_it_is(path):
    model, _ = pandas_frame()
    model.save(path)
    info = model_info(path)
    assert info["format"] == "kcdo-model"
    assert info["kcdo"] == kcdo.__version__
    assert info["libraries"]["numpy"] == np.__version__
    assert info["model"] == "ConditionalDensityOperator"
    assert info["feature_names"] == ["flow", "hour", "road"]
    assert info["target_names"] == ["speed", "noise"]
    assert info["report"]["n_samples"] == 60
    assert "Categorical" in info["report"]["kernel_x"]
    assert "nodes=12" in info["parameters"]["reference"]
    assert "objects" not in info
    with zipfile.ZipFile(path) as file:  # any zip tool opens it, any NumPy reads it
        assert file.testzip() is None
        assert np.load(io.BytesIO(file.read("arrays/a0.npy")), allow_pickle=False).size


@pytest.mark.parametrize("dump", [pickle, joblib], ids=["pickle", "joblib"])
@pytest.mark.parametrize("case", [nystrom, pandas_frame], ids=lambda case: case.__name__)
def test_pickle_and_clone_still_work(dump, case, tmp_path):
    model, queries = case()
    file = tmp_path / "model.bin"
    with open(file, "wb") as stream:
        dump.dump(model, stream)
    with open(file, "rb") as stream:
        assert_same_distributions(
            dump.load(stream).conditional(queries), model.conditional(queries)
        )
    model.save(tmp_path / "model.kcdo")
    assert clone(kcdo.load(tmp_path / "model.kcdo")).get_params().keys() == (
        model.get_params().keys()
    )


# --- older and later files


@pytest.mark.parametrize("file", FIXTURES, ids=lambda file: file.stem)
def test_older_files_keep_loading(file):
    model = kcdo.load(file)
    expected = json.loads(file.with_suffix(".json").read_text())
    found = model.conditional(make_model_fixture.queries()).to_frame(make_model_fixture.STATISTICS)
    assert list(found.columns) == list(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-6)
    more = make_model_fixture.traffic(100).tail(20)
    X, Y = more[["flow", "hour", "road"]], more[list(model.target_names_)]
    if hasattr(model, "sums_"):
        assert model.partial_fit(X, Y).report_.n_samples == 100
    else:
        assert model.refit(X, Y["speed"]).report_.n_samples == 20


def test_there_are_files_of_the_first_version():
    assert [file.name for file in FIXTURES[:2]] == ["model-1.0-auto.kcdo", "model-1.0.kcdo"]


def test_the_script_of_the_files_still_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(make_model_fixture, "FOLDER", tmp_path)
    make_model_fixture.main()
    written = sorted(tmp_path.glob("*.kcdo"))
    assert len(written) == len(make_model_fixture.MODELS)
    for file in written:
        assert isinstance(kcdo.load(file), kcdo.ConditionalDensityOperator)


def test_a_later_major_version_is_refused(whole_file, path):
    def later(metadata):
        metadata.update(version="2.0", kcdo="9.1")

    forge(whole_file, path, later)
    with pytest.raises(
        kcdo.ModelFileError, match=r"version 2\.0, written by kcdo 9\.1; .*: upgrade kcdo"
    ):
        kcdo.load(path)
    with pytest.raises(kcdo.ModelFileError, match="upgrade kcdo"):
        model_info(path)


def test_a_later_minor_version_is_tried(whole_file, path):
    forge(whole_file, path, lambda metadata: metadata.update(version="1.99", more="news"))
    assert kcdo.load(path).predict([[0.0, 0.0]]).shape == (1,)

    def unknown(metadata):
        metadata["version"] = "1.99"
        metadata["objects"][0]["class"] = "KernelOfTheFuture"

    forge(whole_file, path, unknown)
    with pytest.raises(kcdo.ModelFileError, match=r"KernelOfTheFuture.* later kcdo .*: upgrade"):
        kcdo.load(path)


def test_fields_added_later_get_their_default(whole_file, path):
    def older(metadata):
        for record in metadata["objects"]:
            if record["class"] == "Wishes":
                del record["fields"]["seed"]
            if record["class"] == "InputEncoder":
                del record["fields"]["library"]
            if record["class"] == "ConditionalDensityOperator":
                parameters = record["fields"]["parameters"]["$dict"]
                parameters[:] = [pair for pair in parameters if pair[0] != "verbose"]

    forge(whole_file, path, older)
    loaded = kcdo.load(path)
    assert loaded.verbose is False
    assert loaded._plan.wishes.seed == 0


# --- what cannot be saved


def kernel_function(A, B):
    return np.exp(-np.abs(A[:, :1] - B[:, :1].T))


@pytest.mark.parametrize("kernel", [kernel_function, kcdo.Adapter(kernel_function)])
def test_functions_are_refused(kernel, path):
    model = cdo(kernel_x=kernel).fit(*data())
    with pytest.raises(kcdo.InvalidTypeError, match=r"kernel_function.* hold no code.* pickle"):
        model.save(path)
    assert not path.exists()


def test_unknown_objects_are_refused(path):
    X = np.array([[pd.Timestamp("2020-01-01")], [pd.Timestamp("2021-01-01")]], dtype=object)
    model = cdo(kernel_x=kcdo.Categorical(1.0)).fit(X, [0.0, 1.0])
    with pytest.raises(kcdo.InvalidTypeError, match=r"categories, a Timestamp \(2020-01-01"):
        model.save(path)


def test_subclasses_are_refused(path):
    class Mine(kcdo.ConditionalDensityOperator):
        pass

    model = Mine(selection="heuristic").fit(*data())
    with pytest.raises(kcdo.InvalidTypeError, match="cannot hold the model, a Mine"):
        model.save(path)


def test_strange_numbers_are_refused():
    with pytest.raises(kcdo.InvalidTypeError, match="an array of float16"):
        encode(kcdo.Adapter(sklearn_kernels.RBF(np.ones(2, np.float16))))
    with pytest.raises(kcdo.ModelFileError, match=r"Grid\.lower contains NaN or infinity"):
        encode(kcdo.measures.Grid(np.array([-np.inf]), np.ones(1), (4,)))


def test_an_unfitted_model_is_refused(path):
    with pytest.raises(NotFittedError):
        cdo().save(path)


def test_endless_names_are_refused(path, monkeypatch):
    model, _ = exact()
    monkeypatch.setattr(archive, "_LARGEST_METADATA", 1000)
    with pytest.raises(kcdo.ModelFileError, match="too much for a model file"):
        model.save(path)


# --- written whole or not at all


@pytest.mark.parametrize("trouble", [OSError(errno.ENOSPC, "disk full"), KeyboardInterrupt()])
def test_a_failed_save_leaves_everything_as_it_was(trouble, path, monkeypatch):
    path.write_bytes(b"before")
    model, _ = exact()

    def fail(*_, **__):
        raise trouble

    monkeypatch.setattr(np.lib.format, "write_array", fail)
    with pytest.raises(type(trouble)) as caught:
        model.save(path)
    assert getattr(caught.value, "filename", str(path)) == str(path)
    assert path.read_bytes() == b"before"
    assert list(path.parent.iterdir()) == [path]


def test_a_save_into_no_folder_names_it(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere.model\.kcdo'"):
        exact()[0].save(tmp_path / "nowhere" / "model.kcdo")


def test_a_folder_is_not_replaced(tmp_path):
    before = set(tmp_path.parent.iterdir())
    with pytest.raises(IsADirectoryError, match="Is a directory"):
        exact()[0].save(tmp_path)
    assert set(tmp_path.parent.iterdir()) == before


# --- files that are not model files


@pytest.mark.parametrize(
    "content",
    [b"", b"PK", b"x,y\n1,2\n", pickle.dumps({"a": 1}), b"\x93NUMPY\x01\x00" + b" " * 100],
    ids=["empty", "two bytes", "csv", "pickle", "npy"],
)
def test_foreign_files(content, path):
    path.write_bytes(content)
    with pytest.raises(kcdo.ModelFileError, match=r"cannot load '.*model.kcdo': it is not a kcdo"):
        kcdo.load(path)


def test_foreign_zip_files(path):
    with open(path, "wb") as file:
        np.savez(file, a=np.ones(3))
    with pytest.raises(kcdo.ModelFileError, match="not a kcdo model file, or it is cut short"):
        kcdo.load(path)
    seal(path)
    with pytest.raises(kcdo.ModelFileError, match="its metadata are missing"):
        kcdo.load(path)


def test_a_missing_file_is_missing(path):
    with pytest.raises(FileNotFoundError):
        kcdo.load(path)


def test_every_error_is_a_value_error_of_ours():
    assert issubclass(kcdo.ModelFileError, ValueError)
    assert issubclass(kcdo.ModelFileError, kcdo.KcdoError)


@given(st.data())
def test_a_truncated_file_is_refused(whole_file, data):
    content = whole_file.read_bytes()
    kept = data.draw(st.integers(0, len(content) - 1))
    changed = whole_file.with_name("cut.kcdo")
    changed.write_bytes(content[:kept])
    with pytest.raises(kcdo.ModelFileError, match=r"cut short|not a kcdo model file"):
        kcdo.load(changed)


@given(st.data())
def test_any_changed_byte_is_noticed(whole_file, data):
    content = bytearray(whole_file.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    changed = whole_file.with_name("flipped.kcdo")
    changed.write_bytes(content)
    with pytest.raises(kcdo.ModelFileError):
        kcdo.load(changed)


# --- forged files: a good seal, and contents made to harm


class Bomb:
    """Writes a file where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (Path(self.path),))


def test_a_forged_copy_without_changes_loads(whole_file, path):
    forge(whole_file, path)
    np.testing.assert_array_equal(
        kcdo.load(path).predict([[0.0, 0.1]]), kcdo.load(whole_file).predict([[0.0, 0.1]])
    )


def test_a_pickle_in_an_array_is_not_run(whole_file, path, tmp_path):
    mark = tmp_path / "ran"
    evil = np.array([Bomb(mark)], dtype=object)
    forge(whole_file, path, members={"arrays/a0.npy": npy(evil, allow_pickle=True)})
    with pytest.raises(kcdo.ModelFileError, match=r"unknown kind '\|O'"):
        kcdo.load(path)
    forge(whole_file, path, members={"arrays/a0.npy": pickle.dumps(Bomb(mark))})
    with pytest.raises(kcdo.ModelFileError, match="not an array of plain numbers"):
        kcdo.load(path)
    assert not mark.exists()


@pytest.mark.parametrize(
    "name", ["os.system", "builtins.eval", "kcdo.kernels.Gaussian", "gaussian", "", None, 3, []]
)
def test_only_registered_names_are_made(name, whole_file, path):
    before = set(sys.modules)

    def edit(metadata):
        metadata["objects"][0]["class"] = name

    forge(whole_file, path, edit)
    with pytest.raises(kcdo.ModelFileError, match="which no model file may hold"):
        kcdo.load(path)
    assert set(sys.modules) == before


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (npy(np.ones(3)[:, None])[:-8], "does not have the size"),
        (npy(np.ones(3)) + b"more", "does not have the size"),
        (npy(np.ones((0, 1 << 40))), "does not have the size"),  # takes no bytes, and any memory
        (npy(np.ones(3)).replace(b"(3,)", b"(-3,)"), "not an array of plain"),
        (npy(np.ones(3)).replace(b"'<f8'", b"__imp"), "not an array of plain"),
        (npy(np.ones(3, np.float16)), "unknown kind '<f2'"),
        (npy(np.array(["text"])), "unknown kind"),
        (npy(np.array([np.nan])), "contains NaN or infinity"),
        (npy(np.ones(3, bool))[:-1] + b"\x02", "truth values"),
        (npy(np.ones(3)), r"shape \(3,\) is not \(None, None\)"),
        (npy(np.ones((15, 3))), "2 scales but the data have 3 columns"),
        (npy(np.ones((15, 2), np.int64)), "damaged"),
        (npy(np.ones((15, 2), np.complex128)), "centres must not be of the kind complex128"),
        (npy(np.ones((4, 2))), "do not fit"),
        (b"", "not an array of plain"),
    ],
)
def test_forged_arrays(member, message, whole_file, path):
    forge(whole_file, path, members={"arrays/a0.npy": member})
    with pytest.raises(kcdo.ModelFileError, match=message):
        kcdo.load(path)


def billion_laughs(metadata):
    """A few records, each the sum of the one before with itself."""
    first = len(metadata["objects"])
    metadata["objects"].append({"class": "Gaussian", "fields": {"scale": 1.0}})
    for i in range(60):
        twice = {"$tuple": [{"$ref": first + i}] * 2}
        metadata["objects"].append({"class": "Sum", "fields": {"kernels": twice}})


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda m: m.update(format="other"), "not a kcdo model file"),
        (lambda m: m.update(version="new"), "does not say which version"),
        (lambda m: m.pop("objects"), "no list of objects"),
        (lambda m: m.update(objects=[]), "no list of objects"),
        (lambda m: m["objects"].append(m["objects"][0]), "is no model"),
        (lambda m: m["objects"].append([]), "no class and fields"),
        (lambda m: m["objects"].append({"class": "Grid", "fields": []}), "fields of Grid are not"),
        (with_field("Grid", "lower", None), r"Grid\.lower must not be of the kind NoneType"),
        (with_field("Grid", "lower", {"$array": "zz"}), r"value of unknown kind, '\$array'"),
        (with_field("Grid", "lower", {"$eval": "1"}), r"value of unknown kind, '\$eval'"),
        (with_field("Grid", "shape", {"$tuple": [1 << 33, 1 << 33]}), "do not fit"),
        (with_field("Grid", "shape", {"$tuple": [1 << 62]}), "too many nodes"),
        (with_field("Grid", "shape", {"$tuple": [25]}), "do not fit"),
        (with_field("Grid", "colour", 3), "Grid has an unknown field 'colour'"),
        (lambda m: records(m, "Grid")[0].pop("shape"), "Grid lacks its field 'shape'"),
        (with_field("Gaussian", "scale", -1.0), "positive and finite"),
        (with_field("Gaussian", "scale", {"$float": "nan"}), "positive and finite"),
        (with_field("Gaussian", "scale", {"$scalar": ["<f8", "x"]}), "damaged"),
        (with_field("Gaussian", "scale", {"$scalar": ["|O", 1]}), r"unknown kind '\|O'"),
        (with_field("Gaussian", "scale", nested(3)), r"Gaussian\.scale must not be"),
        (with_field("DensityKernel", "dim", 10**12), "dimension of an output kernel"),
        (with_field("Reconstruction", "ridge", 0.0), "alpha_prime must be positive"),
        (with_field("Reconstruction", "kernel", {"$ref": 0}), "Reconstruction.kernel must not be"),
        (with_field("Reconstruction", "kernel", {"$ref": 10**6}), "value of unknown kind"),
        (with_field("Centres", "n_jobs", 0), "n_jobs must not be 0"),
        (with_field("DensityOperator", "positivity", "none"), "positivity must not be"),
        (with_field("NystromSums", "n_targets", 3), "rows of sums"),
        (with_field("NystromSums", "n_targets", 10**6), "do not fit"),
        (with_field("StreamPlan", "chunk_rows", 0), "chunks without rows"),
        (with_field("InputEncoder", "objects", True), "inputs that are not numbers"),
        (part_of_fit("n_features_in_", 3), "number of input columns"),
        (part_of_fit("_n_outputs", 2), "number of outputs"),
        (part_of_fit("target_names_", {"$tuple": ["a", "b"]}), "names of outputs"),
        (part_of_fit("report_", None), "no such part 'report_'"),
        (with_field("ConditionalDensityOperator", "fit", {"$dict": []}), "NotFittedError"),
        (billion_laughs, "too many parts"),
    ],
)
def test_forged_metadata(edit, message, whole_file, path):
    forge(whole_file, path, edit)
    with pytest.raises(kcdo.ModelFileError, match=message):
        kcdo.load(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"not json", "damaged"),
        (b"[]", "not a table"),
        (b'{"a": NaN}', "contain NaN"),
        (b"\xff\xfe", "damaged"),
        (b"[" * 100_000, "damaged"),
    ],
)
def test_forged_text(text, message, whole_file, path):
    forge(whole_file, path, members={"metadata.json": text})
    with pytest.raises(kcdo.ModelFileError, match=message):
        kcdo.load(path)


def test_forged_length_of_the_text(whole_file, path, monkeypatch):
    monkeypatch.setattr(archive, "_LARGEST_METADATA", 1000)
    with pytest.raises(kcdo.ModelFileError, match="its metadata are too large"):
        kcdo.load(whole_file)


def test_forged_parts_of_the_zip(whole_file, path):
    forge(whole_file, path, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(kcdo.ModelFileError, match="compressed or encrypted"):
        kcdo.load(path)
    forge(whole_file, path, members={"arrays/../../evil.npy": npy(np.ones(1))})
    with pytest.raises(kcdo.ModelFileError, match="part of unknown kind"):
        kcdo.load(path)


def test_overlapping_parts_are_refused(whole_file, path):
    forge(whole_file, path)
    content = bytearray(path.read_bytes())
    place = content.rfind(b"PK\x01\x02")  # the last entry of the directory
    for field in (20, 24):  # its sizes, with and without compression
        content[place + field : place + field + 4] = (1 << 30).to_bytes(4, "little")
    path.write_bytes(content)
    reseal(path)
    with pytest.raises(kcdo.ModelFileError, match="overlap"):
        kcdo.load(path)


def test_a_wrong_checksum_of_a_part_is_noticed(whole_file, path):
    content = bytearray(whole_file.read_bytes())
    place = content.find(b"\x93NUMPY") + 130
    content[place] ^= 1
    path.write_bytes(content)
    reseal(path)
    with pytest.raises(kcdo.ModelFileError, match="Bad CRC"):
        kcdo.load(path)


def test_a_model_larger_than_memory_is_refused(whole_file, monkeypatch):
    monkeypatch.setattr("kcdo.memory.available_memory", lambda: 1000)
    with pytest.raises(kcdo.NotEnoughMemoryError, match="this model needs"):
        kcdo.load(whole_file)
    assert model_info(whole_file)["model"] == "ConditionalDensityOperator"


@given(st.data())
def test_forged_bytes_never_surprise(whole_file, data):
    content = bytearray(whole_file.read_bytes())
    spans = [(0, 60), (len(content) - 1500, len(content) - 72)]  # where the zip describes itself
    place = data.draw(st.one_of(*(st.integers(*span) for span in spans)))
    content[place] = data.draw(st.integers(0, 255))
    forged = whole_file.with_name("bytes.kcdo")
    forged.write_bytes(content)
    reseal(forged)
    loads_or_refuses(forged)


@settings(max_examples=120)
@given(st.data())
def test_forged_values_never_surprise(whole_file, data):
    forged = whole_file.with_name("values.kcdo")
    forge_somewhere(whole_file, forged, data)
    loads_or_refuses(forged)


# --- the register


@dataclass(frozen=True, eq=False)
class Point:
    """A dataclass of a test."""

    where: NDArray[np.floating]
    name: str = "origin"


class Plain:
    """A class with attributes."""

    def __init__(self, point):
        self._point, self._doubled = point, 2 * point.where


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(forms, "_BY_NAME", dict(forms._BY_NAME))
    monkeypatch.setattr(forms, "_BY_CLASS", dict(forms._BY_CLASS))
    monkeypatch.setattr(forms, "_LATER", dict(forms._LATER))


def test_one_line_adds_a_class(registered):
    register("Point", Point)
    register(
        "Plain", Plain, fields={"point": Point}, state=lambda p: {"point": p._point}, make=Plain
    )
    written, arrays = encode(Plain(Point(np.array([1.0, 2.0]))))
    made = decode(json.loads(json.dumps(written)), arrays)
    np.testing.assert_array_equal(made._doubled, [2.0, 4.0])
    assert made._point.name == "origin"


def test_classes_are_registered_when_first_met(registered):
    forms.register_later(Point.__module__.partition(".")[0], lambda: register("tests.Point", Point))
    forms.register_later("later", lambda: register("later.Point", Plain, fields={}))
    assert "tests.Point" not in forms._BY_NAME
    assert forms.form_of(Point(np.zeros(1))).name == "tests.Point"
    assert forms.form_called("tests.Point").cls is Point
    assert "later.Point" not in forms._BY_NAME
    assert forms.form_called("later.Point").cls is Plain


def test_a_renamed_class_reads_its_old_name(registered):
    register("OldPoint", Point, fields={"x": float}, make=lambda x: Point(np.array([x])))
    register("Point", Point)
    old = [{"class": "OldPoint", "fields": {"x": 1.5}}]
    assert decode(old, {}).where == [1.5]
    assert encode(Point(np.ones(1)))[0][0]["class"] == "Point"


def test_infinite_fields_are_declared(registered):
    register("Point", Point, infinite=("where",))
    written, arrays = encode(Point(np.array([-np.inf])))
    assert np.isinf(decode(written, arrays).where)


def test_names_are_given_once(registered):
    register("Point", Point)
    with pytest.raises(ValueError, match="two classes of model files are called 'Point'"):
        register("Point", Plain, fields={})
    with pytest.raises(TypeError, match="Plain is no dataclass: give its fields"):
        register("Plain", Plain)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        -(2**70),
        0.1,
        5e-324,
        -0.0,
        float("inf"),
        "text \ud800 \u2028",
        (1, (2.0, "a")),
        [1, [None]],
        {"a": 1, 2: {(1, 2): None}},
        np.float32(0.1),
        np.float64(1e-300),
        np.int64(-5),
        np.bool_(True),
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3)),
        np.array(["a", "bc"], dtype=object),
        np.zeros((0, 3)),
        np.array(2.5),
    ],
    ids=repr,
)
def test_values_come_back_as_they_were(value, registered, path):
    @dataclass(frozen=True, eq=False)
    class Box:
        content: Any

    register("Box", Box, infinite=("content",))
    written, arrays = encode(Box(value))
    found = decode(json.loads(json.dumps(written, allow_nan=False)), arrays).content
    assert type(found) is type(value)
    np.testing.assert_equal(found, value)
    assert getattr(found, "dtype", None) == getattr(value, "dtype", None)


def test_numbers_of_other_machines_are_written_alike():
    assert kind_of(np.dtype(">f8")) == "<f8"
    assert kind_of(np.dtype("m8[s]")) is None
    assert dtype_of("<i8") == np.int64


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (1, float, True),
        (True, float, False),
        (True, int, False),
        (True, bool, True),
        (np.int64(1), int, True),
        (1.5, int, False),
        (None, float | None, True),
        ("a", Literal["a", "b"], True),
        ("c", Literal["a", "b"], False),
        (True, Literal[1], False),
        ((1, 2), tuple[int, int], True),
        ((1, 2, 3), tuple[int, int], False),
        ([1], list[int], True),
        (["a"], list[int], False),
        ({1: "a"}, dict[int, str], True),
        ({"a": 1}, dict[int, str], False),
        (np.ones(2), NDArray[np.floating], True),
        (np.ones(2, int), NDArray[np.floating], False),
        (np.ones(2, int), NDArray, True),
        ([1.0], NDArray[np.floating], False),
        (kcdo.Gaussian(), kcdo.Kernel, True),
        ("Gaussian", kcdo.Kernel, False),
    ],
)
def test_types_of_fields(value, hint, expected):
    assert matches(value, hint) is expected
