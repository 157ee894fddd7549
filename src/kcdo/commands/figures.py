"""Figures of a model."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backend_bases import FigureCanvasBase

from kcdo.arrays import Array
from kcdo.commands.console import Console, listed
from kcdo.commands.errors import UsageError
from kcdo.commands.kinds import Kind
from kcdo.commands.models import Model
from kcdo.commands.queries import Query
from kcdo.commands.reading import STANDARD
from kcdo.commands.writing import Inputs, output_file, output_path
from kcdo.distributions import ConditionalDistribution
from kcdo.metrics.nearness import nearness
from kcdo.plotting import (
    CalibrationDisplay,
    DensityHeatmapDisplay,
    JointDensityDisplay,
    ViolinDisplay,
    plot_distribution,
    plot_pairs,
)
from kcdo.plotting.canvas import draw_rug
from kcdo.plotting.pairs import MOST_OUTPUTS
from kcdo.plotting.queries import TITLE_WIDTH
from kcdo.plotting.slices import drawn_rows

_DPI = 150


@dataclass(frozen=True)
class FigureFile:
    """Where a figure goes, and in which format."""

    path: Path | None  # None is standard output
    format: str


def figure_file(out: str, inputs: Inputs, console: Console, *, force: bool) -> FigureFile:
    """Return where to write a figure; raise, before any work, if that cannot be."""
    known = FigureCanvasBase.get_supported_filetypes()
    ending = "png" if out == STANDARD else Path(out).suffix.lstrip(".").lower()
    if ending not in known:
        raise UsageError(
            f"a figure cannot be written as {Path(out).name}: end the name in one of "
            f"{listed(f'.{x}' for x in known)}."
        )
    path = output_path(out, Kind.PICTURE, inputs, force=force)
    if path is None:
        console.leave_stdout()
    return FigureFile(path, ending)


def held_inputs(model: Model, at: str | None, console: Console) -> Query:
    """Return where ``--at`` holds inputs, and say how far that is outside the training rows."""
    query = Query.parse(at, model, partly=True) if at else Query("", {}, {})
    for note in query.notes(model):
        console.note(f"Note: {note}")
    return query


def model_display(
    model: Model, X: Any, Y: Any, feature: str | None, target: str | None, query: Query
) -> Any:
    """Draw the density of a target over an input, or the density at values of all inputs."""
    if feature is None and len(query.values) == len(model.given):
        return _point_display(model, X, Y, target, query)
    free = [name for name in model.given if name not in query.values]
    across = feature or next((n for n in free if n not in model.categories), free[0])
    if across in query.values:
        raise UsageError(f"--at {query.text}: {across} is drawn across, so it has no one value.")
    if query.sds:
        raise UsageError(
            f"--at {query.text}: inputs beside the one across have one value each, without ±."
        )
    kind: Any = ViolinDisplay if across in model.categories else DensityHeatmapDisplay
    held = {model.given.index(name): value for name, value in _known(model, query).items()}
    return kind.from_estimator(
        model.estimator,
        X,
        Y,
        feature=model.given.index(across),
        output=model.targets.index(target or model.targets[0]),
        at=held,
    )


def _point_display(model: Model, X: Any, Y: Any, target: str | None, query: Query) -> Any:
    """Draw the curve of one target, or the contours of pairs of targets, at a query."""
    dist = query.distribution(model)
    if target is not None or len(model.targets) == 1:
        place = model.targets.index(target or model.targets[0])
        single = dist if len(model.targets) == 1 else dist.marginal(place)
        axes = plot_distribution(single)
        X, Y = drawn_rows(X, Y)
        column = np.asarray(Y, dtype=float).reshape(len(Y), -1)[:, place]
        draw_rug(axes, column, _near(model, X, query, [place]))
        axes.legend(fontsize="small", frameon=False)
        axes.set_title(_title(query), fontsize="medium")
        return Drawn(axes.figure)
    X, Y = drawn_rows(X, Y)
    near, title = _near(model, X, query), _title(query)
    if len(model.targets) > 2:
        first = list(range(min(len(model.targets), MOST_OUTPUTS)))
        return Drawn(plot_pairs(dist.marginal(first), Y.iloc[:, first], weights=near, title=title))
    display = JointDensityDisplay.from_distribution(dist, Y, weights=near, title=title)
    display.ax_.title.set_fontsize("medium")
    return display


def _near(model: Model, X: Any, query: Query, outputs: list[int] | None = None) -> Array:
    """Return how near rows are to a query, (N,)."""
    known = _known(model, query)
    at = {model.given.index(name): value for name, value in known.items()}
    return nearness(model.estimator, X, at, outputs)


def _title(query: Query) -> str:
    return textwrap.fill(f"given {query.words()}", TITLE_WIDTH)


def _known(model: Model, query: Query) -> dict[str, Any]:
    """Return values as the estimator knows them: labels of categories in their original type."""
    return {
        name: model.categories[name][value] if name in model.categories else value
        for name, value in query.values.items()
    }


@dataclass(frozen=True)
class Drawn:
    """A figure that no display keeps."""

    figure_: Any


def calibration_display(dist: ConditionalDistribution, Y: Any) -> CalibrationDisplay:
    """Draw PIT histogram and coverage of predictions."""
    return CalibrationDisplay.from_distribution(dist, Y)


def write_figure(display: Any, file: FigureFile) -> None:
    """Write the figure of a display, whole or not at all."""
    with output_file(file.path) as stream:
        display.figure_.savefig(stream, format=file.format, dpi=_DPI)
