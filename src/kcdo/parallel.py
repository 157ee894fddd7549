"""Threads for work that NumPy does outside the interpreter lock.

Kernel values are filled by our own threads while BLAS is held to one thread each: threads that
each start a multi-threaded BLAS fight for the cores and run many times slower.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController

from kcdo.errors import InvalidInputError


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    """Return the controller of the loaded BLAS libraries (finding them takes milliseconds)."""
    return ThreadpoolController()


def thread_count(n_jobs: int | None) -> int:
    """Turn scikit-learn's ``n_jobs`` into a number of threads; ``None`` means every core.

    >>> thread_count(3)
    3
    """
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not every system can say which cores are ours
        cores = os.cpu_count() or 1
    if n_jobs is None:
        return cores
    if n_jobs == 0:
        raise InvalidInputError("n_jobs must not be 0: give a number of threads, or None for all.")
    return n_jobs if n_jobs > 0 else max(1, cores + 1 + n_jobs)


def run_threaded(task: Callable[[Any], None], items: Sequence[Any], n_jobs: int | None) -> None:
    """Call ``task`` on every item, on ``n_jobs`` threads, each with a one-threaded BLAS."""
    threads = min(thread_count(n_jobs), len(items))
    if threads <= 1:
        for item in items:
            task(item)
        return
    with _blas().limit(limits=1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(task, items):  # consuming the results re-raises what a thread raised
            pass
