"""All scores of several outputs at once, from one set of draws."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kcdo.arrays import Array
from kcdo.errors import MissingExtraError
from kcdo.metrics.joint import dawid_sebastiani_score, energy_score, variogram_score
from kcdo.metrics.predictive import Predictive, checked_outputs
from kcdo.metrics.ranks import multivariate_ranks

_DRAWS, _DRAWS_PER_OUTPUT = 64, 8  # of each row
_TENTHS, _RANK_DRAWS = 10, 19  # of 20 ranks, two in each tenth
_DRAWS_AT_ONCE = 3200  # times links: so few that their distributions are kept for all questions


def for_scores(dist: Any) -> Any:
    """Return distributions of several outputs as scores ask them: many questions, of few draws.

    What a chain draws is kept, and serves every marginal.
    """
    few = dist.with_draws(_draws_of_each(dist.n_outputs))
    few.mean()
    return few


def rows_at_once(d: int) -> int:
    """Return how many rows of d outputs are scored together.

    >>> [rows_at_once(d) for d in (2, 3, 8, 16)]
    [50, 25, 7, 1]
    """
    return max(1, _DRAWS_AT_ONCE // (_draws_of_each(d) * max(1, d - 1)))


def quantiles(dist: Any, levels: ArrayLike) -> Array:
    """Return quantiles (levels, Q, d) of every output; of a chain those of its draws.

    Marginals of a chain would be asked for as many predictions again.
    """
    wanted = np.asarray(levels, dtype=float)
    by_draws = dist.n_outputs > 1 and hasattr(dist, "fixed_draws")
    draws = dist.fixed_draws() if by_draws else None
    if draws is not None:  # Hazen's: others, of few draws, are too near the middle
        return np.asarray(np.quantile(draws, wanted, axis=1, method="hazen"))
    found = dist.quantile(wanted)
    return np.asarray(found.reshape(len(dist), len(wanted), -1).transpose(1, 0, 2))


def _draws_of_each(d: int) -> int:
    return max(_DRAWS, _DRAWS_PER_OUTPUT * d)


def joint_scores(
    dist: Predictive, Y: Any, *, random_state: int = 0, unit: ArrayLike | None = None
) -> dict[str, Any]:
    """Return the scores of several outputs at once, in units of the spread of each.

    Scores are of the same draws, 64 of each query or 8 times the outputs, as those of a chain of
    outputs are most of the work; a chain gives those it answers by. Ranks are among 19
    draws of their own.

    Parameters
    ----------
    dist, Y
        As in :func:`~kcdo.metrics.log_score`, for several outputs.
    random_state : int
        Seed of the draws.
    unit : array of shape (d,), optional
        What outputs are measured in, instead of the spread of these: that of more rows, of which
        these are some.

    Returns
    -------
    dict
        ``rank_histogram``: the share of :func:`multivariate_ranks` in each tenth, 0.1 if
        calibrated; ``energy_score``, ``variogram_score``, ``dawid_sebastiani_score``, which need
        the package scoringrules (``kcdo[metrics]``) and are missing without it.

    Examples
    --------
    >>> import kcdo
    >>> X, Y = kcdo.make_donut(4, random_state=0)
    >>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    >>> found = kcdo.metrics.joint_scores(model.conditional(X[:10]), Y[:10])
    >>> len(found["rank_histogram"])
    10
    """
    outputs = checked_outputs(dist, Y)
    spread = outputs.std(axis=0) if unit is None else np.asarray(unit, dtype=float)
    unit = np.where(spread > 0, spread, 1.0)
    draws = _draws_of(dist, outputs.shape[1], random_state)
    drawn: Any = _Draws(draws / unit)
    n = draws.shape[1]
    # draws that a chain answers by are alike for all rows, and so would be the errors of ranks
    independent = dist.sample(_RANK_DRAWS, random_state=random_state)
    ranked: Any = _Draws(independent.reshape(len(outputs), _RANK_DRAWS, -1) / unit)
    outputs = outputs / unit
    ranks = multivariate_ranks(ranked, outputs, n_draws=_RANK_DRAWS)
    shares = np.histogram(ranks, _TENTHS, (0, 1))[0] / len(ranks)
    found: dict[str, Any] = {"rank_histogram": shares.tolist()}
    try:
        found["energy_score"] = energy_score(drawn, outputs, n_draws=n)
        found["variogram_score"] = variogram_score(drawn, outputs, n_draws=n)
        found["dawid_sebastiani_score"] = dawid_sebastiani_score(drawn, outputs, n_draws=n)
    except MissingExtraError:
        pass
    return found


def _draws_of(dist: Any, d: int, random_state: int) -> Array:
    """Return draws of every query, (Q, n, d): those that a chain has anyway, if they are enough."""
    n = _draws_of_each(d)
    fixed = dist.fixed_draws() if hasattr(dist, "fixed_draws") else None
    if fixed is not None and fixed.shape[1] >= n // 2:  # orders of unlike weights give fewer
        return fixed
    return dist.sample(n, random_state=random_state).reshape(len(dist), n, -1)


@dataclass(frozen=True)
class _Draws:
    """Draws (Q, n, d) in place of the distributions they are of."""

    values: Array
    flat = False

    @property
    def n_outputs(self) -> int:
        """Number of outputs d."""
        return self.values.shape[2]

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: Any) -> "_Draws":
        return _Draws(self.values[index])

    def sample(self, n: int, random_state: Any = None) -> Array:
        """Return the first n of the draws."""
        return self.values[:, :n]
