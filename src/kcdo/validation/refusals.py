"""Columns that hold no numbers are refused by name, before a conversion fails obscurely."""

from datetime import date, time, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcdo.errors import InvalidInputError
from kcdo.frames import frame_library, is_date_text
from kcdo.validation.columns import (
    as_typed,
    column_names,
    columns_of,
    is_number,
    refuse_twins,
    shown_name,
)

_TIMES = (date, time, timedelta)  # datetimes are dates, and those of pandas are datetimes
_DATES = "make numbers of them, such as the hour, the day of the week, or the days since the first."
_ADVICE = {
    "X": "In data frames, texts that repeat are taken for categories if none in their column is a "
    "number; else use a categorical column type, or kcdo.Categorical() on that column in kernel_x.",
    "Y": "Outputs are numbers: for classes, fit a column of 0 and 1 for each of them.",
    "sample_weight": "Weights are numbers.",
}


def refuse_masked(values: Any, what: str) -> None:
    """Raise where an array has masked values: what computes with it would not see the mask."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise InvalidInputError(
            f"Input {what} has masked values ({np.ma.count_masked(values)} of {values.size}): "
            "drop these rows, or fill them first, as with .filled(0.0)."
        )


def refuse_columns(values: Any, what: str, names: list[str] | None) -> None:
    """Raise where a column holds no numbers, before a conversion fails obscurely, or succeeds."""
    table = frame_library(values) is not None
    if not table and not isinstance(values, np.ndarray | list | tuple):
        return
    if table and column_names(values) is not None:
        refuse_twins(names or [], what)
        columns = columns_of(values)
    else:
        array = as_typed(values)
        if array.dtype.kind not in "OUSTmM" or array.size == 0:
            return
        columns = list(array.reshape(len(array), -1).T)
    refuse_kinds(columns, what, [shown_name(names, i) for i in range(len(columns))])


def refuse_kinds(columns: list[NDArray], what: str, names: list[str]) -> None:
    """Raise at the first column of dates, times or texts, with advice for ``what`` it is in."""
    for name, column in zip(names, columns, strict=True):
        objects = column if column.dtype.kind in "OUST" else ()
        moment = next((v for v in objects if _is_moment(v)), None)
        if column.dtype.kind in "mM" or moment is not None:
            raise InvalidInputError(
                f"column {name} of {what} holds dates or times, such as "
                f"{column[0] if moment is None else moment}: {_DATES}"
            )
        text = next((v for v in objects if isinstance(v, str | bytes) and not is_number(v)), None)
        if isinstance(text, str) and is_date_text(text):
            raise InvalidInputError(
                f"column {name} of {what} holds dates or times, such as {text!r}: {_DATES}"
            )
        if text is not None:
            raise InvalidInputError(
                f"column {name} of {what} is not numeric (it contains {str(text)!r}). "
                f"{_ADVICE[what]}"
            )


def _is_moment(value: Any) -> bool:
    return isinstance(value, _TIMES) or hasattr(value, "start_time")  # periods of pandas have one
