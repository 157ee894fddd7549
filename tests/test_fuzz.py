"""A few of the random problems of tests/fuzz, and that the campaign sees and shrinks what fails."""

import numpy as np
import pytest

from tests.fuzz import campaign as fuzz
from tests.fuzz import designs
from tests.fuzz.__main__ import main as all_campaigns
from tests.fuzz.invariants import INVARIANTS, near
from tests.fuzz.problems import Problem


def test_what_must_hold_holds_of_a_few_problems():
    tally = fuzz.campaign(fuzz.Plan(range(6), shrink=False))
    assert not tally.failures, "\n".join(map(str, tally.failures))
    assert tally.problems == 6
    assert sum(tally.checks.values()) > 60
    assert "6 problems" in str(tally)


def test_several_processes_make_one_tally():
    plan = fuzz.Plan(range(20, 24), selections=("heuristic", "paper"), shrink=False)
    one, two = fuzz.campaign(plan), fuzz.campaign(plan, jobs=2)
    assert (one.problems, one.checks, one.refused) == (two.problems, two.checks, two.refused)
    assert two.died == []


def test_processes_share_seeds_and_checks():
    parts = [fuzz.Plan(range(7), checks=100).part(job, 2) for job in range(2)]
    assert [list(part.seeds) for part in parts] == [[0, 2, 4, 6], [1, 3, 5]]
    assert [part.checks for part in parts] == [50, 50]


def test_a_process_that_dies_is_told():
    tally = fuzz.campaign(fuzz.Plan(range(4), selections=None), jobs=2)  # nothing to look into
    assert tally.died == ["a process ended with exit code 1"] * 2
    assert "exit code 1" in str(tally)


def test_an_interrupted_campaign_tells_what_was_found_by_then(monkeypatch, capsys):
    def interrupted(plan, tell):
        tell(1, fuzz.Checked(["fit"], []))
        raise KeyboardInterrupt

    monkeypatch.setattr(fuzz, "look", interrupted)
    monkeypatch.setattr(fuzz, "_REPORTS", -1.0)
    tally = fuzz.campaign(fuzz.Plan(range(4)), verbose=True)
    assert "at seed 1: 1 problems, 0 refused, 1 checks, 0 failed" in capsys.readouterr().out
    assert "1 checks, 0 failed, interrupted" in str(tally)


@pytest.mark.parametrize("name", ["rows in any order", "units of inputs", "frames are arrays"])
def test_a_change_that_matters_is_told_by_its_own_name(name, monkeypatch):
    """One fit looks at several changes at once; where it differs, each is looked at alone."""
    seen = {
        "rows in any order": lambda X: 1 + np.argmax(np.asarray(X)),
        "units of inputs": lambda X: 1 + (np.abs(np.asarray(X)).max() > 4),
        "frames are arrays": lambda X: 1 + isinstance(X, np.ndarray),
    }[name]
    model = Problem.model

    def spoilt(self, **more):
        made = model(self, **more)
        fit = made.fit
        made.fit = lambda X, y, weights: fit(X, y * seen(X), weights)
        return made

    monkeypatch.setattr(Problem, "model", spoilt)
    problem = Problem(3, 30, ("normal",), ("smooth",), frame="pandas", flat=True)
    names = ["rows in any order", "units of inputs", "units of outputs", "frames are arrays"]
    found = fuzz.check(problem, names).failures
    assert [failure.invariant for failure in found] == [name]


def test_every_campaign_runs_whatever_the_others_find(capfd, monkeypatch):
    monkeypatch.setattr(
        "tests.fuzz.__main__.subprocess.call", lambda command: "lives" in command[2]
    )
    every = {"one": ["lives"], "other": ["designs", "--seeds", "1"]}
    assert all_campaigns(every) == 1
    told = capfd.readouterr().out
    assert "one: failed after 0 minutes" in told
    assert "other: passed after 0 minutes" in told
    assert all_campaigns({"other": every["other"]}) == 0


def test_a_problem_follows_from_its_seed():
    first, again = (Problem.random(11) for _ in range(2))
    assert first == again
    for a, b in zip(first.data(), again.data(), strict=True):
        np.testing.assert_array_equal(a, b)
    assert len({repr(Problem.random(seed)) for seed in range(50)}) == 50


