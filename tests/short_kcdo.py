"""The command ``kcdo`` whose fits search for a short time, started as a script."""

import sys
from pathlib import Path

_FITTING = {"fit", "compare", "report", "evaluate", "demo"}


def main() -> None:
    """Run the command of the arguments."""
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    if _FITTING & set(sys.argv[1:2]):
        from kcdo.estimators import conditional
        from tests.efforts import SHORT

        conditional.EFFORT = SHORT
    from kcdo.cli import main as kcdo

    kcdo()


if __name__ == "__main__":
    main()
