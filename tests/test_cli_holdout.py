"""``kcdo fit`` with rows kept back, bounds of targets, and rows unlike those of the fit."""

import json
import re
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest

import kcdo
from kcdo import metrics
from kcdo.commands.columns import Place, moments
from kcdo.commands.console import Console
from kcdo.commands.holdout import Holdout
from kcdo.commands.models import load_model
from kcdo.errors import InvalidInputError
from kcdo.metrics import in_turn
from kcdo.rows import Kin
from tests.command_line import fail_here, succeed, succeed_here
from tests.command_line import kcdo as run_kcdo

N = 200


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(3)
    flow = rng.uniform(0, 100, N).round(2)
    return pd.DataFrame(
        {
            "flow": flow,
            "hour": rng.uniform(0, 24, N).round(2),
            "weather": rng.choice(["dry", "rain"], N),
            "station": [f"s{i % 10}" for i in range(N)],
            "same": "one",
            "day": [str(day.date()) for day in pd.date_range("2024-01-01", periods=N)[::-1]],
            "speed": np.maximum(0, 120 - flow + 5 * rng.normal(size=N)).round(2),
        }
    )


@pytest.fixture(scope="module")
def folder(frame, tmp_path_factory):
    """A folder with the table and a model of it."""
    path = tmp_path_factory.mktemp("holdout")
    frame.to_csv(path / "data.csv", index=False)
    succeed_here(*fit(path, "-o", path / "model.kcdo", "--quiet"))
    return path


def fit(folder, *more, given="flow,hour,weather"):
    start = ["fit", folder / "data.csv", "--target", "speed", "--selection", "heuristic"]
    return [*start, "--given", given, "--periodic", "hour:24", *more]


def test_rows_kept_back_are_not_fitted_and_are_scored(folder, frame, tmp_path, capsys):
    out = tmp_path / "m.kcdo"
    text = succeed(*fit(folder, "--test", "0.2", "-o", out))
    for part in (
        "to 160 rows of data.csv",
        "Tested on 40 rows kept back, 20% at random, seed 0:",
        "mean log density, per unit of speed; higher is better",
        "in units of speed; lower is better",
        "(of 90%)",
    ):
        assert part in text
    told = succeed_here("info", out, capsys=capsys)
    assert "kept back 40 rows (20.0%): 20% at random, seed 0" in told
    assert f"fitted to 160 rows of {folder / 'data.csv'}" in told
    facts = json.loads(succeed_here("info", out, "--json", capsys=capsys))
    assert facts["held_out"] == {"rows": 40, "fraction": 0.2, "split": "20% at random, seed 0"}


def test_without_a_test_the_rows_of_the_fit_are_held_out_in_turn(folder, tmp_path, capsys):
    out = tmp_path / "m.kcdo"
    told = succeed_here(*fit(folder, "-o", out), capsys=capsys)
    assert "Tested on 200 rows of the fit, each foretold without it, parameters as chosen:" in told
    text = succeed_here("info", out, capsys=capsys)
    assert "tested on 200 rows of the fit, each foretold without it" in text
    assert "in units of speed; lower is better" in text
    assert "\nloss" not in text
    facts = json.loads(succeed_here("info", out, "--json", capsys=capsys))
    assert facts["held_out"] is None
    kept = json.loads(
        succeed_here(*fit(folder, "--test", "0.2", "--json", "-o", out), capsys=capsys)
    )
    assert facts["test"]["crps"]["speed"] == pytest.approx(kept["test"]["crps"]["speed"], rel=0.3)
    assert facts["test"]["log_score"] == pytest.approx(kept["test"]["log_score"], abs=0.4)


@pytest.mark.parametrize(
    ("options", "n", "words"),
    [
        ([], 200, "Measured on 200 rows, each predicted by a fit with the same parameters"),
        (["--calibrate", "0.2"], 160, "that had not seen it. The scores are of 160 rows"),
        (["--test", "0.2"], 40, "Measured on 40 of these rows, which were kept back from the fit."),
    ],
)
def test_a_report_shows_the_held_out_predictions_of_the_fit(
    folder, frame, tmp_path, capsys, monkeypatch, options, n, words
):
    out, page = tmp_path / "m.kcdo", tmp_path / "r.html"
    facts = json.loads(succeed_here(*fit(folder, *options, "--json", "-o", out), capsys=capsys))
    model = load_model(out).estimator
    kept = model.foretold_
    np.testing.assert_array_equal(kept.outputs[:, 0], frame["speed"].to_numpy()[kept.rows])
    assert kept.accuracy.outputs[0].crps == pytest.approx(facts["test"]["crps"]["speed"])
    inside = facts["test"]["coverage"]["speed"]["0.9"]
    assert kept.accuracy.outputs[0].coverage(0.9) == pytest.approx(inside)

    refits, refit = [], type(model).refit

    def noted(*arguments):
        refits.append(arguments)
        return refit(*arguments)

    monkeypatch.setattr(type(model), "refit", noted)
    succeed_here("report", out, "--data", folder / "data.csv", "--quiet", "-o", page, capsys=capsys)
    text = page.read_text()
    assert words in text
    assert f'<p class="on">{n} held-out rows</p>' in text
    assert not refits
    other = frame.assign(speed=frame["speed"] + 1.0)  # of another table nothing was kept
    other.to_csv(tmp_path / "other.csv", index=False)
    succeed_here("report", out, "--data", tmp_path / "other.csv", "-o", page, capsys=capsys)
    assert len(refits) == 5


