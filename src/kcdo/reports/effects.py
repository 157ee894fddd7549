"""Partial dependence: what one input does to the predictions, all others as in the data."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.reports.columns import Column
from kcdo.reports.inputs import even_values, number_texts, usual_categories
from kcdo.reports.shown import Shown
from kcdo.tables import table_like

_STEPS = 15
_CATEGORIES = 8
_MOST_ROWS = 60
_FEWEST_ROWS = 8
STATISTICS = ("mean", "q05", "q25", "q50", "q75", "q95")


@dataclass(frozen=True, eq=False)
class Effect:
    """Averages over rows of what is predicted when one input has some value.

    Attributes
    ----------
    column : int
        The input.
    values, texts : (V,) array, tuple of str
        Its values.
    averages : dict of str to (V, d) array
        By statistic: mean and quantiles.
    n_rows : int
        Rows averaged over.
    """

    column: int
    values: NDArray
    texts: tuple[str, ...]
    averages: dict[str, Array]
    n_rows: int


def measure_effects(shown: Shown, order: Sequence[int], most_queries: int) -> list[Effect]:
    """Return the effect of every input, in an order, asking at most about so many queries."""
    choices = [_values(shown.inputs[i]) for i in order]
    asked = sum(len(values) for values in choices)
    n_rows = int(np.clip(most_queries // max(asked, 1), _FEWEST_ROWS, _MOST_ROWS))
    rows = shown.some_rows(n_rows)
    base = [column.values[rows] for column in shown.inputs]
    return [
        _effect(shown, i, values, base)
        for i, values in zip(order, choices, strict=True)
        if len(values) > 1
    ]


def _effect(shown: Shown, place: int, values: NDArray, base: Sequence[NDArray]) -> Effect:
    n_rows, n_values = len(base[0]), len(values)
    columns = [np.tile(column, n_values) for column in base]
    columns[place] = np.repeat(values, n_rows)
    answers = shown.model.conditional(table_like(shown.X, columns)).summary(STATISTICS)
    averages = {
        name: found.reshape(n_values, n_rows, -1).mean(axis=1) for name, found in answers.items()
    }
    texts = _texts(shown.inputs[place], values)
    return Effect(place, values, texts, averages, n_rows)


def _values(column: Column) -> NDArray:
    if column.kind == "category":
        return usual_categories(column, _CATEGORIES)
    return even_values(column, _STEPS)


def _texts(column: Column, values: NDArray) -> tuple[str, ...]:
    return tuple(map(str, values)) if column.kind == "category" else number_texts(values)
