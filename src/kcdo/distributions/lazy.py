"""Distributions of queries that are computed when asked, in chunks, and kept where they are few."""

import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from kcdo.arrays import Array, Integers
from kcdo.distributions.batch import Batch, join
from kcdo.distributions.layouts import as_points
from kcdo.distributions.sources import BatchSource
from kcdo.errors import InvalidInputError, SignedDensityError
from kcdo.parallel import ordered_map, thread_count

Result = TypeVar("Result")

_CHUNK_ELEMENTS = 1 << 20  # numbers held at a time by a thread: 8 MiB
_CACHE_ELEMENTS = 1 << 22


class LazyBatches:
    """Some of the queries of a source: how questions to them are answered."""

    def __init__(self, source: BatchSource, *, flat: bool, rows: Integers | None = None) -> None:
        self._source = source
        self._flat = flat
        self._rows = np.arange(len(source)) if rows is None else rows
        self._kept: Batch | None = None

    @property
    def n_outputs(self) -> int:
        """Number of outputs d."""
        return self._source.dim

    @property
    def flat(self) -> bool:
        """Whether the one output has no axis: means are (Q,), not (Q, 1)."""
        return self._flat

    def __len__(self) -> int:
        return len(self._rows)

    def each_batch(
        self, answer: Callable[[Batch, slice], Result], n_jobs: int | None = None
    ) -> list[Result]:
        """Return the answers for consecutive chunks of queries, given distributions and places.

        Chunks are worked on by several threads; the distributions of few queries are kept for the
        next question.
        """
        if self._kept is not None:
            return [answer(self._kept, slice(0, len(self)))]
        n_jobs = self._source.n_jobs if n_jobs is None else n_jobs
        parts = self._parts(thread_count(n_jobs))

        def work(part: slice) -> tuple[Result, Batch | None]:
            batch = self._source.batch(self._rows[part])
            small = len(self) * batch.width <= _CACHE_ELEMENTS
            return answer(batch, part), batch if small else None

        results = list(ordered_map(work, parts, n_jobs))
        batches = [batch for _, batch in results if batch is not None]
        if len(batches) == len(parts):
            self._kept = join(batches)
        return [result for result, _ in results]

    def _parts(self, threads: int) -> list[slice]:
        """Return consecutive chunks of queries, as many for each thread."""
        step = max(1, _CHUNK_ELEMENTS // self._source.width)
        if len(self) > step:
            rounds = math.ceil(len(self) / (step * threads))
            step = math.ceil(len(self) / (rounds * threads))
        return [slice(start, start + step) for start in range(0, len(self), step)]

    def _map(self, answer: Callable[[Batch], Array]) -> Array:
        return np.concatenate(self.each_batch(lambda batch, _: answer(batch)))

    def _points(self, y: ArrayLike) -> Array:
        return as_points(y, self._source.dim)

    def _pairs(self, Y: ArrayLike) -> Array:
        points = self._points(Y)
        if len(points) != len(self):
            raise InvalidInputError(
                f"Y must have one row per query: {len(self)} queries, {len(points)} rows."
            )
        return points

    def _need_positive(self, what: str) -> None:
        if self._source.signed:
            raise SignedDensityError(
                f'{what} is not defined for positivity="signed", whose density may be negative: '
                'use positivity="project" or "clip".'
            )

    def _need_one_output(self, what: str) -> None:
        if self.n_outputs > 1:
            raise InvalidInputError(
                f"{what} is defined for one output, here are {self.n_outputs}: take a marginal."
            )
