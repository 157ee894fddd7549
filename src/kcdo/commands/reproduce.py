"""``kcdo reproduce``: the experiments of the paper, again."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kcdo.commands.app import Debug, Json, Quiet, app, examples, session
from kcdo.commands.errors import FileError, UsageError
from kcdo.commands.talk import counted
from kcdo.commands.writing import write_errors

if TYPE_CHECKING:
    from types import ModuleType

_CHECKOUT = "reproduce runs from a checkout of the repository, which the installed package is not"


@app.command(
    epilog=examples(
        "kcdo reproduce donut --quick",
        "kcdo reproduce all --data data --out results",
    )
)
def reproduce(
    experiment: Annotated[
        str, typer.Argument(help="donut, terrain, traffic, embeddings, or all of them.")
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes: minutes, and rougher numbers.")
    ] = False,
    seeds: Annotated[
        int | None, typer.Option(help="At most so many seeds of each method.", min=1)
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Data folder; by default KCDO_DATA or the user's cache.")
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for results; a stopped run goes on there.")
    ] = Path("kcdo-reproduction"),
    jobs: Annotated[int, typer.Option(help="Processes side by side.", min=1)] = 2,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Run the experiments of the paper beside their rivals: results, tables and figures.

    What the folder has already is not run again. Rivals need kcdo[rivals], and are left out
    without it.
    """
    with session(quiet, as_json, debug) as talk:
        experiments = _experiments("experiments.reproduce")
        if experiment not in experiments.NAMES:
            known = ", ".join(experiments.NAMES)
            raise UsageError(f"no experiment {experiment!r}; there are {known}.")
        _check_folders(data, out)
        options = _experiments("experiments.runner").Options(quick, seeds, data)
        found = experiments.reproduce(experiment, options, out, talk.note, jobs)
        talk.result("\n\n".join(map(_text, found.values())), _data(found))


def _experiments(name: str) -> ModuleType:
    """Import from the checkout around the working folder, or around this file."""
    for folder in (Path.cwd(), *Path(__file__).resolve().parents):
        if (folder / "experiments" / "reproduce.py").is_file():
            sys.path.insert(0, str(folder))
            break
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "experiments":
            raise
        raise UsageError(f"{_CHECKOUT}: change into one, and call again.") from error


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


def _text(results: Any) -> str:
    table = (results.folder / "table.md").read_text(encoding="utf-8")
    failed = [record for record in results.records if "scores" not in record]
    note = f" ({counted(len(failed), 'run')} without: runs.jsonl says why)" if failed else ""
    return f"{table}\n\nWrote {results.folder}{note}."


def _data(found: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {"folder": str(results.folder), "runs": len(results.records)}
        for name, results in found.items()
    }
