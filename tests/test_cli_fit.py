"""``kcdo fit`` and ``kcdo info`` through the real executable, on real files."""

import gzip
import json

import numpy as np
import pandas as pd
import pytest

import kcdo
from kcdo.commands.models import load_model
from tests.command_line import (
    fail_here,
    fail_together,
    finish,
    run,
    start,
    succeed,
    succeed_here,
)


@pytest.fixture
def frame(rng):
    n = 60
    flow, hour = rng.uniform(0, 2000, n).round(1), rng.uniform(0, 24, n).round(2)
    weather = np.array(["dry", "rain", "None"])[np.arange(n) % 3]
    speed = (90 - flow / 50 + rng.normal(size=n)).round(2)
    return pd.DataFrame({"flow": flow, "hour": hour, "weather": weather, "speed": speed})


def options(path, *more):
    return ["fit", path, "--selection", "heuristic", *more]


def test_fit_prints_a_summary_and_info_the_report(frame, tmp_path, capsys):
    data, model = tmp_path / "data.csv", tmp_path / "model.kcdo"
    frame.to_csv(data, index=False)
    given = ["--target", "speed", "--given", "flow,hour,weather", "--periodic", "hour:24"]
    text = succeed(*options(data, *given, "-o", model))
    assert text.startswith("Fitted speed given flow, hour, weather to 60 rows of data.csv (exact")
    assert "categories: None, dry, rain" in text
    assert "periodic with period 24" in text
    assert f"kcdo predict {model} {data}" in text
    told = succeed_here("info", model, capsys=capsys)
    assert "selection      heuristic" in told
    assert "weather  categories: None, dry, rain" in told
    facts = json.loads(succeed_here("info", model, "--json", capsys=capsys))
    assert facts["given"] == ["flow", "hour", "weather"]
    assert facts["target"] == ["speed"]
    assert facts["periods"] == {"hour": 24.0}
    assert facts["report"]["n_samples"] == 60


def test_the_same_table_in_any_format_gives_the_same_model(frame, tmp_path, capsys):
    """Semicolons, a BOM and gzip; Parquet and Feather; weights and numbers that are names."""
    pytest.importorskip("pyarrow")
    table = frame.assign(lane=np.arange(60) % 2, weight=1.0 + np.arange(60) % 3, day="")
    text = "\ufeff" + table.to_csv(index=False, sep=";")
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(table.to_csv(index=False).encode()))
    table.to_parquet(tmp_path / "c.parquet")
    table.astype({"weather": "category"}).to_feather(tmp_path / "d.feather")
    chosen = ["--target", "speed,hour", "--given", "flow,weather,lane", "--categorical", "lane"]
    chosen += ["--weights", "weight", "--seed", "3", "--json"]
    names = ("a.csv", "c.parquet", "b.csv.gz", "d.feather")
    commands = [options(tmp_path / n, *chosen, "-o", tmp_path / f"{n}.kcdo") for n in names]
    printed = [succeed_here(*command, capsys=capsys) for command in commands]
    models = []
    for name, text in zip(names, printed, strict=True):
        out, facts = tmp_path / f"{name}.kcdo", json.loads(text)
        assert facts["bytes"] == out.stat().st_size
        assert facts["categories"] == {"weather": ["None", "dry", "rain"], "lane": ["0", "1"]}
        models.append(load_model(out))
    X = models[0].inputs(table[["flow", "weather", "lane"]])
    means = [model.estimator.conditional(X).mean() for model in models]
    assert means[0].shape == (60, 2)
    for mean in means[1:]:
        np.testing.assert_allclose(mean, means[0], rtol=1e-9)


def test_missing_values_are_refused_or_dropped_and_counted(frame, tmp_path, capsys):
    data, model = tmp_path / "data.csv", tmp_path / "model.kcdo"
    holes = frame.assign(note="x").astype({"flow": object, "weather": object})
    holes.loc[[3, 5], "flow"] = ["NA", "None"]
    holes.loc[5, "weather"] = ""
    holes.to_csv(data, index=False)
    chosen = ["--target", "speed", "--given", "flow,weather", "-o", model]
    fail_here(
        capsys, [(options(data, *chosen), 1, ["'flow' (2), 'weather' (1)", "--drop-missing"])]
    )
    assert not model.exists()
    command = options(data, *chosen, "--drop-missing")
    result = finish(start(*command, "--json"))
    assert result.stderr == "Dropped 2 of 60 rows with missing values (flow 2, weather 1).\n"
    assert json.loads(result.stdout)["report"]["n_samples"] == 58
    assert run([str(a) for a in [*command, "--quiet"]]) == 0
    assert capsys.readouterr() == ("", "")


def test_an_option_given_twice_is_refused(frame, tmp_path, capsys):
    """Only the last of the two would count, and nobody would see it."""
    frame.to_csv(tmp_path / "data.csv", index=False)
    command = ["fit", tmp_path / "data.csv", "--target", "speed", "-o", tmp_path / "m.kcdo"]
    fail_here(
        capsys,
        [
            ([*command, "--target", "flow"], 2, ["'--target'", "2 times: give it once, several c"]),
            ([*command, "-o", tmp_path / "n.kcdo"], 2, ["'-o'", "2 times: give it once."]),
        ],
    )
    again = ["--quiet", "--quiet", "--selection", "heuristic", "--support", "0,"]
    succeed_here(*command, *again, capsys=capsys)


