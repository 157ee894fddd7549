"""A model's own rows, each predicted by a fit that has not seen it."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kcdo.frames import take_rows
from kcdo.rows import dealt

FEWEST_ROWS = 20
MOST_FITTED = 20_000  # more rows take too long to fit again
_FOLDS = 5
_FEW = 2_000  # rows that are all held out in turn

Places = NDArray[np.integer]


def held_out_in_turn(
    model: Any,
    X: Any,
    y: Any,
    most: int,
    sample_weight: ArrayLike | None = None,
    most_fitted: int = MOST_FITTED,
) -> Iterator[tuple[Places, Any]]:
    """Yield some rows and their distributions by a fit of the same parameters to others.

    Of few rows all, in five parts; of many one part, by a fit to ``most_fitted`` of the others. At
    most ``most`` rows are asked about. The parameters are those of the model, so that its rows took
    part in their choice.
    """
    n = len(y)
    weights = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    for fitted, asked in _parts(n, most, most_fitted):
        kept = np.zeros(n)  # rows of weight 0 are absent, but for the names of their categories
        kept[fitted] = weights[fitted]
        yield asked, model.refit(X, y, kept).conditional(take_rows(X, asked))


def n_fits(n: int) -> int:
    """Return how many fits foretell so many rows.

    >>> n_fits(300), n_fits(3000)
    (5, 1)
    """
    return 1 if n > _FEW else _FOLDS


def _parts(n: int, most: int, most_fitted: int) -> list[tuple[Places, Places]]:
    """Return the rows that are fitted, and those that are then asked about, of each fit."""
    if n_fits(n) == 1:
        (order,) = dealt(n, 1, seed=0)
        asked, others = np.split(order, [min(most, n // _FOLDS)])
        return [(np.sort(others[:most_fitted]), np.sort(asked))]
    share = max(1, most // _FOLDS)
    folds = dealt(n, _FOLDS, seed=0)
    return [(np.setdiff1d(np.arange(n), fold), np.sort(fold[:share])) for fold in folds]
