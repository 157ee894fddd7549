"""The passes of a streamed fit: look at every chunk, draw a sample, find near rows, add up.

Rows are numbered through all chunks, those of weight 0 left out. What is drawn depends on these
numbers alone, not on where one chunk ends and the next begins.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array, Integers
from kcdo.distributed.engine import Task
from kcdo.errors import InvalidInputError
from kcdo.fitting import Chunk, NearRowJudges, NearRows, Pilot
from kcdo.kernels import Kernel, after_warps, metric_coordinates, without_warps
from kcdo.systems import KeptRows, NystromSums
from kcdo.validation import Categories

PART_ROWS = 1 << 15  # rows that one thread sums at a time; part of what fixes the bits of a fit


class Reader(Protocol):
    """What turns a chunk of the user into checked arrays."""

    def looked_at(self, chunk: Any) -> tuple[Chunk, Categories]:
        """Return the rows with outputs as they came, and the categories met."""

    def raw(self, chunk: Any) -> Chunk | None:
        """Return the rows with outputs as they came; None of a chunk without rows."""

    def encoded(self, chunk: Any) -> Chunk | None:
        """Return the rows as the fit sees them; None of a chunk without rows."""


@dataclass(frozen=True, eq=False)
class Overview:
    """What one look at chunks finds.

    Attributes
    ----------
    counts : list of int
        Rows of each chunk that have a weight.
    lower, upper : (d,)
        Range of the outputs.
    categories : tuple of pairs
        Each categorical column, and its values with the chunk that each was first met in, in the
        order in which they appear.
    nbytes : int
        Size of the arrays.
    """

    counts: list[int]
    lower: Any = np.inf
    upper: Any = -np.inf
    categories: tuple[tuple[int, dict[Hashable, int]], ...] = ()
    nbytes: int = 0

    @property
    def n_rows(self) -> int:
        """Rows in all."""
        return sum(self.counts)

    @property
    def starts(self) -> list[int]:
        """The number of each chunk's first row."""
        return np.cumsum([0, *self.counts])[:-1].tolist()

    def plus(self, other: "Overview") -> "Overview":
        """Return the overview of these chunks and those that follow."""
        known = {place: dict(values) for place, values in self.categories}
        for place, values in other.categories:
            before = known.setdefault(place, {})
            before.update((value, chunk) for value, chunk in values.items() if value not in before)
        return Overview(
            self.counts + other.counts,
            np.minimum(self.lower, other.lower),
            np.maximum(self.upper, other.upper),
            tuple(known.items()),
            self.nbytes + other.nbytes,
        )

    def codes(self, names: Sequence[str] | None) -> Categories:
        """Return the number of each category; raise where texts and numbers are mixed."""
        for place, values in self.categories:
            texts = [value for value in values if isinstance(value, str)]
            others = [value for value in values if not isinstance(value, str)]
            if texts and others:
                name = repr(names[place]) if names is not None else place
                text, other = texts[0], others[0]
                raise InvalidInputError(
                    f"column {name} has texts such as {text!r} in chunk {values[text]} and numbers "
                    f"such as {other!r} in chunk {values[other]}: give all chunks the same type."
                )
        return {
            place: {value: i for i, value in enumerate(values)} for place, values in self.categories
        }


@dataclass(frozen=True)
class Look(Task):
    """Checks every value of every chunk, and counts."""

    reader: Reader

    def __call__(self, item: Any) -> Overview:
        """Return what there is to know of one chunk."""
        number, chunk = item
        if not len(chunk[0]):
            return Overview([0])
        (X, Y, weights), categories = self.reader.looked_at(chunk)
        met = tuple((place, dict.fromkeys(codes, number)) for place, codes in categories.items())
        nbytes = X.nbytes + Y.nbytes + weights.nbytes
        if not len(X):  # every weight was 0
            return Overview([0], categories=met, nbytes=nbytes)
        return Overview([len(X)], Y.min(axis=0), Y.max(axis=0), met, nbytes)


@dataclass(frozen=True)
class Drawn:
    """Rows with random keys, those of the smallest keys kept."""

    X: NDArray
    Y: Array
    weights: Array
    keys: Array

    def smallest(self, count: int) -> "Drawn":
        """Return the rows of the smallest keys, in their order."""
        if len(self.keys) > count:
            chosen = np.argpartition(self.keys, count)[:count]
            return self._take(chosen[np.argsort(self.keys[chosen])])
        return self._take(np.argsort(self.keys))

    def _take(self, rows: Integers) -> "Drawn":
        return Drawn(self.X[rows], self.Y[rows], self.weights[rows], self.keys[rows])


