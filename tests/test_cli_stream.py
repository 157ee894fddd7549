"""``kcdo fit`` of files in parts: folders, patterns, roles, missing values, a cluster."""

import json
import re
from collections import Counter

import numpy as np
import pandas as pd
import pytest

import kcdo
from kcdo.commands import run
from kcdo.commands.cluster import Begun
from kcdo.commands.naming import Wanted
from kcdo.commands.packing import Span
from kcdo.commands.sources import Source
from kcdo.commands.streaming import FileChunks
from kcdo.components import StreamEffort
from tests.command_line import succeed_here

OPTIONS = ["--target", "y", "--selection", "heuristic", "--centres", 15]


def table(n=240, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, n)
    kind = np.array(["dry", "rain", "snow"])[rng.integers(0, 3, n)]
    y = np.sin(x) + 0.5 * (kind == "rain") + 0.1 * rng.standard_normal(n)
    return pd.DataFrame({"x": x, "kind": kind, "y": y})


@pytest.fixture
def folder(tmp_path):
    """A folder of three Parquet files, the first of three groups of rows."""
    data = tmp_path / "data"
    data.mkdir()
    whole = table()
    whole[:100].to_parquet(data / "a.parquet", row_group_size=40)
    whole[100:101].to_parquet(data / "b.parquet")
    whole[101:].to_parquet(data / "c.parquet")
    (data / "notes.txt").write_text("not a table")
    return data


@pytest.fixture(scope="module")
def address():
    """The address of a cluster that is there already."""
    distributed = pytest.importorskip("distributed")
    options = dict(threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0")
    with distributed.LocalCluster(n_workers=1, **options) as cluster:
        yield cluster.scheduler_address


def fail(*arguments, capsys):
    code = run([str(a) for a in arguments])
    return code, capsys.readouterr().err


def predictions(path):
    model = kcdo.load(path)
    return model.predict(table(20, seed=1)[["x", "kind"]]), model


def test_a_folder_is_streamed_as_its_files(folder, tmp_path, capsys):
    out = tmp_path / "m.kcdo"
    said = succeed_here("fit", folder, *OPTIONS, "--stream", "-o", out, capsys=capsys)
    assert "Read 240 rows (" in said
    assert "as numbers) in 3 chunks, 3 times, in " in said
    assert "; 0 chunks done again." in said
    found, model = predictions(out)
    assert model.report_.n_samples == 240
    assert set(model.categories[1]) == {"dry", "rain", "snow"}
    assert model.training_.n_rows == 240
    assert model.training_.novelty(np.array([[50.0, 0.0]]))[0] > 10
    truth = table(20, seed=1)
    expected = np.sin(truth["x"]) + 0.5 * (truth["kind"] == "rain")
    assert np.abs(found - expected).mean() < 0.25
    facts = json.loads(
        succeed_here(
            "fit", f"{folder}/*.parquet", *OPTIONS, "--stream", "--json", "-o", out, capsys=capsys
        )
    )
    assert facts["stream"]["rows"] == 240
    np.testing.assert_array_equal(predictions(out)[0], found)


def test_text_is_streamed_too(tmp_path, capsys):
    path, out = tmp_path / "all.csv", tmp_path / "m.kcdo"
    whole = table()
    whole.loc[7, "x"] = np.nan
    whole.to_csv(path, index=False)
    code, said = fail("fit", path, *OPTIONS, "--stream", "-o", out, capsys=capsys)
    assert code == 1
    assert "missing values in" in said
    assert "column 'x' (1) of 240 rows from row 1 of" in said
    assert "leave these rows out by --drop-missing" in said
    succeed_here("fit", path, *OPTIONS, "--stream", "--drop-missing", "-o", out, capsys=capsys)
    assert predictions(out)[1].report_.n_samples == 239


def test_parts_are_groups_of_rows(folder, monkeypatch):
    monkeypatch.setattr("kcdo.commands.streaming.PART_ROWS", 50)
    chunks = file_chunks(*sorted(folder.glob("*.parquet")))
    spans = [Span(0, 2, 1), Span(2, 3, 81), Span(0, 1, 1), Span(0, 1, 1)]
    assert [part.span for part in chunks.parts()] == spans
    read = [chunks.read(part) for part in chunks.parts()]
    assert [len(X) for X, _ in read] == [80, 20, 1, 139]
    pd.testing.assert_frame_equal(
        pd.concat([X for X, _ in read], ignore_index=True).astype({"kind": object}),
        table()[["x", "kind"]].astype({"kind": object}),
    )


def file_chunks(*paths):
    source = Source.of([str(path) for path in paths])
    wanted = Wanted(["y"], ["x", "kind"]).checked(["x", "kind", "y"], "data")
    return FileChunks.of(source, wanted, drop=False)


def written(frame, path):
    """Write a table as its name says, with a line break and a quote in some of its texts."""
    frame = frame.assign(kind=frame["kind"].replace({"rain": 'ra\n"in"', "snow": "sn,ö"}))
    if ".jsonl" in path.name:
        frame.to_json(path, orient="records", lines=True)
    else:
        encoding = "utf-16" if "utf16" in path.name else "utf-8-sig"
        frame.to_csv(path, index=False, encoding=encoding, lineterminator="\r\n")
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "utf16.csv", "a.jsonl", "a.jsonl.gz"])
def test_parts_of_a_text_are_the_chunks_that_one_process_reads(name, tmp_path, monkeypatch):
    monkeypatch.setattr("kcdo.commands.streaming.PART_ROWS", 32)
    sizes = {name: 100, f"b-{name}": 7}
    chunks = file_chunks(*(written(table(n), tmp_path / each) for each, n in sizes.items()))
    here, there = list(chunks), [chunks.read(part) for part in chunks.parts()]
    assert len(here) == len(there) >= 5
    assert sum(len(X) for X, _ in here) == 107
    for one, other in zip(here, there, strict=True):
        pd.testing.assert_frame_equal(one[0], other[0])
        pd.testing.assert_series_equal(one[1], other[1])


