"""Errors of the command line, beyond those of the library."""

from kcdo.errors import InvalidInputError, KcdoError


class UsageError(InvalidInputError):
    """The command asks for something that cannot be; exit code 2."""


class FileError(KcdoError, OSError):
    """A file cannot be read or written; the message says which and why; exit code 1."""
