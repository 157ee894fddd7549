"""``kcdo reproduce``: the experiments of the paper, again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from kcdo.commands.app import app, examples, session
from kcdo.commands.errors import UsageError
from kcdo.commands.options import Debug, Json, Quiet

_CHECKOUT = "reproduce runs from a checkout of the repository, which the installed package is not"
_PATIENCE = 5.0  # seconds in which a process that got Ctrl-C as we did should have ended


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
    with session(quiet, as_json, debug):
        checkout = _checkout()
        values = {"--out": out, "--jobs": jobs, "--data": data, "--seeds": seeds}
        flags = {"--quick": quick, "--quiet": quiet, "--json": as_json, "--debug": debug}
        arguments = [str(x) for pair in values.items() if pair[1] is not None for x in pair]
        arguments += [name for name, wanted in flags.items() if wanted]
        code = _run(checkout, [experiment, *arguments])
        if code:
            raise typer.Exit(code)


def _checkout() -> Path:
    """Return the checkout around the working folder, or around this file."""
    for folder in (Path.cwd(), *Path(__file__).resolve().parents):
        if (folder / "experiments" / "command.py").is_file():
            return folder
    raise UsageError(f"{_CHECKOUT}: change into one, and call again.")


def _run(checkout: Path, arguments: list[str]) -> int:
    """Run the experiments as a process, which finds their code where the checkout is."""
    path = os.pathsep.join(filter(None, [str(checkout), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "experiments.command", *arguments]
    with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": path}) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:  # a terminal sends it to both, and the other says so
            return _end(process)


def _end(process: subprocess.Popen[bytes]) -> int:
    try:
        return process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        if os.name == "posix":
            process.send_signal(signal.SIGINT)
        else:
            process.terminate()
        return process.wait()
