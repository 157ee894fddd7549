"""``kcdo predict`` through the real executable: what it adds, keeps, streams and leaves behind."""

import csv
import gzip
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kcdo.commands.models import load_model
from kcdo.commands.predict import _one_ahead
from tests.command_line import (
    KCDO,
    fail_here,
    fail_together,
    finish,
    start,
    succeed,
    succeed_here,
    wait_until,
)

ROWS = "flow,weather,speed\n" + "".join(
    f"{10 * i},{('dry', 'rain')[i % 2]},{90 - i / 5 + (-1) ** i}\n" for i in range(80)
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a table and models of one and of two targets."""
    path = tmp_path_factory.mktemp("predict")
    (path / "data.csv").write_text(ROWS)
    command = ["fit", path / "data.csv", "--selection", "heuristic", "--quiet"]
    one = ["--target", "speed", "--given", "flow,weather", "-o", path / "model.kcdo"]
    two = ["--target", "speed,flow", "--given", "weather", "-o", path / "two.kcdo"]
    succeed_here(*command, *one)
    succeed_here(*command, *two)
    return path


def read(path):
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_columns_are_added_and_every_byte_of_the_rest_is_kept(folder, tmp_path):
    source = (
        '\ufeffnote;flow;"we""ather";weather\r\n'
        '"a;b\nc";010.50;007; rain \r\n'
        "\r\n"
        '5" pipe;1e1;;dry\r\n'
        'd;"20";x;dry'
    )
    (tmp_path / "new.csv").write_text(source, encoding="utf-8", newline="")
    out = tmp_path / "out.csv"
    command = ["predict", folder / "model.kcdo", tmp_path / "new.csv", "-o", out]
    facts = json.loads(succeed(*command, "--stats", "mean,q2.5", "--json"))
    assert facts["rows"] == 3
    assert facts["columns"] == ["mean", "q2.5"]
    records = source.replace("\r\n\r\n", "\r\n").split("\r\n")
    written = out.read_bytes().decode()
    for record in records:
        assert f"{record};" in written
    assert written.startswith("\ufeffnote")
    assert written.count("\r\n") == 3
    model = load_model(folder / "model.kcdo")
    X = pd.DataFrame({"flow": [10.5, 10.0, 20.0], "weather": ["rain", "dry", "dry"]})
    summary = model.estimator.conditional(X).summary(["mean", "q2.5"])
    rows = list(csv.reader(written.splitlines(keepends=True), delimiter=";"))
    got = np.array([[float(field) for field in row[-2:]] for row in rows[1:]])
    np.testing.assert_allclose(got, np.column_stack(list(summary.values())), rtol=1e-7)


def test_several_targets_formats_and_standard_output(folder, tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.feather as feather
    import pyarrow.parquet as pq

    table = pa.table(
        {
            "weather": pa.array(["dry", "rain", "dry"]).dictionary_encode(),
            "speed": [80, 70, None],
            "flow": [1.5, 2.5, 3.5],
            "when": pa.array([1, 2, 3], pa.timestamp("ms")),
        }
    )
    pq.write_table(table, tmp_path / "new.parquet", row_group_size=2)
    feather.write_feather(table, str(tmp_path / "new.feather"))
    stats = ["--stats", "mean,logpdf", "--skip-missing"]
    model = folder / "two.kcdo"
    packed = tmp_path / "out.csv.gz"
    from_parquet = ["predict", model, tmp_path / "new.parquet", *stats]
    from_feather = ["predict", model, tmp_path / "new.feather", *stats]
    printed = succeed(*from_parquet)
    succeed_here(*from_parquet, "-o", tmp_path / "out.parquet")
    succeed_here(*from_feather, "-o", tmp_path / "out.feather")
    succeed_here(*from_feather, "-o", packed)
    for kind, read_back in (("parquet", pq.read_table), ("feather", feather.read_table)):
        got = read_back(str(tmp_path / f"out.{kind}"))
        assert got.column_names == [*table.column_names, "mean_speed", "mean_flow", "logpdf"]
        assert got.select(table.column_names[1:]).equals(table.select(table.column_names[1:]))
        assert got["weather"].to_pylist() == ["dry", "rain", "dry"]
        assert got["logpdf"].null_count == got["mean_speed"].null_count == 1
    rows = list(csv.reader(printed.splitlines()))
    assert rows[0][-3:] == ["mean_speed", "mean_flow", "logpdf"]
    assert rows[3][-3:] == ["", "", ""]
    np.testing.assert_allclose(float(rows[2][-3]), got["mean_speed"][1].as_py())
    assert read(packed) == rows


def test_missing_inputs_are_refused_or_skipped(folder, tmp_path, capsys):
    data, out = tmp_path / "new.csv", tmp_path / "out.csv.gz"
    data.write_text("flow,weather\n1,dry\n,dry\n3,NA\n4,rain\n")
    command = ["predict", folder / "model.kcdo", data, "--stats", "mean,sd", "-o", out]
    fail_here(capsys, [(command, 1, ["'flow' has 1 missing", "row 2", "--skip-missing"])])
    assert not out.exists()
    assert "4 rows with mean, sd" in succeed_here(*command, "--skip-missing", capsys=capsys)
    rows = read(out)
    assert rows[2] == ["", "dry", "", ""]
    assert rows[3] == ["3", "NA", "", ""]
    assert float(rows[4][2]) > 0


def test_bad_requests_are_refused_in_one_line(folder, tmp_path, capsys):
    (tmp_path / "fog.csv").write_text("flow,weather\n1,dry\n2,fog\n")
    (tmp_path / "flow.csv").write_text("flow,wether\n1,dry\n")
    (tmp_path / "mean.csv").write_text("flow,weather,mean\n1,dry,2\n")
    (tmp_path / "text.csv").write_text("flow,weather\n1,dry\nmany,dry\n")
    (tmp_path / "header.csv").write_text("flow,weather\n")
    (tmp_path / "model.kcdo").write_text("not a model")
    before = sorted(tmp_path.iterdir())
    out = tmp_path / "out.csv"

    def predict(name, *more, model=folder / "model.kcdo", to=out):
        return ["predict", model, tmp_path / name, "-o", to, *more]

    fail_together([(predict("fog.csv"), 1, ["'weather'", "'fog'", "'dry', 'rain'"])])
    fail_here(
        capsys,
        [
            (predict("flow.csv"), 2, ["'weather'", "did you mean wether?"]),
            (predict("mean.csv"), 2, ["'mean' would be there twice"]),
            (predict("fog.csv", "--stats", "mean,p50"), 2, ["'p50'", "q05"]),
            (predict("text.csv"), 1, ["'flow'", "'many' in row 2"]),
            (predict("header.csv"), 1, ["no rows"]),
            (predict("fog.csv", model=tmp_path / "model.kcdo"), 1, ["model.kcdo"]),
            (predict("fog.csv", model=tmp_path / "none.kcdo"), 1, ["there is no model file"]),
            (predict("fog.csv", to=tmp_path / "out.parquet"), 1, ["'fog'"]),
            (predict("fog.csv", to=tmp_path / "p.xlsx"), 2, ["p.xlsx", ".csv", ".parquet", ".gz"]),
            (predict("fog.csv", "--stats", "logpdf"), 2, ["no column 'speed'"]),
        ],
    )
    assert sorted(tmp_path.iterdir()) == before


def test_a_reader_that_has_seen_enough_is_no_error(folder):
    command = [*KCDO, "predict", folder / "model.kcdo", folder / "data.csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def long_table(path, n_rows):
    with path.open("w") as file:
        file.write("flow,weather,comment\n")
        file.writelines(f"{i % 800},dry,{'x' * 1600}\n" for i in range(n_rows))
    return path


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_leaves_nothing_half_written(folder, tmp_path):
    data = long_table(tmp_path / "long.csv", 3000)
    old = tmp_path / "out.csv"
    old.write_text("precious")
    limit = 4_500_000  # bytes that the process may write to a file: not quite enough

    def small_disk():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    command = ["predict", folder / "model.kcdo", data, "--stats", "mean"]
    with Path("/dev/full").open("w") as full_disk:
        processes = [
            start(*command, "-o", old, preexec_fn=small_disk),
            start(*command, "-o", "/dev/full"),
            start(*command, stdout=full_disk),
        ]
        small, full, redirected = map(finish, processes)
    assert (small.returncode, full.returncode, redirected.returncode) == (1, 1, 1)
    assert small.stderr == f"Error: cannot write {old}: File too large.\n"
    assert full.stderr == "Error: cannot write /dev/full: No space left on device.\n"
    assert redirected.stderr == "Error: No space left on device.\n"
    assert old.read_text() == "precious"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["long.csv", "out.csv"]


def test_ctrl_c_ends_with_130_and_leaves_nothing(folder, tmp_path):
    pipe, old = tmp_path / "pipe.csv", tmp_path / "out.csv"
    old.write_text("precious")
    os.mkfifo(pipe)
    process = start("predict", folder / "model.kcdo", pipe, "-o", old)
    with pipe.open("w") as file:  # rows that never end: the process waits for more
        file.write(ROWS)
        file.flush()
        wait_until(lambda: len(list(tmp_path.iterdir())) == 3)
        process.send_signal(signal.SIGINT)
        result = finish(process)
    assert result.returncode == 130
    assert result.stderr == "Interrupted.\n"
    assert old.read_text() == "precious"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.csv", "pipe.csv"]


def test_what_a_killed_command_left_is_removed_by_the_next(folder, tmp_path):
    pipe, out = tmp_path / "pipe.csv", tmp_path / "out.csv"
    os.mkfifo(pipe)
    process = start("predict", folder / "model.kcdo", pipe, "-o", out)
    with pipe.open("w") as file:
        file.write(ROWS)
        file.flush()
        wait_until(lambda: len(list(tmp_path.iterdir())) == 2)
        process.kill()
        finish(process)
    (draft,) = tmp_path.glob(".out.csv.*.kcdo-draft")
    os.utime(draft, (0, 0))
    succeed("predict", folder / "model.kcdo", folder / "data.csv", "-o", out)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.csv", "pipe.csv"]


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in kilobytes on Linux")
def test_peak_memory_is_flat_in_the_length_of_the_file(folder, tmp_path):
    peaks = []
    for n_rows in (20_000, 60_000):
        data = long_table(tmp_path / f"{n_rows}.csv", n_rows)
        command = ["predict", folder / "model.kcdo", data, "--stats", "mean"]
        process = start(*command, "-o", tmp_path / "out.csv")
        _, status, usage = os.wait4(process.pid, 0)
        process.stdout.close()
        process.stderr.close()
        assert status == 0
        peaks.append(usage.ru_maxrss / 1024)
    assert peaks[1] < peaks[0] + 60  # MB, where the file is 64 MB longer and twice that in memory


def test_results_are_found_one_ahead_in_order():
    found = []

    def double(item):
        found.append(item)
        return 2 * item

    for item, result in _one_ahead(double, range(1, 6)):
        assert result == 2 * item
        assert len(found) <= item + 1
    assert found == [1, 2, 3, 4, 5]
    assert list(_one_ahead(double, [])) == []


def test_errors_of_items_and_of_results_come_through():
    parts = _one_ahead(lambda item: 1 / item, [1, 0, 2])
    assert next(parts) == (1, 1.0)
    with pytest.raises(ZeroDivisionError):
        next(parts)
    with pytest.raises(ValueError, match="no number"):
        list(_one_ahead(abs, (int(text) if text != "x" else fail() for text in "1x2")))


def fail():
    raise ValueError("no number")
