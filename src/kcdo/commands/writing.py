"""Files: there before they are read, and written whole or not at all."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from kcdo.atomic import atomic_file, is_special
from kcdo.commands.errors import FileError


@contextmanager
def output_file(path: Path | None) -> Iterator[BinaryIO]:
    """Yield a file that appears at ``path`` once it is complete; standard output without one."""
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    check_target(path)
    with write_errors(path), atomic_file(path) as file:
        yield file


def check_source(path: Path, what: str = "file") -> None:
    """Raise, before anything is loaded for it, if there is nothing to read."""
    if not path.exists():
        raise FileError(f"there is no {what} {path}.")
    if path.is_dir():
        raise FileError(f"{path} is a folder, not a {what}.")


def check_model(path: Path) -> None:
    """Raise if there is no model file."""
    check_source(path, "model file")


def check_target(path: Path | None) -> None:
    """Raise, before any work, if a file cannot be written there; standard output always can."""
    if path is None:
        return
    folder = path.resolve().parent
    if path.is_dir():
        raise FileError(f"cannot write {path}: it is a folder.")
    if not folder.is_dir():
        raise FileError(f"cannot write {path}: there is no folder {folder}.")
    writable = path if is_special(path) else folder
    if not os.access(writable, os.W_OK):
        raise FileError(f"cannot write {path}: no permission to write in {folder}.")


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Say which file could not be written."""
    try:
        yield
    except (FileError, BrokenPipeError):
        raise
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror or error}.") from error
