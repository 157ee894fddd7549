"""A model's own rows, each predicted by a fit that has not seen it."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kcdo.arrays import Integers
from kcdo.frames import take_rows
from kcdo.rows import Kin, in_folds, sampled

FEWEST_ROWS = 20
MOST_FITTED = 20_000  # more rows take too long to fit again
_FOLDS = 5
_SEED = 1  # not that of the folds by which fits choose
_FEW = 2_000  # rows that are all held out in turn


def held_out_in_turn(
    model: Any,
    X: Any,
    y: Any,
    most: int,
    sample_weight: ArrayLike | None = None,
    most_fitted: int = MOST_FITTED,
    kin: Kin | None = None,
) -> Iterator[tuple[Integers, Any]]:
    """Yield some rows and their distributions by a fit of the same parameters to others.

    Of few rows all, in five parts; of many one part, by a fit to ``most_fitted`` of the others. At
    most ``most`` rows are asked about. Rows of a group are foretold without any row of it, rows in
    time from earlier ones. The parameters are those of the model, so that its rows took part in
    their choice.
    """
    n = len(y)
    weights = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    for fitted, asked in _parts(n, most, most_fitted, kin):
        kept = np.zeros(n)  # rows of weight 0 are absent, but for the names of their categories
        kept[fitted] = weights[fitted]
        yield asked, model.refit(X, y, kept).conditional(take_rows(X, asked))


def n_fits(n: int, kin: Kin | None = None) -> int:
    """Return how many fits foretell so many rows.

    >>> n_fits(300), n_fits(3000), n_fits(300, Kin(np.arange(300) % 3, ordered=False))
    (5, 1, 3)
    """
    if n > _FEW:
        return 1
    return len(in_folds(n, _FOLDS, _SEED, kin))


def n_others(n: int, most: int, kin: Kin | None = None) -> int | None:
    """Return to how many rows the one fit is that foretells others; None if there are several.

    >>> n_others(300, 1000), n_others(3000, 1000)
    (None, 2400)
    """
    return len(_parts(n, most, MOST_FITTED, kin)[0][0]) if n_fits(n, kin) == 1 else None


def _parts(n: int, most: int, most_fitted: int, kin: Kin | None) -> list[tuple[Integers, Integers]]:
    """Return the rows that are fitted, and those that are then asked about, of each fit."""
    found = in_folds(n, _FOLDS, _SEED, kin)
    if n_fits(n, kin) == 1:
        found = found[-1:]  # in time the one that most rows come before
    share = max(1, most // len(found))
    return [(_some(fitted, most_fitted), _some(asked, share)) for fitted, asked in found]


def _some(rows: Integers, most: int) -> Integers:
    return rows[sampled(len(rows), most, seed=0)]
