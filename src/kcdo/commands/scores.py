"""Scores of a model on rows with known targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from kcdo import metrics
from kcdo.arrays import Array, Integers
from kcdo.commands.models import Model
from kcdo.errors import InvalidInputError
from kcdo.frames import take_rows
from kcdo.metrics.in_turn import FEWEST_ROWS, held_out_in_turn, n_others
from kcdo.metrics.several import for_scores, rows_at_once
from kcdo.reports.accuracy import LEVELS
from kcdo.reports.foretold import Foretold
from kcdo.rows import Kin, sampled

_AT_ONCE = 500  # rows whose distributions fit into what is kept of them
_MOST_KEPT = 1000  # rows whose predictions a model keeps
_MOST_BY_DRAWS = 500  # rows of several outputs whose draws are made: they are most of the work


def scores(
    model: Model, X: Any, Y: Any, show: Callable[[float], None] | None = None
) -> dict[str, Any]:
    """Return the scores; those of single outputs by the name of the target.

    Of many rows whose outputs are a chain some at random have all scores but the log score, as
    these are by draws; ``rows_by_draws`` says how many. ``show`` is told how many rows are done.
    """
    dist = model.estimator.conditional(X)
    one, n = dist.n_outputs == 1, len(Y)
    by_draws = not one and dist[:1].fixed_draws() is not None
    # distributions of some rows are kept, and serve every score
    step = _AT_ONCE if one else rows_at_once(dist.n_outputs)
    judged = sampled(n, _MOST_BY_DRAWS if by_draws else n, seed=0)
    of_all = {} if len(judged) == n else {"log_score": metrics.log_score(dist, Y)}
    parts, unit = [], _columns(Y).std(axis=0)
    for start in range(0, len(judged), step):
        rows = judged[start : start + step]
        parts.append(_scores(model, dist[rows], take_rows(Y, rows), unit))
        if show is not None:
            show((start + len(rows)) * n // len(judged))
    if of_all:
        of_all |= {"rows": n, "rows_by_draws": len(judged)}
    return _joined(parts) | of_all | _calibrated(model, X, Y)


def foretold(model: Model, X: Any, Y: Any) -> Foretold:
    """Return how rows that were kept back from the fit are foretold, of many some at random."""
    rows = sampled(len(Y), _MOST_KEPT, seed=0)
    dist = model.estimator.conditional(take_rows(X, rows))
    return Foretold.of(model.estimator, [(rows, dist)], _columns(Y), in_turn=False)


def scores_in_turn(
    model: Model, X: Any, Y: Any, weights: Any, kin: Kin | None, show: Callable[[float], None]
) -> tuple[dict[str, Any], Foretold | None]:
    """Return scores of the training rows, by fits with the same parameters that have not seen them.

    Nothing for models of too few rows. ``show`` is told how many of the fits are done and scored.
    """
    if len(Y) < FEWEST_ROWS:
        return {}, None
    parts, unit = [], _columns(Y).std(axis=0)

    def scored() -> Iterator[tuple[Integers, Any]]:
        for rows, dist in held_out_in_turn(model.estimator, X, Y, _MOST_KEPT, weights, kin=kin):
            parts.append(_scores(model, dist, take_rows(Y, rows), unit))
            yield rows, dist
            show(len(parts))

    kept = Foretold.of(model.estimator, scored(), _columns(Y), in_turn=True)
    found = _joined(parts)
    apart = None if kin is None else "time" if kin.ordered else "groups"
    others = n_others(len(Y), _MOST_KEPT, kin)
    return found | {"in_turn": True, "others": others, "apart": apart}, kept


def _columns(Y: Any) -> Array:
    """Return outputs as numbers, (N, d)."""
    return np.asarray(Y, dtype=float).reshape(len(Y), -1)


def _joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the scores of the rows of all parts."""
    counts = [part["rows"] for part in parts]
    return _averaged(parts, counts) | {"rows": sum(counts)}


def _averaged(parts: list[Any], counts: list[int]) -> Any:
    """Return the mean of scores that are arranged alike, weighted by their numbers of rows."""
    if isinstance(parts[0], dict):
        return {name: _averaged([part[name] for part in parts], counts) for name in parts[0]}
    return np.average(parts, axis=0, weights=counts).tolist()


def _scores(model: Model, dist: Any, Y: Any, unit: Array) -> dict[str, Any]:
    if dist.n_outputs > 1:
        dist = for_scores(dist)
    singles = {model.targets[0]: (dist, Y)}
    if not model.flat:
        pairs = enumerate(zip(model.targets, _columns(Y).T, strict=True))
        singles = {t: (dist.marginal(i), column) for i, (t, column) in pairs}
    joint = metrics.joint_scores(dist, Y, unit=unit) if dist.n_outputs > 1 else {}
    return {
        "rows": len(Y),
        "log_score": metrics.log_score(dist, Y),
        **joint,
        "cde_loss": metrics.cde_loss(dist, Y),
        "crps": {name: metrics.crps(*pair) for name, pair in singles.items()},
        "coverage": {name: _coverage(*pair) for name, pair in singles.items()},
    }


def _coverage(dist: Any, y: Any) -> dict[str, float]:
    """Return the share of outputs inside central intervals, which their levels F(y) tell at once.

    >>> import kcdo
    >>> X, y = [[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0]
    >>> dist = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, y).conditional(X)
    >>> _coverage(dist, y)["0.9"] == kcdo.metrics.interval_coverage(dist, y, 0.9)
    True
    """
    away = np.abs(metrics.pit_values(dist, y) - 0.5)
    return {f"{level:g}": float(np.mean(away <= 0.5 * level)) for level in LEVELS}


def _calibrated(model: Model, X: Any, Y: Any) -> dict[str, Any]:
    """Return the shares of rows inside conformal intervals, of levels that there are rows for."""
    if model.calibrated is None:
        return {}
    prediction = model.calibrated.conditional(X)
    found: dict[str, dict[str, float]] = {name: {} for name in model.targets}
    for level in LEVELS:
        try:
            limits = prediction.interval(level).reshape(len(Y), 2, -1)
        except InvalidInputError:  # too few calibration rows for it
            continue
        values = _columns(Y)
        inside = (limits[:, 0] <= values) & (values <= limits[:, 1])
        for name, share in zip(model.targets, inside.mean(axis=0), strict=True):
            found[name][f"{level:g}"] = float(share)
    return {"conformal": found} if any(found.values()) else {}
