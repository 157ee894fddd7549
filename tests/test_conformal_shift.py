"""Split calibrations in groups, under covariate shift, and in model files."""

import subprocess
import sys
from math import ceil
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import beta, betabinom, uniform

import kcdo
from kcdo import metrics
from kcdo.errors import InvalidInputError, InvalidTypeError, ModelFileError
from tests.model_files import forge, npy, records, with_field

LEVEL = 0.8


def fitted(X, y, **options):
    return kcdo.ConditionalDensityOperator(selection="heuristic", n_jobs=1, **options).fit(X, y)


def bounds(n_test, n, level, probability=0.999):
    """How many of n_test rows a split of n rows covers: exactly, over both samples."""
    rank = ceil(round((n + 1) * level, 9))
    return betabinom(n_test, rank, n + 1 - rank).interval(probability)


def inside(prediction, y):
    return metrics.interval_coverage(prediction, y, LEVEL, average=False)


# --- groups


def two_kinds(n, seed):
    """Two kinds of rows that the model cannot tell apart, one with six times the noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    X[:, 1] = rng.random(n) < 0.3
    return X, np.sin(X[:, 0]) + np.where(X[:, 1] == 1, 0.6, 0.1) * rng.standard_normal(n)


@pytest.fixture(scope="module")
def blind():
    """A model that ignores the kind."""
    return fitted(*two_kinds(100, 0), kernel_x=kcdo.Gaussian().on([0]))


def test_every_group_is_covered_at_the_level(blind):
    calibration, (X, y) = two_kinds(500, 1), two_kinds(800, 2)
    plain = kcdo.conformalize(blind, *calibration)
    grouped = kcdo.conformalize(blind, *calibration, groups=1)
    assert repr(grouped) == 'ConformalPredictor(method="split", 500 rows, 2 groups)'
    for kind in (0, 1):
        here = X[:, 1] == kind
        n = np.sum(calibration[0][:, 1] == kind)
        low, high = bounds(here.sum(), n, LEVEL)
        # without groups the quiet ones are covered too often, the loud ones too seldom
        assert not low <= inside(plain.conditional(X[here]), y[here]).sum() <= high
        prediction = grouped.conditional(X[here])
        assert low <= inside(prediction, y[here]).sum() <= high
        assert low <= here.sum() * metrics.hpd_coverage(prediction, y[here], LEVEL) <= high


def test_a_group_is_a_calibration_of_its_own(blind):
    (X, y), queries = two_kinds(120, 1), two_kinds(30, 2)[0]
    grouped = kcdo.conformalize(blind, X, y, groups=1)
    limits, regions = grouped.interval(queries, LEVEL), grouped.hpd(queries, LEVEL)
    for kind in (0, 1):
        own, here = X[:, 1] == kind, np.flatnonzero(queries[:, 1] == kind)
        alone = kcdo.conformalize(blind, X[own], y[own])
        np.testing.assert_allclose(limits[here], alone.interval(queries[here], LEVEL), rtol=1e-12)
        wanted = alone.hpd(queries[here], LEVEL)
        for place, region in zip(here, wanted, strict=True):
            np.testing.assert_allclose(regions[place].intervals, region.intervals, rtol=1e-9)


def test_groups_are_columns_by_name_or_place_or_functions(blind):
    (X, y), queries = two_kinds(120, 1), two_kinds(20, 2)[0]
    wanted = kcdo.conformalize(blind, X, y, groups=1).interval(queries, LEVEL)
    for rule in (-1, lambda rows: rows[:, 1], lambda rows: ["ab"[int(k)] for k in rows[:, 1]]):
        found = kcdo.conformalize(blind, X, y, groups=rule).interval(queries, LEVEL)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    X_train, y_train = two_kinds(100, 0)
    for library in (pd, pl):
        train, table, asked = (
            library.DataFrame({"x": rows[:, 0], "kind": rows[:, 1]})
            for rows in (X_train, X, queries)
        )
        model = fitted(train, y_train, kernel_x=kcdo.Gaussian().on(["x"]))
        for rule in ("kind", 1):
            found = kcdo.conformalize(model, table, y, groups=rule).interval(asked, LEVEL)
            np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_joint_outputs_have_groups_too():
    X, y = two_kinds(150, 1)
    Y = np.column_stack([y, X[:, 0] + y])
    model = fitted(X[:60], Y[:60])
    conformal = kcdo.conformalize(model, X[60:], Y[60:], groups=1)
    limits = conformal.interval(X[:5], LEVEL)
    assert limits.shape == (5, 2, 2)
    regions = conformal.hpd(X[:5], LEVEL)
    means = model.predict(X[:5])
    assert all(r.contains(m)[0] for r, m in zip(regions, means, strict=True))


def test_groups_without_rows_enough_are_named(blind):
    X, y = two_kinds(40, 1)
    X[:, 1] = np.arange(40) >= 37
    conformal = kcdo.conformalize(blind, X, y, groups=1)
    message = r"needs at least 4 calibration rows in the group 1\.0, here are 3"
    with pytest.raises(InvalidInputError, match=message):
        conformal.interval([[0.0, 1.0]], LEVEL)
    assert np.isfinite(conformal.interval([[0.0, 0.0]], LEVEL)).all()
    with pytest.raises(InvalidInputError, match=r"of the group 7\.0, of which there were no cali"):
        conformal.interval([[0.0, 7.0]], LEVEL)


# --- covariate shift

NOW, THEN = uniform(-2, 4), beta(4, 1.5, loc=-2, scale=4)


def shifted(n, seed, inputs):
    """Noise that grows with x, which the model does not know."""
    x = inputs.rvs(n, random_state=seed)
    noise = np.random.default_rng(seed + 10_000).standard_normal(n)
    return x[:, None], x + 0.2 * np.exp(x) * noise


def true_ratio(X):
    return THEN.pdf(X[:, 0]) / NOW.pdf(X[:, 0])


@pytest.fixture(scope="module")
def even():
    """A model with noise of one size everywhere."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-4, 4, 150)
    return fitted(x[:, None], x + 0.3 * rng.standard_normal(150))


