"""What the charts of a report draw: modes where the data have them, rows near the slice, zoom."""

import re

import numpy as np
import pandas as pd
import pytest

import kcdo
from kcdo.metrics.nearness import nearness
from tests.browser import Browser, find_browser
from tests.forked_truth import APART, SD, ForkedTruth, centre

pytestmark = pytest.mark.skipif(
    find_browser() is None, reason="no Chromium or Chrome on this machine"
)

ENTER = ("Enter", 13)
RIGHT = ("ArrowRight", 39)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(find_browser(), tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def forked(tmp_path_factory):
    """A right model of two branches that two inputs and a category move; one input is idle."""
    rng = np.random.default_rng(1)
    n = 900
    X = pd.DataFrame(
        {
            "a": rng.uniform(-1, 1, n),
            "b": rng.uniform(-1, 1, n),
            "idle": rng.uniform(0, 1, n),
            "kind": pd.Categorical(rng.choice(["low", "high"], n)),
        }
    )
    noise = rng.choice([-APART, APART], n) / 2 + SD * rng.standard_normal(n)
    y = pd.Series(centre(X) + noise, name="height [m]")
    model = ForkedTruth(selection="heuristic").fit(X, y)
    return model, X, y, model.report(tmp_path_factory.mktemp("forked") / "r.html", X, y)


def choose(browser, selector, text):
    """Choose an option of a list by its text."""
    browser.run(
        f"{{const list = document.querySelector({selector!r});"
        f"list.value = [...list.options].find((o) => o.text === {text!r}).value;"
        "list.dispatchEvent(new Event('change'));}"
    )


def set_input(browser, label, value):
    """Move the slider, or choose in the list, that has a label."""
    browser.run(
        "{const label = [...document.querySelectorAll('#controls label')]"
        f".find((l) => l.textContent.startsWith({label!r}));"
        f"const control = label.control; control.value = {value};"
        "control.dispatchEvent(new Event(control.tagName === 'SELECT' ? 'change' : 'input'));}"
    )


def value_of(browser, label):
    script = (
        "[...document.querySelectorAll('#controls label')]"
        f".find((l) => l.textContent.startsWith({label!r})).querySelector('output').textContent"
    )
    return float(re.sub("[^0-9.−]", "", browser.run(script)).replace("−", "-"))


def axis(browser, chart):
    """Return functions from pixels to values, across and upwards, read off the labels."""
    texts = browser.run(
        f"[...document.querySelectorAll('{chart} svg text:not(.name):not(.strip-name)')].map("
        "(t) => [t.getAttribute('text-anchor'), +t.getAttribute('x'), +t.getAttribute('y'),"
        " t.textContent.replace('−', '-').replace(',', '')])"
    )
    across = np.array([(x, float(t)) for anchor, x, _, t in texts if anchor == "middle"])
    up = np.array([(y - 4, float(t)) for anchor, _, y, t in texts if anchor == "end"])

    def line(pairs):
        slope = (pairs[-1, 1] - pairs[0, 1]) / (pairs[-1, 0] - pairs[0, 0])
        return lambda pixel: pairs[0, 1] + slope * (np.asarray(pixel) - pairs[0, 0])

    return line(across), line(up)


def circles(browser, selector):
    found = browser.run(
        f"[...document.querySelectorAll({selector!r})].map((c) => [+c.getAttribute('cx'), "
        "+c.getAttribute('cy'), +(c.dataset.row ?? 0), +(c.getAttribute('opacity') ?? 1)])"
    )
    return np.array(found).reshape(-1, 4)


def colours(browser, chart):
    """Return how strong the picture behind a chart is: columns from the left, rows from the top."""
    flat = browser.run(
        f"(() => {{const c = document.querySelector('{chart} canvas');"
        "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        "return [c.width, c.height, ...d.filter((_, i) => i % 4 === 3)];})()"
    )
    return np.array(flat[2:]).reshape(flat[1], flat[0]).T


