"""Sets with published densities, in the protocol of their benchmark: ours and rivals beside them.

    python -m benchmarks.tabular [--sets california] [--sizes 1000 5000] [--reps 4]
                                 [--methods kcdo qrf] [--out DIR] [--again]
                                 [--table [--page docs/accuracy.md]]

The protocol is that of Izbicki, Rodrigues, "Tabular Foundation Models for Conditional Density
Estimation" (arXiv 2603.26611): the first n rows, ``train_test_split(test_size=0.25,
random_state=rep)``, standardised inputs, densities at 200 even points about the training outputs,
divided by their trapezoid integral. Its stored results are quoted beside ours. Rows of the data
are in another order there, so that figures compare as means, not row by row.

All outputs here are whole numbers, so that each fit is scored a second time: by the probability of
the rounding interval and by coverage of the randomised PIT (``benchmarks/rounded.py``), through its
cdf. Every run adds a line to ``<out>/<set>/<method>.jsonl``; what is there is not run again without
``--again``. ``--table`` prints the tables of all methods that have results, ``--page`` puts them
between the marks of a page.
"""

import argparse
import json
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from benchmarks.accuracy import save, versions
from benchmarks.rounded import rounded_scores, smallest_gap
from experiments.pages import replace_table
from experiments.rivals import METHODS
from kcdo.arrays import Array
from kcdo.datasets.sources import data_folder

OUT = Path(__file__).parent / "results" / "tabular"
SETS = ("cpu_act", "california", "house_8L", "pol")
QUOTED = ("TabPFN-2.5", "TabICL-Quantiles", "CatMLP", "Flow-Spline", "FlexCode-RF", "BART-Hetero")
_POINTS, _BEYOND, _FLOOR = 200, 0.05, 1e-10
_HEAD_LINES = 4  # of a table, before its rows


def split(name: str, n: int, rep: int, folder: Path) -> tuple[Array, Array, Array, Array]:
    """Return inputs and outputs to fit, and to test, of one repetition."""
    with np.load(folder / "tabular" / f"{name}.npz", allow_pickle=False) as file:
        X, y = file["X"][:n].astype(float), file["y"][:n].astype(float).ravel()
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=rep)
    mean, sd = X.mean(axis=0), X.std(axis=0)
    sd[sd == 0] = 1.0
    return (X - mean) / sd, y, (X_test - mean) / sd, y_test


def gap_of(name: str, folder: Path) -> float:
    """Return the smallest gap between outputs of a set, to which they are taken to be rounded."""
    with np.load(folder / "tabular" / f"{name}.npz", allow_pickle=False) as file:
        return smallest_gap(file["y"].astype(float))


def grid_of(y: Array) -> Array:
    """Return the points at which densities are taken."""
    beyond = _BEYOND * np.ptp(y)
    return np.linspace(y.min() - beyond, y.max() + beyond, _POINTS)


def scores(density: Array, grid: Array, y: Array) -> dict[str, float]:
    """Return the protocol's scores of densities (Q, G) on a grid."""
    density = np.maximum(density, 0.0)
    density /= np.trapezoid(density, grid, axis=1)[:, None]
    step = grid[1] - grid[0]
    at = np.array([np.interp(v, grid, p, left=0, right=0) for v, p in zip(y, density, strict=True)])
    inner = np.cumsum(0.5 * step * (density[:, 1:] + density[:, :-1]), axis=1)
    levels = np.hstack([np.zeros((len(y), 1)), inner])
    levels /= levels[:, -1:]
    pit = np.array([np.interp(v, grid, p) for v, p in zip(y, levels, strict=True)])
    return {
        "log_lik": float(np.log(np.maximum(at, _FLOOR)).mean()),
        "CRPS": float(np.trapezoid((levels - (y[:, None] <= grid)) ** 2, grid, axis=1).mean()),
        "coverage_90": float(np.mean(np.abs(pit - 0.5) <= 0.45)),
        "coverage_50": float(np.mean(np.abs(pit - 0.5) <= 0.25)),
    }


