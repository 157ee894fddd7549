"""A slice through the inputs: predictions along one of them, and the rows near to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.frames import take_rows
from kcdo.metrics.nearness import nearness
from kcdo.metrics.predictive import Predictive
from kcdo.plotting.queries import (
    Column,
    held_label,
    one_output,
    output_names,
    place_of,
    resting_values,
    sweep,
)
from kcdo.tables import input_names, table_columns

_MOST_ROWS = 4000  # more points than that cannot be told apart


@dataclass(frozen=True, eq=False)
class Slice:
    """Predictions of one output along one input, the other inputs held.

    Attributes
    ----------
    dist : Predictive
        One query for each value along the input.
    input_name, output_name, title : str
        Names, and where the others are held.
    column, outputs, weights : arrays of shape (N,), or None
        Of the rows: the input along which the slice goes, the output, and how near they are.
    """

    dist: Predictive
    input_name: str
    output_name: str
    title: str
    column: NDArray | None = None
    outputs: Array | None = None
    weights: Array | None = None

    @classmethod
    def of(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        values: Sequence[Any] | Array,
        *,
        place: int,
        output: Column,
        at: Mapping[Column, Any] | None,
    ) -> Self:
        """Ask a model along the input at ``place``, and find how near the rows of X and y are."""
        resting = resting_values(X, place, at)
        dist = estimator.conditional(sweep(X, place, values, resting))
        single, name, _ = one_output(dist, output, y)
        words = input_names(X)[place], name, held_label(X, resting, at)
        if y is None:
            return cls(single, *words)
        X, y = drawn_rows(X, y)
        outputs = one_output(dist, output, y)[2]
        shown = place_of(output, output_names(dist, y), "output")
        weights = nearness(estimator, X, resting, [shown])
        return cls(single, *words, table_columns(X)[place], outputs, weights)


def drawn_rows(X: Any, y: Any) -> tuple[Any, Any]:
    """Return the rows that are drawn: all, or as many at random as can be told apart."""
    n = len(table_columns(X)[0])
    if n <= _MOST_ROWS:
        return X, y
    rows = np.sort(np.random.default_rng(0).permutation(n)[:_MOST_ROWS])
    return take_rows(X, rows), take_rows(y, rows)