@pytest.mark.filterwarnings("ignore:.*outside the support of the reference:kcdo.SupportWarning")
def test_weights_cover_queries_from_elsewhere(even):
    """On average over calibration sets, of which each is small."""
    X, y = shifted(400, 1, THEN)
    plain, weighted, estimated = [], [], []
    for seed in range(25):
        calibration = shifted(200, 100 + seed, NOW)
        ratio = kcdo.DensityReconstruction(reference=kcdo.Sample(calibration[0]))
        ratio.fit(shifted(200, 300 + seed, THEN)[0])
        for shares, given in ((plain, None), (weighted, true_ratio), (estimated, ratio)):
            conformal = kcdo.conformalize(even, *calibration, density_ratio=given)
            shares.append(inside(conformal.conditional(X), y).mean())
    error = np.std(weighted) / np.sqrt(25) + np.sqrt(LEVEL * (1 - LEVEL) / 400)
    assert np.mean(plain) < LEVEL - 0.1
    assert LEVEL - 3 * error < np.mean(weighted) < LEVEL + 3 * error + 0.05
    assert np.mean(estimated) > LEVEL - 0.06  # the ratio is smoothed, so some of the shift is left


def test_weighted_thresholds_are_the_literal_ones(even):
    (X, y), queries = shifted(60, 1, NOW), shifted(9, 2, THEN)[0]
    conformal = kcdo.conformalize(even, X, y, density_ratio=true_ratio)
    assert repr(conformal) == 'ConformalPredictor(method="split", 60 rows, weighted)'
    pit = metrics.pit_values(even.conditional(X), y)
    scores, weights = np.abs(pit - 0.5), true_ratio(X)
    limits = conformal.interval(queries, LEVEL)
    for query, found in zip(queries, limits, strict=True):
        own = true_ratio(query[None])[0]
        shares = np.append(weights, own) / (weights.sum() + own)
        order = np.argsort(scores)
        mass = np.cumsum(shares[:-1][order])  # what is left lies at infinity
        reached = np.flatnonzero(mass >= LEVEL)
        if len(reached) == 0:
            np.testing.assert_array_equal(found, [-np.inf, np.inf])
            continue
        wanted = even.conditional(query[None]).interval(2 * scores[order[reached[0]]])[0]
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert np.isfinite(limits).any()


def test_equal_weights_change_nothing(even):
    (X, y), queries = shifted(60, 1, NOW), shifted(9, 2, THEN)[0]
    plain = kcdo.conformalize(even, X, y)
    for constant in (1.0, 1e-8, 1e8):
        even_ratio = kcdo.conformalize(
            even, X, y, density_ratio=lambda rows, c=constant: np.full(len(rows), c)
        )
        np.testing.assert_allclose(
            even_ratio.interval(queries, LEVEL), plain.interval(queries, LEVEL), rtol=1e-12
        )


