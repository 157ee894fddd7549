"""Tables in files: opened by what they are, read with checks, written by their names' endings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kcdo.commands.columns import Column
from kcdo.commands.console import Console, counted, listed
from kcdo.commands.errors import UsageError
from kcdo.commands.naming import Role
from kcdo.commands.text_tables import TextTable, TextWriter
from kcdo.errors import InvalidInputError

if TYPE_CHECKING:  # pyarrow is an extra, imported for its files alone
    from kcdo.commands.arrow_tables import ArrowTable, ArrowTextWriter, ArrowWriter

Table: TypeAlias = "TextTable | ArrowTable"

CHUNK_ROWS = 30_000

_MAGIC = {b"PAR1": "parquet", b"ARRO": "feather"}
_ENDINGS = {".parquet": "parquet", ".pq": "parquet", ".feather": "feather", ".arrow": "feather"}


def open_table(path: Path) -> Table:
    """Open a table: Parquet or Feather by its first bytes, anything else as CSV."""
    file = path.open("rb")
    try:
        kind = _MAGIC.get(file.peek(4)[:4])
        if kind is None:
            return TextTable(path, file)
        from kcdo.commands.arrow_tables import ArrowTable

        return ArrowTable(path, file, parquet=kind == "parquet")
    except BaseException:
        file.close()
        raise


def open_writer(
    file: BinaryIO, target: Path | None, table: Table, added: list[str]
) -> TextWriter | ArrowWriter | ArrowTextWriter:
    """Return what writes rows of a table with added columns, in the format ``target`` names."""
    ending = target.suffix.lower() if target else ""
    if isinstance(table, TextTable):
        return TextWriter(file, table, added, packed=ending == ".gz")
    from kcdo.commands.arrow_tables import ArrowTextWriter, ArrowWriter

    if ending not in _ENDINGS:
        return ArrowTextWriter(file, packed=ending == ".gz")
    return ArrowWriter(file, table, added, parquet=_ENDINGS[ending] == "parquet")


def check_formats(source: Path, table: Table, target: Path | None) -> None:
    """Raise if the target would need types that the source does not have."""
    if target and isinstance(table, TextTable) and target.suffix.lower() in _ENDINGS:
        raise UsageError(
            f"{source} is text without types, and cannot become {target.suffix[1:]}: give -o a "
            "name that ends in .csv or .csv.gz."
        )


def read_table(
    path: Path, table: Table, roles: dict[str, Role], console: Console, *, drop: bool
) -> pd.DataFrame:
    """Read columns of a table: floats, and categories as a categorical type.

    Rows with missing values are an error, or dropped and counted.
    """
    columns = {name: Column(name, role) for name, role in roles.items()}
    names = list(roles)
    numeric = {name for name, role in roles.items() if role is Role.NUMBER}
    n_rows = 0
    with console.progress(f"Reading {path.name}", table.size or None) as show:
        for chunk in table.chunks(CHUNK_ROWS):
            frame = chunk.frame(names, numeric)
            for name, column in columns.items():
                column.add(frame[name], chunk.start)
            n_rows += len(chunk)
            show(table.position())
    if not n_rows:
        raise InvalidInputError(f"{path} has a header but no rows.")
    return _complete(path, {name: c.values() for name, c in columns.items()}, console, drop=drop)


def _complete(
    path: Path, values: dict[str, NDArray[Any]], console: Console, *, drop: bool
) -> pd.DataFrame:
    """Return the rows in which nothing is missing."""
    missing = {name: np.asarray(pd.isna(column)) for name, column in values.items()}
    counts = {name: int(mask.sum()) for name, mask in missing.items() if mask.any()}
    gone = np.any(list(missing.values()), axis=0)
    n = len(gone)
    empty = [name for name, count in counts.items() if count == n]
    if empty:
        raise InvalidInputError(f"column {empty[0]!r} of {path} is empty: all {n} are missing.")
    if counts and not drop:
        worst = listed(f"{name!r} ({count})" for name, count in counts.items())
        raise InvalidInputError(
            f"missing values in {path}: column {worst} of {n} rows; fill them in, or leave these "
            "rows out by --drop-missing."
        )
    if gone.all():
        raise InvalidInputError(f"every row of {path} has a missing value; nothing is left.")
    if counts:
        worst = listed(f"{name} {count}" for name, count in counts.items())
        console.note(f"Dropped {gone.sum()} of {counted(n, 'row')} with missing values ({worst}).")
    return pd.DataFrame({name: _typed(column[~gone]) for name, column in values.items()})


def _typed(values: NDArray[Any]) -> Any:
    return pd.Categorical(values) if values.dtype == object else values
