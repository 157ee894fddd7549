"""Tables of predictions in the library of the inputs, names of outputs, the display of a model."""

import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn import config_context

import kcdo
from kcdo.frames import Labels, frame_library, take_rows, target_names

N = 40


@pytest.fixture
def arrays():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1.0, 1.0, (N, 2))
    return X, np.column_stack([X[:, 0] + 0.1 * rng.standard_normal(N), 10.0 * X[:, 1]])


def fitted(X, Y):
    nodes = kcdo.UniformBox(nodes=20)
    return kcdo.ConditionalDensityOperator(reference=nodes, selection="heuristic").fit(X, Y)


def pandas_pair(X, Y):
    index = pd.Index([f"row {i}" for i in range(N)], name="place")
    return (
        pd.DataFrame(X, columns=["flow", "hour"], index=index),
        pd.DataFrame(Y, columns=["speed", "noise"], index=index),
    )


def polars_pair(X, Y):
    return pl.DataFrame(X, schema=["flow", "hour"]), pl.DataFrame(Y, schema=["speed", "noise"])


# --- which library, which names


class Special(pd.DataFrame):
    """A subclass, as other packages make."""


@pytest.mark.parametrize(
    ("data", "library"),
    [
        (pd.DataFrame({"a": [1]}), "pandas"),
        (pd.Series([1]), "pandas"),
        (Special({"a": [1]}), "pandas"),
        (pl.DataFrame({"a": [1]}), "polars"),
        (pl.Series([1]), "polars"),
        (pl.LazyFrame({"a": [1]}), "polars"),
        (pa.table({"a": [1]}), "pyarrow"),
        (pa.chunked_array([[1]]), "pyarrow"),
        (np.zeros((2, 2)), None),
        ([[1.0]], None),
        (None, None),
    ],
)
def test_library_of_data(data, library):
    assert frame_library(data) == library


@pytest.mark.parametrize(
    "data",
    [
        pd.DataFrame({"a": range(5)}, index=list("vwxyz")),
        pd.Series(range(5), index=[4, 3, 2, 1, 0]),
        pl.DataFrame({"a": range(5)}),
        pl.Series(range(5)),
        pl.LazyFrame({"a": range(5)}),
        pa.table({"a": range(5)}),
        pa.chunked_array([range(5)]),
        np.arange(5)[:, None],
        [[0], [1], [2], [3], [4]],
        (0, 1, 2, 3, 4),
    ],
    ids=lambda data: f"{type(data).__module__.partition('.')[0]}-{type(data).__name__}",
)
def test_rows_of_any_kind_of_data(data):
    for rows, wanted in ((slice(1, 3), [1, 2]), (np.array([4, 0]), [4, 0])):
        some = take_rows(data, rows)
        np.testing.assert_array_equal(np.ravel(np.asarray(some)), wanted)
        assert frame_library(some) == frame_library(data)


@pytest.mark.parametrize(
    ("outputs", "names"),
    [
        (pd.Series([1.0], name="speed"), ("speed",)),
        (pd.Series([1.0]), None),
        (pd.DataFrame([[1.0, 2.0]]), None),  # numbered columns are no names
        (pd.DataFrame([[1.0, 2.0]], columns=["a", "b"]), ("a", "b")),
        (pl.Series("speed", [1.0]), ("speed",)),
        (pl.Series([1.0]), None),
        (pl.DataFrame({"a": [1.0], "b": [2.0]}), ("a", "b")),
        (pa.table({"a": [1.0], "b": [2.0]}), ("a", "b")),
        (pa.chunked_array([[1.0]]), None),
        (np.zeros(3), None),
    ],
)
def test_names_of_outputs(outputs, names):
    assert target_names(outputs) == names


def test_estimators_know_the_names_of_their_outputs(arrays):
    X, Y = arrays
    assert fitted(X, Y).target_names_ is None
    assert fitted(*pandas_pair(X, Y)).target_names_ == ("speed", "noise")
    series = polars_pair(X, Y)[1]["speed"]
    assert kcdo.ConditionalMeanOperator().fit(X, series).target_names_ == ("speed",)


def test_a_new_fit_forgets_the_names(arrays):
    X, Y = arrays
    model = fitted(*pandas_pair(X, Y))
    assert model.fit(X, Y).target_names_ is None


def test_chunks_give_the_names_of_the_first(arrays):
    frames = [polars_pair(*arrays), polars_pair(*arrays)]
    model = kcdo.ConditionalDensityOperator(
        reference=kcdo.UniformBox(nodes=12), solver=kcdo.Nystrom(10), selection="heuristic"
    ).fit(frames)
    assert model.target_names_ == ("speed", "noise")
    uncertain = kcdo.GaussianInput(arrays[0][:2], 0.1)
    assert isinstance(model.conditional(uncertain).to_frame(["mean"]), pl.DataFrame)


# --- tables