def test_a_long_text_is_cut_alike_here_and_on_a_cluster(tmp_path, capsys, monkeypatch, address):
    monkeypatch.setattr("kcdo.commands.streaming.PART_ROWS", 32)
    path = written(table(), tmp_path / "a.csv")
    here, there = tmp_path / "here.kcdo", tmp_path / "there.kcdo"
    facts = [
        json.loads(succeed_here("fit", path, *OPTIONS, *how, "--json", "-o", out, capsys=capsys))
        for out, how in ((here, ["--stream"]), (there, ["--cluster", address]))
    ]
    one, two = (each["stream"] for each in facts)
    assert one["chunks"] == two["chunks"] > 240 // 32
    assert one["rows"] == two["rows"] == 240
    one, two = (kcdo.load(each) for each in (here, there))
    queries, at = table(20, seed=1)[["x", "kind"]][:5].assign(kind="dry"), np.linspace(-1, 1, 5)
    first, second = (model.conditional(queries).pdf(at) for model in (one, two))
    np.testing.assert_array_equal(first, second)


def test_blank_lines_belong_to_no_row(tmp_path, monkeypatch):
    monkeypatch.setattr("kcdo.commands.streaming.PART_ROWS", 3)
    path = tmp_path / "blank.csv"
    path.write_text("\n\nx,kind,y\n\n" + "1,a,2\n\n2,b,3\n" * 5 + "\n\n")
    chunks = file_chunks(path)
    read = [chunks.read(part) for part in chunks.parts()]
    assert [X["x"].tolist() for X, _ in read] == [X["x"].tolist() for X, _ in chunks]
    assert sum(len(X) for X, _ in read) == 10


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_files_without_rows_are_passed_over(form, tmp_path, capsys, address):
    data = tmp_path / "data"
    data.mkdir()
    for name, rows in (("a", slice(0, 0)), ("b", slice(0, 100)), ("c", slice(0, 0))):
        part, path = table().iloc[rows].astype({"kind": "string"}), data / f"{name}.{form}"
        part.to_parquet(path) if form == "parquet" else part.to_csv(path, index=False)
    here, there = tmp_path / "here.kcdo", tmp_path / "there.kcdo"
    for out, how in ((here, ["--stream"]), (there, ["--cluster", address])):
        said = succeed_here("fit", data, *OPTIONS, *how, "-o", out, capsys=capsys)
        assert "Read 100 rows (" in said
        assert " in 1 chunk, " in said
    np.testing.assert_array_equal(predictions(here)[0], predictions(there)[0])
    for path in data.glob("b.*"):
        path.unlink()
    for how in (["--stream"], ["--cluster", address]):
        code, said = fail("fit", data, *OPTIONS, *how, "-o", out, "--force", capsys=capsys)
        assert code == 1
        assert "and 1 other file has a header but no rows." in said


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl"])
def test_a_missing_value_is_found_in_its_row(form, tmp_path, monkeypatch):
    monkeypatch.setattr("kcdo.commands.streaming.PART_ROWS", 20)
    whole, path = table(60), tmp_path / f"gap.{form}"
    whole.loc[50, "x"] = np.nan
    if form == "parquet":
        whole.to_parquet(path, row_group_size=20)
    elif form == "csv":
        whole.to_csv(path, index=False)
    else:
        whole.to_json(path, orient="records", lines=True)
    chunks = file_chunks(path)
    message = r"column 'x' \(1\) of 20 rows from row 41 of"
    with pytest.raises(kcdo.InvalidInputError, match=message):
        list(chunks)
    with pytest.raises(kcdo.InvalidInputError, match=message):
        chunks.read(chunks.parts()[2])


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--stream", "--test", "0.2"], 2, "--test and --calibrate need all rows at once"),
        (["--no-stream", "--workers", 2], 2, "--no-stream reads the files as a whole"),
        (["--rows-at", "kept"], 2, "--rows-at keeps the rows of a streamed fit: it needs --stream"),
        (["--stream", "--rows-at", "kept"], 1, 'rows_at= is for chunks, fitted with selection="au'),
        (["--cluster", "tcp://127.0.0.1:1", "--workers", 2], 2, "--workers starts one: give one"),
    ],
)
def test_options_that_do_not_go_together(folder, tmp_path, capsys, options, code, message):
    found, said = fail("fit", folder, *OPTIONS, *options, "-o", tmp_path / "m.kcdo", capsys=capsys)
    assert found == code
    assert message in said


