"""All experiments of the paper from one place; ``kcdo reproduce`` is a thin layer over this.

    python -m experiments.reproduce kcdo-reproduction docs/reproduction.md

puts the tables of a finished run into the documentation page.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from experiments.pages import replace_table
from experiments.runner import Options, Results, carry_out
from experiments.studies import STUDIES
from kcdo.errors import DataNotFoundError, InvalidInputError

NAMES = (*STUDIES, "all")


def reproduce(
    name: str, options: Options, out: Path, say: Callable[[str], None]
) -> dict[str, Results]:
    """Run one experiment, or all that the data at hand allow; return the results of each."""
    if name not in NAMES:
        raise InvalidInputError(f"no experiment {name!r}; there are {', '.join(NAMES)}.")
    chosen: Sequence[str] = list(STUDIES) if name == "all" else [name]
    found = {}
    for each in chosen:
        try:
            found[each] = carry_out(STUDIES[each], options, out / each, say)
        except DataNotFoundError as error:
            if name != "all":
                raise
            say(f"{each}: left out: {error}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, help="folder that kcdo reproduce wrote")
    parser.add_argument("page", type=Path, help="page with marks for the tables")
    arguments = parser.parse_args()
    for name in STUDIES:
        table = arguments.results / name / "table.md"
        if table.exists():
            replace_table(arguments.page, table.read_text(), name)


if __name__ == "__main__":
    main()
