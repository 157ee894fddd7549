"""Chunks on a Dask cluster: a task each, a tree of tasks that add, and what to do when one fails.

Dask computes again what was on a worker that died: a lost worker costs its chunks and nothing else.
Nothing is scattered, because scattered data cannot be computed again; what tasks share (columns,
centres) is part of the graph.
"""

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from dask.delayed import delayed
from distributed import Client, KilledWorker, wait
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
_TASK_ROWS = 1 << 16  # chunks of fewer rows share a task
_TASKS_PER_WORKER = 4
_GONE = (
    "the Dask scheduler went away or was restarted during the fit; nothing was fitted. Connect a "
    "new client, and fit again."
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
        self.facts.chunks = len(parts)
        self._check_client()

    def one(self, number: int, task: Task) -> Any:
        """Return the result of one chunk; raise IndexError if there is no such chunk."""
        if number >= len(self._parts):
            raise IndexError(number)
        return self._run(task, last, [[number]])

    def _total(self, task: Task, add: Add) -> Any:
        n, size = len(self._parts), self._group_size()
        groups = [list(range(start, min(start + size, n))) for start in range(0, n, size)]
        return self._run(task, add, groups) if groups else None

    def _run(self, task: Task, add: Add, groups: list[list[int]]) -> Any:
        """Return the sum over groups of chunks, each of which is one task."""
        with self._watched(len(groups)) as watch:
            shared = delayed((task, add), traverse=False, pure=False)
            work, plus = delayed(_worked, pure=False), delayed(_added, pure=False)
            # whole groups of 2^j chunks are branches of the tree: the sums are the same for any j
            tree = TreeSum(lambda first, second: plus(shared, first, second))
            for numbers in groups:
                chunks = [(number, self._parts[number]) for number in numbers]
                key = f"kcdo-{watch.topic}-chunk-{numbers[0]}"
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
    def _watched(self, n_tasks: int) -> Iterator["Watch"]:
        """Listen to the tasks of one pass; whatever ends it early cancels them."""
        self._check_client()
        watch = Watch(uuid.uuid4().hex[:12], n_tasks)
        self._client.subscribe_topic(watch.topic, watch.hear)
        try:
            yield watch
        except BaseException as error:  # Ctrl-C too
            if self._client.status != "running":  # nobody is there who could cancel anything
                if isinstance(error, Exception) and not isinstance(error, KcdoError):
                    raise ClusterError(_GONE) from error
                raise
            if watch.future is not None:
                with suppress(Exception):  # the first error counts
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
        future = watch.future
        reached = worked = looked = time.monotonic()
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
            if self._may_work():
                worked = now
            elif now - worked > _LONGEST_WAIT:
                raise ClusterError(
                    f"no worker has been there, or all were paused for want of memory, for "
                    f"{_LONGEST_WAIT:.0f} seconds: start workers, or make the chunks smaller."
                )
        return _value(future)

    def _may_work(self) -> bool:
        """Return whether there is a worker that is not paused."""
        workers = self._client.scheduler_info()["workers"].values()
        return any(worker.get("status") != "paused" for worker in workers)

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
    n_tasks: int
    future: Any = None
    begun: int = 0
    done: set[int] = field(default_factory=set)
    refused: dict[int, tuple[str, str]] = field(default_factory=dict)

    def hear(self, event: Any) -> None:
        """Take notice of an event of a task, whichever thread brings it."""
        _, (kind, number, what) = event
        if kind == "begun":
            self.begun += 1
        elif kind == "done":
            self.done.add(number)
        else:
            self.refused[number] = what

    @property
    def retries(self) -> int:
        """Tasks that began more than once."""
        return max(0, self.begun - self.n_tasks)

    def raise_refused(self) -> None:
        """Raise the error of the first chunk that has one."""
        if self.refused:
            raise Refused(*self.refused[min(self.refused)]).error


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
    tell(topic, ("begun", chunks[0][0], None))
    tree = TreeSum(add)
    with alone():
        for number, part in chunks:
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


def _value(future: Any) -> Any:
    """Return the result of a future that is done."""
    if future.status == "finished":
        found = future.result()
        if isinstance(found, Refused):
            raise found.error
        return found
    if future.status != "error":
        raise ClusterError(_GONE)
    error = future.exception()
    if isinstance(error, KilledWorker):
        raise ClusterError(_died(error)) from error
    raise error


def _died(error: KilledWorker) -> str:
    key = str(error.task)
    what = f"chunk {key.rpartition('-')[2]}" if key.startswith("kcdo-") else f"task {key}"
    address = getattr(error.last_worker, "address", "an unknown address")
    return (
        f"{what}: every worker that took it died, the last at {address}. The usual cause is "
        "memory: make the chunks smaller, or give the workers more."
    )
