"""The accuracy benchmark: its data, its records, and the tables drawn from them."""

import json

import numpy as np
import pytest
from scipy.stats import norm

import kcdo
from benchmarks import accuracy, accuracy_table, branches, rounded, tabular
from experiments import data
from experiments.rivals import METHODS, NotApplicable
from kcdo.rivals.mixtures import Mixture


class Constant:
    """Predicts N(0, 1) whatever it sees, and counts its fits."""

    fits = 0

    def __init__(self, seed, gap):
        pass

    def fit(self, X, Y):
        Constant.fits += 1
        return self

    def conditional(self, X):
        inner = Mixture.normal(np.zeros((len(X), 1)), np.ones((len(X), 1)))
        return data_free(inner)


def data_free(inner):
    from kcdo.rivals.base import Rescaled

    return Rescaled(inner, np.zeros(1), np.ones(1), flat=True)


class Failing(Constant):
    def fit(self, X, Y):
        raise np.linalg.LinAlgError("singular")


class Refusing(Constant):
    def fit(self, X, Y):
        raise NotApplicable("too large")


@pytest.fixture
def bench(monkeypatch, tmp_path):
    methods = {"constant": Constant, "failing": Failing, "refusing": Refusing}
    for name, method in methods.items():
        monkeypatch.setitem(METHODS, name, method)
    Constant.fits = 0

    def go(names, splits=2, **options):
        accuracy.benchmark(["bimodal"], names, splits, None, tmp_path, **options)
        return {name: accuracy.load(tmp_path / "bimodal" / f"{name}.jsonl") for name in names}

    return go


def test_a_run_goes_on_where_it_stopped(bench):
    first = bench(["constant"], splits=2)["constant"]
    assert Constant.fits == 2
    again = bench(["constant"], splits=3)["constant"]
    assert Constant.fits == 3
    assert [record["split"] for record in again] == [0, 1, 2]
    assert again[:2] == first


def test_scores_are_those_of_the_truth(bench):
    record = bench(["constant"], splits=1)["constant"][0]
    Y = data.problem("bimodal").split(0).Y_test
    expected = (0.5 * Y**2 + 0.5 * np.log(2 * np.pi)).mean()
    np.testing.assert_allclose(record["scores"]["nll"], expected, rtol=1e-5)
    inside = np.mean(np.abs(Y) <= 1.6448536)
    np.testing.assert_allclose(record["scores"]["coverage"], inside, rtol=1e-5)
    np.testing.assert_allclose(record["scores"]["width"], 2 * 1.6448536, rtol=1e-5)


def test_failures_are_recorded_and_retried_on_demand(bench):
    records = bench(["failing", "constant"], splits=2)
    assert "LinAlgError: singular" in records["failing"][0]["error"]
    assert len(records["constant"]) == 2
    METHODS["failing"] = Constant
    assert "error" in bench(["failing"])["failing"][0]
    assert "scores" in bench(["failing"], retry=True)["failing"][0]


def test_a_refusal_is_recorded_once(bench):
    records = bench(["refusing"], splits=3)["refusing"]
    assert [record["skipped"] for record in records] == ["too large"]


def test_crps_without_a_method_of_its_own():
    inner = Mixture.normal(np.zeros((3, 1)), np.ones((3, 1)))
    Y = np.array([-1.0, 0.2, 2.5])
    got = accuracy.quantile_crps(data_free(inner), Y)
    np.testing.assert_allclose(got, inner.crps(Y[:, None]), atol=2e-3)


def test_energy_score_of_normals():
    """In one dimension the energy score is the CRPS."""
    draws = np.random.default_rng(0).standard_normal((2, 4000, 1))
    Y = np.array([[0.5], [-2.0]])
    exact = Mixture.normal(np.zeros((2, 1)), np.ones((2, 1))).crps(Y)
    np.testing.assert_allclose(accuracy.energy_score(draws, Y), exact, atol=0.03)


def test_infinite_log_scores_are_counted():
    means = accuracy.average({"nll": np.array([1.0, np.inf]), "crps": np.array([1.0, 3.0])})
    assert means == {"nll": 50.5, "crps": 2.0, "infinite": 1}


