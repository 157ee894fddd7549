"""The files that a command reads as one table."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from kcdo.commands.console import counted
from kcdo.commands.json_tables import JsonTable, is_json_lines
from kcdo.commands.kinds import Kind
from kcdo.commands.packing import Stream
from kcdo.commands.reading import STANDARD
from kcdo.commands.style import PLAIN, Style
from kcdo.commands.text_tables import TextTable
from kcdo.errors import InvalidInputError

if TYPE_CHECKING:  # pyarrow is an extra, imported for its files alone
    from kcdo.commands.arrow_tables import ArrowTable

Table: TypeAlias = "TextTable | JsonTable | ArrowTable | JoinedTable"

_NO_TABLES = (Kind.MODEL, Kind.PICTURE, Kind.PAGE)


@dataclass(frozen=True)
class Source:
    """Files that are read as one table, one after the other.

    Attributes
    ----------
    names : tuple of str
        The files as the user called them.
    paths : tuple of str
        Where they are; "-" is standard input.
    style : Style
        How text is written in them.
    """

    names: tuple[str, ...]
    paths: tuple[str, ...]
    style: Style = PLAIN

    @classmethod
    def of(cls, paths: Sequence[str], style: Style = PLAIN) -> Source:
        """Return files by their names, of which "-" is standard input."""
        names = ("standard input" if path == STANDARD else path for path in paths)
        return cls(tuple(names), tuple(paths), style)

    @property
    def label(self) -> str:
        """The files in a message."""
        return self.names[0] + self._more

    @property
    def title(self) -> str:
        """The files without their folders."""
        return Path(self.names[0]).name + self._more

    @property
    def _more(self) -> str:
        return f" and {counted(len(self.names) - 1, 'other file')}" if len(self.names) > 1 else ""

    @property
    def nbytes(self) -> int:
        """Bytes of the files as they stand; of a pipe none are known."""
        return sum(os.path.getsize(path) for path in self.paths if os.path.isfile(path))

    def open(self) -> Table:
        """Open the table."""
        first = open_table(self.names[0], self.paths[0], self.style)
        return first if len(self.names) == 1 else JoinedTable(first, self)

    @contextmanager
    def readable_twice(self) -> Iterator[Source]:
        """Yield the same files, with copies of pipes, which can be read once only."""
        with tempfile.TemporaryDirectory() as folder:
            paths = [self._kept(i, Path(folder)) for i in range(len(self.paths))]
            yield replace(self, paths=tuple(paths))

    def _kept(self, i: int, folder: Path) -> str:
        path = self.paths[i]
        if path != STANDARD and os.path.isfile(path):
            return path
        copy = folder / str(i)
        with _opened(path) as file, copy.open("wb") as target:
            shutil.copyfileobj(file, target)
        return str(copy)


class JoinedTable:
    """Tables of the same columns, one after the other.

    Attributes
    ----------
    first : table
        The first, which says what the others must be like.
    columns : list of str
        Names of the columns.
    size : int
        Of all files together; 0 where one is a pipe.
    """

    def __init__(self, first: Any, source: Source) -> None:
        self.first, self._source = first, source
        self.columns: list[str] = first.columns
        sizes = [first.size, *map(self._size, range(1, len(source.paths)))]
        self.size = sum(sizes) if all(sizes) else 0
        self._before, self._open = 0, first

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.__exit__()

    def position(self) -> int:
        """Return how much of the ``size`` has been read."""
        return self._before + int(self._open.position())

    def chunks(self, rows: int) -> Iterator[Any]:
        """Yield the rows of all tables, once."""
        yield from self.first.chunks(rows)
        for i in range(1, len(self._source.paths)):
            self._before += self._open.size
            self._open.__exit__()
            self._open = self._table(i)
            yield from self._open.chunks(rows)

    def _size(self, i: int) -> int:
        """Return the size of a file, after a look at its columns; 0 for a pipe."""
        if not os.path.isfile(self._source.paths[i]):
            return 0
        with self._table(i) as table:
            return int(table.size)

    def _table(self, i: int) -> Any:
        name, first = self._source.names[i], self._source.names[0]
        table = open_table(name, self._source.paths[i], self._source.style)
        if table.columns != self.columns:
            table.__exit__()
            raise InvalidInputError(
                f"{name} has other columns than {first}, or in another order: files that are read "
                "as one table need the same header."
            )
        if table.form != self.first.form:
            table.__exit__()
            raise InvalidInputError(
                f"{name} is {table.form}, {first} is {self.first.form}: make them alike first."
            )
        return table


def open_table(name: str, path: str, style: Style = PLAIN) -> Any:
    """Open one file as what it is: Parquet, Feather, JSON lines, or else text."""
    file = _opened(path)
    try:
        stream = Stream(name, file)
        if stream.kind in _NO_TABLES:
            raise InvalidInputError(f"{name} is {stream.kind.value}, not a table.")
        if stream.kind in (Kind.PARQUET, Kind.FEATHER):
            from kcdo.commands.arrow_tables import ArrowTable  # an extra

            return ArrowTable(stream)
        if stream.kind is Kind.JSON and is_json_lines(stream.start):
            return JsonTable(stream)
        return TextTable(stream, style)
    except BaseException:
        file.close()
        raise


def _opened(path: str) -> Any:
    return sys.stdin.buffer if path == STANDARD else open(path, "rb")
