"""The report in a real browser: it opens from disk, works by mouse and keyboard, and fits."""

import itertools
import re

import numpy as np
import pandas as pd
import pytest

import kcdo
from tests.browser import Browser, find_browser

pytestmark = pytest.mark.skipif(
    find_browser() is None, reason="no Chromium or Chrome on this machine"
)

RIGHT, LEFT, HOME = ("ArrowRight", 39), ("ArrowLeft", 37), ("Home", 36)
SIZES = {"phone": {"width": 360, "height": 740, "mobile": True}, "desk": {"width": 1280}}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(find_browser(), tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    rng = np.random.default_rng(0)
    n = 300
    X = pd.DataFrame(
        {
            "flow [veh/h]": rng.uniform(0, 2000, n),
            "a_column_with_quite_a_long_name_that_has_no_space_to_break_at": rng.uniform(0, 1, n),
            "<b>lane</b>": pd.Categorical(rng.choice(["left", "<i>right</i>"], n)),
        }
    )
    speed = 100 - 0.03 * X["flow [veh/h]"] + 3 * rng.standard_normal(n)
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, speed)
    path = tmp_path_factory.mktemp("report") / "report.html"
    return model.report(path, X, speed.rename("speed [km/h]"))


@pytest.fixture(scope="module")
def joint_report(tmp_path_factory):
    X, Y = kcdo.make_donut(n_per_mean=3, random_state=0)
    box = kcdo.UniformBox(nodes=(25, 25))
    model = kcdo.ConditionalDensityOperator(selection="heuristic", reference=box).fit(X, Y)
    return model.report(tmp_path_factory.mktemp("report") / "joint.html", X, Y)


def curve(browser):
    return browser.run("document.querySelector('#curve').getAttribute('d')")


def words(browser, selector):
    return browser.run(f"document.querySelector({selector!r}).innerText")


def first_slider(browser):
    return browser.run("document.querySelector('input[type=range]').id")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dark", [False, True])
def test_it_opens_without_errors_and_fits(browser, report, joint_report, size, dark):
    for path in (report, joint_report):
        browser.open(path, dark=dark, **SIZES[size])
        assert curve(browser).count("L") > 50
        assert browser.errors == []
        assert [url for url in browser.requests if not url.startswith("data:")] == [path.as_uri()]
        assert browser.run("document.documentElement.scrollWidth <= innerWidth")
        assert browser.run("document.querySelectorAll('b, i:not(.key)').length") == 0


def test_dark_mode_is_dark(browser, report):
    light = {}
    for dark in (False, True):
        browser.open(report, dark=dark)
        style = "getComputedStyle(document.body)"
        colours = [browser.run(f"{style}.{name}") for name in ("backgroundColor", "color")]
        light[dark] = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in colours]
    assert light[False][0] > 600 > 200 > light[False][1]
    assert light[True][0] < 200 < 600 < light[True][1]


def test_the_keyboard_moves_the_slider_and_the_curve(browser, report):
    browser.open(report)
    before, slider = curve(browser), first_slider(browser)
    browser.run(f"document.getElementById('{slider}').focus()")
    for _ in range(5):
        browser.press(*RIGHT)
    moved = curve(browser)
    assert moved != before
    assert "veh/h" in browser.run(
        f"document.getElementById('{slider}').getAttribute('aria-valuetext')"
    )
    browser.wait_for("document.querySelector('#spoken').textContent.includes('km/h')")
    for _ in range(5):
        browser.press(*LEFT)
    assert curve(browser) == before
    browser.press(*HOME)
    assert curve(browser) not in (before, moved)
    assert browser.errors == []


def test_the_mean_follows_the_slider(browser, report):
    browser.open(report)
    means = []
    for place in ("element.min", "element.max"):
        browser.run(
            "{const element = document.querySelector('input[type=range]');"
            f"element.value = {place}; element.dispatchEvent(new Event('input'));}}"
        )
        means.append(float(re.search(r"Mean\s+([\d.]+)", words(browser, "#readout"))[1]))
    assert means[0] > means[1] + 20  # more flow, less speed: 100 to 40 km/h, smoothed


def test_selects_and_buttons_work(browser, report):
    browser.open(report)
    before = curve(browser)
    browser.run("document.querySelector('#keep').click()")
    browser.run(
        "{const lane = document.querySelector('#controls select[id^=input]');"
        "lane.value = String(1 - Number(lane.value)); lane.dispatchEvent(new Event('change'));}"
    )
    assert curve(browser) != before
    assert browser.run("document.querySelectorAll('#density path.kept').length") == 1
    assert browser.run("document.querySelector('#keep').getAttribute('aria-pressed')") == "true"
    browser.run("document.querySelector('#keep').click()")
    browser.run("document.querySelector('#reset').click()")
    assert browser.run("document.querySelectorAll('#density path.kept').length") == 0
    assert curve(browser) == before
    browser.run("document.querySelector('#same-height').click()")
    assert curve(browser) != before


