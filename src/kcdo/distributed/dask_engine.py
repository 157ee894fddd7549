"""Chunks on a Dask cluster: a task each, a tree of tasks that add, and what to do when one fails.

Dask computes again what was on a worker that died: a lost worker costs its chunks and nothing else.
Nothing is scattered, because scattered data cannot be computed again; what tasks share (columns,
centres) is part of the graph. Chunks are read by tasks of their own, those that the user made.
"""

import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from dask.delayed import Delayed, delayed
from distributed import Client, Future, KilledWorker, futures_of, wait
from distributed.worker import get_worker

from kcdo import errors
from kcdo.distributed.engine import Engine, Task, chunk_value, last, naming
from kcdo.distributed.trees import Add, TreeSum, combined
from kcdo.errors import ClusterError, InvalidInputError, InvalidTypeError, KcdoError
from kcdo.parallel import alone
from kcdo.progress import SILENT, Progress

__all__ = ["DaskEngine"]

_RETRIES = 2  # of tasks that raise, such as reads that a network breaks; deaths do not count
_POLL = 0.2  # seconds
_LOOK = 2.0  # seconds between looks at the workers, which ask the scheduler
_PATIENCE = 5.0  # seconds that a scheduler may be out of reach
_LONGEST_WAIT = 300.0  # seconds without any worker; some clusters start them when work is there
_LONGEST_PAUSE = 15.0  # seconds in which all workers are paused and none is at a task
_TASK_ROWS = 1 << 16  # chunks of fewer rows share a task
_TASKS_PER_WORKER = 4
_GONE = (
    "the Dask scheduler went away or was restarted during the fit; nothing was fitted. Connect a "
    "new client, and fit again."
)
_CANCELLED = (
    "the tasks of the fit were cancelled: by somebody, by a scheduler that was restarted, or "
    "because a worker died that held scattered data of which the chunks are made, and which cannot "
    "be computed again. Nothing was fitted."
)


