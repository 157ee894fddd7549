"""What a model remembers of its training rows: how unlike them other rows are."""

import numpy as np
import pytest

import kcdo
from kcdo.errors import InvalidInputError
from kcdo.training import TrainingTable


def brute(table, X, scale):
    """Nearest distances over the typical one, of numbers in units of their spread, by hand."""
    distances = np.linalg.norm((X[:, None] - table.points) / scale, axis=2).min(axis=1)
    within = np.linalg.norm((table.points[:, None] - table.points) / scale, axis=2)
    nearest = np.sort(within, axis=1)[:, 1]
    return distances / np.quantile(nearest, 0.95)


def test_novelty_is_the_nearest_distance_over_the_usual_one(rng):
    X = rng.normal(size=(300, 3)) * [1.0, 100.0, 0.01]
    table = TrainingTable.of(["a.csv"], X)
    queries = np.vstack([X[:5], rng.normal(size=(20, 3)) * [3.0, 300.0, 0.03]])
    np.testing.assert_allclose(table.novelty(queries), brute(table, queries, X.std(axis=0)))
    np.testing.assert_allclose(table.novelty(X), 0.0, atol=1e-12)
    fresh = rng.normal(size=(400, 3)) * [1.0, 100.0, 0.01]
    assert np.mean(table.novelty(fresh) <= 1) == pytest.approx(0.95, abs=0.04)


def test_many_rows_are_remembered_by_some(rng):
    X = rng.normal(size=(5000, 2))
    table = TrainingTable.of(["a.csv", "b.csv"], X, seed=3)
    assert table.points.shape == (1000, 2)
    assert (table.n_rows, table.lower.tolist()) == (5000, X.min(axis=0).tolist())
    assert np.mean(table.novelty(rng.normal(size=(2000, 2))) <= 1) == pytest.approx(0.95, abs=0.02)


def test_circles_and_categories(rng):
    hour = rng.uniform(0, 2, 200)
    X = np.column_stack([hour, np.arange(200) % 2])
    table = TrainingTable.of([], X, categorical=[1], periods={0: 24.0})
    midnight, noon = table.novelty(np.array([[23.99, 0.0], [12.0, 0.0]]))
    assert midnight < 2 < 100 < noon
    known, unknown = table.novelty(np.array([[1.0, 1.0], [1.0, 7.0]]))
    assert known < 1
    assert unknown == pytest.approx(1.0 / table.typical, rel=0.1)


def test_columns_that_do_not_matter_and_columns_that_never_varied(rng):
    X = np.column_stack([rng.normal(size=100), rng.normal(size=100), np.full(100, 5.0)])
    table = TrainingTable.of([], X, weights=[1.0, 0.0, 1.0])
    away = X[:1] + np.array([0.0, 100.0, 0.0])
    assert table.novelty(away)[0] < 1e-9
    assert table.novelty(X[:1] + np.array([0.0, 0.0, 0.1]))[0] > 100
    nothing = TrainingTable.of([], X, weights=[0.0, 0.0, 0.0])  # then all count
    assert nothing.novelty(away)[0] > 1
    assert TrainingTable.of([], np.ones((5, 1))).novelty(np.ones((2, 1))).tolist() == [0.0, 0.0]


def test_what_does_not_fit_is_refused(rng):
    table = TrainingTable.of([], rng.normal(size=(9, 2)))
    with pytest.raises(InvalidInputError, match="3 columns, but the model was fitted to 2"):
        table.novelty(np.zeros((1, 3)))
    for changed, message in (
        ({"points": np.zeros((0, 2))}, "points"),
        ({"points": np.zeros((4, 1))}, "points"),
        ({"lower": np.zeros(3)}, "differ in number"),
        ({"scales": np.array([1.0, 0.0])}, "positive"),
        ({"typical": 0.0}, "positive"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            TrainingTable(**vars(table) | changed)


def test_a_model_file_keeps_it(rng, tmp_path):
    X = rng.normal(size=(40, 2))
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, X[:, 0])
    model.training_ = TrainingTable.of(["a.csv"], X, held_out=(10, "20% at random"))
    model.save(tmp_path / "m.kcdo")
    same = kcdo.load(tmp_path / "m.kcdo").training_
    np.testing.assert_array_equal(same.novelty(X + 1), model.training_.novelty(X + 1))
    assert (same.files, same.n_held_out, same.split) == (("a.csv",), 10, "20% at random")
    assert not hasattr(model.fit(X, X[:, 1]), "training_")  # of the fit before
    model.training_ = TrainingTable.of([], X[:, :1])
    model.save(tmp_path / "m.kcdo")
    with pytest.raises(kcdo.ModelFileError, match="training table"):
        kcdo.load(tmp_path / "m.kcdo")
