"""Progress: a line that changes on a terminal, one line per long stage elsewhere."""

import contextlib
import io
import os
import re
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import kcdo
from kcdo import progress
from kcdo.commands.console import Console, size_text
from kcdo.commands.models import load_model
from kcdo.components import StreamEffort
from kcdo.fitting.stages import PASSES, PASSES_BY_RULE, SHARES
from kcdo.progress import Progress, duration
from tests.command_line import kcdo as kcdo_command


class Terminal(io.StringIO):
    def isatty(self):
        return True


def on_terminal(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    return screen


def test_a_terminal_is_told_every_five_per_cent_once(monkeypatch):
    terminal = on_terminal(monkeypatch)
    told = Progress(verbose=True)
    for name in ("first", "second"):
        with told.stage(name):
            for done in range(1, 201):
                told.update(done, 200)
    text = terminal.getvalue()
    assert text.count("first: ") == text.count("second: ") == 22  # 0, 5, ..., 100 and the time
    assert text.count("\n") == 2


def test_a_terminal_is_told_the_time_that_is_left(monkeypatch):
    terminal = on_terminal(monkeypatch)
    clock = iter([0.0, 30.0, 90.0, 120.0])
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(clock))
    told = Progress(verbose=True)
    with told.stage("Cholesky"):
        told.update(0.01, 4)  # too early to tell
        told.update(1, 4)
        told.update(3, 4)
    lines = [line.strip() for line in terminal.getvalue().split("\r")[1:]]
    assert lines == [
        "kcdo  Cholesky ...",
        "kcdo  Cholesky: 0 %",
        "kcdo  Cholesky: 25 %, 90 s left",
        "kcdo  Cholesky: 75 %, 30 s left",
        "kcdo  Cholesky: 2 min",
    ]


def test_elsewhere_a_long_stage_has_one_line_and_a_short_one_none(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_LONG", 0.02)
    told = Progress(verbose=True)
    with told.stage("short"):
        told.update(1, 2)
    with told.stage("long"), told.stage("a part of it"):
        time.sleep(0.3)
        assert capsys.readouterr().err == "kcdo  long ..."
    assert re.fullmatch(r" 0\.\d s\n", capsys.readouterr().err)


def test_stages_of_known_shares_tell_the_time_that_is_left(monkeypatch):
    terminal = on_terminal(monkeypatch)
    clock = iter([0.0, 10.0, 10.0, 10.0, 16.0, 16.0, 16.0, 56.0, 56.0])
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(clock))
    told = Progress(verbose=True, shares={"mean": 0.2, "scale": 0.2, "density": 0.6})
    for name in ("mean", "density", "another"):
        with told.stage(name):
            pass
    lines = [line.strip() for line in terminal.getvalue().split("\r")[1:]]
    assert [line for line in lines if line.endswith("...")] == [
        "kcdo  mean ...",
        "kcdo  density, about 30 s left ...",  # what was skipped takes nothing
        "kcdo  another ...",
    ]


def test_parts_of_a_stage_tell_the_time_of_those_after_it(monkeypatch):
    """Already in the first stage: what half of it took tells about the whole."""
    terminal = on_terminal(monkeypatch)
    clock = iter([0.0, 4.0, 8.0, 8.0, 8.0, 20.0, 20.0, 20.0])
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(clock))
    told = Progress(verbose=True, shares={"families": 0.2, "metric": 0.8})
    with told.stage("families"):
        told.update(1, 2)
    with told.stage("metric"):
        told.update(1, 4)
    lines = [line.strip() for line in terminal.getvalue().split("\r")[1:]]
    assert lines[:2] == ["kcdo  families ...", "kcdo  families: 50 %, about 36 s left"]
    assert lines[3:5] == [
        "kcdo  metric, about 32 s left ...",
        "kcdo  metric: 25 %, about 30 s left",  # 20 s for 0.4 of all
    ]


def test_the_stages_of_a_default_fit_have_shares():
    """Their names are those of the fit, and the shares make one whole."""
    page = (Path(__file__).parents[1] / "docs/architecture.md").read_text(encoding="utf-8")
    told = re.findall(r"^\d+\. \*\*([\w ]+)\*\*", page, flags=re.MULTILINE)
    assert list(SHARES) == told
    assert sum(SHARES.values()) == pytest.approx(1)


