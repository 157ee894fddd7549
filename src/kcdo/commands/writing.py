"""Files that commands write: never over one that they read, and whole or not at all."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from kcdo.atomic import atomic_file, is_special
from kcdo.commands.errors import FileError, UsageError
from kcdo.commands.kinds import Kind, kind_of_file
from kcdo.commands.reading import STANDARD

_PRINTABLE = (Kind.TEXT, Kind.JSON, Kind.PAGE)

Inputs = Mapping[str, Sequence[str]]  # what a command reads: "data" and the names of its files


def output_path(out: str | None, kind: Kind, inputs: Inputs, *, force: bool) -> Path | None:
    """Return where a command may write a file of some kind, after checking; None is stdout.

    No file that the command reads is written over, by whatever name or link it is reached. A file
    of another kind is only with ``force``.
    """
    if out is None or out == STANDARD:
        _check_stdout(kind, inputs)
        return None
    path = Path(out)
    _check_writable(path)
    if not path.exists() or is_special(path):
        return path
    for what, name in _named(inputs):
        if path.samefile(name):
            raise UsageError(f"-o {out} is the {what} that the command reads: give another name.")
    if not force:
        _check_kind(path, kind)
    return path


@contextmanager
def output_file(path: Path | None) -> Iterator[BinaryIO]:
    """Yield a file that appears at ``path`` once it is complete; standard output without one."""
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with write_errors(path), atomic_file(path) as file:
        yield file


@contextmanager
def output_name(path: Path | None) -> Iterator[Path]:
    """Yield a name for what writes its file itself; without one, copy that to standard output."""
    if path is not None:
        with write_errors(path):
            yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder, "draft")
        yield draft
        with draft.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Say which file could not be written."""
    try:
        yield
    except (FileError, BrokenPipeError):
        raise
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror or error}.") from error


def _check_writable(path: Path) -> None:
    """Raise, before any work, if a file cannot be written there."""
    folder = path.resolve().parent
    if path.is_dir():
        raise FileError(f"cannot write {path}: it is a folder.")
    if not folder.is_dir():
        raise FileError(f"cannot write {path}: there is no folder {folder}.")
    writable = path if is_special(path) else folder
    if not os.access(writable, os.W_OK):
        raise FileError(f"cannot write {path}: no permission to write in {folder}.")


def _check_kind(path: Path, kind: Kind) -> None:
    with write_errors(path):
        found = kind_of_file(path)
    if found not in (Kind.EMPTY, kind):
        raise UsageError(
            f"-o {path} is there already and holds {found.value}, not {kind.value}: give another "
            "name, or write over it by --force."
        )


def _check_stdout(kind: Kind, inputs: Inputs) -> None:
    if kind not in _PRINTABLE and sys.stdout.isatty():
        raise UsageError(
            f"{kind.value} is nothing to show on a terminal: give -o a name, or redirect it."
        )
    here = None
    with suppress(OSError, ValueError):  # where standard output is no file
        here = os.fstat(sys.stdout.fileno())
    for what, name in _named(inputs):
        if here and os.path.isfile(name) and os.path.samestat(here, os.stat(name)):
            raise UsageError(
                f"standard output is the {what} {name} that the command reads: send it elsewhere."
            )


def _named(inputs: Inputs) -> Iterator[tuple[str, str]]:
    for what, names in inputs.items():
        yield from ((what, name) for name in names if name != STANDARD and os.path.exists(name))
