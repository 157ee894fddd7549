"""Pictures for notebooks: well-formed SVG with the right curves, and a table."""

from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kcdo
from kcdo.distributions import small_html, small_svg
from kcdo.distributions.picture import _round_numbers
from tests.gaussian_truth import GaussianTruth, made

SVG = "{http://www.w3.org/2000/svg}"


def parsed(svg):
    return ElementTree.fromstring(svg)


def points(element):
    return np.array([pair.split(",") for pair in element.get("points").split()], dtype=float)


def test_curves_peak_where_the_densities_do():
    dist = GaussianTruth([-1.0, 2.0], [0.5, 1.0])
    svg = parsed(small_svg(dist))
    low, high = dist.quantile([0.005, 0.995]).ravel()[[0, 3]]
    curves = svg.findall(f"{SVG}polyline")
    assert len(curves) == 2
    heights = []
    for curve, mean in zip(curves, [-1.0, 2.0], strict=True):
        x, y = points(curve).T
        assert low + (high - low) * x[y.argmin()] / (360 - 8) == pytest.approx(mean, abs=0.06)
        heights.append(112 - y.min())
    assert heights[0] == pytest.approx(108, abs=1.0)
    assert heights[1] == pytest.approx(54, abs=1.0)
    assert len({curve.get("stroke") for curve in curves}) == 2


def test_pictures_are_small_and_need_nothing_from_outside():
    for dist, _ in (made(q=200), made(q=3, d=2), made(q=8, d=6)):
        html = small_html(dist)
        assert len(html) < 20_000
        assert "http" not in html.replace("http://www.w3.org/2000/svg", "")
        assert "script" not in html


def test_two_outputs_are_a_map_that_is_darkest_at_the_mode():
    dist = GaussianTruth([[1.0, -2.0]], [[0.5, 2.0]])
    svg = parsed(small_svg(dist))
    (group,) = svg.findall(f"{SVG}g")
    paths = group.findall(f"{SVG}path")
    assert paths[-1].get("fill-opacity") == "1.00"
    squares = [square.split("h")[0].split() for square in paths[-1].get("d").split("M")[1:]]
    np.testing.assert_allclose(np.mean(np.array(squares, dtype=float), axis=0), 11.5, atol=1.0)


def test_more_outputs_are_panels_side_by_side():
    dist, _ = made(q=2, d=3)
    curves = parsed(small_svg(dist)).findall(f"{SVG}polyline")
    assert len(curves) == 6
    lefts = [points(curve)[0, 0] for curve in curves]
    np.testing.assert_allclose(lefts, [0, 0, 120, 120, 240, 240])


def test_the_table_says_moments_and_quantiles():
    dist = GaussianTruth([3.25], [0.5])
    html = small_html(dist)
    cells = [cell.text for cell in parsed(html).iter("td")]
    assert cells[1:] == ["3.25", "0.5", "2.428", "3.25", "4.072"]
    assert "more queries" not in html


def test_the_table_is_short():
    dist, _ = made(q=30)
    html = small_html(dist)
    assert html.count("<tr>") == 6
    assert "and 25 more queries" in html
    joint, _ = made(q=30, d=4)
    assert small_html(joint).count("<tr>") == 9  # two queries of four outputs


def test_fitted_distributions_show_themselves():
    X, Y = kcdo.make_donut(4, random_state=0)
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    html = model.conditional(X[:3])._repr_html_()
    parsed(html)
    assert "ConditionalDistribution(3 queries, 2 outputs)" in html


def test_signed_densities_fall_back_to_text():
    X = np.linspace(-1, 1, 20)[:, None]
    model = kcdo.ConditionalDensityOperator(selection="heuristic", positivity="signed")
    html = model.fit(X, X[:, 0]).conditional(X)._repr_html_()
    assert html == "<pre>ConditionalDistribution(20 queries, 1 outputs)</pre>"


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_round_numbers_are_few_and_inside(low, span):
    numbers = _round_numbers(low, low + span)
    assert len(numbers) <= 5
    assert all(low <= n <= low + span for n in numbers)
    assert len(_round_numbers(0.0, span)) >= 1


def test_no_label_is_minus_zero():
    assert str(_round_numbers(-0.9, 0.7)[1]) == "0.0"
