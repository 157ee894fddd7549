"""Fits on a cluster whose workers are killed at random: do they end, and with the same answer?

``python -m benchmarks.faults --fits 200`` starts two worker processes with nannies, and during
each fit kills one of them, by its process id, at a random moment. It prints how many fits ended,
how many hung beyond a timeout, how many raised, and the largest deviation from the answer of one
process.
"""

import argparse
import os
import signal
import threading
import time
from typing import Any

import numpy as np
from dask import delayed

import kcdo
from benchmarks.workers import two_workers

TOLD_EVERY = 20  # fits
RESTART = 15.0  # seconds that a nanny may take


def data(rows: int, chunks: int) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (rows, 3))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.standard_normal(rows)
    return list(zip(np.array_split(X, chunks), np.array_split(y, chunks), strict=True))


def model(options: argparse.Namespace) -> kcdo.ConditionalDensityOperator:
    solver = kcdo.Nystrom(options.centres)
    return kcdo.ConditionalDensityOperator(solver=solver, selection=options.selection)


def answer(fitted: kcdo.ConditionalDensityOperator) -> np.ndarray:
    queries = np.random.default_rng(1).uniform(-1.5, 1.5, (50, 3))
    return fitted.conditional(queries).pdf(np.linspace(-2, 2, 40))


def two_answering(cluster: Any, client: Any) -> list[int]:
    """Return the process ids of two workers that answer; where a nanny gave up, start another."""
    while True:
        try:
            client.wait_for_workers(2, timeout=RESTART)
        except TimeoutError:
            cluster.scale(2)
            continue
        found = list(client.run(os.getpid, on_error="ignore").values())
        if len(found) == 2:
            return found
        time.sleep(0.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=200)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--chunks", type=int, default=24)
    parser.add_argument("--centres", type=int, default=200)
    parser.add_argument("--selection", default="heuristic")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds until a fit hangs")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    chunks = data(options.rows, options.chunks)
    expected = answer(model(options).fit(chunks))
    parts = [delayed(chunk) for chunk in chunks]
    found = {"ended": 0, "hung": 0, "raised": 0, "kills": 0, "chunks done again": 0}
    deviation = 0.0
    with two_workers() as (cluster, client):
        started = time.perf_counter()
        model(options).fit(parts, client=client)
        seconds = time.perf_counter() - started
        for number in range(options.fits):
            outcome: dict[str, object] = {}

            def fit(outcome: dict[str, object] = outcome) -> None:
                try:
                    outcome["model"] = model(options).fit(parts, client=client)
                except Exception as error:
                    outcome["error"] = error

            pids = two_answering(cluster, client)
            thread = threading.Thread(target=fit, daemon=True)
            thread.start()
            thread.join(rng.uniform(0, seconds))
            if thread.is_alive():
                os.kill(pids[rng.integers(2)], signal.SIGKILL)
                found["kills"] += 1
            thread.join(options.timeout)
            if thread.is_alive():
                found["hung"] += 1
            elif "error" in outcome:
                found["raised"] += 1
                print(f"fit {number}: {outcome['error']!r}", flush=True)
            else:
                found["ended"] += 1
                fitted = outcome["model"]
                found["chunks done again"] += fitted.stream_.retries
                deviation = max(deviation, float(np.abs(answer(fitted) - expected).max()))
            if (number + 1) % TOLD_EVERY == 0:
                print(f"{number + 1} fits: {found}, deviation {deviation:g}", flush=True)
    print(f"{options.fits} fits of {options.rows} rows in {options.chunks} chunks")
    for name, count in found.items():
        print(f"  {name}: {count}")
    print(f"  largest deviation from the serial answer: {deviation:g}")


if __name__ == "__main__":
    main()
