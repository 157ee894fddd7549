"""The columns of the data as a report sees them."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Integers
from kcdo.distributions import ConditionalDistribution
from kcdo.errors import InvalidInputError
from kcdo.kernels import leaves
from kcdo.reports.text import split_unit
from kcdo.tables import input_names, table_columns
from kcdo.validation import column_names, is_missing

Kind = Literal["number", "whole number", "category"]

_DRAWS = 64  # of each query of several outputs


class FittedModel(Protocol):
    """What a report needs of a model."""

    report_: Any
    n_features_in_: int

    def conditional(self, X: Any) -> ConditionalDistribution:
        """Return the distribution of Y given each row of X."""

    def marginal(self) -> ConditionalDistribution:
        """Return the distribution of Y in the training rows."""


@dataclass(frozen=True, eq=False)
class FewerDraws:
    """A model of several outputs that answers by fewer draws: a report asks it much."""

    model: FittedModel

    def conditional(self, X: Any) -> ConditionalDistribution:
        """Return the distribution of Y given each row of X."""
        return self.model.conditional(X).with_draws(_DRAWS)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)


@dataclass(frozen=True, eq=False)
class Column:
    """One column: floats with NaN where missing, or categories with None where missing."""

    name: str
    kind: Kind
    values: NDArray
    period: float | None = None

    @property
    def label(self) -> str:
        """The name without its unit."""
        return split_unit(self.name)[0]

    @property
    def unit(self) -> str:
        """The unit that the name carries, or nothing."""
        return split_unit(self.name)[1]

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Where values are missing, (N,)."""
        if self.kind == "category":
            return np.array([value is None for value in self.values])
        return np.isnan(self.values)

    @property
    def present(self) -> NDArray:
        """The values that are there, and finite."""
        there = ~self.missing if self.kind == "category" else np.isfinite(self.values)
        return self.values[there]

    def take(self, rows: Integers) -> "Column":
        """Return the column of some rows."""
        return replace(self, values=self.values[rows])

    def counts(self) -> list[tuple[Hashable, int]]:
        """Return the categories with their numbers of rows, the most frequent first."""
        found: dict[Hashable, int] = {}
        for value in self.present:
            found[value] = found.get(value, 0) + 1
        return sorted(found.items(), key=lambda item: (-item[1], str(item[0])))


def input_columns(X: Any, model: FittedModel) -> list[Column]:
    """Return the columns of X; what is a category or periodic is read off the input kernel."""
    raw = table_columns(X)
    p = model.n_features_in_
    if len(raw) != p:
        raise InvalidInputError(f"X has {len(raw)} columns, but the model was fitted to {p}.")
    names = column_names(X)
    if names is None:
        names = list(getattr(model, "feature_names_in_", input_names(X)))
    categories: set[int] = set()
    periods: dict[int, float] = {}
    for leaf, columns in leaves(model.report_.kernel_x, list(range(p))):
        if leaf.categorical:
            categories.update(columns)
        found = leaf.column_periods(len(columns))
        if found is not None:
            periods.update(zip(columns, found.tolist(), strict=True))
    return [
        _categories(str(name), values)
        if i in categories
        else _numbers(str(name), values, periods.get(i))
        for i, (name, values) in enumerate(zip(names, raw, strict=True))
    ]


def output_columns(Y: Any, output_names: Sequence[str] | None, d: int) -> list[Column]:
    """Return the columns of Y, or d columns without rows if there is no Y."""
    raw = [np.empty(0)] * d if Y is None else _raw_columns(Y)
    if len(raw) != d:
        raise InvalidInputError(f"Y has {len(raw)} columns, but the model predicts {d}.")
    names = _output_names(Y, d) if output_names is None else [str(n) for n in output_names]
    if len(names) != d:
        raise InvalidInputError(
            f"output_names must have one name per output: {d} outputs, {len(names)} names."
        )
    return [_numbers(name, values, None) for name, values in zip(names, raw, strict=True)]


def complete_rows(columns: Sequence[Column]) -> Integers:
    """Return the rows in which no column has a missing or infinite value."""
    bad = np.zeros(len(columns[0].values), dtype=bool)
    for column in columns:
        bad |= column.missing
        if column.kind != "category":
            bad |= np.isinf(column.values)
    return np.flatnonzero(~bad)


def _raw_columns(values: Any) -> list[NDArray]:
    """Return the columns of outputs, which may be a vector."""
    array = values if column_names(values) is not None else np.asarray(values)
    return [array] if isinstance(array, np.ndarray) and array.ndim == 1 else table_columns(array)


def _output_names(Y: Any, d: int) -> list[str]:
    named = column_names(Y)
    if named is None and getattr(Y, "name", None):
        named = [str(Y.name)]
    return named or (["y"] if d == 1 else [f"y{k}" for k in range(d)])


def _categories(name: str, values: NDArray) -> Column:
    plain = np.empty(len(values), dtype=object)
    plain[:] = [None if is_missing(v) else v for v in values.tolist()]
    return Column(name, "category", plain)


def _numbers(name: str, values: NDArray, period: float | None) -> Column:
    if values.dtype == object:  # nullable columns, or numbers given as text
        values = np.array([np.nan if is_missing(v) else v for v in values.tolist()])
    try:
        floats = values.astype(float)
    except ValueError:
        raise InvalidInputError(
            f"column {name!r} is not numeric, and not a category of the model either."
        ) from None
    finite = floats[np.isfinite(floats)]
    whole = bool(len(finite)) and bool(np.all(finite == np.round(finite)))
    return Column(name, "whole number" if whole else "number", floats, period)
