"""Labels of rows that belong together: what users give as ``groups`` or ``time``, checked."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kcdo.errors import InvalidInputError, InvalidTypeError
from kcdo.rows import Kin
from kcdo.validation import is_missing


def check_kin(groups: ArrayLike | None, time: ArrayLike | None) -> Kin | None:
    """Return the labels as numbers, None if there are none."""
    if groups is None and time is None:
        return None
    if groups is not None and time is not None:
        raise InvalidInputError("give groups or time, not both: folds keep one kind of order.")
    name = "groups" if time is None else "time"
    values = np.asarray(groups if time is None else time)
    if values.ndim != 1:
        raise InvalidInputError(f"{name} must be one label per row, (N,); got {values.shape}.")
    _refuse_missing(values, name)
    try:
        labels = np.unique(values, return_inverse=True)[1]
    except TypeError:
        if time is not None:
            raise InvalidTypeError(
                "time must be values that can be sorted, such as numbers or dates; got a mixture."
            ) from None
        places: dict[Any, int] = {}
        labels = np.array([places.setdefault(each, len(places)) for each in values.tolist()])
    return Kin(labels, ordered=time is not None)


def kin_of_rows(kin: Kin, n_rows: int, sample_weight: Any) -> Kin:
    """Return the labels of rows of positive weight."""
    name = "time" if kin.ordered else "groups"
    if len(kin.labels) != n_rows:
        raise InvalidInputError(
            f"{name} must have one label per row: {n_rows} rows, {len(kin.labels)} labels."
        )
    if sample_weight is not None:
        kin = kin.take(np.flatnonzero(np.asarray(sample_weight) > 0))
    if kin.count < 2:
        raise InvalidInputError(
            f"{name} must have at least two different values: one judges what the other says."
        )
    return kin


def _refuse_missing(values: NDArray, name: str) -> None:
    if values.dtype.kind in "fcmM":
        missing = int(np.count_nonzero(values != values))  # NaN and NaT differ from themselves
    else:
        missing = sum(map(is_missing, values.tolist())) if values.dtype == object else 0
    if missing:
        raise InvalidInputError(
            f"{name} contains NaN in {missing} of {len(values)} rows: give every row a label."
        )