def place(browser, selector, x=0.5, y=0.5):
    """Return where a part of an element is in the window."""
    left, top, width, height = browser.run(
        f"(() => {{const e = document.querySelector({selector!r});"
        "e.scrollIntoView({block: 'center'});"
        "const b = e.getBoundingClientRect(); return [b.left, b.top, b.width, b.height];})()"
    )
    return left + x * width, top + y * height


def text(browser, selector):
    return browser.run(f"document.querySelector({selector!r}).innerText")


# ---- along an input ----------------------------------------------------------


def test_two_modes_are_two_bands_and_not_a_wide_one(browser, forked):
    browser.open(forked[3])
    choose(browser, "#along", "a")
    _, up = axis(browser, "#fan")
    dots = circles(browser, "#fan .mode-dot")
    for x in np.unique(dots[:, 0]):
        heights = np.sort(up(dots[dots[:, 0] == x, 1]))
        np.testing.assert_allclose(np.diff(heights), [APART], atol=0.3)
    strength = colours(browser, "#fan")
    top = browser.run("+document.querySelector('#fan clipPath rect').getAttribute('y')") + 2
    values = up(top + np.arange(strength.shape[1]))
    for column in strength[[5, len(strength) // 2, -5]]:
        peak = values[np.argmax(column)]
        near = {v: column[np.argmin(abs(values - v))] for v in (peak - APART, peak, peak + APART)}
        other = max((peak - APART, peak + APART), key=near.get)
        between = column[np.argmin(abs(values - (peak + other) / 2))]
        assert near[peak] > 200
        assert near[other] > 200
        assert between < 20


def test_rows_near_the_slice_are_drawn_and_no_others(browser, forked):
    model, X, y, path = forked
    browser.open(path)
    choose(browser, "#along", "a")
    set_input(browser, "b", 3)
    drawn = circles(browser, "#fan .point")
    rows = drawn[:, 2].astype(int) - 1
    assert 20 < len(rows) < 120
    # they are where they belong
    across, up = axis(browser, "#fan")
    np.testing.assert_allclose(across(drawn[:, 0]), X["a"].iloc[rows], atol=0.02)
    np.testing.assert_allclose(up(drawn[:, 1]), y.iloc[rows], atol=0.1)
    # their other inputs are those of the slice, but for the one that does not matter
    b, kind = value_of(browser, "b"), text(browser, "#controls select[id^=input] :checked")
    assert np.abs(X["b"].iloc[rows] - b).max() < 0.15
    assert set(X["kind"].iloc[rows]) == {kind}
    assert np.ptp(X["idle"].iloc[rows]) > 0.8
    # as near as the metric says, where every row has a prediction of its own on the slice
    weights = nearness(model, X, {1: b, 3: kind})
    assert weights[rows].min() > 0.01
    seen = np.abs(X["a"]) < 0.94  # across goes where 99 % of the rows are, to round numbers
    assert set(np.flatnonzero((weights > 0.3) & seen)) <= set(rows.tolist())
    order = np.argsort(weights[rows])
    assert drawn[order[-10:], 3].min() > 2 * drawn[order[:10], 3].max()


def test_categories_are_violins(browser, forked):
    _, X, _, path = forked
    browser.open(path)
    choose(browser, "#along", "kind")
    assert browser.run("document.querySelectorAll('#fan .violin').length") == 2
    dots = circles(browser, "#fan .mode-dot")
    across = [np.sort(dots[dots[:, 0] == x, 1]) for x in np.unique(dots[:, 0])]
    assert [len(heights) for heights in across] == [2, 2]
    drawn = circles(browser, "#fan .point")
    left = X["kind"].iloc[drawn[:, 2].astype(int) - 1].to_numpy() == "high"
    assert drawn[left, 0].max() < drawn[~left, 0].min()  # each beside its own violin
    before = browser.run("document.querySelector('#curve').getAttribute('d')")
    shown = text(browser, "#controls select[id^=input] :checked")
    browser.click(*place(browser, "#fan svg", 0.3 if shown == "low" else 0.8))
    assert browser.run("document.querySelector('#curve').getAttribute('d')") != before
    assert browser.errors == []


# ---- the density at one place ----------------------------------------------------


def test_regions_of_highest_density_stand_beside_central_intervals(browser, forked):
    X, path = forked[1], forked[3]
    browser.open(path)
    words = re.search(r"90% of highest density\s+(.*?)\u202fm", text(browser, "#readout"))[1]
    numbers = [float(v.replace("−", "-")) for v in re.findall(r"[−\d.]+", words)]
    query = pd.DataFrame(
        {
            "a": [value_of(browser, "a")],
            "b": [value_of(browser, "b")],
            "idle": [value_of(browser, "idle")],
            "kind": [text(browser, "#controls select[id^=input] :checked")],
        }
    ).astype({"kind": X["kind"].dtype})
    middle = centre(query)[0] + np.array([[-APART / 2], [APART / 2]])
    exact = middle + 1.645 * SD * np.array([[-1, 1]])
    np.testing.assert_allclose(np.reshape(numbers, (-1, 2)), exact, atol=0.1)
    central = re.search(r"90% interval\s+(.*?)\u202fm", text(browser, "#readout"))[1]
    low, high = (float(v.replace("−", "-")) for v in re.findall(r"[−\d.]+", central))
    assert high - low > APART  # a central interval holds the gap
    assert browser.run("document.querySelectorAll('#density .strip-most.highest').length") == 2
    assert browser.run("document.querySelectorAll('#density .strip-most.central').length") == 1


def test_the_pointer_is_told_values_and_rows(browser, forked):
    _, X, _, path = forked
    browser.open(path, height=1400)
    browser.hover(*place(browser, "#density svg", 0.5, 0.3))
    assert not browser.run("document.querySelector('#density .tip').hidden")
    assert re.search(r"height .*\nm?.*density .*\n.*% below", text(browser, "#density .tip"))
    choose(browser, "#along", "a")
    place(browser, "#fan svg")
    spot = browser.run(
        "(() => {const c = document.querySelector('#fan .point').getBoundingClientRect();"
        "return [c.left + c.width / 2, c.top + c.height / 2];})()"
    )
    browser.hover(*spot)
    told = text(browser, "#fan .tip")
    row = int(re.match(r"Row (\d+)", told)[1]) - 1
    assert re.search(rf"\na -?{abs(X['a'].iloc[row]):.2f}", told)
    browser.hover(2, 2)
    assert browser.run("document.querySelector('#fan .tip').hidden")


def test_zoom_by_buttons_keys_and_wheel(browser, forked):
    browser.open(forked[3], height=1200)

    def ends(chart):
        return browser.run(
            f"[...document.querySelectorAll('{chart} svg text[text-anchor=middle]:not(.name)')]"
            ".map((t) => t.textContent.replace('−', '-')).map(Number)"
        )

    for chart in ("#density", "#fan", "#actual"):
        whole = ends(chart)
        browser.run(f"document.querySelector('{chart} .tools button').focus()")
        browser.press(*ENTER)
        browser.run(f"document.querySelector('{chart} .tools button').click()")
        zoomed = ends(chart)
        assert np.ptp(zoomed) < 0.75 * np.ptp(whole)
        browser.press(*RIGHT)
        assert ends(chart) != zoomed
        assert min(ends(chart)) >= min(zoomed)
        browser.run(f"document.querySelector('{chart} .tools button:last-child').click()")
        assert ends(chart) == whole
        browser.wheel(*place(browser, f"{chart} svg"), -100, control=True)
        browser.wait_for(f"!document.querySelector('{chart} .tools button:last-child').disabled")
    assert browser.errors == []


# ---- all inputs --------------------------------------------------------------------


@pytest.fixture(scope="module")
def many_inputs(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 9)), columns=[f"input {c}" for c in "abcdefghi"])
    y = X.to_numpy() @ np.linspace(2, 1, 9) + 0.3 * rng.standard_normal(300)
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, y)
    return model.report(tmp_path_factory.mktemp("many") / "r.html", X, y)


