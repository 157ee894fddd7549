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
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from dask import delayed

import kcdo
from benchmarks.workers import two_workers

TOLD_EVERY = 20  # fits
RESTART = 60.0  # seconds that a nanny may take


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


class NannyGaveUpError(Exception):
    """One worker alone is left of the cluster."""


def two_answering(client: Any) -> list[int]:
    """Return the process ids of two workers that answer; raise if a nanny gave one up."""
    end = time.monotonic() + RESTART
    while time.monotonic() < end:
        found = list(client.run(os.getpid, on_error="ignore").values())
        if len(found) == 2:
            return found
        time.sleep(0.2)
    raise NannyGaveUpError(f"{len(client.nthreads())} workers after {RESTART} s")


@dataclass
class Tally:
    """What became of the fits so far."""

    found: Counter[str] = field(default_factory=Counter)
    deviation: float = 0.0

    @property
    def fits(self) -> int:
        return self.found["ended"] + self.found["hung"] + self.found["raised"]

    def __str__(self) -> str:
        names = ("ended", "hung", "raised", "kills", "chunks done again")
        counts = ", ".join(f"{name} {self.found[name]}" for name in names)
        return f"{self.fits} fits: {counts}; largest deviation from one process {self.deviation:g}"


def fit_once(options: argparse.Namespace, client: Any, parts: list[Any], kill_after: float) -> Any:
    """Fit, and kill a worker after some seconds; return model, error or None, and if one died."""
    outcome: list[Any] = []

    def fit() -> None:
        try:
            outcome.append(model(options).fit(parts, client=client))
        except Exception as error:
            outcome.append(error)

    pids = two_answering(client)
    thread = threading.Thread(target=fit, daemon=True)
    thread.start()
    thread.join(kill_after)
    killed = thread.is_alive()
    if killed:
        os.kill(pids[int(1e6 * kill_after) % 2], signal.SIGKILL)
    thread.join(options.timeout)
    return (outcome or [None])[0], killed


def fit_until_a_nanny_gives_up(
    options: argparse.Namespace, parts: list[Any], expected: np.ndarray, tally: Tally
) -> None:
    """Fit on one cluster, as often as is left to do."""
    rng = np.random.default_rng([options.seed, tally.fits])
    with two_workers() as (_, client), suppress(NannyGaveUpError):
        started = time.perf_counter()
        model(options).fit(parts, client=client)
        seconds = time.perf_counter() - started
        while tally.fits < options.fits:
            outcome, killed = fit_once(options, client, parts, rng.uniform(0, seconds))
            tally.found["kills"] += killed
            if outcome is None:
                tally.found["hung"] += 1
            elif isinstance(outcome, Exception):
                tally.found["raised"] += 1
                print(repr(outcome), flush=True)
            else:
                tally.found["ended"] += 1
                tally.found["chunks done again"] += outcome.stream_.retries
                deviation = float(np.abs(answer(outcome) - expected).max())
                tally.deviation = max(tally.deviation, deviation)
            if tally.fits % TOLD_EVERY == 0:
                print(tally, flush=True)


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
    chunks, tally, clusters = data(options.rows, options.chunks), Tally(), 0
    expected = answer(model(options).fit(chunks))
    parts = [delayed(chunk) for chunk in chunks]
    while tally.fits < options.fits:  # a nanny that gives up leaves one worker: begin anew
        fit_until_a_nanny_gives_up(options, parts, expected, tally)
        clusters += 1
    print(f"{options.rows} rows in {options.chunks} chunks, {clusters} clusters; {tally}")


if __name__ == "__main__":
    main()
