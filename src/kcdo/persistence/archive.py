"""The outer shape of a model file: a sealed zip of ``metadata.json`` and numbers as .npy.

Members are compressed where that pays: numbers of all digits are not. The comment at the end of the
zip is the SHA-256 of everything before it: a change of any byte shows. That is no signature: a
forged file may have a good seal, so everything in it is checked as well, and what it may cost to
find out is bounded by its size.
"""

import hashlib
import json
import math
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from kcdo.atomic import atomic_file
from kcdo.errors import ModelFileError
from kcdo.memory import require_memory

Arrays = dict[str, NDArray[Any]]

METADATA = "metadata.json"
_ARRAY = re.compile(r"arrays/([a-z0-9_]{1,40})\.npy")
_KINDS = ("|b1", "<i4", "<i8", "<f4", "<f8", "<c16")
# exactly what NumPy writes for these kinds: nothing is evaluated to read it
_HEADER = re.compile(
    rb"\{'descr': '([^']{1,4})', 'fortran_order': (True|False), 'shape': \(([0-9, ]*)\), \} *\n"
)
_NPY = b"\x93NUMPY\x01\x00"
_ZIP = b"PK\x03\x04"
_ZIP_END = b"PK\x05\x06".ljust(22)  # with counts and places, to its comment
_LARGE_ZIP_END = b"PK\x06\x07".ljust(20)  # before it in files of more than 2 GiB
_SEAL = b"sha256:"
_SEAL_BYTES = len(_SEAL) + 64
_BLOCK = 1 << 20
_PAYS = 0.8  # of its size, to which a sample of a member must shrink
_SAMPLE = 1 << 16
_THE_BEGINNING = (1980, 1, 1, 0, 0, 0)  # of zip time: equal models make equal files

_LARGEST_METADATA = 1 << 24
_MOST_VALUES = 300_000  # in the metadata
_LARGEST_DIRECTORY = 1 << 19  # of the zip: some thousands of members
_LARGEST_GROWTH = 20  # how many times its own size a file may unpack to, beyond:
_SMALL = 1 << 26
_LONGEST_EMPTY = 1 << 20  # an array (10**12, 0) takes no bytes, but what is made for each row does


def write_archive(path: str | os.PathLike[str], metadata: dict[str, Any], arrays: Arrays) -> None:
    """Write metadata and arrays into one sealed file, all or nothing."""
    text = json.dumps(metadata, allow_nan=False, indent=1).encode()
    if len(text) > _LARGEST_METADATA or _n_values(text) > _MOST_VALUES:
        raise ModelFileError(
            f"the names and options of this model take {len(text) / 2**20:.0f} MiB, too much for "
            "a model file: use fewer categories, or shorter names."
        )
    with atomic_file(path) as file:
        _write_members(file, text, arrays, compressed=True)
        if _grows_too_much(file):  # nearly all zeros: a reader would take it for a trap
            file.seek(0)
            file.truncate()
            _write_members(file, text, arrays, compressed=False)
        seal = _seal_of(file)
        file.seek(-_SEAL_BYTES, os.SEEK_END)
        file.write(seal)


