"""Where data files lie, where they come from, and whether they are what they should be."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import textwrap
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import numpy as np

from kcdo.errors import DataNotFoundError, InvalidInputError, KcdoError

Folder = str | os.PathLike[str]

VARIABLE = "KCDO_DATA"


def data_folder(data_home: Folder | None = None) -> Path:
    """Return the folder that data sets are read from and downloaded to.

    Parameters
    ----------
    data_home : path or None
        The folder. ``None``: the one that the environment variable ``KCDO_DATA`` names, else
        the user's cache.

    Returns
    -------
    Path
        The folder; it need not exist yet.

    Examples
    --------
    >>> data_folder("shelf").as_posix()
    'shelf'
    """
    chosen = data_home or os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    return Path(_require_pooch().os_cache("kcdo"))


@dataclass(frozen=True)
class Source:
    """The files of one data set, where they can be had, and how to tell that they are right.

    Parameters
    ----------
    name : str
        What to call the data set in messages.
    files : tuple of str
        Integers below the data folder, the first that exists is read; a download goes to the last.
    url : str
        Public address of the last of ``files``.
    description : str
        What the data are, for ``DESCR``.
    sha256 : str or None
        Of the bytes at ``url``; ``None`` where we have not seen them.
    values_sha256 : str or None
        Of the numbers after parsing, see :func:`fingerprint`. It holds for every faithful copy,
        however packed.
    """

    name: str
    files: tuple[str, ...]
    url: str
    description: str
    sha256: str | None = None
    values_sha256: str | None = None

    def locate(self, data_home: Folder | None, download: bool) -> Path:
        """Return the path of the data, after a download if need be."""
        try:
            folder = data_folder(data_home)
            for file in self.files:
                if (folder / file).is_file():
                    return folder / file
            if not download:
                raise DataNotFoundError("Not downloaded, as download_if_missing=False")
            return self._download(folder)
        except DataNotFoundError as error:
            raise self._absent(data_home, str(error)) from None

    def check(self, path: Path, *values: Any) -> None:
        """Raise unless the parsed numbers are those we know."""
        if self.values_sha256 not in (None, fingerprint(*values)):
            raise InvalidInputError(
                f"{path} does not hold the numbers of {self.name} that we know: it is damaged or "
                f"an edited copy. Remove it, and it will be downloaded again from {self.url}."
            )

    def _download(self, folder: Path) -> Path:
        """Fetch the original; pooch renames a temporary file, so that none is half-written."""
        pooch = _require_pooch()
        target = folder / self.files[-1]
        registry = {target.name: self.sha256}
        try:
            keeper = pooch.create(
                target.parent, "", registry=registry, urls={target.name: self.url}
            )
            return Path(keeper.fetch(target.name))
        except (OSError, ValueError) as error:  # no network, no such page, read-only; wrong bytes
            cause = textwrap.shorten(str(error), 160, placeholder=" ...")
            raise DataNotFoundError(f"The download failed ({cause})") from None

    def _absent(self, data_home: Folder | None, reason: str) -> DataNotFoundError:
        try:
            place = str(data_folder(data_home))
        except DataNotFoundError:
            place = "any folder"
        return DataNotFoundError(
            f"{' or '.join(self.files)} of {self.name} is not in {place}. {reason}. "
            f"Get {self.url} and put it there as {self.files[-1]}, or name another folder by "
            f"data_home or the variable {VARIABLE}."
        )


def fingerprint(*values: Any) -> str:
    """Return the SHA-256 of arrays of numbers and their shapes, as 64-bit floats.

    >>> fingerprint([1, 2]) == fingerprint([1.0, 2.0]) != fingerprint([[1, 2]])
    True
    """
    digest = hashlib.sha256()
    for array in values:
        numbers = np.ascontiguousarray(array, dtype="<f8") + 0.0  # no negative zeros
        digest.update(f"{numbers.shape}".encode())
        digest.update(numbers.tobytes())
    return digest.hexdigest()


@contextmanager
def open_text(path: Path, member: str | None = None) -> Iterator[IO[str]]:
    """Open a text file: plain, gzip, or a member of a zip archive; whatever fails names it.

    A member is found by its last name, whatever its folder in the archive.
    """
    with failures_name(path), ExitStack() as stack:
        binary: Any
        name = path.name
        if path.suffix == ".zip":
            archive = stack.enter_context(zipfile.ZipFile(path))
            name = _find(archive, member, path)
            binary = stack.enter_context(archive.open(name))
        else:
            binary = stack.enter_context(path.open("rb"))
        if name.endswith(".gz"):
            binary = gzip.GzipFile(fileobj=binary)
        yield stack.enter_context(io.TextIOWrapper(binary, encoding="utf-8"))


def _find(archive: zipfile.ZipFile, name: str | None, path: Path) -> str:
    for member in archive.namelist():
        if member.rsplit("/", 1)[-1] == name:
            return member
    raise DataNotFoundError(
        f"{path} has no member {name}; it has {', '.join(archive.namelist()[:10])}."
    )


@contextmanager
def failures_name(path: Path) -> Iterator[None]:
    """Turn whatever goes wrong while a file is read and parsed into one error that names it."""
    try:
        yield
    except KcdoError:
        raise
    except (OSError, EOFError, ValueError, IndexError, zlib.error, zipfile.BadZipFile) as error:
        raise InvalidInputError(
            f"{path} cannot be read as expected ({error}). If it is damaged, remove it."
        ) from error


def _require_pooch() -> ModuleType:
    try:
        import pooch
    except ImportError:
        raise DataNotFoundError(
            'Downloads and the cache need an extra: pip install "kcdo[data]"'
        ) from None
    return pooch
