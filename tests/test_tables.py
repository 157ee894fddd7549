"""Tables of inputs: columns of frames and arrays, and tables of the same kind."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from kcdo.errors import InvalidInputError
from kcdo.tables import input_names, is_numeric, table_columns, table_like

KINDS = ["left", "right", "left"]


def test_frames_keep_their_column_types():
    frame = pd.DataFrame(
        {"a": [1.0, 2.0, 3.0], "kind": pd.Categorical(KINDS), "n": pd.array([1, None, 3], "Int64")}
    )
    made = table_like(frame, [np.array([5.0]), ["right"], np.array([2.5])])
    assert list(made.columns) == input_names(frame) == ["a", "kind", "n"]
    assert made["kind"].dtype == frame["kind"].dtype
    assert made.iloc[0].tolist() == [5.0, "right", 2.5]
    other = pl.DataFrame({"a": [1.0, 2.0, 3.0], "kind": pl.Series(KINDS, dtype=pl.Categorical)})
    made = table_like(other, [np.array([5.0]), ["right"]])
    assert made["kind"].dtype == pl.Categorical
    assert made.rows() == [(5.0, "right")]


def test_arrays_stay_arrays():
    made = table_like(np.ones((3, 2)), [[1, 2], [3.5, 4.5]])
    assert made.dtype == float
    np.testing.assert_array_equal(made, [[1, 3.5], [2, 4.5]])
    mixed = [[1.0, "left"], [2.0, "right"]]
    assert [is_numeric(mixed, i) for i in range(2)] == [True, False]
    made = table_like(mixed, [np.array([5.0]), ["left"]])
    assert made.tolist() == [[5.0, "left"]]
    assert [c.tolist() for c in table_columns(mixed)] == [[1.0, 2.0], ["left", "right"]]
    assert input_names(np.ones((2, 1))) == ["x"]


def test_a_vector_is_no_table():
    with pytest.raises(InvalidInputError, match=r"one row per observation; got shape \(3,\)"):
        table_columns(np.ones(3))