def test_pandas_in_pandas_out_with_its_index(arrays):
    X, Y = pandas_pair(*arrays)
    dist = fitted(X, Y).conditional(X)
    table = dist.to_frame(["mean", "q05"])
    assert list(table.columns) == ["speed_mean", "noise_mean", "speed_q05", "noise_q05"]
    pd.testing.assert_index_equal(table.index, X.index)
    np.testing.assert_array_equal(table[["speed_mean", "noise_mean"]], dist.mean())
    np.testing.assert_array_equal(table["noise_q05"], dist.quantile(0.05)[:, 1])


def test_polars_in_polars_out(arrays):
    X, Y = polars_pair(*arrays)
    dist = fitted(X, Y).conditional(X)
    table = dist.to_frame(["sd"])
    assert isinstance(table, pl.DataFrame)
    assert table.columns == ["speed_sd", "noise_sd"]
    np.testing.assert_array_equal(table.to_numpy(), dist.std())


def test_pyarrow_in_pyarrow_out(arrays):
    X, Y = (pa.Table.from_pandas(part, preserve_index=False) for part in pandas_pair(*arrays))
    dist = fitted(X, Y).conditional(X)
    table = dist.to_frame(["mean"])
    assert isinstance(table, pa.Table)
    assert table.column_names == ["speed_mean", "noise_mean"]
    np.testing.assert_array_equal(np.column_stack(table.columns), dist.mean())


def test_the_query_decides_before_the_training_data(arrays):
    model = fitted(*polars_pair(*arrays))
    frame, _ = pandas_pair(*arrays)
    assert isinstance(model.conditional(frame).to_frame(["mean"]), pd.DataFrame)


def test_arrays_get_the_library_of_the_training_data(arrays):
    X, Y = polars_pair(*arrays)
    model = fitted(X, Y)
    uncertain = kcdo.GaussianInput(arrays[0][:3], 0.1)
    assert isinstance(model.conditional(uncertain).to_frame(["mean"]), pl.DataFrame)
    plain = fitted(*arrays).conditional(arrays[0][:3]).to_frame(["mean"])
    assert isinstance(plain, pd.DataFrame)
    assert list(plain.columns) == ["y0_mean", "y1_mean"]


@pytest.mark.parametrize("column", [slice(0, 1), 0])
def test_one_output_needs_no_name(arrays, column):
    X, Y = arrays
    table = fitted(X, Y[:, column]).conditional(X).to_frame(["mean", "logpdf"], Y[:, column])
    assert list(table.columns) == ["mean", "logpdf"]
    assert table.shape == (N, 2)


def test_parts_keep_their_labels(arrays):
    X, Y = pandas_pair(*arrays)
    dist = fitted(X, Y).conditional(X)
    whole = dist.to_frame(["mean"])
    some = np.array([7, 2])
    pd.testing.assert_frame_equal(dist[some].to_frame(["mean"]), whole.iloc[some])
    swapped = dist.marginal([1, 0])[3:5].to_frame(["mean"])
    assert list(swapped.columns) == ["noise_mean", "speed_mean"]
    assert list(swapped.index) == ["row 3", "row 4"]
    np.testing.assert_allclose(swapped[whole.columns], whole.iloc[3:5])
    assert list(dist.marginal(-1).to_frame(["sd"]).columns) == ["sd"]


def test_a_density_without_inputs_has_a_table_too(arrays):
    _, Y = polars_pair(*arrays)
    model = kcdo.DensityReconstruction(reference=kcdo.UniformBox(nodes=20)).fit(Y)
    table = model.distribution().to_frame(["mean"])
    assert isinstance(table, pl.DataFrame)
    assert table.columns == ["speed_mean", "noise_mean"]


def test_equal_names_are_refused():
    labels = Labels("polars", outputs=("a", "a"))
    with pytest.raises(kcdo.InvalidInputError, match="called 'a_mean': rename the outputs"):
        labels.frame({"mean": np.zeros((2, 2))}, np.arange(2))


def test_a_missing_library_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "modin"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "modin", None)
    with pytest.raises(ImportError, match="Tables need modin: pip install modin"):
        Labels("modin").frame({"mean": np.zeros(2)}, np.arange(2))


# --- missing values and categories, which every library has its own types for

COLOURS = ["red", "blue"]


def with_colours(kind):
    """Numbers and colours in a frame, the colours of a type for categories."""
    x, colours = np.linspace(0.0, 1.0, 20), COLOURS * 10
    return {
        "pandas category": lambda: pd.DataFrame({"x": x, "c": pd.Categorical(colours)}),
        "pandas text": lambda: pd.DataFrame({"x": x, "c": pd.array(colours, dtype="string")}),
        "pandas arrow": lambda: pd.DataFrame(
            {"x": x, "c": pd.array(colours, pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string())))}
        ),
        "polars categorical": lambda: pl.DataFrame(
            {"x": x, "c": pl.Series(colours, dtype=pl.Categorical)}
        ),
        "polars enum": lambda: pl.DataFrame(
            {"x": x, "c": pl.Series(colours, dtype=pl.Enum(["green", *COLOURS]))}
        ),
        "polars lazy": lambda: pl.LazyFrame({"x": x, "c": colours}),
        "pyarrow": lambda: pa.table({"x": x, "c": colours}),
        "pyarrow dictionary": lambda: pa.table(
            {"x": x, "c": pa.array(colours).dictionary_encode()}
        ),
    }[kind]()


