"""Rows of a stream that stay in a folder: near rows as a component, files, errors."""

import pickle
import shutil
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import kcdo
from kcdo.components import KeptNearest, NearestParameters, Settings, StreamEffort
from kcdo.rows import Rows
from kcdo.systems import KeptRows


def waves(n=900, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    return X, np.sin(2 * X[:, 0]) + 0.2 * rng.standard_normal(n)


def chunks(X, y, *others, at=(0, 300, 300, 301, 900)):
    return [tuple(array[i:j] for array in (X, y, *others)) for i, j in pairwise(at)]


@pytest.fixture
def few(give_effort):
    """Samples of few rows, so that a small stream has more."""
    give_effort(streamed=StreamEffort(sample_rows=200))


def model(**options):
    return kcdo.ConditionalDensityOperator(**{"solver": kcdo.Nystrom(20), "n_jobs": 1} | options)


@pytest.fixture
def fitted(few, tmp_path):
    return model().fit(chunks(*waves()), rows_at=tmp_path / "rows")


def component(fitted):
    (found,) = [c for c in fitted._operator.components if isinstance(c, KeptNearest)]
    return found


def test_the_folder_holds_all_rows(fitted, tmp_path):
    X, y = waves()
    np.testing.assert_array_equal(np.load(tmp_path / "rows" / "inputs.npy"), X)
    np.testing.assert_array_equal(np.load(tmp_path / "rows" / "outputs.npy")[:, 0], y)
    np.testing.assert_array_equal(np.load(tmp_path / "rows" / "weights.npy"), np.ones(900))
    facts = fitted.stream_
    assert facts.passes == 7  # look, sample, near rows twice, keep, sums, residuals
    assert facts.kept_nbytes == 900 * 8 * (2 + 1 + 1 + 2)
    assert facts.index_nbytes <= 100 * 900
    assert set(fitted.report_.weights) == {
        *("plain", "location_scale", "residual_tail", "normal", "nearest")
    }


def test_near_rows_are_those_of_a_model_that_holds_them(fitted):
    X, y = waves()
    kept = component(fitted)
    rows = Rows(X, y[:, None], np.ones(900))
    parameters = NearestParameters(kept.kernel, kept.noise / 900, kept.output)
    expected = parameters.fit(rows, Settings(n_jobs=1)).predict(X[:40] + 0.01)["nearest"]
    found = kept.predict(X[:40] + 0.01)["nearest"]
    at = np.linspace(-2, 2, 30)[:, None]
    np.testing.assert_allclose(found.pdf(at), expected.pdf(at), atol=1e-4)
    (its,) = [p for p in fitted._parameters.components if isinstance(p, NearestParameters)]
    assert its.alpha == pytest.approx(kept.noise / 900)


def test_weights_of_rows_are_kept(few, tmp_path):
    X, y = waves()
    weights = np.random.default_rng(3).uniform(0.0, 3.0, 900).round()
    found = model().fit(chunks(X, y, weights), rows_at=tmp_path)
    assert len(np.load(tmp_path / "weights.npy")) == np.count_nonzero(weights)
    assert component(found).unit == pytest.approx(weights.sum() / np.sum(weights**2), rel=1e-12)


@pytest.mark.slow
def test_two_outputs(give_effort, tmp_path):
    give_effort(streamed=StreamEffort(sample_rows=60))
    X, y = waves(240)
    Y = np.column_stack([y, -y + X[:, 1]])
    found = model().fit(chunks(X, Y, at=(0, 100, 240)), rows_at=tmp_path)
    assert component(found).dim == 2
    assert found.predict(X[:3]).shape == (3, 2)
    assert np.isfinite(found.score(X[:30], Y[:30]))


def test_a_model_without_its_rows_says_so(fitted, tmp_path):
    queries = waves(5, seed=1)[0]
    fitted.save(tmp_path / "m.kcdo")
    expected = fitted.conditional(queries).pdf(np.zeros(1))
    for other in (kcdo.load(tmp_path / "m.kcdo"), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(other.conditional(queries).pdf(np.zeros(1)), expected)
    shutil.move(tmp_path / "rows", tmp_path / "elsewhere")
    again = kcdo.load(tmp_path / "m.kcdo")
    with pytest.raises(kcdo.DataNotFoundError, match=r"near rows of this model are not here: inpu"):
        again.conditional(queries).mean()
    shutil.move(tmp_path / "elsewhere", tmp_path / "rows")
    np.testing.assert_array_equal(again.conditional(queries).pdf(np.zeros(1)), expected)


def test_rows_of_another_fit_are_told_from_these(fitted, tmp_path):
    queries = waves(5, seed=1)[0]
    path, other = tmp_path / "rows", pickle.loads(pickle.dumps(fitted))
    outputs = np.load(path / "outputs.npy", mmap_mode="r+")
    outputs[0] += 1.0
    outputs.flush()
    with pytest.raises(kcdo.DataNotFoundError, match="holds the rows of another fit than this mod"):
        other.predict(queries)
    np.save(path / "inputs.npy", np.ones((3, 2)))
    other = pickle.loads(pickle.dumps(fitted))
    with pytest.raises(kcdo.DataNotFoundError, match=r"inputs.npy in .* has the shape \(3, 2\)"):
        other.predict(queries)


def test_folders_that_cannot_be_used(fitted, tmp_path, monkeypatch):
    with pytest.raises(kcdo.InvalidInputError, match=r"holds inputs.npy of another fit.*an empty"):
        model().fit(chunks(*waves()), rows_at=tmp_path / "rows")
    assert (tmp_path / "rows" / "inputs.npy").exists()  # those of the other fit stay
    small = type("Usage", (), {"free": 1000})()
    monkeypatch.setattr("kcdo.systems.kept.shutil.disk_usage", lambda path: small)
    with pytest.raises(kcdo.InvalidInputError, match=r"GiB of disk, but 0\.0 GiB are left at"):
        model().fit(chunks(*waves()), rows_at=tmp_path / "new")


def test_a_fit_that_fails_leaves_no_rows(few, tmp_path, monkeypatch):
    def fails(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("kcdo.estimators.chunked_fit.ResidualPlan.of", fails)
    with pytest.raises(KeyboardInterrupt):
        model().fit(chunks(*waves()), rows_at=tmp_path / "rows")
    assert list((tmp_path / "rows").iterdir()) == []


def test_rows_that_this_process_does_not_see(tmp_path):
    kept = KeptRows(str(tmp_path), 3, 2, 1, 2)
    kept.create()
    kept.write(0, inputs=np.ones((3, 2)))
    assert kept.written({1: np.ones(2)}).mark != 0
    with pytest.raises(kcdo.InvalidInputError, match=r"row 2 that a worker wrote .* all worker"):
        kept.written({2: np.zeros(2)})


def test_where_rows_cannot_be_kept(few, tmp_path):
    X, y = waves()
    with pytest.raises(kcdo.InvalidInputError, match="rows_at= is for chunks, fitted with selecti"):
        model().fit(X, y, rows_at=tmp_path)
    with pytest.raises(kcdo.InvalidInputError, match="rows_at= is for chunks, fitted with selecti"):
        model(selection="heuristic").fit(chunks(X, y), rows_at=tmp_path)
    with pytest.warns(kcdo.KcdoWarning, match="rows_at was not used: near rows are a component"):
        model().fit(chunks(X, y, at=(0, 90, 180)), rows_at=tmp_path)
    without = kcdo.Combination(nearest=0.0)
    with pytest.warns(kcdo.KcdoWarning, match="rows_at was not used: near rows are a component"):
        model(combination=without).fit(chunks(X, y), rows_at=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_held_out_rows_are_refused(fitted):
    with pytest.raises(kcdo.InvalidInputError, match="keeps no held-out predictions"):
        component(fitted).held_out(np.arange(3))
    bad = component(fitted)
    for change in ({"noise": 0.0}, {"neighbours": 0}, {"marginal": np.ones(3)}):
        with pytest.raises(kcdo.InvalidInputError, match="parts do not fit"):
            replace(bad, **change)


def test_the_index_takes_less_than_it_says(tmp_path):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(60_000, 4))
    kept = KeptRows(str(tmp_path), 60_000, 4, 1, 4)
    kept.create()
    kept.write(0, coordinates=points)
    kept = kept.written({})
    found = kept.nearest(points[:3], 5, 1)
    for row in range(3):
        expected = np.argsort(np.sum((points - points[row]) ** 2, axis=1))[:5]
        np.testing.assert_array_equal(found[row], expected)
    nodes = kept._tree.size  # of the tree: 72 bytes each, in a vector that doubles as it grows
    assert 2 * 72 * nodes + 8 * 60_000 <= kept.index_nbytes
    assert np.shares_memory(kept._tree.data, kept._maps["coordinates"])
