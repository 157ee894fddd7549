"""Tables: read with checks, and written in the format of a file's name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kcdo.commands.columns import Column
from kcdo.commands.console import Console, counted, listed
from kcdo.commands.contents import Content, merged
from kcdo.commands.formats import Format
from kcdo.commands.naming import Role, Wanted
from kcdo.commands.packing import Packed
from kcdo.commands.sources import JoinedTable, Source, Table
from kcdo.commands.text_tables import TextTable
from kcdo.commands.writers import FieldWriter, JsonWriter, TextWriter, Writer
from kcdo.errors import InvalidInputError

CHUNK_ROWS = 30_000
TYPED = ("jsonl", "parquet", "feather")  # formats that need to know what columns hold


def open_writer(
    file: BinaryIO, name: str, form: Format, source: Source, table: Table, added: list[str]
) -> Writer:
    """Return what writes the rows of a table with columns added, in some format.

    A table without types is read once before, for formats that have them: the source must allow it.
    """
    first = table.first if isinstance(table, JoinedTable) else table
    contents = _contents(source) if form.table in TYPED and not hasattr(first, "schema") else []
    if form.table in ("parquet", "feather"):
        from kcdo.commands.arrow_tables import ArrowWriter, schema_of  # an extra

        schema = first.schema if hasattr(first, "schema") else schema_of(table.columns, contents)
        return ArrowWriter(file, schema, added, parquet=form.table == "parquet")
    packed = Packed(file, form.packing, name)
    if form.table == "jsonl":
        return JsonWriter(packed, contents)
    tab = form.table == "tsv"
    if isinstance(first, TextTable) and (first.delimiter == "\t") is tab:
        return TextWriter(packed, first, added, source.style)
    return FieldWriter(packed, "\t" if tab else ",", table.columns, source.style)


def _contents(source: Source) -> list[Content]:
    with source.open() as table:
        chunks: Iterator[Any] = table.chunks(CHUNK_ROWS)
        return merged(chunk.contents() for chunk in chunks)


def read_table(
    source: Source, table: Table, roles: dict[str, Role], console: Console, *, drop: bool
) -> pd.DataFrame:
    """Read columns of a table: floats, and categories as a categorical type.

    Rows with missing values are an error, or dropped and counted.
    """
    columns = {name: Column(name, role) for name, role in roles.items()}
    n_rows = 0
    with console.progress(f"Reading {source.title}", table.size or None) as show:
        for chunk in table.chunks(CHUNK_ROWS):
            frame = chunk.frame(roles)
            for name, column in columns.items():
                column.add(frame[name], chunk.place)
            n_rows += len(chunk)
            show(table.position())
    if not n_rows:
        raise InvalidInputError(f"{source.label} has a header but no rows.")
    values = {name: column.values() for name, column in columns.items()}
    return _complete(source.label, values, console, drop=drop)


def read_wanted(
    source: Source, asked: Wanted, console: Console, *, drop: bool
) -> tuple[Wanted, pd.DataFrame]:
    """Return the columns of a table that a fit takes, and their values."""
    with source.open() as table:
        wanted = asked.checked(table.columns, source.label)
        return wanted, read_table(source, table, wanted.roles(), console, drop=drop)


def _complete(
    label: str, values: dict[str, NDArray[Any]], console: Console, *, drop: bool
) -> pd.DataFrame:
    """Return the rows in which nothing is missing."""
    missing = {name: np.asarray(pd.isna(column)) for name, column in values.items()}
    counts = {name: int(mask.sum()) for name, mask in missing.items() if mask.any()}
    gone = np.any(list(missing.values()), axis=0)
    n = len(gone)
    empty = [name for name, count in counts.items() if count == n]
    if empty:
        raise InvalidInputError(f"column {empty[0]!r} of {label} is empty: all {n} are missing.")
    if counts and not drop:
        worst = listed(f"{name!r} ({count})" for name, count in counts.items())
        raise InvalidInputError(
            f"missing values in {label}: column {worst} of {n} rows; fill them in, or leave these "
            "rows out by --drop-missing."
        )
    if gone.all():
        raise InvalidInputError(f"every row of {label} has a missing value; nothing is left.")
    if counts:
        worst = listed(f"{name} {count}" for name, count in counts.items())
        console.note(f"Dropped {gone.sum()} of {counted(n, 'row')} with missing values ({worst}).")
    return pd.DataFrame({name: _typed(column[~gone]) for name, column in values.items()})


def _typed(values: NDArray[Any]) -> Any:
    return pd.Categorical(values) if values.dtype == object else values
