"""``kcdo compare``: this library beside others, on the user's own table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kcdo.commands.app import app, examples, session
from kcdo.commands.console import Console
from kcdo.commands.errors import UsageError
from kcdo.commands.formats import Format
from kcdo.commands.kinds import Kind
from kcdo.commands.naming import Wanted, names
from kcdo.commands.options import (
    DataFiles,
    Debug,
    Decimal,
    DropMissing,
    FitOptions,
    Force,
    Json,
    Quiet,
    Sep,
    Thousands,
)
from kcdo.commands.reading import input_files, table_source
from kcdo.commands.writing import output_path

if TYPE_CHECKING:
    import pandas as pd

    from kcdo.commands.comparison import Problem
    from kcdo.comparing import Comparison

_PICTURES = (".png", ".pdf", ".svg")


@app.command(
    epilog=examples(
        "kcdo compare data.csv --target speed",
        "kcdo compare data.csv --target speed --given flow,hour --periodic hour:24 -o compare.html",
        "kcdo compare data.csv --target speed --methods kcdo,gp --folds 10 --group station",
    )
)
def compare(
    data: DataFiles,
    target: Annotated[str, typer.Option(help="Column to predict.")],
    given: Annotated[
        str | None, typer.Option(help="Columns to predict from; all others by default.")
    ] = None,
    categorical: Annotated[
        list[str] | None,
        typer.Option(help="Columns whose numbers are names; columns of text are so anyway."),
    ] = None,
    periodic: Annotated[
        list[str] | None, typer.Option(help="Column and period, such as hour:24; repeatable.")
    ] = None,
    support: Annotated[
        list[str] | None, typer.Option(help="Values that the target cannot cross, as in fit.")
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(help="Some of kcdo, kcdo-heuristic, forest, ngboost, catboost, gp."),
    ] = None,
    folds: Annotated[int, typer.Option(min=2, help="Parts that are held out in turn.")] = 5,
    group: Annotated[
        str | None, typer.Option(help="Column whose rows are held out together.")
    ] = None,
    time: Annotated[
        str | None, typer.Option(help="Column of numbers or dates: foretell forward by it.")
    ] = None,
    rows: Annotated[
        int, typer.Option(min=10, help="At most so many rows, drawn at random from more.")
    ] = 2000,
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", help="Page (.html), picture (.png, .pdf, .svg) or table."),
    ] = None,
    drop_missing: DropMissing = False,
    selection: Annotated[
        str | None, typer.Option(help="How kcdo chooses its parameters, as in fit.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of folds and methods.", min=0)] = 0,
    sep: Sep = None,
    decimal: Decimal = ".",
    thousands: Thousands = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Compare kcdo with other methods by cross-validation, and say which to take.

    Log score, CRPS, coverage and time, of those that are installed: quantile forest, NGBoost,
    CatBoost, Gaussian process. Also where another one wins.
    """
    with session(quiet, as_json, debug) as console:
        files = input_files(data)
        path = None if out is None else _output(out, files, force=force)
        from kcdo.commands.tables import read_wanted

        asked = Wanted.of_options(target, given, categorical, periodic, support, group, time)
        if len(asked.targets) != 1:
            raise UsageError("--target takes one column: other methods predict one output.")
        if group and time:
            raise UsageError("rows are held out by --group or by --time, not by both.")
        source = table_source(files, sep, decimal, thousands)
        wanted, frame = read_wanted(source, asked, console, drop=drop_missing)
        from kcdo.commands import comparison as told

        chosen, missing = told.chosen_methods(names(methods))
        options = FitOptions(selection, None, seed, verbose=False)
        problem = told.Problem(_sampled(frame, rows, seed), wanted, options)
        parts = _folds(problem.frame, wanted, folds, seed)
        found = _compared(problem, chosen, parts, console)
        how = told.said_folds(len(problem.frame), len(parts), wanted)
        notes = told.notes(found, problem, missing, len(frame))
        words = {"title": f"{wanted.targets[0]} of {source.title}", "target": wanted.targets[0]}
        if out is not None:
            told.write_comparison(found, words | {"how": how, "notes": notes}, out, path)
        wrote = [f"Wrote {out}."] if out else []
        text = [f"{how}.", "", *told.table_lines(found), "", found.verdict(), *notes, *wrote]
        facts = {"verdict": found.verdict(), "methods": told.rows_of(found), "notes": notes}
        console.result("\n".join(text), facts | {"rows": len(problem.frame), "output": out})


def _compared(problem: Problem, chosen: list[str], parts: Any, console: Console) -> Comparison:
    """Return the scores of methods on rows that are held out in turn."""
    from kcdo.comparing import compare as compared

    group = problem.wanted.group
    groups = problem.frame[group].cat.codes.to_numpy() if group else None
    with console.progress(f"Comparing {len(chosen)} methods", len(chosen) * len(parts)) as show:
        return compared(
            problem.methods(chosen),
            problem.y,
            parts,
            groups=groups,
            gap=problem.gap,
            show=lambda name, done: show(done),
        )


def _output(out: str, files: list[str], *, force: bool) -> Path | None:
    """Return where to write, after checking that it can be."""
    ending = Path(out).suffix.lower()
    if ending in (".html", ".htm"):
        kind = Kind.PAGE
    else:
        kind = Kind.PICTURE if ending in _PICTURES else Format.of(out).kind
    return output_path(out, kind, {"data": files}, force=force)


def _sampled(frame: pd.DataFrame, most: int, seed: int) -> pd.DataFrame:
    if len(frame) <= most:
        return frame
    import numpy as np

    kept = np.random.default_rng(seed).permutation(len(frame))[:most]
    return frame.iloc[np.sort(kept)].reset_index(drop=True)


def _folds(frame: pd.DataFrame, wanted: Wanted, folds: int, seed: int) -> Any:
    from kcdo.comparing import folds_of
    from kcdo.errors import InvalidInputError

    if len(frame) < 4 * folds:
        raise InvalidInputError(f"{len(frame)} rows are too few for {folds} folds.")
    groups = frame[wanted.group].to_numpy() if wanted.group else None
    moments = frame[wanted.time].to_numpy(dtype=float) if wanted.time else None
    return folds_of(len(frame), folds, groups=groups, time=moments, seed=seed)
