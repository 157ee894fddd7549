"""The report: what it says, that it is safe to open, and that it stays small."""

import base64
import itertools
import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

import kcdo
from kcdo.errors import InvalidInputError, MissingExtraError, SignedDensityError
from kcdo.metrics import in_turn
from kcdo.metrics.in_turn import held_out_in_turn
from kcdo.metrics.nearness import place_and_width
from kcdo.reports import shown, write_report
from kcdo.reports.rendering import _environment
from kcdo.reports.text import number, script_json
from kcdo.training import TrainingTable

ATTACK = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


def floats(text):
    return np.frombuffer(base64.b64decode(text), "<f4")


class Page(HTMLParser):
    """What a browser sees: tags with attributes, and the text outside of scripts and styles."""

    def __init__(self, path):
        super().__init__()
        self.source = path.read_text(encoding="utf-8")
        self.tags, self.words, self.open, self.unbalanced = [], [], [], []
        self.feed(self.source)
        self.text = re.sub(r"[ \n]+", " ", " ".join(self.words))
        found = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', self.source)
        self.explorer = json.loads(found[1])
        self.code = self.source.replace(found[1], "")

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "link", "input", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if self.open.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)

    def input(self, label):
        return next(i for i in self.explorer["inputs"] if i["label"] == label)

    def unpack(self, k=0):
        """Axis, densities and statistics of one output."""
        output = self.explorer["outputs"][k]
        low, high, size = output["axis"]
        whole = np.frombuffer(base64.b64decode(output["curves"]), "<u2").reshape(-1, size)
        peaks, statistics = floats(output["peaks"]), floats(output["statistics"])
        statistics = statistics.reshape(-1, len(self.explorer["statistics"]))
        return np.linspace(low, high, size), whole / 65535 * peaks[:, None], statistics

    def combinations(self):
        """Inputs of all curves in turn: codes of categories, and numbers."""
        inputs, anchors = self.explorer["inputs"], self.explorer["anchors"]
        for grid in self.explorer["grids"]:
            base = dict(enumerate(anchors[grid["anchor"]]["values"]))
            choices = [inputs[i]["values"] for i in grid["inputs"]]
            for values in itertools.product(*choices):
                yield base | dict(zip(grid["inputs"], values, strict=True))


def traffic(n, rng):
    """Inputs of every kind, and two outputs."""
    frame = pd.DataFrame(
        {
            "flow [veh/h]": rng.gamma(6, 200, n),
            "hour": rng.integers(0, 24, n).astype(float),
            "lane": pd.Categorical(rng.choice(["left", "right", "middle"], n)),
            "rain_mm": rng.exponential(1, n),
        }
    )
    speed = 110 - 0.02 * frame["flow [veh/h]"] + 4 * rng.standard_normal(n)
    return frame, pd.DataFrame({"speed [km/h]": speed, "gap (s)": rng.gamma(2, 1, n)})


@pytest.fixture(scope="module")
def fitted():
    X, Y = traffic(400, np.random.default_rng(5))
    kernel = (
        kcdo.Gaussian().on(["flow [veh/h]", "rain_mm"])
        * kcdo.Periodic(24.0).on("hour")
        * kcdo.Categorical().on("lane")
    )
    model = kcdo.ConditionalDensityOperator(kernel, selection="heuristic")
    return model.fit(X[:250], Y["speed [km/h]"][:250]), X[250:], Y["speed [km/h]"][250:]


@pytest.fixture(scope="module")
def page(fitted, tmp_path_factory):
    model, X, y = fitted
    return Page(model.report(tmp_path_factory.mktemp("report") / "r.html", X, y, held_out=True))


def small_model(p=1, d=1, n=120, seed=0, **options):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    Y = X[:, :1] + 0.3 * rng.standard_normal((n, d))
    options = {"selection": "heuristic"} | options
    return kcdo.ConditionalDensityOperator(**options).fit(X, Y[:, 0] if d == 1 else Y), X, Y


# ---- what it says ----------------------------------------------------------


def test_the_page_is_well_formed_and_has_all_parts(page):
    assert page.source.startswith("<!doctype html>")
    assert page.unbalanced == []
    assert page.open == []
    assert [a["id"] for tag, a in page.tags if tag == "section"] == [
        "explore",
        "accuracy",
        "effects",
        "data",
        "parameters",
    ]
    assert "speed given flow" in page.text
    assert "fitted to 250 rows and 4 inputs; 150 rows in this report" in page.text