def test_the_passes_of_a_fit_to_chunks_tell_the_time_of_those_after_them(
    monkeypatch, give_effort, rng, tmp_path
):
    """Every pass is one whose share is known, and the first long one tells of all that follow."""
    give_effort(streamed=StreamEffort(sample_rows=60))
    terminal = on_terminal(monkeypatch)
    inputs = rng.uniform(-2, 2, (6, 40, 2))
    chunks = [(X, np.sin(X[:, 0]) + rng.normal(size=40)) for X in inputs]
    kcdo.ConditionalDensityOperator(solver=kcdo.Nystrom(15), verbose=True).fit(
        chunks, rows_at=tmp_path / "rows"
    )
    lines = [line.strip() for line in terminal.getvalue().split("\r")]
    for name, share in PASSES.items():
        assert any(line.startswith(f"kcdo  {name}") for line in lines), name
        if share > 0.1:
            found = [line for line in lines if re.match(rf"kcdo  {name}\b.*: \d+ %", line)]
            assert any("about " in line and line.endswith(" left") for line in found), name
    assert sum(PASSES.values()) == pytest.approx(1)
    assert sum(PASSES_BY_RULE.values()) == pytest.approx(1)


def test_an_error_ends_the_line(monkeypatch):
    terminal = on_terminal(monkeypatch)
    with pytest.raises(ValueError, match="no"), Progress(verbose=True).stage("work"):
        raise ValueError("no")
    assert re.fullmatch(r"\rkcdo  work \.\.\. +\rkcdo  work: 0\.\d s +\n", terminal.getvalue())


def test_silence(capsys):
    told = Progress()
    with told.stage("nothing"):
        told.update(1, 2)
    assert capsys.readouterr().err == ""


def test_a_default_fit_tells_the_time_that_is_left_from_its_first_stage_on(monkeypatch, rng):
    terminal = on_terminal(monkeypatch)
    X = rng.normal(size=(60, 1))
    kcdo.ConditionalDensityOperator(verbose=True).fit(X, X[:, 0] + rng.normal(size=60))
    lines = [line.strip() for line in terminal.getvalue().split("\r")[1:]]
    stages = list(dict.fromkeys(re.match(r"kcdo  ([\w ]+?)( \.\.\.|[,:])", x)[1] for x in lines))
    assert stages[:3] == ["families", "metric", "transform"]
    first = [line for line in lines if line.startswith("kcdo  families: ")]
    assert any("about" in line and line.endswith("left") for line in first)
    assert any(re.match(r"kcdo  metric, about .* left \.\.\.", line) for line in lines)


def test_a_fit_names_its_stages_on_a_terminal(monkeypatch, rng):
    terminal = on_terminal(monkeypatch)
    X = rng.normal(size=(30, 1))
    kcdo.ConditionalDensityOperator(selection="heuristic", verbose=True).fit(X, X[:, 0])
    assert "distinct inputs" in terminal.getvalue()


@pytest.mark.skipif(sys.platform == "win32", reason="terminals of Unix")
def test_the_command_names_the_stages_of_a_fit_on_a_terminal(tmp_path, rng):
    data = tmp_path / "data.csv"
    pd.DataFrame(rng.normal(size=(60, 2)), columns=["x", "y"]).to_csv(data, index=False)
    command = ["fit", data, "--target", "y", "--selection", "heuristic", "-o"]
    shown = []
    for more in ([tmp_path / "m.kcdo"], [tmp_path / "m.kcdo", "--quiet"]):
        terminal, end = os.openpty()
        result = kcdo_command(*command, *more, stderr=end)
        os.close(end)
        assert result.returncode == 0
        with contextlib.suppress(OSError):  # of Linux, where the other end is closed
            shown.append(os.read(terminal, 1 << 16).decode())
        os.close(terminal)
    assert "distinct inputs: 0." in shown[0]
    assert shown[1:] in ([], [""])
    assert "kB)" in kcdo_command(*command, tmp_path / "m.kcdo").stdout  # the size of the model
    assert not load_model(tmp_path / "m.kcdo").estimator.verbose


def test_commands_say_what_takes_long_without_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_LONG", 0.02)
    for quiet, said in ((False, "kcdo  Reading data.csv ... 0."), (True, "")):
        with Console(quiet=quiet).progress("Reading data.csv", 10) as show:
            show(5)
            time.sleep(0.3)
        assert capsys.readouterr().err.startswith(said)
        assert said or not capsys.readouterr().err


def test_times_and_sizes_have_units_that_suit():
    assert [duration(s) for s in (0.04, 9.96, 99, 101, 5399, 5401)] == [
        "0.0 s",
        "10.0 s",
        "99 s",
        "2 min",
        "90 min",
        "1.5 h",
    ]
    assert [size_text(n) for n in (0, 9999, 10_000, 999_999, 1_000_000)] == [
        "0.0 kB",
        "10.0 kB",
        "10 kB",
        "1000 kB",
        "1.0 MB",
    ]
