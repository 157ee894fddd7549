"""Time and memory of the command line, as its users start it.

    python -m benchmarks.commands [--rows 100000 1000000] [--out docs/command-line.md]

Every command runs once for a model of 10,000 rows of five columns, fitted by default and with
``--selection heuristic``; then ``predict`` of longer files by the latter. Times are those of the
processor with one thread: what a quiet core takes, whatever else the machine does. ``serve`` is
asked for one density and then stopped. ``reading`` is what pandas needs for the same file; the
peak is that of the process. Imports are medians over fresh processes started in turn.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
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
    """Return seconds of the processor and peak memory in MB of a command."""
    process = start(*arguments, "--quiet")
    return finished(process)


def served(model: Path) -> tuple[float, float]:
    """Return the same of a server that answers one question."""
    process = start("serve", model, "--port", "0", "--max-seconds", "600", "--json")
    url = json.loads(process.stdout.readline())["url"]
    body = json.dumps({"at": dict.fromkeys("abcd", 0)}).encode()
    asked = urllib.request.Request(f"{url}density", body, {"Content-Type": "application/json"})
    urllib.request.urlopen(asked).read()
    process.send_signal(signal.SIGINT)
    return finished(process)


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "kcdo", *map(str, arguments)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE if arguments[0] == "serve" else None,
        text=True,
    )


def finished(process: subprocess.Popen[str]) -> tuple[float, float]:
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{process.args} failed")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def row(case: str, measured: tuple[float, float], reading: float | None = None) -> str:
    seconds, peak = measured
    beside = "" if reading is None else f"{reading:.1f} s"
    return f"| {case} | {seconds:.1f} s | {beside} | {peak:.0f} MB |"


def imports() -> str:
    """Return one line: seconds of processes that import, beside scikit-learn."""
    codes = {**IMPORTS, "`import sklearn`": "import sklearn"}
    times: dict[str, list[float]] = {name: [] for name in codes}
    for _ in range(STARTS):
        for name, code in codes.items():
            process = subprocess.Popen([sys.executable, "-c", code])
            usage = os.wait4(process.pid, 0)[2]
            times[name].append(usage.ru_utime + usage.ru_stime)
    medians = {name: float(np.median(values)) for name, values in times.items()}
    beside = medians.pop("`import sklearn`")
    found = [f"{name} {value:.2f} s ({value / beside:.2f} ×)" for name, value in medians.items()]
    return f"{', '.join(found)}; `import sklearn` {beside:.2f} s."


def commands(folder: Path, data: Path, selection: list[str]) -> dict[str, list[object]]:
    """Return every command on a table and its model."""
    model = folder / "model.kcdo"
    at = ["--at", "a=0,b=0,c=0,d=0"]
    return {
        "`fit`": ["fit", data, "--target", "y", *selection, "-o", model],
        "`fit --test 0.2 --calibrate 0.2`": [
            *("fit", data, "--target", "y", *selection, "--test", "0.2", "--calibrate", "0.2"),
            *("-o", folder / "calibrated.kcdo"),
        ],
        "`info`": ["info", model],
        "`predict`": ["predict", model, data, "-o", folder / "out.csv"],
        "`predict --conformal 0.9`": [
            *("predict", folder / "calibrated.kcdo", data, "--conformal", "0.9"),
            *("-o", folder / "out.csv"),
        ],
        "`evaluate`": ["evaluate", model, data],
        "`density`": ["density", model, *at, "-o", folder / "density.csv"],
        "`sample -n 1000`": ["sample", model, *at, "-n", "1000", "-o", folder / "draws.csv"],
        "`plot`": ["plot", model, "--data", data, "-o", folder / "plot.png"],
        "`report`": ["report", model, "--data", data, "-o", folder / "report.html"],
        "`serve`, one density": ["serve"],
        "`compare --methods kcdo`, 5 folds of 2,000 rows": [
            *("compare", data, "--target", "y", *selection, "--methods", "kcdo"),
            *("-o", folder / "compare.html"),
        ],
    }


def both(folder: Path, data: Path) -> list[str]:
    """Return a table of every command, with the default choice of parameters and the quick one."""
    head = "| command, 10,000 rows × 5 columns | default | peak memory | heuristic | peak memory |"
    ways = []
    for name, selection in (("default", []), ("heuristic", ["--selection", "heuristic"])):
        (folder / name).mkdir()
        ways.append((folder / name, commands(folder / name, data, selection)))
    rows = []
    for command in ways[0][1]:
        cells = []
        for place, arguments in ways:
            serves = arguments[command] == ["serve"]
            measured = served(place / "model.kcdo") if serves else run(*arguments[command])
            cells.append(f"{measured[0]:.1f} s | {measured[1]:.0f} MB")
        rows.append(f"| {command} | {' | '.join(cells)} |")
        print(rows[-1], flush=True)
    return [head, "|---|---|---|---|---|", *rows]


def longer(folder: Path, lengths: list[int]) -> list[str]:
    """Return a table of predictions of long files, by the model fitted quickly."""
    model, out = folder / "heuristic" / "model.kcdo", folder / "out.csv"
    lines = ["| command | time | reading | peak memory |", "|---|---|---|---|"]
    for n_rows in lengths:
        long = write_table(folder / "long.csv", n_rows, seed=1)
        started = time.process_time()
        pd.read_csv(long)
        reading = time.process_time() - started
        case = f"`predict`, {n_rows:,} rows"
        lines.append(row(case, run("predict", model, long, "-o", out), reading))
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 300_000, 1_000_000])
    parser.add_argument("--out", type=Path, help="page whose table is replaced")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = write_table(folder / "data.csv", FITTED_ROWS, seed=0)
        lines = [*both(folder, data), "", *longer(folder, arguments.rows)]
    text = "\n".join([*lines, "", imports(), "", "One core."])
    print(text)
    if arguments.out:
        replace_table(arguments.out, text)


if __name__ == "__main__":
    main()
