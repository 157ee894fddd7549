"""Streamed fits: on a cluster beside one process, sums beside the arithmetic alone, growth, deaths.

``python -m benchmarks.cluster`` prints the tables of docs/large-data.md; ``--rows``, ``--centres``
and ``--selections`` make them smaller. Times are given in seconds of the clock and of processors:
on a machine that does other work as well, only the latter mean something.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from dask import delayed

import kcdo
from benchmarks import labels
from benchmarks.workers import two_workers
from kcdo.distributed import Engine, Sum
from kcdo.kernels import cross_gram
from kcdo.linalg.routines import syrk
from kcdo.parallel import blas_limit

THREADS = 2
BLOCK = 8192  # rows
ARITHMETIC_ROWS = 1_000_000


class Files:
    """Chunks of Parquet files, read anew at every pass."""

    def __init__(self, folder: str, rows: int, chunk: int) -> None:
        self.paths = [Path(folder, f"{i:05d}.parquet") for i in range(-(-rows // chunk))]
        self.chunk = chunk

    def write(self, data: Callable[[int, int], tuple[np.ndarray, np.ndarray]]) -> None:
        import pandas as pd

        for seed, path in enumerate(self.paths):
            X, y = data(self.chunk, seed)
            table = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
            table.assign(y=y).to_parquet(path)

    def __iter__(self):
        return map(read, self.paths)


def waves(columns, rows, seed):
    """Return inputs and outputs of one chunk."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (rows, columns))
    return X, np.sin(2 * X[:, 0]) * X[:, 1] + 0.3 * rng.standard_normal(rows)


def read(path):
    import pandas as pd

    table = pd.read_parquet(path)
    return table.drop(columns="y").to_numpy(), table["y"].to_numpy()


def model(options, **others):
    settings = {"selection": options.selection, "n_jobs": THREADS} | others
    return kcdo.ConditionalDensityOperator(solver=kcdo.Nystrom(options.centres), **settings)


@dataclass
class Pass:
    """One pass over all chunks: what it did, and seconds of the clock and of processors here."""

    task: Any
    wall: float
    cpu: float

    @property
    def sums(self) -> bool:
        return isinstance(self.task, Sum)


@contextmanager
def timed_passes() -> Iterator[list[Pass]]:
    """Note every pass of the fits in the block."""
    found: list[Pass] = []
    total = Engine.total

    def timed(self, task, add, *stage):
        wall, cpu = time.perf_counter(), time.process_time()
        result = total(self, task, add, *stage)
        found.append(Pass(task, time.perf_counter() - wall, time.process_time() - cpu))
        return result

    Engine.total = timed
    try:
        yield found
    finally:
        Engine.total = total


