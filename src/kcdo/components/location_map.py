"""The map of location and scale, x ↦ (m(x), s(x)), and how it is fitted.

m is a kernel ridge regression whose scales and noise have the highest marginal likelihood. s is its
predictive sd, times a factor exp(g(x)/2) that follows noise varying with x: g is a regression of
the log squared held-out residuals. The residuals are held out in closed form (docs/theory.md).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array, Integers
from kcdo.components.settings import Settings
from kcdo.consistency import need, shape
from kcdo.kernels import Kernel, lower_gram, weighted_median
from kcdo.linalg import CholeskyFactor
from kcdo.parallel import ordered_map
from kcdo.rows import Rows, sampled
from kcdo.systems import Centres, ExactRows, Groups, Queries, RegressionSystem, one_minus_leverage

LARGEST_RESIDUAL = 7.0
_LEAST_SQUARE = 1e-4  # a residual of 0 must not become log 0
LEAST_SIGNAL = 1e-290
_QUERIES_AT_A_TIME = 8192
LARGEST_SQUARE = 25.0  # of standardised residuals: outliers do not widen the others
_MEDIAN_SQUARE = 0.455  # of a standard normal


@dataclass(frozen=True)
class LocationParameters:
    """Kernels and noise ratios of the regressions of location and of log scale.

    A ``noise_kernel`` of None means noise that does not vary with x.
    """

    kernel: Kernel
    noise: float
    noise_kernel: Kernel | None = None
    noise_of_noise: float = 1.0
    noise_scales: int = 0  # scales of the noise kernel that were chosen
    inflation: float = 1.0  # how much larger squared errors of new rows are
    near: bool = False  # whether each location is regressed on the rows near it

    def __post_init__(self) -> None:
        for noise in (self.noise, self.noise_of_noise, self.inflation):
            need(0 < noise < np.inf, "noise that is not positive")


def _in_blocks(function: Callable[[Queries], Array], queries: Queries, n_jobs: int | None) -> Array:
    """Return what a function says of queries, thousands at a time: a section of all is large."""
    if not isinstance(queries, np.ndarray) or len(queries) <= _QUERIES_AT_A_TIME:
        return function(queries)
    starts = range(0, len(queries), _QUERIES_AT_A_TIME)
    parts = [queries[start : start + _QUERIES_AT_A_TIME] for start in starts]
    return np.concatenate(list(ordered_map(function, parts, n_jobs)))


@dataclass(frozen=True, eq=False)
class Regression:
    """x ↦ offset + k(x, centres) @ coefficients."""

    centres: Centres
    coefficients: Array
    offset: Array

    def __post_init__(self) -> None:
        shape(self.offset, None)
        shape(self.coefficients, self.centres.n_centres, len(self.offset))

    def __call__(self, queries: Queries) -> Array:
        """Return the regression at the queries, (Q, d)."""
        return _in_blocks(
            lambda some: self.offset + self.centres.section(some) @ self.coefficients,
            queries,
            self.centres.n_jobs,
        )


@dataclass(frozen=True, eq=False)
class Spread:
    """x ↦ predictive variance s² (1 + η - |k(x, centres) W|²), WWᵀ = (K + diag(ridge))⁻¹."""

    centres: Centres
    ridge: Array  # η over the weight of each centre
    noise: float  # η
    signal: Array  # (d,)

    def __post_init__(self) -> None:
        shape(self.ridge, self.centres.n_centres)
        shape(self.signal, None)
        need(self.ridge.min() > 0 and 0 < self.noise < np.inf, "noise that is not positive")
        need(len(self.signal) and self.signal.min() >= 0, "variances that are negative")

    @cached_property
    def whitener(self) -> Array:
        """W, (n, n)."""
        matrix = lower_gram(self.centres.kernel, self.centres.centres, n_jobs=self.centres.n_jobs)
        np.einsum("ii->i", matrix)[:] += self.ridge + 1e-10
        return CholeskyFactor(matrix).inverse_factor()

    def __call__(self, queries: Queries) -> Array:
        """Return the variance at the queries, (Q, d)."""
        whitener = self.whitener

        def of_some(some: Queries) -> Array:
            projected = self.centres.section(some) @ whitener
            return self.of_ratio(1.0 + self.noise - np.einsum("ij,ij->i", projected, projected))

        return _in_blocks(of_some, queries, self.centres.n_jobs)

    def of_ratio(self, ratio: Array) -> Array:
        """Return the variances (Q, d) that belong to variance ratios (Q,)."""
        return np.maximum(ratio, 1e-3 * self.noise + 1e-12)[:, None] * self.signal


@dataclass(frozen=True, eq=False)
class LocationScaleMap:
    """The map x ↦ (m(x), s(x)), of which residuals r = (y - m)/s are taken."""

    location: Regression
    spread: Spread
    log_noise: Regression | None
    factor: Array  # (d,)
    floor: Array  # (d,): the least scale, for outputs that are discrete

    def __post_init__(self) -> None:
        d = len(self.location.offset)
        shape(self.spread.signal, d)
        for least in (self.factor, self.floor):
            shape(least, d)
            need(least.min() >= 0, "scales that are negative")
        need((self.factor + self.floor).min() > 0, "scales that are not positive")
        parts: list[Regression | Spread] = [self.location, self.spread]
        if self.log_noise is not None:
            shape(self.log_noise.offset, d)
            parts.append(self.log_noise)
        need(len({part.centres.n_inputs for part in parts}) == 1, "inputs of location and scale")

    def __call__(self, queries: Queries) -> tuple[Array, Array]:
        """Return location and scale at the queries, (Q, d) each."""
        log_noise = None if self.log_noise is None else self.log_noise(queries)
        return self.location(queries), self.scale(self.spread(queries), log_noise)

    def scale(self, variance: Array, log_noise: Array | None) -> Array:
        """Return s from predictive variance and log noise factor."""
        varying = 1.0 if log_noise is None else np.exp(log_noise)
        return np.sqrt(variance * varying * self.factor**2 + self.floor**2)


@dataclass(frozen=True, eq=False)
class Residuals:
    """Held-out residuals of training rows, with the location and scale they were taken by."""

    values: Array
    location: Array
    scale: Array

    @property
    def clipped(self) -> Array:
        """The residuals, outliers drawn in."""
        return np.clip(self.values, -LARGEST_RESIDUAL, LARGEST_RESIDUAL)


def fit_map(
    parameters: LocationParameters,
    system: RegressionSystem,
    rows: Rows,
    floor: Array,
    settings: Settings,
) -> tuple[LocationScaleMap, Residuals]:
    """Fit location and scale to rows at given parameters.

    ``system`` is the ridge system of the location on these rows, with ridge η of the parameters.
    """
    offset = np.average(rows.Y, axis=0, weights=rows.weights)
    centred = rows.Y - offset
    location = Regression(system.without_factor(), system.coefficients(centred), offset)
    errors = centred - system.held_out(centred)
    # var(y_i - ŷ_{-i}) = noise / (1 - leverage), so that noise = Σ e² (1 - leverage) / N
    shrunk = errors**2 * system.one_minus_leverage()[:, None]
    noise_variance = np.average(shrunk, axis=0, weights=rows.weights)
    signal = np.maximum(noise_variance / parameters.noise, LEAST_SIGNAL)  # outputs may be equal
    spread, ratio = _spread(parameters, rows, signal, settings)
    variance = spread.of_ratio(ratio)
    squared = errors**2 / variance
    log_noise, log_factor = _varying_noise(parameters, rows, squared, settings)
    standard = squared / np.exp(log_factor)
    counted = np.average(without_outliers(standard, rows.weights), axis=0, weights=rows.weights)
    factor = np.sqrt(np.maximum(counted, _LEAST_SQUARE))
    model = LocationScaleMap(location, spread, log_noise, factor, floor)
    scale = model.scale(variance, log_factor)
    model = replace(model, factor=factor * np.sqrt(parameters.inflation))  # of new rows
    return model, Residuals(errors / scale, rows.Y - errors, scale)


def _spread(
    parameters: LocationParameters, rows: Rows, signal: Array, settings: Settings
) -> tuple[Spread, Array]:
    """Return the predictive variance, and its held-out ratio at every row."""
    chosen = distinct_sample(rows.X, settings.effort.spread_rows, settings.seed)
    groups = Groups.of(rows.X[chosen], rows.weights[chosen])
    ridge = parameters.noise / groups.totals
    centres = Centres(parameters.kernel, groups.points, settings.n_jobs)
    spread = Spread(centres, ridge, parameters.noise, signal)
    # predictions need the whitener anyway, which has the diagonal of the inverse at no cost
    diagonal = np.einsum("ij,ij->i", spread.whitener, spread.whitener)
    remaining = one_minus_leverage(groups, ridge, diagonal[groups.member_of])
    ratio = np.empty(len(rows))
    ratio[chosen] = parameters.noise / np.maximum(remaining, 1e-12)
    others = np.setdiff1d(np.arange(len(rows)), chosen)
    if len(others):
        ratio[others] = spread(rows.X[others])[:, 0] / signal[0]
    return spread, ratio


def _varying_noise(
    parameters: LocationParameters, rows: Rows, squared: Array, settings: Settings
) -> tuple[Regression | None, Array]:
    """Return the regression of log squared residuals, and its held-out values at every row."""
    if parameters.noise_kernel is None:
        return None, np.zeros_like(squared)
    logs = log_squares(squared)
    chosen = distinct_sample(rows.X, settings.effort.noise_rows, settings.seed)
    groups = Groups.of(rows.X[chosen], rows.weights[chosen])
    offset = np.average(logs, axis=0, weights=rows.weights)
    alpha = parameters.noise_of_noise / groups.weights.sum()
    system = ExactRows(parameters.noise_kernel, groups, n_jobs=settings.n_jobs).factor(alpha)
    centred = logs[chosen] - offset
    regression = Regression(system.without_factor(), system.coefficients(centred), offset)
    held_out = np.empty_like(squared)
    held_out[chosen] = offset + system.held_out(centred)
    others = np.setdiff1d(np.arange(len(rows)), chosen)
    if len(others):
        held_out[others] = regression(rows.X[others])
    n_parameters, shares = parameters.noise_scales + 1, settings.effort.believed_shares
    believed = _believed_share(held_out, squared, rows.weights, n_parameters, shares)
    shrunk = replace(
        regression, coefficients=believed * regression.coefficients, offset=believed * offset
    )
    return shrunk, believed * held_out


def _believed_share(
    log_noise: Array,
    squared: Array,
    weights: Array,
    n_parameters: int,
    shares: tuple[float, ...],
) -> Array:
    """Return the share c of each held-out log noise g that makes the residuals likeliest, (d,).

    -2 log likelihood / N = mean(c g) + log mean(r² e^{-cg}), with the factor of all variances at
    its best. Where the noise does not vary, g is but noise itself, whose scales were chosen to fit
    these rows: it must gain the two units for each that Akaike's criterion asks for.
    """
    price = 2.0 * n_parameters / weights.sum()
    counted = without_outliers(squared, weights)
    losses = []
    for share in shares:
        squares = np.average(counted * np.exp(-share * log_noise), axis=0, weights=weights)
        mean = np.average(share * log_noise, axis=0, weights=weights)
        loss = mean + np.log(np.maximum(squares, LEAST_SIGNAL))  # all may be 0
        losses.append(loss + price * (share > 0))
    return np.array(shares)[np.argmin(losses, axis=0)]


def without_outliers(squared: Array, weights: Array) -> Array:
    """Return squared residuals (N, d) with those cut that are far beyond what medians tell."""
    medians = np.array([weighted_median(column, weights) for column in squared.T])
    return np.minimum(squared, LARGEST_SQUARE * medians / _MEDIAN_SQUARE)


def log_squares(squared: Array) -> Array:
    """Return log r², finite for r = 0."""
    return np.log(squared + _LEAST_SQUARE)


def distinct_sample(X: NDArray, most: int, seed: int) -> Integers:
    """Return all rows if they have at most so many distinct inputs, else so many at random."""
    if len(X) <= most or len(Groups.of(X).points) <= most:
        return np.arange(len(X))
    return sampled(len(X), most, seed)
