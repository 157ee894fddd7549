"""CSV files: read in chunks that keep every byte of every row."""

from __future__ import annotations

import csv
import gzip
import io
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from operator import methodcaller
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kcdo.commands.columns import MISSING_NUMBERS, numbers
from kcdo.commands.console import DIGITS, csv_line
from kcdo.commands.errors import FileError
from kcdo.commands.naming import check_distinct
from kcdo.errors import InvalidInputError

_DELIMITERS = (",", ";", "\t")
_GZIP = b"\x1f\x8b"
_CHUNK_CHARACTERS = 8_000_000  # of a file that are held at a time
_SNIFFED_LINES = 20


@dataclass(frozen=True)
class TextChunk:
    """Some rows of a CSV file, as they stand there."""

    table: TextTable
    records: list[str]
    start: int  # row of the first record, counted from 1

    def __len__(self) -> int:
        return len(self.records)

    def frame(self, names: list[str], numeric: set[str]) -> pd.DataFrame:
        """Return columns as texts, and as floats those that must be numeric."""
        try:
            return self._parsed(names, numeric)
        except ValueError:  # parse the texts one by one, to say which is no number
            texts = self._parsed(names, set())
            found = {n: numbers(texts[n], self.start) if n in numeric else texts[n] for n in names}
            return pd.DataFrame(found)

    def _parsed(self, names: list[str], numeric: set[str]) -> pd.DataFrame:
        places = {self.table.columns.index(name): name for name in names}
        types: dict[int, Any] = {i: float if name in numeric else str for i, name in places.items()}
        blanks: Any = {i: MISSING_NUMBERS for i, kind in types.items() if kind is float}
        frame = pd.read_csv(
            io.StringIO("".join(self.records)),
            sep=self.table.delimiter,
            header=None,
            names=list(range(len(self.table.columns))),
            usecols=sorted(places),
            index_col=False,
            dtype=types,
            keep_default_na=False,
            na_values=blanks,
            skip_blank_lines=False,
        )
        return frame.rename(columns=places)[names]


class TextTable:
    """A CSV file, plain or compressed by gzip; comma, semicolon or tab are told apart.

    Attributes
    ----------
    columns : list of str
        Names in the header.
    """

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path, self._file = path, file
        self.size = os.fstat(file.fileno()).st_size  # of the compressed file, 0 for a pipe
        packed = file.peek(2)[:2] == _GZIP  # type: ignore[attr-defined]
        source: Any = gzip.GzipFile(fileobj=file) if packed else file
        self._text = io.TextIOWrapper(source, encoding="utf-8", newline="")
        self._lines = self._checked_lines()
        head = list(islice((line for line in self._lines if line.strip()), _SNIFFED_LINES))
        if not head:
            raise InvalidInputError(f"{path} is empty.")
        self.delimiter = _delimiter([head[0].lstrip("\ufeff"), *head[1:]])
        self._line_length = sum(map(len, head)) / len(head)
        self._lines = chain(head, self._lines)
        self.header, fields = next(self._records(self._lines))
        names = fields or self.header.lstrip("\ufeff").rstrip("\r\n").split(self.delimiter)
        self.columns = [name.strip() for name in names]
        check_distinct(self.columns, str(path))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def position(self) -> int:
        """Return how many bytes of the file have been read."""
        return self._file.tell() if self.size else 0

    def chunks(self, rows: int) -> Iterator[TextChunk]:
        """Yield the rows, once: so many at a time, or fewer where they are long."""
        start = 1
        rows = max(1, min(rows, int(_CHUNK_CHARACTERS / self._line_length)))
        while lines := list(islice(self._lines, rows)):
            records = lines if self._plain(lines) else self._counted(lines, start)
            if records:
                yield TextChunk(self, records, start)
                start += len(records)

    def _plain(self, lines: list[str]) -> bool:
        """Whether every line is a row with all its fields, found out without a look at each."""
        counts = set(map(methodcaller("count", self.delimiter), lines))
        full = counts == {len(self.columns) - 1} and all(map(str.strip, lines))
        return full and '"' not in "".join(lines)

    def _counted(self, lines: list[str], start: int) -> list[str]:
        """Return the rows in some lines, and in those that belong to the last of them."""
        width = len(self.columns)
        records: list[str] = []
        for record, fields in self._records(iter(lines)):
            n = record.count(self.delimiter) + 1 if fields is None else len(fields)
            if n != width:
                raise InvalidInputError(
                    f"{self._path}: row {start + len(records)} (not counting the header) has {n} "
                    f"fields, the header has {width}."
                )
            records.append(record)
        return records

    def _records(self, lines: Iterator[str]) -> Iterator[tuple[str, list[str] | None]]:
        """Yield rows as they stand, with their fields where quotes leave no other way to count."""
        for line in lines:
            if '"' in line:
                taken: list[str] = []
                following = chain([line.lstrip("\ufeff")], lines, self._lines)
                reader = csv.reader(_remembering(following, taken), delimiter=self.delimiter)
                fields = next(reader)
                yield line + "".join(taken[1:]), fields
            elif line.strip():
                yield line, None

    def _checked_lines(self) -> Iterator[str]:
        try:
            yield from self._text
        except UnicodeDecodeError as error:
            raise InvalidInputError(
                f"{self._path} is not a CSV file in UTF-8 ({error.reason}): save it as UTF-8."
            ) from error
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise FileError(f"{self._path} is damaged: {error}.") from error