class TestRounded:
    """Probabilities of rounding intervals, of a method that predicts N(0, 1)."""

    method = Constant(0, 0.0)

    def test_edges(self):
        y = np.linspace(-3, 3, 450).round()
        low, high = rounded.edges(self.method, np.zeros((450, 1)), y, 1.0)
        np.testing.assert_allclose(low, norm.cdf(y - 0.5))
        np.testing.assert_allclose(high, norm.cdf(y + 0.5))

    def test_coverage_is_that_of_the_randomised_pit(self):
        low, high = np.array([0.0, 0.3, 0.9, 0.5]), np.array([0.1, 0.8, 1.0, 0.5])
        draws = np.random.default_rng(0).uniform(low, high, (20_000, 4))
        for level in (0.5, 0.9):
            share = (np.abs(draws - 0.5) <= level / 2).mean(axis=0)
            np.testing.assert_allclose(rounded.covered(low, high, level), share, atol=0.02)

    def test_the_truth_is_covered_as_promised(self):
        y = np.random.default_rng(0).standard_normal(5000).round()
        scores = rounded.rounded_scores(self.method, np.zeros((5000, 1)), y, 1.0)
        np.testing.assert_allclose(scores["coverage_90"].mean(), 0.9, atol=0.01)
        np.testing.assert_allclose(scores["coverage_50"].mean(), 0.5, atol=0.015)

    def test_rounded_sets_are_scored_by_probabilities(self, bench, tmp_path):
        accuracy.benchmark(["diabetes"], ["constant"], 1, None, tmp_path)
        record = accuracy.load(tmp_path / "diabetes" / "constant.jsonl")[0]
        assert record["gap"] == 1.0
        np.testing.assert_allclose(record["scores"]["nll"], -np.log(1e-10), rtol=1e-5)

    def test_records_of_densities_are_run_again_and_not_drawn(self, bench, tmp_path):
        old = {"set": "diabetes", "method": "constant", "split": 0, "fit_seconds": 1.0}
        old |= {"scores": {"nll": 1.0, "crps": 1.0}, "versions": {}}
        accuracy.save(tmp_path / "diabetes" / "constant.jsonl", [old])
        assert accuracy_table.read(tmp_path) == []
        accuracy.benchmark(["diabetes"], ["constant"], 1, None, tmp_path)
        assert len(accuracy_table.read(tmp_path)) == 1


class TestTabular:
    @pytest.fixture
    def folder(self, tmp_path):
        """A set of 60 rows whose outputs are even numbers, and nothing published."""
        rng = np.random.default_rng(0)
        (tmp_path / "tabular").mkdir()
        y = 2 * rng.standard_normal(60).round()
        np.savez(tmp_path / "tabular" / "pol.npz", X=rng.standard_normal((60, 2)), y=y)
        (tmp_path / "tabular" / "published.json").write_text("{}")
        return tmp_path

    def test_two_scores_of_one_fit(self, bench, folder):
        record = tabular.run("pol", 60, 0, "constant", folder)
        y = tabular.split("pol", 60, 0, folder)[3]
        assert record["rounded"]["gap"] == 2.0
        expected = np.log(norm.cdf(y + 1) - norm.cdf(y - 1)).mean()
        np.testing.assert_allclose(record["rounded"]["log_prob"], expected)
        assert record["scores"]["log_lik"] < record["rounded"]["log_prob"]

    def test_the_table_has_what_there_is(self, bench, folder, tmp_path):
        out = tmp_path / "out"
        runs = {"constant": tabular.run("pol", 60, 0, "constant", folder)}
        older = {key: value for key, value in runs["constant"].items() if key != "rounded"}
        runs |= {"kcdo": older, "failing": tabular.run("pol", 60, 0, "failing", folder)}
        for method, record in runs.items():
            accuracy.save(out / "pol" / f"{method}.jsonl", [record])
        lines = tabular.table("pol", 60, list(METHODS), out, folder)
        cells = {line.split(" | ")[0].strip("| "): line.split(" | ") for line in lines[4:-1]}
        assert list(cells) == ["kcdo", "constant", "failing"]
        assert cells["kcdo"][5:8] == ["–"] * 3
        assert "–" not in cells["constant"]
        assert "LinAlgError: singular" in cells["failing"][-1]