class ArchiveReader:
    """A file that :func:`write_archive` wrote; anything else is refused.

    The metadata are there at once, the arrays when asked for.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._archive = _opened(file)
        self.metadata = _metadata(self._archive)

    @property
    def nbytes(self) -> int:
        """Bytes of all members in memory."""
        return sum(member.file_size for member in self._archive.infolist())

    def arrays(self) -> Arrays:
        """Read every array, if there is memory for them."""
        require_memory(self.nbytes, "this model", "load it where there is more memory.")
        return dict(_arrays(self._archive))


def kind_of(dtype: np.dtype[Any]) -> str | None:
    """Return how a kind of numbers is written in model files, None if it is not."""
    kind = dtype.newbyteorder("<").str
    return kind if kind in _KINDS else None


def dtype_of(kind: Any) -> np.dtype[Any]:
    """Return the kind of numbers that a file names, if it is one that files may hold."""
    if kind not in _KINDS:
        raise ModelFileError(f"it holds numbers of the unknown kind {str(kind)[:40]!r}.")
    return np.dtype(kind).newbyteorder("=")


# --- writing


def _write_members(file: BinaryIO, text: bytes, arrays: Arrays, *, compressed: bool) -> None:
    with zipfile.ZipFile(file, "w", compresslevel=1) as archive:
        archive.comment = _SEAL + b"0" * 64
        archive.writestr(_member(METADATA, text[:_SAMPLE], compressed), text)
        for name, array in arrays.items():
            little = array.astype(array.dtype.newbyteorder("<"), copy=False)
            info = _member(f"arrays/{name}.npy", _sample(little), compressed)
            with archive.open(info, "w", force_zip64=array.nbytes > 1 << 30) as member:
                np.lib.format.write_array(member, little, version=(1, 0), allow_pickle=False)


def _member(name: str, sample: bytes, compressed: bool) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _THE_BEGINNING)
    if compressed and len(zlib.compress(sample, 1)) < _PAYS * len(sample):
        info.compress_type = zipfile.ZIP_DEFLATED
    return info


def _sample(array: NDArray[Any]) -> bytes:
    """Return some of the bytes of an array, from all over it."""
    flat = array.ravel(order="K")
    pieces = 4
    length = _SAMPLE // pieces // array.itemsize
    if flat.size <= pieces * length:
        return flat.tobytes()
    starts = np.linspace(0, flat.size - length, pieces).astype(int)
    return b"".join(flat[start : start + length].tobytes() for start in starts)


def _grows_too_much(file: BinaryIO) -> bool:
    size = file.seek(0, os.SEEK_END)
    with zipfile.ZipFile(file) as archive:
        return sum(m.file_size for m in archive.infolist()) > _SMALL + _LARGEST_GROWTH * size


def _seal_of(file: BinaryIO) -> bytes:
    """Return the seal of an open file: a digest of all but the bytes of the seal itself."""
    left = file.seek(0, os.SEEK_END) - _SEAL_BYTES
    file.seek(0)
    digest = hashlib.sha256()
    while left > 0 and (block := file.read(min(left, _BLOCK))):
        digest.update(block)
        left -= len(block)
    return _SEAL + digest.hexdigest().encode()


# --- reading


def _opened(file: BinaryIO) -> zipfile.ZipFile:
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if file.read(4) != _ZIP:
        raise ModelFileError("it is not a kcdo model file.")
    seal = _seal_of(file)
    found = file.read(_SEAL_BYTES)
    if not found.startswith(_SEAL):
        raise ModelFileError("it is not a kcdo model file, or it is cut short.")
    if found != seal:
        raise ModelFileError("it is damaged: its contents do not match its checksum.")
    _check_directory(file, size)
    archive = zipfile.ZipFile(file)
    _check_members(archive, size)
    return archive


def _check_directory(file: BinaryIO, size: int) -> None:
    """Refuse a list of members that takes long to read."""
    file.seek(max(0, size - _SEAL_BYTES - len(_ZIP_END) - len(_LARGE_ZIP_END)))
    large, end = file.read(len(_LARGE_ZIP_END)), file.read(len(_ZIP_END))
    if not end.startswith(_ZIP_END[:4]):
        raise ModelFileError("it is not a kcdo model file: its directory is missing.")
    elsewhere = large.startswith(_LARGE_ZIP_END[:4]) and size <= zipfile.ZIP64_LIMIT
    if elsewhere or int.from_bytes(end[12:16], "little") > _LARGEST_DIRECTORY:
        raise ModelFileError("it has too many parts.")


def _check_members(archive: zipfile.ZipFile, size: int) -> None:
    members = archive.infolist()
    names = [member.filename for member in members]
    if names[:1] != [METADATA] or len(set(names)) < len(names):
        raise ModelFileError("it is not a kcdo model file: its metadata are missing.")
    for member in members:
        stored = member.compress_type == zipfile.ZIP_STORED
        known = stored or member.compress_type == zipfile.ZIP_DEFLATED
        if not known or member.flag_bits & 1:
            raise ModelFileError(f"its part {member.filename[:60]!r} is packed in an unknown way.")
        if stat.S_ISLNK(member.external_attr >> 16):  # how Unix marks one
            raise ModelFileError(f"its part {member.filename[:60]!r} is a link to another file.")
        if stored and member.file_size != member.compress_size:
            raise ModelFileError(f"its part {member.filename[:60]!r} has two sizes.")
    if sum(member.compress_size for member in members) > size:
        raise ModelFileError("its parts overlap: together they are larger than the file.")
    if sum(member.file_size for member in members) > _SMALL + _LARGEST_GROWTH * size:
        raise ModelFileError("its parts are many times larger than the file.")


def _metadata(archive: zipfile.ZipFile) -> dict[str, Any]:
    with archive.open(METADATA) as stream:
        text = stream.read(_LARGEST_METADATA + 1)
    if len(text) > _LARGEST_METADATA or _n_values(text) > _MOST_VALUES:
        raise ModelFileError("its metadata are too large.")
    metadata = json.loads(text, parse_constant=_refuse_constant)
    if not isinstance(metadata, dict):
        raise ModelFileError("its metadata are not a table of names and values.")
    return metadata


def _n_values(text: bytes) -> int:
    """Return at least the number of values in JSON, each of which takes far more in memory."""
    return sum(text.count(mark) for mark in (b",", b"[", b"{"))


def _refuse_constant(text: str) -> None:
    raise ModelFileError(f"its metadata contain {text}.")


def _arrays(archive: zipfile.ZipFile) -> Iterator[tuple[str, NDArray[Any]]]:
    for member in archive.infolist()[1:]:
        name = _ARRAY.fullmatch(member.filename)
        if name is None:
            raise ModelFileError(f"it has a part of unknown kind, {member.filename[:60]!r}.")
        with archive.open(member) as stream:
            yield name[1], _read_array(stream, member)


def _read_array(stream: Any, member: zipfile.ZipInfo) -> NDArray[Any]:
    """Return an array, after its header and the size of the member agree on what it is."""
    start = stream.read(len(_NPY) + 2)
    length = int.from_bytes(start[-2:], "little")
    header = _HEADER.fullmatch(stream.read(length))
    if not start.startswith(_NPY) or header is None:
        raise ModelFileError(f"{member.filename!r} is not an array of plain numbers.")
    dtype = dtype_of(header[1].decode("ascii", "replace"))
    shape = tuple(int(n) for n in header[3].split(b",") if n.strip())
    nbytes = math.prod(shape) * dtype.itemsize  # of whole numbers of Python: nothing overflows
    fits = nbytes == member.file_size - len(start) - length
    if not fits or (nbytes == 0 and max(shape) > _LONGEST_EMPTY):
        raise ModelFileError(f"{member.filename!r} does not have the size that its shape needs.")
    raw = _read_bytes(stream, nbytes)
    if dtype.kind == "b" and raw.max(initial=0) > 1:
        raise ModelFileError(f"{member.filename!r} has truth values other than 0 and 1.")
    numbers = raw.view(dtype.newbyteorder("<")).astype(dtype, copy=False)
    return numbers.reshape(shape, order="F" if header[2] == b"True" else "C")


def _read_bytes(stream: Any, n: int) -> NDArray[np.uint8]:
    """Return the ``n`` bytes that are left, read to the end, where zip compares its checksum."""
    out = np.empty(n, np.uint8)
    done = 0
    while part := stream.read(_BLOCK):
        if done + len(part) > n:
            raise ModelFileError("it does not end where it says.")
        out[done : done + len(part)] = np.frombuffer(part, np.uint8)
        done += len(part)
    if done != n:
        raise ModelFileError("it ends too early.")
    return out
