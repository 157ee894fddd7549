"""What a model file says of itself: read without the classes that the model is made of."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kcdo._version import __version__
from kcdo.errors import KcdoError, ModelFileError
from kcdo.persistence.archive import ArchiveReader

FORMAT = "kcdo-model"
VERSION = (1, 6)  # files of a higher first number are refused, those of a lower second are read


def model_info(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what a model file says of itself: versions, columns, parameters, report, sizes.

    Nothing of the model is made. ``size`` is that of the file and, ``unpacked``, that of all its
    numbers, in bytes.
    """
    with opened(path) as reader:
        told = {name: value for name, value in reader.metadata.items() if name != "objects"}
        return told | {"size": {"file": os.path.getsize(path), "unpacked": reader.nbytes}}


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[ArchiveReader]:
    """Open a model file; whatever its contents provoke becomes one kind of error."""
    later = ""
    with open(path, "rb") as file:
        try:
            reader = ArchiveReader(file)
            if check_version(reader.metadata) > VERSION:
                later = f" It was written by a later kcdo than this, {__version__}: upgrade kcdo."
            yield reader
        except MemoryError:
            raise
        except RecursionError:
            text = "its values are nested too deeply."
            raise ModelFileError(f"cannot load {os.fspath(path)!r}: {text}{later}") from None
        except KcdoError as error:  # of ours, or of a constructor
            raise ModelFileError(f"cannot load {os.fspath(path)!r}: {error}{later}") from None
        except Exception as error:  # of zip, JSON or NumPy
            raise ModelFileError(
                f"cannot load {os.fspath(path)!r}: it is damaged ({type(error).__name__}: "
                f"{error}).{later}"
            ) from error


def check_version(metadata: Mapping[str, Any]) -> tuple[int, int]:
    """Return the version of a file; other formats, and later ones than we know, are refused."""
    if metadata.get("format") != FORMAT:
        raise ModelFileError("it is not a kcdo model file.")
    found = re.fullmatch(r"(\d{1,6})\.(\d{1,6})", str(metadata.get("version")))
    if found is None:
        raise ModelFileError("it does not say which version of model files it is.")
    if int(found[1]) > VERSION[0]:
        raise ModelFileError(
            f"it is a model file of version {found[0]}, written by kcdo "
            f"{str(metadata.get('kcdo'))[:40]}; this is kcdo {__version__}, which reads up to "
            f"{VERSION[0]}.x: upgrade kcdo."
        )
    return int(found[1]), int(found[2])