class TestData:
    def test_uci_splits_are_the_published_ones(self, tmp_path):
        folder = tmp_path / "uci" / "yacht"
        folder.mkdir(parents=True)
        table = np.arange(40.0).reshape(20, 2)
        np.savetxt(folder / "data.txt.gz", table)
        problem = data.problem("yacht", tmp_path)
        rng = np.random.RandomState(1)
        orders = [rng.choice(range(20), 20, replace=False) for _ in range(2)]
        split = problem.split(1)
        np.testing.assert_array_equal(split.X[:, 0], table[orders[1][:18], 0])
        np.testing.assert_array_equal(split.Y_test, table[orders[1][18:], 1])

    def test_twins(self, tmp_path):
        folder = tmp_path / "uci" / "wine-quality-red"
        folder.mkdir(parents=True)
        rows = np.repeat(np.arange(10.0), 2)  # every input occurs twice
        np.savetxt(folder / "data.txt.gz", np.column_stack([rows, rows]))
        split = data.problem("wine-quality-red", tmp_path).split(0)
        lone = ~np.isin(split.X_test[:, 0], split.X[:, 0])
        np.testing.assert_array_equal(split.parts["no twins"], lone)

    def test_text_columns_become_indicators(self, tmp_path):
        (tmp_path / "classic").mkdir()
        lines = [f"{i},{10 + i},{'female' if i % 2 else 'male'},{i / 100}" for i in range(20)]
        text = "\n".join(["idnum,age,gender,spnbmd", *lines])
        (tmp_path / "classic" / "bone.csv").write_text(text)
        split = data.problem("bone", tmp_path).split(0)
        np.testing.assert_array_equal(split.X[:, 1], split.X[:, 0] % 2)

    def test_wide_sets_take_one_target_at_a_time(self, tmp_path):
        (tmp_path / "joint").mkdir()
        table = np.arange(160.0).reshape(20, 8)
        path = tmp_path / "joint" / "andro.csv.gz"
        np.savetxt(path, table, delimiter=",", header="two inputs, six targets", comments="")
        split = data.problem("andro-3", tmp_path).split(0)
        np.testing.assert_array_equal(split.Y - split.X[:, 0], 4)
        assert split.X.shape == (18, 2)
        assert data.problem("andro-3", tmp_path).gap == 0.05

    @pytest.mark.parametrize("name", ["diabetes", "friedman1", "bimodal", "donut"])
    def test_splits_are_reproducible_and_differ(self, name):
        problem = data.problem(name)
        one, same, other = problem.split(0), problem.split(0), problem.split(1)
        np.testing.assert_array_equal(one.X, same.X)
        assert not np.array_equal(one.X, other.X)
        assert len(one.X) == len(one.Y)
        assert len(one.X_test) == len(one.Y_test)

    def test_unknown_names_and_missing_folders(self, monkeypatch):
        with pytest.raises(KeyError, match="there are yacht"):
            data.problem("housing")
        monkeypatch.delenv("KCDO_DATA", raising=False)
        with pytest.raises(FileNotFoundError, match="set KCDO_DATA"):
            data.problem("yacht")


class TestTables:
    @pytest.fixture
    def folder(self, tmp_path):
        scores = {"gp": [1.0, 2.0, 3.0], "qrf": [1.1, 2.0, 3.1], "lscde": [5.0, 6.0, 7.0]}
        for method, values in scores.items():
            for index, value in enumerate(values):
                record = {"set": "yacht", "method": method, "split": index, "fit_seconds": 2.0}
                means = {"nll": value, "crps": value / 10, "coverage": 0.9, "width": 1.0}
                record |= {"scores": means, "scores, calm": means | {"nll": -value}}
                record |= {"versions": {"numpy": "2"}}
                path = tmp_path / "yacht" / f"{method}.jsonl"
                path.parent.mkdir(exist_ok=True)
                with path.open("a") as file:
                    file.write(json.dumps(record) + "\n")
        return tmp_path

    def test_first_and_close(self, folder):
        scores = accuracy_table.collect(accuracy_table.read(folder), ["nll"])
        marks = accuracy_table.standing(scores["yacht"])
        assert marks == {"gp": "first", "qrf": "close", "lscde": ""}
        strict = accuracy_table.standing(scores["yacht"], paired=True)
        assert strict == {"gp": "first", "qrf": "", "lscde": ""}
        assert accuracy_table.standing(scores["yacht (calm)"])["lscde"] == "first"

    def test_methods_are_compared_on_shared_splits(self):
        """The second has run on the easy split only: that is no merit."""
        methods = {"a": {0: 1.0, 1: 9.0, 2: 9.0}, "b": {0: 2.0}}
        assert accuracy_table.standing(methods) == {"a": "first", "b": ""}

    def test_page(self, folder):
        text = accuracy_table.page(folder)
        assert "| yacht | **2.000 ± 0.577** | 2.067 ± 0.578 \\* | 6.000 ± 0.577 |" in text
        assert "| gp | 1 (1) of 2 | 2 (2) of 2 |" in text
        assert "Versions: numpy 2." in text
        assert text.count("yacht (calm)") == 4

    def test_the_page_of_the_documentation_is_replaced_between_its_marks(
        self, folder, tmp_path, monkeypatch
    ):
        page = tmp_path / "page.md"
        page.write_text("before\n<!-- table -->\nold\n<!-- /table -->\nafter")
        arguments = ["accuracy_table", "--results", str(folder), "--out", str(page)]
        monkeypatch.setattr("sys.argv", arguments)
        accuracy_table.main()
        text = page.read_text()
        assert text.startswith("before")
        assert text.endswith("after")
        assert "old" not in text
        assert "### Summary" in text


def test_two_branches_are_scored_beside_the_truth(short_searches, monkeypatch):
    grid = np.linspace(-2.5, 2.5, 4001)
    mass = branches.truth(branches.AT, grid).sum(axis=1) * (grid[1] - grid[0])
    np.testing.assert_allclose(mass, 1.0, atol=1e-6)
    found = branches.errors("plain alone", 80, seed=0)
    assert np.all((found[:2] > 0) & (found[:2] < 2.0))
    np.testing.assert_array_equal(found, branches.errors("plain alone", 80, seed=0))
    monkeypatch.setattr(branches, "METHODS", {"default": kcdo.Combination()})
    head, _, row = branches.table(2, [60])
    assert head.count("|") == row.count("|") == 6
    assert row.startswith("| 60 | default |")
