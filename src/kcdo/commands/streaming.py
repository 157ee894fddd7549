"""Files larger than memory: a fit that reads them in parts, here or on a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from kcdo.commands.columns import Column, labels
from kcdo.commands.console import counted, listed, size_text
from kcdo.commands.errors import UsageError
from kcdo.commands.fitting import unfitted
from kcdo.commands.models import Model
from kcdo.commands.naming import Role, Wanted
from kcdo.commands.options import FitOptions
from kcdo.commands.packing import LineTable, Span
from kcdo.commands.reading import STANDARD
from kcdo.commands.sources import Source, open_table
from kcdo.errors import InvalidInputError
from kcdo.extras import import_extra
from kcdo.progress import duration
from kcdo.training import TrainingTable

PART_ROWS = 1 << 16


@dataclass(frozen=True)
class FilePart:
    """Some rows of one file, which a task of a cluster reads."""

    name: str
    span: Span


@dataclass(frozen=True)
class FileChunks:
    """The rows of files as chunks (X, y) or (X, y, weight), read anew at every pass.

    ``roles`` say how to read each column, none of them a guess.
    """

    source: Source
    wanted: Wanted
    roles: dict[str, Role]
    drop: bool

    @classmethod
    def of(cls, source: Source, wanted: Wanted, *, drop: bool) -> FileChunks:
        """Decide by the first rows which columns hold numbers and which hold names."""
        if STANDARD in source.paths:
            raise UsageError("a streamed fit reads its files several times: - cannot be one.")
        with source.open() as table:
            first = next(iter(table.chunks(PART_ROWS)), None)
            if first is None:
                raise InvalidInputError(f"{source.label} has a header but no rows.")
            frame, decided = first.frame(wanted.roles()), {}
            for name, role in wanted.roles().items():
                column = Column(name, role)
                column.add(frame[name], first.place)
                named = column.first_text is not None or column.role is Role.CATEGORY
                guess = Role.CATEGORY if named else Role.NUMBER
                decided[name] = guess if role is Role.AUTO else role
        return cls(source, wanted, decided, drop)

    def parts(self) -> list[FilePart]:
        """Return what tasks of a cluster read, each a chunk; texts are passed over to cut them."""
        found: list[FilePart] = []
        for name in self.source.paths:
            with self._opened(name) as table:
                found += [FilePart(name, span) for span in table.spans(PART_ROWS)]
        return found

    def read(self, part: FilePart) -> tuple[Any, ...]:
        """Return one part as a chunk."""
        with self._opened(part.name) as table:
            return self._read(table, part.span)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for name in self.source.paths:
            with self._opened(name) as table:
                if isinstance(table, LineTable):  # its spans are found by reading it
                    yield from map(self._chunk, table.chunks(PART_ROWS))
                else:
                    yield from (self._read(table, span) for span in table.spans(PART_ROWS))

    def no_rows(self) -> pd.DataFrame:
        """Return the inputs of no row, each of its type."""
        return pd.DataFrame(
            {
                name: pd.Categorical([]) if self.roles[name] is Role.CATEGORY else np.empty(0)
                for name in self.wanted.given
            }
        )

    def _opened(self, name: str) -> Any:
        return open_table(name, name, self.source.style)

    def _read(self, table: Any, span: Span) -> tuple[Any, ...]:
        pieces = list(map(self._chunk, table.within(span, PART_ROWS)))
        if len(pieces) == 1:
            return pieces[0]
        return tuple(pd.concat(column, ignore_index=True) for column in zip(*pieces, strict=True))

    def _chunk(self, rows: Any) -> tuple[Any, ...]:
        """Return rows without those in which something is missing."""
        frame, place = rows.frame(self.roles), rows.place
        columns: dict[str, Any] = {}
        for name, role in self.roles.items():
            column = Column(name, role)
            column.add(frame[name], place)
            columns[name] = column.parts[0]
        gone = {name: np.asarray(pd.isna(values)) for name, values in columns.items()}
        worst = {name: int(mask.sum()) for name, mask in gone.items() if mask.any()}
        if worst and not self.drop:
            listing = listed(f"{name!r} ({count})" for name, count in worst.items())
            raise InvalidInputError(
                f"missing values in {place.file}: column {listing} of {len(frame)} rows from "
                f"{place.row(0)} on; fill them in, or leave these rows out by --drop-missing."
            )
        kept = ~np.any(list(gone.values()), axis=0)
        table = pd.DataFrame(
            {
                name: pd.Categorical(labels(pd.Series(values[kept])))
                if self.roles[name] is Role.CATEGORY
                else values[kept]
                for name, values in columns.items()
            }
        )
        targets, weights = self.wanted.targets, self.wanted.weights
        found = table[self.wanted.given], table[targets[0] if len(targets) == 1 else targets]
        return found if weights is None else (*found, table[weights])


def fit_stream(
    chunks: FileChunks, options: FitOptions, client: Any, rows_at: str | None = None
) -> tuple[Model, str]:
    """Fit to files in parts; return the model, and one line on what it took."""
    estimator = unfitted(chunks.no_rows(), chunks.wanted, options)
    if client is None:
        estimator.fit(chunks, rows_at=rows_at)
    else:
        delayed = import_extra("dask", extra="dask", what="--cluster and --workers").delayed
        parts = [delayed(chunks.read)(part) for part in chunks.parts()]
        estimator.fit(parts, client=client, rows_at=rows_at)
    model = Model.of(estimator.set_params(verbose=False))
    _remember(model, chunks.source.names, options.seed)
    facts = estimator.stream_
    return model, (
        f"Read {counted(facts.rows, 'row')} ({size_text(facts.nbytes)} as numbers) in "
        f"{counted(facts.chunks, 'chunk')}, {counted(facts.passes, 'time')}, in "
        f"{duration(facts.seconds)}; {counted(facts.retries, 'chunk')} done again."
    )


def _remember(model: Model, files: tuple[str, ...], seed: int) -> None:
    """Keep in the model what commands want to know later, from the sample of its rows."""
    facts = model.estimator.stream_
    position = model.given.index
    table = TrainingTable.of(
        files,
        facts.sample,
        categorical=[position(name) for name in model.categories],
        periods={position(name): period for name, period in model.periods.items()},
        seed=seed,
    )
    model.estimator.training_ = replace(table, n_rows=facts.rows)
