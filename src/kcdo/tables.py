"""Tables of inputs, frames or arrays: their columns, and tables of the same kind made of others."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcdo.errors import InvalidInputError
from kcdo.validation import category_columns, column_names

__all__ = ["input_names", "is_numeric", "table_columns", "table_like"]


def table_columns(X: Any) -> list[NDArray]:
    """Return the columns of a frame or of a two-dimensional array, (N,) each."""
    if column_names(X) is not None:
        return [np.asarray(X[name]) for name in X.columns]
    array = X if isinstance(X, np.ndarray) else np.asarray(X, dtype=object)
    if array.ndim != 2:
        raise InvalidInputError(
            f"X must be a table of inputs, one row per observation; got shape {array.shape}."
        )
    return list(array.T)


def input_names(X: Any) -> list[str]:
    """Return the names of the columns of X: of a frame its own, else x, or x0, x1, ..."""
    names = column_names(X)
    if names is not None:
        return names
    width = len(table_columns(X))
    return ["x"] if width == 1 else [f"x{i}" for i in range(width)]


def is_numeric(X: Any, place: int) -> bool:
    """Whether a column holds numbers, or text that reads as numbers, and is not categorical."""
    if place in category_columns(X):
        return False
    try:
        np.asarray(table_columns(X)[place], dtype=float)
    except (TypeError, ValueError):
        return False
    return True


def table_like(X: Any, columns: Sequence[Any]) -> Any:
    """Return columns as a table of the kind of X: a frame with its column types, or an array."""
    if column_names(X) is None:
        numbers = isinstance(X, np.ndarray) and X.dtype.kind in "biuf"
        if numbers or all(is_numeric(X, i) for i in range(len(columns))):
            return np.column_stack([np.asarray(values, dtype=float) for values in columns])
        made = np.empty((len(columns[0]), len(columns)), dtype=object)
        for i, values in enumerate(columns):
            made[:, i] = values
        return made
    categories, table = category_columns(X), {}
    for i, (name, given) in enumerate(zip(X.columns, columns, strict=True)):
        values = np.asarray(given)
        plain = i not in categories and (values.dtype.kind in "biuf" or is_numeric(X, i))
        # pandas takes Series(values), polars Series(name, values)
        arguments = (values.tolist(),) if hasattr(X, "iloc") else (name, values.tolist())
        table[name] = type(X[name])(*arguments, dtype=None if plain else X[name].dtype)
    return type(X)(table)
