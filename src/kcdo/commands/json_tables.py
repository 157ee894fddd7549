"""JSON lines: one object per row."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import pandas as pd

from kcdo.commands.columns import Place, with_numbers
from kcdo.commands.contents import Content, as_text, content_of_values, typed_values
from kcdo.commands.naming import Role
from kcdo.commands.packing import LineTable, Span, Stream
from kcdo.errors import InvalidInputError


@dataclass(frozen=True)
class JsonChunk:
    """Some rows of a file of JSON lines."""

    columns: list[str]
    objects: list[dict[str, Any]]
    place: Place

    def __len__(self) -> int:
        return len(self.objects)

    def frame(self, roles: dict[str, Role]) -> pd.DataFrame:
        """Return columns as their values are, and as floats those that must be numeric."""
        return with_numbers(pd.DataFrame({n: self._values(n) for n in roles}), roles, self.place)

    def fields(self) -> pd.DataFrame:
        """Return all columns as texts, by their positions; what is missing is empty."""
        values = enumerate(map(self._values, self.columns))
        found = {i: ["" if v is None else as_text(v) for v in column] for i, column in values}
        return pd.DataFrame(found, dtype=object)

    def contents(self) -> list[Content]:
        """Return what each column holds."""
        return [content_of_values(self._values(name)) for name in self.columns]

    def typed(self, contents: list[Content]) -> pd.DataFrame:
        """Return all columns in the types of what they hold, by their names."""
        pairs = zip(self.columns, contents, strict=True)
        return pd.DataFrame({n: typed_values(self._values(n), content) for n, content in pairs})

    def _values(self, name: str) -> list[Any]:
        return [row.get(name) for row in self.objects]


class JsonTable(LineTable):
    """A file of JSON lines; the first object names the columns.

    Attributes
    ----------
    columns : list of str
        Keys of the first object.
    """

    form = "JSON lines"
    encoding = "utf-8"

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.size = stream.size
        self._text = io.TextIOWrapper(stream.file, encoding=self.encoding, newline="")
        self._objects = self._parsed(self._counted_lines(self._text))
        first = next(self._objects)
        self.columns = list(first)
        self._objects = chain([first], self._objects)

    def chunks(self, rows: int) -> Iterator[JsonChunk]:
        """Yield the rows, once."""
        start = 1
        while objects := list(islice(self._objects, rows)):
            yield self._chunk(objects, start)
            start += len(objects)

    def within(self, span: Span, rows: int) -> Iterator[JsonChunk]:
        """Yield the rows of a span, at once."""
        objects = self._parsed(self._text_of(span), span.row - 1)
        yield self._chunk(list(objects), span.row)

    def _chunk(self, objects: list[dict[str, Any]], start: int) -> JsonChunk:
        known = set(self.columns)
        for i, row in enumerate(objects):
            if not row.keys() <= known:
                new = next(key for key in row if key not in known)
                raise InvalidInputError(
                    f"{self._stream.name}: row {start + i} has {new!r}, which the first row "
                    "does not: give all rows the same names, with null where there is no value."
                )
        return JsonChunk(self.columns, objects, Place(self._stream.name, start))

    def _parsed(self, lines: Iterable[str], row: int = 0) -> Iterator[dict[str, Any]]:
        with self._stream.damage_explained():
            for line in lines:
                text = line.strip("\ufeff \t\r\n")
                if not text:
                    continue
                row += 1
                try:
                    found = json.loads(text)
                except ValueError as error:
                    found = error
                if not isinstance(found, dict):
                    raise InvalidInputError(
                        f"{self._stream.name}: row {row} is not an object such as "
                        '{"flow": 1, "speed": 2} on a line of its own.'
                    )
                yield found


def is_json_lines(start: bytes) -> bool:
    """Whether a file with such a beginning holds JSON, one object per line."""
    first = start.decode("utf-8-sig", "replace").lstrip().partition("\n")[0]
    return first.startswith("{") and (first.rstrip().endswith("}") or '":' in first)
