"""Tables of the accuracy benchmark, redrawn from its result files.

    python -m benchmarks.accuracy_table [--results DIR] [--out docs/accuracy.md]

A cell is the mean over a method's splits ± its standard error. Methods may have run on different
numbers of splits, so two of them are compared on the splits they share: one *beats* the other if
its mean is better by more than its standard error. Strictly, as splits vary more than methods do,
the standard error should be that of the differences; the summary counts both ways.
"""

import argparse
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy import OUT, load, on_equal_terms
from experiments.data import PROBLEMS
from experiments.pages import replace_table
from experiments.rivals import METHODS

Scores = dict[str, dict[str, dict[int, float]]]  # set -> method -> split -> score

LOG_SCORE = "Negative log score"
RANKED = "CRPS (energy score for the donut)"
TITLES = {LOG_SCORE: ["nll"], RANKED: ["crps", "energy"]}
DONUT = [f"L1 at x = {x}" for x in (1, 0)]


def read(folder: Path) -> list[dict[str, Any]]:
    """All records on equal terms; parts of test rows become sets of their own, "set (part)"."""
    records = []
    for path in sorted(folder.glob("*/*.jsonl")):
        for record in filter(on_equal_terms, load(path)):
            parts = [key for key in record if key.startswith("scores, ")]
            records.append(record)
            for part in parts:
                name = f"{record['set']} ({part.removeprefix('scores, ')})"
                records.append(record | {"set": name, "scores": record[part]})
    return records


def collect(records: list[dict[str, Any]], keys: list[str]) -> Scores:
    """One score of every set, method and split: the first of the keys that is there."""
    scores: Scores = defaultdict(lambda: defaultdict(dict))
    for record in records:
        known = record.get("scores", {})  # a score may be missing, or be no number
        found = [known[key] for key in keys if np.isfinite(known.get(key, np.nan))]
        if found:
            scores[record["set"]][record["method"]][record["split"]] = found[0]
    return scores


def beats(one: dict[int, float], other: dict[int, float], *, paired: bool = False) -> bool:
    """Whether the first of two methods is better by more than a standard error.

    Its own standard error over the shared splits, or, if ``paired``, that of the differences.
    """
    shared = sorted(one.keys() & other.keys())
    if not shared:
        return False
    differences = np.array([other[i] - one[i] for i in shared])
    noise = differences if paired else np.array([one[i] for i in shared])
    return bool(differences.mean() > standard_error(noise))


