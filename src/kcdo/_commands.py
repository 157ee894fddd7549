"""The commands of ``kcdo``.

What a command computes with is imported inside it, so that ``kcdo --help`` answers at once.
"""

from pathlib import Path
from typing import Annotated

import typer

from kcdo._version import __version__

app = typer.Typer(
    name="kcdo",
    help="Conditional density estimation with kernels.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"kcdo {__version__}")
        raise typer.Exit


@app.callback()
def _kcdo(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Conditional density estimation with kernels."""


@app.command()
def demo(
    out: Annotated[
        Path, typer.Option(help="Directory for the figure.", file_okay=False, writable=True)
    ] = Path("kcdo-demo"),
    seed: Annotated[int, typer.Option(help="Seed of the data and of the draws.", min=0)] = 0,
) -> None:
    """Fit the Gaussian donut, compare with the truth and draw figure 1 of the paper."""
    from rich.console import Console

    try:
        from kcdo.demo import run_demo
    except ImportError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    run_demo(out, seed, Console())
