"""Files as streams of bytes: compressed ones are unpacked, and packed, on the way."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import shutil
import tempfile
import zipfile
import zlib
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

from kcdo.commands.errors import FileError
from kcdo.commands.kinds import Kind, kind_of_bytes
from kcdo.errors import InvalidInputError

_SAMPLE = 4096
_SEEKING = (Kind.ZIP, Kind.MODEL, Kind.PARQUET, Kind.FEATHER)  # are read from their end
_OPENERS: dict[Kind, Any] = {
    Kind.GZIP: lambda file: gzip.GzipFile(fileobj=file),
    Kind.BZIP2: bz2.BZ2File,
    Kind.XZ: lzma.LZMAFile,
}
_DAMAGE = (gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)


class Stream:
    """The bytes of a table, unpacked.

    Attributes
    ----------
    name : str
        The file, in messages.
    file : binary file
        What to read.
    kind : Kind
        What it holds, once unpacked.
    size : int
        Bytes of the file as it stands; 0 for a pipe.
    """

    def __init__(self, name: str, file: BinaryIO) -> None:
        self.name = name
        self.size = os.fstat(file.fileno()).st_size  # 0 for a pipe
        start = _peek(file)
        self._raw = _spooled(file) if kind_of_bytes(start) in _SEEKING else file
        with self.damage_explained():
            self.file = self._unpacked(kind_of_bytes(start))
            self.start = _peek(self.file)
        self.kind = kind_of_bytes(self.start)

    def position(self) -> int:
        """Return how many bytes of the file have been read."""
        return self._raw.tell() if self.size else 0

    def close(self) -> None:
        """Close the file."""
        self._raw.close()

    @contextmanager
    def damage_explained(self) -> Iterator[None]:
        """Say which file is damaged, when unpacking it fails."""
        try:
            yield
        except _DAMAGE as error:
            raise FileError(f"{self.name} is damaged: {error}.") from error
        except OSError as error:
            if error.errno is not None or isinstance(error, FileError):
                raise
            raise FileError(f"{self.name} is damaged: {error}.") from error  # so bzip2 says it

    def _unpacked(self, kind: Kind) -> Any:
        if kind is Kind.ZIP:
            return self._only_member(zipfile.ZipFile(self._raw))
        return _OPENERS[kind](self._raw) if kind in _OPENERS else self._raw

    def _only_member(self, archive: zipfile.ZipFile) -> Any:
        files = [m for m in archive.infolist() if not m.is_dir()]
        names = [m.filename for m in files if not m.filename.startswith("__MACOSX/")]
        if "[Content_Types].xml" in names:
            raise InvalidInputError(
                f"{self.name} is an Excel workbook or another document: save the table as CSV."
            )
        if len(names) != 1:
            raise InvalidInputError(
                f"{self.name} holds {len(names)} files, and a table is one: unpack it first."
            )
        try:
            return archive.open(names[0])
        except (RuntimeError, NotImplementedError) as error:  # a password, or an odd method
            raise FileError(f"{self.name} cannot be unpacked: {error}.") from error


@dataclass(frozen=True)
class Span:
    """Rows of a file that stand together, and can be read without those before them.

    Attributes
    ----------
    start, stop : int
        Where they begin and end: groups of rows of a columnar file, bytes of an unpacked text.
    row : int
        The first of them, counted from 1.
    """

    start: int
    stop: int
    row: int


class StreamTable:
    """A table that is read from a stream, and closes it."""

    _stream: Stream

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def position(self) -> int:
        """Return how many bytes of the file have been read."""
        return self._stream.position()


class LineTable(StreamTable):
    """A table of text, which counts the bytes of the lines that its rows were made of.

    Attributes
    ----------
    encoding : str
        Of the bytes; one that writes no mark of its own.
    """

    encoding: str
    _taken = 0  # bytes of the lines that were asked for

    @abstractmethod
    def chunks(self, rows: int) -> Iterator[Any]:
        """Yield the rows, once: so many at a time, or fewer where they are long."""

    def spans(self, rows: int) -> Iterator[Span]:
        """Yield where the rows of each of the ``chunks`` stand."""
        start = self._rows_start
        for chunk in self.chunks(rows):
            yield Span(start, self._taken, chunk.place.start)
            start = self._taken

    @property
    def _rows_start(self) -> int:
        """Where the first row begins."""
        return 0

    def _counted_lines(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            self._taken += len(line.encode(self.encoding))
            yield line

    def _text_of(self, span: Span) -> io.TextIOWrapper:
        """Return the rows of a span as they stand."""
        with self._stream.damage_explained():
            self._stream.file.seek(span.start)
            found = io.BytesIO(self._stream.file.read(span.stop - span.start))
        return io.TextIOWrapper(found, encoding=self.encoding, newline="")


class Packed:
    """A file to write to, whose contents are compressed on the way."""

    def __init__(self, file: BinaryIO, packing: str | None, name: str) -> None:
        self._archive: Any = None
        self._sink: Any = file
        if packing == "gz":
            self._sink = gzip.GzipFile(_packed_name(name, "gz"), "wb", 6, file, mtime=0)
        elif packing == "bz2":
            self._sink = bz2.BZ2File(file, "wb")
        elif packing == "xz":
            self._sink = lzma.LZMAFile(file, "wb")  # noqa: SIM115  closed below
        elif packing == "zip":
            self._archive = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED)
            self._sink = self._archive.open(_packed_name(name, "zip"), "w", force_zip64=True)
        self._own = packing is not None

    def write(self, data: bytes) -> None:
        """Write some bytes."""
        self._sink.write(data)

    def close(self) -> None:
        """Finish what is compressed; the file itself belongs to the caller."""
        if self._own:
            self._sink.close()
        if self._archive is not None:
            self._archive.close()


def _packed_name(name: str, packing: str) -> str:
    """Return the name of what is in a packed file: not that of the draft it is written to."""
    return Path(name).name.removesuffix(f".{packing}")


def _peek(file: Any) -> bytes:
    return bytes(file.peek(_SAMPLE)[:_SAMPLE])


def _spooled(file: BinaryIO) -> BinaryIO:
    """Return a file in which one can go back: itself, or a copy of a pipe."""
    if file.seekable():
        return file
    copy = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the stream
    shutil.copyfileobj(file, copy)
    copy.seek(0)
    return copy
