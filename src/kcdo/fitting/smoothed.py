"""Smoothed rows whose parameters are chosen: varying noise and smoothers."""

from itertools import product

import numpy as np

from kcdo.arrays import Array, Integers
from kcdo.components import (
    EVERY,
    Bandwidths,
    Settings,
    SmoothedParameters,
    SmoothedRows,
    Smoother,
)
from kcdo.fitting.metric import Metric
from kcdo.fitting.problem import ChosenComponent, Problem, SoFar
from kcdo.rows import Rows, sampled

_SPREADS = tuple(
    Bandwidths(location, distance, EVERY)
    for location, distance in product((EVERY, 2.0, 1.0, 0.5), (EVERY, 1.5, 0.7))
    if (location, distance) != (EVERY, EVERY)
)
_SPREAD_GAIN = 2.0  # nats, of all judged rows, that varying noise must gain
_WIDTHS = {"residual": (0.12, 0.3), "output": (0.04, 0.12)}
_LEAST_SHARE = 0.02  # of a smoother that is kept: each costs time at every query


def located_rows(rows: Rows, metric: Metric, settings: Settings) -> SmoothedRows:
    """Fit the location, with noise that varies where held-out rows say so."""
    component = SmoothedRows.located(metric.regressors, rows, settings, metric.inflation)
    judged = rows.sampled(settings.effort.weighed_rows, settings.seed + 1)
    return component.with_spread(_choose_spread(component, judged))


def smoothed_rows(problem: Problem, so_far: SoFar) -> list[ChosenComponent]:
    """Choose varying noise and smoothers of rows in a learnt metric, by held-out rows."""
    wanted = problem.metrics and problem.spec.combination.wants("smoothed")
    if not wanted or not problem.in_time("smoothed rows"):
        return []
    with problem.spec.progress.stage("smoothed rows"):
        metric, settings = problem.metrics[0], problem.spec.settings
        component = choose_smoothers(located_rows(problem.rows, metric, settings), settings)
        return [ChosenComponent.of(smoothed_parameters(metric, component), component)]


def smoothed_parameters(metric: Metric, component: SmoothedRows) -> SmoothedParameters:
    """Return the parameters of a component that was made in a metric."""
    shares = np.zeros(0) if component.shares is None else component.shares
    return SmoothedParameters(
        metric.of_mean,
        metric.noise,
        component.smoothers,
        shares,
        component.spread,
        metric.inflation,
        metric.beside,
    )


def choose_smoothers(component: SmoothedRows, settings: Settings) -> SmoothedRows:
    """Choose the smoothers of rows that are located, by held-out rows."""
    table, effort = component.table, settings.effort
    judged = sampled(len(table), effort.weighed_rows, settings.seed + 1)
    smoothers = every_smoother()
    densities = component.smoother_densities(smoothers, judged)
    shares = mixing_shares(densities, table.weights[judged], effort.shares_steps)
    kept = np.flatnonzero(shares >= min(_LEAST_SHARE, shares.max()))
    shares = mixing_shares(densities[:, kept], table.weights[judged], effort.shares_steps)
    return component.with_smoothers([smoothers[i] for i in kept], shares)


def _choose_spread(component: SmoothedRows, judged: Integers) -> Bandwidths | None:
    squares = component.squares[judged]
    even = 0.5 * float(np.average(squares, weights=component.table.weights[judged]))
    losses = component.spread_losses(_SPREADS, judged)
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


def mixing_shares(table: Array, weights: Array, steps: int) -> Array:
    """Return the shares of a mixture (S,) that make densities (n, S) likeliest, by EM."""
    table = np.maximum(table, 1e-12)
    shares = np.full(table.shape[1], 1.0 / table.shape[1])
    row_shares = weights / weights.sum()
    for _ in range(steps):
        parts = table * shares
        shares = row_shares @ (parts / parts.sum(axis=1, keepdims=True))
    return shares
