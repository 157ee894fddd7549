"""What ``kcdo reproduce`` runs in a checkout, as a process: ``python -m experiments.command``."""

import argparse
import os
from pathlib import Path
from typing import Any

import typer

from experiments.reproduce import NAMES, reproduce
from experiments.runner import Options, Results
from kcdo.commands.app import session
from kcdo.commands.console import counted
from kcdo.commands.errors import FileError, UsageError
from kcdo.commands.writing import write_errors


def main(arguments: list[str] | None = None) -> int:
    """Run experiments and tell their results; return the exit code."""
    given = _parser().parse_args(arguments)
    try:
        with session(given.quiet, given.json, given.debug) as console:
            if given.experiment not in NAMES:
                raise UsageError(
                    f"no experiment {given.experiment!r}; there are {', '.join(NAMES)}."
                )
            _check_folders(given.data, given.out)
            options = Options(given.quick, given.seeds, given.data)
            found = reproduce(given.experiment, options, given.out, console.note, given.jobs)
            console.result("\n\n".join(map(_text, found.values())), _data(found))
    except typer.Exit as end:
        return end.exit_code
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment")
    for flag in ("--quick", "--quiet", "--json", "--debug"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=1)
    return parser


def _check_folders(data: Path | None, out: Path) -> None:
    """Raise, before any work, if there is nothing to read or no place to write."""
    if data is not None and not data.is_dir():
        raise FileError(
            f"there is no data folder {data}: make it, and what is missing is downloaded there, or "
            f"leave --data out."
        )
    with write_errors(out):
        out.mkdir(parents=True, exist_ok=True)
    if not os.access(out, os.W_OK):
        raise FileError(f"cannot write {out}: no permission.")


def _text(results: Results) -> str:
    table = (results.folder / "table.md").read_text(encoding="utf-8")
    failed = [record for record in results.records if "scores" not in record]
    note = f" ({counted(len(failed), 'run')} without: runs.jsonl says why)" if failed else ""
    return f"{table}\n\nWrote {results.folder}{note}."


def _data(found: dict[str, Results]) -> dict[str, Any]:
    return {
        name: {"folder": str(results.folder), "runs": len(results.records)}
        for name, results in found.items()
    }


if __name__ == "__main__":
    raise SystemExit(main())
