"""``kcdo density`` and ``kcdo sample`` through the real executable."""

import csv
import json

import numpy as np
import pandas as pd
import pytest

import kcdo as library
from kcdo.commands.models import load_model
from tests.command_line import fail_here, succeed, succeed_here, succeed_together


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with models of numbers, of numbers and categories, and of two targets."""
    rng = np.random.default_rng(5)
    n = 120
    x, w = rng.uniform(0, 10, (2, n))
    kind = np.where(rng.random(n) < 0.5, "a", "b")
    y = np.sin(x) + np.where(kind == "a", 2.0, 0.0) + 0.3 * rng.normal(size=n)
    path = tmp_path_factory.mktemp("query")
    pd.DataFrame({"x": x, "w": w, "kind": kind, "y": y}).to_csv(path / "data.csv", index=False)
    for target, given, name in (("y", "x,w", "n"), ("y", "x,kind", "k"), ("y,w", "x", "two")):
        command = ["fit", path / "data.csv", "--target", target, "--given", given]
        succeed_here(*command, "--selection", "heuristic", "--quiet", "-o", path / f"{name}.kcdo")
    return path


def table(text):
    rows = list(csv.reader(text.splitlines()))
    return rows[0], np.array([[float(v) for v in row] for row in rows[1:]])


def test_density_of_exact_and_uncertain_inputs(folder, tmp_path):
    model = load_model(folder / "n.kcdo").estimator
    out = tmp_path / "p.json"
    command = ["density", folder / "n.kcdo"]
    several = ["--at", "x=3±0.5,w=2", "--at", "x=3+-0.5,w=2", "--at", "x = 3 , w = 2"]
    printed, nothing = succeed_together(
        [
            [*command, "--at", "x=3,w=-1e0", "--grid", 50],
            [*command, *several, "--grid", "20", "--json", "-o", out],
        ]
    )
    header, values = table(printed)
    assert header == ["y", "density"]
    assert len(values) == 50
    exact = model.conditional(pd.DataFrame({"x": [3.0], "w": [-1.0]}))
    np.testing.assert_allclose(values[:, 1], exact.pdf(values[:, 0])[0], rtol=1e-5, atol=1e-12)
    assert abs(np.trapezoid(values[:, 1], values[:, 0]) - 1) < 0.02
    assert nothing == ""
    first, second, third = json.loads(out.read_text(encoding="utf-8"))
    assert first["at"] == "x=3±0.5,w=2"
    assert first["density"] == second["density"]
    uncertain = model.conditional(library.GaussianInput([[3.0, 2.0]], [0.25, 0.0]))
    certain = model.conditional(pd.DataFrame({"x": [3.0], "w": [2.0]}))
    np.testing.assert_allclose(first["density"], uncertain.pdf(first["y"])[0], rtol=1e-9)
    np.testing.assert_allclose(third["density"], certain.pdf(third["y"])[0], rtol=1e-9)
    assert np.abs(np.subtract(first["density"], third["density"])).max() > 1e-3


def test_uncertain_numbers_beside_categories(folder, capsys):
    at = ("--at", "x=3±0.000001,kind=a", "--at", "x=3,kind=a", "--at", "x=3±2,kind=b")
    near, exact, wide = json.loads(
        succeed_here("density", folder / "k.kcdo", *at, "--json", capsys=capsys)
    )
    np.testing.assert_allclose(near["density"], exact["density"], rtol=1e-4, atol=1e-9)
    assert np.abs(np.subtract(wide["density"], exact["density"])).max() > 0.01


def test_two_targets_jointly_and_one_of_them(folder, capsys):
    command = ["density", folder / "two.kcdo", "--at", "x=3"]
    header, joint = table(succeed_here(*command, "--grid", 30, capsys=capsys))
    assert header == ["y", "w", "density"]
    assert len(joint) == 900
    cell = np.ptp(joint[:, 0]) / 29 * np.ptp(joint[:, 1]) / 29
    assert abs(joint[:, 2].sum() * cell - 1) < 0.05
    header, single = table(succeed_here(*command, "--target", "w", capsys=capsys))
    assert header == ["w", "density"]
    assert abs(np.trapezoid(single[:, 1], single[:, 0]) - 1) < 0.02


def test_draws_are_those_of_the_model_and_repeat(folder, tmp_path, capsys):
    command = ["sample", folder / "two.kcdo", "--at", "x=3", "-n", 400, "--seed", 1]
    out = tmp_path / "draws.csv"
    printed = succeed(*command)
    told = succeed_here(*command, "-o", out, capsys=capsys)
    header, draws = table(printed)
    assert header == ["y", "w"]
    assert told == f"Wrote {out}: 400 rows.\n"
    assert out.read_text() == printed
    dist = load_model(folder / "two.kcdo").estimator.conditional(pd.DataFrame({"x": [3.0]}))
    np.testing.assert_allclose(draws.mean(axis=0), dist.mean()[0], atol=5 * dist.std().max() / 20)
    at = ["--at", "x=1,kind=a", "--at", "x=1,kind=b"]
    text = succeed_here("sample", folder / "k.kcdo", *at, "-n", 2, capsys=capsys)
    assert text.startswith('at,y\n"x=1,kind=a",')
    assert len(text.splitlines()) == 5


def test_bad_queries_are_refused_in_one_line(folder, tmp_path, capsys):
    def density(*at, model="k"):
        return ["density", folder / f"{model}.kcdo", *(p for a in at for p in ("--at", a))]

    fail_here(
        capsys,
        [
            (density("x=3,kinds=a"), 2, ["'kinds'", "did you mean kind?"]),
            (density("x=3"), 2, ["needs a value of kind"]),
            (density("x=3,kind=c"), 2, ["kind=c", "the model knows"]),
            (density("x=much,kind=a"), 2, ["x=much", "1200±50"]),
            (density("x=3±-1,kind=a"), 2, ["x=3±-1"]),
            (density("x=3,x=4,kind=a"), 2, ["x has two values"]),
            (density("x3,kind=a"), 2, ["'x3'", "x=1,kind="]),
            ([*density("x=3", model="two"), "--target", "z"], 2, ["'z'", "y, w"]),
            ([*density("x=3", model="two"), "--grid", "99999"], 2, ["--target"]),
            ([*density("x=3", model="two"), "-o", tmp_path], 1, ["it is a folder"]),
        ],
    )
