"""Missing numbers of inputs: refused, or answered by what is there."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats

import kcdo
from kcdo.missing import PlausibleInputs

RHO, SLOPES, NOISE = 0.7, (1.0, 1.0), 0.3


def normal_rows(n, seed=0):
    """Correlated normal x1, x2 and y linear in both."""
    rng = np.random.default_rng(seed)
    X = rng.multivariate_normal([0, 0], [[1, RHO], [RHO, 1]], n)
    return X, X @ SLOPES + NOISE * rng.standard_normal(n)


def given_first(x1):
    """Return p(y | x1), which is normal."""
    variance = SLOPES[1] ** 2 * (1 - RHO**2) + NOISE**2
    return stats.norm((SLOPES[0] + SLOPES[1] * RHO) * np.asarray(x1), np.sqrt(variance))


def model(**options):
    options = {"selection": "heuristic", "missing": "marginalise"} | options
    return kcdo.ConditionalDensityOperator(**options)


def with_holes(X, share, column=1, seed=1):
    holes = X.copy()
    holes[np.random.default_rng(seed).random(len(X)) < share, column] = np.nan
    return holes


@pytest.fixture(scope="module")
def fitted():
    return model().fit(*normal_rows(400))


def test_a_query_without_a_cell_is_answered_by_what_is_there(fitted):
    x1 = np.array([-1.0, 0.0, 1.0])
    queries = np.column_stack([x1, np.full(3, np.nan)])
    dist, truth = fitted.conditional(queries), given_first(x1)
    np.testing.assert_allclose(dist.mean(), truth.mean(), atol=0.25)
    np.testing.assert_allclose(dist.std(), truth.std(), rtol=0.3)
    both = fitted.conditional(np.column_stack([x1, RHO * x1]))
    assert np.all(dist.std() > 1.1 * both.std())  # what is missing is not known


def test_the_default_fit_answers_too(short_searches):
    X, Y = normal_rows(150)
    fitted = model(selection="auto").fit(with_holes(X, 0.2), Y)
    tests, outcomes = normal_rows(40, seed=3)
    tests[:, 1] = np.nan
    truth = given_first(tests[:, 0]).logpdf(outcomes).mean()
    assert fitted.score(tests, outcomes) > truth - 0.2


def test_complete_queries_are_answered_as_ever(fitted):
    X, Y = normal_rows(400)
    plain = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    np.testing.assert_array_equal(fitted.predict(X[:5]), plain.predict(X[:5]))
    mixed = np.array([[0.5, 0.2], [0.5, np.nan]])
    np.testing.assert_allclose(fitted.predict(mixed)[0], plain.predict(mixed[:1])[0])


def test_a_query_of_nothing_is_about_the_marginal(fitted):
    nothing = fitted.conditional([[np.nan, np.nan]])
    y = normal_rows(400)[1]
    assert abs(nothing.mean()[0] - y.mean()) < 0.35
    assert abs(nothing.std()[0] / y.std() - 1.0) < 0.2


def test_training_rows_take_what_near_rows_have():
    X, Y = normal_rows(500)
    holes = with_holes(X, 0.4)
    filled = PlausibleInputs.of(holes, Y[:, None], np.ones(500), (), seed=0)[1]
    known = ~np.isnan(holes)
    np.testing.assert_array_equal(filled[known], X[known])
    assert np.isin(filled[:, 1], holes[known[:, 1], 1]).all()
    # slopes of the completed rows are those of all: values that ignore y would weaken the second
    np.testing.assert_allclose(np.linalg.lstsq(filled, Y)[0], SLOPES, atol=0.08)


def test_weights_say_how_often_a_row_gives_its_value():
    X = np.array([[0.0, 1.0], [0.0, 2.0], [0.0, np.nan]])
    rows, _ = PlausibleInputs.of(X[:2], np.zeros((2, 1)), np.array([1.0, 3.0]), (), seed=0)
    found = rows.queries(X[2:])
    assert dict(zip(found.points[:, 1], found.weights, strict=True)) == {1.0: 0.25, 2.0: 0.75}


def test_rows_that_all_lack_something_complete_one_another():
    X, Y = normal_rows(60)
    X = np.column_stack([X, X[:, 0]])
    for i in range(60):
        X[i, [i % 3, (i + 1) % 3]] = np.nan  # no row has two numbers
    filled = PlausibleInputs.of(X, Y[:, None], np.ones(60), (), seed=0)[1]
    assert np.isfinite(filled).all()


def test_near_categories_are_the_same():
    kinds = np.repeat([0.0, 1.0], 100)
    X = np.column_stack([kinds, 10.0 * kinds])
    rows, _ = PlausibleInputs.of(X, np.zeros((200, 1)), np.ones(200), (0,), seed=0)
    found = rows.queries(np.array([[1.0, np.nan]]))
    assert set(found.points[:, 1]) == {10.0}


def test_rare_values_are_kept_of_many_rows():
    X = np.zeros((5000, 2))
    X[:, 1] = np.nan
    X[17, 1] = 3.0
    rows, filled = PlausibleInputs.of(X, np.zeros((5000, 1)), np.ones(5000), (), seed=0)
    assert len(rows.points) <= 2100
    assert set(filled[:, 1]) == {3.0}


@pytest.mark.parametrize(
    "empty",
    [
        lambda X: pd.DataFrame(X, columns=["a", "b"]),
        lambda X: pd.DataFrame(X, columns=["a", "b"]).astype(object).where(~np.isnan(X), None),
        lambda X: pd.DataFrame(X, columns=["a", "b"]).astype("Float64").where(~np.isnan(X), pd.NA),
        lambda X: pl.DataFrame(X, schema=["a", "b"]).fill_nan(None),
        lambda X: np.ma.masked_invalid(X),
        lambda X: [[None if np.isnan(v) else v for v in row] for row in X],
    ],
)
def test_every_way_to_say_missing(empty):
    X, Y = normal_rows(40)
    X = with_holes(X, 0.3)
    plain = model().fit(X, Y)
    told = model().fit(empty(X), Y)
    np.testing.assert_array_equal(told.predict(empty(X[:8])), plain.predict(X[:8]))


def test_saved_models_answer_the_same(fitted, tmp_path):
    fitted.save(tmp_path / "holes.kcdo")
    again = kcdo.load(tmp_path / "holes.kcdo")
    query = [[0.3, np.nan], [np.nan, np.nan]]
    np.testing.assert_array_equal(again.predict(query), fitted.predict(query))


def test_rows_in_another_order_and_the_same_rows_again_are_the_same_model():
    X, Y = normal_rows(60, seed=8)
    X = with_holes(X, 0.3)
    X[1], Y[1] = X[0], Y[0]
    weights = np.arange(1.0, 61.0)
    one = model().fit(X, Y, weights)
    query = [[0.3, np.nan], [np.nan, np.nan], [0.1, 0.2]]
    order = np.random.default_rng(0).permutation(60)
    for other in (model().fit(X[order], Y[order], weights[order]), one.refit(X, Y, weights)):
        np.testing.assert_allclose(other.predict(query), one.predict(query), rtol=1e-9)


def test_a_column_that_is_missing_in_all_rows_of_a_refit(fitted):
    """It takes its values from the rows before."""
    X, Y = normal_rows(30, seed=9)
    X[:, 1] = np.nan
    assert np.isfinite(fitted.refit(X, Y).predict(X[:3])).all()


def test_refits_and_more_rows_are_completed_and_chunks_refused(fitted):
    X, Y = normal_rows(200, seed=5)
    X = with_holes(X, 0.3)
    assert np.isfinite(fitted.refit(X, Y).predict(X[:3])).all()
    streamed = model(solver=kcdo.Nystrom(20)).partial_fit(X[:150], Y[:150])
    assert np.isfinite(streamed.partial_fit(X[150:], Y[150:]).predict(X[:3])).all()
    chunks = [(X[:100], Y[:100]), (X[100:], Y[100:])]
    with pytest.raises(kcdo.InvalidInputError, match="chunks do not see those of others"):
        model(solver=kcdo.Nystrom(20)).fit(chunks)


def test_the_default_refuses():
    X, Y = normal_rows(40)
    with pytest.raises(ValueError, match=r"Input X contains NaN in column 1, \d+ of 40 rows"):
        model(missing="raise").fit(with_holes(X, 0.3), Y)
    with pytest.raises(ValueError, match="Input X contains NaN in column 1, 1 of 1 rows"):
        model(missing="raise").fit(X, Y).predict([[0.0, np.nan]])
    assert model().__sklearn_tags__().input_tags.allow_nan
    assert not model(missing="raise").__sklearn_tags__().input_tags.allow_nan


def test_what_cannot_be_completed_is_an_error(fitted):
    X, Y = normal_rows(40)
    with pytest.raises(ValueError, match=r"missing must be one of \['raise', 'marginalise'\]"):
        model(missing="drop").fit(X, Y)
    empty = X.copy()
    empty[:, 1] = np.nan
    with pytest.raises(ValueError, match="column 1 of X has no value in any row: leave it out"):
        model().fit(empty, Y)
    with pytest.raises(ValueError, match="infinity"):
        fitted.predict([[np.inf, np.nan]])
    with pytest.raises(ValueError, match="contains NaN"):
        fitted.conditional(kcdo.SampleInput([[[0.0, np.nan]]]))
    with pytest.raises(ValueError, match="Input Y contains NaN"):
        model().fit(X, np.where(Y > 0, Y, np.nan))
    frame = pd.DataFrame({"a": X[:, 0], "kind": ["u", None] * 20})
    with pytest.raises(ValueError, match="NaN in categorical column 'kind': drop these rows, or"):
        model().fit(frame, Y)
    with pytest.raises(ValueError, match='missing="marginalise" needs inputs that are rows of num'):
        model(kernel_x=lambda A, B: np.equal.outer(A, B) * 1.0).fit(["a", "b"] * 20, Y)
