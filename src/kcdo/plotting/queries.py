"""Queries that vary some inputs and hold the others, and the names of inputs and outputs."""

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError
from kcdo.frames import target_names
from kcdo.metrics.predictive import Predictive
from kcdo.tables import input_names, is_numeric, table_columns, table_like
from kcdo.validation import check_outputs

Column = int | str
TITLE_WIDTH = 56  # letters that fit above a picture
_MOST_NAMED = 4


def output_names(dist: Predictive, Y: Any = None) -> list[str]:
    """Return the names of the outputs.

    Those of a frame or series Y; else those of the training data; else y, or y0, y1, ...
    """
    d = dist.n_outputs
    for names in (target_names(Y), getattr(dist, "target_names", None)):
        if names is not None and len(names) == d:
            return list(names)
    return ["y"] if d == 1 else [f"y{i}" for i in range(d)]


def place_of(column: Column, names: Sequence[str], what: str) -> int:
    """Return the position of a column given by name or position."""
    if isinstance(column, str):
        if column not in names:
            raise InvalidInputError(f"no {what} is called {column!r}; there are {list(names)}.")
        return list(names).index(column)
    if isinstance(column, bool) or not isinstance(column, int | np.integer):
        raise InvalidInputError(f"{what} must be a name or a position; got {column!r}.")
    if not -len(names) <= column < len(names):
        raise InvalidInputError(f"{what} {column} does not exist: there are {len(names)}.")
    return int(column) % len(names)


def one_output(
    dist: Predictive, output: Column, Y: Any = None
) -> tuple[Predictive, str, Array | None]:
    """Return the distribution, the name and the data of one output."""
    names = output_names(dist, Y)
    place = place_of(output, names, "output")
    data = None if Y is None else check_outputs(Y)[0]
    if data is not None and data.shape[1] != len(names):
        raise InvalidInputError(
            f"the distributions have {len(names)} outputs, the data {data.shape[1]} columns."
        )
    column = None if data is None else data[:, place]
    return (dist if dist.flat else dist.marginal(place)), names[place], column


def numbers(X: Any, place: int) -> Array:
    """Return a column of X as numbers, or raise an error that names it."""
    name = input_names(X)[place]
    if not is_numeric(X, place):
        raise InvalidInputError(
            f"input {name!r} is not numeric, so nothing lies between its values: show them with "
            "kcdo.ViolinDisplay."
        )
    return np.asarray(table_columns(X)[place], dtype=float)


def resting_values(X: Any, place: int, at: Mapping[Column, Any] | None) -> dict[int, Any]:
    """Return where every column but one is held, by position.

    That is at ``at``, else at an observed median, or the most frequent category.
    """
    names = input_names(X)
    held = {place_of(k, names, "input"): v for k, v in (at or {}).items()}
    if place in held:
        raise InvalidInputError(f"input {names[place]!r} is varied; `at` must not hold it.")
    others = [i for i in range(len(names)) if i != place]
    return {i: held[i] if i in held else _typical(X, i) for i in others}


def sweep(X: Any, place: int, values: Sequence[Any] | Array, resting: Mapping[int, Any]) -> Any:
    """Return queries of the kind of X, where one column takes the values and the others rest."""
    width = len(input_names(X))
    return table_like(
        X, [list(values) if i == place else [resting[i]] * len(values) for i in range(width)]
    )


def held_label(X: Any, resting: Mapping[int, Any], at: Mapping[Column, Any] | None = None) -> str:
    """Return the held inputs as words, in lines that fit above a picture.

    Of many, only those that ``at`` holds on purpose have their values; the others are counted.
    """
    names = input_names(X)
    asked = {place_of(column, names, "input") for column in at or {}}
    few = len(resting) <= _MOST_NAMED
    told = [f"{names[i]} = {_short(v)}" for i, v in resting.items() if few or i in asked]
    others = len(resting) - len(told)
    words = [f"at {', '.join(told)}"] if told else []
    words += [f"{others} other inputs held"] if others else []
    return textwrap.fill("; ".join(words), TITLE_WIDTH)


def row_labels(X: Any) -> list[str]:
    """Return a label for each row, of the columns that differ between rows."""
    names, columns = input_names(X), [np.asarray(c).tolist() for c in table_columns(X)]
    rows = list(zip(*columns, strict=True))
    varied = [i for i, column in enumerate(columns) if len(set(column)) > 1]
    shown = varied or list(range(len(names)))
    if len(shown) > 3:
        return [f"query {i}" for i in range(len(rows))]
    return [", ".join(f"{names[i]} = {_short(row[i])}" for i in shown) for row in rows]


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else str(value)


def _typical(X: Any, place: int) -> Any:
    """Return an observed median, so that codes of categories stay codes; or the commonest value."""
    if is_numeric(X, place):
        return np.quantile(numbers(X, place), 0.5, method="inverted_cdf")
    values = np.asarray(table_columns(X)[place]).tolist()
    return Counter(values).most_common(1)[0][0]
