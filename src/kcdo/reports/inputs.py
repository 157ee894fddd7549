"""Which inputs the reader may change: their order, and the values that each can take."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.reports.columns import Column
from kcdo.reports.text import number

_FEWEST_STEPS = 5
_SLIDERS = 3
_SLIDER_SIZES = {1: (101,), 2: (61, 31), 3: (41, 15, 7)}
_FACTORS = (2.5, 2.0, 1.5, 1.0, 0.9, 0.8, 0.7, 0.6)
_FINE_CURVES = 10_000  # sliders finer than usual must not make a large file
_ROUND = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
_CATEGORIES, _CATEGORIES_OF_MINOR_INPUTS = 12, 4


@dataclass(frozen=True, eq=False)
class Control:
    """An input and the values that the reader can give it; one value: it is held there."""

    column: int
    kind: Literal["slider", "select", "fixed"]
    values: NDArray
    texts: tuple[str, ...]
    start: int


def controls(columns: Sequence[Column], importances: Array, most_curves: int) -> list[Control]:
    """Return a control for every input, the most important first, of few enough combinations.

    The most important inputs that are numbers get sliders; the others a few values to pick from.
    If there are too many combinations sliders get coarser, then minor inputs are held fixed.
    """
    order = [int(i) for i in np.argsort(-importances, kind="stable")]
    sliders = [i for i in order if _steps(columns[i]) > _FEWEST_STEPS][:_SLIDERS]
    sizes = dict(zip(sliders, _SLIDER_SIZES.get(len(sliders), ()), strict=True))
    minor = [i for i in order if i not in sizes]
    major = set(order[:_SLIDERS])
    for n_open in range(len(minor), -1, -1):
        factors = _FACTORS if n_open else (*_FACTORS, 0.4, 0.3, 0.2, 0.1, 0.05)
        for factor in factors:
            made = [_slider(columns[i], i, min(101, round(factor * sizes[i]))) for i in sliders]
            made += [_select(columns[i], i, i in major) for i in minor[:n_open]]
            limit = most_curves if factor <= 1 else min(most_curves, _FINE_CURVES)
            if np.prod([len(c.values) for c in made], dtype=float) <= limit:
                made.sort(key=lambda control: order.index(control.column))
                return made + [_fixed(columns[i], i) for i in minor[n_open:]]
    return [_fixed(columns[i], i) for i in order]


def _steps(column: Column) -> int:
    """Return how many different numbers a column has; 0 for categories, which have no order."""
    return 0 if column.kind == "category" else len(np.unique(column.present))


def _slider(column: Column, place: int, size: int) -> Control:
    values = _even_values(column, max(2, size))
    start = int(np.argmin(np.abs(values - np.median(column.present))))
    return Control(place, "slider", values, _number_texts(values), start)


def _select(column: Column, place: int, major: bool) -> Control:
    if column.kind == "category":
        values = _categories(column, _CATEGORIES if major else _CATEGORIES_OF_MINOR_INPUTS)
        start = list(values).index(column.counts()[0][0])
        texts = tuple(map(str, values))
    else:
        values = _few_values(column, 3)
        start = int(np.argmin(np.abs(values - np.median(column.present))))
        texts = _number_texts(values)
    return Control(place, "select" if len(values) > 1 else "fixed", values, texts, start)


def _fixed(column: Column, place: int) -> Control:
    full = _select(column, place, major=False)
    one = slice(full.start, full.start + 1)
    return Control(place, "fixed", full.values[one], full.texts[one], 0)


def _categories(column: Column, most: int) -> NDArray:
    """Return the most frequent categories, in alphabetical or numerical order."""
    kept = [value for value, _ in column.counts()[:most]]
    numbers = all(isinstance(value, int | float) for value in kept)
    out = np.empty(len(kept), dtype=object)
    out[:] = sorted(kept, key=float if numbers else str)  # type: ignore[arg-type]
    return out


def _few_values(column: Column, n: int) -> NDArray:
    """Return n typical numbers: quantiles from 10 to 90 %, rounded to what can be read."""
    distinct = np.unique(column.present)
    if len(distinct) <= n:
        return distinct
    values = np.quantile(column.present, np.linspace(0.1, 0.9, n))
    low, high = np.quantile(column.present, [0.05, 0.95])
    step = _nice_step((high - low) / 60) if high > low else 0.0
    if column.kind == "whole number":
        step = max(1.0, step)
    return np.unique(np.round(values / step) * step if step else values)


def _even_values(column: Column, size: int) -> Array:
    """Return at most ``size`` round numbers, evenly spaced over where 99 % of the data lie."""
    present = column.present
    distinct = np.unique(present)
    if len(distinct) <= size:
        return distinct
    low, high = np.quantile(present, [0.005, 0.995])
    if not high > low:
        low, high = distinct[0], distinct[-1]
    step = _nice_step((high - low) / (size - 1))
    if column.kind == "whole number":
        step = float(max(1, np.ceil(step)))
    first, last = np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9)
    return step * np.arange(first, last + 1)


def _nice_step(least: float) -> float:
    """Return the smallest step of round numbers that is not below ``least``."""
    power = 10.0 ** np.floor(np.log10(least))
    return float(next(f * power for f in _ROUND if f * power >= least * (1 - 1e-9)))


def _number_texts(values: Array) -> tuple[str, ...]:
    return tuple(number(float(value), 6) for value in values)
