"""``kcdo fit``: from a table to a model file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kcdo.commands.app import app, examples, session
from kcdo.commands.cluster import Cluster, Workers, check_cluster, cluster_client
from kcdo.commands.console import Console, counted, listed, size_text
from kcdo.commands.errors import UsageError
from kcdo.commands.kinds import Kind
from kcdo.commands.naming import Wanted, names, periods, supports
from kcdo.commands.options import (
    DataFiles,
    Debug,
    Decimal,
    DropMissing,
    Force,
    Json,
    Quiet,
    Sep,
    Thousands,
)
from kcdo.commands.reading import input_files
from kcdo.commands.writing import output_path
from kcdo.errors import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd

    from kcdo.commands.fitting import FitOptions
    from kcdo.commands.holdout import Holdout
    from kcdo.commands.models import Model
    from kcdo.commands.sources import Source

_LARGE = 2_000_000_000  # bytes of files that are streamed by default


@app.command(
    epilog=examples(
        "kcdo fit data.csv --target speed --given flow,hour -o model.kcdo",
        "kcdo fit data.csv --target speed --periodic hour:24 -o model.kcdo",
        "kcdo fit wind.parquet --target u,v --given height -o wind.kcdo",
        "kcdo fit data.csv --target speed --support 0, --test 0.2 --time day -o model.kcdo",
        "kcdo fit 'data/*.parquet' --target speed --workers 4 -o model.kcdo",
    )
)
def fit(
    data: DataFiles,
    target: Annotated[str, typer.Option(help="Columns to predict, such as speed or u,v.")],
    out: Annotated[
        str, typer.Option("--out", "-o", help="Model file to write; - is standard output.")
    ],
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
        list[str] | None,
        typer.Option(
            help="Values that a target cannot cross: 0,100 or, open above, 0, and of one of "
            "several targets u:0,100; repeatable."
        ),
    ] = None,
    weights: Annotated[str | None, typer.Option(help="Column of weights of the rows.")] = None,
    test: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="Share of the rows to keep back and to test with."),
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="Column whose rows are kept back together, or not.")
    ] = None,
    time: Annotated[
        str | None, typer.Option(help="Column of numbers or dates: keep back the last rows by it.")
    ] = None,
    drop_missing: DropMissing = False,
    selection: Annotated[
        str | None,
        typer.Option(help="How parameters are chosen: auto (the default) or heuristic (fast)."),
    ] = None,
    centres: Annotated[
        int | None,
        typer.Option(min=2, help="Summarise the rows by so many centres: faster, also to predict."),
    ] = None,
    stream: Annotated[
        bool | None,
        typer.Option(
            help="Read the files in parts, several times, and keep sums: for files larger than "
            "memory. By default those of more than 2 GB."
        ),
    ] = None,
    cluster: Cluster = None,
    workers: Workers = None,
    seed: Annotated[int, typer.Option(help="Seed of the random choices.", min=0)] = 0,
    sep: Sep = None,
    decimal: Decimal = ".",
    thousands: Thousands = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Fit the distribution of target columns given other columns, and save the model."""
    with session(quiet, as_json, debug) as console:
        files = input_files(data)
        path = output_path(out, Kind.MODEL, {"data": files}, force=force)
        if path is None:
            console.leave_stdout()
        from kcdo.commands.sources import Source
        from kcdo.commands.style import Style
        from kcdo.commands.tables import read_table

        flagged = [name for text in categorical or [] for name in names(text)]
        wish = Wanted(
            names(target),
            names(given),
            weights,
            flagged,
            periods(periodic or []),
            supports(support or []),
            group,
            time,
        )
        holdout = _holdout(test, group, time, seed)
        source = Source.of(files, Style.of(sep, decimal, thousands))
        if _is_streamed(stream, cluster, workers, files, holdout):
            from kcdo.commands.fitting import FitOptions
            from kcdo.commands.streaming import FileChunks, fit_stream

            with source.open() as table:
                wanted = wish.checked(table.columns, source.label)
            chunks = FileChunks.of(source, wanted, drop=drop_missing)
            options = FitOptions(selection, centres, seed, verbose=not quiet)
            with cluster_client(cluster, workers) as client:
                model, line = fit_stream(chunks, options, client)
            from kcdo.commands.models import save_model

            _tell(console, source, out, save_model(model.estimator, path), model, None, line)
            return
        with source.open() as table:
            wanted = wish.checked(table.columns, source.label)
            frame = read_table(source, table, wanted.roles(), console, drop=drop_missing)
        # after the table: what is wrong with it is said before scikit-learn is there
        from kcdo.commands.fitting import FitOptions
        from kcdo.commands.models import save_model

        options = FitOptions(selection, centres, seed, verbose=not quiet)
        model, found = _fitted(frame, wanted, options, source, holdout, console)
        _tell(console, source, out, save_model(model.estimator, path), model, found)


