"""Files that commands read: there before anything is loaded for them."""

from __future__ import annotations

import glob
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kcdo.commands.errors import FileError, UsageError

if TYPE_CHECKING:
    from kcdo.commands.sources import Source

_TABLES = (".parquet", ".pq", ".feather", ".arrow", ".csv", ".tsv", ".jsonl", ".csv.gz", ".tsv.gz")
STANDARD = "-"  # standard input or output, as the name of a file


def input_files(given: Sequence[str]) -> list[str]:
    """Return the files that names and patterns such as ``part-*.csv`` stand for; all must be."""
    found = [path for name in given for path in _matching(name)]
    for path in found:
        _check_there(path, "file")
    twice = next((path for path in found if found.count(path) > 1), None)
    if twice is not None:
        raise UsageError(f"{twice} is named twice among the files to read.")
    return found


def table_source(
    files: Sequence[str], sep: str | None, decimal: str, thousands: str | None
) -> Source:
    """Return files as one table, whose text is written as the options say."""
    from kcdo.commands.sources import Source
    from kcdo.commands.style import Style

    return Source.of(files, Style.of(sep, decimal, thousands))


def check_model(name: str, data: Sequence[str] = ()) -> None:
    """Raise if there is no model file, or if it and the data are both standard input."""
    _check_there(name, "model file")
    if name == STANDARD and STANDARD in data:
        raise UsageError("- is standard input, which can be one file only: name the other.")


def _check_there(name: str, what: str) -> None:
    if name == STANDARD:
        return
    path = Path(name)
    if not path.exists():
        raise FileError(f"there is no {what} {name}.")
    if path.is_dir():
        raise FileError(f"{name} is a folder, not a {what}.")


@contextmanager
def named_file(name: str) -> Iterator[Path]:
    """Yield the path of a file; of standard input, the path of a copy."""
    if name != STANDARD:
        yield Path(name)
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "standard-input")
        with copy.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield copy


def _matching(name: str) -> list[str]:
    """Return the files that a name stands for: itself, those in it, or what matches it."""
    if os.path.isdir(name):
        return _tables_in(name)
    if name == STANDARD or os.path.exists(name) or not glob.has_magic(name):
        return [name]
    found = sorted(glob.glob(name, recursive=True))
    if not found:
        raise FileError(f"no file matches {name}.")
    return found


def _tables_in(folder: str) -> list[str]:
    """Return the tables in a folder, also in folders in it, as Parquet data sets are kept."""
    files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    found = [str(path) for path in files if path.name.lower().endswith(_TABLES)]
    if not found:
        raise FileError(f"{folder} is a folder without tables (.parquet, .csv and the like).")
    return found