def standard_error(values: np.ndarray) -> float:
    """Of the mean; 0 for a single value."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def standing(methods: dict[str, dict[int, float]], *, paired: bool = False) -> dict[str, str]:
    """Marks of the methods of a set: "first", "close" (no method beats it), or ""."""
    unbeaten = [
        m
        for m in methods
        if not any(beats(methods[o], methods[m], paired=paired) for o in methods if o != m)
    ]
    means = {m: _mean_on_shared(m, methods, unbeaten) for m in unbeaten}
    first = {min(means, key=means.__getitem__): "first"} if means else {}
    return dict.fromkeys(methods, "") | dict.fromkeys(unbeaten, "close") | first


def _mean_on_shared(method: str, methods: dict[str, dict[int, float]], among: list[str]) -> float:
    shared = set.intersection(*(set(methods[m]) for m in among)) or set(methods[method])
    return float(np.mean([methods[method][i] for i in shared]))


def score_table(scores: Scores, names: list[str]) -> str:
    """Sets by methods; the first in bold, those within one standard error of it with a star."""
    rows = []
    for data in _ordered_sets(scores):
        marks = standing(scores[data])
        cells = [score_cell(scores[data].get(m, {}), marks.get(m, "")) for m in names]
        rows.append([data, *cells])
    return markdown(["set", *names], rows)


def score_cell(values: dict[int, float], mark: str) -> str:
    """Mean ± standard error over splits, marked; of one split nothing is known of the error."""
    if not values:
        return "–"
    numbers = np.array(list(values.values()))
    spread = f"± {_figure(standard_error(numbers))}" if len(numbers) > 1 else "(one split)"
    text = f"{_figure(numbers.mean())} {spread}"
    return {"first": f"**{text}**", "close": f"{text} \\*"}.get(mark, text)


def _figure(value: float) -> str:
    return f"{value:.3f}" if abs(value) >= 0.1 or value == 0 else f"{value:.2g}"


def summary_table(records: list[dict[str, Any]], names: list[str]) -> str:
    """For each method: how often unbeaten, mean rank, coverage of intervals, time to fit."""
    scores = {title: collect(records, keys) for title, keys in TITLES.items()}
    coverage = _per_set_means(records, "coverage")
    rows = []
    for method in names:
        row = [method]
        for by_set in scores.values():
            row.append(_unbeaten(by_set, method))
        row.append(_number(_mean_rank(scores[LOG_SCORE], method), "{:.1f}"))
        row.append(_number(_mean_rank(scores[RANKED], method), "{:.1f}"))
        row.append(_number(np.mean(coverage.get(method) or [np.nan]), "{:.1%}"))
        seconds = [r["fit_seconds"] for r in records if r["method"] == method and "scores" in r]
        row.append(_number(np.median(seconds or [np.nan]), "{:.1f}"))
        rows.append(row)
    header = ["method", "log score: first or within one s.e. (paired)", "CRPS: the same"]
    header += ["mean rank, log score", "mean rank, CRPS", "coverage of 90 % intervals"]
    return markdown([*header, "median seconds to fit"], rows)


def _unbeaten(scores: Scores, method: str) -> str:
    """Sets where no method beats this one: plainly, by differences, of how many."""
    ran = [methods for methods in scores.values() if method in methods]
    plain, strict = (
        sum(bool(standing(methods, paired=paired)[method]) for methods in ran)
        for paired in (False, True)
    )
    return f"{plain} ({strict}) of {len(ran)}"


def _per_set_means(records: list[dict[str, Any]], key: str) -> dict[str, list[float]]:
    by_method: dict[str, list[float]] = defaultdict(list)
    for methods in collect(records, [key]).values():
        for method, values in methods.items():
            by_method[method].append(float(np.mean(list(values.values()))))
    return by_method


def _mean_rank(scores: Scores, method: str) -> float:
    ranks = []
    for methods in scores.values():
        if method in methods:
            mine = methods[method]
            shared = [(mine, o) for m, o in methods.items() if m != method and mine.keys() & o]
            better = [np.mean([o[i] - me[i] for i in me.keys() & o.keys()]) < 0 for me, o in shared]
            ranks.append(1 + sum(better))
    return float(np.mean(ranks)) if ranks else np.nan


def split_table(records: list[dict[str, Any]], names: list[str]) -> str:
    """How many splits each method ran on each set, or why it did not."""
    cells: dict[str, dict[str, str]] = defaultdict(dict)
    for record in records:
        if "scores" in record:
            done = int(cells[record["set"]].get(record["method"], "0").split()[0])
            cells[record["set"]][record["method"]] = str(done + 1)
        else:
            reason = "skipped" if "skipped" in record else "failed"
            cells[record["set"]].setdefault(record["method"], f"0 {reason}")
    rows = [[s, *(cells[s].get(m, "–") for m in names)] for s in _ordered_sets(cells)]
    return markdown(["set", *names], rows)


def _number(value: float, form: str) -> str:
    return "–" if np.isnan(value) else form.format(value)


def _ordered_sets(scores: dict[str, Any]) -> list[str]:
    known = list(PROBLEMS)
    return sorted(scores, key=lambda s: (known.index(s.split(" (")[0]), s))


def markdown(header: list[str], rows: list[list[str]]) -> str:
    """A table as Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def versions(records: list[dict[str, Any]]) -> str:
    """The versions that the results were made with."""
    found: dict[str, set[str]] = defaultdict(set)
    for record in records:
        for package, number in record["versions"].items():
            found[package].add(number)
    listed = ", ".join(f"{p} {' / '.join(sorted(found[p]))}" for p in sorted(found))
    return f"Versions: {listed}."


def page(folder: Path) -> str:
    """All tables, with headings."""
    records = read(folder)
    present = {record["method"] for record in records}
    names = [m for m in METHODS if m in present]
    blocks = ["### Summary", summary_table(records, names)]
    for title, keys in TITLES.items():
        blocks += [f"### {title}", score_table(collect(records, keys), names)]
    blocks += ["### Coverage of 90 % intervals", score_table_unmarked(records, names, "coverage")]
    blocks += [
        "### Coverage of 50 % intervals",
        score_table_unmarked(records, names, "coverage_50"),
    ]
    donut = [row for key in DONUT for row in _l1_rows(records, names, key)]
    blocks += ["### Donut, N = 2,500, L1 error of p(y, z | x)", markdown(["at", *names], donut)]
    blocks += ["### Splits", split_table(records, names), versions(records)]
    return "\n\n".join(blocks)


def score_table_unmarked(records: list[dict[str, Any]], names: list[str], key: str) -> str:
    """Sets by methods, without a first."""
    scores = collect(records, [key])
    rows = [
        [s, *(score_cell(scores[s].get(m, {}), "").split(" ")[0] for m in names)]
        for s in _ordered_sets(scores)
    ]
    return markdown(["set", *names], rows)


def _l1_rows(records: list[dict[str, Any]], names: list[str], key: str) -> list[list[str]]:
    methods = collect(records, [key])["donut"]
    marks = standing(methods)
    texts = {m: score_cell(methods[m], marks[m]) for m in methods}
    return [[key.removeprefix("L1 at "), *(texts.get(m, "–") for m in names)]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=OUT)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    text = page(arguments.results)
    print(text)
    if arguments.out:
        replace_table(arguments.out, text)


if __name__ == "__main__":
    main()
