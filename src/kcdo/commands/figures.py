"""Figures of a model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.backend_bases import FigureCanvasBase

from kcdo.commands.console import Console, listed
from kcdo.commands.errors import UsageError
from kcdo.commands.kinds import Kind
from kcdo.commands.models import Model
from kcdo.commands.queries import Query
from kcdo.commands.reading import STANDARD
from kcdo.commands.writing import Inputs, output_file, output_path
from kcdo.distributions import ConditionalDistribution
from kcdo.plotting import CalibrationDisplay, DensityHeatmapDisplay, JointDensityDisplay

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


def density_display(
    model: Model, X: Any, Y: Any, feature: str | None, target: str | None
) -> DensityHeatmapDisplay:
    """Draw the density of a target over an input."""
    numeric = [name for name in model.given if name not in model.categories]
    across = feature or next(iter(numeric), None)
    if across not in numeric:
        what = f"--feature {feature} is" if feature else "the inputs are"
        raise UsageError(f"{what} categorical; a heat map needs numbers across.")
    return DensityHeatmapDisplay.from_estimator(
        model.estimator, X, Y, feature=across, output=target or model.targets[0]
    )


def calibration_display(dist: ConditionalDistribution, Y: Any) -> CalibrationDisplay:
    """Draw PIT histogram and coverage of predictions."""
    return CalibrationDisplay.from_distribution(dist, Y)


def joint_display(model: Model, Y: Any, at: str) -> JointDensityDisplay:
    """Draw the joint density of the first two targets at a query."""
    if len(model.targets) == 1:
        raise UsageError("--at draws several targets jointly, and the model has one.")
    dist = Query.parse(at, model).distribution(model)
    return JointDensityDisplay.from_distribution(dist, Y, title=f"given {at}")


def write_figure(display: Any, file: FigureFile) -> None:
    """Write the figure of a display, whole or not at all."""
    with output_file(file.path) as stream:
        display.figure_.savefig(stream, format=file.format, dpi=_DPI)
