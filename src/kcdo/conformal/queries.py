"""What a calibration asks of inputs: the group that each belongs to, and its density ratio."""

from collections.abc import Callable
from typing import Any

import numpy as np

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError, InvalidTypeError
from kcdo.estimators import DensityReconstruction
from kcdo.frames import as_known, frame_library
from kcdo.inputs import GaussianInput, SampleInput

GroupRule = str | int | Callable[[Any], Any]
Ratio = DensityReconstruction | Callable[[Any], Any]


def group_labels(X: Any, rule: GroupRule) -> list[Any]:
    """Return the label of each row's group: a column of the inputs, or a function of them."""
    X = _rows(X, "groups")
    labels = list(rule(X)) if callable(rule) else np.asarray(_column(X, rule)).tolist()
    if len(labels) != len(X):
        raise InvalidInputError(
            f"groups must give one label per row: {len(X)} rows, {len(labels)} labels."
        )
    return labels


def _column(X: Any, rule: str | int) -> Any:
    if isinstance(rule, bool) or not isinstance(rule, str | int | np.integer):
        raise InvalidTypeError(
            f"groups must be a column of the inputs or a function of them; got {rule!r}."
        )
    names = list(X.columns) if frame_library(X) is not None else None
    if isinstance(rule, str):
        if names is None or rule not in names:
            where = "they are not a data frame" if names is None else f"the columns are {names}"
            raise InvalidInputError(f"groups name the column {rule!r} of the inputs, but {where}.")
        return X[rule]
    matrix = np.asarray(X, dtype=object)
    if matrix.ndim != 2 or not -matrix.shape[1] <= rule < matrix.shape[1]:
        raise InvalidInputError(
            f"groups name column {rule} of the inputs, which have the shape {matrix.shape}."
        )
    return matrix[:, rule]


def shift_weights(X: Any, ratio: Ratio) -> Array:
    """Return the density ratio at each row: how much more frequent such queries are."""
    X = _rows(X, "density_ratio")
    if not isinstance(ratio, DensityReconstruction) and not callable(ratio):
        raise InvalidTypeError(
            "density_ratio must be a fitted kcdo.DensityReconstruction or a function of the "
            f"inputs; got {ratio!r}."
        )
    found = ratio.pdf(X) if isinstance(ratio, DensityReconstruction) else ratio(X)
    weights = np.asarray(found, dtype=float)
    if weights.shape != (len(X),):
        raise InvalidInputError(
            f"density_ratio must give one number per row: {len(X)} rows, shape {weights.shape}."
        )
    if not np.isfinite(weights).all() or weights.min(initial=0.0) < 0:
        raise InvalidInputError(
            "density_ratio must be finite and not negative: for a DensityReconstruction use "
            'positivity="project" or "clip".'
        )
    return weights


def _rows(X: Any, what: str) -> Any:
    """Return a frame as it is, anything else as an array: what functions of inputs may expect."""
    if isinstance(X, GaussianInput | SampleInput):
        raise InvalidTypeError(f"with {what} inputs must be rows: {type(X).__name__} is uncertain.")
    X = as_known(X)
    return X if frame_library(X) is not None else np.asarray(X)
