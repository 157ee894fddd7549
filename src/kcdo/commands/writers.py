"""Rows of a table with columns of answers beside them, as text or JSON lines."""

from __future__ import annotations

from itertools import chain
from typing import Any, BinaryIO, Protocol

import numpy as np
import pandas as pd

from kcdo.arrays import Array
from kcdo.commands.console import DIGITS, csv_line, json_line
from kcdo.commands.contents import Content
from kcdo.commands.formats import Format
from kcdo.commands.packing import Packed
from kcdo.commands.style import Style
from kcdo.commands.text_tables import TextTable


class Writer(Protocol):
    """Writes rows, part by part."""

    def write(self, chunk: Any, added: dict[str, Array]) -> None:
        """Write rows with their new values; where these are NaN there is nothing."""

    def close(self) -> None:
        """Write the end; the file itself belongs to the caller."""


class TextWriter:
    """Rows of a table of text with columns added, everything else as it was."""

    def __init__(self, file: Packed, table: TextTable, added: list[str], style: Style) -> None:
        self._file, self._encoding = file, table.encoding
        self._delimiter, self._style = table.delimiter, style
        line = csv_line(added, table.delimiter)
        self._write([table.header], self._pattern(["%s"]), [[line]])

    def write(self, chunk: Any, added: dict[str, Array]) -> None:
        """Write rows with their new values; rows of NaN leave the fields empty."""
        values = np.column_stack(list(added.values()))
        n_rows, n_added = values.shape
        if self._style.decimal != ".":
            texts = [self._style.formatted(column) for column in values.T]
            quoted = f'"{"%s"}"' if self._style.decimal == self._delimiter else "%s"
            self._write(chunk.records, self._pattern([quoted] * n_added) * n_rows, texts)
            return
        patterns = [self._pattern([DIGITS] * n_added)] * n_rows
        for i in np.flatnonzero(np.isnan(values).all(axis=1)):
            patterns[i] = self._pattern(["%.0s"] * n_added)  # takes a value, and writes nothing
        self._write(chunk.records, "".join(patterns), [column.tolist() for column in values.T])

    def close(self) -> None:
        """Finish what is compressed."""
        self._file.close()

    def _pattern(self, added: list[str]) -> str:
        """Return the pattern of a row: what is kept of it, what is added, the end of its line."""
        return self._delimiter.join(["%s", *added]) + "%s"

    def _write(self, records: list[str], pattern: str, added: list[list[Any]]) -> None:
        """Write rows by one pattern for all of them: rows one by one would take twice as long."""
        kept = [record.rstrip("\r\n") for record in records]
        ends = [record[len(k) :] or "\n" for record, k in zip(records, kept, strict=True)]
        fields = zip(kept, *added, ends, strict=True)
        text = pattern % tuple(chain.from_iterable(fields))
        self._file.write(text.encode(self._encoding))


class FieldWriter:
    """Rows of any table with columns added, as text with another delimiter or from other kinds."""

    def __init__(self, file: Packed, delimiter: str, columns: list[str], style: Style) -> None:
        self._file, self._delimiter, self._style = file, delimiter, style
        self._columns: list[str] | None = columns  # until the header is written

    def write(self, chunk: Any, added: dict[str, Array]) -> None:
        """Write rows with their new values; NaN leaves a field empty."""
        kept = chunk.fields()
        new = {name: self._style.formatted(values) for name, values in added.items()}
        header = (
            None if self._columns is None else csv_line([*self._columns, *new], self._delimiter)
        )
        self._columns = None
        frame = pd.concat([kept, pd.DataFrame(new, dtype=object)], axis=1)
        text = frame.to_csv(sep=self._delimiter, header=False, index=False, lineterminator="\n")
        self._file.write(f"{header}\n{text}".encode() if header is not None else text.encode())

    def close(self) -> None:
        """Finish what is compressed."""
        self._file.close()


class JsonWriter:
    """Rows of any table with columns added, as JSON lines."""

    def __init__(self, file: Packed, contents: list[Content]) -> None:
        self._file, self._contents = file, contents

    def write(self, chunk: Any, added: dict[str, Array]) -> None:
        """Write rows with their new values; NaN is null."""
        frame = chunk.typed(self._contents).astype(object).assign(**added)
        rows = frame.where(frame.notna(), None).to_dict("records")
        self._file.write("".join(map(json_line, rows)).encode())

    def close(self) -> None:
        """Finish what is compressed."""
        self._file.close()


def write_columns(file: BinaryIO, name: str, form: Format, columns: dict[str, list[Any]]) -> None:
    """Write a table of numbers and texts in some format."""
    if form.table in ("parquet", "feather"):
        import pyarrow as pa  # an extra
        from pyarrow import feather, parquet

        write = parquet.write_table if form.table == "parquet" else feather.write_feather
        write(pa.table(columns), file)
        return
    packed = Packed(file, form.packing, name)
    rows = zip(*columns.values(), strict=True)
    if form.table == "jsonl":
        packed.write(
            "".join(json_line(dict(zip(columns, row, strict=True))) for row in rows).encode()
        )
    else:
        delimiter = "\t" if form.table == "tsv" else ","
        fields = ([_field(value, delimiter) for value in row] for row in rows)
        lines = chain([csv_line(list(columns), delimiter)], map(delimiter.join, fields))
        packed.write("".join(f"{line}\n" for line in lines).encode())
    packed.close()


def _field(value: Any, delimiter: str) -> str:
    return csv_line([value], delimiter) if isinstance(value, str) else DIGITS % value
