"""Location and scale first: y = m(x) + s(x) r, so that the density of r varies slowly.

m is a kernel ridge regression whose scales and noise have the highest marginal likelihood. s is its
predictive sd, times a factor exp(g(x)/2) that follows noise varying with x: g is a regression of
the log squared held-out residuals. The residuals r are held out in closed form (docs/theory.md).
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.kernels import Kernel, lower_gram, weighted_median
from kcdo.linalg import CholeskyFactor
from kcdo.systems import Centres, Exact, ExactSystem, Groups, NystromRows, Queries

SPREAD_ROWS = 1000  # inputs that the predictive variance is computed from
NOISE_ROWS = 2000  # rows, or inputs, that the varying noise is regressed on
_LEAST_SQUARE = 1e-4  # a residual of 0 must not become log 0
_LEAST_SIGNAL = 1e-200
_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25)
_LARGEST_COUNTED = 5.0  # squares beyond do not count in the overall factor


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


@dataclass(frozen=True, eq=False)
class Regression:
    """x ↦ offset + k(x, centres) @ coefficients."""

    centres: Centres
    coefficients: Array
    offset: Array

    def __call__(self, queries: Queries) -> Array:
        """Return the regression at the queries, (Q, d)."""
        return self.offset + self.centres.section(queries) @ self.coefficients


@dataclass(frozen=True, eq=False)
class Spread:
    """x ↦ predictive variance s² (1 + η - |k(x, centres) W|²), WWᵀ = (K + η)⁻¹."""

    centres: Centres
    whitener: Array
    noise: float
    signal: Array  # (d,)

    def __call__(self, queries: Queries) -> Array:
        """Return the variance at the queries, (Q, d)."""
        projected = self.centres.section(queries) @ self.whitener
        return self.of_ratio(1.0 + self.noise - np.einsum("ij,ij->i", projected, projected))

    def of_ratio(self, ratio: Array) -> Array:
        """Return the variances (Q, d) that belong to variance ratios (Q,)."""
        return np.maximum(ratio, 1e-3 * self.noise + 1e-12)[:, None] * self.signal


@dataclass(frozen=True, eq=False)
class LocationScale:
    """The map x ↦ (m(x), s(x)), of which residuals r = (y - m)/s are taken."""

    location: Regression
    spread: Spread
    log_noise: Regression | None
    factor: Array  # (d,)
    floor: Array  # (d,): the least scale, for outputs that are discrete

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


def fit_location_scale(
    parameters: LocationParameters,
    system: ExactSystem | NystromRows,
    rows: tuple[NDArray, Array, Array],
    floor: Array,
    seed: int,
) -> tuple[LocationScale, Residuals]:
    """Fit location and scale to rows (X, Y, weights), at given parameters.

    ``system`` is the ridge system of the location on these rows, with ridge η of the parameters.
    """
    X, Y, weights = rows
    offset = np.average(Y, axis=0, weights=weights)
    centred = Y - offset
    location = Regression(system.bare(), system.coefficients(centred), offset)
    held_out = system.held_out(centred)
    errors = centred - held_out
    # var(y_i - ŷ_{-i}) = noise / (1 - leverage), so that noise = Σ e² kept / N
    kept = system.kept()
    noise_variance = np.average(errors**2 * kept[:, None], axis=0, weights=weights)
    signal = np.maximum(noise_variance / parameters.noise, _LEAST_SIGNAL)  # outputs may be equal
    spread, ratio = _spread(parameters, X, weights, signal, system.n_jobs, seed)
    variance = spread.of_ratio(ratio)
    squared = errors**2 / variance
    log_noise, log_factor = _varying_noise(parameters, X, weights, squared, system.n_jobs, seed)
    standard = squared / np.exp(log_factor)
    counted = np.average(_counted(standard, weights), axis=0, weights=weights)
    factor = np.sqrt(np.maximum(counted, _LEAST_SQUARE))
    model = LocationScale(location, spread, log_noise, factor, floor)
    scale = model.scale(variance, log_factor)
    return model, Residuals(errors / scale, Y - errors, scale)


def _spread(
    parameters: LocationParameters,
    X: NDArray,
    weights: Array,
    signal: Array,
    n_jobs: int | None,
    seed: int,
) -> tuple[Spread, Array]:
    """Return the predictive variance, and its held-out ratio at every row."""
    chosen = some_rows(X, SPREAD_ROWS, seed)
    groups = Groups.of(X[chosen], weights[chosen])
    matrix = lower_gram(parameters.kernel, groups.points, n_jobs=n_jobs)
    ridge = parameters.noise / groups.totals
    np.einsum("ii->i", matrix)[:] += ridge + 1e-10
    factor = CholeskyFactor(matrix)
    whitener = factor.inverse_factor()
    centres = Centres(parameters.kernel, groups.points, n_jobs)
    spread = Spread(centres, whitener, parameters.noise, signal)
    diagonal = np.einsum("ij,ij->i", whitener, whitener)[groups.member_of]
    share = groups.share / groups.weights if groups.are_counts else groups.share
    kept = (1.0 - share) + share * ridge[groups.member_of] * diagonal
    ratio = np.empty(len(X))
    ratio[chosen] = parameters.noise / np.maximum(kept, 1e-12)
    others = np.setdiff1d(np.arange(len(X)), chosen)
    if len(others):
        ratio[others] = spread(X[others])[:, 0] / signal[0]
    return spread, ratio


def _varying_noise(
    parameters: LocationParameters,
    X: NDArray,
    weights: Array,
    squared: Array,
    n_jobs: int | None,
    seed: int,
) -> tuple[Regression | None, Array]:
    """Return the regression of log squared residuals, and its held-out values at every row."""
    if parameters.noise_kernel is None:
        return None, np.zeros_like(squared)
    logs = log_squares(squared)
    chosen = some_rows(X, NOISE_ROWS, seed)
    groups = Groups.of(X[chosen], weights[chosen])
    offset = np.average(logs, axis=0, weights=weights)
    alpha = parameters.noise_of_noise / groups.weights.sum()
    system = ExactSystem(parameters.noise_kernel, groups, alpha, Exact(), n_jobs=n_jobs)
    centred = logs[chosen] - offset
    regression = Regression(system.bare(), system.coefficients(centred), offset)
    held_out = np.empty_like(squared)
    held_out[chosen] = offset + system.held_out(centred)
    others = np.setdiff1d(np.arange(len(X)), chosen)
    if len(others):
        held_out[others] = regression(X[others])
    believed = _believed_share(held_out, squared, weights, parameters.noise_scales + 1)
    shrunk = replace(
        regression, coefficients=believed * regression.coefficients, offset=believed * offset
    )
    return shrunk, believed * held_out


def _believed_share(log_noise: Array, squared: Array, weights: Array, n_parameters: int) -> Array:
    """Return the share c of each held-out log noise g that makes the residuals likeliest, (d,).

    -2 log likelihood / N = mean(c g) + log mean(r² e^{-cg}), with the factor of all variances at
    its best. Where the noise does not vary, g is but noise itself, whose scales were chosen to fit
    these rows: it must gain the two units for each that Akaike's criterion asks for.
    """
    price = 2.0 * n_parameters / weights.sum()
    counted = _counted(squared, weights)
    losses = []
    for share in _SHARES:
        squares = np.average(counted * np.exp(-share * log_noise), axis=0, weights=weights)
        mean = np.average(share * log_noise, axis=0, weights=weights)
        loss = mean + np.log(np.maximum(squares, _LEAST_SIGNAL))  # all may be 0
        losses.append(loss + price * (share > 0))
    return np.array(_SHARES)[np.argmin(losses, axis=0)]


def _counted(squared: Array, weights: Array) -> Array:
    """Return the squares with those of outliers cut: 0.455 is the median of r² for normal r."""
    medians = np.array([weighted_median(column, weights) for column in squared.T])
    return np.minimum(squared, _LARGEST_COUNTED**2 * medians / 0.455)


def log_squares(squared: Array) -> Array:
    """Return log r², finite for r = 0."""
    return np.log(squared + _LEAST_SQUARE)


def some_rows(X: NDArray, most: int, seed: int) -> NDArray[np.integer]:
    """Return all rows if they have at most so many distinct inputs, else so many at random."""
    if len(X) <= most or len(Groups.of(X).points) <= most:
        return np.arange(len(X))
    return np.sort(np.random.default_rng(seed).choice(len(X), most, replace=False))
