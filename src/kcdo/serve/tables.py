"""Tables as bodies of requests: CSV and Arrow in, the same with columns of answers out."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from kcdo.arrays import Array
from kcdo.commands.answers import Answers
from kcdo.commands.columns import Place
from kcdo.commands.naming import check_distinct
from kcdo.commands.packing import Packed, Stream
from kcdo.commands.style import PLAIN
from kcdo.commands.text_tables import TextTable
from kcdo.commands.writers import TextWriter
from kcdo.errors import InvalidInputError
from kcdo.extras import import_extra
from kcdo.serve.asking import FrameChunk
from kcdo.serve.limits import Limits, RequestError

CSV = "text/csv"
ARROW_STREAM = "application/vnd.apache.arrow.stream"
ARROW_FILE = "application/vnd.apache.arrow.file"
TABLES = (CSV, ARROW_STREAM, ARROW_FILE)
PART = 2000  # rows that are answered at a time: between parts others have their turn

Work = Callable[[Any], dict[str, Array]]


def answered(body: bytes, kind: str, answers: Answers, work: Work, limits: Limits) -> bytes:
    """Return a table with columns added; ``work`` answers some rows of it."""
    if kind == CSV:
        return _answered_text(body, answers, work, limits)
    return _answered_arrow(body, kind, answers, work, limits)


def _answered_text(body: bytes, answers: Answers, work: Work, limits: Limits) -> bytes:
    with tempfile.TemporaryFile() as file:  # tables are read from files
        file.write(body)
        file.seek(0)
        stream = Stream("the request", file)
        if stream.file is not file:
            raise RequestError(415, "the body is compressed: send the table as it is.")
        out = io.BytesIO()
        with TextTable(stream, PLAIN) as table:
            added = answers.check(table.columns, "the request")
            writer = TextWriter(Packed(out, None, "the answer"), table, added, PLAIN)
            n = 0
            for chunk in table.chunks(PART):
                n += len(chunk)
                limits.check_rows(n)
                writer.write(chunk, work(chunk))
        if not n:
            raise InvalidInputError("the request has a header but no rows.")
        return out.getvalue()


def _answered_arrow(body: bytes, kind: str, answers: Answers, work: Work, limits: Limits) -> bytes:
    pa = import_extra("pyarrow", extra="files", what="Arrow bodies")
    try:
        opened = pa.ipc.open_file if kind == ARROW_FILE else pa.ipc.open_stream
        with opened(pa.py_buffer(body)) as reader:
            table = _within(pa, reader, kind, limits)
    except (pa.ArrowInvalid, OSError, ValueError) as error:
        raise InvalidInputError(f"the body is no Arrow table: {error}") from error
    check_distinct(list(table.column_names), "the request")
    added = answers.check(list(table.column_names), "the request")
    if not table.num_rows:
        raise InvalidInputError("the request has no rows.")
    parts = [work(chunk) for chunk in _parts(table)]
    for name in added:
        table = table.append_column(name, [np.concatenate([part[name] for part in parts])])
    out = io.BytesIO()
    written = pa.ipc.new_file if kind == ARROW_FILE else pa.ipc.new_stream
    with written(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


def _within(pa: Any, reader: Any, kind: str, limits: Limits) -> Any:
    """Return the table of a reader, if it has no more rows than are allowed."""
    batches, n = [], 0
    for batch in _batches(reader, kind):
        n += batch.num_rows
        limits.check_rows(n)
        batches.append(batch)
    return pa.Table.from_batches(batches, reader.schema)


def _batches(reader: Any, kind: str) -> Iterator[Any]:
    if kind == ARROW_FILE:
        return (reader.get_batch(i) for i in range(reader.num_record_batches))
    return iter(reader)


def _parts(table: Any) -> Iterator[FrameChunk]:
    for start in range(0, table.num_rows, PART):
        frame = table.slice(start, PART).to_pandas(ignore_metadata=True)
        yield FrameChunk(frame, Place("the request", start + 1))
