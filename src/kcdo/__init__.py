"""kcdo: conditional densities as kernel operators.

Names are loaded when first used, so that ``import kcdo`` and ``kcdo --help`` are instant. Which
names there are, and in which module, is written once, in ``__init__.pyi`` beside this file.
"""

import warnings
from functools import cache
from importlib import import_module

from kcdo._version import __version__ as __version__

# Old names, kept for a while: {"Old": "New"}. Using one warns and gives the new one.
_RENAMED = {"Remembering": "Nugget"}


@cache
def _homes() -> dict[str, str]:
    """Return the module of each public name, from the lines of ``__init__.pyi``."""
    # by the loader, which reads packages inside of zip files too
    lines = __spec__.loader.get_data(f"{__file__.removesuffix('c')}i").decode().splitlines()
    words = [line.split() for line in lines if line.startswith("from ")]
    return {name: home for _, home, _, name, *_ in words}


def __getattr__(name: str) -> object:
    if name == "__all__":  # what ``from kcdo import *`` asks for
        return __dir__()
    if name in _RENAMED:
        return _renamed(name)
    homes = _homes()
    if f"kcdo.{name}" in homes.values() or homes.get(name) == "kcdo":
        return import_module(f"kcdo.{name}")  # a module, as in kcdo.metrics.crps
    if name not in homes:
        raise AttributeError(f"module 'kcdo' has no attribute {name!r}")
    value = getattr(import_module(homes[name]), name)
    globals()[name] = value
    return value


def _renamed(name: str) -> object:
    new = _RENAMED[name]
    message = f"kcdo.{name} is now called kcdo.{new}; the old name will be removed."
    warnings.warn(message, DeprecationWarning, stacklevel=3)
    return __getattr__(new)


def __dir__() -> list[str]:
    return sorted(_homes())