def test_numbers_have_the_units_of_their_columns(page):
    assert re.search(r"CRPS [\d.]+\u202fkm/h", page.text)
    assert re.search(r"to [\d.,]+\u202fveh/h", page.text)
    assert page.explorer["outputs"][0]["unit"] == "km/h"
    assert [page.input(name)["unit"] for name in ("flow", "rain", "hour")] == ["veh/h", "mm", ""]


def test_the_data_table_knows_the_kinds_of_columns(page):
    assert "whole number, periodic (24)" in page.text
    assert "category, 3 values" in page.text
    assert sum(tag == "svg" and a.get("class") == "spark" for tag, a in page.tags) == 5


def test_the_parameters_are_those_of_the_fit(page, fitted):
    report = fitted[0].report_
    assert number(report.alpha) in page.text
    assert "Periodic, scale" in page.text
    assert "Categorical, scale" in page.text
    assert "Jitter" not in page.text  # it is 0


def test_the_most_important_input_comes_first(page):
    assert page.explorer["inputs"][0]["label"] == "flow"
    assert page.explorer["inputs"][0]["kind"] == "slider"
    assert page.input("lane")["kind"] == "select"
    assert page.input("lane")["texts"] == ["left", "middle", "right"]


def test_the_curves_are_those_of_the_model(page, fitted):
    model, X, _ = fitted
    grid, densities, statistics = page.unpack()
    inputs = page.explorer["inputs"]
    names = {"flow": "flow [veh/h]", "rain": "rain_mm", "hour": "hour", "lane": "lane"}
    every = list(page.combinations())
    assert len(densities) == len(statistics) == len(every)
    firsts = [grid["first"] for grid in page.explorer["grids"]]
    rng = np.random.default_rng(0)
    for k in [*firsts[:9], *rng.integers(0, len(every), 5)]:
        row = {
            names[i["label"]]: i["names"][int(value)] if i["names"] else value
            for i, value in zip(inputs, every[k].values(), strict=True)
        }
        dist = model.conditional(pd.DataFrame([row])[list(X.columns)])
        exact = dist.pdf(grid)[0]
        np.testing.assert_allclose(densities[k], exact, atol=0.02 * exact.max())
        step = grid[1] - grid[0]
        edges = [grid[0] - step / 2, *(grid + step / 2)]
        np.testing.assert_allclose(densities[k] * step, np.diff(dist.cdf(edges)[0]), atol=1e-5)
        *asked, place, width = page.explorer["statistics"]
        found = [parts[0, 0] for parts in place_and_width(dist)]
        wanted = [*(dist.summary(asked)[name][0] for name in asked), *found]
        assert (place, width) == ("place", "width")
        np.testing.assert_allclose(statistics[k], wanted, rtol=1e-5, atol=1e-5)


def test_any_two_inputs_can_be_moved(page):
    inputs, grids = page.explorer["inputs"], page.explorer["grids"]
    assert all(i["kind"] != "fixed" for i in inputs)
    for pair in itertools.combinations(range(len(inputs)), 2):
        assert any(g["anchor"] == 0 and set(pair) <= set(g["inputs"]) for g in grids)
    for anchor in range(1, len(page.explorer["anchors"])):  # and any one from a row
        of_row = [g["inputs"] for g in grids if g["anchor"] == anchor]
        assert of_row == [[], *([i] for i in range(len(inputs)))]


def test_the_rows_predicted_worst_lead_into_the_explorer(page, fitted):
    model, X, y = fitted
    densities = model.conditional(X).logpdf_pairs(y)
    worst = (np.argsort(densities)[:10] + 1).tolist()
    assert [a["number"] for a in page.explorer["anchors"]] == [None, *worst]
    links = [a["href"] for tag, a in page.tags if tag == "a" and a["href"].startswith("#row")]
    assert links == [f"#row-{number}" for number in worst]
    for anchor in page.explorer["anchors"][1:]:
        row = anchor["number"] - 1
        assert anchor["outputs"] == [pytest.approx(y.iloc[row])]
        flow = [i["label"] for i in page.explorer["inputs"]].index("flow")
        assert anchor["values"][flow] == pytest.approx(X["flow [veh/h]"].iloc[row])
    assert number(densities.min(), 3) in page.text


