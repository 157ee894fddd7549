"""The boundary: user data become checked float arrays here, and nowhere else."""

import warnings
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from kcdo.arrays import Array
from kcdo.consistency import need
from kcdo.errors import DiscreteOutputWarning, InvalidInputError
from kcdo.frames import as_known, frame_library, is_date_text, target_names
from kcdo.inputs import GaussianInput, SampleInput
from kcdo.kernels import Automatic, Categorical, Kernel, Product, leaves

_CHECKED_ROWS = 1 << 16
_MOST_CATEGORIES = 50  # beyond these, texts that hardly repeat are no categories
_CATEGORIES = (nw.Categorical, nw.Enum)
_TEXTS = (nw.String, nw.Object)
_FEW_VALUES = 200
_FEW_NAMES = 10
_WEIGHTS = (1e-100, 1e15)  # larger ones lose their fractions, squares of smaller ones are 0
_LARGEST, _LEAST_SPREAD = 1e130, 1e-130  # squares of these are numbers
_LARGEST_VOLUME = 280
_TIMES = (date, time, timedelta)  # datetimes are dates, and those of pandas are datetimes


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
    _refuse_twins(column_names(X) or [], "X")
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
    return few and not any(_is_number(text) or is_date_text(text) for text in different)


def is_chunks(data: Any) -> bool:
    """Whether the data are a re-iterable of (X, Y) or (X, Y, weight) chunks."""
    if hasattr(data, "shape") or column_names(data) is not None or not isinstance(data, Iterable):
        return False
    if isinstance(data, Iterator):
        raise InvalidInputError(
            "chunks must come from an object that can be iterated over more than once (a list, or "
            "a class with __iter__), because a fit reads them several times; got an iterator."
        )
    first = next(iter(data), None)
    return isinstance(first, tuple) and len(first) in (2, 3) and np.ndim(first[0]) == 2


def default_kernel(X: Any) -> Kernel:
    """Return an automatic kernel, times a categorical one on columns of a categorical type."""
    categories = category_columns(X)
    if not categories:
        return Automatic()
    numeric = [i for i in range(len(column_names(X) or [])) if i not in categories]
    parts = [Categorical().on(categories)]
    return Product((Automatic().on(numeric), *parts)) if numeric else parts[0]


def categorical_positions(kernel: Kernel, p: int) -> set[int]:
    """Return the columns on which the kernel compares categories."""
    found = (columns for leaf, columns in leaves(kernel, range(p)) if leaf.categorical)
    return set().union(*found)


