"""How much each input column matters to a fitted model."""

from dataclasses import replace
from functools import partial

import numpy as np

from kcdo.arrays import Array
from kcdo.components import Chain, ChainModel, Conditioner, Univariate, condition, link_rows
from kcdo.metrics.importance import shuffled_divergences, shuffled_importances
from kcdo.rows import Rows
from kcdo.transforms import Transform

_PREDICTIONS, _LEAST_ROWS = 6400, 16


def column_importances(
    model: Conditioner, transform: Transform | None, rows: Rows, n_rows: int
) -> Array:
    """Return how much each column of the training rows matters, (p,).

    The transform maps outputs of the model to those of the user; ``n_rows`` are drawn, fewer where
    there are many columns to shuffle.
    """
    if rows.X.dtype == object:  # anything that a kernel compares: no columns to shuffle
        return np.ones(1)
    if isinstance(model, ChainModel):
        return _of_chain(model.chains[0], rows, n_rows)
    n_rows = _affordable(n_rows, rows.X.shape[1])
    given = partial(condition, _plainer(model), flat=False, transform=transform)
    return shuffled_importances(given, rows.X, n_rows)


def _affordable(n_rows: int, times: int) -> int:
    """Return how many rows are predicted so many times."""
    return max(_LEAST_ROWS, min(n_rows, _PREDICTIONS // times))


def _plainer(model: Conditioner) -> Conditioner:
    """Return the model without recalibration: it costs quadrature and hardly moves two digits."""
    return replace(model, recalibration=None) if isinstance(model, Univariate) else model


def _of_chain(chain: Chain, rows: Rows, n_rows: int) -> Array:
    """Return the importances of a chain: joint densities diverge by the sum over the links."""
    p = rows.X.shape[1]
    n_rows = _affordable(n_rows, p * len(chain.links))
    found = np.zeros(p)
    for j, link in enumerate(chain.links):
        inputs = link_rows(rows, chain.order, j).X
        given = partial(condition, _plainer(link), flat=True)
        found += shuffled_divergences(given, inputs, n_rows=n_rows, shuffled_columns=range(p))
    return 1.0 - np.exp(-found / len(chain.links))