def test_the_page_has_the_rows_with_what_was_predicted(page, fitted):
    model, X, y = fitted
    rows = page.explorer["rows"]
    assert rows["n"] == 150
    np.testing.assert_array_equal(floats(rows["numbers"]), np.arange(1, 151))
    np.testing.assert_allclose(floats(rows["outputs"][0]), y, rtol=1e-6)
    dist = model.conditional(X)
    place, width = place_and_width(dist)
    answers = dist.summary(["q5", "q50", "q95"]) | {"place": place[:, 0], "width": width[:, 0]}
    for name, values in answers.items():
        np.testing.assert_allclose(floats(rows["predicted"][0][name]), values, rtol=1e-5)
    for i, packed in zip(page.explorer["inputs"], rows["inputs"], strict=True):
        if i["label"] == "lane":
            assert [i["names"][int(code)] for code in floats(packed)] == X["lane"].tolist()
        if i["label"] == "hour":
            np.testing.assert_allclose(floats(packed), X["hour"])
            assert i["period"] == 24.0


def test_several_outputs_have_marginals_and_two_a_joint_density(tmp_path):
    model, X, Y = small_model(d=2)
    made = Page(model.report(tmp_path / "r.html", X, Y))
    assert [o["label"] for o in made.explorer["outputs"]] == ["y0", "y1"]
    (pair,) = made.explorer["pairs"]
    side = pair["side"]
    images = np.frombuffer(base64.b64decode(pair["images"]), np.uint8).reshape(-1, side, side)
    assert len(images) == len(made.unpack(1)[1])
    # The joint density of the first axis is summed over the second.
    first = images[0].sum(axis=1) / images[0].sum()
    grid, densities, _ = made.unpack(0)
    coarse = np.interp(np.linspace(grid[0], grid[-1], side), grid, densities[0])
    np.testing.assert_allclose(first, coarse / coarse.sum(), atol=0.01)
    assert "Calibration of all outputs at once" in made.text
    assert "of the rank histogram" in made.text
    assert "Calibration of y1" in made.text
    assert "Effects on y1" in made.text


def test_three_outputs_have_a_picture_of_each_pair(tmp_path):
    model, X, Y = small_model(d=3, n=60, reference=kcdo.UniformBox(nodes=(12, 12, 12)))
    made = Page(model.report(tmp_path / "r.html", X, Y, output_names=["a", "b", "c"]))
    assert [pair["outputs"] for pair in made.explorer["pairs"]] == [[0, 1], [0, 2], [1, 2]]
    assert [o["label"] for o in made.explorer["outputs"]] == ["a", "b", "c"]


def test_outputs_have_the_names_of_the_training_data(tmp_path):
    _, X, Y = small_model()
    model = kcdo.ConditionalDensityOperator(selection="heuristic")
    model.fit(X, pd.Series(Y[:, 0], name="speed [km/h]"))
    for y, wanted in ((Y[:, 0], "speed"), (pd.Series(Y[:, 0], name="pace"), "pace")):
        made = Page(model.report(tmp_path / "r.html", X, y))
        assert made.explorer["outputs"][0]["label"] == wanted


@pytest.mark.parametrize(
    ("held_out", "n", "words"),
    [
        (True, 120, "Held-out rows. Measured on 120 rows that the model was not fitted to"),
        (False, 50, "Training rows. Measured on the 50 rows that the model was fitted to: new"),
        (None, 120, "Held-out rows. Measured on 120 rows, each predicted by a fit with the same"),
        (None, 50, "Measured on 50 rows; the model was fitted to 120. The report was not told"),
    ],
)
def test_it_says_which_rows_the_accuracy_is_of(tmp_path, held_out, n, words):
    model, X, Y = small_model()
    made = Page(model.report(tmp_path / "r.html", X[:n], Y[:n, 0], held_out=held_out))
    assert re.search(words, made.text)
    kind = {True: "held-out", False: "training"}.get(held_out, "held-out" if n == 120 else "given")
    cards = re.findall(r"<div><dt>.*?</dd></div>", made.source, flags=re.DOTALL)[:4]
    assert all(f'<p class="on">{n} {kind} rows</p>' in card for card in cards)
    assert f"(On {n} {kind} rows.)" in made.text  # beside the calibration
    in_turn = held_out is None and n == 120
    assert ("the model itself, which has seen it, predicts there" in made.text) is in_turn
    assert ("A link shows what was predicted there" in made.text) is not in_turn
    own = "training" if (held_out, n) == (None, 120) else kind  # of the model's own predictions
    assert f"from 0 to 1; measured on {own} rows" in made.text
    assert "mean log density, per unit of y; higher is better" in made.text


