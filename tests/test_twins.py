"""Rows of the very same inputs, where outputs take few values."""

import numpy as np
import pytest

import kcdo
from kcdo.components import Twins, drawn_to, row_keys
from kcdo.errors import InvalidInputError

pytestmark = pytest.mark.filterwarnings("ignore::kcdo.DiscreteOutputWarning")


def brute_counts(X, labels, weights, queries, n_atoms):
    found = np.zeros((len(queries), n_atoms))
    for q, x in enumerate(queries):
        for row, label, weight in zip(X, labels, weights, strict=True):
            found[q, label] += weight * np.array_equal(row, x)
    return found


def test_counts_are_those_of_the_same_inputs(rng):
    X = rng.integers(0, 3, (40, 2)).astype(float)
    labels, weights = rng.integers(0, 4, 40), rng.uniform(0.5, 2.0, 40)
    twins = Twins(row_keys(X), labels, weights, 0.5)
    queries = np.vstack([X[:5], [[7.0, 7.0]], -0.0 * X[:1]])
    expected = brute_counts(X, labels, weights, queries, 4)
    np.testing.assert_allclose(twins.counts(row_keys(queries), 4), expected)
    own = np.eye(4)[labels] * weights[:, None]
    others = brute_counts(X, labels, weights, X, 4) - own
    np.testing.assert_allclose(twins.counts_of_others(4), others, atol=1e-12)


def test_probabilities_are_drawn_to_those_of_twins():
    P = np.array([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]])
    counts = np.array([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
    found = drawn_to(P, counts, 0.5)
    np.testing.assert_allclose(found[0], [0.1, 0.86, 0.04])
    np.testing.assert_array_equal(found[1], P[1])
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


def test_keys_differ_where_inputs_do(rng):
    X = np.vstack([rng.integers(-3, 4, (5000, 3)), rng.standard_normal((5000, 3))])
    X = np.vstack([X, X[:, [1, 0, 2]], np.nextafter(X, np.inf)])
    assert len(np.unique(row_keys(X))) == len(np.unique(X, axis=0))


@pytest.mark.parametrize(
    "broken", [{"prior": 0.0}, {"labels": np.array([0, -1])}, {"weights": np.ones(3)}]
)
def test_twins_check_their_parts(broken):
    parts = {"keys": np.zeros(2, int), "labels": np.zeros(2, int), "weights": np.ones(2)}
    with pytest.raises(InvalidInputError):
        Twins(**{**parts, "prior": 1.0, **broken})


def repeated(agree, n=160, seed=0):
    """Inputs of which a quarter come twice; their outputs agree or do not."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    X[: n // 4] = X[n // 4 : n // 2]
    y = np.clip(np.round(2.0 + X[:, 0] + rng.standard_normal(n)), 0, 4)
    if agree:
        y[: n // 4] = y[n // 4 : n // 2]
    return X, y


def test_a_query_that_was_seen_is_answered_by_what_was_seen(short_searches, tmp_path):
    X, y = repeated(agree=True)
    model = kcdo.ConditionalDensityOperator().fit(X, y)
    assert model._operator.twins is not None
    seen, near = model.conditional(X[100:]), model.conditional(X[100:] + 1e-9)
    of_seen = np.mean(np.abs(seen.quantile(0.5) - y[100:]) < 0.2)
    assert of_seen > 0.9 > np.mean(np.abs(near.quantile(0.5) - y[100:]) < 0.2)
    values, probabilities = seen.atoms()
    np.testing.assert_array_equal(values, np.unique(y))
    assert np.all(probabilities.sum(axis=1) < 1.0 + 1e-9)
    path = tmp_path / "m.kcdo"
    model.save(path)
    for same in (kcdo.load(path), model.refit(X, y)):
        np.testing.assert_allclose(
            same.conditional(X[100:110]).atoms()[1], probabilities[:10], atol=1e-9
        )


def test_twins_that_do_not_agree_say_nothing(short_searches):
    model = kcdo.ConditionalDensityOperator().fit(*repeated(agree=False))
    assert model._operator.twins is None


def test_few_twins_are_not_asked(short_searches, monkeypatch):
    monkeypatch.setattr("kcdo.fitting.univariate._FEWEST_TWINS", 1000)
    model = kcdo.ConditionalDensityOperator().fit(*repeated(agree=True))
    assert model._operator.twins is None
