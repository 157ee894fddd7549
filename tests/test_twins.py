"""Rows of the very same inputs, where outputs take few values."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import norm

import kcdo
from kcdo.components import Atoms, Effort, Settings, Twins
from kcdo.distributions import StudentTail
from kcdo.errors import InvalidInputError
from kcdo.fitting.twins import choose_twins, without_copies
from kcdo.rows import Rows, row_keys

pytestmark = pytest.mark.filterwarnings("ignore::kcdo.DiscreteOutputWarning")


def copies(rng, n=40):
    X = rng.integers(0, 3, (n, 2)).astype(float)
    y, weights = rng.integers(0, 4, n).astype(float), rng.uniform(0.5, 2.0, n)
    return X, y, weights, Twins(row_keys(X), y, weights, 0.5, 0.3)


def test_rows_of_the_same_inputs_are_found(rng):
    X, _, _, twins = copies(rng)
    queries = np.vstack([X[:5], [[7.0, 7.0]], -0.0 * X[:1]])
    query, rows = twins.found(row_keys(queries))
    expected = [(q, i) for q, x in enumerate(queries) for i in range(40) if np.all(X[i] == x)]
    assert list(zip(query, rows, strict=True)) == expected
    same = np.all(X[:, None] == X, axis=2)
    np.testing.assert_array_equal(twins.sizes(), same.sum(axis=1))


def test_probabilities_are_drawn_to_those_of_twins(rng):
    X, y, weights, twins = copies(rng)
    P, places = rng.dirichlet(np.ones(4), 3), np.arange(4.0)
    atoms = Atoms(places, 0.1, every_value=True)
    queries = np.vstack([X[:2], [[7.0, 7.0]]])
    found = twins.drawn(P, atoms, queries)
    for q in range(2):
        same = np.all(queries[q] == X, axis=1)
        counts = [weights[same & (y == place)].sum() for place in places]
        np.testing.assert_allclose(found[q], (0.5 * P[q] + counts) / (0.5 + np.sum(counts)))
    np.testing.assert_array_equal(found[2], P[2])
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


def test_values_that_are_no_atoms_are_not_counted(rng):
    """A refit may have rows of new values."""
    X, y, weights, twins = copies(rng)
    P = rng.dirichlet(np.ones(2), 40)
    atoms = Atoms(np.array([1.0, 2.0]), 0.1, every_value=True)
    found = twins.drawn(P, atoms, X)
    known = np.isin(y, [1.0, 2.0])
    kept = Twins(row_keys(X[known]), y[known], weights[known], 0.5, 0.3)
    np.testing.assert_allclose(found, kept.drawn(P, atoms, X))
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


def test_densities_have_bumps_at_the_outputs_of_twins(rng):
    X, y, weights, twins = copies(rng)
    plain = StudentTail(np.zeros((3, 1)), np.ones((3, 1)), np.inf)
    queries = np.vstack([X[:2], [[7.0, 7.0]]])
    mixed, points = twins.beside(plain, queries), np.linspace(-2.0, 5.0, 9)
    for q in range(2):
        same = np.all(queries[q] == X, axis=1)
        bumps = norm.pdf(points[:, None], y[same], 0.3) @ weights[same]
        expected = (0.5 * norm.pdf(points) + bumps) / (0.5 + weights[same].sum())
        np.testing.assert_allclose(mixed.pdf(points[:, None])[q], expected, rtol=1e-9)
    np.testing.assert_allclose(mixed.pdf(points[:, None])[2], norm.pdf(points), rtol=1e-9)


def test_keys_differ_where_inputs_do(rng):
    X = np.vstack([rng.integers(-3, 4, (5000, 3)), rng.standard_normal((5000, 3))])
    X = np.vstack([X, X[:, [1, 0, 2]], np.nextafter(X, np.inf)])
    assert len(np.unique(row_keys(X))) == len(np.unique(X, axis=0))


@pytest.mark.parametrize(
    "broken", [{"prior": 0.0}, {"width": -1.0}, {"weights": np.ones(3)}, {"keys": np.zeros(0, int)}]
)
def test_twins_check_their_parts(broken):
    parts = {"keys": np.zeros(2, int), "outputs": np.zeros(2), "weights": np.ones(2)}
    with pytest.raises(InvalidInputError):
        Twins(**{**parts, "prior": 1.0, "width": 1.0, **broken})


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


def copied(n=200, k=40, seed=0):
    """Rows of which some are copies, in inputs and in outputs."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    y = X[:, 0] + 0.5 * rng.standard_normal(n)
    X[:k], y[:k] = X[k : 2 * k], y[k : 2 * k]
    return X, y