def test_of_many_rows_some_are_fitted_again(tmp_path, monkeypatch):
    monkeypatch.setattr(in_turn, "_FEW", 100)
    monkeypatch.setattr(shown, "_MANY_REFITTED", 50)
    model, X, Y = small_model()
    fitted = []
    refit = type(model).refit

    def noted(self, X, y, weights):
        fitted.append(np.count_nonzero(weights))
        return refit(self, X, y, weights)

    monkeypatch.setattr(type(model), "refit", noted)
    for seconds, n_fitted, words in (
        (1.0, 96, "each predicted by a fit with the same parameters that had not seen it."),
        (60.0, 50, "a fit with the same parameters to 50 other rows. That of all rows will do"),
    ):
        model.report_ = replace(model.report_, seconds=seconds)
        made = Page(model.report(tmp_path / "r.html", X, Y[:, 0]))
        assert "Held-out rows. Measured on 120 rows" in made.text
        assert words in made.text
        assert "The scores are of 24 rows drawn at random from them." in made.text
        assert fitted.pop() == n_fitted


def test_what_a_fit_found_is_told_beside_other_rows(tmp_path):
    model, X, Y = small_model()
    model.training_ = TrainingTable.of(["data.csv"], X)
    test = {"rows": 30, "log_score": -1.25, "crps": {"speed [km/h]": 2.5}}
    for found, words in (
        (test, "had a log score of −1.25 and a CRPS of 2.5 km/h."),
        ({}, "new rows will score worse. Log score"),
        (test | {"log_score": None}, "new rows will score worse. Log score"),
    ):
        model.training_ = replace(model.training_, test=found)
        made = Page(model.report(tmp_path / "r.html", X[:50], Y[:50, 0]))
        assert "Measured on 50 rows; the model was fitted to 120." in made.text
        assert words in made.text.replace("\u202f", " ")


@pytest.mark.parametrize("d", [1, 2])
def test_rows_of_the_fit_are_held_out_in_turn(tmp_path, d):
    """A model that learnt its rows by heart looks perfect on them, and is told not to be."""
    rng = np.random.default_rng(0)
    X, Y = rng.uniform(size=(60, 1)), rng.standard_normal((60, d))  # inputs say nothing
    model = kcdo.ConditionalDensityOperator(kcdo.Gaussian(1e-4), kcdo.Gaussian(0.05), alpha=1e-6)
    model.set_params(selection="heuristic").fit(X, Y[:, 0] if d == 1 else Y)
    Y = Y[:, 0] if d == 1 else Y
    score = {}
    for held_out in (False, None):
        made = Page(model.report(tmp_path / "r.html", X, Y, held_out=held_out))
        score[held_out] = float(re.search(r"CRPS(?: of y0)?\s+([\d.]+)", made.text)[1])
    assert score[False] < 0.1 < 0.4 < score[None] < 0.8  # 0.56 is that of the normal itself
    rows, dists = zip(*held_out_in_turn(model, X, Y, 1000), strict=True)
    assert sorted(np.concatenate(rows)) == list(range(60))
    kept = np.ones(60)
    kept[rows[0]] = 0
    expected = model.refit(X, Y, kept).predict(X[rows[0]])
    np.testing.assert_allclose(dists[0].mean(), expected)


def test_a_chain_of_three_outputs_has_every_pair_and_joint_scores(
    tmp_path, give_effort, monkeypatch
):
    give_effort(orders=1)
    seconds = dict.fromkeys(("importances", "accuracy", "effects", "curves"), 0.5)
    monkeypatch.setattr("kcdo.reports.budget._SECONDS", seconds)
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (60, 1))
    first = X + 0.3 * rng.standard_normal((60, 1))
    Y = np.hstack([first, first**2 + 0.1 * rng.standard_normal((60, 2))])
    model = kcdo.ConditionalDensityOperator(joint="chain").fit(X, Y)
    path = model.report(tmp_path / "r.html", X[:12], Y[:12], held_out=True)
    made = Page(path)
    assert made.unbalanced == []
    assert [pair["outputs"] for pair in made.explorer["pairs"]] == [[0, 1], [0, 2], [1, 2]]
    for pair in made.explorer["pairs"]:
        images = np.frombuffer(base64.b64decode(pair["images"]), np.uint8)
        images = images.reshape(-1, pair["side"] ** 2)
        assert np.all(images.max(axis=1) == 255)
        assert np.all(np.mean(images > 0, axis=1) < 0.9)  # none is everywhere
    assert "Pairs of outputs" in made.text
    assert "of the rank histogram" in made.text
    for name in ("Energy score", "Variogram score", "Dawid"):
        assert name.lower() in made.text.lower()


