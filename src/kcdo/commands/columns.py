"""Columns of a table become numbers or labels, with errors that name the place."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.commands.console import counted
from kcdo.commands.naming import Role
from kcdo.commands.style import PLAIN, Style
from kcdo.errors import InvalidInputError
from kcdo.frames import category_text, is_date_text

# What counts as missing in a text file. "None" is a fair name for a category, as in "no holiday".
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "-nan", "-NaN", "NULL", "null")
MISSING_NUMBERS = (*MISSING, "None")
_NO_NUMBER = {text.casefold() for text in MISSING_NUMBERS}  # a number is as missing as nAn

_LONGEST_SHOWN = 60  # characters of a cell in a message
_OTHER_NUMBER = re.compile(r"[+-]?\d+[.,]\d+")  # if it is none, then because of another style
_MOST_CATEGORIES = 50  # beyond these, texts that hardly repeat are no categories


@dataclass(frozen=True)
class Place:
    """Where some rows stand: in which file, and from which row on, counted from 1."""

    file: str
    start: int
    style: Style = PLAIN

    def row(self, i: int) -> str:
        """Name the ``i``-th of the rows."""
        return f"row {self.start + i} of {self.file} (not counting the header)"


@dataclass
class Column:
    """A column as it is read, part by part."""

    name: str
    role: Role
    parts: list[NDArray[Any]] = field(default_factory=list)
    has_numbers: bool = False
    first_text: tuple[str, str] | None = None  # and its row

    def add(self, values: pd.Series, place: Place) -> None:
        """Take the next rows."""
        if self.role is Role.CATEGORY:
            self.parts.append(labels(values))
        elif self.role.numeric:
            self.parts.append(numbers(values, place, self.role))
        elif self.role is Role.MOMENT:
            self.parts.append(moments(values, place))
        elif isinstance(values.dtype, pd.CategoricalDtype):
            self.role = Role.CATEGORY
            self.add(values, place)
        else:
            self._guess(values, place)

    def _guess(self, values: pd.Series, place: Place) -> None:
        found, text = _parsed(values, place)
        self.has_numbers |= bool(np.isfinite(found).any())
        if text.any() and self.first_text is None:
            row = int(np.flatnonzero(text)[0])
            self.first_text = str(values.iloc[row]), place.row(row)
            if not self.has_numbers and is_date_text(self.first_text[0]):
                raise _dates(self.name, *self.first_text)
        if self.first_text and (
            self.has_numbers or _OTHER_NUMBER.fullmatch(self.first_text[0].strip())
        ):
            raise _not_a_number(self.name, *self.first_text, place.style, Role.AUTO)
        self.parts.append(labels(values) if text.any() else found)

    def values(self) -> NDArray[Any]:
        """Return all rows: numbers with NaN, or labels with None, where missing."""
        if self.role not in (Role.CATEGORY, Role.AUTO) or (
            self.role is Role.AUTO and not self.first_text
        ):
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


def with_numbers(frame: pd.DataFrame, roles: dict[str, Role], place: Place) -> pd.DataFrame:
    """Return a frame whose columns that must be numeric are floats."""
    found = {
        name: numbers(frame[name], place, role) if role.numeric else frame[name]
        for name, role in roles.items()
    }
    return pd.DataFrame(found)


def numbers(values: pd.Series, place: Place, role: Role = Role.NUMBER) -> Array:
    """Return a column as floats, NaN where missing; raise at the first text or infinity."""
    found, text = _parsed(values, place)
    if not text.any():
        return found
    name, row = str(values.name), int(np.flatnonzero(text)[0])
    value, where = str(values.iloc[row]), place.row(row)
    if np.isfinite(found).any() or _OTHER_NUMBER.fullmatch(value.strip()):
        raise _not_a_number(name, value, where, place.style, role)
    if is_date_text(value):
        raise _dates(name, value, where)
    if role is Role.TARGET:
        raise InvalidInputError(
            f"--target {name}: the column holds texts, such as {_quoted(value)} in {where}, and a "
            "density is one of numbers: make a column of 0 and 1, 1 where "
            f"{name} is {_quoted(value)} say, and give that as the target."
        )
    raise _not_a_number(name, value, where, place.style, role)


def moments(values: pd.Series, place: Place) -> Array:
    """Return a column of numbers or dates as numbers in the same order, NaN where missing."""
    dates = pd.api.types.is_datetime64_any_dtype(values)
    if not dates:
        found, text = _parsed(values, place)
        if not text.any():
            return found
        texts = values.astype(object).where(~values.astype(str).str.strip().isin(MISSING), None)
        values = pd.to_datetime(texts, format="ISO8601", utc=True, errors="coerce")
        wrong = np.flatnonzero(values.isna() & texts.notna())
        if len(wrong):
            raise InvalidInputError(
                f"column {str(values.name)!r} has {_quoted(str(texts.iloc[wrong[0]]))} in "
                f"{place.row(int(wrong[0]))}, which is neither a number nor a date such as "
                "2024-01-31 or 2024-01-31 08:00."
            )
    seconds = (pd.to_datetime(values, utc=True) - pd.Timestamp(0, tz="UTC")).dt.total_seconds()
    return seconds.to_numpy(dtype=float)


def labels(values: pd.Series) -> NDArray[Any]:
    """Return a column as texts, None where missing; whole numbers without a decimal point."""
    codes, found = pd.factorize(values)  # the code of a missing value is -1: the None at the end
    return np.array([*map(label, found), None], dtype=object)[codes]


def label(value: Any) -> str | None:
    """Return a category as text.

    >>> label(2.0), label(" rain"), label("NA")
    ('2', 'rain', None)
    """
    text = category_text(value)
    return None if text in MISSING else text


def _parsed(values: pd.Series, place: Place) -> tuple[Array, NDArray[np.bool_]]:
    """Return a column as floats, and where it has a text that is none."""
    name = str(values.name)
    if pd.api.types.is_datetime64_any_dtype(values):
        raise _dates(name, str(values.iloc[0]), place.row(0))
    if pd.api.types.is_numeric_dtype(values):  # truth values too
        found, text = values.to_numpy(dtype=float, na_value=np.nan), np.zeros(len(values), bool)
    else:
        texts = values.astype(object)
        found = place.style.parsed(texts)
        missing = texts.isna() | texts.astype(str).str.strip().str.casefold().isin(_NO_NUMBER)
        text = np.isnan(found) & ~missing.to_numpy(dtype=bool)
    infinite = np.isinf(found)
    if infinite.any():
        row = int(np.argmax(infinite))
        raise InvalidInputError(
            f"column {name!r} has {counted(int(infinite.sum()), 'infinite value')}, the first "
            f"{_quoted(str(values.iloc[row]))} in {place.row(row)}: correct them, or leave these "
            "rows out."
        )
    return found, text


def _dates(name: str, value: str, row: str) -> InvalidInputError:
    return InvalidInputError(
        f"column {name!r} holds dates or times, such as {value!r} in {row}: make numbers of them "
        "first, such as the hour or the day of the week, or leave the column out by naming the "
        f"others in --given; --categorical {name} takes them as names."
    )


def _not_a_number(name: str, value: str, row: str, style: Style, role: Role) -> InvalidInputError:
    what = "correct it"
    if _OTHER_NUMBER.fullmatch(value.strip()):
        what = "if this is a decimal comma, say --decimal , and if it groups digits, --thousands ,"
        if style.decimal == ",":
            what = "--decimal , asks for a decimal comma, and this has a point"
    elif role is Role.AUTO:
        what = "correct it, or name such columns in --categorical if their values are names"
    return InvalidInputError(
        f"column {name!r} has a text among its numbers: {_quoted(value)} in {row}; {what}."
    )


def _quoted(value: str) -> str:
    """Return a cell as a message shows it: of a long one, how it begins."""
    return repr(value if len(value) <= _LONGEST_SHOWN else value[:_LONGEST_SHOWN] + "…")