def test_the_probability_below_a_threshold(browser, report):
    browser.open(report)

    def probability(value):
        browser.run(
            "{const field = document.querySelector('#threshold');"
            f"field.value = '{value}'; field.dispatchEvent(new Event('input'));}}"
        )
        return words(browser, "#probability")

    median = re.search(r"Median\s+([\d.]+)", words(browser, "#readout"))[1]
    assert float(re.search(r"[\d.]+", probability(median))[0]) == pytest.approx(50, abs=1)
    assert probability(-1000) == "= 0.0%"
    assert probability(1000) == "= 100.0%"
    assert probability("") == ""


def test_a_click_in_the_lower_chart_moves_the_slider(browser, report):
    browser.open(report, height=2400)
    slider = first_slider(browser)
    box = browser.run(
        "(() => {const b = document.querySelector('#fan svg').getBoundingClientRect();"
        "return [b.left, b.top, b.width, b.height];})()"
    )
    browser.click(box[0] + 0.99 * box[2], box[1] + box[3] / 2)
    assert browser.run(
        f"document.getElementById('{slider}').value === document.getElementById('{slider}').max"
    )
    browser.click(box[0] + 0.02 * box[2], box[1] + box[3] / 2)
    assert browser.run(f"document.getElementById('{slider}').value === '0'")


def test_two_outputs_share_the_controls(browser, joint_report):
    browser.open(joint_report)
    assert browser.run("document.querySelectorAll('#joint .chart svg').length") == 1
    before = curve(browser)
    browser.run(
        "{const output = document.querySelector('#output');"
        "output.value = '1'; output.dispatchEvent(new Event('change'));}"
    )
    assert curve(browser) != before
    assert "y1" in words(browser, "#threshold-label")


def test_everything_that_can_be_changed_has_a_name_and_a_visible_focus(browser, report):
    browser.open(report, **SIZES["phone"])
    assert browser.run(
        "[...document.querySelectorAll('#explore input, #explore select, #explore button')].every("
        "(e) => e.labels?.length || e.textContent)"
    )
    browser.run("document.querySelector('input[type=range]').focus()")
    browser.press(*RIGHT)  # the outline is for those who use the keyboard
    style = "getComputedStyle(document.activeElement)"
    assert browser.run(f"{style}.outlineStyle") == "solid"
    assert browser.run("document.querySelectorAll('svg[role=img]:not([aria-label])').length") == 0


def test_curves_are_redrawn_when_the_window_changes(browser, report):
    browser.open(report)
    wide = curve(browser)
    browser.call(
        "Emulation.setDeviceMetricsOverride",
        width=400,
        height=800,
        deviceScaleFactor=1,
        mobile=False,
    )
    browser.wait_for(f"document.querySelector('#curve').getAttribute('d') !== {wide!r}")
    assert browser.errors == []


@pytest.fixture(scope="module")
def week_report(tmp_path_factory):
    rng = np.random.default_rng(0)
    days = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
    X = pd.DataFrame(
        {"hour": rng.integers(0, 24, 300), "day": pd.Categorical(rng.choice(days, 300))}
    )
    y = np.sin(X["hour"] / 4) + 0.1 * rng.standard_normal(300)
    kernel = kcdo.Periodic(24).on("hour") * kcdo.Categorical().on("day")
    model = kcdo.ConditionalDensityOperator(kernel, selection="heuristic").fit(X, y)
    return model.report(tmp_path_factory.mktemp("week") / "report.html", X, y.rename("y"))


@pytest.mark.parametrize("size", SIZES)
def test_names_of_categories_can_all_be_read(browser, week_report, size):
    browser.open(week_report, **SIZES[size])
    found = browser.run("""[...document.querySelectorAll('.effects svg')].map(svg => {
      const edge = svg.getBoundingClientRect();
      const low = [...svg.querySelectorAll('text.tick[text-anchor=middle]')];
      return low.map(t => [t.textContent, t.getBoundingClientRect()])
        .map(([text, box]) => [text, box.left - edge.left, box.right - edge.left, edge.width]);
    })""")
    days = next(ticks for ticks in found if any(tick[0].startswith("Su") for tick in ticks))
    assert len(days) == 7
    for ticks in found:
        assert all(0 <= left < right <= width for _, left, right, width in ticks)
        assert all(first[2] <= second[1] for first, second in itertools.pairwise(ticks))


def test_the_picture_of_a_column_leaves_its_type_free(browser, week_report):
    browser.open(week_report, **SIZES["phone"])
    overlap = browser.run("""[...document.querySelectorAll('#data tbody tr')].some(row => {
      const range = document.createRange();
      range.selectNodeContents(row.querySelector('td[data-name=Type]'));
      const spark = row.querySelector('svg.spark').getBoundingClientRect();
      return [...range.getClientRects()].some(box => box.left < spark.right
        && spark.left < box.right && box.top < spark.bottom && spark.top < box.bottom);
    })""")
    assert overlap is False