@dataclass
class InputEncoder:
    """Turns inputs into the array that the kernel sees, the same way at every call."""

    kernel: Kernel
    categories: dict[int, dict[Hashable, int]] = field(default_factory=dict)
    objects: bool = False
    library: str | None = None  # of the data frame that the training inputs were
    missing: bool = False  # whether numbers may be missing

    def __post_init__(self) -> None:
        for codes in self.categories.values():
            need(list(codes.values()) == list(range(len(codes))), "codes of categories")

    def fit(self, estimator: Any, X: Any, *, least: int = 2) -> NDArray:
        """Learn columns and categories from the training inputs and return them encoded."""
        self.objects = not self.kernel.vectors_only and not _numeric_matrix(X)
        if self.objects and self.missing:
            raise InvalidInputError('missing="marginalise" needs inputs that are rows of numbers.')
        if self.objects:
            return _as_objects(X, least=least)
        self.kernel = self.kernel.with_positions(column_names(X))
        self.categories = {}
        self.library = frame_library(X)
        return self._matrix(estimator, X, reset=True, learn=True, least=least)

    def transform(self, estimator: Any, X: Any, *, learn: bool = False) -> NDArray:
        """Return rows encoded as the first ones were; ``learn`` adds categories not yet seen."""
        if self.objects:
            return _as_objects(X, least=1)
        return self._matrix(estimator, X, reset=False, learn=learn)

    def uncertain(
        self, estimator: Any, inputs: GaussianInput | SampleInput
    ) -> GaussianInput | SampleInput:
        """Return an uncertain input with its points checked and encoded."""
        if self.objects and isinstance(inputs, GaussianInput):
            raise InvalidInputError("a GaussianInput needs inputs that are vectors of numbers.")
        points = inputs.mean if isinstance(inputs, GaussianInput) else inputs.points
        names = getattr(estimator, "feature_names_in_", None)
        if names is not None and points.shape[1] == len(names):
            encoded = self._matrix(None, points, reset=False)  # arrays carry no names to check
        else:
            encoded = self.transform(estimator, points)
        if not self.objects:
            check_finite(encoded, "X", None)
        check_range(encoded, "X", names, more=True)
        return inputs.replace(encoded)

    def _matrix(
        self, estimator: Any, X: Any, *, reset: bool, learn: bool = False, least: int = 1
    ) -> Array:
        width = _n_columns(X)
        if estimator is not None and not reset and width is not None:
            # before categories are looked up in what may be another column
            _check_columns(estimator, X)
        places = categorical_positions(self.kernel, width) if width is not None else set()
        table = _with_nans(X) if self.missing else X
        _refuse_masked(table, "X")
        plain = (
            self._encoded(table, sorted(places), column_names(X), learn=learn) if places else table
        )
        matrix = _float_array(plain, "X", names=column_names(X), least=least)
        if estimator is not None and reset:
            validate_data(estimator, X, skip_check_array=True)
        _check_cells(matrix, column_names(X), missing=self.missing, reset=reset)
        return matrix

    def _encoded(
        self, X: Any, places: list[int], names: list[str] | None, *, learn: bool
    ) -> NDArray:
        """Return the columns side by side, categories as codes 0, 1, ..."""
        columns = _columns(X)
        others = [i for i in range(len(columns)) if i not in places]
        _refuse_kinds([columns[i] for i in others], "X", [_name(names, i) for i in others])
        for place in places:
            name = _name(names, place)
            values = columns[place].tolist()
            if any(map(is_missing, values)):
                raise InvalidInputError(
                    f"Input X contains NaN in categorical column {name}: drop these rows, or make "
                    'a category of them, such as "unknown".'
                )
            codes = self.categories.setdefault(place, {})
            if learn:
                new = sorted(_new(values, codes), key=_in_order)
                codes |= {v: len(codes) + i for i, v in enumerate(new)}
            unknown = _new(values, codes)
            if unknown:
                raise InvalidInputError(
                    f"column {name} has the category {unknown[0]!r}, which was not seen in "
                    f"fitting; known are {list(codes)[:10]}."
                )
            columns[place] = np.array([codes[v] for v in values], dtype=float)
        return np.column_stack(columns)


def _check_columns(estimator: Any, X: Any) -> None:
    """Raise unless X has the columns of the training inputs, in their order."""
    try:
        validate_data(estimator, X, reset=False, skip_check_array=True)
    except ValueError as error:
        names = getattr(estimator, "feature_names_in_", None)
        hint = ""
        if names is not None and column_names(X) is not None:
            known = ", ".join(map(repr, names[:_FEW_NAMES])) + ", …" * (len(names) > _FEW_NAMES)
            hint = (
                f"\nGive the columns {known} in this order, as X[list(model.feature_names_in_)] "
                "does."
            )
        raise InvalidInputError(str(error).rstrip() + hint) from None


def check_outputs(Y: Any, n_rows: int | None = None) -> tuple[Array, bool]:
    """Return outputs as (N, d), and whether they came as a vector."""
    if Y is None:
        raise InvalidInputError("fit requires y to be passed, but the target y is None.")
    Y = as_known(Y)
    names = column_names(Y) or list(target_names(Y) or ()) or None
    array = _float_array(Y, "Y", names=names, least=1, vector=True)
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
    matrix = _float_array(X, "X", names=column_names(X), least=least)
    check_finite(matrix, "X", column_names(X))
    return matrix


