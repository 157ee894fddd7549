"""A fit of data in chunks: how each is read, and what the first ones fix for the others."""

import warnings
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kcdo.distributed import Draw, Engine, Look, Overview, Task, pilot_of
from kcdo.errors import InvalidInputError
from kcdo.estimators.base import ConditionalEstimator
from kcdo.estimators.parameters import checked_seed
from kcdo.fitting import Chunk, Pilot, pilot_size
from kcdo.systems import Nystrom
from kcdo.transforms import strictly_inside, transform_for
from kcdo.validation import column_names, warn_few_values

_LEARNT = (
    "_encoder",
    "_flat",
    "_n_outputs",
    "_transform",
    "target_names_",
    "n_features_in_",
    "feature_names_in_",
)


@dataclass(frozen=True, eq=False)
class ChunkReader:
    """Checks chunks (X, y) or (X, y, weight) against the columns of the first one.

    ``estimator`` knows these columns; it may be pickled and need not be fitted.
    """

    estimator: Any

    def looked_at(self, chunk: Any) -> tuple[Chunk, dict[int, dict[Any, int]]]:
        """Return the rows with outputs as they came, and the categories met."""
        other = copy(self.estimator)
        known: dict[int, dict[Any, int]] = {place: {} for place in other._encoder.categories}
        other._encoder = replace(other._encoder, categories=known)
        rows = _read(other, chunk, learn=True)
        if other._transform is not None:
            strictly_inside(other._transform, rows[1])
        return rows, other._encoder.categories

    def raw(self, chunk: Any) -> Chunk | None:
        """Return the rows with outputs as they came; None of a chunk without rows."""
        return _read(self.estimator, chunk) if len(chunk[0]) else None

    def encoded(self, chunk: Any) -> Chunk | None:
        """Return the rows as the fit sees them; None of a chunk without rows."""
        rows = self.raw(chunk)
        return None if rows is None else (rows[0], self.estimator._to_unbounded(rows[1]), rows[2])


@dataclass(frozen=True, eq=False)
class _LearnColumns(Task):
    """Learns from one chunk what its columns are; returns what an estimator keeps of that."""

    estimator: Any

    def __call__(self, item: Any) -> dict[str, Any] | None:
        """Return the attributes, None of a chunk without rows."""
        _, chunk = item
        if not len(chunk[0]):
            return None
        other = copy(self.estimator)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few values in one chunk say nothing of the others
            other._encode(chunk[0], chunk[1], None, least=1)
        return {name: vars(other)[name] for name in _LEARNT if name in vars(other)}


def looked_through(estimator: Any, engine: Engine, options: Nystrom) -> tuple[Overview, Pilot]:
    """Look at all chunks and draw a sample of their rows, as the fit sees them.

    The estimator learns columns, categories and how near bounds are felt.
    """
    _learn_columns(estimator, engine)
    overview: Overview = engine.total(
        Look(ChunkReader(estimator)), Overview.plus, "looking at the chunks"
    )
    engine.facts.rows, engine.facts.nbytes = overview.n_rows, overview.nbytes
    if overview.n_rows < 2:
        raise InvalidInputError(f"Found {overview.n_rows} sample(s) in the chunks; 2 are required.")
    _learn_categories(estimator, overview)
    size = pilot_size(options, overview.n_rows, estimator._effort.streamed)
    seed = checked_seed(estimator.random_state)
    draw = Draw(ChunkReader(estimator), tuple(overview.starts), size, seed)
    drawn = engine.total(draw, draw.add, "sample of the rows")
    return overview, _unbounded(estimator, pilot_of(drawn, overview))


def _learn_columns(estimator: Any, engine: Engine) -> None:
    """Let the first chunk that has rows fix names, types and the number of outputs."""
    number = 0
    while True:
        try:
            learnt = engine.one(number, _LearnColumns(estimator))
        except IndexError:
            raise InvalidInputError("Found 0 sample(s) in the chunks; 2 are required.") from None
        if learnt is not None:
            vars(estimator).update(learnt)
            return
        number += 1


def _learn_categories(estimator: Any, overview: Overview) -> None:
    """Take over the categories of all chunks, numbered in the order in which they appear."""
    names = getattr(estimator, "feature_names_in_", None)
    estimator._encoder = replace(estimator._encoder, categories=overview.codes(names))


def _unbounded(estimator: Any, pilot: Pilot) -> Pilot:
    """Map the outputs of the sample to the whole line, by a transform that the sample fixes."""
    warn_few_values(pilot.Y, estimator.target_names_)
    if estimator.support is None:
        return pilot
    ends = np.vstack([pilot.lower, pilot.upper])
    estimator._transform = transform_for(estimator.support, pilot.Y, pilot.weights, ends)
    return pilot.seen_through(estimator._to_unbounded)


def _read(estimator: Any, chunk: Any, *, learn: bool = False) -> Chunk:
    if len(chunk) not in (2, 3):
        raise InvalidInputError(f"a chunk is (X, y) or (X, y, weight); got {len(chunk)} parts.")
    X, Y, *weight = chunk
    _check_order(estimator, column_names(X))
    # with outputs as they came: how near a bound is felt is not known before all are looked at
    return ConditionalEstimator._encode_more(
        estimator, X, Y, weight[0] if weight else None, learn=learn
    )


def _check_order(estimator: Any, names: list[str] | None) -> None:
    """Say which column is another one than in the first chunk."""
    first = getattr(estimator, "feature_names_in_", None)
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
