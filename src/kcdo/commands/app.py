"""The application: common options, where things are said, and how a command ends.

Exit codes: 0 done; 1 the data, the model or a file is at fault; 2 the command is (an option, a
column it names, an extra that is not installed); 130 interrupted.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from kcdo._version import __version__
from kcdo.commands.console import Console, one_line, to_stderr
from kcdo.commands.defaults import default_options
from kcdo.commands.errors import UsageError
from kcdo.errors import KcdoError, KcdoWarning

__all__ = ["app", "examples", "run", "session"]

FAILED, MISUSED, INTERRUPTED = 1, 2, 130

_EXTRAS = {
    "matplotlib": ("Figures need", "plots"),
    "pandas": ("Reading tables needs", "cli"),
    "pyarrow": ("Parquet and Feather files need", "files"),
}


class _GivenOnce(TyperCommand):
    """A command that refuses an option given twice, of which the last alone would count."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Return what is left of the arguments."""
        order: list[Any] = self.make_parser(ctx).parse_args(args=list(args))[2]
        for option, times in Counter(order).items():
            repeatable = option.param_type_name != "option" or option.multiple or option.is_flag
            if times > 1 and not repeatable:
                of_columns = "columns" in (option.help or "").lower()
                several = ", several columns with commas" if of_columns else ""
                message = f"it is there {times} times: give it once{several}."
                raise typer.BadParameter(message, ctx=ctx, param=option)
        return list(super().parse_args(ctx, args))


class _App(typer.Typer):
    def command(self, *names: Any, **options: Any) -> Any:
        return super().command(*names, **{"cls": _GivenOnce} | options)


app = _App(
    name="kcdo",
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog="Exit codes: 0 done, 1 data or files at fault, 2 command at fault, 130 interrupted.",
)


def examples(*lines: str) -> str:
    """Return an epilog of a command's help, one example per line."""
    # paragraphs, because typer joins lines; the backslash keeps [ from being read as a style
    return "\n\n".join(["[bold]Examples[/bold]", *(x.replace("[", r"\[") for x in lines)])


def run(arguments: list[str] | None = None) -> int:
    """Run a command, by default that of the process, and return its exit code."""
    try:
        return int(app(arguments, prog_name="kcdo", standalone_mode=False) or 0)
    except Exception as error:
        # typer raises its own copy of click's exceptions, or click's, depending on its version
        if not hasattr(error, "format_message"):
            raise
        context = getattr(error, "ctx", None)
        path = context.command_path if context else "kcdo"
        to_stderr(f"Error: {one_line(error.format_message())} ({path} --help shows how)")
        return MISUSED


@contextmanager
def session(quiet: bool, as_json: bool, debug: bool) -> Iterator[Console]:
    """Give a command its console; turn its errors into one line and an exit code."""
    console = Console(quiet, as_json)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", KcdoWarning)  # the console says each once
            warnings.showwarning = console.warning  # type: ignore[assignment]
            yield console
            sys.stdout.flush()  # here, so that a full disk behind a redirection is reported
    except typer.Exit:
        raise
    except BrokenPipeError:  # the reader, `head` say, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(FAILED) from None
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            traceback.print_exc()
        code, message = _verdict(error)
        to_stderr(message)
        raise typer.Exit(code) from None


def _verdict(error: BaseException) -> tuple[int, str]:
    """Return the exit code and the one line that an error comes to."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, "Interrupted."
    code = MISUSED if isinstance(error, UsageError | ImportError) else FAILED
    return code, f"Error: {one_line(_message(error))}"


def _message(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        if package in _EXTRAS:
            what, extra = _EXTRAS[package]
            return f'{what} an extra: pip install "kcdo[{extra}]"'
    if isinstance(error, KcdoError | ValueError | ImportError):
        return str(error)
    if isinstance(error, MemoryError):
        return "there is not enough memory for this."
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    return f"unexpected {type(error).__name__}: {error} (--debug shows where)"


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"kcdo {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _kcdo(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Conditional densities from tables: fit a model, then ask it for whole distributions.

    \b
      kcdo fit data.csv --target speed --given flow,hour -o model.kcdo
      kcdo predict model.kcdo new.csv -o out.csv
      kcdo report model.kcdo --data data.csv -o report.html
    """  # noqa: D301
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        return
    if "--help" in sys.argv:  # is there whatever the file of defaults says
        return
    try:
        defaults = default_options(context)
    except UsageError as error:
        to_stderr(f"Error: {one_line(str(error))}")
        raise typer.Exit(MISUSED) from None
    context.default_map = {context.invoked_subcommand: defaults}