def check_weights(sample_weight: Any, n_rows: int, *, least: int = 2) -> Array:
    """Return one non-negative weight per row, ``least`` of them positive; ones by default."""
    if sample_weight is None:
        return np.ones(n_rows)
    weights = _float_array(sample_weight, "sample_weight", names=None, least=1, vector=True)
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
    where = count if vector and not names else f"column {_name(names, column)}, {count}"
    if np.isnan(matrix[:, column]).any():
        raise InvalidInputError(
            f"Input {what} contains NaN in {where}: drop or fill these rows first."
        )
    raise InvalidInputError(
        f"Input {what} contains infinity or a value too large for dtype('float64'). It is in "
        f"{where}: drop these rows, or give finite values."
    )


def _check_cells(matrix: Array, names: list[str] | None, *, missing: bool, reset: bool) -> None:
    """Raise at infinities, and at NaN unless cells may be missing: then only where all are."""
    if not missing:
        check_finite(matrix, "X", names)
        return
    empty = np.flatnonzero(np.isnan(matrix).all(axis=0))
    if reset and len(empty):
        raise InvalidInputError(
            f"column {_name(names, int(empty[0]))} of X has no value in any row: leave it out."
        )
    if np.isinf(matrix).any():
        check_finite(np.where(np.isnan(matrix), 0.0, matrix), "X", names)


def _with_nans(X: Any) -> Any:
    """Return a table of numbers with NaN for None, for pandas' NA and for what is masked."""
    if isinstance(X, np.ma.MaskedArray):
        return np.ma.filled(X.astype(float), np.nan)
    frame = column_names(X) is not None
    _refuse_twins(column_names(X) or [], "X")
    array = None if frame else np.asarray(X, dtype=None if _has_dtype(X) else object)
    if array is not None and (array.dtype != object or array.ndim != 2):
        return X
    return np.column_stack([_column_with_nans(column) for column in _columns(X)])


def _column_with_nans(column: NDArray) -> NDArray:
    if column.dtype.kind in "fiub":
        return column
    objects = column.astype(object, copy=True)
    objects[[is_missing(value) for value in objects]] = np.nan
    return objects


def check_range(matrix: NDArray, what: str, names: Sequence[str] | None, *, more: bool) -> None:
    """Raise unless the squares of numbers, and densities of them, are numbers too.

    Of ``more`` rows than the first ones the spread says nothing.
    """
    if matrix.dtype == object:
        return
    low, high = np.fmin.reduce(matrix), np.fmax.reduce(matrix)  # of what is not missing
    largest, spread = np.maximum(-low, high), high - low
    beyond = np.flatnonzero(largest > _LARGEST)
    if len(beyond):
        raise InvalidInputError(
            f"column {_name(names, beyond[0])} of {what} reaches {largest[beyond[0]]:.0e}: numbers "
            f"up to {_LARGEST:.0e} can be computed with. Divide the column."
        )
    narrow = np.flatnonzero((spread > 0) & (spread < _LEAST_SPREAD))
    if len(narrow) and not more:
        raise InvalidInputError(
            f"column {_name(names, narrow[0])} of {what} varies by {spread[narrow[0]]:.0e}: from "
            f"{_LEAST_SPREAD:.0e} on it can be computed with. Multiply the column."
        )
    volume = float(np.log10(spread[spread > 0]).sum())
    if what == "Y" and abs(volume) > _LARGEST_VOLUME and not more:
        raise InvalidInputError(
            f"the outputs together vary by 1e{volume:+.0f}: joint densities need "
            f"1e-{_LARGEST_VOLUME} to 1e+{_LARGEST_VOLUME}. Multiply or divide the columns."
        )


def _float_array(
    values: Any, what: str, *, names: list[str] | None, least: int, vector: bool = False
) -> Array:
    values = as_known(values)
    _refuse_masked(values, what)
    _refuse_columns(values, what, names)
    return check_array(
        values,
        dtype=np.float64,
        ensure_all_finite=False,
        ensure_2d=not vector,
        allow_nd=vector,
        ensure_min_samples=least,
        input_name=what,
    )