def _is_streamed(
    stream: bool | None,
    cluster: str | None,
    workers: int | None,
    files: list[str],
    holdout: Holdout | None,
) -> bool:
    """Return whether the files are read in parts; raise where options do not go together."""
    asked = check_cluster(cluster, workers) or bool(stream)
    if asked and stream is False:
        raise UsageError("--no-stream reads the files as a whole: a cluster reads parts of them.")
    if asked and holdout is not None:
        raise UsageError("--test needs all rows at once: keep files back, and use kcdo evaluate.")
    large = sum(os.path.getsize(path) for path in files if os.path.isfile(path)) > _LARGE
    return asked or (stream is None and holdout is None and large)


def _fitted(
    frame: pd.DataFrame,
    wanted: Wanted,
    options: FitOptions,
    source: Source,
    holdout: Holdout | None,
    console: Console,
) -> tuple[Model, dict[str, Any] | None]:
    """Return the model of the rows that are not kept back, and the scores of those that are."""
    from kcdo.commands.fitting import fitted

    apart = None if holdout is None else holdout.rows(frame)
    rows = frame if apart is None else frame[~apart]
    model = fitted(rows, wanted, options)  # the library names its stages by itself
    kept = (len(frame) - len(rows), holdout.words if holdout else "")
    model.remember(rows, source.names, kept, options.seed)
    return model, None if apart is None else _tested(model, frame[apart], console)


def _holdout(test: float | None, group: str | None, time: str | None, seed: int) -> Holdout | None:
    """Return which rows the options keep back."""
    if test is None and (group or time):
        raise UsageError("--group and --time say which rows --test keeps back: add --test 0.2.")
    if group and time:
        raise UsageError("--test keeps rows back by --group or by --time, not by both.")
    if test is None:
        return None
    if not 0 < test < 1:
        raise UsageError(f"--test takes a share between 0 and 1, such as 0.2; got {test:g}.")
    from kcdo.commands.holdout import Holdout

    return Holdout(test, group, time, seed)


def _tested(model: Model, frame: pd.DataFrame, console: Console) -> dict[str, Any]:
    """Return the scores of rows that were kept back."""
    from kcdo.commands.fitting import known_rows
    from kcdo.commands.scores import scores

    known = known_rows(model, frame)
    if len(known) < len(frame):
        new = counted(len(frame) - len(known), "row")
        console.note(f"Left out of the test: {new} with a category that no fitted row has.")
    if known.empty:
        raise InvalidInputError("every row kept back has a category that no fitted row has.")
    with console.progress("Testing", None):
        dist = model.estimator.conditional(model.inputs(known))
        return scores(model, dist, model.outputs(known))


def _tell(
    console: Console,
    source: Source,
    out: str,
    size: int,
    model: Model,
    found: dict[str, Any] | None,
    stream: str = "",
) -> None:
    report = model.estimator.report_
    width = max(map(len, model.given))
    lines = [
        f"Fitted {listed(model.targets)} given {listed(model.given)} to "
        f"{counted(report.n_samples, 'row')} of {source.title} ({report.method}, "
        f"{report.seconds:.1f} s).",
        *(f"  {name:<{width}}  {model.kind(name)}" for name in model.given),
        *_test_lines(model, found),
        *([stream] if stream else []),
        f"Saved {out} ({size_text(size)}).",
        f"Next: kcdo predict {out} {source.paths[0]} -o predictions.csv",
    ]
    facts = {"model": out, "bytes": size, "test": found} | model.description()
    facts |= {"stream": model.stream_facts()} if stream else {}
    console.result("\n".join(lines), facts)


def _test_lines(model: Model, found: dict[str, Any] | None) -> list[str]:
    if found is None or model.training is None:
        return []
    from kcdo.commands.scores import score_lines

    kept = f"Tested on {counted(found['rows'], 'row')} kept back, {model.training.split}:"
    return [kept, *(f"  {line}" for line in score_lines(found))]
