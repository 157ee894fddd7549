"""How much each input column matters to a fitted model."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from kcdo.arrays import Array
from kcdo.components import Chain, ChainModel, Conditioner, condition, link_rows
from kcdo.distributions import ConditionalDistribution
from kcdo.metrics.importance import shuffled_divergences, shuffled_importances
from kcdo.rows import Rows


def column_importances(
    model: Conditioner,
    given: Callable[[Any], ConditionalDistribution],
    rows: Rows,
    n_rows: int,
) -> Array:
    """Return how much each column of the training rows matters, (p,).

    ``given`` maps rows of inputs to the distributions that the model predicts for them; ``n_rows``
    are drawn.
    """
    if rows.X.dtype == object:  # anything that a kernel compares: no columns to shuffle
        return np.ones(1)
    if isinstance(model, ChainModel):
        return _of_chain(model.chains[0], rows, n_rows)
    return shuffled_importances(given, rows.X, n_rows)


def _of_chain(chain: Chain, rows: Rows, n_rows: int) -> Array:
    """Return the importances of a chain: joint densities diverge by the sum over the links."""
    p = rows.X.shape[1]
    found = np.zeros(p)
    for j, link in enumerate(chain.links):
        inputs = link_rows(rows, chain.order, j).X
        given = partial(condition, link, flat=True)
        found += shuffled_divergences(given, inputs, n_rows=n_rows, shuffled_columns=range(p))
    return 1.0 - np.exp(-found / len(chain.links))
