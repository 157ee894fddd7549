"""``kcdo predict``: columns of answers beside the rows of a table, chunk by chunk."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from kcdo.commands.app import app, examples, session
from kcdo.commands.console import Console, counted, listed
from kcdo.commands.formats import Format
from kcdo.commands.naming import names
from kcdo.commands.options import Debug, Force, Json, ModelFile, Quiet
from kcdo.commands.reading import check_model, check_source, check_standard_input
from kcdo.commands.writing import output_file, output_path
from kcdo.errors import InvalidInputError

if TYPE_CHECKING:
    from kcdo.commands.answers import Answers
    from kcdo.commands.tables import Table

Item = TypeVar("Item")
Result = TypeVar("Result")


@app.command(
    epilog=examples(
        "kcdo predict model.kcdo new.csv -o out.csv",
        "kcdo predict model.kcdo new.csv --stats mean,sd,q2.5,q97.5,mode -o out.csv.gz",
        "kcdo predict model.kcdo test.parquet --stats logpdf -o out.parquet",
    )
)
def predict(
    model: ModelFile,
    data: Annotated[str, typer.Argument(help="CSV, CSV.gz, Parquet or Feather file.")],
    out: Annotated[
        str | None,
        typer.Option("--out", "-o", help="File to write; CSV on standard output by default."),
    ] = None,
    stats: Annotated[
        str,
        typer.Option(
            help="What to add: mean, sd, var, mode, quantiles such as q05 or q97.5, and logpdf, "
            "the log density of the target columns in the file."
        ),
    ] = "mean,sd,q05,q50,q95",
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Rows with missing values get no answer.")
    ] = False,
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
        check_model(model)
        check_source(data)
        check_standard_input(model, data)
        inputs = {"model": [model], "data": [data]}
        path = output_path(out, Format.of(out).kind, inputs, force=force)
        if path is None:
            console.leave_stdout()
        from kcdo.commands.answers import Answers
        from kcdo.commands.models import load_model
        from kcdo.commands.tables import check_formats, open_table

        answers = Answers(load_model(model), names(stats), skip_missing)
        with open_table(Path(data)) as table:
            check_formats(Path(data), table, path)
            added = answers.check(table.columns, data)
            n_rows = _write(answers, added, table, Path(data), path, console)
        if path is not None:
            seconds = time.perf_counter() - started
            console.result(
                f"Wrote {out}: {counted(n_rows, 'row')} with {listed(added)} ({seconds:.1f} s).",
                {"output": out, "rows": n_rows, "columns": added, "seconds": seconds},
            )


def _write(
    answers: Answers, added: list[str], table: Table, data: Path, out: Path | None, console: Console
) -> int:
    """Write the rows with their answers, part by part; return how many there were."""
    from kcdo.commands.tables import CHUNK_ROWS, open_writer

    n_rows = 0
    positioned = ((chunk, table.position()) for chunk in table.chunks(CHUNK_ROWS))
    parts = _one_ahead(lambda item: answers.of(item[0]), positioned)
    with output_file(out) as file, closing(parts):
        writer = open_writer(file, out, table, added)
        with console.progress(f"Predicting {data.name}", table.size or None) as show:
            for (chunk, position), values in parts:
                writer.write(chunk, values)
                n_rows += len(chunk)
                show(position)
        if not n_rows:
            raise InvalidInputError(f"{data} has a header but no rows.")
        writer.close()
    return n_rows


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
