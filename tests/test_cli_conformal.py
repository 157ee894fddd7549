"""``kcdo fit --calibrate``, ``predict --conformal``, and what ``info`` says without the model."""

import json

import numpy as np
import pandas as pd
import pytest

import kcdo
from kcdo.commands import facts
from kcdo.commands.holdout import Holdout, Parts
from kcdo.commands.models import load_model
from tests.command_line import fail_here, succeed, succeed_here


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Rows whose spread varies, of two kinds, for a fit that knows of no kinds of spread."""
    folder = tmp_path_factory.mktemp("conformal")
    rng = np.random.default_rng(3)
    for name, n in (("data", 240), ("new", 400)):
        x, road = rng.uniform(0, 4, n), rng.choice(["lane", "ramp"], n)
        y = x + np.where(road == "ramp", 1.0, 0.2) * rng.normal(size=n)
        station = rng.integers(0, 12, n)
        frame = pd.DataFrame({"x": x, "road": road, "y": y, "z": -y, "station": station})
        frame.round(4).to_csv(folder / f"{name}.csv", index=False)
    start = ["fit", folder / "data.csv", "--target", "y", "--given", "x,road"]
    fit = [*start, "--selection", "heuristic", "--calibrate", "0.4", "--test", "0.2"]
    (folder / "said.txt").write_text(succeed(*fit, "-o", folder / "model.kcdo"))
    return folder


def test_intervals_hold_as_many_new_rows_as_they_promise(folder, capsys):
    out = folder / "out.csv"
    model = folder / "model.kcdo"
    command = ["predict", model, folder / "new.csv", "--conformal", "0.5,0.9"]
    succeed_here(*command, "--stats", "mean", "-o", out)
    table = pd.read_csv(out)
    assert list(table)[-5:] == ["mean", "lower50", "upper50", "lower90", "upper90"]
    for level in (0.5, 0.9):
        ends = [table[f"{side}{100 * level:g}"] for side in ("lower", "upper")]
        inside = table["y"].between(*ends)
        # 96 calibration rows and 400 new ones: three standard deviations of the share
        spread = np.sqrt(level * (1 - level) * (1 / 96 + 1 / 400))
        assert abs(inside.mean() - level) < 3 * spread
    predictor = kcdo.load(model)
    assert isinstance(predictor, kcdo.ConformalPredictor)
    assert len(predictor) == 96
    expected = predictor.interval(load_model(model).inputs(table[["x", "road"]]), 0.9)
    np.testing.assert_allclose(table[["lower90", "upper90"]], expected, rtol=1e-6)


def test_rows_are_used_once(folder):
    said = (folder / "said.txt").read_text()
    assert "to 96 rows of data.csv" in said
    assert "Calibrated on 96 rows kept back, 40% at random, seed 0." in said
    assert "Tested on 48 rows kept back, 20% at random, seed 0:" in said
    assert "of y inside its calibrated intervals" in said
    assert "--conformal 0.9 -o predictions.csv" in said
    frame = pd.read_csv(folder / "data.csv")
    for how in ({}, {"group": "station"}, {"time": "x"}):
        parts = Parts.of(frame, Holdout(0.2, **how), Holdout(0.4, **how))
        together = parts.fitted.astype(int) + parts.test + parts.calibration
        assert (together == 1).all()
        assert abs(parts.calibration.mean() - 0.4) < 0.1
    assert frame["x"][parts.fitted].max() <= frame["x"][parts.calibration].min()
    assert frame["x"][parts.calibration].max() <= frame["x"][parts.test].min()
    by_station = Parts.of(frame, Holdout(0.2, group="station"), Holdout(0.4, group="station"))
    masks = (by_station.fitted, by_station.test, by_station.calibration)
    stations = [set(frame["station"][mask]) for mask in masks]
    assert sum(map(len, stations)) == len(set().union(*stations)) == 12


def test_other_commands_take_calibrated_models(folder, capsys):
    model, data = folder / "model.kcdo", folder / "new.csv"
    told = json.loads(succeed_here("evaluate", model, data, "--json", capsys=capsys))
    assert set(told["conformal"]["y"]) == {"0.5", "0.8", "0.9", "0.95"}
    answer = succeed_here("density", model, "--at", "x=1,road=ramp", "--grid", 3, capsys=capsys)
    assert answer.startswith("y,density\n")


def test_several_targets_have_intervals_each(folder, tmp_path, capsys):
    model, out = tmp_path / "joint.kcdo", tmp_path / "out.csv"
    fit = ["fit", folder / "data.csv", "--target", "y,z", "--given", "x", "--calibrate", "0.5"]
    succeed_here(*fit, "--selection", "heuristic", "-o", model)
    succeed_here("predict", model, folder / "data.csv", "--conformal", "0.8", "-o", out)
    table = pd.read_csv(out)
    assert list(table)[-4:] == ["lower80_y", "lower80_z", "upper80_y", "upper80_z"]
    assert (table["lower80_z"] < table["upper80_z"]).all()


def test_what_cannot_be_calibrated_is_said(folder, tmp_path, capsys):
    data, model, plain = folder / "data.csv", folder / "model.kcdo", tmp_path / "plain.kcdo"
    fit = ["fit", data, "--target", "y", "--given", "x", "--selection", "heuristic"]
    succeed_here(*fit, "--quiet", "-o", plain)
    fail_here(
        capsys,
        [
            (["predict", plain, data, "--conformal", "0.9"], 2, ["fit it with --calibrate 0.2"]),
            (["predict", model, data, "--conformal", "90"], 2, ["between 0 and 1", "'90'"]),
            (["predict", model, data, "--conformal", "x"], 2, ["between 0 and 1", "'x'"]),
            (["predict", model, data, "--conformal", "0.99"], 2, ["99 calibration rows", "96"]),
            ([*fit, "--calibrate", "1", "-o", plain], 2, ["--calibrate takes a share between"]),
            ([*fit, "--calibrate", "0", "-o", plain], 2, ["--calibrate takes a share between"]),
            (
                [*fit, "--calibrate", "0.6", "--test", "0.4", "-o", plain],
                2,
                ["--test and --calibrate together leave no rows to fit"],
            ),
        ],
    )


def test_info_makes_no_model(folder, monkeypatch, capsys):
    def load(path):
        raise AssertionError("the model was loaded")

    monkeypatch.setattr("kcdo.loading.load", load)
    told = succeed_here("info", folder / "model.kcdo", capsys=capsys)
    for part in (
        "road    categories: lane, ramp",
        " unpacked",
        f"fitted to 96 rows of {folder / 'data.csv'}",
        "calibrated on 96 rows (split): predict --conformal",
        "kept back 48 rows (20.0%): 20% at random, seed 0",
        "mean log density, per unit of y; higher is better",
    ):
        assert part in told
    found = json.loads(succeed_here("info", folder / "model.kcdo", "--json", capsys=capsys))
    assert found["calibration"] == {"method": "split", "rows": 96, "groups": None}
    assert sorted(found["categories"]["road"]) == ["lane", "ramp"]
    assert found["test"]["rows"] == 48
    assert found["size"]["file"] == (folder / "model.kcdo").stat().st_size


def test_info_of_a_file_that_tells_less(folder, monkeypatch, capsys):
    """Files of earlier versions are loaded for it; forged ones are damaged, not a defect."""
    path = folder / "model.kcdo"
    whole = facts.model_info(path)
    less = {name: value for name, value in whole.items() if name != "columns"}
    monkeypatch.setattr(facts, "model_info", lambda path: less)
    assert "road    categories: lane, ramp" in succeed_here("info", path, capsys=capsys)
    for columns in ("text", {"given": [1]}, {**whole["columns"], "periods": {"x": "long"}}):
        monkeypatch.setattr(facts, "model_info", lambda path, c=columns: whole | {"columns": c})
        fail_here(capsys, [(["info", path], 1, ["what the file says of itself is damaged"])])