def arithmetic(plans, files, rows):
    """Return seconds of clock and processors for kernel values and ``syrk`` alone.

    They are those of the first rows, a million at most, and grow with the rows by a product.
    """
    some = min(len(files.paths), -(-ARITHMETIC_ROWS // files.chunk))
    factor = rows / (some * files.chunk)
    files = map(read, files.paths[:some])

    def work(X, plan):
        inputs, m = np.ascontiguousarray(X), len(plan.centres)
        buffer, total = np.empty((BLOCK, m)), np.zeros((m, m), order="F")
        for start in range(0, len(inputs), BLOCK):
            some = inputs[start : start + BLOCK]
            section = cross_gram(plan.kernel, some, plan.centres, out=buffer[: len(some)], n_jobs=1)
            syrk(1.0, section.T, total, lower=True)

    wall = cpu = 0.0
    with blas_limit(1), ThreadPoolExecutor(THREADS) as pool:
        while chunks := [X for X, _ in islice(files, 4 * THREADS)]:
            before = time.perf_counter(), time.process_time()
            pairs = [(X, plan) for X in chunks for plan in plans]
            list(pool.map(lambda pair: work(*pair), pairs))
            wall += time.perf_counter() - before[0]
            cpu += time.process_time() - before[1]
    return factor * wall, factor * cpu


def centred_plan(plan):
    """Return what a plan sums over: kernel and centres, of residuals too."""
    return getattr(plan, "plan", plan)


def one_process(options, folder, rows):
    """Fit in this process; print seconds, memory and what the sums alone would take, as JSON."""
    import resource

    files = Files(folder, rows, options.chunk_rows)
    started = time.perf_counter(), time.process_time()
    with timed_passes() as passes:
        fitted = model(options).fit(files)
    wall, cpu = time.perf_counter() - started[0], time.process_time() - started[1]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sums = [each for each in passes if each.sums]
    plans = [centred_plan(plan) for each in sums for plan in each.task.plans]
    alone = arithmetic(plans, files, rows)
    facts = {
        "rows": rows,
        "wall": wall,
        "cpu": cpu,
        "MiB": peak,
        "sums": sum(each.cpu for each in sums),
        "sums wall": sum(each.wall for each in sums),
        "others": sum(each.cpu for each in passes if not each.sums),
        "arithmetic": alone[1],
        "arithmetic wall": alone[0],
        "sum bytes": fitted.sums_.cross.nbytes + fitted.sums_.targets.nbytes,
        "passes": fitted.stream_.passes,
    }
    print(json.dumps(facts))


def in_process(options, folder, rows):
    command = [sys.executable, "-m", "benchmarks.cluster", "--one", folder, "--rows", str(rows)]
    command += ["--centres", str(options.centres), "--selection", options.selection]
    command += ["--chunk-rows", str(options.chunk_rows)]
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(found.stdout.splitlines()[-1])


def on_cluster(options, folder, rows, kill=None):
    """Fit with two workers; with ``kill`` one dies so many seconds after the sums began."""
    files = Files(folder, rows, options.chunk_rows)
    parts = [delayed(read)(path) for path in files.paths]
    with two_workers() as (cluster, client):
        client.run(lambda: __import__("kcdo.estimators.conditional"))
        before = sum(client.run(time.process_time).values()) + time.process_time()
        started = time.perf_counter()
        with timed_passes() as passes, killer(cluster, kill):
            fitted = model(options).fit(parts, client=client)
        wall = time.perf_counter() - started
        # a worker that dies takes its clock along: with a kill only the time of the wall counts
        cpu = sum(client.run(time.process_time).values()) + time.process_time() - before
    (sums,) = [each.wall for each in passes if each.sums][:1]
    again = fitted.stream_.retries
    return {"rows": rows, "wall": wall, "cpu": cpu, "sums": sums, "again": again}


@contextmanager
def killer(cluster, kill):
    """Kill a worker, by its own process id, so many seconds after the first sums began."""
    if kill is None:
        yield
        return
    of = Sum.of

    def begun(reader, *plans):
        nanny = next(iter(cluster.workers.values()))
        timer = threading.Timer(kill, os.kill, [nanny.pid, signal.SIGKILL])
        timer.daemon = True
        timer.start()
        return of(reader, *plans)

    Sum.of = begun
    try:
        yield
    finally:
        Sum.of = of


def print_row(each):
    """Print one row of the table of growth."""
    numbers = [each[name] for name in ("wall", "cpu", "sums", "arithmetic")]
    shown = " | ".join(f"{number:.1f}" for number in numbers)
    ratios = each["sums"] / each["arithmetic"], each["sums wall"] / each["arithmetic wall"]
    both = " | ".join(f"{ratio:.2f}" for ratio in ratios)
    last = f"{each['MiB']:.0f} | {each['passes']}"
    print(f"| {each['rows']:,} | {shown} | {both} | {last} |", flush=True)


def print_growth(options, folder, first):
    """Print the table of one selection, with the slopes of its logarithms."""
    heads = ["rows", "clock, s", "processors, s", "sums, s", "arithmetic, s", "ratio"]
    print(f"| {' | '.join(heads)} | ratio of clocks | MiB | passes |")
    print("|---|---|---|---|---|---|---|---|---|")
    print_row(first)
    found = [first]
    for rows in options.rows[1:]:
        found.append(in_process(options, folder, rows))
        print_row(found[-1])
    if len(found) > 1:
        for name, what in (("cpu", "processor seconds"), ("wall", "clock")):
            logs = np.log([[each["rows"], each[name]] for each in found])
            print(f"slope of {what}: {np.polyfit(*logs.T, 1)[0]:.2f}")
    print(f"bytes of the sums: {first['sum bytes']}", flush=True)


def kept_process(options, folder, rows):
    """Fit with rows that stay in a folder, ask the model, and print sizes and times.

    One of the columns is a label, so that near rows count.
    """
    import resource

    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    files = Files(folder, rows, options.chunk_rows)
    queries, _ = labels.data(1000, 1 << 20)
    with tempfile.TemporaryDirectory(dir=folder) as kept:
        started = time.perf_counter(), time.process_time()
        fitted = model(options).fit(files, rows_at=kept)
        wall, cpu = time.perf_counter() - started[0], time.process_time() - started[1]
        sizes = fitted.stream_.kept_nbytes / rows, fitted.stream_.index_nbytes / rows
        weights = {name: round(w, 2) for name, w in fitted.report_.weights.items()}
        print(f"weights: {weights}")
        print(f"{rows:,} rows kept: {wall:.1f} s by the clock, {cpu:.1f} s of processors")
        print(f"bytes a row: {sizes[0]:.0f} in files, at most {sizes[1]:.0f} of the index")
        print(f"peak of the fit, mapped pages counted in: {peak():.0f} MiB", flush=True)
        for what in ("first, with the index", "again"):
            started = time.perf_counter()
            fitted.conditional(queries).mean()
            seconds = time.perf_counter() - started
            print(f"means of 1,000 queries, {what}: {seconds:.1f} s, peak {peak():.0f} MiB")


def print_cluster(options, folder, here):
    """Print the same fit on two workers, and what a killed one costs."""
    there = on_cluster(options, folder, here["rows"])
    for name in ("wall", "cpu"):
        ratio = there[name] / here[name]
        print(f"cluster / one process, {name}: {there[name]:.1f} / {here[name]:.1f} = {ratio:.2f}")
    chunks = -(-here["rows"] // options.chunk_rows)
    for share in (0.3, 0.5, 0.7):
        killed = on_cluster(options, folder, here["rows"], share * there["sums"])
        cost, work = killed["sums"] - there["sums"], killed["again"] / chunks * there["sums"]
        print(
            f"worker killed after {100 * share:.0f} % of the sums: {killed['sums']:.1f} s instead "
            f"of {there['sums']:.1f} s, {killed['again']} of {chunks} chunks again, "
            f"{work:.1f} s of work" + (f": cost / share = {cost / work:.2f}" if work else ""),
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 3_000_000, 10_000_000])
    parser.add_argument("--columns", type=int, default=8)
    parser.add_argument("--centres", type=int, default=1000)
    parser.add_argument("--chunk-rows", type=int, default=50_000)
    parser.add_argument("--selections", nargs="+", default=["heuristic", "auto"])
    parser.add_argument("--folder", help="where to write the files, for want of room elsewhere")
    parser.add_argument("--no-cluster", action="store_true", help="one process alone")
    parser.add_argument("--kept", action="store_true", help="rows that stay in a folder, alone")
    parser.add_argument("--selection", default="auto", help=argparse.SUPPRESS)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one_process(options, options.one, options.rows[0])
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        data = labels.data if options.kept else partial(waves, options.columns)
        Files(folder, max(options.rows), options.chunk_rows).write(data)
        if options.kept:
            for rows in options.rows:
                kept_process(options, folder, rows)
            return
        for selection in options.selections:
            options.selection = selection
            title = f'selection="{selection}", {options.centres} centres, {THREADS} threads'
            print(f"\n{title}", flush=True)
            first = in_process(options, folder, options.rows[0])
            if not options.no_cluster:
                print_cluster(options, folder, first)
            print_growth(options, folder, first)


if __name__ == "__main__":
    main()