class TextWriter:
    """Rows of a CSV file with columns added, everything else as it was."""

    def __init__(self, file: BinaryIO, table: TextTable, added: list[str], *, packed: bool) -> None:
        self._file = gzip.GzipFile(fileobj=file, mode="wb", compresslevel=6) if packed else file
        self._packed = packed
        self._delimiter = table.delimiter
        line = csv_line(added, table.delimiter)
        self._write([table.header], self._pattern(["%s"]), [[line]])

    def write(self, chunk: Any, added: dict[str, NDArray[np.floating]]) -> None:
        """Write rows with their new values; rows of NaN leave the fields empty."""
        values = np.column_stack(list(added.values()))
        n_rows, n_added = values.shape
        patterns = [self._pattern([DIGITS] * n_added)] * n_rows
        for i in np.flatnonzero(np.isnan(values).all(axis=1)):
            patterns[i] = self._pattern(["%.0s"] * n_added)  # takes a value, and writes nothing
        self._write(chunk.records, "".join(patterns), [column.tolist() for column in values.T])

    def close(self) -> None:
        """Finish what is compressed; the file itself belongs to the caller."""
        if self._packed:
            self._file.close()

    def _pattern(self, added: list[str]) -> str:
        """Return the pattern of a row: what is kept of it, what is added, the end of its line."""
        return self._delimiter.join(["%s", *added]) + "%s"

    def _write(self, records: list[str], pattern: str, added: list[list[Any]]) -> None:
        """Write rows by one pattern for all of them: rows one by one would take twice as long."""
        kept = [record.rstrip("\r\n") for record in records]
        ends = [record[len(k) :] or "\n" for record, k in zip(records, kept, strict=True)]
        fields = zip(kept, *added, ends, strict=True)
        self._file.write((pattern % tuple(chain.from_iterable(fields))).encode())


def _remembering(lines: Iterator[str], taken: list[str]) -> Iterator[str]:
    for line in lines:
        taken.append(line)
        yield line


def _delimiter(lines: list[str]) -> str:
    """Return the delimiter by which the lines agree best, then the one that splits most."""

    def merit(candidate: str) -> tuple[float, int]:
        widths = [len(row) for row in csv.reader(lines, delimiter=candidate)]
        agreeing = sum(width == widths[0] for width in widths) / len(widths)
        return (agreeing if widths[0] > 1 else 0.0), widths[0]

    return max(_DELIMITERS, key=merit)