def test_the_time_left_of_held_out_scores_is_shown(folder, tmp_path, monkeypatch, capsys):
    shown = []

    @contextmanager
    def progress(self, text, total):
        yield lambda done: shown.append((text, done, total))

    monkeypatch.setattr(Console, "progress", progress)
    succeed_here(*fit(folder, "-o", tmp_path / "m.kcdo", "--quiet"))
    assert [x for x in shown if x[0] == "Held-out scores"] == [
        ("Held-out scores", i, 5) for i in range(1, 6)
    ]
    monkeypatch.setattr(in_turn, "_FEW", 100)  # many rows are fitted again once
    succeed_here(*fit(folder, "-o", tmp_path / "m.kcdo", "--quiet"))
    assert re.fullmatch(r"Held-out scores, about \d\.\d s", shown[-1][0])
    said = succeed_here("info", tmp_path / "m.kcdo", capsys=capsys)
    assert "tested on 40 rows of the fit, each foretold by a fit to 160 others, param" in said


def test_the_scores_are_those_of_the_rows_kept_back(folder, frame, tmp_path, capsys):
    out = tmp_path / "m.kcdo"
    told = succeed_here(*fit(folder, "--test", "0.25", "--json", "-o", out), capsys=capsys)
    facts = json.loads(told)
    apart = Holdout(0.25).rows(frame)
    model = load_model(out)
    dist = model.estimator.conditional(model.inputs(frame[apart]))
    y = frame["speed"][apart]
    assert facts["test"]["rows"] == 50 == np.count_nonzero(apart)
    np.testing.assert_allclose(facts["test"]["crps"]["speed"], metrics.crps(dist, y))
    np.testing.assert_allclose(facts["test"]["log_score"], metrics.log_score(dist, y))
    covered = metrics.interval_coverage(dist, y, 0.9)
    assert facts["test"]["coverage"]["speed"]["0.9"] == pytest.approx(covered)


def test_groups_stay_together_and_time_goes_on(folder, frame, tmp_path, capsys):
    by_group = ["--test", "0.3", "--group", "station", "-o", tmp_path / "g.kcdo"]
    text = succeed_here(*fit(folder, *by_group), capsys=capsys)
    assert "60 rows kept back, 30% at random by groups of station, seed 0" in text
    by_time = ["--test", "0.1", "--time", "day", "--json", "-o", tmp_path / "t.kcdo"]
    facts = json.loads(succeed_here(*fit(folder, *by_time), capsys=capsys))
    assert facts["held_out"]["split"] == "the last 10% by day"
    # without --given, the columns of group and time are no inputs
    start = ["fit", folder / "data.csv", "--target", "speed", "--selection", "heuristic"]
    hidden = frame.drop(columns=["day", "same"])
    hidden.to_csv(tmp_path / "hidden.csv", index=False)
    start[1] = tmp_path / "hidden.csv"
    told = succeed_here(*start, *by_group[:-1], tmp_path / "h.kcdo", capsys=capsys)
    assert "given flow, hour, weather to" in told


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--group", "station"], "each foretold without its group"),
        (["--time", "day"], "each foretold from earlier ones"),
    ],
)
def test_rows_that_belong_together_are_held_out_together(
    folder, frame, tmp_path, capsys, monkeypatch, options, words
):
    """By the choice of parameters, and by the scores of the rows of the fit."""
    fits, refits = [], []
    whole, again = kcdo.ConditionalDensityOperator.fit, kcdo.ConditionalDensityOperator.refit

    def noted(self, X, y, *given, **labels):
        fits.append(labels)
        return whole(self, X, y, *given, **labels)

    def noted_again(self, X, y, weights):
        refits.append(weights)
        return again(self, X, y, weights)

    monkeypatch.setattr(kcdo.ConditionalDensityOperator, "fit", noted)
    monkeypatch.setattr(kcdo.ConditionalDensityOperator, "refit", noted_again)
    start = ["fit", folder / "data.csv", "--target", "speed", "--given", "flow,hour"]
    told = succeed_here(*start, *options, "-o", tmp_path / "m.kcdo", capsys=capsys)
    assert words in told
    kept = load_model(tmp_path / "m.kcdo").estimator.foretold_.rows
    if "--group" in options:
        names, numbers = np.unique(frame["station"], return_inverse=True)
        same = fits[0]["groups"][:, None] == fits[0]["groups"]
        np.testing.assert_array_equal(same, numbers[:, None] == numbers)
        learnt = [set(names[numbers[weights > 0]]) for weights in refits]
        assert all(0 < len(each) < len(names) for each in learnt)
        assert sorted(kept) == list(range(len(frame)))
    else:
        earlier = [np.flatnonzero(weights > 0) for weights in refits]
        assert all(rows.max() == len(frame) - 1 for rows in earlier)  # the table runs backwards
        assert len(kept) < len(frame)


