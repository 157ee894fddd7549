"""The values that the reader can give to each input."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.reports.columns import Column
from kcdo.reports.text import number

_FEWEST_STEPS = 5
_SLIDER_SIZES = {1: (101,), 2: (61, 31)}
_MANY_SLIDER_SIZES = (41, 15, 9)  # of three inputs and more; further ones are as the last
_MOST_STEPS = 101
_ROUND = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
_CATEGORIES, _CATEGORIES_OF_MINOR_INPUTS = 12, 6
_MAJOR = 3
_LEAST_WITH_ENDS = 7
_FAR = 0.3  # of a step


@dataclass(frozen=True, eq=False)
class Control:
    """An input and the values that the reader can give it; one value: it is held there."""

    column: int
    kind: Literal["slider", "select", "fixed"]
    values: NDArray
    texts: tuple[str, ...]
    start: int


def controls(columns: Sequence[Column], order: Sequence[int], fineness: float) -> list[Control]:
    """Return a control for every input, in an order, the finer the earlier it comes.

    Numbers get sliders, or a list if there are few; categories a list of the most frequent ones.
    """
    made = []
    sizes = _SLIDER_SIZES.get(len(order), _MANY_SLIDER_SIZES)
    for rank, i in enumerate(order):
        size = round(fineness * sizes[min(rank, len(sizes) - 1)])
        if columns[i].kind == "category" or _steps(columns[i]) <= _FEWEST_STEPS:
            made.append(_select(columns[i], i, rank < _MAJOR))
        else:
            made.append(_slider(columns[i], i, min(_MOST_STEPS, size)))
    return made


def fixed(column: Column, place: int) -> Control:
    """Return a control that holds an input at its usual value."""
    full = controls([column], [0], 1.0)[0]
    one = slice(full.start, full.start + 1)
    return Control(place, "fixed", full.values[one], full.texts[one], 0)


def _steps(column: Column) -> int:
    """Return how many different numbers a column has."""
    return len(np.unique(column.present))


def _slider(column: Column, place: int, size: int) -> Control:
    values = even_values(column, max(2, size))
    start = int(np.argmin(np.abs(values - np.median(column.present))))
    return Control(place, "slider", values, number_texts(values), start)


def _select(column: Column, place: int, major: bool) -> Control:
    if column.kind == "category":
        values = usual_categories(column, _CATEGORIES if major else _CATEGORIES_OF_MINOR_INPUTS)
        start = list(values).index(column.counts()[0][0])
        texts = tuple(map(str, values))
    else:
        values = np.unique(column.present)
        start = int(np.argmin(np.abs(values - np.median(column.present))))
        texts = number_texts(values)
    return Control(place, "select" if len(values) > 1 else "fixed", values, texts, start)


def usual_categories(column: Column, most: int) -> NDArray:
    """Return the most frequent categories, in alphabetical or numerical order."""
    kept = [value for value, _ in column.counts()[:most]]
    numbers = all(isinstance(value, int | float) for value in kept)
    out = np.empty(len(kept), dtype=object)
    out[:] = sorted(kept, key=float if numbers else str)  # type: ignore[arg-type]
    return out


def even_values(column: Column, size: int) -> Array:
    """Return at most ``size`` round numbers, evenly spaced over where 99 % of the data lie.

    Where the first or the last of them is far from its end of the data, a finer number is put
    there: coarse steps must not cut off what can be seen.
    """
    present = column.present
    distinct = np.unique(present)
    if len(distinct) <= size:
        return distinct
    low, high = np.quantile(present, [0.005, 0.995])
    if not high > low:
        low, high = distinct[0], distinct[-1]
    whole = column.kind == "whole number"
    inner = size - 2 if size >= _LEAST_WITH_ENDS else size
    step = _nice_step((high - low) / (inner - 1))
    if whole:
        step = float(max(1, np.ceil(step)))
    values = _multiples(low, high, step)
    if len(values) < 2:  # no two round numbers lie so far apart
        return np.unique(np.quantile(present, [0.1, 0.9], method="nearest"))
    if size < _LEAST_WITH_ENDS:
        return values
    ends = _multiples(low, high, max(1.0, step // 5) if whole else step / 5)
    first = ends[:1] if values[0] - ends[0] > _FAR * step else ends[:0]
    last = ends[-1:] if ends[-1] - values[-1] > _FAR * step else ends[:0]
    return np.concatenate([first, values, last])


def _multiples(low: float, high: float, step: float) -> Array:
    """Return the multiples of a step between two ends."""
    return step * np.arange(np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9) + 1)


def _nice_step(least: float) -> float:
    """Return the smallest step of round numbers that is not below ``least``."""
    power = 10.0 ** np.floor(np.log10(least))
    return float(next(f * power for f in _ROUND if f * power >= least * (1 - 1e-9)))


def number_texts(values: Array) -> tuple[str, ...]:
    """Return numbers as people write them."""
    return tuple(number(float(value), 6) for value in values)