def test_bad_tables_are_refused_in_one_line(tmp_path, capsys):
    def write(name, text):
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return tmp_path / name

    good = "flow,hour,speed\n" + "".join(f"{i},{i % 24},{i}.5\n" for i in range(30))
    files = {
        "empty": write("empty.csv", ""),
        "header": write("header.csv", "flow,hour,speed\n"),
        "good": write("good.csv", good),
        "text": write("text.csv", good.replace("\n7,", "\nclosed,")),
        "twice": write("twice.csv", good.replace("hour", "flow")),
        "ragged": write("ragged.csv", good.replace("9,9,", "9,")),
        "latin": write("latin.csv", good.replace("hour", "höur").encode("latin-1")),
        "comma": write("comma.csv", good.replace(",", ";").replace(".5", ",5")),
        "gzip": write("broken.csv.gz", gzip.compress(good.encode())[:-12]),
    }
    rows = [f"{i},{i % 24},,{i}.5\n" for i in range(30)]
    files["hollow"] = write("hollow.csv", "flow,hour,gap,speed\n" + "".join(rows))
    out = tmp_path / "model.kcdo"

    def fit(name, *more, target="speed"):
        path = files.get(name, tmp_path / f"{name}.csv")
        return ["fit", path, "--target", target, "-o", out, *more]

    fail_together(
        [
            (fit("nowhere"), 1, ["there is no file", "nowhere.csv"]),
            (fit("good", target="sped"), 2, ["--target", "'sped'", "did you mean speed?"]),
            (fit("text"), 1, ["'flow'", "'closed' in row 8"]),
        ]
    )
    fail_here(
        capsys,
        [
            (fit("empty"), 1, ["empty.csv is empty"]),
            (fit("header"), 1, ["header.csv has a header but no rows"]),
            (fit("hollow"), 1, ["'gap'", "all 30 are missing"]),
            (fit("twice"), 1, ["two columns named 'flow'"]),
            (fit("good", "--given", "zzz"), 2, ["--given", "'zzz'", "flow, hour, speed"]),
            (fit("hollow", "--drop-missing"), 1, ["'gap'", "all 30 are missing"]),
            (fit("ragged"), 1, ["row 10", "2 fields", "the header has 3"]),
            (fit("latin"), 1, ["UTF-8"]),
            (fit("comma"), 1, ["'speed'", "'0,5' in row 1", "--decimal ,"]),
            (fit("gzip"), 1, ["broken.csv.gz is damaged"]),
        ],
    )
    assert not out.exists()
    assert len(list(tmp_path.iterdir())) == len(files)


def test_bad_options_are_refused_in_one_line(frame, tmp_path, capsys):
    data, out = tmp_path / "data.csv", tmp_path / "model.kcdo"
    frame.to_csv(data, index=False)

    def fit(*more, to=out):
        return ["fit", data, "--target", "speed", "-o", to, *more]

    fail_here(
        capsys,
        [
            (fit("--given", "flow,speed"), 2, ["'speed' is asked for twice"]),
            (fit("--periodic", "hour"), 2, ["hour:24", "'hour'"]),
            (fit("--periodic", "hour:24", "--categorical", "hour"), 2, ["'hour' cannot be both"]),
            (fit("--categorical", "weathr"), 2, ["--categorical", "did you mean weather?"]),
            (fit(to=tmp_path / "none" / "m.kcdo"), 1, ["cannot write", "there is no folder"]),
            (fit(to=tmp_path), 1, ["cannot write", "it is a folder"]),
        ],
    )
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data.csv"]


@pytest.mark.parametrize("selection", ["heuristic", "auto"])
@pytest.mark.usefixtures("short_searches")
def test_texts_and_outputs_of_few_values_are_as_in_python(selection, frame, tmp_path, capsys):
    data, model = tmp_path / "data.csv", tmp_path / "model.kcdo"
    table = frame.assign(late=(frame["speed"] < 70) * 1.0, same=3.0)
    table.to_csv(data, index=False)
    command = ["fit", data, "--given", "flow,weather", "--selection", selection, "-o", model]
    given = table[["flow", "weather"]]
    for target, warning in (
        ("speed", None),
        ("late", "output 'late' has only 2 distinct values"),
        ("same", "output 'same' is 3 in every row"),
    ):
        succeed_here(*command, "--target", target, "--quiet")
        estimator = kcdo.ConditionalDensityOperator(selection=selection)
        if warning is None:
            expected = estimator.fit(given, table[target]).predict(given)
        else:
            with pytest.warns(kcdo.DiscreteOutputWarning, match=warning):
                expected = estimator.fit(given, table[target]).predict(given)
            capsys.readouterr()
            succeed_here(*command, "--target", target, "--json")
            assert f"Warning: {warning}" in capsys.readouterr().err
        found = load_model(model)
        np.testing.assert_allclose(found.estimator.predict(found.inputs(given)), expected)


def test_a_target_of_texts_is_told_what_works(frame, tmp_path, capsys):
    data, model = tmp_path / "data.csv", tmp_path / "model.kcdo"
    frame.to_csv(data, index=False)
    command = options(data, "--given", "flow,hour", "-o", model)
    parts = ["--target weather", "texts, such as 'dry' in row 1", "1 where weather is 'dry'"]
    fail_here(capsys, [([*command, "--target", "weather"], 1, parts)])
    frame.assign(dry=(frame["weather"] == "dry") * 1).to_csv(data, index=False)
    succeed_here(*command, "--target", "dry", "--quiet")  # as the message says
