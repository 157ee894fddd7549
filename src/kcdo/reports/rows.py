"""Rows of the data that the page shows: points in the charts, and those predicted worst."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Integers
from kcdo.reports.accuracy import Accuracy
from kcdo.reports.columns import Column
from kcdo.reports.packing import packed_floats
from kcdo.reports.shown import Shown
from kcdo.reports.text import number, with_unit

_MOST_POINTS = 2000
_WORST = 10
_SHOWN_INPUTS = 6
_CATEGORY_NAMES = 60
PREDICTED = ("place", "width", "q5", "q50", "q95")


@dataclass(frozen=True, eq=False)
class MeasuredData:
    """Rows whose outputs are known, with what the model predicts of them.

    ``rows`` are positions among the complete rows.
    """

    shown: Shown
    rows: Integers
    accuracy: Accuracy

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.rows)

    @property
    def numbers(self) -> Integers:
        """Which rows of the data as given they are, counted from 1."""
        return self.shown.numbers[self.rows]

    def worst(self) -> Integers:
        """Return the places, among these rows, of those whose outputs were least expected."""
        order = np.argsort(self.accuracy.log_densities, kind="stable")
        return order[: min(_WORST, self.n)]


def worst_section(data: MeasuredData, order: Sequence[int]) -> dict[str, Any]:
    """Return a line for each of the rows that were predicted worst, the worst first."""
    shown, inputs = data.shown, [data.shown.inputs[i] for i in order[:_SHOWN_INPUTS]]
    lines = []
    for place in data.worst().tolist():
        row = data.rows[place]
        lines.append(
            {
                "number": int(data.numbers[place]),
                "outputs": [_predicted(data, k, place) for k in range(len(shown.outputs))],
                "log_density": float(data.accuracy.log_densities[place]),
                "inputs": [_value_text(column, column.values[row]) for column in inputs],
            }
        )
    heads = [("Row", "")]
    for column in shown.outputs:
        heads += [(column.name, "num"), ("predicted median", "num"), ("90% interval", "num")]
    heads += [("log density", "num"), *((column.name, "num") for column in inputs)]
    return {
        "heads": heads,
        "left_out": len(shown.inputs) - len(inputs),
        "lines": lines,
    }


def point_data(data: MeasuredData, order: Sequence[int], most_bytes: float) -> dict[str, Any]:
    """Return rows for the charts: inputs in an order, outputs, and predictions, packed."""
    shown = data.shown
    each = 4 / 3 * 4 * (1 + len(order) + len(shown.outputs) * (1 + len(PREDICTED)))
    most = int(min(_MOST_POINTS, most_bytes / each))
    chosen = np.unique(np.r_[data.worst(), _spread(data.n, most)])
    rows = data.rows[chosen]
    inputs = [shown.inputs[i] for i in order]
    found = data.accuracy.outputs
    return {
        "n": len(rows),
        "numbers": packed_floats(data.numbers[chosen]),
        "inputs": [packed_floats(codes(column, column.values[rows])) for column in inputs],
        "outputs": [packed_floats(column.values[rows]) for column in shown.outputs],
        "predicted": [
            {name: packed_floats(output.answers[name][chosen]) for name in PREDICTED}
            for output in found
        ],
    }


def category_names(column: Column) -> list[str]:
    """Return the names of the categories that :func:`codes` numbers, the most frequent first."""
    return [str(value) for value, _ in column.counts()[:_CATEGORY_NAMES]]


def codes(column: Column, values: NDArray) -> NDArray:
    """Return values as numbers: of categories their places among the names, -1 if not there."""
    if column.kind != "category":
        return values
    places = {name: i for i, name in enumerate(category_names(column))}
    return np.array([places.get(str(value), -1) for value in values], dtype=float)


def _spread(n: int, most: int) -> Integers:
    return np.linspace(0, n - 1, max(1, min(n, most))).astype(int)


def _predicted(data: MeasuredData, k: int, place: int) -> dict[str, str]:
    column, found = data.shown.outputs[k], data.accuracy.outputs[k]
    low, median, high = (number(float(found.answers[q][place])) for q in ("q5", "q50", "q95"))
    actual = number(float(column.values[data.rows[place]]))
    return {
        "actual": with_unit(actual, column.unit),
        "median": with_unit(median, column.unit),
        "interval": with_unit(f"{low} to {high}", column.unit),
    }


def _value_text(column: Column, value: Any) -> str:
    if column.kind == "category":
        return str(value)
    return with_unit(number(float(value), 6), column.unit)