class DaskEngine(Engine):
    """Chunks of delayed values or futures, on the cluster of a client."""

    def __init__(self, client: Any, parts: list[Any], progress: Progress = SILENT) -> None:
        super().__init__(progress)
        if not isinstance(client, Client):
            raise InvalidTypeError(
                f"client must be a distributed.Client; got a {type(client).__name__}."
            )
        if client.asynchronous:
            raise InvalidTypeError("client must not be asynchronous: fit waits for its results.")
        self._client, self._parts = client, parts
        self._held: list[Future] = []  # chunks that the first pass finds read already
        self.facts.chunks = len(parts)
        self._check_client()

    def one(self, number: int, task: Task) -> Any:
        """Return the result of one chunk; raise IndexError if there is no such chunk."""
        if number >= len(self._parts):
            self._let_go()
            raise IndexError(number)
        return self._run(task, last, [[number]], hold=True)

    def _total(self, task: Task, add: Add) -> Any:
        n, size = len(self._parts), self._group_size()
        groups = [list(range(start, min(start + size, n))) for start in range(0, n, size)]
        found = self._run(task, add, groups) if groups else None
        self._let_go()
        return found

    def _hold(self, number: int) -> None:
        """Keep a chunk on the cluster, where the next pass finds it."""
        read = [value for value in self._parts[number] if isinstance(value, Delayed)]
        if read:
            self._held += futures_of(self._client.persist(read, retries=_RETRIES))

    def _let_go(self) -> None:
        """Keep no chunk on the cluster."""
        while self._held:
            self._held.pop().release()

    def _run(self, task: Task, add: Add, groups: list[list[int]], *, hold: bool = False) -> Any:
        """Return the sum over groups of chunks, each of which is one task."""
        with self._watched() as watch:
            if hold:
                self._hold(groups[0][0])
            shared = delayed((task, add), name=f"kcdo-{watch.topic}-task", traverse=False)
            work, plus = delayed(_worked, pure=False), delayed(_added, pure=False)
            names = (f"kcdo-{watch.topic}-sum-{i}" for i in count())
            # whole groups of 2^j chunks are branches of the tree: the sums are the same for any j
            tree = TreeSum(lambda a, b: plus(shared, a, b, dask_key_name=next(names)))
            for numbers in groups:
                chunks = [(number, self._parts[number]) for number in numbers]
                key = f"kcdo-{watch.topic}-chunk-{numbers[0]}"
                watch.chunks[key] = numbers
                tree.push(work(shared, watch.topic, chunks, dask_key_name=key))
            watch.future = self._client.compute(tree.total(), retries=_RETRIES)
            return self._awaited(watch)

    def _group_size(self) -> int:
        """Return how many chunks, a power of two, share a task."""
        n, rows = len(self._parts), self.facts.rows
        if not rows:
            return 1  # not known yet
        workers = max(1, len(self._client.nthreads()))
        size = 1
        while 2 * size * rows <= n * _TASK_ROWS and n >= 2 * size * workers * _TASKS_PER_WORKER:
            size *= 2
        return size

    # --- waiting, and what goes wrong meanwhile

    @contextmanager
    def _watched(self) -> Iterator["Watch"]:
        """Listen to the tasks of one pass; whatever ends it early cancels them."""
        watch = Watch(uuid.uuid4().hex[:12])
        try:
            self._check_client()
            self._check_futures()
            self._client.subscribe_topic(watch.topic, watch.hear)
            yield watch
        except BaseException as error:  # Ctrl-C too
            if self._client.status != "running":  # nobody is there who could cancel anything
                if isinstance(error, Exception) and not isinstance(error, KcdoError):
                    raise ClusterError(_GONE) from error
                raise
            with suppress(Exception):  # the first error counts
                self._let_go()
                if watch.future is not None:
                    self._client.cancel([watch.future], force=True)
            raise
        finally:
            self.facts.retries += watch.retries
            with suppress(Exception):
                self._client.unsubscribe_topic(watch.topic)
            if watch.future is not None:
                watch.future.release()  # whoever keeps this frame, as tracebacks do

    def _awaited(self, watch: "Watch") -> Any:
        """Return the result, or raise what kept it from coming."""
        future, standstill = watch.future, Standstill()
        reached = looked = time.monotonic()
        while not future.done():
            try:
                wait([future], timeout=_POLL)
            except TimeoutError:
                pass
            except Exception:  # of which kind depends on the version of distributed
                if not future.cancelled():
                    raise
            watch.raise_refused()
            self._show(len(watch.done))
            now = time.monotonic()
            if self._client.status == "running":
                reached = now
            elif now - reached > _PATIENCE:
                raise ClusterError(_GONE)
            else:
                continue
            if now - looked < _LOOK:
                continue
            looked = now
            standstill.check(self._client.scheduler_info(n_workers=-1)["workers"].values(), now)
        return self._value(watch)

    def _value(self, watch: "Watch") -> Any:
        """Return the result of a pass that has ended, or raise its error, which names a chunk."""
        future = watch.future
        if future.cancelled():
            self._check_futures()
            raise ClusterError(_CANCELLED if self._client.status == "running" else _GONE)
        if future.status != "error":
            found = future.result()  # computed again, should its worker have died by now
            if isinstance(found, Refused):
                raise found.error
            return found
        error = future.exception()
        if isinstance(error, KilledWorker):
            raise ClusterError(_died(self._chunks_of(error.task, watch), error)) from error
        where = self._chunks_of(self._blamed(future), watch)
        with naming(where):
            if isinstance(error, KcdoError | MemoryError | TypeError | ValueError):
                raise error
        raise ClusterError(f"{where}: {type(error).__name__}: {error}") from error

    def _blamed(self, future: Future) -> Any:
        """Return the key of the task that failed; None where the scheduler does not say."""
        with suppress(Exception):
            scheduler: Any = self._client.scheduler
            key = self._client.sync(scheduler.get_error_cause, keys=[future.key])
            return tuple(key) if isinstance(key, list) else key
        return None

    def _chunks_of(self, key: Any, watch: "Watch") -> str:
        """Name the chunks that a task reads or works on; of other tasks, those not done yet."""
        parts = enumerate(self._parts)
        numbers = watch.chunks.get(key) or [i for i, part in parts if _reads(part, key)]
        if not numbers:
            every = sorted(number for group in watch.chunks.values() for number in group)
            numbers = [number for number in every if number not in watch.done] or every
        if len(numbers) == 1:
            return f"chunk {numbers[0]}"
        return f"one of the chunks {numbers[0]} to {numbers[-1]}"

    def _check_futures(self) -> None:
        """Raise if a chunk is a future whose value is gone for good."""
        for number, part in enumerate(self._parts):
            for value in part:
                if isinstance(value, Future) and value.cancelled():
                    raise ClusterError(
                        f"chunk {number} is lost: its future is cancelled, as when a worker died "
                        "that held scattered data, which cannot be computed again. Scatter it once "
                        "more, or give chunks as delayed values or submitted futures."
                    )

    def _check_client(self) -> None:
        if self._client.status != "running":
            raise ClusterError(
                f"the Dask client is {self._client.status}: make a new distributed.Client, or "
                "pass one as client=."
            )