def test_without_outputs_there_is_no_accuracy(tmp_path):
    model, X, _ = small_model()
    made = Page(model.report(tmp_path / "r.html", X, title="A & B"))
    assert "nothing could be measured" in made.text
    assert "A & B" in made.text
    assert made.explorer["outputs"][0]["label"] == "y"


def test_rows_with_missing_values_are_counted_and_left_out(tmp_path):
    model, X, Y = small_model(p=2)
    X, Y = X.copy(), Y.copy()
    X[:7, 1], Y[5:9, 0], X[20:22, 0] = np.nan, np.nan, np.inf
    made = Page(model.report(tmp_path / "r.html", X, Y[:, 0], held_out=True))
    assert "11 of them have missing or infinite values and were left out" in made.text
    missing = [
        re.sub(r"\D", "", m) for m in re.findall(r'data-name="Missing">([^<]*)<', made.source)
    ]
    assert missing == ["4", "", "7"]


def test_many_rows_are_sampled_and_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("kcdo.reports.page._ACCURACY_ROWS", 40)
    model, X, Y = small_model()
    made = Page(model.report(tmp_path / "r.html", X, Y[:, 0]))
    assert "The scores are of 40 rows drawn at random from them" in made.text


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_frames_of_both_libraries(tmp_path, make):
    rng = np.random.default_rng(0)
    kind = np.repeat(["a", "b"], 50)
    data = {"size_km": rng.uniform(0, 1, 100), "kind": kind.tolist()}
    X = make(data)
    y = (kind == "a") + 0.1 * rng.standard_normal(100)
    kernel = kcdo.Gaussian().on("size_km") * kcdo.Categorical().on("kind")
    model = kcdo.ConditionalDensityOperator(kernel, selection="heuristic").fit(X, y)
    made = Page(model.report(tmp_path / "r.html", X, y))
    assert made.explorer["inputs"][0]["label"] == "kind"
    assert made.input("size")["unit"] == "km"


def test_arrays_with_categories_and_constant_columns(tmp_path):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 3, 80), np.full(80, 7.5), rng.standard_normal(80)])
    y = X[:, 0] + 0.1 * rng.standard_normal(80)
    kernel = kcdo.Categorical().on(0) * kcdo.Gaussian().on([1, 2])
    model = kcdo.ConditionalDensityOperator(kernel, selection="heuristic").fit(X, y)
    made = Page(model.report(tmp_path / "r.html", X, y))
    assert made.input("x0")["kind"] == "select"
    assert made.input("x1")["kind"] == "fixed"
    assert made.input("x1")["texts"] == ["7.5"]


def test_nullable_columns_and_numbers_as_text(tmp_path):
    _, X, Y = small_model(p=2)
    frame = pd.DataFrame(
        {"a": X[:, 0].astype(str), "b": pd.array(np.arange(120) % 9, dtype="Int64")}
    )
    model = kcdo.ConditionalDensityOperator(selection="heuristic")
    model.fit(frame.astype(float), Y[:, 0])
    frame.loc[3, "b"] = pd.NA
    made = Page(model.report(tmp_path / "r.html", frame, Y[:, 0]))
    assert made.input("b")["texts"] == [str(i) for i in range(9)]
    assert "1 of them have missing" in made.text


def test_only_categories_make_no_slider(tmp_path):
    X = pd.DataFrame({"kind": pd.Categorical(np.repeat(list("ab"), 40))})
    y = np.random.default_rng(0).standard_normal(80)
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, y)
    made = Page(model.report(tmp_path / "r.html", X, y))
    assert [i["kind"] for i in made.explorer["inputs"]] == ["select"]


# ---- safe to open ----------------------------------------------------------


def test_names_and_categories_cannot_become_markup(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            f"{ATTACK} [{ATTACK}]": rng.standard_normal(90),
            "kind": pd.Categorical(rng.choice([ATTACK, '"><b>', "plain"], 90)),
        }
    )
    y = pd.Series(rng.standard_normal(90), name=ATTACK)
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, y)
    made = Page(model.report(tmp_path / "r.html", X, y, title=ATTACK))
    assert sum(tag == "script" for tag, _ in made.tags) == 2
    assert not any(tag in ("img", "b") for tag, _ in made.tags)
    assert not any(name.startswith("on") for _, a in made.tags for name in a)
    assert made.unbalanced == []
    assert ATTACK in made.text  # as text it is all there
    assert ATTACK in made.input("kind")["texts"]