def test_copies_foretell_their_copies_and_nothing_else(short_searches, tmp_path):
    X, y = copied()
    model = kcdo.ConditionalDensityOperator().fit(X[10:], y[10:])
    twins = model._operator.twins
    assert 0 < twins.width < 0.01
    dist = model.conditional(X[:10])
    assert np.all(np.abs(dist.quantile(0.5) - y[:10]) < 0.03)
    plain = kcdo.ConditionalDensityOperator().fit(X[40:], y[40:])  # without the copies
    others = model.conditional(X[:10] + 1e-9)
    alone = plain.conditional(X[:10] + 1e-9)
    np.testing.assert_allclose(others.std(), alone.std(), rtol=0.1)
    point = model.conditional(kcdo.GaussianInput(X[:1], np.zeros((1, 2, 2))))
    np.testing.assert_allclose(point.cdf(y[:1] + 0.01), dist[:1].cdf(y[:1] + 0.01), atol=1e-6)
    model.save(tmp_path / "m.kcdo")
    for same in (kcdo.load(tmp_path / "m.kcdo"), model.refit(X[10:], y[10:])):
        np.testing.assert_allclose(same.conditional(X[:10]).mean(), dist.mean(), rtol=1e-9)


@pytest.mark.parametrize("k", [12, 40])
def test_a_refit_to_the_same_rows_is_the_same_model(short_searches, k):
    """Whether copies were fitted once or as they are, also where weights differ."""
    X, y = copied(200, k)
    weights = np.linspace(0.5, 1.5, 200)
    model = kcdo.ConditionalDensityOperator().fit(X, y, weights)
    again, queries = model.refit(X, y, weights), np.vstack([X[:5], X[:5] + 0.1])
    expected = model.conditional(queries).quantile([0.1, 0.5, 0.9])
    np.testing.assert_allclose(again.conditional(queries).quantile([0.1, 0.5, 0.9]), expected)


def test_the_greatest_weight_of_copies_counts():
    rows = Rows(np.zeros((2, 1)), np.ones((2, 1)), np.array([0.001, 2.0]))
    assert rows.without_copies()[0].weights == pytest.approx(1.0)
    more = Rows(np.array([[0.0], [0.0], [1.0]]), np.ones((3, 1)), np.array([0.1, 1.0, 1.0]))
    np.testing.assert_allclose(more.without_copies()[0].weights, [1.0, 1.0])


def test_only_the_first_output_of_a_chain_has_twins(give_effort):
    """Drawn outputs are never those of a row, so that densities and draws would differ."""
    give_effort(orders=1)
    X, y = copied(120, 30)
    Y = np.column_stack([y, y**2])
    model = kcdo.ConditionalDensityOperator(joint="chain").fit(X, Y)
    first, second = model._operator.chains[0].links
    assert first.twins is not None
    assert second.twins is None


@dataclass
class GivenRows:
    rows: Rows


@pytest.mark.parametrize(("copies", "fitted"), [(15, 200), (40, 160)])
def test_many_copies_are_fitted_once(copies, fitted):
    X, y = copied(200, copies)
    problem, places = without_copies(GivenRows(Rows(X, y[:, None], np.ones(200))))
    assert len(problem.rows) == fitted
    if places is not None:
        np.testing.assert_array_equal(problem.rows.X[places], X)
    assert (places is None) == (fitted == 200)


def test_rows_that_agree_by_chance_are_no_copies(short_searches):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 60, (150, 1)).astype(float)
    y = np.round(0.1 * X[:, 0] + rng.standard_normal(150), 1)
    fewer, _ = Rows(X, y[:, None], np.ones(150)).without_copies()
    assert len(fewer) < 150
    model = kcdo.ConditionalDensityOperator().fit(X, y)
    assert getattr(model._operator, "twins", None) is None


def test_where_very_many_rows_have_the_same_inputs_they_are_no_twins():
    rows = Rows(np.zeros((40, 1)), np.arange(40.0)[:, None], np.ones(40))
    few = Settings(effort=Effort(most_twins=20))
    assert choose_twins(NormalModel(), rows, None, few) is None


@dataclass
class NormalModel:
    """Held-out predictions that know the spread of the outputs and nothing else."""

    atoms = None

    @property
    def mixture(self):
        return self

    def held_out(self, rows):
        return StudentTail(np.zeros((len(rows), 1)), np.ones((len(rows), 1)), np.inf)

    def seen_through(self, batch):
        return batch


def test_bumps_are_as_wide_as_twins_differ():
    rng = np.random.default_rng(0)
    X, middle = np.repeat(np.arange(100.0), 2)[:, None], np.repeat(rng.standard_normal(100), 2)
    y = middle + 0.1 * rng.standard_normal(200)
    rows = Rows(X, y[:, None], np.ones(200))
    twins = choose_twins(NormalModel(), rows, None, Settings())
    assert 0.1 < twins.width < 0.2  # two of them differ by √2 of that
    assert twins.prior < 0.3


def test_twins_that_do_not_agree_say_nothing(short_searches):
    model = kcdo.ConditionalDensityOperator().fit(*repeated(agree=False))
    assert model._operator.twins is None


def test_few_twins_are_not_asked(give_effort):
    give_effort(fewest_twins=1000)
    model = kcdo.ConditionalDensityOperator().fit(*repeated(agree=True))
    assert model._operator.twins is None