@pytest.mark.parametrize(
    "kind",
    [
        *("pandas category", "pandas text", "pandas arrow", "polars categorical"),
        *("polars enum", "polars lazy", "pyarrow", "pyarrow dictionary"),
    ],
)
def test_categories_of_every_library_are_the_same(kind):
    y = np.linspace(0.0, 1.0, 20) + np.tile([0.0, 5.0], 10)
    known = pd.DataFrame({"x": np.linspace(0.0, 1.0, 20), "c": COLOURS * 10})
    truth = kcdo.ConditionalDensityOperator(selection="heuristic").fit(known, y)
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(with_colours(kind), y)
    assert model.feature_names_in_.tolist() == ["x", "c"]
    np.testing.assert_array_equal(model.predict(with_colours(kind)), truth.predict(known))


NUMBERS = [1.0, None, 3.0, 4.0, 5.0, 6.0]


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"a": pd.array(NUMBERS, dtype="Int64")}),
        pd.DataFrame({"a": pd.array(NUMBERS, dtype="Float64")}),
        pd.DataFrame({"a": pd.array(NUMBERS, dtype="float64[pyarrow]")}),
        pl.DataFrame({"a": [None if v is None else int(v) for v in NUMBERS]}),
        pl.DataFrame({"a": NUMBERS}),
        pa.table({"a": NUMBERS}),
    ],
    ids=["Int64", "Float64", "arrow", "polars-int", "polars-float", "pyarrow"],
)
def test_missing_numbers_of_every_library_are_nan(table):
    y = np.arange(6.0)
    with pytest.raises(kcdo.InvalidInputError, match="NaN in column 'a', 1 of 6 rows"):
        kcdo.ConditionalDensityOperator(selection="heuristic").fit(table, y)
    with pytest.raises(kcdo.InvalidInputError, match="Y contains NaN in column 'a', 1 of 6 rows"):
        kcdo.ConditionalDensityOperator(selection="heuristic").fit(y[:, None], table)
    model = kcdo.ConditionalDensityOperator(selection="heuristic", missing="marginalise")
    assert np.isfinite(model.fit(table, y).predict(table)).all()


@pytest.mark.parametrize(
    "colours",
    [
        pd.DataFrame({"c": pd.Categorical(["red", None, "blue"])}),
        pd.DataFrame({"c": pd.array(["red", None, "blue"], dtype="string")}),
        pl.DataFrame({"c": pl.Series(["red", None, "blue"], dtype=pl.Enum(COLOURS))}),
        pa.table({"c": ["red", None, "blue"]}),
    ],
    ids=["category", "string", "enum", "pyarrow"],
)
def test_missing_categories_are_refused(colours):
    with pytest.raises(kcdo.InvalidInputError, match="NaN in categorical column 'c'"):
        kcdo.ConditionalDensityOperator(selection="heuristic").fit(colours, [0.0, 1.0, 2.0])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pd.DataFrame([[0.0, 1.0]] * 3, columns=["a", "a"]), "two columns of X are called 'a': re"),
        (
            pa.Table.from_arrays([pa.array([0.0, 1.0, 2.0])] * 2, names=["a", "a"]),
            "two columns have the same name: rename one. (.|\n)*'a'",
        ),
    ],
    ids=["pandas", "pyarrow"],
)
def test_columns_of_one_name_are_refused(table, message):
    with pytest.raises(kcdo.InvalidInputError, match=message):
        kcdo.ConditionalDensityOperator(selection="heuristic").fit(table, [0.0, 1.0, 2.0])


# --- the display of a model


def test_a_fitted_model_shows_its_report(arrays):
    model = kcdo.ConditionalDensityOperator(kcdo.Gaussian(0.5), selection="heuristic")
    assert "n_centres" not in model._repr_html_()
    model.fit(*arrays)
    for html in (model._repr_html_(), model._repr_mimebundle_()["text/html"]):
        assert "sk-top-container" in html  # scikit-learn's diagram
        assert ">n_centres</th>" in html
        assert f">{N}</td>" in html
        assert "Gaussian(scale=0.5)" in html


def test_the_report_is_escaped(arrays):
    model = fitted(*arrays)
    object.__setattr__(model.report_, "method", "<script>")
    assert "&lt;script&gt;" in model._repr_html_()
    assert "<td><script>" not in model._repr_html_()


def test_text_display_has_no_html(arrays):
    model = fitted(*arrays)
    with config_context(display="text"):
        assert not hasattr(model, "_repr_html_")
        assert "text/html" not in model._repr_mimebundle_()


def test_an_estimator_without_report_shows_the_diagram(arrays):
    model = kcdo.ConditionalMeanOperator().fit(*arrays)
    assert "n_centres" not in model._repr_html_()
