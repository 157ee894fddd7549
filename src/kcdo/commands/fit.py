"""``kcdo fit``: from a table to a model file."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from kcdo.commands.app import app, examples, session
from kcdo.commands.cluster import Cluster, Workers, check_cluster, cluster_client
from kcdo.commands.console import Console, counted, listed, size_text
from kcdo.commands.errors import UsageError
from kcdo.commands.kinds import Kind
from kcdo.commands.naming import Wanted
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
from kcdo.commands.reading import STANDARD, input_files, table_source
from kcdo.commands.writing import output_path

if TYPE_CHECKING:
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
        "kcdo fit data.csv --target speed --calibrate 0.2 -o model.kcdo",
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
    calibrate: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            help="Share of the rows to keep back for intervals that hold as many outputs as they "
            "promise: predict --conformal.",
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            help="Column of rows that belong together: what is chosen, tested or calibrated is "
            "judged by groups as a whole."
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            help="Column of numbers or dates: later rows judge what earlier ones say, and --test "
            "keeps back the last."
        ),
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
    rows_at: Annotated[
        str | None,
        typer.Option(
            help="Folder in which a streamed fit keeps its rows: those near a query then count "
            "more. The model needs it to predict."
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
        asked = Wanted.of_options(
            target, given, categorical, periodic, support, group, time, weights
        )
        kept_back = _kept_back(test, calibrate, group, time, seed)
        source = table_source(files, sep, decimal, thousands)
        streamed = _is_streamed(stream, cluster, workers, files, any(kept_back))
        _check_streamed(streamed, asked, rows_at)
        options = FitOptions(selection, centres, seed, verbose=not quiet)
        if streamed:
            model, line = _fit_parts(
                source, asked, options, cluster, workers, rows_at, drop=drop_missing
            )
        else:
            model = _fit_whole(source, asked, options, kept_back, console, drop=drop_missing)
            line = ""
        from kcdo.commands.models import save_model

        _tell(console, source, out, save_model(model.saved, path), model, kept_back[1], line)


def _fit_whole(
    source: Source,
    asked: Wanted,
    options: FitOptions,
    kept_back: tuple[Holdout | None, Holdout | None],
    console: Console,
    *,
    drop: bool,
) -> Model:
    """Fit to files that are read at once; rows that are kept back test and calibrate the model."""
    from kcdo.commands.tables import read_wanted

    wanted, frame = read_wanted(source, asked, console, drop=drop)
    # after the table: what is wrong with it is said before scikit-learn is there
    from kcdo.commands.kept_back import fit_table

    return fit_table(frame, wanted, options, source.names, *kept_back, console)


def _fit_parts(
    source: Source,
    asked: Wanted,
    options: FitOptions,
    cluster: str | None,
    workers: int | None,
    rows_at: str | None,
    *,
    drop: bool,
) -> tuple[Model, str]:
    """Fit to files that are read in parts; return the model, and one line on what it took."""
    from kcdo.commands.streaming import FileChunks, fit_stream

    with source.open() as table:
        wanted = asked.checked(table.columns, source.label)
    chunks = FileChunks.of(source, wanted, drop=drop)
    with cluster_client(cluster, workers) as client:
        return fit_stream(chunks, options, client, rows_at)


def _is_streamed(
    stream: bool | None,
    cluster: str | None,
    workers: int | None,
    files: list[str],
    keeps_back: bool,
) -> bool:
    """Return whether the files are read in parts; raise where options do not go together."""
    asked = check_cluster(cluster, workers) or bool(stream)
    if asked and stream is False:
        raise UsageError("--no-stream reads the files as a whole: a cluster reads parts of them.")
    if asked and keeps_back:
        raise UsageError(
            "--test and --calibrate need all rows at once: keep files back for kcdo evaluate."
        )
    large = sum(os.path.getsize(path) for path in files if os.path.isfile(path)) > _LARGE
    return asked or (stream is None and not keeps_back and large)


def _check_streamed(streamed: bool, asked: Wanted, rows_at: str | None) -> None:
    if streamed and (asked.group or asked.time):
        raise UsageError(
            "--group and --time need all rows at once: say --no-stream, or leave them out."
        )
    if rows_at is not None and not streamed:
        raise UsageError("--rows-at keeps the rows of a streamed fit: it needs --stream.")


def _kept_back(
    test: float | None, calibrate: float | None, group: str | None, time: str | None, seed: int
) -> tuple[Holdout | None, Holdout | None]:
    """Return which rows are kept back for a test, and which for calibration."""
    parts = (
        _holdout("--test", test, group, time, seed),
        _holdout("--calibrate", calibrate, group, time, seed),
    )
    if group and time:
        raise UsageError("rows belong together by --group or by --time, not by both.")
    if (test or 0.0) + (calibrate or 0.0) >= 1:
        raise UsageError("--test and --calibrate together leave no rows to fit.")
    return parts


def _holdout(
    option: str, share: float | None, group: str | None, time: str | None, seed: int
) -> Holdout | None:
    """Return which rows an option keeps back."""
    if share is None:
        return None
    if not 0 < share < 1:
        raise UsageError(f"{option} takes a share between 0 and 1, such as 0.2; got {share:g}.")
    from kcdo.commands.holdout import Holdout

    return Holdout(share, group, time, seed, option)


def _tell(
    console: Console,
    source: Source,
    out: str,
    size: int,
    model: Model,
    calibration: Holdout | None,
    stream: str,
) -> None:
    """Print what was fitted, how well, and what to do next."""
    from kcdo.commands.facts import Facts

    report, facts = model.estimator.report_, Facts.of(model.saved)
    width = max(map(len, model.given))
    lines = [
        f"Fitted {listed(model.targets)} given {listed(model.given)} to "
        f"{counted(report.n_samples, 'row')} of {source.title} ({report.method}, "
        f"{report.seconds:.1f} s).",
        *(f"  {name:<{width}}  {facts.kind(name)}" for name in model.given),
        *_calibration_lines(model, calibration),
        *_test_lines(model),
        *([stream] if stream else []),
        f"Saved {out} ({size_text(size)}).",
        f"Next: {_next_command(source, out, calibrated=calibration is not None)}",
    ]
    told = {"model": out, "bytes": size} | facts.plain()
    told |= {"stream": model.stream_facts()} if stream else {}
    console.result("\n".join(lines), told)


def _next_command(source: Source, out: str, *, calibrated: bool) -> str:
    """Return a command that predicts the same rows, to be copied into a shell as it is."""
    data = "new.csv" if source.paths[0] == STANDARD else source.paths[0]
    model = "model.kcdo" if out == STANDARD else out
    level = ["--conformal", "0.9"] if calibrated else []
    options = [*source.style.options(), *level, "-o", "predictions.csv"]
    return shlex.join(["kcdo", "predict", model, data, *options])


def _calibration_lines(model: Model, calibration: Holdout | None) -> list[str]:
    if calibration is None or model.calibrated is None:
        return []
    return [
        f"Calibrated on {counted(len(model.calibrated), 'row')} kept back, {calibration.words}."
    ]


def _test_lines(model: Model) -> list[str]:
    found = model.training.test if model.training is not None else None
    if not found or model.training is None:
        return []
    from kcdo.commands.told_scores import score_lines, told_in_turn

    told = told_in_turn(found) if found.get("in_turn") else f"kept back, {model.training.split}"
    kept = f"Tested on {counted(found['rows'], 'row')} {told}:"
    return [kept, *(f"  {line}" for line in score_lines(found))]
