"""Time and memory of the command line, as its users start it.

    python -m benchmarks.commands [--rows 100000 1000000] [--out docs/command-line.md]

The model is fitted to 10,000 rows of five columns. ``reading`` is what pandas needs for the same
file; the peak is that of the process. Imports are medians over fresh processes started in turn.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.pages import replace_table

FITTED_ROWS = 10_000
STARTS = 9
IMPORTS = {
    "`import kcdo`": "import kcdo",
    "`import kcdo` and its estimator": "from kcdo import ConditionalDensityOperator",
}


def write_table(path: Path, n_rows: int, seed: int) -> Path:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    y = np.sin(X[:, 0]) + X[:, 1] * rng.choice([-1, 1], n_rows) + 0.2 * rng.normal(size=n_rows)
    frame = pd.DataFrame(np.column_stack([X, y]).round(4), columns=[*"abcd", "y"])
    frame.to_csv(path, index=False)
    return path


def run(*arguments: object) -> tuple[float, float]:
    """Return seconds and peak memory in MB of a command."""
    command = [sys.executable, "-m", "kcdo", *map(str, arguments), "--quiet"]
    started = time.perf_counter()
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    return time.perf_counter() - started, usage.ru_maxrss / 1024


def row(case: str, measured: tuple[float, float], reading: float | None = None) -> str:
    seconds, peak = measured
    beside = "" if reading is None else f"{reading:.1f} s"
    return f"| {case} | {seconds:.1f} s | {beside} | {peak:.0f} MB |"


def imports() -> str:
    """Return one line: seconds from start to end of processes that import, beside scikit-learn."""
    codes = {**IMPORTS, "`import sklearn`": "import sklearn"}
    times: dict[str, list[float]] = {name: [] for name in codes}
    for _ in range(STARTS):
        for name, code in codes.items():
            started = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            times[name].append(time.perf_counter() - started)
    medians = {name: float(np.median(values)) for name, values in times.items()}
    beside = medians.pop("`import sklearn`")
    found = [f"{name} {value:.2f} s ({value / beside:.2f} ×)" for name, value in medians.items()]
    return f"{', '.join(found)}; `import sklearn` {beside:.2f} s."


def measure(folder: Path, lengths: list[int]) -> list[str]:
    data = write_table(folder / "data.csv", FITTED_ROWS, seed=0)
    model, out = folder / "model.kcdo", folder / "out.csv"
    fit = ["fit", data, "--target", "y", "--selection", "heuristic", "-o", model]
    report = ["report", model, "--data", data, "-o", folder / "report.html"]
    lines = [
        row(f"`fit`, {FITTED_ROWS:,} rows", run(*fit)),
        row(f"`predict`, {FITTED_ROWS:,} rows", run("predict", model, data, "-o", out)),
        row(f"`report`, {FITTED_ROWS:,} rows", run(*report)),
    ]
    for n_rows in lengths:
        long = write_table(folder / "long.csv", n_rows, seed=1)
        started = time.perf_counter()
        pd.read_csv(long)
        reading = time.perf_counter() - started
        case = f"`predict`, {n_rows:,} rows"
        lines.append(row(case, run("predict", model, long, "-o", out), reading))
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 300_000, 1_000_000])
    parser.add_argument("--out", type=Path, help="page whose table is replaced")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lines = measure(Path(folder), arguments.rows)
    head = ["| command | time | reading | peak memory |", "|---|---|---|---|"]
    text = "\n".join([*head, *lines, "", imports(), "", f"{os.cpu_count()} cores."])
    print(text)
    if arguments.out:
        replace_table(arguments.out, text)


if __name__ == "__main__":
    main()
