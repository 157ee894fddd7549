"""How much each input matters to the predictions: the one definition, wherever it is shown."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from kcdo.arrays import Array
from kcdo.distributions import ConditionalDistribution
from kcdo.errors import InvalidInputError
from kcdo.tables import input_names, table_columns, table_like

__all__ = ["IMPORTANCE", "importances", "shuffled_divergences", "shuffled_importances"]

IMPORTANCE = "how far predictions move when this input alone is shuffled, from 0 to 1"
_MOST_ROWS, _LEAST_ROWS, _PREDICTIONS = 200, 40, 1600
_ROWS_AT_ONCE = 2000
_LEAST_VARIANCE = 1e-300
_MANY_COLUMNS = 100  # beyond which few matter, as a rule
_UNSEEN = 0.01  # divergence that several columns share, or this part of that of all columns,
_MOST_UNSEEN = 0.05  # up to this


class Conditional(Protocol):
    """A model with conditional distributions."""

    def conditional(self, X: Any) -> ConditionalDistribution:
        """Return the distribution of Y given each row of X."""


def importances(model: Conditional, X: Any) -> dict[str, float]:
    """Return how much predictions change, in [0, 1), when one input is shuffled.

    ``1 - exp(-D)``, with D the mean over rows and outputs of ``(Δm)²/(2 s s') + (Δ log s)²/2``, the
    divergence of two Gaussians to second order: effects on the mean and on the spread both count.
    Inputs that say the same share what they tell, so both seem less important than either alone.

    ``model.report_.importances`` are these, of 16 to 64 training rows, before recalibration. Beyond
    100 columns those that hardly move predictions if they are all shuffled together share that:
    a divergence of less than 0.01, or than 1 % of that of all columns, up to 0.05.

    Parameters
    ----------
    model : ConditionalDensityOperator
        A fitted model.
    X : array or data frame of shape (N, p)
        Rows of inputs; 40 to 200 of them are drawn, fewer for many columns.

    Returns
    -------
    dict of str to float
        By the name of the column.

    Examples
    --------
    >>> import numpy as np, kcdo
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(150, 2))
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * rng.standard_normal(150)
    >>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, y)
    >>> found = kcdo.metrics.importances(model, X)
    >>> found["x0"] > 0.3 > found["x1"]
    True
    """
    found = shuffled_importances(model.conditional, X)
    return dict(zip(input_names(X), found.tolist(), strict=True))


def mean_and_log_sd(dist: ConditionalDistribution) -> tuple[Array, Array]:
    """Return the mean and the logarithm of the standard deviation of every output, (Q, d) each."""
    variance = np.einsum("qdd->qd", dist.cov())  # of signed densities it may be negative
    return dist.mean().reshape(variance.shape), 0.5 * np.log(np.maximum(variance, _LEAST_VARIANCE))


def shuffled_importances(
    conditional: Callable[[Any], ConditionalDistribution], X: Any, n_rows: int | None = None
) -> Array:
    """Return the importance of each column of X, (p,), as :func:`importances` defines it.

    ``conditional`` maps rows of inputs, a table like X, to their distributions; ``n_rows`` are
    drawn.
    """
    return 1.0 - np.exp(-shuffled_divergences(conditional, X, n_rows=n_rows))


def shuffled_divergences(
    conditional: Callable[[Any], Any],
    X: Any,
    moments: Callable[[Any], tuple[Array, Array]] = mean_and_log_sd,
    n_rows: int | None = None,
    shuffled_columns: Sequence[int] | None = None,
) -> Array:
    """Return how far predictions move when each column of X is shuffled, D (p,).

    ``moments`` maps distributions to means and logarithms of spreads, (Q, d) each; ``n_rows`` are
    drawn, by default fewer for many columns. Other columns than all may be named.
    """
    columns = table_columns(X)
    if not len(columns[0]):
        raise InvalidInputError("importances need rows of inputs; there are none.")
    n_rows = n_rows or int(np.clip(_PREDICTIONS // len(columns), _LEAST_ROWS, _MOST_ROWS))
    rng = np.random.default_rng(0)
    chosen = rng.integers(len(columns[0]), size=n_rows)
    rows = [column[chosen] for column in columns]
    before = moments(conditional(table_like(X, rows)))
    order = rng.permutation(n_rows)
    asked = range(len(rows)) if shuffled_columns is None else shuffled_columns

    def moved(sets: Sequence[Sequence[int]]) -> Array:
        """Return how far predictions move when each of several sets of columns is shuffled."""
        shuffled = [np.tile(column, len(sets)) for column in rows]
        for k, together in enumerate(sets):
            for j in together:
                shuffled[j][k * n_rows : (k + 1) * n_rows] = rows[j][order]
        after = moments(conditional(table_like(X, shuffled)))
        (mean, log_sd), d = before, before[0].shape[1]
        same = (np.tile(mean, (len(sets), 1)), np.tile(log_sd, (len(sets), 1)))
        return gaussian_divergences(same, after).reshape(len(sets), n_rows * d).mean(axis=1)

    at_once = max(1, _ROWS_AT_ONCE // n_rows)  # few rows at a time cost as much as many

    def all_moved(sets: Sequence[Sequence[int]]) -> Array:
        parts = [sets[start : start + at_once] for start in range(0, len(sets), at_once)]
        return np.concatenate([moved(part) for part in parts])

    if len(asked) <= _MANY_COLUMNS:
        return all_moved([[j] for j in asked])
    return _by_halves(all_moved, asked, len(rows))[list(asked)]


def _by_halves(
    moved: Callable[[Sequence[Sequence[int]]], Array], asked: Sequence[int], p: int
) -> Array:
    """Return divergences (p,) of many columns, of which few matter: others are shuffled together.

    Level by level: all columns, both halves, the halves of those that move predictions.
    """
    found = np.zeros(p)
    level = [(asked, _UNSEEN)]
    while level:
        totals = moved([columns for columns, _ in level]).tolist()
        below = []
        for (columns, unseen), total in zip(level, totals, strict=True):
            unseen = max(unseen, min(_UNSEEN * total, _MOST_UNSEEN))  # all columns come first
            if len(columns) == 1 or total < unseen:
                found[list(columns)] = total / len(columns)
            else:
                half = len(columns) // 2
                below += [(columns[:half], unseen), (columns[half:], unseen)]
        level = below
    return found


def gaussian_divergences(first: tuple[Array, Array], second: tuple[Array, Array]) -> Array:
    """Return the divergence of Gaussians of given means and log sds, to second order, (Q, d)."""
    (mean, log_sd), (other_mean, other_log_sd) = first, second
    moved = (mean - other_mean) ** 2 * np.exp(-log_sd - other_log_sd)
    return 0.5 * (moved + (log_sd - other_log_sd) ** 2)
