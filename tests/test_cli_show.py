"""``kcdo evaluate``, ``plot`` and ``report`` through the real executable."""

import json
import re

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from kcdo import progress
from kcdo.commands.models import load_model
from tests.command_line import fail_here, succeed, succeed_here


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with two tables, and models of one and of two targets."""
    rng = np.random.default_rng(11)
    path = tmp_path_factory.mktemp("show")
    for name in ("train.csv", "test.csv"):
        x, kind = rng.uniform(0, 6, 150), rng.choice(["a", "b"], 150)
        y = np.sin(x) + (kind == "a") + 0.2 * rng.normal(size=150)
        z = x + rng.normal(size=150)
        pd.DataFrame({"kind": kind, "x": x, "y": y, "z": z}).to_csv(path / name, index=False)
    for target, name in (("y", "one.kcdo"), ("y,z", "two.kcdo")):
        command = ["fit", path / "train.csv", "--target", target, "--given", "kind,x"]
        succeed_here(*command, "--selection", "heuristic", "--quiet", "-o", path / name)
    return path


def test_evaluate_prints_scores_and_draws_the_calibration(folder, tmp_path, capsys):
    figure = tmp_path / "pit.png"
    text = succeed("evaluate", folder / "one.kcdo", folder / "test.csv", "-o", figure)
    for part in ("150 rows", "log score", "CRPS", "CDE loss", "(of 90%)", f"Wrote {figure}."):
        assert part in text
    assert figure.read_bytes().startswith(b"\x89PNG")
    command = ["evaluate", folder / "two.kcdo", folder / "test.csv", "--json"]
    scores = json.loads(succeed_here(*command, capsys=capsys))
    assert scores["rows"] == 150
    model, test = load_model(folder / "two.kcdo"), pd.read_csv(folder / "test.csv")
    mean_log = model.estimator.score(model.inputs(test), test[["y", "z"]])
    np.testing.assert_allclose(scores["log_score"], mean_log)
    assert scores["crps"]["y"] < scores["crps"]["z"] < 1
    assert 0.7 < scores["coverage"]["y"]["0.9"] <= 1
    assert scores["figure"] is None


def test_plot_writes_a_picture(folder, tmp_path, capsys):
    data = ["--data", folder / "test.csv"]
    out = tmp_path / "fig.png"
    assert succeed("plot", folder / "one.kcdo", *data, "-o", out) == f"Wrote {out}.\n"
    assert out.read_bytes().startswith(b"\x89PNG")
    vector = tmp_path / "fig.svg"
    command = ["plot", folder / "two.kcdo", *data, "-o", vector]
    succeed_here(*command, "--target", "z", "--feature", "x", capsys=capsys)
    upwards = vector.read_text()
    succeed_here(*command, "--at", "x=3±0.5,kind=a", capsys=capsys)
    assert "<svg" in upwards
    assert vector.read_text() != upwards
    one = ["plot", folder / "one.kcdo", *data, "-o"]
    fail_here(
        capsys,
        [
            ([*one, tmp_path / "fig.doc"], 2, ["fig.doc", ".png"]),
            ([*one, out, "--feature", "xx"], 2, ["--feature", "did you mean x?"]),
            ([*one, out, "--feature", "x", "--at", "x=3"], 2, ["x is drawn across"]),
            ([*one, out, "--feature", "kind", "--at", "x=3±1"], 2, ["without ±"]),
            ([*one, out, "--at", "xx=3"], 2, ["--at", "did you mean x?"]),
        ],
    )


def test_plot_draws_every_pair_of_three_targets(folder, tmp_path, capsys):
    table = pd.read_csv(folder / "train.csv")
    table = table.assign(v=table["y"] - table["x"])
    table.to_csv(tmp_path / "three.csv", index=False)
    data, model, out = tmp_path / "three.csv", tmp_path / "three.kcdo", tmp_path / "pairs.svg"
    fit = ["fit", data, "--target", "y,z,v", "--given", "x", "--selection", "heuristic", "--quiet"]
    succeed_here(*fit, "-o", model, capsys=capsys)
    with mpl.rc_context({"svg.fonttype": "none"}):  # texts stay texts
        succeed_here("plot", model, "--data", data, "--at", "x=3", "-o", out, capsys=capsys)
    drawn = out.read_text()
    assert drawn.count('id="axes_') == 6  # three pairs, and each by itself
    assert "given x = 3" in drawn


@pytest.mark.parametrize(
    ("model", "options", "names"),
    [
        ("one", ["--at", "kind=b"], ["x", "y", "at kind = b", "data near the slice"]),
        ("one", ["--feature", "kind"], ["kind", "y", "a", "b", "median"]),
        ("one", ["--feature", "kind", "--at", "x=2"], ["kind", "at x = 2"]),
        (
            "one",
            ["--at", "x=3,kind=a"],
            ["y", "density", "given kind = a, x = 3", "data near the slice"],
        ),
        ("one", ["--at", "x=3±0.5,kind=a"], ["y", "given kind = a, x = 3 ± 0.5"]),
        ("two", ["--at", "x=3,kind=a"], ["y", "z", "given kind = a, x = 3", "data near the slice"]),
        ("two", ["--at", "x=3,kind=a", "--target", "z"], ["z", "density"]),
        ("two", ["--feature", "kind", "--at", "x=2", "--target", "z"], ["kind", "z", "at x = 2"]),
    ],
)
def test_plot_draws_slices(folder, tmp_path, capsys, model, options, names):
    out = tmp_path / "fig.svg"
    command = ["plot", folder / f"{model}.kcdo", "--data", folder / "test.csv", "-o", out]
    with mpl.rc_context({"svg.fonttype": "none"}):  # letters stay letters
        succeed_here(*command, *options, capsys=capsys)
    words = re.findall(r"<text[^>]*>([^<]*)</text>", out.read_text())
    for name in names:
        assert name in words


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("one", ["--feature", "kind", "--at", "x=60"]),
        ("one", ["--at", "x=60,kind=a"]),
        ("two", ["--at", "x=60,kind=a"]),
    ],
)
def test_plot_far_from_all_rows_says_so(folder, tmp_path, capsys, model, options):
    out = tmp_path / "fig.svg"
    command = ["plot", folder / f"{model}.kcdo", "--data", folder / "test.csv", "-o", out]
    with mpl.rc_context({"svg.fonttype": "none"}):
        succeed_here(*command, *options)
    assert re.search(r"^Note: x=60 is 54\.\d+ above the largest", capsys.readouterr().err)
    assert "no data near the slice" in out.read_text()


def test_a_long_query_is_broken_into_lines(tmp_path, capsys):
    names = [f"a column with a long name, number {i}" for i in range(6)]
    table = np.random.default_rng(0).normal(size=(40, 7))
    data, model, out = (tmp_path / name for name in ("d.csv", "m.kcdo", "fig.svg"))
    pd.DataFrame(table, columns=[*names, "y"]).to_csv(data, index=False)
    fit = ["fit", data, "--target", "y", "--selection", "heuristic", "--quiet", "-o", model]
    succeed_here(*fit, capsys=capsys)
    at = ",".join(f"{name}=0" for name in names)
    with mpl.rc_context({"svg.fonttype": "none"}):
        succeed_here("plot", model, "--data", data, "--at", at, "-o", out, capsys=capsys)
    words = re.findall(r"<text[^>]*>([^<]*)</text>", out.read_text())
    assert max(map(len, words)) <= 56
    assert "number 5 = 0" in " ".join(words)


def test_a_report_names_its_stages_without_a_terminal(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(progress, "_LONG", 0.001)
    command = ["report", folder / "one.kcdo", "--data", folder / "test.csv", "-o"]
    succeed_here(*command, tmp_path / "r.html")
    said = capsys.readouterr().err
    for stage in ("accuracy", "effects", "densities"):
        assert re.search(rf"^kcdo  {stage} \.\.\. [\d.]+ s$", said, flags=re.MULTILINE), said
    succeed_here(*command, tmp_path / "r.html", "--quiet")
    assert capsys.readouterr().err == ""


def test_report_writes_one_page(folder, tmp_path, capsys):
    out = tmp_path / "report.html"
    text = succeed("report", folder / "one.kcdo", "--data", folder / "test.csv", "-o", out)
    assert text.startswith(f"Wrote {out} (")
    page = out.read_text(encoding="utf-8")
    assert "<html" in page
    assert "kind" in page
    assert "each predicted by a fit with the same parameters that had not seen it" in page
    unseen = ["report", folder / "one.kcdo", "--held-out", folder / "test.csv", "-o", out]
    succeed_here(*unseen, "--quiet")
    assert "that the model was not fitted to" in out.read_text(encoding="utf-8")
    command = ["report", folder / "one.kcdo", "--data", folder / "none.csv", "-o", out]
    nowhere = [*command[:3], folder / "test.csv", "-o", tmp_path / "none" / "r.html"]
    fail_here(
        capsys,
        [
            (command, 1, ["there is no file"]),
            (nowhere, 1, ["there is no folder"]),
            ([*unseen, "--data", folder / "test.csv"], 2, ["--data, or by --held-out"]),
            ([*unseen[:2], "-o", out], 2, ["--data, or by --held-out"]),
        ],
    )
