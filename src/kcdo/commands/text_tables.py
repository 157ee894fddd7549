"""Tables of text, CSV or TSV: read in chunks that keep every byte of every row."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from operator import methodcaller
from typing import Any

import numpy as np
import pandas as pd

from kcdo.commands.columns import MISSING_NUMBERS, Place, with_numbers
from kcdo.commands.contents import Content, content_of_texts, named, typed_texts
from kcdo.commands.kinds import encoding_of
from kcdo.commands.naming import Role, check_distinct
from kcdo.commands.packing import LineTable, Span, Stream
from kcdo.commands.style import Style
from kcdo.errors import InvalidInputError, KcdoWarning

_DELIMITERS = (",", ";", "\t")
_CHUNK_CHARACTERS = 8_000_000  # of a file that are held at a time
_SNIFFED_LINES = 20
_MOST_LINES = 10_000  # of one quoted field: beyond, its quote is not closed
_MARK = "\ufeff"

csv.field_size_limit(2**31 - 1)  # by itself the module refuses fields beyond 131,072 characters


@dataclass(frozen=True)
class TextChunk:
    """Some rows of a table of text, as they stand there."""

    table: TextTable
    records: list[str]
    place: Place

    def __len__(self) -> int:
        return len(self.records)

    def frame(self, roles: dict[str, Role]) -> pd.DataFrame:
        """Return columns as texts, and as floats those that must be numeric."""
        positions = [self.table.columns.index(name) for name in roles]
        pairs = zip(positions, roles.values(), strict=True)
        found = self._quickly(positions, [i for i, role in pairs if role.numeric])
        if found is not None:
            return found.set_axis(list(roles), axis=1)
        return with_numbers(
            self._read(positions, []).set_axis(list(roles), axis=1), roles, self.place
        )

    def fields(self) -> pd.DataFrame:
        """Return all columns as texts, by their positions."""
        return self._read(list(range(len(self.table.columns))), [])

    def contents(self) -> list[Content]:
        """Return what each column holds."""
        return [content_of_texts(column, self.place.style) for _, column in self.fields().items()]

    def typed(self, contents: list[Content]) -> pd.DataFrame:
        """Return all columns in the types of what they hold, by their names."""
        texts = self.fields()
        names = named(self.table.columns)
        triples = zip(names, texts, contents, strict=True)
        return pd.DataFrame(
            {n: typed_texts(texts[i], content, self.place.style) for n, i, content in triples}
        )

    def _quickly(self, positions: list[int], numeric: list[int]) -> pd.DataFrame | None:
        """Return columns by the quick parser; None where a number needs a closer look."""
        if self.place.style.thousands is not None:
            return None
        try:
            found = self._read(positions, numeric)
        except ValueError:
            return None
        return None if np.isinf(found[numeric].to_numpy()).any() else found

    def _read(self, positions: list[int], numeric: list[int]) -> pd.DataFrame:
        types: dict[int, Any] = {i: float if i in numeric else str for i in positions}
        blanks: Any = {i: MISSING_NUMBERS for i in numeric}
        frame = pd.read_csv(
            io.StringIO("".join(self.records)),
            sep=self.table.delimiter,
            decimal=self.place.style.decimal,
            header=None,
            names=list(range(len(self.table.columns))),
            usecols=sorted(positions),
            index_col=False,
            dtype=types,
            keep_default_na=False,
            na_values=blanks,
            skip_blank_lines=False,
        )
        return frame[positions]


class TextTable(LineTable):
    """A table of text; comma, semicolon or tab are told apart unless the style says which.

    Attributes
    ----------
    columns : list of str
        Names in the header.
    header : str
        Its line, or lines, as they stand.
    delimiter, encoding : str
        Between fields, and of the bytes.
    size : int
        Of the file in bytes, 0 for a pipe.
    """

    def __init__(self, stream: Stream, style: Style) -> None:
        self._stream, self._style = stream, style
        self.size = stream.size
        self.encoding = encoding_of(stream.start)
        self._text = io.TextIOWrapper(stream.file, encoding=self.encoding, newline="")
        lines = self._checked_lines(self._text)
        start = _start(lines, _SNIFFED_LINES)
        head = [line for line in start if line.strip()]
        if not head:
            raise InvalidInputError(f"{stream.name} is empty.")
        self._check_nul(head, "its first lines")
        self.delimiter = style.sep or _delimiter([head[0].lstrip(_MARK), *head[1:]])
        self._line_length = sum(map(len, head)) / len(head)
        self._lines = self._counted_lines(chain(start, lines))
        self.columns: list[str] = []
        self.header, fields = next(self._records(self._lines, 0))
        self._header_stop = self._taken
        names = fields or self.header.lstrip(_MARK).rstrip("\r\n").split(self.delimiter)
        self.columns = [name.strip() for name in names]
        check_distinct(self.columns, stream.name)

    @property
    def form(self) -> str:
        """What tables read as one must have in common besides their columns."""
        return f"text in {self.encoding} separated by {self.delimiter!r}"

    def chunks(self, rows: int) -> Iterator[TextChunk]:
        """Yield the rows, once: so many at a time, or fewer where they are long."""
        start = 1
        rows = max(1, min(rows, int(_CHUNK_CHARACTERS / self._line_length)))
        while lines := list(islice(self._lines, rows)):
            chunk = self._chunk(lines, start)
            if chunk.records:
                yield chunk
                start += len(chunk)

    def within(self, span: Span, rows: int) -> Iterator[TextChunk]:
        """Yield the rows of a span, at once."""
        self._lines = self._checked_lines(self._text_of(span))
        yield self._chunk(list(self._lines), span.row)

    @property
    def _rows_start(self) -> int:
        return self._header_stop

    def _chunk(self, lines: list[str], start: int) -> TextChunk:
        """Return the rows in some lines, and in those that belong to the last of them."""
        self._check_nul(lines, f"row {start} or a later one")
        records = lines if self._plain(lines) else self._counted(lines, start)
        return TextChunk(self, records, Place(self._stream.name, start, self._style))

    def _plain(self, lines: list[str]) -> bool:
        """Whether every line is a row with all its fields, found out without a look at each."""
        counts = set(map(methodcaller("count", self.delimiter), lines))
        full = counts == {len(self.columns) - 1} and all(map(str.strip, lines))
        return full and '"' not in "".join(lines)

    def _counted(self, lines: list[str], start: int) -> list[str]:
        """Return the rows, each with all its fields."""
        width = len(self.columns)
        records: list[str] = []
        for record, fields in self._records(iter(lines), start):
            n = record.count(self.delimiter) + 1 if fields is None else len(fields)
            if n != width:
                raise InvalidInputError(
                    f"{self._stream.name}: row {start + len(records)} (not counting the header) "
                    f"has {n} fields, the header has {width}."
                )
            records.append(record)
        return records

    def _records(self, lines: Iterator[str], row: int) -> Iterator[tuple[str, list[str] | None]]:
        """Yield rows as they stand, with their fields where quotes leave no other way to count."""
        for line in lines:
            if '"' in line:
                taken: list[str] = []
                following = chain([line.lstrip(_MARK)], lines, self._lines)
                reader = csv.reader(
                    self._remembered(following, taken, row), delimiter=self.delimiter
                )
                fields = next(reader)
                self._check_quotes(taken, row)
                yield line + "".join(taken[1:]), fields
            elif line.strip():
                yield line, None
            else:
                continue
            row += 1

    def _remembered(self, lines: Iterator[str], taken: list[str], row: int) -> Iterator[str]:
        for line in lines:
            taken.append(line)
            if len(taken) > _MOST_LINES:
                raise self._open_quote(row)
            yield line

    def _check_quotes(self, lines: list[str], row: int) -> None:
        """Raise if a row ends at a quote that seems to open another field, or at the file's end."""
        if len(lines) == 1 and lines[0].count('"') % 2 == 0:
            return
        try:
            list(csv.reader(lines, delimiter=self.delimiter, strict=True))
        except csv.Error as error:
            if len(lines) > 1 or "end of data" in str(error):
                raise self._open_quote(row) from error
        inside = [line.count(self.delimiter) for line in lines[1:-1] if line.strip()]
        if len(inside) > 1 and set(inside) == {len(self.columns) - 1} != {0}:
            warnings.warn(
                f"row {row} of {self._stream.name} has a quoted field of {len(lines)} lines, which "
                "look like rows of their own: is its quote closed in the right place?",
                KcdoWarning,
                stacklevel=2,
            )

    def _open_quote(self, row: int) -> InvalidInputError:
        where = f"row {row} (not counting the header)" if row else "the header"
        return InvalidInputError(
            f"{self._stream.name}: a quote that opens a field in {where} is not closed, and takes "
            'in the rows after it: close it, or write a quote inside a quoted field twice, "".'
        )

    def _check_nul(self, lines: list[str], where: str) -> None:
        if "\0" in "".join(lines):
            raise InvalidInputError(
                f"{self._stream.name} has NUL characters in {where}, so it is no table of text: "
                "save it as UTF-8, or as UTF-16 with a byte order mark."
            )

    def _checked_lines(self, text: io.TextIOWrapper) -> Iterator[str]:
        with self._stream.damage_explained():
            try:
                yield from text
            except UnicodeDecodeError as error:
                raise InvalidInputError(
                    f"{self._stream.name} is not a table of text in UTF-8 ({error.reason}): save "
                    "it as UTF-8."
                ) from error


def _start(lines: Iterator[str], count: int) -> list[str]:
    """Take lines until so many of them are not blank."""
    found: list[str] = []
    while count and (line := next(lines, None)) is not None:
        found.append(line)
        count -= bool(line.strip())
    return found


def _delimiter(lines: list[str]) -> str:
    """Return the delimiter by which the lines agree best, then the one that splits most."""

    def merit(candidate: str) -> tuple[float, int]:
        widths = [len(row) for row in csv.reader(lines, delimiter=candidate)]
        agreeing = sum(width == widths[0] for width in widths) / len(widths)
        return (agreeing if widths[0] > 1 else 0.0), widths[0]

    return max(_DELIMITERS, key=merit)
