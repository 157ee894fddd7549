"""Optional packages: imported when first needed, with an error that says what to install."""

from importlib import import_module
from typing import Any

from kcdo.errors import MissingExtraError

__all__ = ["import_extra"]


def import_extra(module: str, *, extra: str, what: str) -> Any:
    """Import a module of an optional package.

    Parameters
    ----------
    module : str
        Its full name.
    extra : str
        The extra of kcdo that installs it.
    what : str
        Who needs it, in the plural: the subject of the error.

    Examples
    --------
    >>> import_extra("no_such_package", extra="plots", what="Figures")
    Traceback (most recent call last):
    ...
    kcdo.errors.MissingExtraError: Figures need an extra: pip install "kcdo[plots]"
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(f'{what} need an extra: pip install "kcdo[{extra}]"') from error
