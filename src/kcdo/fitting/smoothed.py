"""Smoothed rows whose parameters are chosen: metric, noise, varying noise and smoothers."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.components import (
    EVERY,
    Bandwidths,
    Settings,
    SmoothedParameters,
    SmoothedRows,
    Smoother,
)
from kcdo.fitting.local import LocalChoice, LocalLearning
from kcdo.fitting.problem import ChosenComponent, Metric
from kcdo.fitting.search import BestSoFar
from kcdo.kernels import FeatureMap, FreeScales, Kernel, Matern
from kcdo.parallel import blas_limit, ordered_map
from kcdo.rows import Rows, sampled
from kcdo.systems import ExactRows, Groups

FAMILIES: tuple[Kernel, ...] = (
    Matern(smoothness=0.5),
    Matern(smoothness=1.5),
    Matern(smoothness=2.5),
)
_LARGEST_TARGET = 4.5  # of standardised outputs: outliers do not rule the metric
_MOST_SCORED = 24  # columns up to which ranks come beside the columns
_SPREADS = tuple(
    Bandwidths(location, distance, EVERY)
    for location, distance in product((EVERY, 2.0, 1.0, 0.5), (EVERY, 1.5, 0.7))
    if (location, distance) != (EVERY, EVERY)
)
_SPREAD_GAIN = 2.0  # nats, of all judged rows, that varying noise must gain
_WIDTHS = {"residual": (0.12, 0.3), "output": (0.04, 0.12)}
_LEAST_SHARE = 2e-3  # of a smoother that is kept
_EM_STEPS = 200
_GOOD_ENOUGH = 1e-4  # gain of a step, in nats per row, that is not worth another one
_SPLIT_ROWS = 120  # from here on some rows learn and others compare


def _targets(rows: Rows) -> tuple[Array, Array]:
    """Return outputs for a regression, outliers cut, of mean 0 and sd 1, and their sds before."""
    targets = np.clip(rows.Y, -_LARGEST_TARGET, _LARGEST_TARGET)
    scale = np.maximum(targets.std(axis=0), 1e-12)
    return (targets - targets.mean(axis=0)) / scale, scale


def choose_metric(
    rows: Rows,
    settings: Settings,
    template: Kernel | None = None,
    families: Sequence[Kernel] = FAMILIES,
    like: Metric | None = None,
) -> Metric:
    """Choose features, family, scales and noise by local learning; as of another metric, if given.

    Features and families are compared by rows that did not choose their scales; the best is then
    learnt on more rows, and all rows have the last word on noise and a common factor of the scales.
    """
    targets, _ = _targets(rows)
    kinds: tuple[bool | None, ...] = (False, True) if rows.X.shape[1] <= _MOST_SCORED else (False,)
    if template is not None:
        kinds, families = (None,), [template]
    elif like is not None:
        kinds, families = (like.scores,), [replace(like.kernel, scale=None)]  # type: ignore[type-var]
    inputs = {kind: _features(rows.X, kind) for kind in kinds}
    kind, first = _compared(inputs, targets, families, settings)
    effort, X = settings.effort, inputs[kind]
    more = LocalLearning.of(
        X, targets, effort.local_judged[1], effort.local_neighbours[1], settings
    )
    start = np.append(first.log_scales, np.log(first.noise))
    with blas_limit(1):
        choice = more.search(first.template, start, effort.local_steps[1:], _GOOD_ENOUGH)
    return _last_word(rows, X, targets, kind, choice, settings)


def _compared(
    inputs: dict[bool | None, Array],
    targets: Array,
    families: Sequence[Kernel],
    settings: Settings,
) -> tuple[bool | None, LocalChoice]:
    """Return the features and the family whose rough search foretells other rows best."""
    effort, n = settings.effort, len(targets)
    candidates = list(product(inputs, families))
    order = np.random.default_rng(settings.seed).permutation(n)
    count = min(effort.local_judged[0], n // 2) if n >= _SPLIT_ROWS else n
    learn, judge = order[:count], order[-count:]  # of few rows the same

    def rough(candidate: tuple[bool | None, Kernel]) -> tuple[float, bool | None, LocalChoice]:
        kind, family = candidate
        learning = LocalLearning(
            inputs[kind], targets, np.sort(learn), effort.local_neighbours[0], n_jobs=1
        )
        found = learning.search(family, learning.start(family), effort.local_steps[:1])
        other = replace(learning, rows=np.sort(judge))
        return other.loss(found), kind, found

    with blas_limit(1):
        found = list(ordered_map(rough, candidates, settings.n_jobs))
    _, kind, choice = min(found, key=lambda each: each[0])
    return kind, choice


def _features(X: NDArray, scores: bool | None) -> Array:
    return X if scores is None else FeatureMap.of(X, scores=scores)(X)


def _last_word(
    rows: Rows, X: Array, targets: Array, kind: bool | None, choice: LocalChoice, settings: Settings
) -> Metric:
    """Let all rows judge the noise and one common factor of the scales, in both directions."""
    scales = FreeScales(choice.template, X.shape[1])
    if len(rows) > settings.effort.exact_rows:
        return Metric(kind, choice.kernel(X.shape[1]), choice.noise)
    groups = Groups.of(X, rows.weights)
    best: BestSoFar[tuple[float, float]] = BestSoFar()

    def judge(factor: float, log_noise: float) -> float:
        kernel = scales.kernel(choice.log_scales + factor)
        system = ExactRows(kernel, groups, n_jobs=settings.n_jobs).factor(
            np.exp(log_noise) / rows.total
        )
        kept = system.one_minus_leverage()[:, None]
        errors = (targets - system.held_out(targets)) ** 2
        variance = np.average(errors * kept, axis=0, weights=rows.weights)
        leverage = np.average(np.log(kept[:, 0]), weights=rows.weights)
        loss = 0.5 * float(np.mean(np.log(variance)) - leverage)
        return best.offer(loss, (factor, log_noise))

    judge(0.0, np.log(choice.noise))
    steps = np.array([0.5, 1.0])
    rounds = 3 if len(rows) <= 1500 else 1
    for _ in range(rounds):
        for axis in (1, 0):
            for sign in (1.0, -1.0):
                before, here = best.loss, list(best.best())
                here[axis] += sign * steps[axis]
                if judge(*here) < before:
                    break
        steps = steps / 2.0
    factor, log_noise = best.best()
    kernel = scales.kernel(choice.log_scales + factor)
    return Metric(kind, kernel, float(np.exp(log_noise)))


def best_located(
    rows: Rows, metrics: Sequence[Metric], settings: Settings
) -> tuple[Metric, SmoothedRows]:
    """Fit the location at each metric, with noise that varies, and return the likeliest."""
    found = [(metric, _located(rows, metric, settings)) for metric in metrics]
    return min(found, key=lambda each: each[1].normal_loss())


def _located(rows: Rows, metric: Metric, settings: Settings) -> SmoothedRows:
    component = SmoothedRows.located(metric.scores, metric.kernel, metric.noise, rows, settings)
    judged = rows.sampled(settings.effort.weighed_rows, settings.seed + 1)
    return component.with_spread(_choose_spread(component, judged))


def choose_smoothed(rows: Rows, metrics: Sequence[Metric], settings: Settings) -> ChosenComponent:
    """Choose the metric, varying noise and smoothers of smoothed rows, by held-out rows."""
    metric, located = best_located(rows, metrics, settings)
    component = choose_smoothers(located, settings)
    parameters = smoothed_parameters(metric, component)
    return ChosenComponent(parameters, component, parameters, component, np.nan)


def smoothed_parameters(metric: Metric, component: SmoothedRows) -> SmoothedParameters:
    """Return the parameters of a component that was made at a metric."""
    shares = np.zeros(0) if component.shares is None else component.shares
    return SmoothedParameters(
        metric.scores, metric.kernel, metric.noise, component.smoothers, shares, component.spread
    )


def choose_smoothers(component: SmoothedRows, settings: Settings) -> SmoothedRows:
    """Choose the smoothers of rows that are located, by held-out rows."""
    table = component.table
    judged = sampled(len(table), settings.effort.weighed_rows, settings.seed + 1)
    smoothers = every_smoother()
    densities = component.smoother_densities(smoothers, judged)
    shares = mixing_shares(densities, table.weights[judged])
    kept = [i for i in range(len(smoothers)) if shares[i] >= _LEAST_SHARE]
    chosen = tuple(smoothers[i] for i in kept)
    return component.with_smoothers(chosen, shares[kept] / shares[kept].sum())


def _choose_spread(component: SmoothedRows, judged: NDArray[np.integer]) -> Bandwidths | None:
    squares = component.squares[judged]
    even = 0.5 * float(np.average(squares, weights=component.table.weights[judged]))
    losses = [component.spread_loss(bandwidths, judged) for bandwidths in _SPREADS]
    best = int(np.argmin(losses))
    return _SPREADS[best] if even - losses[best] > _SPREAD_GAIN / len(judged) else None


def every_bandwidth() -> list[Bandwidths]:
    """Return all bandwidths that held-out rows choose from."""
    by_distance = [
        Bandwidths(location, distance, scale)
        for distance in (0.3, 0.7)
        for location in (0.25, 0.7, EVERY)
        for scale in ((0.5, EVERY) if location != EVERY else (EVERY,))
    ]
    by_location = [
        Bandwidths(location, EVERY, scale) for location in (0.25, 0.7) for scale in (0.5, EVERY)
    ]
    return [*by_distance, *by_location, Bandwidths(EVERY, EVERY, EVERY)]


def every_smoother() -> list[Smoother]:
    """Return all smoothers that held-out rows choose from."""
    return [
        Smoother(bandwidths, about, width)  # type: ignore[arg-type]
        for about, widths in _WIDTHS.items()
        for width in widths
        for bandwidths in every_bandwidth()
    ]


def mixing_shares(table: Array, weights: Array, steps: int = _EM_STEPS) -> Array:
    """Return the shares of a mixture (S,) that make densities (n, S) likeliest, by EM."""
    table = np.maximum(table, 1e-12)
    shares = np.full(table.shape[1], 1.0 / table.shape[1])
    row_shares = weights / weights.sum()
    for _ in range(steps):
        parts = table * shares
        shares = row_shares @ (parts / parts.sum(axis=1, keepdims=True))
    return shares
