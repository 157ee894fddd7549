"""Figures of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.backend_bases import FigureCanvasBase

from kcdo.commands.console import listed
from kcdo.commands.errors import UsageError
from kcdo.commands.models import Model
from kcdo.commands.queries import Query
from kcdo.commands.writing import output_file
from kcdo.distributions import ConditionalDistribution
from kcdo.plotting import CalibrationDisplay, DensityHeatmapDisplay, JointDensityDisplay

_DPI = 150


def check_figure(path: Path) -> None:
    """Raise, before any work, if matplotlib cannot write such a file."""
    known = FigureCanvasBase.get_supported_filetypes()
    if _format(path) not in known:
        raise UsageError(
            f"a figure cannot be written as {path.name}: end the name in one of "
            f"{listed(f'.{x}' for x in known)}."
        )


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


def write_figure(display: Any, path: Path) -> None:
    """Write the figure of a display, whole or not at all."""
    with output_file(path) as file:
        display.figure_.savefig(file, format=_format(path), dpi=_DPI)


def _format(path: Path) -> str:
    return path.suffix.lstrip(".").lower()
