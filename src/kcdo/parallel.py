"""Threads for work that NumPy does outside the interpreter lock.

Kernel values are filled by our own threads while BLAS is held to one thread each: threads that
each start a multi-threaded BLAS fight for the cores and run many times slower.
"""

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from kcdo.errors import InvalidInputError, InvalidTypeError

Result = TypeVar("Result")


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
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer):
        raise InvalidTypeError(
            f"n_jobs must be a whole number of threads, or None for all cores; got {n_jobs!r}."
        )
    if n_jobs == 0:
        raise InvalidInputError("n_jobs must not be 0: give a number of threads, or None for all.")
    return int(n_jobs) if n_jobs > 0 else max(1, cores + 1 + int(n_jobs))


_sharing = threading.RLock()


class shared_property(cached_property[Result]):  # noqa: N801  (it is used as a decorator)
    """A cached property that one of several threads computes, while the others wait for it."""

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None or self.attrname in vars(instance):
            return super().__get__(instance, owner)
        with _sharing:
            return super().__get__(instance, owner)


_worker = threading.local()


@contextmanager
def _in_control() -> Iterator[None]:
    """Let this thread set limits of BLAS, and any other afterwards.

    From version 3.8 on, threadpoolctl heeds the first thread that set one, and no other.
    """
    _free_control()
    try:
        yield
    finally:
        _free_control()


def _free_control() -> None:
    for library in _blas().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


class _BlasLimits:
    """Limits on the threads of BLAS, which are one for the whole process.

    Several callers may ask at the same time, from any thread: the least limit holds, and the last
    to leave restores what was found.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: list[int] = []
        self._outer: Any = None

    def after_fork(self) -> None:
        """Begin anew in a forked process, whose only thread asked for nothing: others did.

        One of them may have held the lock, and is not there to let it go.
        """
        self._lock = threading.Lock()
        if self._asked:
            self._asked = []
            with _in_control():
                self._outer.restore_original_limits()

    def enter(self, limit: int) -> None:
        with self._lock, _in_control():
            outer = self._outer if self._asked else _blas().limit(limits=None)  # the present state
            _blas().limit(limits=min([*self._asked, limit]), user_api="blas")
            self._outer = outer
            self._asked.append(limit)  # last: a limit that BLAS refuses leaves nothing behind

    def leave(self, limit: int) -> None:
        with self._lock, _in_control():
            self._asked.remove(limit)
            if self._asked:
                _blas().limit(limits=min(self._asked), user_api="blas")
            else:
                self._outer.restore_original_limits()


_limits = _BlasLimits()


def _after_fork() -> None:
    """Give a forked process locks of its own: a thread that is not there may have held others."""
    global _sharing
    _sharing = threading.RLock()
    _limits.after_fork()
    if sys.version_info < (3, 12):
        for each in _cached_properties():
            each.lock = threading.RLock()


def _cached_properties() -> Iterator[Any]:
    """Yield the cached properties of all classes of kcdo.

    Before Python 3.12 each has a lock, which is held while the property is computed.
    """
    ours = [m for name, m in list(sys.modules.items()) if name.split(".")[0] == "kcdo"]
    classes = {c for module in ours for c in vars(module).values() if isinstance(c, type)}
    for each in classes:
        yield from (value for value in vars(each).values() if isinstance(value, cached_property))


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def blas_limit(limit: int | None) -> Iterator[None]:
    """Hold BLAS to so many threads; None leaves it alone."""
    if limit is None:
        yield
        return
    _limits.enter(limit)
    try:
        yield
    finally:
        _limits.leave(limit)


def run_threaded(task: Callable[[Any], None], items: Sequence[Any], n_jobs: int | None) -> None:
    """Call ``task`` on every item, on ``n_jobs`` threads, each with a one-threaded BLAS."""
    for _ in ordered_map(task, items, n_jobs):
        pass


def ordered_map(
    function: Callable[[Any], Result], items: Sequence[Any], n_jobs: int | None
) -> Iterator[Result]:
    """Yield ``function(item)`` in order, computed on ``n_jobs`` threads.

    Called from within one of its own threads it works alone: threads do not start threads. A few
    results at most wait to be taken, so that memory stays bounded.
    """
    threads = min(thread_count(n_jobs), len(items))
    yield from mapped_ahead(function, items, threads, 3 * threads + 1)


def mapped_ahead(
    function: Callable[[Any], Result], items: Iterable[Any], threads: int, ahead: int
) -> Iterator[Result]:
    """Yield ``function(item)`` in order, of items that this thread takes as they are needed.

    So many more than there are threads are taken ahead of what was yielded.
    """
    if threads <= 1 or getattr(_worker, "busy", False):
        yield from map(function, items)
        return
    with (
        blas_limit(1),
        ThreadPoolExecutor(threads, initializer=_mark) as pool,
    ):
        pending: deque[Future[Result]] = deque()
        try:
            for item in items:
                pending.append(pool.submit(function, item))
                if len(pending) >= threads + ahead:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:  # an error or Ctrl-C: what has not begun never does
            for future in pending:
                future.cancel()


def _mark() -> None:
    _worker.busy = True


@contextmanager
def alone() -> Iterator[None]:
    """Give this thread a one-threaded BLAS: other threads do the same work beside it."""
    before = getattr(_worker, "busy", False)
    _worker.busy = True
    try:
        with blas_limit(1):
            yield
    finally:
        _worker.busy = before


def scratch(shape: tuple[int, int]) -> NDArray[np.float64] | None:
    """Return an array that this worker thread uses again and again; None outside of workers.

    A large array fresh from the system costs more than filling it. What is returned holds until
    the next call, and goes with the thread.
    """
    if not getattr(_worker, "busy", False):
        return None
    size = shape[0] * shape[1]
    if getattr(_worker, "memory", np.empty(0)).size < size:
        _worker.memory = np.empty(size)
    return _worker.memory[:size].reshape(shape)
