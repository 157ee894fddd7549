"""Data sets as scikit-learn gives them: a Bunch, or X and y, as arrays or frames."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from typing import IO, Any

import numpy as np
from sklearn.utils import Bunch

from kcdo.arrays import Array


def bundle(
    X: Array,
    y: Array,
    feature_names: Sequence[str],
    target_names: Sequence[str],
    description: str,
    *,
    return_X_y: bool,
    as_frame: bool,
    **extras: Any,
) -> Any:
    """Return a Bunch, or the pair (data, target), as arrays or as pandas objects."""
    data: Any = X
    target: Any = y
    frame = None
    if as_frame:
        frame, data, target = _frames(X, y, list(feature_names), list(target_names))
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        frame=frame,
        feature_names=list(feature_names),
        target_names=list(target_names),
        DESCR=description,
        **extras,
    )


def read_table(text: IO[str]) -> dict[str, list[str]]:
    r"""Read columns under a header line, between commas or else white space.

    What is wrong is raised as a plain ValueError, to which :func:`open_text` adds the file.

    >>> import io
    >>> read_table(io.StringIO("a b\n1 2\n3 4\n"))
    {'a': ['1', '3'], 'b': ['2', '4']}
    """
    header = text.readline().rstrip("\r\n")
    split = _by_commas if "," in header else _by_space
    (names,) = split([header])
    rows = [row for row in split(text) if row]
    for number, row in enumerate(rows, start=1):
        if len(row) != len(names):
            raise ValueError(f"row {number} has {len(row)} cells, the header {len(names)}")
    return {name: [row[k] for row in rows] for k, name in enumerate(names)}


def number_columns(table: dict[str, list[str]], names: Sequence[str]) -> Array:
    """Return the named columns as numbers, shape (rows, names)."""
    return np.column_stack([np.array(column(table, name), dtype=np.float64) for name in names])


def column(table: dict[str, list[str]], name: str) -> list[str]:
    """Return one column, or say which there are."""
    if name not in table:
        raise ValueError(f"there is no column {name!r} among {', '.join(table)}")
    return table[name]


def _by_commas(lines: Iterable[str]) -> Iterable[list[str]]:
    return csv.reader(lines)


def _by_space(lines: Iterable[str]) -> Iterable[list[str]]:
    return (line.split() for line in lines)


def _frames(
    X: Array, y: Array, feature_names: list[str], target_names: list[str]
) -> tuple[Any, Any, Any]:
    try:
        import pandas as pd
    except ImportError:
        raise ImportError('as_frame=True needs pandas: pip install "kcdo[all]"') from None
    both = np.column_stack([X, y])
    frame = pd.DataFrame(both, columns=[*feature_names, *target_names])
    targets = frame[target_names[0]] if y.ndim == 1 else frame[target_names]
    return frame, frame[feature_names], targets