@given(st.text(max_size=60))
def test_no_text_ends_the_script_element(text):
    encoded = script_json({"label": text})
    assert not set("<>&") & set(encoded)
    assert json.loads(encoded) == {"label": text}


def test_nothing_is_loaded_from_elsewhere(page):
    assert not re.search(
        r"https?:|//[a-z]|url\((?!#)|fetch\(|import[ (]|XMLHttp|WebSocket", page.code
    )
    for _, attributes in page.tags:
        for name in ("src", "href", "action", "srcset", "data", "poster"):
            assert attributes.get(name, "#").startswith(("#", "data:"))
    policy = next(a for tag, a in page.tags if tag == "meta" and "http-equiv" in a)
    assert policy["content"].startswith("default-src 'none';")
    assert "innerHTML" not in page.source


# ---- small, complete, or not there -----------------------------------------


def test_the_file_keeps_its_size(tmp_path):
    model, X, Y = small_model(p=6, d=2, n=80, reference=kcdo.UniformBox(nodes=(20, 20)))
    sizes = {}
    for cap in (250_000, 600_000):
        sizes[cap] = model.report(tmp_path / "r.html", X, Y, max_bytes=cap).stat().st_size
        assert 0.3 * cap < sizes[cap] <= cap
        assert len(Page(tmp_path / "r.html").explorer["inputs"]) == 6
    with pytest.raises(InvalidInputError, match="max_bytes leaves no room for a single curve"):
        model.report(tmp_path / "r.html", X, Y, max_bytes=60_000)
    assert (tmp_path / "r.html").stat().st_size == sizes[600_000]


def test_a_report_that_fails_leaves_the_old_one(tmp_path, monkeypatch):
    model, X, Y = small_model()
    path = tmp_path / "r.html"
    path.write_text("old")

    def full(draft, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("kcdo.atomic.os.replace", full)
    with pytest.raises(OSError, match="No space left"):
        model.report(path, X, Y[:, 0])
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_errors_say_what_to_do(tmp_path):
    model, X, Y = small_model(p=2)
    path = tmp_path / "r.html"
    unfitted = kcdo.ConditionalDensityOperator(selection="heuristic")
    with pytest.raises(NotFittedError):
        write_report(unfitted, path, X)
    cases = {
        "the folder .* does not exist; create it first": (tmp_path / "no" / "r.html", X, Y[:, 0]),
        "it is a folder; name a file in it": (tmp_path, X, Y[:, 0]),
        "X has 1 columns, but the model was fitted to 2": (path, X[:, :1], Y[:, 0]),
        "got shape \\(240,\\)": (path, X.ravel(), Y[:, 0]),
        "inconsistent numbers of rows: 120 and 119": (path, X, Y[1:, 0]),
        "Y has 2 columns, but the model predicts 1": (path, X, np.hstack([Y, Y])),
        "no row of X is without missing values": (path, np.full_like(X, np.nan), Y[:, 0]),
        "no row of X and Y is without missing": (path, X, np.full(120, np.nan)),
        "column 'x0' is not numeric": (path, np.full((3, 2), "a", dtype=object), Y[:3, 0]),
    }
    for words, arguments in cases.items():
        with pytest.raises(InvalidInputError, match=words):
            model.report(*arguments)
    with pytest.raises(InvalidInputError, match="1 outputs, 2 names"):
        model.report(path, X, Y[:, 0], output_names=["a", "b"])
    assert not path.exists()


def test_without_jinja2_it_says_which_extra_to_install(tmp_path, monkeypatch):
    model, X, Y = small_model()
    path = tmp_path / "r.html"
    _environment.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    for write in (model.report, lambda *arguments: write_report(model, *arguments)):
        with pytest.raises(MissingExtraError, match=r"Reports need an extra: .*kcdo\[report\]"):
            write(path, X, Y[:, 0])
    assert not path.exists()


def test_models_and_reports_are_imported_without_jinja2():
    code = "import sys, kcdo.estimators, kcdo.reports; print('jinja2' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"


def test_signed_densities_have_no_report(tmp_path):
    model, X, Y = small_model(positivity="signed")
    with pytest.raises(SignedDensityError, match="positivity"):
        model.report(tmp_path / "r.html", X, Y[:, 0])
    assert list(tmp_path.iterdir()) == []
