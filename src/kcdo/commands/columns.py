"""Columns of a table become numbers or labels, with errors that name the place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.commands.naming import Role
from kcdo.errors import InvalidInputError

# What counts as missing in a text file. "None" is a fair name for a category, as in "no holiday".
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "-nan", "NULL", "null")
MISSING_NUMBERS = (*MISSING, "None")

_MOST_CATEGORIES = 50  # beyond these, texts that hardly repeat are no categories


@dataclass
class Column:
    """A column as it is read, part by part."""

    name: str
    role: Role
    parts: list[NDArray[Any]] = field(default_factory=list)
    has_numbers: bool = False
    first_text: tuple[str, int] | None = None  # and its row

    def add(self, values: pd.Series, start: int) -> None:
        """Take the next rows, the first of which is row ``start`` of the file."""
        if self.role is Role.CATEGORY:
            self.parts.append(labels(values))
        elif self.role is Role.NUMBER:
            self.parts.append(numbers(values, start))
        elif isinstance(values.dtype, pd.CategoricalDtype):
            self.role = Role.CATEGORY
            self.add(values, start)
        else:
            self._guess(values, start)

    def _guess(self, values: pd.Series, start: int) -> None:
        found, text = _parsed(values)
        self.has_numbers |= bool(np.isfinite(found).any())
        if text.any() and self.first_text is None:
            row = int(np.flatnonzero(text)[0])
            self.first_text = str(values.iloc[row]), start + row
        if self.first_text and self.has_numbers:
            raise _not_a_number(self.name, *self.first_text)
        self.parts.append(labels(values) if text.any() else found)

    def values(self) -> NDArray[Any]:
        """Return all rows: numbers with NaN, or labels with None, where missing."""
        if self.role is Role.NUMBER or (self.role is Role.AUTO and not self.first_text):
            return np.concatenate(self.parts).astype(float)
        # parts of a text column in which everything was missing were taken for numbers
        nothing = [np.full(len(p), None, dtype=object) for p in self.parts]
        pairs = zip(self.parts, nothing, strict=True)
        joined = np.concatenate([p if p.dtype == object else none for p, none in pairs])
        if self.role is Role.AUTO:
            self._check_categories(joined)
        return joined

    def _check_categories(self, values: NDArray[Any]) -> None:
        n = len(set(values.tolist()))
        if n > max(_MOST_CATEGORIES, len(values) // 10):
            raise InvalidInputError(
                f"column {self.name!r} has {n} different texts in {len(values)} rows: leave it out "
                f"of --given, or insist by --categorical {self.name}."
            )


def numbers(values: pd.Series, start: int) -> Array:
    """Return a column as floats, NaN where missing; raise at the first text."""
    found, text = _parsed(values)
    if text.any():
        row = int(np.flatnonzero(text)[0])
        raise _not_a_number(str(values.name), str(values.iloc[row]), start + row)
    return found


def labels(values: pd.Series) -> NDArray[Any]:
    """Return a column as texts, None where missing; whole numbers without a decimal point."""
    codes, found = pd.factorize(values)  # the code of a missing value is -1: the None at the end
    return np.array([*map(label, found), None], dtype=object)[codes]


def label(value: Any) -> str | None:
    """Return a category as text.

    >>> label(2.0), label(" rain"), label("NA")
    ('2', 'rain', None)
    """
    whole = isinstance(value, float) and value.is_integer()  # counts are floats beside a gap
    text = str(int(value) if whole else value).strip()
    return None if text in MISSING else text


def _parsed(values: pd.Series) -> tuple[Array, NDArray[np.bool_]]:
    """Return a column as floats, and where it has a text that is none."""
    if pd.api.types.is_datetime64_any_dtype(values):
        raise InvalidInputError(
            f"column {str(values.name)!r} holds dates: make numbers of them first, such as the "
            "hour or the day of the week."
        )
    if pd.api.types.is_numeric_dtype(values):  # truth values too
        return values.to_numpy(dtype=float, na_value=np.nan), np.zeros(len(values), dtype=bool)
    texts = values.astype(object)
    found = pd.to_numeric(texts, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    missing = texts.isna() | texts.astype(str).str.strip().isin(MISSING_NUMBERS)
    return found, np.isnan(found) & ~missing.to_numpy(dtype=bool)


def _not_a_number(name: str, value: str, row: int) -> InvalidInputError:
    comma = value.replace(",", "", 1).replace("-", "", 1).isdigit() and "," in value
    hint = "numbers need a decimal point" if comma else "correct it, or name such columns"
    what = hint if comma else f"{hint} in --categorical if their values are names"
    return InvalidInputError(
        f"column {name!r} has a text among its numbers: {value!r} in row {row} (not counting the "
        f"header); {what}."
    )
