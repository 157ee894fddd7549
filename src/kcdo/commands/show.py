"""``kcdo info``, ``plot``, ``report`` and ``demo``: models to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kcdo.commands.app import app, examples, session
from kcdo.commands.console import size_text
from kcdo.commands.errors import UsageError
from kcdo.commands.kinds import Kind
from kcdo.commands.naming import check_names
from kcdo.commands.options import (
    DataOption,
    Debug,
    Decimal,
    DropMissing,
    Force,
    Json,
    ModelFile,
    Quiet,
    Sep,
    Thousands,
)
from kcdo.commands.reading import check_model, input_files, table_source
from kcdo.commands.writing import output_name, output_path


@app.command(epilog=examples("kcdo info model.kcdo", "kcdo info model.kcdo --json"))
def info(
    model: ModelFile, quiet: Quiet = False, as_json: Json = False, debug: Debug = False
) -> None:
    """Print what a model is: columns, sizes, and the parameters that were chosen."""
    with session(quiet, as_json, debug) as console:
        check_model(model)
        from kcdo.commands.facts import Facts

        facts = Facts.of_file(model)
        console.result("\n".join(facts.lines()), {"model": model} | facts.plain())


@app.command(
    epilog=examples(
        "kcdo plot model.kcdo --data data.csv -o fig.png",
        "kcdo plot model.kcdo --data data.csv --feature hour -o fig.pdf",
        "kcdo plot model.kcdo --data data.csv --feature flow --at hour=8 -o fig.png",
        "kcdo plot wind.kcdo --data wind.csv --at height=80 -o joint.png",
    )
)
def plot(
    model: ModelFile,
    data: DataOption,
    out: Annotated[
        str,
        typer.Option("--out", "-o", help="Picture to write: PNG, PDF, SVG; - is standard output."),
    ],
    feature: Annotated[
        str | None,
        typer.Option(help="Input across, a number or categories; the first number by default."),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Target upwards; the first by default.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            help="Values of inputs that are not across; of all inputs: the density there, of "
            "several targets of every pair of the first five."
        ),
    ] = None,
    drop_missing: DropMissing = False,
    sep: Sep = None,
    decimal: Decimal = ".",
    thousands: Thousands = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Draw the density over an input, with data, intervals and modes.

    Inputs that are not drawn rest at their median or most frequent category, or where --at says.
    Rows are drawn the fainter, the farther they are from there.
    """
    with session(quiet, as_json, debug) as console:
        files = input_files(data)
        check_model(model, files)
        from kcdo.commands.figures import figure_file, held_inputs, model_display, write_figure
        from kcdo.commands.models import load_model, read_data

        figure = figure_file(out, {"model": [model], "data": files}, console, force=force)
        fitted = load_model(model)
        check_names([feature] if feature else [], fitted.given, "the model", "--feature")
        check_names([target] if target else [], fitted.targets, "the model", "--target")
        source = table_source(files, sep, decimal, thousands)
        X, Y = read_data(fitted, source, console, drop=drop_missing)
        held = held_inputs(fitted, at, console)
        with console.progress("Drawing", None):
            write_figure(model_display(fitted, X, Y, feature, target, held), figure)
        console.result(f"Wrote {out}.", {"output": out})


@app.command(
    epilog=examples(
        "kcdo report model.kcdo --data data.csv -o report.html",
        "kcdo report model.kcdo --held-out test.csv -o report.html",
    )
)
def report(
    model: ModelFile,
    out: Annotated[
        str, typer.Option("--out", "-o", help="HTML file to write; - is standard output.")
    ],
    data: Annotated[
        list[str] | None,
        typer.Option("--data", help="Table with the inputs and the targets; repeatable."),
    ] = None,
    held_out: Annotated[
        list[str] | None,
        typer.Option("--held-out", help="The same, of rows that the model has not seen."),
    ] = None,
    drop_missing: DropMissing = False,
    sep: Sep = None,
    decimal: Decimal = ".",
    thousands: Thousands = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a page with densities to explore by sliders, accuracy and the parameters chosen.

    One HTML file that works offline. Rows which the model has not seen show its accuracy best:
    --held-out names them, and the page says that they are.
    """
    with session(quiet, as_json, debug) as console:
        if bool(data) == bool(held_out):
            raise UsageError("give the rows to show by --data, or by --held-out if unseen.")
        files = input_files(data or held_out or [])
        check_model(model, files)
        path = output_path(out, Kind.PAGE, {"model": [model], "data": files}, force=force)
        if path is None:
            console.leave_stdout()
        from kcdo.commands.models import load_model, read_data
        from kcdo.reports import write_report

        fitted = load_model(model)
        source = table_source(files, sep, decimal, thousands)
        X, Y = read_data(fitted, source, console, drop=drop_missing)
        with output_name(path) as name:
            known = True if held_out else None
            write_report(fitted.estimator, name, X=X, Y=Y, held_out=known, verbose=not quiet)
            size = name.stat().st_size
        text = f"Wrote {out} ({size_text(size)}): open it in a browser."
        console.result(text, {"output": out, "bytes": size})


@app.command(epilog=examples("kcdo demo", "kcdo demo --out folder --seed 1"))
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Directory for the figure.")] = Path(
        "kcdo-demo"
    ),
    seed: Annotated[int, typer.Option(help="Seed of the data and of the draws.", min=0)] = 0,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Fit the Gaussian donut, compare with the truth and draw figure 1 of the paper."""
    with session(quiet, False, debug):
        from rich.console import Console

        from kcdo.demo import run_demo

        run_demo(out, seed, Console(quiet=quiet))
