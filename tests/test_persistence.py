"""Model files: round trips, older and later files, and what cannot be saved."""

import errno
import io
import json
import pickle
import zipfile
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import kernels as sklearn_kernels

import kcdo
from kcdo.components import RowValues
from kcdo.linalg import CholeskyFactor, ConjugateGradients, GridToeplitz
from kcdo.persistence import archive
from kcdo.persistence.metadata import model_info
from kcdo.persistence.tree import encode
from tests import make_model_fixture
from tests.model_files import (
    assert_same_distributions,
    assert_same_fit,
    cdo,
    data,
    forge,
    nystrom,
)

FIXTURES = sorted((Path(__file__).parent / "data").glob("model-*.kcdo"))

# --- models of every kind


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
    monkeypatch.setattr("kcdo.systems.exact._LARGEST_MODEL", 1)
    X, Y = data(64)
    if on_grid:
        X = np.stack(np.meshgrid(np.arange(8.0), np.arange(8.0)), axis=-1).reshape(-1, 2)
    model = cdo(solver=solver).fit(X, Y)
    model.save(path)
    loaded = kcdo.load(path)
    assert isinstance(loaded._operator.values, RowValues)
    assert_same_distributions(model.conditional(X), loaded.conditional(X))
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
    assert path.stat().st_size < 8 * len(X) * 10 + 16_000  # no factor


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
        # moments of bounded outputs are integrated more finely now than when the file was made
        rtol = 1e-3 if name in ("mean", "sd") else 1e-6
        np.testing.assert_allclose(found[name], values, rtol=rtol)
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
            if record["class"] == "ModelSpec":
                del record["fields"]["combination"]
            if record["class"] == "InputEncoder":
                del record["fields"]["library"]
            if record["class"] == "ConditionalDensityOperator":
                parameters = record["fields"]["parameters"]["$dict"]
                parameters[:] = [pair for pair in parameters if pair[0] != "verbose"]

    forge(whole_file, path, older)
    loaded = kcdo.load(path)
    assert loaded.verbose is False
    assert loaded._plan.spec.combination == kcdo.Combination()


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
