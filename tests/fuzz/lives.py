"""Processes that are killed, forked, threaded, kept alive for long or given little memory.

``python -m tests.fuzz.lives`` runs all and prints a line each; ``--only kills --count 200`` runs
one. tests/test_lives.py runs a few of each with the other tests.
"""

import argparse
import faulthandler
import gc
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

import kcdo

ROOT = Path(__file__).parents[2]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = X[:, 0] + 0.3 * RNG.normal(size=60)


def fitted(seed: int = 0, rows: int = 60) -> Any:
    """Return a small model, the same for one seed."""
    chosen = np.random.default_rng(seed).permutation(60)[:rows]
    return kcdo.ConditionalDensityOperator(selection="heuristic").fit(X[chosen], Y[chosen])


def chosen() -> Any:
    """Return a small model whose parameters were searched for."""
    return kcdo.ConditionalDensityOperator().fit(X[:30], Y[:30])


def answers(model: Any) -> np.ndarray:
    """Return a few numbers that a model says."""
    return model.conditional(X[:5]).quantile([0.1, 0.5, 0.9])


# --- killed in the middle of a save

_SAVER = """
import sys
sys.path.insert(0, {root!r})
from tests.fuzz.lives import fitted
models = [fitted(0), fitted(1)]
print("ready", flush=True)
while True:
    for model in models:
        model.save({path!r})
"""


