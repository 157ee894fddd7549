"""``kcdo fit`` of files in parts: folders, patterns, roles, missing values, a cluster."""

import json

import numpy as np
import pandas as pd
import pytest

import kcdo
from kcdo.commands import run
from kcdo.commands.naming import Wanted
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
    source = Source.of([str(path) for path in sorted(folder.glob("*.parquet"))])
    wanted = Wanted(["y"], ["x", "kind"]).checked(["x", "kind", "y"], "data")
    chunks = FileChunks.of(source, wanted, drop=False)
    assert [part.groups for part in chunks.parts()] == [(0, 2), (2, 3), (0, 1), (0, 1)]
    read = [chunks.read(part) for part in chunks.parts()]
    assert [len(X) for X, _ in read] == [80, 20, 1, 139]
    pd.testing.assert_frame_equal(
        pd.concat([X for X, _ in read], ignore_index=True).astype({"kind": object}),
        table()[["x", "kind"]].astype({"kind": object}),
    )


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


def test_rows_that_stay_in_a_folder(folder, tmp_path, capsys, give_effort):
    give_effort(streamed=StreamEffort(sample_rows=60))
    out, kept = tmp_path / "m.kcdo", tmp_path / "rows"
    options = ["--target", "y", "--centres", 15, "--stream", "--rows-at", kept]
    said = succeed_here("fit", folder, *options, "-o", out, capsys=capsys)
    assert "7 times" in said
    assert np.load(kept / "inputs.npy").shape == (240, 2)
    (kept / "inputs.npy").unlink()
    code, said = fail("predict", out, folder, "-o", tmp_path / "p.csv", capsys=capsys)
    assert code == 1
    assert "inputs.npy is missing from" in said


def test_workers_fit_and_predict(folder, tmp_path, capsys):
    pytest.importorskip("distributed")
    here, there = tmp_path / "here.kcdo", tmp_path / "there.kcdo"
    succeed_here("fit", folder, *OPTIONS, "--stream", "-o", here, capsys=capsys)
    said = succeed_here("fit", folder, *OPTIONS, "--workers", 1, "-o", there, capsys=capsys)
    assert "Read 240 rows (" in said
    np.testing.assert_array_equal(predictions(here)[0], predictions(there)[0])
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    succeed_here("predict", here, folder, "-o", one, capsys=capsys)
    succeed_here("predict", here, folder, "--workers", 1, "-o", two, capsys=capsys)
    assert one.read_text() == two.read_text()
