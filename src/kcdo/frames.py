"""Data frames: which library data came from, and tables of that library.

narwhals knows the libraries. Frames of pandas and polars are taken as they are, those of other
libraries (pyarrow, duckdb, modin, ...) become frames of pandas, or of polars where there is no
pandas; tables of answers are made in the library of the query.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import narwhals as nw
import numpy as np

from kcdo.arrays import Array, Integers
from kcdo.errors import InvalidInputError
from kcdo.namespaces import as_numpy

_TAKEN = ("pandas", "polars")  # frames that need no conversion
_MADE = ("pandas", "polars", "pyarrow", "modin")  # where tables of answers can be made
_DAY = r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})"
_CLOCK = r"\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?"
_MOMENT = re.compile(rf"({_DAY})([T ,]+.*)?|{_CLOCK}(\s*[ap]\.?m\.?)?", re.IGNORECASE)


def frame_library(data: Any) -> str | None:
    """Return the library of a frame or series, such as "pandas", None for anything else."""
    try:
        return nw.get_native_namespace(data).__name__.partition(".")[0]
    except TypeError:
        return None


def as_known(data: Any) -> Any:
    """Return data of any library as a frame or series of pandas or polars, or as a NumPy array.

    Anything that is neither a frame nor an array stays as it is.
    """
    library = frame_library(data)
    if library is None:
        return as_numpy(data)
    if library in _TAKEN and not hasattr(data, "collect"):
        return data
    try:
        frame = nw.from_native(data, allow_series=True)
    except (nw.exceptions.NarwhalsError, ValueError) as error:
        raise InvalidInputError(f"two columns have the same name: rename one. {error}") from error
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if frame_library(frame.to_native()) in _TAKEN:
        return frame.to_native()
    return frame.to_pandas() if find_spec("pandas") is not None else frame.to_polars()


def target_names(Y: Any) -> tuple[str, ...] | None:
    """Return the names of output columns, of a frame or a series; None where they have none."""
    Y = as_known(Y)
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


def take_rows(data: Any, rows: slice | Integers) -> Any:
    """Return some rows of a frame, an array, a list, or anything else with such an index."""
    if isinstance(data, list | tuple):
        return [data[i] for i in np.arange(len(data))[rows]]
    frame = nw.from_native(data, allow_series=True, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    return frame[rows].to_native() if isinstance(frame, nw.DataFrame | nw.Series) else data[rows]


@dataclass(frozen=True, eq=False)
class Labels:
    """What a table of predictions takes over from the data: its library, rows and outputs.

    Parameters
    ----------
    library : {"pandas", "polars", "pyarrow", "modin"} or None
        Library of the table; None takes pandas.
    index : pandas.Index, optional
        Names of the rows, one per query; of pandas and modin.
    outputs : tuple of str, optional
        Names of the output columns.
    """

    library: str | None = None
    index: Any = None
    outputs: tuple[str, ...] | None = None

    def of_query(self, X: Any) -> "Labels":
        """Return the labels of answers for X: the library is that of X, if X is a frame.

        Relations of a data base are answered like arrays.
        """
        library = frame_library(X)
        index = X.index if library in ("pandas", "modin") else None
        return replace(self, library=library if library in _MADE else self.library, index=index)

    def only(self, columns: Sequence[int]) -> "Labels":
        """Return the labels of some outputs."""
        chosen = None if self.outputs is None else tuple(self.outputs[c] for c in columns)
        return replace(self, outputs=chosen)

    def frame(self, values: Mapping[str, Array], rows: Integers) -> Any:
        """Return columns (Q,) or (Q, d) of the queries ``rows`` as a table."""
        columns: dict[str, Array] = {}
        for statistic, array in values.items():
            for name, column in self._columns(statistic, array):
                if name in columns:
                    raise InvalidInputError(
                        f"two columns of the table would be called {name!r}: rename the outputs."
                    )
                columns[name] = column
        library: Any = self.library or "pandas"
        try:
            table = nw.from_dict(columns, backend=library).to_native()
        except ImportError as error:
            raise ImportError(f"Tables need {library}: pip install {library}") from error
        if self.index is not None:
            table.index = self.index[rows]
        return table

    def _columns(self, statistic: str, array: Array) -> list[tuple[str, Array]]:
        if array.ndim == 1 or array.shape[1] == 1:
            return [(statistic, array.reshape(len(array)))]
        outputs = self.outputs or [f"y{i}" for i in range(array.shape[1])]
        return [(f"{output}_{statistic}", array[:, i]) for i, output in enumerate(outputs)]


NO_LABELS = Labels()
