"""What runs the passes of a streamed fit: every chunk by one task, results added by one tree."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kcdo.distributed.trees import Add, TreeSum
from kcdo.errors import InvalidInputError, InvalidTypeError, KcdoError, NotEnoughMemoryError
from kcdo.parallel import alone, blas_limit, mapped_ahead, thread_count
from kcdo.progress import SILENT, Progress

__all__ = ["BegunChunks", "Engine", "LocalEngine", "StreamFacts", "Task", "chunk_value", "naming"]


class Task(ABC):
    """What is done with every chunk; sent to other processes, so it must be picklable."""

    def split(self, number: int, chunk: Any) -> Iterable[Any]:
        """Return what the chunk is taken apart into: items that threads may work on."""
        return [(number, chunk)]

    @abstractmethod
    def __call__(self, item: Any) -> Any:
        """Return the result of one item, None if there is nothing in it."""


@dataclass
class StreamFacts:
    """What reading the data took: rows, bytes and chunks, passes, seconds, chunks done again.

    ``sample`` are the inputs of some rows, drawn at random. Where rows are kept in a folder,
    ``kept_nbytes`` are the bytes of its files, and ``index_nbytes`` the most memory that the index
    takes that finds near rows among them.
    """

    rows: int = 0
    nbytes: int = 0
    chunks: int = 0
    passes: int = 0
    seconds: float = 0.0
    retries: int = 0
    sample: Any = None
    kept_nbytes: int = 0
    index_nbytes: int = 0


class Engine(ABC):
    """Maps tasks over the chunks of one data set, and adds what they return."""

    def __init__(self, progress: Progress = SILENT) -> None:
        self.facts = StreamFacts()
        self._progress = progress
        self._started = time.perf_counter()

    @abstractmethod
    def one(self, number: int, task: Task) -> Any:
        """Return the result of one chunk; raise IndexError if there is no such chunk."""

    def map(self, task: Task, stage: str) -> list[Any]:
        """Return the results of all chunks in their order: small ones."""
        return self.total(_Listed(task), _joined, stage) or []

    def total(self, task: Task, add: Add, stage: str, detail: str = "") -> Any:
        """Return the results of all chunks, added by the fixed tree."""
        self.facts.passes += 1
        with self._progress.stage(stage, detail):
            found = self._total(task, add)
        self.facts.seconds = time.perf_counter() - self._started
        return found

    @abstractmethod
    def _total(self, task: Task, add: Add) -> Any:
        """Run one pass."""

    def _show(self, done: int) -> None:
        if self.facts.chunks:  # known after the first pass
            self._progress.update(done, self.facts.chunks)


class BegunChunks:
    """Chunks of an iterable; those that were looked at are not read again by the next pass.

    Examples
    --------
    >>> chunks = BegunChunks("abc")
    >>> chunks[0], list(chunks), list(chunks)
    ('a', ['a', 'b', 'c'], ['a', 'b', 'c'])
    """

    def __init__(self, source: Iterable[Any]) -> None:
        self._source = source
        self._seen: list[Any] = []
        self._rest: Iterator[Any] | None = None

    def __getitem__(self, number: int) -> Any:
        if self._rest is None:
            self._rest = iter(self._source)
        while len(self._seen) <= number:
            try:
                self._seen.append(next(self._rest))
            except StopIteration:
                raise IndexError(number) from None
        return self._seen[number]

    def __iter__(self) -> Iterator[Any]:
        seen, rest = self._seen, self._rest
        self._seen, self._rest = [], None
        seen.reverse()
        while seen:
            yield seen.pop()  # no longer held here
        yield from self._source if rest is None else rest


class LocalEngine(Engine):
    """Chunks of an iterable, read by this thread and worked on by others."""

    def __init__(
        self,
        source: Iterable[Any],
        n_jobs: int | None = None,
        progress: Progress = SILENT,
    ) -> None:
        super().__init__(progress)
        self._source = source if isinstance(source, BegunChunks) else BegunChunks(source)
        self._threads = thread_count(n_jobs)

    def one(self, number: int, task: Task) -> Any:
        """Return the result of one chunk; raise IndexError if there is no such chunk."""
        chunk = self._source[number]
        with naming(f"chunk {number}"), alone():
            return chunk_value(task, last, number, chunk)

    def _total(self, task: Task, add: Add) -> Any:
        tree, own, current = TreeSum(add), TreeSum(add), 0

        def items() -> Iterator[tuple[int, Any]]:
            for number, chunk in enumerate(self._source):
                with naming(f"chunk {number}"):
                    parts = list(task.split(number, chunk))
                yield from ((number, part) for part in parts)
                yield number, None  # the end of a chunk, also of one without rows

        def result(item: tuple[int, Any]) -> tuple[int, bool, Any]:
            number, part = item
            if part is None:
                return number, True, None
            with naming(f"chunk {number}"):
                return number, False, task(part)

        with blas_limit(1):  # the bits of a product depend on the threads that share it
            for number, ended, value in mapped_ahead(result, items(), self._threads, 1):
                if not ended:
                    own.push(value)
                    continue
                tree.push(own.total())
                current = number + 1
                self._show(current)
        self.facts.chunks = current
        return tree.total()


def chunk_value(task: Task, add: Add, number: int, chunk: Any) -> Any:
    """Return the result of one chunk, whose items are added by a tree of their own."""
    tree = TreeSum(add)
    for part in task.split(number, chunk):
        tree.push(task(part))
    return tree.total()


@contextmanager
def naming(chunk: str) -> Iterator[None]:
    """Say of which chunk an error speaks."""
    try:
        yield
    except KcdoError as error:
        raise type(error)(f"{chunk}: {error}") from error
    except MemoryError as error:
        raise NotEnoughMemoryError(
            f"{chunk} does not fit into memory ({error}): make the chunks smaller."
        ) from error
    except TypeError as error:
        raise InvalidTypeError(f"{chunk}: {error}") from error
    except ValueError as error:
        raise InvalidInputError(f"{chunk}: {error}") from error


def last(first: Any, second: Any) -> Any:
    """Return the later of two results, where one chunk has but one."""
    return second


def _joined(first: list[Any], second: list[Any]) -> list[Any]:
    return first + second


@dataclass(frozen=True)
class _Listed(Task):
    """A task whose results are collected instead of added."""

    task: Task

    def split(self, number: int, chunk: Any) -> Iterable[Any]:
        """Return the chunk as it is: one result each."""
        return [(number, chunk)]

    def __call__(self, item: Any) -> list[Any]:
        """Return the result as a list."""
        number, chunk = item
        return [chunk_value(self.task, last, number, chunk)]
