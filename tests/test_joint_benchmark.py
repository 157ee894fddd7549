"""The joint benchmark: its sets, and rivals whose answers are known."""

import argparse
from types import SimpleNamespace

import numpy as np
import pytest

import kcdo
from benchmarks import joint, joint_rivals, joint_speed
from benchmarks.joint_data import JointSet, banana, joint_set, moons, ring, without_rounding
from benchmarks.joint_rivals import Flow, Forest, GaussianCopula, RidgeNormal, Vine
from benchmarks.joint_table import page_text, score_table, verdict


@pytest.mark.parametrize("make", [ring, moons, banana])
def test_true_densities_are_those_of_the_draws(make, rng):
    """The truth scores better than the same density elsewhere, and integrates to one."""
    data = make()
    X, Y = data.X[:200], data.Y[:200]
    assert data.log_density(X, Y).mean() > data.log_density(X, np.roll(Y, 1, axis=0)).mean()
    if Y.shape[1] == 2:
        line = np.linspace(-4, 4, 161)
        grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
        density = np.exp(data.log_density(np.full((len(grid), 1), 0.5), grid))
        assert density.sum() * (line[1] - line[0]) ** 2 == pytest.approx(1.0, abs=1e-3)


def test_splits_are_standardised_by_their_training_rows(rng):
    data = JointSet(rng.normal(size=(50, 2)), 5 + 3 * rng.normal(size=(50, 2)))
    X, Y, X_test, _ = data.split(1)
    assert (len(X), len(X_test)) == (40, 10)
    np.testing.assert_allclose([Y.mean(axis=0), Y.std(axis=0)], [[0, 0], [1, 1]], atol=1e-12)


def test_rounded_outputs_get_noise_of_one_gap(rng):
    Y = np.stack([np.arange(40) % 4, rng.normal(size=40)], axis=1)
    moved = without_rounding(Y, 0) - Y
    assert 0.3 < np.abs(moved[:, 0]).max() <= 0.5
    assert not moved[:, 1].any()


def test_a_normal_about_a_line(rng):
    X = rng.normal(size=(400, 1))
    Y = X @ [[1.0, 2.0]] + rng.normal(size=(400, 2)) @ [[0.5, 0.3], [0.0, 0.4]]
    rival = RidgeNormal().fit(X, Y)
    exact = np.log(2 * np.pi * np.e) + np.log(0.5 * 0.4)  # entropy
    assert -rival.logpdf_pairs(X, Y).mean() == pytest.approx(exact, abs=0.1)
    draws = rival.sample(X[:2], 2000, 0)
    np.testing.assert_allclose(draws.mean(axis=1), X[:2] @ [[1.0, 2.0]], atol=0.1)


def test_a_forest_knows_two_groups(rng):
    X = rng.uniform(size=(120, 1))
    Y = np.where(X > 0.5, 3.0, -3.0) + 0.1 * rng.normal(size=(120, 2))
    rival = Forest().fit(X, Y)
    assert np.all(rival.sample(np.array([[0.9]]), 50, 0) > 1.0)
    assert rival.logpdf_pairs(np.array([[0.9]]), np.array([[3.0, 3.0]]))[0] > 0


def test_a_gaussian_copula_of_normal_scores(rng):
    from scipy.stats import multivariate_normal, norm

    cov = np.array([[1.0, 0.8], [0.8, 1.0]])
    scores = rng.multivariate_normal([0, 0], cov, 4000)
    rival = GaussianCopula()
    rival.join(SimpleNamespace(ranks=norm.cdf(scores)))
    exact = multivariate_normal(cov=cov).logpdf(scores) - norm.logpdf(scores).sum(axis=1)
    assert rival.log_copula(norm.cdf(scores)).mean() == pytest.approx(exact.mean(), abs=0.02)
    assert np.corrcoef(rival.draw_ranks(4000, 0).T)[0, 1] == pytest.approx(0.79, abs=0.04)


def two_groups(rng, n=60):
    X = rng.uniform(size=(n, 1))
    return X, X + 0.3 * rng.normal(size=(n, 2))


def test_a_vine_of_held_out_ranks(rng):
    pytest.importorskip("pyvinecopulib")
    ranks = rng.uniform(size=(300, 1)) ** [1.0, 1.0] * 0.9 + 0.1 * rng.uniform(size=(300, 2))
    rival = Vine()
    rival.join(SimpleNamespace(ranks=ranks))
    assert rival.log_copula(ranks).mean() > 0.5
    assert rival.draw_ranks(50, 0).shape == (50, 2)


@pytest.mark.slow
def test_a_flow_of_two_outputs(rng):
    pytest.importorskip("flowjax")
    X, Y = two_groups(rng)
    rival = Flow().fit(X, Y)
    assert rival.logpdf_pairs(X, Y).shape == (60,)
    assert rival.sample(X[:3], 5, 0).shape == (3, 5, 2)