def test_few_rows_before_very_many_of_one_moment():
    moments = Kin(np.repeat([0, 1], [10, 90]), ordered=True)
    ((learnt, asked),) = in_turn._parts(100, 1000, 1000, moments)
    np.testing.assert_array_equal(learnt, np.arange(10))
    np.testing.assert_array_equal(asked, np.arange(10, 100))


def test_of_many_rows_one_group_of_folds_is_foretold():
    kin = Kin(np.arange(3000) % 10, ordered=False)
    ((learnt, asked),) = in_turn._parts(3000, 100, 500, kin)
    assert (len(learnt), len(asked)) == (500, 100)
    assert set(kin.labels[learnt]).isdisjoint(kin.labels[asked])
    assert in_turn.n_others(3000, 100, kin) == 2400
    moments = Kin(np.arange(3000), ordered=True)
    ((learnt, asked),) = in_turn._parts(3000, 100, 20_000, moments)
    assert learnt.max() < asked.min()
    assert len(learnt) == 2500


def test_holdouts_keep_what_they_promise(frame):
    apart = Holdout(0.3, group="station", seed=1).rows(frame)
    stations = set(frame["station"][apart])
    assert len(stations) == 3
    assert stations.isdisjoint(frame["station"][~apart])
    days = frame.assign(day=moments(frame["day"], Place("data.csv", 1)))
    last = Holdout(0.1, time="day").rows(days)
    assert np.flatnonzero(last).tolist() == list(range(20))  # the table runs backwards
    tied = pd.DataFrame({"t": [1.0, 1.0, 2.0, 2.0, 2.0, 0.0]})
    assert Holdout(0.2, time="t").rows(tied).tolist() == [False, False, True, True, True, False]
    with pytest.raises(InvalidInputError, match=r"leaves 0 of 3 rows to fit and 3 to test"):
        Holdout(0.2, time="t").rows(pd.DataFrame({"t": [1.0, 1.0, 1.0]}))
    with pytest.raises(InvalidInputError, match="some of both"):
        Holdout(0.5, group="g").rows(pd.DataFrame({"g": ["a", "a"]}))
    assert Holdout(0.2, seed=1).words != Holdout(0.2, seed=2).words


def test_times_are_numbers_or_dates():
    def found(values):
        return moments(pd.Series(values, name="when"), Place("data.csv", 1)).tolist()

    assert found(["1", "2.5", ""])[:2] == [1, 2.5]
    assert np.isnan(found(["1", ""])[1])
    early, late, none = found(["2024-01-31 08:00", "2024-01-31T10:00+01:00", "NA"])
    assert late - early == 3600
    assert np.isnan(none)
    assert found(pd.to_datetime(["1970-01-02"])) == [86400]
    with pytest.raises(InvalidInputError, match=r"'when' has '31.01.2024' in row 2 .*2024-01-31"):
        found(["2024-01-30", "31.01.2024"])


def test_categories_of_the_test_alone_are_left_out_of_it(folder, frame, tmp_path):
    data = tmp_path / "data.csv"
    rows = frame.copy()
    rows.loc[[0, 1], "weather"] = "snow"  # the last two days
    rows.to_csv(data, index=False)
    result = run_kcdo(*fit(tmp_path, "--test", "0.1", "--time", "day", "-o", tmp_path / "m.kcdo"))
    assert result.returncode == 0, result.stderr
    assert "Left out of the test: 2 rows with a category that no fitted row has." in result.stderr
    assert "Tested on 18 rows" in result.stdout


def test_bad_holdouts_are_refused(folder, tmp_path, capsys):
    def test(*more):
        return fit(folder, *more, "-o", tmp_path / "m.kcdo")

    fail_here(
        capsys,
        [
            (test("--test", "1"), 2, ["--test takes a share between 0 and 1"]),
            (test("--test", "20"), 2, ["--test"]),
            (test("--group", "station", "--stream"), 2, ["all rows at once", "--no-stream"]),
            (test("--group", "same"), 1, ["--group same: all rows have the same value"]),
            (test("--test", "0.2", "--group", "station", "--time", "day"), 2, ["not by both"]),
            (test("--test", "0.2", "--group", "statin"), 2, ["--group", "did you mean station?"]),
            (
                test("--test", "0.2", "--time", "weather"),
                1,
                ["--time weather", "values are names"],
            ),
            (test("--test", "0.999"), 1, ["leaves 1 of 200 rows to fit"]),
        ],
    )
    assert not (tmp_path / "m.kcdo").exists()


