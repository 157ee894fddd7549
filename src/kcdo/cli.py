"""Entry point of the command ``kcdo``."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line, or say what to install when its extra is missing."""
    try:
        import kcdo.serve.command  # noqa: F401  adds its command to the others
        from kcdo.commands import run
    except ModuleNotFoundError as error:
        if error.name not in ("rich", "typer"):
            raise
        print('The command line needs an extra: pip install "kcdo[cli]"', file=sys.stderr)
        raise SystemExit(2) from None
    raise SystemExit(run())
