"""Accuracy of the library and its rivals: data sets x methods x splits.

    python -m benchmarks.accuracy [--methods gp qrf] [--sets yacht] [--splits N] [--data DIR]
                                  [--out DIR] [--retry] [--again]

Rounded outputs (``experiments.data.ROUNDED``) are scored by the probability of the interval that
was rounded, and coverage by the randomised PIT, for every method alike: ``benchmarks/rounded.py``.

Every run adds a line to ``<out>/<set>/<method>.jsonl``; what is there is not run again, so that a
stopped run goes on where it was. ``python -m benchmarks.accuracy_table`` draws the tables.
"""

import argparse
import json
import os
import time
import traceback
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import kcdo
from benchmarks.rounded import rounded_scores
from experiments.data import PROBLEMS, ROUNDED, Problem, Split, problem
from experiments.donut import QUERIES, SQUARE
from experiments.rivals import METHODS, NotApplicable
from kcdo.arrays import Array

OUT = Path(__file__).parent / "results" / "accuracy"
PACKAGES = {
    "hgp": ["gpjax", "jax"],
    "ngboost": ["ngboost"],
    "catboost": ["catboost"],
    "catboost-quantiles": ["catboost"],
    "lightgbmlss": ["lightgbmlss", "lightgbm", "torch"],
    "gpboost": ["gpboost"],
    "crepes": ["crepes"],
    "flexcode": ["flexcode"],
    "bart": ["stochtree"],
    "bart-hetero": ["stochtree"],
    "qrf": ["quantile-forest"],
    "ckde-statsmodels": ["statsmodels"],
    "mdn": ["jax", "optax"],
    "realnvp": ["flowjax", "jax"],
    "maf": ["flowjax", "jax"],
    "spline-flow": ["flowjax", "jax"],
}
# Most splits of a method on a set: slow methods see fewer, and the table says how many.
SLOW = {"hgp": 3, "ngboost": 5, "mdn": 10, "realnvp": 5, "maf": 5, "spline-flow": 5}
SPLITS = {
    "wine-quality-red": {"gp": 10, "qrf": 10, "ckde": 10},
    "naval": {"gp": 5, "hgp": 2, "ngboost": 2, "mdn": 3, "spline-flow": 2, "qrf": 5, "lscde": 5}
    | {"ckde": 5, "ckde-statsmodels": 5},
    "protein": {"gp": 3, "hgp": 1, "ngboost": 1, "mdn": 2, "spline-flow": 1, "qrf": 3},
    "donut": {"hgp": 2, "kcef": 3, "mdn": 5},
}
# Methods whose settings are cut on large sets, where their own would take hours on one core.
SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "naval": {"mdn": {"epochs": 60}, "spline-flow": {"epochs": 40}},
    "protein": {"mdn": {"epochs": 30}, "spline-flow": {"epochs": 20}, "ngboost": {"stages": 300}},
}
# With one output the affine flows are conditional Gaussians; the spline flow stands for them.
DONUT_ONLY = {"realnvp", "maf"}


def splits_of(name: str, method: str, most: int) -> int:
    """How many splits a method runs on a set."""
    if method in DONUT_ONLY and name != "donut":
        return 0
    return min(most, SPLITS.get(name, {}).get(method, SLOW.get(method, most)))


def run(name: str, method: str, index: int, data: Problem) -> dict[str, Any]:
    """Fit and score one method on one split; failures are recorded, not raised."""
    record: dict[str, Any] = {"set": name, "method": method, "split": index}
    split = data.split(index)
    settings = SETTINGS.get(name, {}).get(method, {})
    started = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the rivals; the library's are tested elsewhere
            fitted = METHODS[method](seed=index, gap=data.gap, **settings).fit(split.X, split.Y)
            record["fit_seconds"] = round(time.perf_counter() - started, 3)
            record |= scores(fitted, split, name, data.gap)
    except NotApplicable as reason:
        record["skipped"] = str(reason)
    except Exception as error:  # a method that fails on one split must not stop the others
        record["error"] = f"{type(error).__name__}: {error}"
        record["trace"] = traceback.format_exc(limit=-2)[-600:]
    record["versions"] = versions(method)
    return record | ({"settings": settings} if settings else {})


def scores(fitted: Any, split: Split, name: str, gap: float = 0.0) -> dict[str, Any]:
    """Scores of the test rows, and of each named part of them."""
    started = time.perf_counter()
    predictive = fitted.conditional(split.X_test)
    rows = per_row(predictive, split.Y_test)
    result: dict[str, Any] = {"predict_seconds": round(time.perf_counter() - started, 3)}
    if gap:
        result["gap"] = gap
        rounded = rounded_scores(fitted, split.X_test, split.Y_test, gap)
        rows |= {"nll": -rounded["log_prob"], "coverage": rounded["coverage_90"]}
        rows["coverage_50"] = rounded["coverage_50"]
    result["scores"] = average(rows)
    for part, mask in split.parts.items():
        result[f"scores, {part}"] = average({key: values[mask] for key, values in rows.items()})
    if name == "donut":
        truth = kcdo.Donut().conditional_pdf(QUERIES[:, 0], SQUARE)
        errors = np.abs(fitted.conditional(QUERIES).pdf(SQUARE) - truth).mean(axis=1)
        result["scores"] |= {
            f"L1 at x = {x:g}": float(e) for x, e in zip(QUERIES[:, 0], errors, strict=True)
        }
    return result


