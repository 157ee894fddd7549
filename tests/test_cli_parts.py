"""Parts of the command line, within this process."""

import io
import os
import warnings

import numpy as np
import pandas as pd
import pytest

import kcdo
from kcdo.commands.app import session
from kcdo.commands.columns import Column, Place, labels, numbers
from kcdo.commands.console import Console
from kcdo.commands.kinds import Kind
from kcdo.commands.models import Model
from kcdo.commands.naming import Role
from kcdo.commands.queries import Query
from kcdo.commands.sources import Source
from kcdo.commands.writing import output_path
from kcdo.errors import InvalidInputError, KcdoWarning
from tests.command_line import fail_here, run, succeed_here


def table_of(tmp_path, text):
    path = tmp_path / "table.csv"
    path.write_text(text, encoding="utf-8", newline="")
    return Source.of([str(path)]).open()


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("a,b\n1,2\n", ["a", "b"]),
        ("a;b\n1,5;2\n", ["a", "b"]),
        ("a\tb, c\n1\t2\n", ["a", "b, c"]),
        ("\n  \n a , b \n1,2\n", ["a", "b"]),
        ("a\n1\n", ["a"]),
        ('"x;y";"z"\n"1;2";3\n', ["x;y", "z"]),
        ('\ufeff"a","b"\r1,2\r', ["a", "b"]),
        ("a,,\n1,,\n", ["a", "", ""]),
    ],
)
def test_headers_and_delimiters(tmp_path, text, columns):
    with table_of(tmp_path, text) as table:
        assert table.columns == columns
        (chunk,) = table.chunks(10)
        assert len(chunk) == 1


@pytest.mark.parametrize("rows", [1, 2, 3, 100])
def test_chunks_hold_all_records_as_they_stand(tmp_path, rows):
    records = ["1,x\n", '2,"a\n""b"""\n', '3,5" pipe\n', '"4",""\r\n', "5,end"]
    with table_of(tmp_path, "n,s\n" + "".join(records)) as table:
        chunks = list(table.chunks(rows))
        assert table.position() == table.size
    assert [record for chunk in chunks for record in chunk.records] == records
    lengths = [len(chunk) for chunk in chunks]
    assert max(lengths) <= rows
    assert [chunk.place.start for chunk in chunks] == [
        1 + sum(lengths[:i]) for i in range(len(chunks))
    ]
    frame = pd.concat([chunk.frame({"s": Role.CATEGORY, "n": Role.NUMBER}) for chunk in chunks])
    assert frame["n"].tolist() == [1, 2, 3, 4, 5]
    assert frame["s"].tolist() == ["x", 'a\n"b"', '5" pipe', "", "end"]


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_blank_lines_are_no_rows_wherever_chunks_end(tmp_path, rows):
    text = "a\tb\n1\t2\n\n  \n\t\n3\t4\r\n\n5\t6\n \t \n\n"
    with table_of(tmp_path, text) as table:
        chunks = list(table.chunks(rows))
    assert [record for chunk in chunks for record in chunk.records] == [
        "1\t2\n",
        "3\t4\r\n",
        "5\t6\n",
    ]
    assert chunks[-1].place.start + len(chunks[-1]) == 4


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_a_row_of_another_width_is_named(tmp_path, rows):
    table = table_of(tmp_path, "a,b\n1,2\n\n3,4\n5,6,7\n")
    with table, pytest.raises(InvalidInputError, match=r"row 3 .* has 3 fields, the header has 2"):
        list(table.chunks(rows))


def place(start=1):
    return Place("data.csv", start)


def test_numbers_and_labels():
    texts = pd.Series(["1", " 2.5", "1e3", "", "None", "NA", "-NaN"], name="x", dtype=object)
    np.testing.assert_array_equal(numbers(texts, place()), [1, 2.5, 1e3, *[np.nan] * 4])
    np.testing.assert_array_equal(numbers(pd.Series([True, False]), place()), [1, 0])
    for bad in ("1_000", "12 km", "0x10"):
        message = rf"'x' has a text .* '{bad}' in row 6 of data.csv"
        with pytest.raises(InvalidInputError, match=message):
            numbers(pd.Series(["1", bad], name="x"), place(5))
    assert labels(pd.Series([1.0, np.nan, 2.0])).tolist() == ["1", None, "2"]
    assert labels(pd.Series(["a ", "", "None"], dtype="category")).tolist() == ["a", None, "None"]
    with pytest.raises(InvalidInputError, match="holds dates"):
        numbers(pd.Series(pd.to_datetime(["2020-01-01"]), name="when"), place())