def _refuse_masked(values: Any, what: str) -> None:
    """Raise where an array has masked values: what computes with it would not see the mask."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise InvalidInputError(
            f"Input {what} has masked values ({np.ma.count_masked(values)} of {values.size}): "
            "drop these rows, or fill them first, as with .filled(0.0)."
        )


def _refuse_columns(values: Any, what: str, names: list[str] | None) -> None:
    """Raise where a column holds no numbers, before a conversion fails obscurely, or succeeds."""
    table = frame_library(values) is not None
    if not table and not isinstance(values, np.ndarray | list | tuple):
        return
    if table and column_names(values) is not None:
        _refuse_twins(names or [], what)
        columns = _columns(values)
    else:
        array = np.asarray(values, dtype=None if _has_dtype(values) else object)
        if array.dtype.kind not in "OUSTmM" or array.size == 0:
            return
        columns = list(array.reshape(len(array), -1).T)
    _refuse_kinds(columns, what, [_name(names, i) for i in range(len(columns))])


def _refuse_kinds(columns: list[NDArray], what: str, names: list[str]) -> None:
    for name, column in zip(names, columns, strict=True):
        objects = column if column.dtype.kind in "OUST" else ()
        moment = next((v for v in objects if _is_moment(v)), None)
        if column.dtype.kind in "mM" or moment is not None:
            raise InvalidInputError(
                f"column {name} of {what} holds dates or times, such as "
                f"{column[0] if moment is None else moment}: {_DATES}"
            )
        text = next((v for v in objects if isinstance(v, str | bytes) and not _is_number(v)), None)
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


def _refuse_twins(names: list[str], what: str) -> None:
    twin = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twin is not None:
        raise InvalidInputError(f"two columns of {what} are called {twin!r}: rename one.")


def _name(names: Sequence[str] | None, column: int) -> str:
    return repr(names[column]) if names else str(column)


_DATES = "make numbers of them, such as the hour, the day of the week, or the days since the first."
_ADVICE = {
    "X": "In data frames, texts that repeat are taken for categories if none in their column is a "
    "number; else use a categorical column type, or kcdo.Categorical() on that column in kernel_x.",
    "Y": "Outputs are numbers: for classes, fit a column of 0 and 1 for each of them.",
    "sample_weight": "Weights are numbers.",
}


def _has_dtype(values: Any) -> bool:
    return hasattr(values, "dtype")


def _new(values: list[Any], known: dict[Hashable, int]) -> list[Any]:
    """Return the values that are not known yet, each once, in order."""
    return [v for v in dict.fromkeys(values) if v not in known]


def _in_order(value: Any) -> tuple[str, float, str]:
    """Return what categories are sorted by: their codes do not depend on the order of rows."""
    number = float(value) if isinstance(value, int | float | np.number) else 0.0
    return type(value).__name__, number, str(value)


def is_missing(value: Any) -> bool:
    """Whether a category is missing: None, NaN, or pandas' NA, which refuses to compare."""
    try:
        return value is None or bool(value != value)  # NaN differs from itself
    except TypeError:
        return True


def _is_number(text: str | bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _n_columns(X: Any) -> int | None:
    names = column_names(X)
    if names is not None:
        return len(names)
    try:
        shape = X.shape if hasattr(X, "shape") else np.asarray(X).shape
    except ValueError:  # ragged: the check of the array will say so
        return None
    return int(shape[1]) if len(shape) == 2 else None


def _columns(X: Any) -> list[NDArray]:
    """Return the columns of a frame or table; numeric columns of a frame as they are."""
    if column_names(X) is not None:
        return [np.asarray(X[name]) for name in X.columns]
    array = np.asarray(X, dtype=object)
    return [array[:, i] for i in range(array.shape[1])]


def _numeric_matrix(X: Any) -> bool:
    try:
        return np.asarray(X, dtype=float).ndim == 2
    except (TypeError, ValueError):
        return False


def _as_objects(X: Any, least: int) -> NDArray:
    """Return a sequence of anything as a vector of objects."""
    items = list(X)
    if len(items) < least:
        raise InvalidInputError(f"Found {len(items)} sample(s), while {least} are required.")
    out = np.empty(len(items), dtype=object)
    out[:] = items
    return out
