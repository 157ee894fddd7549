"""Files that appear whole or not at all."""

import errno
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO

_locks: Any = import_module("fcntl") if find_spec("fcntl") else None  # not on Windows

_DRAFT = ".kcdo-draft"
_NAME = re.compile(r"\..+\.[0-9a-f]{16}" + re.escape(_DRAFT))
_FRESH = 60.0  # seconds in which a draft is left alone: its process may be about to lock it


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing that takes the place of ``path`` when the block ends well.

    Whatever goes wrong before, an error, an interrupt or a full disk, an earlier file stays as it
    was and nothing new is left behind. What a process that was killed left behind is removed when
    the next one writes into the folder. A pipe or a device gets the contents when they are
    complete.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     target = Path(folder, "out.txt")
    ...     with atomic_file(target) as file:
    ...         _ = file.write(b"new")
    ...         target.exists()
    ...     target.read_bytes()
    False
    b'new'
    """
    given = Path(path)
    if given.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    try:
        with _delivered(given) if is_special(given) else _replaced(given) as file:
            yield file
    except OSError as error:
        if error.filename is None and error.errno is not None:  # else its text says what is wrong
            error.filename = os.fspath(path)
        raise


def is_special(path: Path) -> bool:
    """Whether a path is a pipe or a device, which cannot be replaced."""
    return path.exists() and not stat.S_ISREG(path.stat().st_mode)


@contextmanager
def _replaced(path: Path) -> Iterator[BinaryIO]:
    target = Path(os.path.realpath(path))  # through links: the file they lead to is replaced
    _remove_old_drafts(target.parent)
    # in its own folder: on one disk
    draft = target.with_name(f".{target.name[:100]}.{token_hex(8)}{_DRAFT}")
    try:
        with open(draft, "xb+") as file:
            _locked(file.fileno())
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, draft)
        os.replace(draft, target)
    except BaseException as error:
        with suppress(OSError):
            draft.unlink()
        if isinstance(error, OSError) and error.filename == str(draft):
            error.filename = str(path)  # the name that the caller knows
        raise
    _sync_folder(target.parent)


@contextmanager
def _delivered(path: Path) -> Iterator[BinaryIO]:
    with tempfile.TemporaryFile() as file:
        yield file
        file.seek(0)
        with open(path, "wb") as device:
            shutil.copyfileobj(file, device)


def _remove_old_drafts(folder: Path) -> None:
    """Remove drafts that no living process writes: theirs are locked, or were changed just now."""
    with suppress(OSError), os.scandir(folder) as entries:
        drafts = [Path(entry) for entry in entries if _NAME.fullmatch(entry.name)]
        for draft in drafts:
            with suppress(OSError):
                _remove_old_draft(draft)


def _remove_old_draft(draft: Path) -> None:
    if time.time() - draft.stat().st_mtime < _FRESH:
        return
    with open(draft, "rb+") as file:
        idle = _locked(file.fileno())
    if idle:
        draft.unlink()  # where there are no locks, Windows, a file that is open stays


def _locked(handle: int) -> bool:
    """Lock a file until it is closed or the process ends; whether that was possible."""
    if _locks is None:
        return True
    try:
        _locks.flock(handle, _locks.LOCK_EX | _locks.LOCK_NB)
    except OSError:  # another process has it, or the file system knows no locks
        return False
    return True


def _sync_folder(folder: Path) -> None:
    """Make the new name outlast a power cut, on systems that can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
