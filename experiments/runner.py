"""Runs of experiments: one JSON line each, added when it is done, so that a stopped run goes on.

A study is a list of tasks, a table and figures. ``carry_out`` runs the tasks that its folder does
not have yet and writes beside them ``results.json``, ``table.md`` and the figures.
"""

import json
import os
import platform
import re
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from experiments.rivals import NotApplicable

Record = dict[str, Any]

_PACKAGES = ("kcdo", "numpy", "scipy", "scikit-learn", "jax", "flowjax", "optax")


@dataclass(frozen=True)
class Options:
    """What the user asked for: small sizes, fewer seeds, where the data are."""

    quick: bool = False
    seeds: int | None = None
    data: Path | None = None

    def at_most(self, seeds: int) -> int:
        """The number of seeds: those of the study, or fewer if asked."""
        return seeds if self.seeds is None else min(seeds, self.seeds)


@dataclass(frozen=True)
class Outcome:
    """Scores to write down, and arrays that the figures need."""

    scores: dict[str, Any]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class Task:
    """One run: a method on a problem with a seed; ``settings`` say with which sizes."""

    problem: str
    method: str
    seed: int
    settings: dict[str, Any]
    run: Callable[[], Outcome]

    @property
    def key(self) -> str:
        """What makes two runs the same."""
        return _key(self.__dict__)


@dataclass(frozen=True)
class Study:
    """An experiment: what to run, and how to show it.

    ``missing`` says which parts cannot be run here, for lack of data.
    """

    name: str
    tasks: Callable[[Options], list[Task]]
    table: Callable[["Results"], str]
    figures: Callable[["Results"], dict[str, Any]]
    missing: Callable[[Options], list[str]] = lambda options: []


class Results:
    """The records of a study's tasks in its folder, the latest of each, in order."""

    def __init__(self, folder: Path, tasks: Iterable[Task] | None = None) -> None:
        self.folder = folder
        known = {_key(record): record for record in read_lines(folder / "runs.jsonl")}
        wanted = known if tasks is None else [task.key for task in tasks]
        self.records = [known[key] for key in wanted if key in known]

    def of(self, problem: str, method: str) -> list[Record]:
        """The runs of a method on a problem that ended well, by seed."""
        found = [r for r in self.records if (r["problem"], r["method"]) == (problem, method)]
        return sorted((r for r in found if "scores" in r), key=lambda r: r["seed"])

    def values(self, problem: str, method: str, score: str) -> np.ndarray:
        """One score of all runs of a method on a problem."""
        found = [r["scores"].get(score) for r in self.of(problem, method)]
        return np.array([np.nan if value is None else value for value in found], dtype=float)

    def reason(self, problem: str, method: str) -> str | None:
        """Why a method has no scores on a problem, if that was recorded."""
        for record in self.records:
            if (record["problem"], record["method"]) == (problem, method):
                return record.get("skipped") or record.get("error")
        return None

    def problems(self) -> list[str]:
        """The problems, in the order of their first runs."""
        return list(dict.fromkeys(record["problem"] for record in self.records))

    def methods(self, problem: str) -> list[str]:
        """The methods run on a problem, in the order of their first runs."""
        return list(dict.fromkeys(r["method"] for r in self.records if r["problem"] == problem))

    def arrays(self, problem: str, method: str) -> dict[str, np.ndarray] | None:
        """The arrays of the first seed that kept some."""
        for record in self.of(problem, method):
            path = self.folder / "arrays" / f"{_slug(record)}.npz"
            if path.exists():
                with np.load(path) as file:
                    return dict(file)
        return None


