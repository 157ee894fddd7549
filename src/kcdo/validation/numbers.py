"""Outputs, weights and samples as checked arrays of numbers."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array

from kcdo.arrays import Array
from kcdo.errors import DiscreteOutputWarning, InvalidInputError
from kcdo.frames import as_known, target_names
from kcdo.validation.columns import column_names, shown_name
from kcdo.validation.refusals import refuse_columns, refuse_masked

_CHECKED_ROWS = 1 << 16
_FEW_VALUES = 200
_WEIGHTS = (1e-100, 1e15)  # larger ones lose their fractions, squares of smaller ones are 0
_LARGEST, _LEAST_SPREAD = 1e130, 1e-130  # squares of these are numbers
_LARGEST_VOLUME = 280


def check_outputs(Y: Any, n_rows: int | None = None) -> tuple[Array, bool]:
    """Return outputs as (N, d), and whether they came as a vector."""
    if Y is None:
        raise InvalidInputError("fit requires y to be passed, but the target y is None.")
    Y = as_known(Y)
    names = column_names(Y) or list(target_names(Y) or ()) or None
    array = float_array(Y, "Y", names=names, least=1, vector=True)
    if array.ndim > 2:
        raise InvalidInputError(f"Y must be (N,) or (N, d); got shape {array.shape}.")
    matrix = array[:, None] if array.ndim == 1 else array
    check_finite(matrix, "Y", names, vector=array.ndim == 1)
    if n_rows is not None and len(matrix) != n_rows:
        raise InvalidInputError(
            f"X and Y have inconsistent numbers of samples: {n_rows} and {len(matrix)} rows."
        )
    return matrix, array.ndim == 1


def warn_few_values(Y: Array, names: Sequence[str] | None) -> None:
    """Warn of outputs (N, d) of which a density says little: constant, or plainly discrete."""
    for i, column in enumerate(Y.T):
        values, counts = np.unique(column, return_counts=True)
        name = f"output {i}" if names is None else f"output {names[i]!r}"
        repeated = counts[counts > 1].sum() >= 0.5 * len(column)
        if not repeated or len(values) >= min(_FEW_VALUES, 0.1 * len(column)):
            continue
        message = f"{name} is {values[0]:g} in every row: there is nothing to learn about it."
        if len(values) > 1:
            message = (
                f"{name} has only {len(values)} distinct values: its density and its log score "
                "depend on how wide each is drawn. Compare models by the CRPS."
            )
        warnings.warn(message, DiscreteOutputWarning, stacklevel=2)


def check_matrix(X: Any, *, least: int = 1) -> Array:
    """Return a sample or points as a finite (N, d) array."""
    X = as_known(X)
    matrix = float_array(X, "X", names=column_names(X), least=least)
    check_finite(matrix, "X", column_names(X))
    return matrix


def check_weights(sample_weight: Any, n_rows: int, *, least: int = 2) -> Array:
    """Return one non-negative weight per row, ``least`` of them positive; ones by default."""
    if sample_weight is None:
        return np.ones(n_rows)
    weights = float_array(sample_weight, "sample_weight", names=None, least=1, vector=True)
    if weights.shape != (n_rows,):
        raise InvalidInputError(
            f"sample_weight must have shape ({n_rows},), one per row; got {weights.shape}."
        )
    check_finite(weights[:, None], "sample_weight", None, vector=True)
    if weights.min() < 0 or np.count_nonzero(weights) < least:
        raise InvalidInputError("sample_weight must not be negative, nor zero for all but one row.")
    largest = weights.max()
    if largest > 0 and not _WEIGHTS[0] <= largest <= _WEIGHTS[1]:
        raise InvalidInputError(
            f"the largest sample_weight must lie between {_WEIGHTS[0]:g} and {_WEIGHTS[1]:g}; got "
            f"{largest:g}. Where weights are no counts only their ratios matter: divide them by "
            "their mean."
        )
    return weights


def check_finite(
    matrix: Array, what: str, names: list[str] | None, *, vector: bool = False
) -> None:
    """Raise an error that names the first column with a NaN or an infinity; a vector has none."""
    rows = range(0, len(matrix), _CHECKED_ROWS)  # in blocks: no mask as long as the data
    if all(np.isfinite(matrix[start : start + _CHECKED_ROWS]).all() for start in rows):
        return
    bad = ~np.isfinite(matrix)
    column = int(np.flatnonzero(bad.any(axis=0))[0])
    count = f"{int(bad[:, column].sum())} of {len(matrix)} rows"
    where = count if vector and not names else f"column {shown_name(names, column)}, {count}"
    if np.isnan(matrix[:, column]).any():
        raise InvalidInputError(
            f"Input {what} contains NaN in {where}: drop or fill these rows first."
        )
    raise InvalidInputError(
        f"Input {what} contains infinity or a value too large for dtype('float64'). It is in "
        f"{where}: drop these rows, or give finite values."
    )


def check_cells(matrix: Array, names: list[str] | None, *, missing: bool, reset: bool) -> None:
    """Raise at infinities, and at NaN unless cells may be missing: then only where all are."""
    if not missing:
        check_finite(matrix, "X", names)
        return
    empty = np.flatnonzero(np.isnan(matrix).all(axis=0))
    if reset and len(empty):
        raise InvalidInputError(
            f"column {shown_name(names, int(empty[0]))} of X has no value in any row: leave it out."
        )
    if np.isinf(matrix).any():
        check_finite(np.where(np.isnan(matrix), 0.0, matrix), "X", names)


def check_range(matrix: NDArray, what: str, names: Sequence[str] | None, *, more: bool) -> None:
    """Raise unless squares and densities of such numbers neither overflow nor underflow.

    Of ``more`` rows than the first ones the spread says nothing.
    """
    if matrix.dtype == object:
        return
    low, high = np.fmin.reduce(matrix), np.fmax.reduce(matrix)  # of what is not missing
    largest, spread = np.maximum(-low, high), high - low
    beyond = np.flatnonzero(largest > _LARGEST)
    if len(beyond):
        raise InvalidInputError(
            f"column {shown_name(names, beyond[0])} of {what} reaches {largest[beyond[0]]:.0e}: "
            f"numbers up to {_LARGEST:.0e} can be computed with. Divide the column."
        )
    narrow = np.flatnonzero((spread > 0) & (spread < _LEAST_SPREAD))
    if len(narrow) and not more:
        raise InvalidInputError(
            f"column {shown_name(names, narrow[0])} of {what} varies by {spread[narrow[0]]:.0e}: "
            f"from {_LEAST_SPREAD:.0e} on it can be computed with. Multiply the column."
        )
    # an output that does not vary has a narrow density, as wide as a thousandth of its size
    widths = np.where(spread > 0, spread, 1e-3 * largest)
    volume = float(np.log10(widths[widths > 0]).sum())
    if what == "Y" and abs(volume) > _LARGEST_VOLUME and not more:
        raise InvalidInputError(
            f"the outputs together vary by 1e{volume:+.0f}: joint densities need "
            f"1e-{_LARGEST_VOLUME} to 1e+{_LARGEST_VOLUME}. Multiply or divide the columns."
        )


def float_array(
    values: Any, what: str, *, names: list[str] | None, least: int, vector: bool = False
) -> Array:
    """Return values as floats, NaN and infinities among them; refuse what are no numbers."""
    values = as_known(values)
    refuse_masked(values, what)
    refuse_columns(values, what, names)
    return check_array(
        values,
        dtype=np.float64,
        ensure_all_finite=False,
        ensure_2d=not vector,
        allow_nd=vector,
        ensure_min_samples=least,
        input_name=what,
    )
