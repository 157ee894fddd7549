"""Data that must not come in: each is refused by an error that names what is wrong with it."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from threadpoolctl import threadpool_info

import kcdo
from kcdo.errors import InvalidInputError, InvalidTypeError
from kcdo.parallel import blas_limit, thread_count

X = np.random.default_rng(0).uniform(-1, 1, (40, 2))
Y = X[:, 0] + 0.1 * np.random.default_rng(1).standard_normal(40)
WEIGHTS = np.random.default_rng(2).uniform(0.5, 1.5, 40)
START = datetime.datetime(2020, 1, 1)
TIMES = [START + datetime.timedelta(hours=i) for i in range(40)]


def model(**options):
    return kcdo.ConditionalDensityOperator(selection="heuristic", **options)


def table(library=pd, **more):
    return library.DataFrame({"speed": X[:, 0], "flow": X[:, 1]} | more)


# --- threads


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.mark.parametrize("n_jobs", [2.5, 2.0, "2", True, [2]])
def test_threads_come_in_whole_numbers(n_jobs):
    before = blas_threads()
    message = "n_jobs must be a whole number of threads, or None for all cores; got"
    estimators = kcdo.ConditionalMeanOperator, kcdo.DensityReconstruction
    for estimator in (model(n_jobs=n_jobs), *(kind(n_jobs=n_jobs) for kind in estimators)):
        with pytest.raises(InvalidTypeError, match=message):
            estimator.fit(X, Y)
    assert blas_threads() == before
    assert model(n_jobs=2).fit(X, Y).report_.n_samples == 40  # the process is as it was
    assert blas_threads() == before


def test_whole_numbers_of_numpy_are_numbers_of_threads():
    assert thread_count(np.int64(3)) == 3


@pytest.mark.parametrize("nested", [False, True])
def test_a_limit_that_blas_refuses_leaves_nothing_behind(nested):
    before = blas_threads()
    with blas_limit(1 if nested else None):
        with pytest.raises(TypeError), blas_limit(0.5):
            pass
        assert set(blas_threads()) == ({1} if nested else set(before))
    assert blas_threads() == before
    with blas_limit(1):
        assert set(blas_threads()) == {1}
    assert blas_threads() == before


# --- masked arrays


def masked(values):
    found = np.ma.array(values)
    found[3] = np.ma.masked
    return found


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((masked(X), Y), r"Input X has masked values \(2 of 80\): drop these rows, or fill"),
        ((X, masked(Y)), r"Input Y has masked values \(1 of 40\)"),
        ((X, Y, masked(WEIGHTS)), r"Input sample_weight has masked values \(1 of 40\)"),
    ],
)
def test_masks_are_not_ignored(data, message):
    with pytest.raises(InvalidInputError, match=message):
        model().fit(*data)
    if len(data) == 2:
        with pytest.raises(InvalidInputError, match=message):
            model().fit(X, Y).score(*data)


def test_masks_of_categories_are_not_ignored():
    kernel = kcdo.Gaussian().on([0]) * kcdo.Categorical().on([1])
    labels = np.column_stack([X[:, 0], np.arange(40) % 2])
    with pytest.raises(InvalidInputError, match="Input X has masked values"):
        model(kernel_x=kernel).fit(masked(labels), Y)


def test_an_array_without_masked_values_is_an_array():
    found = model().fit(np.ma.array(X), np.ma.array(Y)).predict(X)
    np.testing.assert_allclose(found, model().fit(X, Y).predict(X), rtol=1e-12)


# --- weights


@pytest.mark.parametrize("factor", [2.0**53, 1e300, 1e160, 1e-160, 1e-300])
@pytest.mark.parametrize("solver", ["auto", kcdo.Nystrom(10)])
def test_weights_beyond_what_numbers_can_tell_are_refused(factor, solver):
    message = "largest sample_weight must lie between 1e-100 and 1e[+]15; got .* by their mean"
    with pytest.raises(InvalidInputError, match=message):
        model(solver=solver).fit(X, Y, WEIGHTS * factor)
    with pytest.raises(InvalidInputError, match=message):
        kcdo.DensityReconstruction().fit(X, sample_weight=WEIGHTS * factor)


@pytest.mark.parametrize("factor", [1e14 / 3, 1e-99])
def test_fractions_stay_ratios_within_the_limits(factor):
    wanted = model().fit(X, Y, WEIGHTS)
    found = model().fit(X, Y, WEIGHTS * factor)
    assert found.report_.alpha == pytest.approx(wanted.report_.alpha, rel=1e-9)
    np.testing.assert_allclose(found.predict(X), wanted.predict(X), rtol=1e-6, atol=1e-9)


def test_tiny_weights_beside_others_are_next_to_nothing():
    weights = np.where(np.arange(40) < 5, 1e-120, 1.5)
    found = model().fit(X, Y, weights).predict(X)
    np.testing.assert_allclose(found, model().fit(X[5:], Y[5:], weights[5:]).predict(X), atol=1e-6)


# --- columns of frames


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")  # an array has none
@pytest.mark.parametrize("library", [pd, pl])
def test_columns_in_another_order_are_named_even_beside_categories(library):
    kinds = np.where(np.arange(40) % 2, "a", "b")
    kind = pd.Categorical(kinds) if library is pd else pl.Series(kinds, dtype=pl.Categorical)
    frame = table(library, kind=kind)
    fitted = model().fit(frame, Y)
    in_order = r"columns 'speed', 'flow', 'kind' in this order, as X\[list\("
    with pytest.raises(InvalidInputError, match=f"must be in the same order.*\n.*{in_order}"):
        fitted.predict(frame[["kind", "speed", "flow"]])
    ordered = frame[["kind", "speed", "flow"]][list(fitted.feature_names_in_)]
    np.testing.assert_array_equal(fitted.predict(ordered), fitted.predict(frame))
    with pytest.raises(ValueError, match="yet now missing:\n- kind"):
        fitted.predict(frame[["speed", "flow"]])
    with pytest.raises(ValueError, match="unseen at fit time:\n- sort"):
        fitted.predict(frame.rename({"kind": "sort"}, **({"axis": 1} if library is pd else {})))
    with pytest.raises(InvalidInputError, match=r"X has 2 features, but .* expecting 3 features"):
        fitted.predict(X)


def test_two_columns_of_one_name_are_refused():
    frame = pd.DataFrame(X, columns=["speed", "speed"])
    with pytest.raises(InvalidInputError, match="two columns of X are called 'speed': rename one"):
        model().fit(frame, Y)


# --- dates and times


@pytest.mark.parametrize(
    "times",
    [
        pd.Series(TIMES),
        pd.Series(TIMES).dt.tz_localize("UTC"),
        pd.Series(TIMES, dtype=object),
        pd.Series(TIMES) - START,
        pd.Series([t.date() for t in TIMES]),
    ],
    ids=["datetime", "zone", "object", "duration", "date"],
)
def test_times_are_named_as_such(times):
    message = "column 'when' of X holds dates or times, such as .*: make numbers of them"
    with pytest.raises(InvalidInputError, match=message):
        model().fit(table(when=times), Y)
    kinds = pd.Categorical(np.arange(40) % 2)
    with pytest.raises(InvalidInputError, match=message):
        model().fit(table(when=times, kind=kinds), Y)
    with pytest.raises(InvalidInputError, match="column 'when' of Y holds dates or times"):
        model().fit(X, times.rename("when"))


@pytest.mark.parametrize(
    "times",
    [TIMES, [t.date() for t in TIMES], [t - START for t in TIMES], [t.time() for t in TIMES]],
)
def test_times_of_polars_are_named_as_such(times):
    message = "column 'when' of X holds dates or times"
    with pytest.raises(InvalidInputError, match=message):
        model().fit(table(pl, when=times), Y)


def test_arrays_and_lists_of_times_too():
    times = np.array(TIMES, dtype="datetime64[s]")[:, None]
    for inputs in (times, times.astype(object), [[t] for t in TIMES]):
        with pytest.raises(InvalidInputError, match="column 0 of X holds dates or times"):
            model().fit(inputs, Y)


# --- values of outputs


def spoiled(value):
    found = Y.copy()
    found[7] = value
    return found


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.inf, r"infinity or a value too large for dtype\('float64'\)\. It is in {}: drop"),
        (-np.inf, r"infinity or a value too large for dtype\('float64'\)\. It is in {}: drop"),
        (np.nan, "NaN in {}: drop or fill these rows first"),
    ],
)
@pytest.mark.parametrize(
    ("outputs", "where"),
    [
        (lambda y: y, "1 of 40 rows"),
        (lambda y: pd.Series(y), "1 of 40 rows"),
        (lambda y: pd.Series(y, name="noise"), "column 'noise', 1 of 40 rows"),
        (lambda y: pl.Series("noise", y), "column 'noise', 1 of 40 rows"),
        (lambda y: pd.DataFrame({"a": Y, "noise": y}), "column 'noise', 1 of 40 rows"),
        (lambda y: np.column_stack([Y, y]), "column 1, 1 of 40 rows"),
    ],
)
def test_outputs_that_are_not_finite_are_found(value, message, outputs, where):
    with pytest.raises(InvalidInputError, match="Input Y contains " + message.format(where)):
        model().fit(X, outputs(spoiled(value)))


def test_texts_in_a_series_are_named():
    for words in (pd.Series(["low"] * 40, name="noise"), pl.Series("noise", ["low"] * 40)):
        message = "column 'noise' of Y is not numeric .it contains 'low'"
        with pytest.raises(InvalidInputError, match=message):
            model().fit(X, words)


def test_weights_that_are_not_finite_are_found():
    weights = WEIGHTS.copy()
    weights[3] = np.inf
    with pytest.raises(InvalidInputError, match=r"sample_weight contains infinity .* in 1 of 40"):
        model().fit(X, Y, weights)