def test_any_input_can_be_moved(browser, many_inputs):
    browser.open(many_inputs)
    sliders = browser.run("[...document.querySelectorAll('input[type=range]')].map((r) => r.id)")
    assert len(sliders) == 9
    for slider in sliders:
        before = browser.run("document.querySelector('#curve').getAttribute('d')")
        browser.run(
            f"{{const range = document.getElementById('{slider}'); range.value = range.max;"
            "range.dispatchEvent(new Event('input'));}"
        )
        assert browser.run("document.querySelector('#curve').getAttribute('d')") != before
        assert browser.run(
            f"(() => {{const r = document.getElementById('{slider}');return r.value === r.max;}})()"
        )
    assert browser.errors == []


def test_inputs_that_do_not_combine_go_back_and_it_says_so(browser, many_inputs):
    browser.open(many_inputs)
    ids = browser.run("[...document.querySelectorAll('input[type=range]')].map((r) => r.id)")
    start = {i: browser.run(f"document.getElementById('{i}').value") for i in ids}
    for slider in ids[-3:]:
        browser.run(
            f"{{const range = document.getElementById('{slider}'); range.value = 0;"
            "range.dispatchEvent(new Event('input'));}"
        )
    values = {i: browser.run(f"document.getElementById('{i}').value") for i in ids}
    assert values[ids[-1]] == "0"
    assert any(values[i] == start[i] for i in ids[-3:-1])
    assert "Not all inputs combine in this file" in text(browser, "#back")


