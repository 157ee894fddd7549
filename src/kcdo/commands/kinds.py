"""What a file holds, told by its first bytes: so that nothing of another kind is written over."""

from __future__ import annotations

import codecs
from enum import Enum
from pathlib import Path

_SAMPLE = 4096  # bytes that are looked at


class Kind(Enum):
    """What a file holds; the value says it in a message."""

    EMPTY = "nothing"
    MODEL = "a model"
    PARQUET = "a Parquet table"
    FEATHER = "a Feather table"
    GZIP = "a gzip file"
    BZIP2 = "a bzip2 file"
    XZ = "an xz file"
    ZIP = "a zip archive"
    PICTURE = "a picture"
    PAGE = "an HTML page"
    JSON = "JSON"
    TEXT = "text"
    BINARY = "something else"


_MAGIC = {
    b"PAR1": Kind.PARQUET,
    b"ARROW1": Kind.FEATHER,
    b"\x1f\x8b": Kind.GZIP,
    b"BZh": Kind.BZIP2,
    b"\xfd7zXZ\x00": Kind.XZ,
    b"PK\x03\x04": Kind.ZIP,
    b"\x89PNG": Kind.PICTURE,
    b"\xff\xd8\xff": Kind.PICTURE,  # JPEG
    b"II*\x00": Kind.PICTURE,  # TIFF
    b"RIFF": Kind.PICTURE,  # WebP
    b"GIF8": Kind.PICTURE,
    b"%PDF": Kind.PICTURE,
    b"%!PS": Kind.PICTURE,
}
_FIRST_MEMBER = slice(30, 43)  # of a zip archive: where the name of its first member stands


def kind_of_file(path: Path) -> Kind:
    """Return what a file holds."""
    with path.open("rb") as file:
        return kind_of_bytes(file.read(_SAMPLE))


def kind_of_bytes(start: bytes) -> Kind:
    r"""Return what a file with such a beginning holds.

    >>> kind_of_bytes(b"flow,speed\n1,2\n"), kind_of_bytes(b"  <!doctype html>")
    (<Kind.TEXT: 'text'>, <Kind.PAGE: 'an HTML page'>)
    """
    if not start:
        return Kind.EMPTY
    found = next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), None)
    if found is Kind.ZIP and start[_FIRST_MEMBER] == b"metadata.json":
        return Kind.MODEL
    return found or _kind_of_text(start)


def encoding_of(start: bytes) -> str:
    """Return the encoding of text with such a beginning: UTF-8 unless a mark says UTF-16."""
    if start.startswith(codecs.BOM_UTF16_LE):
        return "utf-16-le"
    return "utf-16-be" if start.startswith(codecs.BOM_UTF16_BE) else "utf-8"


def _kind_of_text(start: bytes) -> Kind:
    try:  # incremental, because the end of the sample may lie inside a character
        text = codecs.getincrementaldecoder(encoding_of(start))().decode(start)
    except UnicodeDecodeError:
        return Kind.BINARY
    if "\0" in text:
        return Kind.BINARY
    beginning = text.lstrip("\ufeff \t\r\n").lower()
    if beginning.startswith(("<!doctype html", "<html")):
        return Kind.PAGE
    if beginning.startswith(("<?xml", "<svg")):
        return Kind.PICTURE
    return Kind.JSON if beginning.startswith(("{", "[")) else Kind.TEXT
