"""How near rows are to a slice through the inputs, measured by what moves the predictions.

A picture of p(y|x) along one input holds the others at some values. Rows whose other inputs are far
away belong to another density, and would make a right model look wrong. A row is near if its other
inputs are, in units over which predictions move (an input that matters little may differ much), and
if the model predicts about the same for it as for the slice (an input may matter in places only).

What predictions move by is measured in their widths, 1 / (2 √π ∫ p²): the standard deviation of a
Gaussian, but of two narrow modes far apart only about twice their own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.kernels import Kernel, leaves
from kcdo.metrics.importance import (
    gaussian_divergences,
    shuffled_divergences,
)
from kcdo.metrics.predictive import Predictive
from kcdo.metrics.several import quantiles
from kcdo.tables import is_numeric, table_columns, table_like
from kcdo.validation import categorical_positions

__all__ = ["InputScale", "distances", "input_scales", "nearness", "periods", "place_and_width"]

_SCALE_ROWS = 80
_JOINT_SCALE_ROWS = 48  # shared by several outputs, whose answers take many draws,
_FEWEST_SCALE_ROWS = 8  # but no fewer than these
_SCALE_DRAWS = 32  # of each, which many rows average
_QUANTILES = 24
_LEAST_WIDTH = 1e-100


@dataclass(frozen=True)
class InputScale:
    """How far one input may move until predictions do, by about half their width.

    Attributes
    ----------
    scale : float
        In units of a number; infinite where it does not matter. Another category is 1 / scale away.
    category : bool
        Whether values are equal or not, without an order.
    period : float or None
        Of numbers that come back, such as hours.
    """

    scale: float
    category: bool = False
    period: float | None = None

    def distances(self, values: NDArray, at: Any) -> Array:
        """Return how far values (N,) are from one of them, in units of the scale."""
        if self.category:
            return np.array([value != at for value in values.tolist()], dtype=float) / self.scale
        gaps = np.abs(np.asarray(values, dtype=float) - float(at))
        if self.period is not None:
            gaps %= self.period
            gaps = np.minimum(gaps, self.period - gaps)
        return gaps / self.scale


def input_scales(model: Any, X: Any) -> list[InputScale]:
    """Return the scale of each input of a fitted model, measured on usual inputs X (N, p).

    When an input is shuffled, it moves by √2 of its standard deviations, and predictions diverge by
    D. A linear effect then moves them by half their width over sd(x) / (2√D).
    """
    columns = table_columns(X)
    kernel = getattr(getattr(model, "report_", None), "kernel_x", None)
    repeats = periods(kernel, len(columns))
    named = set() if kernel is None else categorical_positions(kernel, len(columns))
    d = getattr(model, "n_outputs", 1)
    rows = _SCALE_ROWS if d == 1 else max(_FEWEST_SCALE_ROWS, _JOINT_SCALE_ROWS // d)
    moved = shuffled_divergences(model.conditional, X, _by_few_draws, rows)
    roots = np.sqrt(moved).tolist()
    found = []
    for i, (column, root) in enumerate(zip(columns, roots, strict=True)):
        category = i in named or not is_numeric(X, i)
        spread = _chance_of_another(column) if category else _sd(column)
        scale = 0.5 * spread / root if root > 0 and spread > 0 else np.inf
        found.append(InputScale(float(scale), category, repeats.get(i)))
    return found


def nearness(
    model: Any, X: Any, at: Mapping[int, Any], outputs: Sequence[int] | None = None
) -> Array:
    """Return how near the rows of X are to a slice, (N,), 1 for those on it.

    ``exp(-d²/4 - 2 D)``: d is the distance in the inputs that are held, in units of their scales,
    and D the divergence of the predictions of the row and of its projection on the slice. Inputs
    that move predictions by half their width have 1/4 of each.

    Parameters
    ----------
    model : ConditionalDensityOperator
        A fitted model.
    X : array or data frame of shape (N, p)
        Inputs of the rows.
    at : mapping of int to value
        Where inputs are held, by position.
    outputs : sequence of int, optional
        The outputs whose predictions count; all by default.
    """
    columns = table_columns(X)
    if not at:
        return np.ones(len(columns[0]))
    projected = list(columns)
    for place, value in at.items():
        projected[place] = np.array([value] * len(columns[0]), dtype=columns[place].dtype)
    own = _place_and_log_width(model.conditional(X))
    on_slice = _place_and_log_width(model.conditional(table_like(X, projected)))
    moved = gaussian_divergences(own, on_slice)
    total = (moved if outputs is None else moved[:, list(outputs)]).sum(axis=1)
    squares = distances(input_scales(model, X), columns, at) ** 2
    return np.exp(-0.25 * squares - 2.0 * total)


def distances(
    scales: Sequence[InputScale], columns: Sequence[NDArray], at: Mapping[int, Any]
) -> Array:
    """Return how far rows are from a slice, (N,), in units of the scales of what is held."""
    squares = np.zeros(len(columns[0]))
    for place, value in at.items():
        squares += scales[place].distances(columns[place], value) ** 2
    return np.sqrt(squares)


def place_and_width(dist: Predictive) -> tuple[Array, Array]:
    """Return where distributions are and how wide, (Q, d) each, from quantiles alone.

    The place is the mean of evenly spaced quantiles, the width 1 / (2 √π ∫ p²), with the density
    between two quantiles taken as constant. Of point masses, it is a hundredth of the whole.
    """
    levels = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    found = quantiles(dist, levels)
    gaps = np.diff(found, axis=0)
    least = 0.01 * (found[-1] - found[0]) + _LEAST_WIDTH
    square = np.sum(_QUANTILES**-2.0 / np.maximum(gaps, least), axis=0)
    return found.mean(axis=0), 1.0 / (2.0 * np.sqrt(np.pi) * square)


def _by_few_draws(dist: Any) -> tuple[Array, Array]:
    by_draws = dist.n_outputs > 1 and hasattr(dist, "with_draws")
    return _place_and_log_width(dist.with_draws(_SCALE_DRAWS) if by_draws else dist)


def _place_and_log_width(dist: Predictive) -> tuple[Array, Array]:
    place, width = place_and_width(dist)
    return place, np.log(width)


def periods(kernel: Kernel | None, p: int) -> dict[int, float]:
    """Return the period of each column that an input kernel takes for periodic."""
    found: dict[int, float] = {}
    for leaf, columns in leaves(kernel, list(range(p))) if kernel is not None else ():
        own = leaf.column_periods(len(columns))
        if own is not None:
            found.update(zip(columns, own.tolist(), strict=True))
    return found


def _sd(column: NDArray) -> float:
    values = np.asarray(column, dtype=float)
    return float(np.std(values[np.isfinite(values)]))


def _chance_of_another(column: NDArray) -> float:
    """Return the root of half the chance that another row has another category.

    So that the mean square distance of rows is that of numbers: 2 D.
    """
    counts = np.unique([str(value) for value in column.tolist()], return_counts=True)[1]
    return float(np.sqrt(0.5 * (1.0 - np.sum((counts / counts.sum()) ** 2))))
