"""``kcdo predict``: columns of answers beside the rows of a table, chunk by chunk."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from kcdo.commands.app import app, examples, session
from kcdo.commands.cluster import Begun, Cluster, Workers, cluster_client, in_order
from kcdo.commands.console import Console, counted, listed, size_text
from kcdo.commands.formats import Format
from kcdo.commands.naming import names
from kcdo.commands.options import (
    DataFiles,
    Debug,
    Decimal,
    Force,
    Json,
    ModelFile,
    Quiet,
    Sep,
    Thousands,
)
from kcdo.commands.reading import check_model, input_files, table_source
from kcdo.commands.writing import output_file, output_path
from kcdo.errors import InvalidInputError

if TYPE_CHECKING:
    from kcdo.commands.answers import Answers
    from kcdo.commands.sources import Source

Item = TypeVar("Item")
Result = TypeVar("Result")


@app.command(
    epilog=examples(
        "kcdo predict model.kcdo new.csv -o out.csv",
        "kcdo predict model.kcdo new.csv --stats mean,sd,q2.5,q97.5,mode -o out.csv.gz",
        "kcdo predict model.kcdo test.parquet --stats logpdf -o out.parquet",
        "kcdo predict calibrated.kcdo new.csv --conformal 0.9 -o out.csv",
    )
)
def predict(
    model: ModelFile,
    data: DataFiles,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            "-o",
            help="File to write, in the format of its name: .csv, .tsv, .jsonl, .parquet or "
            ".feather; CSV on standard output by default.",
        ),
    ] = None,
    stats: Annotated[
        str,
        typer.Option(
            help="What to add: mean, sd, var, mode, quantiles such as q05 or q97.5; logpdf, the "
            "log density of the target columns in the file; novelty, how far the row is from "
            "those of the fit, where 1 is usual among these."
        ),
    ] = "mean,sd,q05,q50,q95",
    conformal: Annotated[
        str | None,
        typer.Option(
            help="Levels such as 0.9 or 0.5,0.9: add the ends of intervals that hold that share of "
            "new rows, of a model with fit --calibrate."
        ),
    ] = None,
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Rows with missing values get no answer.")
    ] = False,
    cluster: Cluster = None,
    workers: Workers = None,
    sep: Sep = None,
    decimal: Decimal = ".",
    thousands: Thousands = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Add what the model says about each row: mean, spread, quantiles, modes.

    The file is read in parts, so it may be larger than the memory. All its columns are kept.
    """
    with session(quiet, as_json, debug) as console:
        started = time.perf_counter()
        files = input_files(data)
        check_model(model, files)
        form = Format.of(out)
        path = output_path(out, form.kind, {"model": [model], "data": files}, force=force)
        if path is None:
            console.leave_stdout()
        from kcdo.commands.answers import Answers
        from kcdo.commands.models import load_model
        from kcdo.commands.tables import TYPED

        answers = Answers(load_model(model), names(stats), skip_missing, names(conformal))
        source = table_source(files, sep, decimal, thousands)
        opened = source.readable_twice() if form.table in TYPED else nullcontext(source)
        with opened as rows, cluster_client(cluster, workers) as client:
            begun = Begun()
            added, n_rows = _write(answers, rows, path, form, console, begun, client)
            nbytes = rows.nbytes
        if path is not None:
            seconds = time.perf_counter() - started
            facts = {"rows": n_rows, "bytes": nbytes, "columns": added, "seconds": seconds}
            again = "" if client is None else f"; {counted(begun.again, 'chunk')} done again"
            console.result(
                _told(out, facts, again), {"output": out, "retries": begun.again} | facts
            )


def _told(out: str | None, facts: dict[str, Any], again: str) -> str:
    """Return a sentence on what was written, and on chunks that a cluster did again."""
    read = f"{size_text(facts['bytes'])} read, " if facts["bytes"] else ""  # not known of a pipe
    return (
        f"Wrote {out}: {counted(facts['rows'], 'row')} with {listed(facts['columns'])} "
        f"({read}{facts['seconds']:.1f} s{again})."
    )


def _write(
    answers: Answers,
    source: Source,
    path: Path | None,
    form: Format,
    console: Console,
    begun: Begun,
    client: Any = None,
) -> tuple[list[str], int]:
    """Write the rows with their answers, part by part; return the new columns and the count.

    ``begun`` counts the parts that a cluster is given.
    """
    from kcdo.commands.tables import CHUNK_ROWS, open_writer

    n_rows = 0
    with source.open() as table:
        added = answers.check(table.columns, source.label)
        positioned = ((chunk, table.position()) for chunk in table.chunks(CHUNK_ROWS))
        parts = (
            _one_ahead(lambda item: answers.of(item[0]), positioned)
            if client is None
            else in_order(client, lambda item: answers.of(item[0]), positioned, begun)
        )
        with (
            output_file(path) as file,
            closing(parts),
            closing(open_writer(file, str(path), form, source, table, added)) as writer,
            console.progress(f"Predicting {source.title}", table.size or None) as show,
        ):
            for (chunk, position), values in parts:
                writer.write(chunk, values)
                n_rows += len(chunk)
                show(position)
            if not n_rows:
                raise InvalidInputError(f"{source.label} has a header but no rows.")
    return added, n_rows


def _one_ahead(
    function: Callable[[Item], Result], items: Iterable[Item]
) -> Generator[tuple[Item, Result]]:
    """Yield items with the results of a function, found by a thread while those before are in use.

    The items come from this thread: where they wait for a pipe, Ctrl-C ends it.
    """
    with ThreadPoolExecutor(1) as thread:
        before: tuple[Item, Future[Result]] | None = None
        for item in items:
            computing = thread.submit(function, item)
            if before is not None:
                yield before[0], before[1].result()
            before = item, computing
        if before is not None:
            yield before[0], before[1].result()
