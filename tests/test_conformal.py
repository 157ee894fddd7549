"""Conformal calibration: exact ranks, coverage for wrong models, literal jackknife+, errors."""

from fractions import Fraction
from math import ceil

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import betabinom, binom
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

import kcdo
from kcdo import metrics
from kcdo.conformal import calibrate, predictor, regions, thresholds
from kcdo.conformal.scores import DensityRanks, HeldOut
from kcdo.errors import InvalidInputError, InvalidTypeError, SignedDensityError


def rows(n, seed, *, noise=0.3, d=1):
    """Waves with noise that grows with x."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 1))
    Y = np.sin(X + np.arange(d)) + noise * (1 + 0.4 * X) * rng.standard_normal((n, d))
    return X, Y[:, 0] if d == 1 else Y


def fitted(X, y, **options):
    return kcdo.ConditionalDensityOperator(selection="heuristic", n_jobs=1, **options).fit(X, y)


def narrow_model(d=1, n=60):
    """A model of data with little noise, too sure of itself where there is more."""
    X, y = rows(n, 1, noise=0.02, d=d)
    kernel = kcdo.Gaussian(0.05) if d == 1 else kcdo.Gaussian([0.2] * d)
    box = kcdo.UniformBox([-6.0] * d, [6.0] * d, nodes=(600 if d == 1 else 70,) * d)
    return fitted(X, y, alpha=1e-6, kernel_y=kernel, reference=box)


@pytest.fixture(scope="module")
def split():
    X, y = rows(99, 2)
    return kcdo.conformalize(fitted(*rows(80, 1)), X, y), X, y


@pytest.fixture(scope="module")
def small():
    """A model of 25 rows, and its jackknife+."""
    X, y = rows(25, 3)
    model = fitted(X, y)
    options = {"method": "jackknife+", "folds": 25, "keep_parameters": True}
    return model, X, y, kcdo.conformalize(model, X, y, **options)


# --- the threshold


@given(n=st.integers(1, 400), percent=st.integers(1, 999))
def test_the_rank_is_exact_in_rational_numbers(n, percent):
    exact = ceil((n + 1) * Fraction(percent, 1000))
    level = percent / 1000
    if exact <= n:
        assert thresholds.rank(level, n) == exact
    else:
        least = next(m for m in range(1, 1001) if ceil((m + 1) * Fraction(percent, 1000)) <= m)
        with pytest.raises(InvalidInputError, match=f"needs at least {least} calibration rows"):
            thresholds.rank(level, n)


@pytest.mark.parametrize("n", [1, 4, 9, 10])
@pytest.mark.parametrize("level", [0.3, 0.5, 0.8, 0.9])
def test_the_split_interval_is_that_of_the_ranked_score(n, level):
    model = fitted(*rows(40, 1))
    X, y = rows(n, 4)
    conformal = kcdo.conformalize(model, X, y)
    scores = sorted(
        abs(float(model.conditional([x]).cdf(v)[0, 0]) - 0.5) for x, v in zip(X, y, strict=True)
    )
    rank = ceil(round((n + 1) * level, 9))
    if rank > n:
        with pytest.raises(InvalidInputError, match="needs at least"):
            conformal.interval([[0.5]], level)
        return
    wanted = model.conditional([[0.5], [1.0]]).interval(2 * scores[rank - 1])
    np.testing.assert_allclose(conformal.interval([[0.5], [1.0]], level), wanted, rtol=1e-6)


@pytest.mark.parametrize("level", [0.05, 0.5, 0.731, 0.9, 0.99])
def test_exactly_rank_calibration_rows_are_inside(split, level):
    conformal, X, y = split
    rank = ceil(round(100 * level, 9))
    limits = conformal.interval(X, level)
    assert np.sum((limits[:, 0] <= y) & (y <= limits[:, 1])) == rank
    inside = [r.contains(v)[0] for r, v in zip(conformal.hpd(X, level), y, strict=True)]
    assert np.sum(inside) == rank


def test_exactly_rank_joint_rows_are_inside():
    X, Y = rows(39, 2, d=2)
    conformal = kcdo.conformalize(fitted(*rows(60, 1, d=2)), X, Y)
    limits = conformal.interval(X, 0.8)
    assert limits.shape == (39, 2, 2)
    np.testing.assert_array_equal(
        np.sum((limits[:, 0] <= Y) & (limits[:, 1] >= Y), axis=0), [32, 32]
    )
    assert sum(r.contains(v)[0] for r, v in zip(conformal.hpd(X, 0.8), Y, strict=True)) == 32


def test_the_split_region_is_a_region_of_highest_density(split):
    conformal, *_ = split
    X = [[-1.0], [0.0], [1.5]]
    adjusted = 1.0 - np.sort(conformal.calibration.values[:, -1])[99 - 90]
    wanted = conformal.model.conditional(X).hpd(adjusted)
    for region, exact in zip(conformal.hpd(X, 0.9), wanted, strict=True):
        np.testing.assert_allclose(region.intervals, exact.intervals, atol=0.02 * exact.volume)
        assert region.volume == pytest.approx(exact.volume, rel=0.03)
        assert region.level == 0.9


# --- coverage


def bounds(n_test, n, level, probability=0.999):
    """How many of n_test rows a split of n rows covers: exactly, over both samples."""
    rank = ceil(round((n + 1) * level, 9))
    return betabinom(n_test, rank, n + 1 - rank).interval(probability)


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_a_split_repairs_a_model_that_is_too_sure(level):
    model = narrow_model()
    conformal = kcdo.conformalize(model, *rows(499, 5))
    X, y = rows(600, 6)
    low, high = bounds(600, 499, level)
    assert 600 * metrics.interval_coverage(model.conditional(X), y, level) < low - 50
    assert np.isfinite(conformal.interval(X[:20], level)).all()
    prediction = conformal.conditional(X)
    assert low <= 600 * metrics.interval_coverage(prediction, y, level) <= high
    assert low <= 600 * metrics.hpd_coverage(prediction, y, level) <= high


def test_a_split_repairs_joint_outputs():
    model = narrow_model(d=2)
    conformal = kcdo.conformalize(model, *rows(199, 5, d=2))
    X, Y = rows(200, 6, d=2)
    low, high = bounds(200, 199, 0.8)
    raw = metrics.interval_coverage(model.conditional(X), Y, 0.8)
    shares = metrics.interval_coverage(conformal.conditional(X), Y, 0.8)
    assert shares.shape == (2,)
    assert np.all(200 * raw < low)
    assert np.all((low <= 200 * shares) & (200 * shares <= high))
    assert low <= 200 * metrics.hpd_coverage(conformal.conditional(X), Y, 0.8) <= high


def test_small_splits_cover_at_the_nominal_rate_on_average():
    """The guarantee is over calibration sets too: many of nine rows each."""
    model, inside = narrow_model(), 0
    X, y = rows(10 * 120, 7)
    for block in np.arange(len(X)).reshape(120, 10):
        nine, last = block[:9], block[9:]
        low, high = kcdo.conformalize(model, X[nine], y[nine]).interval(X[last], 0.8)[0]
        inside += low <= y[last[0]] <= high
    low, high = binom(120, 0.8).interval(0.999)  # (n + 1) level is whole: at that rate exactly
    assert low <= inside <= high


def test_jackknife_plus_repairs_regions_that_overfit():
    raw, shares = [], []
    for seed in range(6):
        X, y = rows(50, 100 + seed)
        model = fitted(X, y, alpha=1e-5, kernel_y=kcdo.Gaussian(0.02))
        queries, truth = rows(60, 200 + seed)
        raw.append(np.mean(metrics.hpd_values(model.conditional(queries), truth) <= 0.9))
        conformal = kcdo.conformalize(model, X, y, method="jackknife+")
        prediction = conformal.conditional(queries)
        shares.append(
            [f(prediction, truth, 0.9) for f in (metrics.interval_coverage, metrics.hpd_coverage)]
        )
    assert np.mean(raw) < 0.5
    assert np.all(np.mean(shares, axis=0) > 0.86)


def test_outputs_without_any_density_make_regions_infinite():
    X, y = rows(50, 1)
    model = fitted(X, y, reference=kcdo.UniformBox(-2.0, 2.0))
    far = y.copy()
    far[:10] = 50.0
    conformal = kcdo.conformalize(model, X, far)
    region = conformal.hpd([[0.0]], 0.9)[0]
    np.testing.assert_array_equal(conformal.interval([[0.0]], 0.9), [[-np.inf, np.inf]])
    np.testing.assert_array_equal(region.intervals, [[-np.inf, np.inf]])
    assert region.volume == np.inf
    assert region.contains([-1e9, 0.0, 1e9]).all()
    assert np.isfinite(conformal.interval([[0.0]], 0.6)).all()
    assert np.isfinite(conformal.hpd([[0.0]], 0.6)[0].volume)


def test_outputs_in_a_gap_of_the_density_are_inside():
    rng = np.random.default_rng(0)
    y = np.concatenate([rng.uniform(0, 1, 90), rng.uniform(9, 10, 10)])
    model = fitted(np.zeros((100, 1)), y, kernel_y=kcdo.Gaussian(0.1))
    dist = model.conditional([[0.0]])
    assert np.all(dist.pdf([4.0, 5.0, 6.0, 7.0]) == 0.0)
    # the two in the gap, at one value of the cdf, are the least typical and set the threshold
    outputs = np.append(np.full(17, dist.quantile(0.5)[0]), [5.0, 7.0])
    conformal = kcdo.conformalize(model, np.zeros((19, 1)), outputs)
    low, high = conformal.interval([[0.0]], 0.9)[0]
    assert low < 1.0
    assert 7.0 < high < 9.5


# --- jackknife+


def left_out(model, X, y, i):
    return model.refit(np.delete(X, i, axis=0), np.delete(y, i))


@pytest.mark.parametrize("level", [0.6, 0.9])
def test_jackknife_plus_intervals_are_the_literal_ones(small, level):
    model, X, y, conformal = small
    queries, n = np.array([[-1.5], [0.2], [1.0]]), len(y)
    lower, upper = np.empty((n, 3)), np.empty((n, 3))
    for i in range(n):
        other = left_out(model, X, y, i)
        score = abs(other.conditional(X[i : i + 1]).cdf(y[i])[0, 0] - 0.5)
        lower[i] = other.conditional(queries).quantile(0.5 - score)
        upper[i] = other.conditional(queries).quantile(0.5 + score)
    alpha = Fraction(1) - Fraction(str(level))
    low, high = int(alpha * (n + 1)), ceil((1 - alpha) * (n + 1))
    wanted = np.stack([np.sort(lower, axis=0)[low - 1], np.sort(upper, axis=0)[high - 1]], axis=1)
    np.testing.assert_allclose(conformal.interval(queries, level), wanted, rtol=1e-6)


def hpd_value(dist, line, y):
    """P(p(Z) > p(y)) by the trapezoid rule."""
    heights, own = dist.pdf(line)[0], dist.pdf(y)[0]
    return np.array([np.trapezoid(np.where(heights > p, heights, 0.0), line) for p in own])


def test_jackknife_plus_regions_are_the_literal_ones(small):
    model, X, y, conformal = small
    query, n, level = np.array([[0.4]]), len(y), 0.8
    line = np.linspace(-4, 4, 8001)
    points = np.linspace(-2, 2.5, 401)
    against = np.zeros(len(points))
    for i in range(n):
        other = left_out(model, X, y, i)
        own = hpd_value(other.conditional(X[i : i + 1]), line, y[i])[0]
        against += hpd_value(other.conditional(query), line, points) > own
    wanted = against < level * (n + 1)
    region = conformal.hpd(query, level)[0]
    found = region.contains(points)
    assert 50 < wanted.sum() < 350
    assert np.sum(found != wanted) <= 4  # at the edges: ranks are found to about 1/128
    assert region.volume == pytest.approx(wanted.sum() * (points[1] - points[0]), rel=0.03)


def test_one_fold_is_the_split():
    """The rule of the jackknife+ for one model is that of the split: the short cut is exact."""
    X, y = rows(39, 2)
    conformal = kcdo.conformalize(fitted(*rows(60, 1)), X, y)
    queries = [[-1.0], [0.5]]
    held_out = (HeldOut.of(conformal.model, X, y),)
    limits = predictor._intervals(held_out, 36, queries)[:, :, 0]
    np.testing.assert_allclose(limits, conformal.interval(queries, 0.9), rtol=1e-12)
    every = regions.regions_on_a_line(conformal.model, held_out, 36, queries, 0.9)
    for region, short in zip(every, conformal.hpd(queries, 0.9), strict=True):
        np.testing.assert_allclose(region.intervals, short.intervals, rtol=1e-9)


def test_folds_are_a_partition_of_equal_sizes():
    for n, folds, count in ((50, None, 10), (7, None, 7), (50, 50, 50), (50, 7, 7)):
        parts = calibrate._folds(n, folds)
        assert len(parts) == count
        assert sorted(np.concatenate(parts)) == list(range(n))
        sizes = [len(part) for part in parts]
        assert max(sizes) - min(sizes) <= 1


def test_folds_are_scored_by_models_without_them():
    X, y = rows(30, 3)
    model = fitted(X, y)
    conformal = kcdo.conformalize(model, X, y, method="jackknife+", folds=3)
    assert repr(conformal) == 'ConformalPredictor(method="jackknife+", 30 rows, 3 folds)'
    folds = calibrate._folds(30, 3)
    for fold, held_out in zip(folds, conformal.calibration.held_out, strict=True):
        other = fitted(np.delete(X, fold, axis=0), np.delete(y, fold))
        pit = metrics.pit_values(other.conditional(X[fold]), y[fold])
        np.testing.assert_allclose(np.sort(np.minimum(pit, 1 - pit)), held_out.tails[:, 0])


@pytest.mark.parametrize("keep", [True, False])
def test_folds_choose_their_parameters_anew(monkeypatch, keep):
    """What was chosen on all rows has seen those held out: folds keep it only if asked to."""
    X, y = rows(40, 3)
    model = fitted(X, y)
    folds = []

    class Watched(HeldOut):
        @classmethod
        def of(cls, other, *held):
            folds.append(other)
            return HeldOut.of(other, *held)

    monkeypatch.setattr(calibrate, "HeldOut", Watched)
    options = {"method": "jackknife+", "folds": 4, "keep_parameters": keep}
    kcdo.conformalize(model, X, y, **options)
    assert len(folds) == 4
    for number, other in enumerate(folds):
        alone = np.delete(np.arange(40), calibrate._folds(40, 4)[number])
        anew = fitted(X[alone], y[alone]).report_
        wanted = model.report_ if keep else anew
        assert model.report_.kernel_x != anew.kernel_x
        assert other.report_.kernel_x == wanted.kernel_x
        assert other.report_.kernel_y == wanted.kernel_y
        assert other.report_.alpha == wanted.alpha


def test_categories_that_only_a_fold_has_are_no_obstacle():
    X, y = rows(30, 3)
    table = pd.DataFrame({"x": X[:, 0], "kind": pd.Categorical(["a"] * 29 + ["b"])})
    model = fitted(table, y)
    for keep in (True, False):
        conformal = kcdo.conformalize(
            model, table, y, method="jackknife+", folds=3, keep_parameters=keep
        )
        assert np.isfinite(conformal.interval(table[:2], 0.8)).all()


def test_jackknife_plus_of_joint_outputs():
    X, Y = rows(24, 3, d=2)
    conformal = kcdo.conformalize(fitted(X, Y), X, Y, method="jackknife+", folds=4)
    limits = conformal.interval([[0.0], [1.0]], 0.8)
    assert limits.shape == (2, 2, 2)
    assert np.all(limits[:, 0] < limits[:, 1])
    region = conformal.hpd([[0.0]], 0.8)[0]
    assert region.intervals is None
    assert region.volume is None
    mean = conformal.conditional([[0.0]]).mean()[0]
    np.testing.assert_array_equal(region.contains([mean, mean + 50.0]), [True, False])


def test_the_default_model_is_calibrated_too():
    X, y = rows(40, 3)
    model = kcdo.ConditionalDensityOperator(n_jobs=1).fit(X, y)
    for conformal in (
        kcdo.conformalize(model, *rows(30, 4)),
        kcdo.conformalize(model, X, y, method="jackknife+", folds=4, keep_parameters=True),
    ):
        low, high = conformal.interval([[0.0]], 0.8)[0]
        region = conformal.hpd([[0.0]], 0.8)[0]
        assert -2 < low < 0 < high < 2
        assert region.contains([0.0])[0]
        assert region.volume < 1.3 * (high - low)


# --- ranks, edges


@given(shares=st.lists(st.floats(0, 0.99), min_size=1, max_size=9))
def test_heights_and_shares_are_inverse(shares):
    heights = np.sort(np.random.default_rng(0).exponential(size=(2, 64)), axis=1)
    ranks = DensityRanks(heights)
    there = ranks.height_at(np.array(shares))
    assert there.shape == (2, len(shares))
    np.testing.assert_allclose(ranks.share_below(there), [shares, shares], rtol=1e-12, atol=1e-300)
    assert np.all(np.diff(ranks.height_at(np.sort(shares))) >= 0)


def test_ranks_of_a_flat_density_and_of_none():
    ranks = DensityRanks(np.full((1, 4), 2.0))
    below, at = ranks.share_below(np.array([[0.0, 2.0]]))[0]
    assert below == 0.0
    assert at == 7 / 8
    assert np.all(ranks.height_at(np.array([0.2, 0.5, 7 / 8])) == 2.0)  # all or nothing


def test_edges_are_found_and_rounded_outwards():
    knots = np.tile(np.linspace(-5.0, 5.0, 41), (3, 1))
    wanted = [[[-1.23, 0.4], [2.0, 3.21]], [[-np.inf, 1.1]], np.empty((0, 2))]

    def inside(points):
        return np.stack(
            [
                np.any([(low <= row) & (row <= high) for low, high in own], axis=0)
                if len(own)
                else np.zeros(len(row), dtype=bool)
                for row, own in zip(points, wanted, strict=True)
            ]
        )

    for found, own in zip(regions._edges(inside, knots), wanted, strict=True):
        exact = np.asarray(own)
        np.testing.assert_allclose(found, exact, atol=2e-5)
        assert np.all(found[:, 0] <= exact[:, 0])
        assert np.all(found[:, 1] >= exact[:, 1])


def test_regions_of_two_branches_have_a_hole():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 1))
    y = rng.choice([-2.0, 2.0], 300) + 0.2 * rng.standard_normal(300)
    model = fitted(X[:150], y[:150], kernel_y=kcdo.Gaussian(0.15))
    conformal = kcdo.conformalize(model, X[150:], y[150:])
    region = conformal.hpd([[0.0]], 0.9)[0]
    assert region.intervals.shape == (2, 2)
    assert region.volume == pytest.approx(np.diff(region.intervals, axis=1).sum())
    np.testing.assert_array_equal(region.contains([-2.0, 0.0, 2.0]), [True, False, True])
    low, high = conformal.interval([[0.0]], 0.9)[0]
    assert region.volume < 0.5 * (high - low)


# --- chunks, kinds of data


@pytest.mark.parametrize("method", ["split", "jackknife+"])
@pytest.mark.parametrize("d", [1, 2])
def test_chunks_change_nothing(method, d, monkeypatch):
    X, y = rows(24, 3, d=d)
    model = fitted(X, y)
    options = {"method": method, "folds": 3 if method == "jackknife+" else None}
    conformal = kcdo.conformalize(model, X, y, **options)
    queries, points = X[:7], y[:5]
    limits = conformal.interval(queries, 0.8)
    found = conformal.hpd(queries, 0.8)
    monkeypatch.setattr(predictor, "_ELEMENTS", 1)
    monkeypatch.setattr(predictor, "_QUERIES", 3)
    np.testing.assert_allclose(conformal.interval(queries, 0.8), limits, rtol=1e-12)
    again = conformal.hpd(queries, 0.8)
    alone = [conformal.hpd(queries[i : i + 1], 0.8)[0] for i in range(7)]
    for regions_ in (again, alone):
        for region, first in zip(regions_, found, strict=True):
            np.testing.assert_array_equal(region.contains(points), first.contains(points))
            if d == 1:
                np.testing.assert_allclose(region.intervals, first.intervals, rtol=1e-9)


def test_frames_lists_and_arrays_give_the_same():
    X, y = rows(24, 3)
    both = np.hstack([X, X**2])
    wanted = None
    for table in (pd.DataFrame(both, columns=["a", "b"]), pl.DataFrame(both, ["a", "b"]), both):
        output = pd.Series(y, index=np.arange(24) + 7) if isinstance(table, pd.DataFrame) else y
        if isinstance(table, pd.DataFrame):
            table.index = output.index
        model = fitted(table, output)
        conformal = kcdo.conformalize(model, table, output, method="jackknife+", folds=3)
        limits = conformal.interval(table[:4], 0.8)
        wanted = limits if wanted is None else wanted
        np.testing.assert_allclose(limits, wanted)
    listed = kcdo.conformalize(model, both.tolist(), list(y), method="jackknife+", folds=3)
    np.testing.assert_allclose(listed.interval(both[:4].tolist(), 0.8), wanted)


def test_a_column_of_outputs_keeps_its_axis():
    X, y = rows(30, 3)
    flat = kcdo.conformalize(fitted(X, y), X, y)
    column = kcdo.conformalize(fitted(X, y[:, None]), X, y[:, None])
    limits = column.interval(X[:3], 0.8)
    assert limits.shape == (3, 2, 1)
    np.testing.assert_allclose(limits[:, :, 0], flat.interval(X[:3], 0.8))
    assert column.hpd(X[:1], 0.8)[0].contains([[0.0], [99.0]])[1] == np.False_


def test_uncertain_inputs_may_be_asked(split):
    conformal, *_ = split
    sharp = conformal.interval([[0.5]], 0.9)
    nearly = conformal.interval(kcdo.GaussianInput([[0.5]], 1e-8), 0.9)
    np.testing.assert_allclose(nearly, sharp, atol=1e-3)


def test_a_query_that_changes_later_changes_nothing(split):
    conformal, *_ = split
    X = np.array([[0.5], [1.0]])
    prediction = conformal.conditional(X)
    limits = conformal.interval(X, 0.9)
    X[:] = -1.0
    np.testing.assert_array_equal(prediction.interval(0.9), limits)


def test_predictions_are_scored_like_distributions(split):
    conformal, X, y = split
    prediction = conformal.conditional(X)
    assert len(prediction) == 99
    assert "99 queries" in repr(prediction)
    limits = conformal.interval(X, 0.8)
    assert metrics.interval_coverage(prediction, y, 0.8) == pytest.approx(80 / 99, rel=1e-12)
    assert metrics.interval_width(prediction, 0.8) == pytest.approx(np.diff(limits, axis=1).mean())
    each = metrics.hpd_coverage(prediction, y, 0.8, average=False)
    assert each.shape == (99,)
    # one query and 99 are products of other shapes, whose last digit depends on the processor
    np.testing.assert_allclose(prediction[3].interval(0.8), limits[3:4], rtol=1e-12)
    np.testing.assert_allclose(prediction.mean(), conformal.model.predict(X), rtol=1e-12)


def test_levels_nest(split):
    conformal, X, _ = split
    narrow, wide = conformal.interval(X[:9], 0.5), conformal.interval(X[:9], 0.9)
    assert np.all(wide[:, 0] <= narrow[:, 0])
    assert np.all(narrow[:, 1] <= wide[:, 1])
    for inner, outer in zip(conformal.hpd(X[:9], 0.5), conformal.hpd(X[:9], 0.9), strict=True):
        assert inner.volume < outer.volume
        assert outer.contains(inner.intervals.ravel()).all()


# --- errors


def test_few_rows_name_the_least_number():
    X, y = rows(18, 2)
    conformal = kcdo.conformalize(fitted(*rows(30, 1)), X, y)
    message = r"level 0.95 needs at least 19 calibration rows, here are 18.*at most 18/19"
    with pytest.raises(InvalidInputError, match=message):
        conformal.interval(X, 0.95)
    with pytest.raises(InvalidInputError, match=message):
        conformal.hpd(X, 0.95)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 90])
def test_levels_must_be_shares(split, level):
    with pytest.raises(InvalidInputError, match="level must lie between 0 and 1"):
        split[0].interval([[0.0]], level)


def test_wrong_options_are_refused(small):
    model, X, y, _ = small
    with pytest.raises(InvalidInputError, match='method must be "split"'):
        kcdo.conformalize(model, X, y, method="cv")
    for options in ({"folds": 5}, {"keep_parameters": True}):
        with pytest.raises(InvalidInputError, match='keep_parameters are for method="jackknife'):
            kcdo.conformalize(model, X, y, **options)
    for folds in (1, 26, 2.5, True):
        with pytest.raises(InvalidInputError, match="folds must be a whole number from 2 to"):
            kcdo.conformalize(model, X, y, method="jackknife+", folds=folds)


def test_the_jackknife_needs_the_training_rows(small):
    model, X, y, _ = small
    with pytest.raises(InvalidInputError, match=r"needs the 25 rows .* got 20 rows"):
        kcdo.conformalize(model, X[:20], y[:20], method="jackknife+")
    with pytest.raises(InvalidInputError, match="needs the rows that the model was fitted to"):
        kcdo.conformalize(model, *rows(25, 7), method="jackknife+")


@pytest.mark.parametrize(
    ("options", "d"),
    [
        ({"selection": "heuristic"}, 1),
        ({"selection": "heuristic"}, 2),
        ({"selection": "heuristic", "solver": kcdo.Nystrom(10)}, 1),
        ({"selection": "heuristic", "solver": kcdo.Iterative()}, 1),
        ({"selection": "auto"}, 1),
    ],
)
def test_the_jackknife_refuses_weighted_models(options, d):
    X, y = rows(60, 3, d=d)
    model = kcdo.ConditionalDensityOperator(n_jobs=1, **options)
    weights = np.random.default_rng(0).uniform(0.5, 1.5, 60)
    jackknife = {"method": "jackknife+", "folds": 2, "keep_parameters": True}
    with pytest.raises(InvalidInputError, match="without weights: a fit to these rows predicts"):
        kcdo.conformalize(model.fit(X, y, weights), X, y, **jackknife)
    assert len(kcdo.conformalize(model.fit(X, y), X, y, **jackknife)) == 60


def test_rows_must_match(small):
    model, X, y, _ = small
    for method in ("split", "jackknife+"):
        with pytest.raises(InvalidInputError, match="25 queries, 24 rows"):
            kcdo.conformalize(model, X, y[:-1], method=method)
        with pytest.raises(InvalidInputError, match="as many columns"):
            kcdo.conformalize(model, X, np.stack([y, y], axis=1), method=method)


def test_only_fitted_density_models_can_be_calibrated():
    X, y = rows(20, 1)
    with pytest.raises(InvalidTypeError, match=r"needs a fitted kcdo\.ConditionalDensityOperator"):
        kcdo.conformalize(LinearRegression().fit(X, y), X, y)
    with pytest.raises(NotFittedError):
        kcdo.conformalize(kcdo.ConditionalDensityOperator(), X, y)
    with pytest.raises(SignedDensityError, match="positivity"):
        kcdo.conformalize(fitted(X, y, positivity="signed"), X, y)


def test_points_of_a_region_are_checked(split):
    with pytest.raises(InvalidInputError, match="points must be"):
        split[0].hpd([[0.0]], 0.9)[0].contains([[0.0, 1.0]])
