"""The commands of ``kcdo``.

What a command computes with is imported inside it, so that ``kcdo --help`` answers at once.
"""

from kcdo.commands import fit, predict, query, evaluate, compare, show, reproduce  # noqa: F401, I001  in order of help
from kcdo.commands.app import run

__all__ = ["run"]
