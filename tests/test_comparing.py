"""Comparing methods: who is better, by how much, and how sure that is."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from kcdo.commands import comparison as told
from kcdo.commands.naming import Wanted
from kcdo.commands.options import FitOptions
from kcdo.comparing import Difference, compare, folds_of
from kcdo.errors import InvalidInputError
from kcdo.rivals.base import Rescaled
from kcdo.rivals.mixtures import Mixture
from tests.browser import Browser, find_browser
from tests.command_line import fail_here, succeed_here


class Normal:
    """A method that knows the mean and believes in some standard deviation."""

    def __init__(self, mean, sd):
        self._mean, self._sd = mean, sd

    def __call__(self, rows, fold):
        self.seen = rows
        return self

    def conditional(self, rows):
        assert not set(rows) & set(self.seen)
        mean = self._mean[rows][:, None]
        inner = Mixture.normal(mean, np.full_like(mean, self._sd))
        return Rescaled(inner, np.zeros(1), np.ones(1), True)


def failing(rows, fold):
    raise InvalidInputError("cannot")


@pytest.fixture
def rows(rng):
    x = rng.normal(size=400)
    return x, x + 0.5 * rng.normal(size=400)


def test_the_truth_wins_and_figures_are_those_of_the_rows(rows):
    x, y = rows
    done = []
    methods = {"wide": Normal(x, 1.0), "truth": Normal(x, 0.5), "none": failing}
    found = compare(methods, y, folds_of(400, 4), show=lambda name, k: done.append((name, k)))
    assert [result.name for result in found.results] == ["truth", "wide"]
    assert found.failed == {"none": "cannot"}
    assert [name for name, _ in done] == 4 * ["wide"] + 4 * ["truth"] + ["none"]
    assert [k for _, k in done] == list(range(9))
    best, second = found.results
    logs = [norm.logpdf(y, x, sd) for sd in (0.5, 1.0)]
    assert best.log_scores.mean() == pytest.approx(logs[0].mean())
    gap = found.difference(best, second)
    assert gap.mean == pytest.approx((logs[0] - logs[1]).mean())
    assert gap.error == pytest.approx((logs[0] - logs[1]).std(ddof=1) / 20)
    assert best.coverage == pytest.approx(np.mean(np.abs(y - x) < 0.5 * norm.ppf(0.95)))
    assert second.width == pytest.approx(2 * norm.ppf(0.95))
    assert found.verdict().startswith("Take truth: it is surely better than wide, by 0.")
    assert not found.by_crps


def test_a_lead_that_may_be_chance_is_no_lead(rows):
    x, y = rows
    methods = {"a": Normal(x, 0.5), "b": Normal(x + 0.01, 0.5)}
    said = compare(methods, y, folds_of(400, 2)).verdict()
    assert "may be chance" in said
    assert "Take any of these" in said
    assert compare({"a": Normal(x, 0.5)}, y, folds_of(400, 2)).verdict() == "Only a was compared."
    with pytest.raises(InvalidInputError, match="no method could be fitted: cannot"):
        compare({"none": failing}, y, folds_of(400, 2))


def test_the_other_score_has_its_say(rng):
    """Heavy tails: a narrow normal loses the log score by few rows, and wins the CRPS by many."""
    y = np.where(rng.random(3000) < 0.97, 0.3 * rng.normal(size=3000), 8 * rng.normal(size=3000))
    zero = np.zeros(3000)
    methods = {"narrow": Normal(zero, 0.3), "wide": Normal(zero, 1.5)}
    said = compare(methods, y, folds_of(3000, 2)).verdict()
    assert said.startswith("Take wide")
    assert "By CRPS, narrow is surely better" in said


def test_rows_of_a_group_count_once(rows):
    x, _ = rows
    groups = np.repeat(np.arange(20), 20)
    y = x + 0.5 * np.random.default_rng(5).normal(size=20)[groups]  # one draw for each group
    methods = {"a": Normal(x, 0.5), "b": Normal(x, 0.8)}
    alone = compare(methods, y, folds_of(400, 4))
    together = compare(methods, y, folds_of(400, 4, groups=groups), groups=groups)
    errors = [found.difference(*found.results).error for found in (alone, together)]
    assert errors[1] > 3 * errors[0]


def test_outputs_that_repeat_are_ordered_by_crps(rng):
    y = rng.integers(0, 3, 200).astype(float)
    found = compare({"a": Normal(y, 0.1), "b": Normal(y, 1.0)}, y, folds_of(200, 2))
    assert found.by_crps
    assert found.results[0].name == "a"


def test_rounded_outputs_are_scored_by_probabilities(rows):
    """A spike is worth no more than the probability it holds."""
    x = rows[1].round()
    methods = {"spike": Normal(x, 1e-6), "wide": Normal(x, 0.5)}
    found = compare(methods, x, folds_of(400, 4), gap=1.0)
    best, second = found.results
    assert best.log_scores.max() == pytest.approx(0.0)
    np.testing.assert_allclose(second.log_scores, np.log(2 * norm.cdf(1) - 1))


def test_impossible_rows_cost_a_method_everything(rows):
    """An infinite log score loses to any finite one; two of them are compared by nothing."""
    x, y = rows
    narrow = x.copy()
    narrow[0] += 1e200
    other = x.copy()
    other[1] += 1e200
    methods = {"truth": Normal(x, 0.5), "a": Normal(narrow, 0.5), "b": Normal(other, 0.5)}
    with np.errstate(over="ignore"):
        found = compare(methods, y, folds_of(400, 2))
    truth, first, second = found.results
    assert truth.name == "truth"
    assert found.verdict().startswith("Take truth: it is surely better")
    assert found.difference(truth, first).mean == np.inf
    assert found.difference(first, truth).mean == -np.inf
    assert found.difference(first, second).words == "perhaps"
    lines = told.table_lines(found)
    assert "infinitely" in lines[2]


def test_words_for_chance():
    words = [Difference(mean, 1.0).words for mean in (0.5, 2.3, 3.0, -3.0, np.inf)]
    assert words == ["perhaps", "probably", "surely", "surely", "surely"]


def test_folds():
    folds = folds_of(23, 5, seed=1)
    assert sorted(np.concatenate([held_out for _, held_out in folds])) == list(range(23))
    assert all(set(rows) | set(held) == set(range(23)) for rows, held in folds)
    groups = np.repeat(list("abcdef"), 4)
    for rows, held_out in folds_of(24, 3, groups=groups):
        assert set(groups[rows]).isdisjoint(groups[held_out])
    for rows, held_out in folds_of(24, 3, time=np.arange(24.0)[::-1]):
        assert rows.min() > held_out.max()  # the table runs backwards
    with pytest.raises(InvalidInputError, match="7 folds need as many groups, here are 6"):
        folds_of(24, 7, groups=groups)
    with pytest.raises(InvalidInputError, match="two moments"):
        folds_of(6, 2, time=np.zeros(6))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("compare") / "data.csv"
    rng = np.random.default_rng(1)
    n = 90
    hour, road = rng.uniform(0, 24, n), rng.choice(["lane", "ramp"], n)
    y = np.sin(hour / 24 * 2 * np.pi) + (road == "ramp") + 0.2 * rng.normal(size=n)
    frame = pd.DataFrame({"hour": hour, "road": road, "y": y, "z": y, "site": np.arange(n) % 9})
    frame.round(3).to_csv(path, index=False)
    return path


def command(data, *more):
    usual = {"--target": "y", "--methods": "kcdo-heuristic,gp", "--folds": "2"}
    chosen = [word for pair in usual.items() if pair[0] not in more for word in pair]
    return ["compare", data, "--given", "hour,road", "--periodic", "hour:24", *chosen, *more]


def test_the_command_tells_table_verdict_and_writes_all_forms(data, tmp_path, capsys):
    outs = [tmp_path / name for name in ("c.html", "c.png", "c.csv")]
    said = succeed_here(*command(data, "-o", outs[0]), capsys=capsys)
    assert said.startswith("90 rows, 2 folds at random, every row foretold by a fit without")
    lines = said.splitlines()
    assert lines[2].split()[:3] == ["method", "log", "score"]
    assert {line.split()[0] for line in lines[3:5]} == {"kcdo-heuristic", "gp"}
    assert "standard error" in said
    page = outs[0].read_text()
    assert "<svg" in page
    assert "y of data.csv" in page
    assert "Take" in page
    assert not any(part in page for part in ('src="http', "<link", "<script", "@import"))
    few = ["--rows", "60", "--group", "site"]
    facts = json.loads(succeed_here(*command(data, *few, "--json", "-o", outs[1]), capsys=capsys))
    assert facts["rows"] == 60
    assert "90 rows are there" in facts["notes"][0]
    assert outs[1].read_bytes().startswith(b"\x89PNG")
    succeed_here(*command(data, "--time", "site", "-o", outs[2]))
    table = pd.read_csv(outs[2])
    assert set(table["method"]) == {"kcdo-heuristic", "gp"}
    assert table["log_score_behind"][0] == 0
    assert (table["crps"] > 0).all()


@pytest.mark.skipif(find_browser() is None, reason="no Chromium or Chrome on this machine")
@pytest.mark.parametrize("size", [{"width": 360, "mobile": True}, {"width": 1200}])
def test_the_page_can_be_read_in_a_browser(rows, tmp_path, size):
    x, y = rows
    found = compare({"a": Normal(x, 0.5), "b": Normal(x, 1.0)}, y, folds_of(400, 2))
    page = tmp_path / "c.html"
    words = {"title": "y of data.csv", "how": "2 folds", "target": "y", "notes": []}
    page.write_text(told.page(found, words), encoding="utf-8")
    browser = Browser(find_browser(), tmp_path / "profile")
    try:
        browser.open(page, dark=True, **size)
        assert browser.run("document.documentElement.scrollWidth <= innerWidth")
        shown = browser.run("document.querySelector('.picture svg').getBoundingClientRect().width")
        assert shown >= 550  # else its letters are too small
        assert browser.errors == []
    finally:
        browser.close()


def test_rivals_see_categories_and_circles(data):
    frame = pd.read_csv(data).astype({"road": "category"})
    wanted = Wanted(["y"], ["hour", "road", "z"], periods={"hour": 24.0})
    problem = told.Problem(frame, wanted, FitOptions(None, None, 0, verbose=False))
    X = problem.encoded()
    assert X.shape == (90, 5)
    np.testing.assert_allclose((X[:, :2] ** 2).sum(axis=1), 1)
    np.testing.assert_array_equal(X[:, 2] + X[:, 3], 1)
    assert problem.gap == 0
    whole = told.Problem(frame.assign(y=np.arange(90.0) // 10), wanted, problem.options)
    assert whole.gap == 1


def test_what_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr(told, "find_spec", lambda package: None)
    chosen, missing = told.chosen_methods([])
    assert chosen == ["kcdo", "gp"]
    assert missing == ["quantile-forest", "ngboost", "catboost"]
    frame = pd.DataFrame({"x": np.arange(90.0), "y": np.linspace(0.0, 1.0, 90)})
    problem = told.Problem(frame, Wanted(["y"], ["x"]), FitOptions(None, None, 0, verbose=False))
    nothing = SimpleNamespace(failed={}, by_crps=False)
    assert told.notes(nothing, problem, [], n_rows=90) == []
    (said,) = told.notes(nothing, problem, missing, n_rows=90)
    assert "quantile-forest" in said
    with pytest.raises(told.UsageError, match="pip install quantile-forest"):
        told.chosen_methods(["forest"])


def test_what_cannot_be_compared_is_said(data, tmp_path, capsys):
    fail_here(
        capsys,
        [
            (command(data, "--methods", "best"), 2, ["--methods does not know 'best'", "gp"]),
            (command(data, "--target", "y,z"), 2, ["--target takes one column"]),
            (command(data, "--group", "site", "--time", "z"), 2, ["not by both"]),
            (command(data, "--folds", "40"), 1, ["90 rows are too few for 40 folds"]),
            (command(data, "-o", tmp_path / "c.docx"), 2, ["cannot be written as c.docx"]),
        ],
    )
