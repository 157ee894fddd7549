"""A fit of data in chunks: how each is read, and what the first ones fix for the others."""

import warnings
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from kcdo.components import StreamEffort
from kcdo.distributed import Draw, Engine, Look, Overview, Task, pilot_of
from kcdo.errors import InvalidInputError
from kcdo.estimators.fitted import FirstColumns, FittedDensity
from kcdo.estimators.parameters import checked_seed
from kcdo.fitting import Chunk, Pilot, pilot_size
from kcdo.systems import Nystrom
from kcdo.validation import Categories, column_names, warn_few_values


@dataclass(frozen=True, eq=False)
class ChunkReader:
    """Checks chunks (X, y) or (X, y, weight) against the columns of the first one.

    ``model`` knows these columns; it may be pickled and need not be fitted.
    """

    model: FittedDensity

    def looked_at(self, chunk: Any) -> tuple[Chunk, Categories]:
        """Return the rows with outputs as they came, and the categories met."""
        other = copy(self.model)
        other._take_categories({place: {} for place in self.model._categories})
        rows = _read(other, chunk, learn=True)
        other._inside(rows[1])
        return rows, other._categories

    def raw(self, chunk: Any) -> Chunk | None:
        """Return the rows with outputs as they came; None of a chunk without rows."""
        return _read(self.model, chunk) if len(chunk[0]) else None

    def encoded(self, chunk: Any) -> Chunk | None:
        """Return the rows as the fit sees them; None of a chunk without rows."""
        rows = self.raw(chunk)
        return None if rows is None else (rows[0], self.model._to_unbounded(rows[1]), rows[2])


@dataclass(frozen=True, eq=False)
class _LearnColumns(Task):
    """Learns from one chunk what its columns are."""

    model: FittedDensity

    def __call__(self, item: Any) -> FirstColumns | None:
        """Return the columns, None of a chunk without rows."""
        _, chunk = item
        if not len(chunk[0]):
            return None
        other = copy(self.model)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few values in one chunk say nothing of the others
            other._encode(chunk[0], chunk[1], None, least=1)
        return other._first_columns()


def looked_through(
    model: FittedDensity, engine: Engine, options: Nystrom, effort: StreamEffort
) -> tuple[Overview, Pilot]:
    """Look at all chunks and draw a sample of their rows, as the fit sees them.

    The model learns columns, categories and how near bounds are felt.
    """
    _learn_columns(model, engine)
    overview: Overview = engine.total(
        Look(ChunkReader(model)), Overview.plus, "looking at the chunks"
    )
    engine.facts.rows, engine.facts.nbytes = overview.n_rows, overview.nbytes
    if overview.n_rows < 2:
        raise InvalidInputError(f"Found {overview.n_rows} sample(s) in the chunks; 2 are required.")
    # numbered in the order in which they appear
    model._take_categories(overview.codes(getattr(model, "feature_names_in_", None)))
    size = pilot_size(options, overview.n_rows, effort)
    seed = checked_seed(model.random_state)
    draw = Draw(ChunkReader(model), tuple(overview.starts), size, seed)
    drawn = engine.total(draw, draw.add, "sample of the rows")
    return overview, _unbounded(model, pilot_of(drawn, overview))


def _learn_columns(model: FittedDensity, engine: Engine) -> None:
    """Let the first chunk that has rows fix names, types and the number of outputs."""
    number = 0
    while True:
        try:
            first: FirstColumns | None = engine.one(number, _LearnColumns(model))
        except IndexError:
            raise InvalidInputError("Found 0 sample(s) in the chunks; 2 are required.") from None
        if first is not None:
            model._take_columns(first)
            return
        number += 1


def _unbounded(model: FittedDensity, pilot: Pilot) -> Pilot:
    """Map the outputs of the sample to the whole line, by a transform that the sample fixes."""
    warn_few_values(pilot.Y, model.target_names_)
    if model.support is None:
        return pilot
    model._take_bounds(pilot.Y, pilot.weights, np.vstack([pilot.lower, pilot.upper]))
    return pilot.seen_through(model._to_unbounded)


def _read(model: FittedDensity, chunk: Any, *, learn: bool = False) -> Chunk:
    if len(chunk) not in (2, 3):
        raise InvalidInputError(f"a chunk is (X, y) or (X, y, weight); got {len(chunk)} parts.")
    X, Y, *weight = chunk
    _check_order(model, column_names(X))
    # with outputs as they came: how near a bound is felt is not known before all are looked at
    return model._checked_more(X, Y, weight[0] if weight else None, learn=learn)


def _check_order(model: FittedDensity, names: list[str] | None) -> None:
    """Say which column is another one than in the first chunk."""
    first = getattr(model, "feature_names_in_", None)
    if names is None or first is None or names == list(first):
        return
    for place, expected in enumerate(first):
        found = repr(names[place]) if place < len(names) else "missing"
        if found != repr(str(expected)):
            raise InvalidInputError(
                f"column {place} is {found}, but {str(expected)!r} in the first chunk: chunks must "
                "have the same columns in the same order."
            )
    raise InvalidInputError(
        f"column {names[len(first)]!r} is not in the first chunk, which has {len(first)} columns."
    )
