"""All scores of several outputs at once, as ``kcdo evaluate`` and reports tell them."""

import numpy as np
import pytest

import kcdo
from kcdo.commands.models import Model
from kcdo.commands.scores import scores
from kcdo.commands.told_scores import _joint_lines, score_lines
from kcdo.errors import MissingExtraError
from kcdo.metrics import joint_scores
from kcdo.reports.accuracy import measure_in_parts
from kcdo.rows import sampled
from tests.gaussian_chain import distribution, gaussian_chain, truth

X = np.linspace(-1, 1, 60)[:, None]


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(0)
    Y = np.stack([truth(x).rvs(random_state=rng) for x in X])
    dist = distribution(gaussian_chain(X))
    return joint_scores(dist, Y), joint_scores(dist, Y[:, ::-1])


def test_the_truth_scores_better_than_a_wrong_order(found):
    right, wrong = found
    for name in ("energy_score", "variogram_score", "dawid_sebastiani_score"):
        assert right[name] < wrong[name]


def test_ranks_of_the_truth_are_even(found):
    shares = np.array(found[0]["rank_histogram"])
    assert shares.sum() == pytest.approx(1.0)
    assert np.all(np.abs(shares - 0.1) < 0.15)  # 60 rows: sd 0.04


def test_every_score_has_a_line(found):
    text = "\n".join(_joint_lines(found[0]))
    for word in ("energy", "variogram", "Dawid-Seb.", "in each tenth"):
        assert word in text


def test_ranks_need_no_package(monkeypatch):
    """Without scoringrules the other scores are left out."""

    def missing():
        raise MissingExtraError("scores need an extra")

    monkeypatch.setattr("kcdo.metrics.joint.scoringrules", missing)
    few = distribution(gaussian_chain(X[:5]))
    assert list(joint_scores(few, few.mean())) == ["rank_histogram"]


def test_scores_in_parts_are_those_of_all_rows(found_in_parts):
    """Progress is told on the way; units are those of all rows."""
    found, whole, shown = found_in_parts
    assert shown == [50, 100, 120]
    for name in ("variogram_score", "energy_score"):
        assert found[name] == pytest.approx(whole[name], rel=0.1)
    assert np.sum(found["rank_histogram"]) == pytest.approx(1.0)


@pytest.fixture
def found_in_parts(rng):
    X = rng.uniform(size=(120, 1))
    Y = np.sort(X, axis=0) @ [[1.0, 20.0]] + rng.normal(size=(120, 2))
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    shown = []
    found = scores(Model.of(model), X, Y, shown.append)
    return found, joint_scores(model.conditional(X), Y), shown


def test_a_report_tells_how_far_it_is(rng, monkeypatch, tmp_path):
    X = rng.uniform(size=(60, 1))
    Y = X + rng.normal(size=(60, 2))
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    told = []

    def update(self, done, total):
        told.append((done, total))

    monkeypatch.setattr("kcdo.progress.Progress.update", update)
    model.report(tmp_path / "r.html", X, Y, held_out=False)
    assert {(50, 60), (60, 60)} <= set(told)


def test_accuracy_of_parts_has_the_ranks_of_all(rng):
    X = rng.uniform(size=(80, 1))
    Y = X + rng.normal(size=(80, 2))
    model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    shown = []
    accuracy = measure_in_parts(model.conditional(X), Y, False, model.marginal(), shown.append)
    assert shown == [50, 30]
    assert sum(accuracy.rank_shares) == pytest.approx(1.0)
    np.testing.assert_allclose(accuracy.rank_histogram.shares, accuracy.rank_shares)
    single = measure_in_parts(
        model.conditional(X).marginal(0), Y[:, :1], True, model.marginal().marginal(0)
    )
    assert single.rank_histogram is None


@pytest.mark.usefixtures("short_searches")
def test_of_many_rows_of_a_chain_some_are_scored_by_draws(monkeypatch):
    """The log score is of all rows; the lines say of how many the others are."""
    monkeypatch.setattr("kcdo.commands.scores._MOST_BY_DRAWS", 20)
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (90, 1))
    y = x + rng.normal(size=(90, 2))
    estimator = kcdo.ConditionalDensityOperator(joint="chain").fit(x, y)
    model, shown = Model.of(estimator), []
    told = scores(model, x, y, shown.append)
    assert (told["rows"], told["rows_by_draws"], shown[-1]) == (90, 20, 90)
    assert told["log_score"] == pytest.approx(estimator.score(x, y))
    assert "of 20 of the rows" in "\n".join(score_lines(told))
    some = sampled(90, 20, seed=0)
    few = scores(model, x[some], y[some])
    assert told["crps"] == pytest.approx(few["crps"])
    assert "rows_by_draws" not in few
    grid = kcdo.ConditionalDensityOperator(selection="heuristic").fit(x, y)
    assert "rows_by_draws" not in scores(Model.of(grid), x, y)
