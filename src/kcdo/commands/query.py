"""``kcdo density`` and ``kcdo sample``: questions about inputs typed on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kcdo.commands.app import app, examples, session
from kcdo.commands.console import Console, counted, json_line
from kcdo.commands.errors import UsageError
from kcdo.commands.formats import Format
from kcdo.commands.kinds import Kind
from kcdo.commands.naming import check_names
from kcdo.commands.options import Debug, Force, Json, ModelFile, Quiet
from kcdo.commands.reading import check_model
from kcdo.commands.writing import output_file, output_path

if TYPE_CHECKING:
    from kcdo.distributions import ConditionalDistribution

_LARGEST_GRID = 4_000_000

At = Annotated[
    list[str],
    typer.Option(help="Values of all inputs, such as flow=1200±50,hour=8; repeatable."),
]
Out = Annotated[
    str | None, typer.Option("--out", "-o", help="File to write; standard output by default.")
]
Target = Annotated[
    str | None, typer.Option(help="One of several targets; all, jointly, by default.")
]


@app.command(
    epilog=examples(
        "kcdo density model.kcdo --at flow=1200,hour=8",
        "kcdo density model.kcdo --at flow=1200±50,hour=8 --grid 400 -o p.csv",
        "kcdo density wind.kcdo --at height=80 --target u --json",
    )
)
def density(
    model: ModelFile,
    at: At,
    grid: Annotated[
        int | None,
        typer.Option(min=2, help="Values of each target; 200 by default, jointly 50."),
    ] = None,
    target: Target = None,
    out: Out = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Print the density of the target at given inputs, on a grid of values.

    Inputs may be uncertain: 1200±50, also written 1200+-50, is a Gaussian with mean 1200 and
    standard deviation 50.
    """
    with session(quiet, as_json, debug) as console:
        path = _output(model, out, console, force=force)
        targets, queries = _ask(model, at, target, console)
        from kcdo.commands.queries import columns_of, grid_points

        d = len(targets)
        side = grid or (200 if d == 1 else 50)
        if side**d > _LARGEST_GRID:
            raise UsageError(f"{side} values of each of {d} targets are too many: name a --target.")
        points = grid_points([dist for _, dist in queries], side, d)
        answers = [
            (text, columns_of(targets, points) | {"density": dist.pdf(points)[0]})
            for text, dist in queries
        ]
        _write(answers, path, console)


@app.command(
    epilog=examples(
        "kcdo sample model.kcdo --at flow=1200,hour=8 -n 1000",
        "kcdo sample model.kcdo --at flow=1200±50,hour=8 --seed 7 -o draws.csv",
    )
)
def sample(
    model: ModelFile,
    at: At,
    n: Annotated[int, typer.Option("-n", min=1, help="Number of draws for each --at.")] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of the draws.", min=0)] = 0,
    target: Target = None,
    out: Out = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Draw from the distribution of the targets at given inputs."""
    with session(quiet, as_json, debug) as console:
        path = _output(model, out, console, force=force)
        targets, queries = _ask(model, at, target, console)
        import numpy as np

        from kcdo.commands.queries import columns_of

        rng = np.random.default_rng(seed)
        answers = [(text, columns_of(targets, dist.sample(n, rng)[0])) for text, dist in queries]
        _write(answers, path, console)


def _output(model: str, out: str | None, console: Console, *, force: bool) -> Path | None:
    """Return where to write, after checking that and the model."""
    check_model(model)
    kind = Kind.JSON if console.as_json else Format.of(out).kind
    return output_path(out, kind, {"model": [model]}, force=force)


def _ask(
    model_file: str, at: list[str], target: str | None, console: Console
) -> tuple[list[str], list[tuple[str, ConditionalDistribution]]]:
    """Return the targets, and each query with its distribution of them."""
    from kcdo.commands.models import load_model
    from kcdo.commands.queries import Query

    model = load_model(model_file)
    check_names([target] if target else [], model.targets, "the model", "--target")
    queries = [Query.parse(text, model) for text in at]
    for note in (note for query in queries for note in query.notes(model)):
        console.note(f"Note: {note}")
    dists = [query.distribution(model) for query in queries]
    targets = [target] if target else model.targets
    if len(targets) == 1 and not model.flat:
        dists = [dist.marginal(model.targets.index(targets[0])) for dist in dists]
    return targets, list(zip(at, dists, strict=True))


def _write(answers: list[tuple[str, dict[str, Any]]], out: Path | None, console: Console) -> None:
    """Write columns of each query: as JSON, or as a table with the query in front of several."""
    lengths = [len(next(iter(columns.values()))) for _, columns in answers]
    with output_file(out) as file:
        if console.as_json:
            file.write(json_line([{"at": text} | columns for text, columns in answers]).encode())
        else:
            from kcdo.commands.writers import write_columns

            pairs = zip(answers, lengths, strict=True)
            at = {"at": [text for (text, _), n in pairs for _ in range(n)]}
            joined = {n: [v for _, c in answers for v in c[n].tolist()] for n in answers[0][1]}
            table = (at if len(answers) > 1 else {}) | joined
            write_columns(file, str(out), Format.of(None if out is None else str(out)), table)
    if out is not None and not console.as_json:
        console.result(f"Wrote {out}: {counted(sum(lengths), 'row')}.", {})