def test_what_is_not_there(folder, tmp_path, capsys, monkeypatch):
    out = tmp_path / "m.kcdo"
    (tmp_path / "none").mkdir()
    assert (
        "is a folder without tables"
        in fail("fit", tmp_path / "none", *OPTIONS, "-o", out, capsys=capsys)[1]
    )
    pytest.importorskip("distributed")
    monkeypatch.setattr("kcdo.commands.cluster._SECONDS", 1)
    address = ["--cluster", "tcp://127.0.0.1:1"]
    code, said = fail("fit", folder, *OPTIONS, *address, "-o", out, capsys=capsys)
    assert code == 1
    assert "no Dask scheduler answers at tcp://127.0.0.1:1" in said
    table(5).rename(columns={"x": "z"}).to_parquet(folder / "d.parquet")
    code, said = fail("fit", folder, *OPTIONS, "--stream", "-o", out, capsys=capsys)
    assert code == 1
    assert "d.parquet has other columns than" in said


def counted_reads(monkeypatch):
    """Count how often rows of Parquet files are taken, by their file and the first of them."""
    from kcdo.commands.arrow_tables import ArrowChunk

    frame, reads = ArrowChunk.frame, Counter()

    def counting(self, roles):
        reads[self.place.file, self.place.start] += 1
        return frame(self, roles)

    monkeypatch.setattr(ArrowChunk, "frame", counting)
    return reads


def test_rows_that_stay_in_a_folder(folder, tmp_path, capsys, monkeypatch, give_effort):
    give_effort(streamed=StreamEffort(sample_rows=60))
    reads = counted_reads(monkeypatch)
    out, kept = tmp_path / "m.kcdo", tmp_path / "rows"
    options = ["--target", "y", "--centres", 15, "--stream", "--rows-at", kept]
    said = succeed_here("fit", folder, *options, "-o", out, capsys=capsys)
    assert "7 times" in said
    assert set(reads.values()) == {7, 8}  # once more for the first rows, which show the columns
    assert max(reads, key=reads.get) == (str(folder / "a.parquet"), 1)
    assert np.load(kept / "inputs.npy").shape == (240, 2)
    (kept / "inputs.npy").unlink()
    code, said = fail("predict", out, folder, "-o", tmp_path / "p.csv", capsys=capsys)
    assert code == 1
    assert "inputs.npy is missing from" in said


def test_workers_fit_and_predict(folder, tmp_path, capsys):
    pytest.importorskip("distributed")
    here, there = tmp_path / "here.kcdo", tmp_path / "there.kcdo"
    succeed_here("fit", folder, *OPTIONS, "--stream", "-o", here, capsys=capsys)
    said = succeed_here("fit", folder, *OPTIONS, "--workers", 2, "-o", there, capsys=capsys)
    assert "Read 240 rows (" in said
    np.testing.assert_array_equal(predictions(here)[0], predictions(there)[0])
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    said = succeed_here("predict", here, folder, "-o", one, capsys=capsys)
    assert re.search(r"240 rows with .* \(\d+ kB read, [\d.]+ s\)\.", said)
    said = succeed_here("predict", here, folder, "--workers", 1, "-o", two, capsys=capsys)
    assert re.search(r" \(\d+ kB read, [\d.]+ s; 0 chunks done again\)\.", said)
    assert one.read_text() == two.read_text()


def test_tasks_that_are_begun_twice_are_counted():
    begun = Begun(tasks=2)
    for _ in range(3):
        begun.hear((0.0, "begun"))
    assert begun.again == 1
