"""Regressions that err in different ways are averaged, with shares that held-out rows choose.

Which family and which features foretell best is hardly known of few rows, and where every one is
right somewhere no choice is: the average of several, each predicting rows that it has not seen,
is better than the best of them (stacking: Wolpert 1992, Breiman 1996).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import nnls

from kcdo.arrays import Array, Integers
from kcdo.components import Effort, Settings
from kcdo.fitting.metric import Metric
from kcdo.fitting.metric_choice import scaled_targets
from kcdo.parallel import blas_limit, ordered_map
from kcdo.rows import Rows
from kcdo.systems import ExactRows, Groups

_LEAST_SHARE = 0.05  # of a regression that is kept: each costs time at every query
_CLEARLY_LESS = 0.98  # of held-out errors
_FURTHEST = 6.0  # of held-out predictions, in sds of the outputs: outliers do not rule the shares
_SUM = 1e3  # weight of the equation that shares sum to 1


def stacked(metrics: list[Metric], rows: Rows, settings: Settings) -> list[Metric]:
    """Return two metrics, the first of which knows what its regression is averaged with.

    Of many rows another one comes first, where it is clearly better by rows near in its own metric;
    one of the first two is the second. Of so few rows that folds judge scales there are two, and
    both stay as they are.
    """
    if len(metrics) <= 2:
        return metrics
    targets = scaled_targets(rows)
    judged = rows.sampled(settings.effort.weighed_rows, settings.seed + 3)
    foretell = _by_near_rows if len(rows) > settings.effort.exact_rows else _by_each_other
    foretold, first = foretell(metrics, rows, judged, targets, settings)
    shares = _shares(foretold, targets[judged, 0], rows.weights[judged], first, settings.effort)
    beside = tuple(
        replace(metric.regressors[0], share=float(share))
        for place, (metric, share) in enumerate(zip(metrics, shares, strict=True))
        if place != first and share > 0
    )
    return [replace(metrics[first], beside=beside), metrics[0 if first == 1 else 1]]


def _by_each_other(
    metrics: Sequence[Metric], rows: Rows, judged: Integers, targets: Array, settings: Settings
) -> tuple[Array, int]:
    """Return what each metric foretells of judged rows by the others of them; the first stays."""
    groups = Groups.of(rows.X[judged], rows.weights[judged])

    def held_out(metric: Metric) -> Array:
        system = ExactRows(metric.of_mean, groups, n_jobs=1).factor(
            metric.noise / groups.weights.sum()
        )
        return system.held_out(targets[judged])[:, 0]

    with blas_limit(1):
        return np.column_stack(list(ordered_map(held_out, metrics, settings.n_jobs))), 0


def _by_near_rows(
    metrics: Sequence[Metric], rows: Rows, judged: Integers, targets: Array, settings: Settings
) -> tuple[Array, int]:
    """Return what each metric foretells by the rows that are near in the first, and which that is.

    The rows near a query are looked for once for all regressions of an average.
    """
    near = [each.regressors[0].near(rows.X, rows, settings.n_jobs) for each in metrics]
    own = np.column_stack([system.held_out(targets, judged)[:, 0] for system in near])
    errors = np.average(np.abs(targets[judged] - own), axis=0, weights=rows.weights[judged])
    best = int(np.argmin(errors))
    first = best if errors[best] < _CLEARLY_LESS * errors[0] else 0
    places = near[first].rows.near_others(judged)
    X = rows.X[judged]
    foretold = [(system.weights_among(X, places) @ targets)[:, 0] for system in near]
    return np.column_stack(foretold), first


def _shares(foretold: Array, targets: Array, weights: Array, first: int, effort: Effort) -> Array:
    """Return shares of sum 1 and least squared error; only the first may have a small one."""
    roots = np.sqrt(weights)
    foretold = np.clip(foretold, -_FURTHEST, _FURTHEST)
    kept = np.arange(foretold.shape[1])
    for _ in range(2):
        equations = np.vstack([foretold[:, kept] * roots[:, None], np.full(len(kept), _SUM)])
        found, _ = nnls(equations, np.append(targets * roots, _SUM))
        shares = np.zeros(foretold.shape[1])
        shares[kept] = found / found.sum()
        most = np.argsort(-shares, kind="stable")[: effort.most_stacked]
        kept = np.union1d([first], most[shares[most] >= _LEAST_SHARE])
    if shares[first] <= 0:  # it says which rows are near, and has a regression of its own
        shares[first] = _LEAST_SHARE
        shares /= shares.sum()
    return shares
