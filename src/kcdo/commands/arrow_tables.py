"""Parquet and Feather files, by pyarrow, batch by batch."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from kcdo.commands.columns import numbers
from kcdo.commands.naming import check_distinct
from kcdo.errors import InvalidInputError


@dataclass(frozen=True)
class ArrowChunk:
    """Some rows of a columnar file."""

    batch: Any
    start: int  # row of the first, counted from 1

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def frame(self, names: list[str], numeric: set[str]) -> pd.DataFrame:
        """Return columns as their types say, and as floats those that must be numeric."""
        typed = self.batch.select(names).to_pandas(ignore_metadata=True)
        found = {n: numbers(typed[n], self.start) if n in numeric else typed[n] for n in names}
        return pd.DataFrame(found)


class ArrowTable:
    """A Parquet or Feather file; its kind is read off its first bytes.

    Attributes
    ----------
    columns : list of str
        Names of the columns.
    schema : pyarrow.Schema
        Names and types.
    """

    def __init__(self, path: Path, file: BinaryIO, *, parquet: bool) -> None:
        self._path, self._file = path, file
        with _explained(path):
            self._source = pq.ParquetFile(file) if parquet else pa.ipc.open_file(file)
            self.schema = self._source.schema_arrow if parquet else self._source.schema
        self._parquet = parquet
        self.columns = list(self.schema.names)
        check_distinct(self.columns, str(path))
        self.size = self._source.num_row_groups if parquet else self._source.num_record_batches
        self._done = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def position(self) -> int:
        """Return how many of the file's ``size`` groups of rows have been read."""
        return self._done

    def chunks(self, rows: int) -> Iterator[ArrowChunk]:
        """Yield the rows, once."""
        start = 1
        with _explained(self._path):
            for batch in self._batches(rows):
                for first in range(0, batch.num_rows, rows):
                    part = batch.slice(first, rows)
                    yield ArrowChunk(part, start)
                    start += part.num_rows

    def _batches(self, rows: int) -> Iterator[Any]:
        for group in range(self.size):
            if self._parquet:
                yield from self._source.iter_batches(rows, row_groups=[group])
            else:
                yield self._source.get_batch(group)
            self._done = group + 1


class ArrowWriter:
    """Rows of a columnar file with columns added, as Parquet or Feather."""

    def __init__(
        self, file: BinaryIO, table: ArrowTable, added: list[str], *, parquet: bool
    ) -> None:
        fields = [pa.field(name, pa.float64()) for name in added]
        self._schema = pa.schema([*table.schema, *fields], metadata=table.schema.metadata)
        if parquet:
            self._sink: Any = pq.ParquetWriter(file, self._schema)
        else:
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            self._sink = pa.ipc.new_file(file, self._schema, options=options)

    def write(self, chunk: Any, added: dict[str, NDArray[np.floating]]) -> None:
        """Write rows with their new values; NaN is written as null."""
        new = [pa.array(values, pa.float64(), from_pandas=True) for values in added.values()]
        arrays = [*chunk.batch.columns, *new]
        self._sink.write_table(pa.Table.from_arrays(arrays, schema=self._schema))

    def close(self) -> None:
        """Write the end of the file, which belongs to the caller."""
        self._sink.close()


class ArrowTextWriter:
    """Rows of a columnar file with columns added, as CSV."""

    def __init__(self, file: BinaryIO, *, packed: bool) -> None:
        self._file = gzip.GzipFile(fileobj=file, mode="wb", compresslevel=6) if packed else file
        self._packed = packed
        self._fresh = True  # the first rows bring the header

    def write(self, chunk: Any, added: dict[str, NDArray[np.floating]]) -> None:
        """Write rows with their new values; NaN leaves a field empty."""
        # as objects, counts beside a gap stay counts
        kept = chunk.batch.to_pandas(ignore_metadata=True, integer_object_nulls=True)
        kept.assign(**added).to_csv(self._file, header=self._fresh, index=False)
        self._fresh = False

    def close(self) -> None:
        """Finish what is compressed; the file itself belongs to the caller."""
        if self._packed:
            self._file.close()


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"{path} cannot be read: {error}") from error
