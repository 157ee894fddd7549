"""Regressions that err in different ways are averaged, with shares that held-out rows choose.

Which family and which features foretell best is hardly known of few rows, and where every one is
right somewhere no choice is: the average of several, each predicting rows that it has not seen,
is better than the best of them (stacking: Wolpert 1992, Breiman 1996).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.special import gammaln

from kcdo.arrays import Array, Integers
from kcdo.components import Effort, Settings, averaged, foretold_among
from kcdo.fitting.metric import Metric
from kcdo.fitting.metric_choice import scaled_targets, search_from
from kcdo.fitting.search import GOOD_ENOUGH, BestSoFar, minimise
from kcdo.parallel import blas_limit, ordered_map
from kcdo.rows import Rows
from kcdo.systems import ExactRows, Groups, NearestSystem, System

_LEAST_SHARE = 0.05  # of what counts, of a regression that is kept: each costs time at every query
_CLEARLY_LESS = 0.98  # of held-out errors
_FURTHEST = 6.0  # of held-out predictions, in sds of the outputs: outliers do not rule the shares
_LEAST_ERROR = 1e-9  # of standardised outputs: they may be foretold exactly
_LOGITS = 10.0  # of shares at most: none vanishes in the sum of all
_FREEDOM = (1.0, 3.0, 12.0)  # degrees of freedom of errors, of which the likeliest is taken


@dataclass(frozen=True, eq=False)
class _Foretold:
    """Held-out predictions of some regressions, and how sure the first of them is."""

    values: Array  # (n, K)
    precision: Array  # (n, K), of regressions on near rows; of others they are 1
    targets: Array  # (n,)
    variance: Array  # (n,), up to a factor
    weights: Array  # (n,), of sum 1

    @classmethod
    def of(
        cls, values: Array, precision: Array, targets: Array, variance: Array, weights: Array
    ) -> "_Foretold":
        """Bound predictions, and take variances relative to one another."""
        bounded = np.clip(values, -_FURTHEST, _FURTHEST)
        unit = variance / variance.max()
        return cls(bounded, precision, targets[:, 0], unit, weights / weights.sum())

    def take(self, kept: Integers) -> "_Foretold":
        """Return those of some regressions."""
        return replace(self, values=self.values[:, kept], precision=self.precision[:, kept])

    def shares(self, steps: int) -> Array:
        """Return the shares of the best of several tails."""
        best: BestSoFar[Array] = BestSoFar()
        start = np.zeros(self.values.shape[1] + 1)
        size = np.abs(self._errors(_softmax(start[:-1]))).mean()
        start[-1] = np.log(max(size, _LEAST_ERROR))
        bounds = [(-_LOGITS, _LOGITS)] * (len(start) - 1) + [(np.log(_LEAST_ERROR), _LOGITS)]
        for freedom in _FREEDOM:
            theta, loss = minimise(partial(self.loss, freedom), start, bounds, steps, GOOD_ENOUGH)
            best.offer(loss, _softmax(theta[:-1]))
        return best.best()

    def loss(self, freedom: float, theta: Array) -> tuple[float, Array]:
        """Return log score of a Student t + log mean absolute error, and the slope.

        Of logits of the shares, and the log scale.
        """
        shares, scale = _softmax(theta[:-1]), np.exp(theta[-1])
        errors = self._errors(shares)
        ratio = errors / (freedom * scale**2 * self.variance)
        tails = 0.5 * (freedom + 1.0) * np.log1p(errors * ratio)
        size = max(float(self.weights @ np.abs(errors)), _LEAST_ERROR)
        value = self.weights @ tails + theta[-1] + _log_height(freedom) + np.log(size)
        e_slope = (freedom + 1.0) * ratio / (1.0 + errors * ratio)
        scale_slope = 1.0 - self.weights @ (errors * e_slope)
        e_slope = self.weights * (e_slope + np.sign(errors) / size)
        weights = self.counted(shares)
        means = (self.targets - errors)[:, None]
        slope = -(e_slope @ (weights * (self.values - means)))
        return float(value), np.append(slope, scale_slope)

    def counted(self, shares: Array) -> Array:
        """Return how much each regression counts at each row, (n, K), of sum 1."""
        weights = shares * self.precision
        found: Array = weights / weights.sum(axis=1, keepdims=True)
        return found

    def _errors(self, shares: Array) -> Array:
        return self.targets - averaged(shares, self.values, self.precision)


def stacked(metrics: list[Metric], rows: Rows, settings: Settings) -> list[Metric]:
    """Return two metrics, the first of which knows what its regression is averaged with.

    Of many rows another one comes first, where it is clearly better by rows near in its own metric;
    one of the first two is the second. Rows so few that folds judge scales do not tell shares, as
    they have chosen the scales: half stays with the first, and the other half is shared evenly.
    """
    if len(metrics) <= 2:
        return metrics
    if any(search_from(metric, rows, settings)[0].cross_fits for metric in metrics):
        shares = np.full(len(metrics), 0.5 / len(metrics))
        shares[0] += 0.5
        return _averaged_with(metrics, 0, shares)
    judged = rows.sampled(settings.effort.weighed_rows, settings.seed + 3)
    foretell = _by_near_rows if len(rows) > settings.effort.exact_rows else _by_each_other
    foretold, first = foretell(metrics, rows, judged, settings)
    shares = _shares(foretold, first, settings.effort)
    return _averaged_with(metrics, first, shares)


def _averaged_with(metrics: list[Metric], first: int, shares: Array) -> list[Metric]:
    """Return the first metric with the others that have a share beside it, and the second."""
    beside = tuple(
        replace(metric.regressors[0], share=float(share))
        for place, (metric, share) in enumerate(zip(metrics, shares, strict=True))
        if place != first and share > 0
    )
    return [replace(metrics[first], beside=beside), metrics[0 if first == 1 else 1]]


def _by_each_other(
    metrics: Sequence[Metric], rows: Rows, judged: Integers, settings: Settings
) -> tuple[_Foretold, int]:
    """Return what each metric foretells of judged rows by the others of them; the first stays."""
    some, targets = rows.take(judged), scaled_targets(rows)[judged]
    groups = Groups.of(some.X, some.weights)

    def system(metric: Metric) -> System:
        return ExactRows(metric.of_mean, groups, n_jobs=1).factor(metric.noise / some.total)

    with blas_limit(1):
        first = system(metrics[0])
        remaining = first.one_minus_leverage()
        others = ordered_map(
            lambda metric: system(metric).held_out(targets), metrics[1:], settings.n_jobs
        )
        values = np.hstack([first.held_out(targets, None, remaining), *others])
    # 1 / remaining - 1 = (1 - kᵀw) ω / η of a row of weight ω
    variance = metrics[0].noise * (1.0 + (1.0 / remaining - 1.0) / some.weights)
    return _Foretold.of(values, np.ones_like(values), targets, variance, some.weights), 0


def _by_near_rows(
    metrics: Sequence[Metric], rows: Rows, judged: Integers, settings: Settings
) -> tuple[_Foretold, int]:
    """Return what each metric foretells by the rows that are near in the first, and which that is.

    The rows near a query are looked for once for all regressions of an average.
    """
    some, targets = rows.take(judged), scaled_targets(rows)

    def near(metric: Metric) -> NearestSystem:  # made anew: what finds many rows is large
        return metric.regressors[0].near(rows.X, rows, settings.n_jobs)

    own = np.hstack([near(metric).held_out(targets, judged) for metric in metrics])
    errors = np.average(np.abs(targets[judged] - own), axis=0, weights=some.weights)
    best = int(np.argmin(errors))
    first = best if errors[best] < _CLEARLY_LESS * errors[0] else 0
    places = near(metrics[first]).rows.near_others(judged)
    found = [foretold_among(near(metric), some.X, places, targets) for metric in metrics]
    values = np.hstack([value for value, _ in found])
    variance = np.column_stack([variance for _, variance in found])
    sure = variance[:, first]
    return _Foretold.of(values, 1.0 / variance, targets[judged], sure, some.weights), first


def _shares(judged: _Foretold, first: int, effort: Effort) -> Array:
    """Return shares of the least loss; those that hardly count are 0, but for the first."""
    every = judged.shares(effort.shares_steps)
    counted = judged.weights @ judged.counted(every)
    counted[first] = np.inf
    most = np.argsort(-counted, kind="stable")[: effort.most_stacked]
    kept = most[counted[most] >= _LEAST_SHARE]
    shares = np.zeros(len(every))
    shares[kept] = judged.take(kept).shares(effort.shares_steps)
    return shares


def _softmax(logits: Array) -> Array:
    powers = np.exp(logits - logits.max())
    found: Array = powers / powers.sum()
    return found


def _log_height(freedom: float) -> float:
    """Return -log of the density of a Student t at its middle."""
    ends = gammaln(0.5 * freedom) - gammaln(0.5 * (freedom + 1.0))
    return float(ends + 0.5 * np.log(freedom * np.pi))
