"""Multivariate rank histograms: calibration of several outputs, seen through one number."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError
from kcdo.metrics.predictive import Predictive, by_chunks, checked_outputs

Order = Literal["average", "band", "dominance"]

_NUMBERS = 1 << 21  # comparisons of pairs of points held at a time


def multivariate_ranks(
    dist: Predictive,
    Y: Any,
    *,
    order: Order = "average",
    n_draws: int = 100,
    random_state: int = 0,
) -> Array:
    """Rank of the outputs among draws of their distribution, in [0, 1].

    Uniform for a calibrated model. Their histogram is the multivariate rank histogram. Points of
    several dimensions have no order of their own, so each is given a number, which is ranked:

    - ``"average"``: the mean of its ranks in each output. Many near 0 and 1 mean predictions that
      are too narrow, or correlations that are too weak; many on one side mean a bias.
    - ``"band"``: how central it is, the mean of (rank - 1)(n - rank) over the outputs. Many near 0
      mean outputs less central than draws, so predictions are too narrow; many near 1, too wide.
    - ``"dominance"``: how many points are below it in every output.

    Parameters
    ----------
    dist, Y
        As in :func:`~kcdo.metrics.log_score`.
    order : {"average", "band", "dominance"}
        The number by which points are ranked (Gneiting and others, 2008; Thorarinsdottir, Scheuerer
        and Heinz, 2016).
    n_draws : int
        Draws per query.
    random_state : int
        Seed of the draws, and of the places among equal ones.

    Returns
    -------
    array of shape (Q,)

    Examples
    --------
    >>> import kcdo
    >>> X, Y = kcdo.make_donut(4, random_state=0)
    >>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    >>> ranks = kcdo.metrics.multivariate_ranks(model.conditional(X[:10]), Y[:10])
    >>> ranks.shape, bool(ranks.min() >= 0), bool(ranks.max() <= 1)
    ((10,), True, True)
    """
    if order not in _PRERANKS:
        raise InvalidInputError(f"order must be one of {list(_PRERANKS)}; got {order!r}.")
    if n_draws < 1:
        raise InvalidInputError(f"ranks need n_draws >= 1; got {n_draws}.")
    outputs = checked_outputs(dist, Y)
    rng, places = (np.random.default_rng([random_state, stream]) for stream in range(2))

    def ranks(part: Predictive, rows: slice) -> Array:
        draws = part.sample(n_draws, random_state=rng).reshape(len(part), n_draws, -1)
        points = np.concatenate([outputs[rows, None], draws], axis=1)
        numbers = _PRERANKS[order](points)
        below = np.sum(numbers < numbers[:, :1], axis=1)
        equal = np.sum(numbers == numbers[:, :1], axis=1)  # the output itself is one of them
        return (below + equal * places.random(len(part))) / (n_draws + 1)

    n_at_once = max(1, _NUMBERS // ((n_draws + 1) ** 2 * outputs.shape[1]))
    return by_chunks(dist, ranks, n_at_once)


def _below(points: Array) -> NDArray[np.bool_]:
    """Return whether point i is at most point j in each output, (Q, i, j, d)."""
    return points[:, :, None, :] <= points[:, None, :, :]


def _average(points: Array) -> Array:
    return _below(points).sum(axis=1).mean(axis=2)


def _band(points: Array) -> Array:
    ranks = _below(points).sum(axis=1)
    return ((ranks - 1) * (points.shape[1] - ranks)).mean(axis=2)


def _dominance(points: Array) -> Array:
    return _below(points).all(axis=3).sum(axis=1)


_PRERANKS = {"average": _average, "band": _band, "dominance": _dominance}
