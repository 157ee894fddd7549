"""Inputs as the array that the kernel sees: categories become codes, the same at every call."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from kcdo.arrays import Array
from kcdo.consistency import need
from kcdo.errors import InvalidInputError
from kcdo.frames import frame_library
from kcdo.inputs import GaussianInput, SampleInput
from kcdo.kernels import Automatic, Categorical, Kernel, Product, leaves
from kcdo.validation.columns import (
    category_columns,
    column_names,
    columns_of,
    is_missing,
    n_columns,
    shown_name,
    with_nans,
)
from kcdo.validation.numbers import check_cells, check_finite, check_range, float_array
from kcdo.validation.refusals import refuse_kinds, refuse_masked

Categories = dict[int, dict[Hashable, int]]  # codes of values, by the position of a column

_FEW_NAMES = 10


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
    categories: Categories = field(default_factory=dict)
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
        width = n_columns(X)
        if estimator is not None and not reset and width is not None:
            # before categories are looked up in what may be another column
            _check_columns(estimator, X)
        places = categorical_positions(self.kernel, width) if width is not None else set()
        table = with_nans(X) if self.missing else X
        refuse_masked(table, "X")
        plain = (
            self._encoded(table, sorted(places), column_names(X), learn=learn) if places else table
        )
        matrix = float_array(plain, "X", names=column_names(X), least=least)
        if estimator is not None and reset:
            validate_data(estimator, X, skip_check_array=True)
        check_cells(matrix, column_names(X), missing=self.missing, reset=reset)
        return matrix

    def _encoded(
        self, X: Any, places: list[int], names: list[str] | None, *, learn: bool
    ) -> NDArray:
        """Return the columns side by side, categories as codes 0, 1, ..."""
        columns = columns_of(X)
        others = [i for i in range(len(columns)) if i not in places]
        refuse_kinds([columns[i] for i in others], "X", [shown_name(names, i) for i in others])
        for place in places:
            name = shown_name(names, place)
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


def _new(values: list[Any], known: dict[Hashable, int]) -> list[Any]:
    """Return the values that are not known yet, each once, in order."""
    return [v for v in dict.fromkeys(values) if v not in known]


def _in_order(value: Any) -> tuple[str, float, str]:
    """Return what categories are sorted by: their codes do not depend on the order of rows."""
    number = float(value) if isinstance(value, int | float | np.number) else 0.0
    return type(value).__name__, number, str(value)


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
