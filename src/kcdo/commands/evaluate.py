"""``kcdo evaluate``: how good a model is on rows that it has not seen."""

from __future__ import annotations

from typing import Annotated

import typer

from kcdo.commands.app import app, examples, session
from kcdo.commands.console import counted
from kcdo.commands.options import (
    DataFiles,
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


@app.command(
    epilog=examples(
        "kcdo evaluate model.kcdo test.csv",
        "kcdo evaluate model.kcdo test.csv -o pit.png --json",
    )
)
def evaluate(
    model: ModelFile,
    data: DataFiles,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", help="Picture of the calibration: PIT histogram and coverage."),
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
    """Compare predictions with what came true: log score, CRPS, CDE loss, coverage.

    The rows must have the targets, and should not be those of the fit.
    """
    with session(quiet, as_json, debug) as console:
        files = input_files(data)
        check_model(model, files)
        from kcdo.commands.models import load_model, read_data
        from kcdo.commands.scores import scores
        from kcdo.commands.told_scores import score_lines

        if out is not None:
            from kcdo.commands.figures import calibration_display, figure_file, write_figure

            figure = figure_file(out, {"model": [model], "data": files}, console, force=force)
        fitted = load_model(model)
        source = table_source(files, sep, decimal, thousands)
        X, Y = read_data(fitted, source, console, drop=drop_missing)
        with console.progress("Evaluating", len(Y)) as show:
            found = scores(fitted, X, Y, show)
            if out is not None:
                write_figure(calibration_display(fitted.estimator.conditional(X), Y), figure)
        lines = [f"{counted(len(Y), 'row')} of {source.label}", *score_lines(found)]
        written = [f"Wrote {out}."] if out else []
        console.result("\n".join([*lines, *written]), found | {"figure": out})
