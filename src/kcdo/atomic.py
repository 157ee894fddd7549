"""Files that appear whole or not at all."""

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing that takes the place of ``path`` when the block ends well.

    Whatever goes wrong before, an error, an interrupt or a full disk, an earlier file stays as it
    was and nothing new is left behind. A pipe or a device gets the contents when they are complete.

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
    draft = target.with_name(f".{target.name[:100]}.{token_hex(8)}")  # its own folder: one disk
    try:
        with open(draft, "xb+") as file:
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


def _sync_folder(folder: Path) -> None:
    """Make the new name outlast a power cut, on systems that can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