# ---- rows, outputs -------------------------------------------------------------------


def test_predicted_and_actual(browser, forked):
    model, X, y, path = forked
    browser.open(path)
    drawn = circles(browser, "#actual .point")
    across, up = axis(browser, "#actual")
    rows = drawn[:, 2].astype(int) - 1
    answers = model.conditional(X).summary(["q5", "q50", "q95"])
    np.testing.assert_allclose(across(drawn[:, 0]), answers["q50"][rows], atol=0.15)
    np.testing.assert_allclose(up(drawn[:, 1]), y.iloc[rows], atol=0.15)
    outside = circles(browser, "#actual .point.outside")[:, 2].astype(int) - 1
    truth = (y < answers["q5"]) | (y > answers["q95"])
    assert set(outside) == set(np.flatnonzero(truth)) & set(rows)
    assert len(circles(browser, "#actual .worst")) == 10


def test_a_link_shows_what_was_predicted_for_a_row(browser, forked):
    model, X, y, path = forked
    browser.open(path)
    number = browser.run(
        "(() => {const link = document.querySelector('#accuracy a[href^=\"#row\"]');"
        "link.click(); return Number(link.hash.slice(5));})()"
    )
    browser.wait_for("document.querySelector('#density line.actual') !== null")
    assert number == np.argmin(model.conditional(X).logpdf_pairs(y)) + 1
    assert text(browser, "#anchor :checked") == f"Row {number}, predicted badly"
    row = X.iloc[[number - 1]]
    assert value_of(browser, "b") == pytest.approx(row["b"].iloc[0], abs=1e-5)
    said = re.search(r"Mean\s+([−\d.]+)", text(browser, "#readout"))[1].replace("−", "-")
    assert float(said) == pytest.approx(model.predict(row)[0], abs=0.05)
    actual = re.search(rf"Actual, row {number}\s+([−\d.]+)", text(browser, "#readout"))[1]
    assert float(actual.replace("−", "-")) == pytest.approx(y.iloc[number - 1], abs=0.05)
    set_input(browser, "b", 1)  # from there any input moves, the actual output stays to be seen
    assert browser.run("document.querySelectorAll('#density line.actual').length") == 1
    browser.run("document.querySelector('#reset').click()")
    assert browser.run("document.querySelectorAll('#density line.actual').length") == 0
    assert browser.errors == []