@pytest.fixture
def runs(monkeypatch, short_searches, rng):
    """A function that runs methods on one small set, beside what was run before."""
    data = JointSet(*two_groups(rng))
    monkeypatch.setattr(joint, "joint_set", lambda *_: data)

    def run(methods, records, train_rows=None):
        options = argparse.Namespace(
            sets=["ring"], methods=methods, splits=1, data=None, train_rows=train_rows
        )
        joint.run_missing(options, records, records.append)
        return records

    return run


def test_marginals_are_fitted_once_for_all_copulas(runs, monkeypatch):
    made = []
    inner = joint_rivals.MarginalFits.__init__

    def counted(self, X, Y):
        made.append(len(X))
        inner(self, X, Y)

    monkeypatch.setattr(joint_rivals.MarginalFits, "__init__", counted)
    records = runs(["kcdo-marginals", "gaussian-copula"], [])
    assert [r["method"] for r in records] == ["kcdo-marginals", "gaussian-copula"]
    assert made == [48]
    assert all(np.isfinite(r["nll"]) and r["outputs"] == 2 for r in records)


def test_methods_without_their_package_are_skipped(runs, monkeypatch):
    """The reason is recorded, the others run, and they are tried again when it is there."""
    monkeypatch.setattr(joint, "find_spec", lambda name: None)
    records = runs(["vine", "ridge-normal"], [])
    assert records[0]["skipped"] == "needs the package pyvinecopulib"
    assert "nll" in records[1]
    assert "- Not run, vine: needs the package pyvinecopulib (ring)" in page_text(records)
    assert [r["method"] for r in runs(["vine", "ridge-normal"], records)[2:]] == ["vine"]


def test_methods_that_fail_do_not_stop_the_others(runs, monkeypatch):
    def fail(self, X, Y):
        raise ValueError("no")

    monkeypatch.setattr(Forest, "fit", fail)
    records = runs(["forest", "ridge-normal"], [])
    assert records[0]["error"] == "ValueError: no"
    assert "nll" in records[1]


def test_other_numbers_of_rows_are_other_runs(runs):
    records = runs(["ridge-normal"], [])
    assert len(runs(["ridge-normal"], records)) == 1
    assert [r["rows"] for r in runs(["ridge-normal"], records, train_rows=30)] == [48, 30]


def test_synthetic_sets_have_as_many_training_rows_as_asked():
    for name in ("ring", "moons", "banana"):
        assert len(joint_set(name, train_rows=400).split(0)[0]) == 400


def some_records():
    """Ours first on one set, behind the marginals on another, whose truth is not known."""
    common = {"rows": 5000, "outputs": 2, "energy": 0.5}
    ring = common | {"set": "ring", "truth": 0.9}
    slump = common | {"set": "slump", "truth": None}
    return [
        each | {"method": method, "split": split, "nll": level + 0.02 * split}
        for each, ours in ((ring, 1.0), (slump, 3.0))
        for method, level in (("kcdo", ours), ("kcdo-marginals", 2.0))
        for split in range(2)
    ]


def test_the_table_has_truth_and_gap():
    text = score_table(some_records(), "nll")
    assert (
        "| ring (5,000 rows, d = 2) | **1.010 ± 0.01** | 2.010 ± 0.01 | 0.900 ± 0.000 | 0.055 |"
        in text
    )
    assert "| slump (5,000 rows, d = 2) | 3.010 ± 0.01 | **2.010 ± 0.01** | – | – |" in text
    assert "truth" not in score_table(some_records(), "energy")


def test_the_verdict_counts():
    text = verdict(some_records())
    assert "log score: kcdo is first or within one standard error on 1 of 2 sets (50%)" in text
    assert "Behind independent marginals by more than one standard error: slump (5,000" in text
    assert "Energy score: kcdo is first or within one standard error on 2 of 2 sets" in text
    assert "Within 0.1 nats per output of the truth on 1 of 1 sets" in text


def test_the_lines_of_the_speed_table(monkeypatch):
    """Every case is measured beside another; here of fits that choose nothing, to be quick."""
    quick = lambda: kcdo.ConditionalDensityOperator(selection="heuristic")  # noqa: E731
    monkeypatch.setattr(joint_speed, "default", quick)
    sizes = joint_speed.Sizes(densities=20, queries=2, draws=10, points=20, scored=12, table=15)
    rows = list(joint_speed.measured(2, 40, sizes))
    assert [row.case.split(",")[0] for row in rows] == [
        "default fit", "20 log densities", "2 × 10 draws", "scores", "kcdo evaluate",
        "kcdo evaluate", "report",
        "2 × 10 draws", "sample input of 20 points",
    ]  # fmt: skip
    assert all(float(row.ratio.removesuffix(" ×")) > 0 for row in rows)