def test_targets_do_not_cross_their_support(folder, tmp_path, capsys):
    out = tmp_path / "m.kcdo"
    succeed_here(*fit(folder, "--support", "0,", "-o", out, "--quiet"))
    at = ["--at", "flow=99,hour=3,weather=dry", "-n", 500]
    text = succeed_here("sample", out, *at, capsys=capsys)
    draws = np.array(text.splitlines()[1:], dtype=float)
    assert draws.min() >= 0
    assert load_model(out).estimator.support == (0.0, None)
    two = ["fit", folder / "data.csv", "--target", "speed,flow", "--given", "hour", "-o", out]
    two += ["--selection", "heuristic", "--support", "speed:0,", "--quiet"]
    succeed_here(*two, "--support", "flow:-1,100.5")
    assert load_model(out).estimator.support == [(0.0, None), (-1.0, 100.5)]
    bad = [
        (["--support", "0"], 2, ["0,100", "got '0'"]),
        (["--support", "5,1"], 2, ["got '5,1'"]),
        (["--support", ","], 2, ["got ','"]),
        (["--support", "0,inf"], 2, ["got '0,inf'"]),
        (["--support", "zero,one"], 2, ["got 'zero,one'"]),
        (["--support", "flow:0,"], 2, ["--support flow", "no column 'flow'"]),
        (["--support", "0,100"], 1, ["values of 'speed' lie outside", "widen the support"]),
    ]
    fail_here(capsys, [(fit(folder, *more, "-o", tmp_path / "n"), *rest) for more, *rest in bad])


def test_queries_outside_the_data_are_answered_with_a_note(folder, capsys):
    model = folder / "model.kcdo"

    def notes(at, *more):
        capsys.readouterr()
        succeed_here("density", model, "--at", at, "--grid", 3, *more)
        told = capsys.readouterr()
        assert told.out.startswith("speed,density\n")
        return told.err

    found = notes("flow=300,hour=30,weather=dry")
    assert found.startswith("Note: flow=300 is 200 ")
    assert "above the largest, 99." in found
    assert "of the training rows (2 times their range)" in found
    assert notes("flow=-10,hour=3,weather=dry").startswith("Note: flow=-10 is 1")
    assert notes("flow=50,hour=3,weather=dry") == ""
    assert notes("flow=300,hour=30,weather=dry", "--quiet") == ""


def test_a_hole_in_the_data_is_mentioned(tmp_path, capsys):
    angle = np.linspace(0, 2 * np.pi, 150)
    ring = pd.DataFrame({"a": np.cos(angle), "b": np.sin(angle), "y": angle})
    ring.to_csv(tmp_path / "data.csv", index=False)
    command = ["fit", tmp_path / "data.csv", "--target", "y", "--selection", "heuristic"]
    succeed_here(*command, "-o", tmp_path / "m.kcdo", "--quiet")
    capsys.readouterr()
    succeed_here("sample", tmp_path / "m.kcdo", "--at", "a=0,b=0", "-n", 1)
    assert "no training row is near a=0,b=0: the nearest is 2" in capsys.readouterr().err


def test_novelty_of_rows(folder, frame, tmp_path, capsys):
    rows = frame.head(3).copy()
    rows.loc[1, "flow"] = 500.0
    rows["hour"] = [frame["hour"][0] + 24, *frame["hour"][1:3]]  # a day later is the same hour
    rows.to_csv(tmp_path / "new.csv", index=False)
    out = tmp_path / "out.csv"
    predict = ["predict", folder / "model.kcdo", tmp_path / "new.csv", "-o", out, "--quiet"]
    succeed_here(*predict, "--stats", "novelty,mean")
    found = pd.read_csv(out)
    assert list(found)[-2:] == ["novelty", "mean"]
    assert found["novelty"][0] == pytest.approx(0, abs=1e-6)
    assert found["novelty"][1] > 10
    assert found["novelty"][2] == pytest.approx(0, abs=1e-6)
    succeed_here(*predict, "--stats", "novelty")
    np.testing.assert_array_equal(pd.read_csv(out)["novelty"], found["novelty"])
    model = kcdo.ConditionalDensityOperator(selection="heuristic")
    model.fit(frame[["flow"]], frame["speed"]).save(tmp_path / "python.kcdo")
    predict[1] = tmp_path / "python.kcdo"
    fail_here(capsys, [([*predict, "--stats", "novelty"], 2, ["models of kcdo fit remember"])])