@dataclass
class Watch:
    """What tasks of one pass have said of themselves: begun, done, refused."""

    topic: str
    future: Any = None
    chunks: dict[Any, list[int]] = field(default_factory=dict)  # of each task, by its key
    begun: Counter[int] = field(default_factory=Counter)
    done: set[int] = field(default_factory=set)
    refused: dict[int, tuple[str, str]] = field(default_factory=dict)

    def hear(self, event: Any) -> None:
        """Take notice of an event of a task, whichever thread brings it."""
        _, (kind, number, what) = event
        if kind == "begun":
            self.begun[number] += 1
        elif kind == "done":
            self.done.add(number)
        else:
            self.refused[number] = what

    @property
    def retries(self) -> int:
        """How often chunks were begun again."""
        return sum(self.begun.values()) - len(self.begun)

    def raise_refused(self) -> None:
        """Raise the error of the first chunk that has one."""
        if self.refused:
            raise Refused(*self.refused[min(self.refused)]).error


@dataclass
class Standstill:
    """Since when no worker does anything, and for want of what."""

    want: str = ""
    since: float = 0.0

    def check(self, workers: Any, now: float) -> None:
        """Look at the workers; raise if they have stood still for too long."""
        want = _wanting(list(workers))
        if want != self.want:
            self.want, self.since = want, now
        waited = now - self.since
        if want == "workers" and waited > _LONGEST_WAIT:
            raise ClusterError(f"no worker has been there for {waited:.0f} seconds: start some.")
        if want == "memory" and waited > _LONGEST_PAUSE:
            raise ClusterError(
                f"workers have been paused for want of memory for {waited:.0f} seconds, and chunks "
                "wait for them: make the chunks smaller, or give the workers more."
            )


def _wanting(workers: list[Any]) -> str:
    """Return what is wanting where nobody is at work; tasks stay with a worker that is paused."""
    if not workers:
        return "workers"
    tasks = [worker.get("metrics", {}).get("task_counts", {}) for worker in workers]
    paused = [worker.get("status") == "paused" for worker in workers]
    if any(counts.get("executing") for counts in tasks):
        return ""
    waited_for = any(p and counts.get("ready") for p, counts in zip(paused, tasks, strict=True))
    return "memory" if waited_for or all(paused) else ""


@dataclass(frozen=True)
class Refused:
    """An error that another try would not mend, as the result of a task: its kind and text."""

    kind: str
    text: str

    @property
    def error(self) -> KcdoError:
        """The error, to be raised here instead of on the worker."""
        return getattr(errors, self.kind, InvalidInputError)(self.text)


def _worked(shared: tuple[Task, Add], topic: str, chunks: list[tuple[int, Any]]) -> Any:
    """Return the sum of some chunks: this runs on a worker, with one thread."""
    task, add = shared
    tell = get_worker().log_event
    tree = TreeSum(add)
    with alone():
        for number, part in chunks:
            tell(topic, ("begun", number, None))
            chunk = part[0] if len(part) == 1 else part
            try:
                with naming(f"chunk {number}"):
                    tree.push(chunk_value(task, add, number, chunk))
            except MemoryError:
                raise  # another worker may have more
            except KcdoError as error:
                refused = type(error).__name__, str(error)
                tell(topic, ("refused", number, refused))
                return Refused(*refused)
            tell(topic, ("done", number, None))
    return tree.total()


def _added(shared: tuple[Task, Add], first: Any, second: Any) -> Any:
    """Return the sum of two results, on a worker."""
    for each in (first, second):
        if isinstance(each, Refused):
            return each
    with alone():
        return combined(shared[1], first, second)


def _reads(part: tuple[Any, ...], key: Any) -> bool:
    """Whether a chunk is made by a task, or from what that returns."""

    def is_made_by(value: Any) -> bool:
        if value.key == key or not isinstance(value, Delayed):
            return bool(value.key == key)
        graph: Any = value.__dask_graph__()
        return key in graph.cull([value.key])

    return any(map(is_made_by, part))


def _died(what: str, error: KilledWorker) -> str:
    address = getattr(error.last_worker, "address", "an unknown address")
    return (
        f"{what}: every worker that took it died, the last at {address}. The usual cause is "
        "memory: make the chunks smaller, or give the workers more."
    )
