"""The live page in a real browser: every input moves the curve, and links bring it back."""

import numpy as np
import pandas as pd
import pytest

import kcdo
from kcdo.training import TrainingTable
from tests.browser import Browser, find_browser

pytest.importorskip("uvicorn", reason='the server is an extra: pip install "kcdo[serve]"')
pytestmark = pytest.mark.skipif(
    find_browser() is None, reason="no Chromium or Chrome on this machine"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(find_browser(), tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def client():
    from tests.serving import served

    rng = np.random.default_rng(0)
    n = 300
    flow, road = rng.uniform(0, 2000, n), rng.choice(["<b>lane</b>", "ramp"], n)
    u = np.where(rng.random(n) < 0.5, 100, 40) - flow / 50 + 2 * rng.normal(size=n)
    X = pd.DataFrame({"flow": flow, "road": pd.Categorical(road)})
    Y = pd.DataFrame({"u": u, "v": -u + 5 * rng.normal(size=n)})
    box = kcdo.UniformBox(nodes=(40, 30))
    model = kcdo.ConditionalDensityOperator(selection="heuristic", reference=box).fit(X, Y)
    known = {value: i for i, value in enumerate(model.categories[1])}
    codes = np.column_stack([flow, [known[value] for value in road]])
    model.training_ = TrainingTable.of(["data.csv"], codes, categorical=[1])
    with served(model, token="a&b") as client:
        yield client


def settle(browser):
    browser.wait_for("asking === null && shown !== null")


def put(browser, selector, value):
    browser.run(
        f"(() => {{ const e = document.querySelector({selector!r}); e.value = {value!r};"
        " e.dispatchEvent(new Event('input')); })()"
    )
    settle(browser)


def peaks(browser):
    """Places of the highest points of the curve on either side of its middle."""
    values, heights = browser.run("[shown.values.u, shown.density]")
    values, heights = np.array(values), np.array(heights)
    middle = (values[0] + values[-1]) / 2
    sides = (values < middle, values >= middle)
    return [values[side][np.argmax(heights[side])] for side in sides]


def drawn_numbers(browser, axis):
    """Numbers beside an axis of the chart, and where they stand."""
    return np.array(
        browser.run(
            f"[...document.querySelectorAll('svg text.{axis}')].map("
            f"t => [Number(t.textContent), Number(t.getAttribute('{axis}'))])"
        )
    ).T


def test_the_page_explores_the_model(browser, client):
    browser.open(f"{client.url}?token=a%26b", width=1100)
    settle(browser)
    # two outputs begin with their joint density
    assert browser.run("document.querySelectorAll('#cells rect').length") > 100
    assert browser.run("document.querySelector('#keep').disabled")
    put(browser, "#target", 0)
    put(browser, "#slider-0", 1000)
    np.testing.assert_allclose(peaks(browser), [20, 80], atol=8)  # where the data have them
    first = browser.run("document.querySelector('#curve').getAttribute('d')")
    browser.run("document.querySelector('#keep').click()")
    settle(browser)
    put(browser, "#input-0", 200)
    np.testing.assert_allclose(peaks(browser), [36, 96], atol=8)
    assert browser.run("document.querySelector('#curve').getAttribute('d')") != first
    certain = browser.run("shown.summary.u.sd")
    put(browser, "#sd-0", 300)
    assert browser.run("shown.summary.u.sd") != certain
    assert browser.run("document.querySelectorAll('svg .kept').length") == 1
    words = browser.run("document.querySelector('#kept').innerText")
    assert "u given flow = " in words
    assert "<b>lane</b>" in browser.run("document.querySelector('#input-1').innerText")
    label = browser.run("document.querySelector('#chart').getAttribute('aria-label')")
    assert label.startswith("Density of u. u: mean ")
    assert browser.errors == []
    assert {url.partition("?")[0].partition("#")[0] for url in browser.requests} == {
        client.url + name for name in ("", "model", "density")
    }


def test_numbers_keep_their_zeros(browser, client):
    values, places = drawn_numbers(browser, "x")
    assert 100 in values  # not 1
    np.testing.assert_allclose(np.diff(values, 2), 0)
    np.testing.assert_allclose(np.diff(places, 2), 0, atol=1e-6)
    densities, heights = drawn_numbers(browser, "y")
    assert len(np.unique(densities)) == len(heights) > 2
    assert browser.run("digits(2600, 694)") == "2600"
    assert browser.run("digits(10002.25, 3)") == "10002.25"
    assert browser.run("digits(0.0301, 0.05)") == "0.0301"
    assert browser.run("digits(5, 0)") == "5"
    mean = browser.run("Number(document.querySelector('td[data-stat=mean]').innerText)")
    assert mean == pytest.approx(browser.run("shown.summary.u.mean"), abs=0.051)


def test_a_long_number_leaves_the_name_of_the_axis_free(browser, client):
    overlap = """(() => {
      const box = e => e.getBoundingClientRect();
      const name = box([...document.querySelectorAll("svg text")].at(-1));
      return [...document.querySelectorAll("svg text.y")].some(t => box(t).left < name.right);
    })()"""
    browser.run("window.kept = state.kept; state.kept = []")
    browser.run("shown.density = shown.density.map(p => p / 100); draw()")
    numbers = browser.run("[...document.querySelectorAll('svg text.y')].map(t => t.textContent)")
    assert max(map(len, numbers)) >= 6
    assert browser.run(overlap) is False
    browser.run("state.kept = window.kept; changed()")
    settle(browser)


def test_a_link_restores_the_state(browser, client):
    link = browser.run("location.href")
    curve = browser.run("shown.density")
    browser.call("Page.navigate", url="about:blank")
    browser.wait_for("location.href === 'about:blank'")
    browser.open(link, width=360, height=740, mobile=True, dark=True)
    settle(browser)
    assert browser.run("shown.density") == curve
    assert browser.run("document.querySelector('#sd-0').value") == "300"
    assert browser.run("document.querySelectorAll('svg .kept').length") == 1
    assert browser.run("document.documentElement.scrollWidth") <= 360
    browser.run("document.querySelector('#forget').click()")
    settle(browser)
    assert browser.run("document.querySelectorAll('svg .kept').length") == 0
    assert browser.errors == []


def test_the_curve_is_downloaded_and_errors_are_shown(browser, client):
    browser.run("document.querySelector('#download').click()")
    lines = browser.run("csv()").splitlines()
    assert lines[0] == "u,density"
    assert len(lines) == 201
    assert float(lines[1].split(",")[0]) == browser.run("shown.values.u[0]")
    put(browser, "#input-0", 50000)
    assert "above the largest" in browser.run("document.querySelector('#notes').innerText")
    browser.open(client.url)  # without the token
    browser.wait_for("!document.querySelector('#error').hidden")
    assert "token is missing" in browser.run("document.querySelector('#error').innerText")