def per_row(predictive: Any, Y: Array) -> dict[str, Array]:
    """Scores of every test row: negative log density, CRPS or energy score, intervals."""
    rows = {"nll": -predictive.logpdf_pairs(Y)}
    if Y.ndim > 1:
        return rows | {"energy": energy_score(predictive.sample(1000, random_state=0), Y)}
    rows["crps"] = (
        predictive.crps(Y) if hasattr(predictive, "crps") else quantile_crps(predictive, Y)
    )
    low, lower, upper, high = predictive.quantile([0.05, 0.25, 0.75, 0.95]).T
    rows |= {"coverage": (low <= Y) & (high >= Y), "coverage_50": (lower <= Y) & (upper >= Y)}
    return rows | {"width": high - low}


def average(rows: dict[str, Array]) -> dict[str, float]:
    """Means over the rows; an infinite log score counts as 100, and how many is recorded."""
    infinite = ~np.isfinite(rows["nll"])
    means = {key: float(np.mean(values)) for key, values in rows.items() if key != "nll"}
    means["nll"] = float(np.where(infinite, 100.0, rows["nll"]).mean())
    return means | ({"infinite": int(infinite.sum())} if infinite.any() else {})


def quantile_crps(predictive: Any, Y: Array) -> Array:
    """CRPS of 999 quantiles as equally likely values, for predictives without their own."""
    K = 999
    values = predictive.quantile((np.arange(K) + 0.5) / K)
    ranks = 2 * np.arange(1, K + 1) - K - 1
    return np.abs(values - Y[:, None]).mean(axis=1) - values @ ranks / K**2


def energy_score(draws: Array, Y: Array) -> Array:
    """E|V - y| - ½ E|V - V'| from draws (Q, n, d), with 10 shifted pairings for the last term."""
    distance = np.linalg.norm(draws - Y[:, None, :], axis=2).mean(axis=1)
    shifts = np.linspace(1, draws.shape[1] // 2, 10).astype(int)
    pairs = [np.linalg.norm(draws - np.roll(draws, s, axis=1), axis=2).mean(axis=1) for s in shifts]
    return distance - 0.5 * np.mean(pairs, axis=0)


def on_equal_terms(record: dict[str, Any]) -> bool:
    """Whether a record is scored as it is now: those of rounded outputs once were by densities."""
    return "scores" not in record or record["set"] not in ROUNDED or "gap" in record


def versions(method: str) -> dict[str, str]:
    """Versions of the packages a method stands on."""
    found = {}
    for package in ["numpy", "scipy", "scikit-learn", *PACKAGES.get(method, ["kcdo"])]:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "missing"
    return found


def load(path: Path) -> list[dict[str, Any]]:
    """The records of a file, in the order of the splits."""
    lines = path.read_text().splitlines() if path.exists() else []
    return sorted((json.loads(line) for line in lines), key=lambda record: record["split"])


def save(path: Path, records: list[dict[str, Any]]) -> None:
    """Write the records in one step: a stopped run leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".partial")
    beside.write_text("".join(json.dumps(_rounded(record)) + "\n" for record in records))
    os.replace(beside, path)


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return float(f"{value:.6g}") if isinstance(value, float) else value


def benchmark(
    sets: list[str], methods: list[str], most: int | None, folder: Path | None, out: Path, *,
    retry: bool = False, again: bool = False,
) -> None:  # fmt: skip
    """Run what is missing, set by set, all methods of a split after each other.

    ``again`` runs everything anew: a method whose code changed is not compared by older results.
    """
    for name in sets:
        data = problem(name, folder)
        for method in methods:
            path = out / name / f"{method}.jsonl"
            records = [r for r in load(path) if on_equal_terms(r) and not (retry and "error" in r)]
            done = set() if again else {record["split"] for record in records}
            for index in range(splits_of(name, method, min(data.splits, most or data.splits))):
                if index in done:
                    continue
                record = run(name, method, index, data)
                records = [*(r for r in records if r["split"] != index), record]
                save(path, sorted(records, key=lambda r: r["split"]))
                print(_line(record), flush=True)
                if "skipped" in record:
                    break


def _line(record: dict[str, Any]) -> str:
    head = f"{record['set']:18s} {record['method']:18s} {record['split']:2d}"
    if "scores" not in record:
        return f"{head}  {record.get('skipped') or record['error']}"
    numbers = "  ".join(f"{key} {value:.4g}" for key, value in record["scores"].items())
    return f"{head}  {numbers}  ({record['fit_seconds']:.1f} + {record['predict_seconds']:.1f} s)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--sets", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--splits", type=int, help="at most so many splits of each set")
    parser.add_argument("--data", type=Path, help="data folder; default: KCDO_DATA")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--retry", action="store_true", help="run failed splits again")
    parser.add_argument("--again", action="store_true", help="run anew what is there")
    a = parser.parse_args()
    benchmark(a.sets, a.methods, a.splits, a.data, a.out, retry=a.retry, again=a.again)


if __name__ == "__main__":
    main()