@dataclass(frozen=True)
class Draw(Task):
    """Draws a uniform sample of the rows: those of the smallest random keys."""

    reader: Reader
    starts: tuple[int, ...]
    count: int
    seed: int

    def __call__(self, item: Any) -> Drawn | None:
        """Return the rows of one chunk that may be in the sample."""
        number, chunk = item
        rows = self.reader.raw(chunk)
        if rows is None or not len(rows[0]):
            return None
        # the stream of one generator over all rows, from this chunk's first row on
        stream = np.random.Generator(np.random.PCG64(self.seed).advance(self.starts[number]))
        return Drawn(*rows, stream.random(len(rows[0]))).smallest(self.count)

    def add(self, first: Drawn, second: Drawn) -> Drawn:
        """Return the sample of the rows of both."""
        parts = zip(vars(first).values(), vars(second).values(), strict=True)
        return Drawn(*(np.concatenate(pair) for pair in parts)).smallest(self.count)


def pilot_of(drawn: Drawn, overview: Overview) -> Pilot:
    """Return what the fit knows before it adds anything up."""
    return Pilot(drawn.X, drawn.Y, drawn.weights, overview.lower, overview.upper, overview.n_rows)


@dataclass(frozen=True, eq=False)
class FindNear(Task):
    """Finds the rows nearest to judged rows: each part of a chunk its own, then those of all."""

    reader: Reader
    judges: NearRowJudges

    def split(self, number: int, chunk: Any) -> Iterable[Chunk]:
        """Return parts of the rows, of about equal size."""
        return _parts(self.reader.encoded(chunk))

    def __call__(self, item: Chunk) -> NearRows:
        """Return the rows of a part that may be among the nearest."""
        return self.judges.nearest(item)

    def add(self, first: NearRows, second: NearRows) -> NearRows:
        """Return the nearest of the rows of both."""
        return self.judges.merged(first, second)


@dataclass(frozen=True, eq=False)
class KeepRows(Task):
    """Writes rows to a folder, with coordinates in the metric of a kernel."""

    reader: Reader
    starts: tuple[int, ...]
    kept: KeptRows
    kernel: Kernel

    def __call__(self, item: Any) -> dict[int, Array] | None:
        """Write one chunk; return the number and the inputs of its first row."""
        number, chunk = item
        rows = self.reader.encoded(chunk)
        if rows is None or not len(rows[0]):
            return None
        X, Y, weights = rows
        points = after_warps(self.kernel, X)
        coordinates = metric_coordinates(without_warps(self.kernel), points)
        first = self.starts[number]
        self.kept.write(first, inputs=X, outputs=Y, weights=weights, coordinates=coordinates)
        return {first: X[0]}

    @staticmethod
    def add(one: dict[int, Array], other: dict[int, Array]) -> dict[int, Array]:
        """Return the first rows of both."""
        return one | other


class Plan(Protocol):
    """What sums are made of."""

    def alone(self) -> "Plan":
        """Return the plan for one of several tasks: it computes on one thread."""

    def empty_sums(self) -> NystromSums:
        """Return sums over no rows."""

    def add(self, sums: NystromSums, chunk: Chunk) -> None:
        """Add rows to the sums."""


def _parts(rows: Chunk | None) -> list[Chunk]:
    """Return rows a part at a time, in one order of memory, on which bits of products depend."""
    if rows is None or not len(rows[0]):
        return []
    X, Y, weights = (np.ascontiguousarray(part) for part in rows)
    edges = np.linspace(0, len(X), -(-len(X) // PART_ROWS) + 1).astype(int)
    slices = [slice(*pair) for pair in pairwise(edges)]
    return [(X[rows], Y[rows], weights[rows]) for rows in slices]


@dataclass(frozen=True, eq=False)
class Sum(Task):
    """Adds up the sums of one plan or several, some rows at a time."""

    reader: Reader
    plans: tuple[Any, ...]

    @classmethod
    def of(cls, reader: Reader, *plans: Plan) -> "Sum":
        """Return the task of some plans, for one of several threads or processes."""
        return cls(reader, tuple(plan.alone() for plan in plans))

    def split(self, number: int, chunk: Any) -> Iterable[Chunk]:
        """Return parts of the rows, of about equal size."""
        return _parts(self.reader.encoded(chunk))

    def __call__(self, item: Chunk) -> tuple[NystromSums, ...]:
        """Return the sums of some rows, one of each plan."""
        found = tuple(plan.empty_sums() for plan in self.plans)
        for plan, sums in zip(self.plans, found, strict=True):
            plan.add(sums, item)
        return found

    @staticmethod
    def add(
        first: tuple[NystromSums, ...], second: tuple[NystromSums, ...]
    ) -> tuple[NystromSums, ...]:
        """Return the sums of the rows of both."""
        return tuple(one.merged(other) for one, other in zip(first, second, strict=True))
