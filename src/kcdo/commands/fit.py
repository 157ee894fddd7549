"""``kcdo fit``: from a table to a model file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from kcdo.commands.app import app, examples, session
from kcdo.commands.console import Console, counted, listed
from kcdo.commands.kinds import Kind
from kcdo.commands.naming import Wanted, names, periods
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

if TYPE_CHECKING:
    import pandas as pd

    from kcdo.commands.models import Model
    from kcdo.commands.sources import Source


@app.command(
    epilog=examples(
        "kcdo fit data.csv --target speed --given flow,hour -o model.kcdo",
        "kcdo fit data.csv --target speed --periodic hour:24 -o model.kcdo",
        "kcdo fit wind.parquet --target u,v --given height -o wind.kcdo",
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
    weights: Annotated[str | None, typer.Option(help="Column of weights of the rows.")] = None,
    drop_missing: DropMissing = False,
    selection: Annotated[
        str | None,
        typer.Option(help="How parameters are chosen: auto (the default) or heuristic (fast)."),
    ] = None,
    centres: Annotated[
        int | None,
        typer.Option(min=2, help="Summarise the rows by so many centres: faster, also to predict."),
    ] = None,
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
        wish = Wanted(names(target), names(given), weights, flagged, periods(periodic or []))
        source = Source.of(files, Style.of(sep, decimal, thousands))
        with source.open() as table:
            wanted = wish.checked(table.columns, source.label)
            frame = read_table(source, table, wanted.roles(), console, drop=drop_missing)
        # after the table: what is wrong with it is said before scikit-learn is there
        from kcdo.commands.models import Model, save_model

        with console.progress("Fitting", None):
            estimator = _fitted(frame, wanted, selection, centres, seed)
        size = save_model(estimator, path)
        _tell(console, source, out, size, Model.of(estimator))


def _fitted(
    frame: pd.DataFrame, wanted: Wanted, selection: str | None, centres: int | None, seed: int
) -> Any:
    from kcdo.estimators import ConditionalDensityOperator
    from kcdo.systems import Nystrom

    X = frame[wanted.given]
    targets = wanted.targets
    Y = frame[targets[0] if len(targets) == 1 else targets]
    options: dict[str, Any] = {} if selection is None else {"selection": selection}
    if centres is not None:
        options["solver"] = Nystrom(centres)
    estimator = ConditionalDensityOperator(_kernel(X, wanted), random_state=seed, **options)
    weights = frame[wanted.weights].to_numpy() if wanted.weights else None
    return estimator.fit(X, Y, weights)


def _kernel(X: pd.DataFrame, wanted: Wanted) -> Any:
    """Return a product over kinds of columns; None, the library's choice, if none is periodic."""
    from kcdo.kernels import Automatic, Categorical, Kernel, Periodic, Product

    if not wanted.periods:
        return None
    parts: list[Kernel] = [Periodic(t).on(name) for name, t in wanted.periods.items()]
    rest = X.drop(columns=list(wanted.periods))
    categories = list(rest.select_dtypes("category").columns)
    measured = [name for name in rest.columns if name not in categories]
    if categories:
        parts.append(Categorical().on(categories))
    if measured:
        parts.append(Automatic().on(measured))
    return Product(tuple(parts)) if len(parts) > 1 else parts[0]


def _tell(console: Console, source: Source, out: str, size: int, model: Model) -> None:
    report = model.estimator.report_
    width = max(map(len, model.given))
    lines = [
        f"Fitted {listed(model.targets)} given {listed(model.given)} to "
        f"{counted(report.n_samples, 'row')} of {source.title} ({report.method}, "
        f"{report.seconds:.1f} s).",
        *(f"  {name:<{width}}  {model.kind(name)}" for name in model.given),
        f"Saved {out} ({size / 1e6:.1f} MB).",
        f"Next: kcdo predict {out} {source.paths[0]} -o predictions.csv",
    ]
    console.result("\n".join(lines), {"model": out, "bytes": size} | model.description())
