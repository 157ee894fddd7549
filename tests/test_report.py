"""The report: what it says, that it is safe to open, and that it stays small."""

import base64
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.exceptions import NotFittedError

import kcdo
from kcdo.errors import InvalidInputError, MissingExtraError, SignedDensityError
from kcdo.reports import write_report
from kcdo.reports.accuracy import Accuracy, OutputAccuracy, measure_accuracy
from kcdo.reports.columns import Column
from kcdo.reports.inputs import controls
from kcdo.reports.rendering import _environment
from kcdo.reports.sections import accuracy_section
from kcdo.reports.shown import MeasuredRows
from kcdo.reports.text import number, script_json, split_unit

ATTACK = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


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
        peaks = np.frombuffer(base64.b64decode(output["peaks"]), "<f4")
        packed = np.frombuffer(base64.b64decode(output["statistics"]), "<u2") / 65535
        start, end = output["range"]
        shape = (-1, len(self.explorer["statistics"]))
        statistics = (start + packed * (end - start)).reshape(shape)
        return np.linspace(low, high, size), whole / 65535 * peaks[:, None], statistics


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
    shape = [len(i["texts"]) for i in inputs]
    assert len(densities) == np.prod(shape)
    rng = np.random.default_rng(0)
    labels = {"flow": "flow [veh/h]", "rain": "rain_mm", "hour": "hour", "lane": "lane"}
    for k in rng.integers(0, len(densities), 5):
        places = np.unravel_index(k, shape)
        row = {
            labels[i["label"]]: i["texts"][place]
            if i["label"] == "lane"
            else (i["values"] or [float(t) for t in i["texts"]])[place]
            for i, place in zip(inputs, places, strict=True)
        }
        dist = model.conditional(pd.DataFrame([row])[list(X.columns)])
        exact = dist.pdf(grid)[0]
        np.testing.assert_allclose(densities[k], exact, atol=1e-3 * exact.max())
        wanted = [dist.summary([name])[name][0] for name in page.explorer["statistics"]]
        np.testing.assert_allclose(statistics[k], wanted, atol=1e-2)


def test_several_outputs_have_marginals_and_two_a_joint_density(tmp_path):
    model, X, Y = small_model(d=2)
    made = Page(model.report(tmp_path / "r.html", X, Y))
    assert [o["label"] for o in made.explorer["outputs"]] == ["y0", "y1"]
    side = made.explorer["joint"]["side"]
    images = np.frombuffer(base64.b64decode(made.explorer["joint"]["images"]), np.uint8)
    images = images.reshape(-1, side, side)
    assert len(images) == len(made.unpack(1)[1])
    # The joint density of the first axis is summed over the second.
    first = images[0].sum(axis=1) / images[0].sum()
    grid, densities, _ = made.unpack(0)
    coarse = np.interp(np.linspace(grid[0], grid[-1], side), grid, densities[0])
    np.testing.assert_allclose(first, coarse / coarse.sum(), atol=0.01)
    assert "Calibration of y1" in made.text


def test_three_outputs_have_no_joint_density(tmp_path):
    model, X, Y = small_model(d=3, n=60, reference=kcdo.UniformBox(nodes=(12, 12, 12)))
    made = Page(model.report(tmp_path / "r.html", X, Y, output_names=["a", "b", "c"]))
    assert made.explorer["joint"] is None
    assert [o["label"] for o in made.explorer["outputs"]] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("held_out", "n", "words"),
    [
        (True, 120, "Held-out rows. Measured on 120 rows that the model was not fitted to"),
        (False, 50, "Training rows. Measured on the 50 rows that the model was fitted to: new"),
        (None, 120, "Training rows. .* the 120 rows .* \\(exactly as many rows were fitted\\)"),
        (None, 50, "Measured on 50 rows; the model was fitted to 120. The report was not told"),
    ],
)
def test_it_says_which_rows_the_accuracy_is_of(tmp_path, held_out, n, words):
    model, X, Y = small_model()
    made = Page(model.report(tmp_path / "r.html", X[:n], Y[:n, 0], held_out=held_out))
    assert re.search(words, made.text)
    kind = {True: "held-out", False: "training"}.get(held_out, "training" if n == 120 else "given")
    cards = re.findall(r"<div><dt>.*?</dd></div>", made.source, flags=re.DOTALL)[:4]
    assert all(f'<p class="on">{n} {kind} rows</p>' in card for card in cards)
    assert f"(On {n} {kind} rows.)" in made.text  # beside the calibration
    assert f"from 0 to 1; measured on {kind} rows" in made.text


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
    assert not re.search(r"https?:|//[a-z]|url\(|fetch\(|import[ (]|XMLHttp|WebSocket", page.code)
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
    for cap in (150_000, 400_000):
        sizes[cap] = model.report(tmp_path / "r.html", X, Y, max_bytes=cap).stat().st_size
        assert 0.3 * cap < sizes[cap] <= cap
        assert len(Page(tmp_path / "r.html").explorer["inputs"]) == 6
    with pytest.raises(InvalidInputError, match="max_bytes leaves no room for a single curve"):
        model.report(tmp_path / "r.html", X, Y, max_bytes=30_000)
    assert (tmp_path / "r.html").stat().st_size == sizes[400_000]


