"""Data frames, pandas or polars: which library data came from, and tables of that library."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError

_LIBRARIES = ("pandas", "polars")
_DAY = r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})"
_CLOCK = r"\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?"
_MOMENT = re.compile(rf"({_DAY})([T ,]+.*)?|{_CLOCK}(\s*[ap]\.?m\.?)?", re.IGNORECASE)


def frame_library(data: Any) -> str | None:
    """Return "pandas" or "polars" for a frame or series of theirs, None for anything else."""
    if not (hasattr(data, "columns") or hasattr(data, "name")):
        return None
    homes = {cls.__module__.partition(".")[0] for cls in type(data).__mro__}  # also of subclasses
    return next((library for library in _LIBRARIES if library in homes), None)


def target_names(Y: Any) -> tuple[str, ...] | None:
    """Return the names of output columns, of a frame or a series; None where they have none."""
    if frame_library(Y) is None:
        return None
    names = list(Y.columns) if hasattr(Y, "columns") else [Y.name]
    # a frame made from an array has numbers for names, a polars series made from one has ""
    named = all(isinstance(name, str) and name for name in names)
    return tuple(names) if names and named else None


def is_date_text(text: str) -> bool:
    """Whether a text reads as a date or a time of day.

    >>> [is_date_text(text) for text in ("2024-01-31 08:00", "31.1.24", "8:30 pm", "rain", "1.5")]
    [True, True, True, False, False]
    """
    return _MOMENT.fullmatch(text.strip()) is not None


def category_text(value: Any) -> str:
    """Return a category as text; whole numbers, which are floats beside a gap, without a point.

    >>> category_text(2.0), category_text(" rain")
    ('2', 'rain')
    """
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value) if whole else value).strip()


def take_rows(data: Any, rows: slice | NDArray[np.integer]) -> Any:
    """Return some rows of a frame, an array, a list, or anything else with such an index."""
    if frame_library(data) == "pandas":
        return data.iloc[rows]
    if isinstance(data, list | tuple):
        return [data[i] for i in np.arange(len(data))[rows]]
    return data[rows]


@dataclass(frozen=True, eq=False)
class Labels:
    """What a table of predictions takes over from the data: its library, rows and outputs.

    Parameters
    ----------
    library : {"pandas", "polars"} or None
        Library of the table; None takes pandas.
    index : pandas.Index, optional
        Names of the rows, one per query.
    outputs : tuple of str, optional
        Names of the output columns.
    """

    library: str | None = None
    index: Any = None
    outputs: tuple[str, ...] | None = None

    def of_query(self, X: Any) -> "Labels":
        """Return the labels of answers for X: the library is that of X, if X is a frame."""
        library = frame_library(X)
        index = X.index if library == "pandas" else None
        return replace(self, library=library or self.library, index=index)

    def only(self, columns: Sequence[int]) -> "Labels":
        """Return the labels of some outputs."""
        chosen = None if self.outputs is None else tuple(self.outputs[c] for c in columns)
        return replace(self, outputs=chosen)

    def frame(self, values: Mapping[str, Array], rows: NDArray[np.integer]) -> Any:
        """Return columns (Q,) or (Q, d) of the queries ``rows`` as a table."""
        columns: dict[str, Array] = {}
        for statistic, array in values.items():
            for name, column in self._columns(statistic, array):
                if name in columns:
                    raise InvalidInputError(
                        f"two columns of the table would be called {name!r}: rename the outputs."
                    )
                columns[name] = column
        library = self.library or "pandas"
        module = _imported(library)
        if library == "polars":
            return module.DataFrame(columns)
        return module.DataFrame(columns, index=None if self.index is None else self.index[rows])

    def _columns(self, statistic: str, array: Array) -> list[tuple[str, Array]]:
        if array.ndim == 1 or array.shape[1] == 1:
            return [(statistic, array.reshape(len(array)))]
        outputs = self.outputs or [f"y{i}" for i in range(array.shape[1])]
        return [(f"{output}_{statistic}", array[:, i]) for i, output in enumerate(outputs)]


NO_LABELS = Labels()


def _imported(library: str) -> Any:
    try:
        return import_module(library)
    except ImportError as error:
        raise ImportError(f'Tables need {library}: pip install "kcdo[all]"') from error
