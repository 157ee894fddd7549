"""``kcdo evaluate``: how good a model is on rows that it has not seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

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
from kcdo.commands.reading import check_model, input_files

if TYPE_CHECKING:
    from kcdo.commands.models import Model
    from kcdo.distributions import ConditionalDistribution

_LEVELS = (0.5, 0.9, 0.95)


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
        from kcdo.commands.sources import Source
        from kcdo.commands.style import Style

        if out is not None:
            from kcdo.commands.figures import calibration_display, figure_file, write_figure

            figure = figure_file(out, {"model": [model], "data": files}, console, force=force)
        fitted = load_model(model)
        source = Source.of(files, Style.of(sep, decimal, thousands))
        X, Y = read_data(fitted, source, console, drop=drop_missing)
        with console.progress("Evaluating", None):
            dist = fitted.estimator.conditional(X)
            scores = _scores(fitted, dist, Y)
            if out is not None:
                write_figure(calibration_display(dist, Y), figure)
        console.result(_text(scores, source.label, out), scores | {"figure": out})


def _scores(model: Model, dist: ConditionalDistribution, Y: Any) -> dict[str, Any]:
    """Return the scores; those of single outputs by the name of the target."""
    from kcdo import metrics

    if model.flat:
        singles = {model.targets[0]: (dist, Y)}
    else:
        singles = {t: (dist.marginal(i), Y[t]) for i, t in enumerate(model.targets)}
    return {
        "rows": len(Y),
        "log_score": metrics.log_score(dist, Y),
        "cde_loss": metrics.cde_loss(dist, Y),
        "crps": {name: metrics.crps(*pair) for name, pair in singles.items()},
        "coverage": {
            name: {f"{level:g}": metrics.interval_coverage(*pair, level) for level in _LEVELS}
            for name, pair in singles.items()
        },
    }


def _text(scores: dict[str, Any], data: str, out: str | None) -> str:
    lines = [
        f"{counted(scores['rows'], 'row')} of {data}",
        f"log score  {scores['log_score']:>9.4g}   mean log density; higher is better",
        f"CDE loss   {scores['cde_loss']:>9.4g}   squared error of the density up to a constant; "
        "lower is better",
    ]
    for name, value in scores["crps"].items():
        lines.append(f"CRPS       {value:>9.4g}   in units of {name}; lower is better")
    for name, shares in scores["coverage"].items():
        found = ", ".join(f"{share:.1%} (of {float(x):.0%})" for x, share in shares.items())
        lines.append(f"coverage   {found} of {name} inside its intervals")
    return "\n".join([*lines, *([f"Wrote {out}."] if out else [])])
