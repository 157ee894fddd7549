"""What the columns of a table without types hold, for formats that have types."""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import IntEnum
from typing import Any

import numpy as np
import pandas as pd

from kcdo.commands.columns import MISSING_NUMBERS
from kcdo.commands.style import Style

_MOST_DIGITS = 18  # of a whole number of 64 bits


class Content(IntEnum):
    """What a column holds; of several parts, the largest."""

    NOTHING = 0
    WHOLE = 1
    NUMBER = 2
    TEXT = 3


def merged(parts: Iterable[list[Content]]) -> list[Content]:
    """Return what columns hold, given what each part of the columns holds."""
    found = [max(column) for column in zip(*parts, strict=True)]
    return [Content.TEXT if content is Content.NOTHING else content for content in found]


def content_of_texts(texts: pd.Series, style: Style) -> Content:
    """Return what texts hold; 007 and whole numbers of 19 digits are not numbers but names."""
    known = texts.str.strip()
    known = known[~known.isin(MISSING_NUMBERS)]
    if known.empty:
        return Content.NOTHING
    whole = known.str.fullmatch(r"[+-]?\d+")
    names = known.str.match(r"[+-]?0\d") | (whole & (known.str.len() > _MOST_DIGITS))
    if names.any() or np.isnan(style.parsed(known.astype(object))).any():
        return Content.TEXT
    return Content.WHOLE if whole.all() else Content.NUMBER


def content_of_values(values: Iterable[Any]) -> Content:
    """Return what JSON values hold; truth values and what is nested count as texts."""
    kinds = {type(value) for value in values if value is not None}
    if not kinds:
        return Content.NOTHING
    if kinds == {int}:
        return Content.WHOLE
    return Content.NUMBER if kinds <= {int, float} else Content.TEXT


def typed_texts(texts: pd.Series, content: Content, style: Style) -> pd.Series:
    """Return texts in the type of what the column holds, missing where there is nothing."""
    if content is Content.TEXT:
        return texts.astype(object).where(texts != "", None)
    if content is Content.NUMBER:
        return pd.Series(style.parsed(texts.astype(object)))
    known = texts.str.strip()  # whole numbers not by way of floats, which hold 15 digits
    return pd.Series([pd.NA if t in MISSING_NUMBERS else int(t) for t in known], dtype="Int64")


def typed_values(values: list[Any], content: Content) -> pd.Series:
    """Return JSON values in the type of what the column holds, missing where there is nothing."""
    if content is Content.TEXT:
        return pd.Series([None if v is None else as_text(v) for v in values], dtype=object)
    return pd.Series(values, dtype="Int64" if content is Content.WHOLE else float)


def as_text(value: Any) -> str:
    """Return a JSON value as text: a text as it is, anything else as JSON writes it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def named(columns: list[str]) -> list[str]:
    """Return the names of columns, with one for each that has none.

    >>> named(["", "x"])
    ['column_1', 'x']
    """
    return [name or f"column_{i}" for i, name in enumerate(columns, 1)]