def test_code_to_paste_makes_the_problem_again():
    problem = Problem(3, 6, ("normal", "ties"), ("smooth",), "counts", flat=True)
    names: dict = {}
    exec(problem.code(), names)
    X, Y, weights = problem.data()
    np.testing.assert_array_equal(names["X"], X)
    np.testing.assert_array_equal(names["Y"], Y)
    np.testing.assert_array_equal(names["weights"], weights)
    wanted = problem.model().fit(X, Y, weights).predict(X)
    np.testing.assert_allclose(names["model"].predict(X), wanted)
    many = Problem(3, 200, ("normal",), ("smooth",))
    assert "Problem(seed=3, rows=200" in many.code()


def test_a_failure_is_found_and_made_smaller(monkeypatch):
    def wrong(case):
        assert case.problem.rows < 5, "too many rows"

    monkeypatch.setattr(fuzz, "INVARIANTS", {"few rows": wrong})
    problem = Problem(5, 60, ("normal", "heavy"), ("smooth",), "counts", flat=True)
    (failure,) = fuzz.check(problem, ["few rows"]).failures
    assert "too many rows" in str(failure)
    small = fuzz.shrunk(failure).problem
    assert (small.rows, small.inputs, small.weights) == (5, ("normal",), "none")


def test_a_refusal_and_a_crash_are_told_apart(monkeypatch):
    refused = fuzz.check(Problem(5, 20, ("normal",), ("smooth",), options={"alpha": "-1.0"}))
    assert "alpha must be positive" in refused.refused
    monkeypatch.setattr(fuzz, "Case", lambda problem: 1 / 0)
    (failure,) = fuzz.check(Problem(5, 20, ("normal",), ("smooth",))).failures
    assert (failure.invariant, failure.error) == ("fit", "ZeroDivisionError: division by zero")


def test_near_tells_what_differs():
    near([1.0, np.inf], [1.0 + 1e-9, np.inf], 1e-8, "same")
    with pytest.raises(AssertionError, match=r"other: .*1\.5.* for .*1\.0"):
        near([1.5], [1.0], 1e-3, "other")
    with pytest.raises(AssertionError):
        near([np.nan], [1.0], 1.0, "no number")
    assert len(INVARIANTS) >= 20


def test_the_default_is_near_a_truth_that_is_known():
    found = designs.outcome(designs.DESIGNS["linear, 100 rows"], 0)
    assert found.marginal < found.model < found.truth + 0.05
    assert found.truth - found.model < 0.15
    assert np.all(np.abs(found.coverage - designs.LEVELS) < 0.12)
    assert designs.line("linear", [found], off=True).startswith("| linear | ")
    assert designs.line("linear", [found], off=True).endswith("| off |")


def test_coverage_that_is_off_by_more_than_chance_is_marked():
    right = np.tile(designs.LEVELS, (5, 1)) + 0.01 * np.arange(-2, 3)[:, None]
    assert not designs.is_off(right).any()
    assert designs.is_off(right - 0.15).all()


@pytest.mark.parametrize(("coverage", "code"), [(designs.LEVELS, 0), (designs.LEVELS - 0.4, 1)])
def test_designs_fail_where_one_is_off(coverage, code, monkeypatch, capsys):
    monkeypatch.setattr(designs, "outcome", lambda *_: designs.Outcome(0, 0, 0, 0, coverage))
    monkeypatch.setattr("sys.argv", ["designs", "--seeds", "3", "--only", "sine", "kink"])
    assert designs.main() == code
    assert f"2 designs, {2 * code} off" in capsys.readouterr().out


def test_coverage_is_right_where_zeros_lie_on_a_bound_and_beside_an_outlier():
    for name in ("zeros, bounded, 100 rows", "one outlier of 10^6 sd"):
        coverage = np.array([designs.outcome(designs.DESIGNS[name], s).coverage for s in range(2)])
        assert np.all(np.abs(coverage.mean(axis=0) - designs.LEVELS)[2:] < 0.08), name


def test_few_rows_are_not_too_sure():
    """Twenty rows without signal, and fifty columns of a hundred rows; over a few samples."""
    for name, seeds in (("noise, 20 rows", 4), ("sparse, 100 rows of 50", 2)):
        coverage = [designs.outcome(designs.DESIGNS[name], seed).coverage for seed in range(seeds)]
        assert np.mean(coverage, axis=0)[2] > 0.82, name  # of 90 %


@pytest.mark.parametrize("name", designs.DESIGNS)
def test_designs_have_draws_and_densities(name):
    design = designs.DESIGNS[name]
    given = design.given(np.zeros((500, design.columns)))
    draws = given.rvs(random_state=np.random.RandomState(0))
    assert np.shape(draws) == (500,)
    assert np.isfinite(given.logpdf(draws)).all()
