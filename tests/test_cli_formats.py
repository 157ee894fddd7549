"""Formats of tables: the name's end decides how one is written, its bytes how it is read."""

import bz2
import csv
import gzip
import io
import json
import lzma
import shlex
import subprocess
import zipfile

import numpy as np
import pandas as pd
import pytest

from kcdo.commands.contents import Content, content_of_texts, content_of_values
from kcdo.commands.errors import UsageError
from kcdo.commands.models import load_model
from kcdo.commands.sources import Source
from kcdo.commands.style import PLAIN, Style
from tests.command_line import KCDO, fail_here, succeed, succeed_here

N = 60


def rows():
    for i in range(N):
        yield [f"{i:03d}", i * 1000, f"{i / 7:.3f}", f'"{i}", x', 20 + (i % 9) - i / 10]


TEXT = "id,n,x,note,y\n" + "".join(
    ",".join(f'"{f.replace(chr(34), chr(34) * 2)}"' if '"' in str(f) else str(f) for f in row)
    + "\n"
    for row in rows()
)
GERMAN = "id;n;x;note;y\n" + "".join(
    f"{i};{n:,}".replace(",", ".") + f";{x.replace('.', ',')};a;{y:.1f}".replace(".", ",") + "\n"
    for i, n, x, _, y in rows()
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a table, a model, and its standard deviations beside the rows of the table."""
    path = tmp_path_factory.mktemp("formats")
    (path / "data.csv").write_text(TEXT)
    command = ["fit", path / "data.csv", "--target", "y", "--given", "n,x", "--quiet"]
    succeed_here(*command, "--selection", "heuristic", "-o", path / "model.kcdo")
    predict = ["predict", path / "model.kcdo", path / "data.csv", "--stats", "sd", "--quiet"]
    succeed_here(*predict, "-o", path / "sd.csv")
    return path


def sds(folder):
    return (folder / "sd.csv").read_text()


def means(folder):
    model = load_model(folder / "model.kcdo")
    return model.estimator.predict(model.inputs(pd.read_csv(folder / "data.csv")))


def unpack(path):
    data = path.read_bytes()
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            (member,) = archive.namelist()
            assert member == path.name.removesuffix(".zip")
            return archive.read(member).decode()
    plain = {".gz": gzip.decompress, ".bz2": bz2.decompress, ".xz": lzma.decompress}
    return plain.get(path.suffix, bytes)(data).decode()


def read(path):
    if path.suffix in (".parquet", ".feather"):
        return getattr(pd, f"read_{path.suffix[1:]}")(path)
    text = unpack(path)
    if ".jsonl" in path.name:
        return pd.DataFrame(map(json.loads, text.splitlines()))
    sep = "\t" if ".tsv" in path.name else ","
    return pd.read_csv(io.StringIO(text), sep=sep, dtype={"id": str})


def test_a_table_of_text_becomes_what_the_name_says(folder, tmp_path):
    pytest.importorskip("pyarrow")
    expected = means(folder)
    endings = ("csv", "tsv", "jsonl", "parquet", "feather", "csv.bz2", "tsv.xz", "jsonl.zip")
    for ending in endings:
        out = tmp_path / f"p.{ending}"
        predict = ["predict", folder / "model.kcdo", folder / "data.csv", "--stats", "mean"]
        succeed_here(*predict, "-o", out, "--quiet")
        found = read(out)
        assert list(found) == ["id", "n", "x", "note", "y", "mean"], ending
        assert found["id"].tolist() == [f"{i:03d}" for i in range(N)], ending
        assert found["n"].dtype == "int64", ending
        assert found["note"][7] == '"7", x', ending
        np.testing.assert_allclose(found["mean"], expected, rtol=1e-7, err_msg=ending)
        again = tmp_path / "again.csv"  # what was written can be read
        predict[2:] = [out, "--stats", "sd", "-o", again, "--quiet"]
        succeed_here(*predict)
        np.testing.assert_array_equal(read(again)["sd"], read(folder / "sd.csv")["sd"])


def test_missing_fields_are_null_where_there_are_types(folder, tmp_path):
    pytest.importorskip("pyarrow")
    data = tmp_path / "gaps.csv"
    data.write_text(",n,x,count,note\n1,5,0.5,7,a\n2,,0.5,,\n3,4,NA,12345678901234567,b\n")
    for ending in ("parquet", "jsonl"):
        out = tmp_path / f"p.{ending}"
        command = ["predict", folder / "model.kcdo", data, "--stats", "mean", "--skip-missing"]
        succeed_here(*command, "-o", out, "--quiet")
        rows = (
            pd.read_parquet(out, dtype_backend="pyarrow").to_dict("records")
            if ending == "parquet"
            else list(map(json.loads, out.read_text().splitlines()))
        )
        assert [row["column_1"] for row in rows] == [1, 2, 3]
        assert rows[0]["count"] == 7
        assert rows[2]["count"] == 12345678901234567  # no detour by floats
        assert [pd.isna(row["mean"]) for row in rows] == [False, True, True]
        assert pd.isna(rows[1]["count"])
        assert pd.isna(rows[1]["note"])


def test_columnar_and_json_tables_become_text(folder, tmp_path):
    pytest.importorskip("pyarrow")
    table = pd.DataFrame({"x": [0.5, 1.5], "n": [1, 2], "when": pd.to_datetime(["2020-01-01"] * 2)})
    table.to_parquet(tmp_path / "t.parquet")
    predict = ["predict", folder / "model.kcdo", "--stats", "mean", "--quiet"]
    succeed_here(*predict, tmp_path / "t.parquet", "-o", tmp_path / "p.jsonl")
    first, second = map(json.loads, (tmp_path / "p.jsonl").read_text().splitlines())
    assert (first["x"], second["n"], first["when"]) == (0.5, 2, "2020-01-01T00:00:00")
    succeed_here(*predict, tmp_path / "t.parquet", "-o", tmp_path / "p.tsv")
    assert (tmp_path / "p.tsv").read_text().startswith("x\tn\twhen\tmean\n0.5\t1\t2020-01-01\t")
    nested = tmp_path / "t.jsonl"
    nested.write_text('{"x": 1, "n": 2, "more": {"a": "ü"}}\n{"n": 3, "x": 2.5, "more": null}\n')
    succeed_here(*predict, nested, "-o", tmp_path / "p.csv")
    lines = list(csv.reader((tmp_path / "p.csv").read_text(encoding="utf-8").splitlines()))
    assert lines[1][:3] == ["1", "2", '{"a": "ü"}']
    assert lines[2][:3] == ["2.5", "3", ""]


def test_pipes_are_read_and_written(folder, tmp_path):
    pytest.importorskip("pyarrow")

    def piped(data, *arguments):
        command = [*KCDO, *map(str, arguments)]
        found = subprocess.run(command, input=data, capture_output=True, cwd=tmp_path)
        assert found.returncode == 0, found.stderr
        return found.stdout.decode()

    model = folder / "model.kcdo"
    assert piped(TEXT.encode(), "predict", model, "-", "--stats", "sd") == sds(folder)
    packed = gzip.compress(TEXT.encode())
    # text without types is read twice on its way to Parquet, and Parquet from its end
    piped(packed, "predict", model, "-", "--stats", "sd", "-o", "p.parquet")
    parquet = (tmp_path / "p.parquet").read_bytes()
    told = piped(parquet, "evaluate", model, "-", "--json")
    assert json.loads(told)["rows"] == N
    fit = ["fit", "-", "--target", "y", "--given", "n,x", "--selection", "heuristic"]
    told = piped(TEXT.encode(), *fit, "-o", "m.kcdo")
    assert told.startswith("Fitted y given n, x to 60 rows of standard input")
    np.testing.assert_array_equal(
        load_model(tmp_path / "m.kcdo").estimator.predict(pd.DataFrame({"n": [5.0], "x": [1.0]})),
        load_model(model).estimator.predict(pd.DataFrame({"n": [5.0], "x": [1.0]})),
    )


@pytest.mark.parametrize("packing", ["gz", "bz2", "xz", "zip"])
def test_compressed_files_are_read_and_damaged_ones_refused(folder, tmp_path, packing, capsys):
    data = tmp_path / f"data.csv.{packing}"
    if packing == "zip":
        with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("folder/data.csv", TEXT)
            archive.writestr("__MACOSX/data.csv", b"\0\1")
    else:
        pack = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}[packing]
        data.write_bytes(pack(TEXT.encode()))
    command = ["predict", folder / "model.kcdo", data, "--stats", "sd"]
    out = tmp_path / "out.csv"
    succeed_here(*command, "-o", out, "--quiet")
    assert out.read_text() == sds(folder)
    whole = data.read_bytes()
    data.write_bytes(whole[:-40] if packing != "zip" else whole[:-3])
    command += ["-o", tmp_path / "other.csv"]
    fail_here(capsys, [(command, 1, [f"data.csv.{packing} is damaged"])])
    assert not (tmp_path / "other.csv").exists()


def test_what_is_no_table_is_refused(folder, tmp_path, capsys):
    book, two = tmp_path / "book.xlsx", tmp_path / "two.zip"
    for path, names in ((book, ("[Content_Types].xml", "xl/workbook.xml")), (two, ("a", "b"))):
        with zipfile.ZipFile(path, "w") as archive:
            for name in names:
                archive.writestr(name, "x")
    (tmp_path / "page.html").write_text("<!DOCTYPE html><p>not found</p>")
    (tmp_path / "list.jsonl").write_text('{"x": 1}\n[1, 2]\n')
    (tmp_path / "more.jsonl").write_text('{"n": 1, "x": 2}\n{"n": 1, "x": 2, "z": 3}\n')

    def predict(name):
        return ["predict", folder / "model.kcdo", tmp_path / name, "--stats", "sd"]

    fail_here(
        capsys,
        [
            (predict("book.xlsx"), 1, ["book.xlsx is an Excel workbook", "save the table as CSV"]),
            (predict("two.zip"), 1, ["two.zip holds 2 files", "unpack"]),
            (predict("page.html"), 1, ["page.html is an HTML page, not a table"]),
            (predict(folder / "model.kcdo"), 1, ["is a model, not a table"]),
            (predict("list.jsonl"), 2, ["no column 'n'"]),
            (predict("more.jsonl"), 1, ["row 2 has 'z'"]),
        ],
    )
    (tmp_path / "list.jsonl").write_text('{"x": 1, "n": 2}\n[1, 2]\n')
    fail_here(capsys, [(predict("list.jsonl"), 1, ["row 2 is not an object"])])


def test_decimal_commas_and_grouped_digits(folder, tmp_path, capsys):
    data, out = tmp_path / "german.csv", tmp_path / "out.csv"
    data.write_text(GERMAN)
    style = ["--decimal", ",", "--thousands", "."]
    plain = ["fit", folder / "data.csv", "--target", "y", "--given", "x"]
    fit = ["fit", data, "--target", "y", "--given", "n,x", "--selection", "heuristic"]
    succeed_here(*fit, *style, "-o", tmp_path / "m.kcdo", "--quiet")
    frame = pd.DataFrame({"n": [1000.0], "x": [0.5]})
    np.testing.assert_allclose(
        load_model(tmp_path / "m.kcdo").estimator.predict(frame),
        load_model(folder / "model.kcdo").estimator.predict(frame),
        rtol=0.05,  # the German numbers have fewer digits
    )
    predict = ["predict", folder / "model.kcdo", data, "--stats", "mean,sd", *style]
    succeed_here(*predict, "-o", out, "--quiet")
    found = pd.read_csv(out, sep=";", decimal=",", thousands=".")
    np.testing.assert_allclose(found["mean"], means(folder), rtol=1e-2)
    assert out.read_text().splitlines()[3].startswith("002;2.000;0,286;a;21,8;")
    comma = tmp_path / "comma.csv"
    comma.write_text('n,x\n1,"0,5"\n2,"1,5"\n')
    succeed_here(*predict[:2], comma, "--stats", "mean", "--decimal", ",", "-o", out, "--quiet")
    assert out.read_text().splitlines()[1].startswith('1,"0,5","')
    fail_here(
        capsys,
        [
            ([*fit, "-o", tmp_path / "n.kcdo"], 1, ["'y'", "'20,0' in row 1", "--decimal ,"]),
            ([*fit, *style, "--sep", ";;", "-o", "n"], 2, ["--sep takes one character"]),
            ([*fit, "--thousands", ".", "-o", "n"], 2, ["must differ"]),
            ([*plain, "--decimal", ",", "-o", tmp_path / "n"], 1, ["'20.0'", "has a point"]),
            ([*fit, "--decimal", "'", "-o", "n"], 2, ["--decimal is . or ,"]),
        ],
    )


@pytest.mark.parametrize(
    ("style", "text", "number"),
    [
        (Style(decimal=","), "1,5e3", 1500.0),
        (Style(decimal=","), "1.5", None),  # a slip, or another file
        (Style(decimal=","), "-,5", -0.5),
        (Style(decimal=",", thousands="."), "1.234.567,8", 1234567.8),
        (Style(decimal=",", thousands="."), "12.5", None),  # not 125
        (Style(decimal=",", thousands="."), "12.3456", None),
        (Style(thousands=","), "1,234", 1234.0),
        (Style(thousands="'"), "-12'345.5", -12345.5),
        (Style(thousands=" "), "1 234", 1234.0),
        (Style(thousands=","), "inf", np.inf),
        (Style(thousands=","), "12,34", None),
    ],
)
def test_numbers_in_other_styles(style, text, number):
    (found,) = style.parsed(pd.Series([text], dtype=object))
    assert (None if np.isnan(found) else found) == number


def test_a_separator_can_be_named(folder, tmp_path):
    data = tmp_path / "pipes.txt"
    data.write_text("n|x\n1|0.5\n2|1.5\n")
    printed = succeed("predict", folder / "model.kcdo", data, "--sep", "|", "--stats", "mean")
    assert printed.startswith("n|x|mean\n1|0.5|")
    tabs = tmp_path / "t.csv"
    tabs.write_text("n\tx\n1\t0.5\n")
    out = tmp_path / "out.csv"
    command = ["predict", folder / "model.kcdo", tabs, "--sep", "tab", "--stats", "mean", "--quiet"]
    succeed_here(*command, "-o", out)
    assert out.read_text().startswith("n,x,mean\n1,0.5,")  # .csv has commas, .tsv tabs
    succeed_here(*command, "-o", tmp_path / "out.tsv")
    assert (tmp_path / "out.tsv").read_text().startswith("n\tx\tmean\n1\t0.5\t")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_with_a_mark_is_kept(folder, tmp_path, encoding):
    data, out = tmp_path / "wide.tsv", tmp_path / "out.tsv"
    data.write_bytes("\ufeffn\tx\tStraße\r\n1\t0.5\tä\r\n2\t1\tö\r\n".encode(encoding))
    command = ["predict", folder / "model.kcdo", data, "--stats", "mean", "-o", out]
    succeed_here(*command, "--quiet")
    written = out.read_bytes().decode(encoding)
    assert written.startswith("\ufeffn\tx\tStraße\tmean\r\n1\t0.5\tä\t")
    assert written.count("\r\n") == 3


def test_several_files_are_one_table(folder, tmp_path, capsys):
    lines = TEXT.splitlines(keepends=True)
    for i in range(3):
        part = [lines[0], *lines[1 + 20 * i : 21 + 20 * i]]
        (tmp_path / f"part-{i}.csv").write_text("".join(part).rstrip("\n"))
    out = tmp_path / "out.csv"
    predict = ["predict", folder / "model.kcdo", "--stats", "sd"]
    text = succeed(*predict, tmp_path / "part-*.csv", "-o", out)  # the pattern as it stands
    assert "60 rows with sd" in text
    assert out.read_text() == sds(folder)
    fit = ["fit", tmp_path / "part-0.csv", tmp_path / "part-[12].csv", "--target", "y"]
    fit += ["--given", "n,x", "--selection", "heuristic"]
    told = succeed_here(*fit, "-o", tmp_path / "m.kcdo", capsys=capsys)
    assert "60 rows of part-0.csv and 2 other files" in told
    (tmp_path / "other.csv").write_text("n,x\n1,2\n")
    (tmp_path / "swapped.csv").write_text(TEXT.replace(",", ";"))
    (tmp_path / "bad.csv").write_text(lines[0] + "1,many,3,a,5\n")
    first = tmp_path / "part-0.csv"
    fail_here(
        capsys,
        [
            ([*predict, first, tmp_path / "other.csv"], 1, ["other.csv has other columns than"]),
            ([*predict, first, tmp_path / "swapped.csv"], 1, ["separated by ';'", "alike"]),
            (
                [*predict, first, tmp_path / "bad.csv", "-o", out],
                1,
                ["'many' in row 1 of", "bad.csv"],
            ),
            ([*predict, first, first], 2, ["named twice"]),
            ([*predict, tmp_path / "*.tsv"], 1, ["no file matches"]),
            ([*fit, "-o", tmp_path / "part-2.csv", "--force"], 2, ["is the data that"]),
        ],
    )


def test_answers_to_queries_come_in_formats_too(folder, tmp_path, capsys):
    pytest.importorskip("pyarrow")
    command = ["density", folder / "model.kcdo", "--at", "n=1,x=2", "--at", "n=9,x=2", "--grid", 5]
    tables = []
    for ending in ("csv", "tsv.gz", "jsonl", "parquet", "feather"):
        succeed_here(*command, "-o", tmp_path / f"p.{ending}", "--quiet")
        tables.append(read(tmp_path / f"p.{ending}"))
    for table in tables:
        assert list(table) == ["at", "y", "density"]
        assert table["at"].tolist() == ["n=1,x=2"] * 5 + ["n=9,x=2"] * 5
        np.testing.assert_allclose(table["density"], tables[0]["density"], rtol=1e-6, atol=1e-12)
    fail_here(capsys, [([*command, "-o", tmp_path / "p.xlsx"], 2, ["p.xlsx", ".parquet"])])


@pytest.mark.parametrize(
    ("texts", "content"),
    [
        (["1", "", "-2", "NA"], Content.WHOLE),
        (["1", "2.5", "nan"], Content.NUMBER),
        (["007", "8"], Content.TEXT),
        (["1234567890123456789"], Content.TEXT),
        (["1", "x"], Content.TEXT),
        (["", "NA"], Content.NOTHING),
        (["0", "0.5", "-0.5"], Content.NUMBER),
    ],
)
def test_what_columns_of_text_hold(texts, content):
    assert content_of_texts(pd.Series(texts, dtype=str), PLAIN) is content


def test_what_columns_of_json_hold():
    assert content_of_values([1, None, 2]) is Content.WHOLE
    assert content_of_values([1, 2.5]) is Content.NUMBER
    assert content_of_values([True, 1]) is Content.TEXT
    assert content_of_values([None]) is Content.NOTHING


def test_a_pipe_is_copied_to_be_read_twice(tmp_path):
    (tmp_path / "a.csv").write_text("x\n1\n")
    source = Source.of([str(tmp_path / "a.csv")])
    with source.readable_twice() as same:
        assert same.paths == source.paths
    with pytest.raises(UsageError, match="one character"):
        Style.of("1", ".", None)


@pytest.mark.parametrize("options", [[], ["--sep", "|", "--decimal", ","]])
def test_the_next_command_works_as_it_is_printed(folder, tmp_path, capsys, monkeypatch, options):
    table = pd.read_csv(folder / "data.csv", nrows=30)[["x", "y"]]
    data = tmp_path / "my data.csv"
    style = {"sep": "|", "decimal": ","} if options else {}
    table.to_csv(data, index=False, **style)
    monkeypatch.chdir(tmp_path)
    command = ["fit", data, "--target", "y", "--selection", "heuristic", *options]
    said = succeed_here(*command, "-o", tmp_path / "my model.kcdo", capsys=capsys)
    program, *arguments = shlex.split(said.splitlines()[-1].removeprefix("Next: "))
    assert program == "kcdo"
    succeed_here(*arguments, capsys=capsys)
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 31


def test_a_packed_file_tells_the_name_of_what_is_in_it(folder, tmp_path, capsys):
    out = tmp_path / "out.csv.gz"
    command = ["predict", folder / "model.kcdo", folder / "data.csv", "--quiet", "-o", out]
    succeed_here(*command, capsys=capsys)
    first = out.read_bytes()
    assert first[10:].startswith(b"out.csv\0")  # where gzip keeps it
    succeed_here(*command, capsys=capsys)
    assert out.read_bytes() == first
