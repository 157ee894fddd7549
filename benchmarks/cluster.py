"""Streamed fits: on a cluster beside one process, sums beside the arithmetic alone, growth, deaths.

``python -m benchmarks.cluster --rows 1000000 --centres 1000`` prints the tables of
docs/large-data.md. Times are given in seconds of the clock and of processors: on a machine that
does other work as well, only the latter mean something.
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
from pathlib import Path

import numpy as np
from dask import delayed
from scipy.linalg.blas import dsyrk

import kcdo
from benchmarks.workers import two_workers
from kcdo.kernels import cross_gram
from kcdo.parallel import blas_limit


class Files:
    """Chunks of Parquet files, read anew at every pass."""

    def __init__(self, folder: str, rows: int, chunk: int) -> None:
        self.paths = [Path(folder, f"{i:05d}.parquet") for i in range(-(-rows // chunk))]
        self.chunk = chunk

    def write(self, columns: int) -> None:
        import pandas as pd

        for seed, path in enumerate(self.paths):
            rng = np.random.default_rng(seed)
            X = rng.uniform(-2, 2, (self.chunk, columns))
            y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.3 * rng.standard_normal(self.chunk)
            table = pd.DataFrame(X, columns=[f"x{i}" for i in range(columns)])
            table.assign(y=y).to_parquet(path)

    def __iter__(self):
        return map(read, self.paths)


def read(path):
    import pandas as pd

    table = pd.read_parquet(path)
    return table.drop(columns="y").to_numpy(), table["y"].to_numpy()


def model(options, **others):
    settings = {"selection": options.selection, "n_jobs": 2} | others
    return kcdo.ConditionalDensityOperator(solver=kcdo.Nystrom(options.centres), **settings)


class Clock:
    """Seconds of the clock and of processors, of this process and of workers."""

    def __init__(self, client=None):
        self.client = client

    def processors(self):
        own = time.process_time()
        if self.client is None:
            return own
        return own + sum(self.client.run(time.process_time).values())

    def __enter__(self):
        self.wall, self.cpu = time.perf_counter(), self.processors()
        return self

    def __exit__(self, *_):
        self.wall = time.perf_counter() - self.wall
        self.cpu = self.processors() - self.cpu


def arithmetic(plan, files):
    """Seconds of processors for kernel values and ``syrk`` of all rows, and nothing else."""
    m = len(plan.centres)
    buffer, total = np.empty((8192, m)), np.zeros((m, m), order="F")
    spent = 0.0
    with blas_limit(1):
        for X, _ in files:
            started = time.process_time()
            for start in range(0, len(X), 8192):
                some = np.ascontiguousarray(X[start : start + 8192])
                section = cross_gram(
                    plan.kernel, some, plan.centres, out=buffer[: len(some)], n_jobs=1
                )
                total = dsyrk(1.0, section.T, beta=1.0, c=total, lower=1, overwrite_c=1)
            spent += time.process_time() - started
    return spent


def one_process(options, folder, rows):
    """Fit in this process; print seconds, memory and what the sums alone would take, as JSON."""
    import resource

    files = Files(folder, rows, options.chunk_rows)
    with Clock() as clock:
        fitted = model(options).fit(files)
    facts = {
        "rows": rows,
        "wall": clock.wall,
        "cpu": clock.cpu,
        "MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "sum bytes": fitted.sums_.cross.nbytes + fitted.sums_.targets.nbytes,
        "arithmetic": arithmetic(fitted._plan, files),
        "passes": fitted.stream_.passes,
    }
    with Clock() as clock, blas_limit(1):
        for X, y in files:
            sums = fitted._plan.empty_sums()
            fitted._plan.alone().add(sums, (X, y[:, None], np.ones(len(X))))
    facts["sums"] = clock.cpu
    print(json.dumps(facts))


def in_process(options, folder, rows):
    command = [sys.executable, "-m", "benchmarks.cluster", "--one", folder, "--rows", str(rows)]
    command += ["--centres", str(options.centres), "--selection", options.selection]
    command += ["--chunk-rows", str(options.chunk_rows)]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(found.stdout.splitlines()[-1])


def on_cluster(options, folder, rows, kill):
    files = Files(folder, rows, options.chunk_rows)
    parts = [delayed(read)(path) for path in files.paths]
    with two_workers() as (cluster, client):
        client.run(lambda: __import__("kcdo.estimators.conditional"))
        timer = None
        if kill is not None:
            nanny = next(iter(cluster.workers.values()))
            timer = threading.Timer(kill, os.kill, [nanny.pid, signal.SIGKILL])
            timer.start()
        # a worker that dies takes its clock along: with a kill only the time of the wall counts
        with Clock(None if kill else client) as clock:
            fitted = model(options).fit(parts, client=client)
        if timer is not None:
            timer.cancel()
    return {"rows": rows, "wall": clock.wall, "cpu": clock.cpu, "again": fitted.stream_.retries}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 3_000_000, 10_000_000])
    parser.add_argument("--columns", type=int, default=8)
    parser.add_argument("--centres", type=int, default=1000)
    parser.add_argument("--chunk-rows", type=int, default=50_000)
    parser.add_argument("--selection", default="heuristic")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one_process(options, options.one, options.rows[0])
        return
    with tempfile.TemporaryDirectory() as folder:
        Files(folder, max(options.rows), options.chunk_rows).write(options.columns)
        found = [in_process(options, folder, rows) for rows in options.rows]
        print("| rows | clock, s | processors, s | sums, s | arithmetic, s | ratio | MiB |")
        print("|---|---|---|---|---|---|---|")
        for each in found:
            ratio = each["sums"] / each["arithmetic"]
            numbers = [each[name] for name in ("wall", "cpu", "sums", "arithmetic")]
            shown = " | ".join(f"{number:.1f}" for number in numbers)
            print(f"| {each['rows']} | {shown} | {ratio:.2f} | {each['MiB']:.0f} |")
        if len(found) > 1:
            logs = np.log([[each["rows"], each["cpu"]] for each in found])
            print(f"slope of processor seconds: {np.polyfit(*logs.T, 1)[0]:.2f}")
        print(f"bytes of the sums: {found[0]['sum bytes']}")
        here, there = found[0], on_cluster(options, folder, options.rows[0], None)
        for name in ("wall", "cpu"):
            ratio = there[name] / here[name]
            print(
                f"cluster / one process, {name}: {there[name]:.1f} / {here[name]:.1f} = {ratio:.2f}"
            )
        killed = on_cluster(options, folder, options.rows[0], 0.6 * there["wall"])
        print(
            f"with a worker killed: {killed['wall']:.1f} s instead of {there['wall']:.1f} s, "
            f"{killed['again']} tasks again"
        )


if __name__ == "__main__":
    main()
