"""Tables of inputs, frames or arrays: names, columns, categories, missing cells."""

from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from kcdo.errors import InvalidInputError
from kcdo.frames import is_date_text

_MOST_CATEGORIES = 50  # beyond these, texts that hardly repeat are no categories
_CATEGORIES = (nw.Categorical, nw.Enum)
_TEXTS = (nw.String, nw.Object)


def column_names(X: Any) -> list[str] | None:
    """Return the names of a data frame's columns, None for anything else."""
    columns = getattr(X, "columns", None)
    return None if columns is None else [str(c) for c in columns]


def category_columns(X: Any) -> list[int]:
    """Return the positions of a frame's columns of categories (pandas or polars).

    These are columns of a categorical type, and columns of texts none of which is a number or a
    date, if there are few different ones.
    """
    if column_names(X) is None:
        return []
    refuse_twins(column_names(X) or [], "X")
    return [
        i
        for i, (name, kind) in enumerate(nw.from_native(X).schema.items())
        if isinstance(kind, _CATEGORIES) or (isinstance(kind, _TEXTS) and _holds_names(X[name]))
    ]


def _holds_names(column: Any) -> bool:
    values = [value for value in np.asarray(column, dtype=object) if not is_missing(value)]
    if not values or not all(isinstance(value, str) for value in values):
        return False
    different = set(values)
    few = len(different) <= max(_MOST_CATEGORIES, len(values) // 10)
    return few and not any(is_number(text) or is_date_text(text) for text in different)


def n_columns(X: Any) -> int | None:
    """Return the number of columns of a frame or array; None of what has no columns."""
    names = column_names(X)
    if names is not None:
        return len(names)
    try:
        shape = X.shape if hasattr(X, "shape") else np.asarray(X).shape
    except ValueError:  # ragged: the check of the array will say so
        return None
    return int(shape[1]) if len(shape) == 2 else None


def columns_of(X: Any) -> list[NDArray]:
    """Return the columns of a frame or table; numeric columns of a frame as they are."""
    if column_names(X) is not None:
        return [np.asarray(X[name]) for name in X.columns]
    array = np.asarray(X, dtype=object)
    return [array[:, i] for i in range(array.shape[1])]


def shown_name(names: Sequence[str] | None, column: int) -> str:
    """Return what messages call a column: its name in quotes, or its position."""
    return repr(names[column]) if names else str(column)


def refuse_twins(names: list[str], what: str) -> None:
    """Raise where two columns have the same name."""
    twin = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twin is not None:
        raise InvalidInputError(f"two columns of {what} are called {twin!r}: rename one.")


def with_nans(X: Any) -> Any:
    """Return a table of numbers with NaN for None, for pandas' NA and for what is masked."""
    if isinstance(X, np.ma.MaskedArray):
        return np.ma.filled(X.astype(float), np.nan)
    frame = column_names(X) is not None
    refuse_twins(column_names(X) or [], "X")
    array = None if frame else as_typed(X)
    if array is not None and (array.dtype != object or array.ndim != 2):
        return X
    return np.column_stack([_column_with_nans(column) for column in columns_of(X)])


def _column_with_nans(column: NDArray) -> NDArray:
    if column.dtype.kind in "fiub":
        return column
    objects = column.astype(object, copy=True)
    objects[[is_missing(value) for value in objects]] = np.nan
    return objects


def is_missing(value: Any) -> bool:
    """Whether a category is missing: None, NaN, or pandas' NA, which refuses to compare."""
    try:
        return value is None or bool(value != value)  # NaN differs from itself
    except TypeError:
        return True


def is_number(text: str | bytes) -> bool:
    """Whether a text reads as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def as_typed(values: Any) -> NDArray:
    """Return an array; of lists one of objects, whose types are still those of their items."""
    return np.asarray(values, dtype=None if hasattr(values, "dtype") else object)