def run(name: str, n: int, rep: int, method: str, folder: Path) -> dict[str, Any]:
    """Fit and score one method on one repetition; failures are recorded, not raised."""
    X, y, X_test, y_test = split(name, n, rep, folder)
    record: dict[str, Any] = {"set": name, "n": n, "split": rep, "method": method}
    started = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = METHODS[method](seed=rep, gap=0.0).fit(X, y)
            record["fit_seconds"] = round(time.perf_counter() - started, 2)
            predictive, grid = fitted.conditional(X_test), grid_of(y)
            record["scores"] = scores(predictive.pdf(grid), grid, y_test)
            gap = gap_of(name, folder)
            rows = rounded_scores(fitted, X_test, y_test, gap)
            record["rounded"] = {"gap": gap} | {k: float(v.mean()) for k, v in rows.items()}
    except Exception as error:  # a method that fails on one split must not stop the others
        record["error"] = f"{type(error).__name__}: {error}"
    return record | {"versions": versions(method)}


def load(path: Path) -> list[dict[str, Any]]:
    """Return the records of a file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table(name: str, n: int, methods: Iterable[str], out: Path, folder: Path) -> list[str]:
    """Return the lines of a Markdown table: ours and rivals run here, then published rows."""
    lines = [
        f"**{name}, n = {n:,}**",
        "",
        "| method | log score | CRPS | 90 % covered | 50 % covered "
        "| log probability | 90 %, PIT | 50 %, PIT | seconds | repetitions |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for method in methods:
        records = [r for r in load(out / name / f"{method}.jsonl") if r["n"] == n]
        if records:
            lines.append(_row(method, records))
    published = json.loads((folder / "tabular" / "published.json").read_text())
    for method in QUOTED:
        row = published.get(name, {}).get(str(n), {}).get(method)
        if row:
            lines.append(
                f"| {method} (published) | {row['log_lik']:.3f} | {row['CRPS']:.5g} "
                f"| {row['coverage_90']:.0%} | – | – | – | – | – | – |"
            )
    return [*lines, ""] if len(lines) > _HEAD_LINES else []


def _row(method: str, records: list[dict[str, Any]]) -> str:
    """Return the line of one method: means over its repetitions, and how many failed."""
    good = [r for r in records if "scores" in r]
    failed = [r for r in records if "error" in r]
    told = f"{len(good)}" + (f", {len(failed)} failed: {failed[0]['error']}" if failed else "")
    if not good:
        return f"| {method} {'| – ' * 8}| {told} |"
    by_grid, by_interval = _means(good, "scores"), _means(good, "rounded")
    cells = [f"{by_grid['log_lik']:.3f}", f"{by_grid['CRPS']:.5g}"]
    cells += [f"{by_grid[key]:.0%}" for key in ("coverage_90", "coverage_50")]
    if by_interval:
        cells.append(f"{by_interval['log_prob']:.3f}")
        cells += [f"{by_interval[key]:.0%}" for key in ("coverage_90", "coverage_50")]
    else:
        cells += ["–"] * 3
    seconds = np.mean([r["fit_seconds"] for r in good])
    return f"| {' | '.join([method, *cells])} | {seconds:.1f} | {told} |"


def _means(records: list[dict[str, Any]], part: str) -> dict[str, float]:
    """Return means of one part of the scores, empty if a record is older than it."""
    if not all(part in r for r in records):
        return {}
    return {key: float(np.mean([r[part][key] for r in records])) for key in records[0][part]}


def _tell(a: argparse.Namespace, folder: Path) -> None:
    """Print all tables, and put them on the page if there is one."""
    methods = a.methods or list(METHODS)
    parts = [table(name, n, methods, a.out, folder) for n in a.sizes for name in a.sets]
    text = "\n".join(line for lines in parts for line in lines).strip()
    print(text)
    if a.page:
        replace_table(a.page, text, "tabular")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), help="default: kcdo")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--sizes", nargs="+", type=int, default=[1000])
    parser.add_argument("--reps", type=int, default=4)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--again", action="store_true", help="run anew what is there")
    parser.add_argument("--table", action="store_true", help="print the tables, run nothing")
    parser.add_argument("--page", type=Path, help="a page with the marks of these tables")
    a = parser.parse_args()
    folder = data_folder()
    if a.table:
        _tell(a, folder)
        return
    for name in a.sets:
        for n in a.sizes:
            for method, rep in ((m, r) for m in a.methods or ["kcdo"] for r in range(a.reps)):
                path = a.out / name / f"{method}.jsonl"
                others = [r for r in load(path) if (r["n"], r["split"]) != (n, rep)]
                if a.again or len(others) == len(load(path)):
                    record = run(name, n, rep, method, folder)
                    save(path, sorted([*others, record], key=lambda r: (r["n"], r["split"])))
                    told = [record.get(key) for key in ("scores", "rounded", "error")]
                    print(name, n, method, rep, *told, record.get("fit_seconds"), flush=True)


if __name__ == "__main__":
    main()
