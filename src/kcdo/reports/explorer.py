"""What the script of the page reads: inputs, anchors, grids, densities and rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Integers
from kcdo.errors import InvalidInputError
from kcdo.metrics.nearness import InputScale
from kcdo.progress import Progress
from kcdo.reports.columns import Column
from kcdo.reports.curves import STATISTICS, Axis, bytes_per_curve, compute_curves
from kcdo.reports.grids import Plan, plan_grids
from kcdo.reports.inputs import Control
from kcdo.reports.rows import MeasuredData, category_names, codes, point_data
from kcdo.reports.shown import Shown
from kcdo.reports.text import number, script_json

_SHARE_OF_POINTS = 0.08  # of the bytes that are left
MOST_CURVES = 24_000


@dataclass(frozen=True, eq=False)
class Explorer:
    """What is explored: a model with its data, the inputs in order of importance, the axes."""

    shown: Shown
    data: MeasuredData | None
    scales: Sequence[InputScale]
    order: Sequence[int]
    axes: Sequence[Axis]

    def packed(self, most_queries: int, most_bytes: int, progress: Progress) -> dict[str, Any]:
        """Return all that the explorer shows, in at most so many queries and bytes."""
        shown, data = self.shown, self.data
        points = None
        if data is not None:
            points = point_data(data, self.order, _SHARE_OF_POINTS * most_bytes)
        anchors = np.empty(0, dtype=int) if data is None else data.rows[data.worst()]
        room = self._room(points, anchors, most_bytes)
        plan = plan_grids(shown.inputs, self.order, len(anchors), min(room, most_queries))
        anchors = anchors[: plan.n_rows]
        columns = _queries(shown, plan, anchors)
        curves = compute_curves(shown.model, shown.X, columns, self.axes, shown.flat, progress)
        return {
            **self._words(plan, anchors),
            "outputs": [
                {"label": column.label, "unit": column.unit, **packed}
                for column, packed in zip(shown.outputs, curves["outputs"], strict=True)
            ],
            "statistics": STATISTICS,
            "pairs": curves["pairs"],
            "rows": points,
        }

    def _room(self, points: Any, anchors: Integers, most_bytes: int) -> int:
        """Return how many curves the file has room for."""
        finest = plan_grids(self.shown.inputs, self.order, len(anchors), MOST_CURVES)
        words = len(script_json([points, self._words(finest, anchors)]))
        room = int((most_bytes - words) * 3 / 4) // bytes_per_curve(self.axes)
        if room < 1:
            raise InvalidInputError(
                "max_bytes leaves no room for a single curve: raise it by "
                f"{10_000 + words - min(most_bytes, 0):,} or more."
            )
        return min(room, MOST_CURVES)

    def _words(self, plan: Plan, anchors: Integers) -> dict[str, Any]:
        """Return what is said of inputs, anchors and grids."""
        columns = self.shown.inputs
        return {
            "inputs": [
                _input(control, columns[control.column], self.scales[control.column])
                for control in plan.controls
            ],
            "anchors": _anchors(self.shown, plan.controls, anchors),
            "grids": _grids(plan),
        }


def _queries(shown: Shown, plan: Plan, anchors: Integers) -> list[NDArray]:
    """Return the inputs of all curves, (K,) for each column of the data.

    Combinations of a grid run as the digits of a number do: the last input fastest.
    """
    parts: list[list[NDArray]] = []
    for grid in plan.grids:
        size = grid.size(plan.controls)
        values = _anchor_values(shown, plan.controls, anchors, grid.anchor)
        part = [np.repeat(value, size) for value in values]
        digits = np.unravel_index(np.arange(size), grid.shape(plan.controls) or (1,))
        for i, digit in zip(grid.inputs, digits, strict=False):  # a point has a digit, no input
            part[plan.controls[i].column] = plan.controls[i].values[digit]
        parts.append(part)
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def _anchor_values(
    shown: Shown, controls: Sequence[Control], anchors: Integers, anchor: int
) -> list[NDArray]:
    """Return the values of one anchor, (1,) for each column of the data."""
    if anchor:
        row = anchors[anchor - 1]
        return [column.values[row : row + 1] for column in shown.inputs]
    usual = [np.empty(0)] * len(controls)
    for control in controls:
        usual[control.column] = control.values[control.start : control.start + 1]
    return usual


def _anchors(shown: Shown, controls: Sequence[Control], anchors: Integers) -> list[dict[str, Any]]:
    found = []
    for anchor in range(len(anchors) + 1):
        values = _anchor_values(shown, controls, anchors, anchor)
        pairs = [(shown.inputs[c.column], values[c.column]) for c in controls]
        row = anchors[anchor - 1] if anchor else None
        found.append(
            {
                "number": None if row is None else int(shown.numbers[row]),
                "values": [float(codes(column, value)[0]) for column, value in pairs],
                "texts": [_text(column, value) for column, value in pairs],
                "outputs": None
                if row is None
                else [float(column.values[row]) for column in shown.outputs],
            }
        )
    return found


def _grids(plan: Plan) -> list[dict[str, Any]]:
    firsts = np.cumsum([0, *(grid.size(plan.controls) for grid in plan.grids)]).tolist()
    return [
        {"anchor": grid.anchor, "inputs": grid.inputs, "first": first}
        for grid, first in zip(plan.grids, firsts, strict=False)
    ]


def _input(control: Control, column: Column, scale: InputScale) -> dict[str, Any]:
    category = column.kind == "category"
    return {
        "label": column.label,
        "unit": column.unit,
        "kind": control.kind,
        "texts": control.texts,
        "values": codes(column, control.values).tolist(),
        "start": control.start,
        "names": category_names(column) if category else None,
        "scale": scale.scale if np.isfinite(scale.scale) else None,
        "period": scale.period,
    }


def _text(column: Column, value: NDArray) -> str:
    return str(value[0]) if column.kind == "category" else number(float(value[0]), 6)