def carry_out(
    study: Study,
    options: Options,
    folder: Path,
    say: Callable[[str], None],
    run_all: Callable[[list[Task]], Iterator[Record]] | None = None,
) -> Results:
    """Run what is missing, one by one or as ``run_all`` does; write results and figures."""
    folder.mkdir(parents=True, exist_ok=True)
    for reason in study.missing(options):
        say(f"{study.name}: left out: {reason}")
    tasks = study.tasks(options)
    done = {_key(r) for r in read_lines(folder / "runs.jsonl") if "scores" in r}
    left = [task for task in tasks if task.key not in done]
    if len(left) < len(tasks):
        say(f"{study.name}: {len(tasks) - len(left)} of {len(tasks)} runs are there")
    one_by_one = (run_task(study.name, task, folder) for task in left)
    for number, record in enumerate(run_all(left) if run_all else one_by_one, start=1):
        append_line(folder / "runs.jsonl", record)
        say(f"{study.name} {number}/{len(left)}  {_summary(record)}")
    results = Results(folder, tasks)
    write_results(study, options, results)
    return results


def write_results(study: Study, options: Options, results: Results) -> None:
    """Write ``results.json``, ``table.md`` and the figures as PNG and PDF."""
    content = {
        "experiment": study.name,
        "quick": options.quick,
        "seeds": options.seeds,
        "versions": versions(),
        "machine": {"cores": os.cpu_count(), "platform": platform.platform()},
        "missing": study.missing(options),
        "runs": results.records,
    }
    _replace(results.folder / "results.json", json.dumps(content, indent=1).encode())
    _replace(results.folder / "table.md", study.table(results).encode())
    for name, figure in study.figures(results).items():
        for ending in ("png", "pdf"):
            figure.savefig(results.folder / f"{name}.{ending}", dpi=150)


def run_task(experiment: str, task: Task, folder: Path) -> Record:
    """Run a task; failures are recorded, not raised, so that the other tasks can go on."""
    record: Record = {"experiment": experiment} | {
        key: getattr(task, key) for key in ("problem", "method", "seed", "settings")
    }
    started = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the rivals; the library's are tested elsewhere
            outcome = task.run()
        _keep_arrays(folder / "arrays" / f"{_slug(record)}.npz", outcome.arrays)
        record["scores"] = plain(outcome.scores)
    except NotApplicable as reason:
        record["skipped"] = str(reason)
    except ImportError as error:
        record["skipped"] = f'{error}: pip install "kcdo[rivals]"'
    except Exception as error:
        record["error"] = f"{type(error).__name__}: {error}"
        record["trace"] = traceback.format_exc(limit=-3)[-800:]
    record["seconds"] = round(time.perf_counter() - started, 2)
    return record | {"versions": versions()}


def append_line(path: Path, record: Record) -> None:
    """Add a line in one write, so that it is there whole or, after a crash, not readable at all."""
    line = json.dumps(plain(record)) + "\n"
    # a line torn by a crash must not swallow the next one
    torn = path.exists() and path.stat().st_size and path.read_bytes()[-1:] != b"\n"
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, (("\n" if torn else "") + line).encode())
        os.fsync(handle)
    finally:
        os.close(handle)


def read_lines(path: Path) -> list[Record]:
    """The records of a file; lines torn by a crash are left out."""
    records = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return records


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that numbers depend on."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def plain(value: Any) -> Any:
    """Numbers, texts and containers as JSON has them, six digits, no infinity or NaN."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(item) for item in value]
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(f"{value:.6g}") if np.isfinite(value) else None
    return value


def _key(record: Record) -> str:
    return json.dumps([record[k] for k in ("problem", "method", "seed", "settings")])


def _slug(record: Record) -> str:
    parts = [record["problem"], record["method"], *record["settings"].values()]
    return re.sub(r"[^a-z0-9]+", "-", " ".join(map(str, [*parts, record["seed"]])).lower())


def _keep_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    if arrays:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part.npz")
        np.savez_compressed(part, **arrays)
        os.replace(part, path)


def _replace(path: Path, content: bytes) -> None:
    part = path.with_name(path.name + ".part")
    part.write_bytes(content)
    os.replace(part, path)


def _summary(record: Record) -> str:
    head = f"{record['problem']}, {record['method']}, seed {record['seed']}"
    if "scores" not in record:
        return f"{head}: {record.get('skipped') or record['error']}"
    numbers = [
        f"{k} {v:.4g}" for k, v in record["scores"].items() if isinstance(v, float | int)
    ]  # fmt: skip
    return f"{head}: {', '.join(numbers[:4])} ({record['seconds']:.1f} s)"