def test_queries_that_no_row_speaks_for_have_infinite_regions(even):
    X, y = shifted(60, 1, NOW)
    conformal = kcdo.conformalize(even, X, y, density_ratio=lambda rows: np.exp(9 * rows[:, 0]))
    near, far = conformal.interval([[-1.0], [1.9]], LEVEL)
    assert np.isfinite(near).all()
    np.testing.assert_array_equal(far, [-np.inf, np.inf])
    near, far = conformal.hpd([[-1.0], [1.9]], LEVEL)
    assert np.isfinite(near.volume)
    assert far.volume == np.inf


def test_groups_may_be_weighted(blind):
    X, y = two_kinds(200, 1)

    def ratio(rows):
        return np.where(rows[:, 0] > 0, 2.0, 0.5)

    both = kcdo.conformalize(blind, X, y, groups=1, density_ratio=ratio)
    own = X[:, 1] == 1
    alone = kcdo.conformalize(blind, X[own], y[own], density_ratio=ratio)
    queries = np.array([[-1.0, 1.0], [1.0, 1.0]])
    np.testing.assert_allclose(both.interval(queries, LEVEL), alone.interval(queries, LEVEL))
    missing = kcdo.conformalize(
        blind, X, y, groups=1, density_ratio=lambda rows: 1.0 * (rows[:, 1] == 0)
    )
    assert np.isinf(missing.interval([[0.0, 1.0]], LEVEL)).all()  # nothing is known of the group


# --- errors


def test_wrong_groups_and_ratios_are_refused(blind):
    X, y = two_kinds(30, 1)
    table = pd.DataFrame(X, columns=["x", "kind"])
    for data, options, message in (
        (X, {"groups": "kind"}, "groups name the column 'kind' .* they are not a data frame"),
        (table, {"groups": "sort"}, r"'sort' of the inputs, but the columns are \['x', 'kind'\]"),
        (X, {"groups": 2}, r"groups name column 2 of the inputs, which have the shape \(30, 2\)"),
        (X, {"groups": lambda rows: [1]}, "one label per row: 30 rows, 1 labels"),
        (X, {"groups": 1.5}, "groups must be a column of the inputs or a function"),
        (X, {"density_ratio": 2.0}, "density_ratio must be a fitted kcdo.DensityReconstruction"),
        (X, {"density_ratio": lambda rows: 1.0}, r"one number per row: 30 rows, shape \(\)"),
        (X, {"density_ratio": lambda rows: -rows[:, 1]}, "must be finite and not negative"),
        (X, {"density_ratio": lambda rows: rows[:, 0] / 0}, "must be finite and not negative"),
        (X, {"density_ratio": lambda rows: 0 * rows[:, 0]}, "is 0 at every calibration row"),
        (X, {"groups": 1, "method": "jackknife+"}, 'density_ratio are for method="split"'),
    ):
        model = fitted(data, y) if data is table else blind
        with (
            np.errstate(divide="ignore"),
            pytest.raises((InvalidInputError, InvalidTypeError), match=message),
        ):
            kcdo.conformalize(model, data, y, **options)


def test_uncertain_inputs_have_no_group(blind):
    X, y = two_kinds(30, 1)
    query = kcdo.GaussianInput([[0.0, 1.0]], 0.1)
    for options in ({"groups": 1}, {"density_ratio": lambda rows: np.ones(len(rows))}):
        conformal = kcdo.conformalize(blind, X, y, **options)
        message = f"with {next(iter(options))} inputs must be rows: GaussianInput is uncertain"
        with pytest.raises(InvalidTypeError, match=message):
            conformal.interval(query, LEVEL)


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_levels_of_weighted_calibrations_must_be_shares(even, level):
    conformal = kcdo.conformalize(even, *shifted(30, 1, NOW), density_ratio=true_ratio)
    with pytest.raises(InvalidInputError, match="level must lie between 0 and 1"):
        conformal.interval([[0.0]], level)


# --- model files


def calibrated(kind):
    X, y = two_kinds(60, 1)
    if kind == "joint":
        y = np.column_stack([y, y**2])
    if kind == "named groups":
        X = pd.DataFrame({"x": X[:, 0], "kind": pd.Categorical(np.where(X[:, 1], "a", "b"))})
    model = fitted(X, y)
    options = {
        "jackknife+": {"method": "jackknife+", "folds": 2},
        "groups": {"groups": 1},
        "named groups": {"groups": "kind"},
    }.get(kind, {})
    if kind == "weights":
        reference = kcdo.Sample(X)
        options = {"density_ratio": kcdo.DensityReconstruction(reference=reference).fit(X[:30])}
    return kcdo.conformalize(model, X, y, **options), X[:6]


