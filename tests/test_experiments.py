"""Parts of the experiments: records, the published estimator, pre-images, traffic statistics."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import check_error, fail_together, finish, start, wait_until
from matplotlib.figure import Figure
from scipy.optimize import check_grad

import kcdo
from experiments import command, reproduce
from experiments.markdown import leading, markdown_table, mean_sd, spread
from experiments.orderings import orderings
from experiments.pages import replace_table
from experiments.preimages import IsotropicMixture, preimage, squared_distance
from experiments.published import Published, laplace_median
from experiments.rivals import NotApplicable
from experiments.rows import DEFAULT, GP
from experiments.runner import (
    Options,
    Outcome,
    Results,
    Study,
    Task,
    append_line,
    carry_out,
    plain,
    read_lines,
)
from experiments.studies import embeddings, terrain
from experiments.studies.traffic import GroupStatistics, scaled_errors
from experiments.studies.traffic_data import Statistics, balanced, pems_shape
from kcdo.kernels import median_scales

ROOT = Path(__file__).parents[1]


def study_of(functions, seeds=1):
    """A study whose methods are functions without arguments; it counts how often they run."""
    calls = []

    def task(name, seed):
        def run():
            calls.append((name, seed))
            return functions[name]()

        return Task("problem", name, seed, {"n": 3}, run)

    def tasks(options):
        return [task(name, s) for s in range(options.at_most(seeds)) for name in functions]

    study = Study("test", tasks, lambda results: f"{len(results.records)} runs", lambda results: {})
    return study, calls


def good():
    return Outcome({"error": 0.123456789, "curve": np.array([1.0, np.nan])}, {"a": np.arange(3)})


def fail():
    raise ArithmeticError("no convergence")


def refuse():
    raise NotApplicable("too many rows")


def lack_a_package():
    raise ModuleNotFoundError("No module named 'flow'")


def test_runs_are_kept_and_not_repeated(tmp_path):
    study, calls = study_of({"good": good}, seeds=2)
    said = []
    carry_out(study, Options(seeds=1), tmp_path, said.append)
    results = carry_out(study, Options(), tmp_path, said.append)
    assert calls == [("good", 0), ("good", 1)]
    assert [r["seed"] for r in results.of("problem", "good")] == [0, 1]
    assert "test: 1 of 2 runs are there" in said
    np.testing.assert_array_equal(results.values("problem", "good", "error"), [0.123457] * 2)
    np.testing.assert_array_equal(results.arrays("problem", "good")["a"], np.arange(3))
    written = json.loads((tmp_path / "results.json").read_text())
    assert [run["scores"]["curve"] for run in written["runs"]] == [[1.0, None]] * 2
    assert written["versions"]["numpy"] == np.__version__
    assert (tmp_path / "table.md").read_text() == "2 runs"


def test_failures_are_recorded_and_tried_again(tmp_path):
    functions = {"bad": fail, "refused": refuse, "lacking": lack_a_package, "good": good}
    study, calls = study_of(functions)
    results = carry_out(study, Options(), tmp_path, lambda text: None)
    assert results.reason("problem", "bad") == "ArithmeticError: no convergence"
    assert results.reason("problem", "refused") == "too many rows"
    assert "kcdo[rivals]" in results.reason("problem", "lacking")
    assert results.reason("problem", "good") is None
    assert len(results.values("problem", "bad", "error")) == 0
    functions["bad"] = good
    again = carry_out(study, Options(), tmp_path, lambda text: None)
    assert again.reason("problem", "bad") is None
    assert calls.count(("good", 0)) == 1
    assert again.methods("problem") == list(functions)


def test_runs_of_other_sizes_are_not_taken_for_these(tmp_path):
    study, calls = study_of({"good": good})
    carry_out(study, Options(), tmp_path, lambda text: None)
    line = (tmp_path / "runs.jsonl").read_text().replace('"n": 3', '"n": 4')
    (tmp_path / "runs.jsonl").write_text(line)
    carry_out(study, Options(), tmp_path, lambda text: None)
    assert len(calls) == 2


def test_a_torn_line_costs_one_run_only(tmp_path):
    path = tmp_path / "runs.jsonl"
    append_line(path, {"a": 1})
    with path.open("a") as file:
        file.write('{"a": 2, "b"')  # as a crash would leave it
    append_line(path, {"a": 3})
    assert read_lines(path) == [{"a": 1}, {"a": 3}]
    assert read_lines(tmp_path / "nothing") == []


def test_results_without_tasks_are_all_of_the_folder(tmp_path):
    study, _ = study_of({"good": good})
    carry_out(study, Options(), tmp_path, lambda text: None)
    assert len(Results(tmp_path).records) == 1
    assert Results(tmp_path).problems() == ["problem"]


def test_plain_values_are_json():
    value = {"a": np.float64(np.inf), 1: np.int64(2), "c": (np.array([0.5]), "x", None)}
    assert plain(value) == {"a": None, "1": 2, "c": [[0.5], "x", None]}


def test_tables():
    assert markdown_table(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"
    assert spread(np.array([1.0, 3.0, 2.0]), 1) == "2.0 (1.0–3.0)"
    assert spread(np.array([])) == mean_sd(np.array([np.nan])) == "–"
    assert mean_sd(np.array([1.0, 3.0]), 2) == "2.00 ± 1.41"
    assert leading(["a", "b", "c"], [2.0, 1.0, np.nan]) == ["a", "**b**", "c"]


def test_tables_of_pages_are_replaced_by_name(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- table a -->\nold\n<!-- /table a -->\n<!-- table b -->\n<!-- /table b -->")
    replace_table(page, "new", "a")
    assert "old" not in page.read_text()
    assert page.read_text().endswith("<!-- table b -->\n<!-- /table b -->")


def test_orderings_compare_medians_with_the_best_rival(tmp_path):
    (tmp_path / "terrain").mkdir()
    errors = {DEFAULT: (0.02, 0.03, 0.09), GP: (0.04, 0.05, 0.06), terrain.NEIGHBOUR: (0.01,) * 3}
    for method, values in errors.items():
        for seed, value in enumerate(values):
            run = {"problem": terrain.PROBLEM, "method": method, "seed": seed, "settings": {}}
            run["scores"] = {"SMAE, centred": value}
            append_line(tmp_path / "terrain" / "runs.jsonl", run)
    centred, uncentred = orderings(tmp_path).splitlines()[2:]
    assert centred.endswith("| 0.0300 | 0.0100 (nearest neighbour) | **no** |")
    assert "not run" in uncentred


def test_a_finished_run_goes_into_its_page(tmp_path):
    folder, page = tmp_path / "run" / "terrain", tmp_path / "docs" / "page.md"
    folder.mkdir(parents=True)
    (folder / "table.md").write_text("| a |")
    Figure(figsize=(20, 2)).savefig(folder / "maps.png")
    (tmp_path / "docs" / "images").mkdir(parents=True)
    marks = [f"<!-- table {n} -->\n<!-- /table {n} -->\n" for n in ("terrain", "orderings")]
    page.write_text("".join(marks))
    reproduce.document(tmp_path / "run", page)
    assert "| a |" in page.read_text()
    assert (tmp_path / "docs" / "images" / "terrain-maps.png").stat().st_size > 100


def test_the_published_estimator_is_the_printed_formula(rng):
    """β = (L_Z + α'I)⁻² L_ZY (K_X + NαI)⁻¹ k(X, x'), divided by its sum."""
    X, Y = rng.normal(size=(60, 2)), rng.normal(size=60)
    queries = rng.normal(size=(4, 2))
    found = Published().fit(X, Y).conditional(queries)
    alpha = 60**-0.5
    Z = np.linspace(Y.min(), Y.max(), 60)
    scale = float(median_scales(Z[:, None])[0])

    def bump(a, b):
        return np.exp(-0.5 * ((a[:, None] - b) / scale) ** 2)

    k = laplace_median(X)
    weights = np.linalg.solve(k(X, X) + 60 * alpha * np.eye(60), k(X, queries))
    inverse = np.linalg.inv(bump(Z, Z) + alpha * np.eye(60))
    beta = (inverse @ inverse @ bump(Z, Y) @ weights).T
    beta /= beta.sum(axis=1, keepdims=True)
    points = np.linspace(-2, 2, 7)
    expected = beta @ bump(Z, points) / (np.sqrt(2 * np.pi) * scale)
    np.testing.assert_allclose(found.pdf(points), expected, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(found.mean(), beta @ Z, rtol=1e-5)
    variance = beta @ Z**2 - (beta @ Z) ** 2 + scale**2
    sd = np.sqrt(np.where(variance > 0, variance, np.nan))
    np.testing.assert_allclose(found.std(), sd, rtol=1e-4)


def test_on_the_box_the_published_estimator_is_the_paper_selection(rng):
    X, Y = rng.normal(size=(80, 1)), rng.uniform(size=80)
    box = kcdo.UniformBox(float(Y.min()), float(Y.max()), nodes=80, edge_nodes=True)
    options = {"kernel_x": laplace_median(X), "reference": box, "positivity": "signed"}
    model = kcdo.ConditionalDensityOperator(selection="paper", **options).fit(X, Y)
    found = Published(on_box=True).fit(X, Y).conditional(X[:5])
    np.testing.assert_allclose(found.mean(), model.conditional(X[:5]).mean(), rtol=0.02)


def test_the_distance_of_a_preimage_has_its_gradient(rng):
    points = rng.normal(size=(40, 2))
    theta = rng.normal(size=3 * 4)
    arguments = points, 0.4, 3
    error = check_grad(
        lambda t: squared_distance(t, *arguments)[0],
        lambda t: squared_distance(t, *arguments)[1],
        theta,
    )
    assert error < 1e-6


def test_the_distance_of_a_preimage_is_that_of_embeddings(rng):
    """The closed form beside kernel sums over many draws of the mixture."""
    points, scale = rng.normal(size=(30, 1)), 0.5
    mixture = IsotropicMixture(
        np.array([0.3, 0.7]), np.array([[-1.0], [0.5]]), np.array([0.2, 0.4])
    )
    theta = np.concatenate([np.log(mixture.weights), mixture.means.ravel(), np.log(mixture.sds)])
    value, _ = squared_distance(theta, points, scale, 2)
    kernel = kcdo.DensityKernel(kcdo.Gaussian(scale), 1)
    data = kcdo.SampleEmbedding(points, kernel=kernel)
    other = kcdo.SampleEmbedding(mixture.sample(4000, rng), kernel=kernel)
    assert value == pytest.approx(kcdo.mmd(data, other) ** 2 - data.norm() ** 2, abs=0.01)
    np.testing.assert_allclose(mixture.embedding(points, scale), other(points), atol=0.03)


def test_a_preimage_finds_a_mixture_from_its_sample(rng):
    truth = IsotropicMixture(np.array([0.5, 0.5]), np.array([[-2.0], [2.0]]), np.array([0.5, 0.5]))
    found = preimage(truth.sample(2000, rng), 0.3, 2, seed=0)
    order = found.means[:, 0].argsort()
    np.testing.assert_allclose(found.means[order, 0], [-2, 2], atol=0.1)
    np.testing.assert_allclose(found.sds, 0.5, atol=0.1)


def test_reconstructions_and_estimates_are_densities(rng):
    problem = embeddings.problems(quick=True)["donut, (x, y)"]
    points, grid = problem.truth.sample(100, rng), problem.grid
    found = embeddings.reconstructions(points, grid, 0.3, np.array([1e-3, 0.1]))
    found = np.concatenate([found, embeddings.kde(points, grid, 0.3)])
    assert found.min() >= 0
    np.testing.assert_allclose(found @ grid.weights, 1.0, atol=1e-9)


def test_statistics_of_each_input():
    X = np.array([[1.0, 0.0], [0.0, 5.0], [1.0, 0.0]])
    found = Statistics.of(X, np.array([1.0, 7.0, 3.0]))
    np.testing.assert_array_equal(found.inputs, [[0.0, 5.0], [1.0, 0.0]])
    np.testing.assert_array_equal(found.mean, [7.0, 2.0])
    np.testing.assert_array_equal(found.sd, [0.0, 1.0])
    predictor = GroupStatistics().fit(X, np.array([1.0, 7.0, 3.0])).conditional(X)
    np.testing.assert_array_equal(predictor.mean(), [2.0, 7.0, 2.0])
    np.testing.assert_array_equal(predictor.std(), [1.0, 0.0, 1.0])


def test_scaled_errors_leave_out_a_truth_of_zero():
    estimate, truth = np.array([1.1, 5.0, np.nan]), np.array([1.0, 0.0, 2.0])
    np.testing.assert_allclose(scaled_errors(estimate, truth), [0.1, 1.0])


def test_both_errors_of_the_terrain():
    found = terrain.errors(np.array([11.0, 18.0]), np.array([10.0, 20.0]), middle=15.0)
    assert found["SMAE, centred"] == pytest.approx(3 / 10)
    assert found["SMAE, uncentred"] == pytest.approx((1 / 10 + 2 / 20) / 2)


def test_nearest_neighbours_at_one_distance_count_alike():
    X = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 3.0], [9.0, 9.0]])
    fitted = terrain.NearestNeighbour().fit(X, np.array([1.0, 2.0, 5.0, 7.0]))
    np.testing.assert_allclose(fitted.conditional(X[:1] * [[0], [1], [2.5]]).mean(), [1.5, 1, 5])


def test_splits_of_the_terrain_are_partitions():
    train, test = terrain.split(14_040, seed=1)
    assert (len(train), len(test)) == (11_232, 2_808)
    np.testing.assert_array_equal(np.sort(np.r_[train, test]), np.arange(14_040))


def test_pems_days_are_balanced():
    """32 training and 20 test days of each day of the week, whatever the archive has."""
    days = np.repeat(np.arange(7 * 90), 2)  # two slots a day
    train = days < 7 * 60
    inputs = np.column_stack([days % 7, np.tile([0.0, 12.0], 7 * 90)]).astype(float)
    data = SimpleNamespace(data=inputs, target=days.astype(float), day=days, train=train)
    found = balanced(data)
    assert len(found.X) == 7 * 32 * 2
    assert len(found.X_test) == 7 * 20 * 2
    assert found.Y.max() < 7 * 60 <= found.Y_test.min()
    assert set(np.bincount(found.X[:, 0].astype(int))) == {64}


def test_generated_traffic_has_the_shape_of_pems_and_its_truth():
    data, truth = pems_shape()
    assert data.X.shape == (32_256, 2)
    found = Statistics.of(data.X, data.Y)
    assert len(found.inputs) == 1008
    assert np.all((data.Y > 0) & (data.Y < 1))
    assert np.abs(found.mean / truth[:, 0] - 1).mean() < 0.1


def refused(capsys, arguments, code, *parts):
    """Run the process behind ``kcdo reproduce`` within this one; it must say one line of error."""
    returned = command.main([str(a) for a in arguments])
    check_error((returned, *capsys.readouterr()), code, parts)


def test_an_unknown_experiment_is_refused(tmp_path):
    arguments = ["reproduce", "doughnut", "--out", tmp_path / "out"]
    fail_together([(arguments, 2, ["'doughnut'", "donut, terrain, traffic"])])
    assert not (tmp_path / "out").exists()
    with pytest.raises(kcdo.InvalidInputError, match="no experiment 'doughnut'"):
        reproduce.reproduce("doughnut", Options(), Path(), print)


def test_an_experiment_without_its_data_names_file_and_source(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(terrain, "fetch_mount_st_helens", _missing)
    arguments = ["terrain", "--quick", "--out", tmp_path / "out"]
    refused(capsys, arguments, 1, "MtSH.mat is not there")


def test_folders_that_cannot_be_are_refused_before_any_run(tmp_path, capsys):
    here, nowhere = tmp_path / "out", tmp_path / "nowhere"
    file = tmp_path / "file"
    file.touch()
    no_data = ["terrain", "--data", nowhere, "--out", here]
    refused(capsys, no_data, 1, "no data folder", str(nowhere), "leave --data out")
    for out in (file, file / "below"):
        refused(capsys, ["donut", "--out", out], 1, f"cannot write {out}")
    assert not here.exists()


def test_a_folder_without_permission_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    refused(capsys, ["donut", "--out", tmp_path], 1, f"cannot write {tmp_path}: no permission")


def test_ctrl_c_ends_the_experiments_behind_the_command(tmp_path):
    process = start("reproduce", "donut", "--jobs", 1, "--out", tmp_path / "out")
    wait_until((tmp_path / "out").exists)
    process.send_signal(signal.SIGINT)  # to the command alone: it passes it on
    result = finish(process)
    assert (result.returncode, result.stderr.splitlines()[-1]) == (130, "Interrupted.")


def _missing(**options):
    raise kcdo.DataNotFoundError("MtSH.mat is not there")


def test_outside_a_checkout_one_line_says_where_to_run(tmp_path):
    shutil.copytree(ROOT / "src" / "kcdo", tmp_path / "site" / "kcdo")
    # the copy is not to be measured: its lines would count as missed
    unmeasured = {k: v for k, v in os.environ.items() if not k.startswith("COV")}
    environment = unmeasured | {"PYTHONPATH": str(tmp_path / "site"), "COLUMNS": "200"}
    arguments = [sys.executable, "-m", "kcdo", "reproduce", "donut"]
    result = subprocess.run(
        arguments, capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert (result.returncode, result.stdout) == (2, "")
    assert "runs from a checkout" in result.stderr
    assert len(result.stderr.splitlines()) == 1