def test_a_column_is_categorical_if_nothing_in_it_is_a_number():
    column = Column("x", Role.AUTO)
    for start, part in ((1, ["", ""]), (3, ["a", "b"]), (5, ["NA", "a"])):
        column.add(pd.Series(part), place(start))
    assert column.values().tolist() == [None, None, "a", "b", None, "a"]
    with pytest.raises(InvalidInputError, match=r"'a' in row 3"):
        column.add(pd.Series(["7", "b"]), place(7))
    many = Column("id", Role.AUTO)
    many.add(pd.Series([f"r{i}" for i in range(60)]), place())
    with pytest.raises(InvalidInputError, match="60 different texts in 60 rows"):
        many.values()


def test_models_from_python_serve_too(rng):
    """Without names, and with categories that are numbers."""
    X, Y = rng.normal(size=(40, 2)), rng.normal(size=(40, 1))
    X[:, 1] = np.arange(40) % 2
    kernel = kcdo.Gaussian().on([0]) * kcdo.Categorical().on([1])
    estimator = kcdo.ConditionalDensityOperator(kernel, selection="heuristic").fit(X, Y)
    model = Model.of(estimator)
    assert (model.given, model.targets) == (["x0", "x1"], ["y"])
    assert list(model.categories) == ["x1"]
    frame = pd.DataFrame({"x1": ["1", "0"], "x0": [0.5, 0.5]})
    expected = estimator.conditional(np.array([[0.5, 1.0], [0.5, 0.0]])).mean()
    found = estimator.conditional(model.inputs(frame)).mean()
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    dist = Query.parse("x0=0.5,x1=1", model).distribution(model)
    np.testing.assert_allclose(dist.mean(), expected[:1], rtol=1e-12)
    with pytest.raises(InvalidInputError, match="ConditionalMeanOperator"):
        Model.of(kcdo.ConditionalMeanOperator().fit(X, Y))


def test_centres_make_a_smaller_model(tmp_path, rng, capsys):
    data = tmp_path / "data.csv"
    pd.DataFrame(rng.normal(size=(90, 2)), columns=["x", "y"]).to_csv(data, index=False)
    command = ["fit", data, "--target", "y", "--selection", "heuristic", "-o", tmp_path / "m.kcdo"]
    assert "(nystrom" in succeed_here(*command, "--centres", 20, capsys=capsys)


def test_damaged_columnar_files_and_dates_are_refused(tmp_path, capsys):
    pytest.importorskip("pyarrow")
    good = tmp_path / "good.parquet"
    when = pd.date_range("2020-01-01", periods=9)
    pd.DataFrame({"x": range(9), "y": range(9), "when": when}).to_parquet(good)
    torn = tmp_path / "torn.parquet"
    torn.write_bytes(good.read_bytes()[:-9])
    command = ["--target", "y", "-o", tmp_path / "m.kcdo"]
    fail_here(
        capsys,
        [
            (["fit", torn, *command], 1, ["torn.parquet cannot be read"]),
            (["fit", good, *command], 1, ["'when' holds dates"]),
        ],
    )


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(OSError, match="no permission"):
        output_path(str(tmp_path / "x.csv"), Kind.TEXT, {}, force=False)


def test_warnings_are_one_line_and_said_once(capsys):
    with session(quiet=False, as_json=False, debug=False):
        for _ in range(3):
            warnings.warn("much\n too wide", KcdoWarning, stacklevel=1)
    assert capsys.readouterr() == ("", "Warning: much too wide\n")


def test_defects_and_missing_memory_are_one_line(capsys, monkeypatch, tmp_path):
    model = tmp_path / "m.kcdo"
    model.write_text("")
    from kcdo.commands import facts

    for error, part in (
        (RuntimeError("odd"), "unexpected RuntimeError: odd"),
        (MemoryError(), "not enough memory"),
    ):

        def load(path, error=error):
            raise error

        monkeypatch.setattr(facts, "model_info", load)
        fail_here(capsys, [(["info", model], 1, [part])])

    def interrupted(path):
        raise KeyboardInterrupt

    monkeypatch.setattr(facts, "model_info", interrupted)
    assert run(["info", str(model)]) == 130
    assert capsys.readouterr().err == "Interrupted.\n"


def test_progress_is_shown_to_people_only(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for quiet, shown in ((False, True), (True, False)):
        screen = Terminal()
        monkeypatch.setattr("sys.stderr", screen)
        with Console(quiet=quiet).progress("Reading", 10) as show:
            show(5)
        assert ("Reading" in screen.getvalue()) is shown
