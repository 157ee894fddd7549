"""Data in any unit: within the range that works answers are the same; beyond it fits refuse."""

import numpy as np
import pytest

import kcdo
from kcdo.errors import InvalidInputError
from kcdo.rows import Rows, outliers_drawn_in

RNG = np.random.default_rng(3)
X = RNG.normal(size=(30, 2))
Y = X[:, :1] + 0.3 * RNG.normal(size=(30, 3))
M = kcdo.ConditionalDensityOperator


def answers(model, queries, unit):
    dist = model.conditional(queries)
    ends = dist.quantile([0.1, 0.5, 0.9])
    found = [dist.mean(), dist.std(), ends, dist.interval(0.8), dist.mode()]
    found += [np.array([region.volume for region in dist.hpd(0.5)])]
    densities = [dist.pdf(np.array([0.0, 0.5]) * unit), dist.entropy() - np.log(unit)]
    return [*(part / unit for part in found), densities[0] * unit, densities[1]]


@pytest.mark.parametrize("selection", ["heuristic", "auto"])
@pytest.mark.parametrize(("x", "y"), [(1, 5), (400, -400), (-400, 400)])
def test_powers_of_two_change_no_answer(short_searches, tmp_path, selection, x, y):
    wanted = answers(M(selection=selection).fit(X, Y[:, 0]), X[:3], 1.0)
    a, b = 2.0**x, 2.0**y
    model = M(selection=selection).fit(X * a, Y[:, 0] * b)
    model.save(tmp_path / "model.kcdo")
    for each in (model, kcdo.load(tmp_path / "model.kcdo")):
        for found, expected in zip(answers(each, X[:3] * a, b), wanted, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
        densities = answers(each, X[:3] * a, b)[-2]
        np.testing.assert_allclose(densities, wanted[-2], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kind", ["density", "mean", "partial"])
@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (1e170, 1.0, "column 0 of X reaches .*e[+]1[67].: numbers up to 1e[+]130 .* Divide"),
        (1e-200, 1.0, "column 0 of X varies by .*e-.*: from 1e-130 on .* Multiply"),
        (1.0, 1e205, "column 0 of Y reaches .*e[+]205: numbers up to 1e[+]130"),
        (1.0, 1e-243, "column 0 of Y varies by .*e-24.: from 1e-130 on"),
    ],
)
def test_what_cannot_be_computed_with_is_refused(kind, x, y, message):
    if kind == "mean":
        fit = kcdo.ConditionalMeanOperator().fit
    else:
        fit = M().partial_fit if kind == "partial" else M(selection="heuristic").fit
    with pytest.raises(InvalidInputError, match=message):
        fit(X * x, Y[:, 0] * y)


def test_joint_densities_have_a_range_of_their_own():
    with pytest.raises(InvalidInputError, match=r"outputs together vary by 1e-.*: joint densities"):
        M(selection="heuristic").fit(X, Y * 1e-100)


def test_constant_outputs_count_in_the_volume_of_several():
    """Their densities are narrow, not without width: four of 1e-76 are beyond all numbers."""
    X, Y = np.arange(20.0)[:, None], np.full((20, 4), 3e-76)
    with pytest.raises(InvalidInputError, match=r"outputs together vary by 1e-314: joint densi"):
        kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)


def test_further_rows_and_uncertain_inputs_have_the_same_range():
    model = M(selection="heuristic").partial_fit(X, Y[:, 0])
    with pytest.raises(InvalidInputError, match=r"column 1 of X reaches 2e[+]170"):
        model.partial_fit([[0.0, 2e170]], [0.0])
    model.partial_fit(X[:1], Y[:1, 0])  # one row has no spread, and needs none
    for inputs in (kcdo.GaussianInput([[0.0, 1e170]], 1.0), kcdo.SampleInput([[[0.0, 1e170]]])):
        with pytest.raises(InvalidInputError, match=r"column 1 of X reaches 1e[+]170"):
            model.conditional(inputs)


@pytest.mark.parametrize("unit", [1e-120, 1e120])
def test_uncertain_inputs_in_their_limit_are_points(unit):
    model = M(kernel_x=kcdo.Gaussian(unit), selection="heuristic").fit(X * unit, Y[:, 0])
    point = model.predict(X[:3] * unit)
    sample = kcdo.SampleInput(X[:3, None] * unit)
    for inputs in (kcdo.GaussianInput(X[:3] * unit, 0.0), sample):
        np.testing.assert_allclose(model.predict(inputs), point, rtol=1e-9, atol=1e-12)


