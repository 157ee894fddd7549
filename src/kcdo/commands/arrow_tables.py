"""Parquet and Feather files, by pyarrow, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from kcdo.arrays import Array
from kcdo.commands.columns import Place, with_numbers
from kcdo.commands.contents import Content, named
from kcdo.commands.kinds import Kind
from kcdo.commands.naming import Role, check_distinct
from kcdo.commands.packing import Span, Stream, StreamTable
from kcdo.errors import InvalidInputError

_TYPES = {Content.WHOLE: pa.int64(), Content.NUMBER: pa.float64(), Content.TEXT: pa.string()}
_CONTENTS = {kind: content for content, kind in _TYPES.items()}


@dataclass(frozen=True)
class ArrowChunk:
    """Some rows of a columnar file."""

    batch: Any
    place: Place

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def frame(self, roles: dict[str, Role]) -> pd.DataFrame:
        """Return columns as their types say, and as floats those that must be numeric."""
        found = self.batch.select(list(roles)).to_pandas(ignore_metadata=True)
        return with_numbers(found, roles, self.place)

    def fields(self) -> pd.DataFrame:
        """Return all columns as they are written in a field, by their positions."""
        # as objects, counts beside a gap stay counts
        found = self.batch.to_pandas(ignore_metadata=True, integer_object_nulls=True)
        return found.set_axis(range(found.shape[1]), axis=1)

    def typed(self, contents: list[Content]) -> pd.DataFrame:
        """Return all columns, which have types of their own, by their names."""
        return self.batch.to_pandas(ignore_metadata=True, integer_object_nulls=True)


class ArrowTable(StreamTable):
    """A Parquet or Feather file.

    Attributes
    ----------
    columns : list of str
        Names of the columns.
    schema : pyarrow.Schema
        Names and types.
    size : int
        Groups of rows.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream, self._parquet = stream, stream.kind is Kind.PARQUET
        with _explained(stream.name):
            file: Any = stream.file
            self._source = pq.ParquetFile(file) if self._parquet else pa.ipc.open_file(file)
            schema = self._source.schema_arrow if self._parquet else self._source.schema
        self.schema = schema
        self.columns = list(schema.names)
        check_distinct(self.columns, stream.name)
        groups = "num_row_groups" if self._parquet else "num_record_batches"
        self.size = int(getattr(self._source, groups))
        self._done = 0

    def spans(self, rows: int) -> Iterator[Span]:
        """Yield groups of rows that have at least so many rows together, none without rows."""
        start, row, count = 0, 1, 0
        for group in range(self.size):
            count += self._rows_of(group)
            if count >= rows or (count and group == self.size - 1):
                yield Span(start, group + 1, row)
                start, row, count = group + 1, row + count, 0

    def _rows_of(self, group: int) -> int:
        if self._parquet:
            return int(self._source.metadata.row_group(group).num_rows)
        return int(self._source.get_batch(group).num_rows)

    @property
    def form(self) -> str:
        """What tables read as one must have in common besides their columns."""
        return f"columns of the types {', '.join(map(str, self.schema.types))}"

    def position(self) -> int:
        """Return how many of the file's ``size`` groups of rows have been read."""
        return self._done

    def chunks(self, rows: int) -> Iterator[ArrowChunk]:
        """Yield the rows, once."""
        return self.within(Span(0, self.size, 1), rows)

    def within(self, span: Span, rows: int) -> Iterator[ArrowChunk]:
        """Yield the rows of a span."""
        start = span.row
        with _explained(self._stream.name):
            for batch in self._batches(range(span.start, span.stop), rows):
                for first in range(0, batch.num_rows, rows):
                    part = batch.slice(first, rows)
                    yield ArrowChunk(part, Place(self._stream.name, start))
                    start += part.num_rows

    def _batches(self, groups: range, rows: int) -> Iterator[Any]:
        for group in groups:
            if self._parquet:
                yield from self._source.iter_batches(rows, row_groups=[group])
            else:
                yield self._source.get_batch(group)
            self._done = group + 1


class ArrowWriter:
    """Rows of a table with columns added, as Parquet or Feather."""

    def __init__(
        self, file: BinaryIO, schema: pa.Schema, added: list[str], *, parquet: bool
    ) -> None:
        fields = [pa.field(name, pa.float64()) for name in added]
        self._kept = schema
        self._schema = pa.schema([*schema, *fields], metadata=schema.metadata)
        if parquet:
            self._sink: Any = pq.ParquetWriter(file, self._schema)
        else:
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            self._sink = pa.ipc.new_file(file, self._schema, options=options)

    def write(self, chunk: Any, added: dict[str, Array]) -> None:
        """Write rows with their new values; NaN is written as null."""
        new = [pa.array(values, pa.float64(), from_pandas=True) for values in added.values()]
        arrays = [*self._arrays(chunk), *new]
        self._sink.write_table(pa.Table.from_arrays(arrays, schema=self._schema))

    def close(self) -> None:
        """Write the end of the file, which belongs to the caller."""
        self._sink.close()

    def _arrays(self, chunk: Any) -> list[Any]:
        if isinstance(chunk, ArrowChunk):
            return list(chunk.batch.columns)
        contents = [_CONTENTS[kind] for kind in self._kept.types]
        frame = chunk.typed(contents)
        pairs = zip(frame, self._kept.types, strict=True)
        return [pa.array(frame[name], kind, from_pandas=True) for name, kind in pairs]


def schema_of(columns: list[str], contents: list[Content]) -> pa.Schema:
    """Return the types of columns that hold such contents."""
    return pa.schema(list(zip(named(columns), (_TYPES[c] for c in contents), strict=True)))


@contextmanager
def _explained(name: str) -> Iterator[None]:
    try:
        yield
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"{name} cannot be read: {error}") from error
