"""Joint outputs: the library and its rivals on sets of 2 to 16 outputs.

    python -m benchmarks.joint [--sets slump ring] [--methods kcdo forest] [--splits N] [--rows N]
                               [--data DIR] [--out FILE]

Every run adds a line to the file; what is there is not run again. The table is printed at the end:
negative log score and energy score of standardised outputs, mean ± standard error over splits.
"""

import argparse
import json
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scoringrules

from benchmarks.joint_data import NAMES, JointSet, joint_set
from benchmarks.joint_rivals import METHODS

OUT = Path(__file__).parent / "results" / "joint.jsonl"
DRAWS = 128


def run(data: JointSet, method: str, index: int, most_rows: int | None = None) -> dict[str, Any]:
    """Fit and score one method on one split."""
    X, Y, X_test, Y_test = data.split(index)
    X, Y = X[:most_rows], Y[:most_rows]
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = METHODS[method]().fit(X, Y)
        fit_seconds = time.process_time() - started
        logs = fitted.logpdf_pairs(X_test, Y_test)
        draws = fitted.sample(X_test, DRAWS, 0)
    energy = scoringrules.es_ensemble(Y_test, draws, estimator="fair", backend="numpy")
    infinite = ~np.isfinite(logs)
    return {
        "method": method,
        "split": index,
        "rows": len(X),
        "nll": float(np.where(infinite, 100.0, -logs).mean()),
        "energy": float(energy.mean()),
        "infinite": int(infinite.sum()),
        "cpu_seconds": round(fit_seconds, 1),
        "truth": data.true_score(index),
    }


def table(records: Sequence[dict[str, Any]], score: str) -> str:
    """Return a table of one score: sets down, methods across."""
    names = list(dict.fromkeys(r["set"] for r in records))
    methods = [m for m in METHODS if any(r["method"] == m for r in records)]
    lines = ["| set | " + " | ".join(methods) + " | truth |", "|" + "---|" * (len(methods) + 2)]
    for name in names:
        own = [r for r in records if r["set"] == name]
        cells = [_cell([r[score] for r in own if r["method"] == m]) for m in methods]
        truths = [r["truth"] for r in own if r["truth"] is not None]
        known = _cell(truths) if truths and score == "nll" else "–"
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {known} |")
    return "\n".join(lines)


def _cell(values: Sequence[float]) -> str:
    if not values:
        return "–"
    error = f" ± {np.std(values, ddof=1) / np.sqrt(len(values)):.2g}" if len(values) > 1 else ""
    return f"{np.mean(values):.3f}{error}"


def main() -> None:
    """Run what is missing and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="*", default=NAMES, choices=NAMES)
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--rows", type=int, help="most training rows")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    known = options.out.read_text().splitlines() if options.out.exists() else []
    records = [json.loads(line) for line in known]
    done = {(r["set"], r["method"], r["split"]) for r in records}
    for name in options.sets:
        data = joint_set(name, options.data)
        for index in range(min(options.splits, data.splits)):
            for method in options.methods:
                if (name, method, index) in done:
                    continue
                record = {"set": name} | run(data, method, index, options.rows)
                records.append(record)
                print(json.dumps(record), flush=True)
                with options.out.open("a") as file:
                    file.write(json.dumps(record) + "\n")
    for score in ("nll", "energy"):
        print(f"\n{score}\n\n{table(records, score)}")


if __name__ == "__main__":
    main()
