"""Joint outputs: the library and its rivals on sets of 2 to 16 outputs.

    python -m benchmarks.joint [--sets slump ring] [--methods kcdo forest] [--splits N]
                               [--train-rows N] [--data DIR] [--out FILE]
                               [--table [--page docs/accuracy.md]]

Every run adds a line to the file; what is there is not run again. A method whose package is not
installed is skipped, one that fails leaves its error: both are tried again the next time. The
tables are printed at the end, or alone with ``--table``; ``--page`` puts them between the marks of
a page. ``--train-rows`` draws that many training rows of the synthetic sets, whose truth is known,
and takes at most so many of the others.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import scoringrules

from benchmarks.joint_data import NAMES, JointSet, joint_set
from benchmarks.joint_rivals import METHODS, NEEDS, MarginalFits, Marginals
from benchmarks.joint_table import page_text
from experiments.pages import replace_table
from kcdo.arrays import Array

OUT = Path(__file__).parent / "results" / "joint.jsonl"
DRAWS = 128
_IMPOSSIBLE = 100.0  # what an output of density 0 adds to the negative log score

Record = dict[str, Any]


class Split:
    """Rows of one split, and the marginals that several methods share, fitted when first asked."""

    def __init__(self, data: JointSet, index: int, most_rows: int | None) -> None:
        self.data, self.index = data, index
        X, Y, self.X_test, self.Y_test = data.split(index)
        self.X, self.Y = X[:most_rows], Y[:most_rows]
        self._fits: MarginalFits | None = None

    @property
    def fits(self) -> MarginalFits:
        """The univariate defaults of all outputs."""
        if self._fits is None:
            self._fits = MarginalFits(self.X, self.Y)
        return self._fits

    def fitted(self, method: str) -> tuple[Any, float]:
        """Return a fitted method, and the processor time that it would have taken alone."""
        made = METHODS[method]()
        shared = self.fits if isinstance(made, Marginals) else None
        started = time.process_time()
        if shared is None:
            return made.fit(self.X, self.Y), time.process_time() - started
        made.fit_to(shared)
        return made, shared.seconds + time.process_time() - started


def run(split: Split, method: str) -> Record:
    """Fit and score one method on one split; what keeps it from running is recorded."""
    d = split.Y.shape[1]
    record = {"method": method, "split": split.index, "rows": len(split.X), "outputs": d}
    if method in NEEDS and find_spec(NEEDS[method]) is None:
        return record | {"skipped": f"needs the package {NEEDS[method]}"}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted, seconds = split.fitted(method)
            logs = fitted.logpdf_pairs(split.X_test, split.Y_test)
            draws = fitted.sample(split.X_test, DRAWS, 0)
    except Exception as error:  # a method that fails on one split must not stop the others
        return record | {"error": f"{type(error).__name__}: {error}"}
    return record | scores(logs, draws, split.Y_test) | {
        "cpu_seconds": round(seconds, 1),
        "truth": split.data.true_score(split.index),
    }  # fmt: skip


def scores(logs: Array, draws: Array, Y: Array) -> Record:
    """Return the mean scores of log densities (Q,) and draws (Q, n, d)."""
    energy = scoringrules.es_ensemble(Y, draws, estimator="fair", backend="numpy")
    infinite = ~np.isfinite(logs)
    return {
        "nll": float(np.where(infinite, _IMPOSSIBLE, -logs).mean()),
        "energy": float(energy.mean()),
        "infinite": int(infinite.sum()),
    }


def run_missing(
    options: argparse.Namespace, records: list[Record], tell: Callable[[Record], None]
) -> None:
    """Run what the records lack, one split after the other: its methods share their marginals."""
    done = {(r["set"], r["method"], r["split"], r["rows"]) for r in records if "nll" in r}
    for name in options.sets:
        data = joint_set(name, options.data, options.train_rows)
        for index in range(min(options.splits, data.splits)):
            split = Split(data, index, options.train_rows)
            for method in options.methods:
                if (name, method, index, len(split.X)) not in done:
                    tell({"set": name} | run(split, method))


def main() -> None:
    """Run what is missing and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=NAMES, choices=NAMES)
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--train-rows", type=int, help="of synthetic sets; of others at most")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--table", action="store_true", help="print the tables, run nothing")
    parser.add_argument("--page", type=Path, help="a page with the marks of these tables")
    options = parser.parse_args()
    known = options.out.read_text().splitlines() if options.out.exists() else []
    records = [json.loads(line) for line in known]

    def tell(record: Record) -> None:
        records.append(record)
        print(json.dumps(record), flush=True)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        with options.out.open("a") as file:
            file.write(json.dumps(record) + "\n")

    if not options.table:
        run_missing(options, records, tell)
    text = page_text(records)
    print(text)
    if options.page:
        replace_table(options.page, text, "joint")


if __name__ == "__main__":
    main()