def test_names_of_columns_are_told(rng):
    import pandas as pd

    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1] * 1e200})
    with pytest.raises(InvalidInputError, match="column 'b' of X reaches"):
        M(selection="heuristic").fit(frame, Y[:, 0])
    with pytest.raises(InvalidInputError, match="column 'c' of Y reaches"):
        M(selection="heuristic").fit(X, pd.Series(Y[:, 0] * 1e200, name="c"))


def test_one_outlier_of_a_million_sd_hardly_harms_the_others():
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(60, 1)), rng.normal(size=(300, 1))
    y, z = (x[:, 0] + 0.5 * rng.normal(size=len(x)) for x in (X, new))
    scores = []
    for outlier in (0.0, 1e6):
        y[0] += outlier
        model = kcdo.ConditionalDensityOperator().fit(X, y)
        scores.append(np.mean(model.conditional(new).logpdf_pairs(z)))
    assert scores[1] > scores[0] - 0.3


@pytest.mark.parametrize("path", ["inputs that come back", "groups", "grid"])
def test_one_outlier_hardly_harms_the_others_on_any_path(short_searches, path):
    rng, scores = np.random.default_rng(0), []
    X = rng.integers(0, 8, (90, 1)).astype(float) if path == "inputs that come back" else None
    X = rng.uniform(-2, 2, (90, 1)) if X is None else X
    Y = np.sin(X) @ [[1.0, 0.5]] + 0.3 * rng.standard_normal((90, 2))
    new = np.sin(X) @ [[1.0, 0.5]] + 0.3 * rng.standard_normal((90, 2))
    if path != "grid":
        Y, new = Y[:, 0], new[:, 0]
    kin = {"groups": np.arange(90) // 5} if path == "groups" else {}
    for outlier in (0.0, 1e6):
        Y[(7, *[0] * (Y.ndim - 1))] += outlier
        model = kcdo.ConditionalDensityOperator(joint="grid").fit(X, Y, **kin)
        scores.append(np.mean(model.conditional(X).logpdf_pairs(new)))
    assert scores[1] > scores[0] - 0.3
    again = model.refit(X, Y).conditional(X).logpdf_pairs(new)
    assert np.mean(again) > scores[0] - 0.4


@pytest.mark.parametrize("n", [100, 1000])
def test_rows_of_a_cauchy_tail_hardly_ever_look_like_outliers(n):
    rng = np.random.default_rng(0)
    moved = 0
    for _ in range(200):
        rows = Rows(np.zeros((n, 1)), rng.standard_cauchy((n, 1)), np.ones(n))
        moved += outliers_drawn_in(rows) is not rows
    assert moved <= 8


def test_a_row_that_counts_as_many_is_no_outlier():
    Y = np.append(np.linspace(0, 1, 99), 1e6)[:, None]
    weights = np.append(np.ones(99), 50.0)
    rows = Rows(np.zeros((100, 1)), Y, weights)
    assert outliers_drawn_in(rows) is rows
    assert outliers_drawn_in(Rows(rows.X, Y, np.ones(100))).Y.max() < 10.0


def test_heavy_tails_are_no_outliers():
    rng = np.random.default_rng(0)
    rows = Rows(np.zeros((2000, 1)), rng.standard_cauchy((2000, 1)) ** 3, np.ones(2000))
    assert outliers_drawn_in(rows) is rows
    Y = rng.standard_normal((2000, 2))
    Y[3, 1] = -1e9
    drawn = outliers_drawn_in(Rows(rows.X, Y, rows.weights)).Y
    assert -10 < drawn[3, 1] < -5
    np.testing.assert_array_equal(np.delete(drawn, 3, axis=0), np.delete(Y, 3, axis=0))
    same = np.where(np.arange(2000)[:, None] < 1990, 0.0, Y)  # no spread: nothing is far
    assert outliers_drawn_in(Rows(rows.X, same, rows.weights)).Y[3, 1] == 0.0


@pytest.mark.parametrize("unit", [2.0**-20, 2.0**20])
def test_a_sample_as_reference_has_any_unit(short_searches, rng, unit):
    """The sample's density has the unit of the outputs, and so has α' beside it."""
    X = rng.standard_normal((40, 2))
    y = np.sin(X[:, 0]) + 0.2 * rng.standard_normal(40)
    one, other = (
        kcdo.ConditionalDensityOperator(reference=kcdo.Sample(y * by)).fit(X, y * by)
        for by in (1.0, unit)
    )
    np.testing.assert_allclose(other.predict(X) / unit, one.predict(X), rtol=1e-8)
    assert other.report_.alpha_prime * unit == pytest.approx(one.report_.alpha_prime, rel=1e-8)