def test_the_default_size_is_below_ten_megabytes(fitted):
    """Whatever the inputs, the plan has few enough curves; so none need be computed here."""
    from kcdo.reports.curves import Axis, most_curves

    rng = np.random.default_rng(0)
    columns = [Column(f"x{i}", "number", rng.standard_normal(500)) for i in range(12)]
    model = SimpleNamespace(report_=SimpleNamespace(n_centres=10, n_nodes=100))
    for d in (1, 2, 8, 40):
        limit = most_curves(model, [Axis(0.0, 1.0, 320)] * d, 10_000_000)
        chosen = controls(columns, np.linspace(1, 0, 12), limit)
        n_curves = np.prod([len(c.values) for c in chosen])
        each = d * (2 * 320 + 16) + (36 * 36 if d == 2 else 0)
        assert 1000 < 4 / 3 * n_curves * each <= 10_000_000


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


# ---- the parts -------------------------------------------------------------


def test_units_of_names():
    assert split_unit("speed [km/h]") == ("speed", "km/h")
    assert split_unit("speed(km/h) ") == ("speed", "km/h")
    assert split_unit("temp_degC") == ("temp", "°C")
    for plain in ("rain_1h", "temp_min", "group_a", "_km", "km", "[km]", "a)b("):
        assert split_unit(plain) == (plain, "")


@given(st.floats(-1e12, 1e12))
def test_numbers_are_readable_and_near(value):
    text = number(value).replace(",", "").replace("−", "-")
    assert float(text) == pytest.approx(value, rel=1e-3, abs=1e-8)


@given(
    st.lists(st.floats(-1e4, 1e4), min_size=2, max_size=200),
    st.booleans(),
    st.integers(1, 3000),
)
def test_controls_take_usual_values_in_few_combinations(values, whole, limit):
    column = np.round(values) if whole else np.array(values)
    kind = "whole number" if whole else "number"
    columns = [Column(f"x{i}", kind, column) for i in range(4)]
    chosen = controls(columns, np.array([0.1, 0.4, 0.3, 0.2]), limit)
    assert [c.column for c in chosen if c.kind == "slider"][:1] in ([], [1])
    assert sorted(c.column for c in chosen) == [0, 1, 2, 3]
    assert np.prod([len(c.values) for c in chosen]) <= limit
    spread = np.ptp(column)
    for c in chosen:
        assert len(c.texts) == len(c.values) > c.start >= 0
        assert np.all(np.diff(c.values) > 0)
        assert column.min() - 0.05 * spread - 1 <= c.values[0]
        assert c.values[-1] <= column.max() + 0.05 * spread + 1
        assert not whole or np.all(c.values == np.round(c.values))


def test_importances_are_those_of_the_one_definition(tmp_path):
    model, X, Y = small_model(p=2)
    wanted = kcdo.metrics.importances(model, X)
    made = Page(model.report(tmp_path / "r.html", X, Y[:, 0], held_out=True))
    shown = dict(
        re.findall(r'<th scope="row">(x\d)</th><td class="share">.*?>([\d.]+)<', made.source)
    )
    assert shown == {name: f"{value:.2f}" for name, value in wanted.items()}
    assert "when this input alone is shuffled, from 0 to 1; measured on held-out rows" in made.text


def test_an_automatic_fit_shows_its_weights_and_importances(tmp_path):
    model, X, Y = small_model(p=2, n=40, selection="auto")
    made = Page(model.report(tmp_path / "r.html", X, Y[:, 0]))
    for name, value in model.report_.importances.items():
        line = rf'<th scope="row">x{name}</th><td class="share">.*?>{value:.2f}<'
        assert re.search(line, made.source)
    assert "from 0 to 1; measured on training rows" in made.text
    assert re.search(r"Weights of the forms plain \d+%, location scale \d+%", made.text)
    assert "Loss on training rows, each held out" in made.text
    assert "the model gives density 0" not in made.text  # heavy tails foresee everything


