"""Files that commands read: there before anything is loaded for them."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kcdo.commands.errors import FileError, UsageError

STANDARD = "-"  # standard input or output, as the name of a file


def check_source(name: str, what: str = "file") -> None:
    """Raise if there is nothing to read."""
    if name == STANDARD:
        return
    path = Path(name)
    if not path.exists():
        raise FileError(f"there is no {what} {name}.")
    if path.is_dir():
        raise FileError(f"{name} is a folder, not a {what}.")


def check_model(name: str) -> None:
    """Raise if there is no model file."""
    check_source(name, "model file")


def check_standard_input(*names: str) -> None:
    """Raise if more than one file is standard input, which can be read once only."""
    if names.count(STANDARD) > 1:
        raise UsageError("- is standard input, which can be one file only: name the others.")


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