@pytest.mark.parametrize(
    "kind", ["plain", "joint", "groups", "named groups", "weights", "jackknife+"]
)
def test_a_saved_predictor_answers_the_same(kind, tmp_path):
    conformal, queries = calibrated(kind)
    conformal.save(tmp_path / "model.kcdo")
    loaded = kcdo.load(tmp_path / "model.kcdo")
    assert repr(loaded) == repr(conformal)
    np.testing.assert_allclose(
        loaded.interval(queries, LEVEL), conformal.interval(queries, LEVEL), rtol=1e-12
    )
    again, wanted = loaded.hpd(queries, LEVEL)[0], conformal.hpd(queries, LEVEL)[0]
    points = np.random.default_rng(0).normal(size=(50, 2 if kind == "joint" else 1))
    np.testing.assert_array_equal(again.contains(points), wanted.contains(points))


def test_another_process_reads_a_saved_predictor(tmp_path):
    path = tmp_path / "model.kcdo"
    calibrated("plain")[0].save(path)
    code = f"import kcdo; print(kcdo.load({str(path)!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == 'ConformalPredictor(method="split", 60 rows)'


def test_sums_of_a_saved_predictor_may_be_left_out(tmp_path):
    X, y = two_kinds(400, 1)
    model = fitted(X, y, solver=kcdo.Nystrom(40))
    conformal = kcdo.conformalize(model, *two_kinds(50, 2))
    sizes = []
    for sums in (True, False):
        conformal.save(tmp_path / "model.kcdo", sums=sums)
        sizes.append(Path(tmp_path / "model.kcdo").stat().st_size)
    assert sizes[1] < 0.8 * sizes[0]
    assert hasattr(model, "sums_")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": lambda X: X[:, 1]}, "cannot hold groups that are a function.*name a column"),
        (
            {"density_ratio": lambda X: np.ones(len(X))},
            "cannot hold density_ratio that are a function.*use a kcdo.DensityReconstruction",
        ),
    ],
)
def test_functions_cannot_be_saved(blind, options, message, tmp_path):
    conformal = kcdo.conformalize(blind, *two_kinds(30, 1), **options)
    with pytest.raises(InvalidTypeError, match=message):
        conformal.save(tmp_path / "model.kcdo")
    assert not (tmp_path / "model.kcdo").exists()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    for kind in ("groups", "jackknife+"):
        calibrated(kind)[0].save(folder / kind)
    return folder


def refers_to(name, **changes):
    """Let fields of one record refer to the last record of a class before it."""

    def edit(metadata):
        fields = records(metadata, name)[-1]
        for field, value in changes.items():
            places = [i for i, r in enumerate(metadata["objects"]) if r["class"] == value]
            fields[field] = {"$ref": places[-1]} if places else value

    return edit


@pytest.mark.parametrize(
    ("kind", "edit", "message"),
    [
        ("groups", with_field("ConformalSplit", "groups", 1.5), "groups must not be of the kind"),
        ("groups", with_field("ConformalSplit", "groups", None), "groups without a rule"),
        ("groups", with_field("ConformalSplit", "labels", {"$tuple": [0]}), "groups of calibr"),
        ("groups", with_field("ConformalSplit", "labels", {"$tuple": [0, 0]}), "of one label"),
        (
            "groups",
            refers_to("ConformalPredictor", model="Gaussian"),
            "model must not be of",
        ),
        ("groups", refers_to("ConformalPredictor", calibration="Gaussian"), "calibration must not"),
        ("jackknife+", with_field("ConformalFolds", "held_out", {"$tuple": []}), "without folds"),
        (
            "jackknife+",
            refers_to("ConformalHeldOut", model="Gaussian"),
            "model must not be of the kind",
        ),
    ],
)
def test_forged_predictors_are_refused(kind, edit, message, saved, tmp_path):
    forge(saved / kind, tmp_path / "forged", edit)
    with pytest.raises(ModelFileError, match=message):
        kcdo.load(tmp_path / "forged")


@pytest.mark.parametrize("field", ["values", "weights", "member_of"])
def test_forged_numbers_are_refused(field, saved, tmp_path):
    def edit(metadata):
        place = records(metadata, "ConformalSplit")[0][field]["$array"]
        wrong[f"arrays/{place}.npy"] = npy(np.full(shape, -1, dtype=kind))

    shape, kind = {
        "values": ((60, 2), float),
        "weights": ((60,), float),
        "member_of": ((60,), np.int64),
    }[field]
    wrong = {}
    forge(saved / "groups", tmp_path / "forged", edit)
    forge(saved / "groups", tmp_path / "forged", members=wrong)
    with pytest.raises(ModelFileError, match="calibration rows"):
        kcdo.load(tmp_path / "forged")