def test_accuracy_agrees_with_definitions():
    model, X, Y = small_model(n=150)
    dist = model.conditional(X)
    found = measure_accuracy(dist, Y, True, model.marginal()).outputs[0]
    inside = dist.interval(0.8)
    held = np.mean((inside[:, 0] <= Y[:, 0]) & (Y[:, 0] <= inside[:, 1]))
    assert found.coverage(0.8) == pytest.approx(held)
    assert found.widths[1] == pytest.approx(np.mean(inside[:, 1] - inside[:, 0]))
    draws = dist.sample(4000, random_state=0)
    other = dist.sample(4000, random_state=1)
    crps = np.abs(draws - Y).mean(axis=1) - 0.5 * np.abs(draws - other).mean(axis=1)
    assert found.crps == pytest.approx(crps.mean(), rel=0.02)
    assert found.crps < found.crps_without_inputs


def test_the_score_without_inputs_is_that_of_the_training_outputs():
    """Test rows of one region alone would make a marginal that no one could have predicted."""
    model, X, Y = small_model(n=400)
    rows = X[:, 0] > 1
    dist = model.conditional(X[rows])
    found = measure_accuracy(dist, Y[rows], True, model.marginal()).outputs[0]
    distances = np.abs(Y[rows] - Y[:, 0]).mean(axis=1)
    spread = 0.5 * np.abs(Y - Y.T).mean()
    assert found.crps_without_inputs == pytest.approx((distances - spread).mean(), rel=0.05)
    own = 0.5 * np.abs(Y[rows] - Y[rows].T).mean()
    assert found.crps_without_inputs > 2 * own


PITS = [
    (np.linspace(0, 1, 501), "hold as many rows as they promise"),
    (np.linspace(0.3, 0.7, 501), "too wide"),
    (np.r_[np.linspace(0, 0.1, 250), np.linspace(0.9, 1, 250)], "too narrow"),
    (np.r_[np.full(300, 0.15), np.full(200, 0.9)], "Some intervals hold more"),
]


def calibration_of(pit):
    found = OutputAccuracy(1.0, 2.0, 1.0, pit, (1.0,) * 4)
    rows = MeasuredRows("given", len(pit), "")
    column = Column("y", "number", pit)
    return accuracy_section(Accuracy(len(pit), -1.0, 0, (found,)), [column], rows)["outputs"][0]


@pytest.mark.parametrize(("pit", "words"), PITS)
def test_the_verdict_on_calibration(pit, words):
    assert words in calibration_of(pit)["verdict"]


def corners(path):
    return np.array([[float(v) for v in p.split(",")] for p in path.strip("MZ").split("L")])


@given(st.integers(20, 400), st.floats(0.5, 2.0), st.integers(0, 99))
def test_the_verdict_is_what_the_picture_shows(n, width, seed):
    """The curve as drawn is inside the band as drawn if and only if the sentence says so."""
    pit = norm.cdf(width * np.random.default_rng(seed).standard_normal(n))
    said = calibration_of(pit)
    curve, band = corners(said["calibration"].curve), corners(said["calibration"].band)
    upper, lower = band[: len(curve)], band[len(curve) :][::-1]
    rounding = 0.11  # pixels
    inside = (curve[:, 1] >= upper[:, 1] - rounding) & (curve[:, 1] <= lower[:, 1] + rounding)
    assert inside.all() == ("hold as many rows" in said["verdict"])
    tops = np.array([bar.y for bar in said["pit"].bars])
    grey = corners(said["pit"].band)[:, 1]
    outside = (tops < grey.min() - rounding) | (tops > grey.max() + rounding)
    assert outside.any() == ("outside its band" in said["pit_verdict"])
    for i in np.flatnonzero(outside):
        assert f"{i / 10:g} to {(i + 1) / 10:g} (" in said["pit_verdict"]


def test_impossible_rows_are_counted(tmp_path):
    model, X, Y = small_model()
    far = Y[:, 0].copy()
    far[:3] = 1e6
    accuracy = measure_accuracy(model.conditional(X), far[:, None], True, model.marginal())
    assert accuracy.n_impossible == 3
    assert np.isfinite(accuracy.log_score)
    made = Page(model.report(tmp_path / "r.html", X, far))
    assert "without 3 of 120 rows, which the model gives density 0" in made.text