def test_every_input_has_an_effect_curve(browser, forked):
    browser.open(forked[3])
    assert browser.run("document.querySelectorAll('svg.effect').length") == 4
    names = browser.run(
        "[...document.querySelectorAll('svg.effect .name')].map((t) => t.textContent)"
    )
    assert set(names) == {"a", "b", "idle", "kind"}
    titles = browser.run(
        "[...document.querySelectorAll('svg.effect title')].map((t) => t.textContent)"
    )
    assert all("mean" in title and "90%" in title for title in titles)


def donut(folder, d):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (400, 1))
    angle = rng.uniform(0, 2 * np.pi, 400)
    ring = np.column_stack([np.cos(angle), np.sin(angle)]) + 0.1 * rng.standard_normal((400, 2))
    Y = np.column_stack([ring + X, rng.standard_normal(400)])[:, :d]
    box = kcdo.UniformBox(nodes=(40, 40) if d == 2 else (16, 16, 16))
    model = kcdo.ConditionalDensityOperator(
        kcdo.Gaussian(0.15),
        kcdo.Gaussian(0.2 if d == 2 else 0.6),
        box,
        1e-3,
        1e-3,
        selection="heuristic",
    )
    return X, Y, model.fit(X, Y).report(folder / "r.html", X, Y)


def test_contours_of_two_outputs_with_the_rows_near(browser, tmp_path):
    X, Y, path = donut(tmp_path, 2)
    browser.open(path)
    assert browser.run("document.querySelectorAll('#joint .contour').length") == 2
    drawn = circles(browser, "#joint-0 .point")
    rows = drawn[:, 2].astype(int) - 1
    here = value_of(browser, "x")
    assert 10 < len(rows) < 200
    assert np.abs(X[rows, 0] - here).max() < 0.6
    faint, strong = (
        drawn[np.argsort(drawn[:, 3])[part], 2] for part in (slice(10), slice(-10, None))
    )
    off = [np.abs(X[part.astype(int) - 1, 0] - here).mean() for part in (faint, strong)]
    assert off[0] > 4 * off[1]
    across, up = axis(browser, "#joint-0")
    np.testing.assert_allclose(across(drawn[:, 0]), Y[rows, 0], atol=0.05)
    np.testing.assert_allclose(up(drawn[:, 1]), Y[rows, 1], atol=0.05)
    # the ring is dark, its middle pale
    strength = colours(browser, "#joint-0")
    left, top = browser.run(
        "(() => {const r = document.querySelector('#joint-0 clipPath rect');"
        "return ['x', 'y'].map((k) => +r.getAttribute(k));})()"
    )
    columns = across(left + (np.arange(strength.shape[0]) + 0.5))
    lines = up(top + 2 + np.arange(strength.shape[1]) + 0.5)
    radius = np.hypot(columns[:, None] - here, lines[None] - here)
    assert strength[np.abs(radius - 1) < 0.1].mean() > 2 * strength[radius < 0.3].mean()


def test_three_outputs_have_panels_of_pairs(browser, tmp_path):
    *_, path = donut(tmp_path, 3)
    for width in (1280, 360):
        browser.open(path, width=width)
        assert browser.run("document.querySelectorAll('#joint .chart svg').length") == 3
        assert browser.run("document.documentElement.scrollWidth <= innerWidth")
        assert browser.errors == []


# ---- paper ---------------------------------------------------------------------------


def test_the_printed_page_has_the_charts_and_no_controls(browser, forked):
    browser.open(forked[3])
    browser.call("Emulation.setEmulatedMedia", media="print")
    hidden = "(e) => getComputedStyle(e).display === 'none'"
    for selector in ("#controls", "nav", ".tools"):
        assert browser.run(f"[...document.querySelectorAll('{selector}')].every({hidden})")
    assert (
        browser.run("document.querySelector('#density svg').getBoundingClientRect().height") > 150
    )
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    browser.call("Emulation.setEmulatedMedia", media="")
    assert len(browser.call("Page.printToPDF", printBackground=True)["data"]) > 20_000