def kills(count: int) -> str:
    """Kill a process that saves, again and again: a whole model is there each time."""
    wanted = [answers(fitted(seed)) for seed in (0, 1)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.kcdo"
        fitted(0).save(path)
        for number in range(count):
            code = _SAVER.format(root=str(ROOT), path=str(path))
            process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            time.sleep(random.Random(number).uniform(0, 0.05))
            process.kill()
            process.communicate()
            found = answers(kcdo.load(path))
            assert any(np.array_equal(found, each) for each in wanted), "half a model"
        for left in Path(folder).iterdir():
            os.utime(left, (0, 0))  # fresh drafts are left alone: another process may write them
        fitted(0).save(path)  # clears away what saves that were killed have left
        assert os.listdir(folder) == [path.name], "a draft was left"
    return f"killed {count} times while saving: the old file or the new one each time"


# --- no room on the disk

_FULL = """
import resource, signal, sys
sys.path.insert(0, {root!r})
from tests.fuzz.lives import fitted
model = fitted(1)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))
try:
    model.save({path!r})
except OSError as error:
    print(type(error).__name__)
"""


def full_disk(count: int) -> str:
    """Let a save run out of room at some byte: the old file stays, and no draft."""
    wanted = answers(fitted(0))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.kcdo"
        fitted(0).save(path)
        size = path.stat().st_size
        for number in range(count):
            room = random.Random(number).randrange(size // 2)
            code = _FULL.format(root=str(ROOT), path=str(path), size=room)
            told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
            assert told.stdout.strip() == "OSError", told.stdout + told.stderr
            assert np.array_equal(answers(kcdo.load(path)), wanted), "the old model is gone"
            assert os.listdir(folder) == ["model.kcdo"], "a draft was left"
    return f"no room for the file {count} times: the old file stayed, no draft was left"


# --- threads and processes


def blas_threads() -> list[int]:
    """Return the threads of each BLAS that is loaded."""
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def threads(count: int) -> str:
    """Ask one model from 16 threads, and fit in several at once; BLAS is as it was."""
    model = fitted(0)
    wanted, others = answers(model), [answers(fitted(seed)) for seed in range(4)]
    default = answers(chosen())
    before = blas_threads()  # of libraries that are all loaded by now
    with ThreadPoolExecutor(16) as pool:
        for found in pool.map(lambda _: answers(model), range(count)):
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
        for seed, found in enumerate(pool.map(lambda s: answers(fitted(s % 4)), range(count))):
            np.testing.assert_allclose(found, others[seed % 4], rtol=1e-7, atol=1e-7)
        few = max(2, count // 100)
        for found in pool.map(lambda _: answers(chosen()), range(few)):
            np.testing.assert_allclose(found, default, rtol=1e-7, atol=1e-7)
    assert blas_threads() == before, f"BLAS has {blas_threads()} threads, had {before}"
    return f"{count} predictions, {count} fits and {few} default fits on 16 threads: as alone"


_HANGS = 300.0  # seconds until a process is said to hang; halfway it says where


def _ask(model: Any, queue: Any) -> None:
    faulthandler.dump_traceback_later(_HANGS / 2, file=sys.__stderr__)
    queue.put((answers(model), answers(fitted(1))))


def processes(count: int) -> str:
    """Fork and spawn while threads predict: the new process predicts and fits as well."""
    model, stop = fitted(0), threading.Event()
    wanted, other = answers(model), answers(fitted(1))

    def busy() -> None:
        while not stop.is_set():
            answers(model)
            fitted(2)

    workers = [threading.Thread(target=busy, daemon=True) for _ in range(3)]
    for worker in workers:
        worker.start()
    try:
        for number in range(count):
            way = "spawn" if number % 8 == 1 else "fork"
            context = multiprocessing.get_context(way)
            queue = context.Queue()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # forks of threads: our point
                process = context.Process(target=_ask, args=(model, queue))
                process.start()
            found = queue.get(timeout=_HANGS)
            process.join()
            np.testing.assert_allclose(found[0], wanted, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(found[1], other, rtol=1e-7, atol=1e-7)
    finally:
        stop.set()
        for worker in workers:
            worker.join()
    return f"{count} processes forked or spawned beside busy threads: the same answers, none hung"


# --- a long life, and little memory


def resident() -> float:
    """Return the memory of this process, in MB."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def long_life(count: int) -> str:
    """Fit and predict many times in one process: memory does not grow."""
    for number in range(max(20, count // 10)):
        answers(fitted(number))
    before = resident()
    for number in range(count):
        answers(fitted(number, rows=50 + number % 10))
    grown = resident() - before
    assert grown < 20.0, f"memory grew by {grown:.0f} MB in {count} fits"
    return f"{count} fits and predictions in one process: memory grew by {grown:.1f} MB"


_LIMITED = """
import resource, sys, time, warnings
sys.path.insert(0, {root!r})
import numpy as np, kcdo
from tests.fuzz.campaign import brief_searches
from tests.fuzz.lives import fitted
fitted(0)
warnings.simplefilter("ignore")
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + {room}, -1))
X = np.random.default_rng(0).normal(size=({rows}, 2))
Y = X[:, :{outputs}] + 0.1 * np.random.default_rng(1).normal(size=({rows}, {outputs}))
start = time.perf_counter()
try:
    with brief_searches():
        kcdo.ConditionalDensityOperator(selection={selection!r}).fit(X, Y)
    print("fitted")
except kcdo.NotEnoughMemoryError as error:
    print(f"refused {{time.perf_counter() - start:.2f}}", error)
"""


def in_little_memory(
    room: int, *, rows: int, outputs: int, selection: str
) -> subprocess.CompletedProcess[str]:
    """Fit in a process that may take so many bytes more; return what it printed."""
    code = _LIMITED.format(
        root=str(ROOT), room=room, rows=rows, outputs=outputs, selection=selection
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def little_memory(count: int) -> str:
    """Fit more than ``ulimit -v`` allows: the fit says so, of a planned size before it begins."""
    longest = 0.0
    for number in range(count):
        room = (number + 1) * 300_000_000
        told = in_little_memory(room, rows=30_000, outputs=1, selection="paper")
        assert "GiB of memory, but" in told.stdout, told.stdout + told.stderr[-2000:]
        longest = max(longest, float(told.stdout.split()[1]))
        for selection, outputs in product(("heuristic", "auto"), (1, 2)):
            room = (4 * number + 1) * 60_000_000
            found = in_little_memory(room, rows=4000, outputs=outputs, selection=selection)
            assert found.stdout.startswith(("fitted", "refused")), found.stdout + found.stderr
    return f"{count} fits too large for ulimit -v: refused within {longest:.1f} s"


LIVES: dict[str, tuple[Callable[[int], str], int]] = {
    "kills": (kills, 200),
    "full-disk": (full_disk, 50),
    "threads": (threads, 2000),
    "processes": (processes, 100),
    "long-life": (long_life, 10_000),
    "little-memory": (little_memory, 3),
}


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=LIVES, nargs="*", default=list(LIVES))
    parser.add_argument("--count", type=int, help="how often, instead of the usual number")
    options = parser.parse_args()
    for name in options.only:
        run, usual = LIVES[name]
        print(run(options.count or usual), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
