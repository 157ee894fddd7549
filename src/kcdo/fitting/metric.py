"""The metric of the inputs: scales and noise of a regression on features, and their search.

Few rows are all left out exactly, one after the other; of many rows some are, given their
neighbours among all rows (:mod:`kcdo.fitting.local`). Each column that counts has a price:
scales of many columns would fit the chance of few rows.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kcdo.arrays import Array, Integers
from kcdo.components import LocationParameters, Regressor, Settings, with_the_rest
from kcdo.fitting.local import LOG_NOISE_RANGE, LocalLoss, Neighbourhoods
from kcdo.fitting.objectives import RegressionLoss
from kcdo.fitting.search import GOOD_ENOUGH, BestSoFar, Bounds, Objective, minimise
from kcdo.kernels import (
    Average,
    FreeScales,
    Kernel,
    Radial,
    ScaledKernel,
    metric_coordinates,
    transformed,
    with_median_scales,
)
from kcdo.rows import sampled
from kcdo.systems import Groups

_COLUMN_PRICE = 2.0  # of log(1 + (middle / s)²) of each scale s, in nats for all judged rows
_SHARED_PRICE = 1.0  # of one scale for all columns
_FIRST_NOISE = 0.1
_SCALE_REACH = (-6.0, 7.0)  # of log scales, about where a column begins to count
_UNUSED = 16.0  # log scale of a column that does not count
_FIRST_SUBSAMPLE = 10  # its seed, beside those of judged rows


@dataclass(frozen=True)
class Metric:
    """A kernel of the features, and the noise ratio of a regression with it, or with an average.

    Its scales say which rows are near one another. ``inflation`` is how much larger squared errors
    of new rows are than the rows that chose the scales say.
    """

    template: Kernel
    kernel: Kernel
    noise: float
    loss: float  # in nats per row, with the price of the columns that count
    inflation: float = 1.0
    shared: bool = False  # whether all columns have one scale
    columns: Integers | None = None  # the features it sees; None: all
    raw: bool = False  # whether it sees inputs as they are, in units of their own
    average: Average | None = None  # what regresses better than the kernel alone
    beside: tuple[Regressor, ...] = ()  # regressions that are averaged with this one

    @property
    def of_mean(self) -> Kernel:
        """The kernel of the regression, whose noise this is."""
        return self.kernel if self.average is None else self.average

    @property
    def template_of_mean(self) -> Kernel:
        """The kernel of the regression with open scales."""
        if self.average is None:
            return self.template
        return transformed(
            self.average,
            lambda part: replace(part, scale=None) if isinstance(part, ScaledKernel) else None,
        )

    def with_mean(self, kernel: Kernel, noise: float) -> "Metric":
        """Return the metric with another kernel of the regression, and its noise."""
        if isinstance(kernel, Average) and not self.raw:
            return replace(self, average=kernel, noise=noise)
        return replace(self, kernel=kernel, noise=noise)

    @property
    def regressors(self) -> tuple[Regressor, ...]:
        """The regression with this kernel and noise, and those that are averaged with it."""
        return with_the_rest(self.of_mean, self.noise, self.beside)

    @property
    def location(self) -> LocationParameters:
        """A regression with this kernel and noise, which does not vary."""
        return LocationParameters(self.of_mean, self.noise, inflation=self.inflation)

    def theta(self, columns: int) -> Array:
        """Return log scales and log noise on so many columns: where a search begins."""
        log_scales = FreeScales(self.template, columns).log_scales_of(self.kernel)
        return np.append(log_scales, np.log(self.noise))

    def on(self, kept: Integers, n_features: int) -> "Metric":
        """Return the metric of rows that keep some features, among them all that the metric sees.

        A metric that sees all features stays as it is.
        """
        if self.columns is None:
            return self
        mean = _on(self.of_mean, self.template_of_mean, kept, n_features)
        alone = _on(self.kernel, self.template, kept, n_features)
        columns = np.searchsorted(kept, self.columns)
        return replace(self, kernel=alone, columns=columns).with_mean(mean, self.noise)

    def among(self, columns: Integers, n_features: int) -> "Metric":
        """Return the metric of rows of more features, of which these columns are those it knew."""
        log_scales = FreeScales(self.template, len(columns)).log_scales_of(self.kernel)
        kernel = _embedded(self.template, log_scales, columns, n_features)
        seen = columns if self.columns is None else columns[self.columns]
        return replace(self, kernel=kernel, columns=seen)


def _embedded(template: Kernel, log_scales: Array, columns: Integers, n_features: int) -> Kernel:
    """Return the kernel of all features, those of which it does not see do not count."""
    log_scales = log_scales.reshape(-1, len(columns))
    every = np.full((len(log_scales), n_features), _UNUSED)
    every[:, columns] = log_scales
    return FreeScales(template, n_features).kernel(every.ravel())


def by_distance(template: Kernel) -> bool:
    """Whether a family sees scaled distances alone: a radial kernel, or an average of such."""
    return isinstance(template, Radial) or (
        isinstance(template, Average) and template.radial is not None
    )


def _on(kernel: Kernel, template: Kernel, kept: Integers, n_features: int) -> Kernel:
    """Return a kernel of all features as one of those that are kept."""
    log_scales = FreeScales(template, n_features).log_scales_of(kernel).reshape(-1, n_features)
    return FreeScales(template, len(kept)).kernel(log_scales[:, kept].ravel())


@dataclass(frozen=True, eq=False)
class MetricSearch:
    """The search for scales and noise of one family on some columns of the features.

    Parameters
    ----------
    X, targets : (N, F), (N, T)
        Features, and standardised targets.
    weights : (N,)
        Of the rows.
    template : Kernel
        The family, with open scales.
    columns : (C,)
        The features that the family sees.
    settings : Settings
        Effort and threads.
    log_units : (C,) or None
        Log sds of the columns, where these are inputs as they are; features have sd 1.
    """

    X: Array
    targets: Array
    weights: Array
    template: Kernel
    columns: Integers
    settings: Settings
    log_units: Array | None

    @property
    def scales(self) -> FreeScales:
        """The open scales."""
        return FreeScales(self.template, len(self.columns))

    @cached_property
    def middle(self) -> Array:
        """Log scales at which a column begins to count: one for all, or medians."""
        if by_distance(self.template):
            of_features = np.full(len(self.scales), 0.5 * np.log(len(self.columns)) + 0.7)
            if self.log_units is None:
                return of_features
            return of_features + self.log_units[list(self.scales.columns)]
        filled = with_median_scales(self.template, self.inputs[:1000])
        return self.scales.log_scales_of(filled)

    @property
    def first(self) -> Array:
        """Where a search begins that knows nothing: log scales and log noise."""
        return np.append(self.middle, np.log(_FIRST_NOISE))

    @cached_property
    def inputs(self) -> Array:
        """The features that the family sees, of all rows."""
        return self.X[:, self.columns]

    @property
    def exact(self) -> bool:
        """Whether to leave out every row costs little."""
        return len(self.X) <= self.settings.effort.exact_judged

    @property
    def cross_fits(self) -> bool:
        """Whether rows are so few that folds must judge how many scales they bear."""
        effort = self.settings.effort
        most = max(effort.crossed_rows, effort.crossed_per_column * len(self.columns))
        return self.exact and len(self.X) <= most

    def take(self, rows: Integers) -> "MetricSearch":
        """Return the search on some rows."""
        return replace(self, X=self.X[rows], targets=self.targets[rows], weights=self.weights[rows])

    def some_rows(self) -> "MetricSearch":
        """Return the search on the rows on which families are compared."""
        rows = sampled(len(self.X), self.settings.effort.rough_rows, self.settings.seed)
        return self.take(rows)

    def rough(self) -> tuple[float, Array]:
        """Return loss and (log scales, log noise) of a few steps on some rows."""
        effort, some = self.settings.effort, self.some_rows() if self.exact else self
        _, start = some.shared(some.objective(self.first, 0), self.first)
        _, theta = some.free(some.objective(start, 0), start, effort.metric_steps[0])
        return sum(self.judged(self.objective(theta, 1), theta)), theta  # as all rows see it

    def learners(self, *, thorough: bool) -> list["MetricSearch"]:
        """Return the searches that refine the scales, each by itself; the best is taken.

        Few rows are all left out. Of many, some learn given their neighbours among all rows, and
        subsamples learn by themselves. Which is best depends on the data: neighbours know the
        density of all rows, a subsample knows distant rows. If not ``thorough``, one subsample
        learns.
        """
        if self.exact:
            return [self]
        if not thorough:
            return [self._subsample(0)]
        return [self, *map(self._subsample, range(self.settings.effort.subsamples))]

    def learnt(self, start: Array) -> Array:
        """Return log scales and log noise after more steps."""
        return self.free(self.objective(start, 1), start, self.settings.effort.metric_steps[1])[1]

    def best(self, found: Iterable[Array]) -> tuple[float, float, Array]:
        """Return score, loss and parameters of the best; of many rows fresh ones judge."""
        best: BestSoFar[tuple[float, float, Array]] = BestSoFar()
        for theta in found:
            loss, log_error = self.judged(self.objective(theta, 1, fresh=True), theta)
            best.offer(loss + log_error, (loss + log_error, loss, theta))
        return best.best()

    def judged_at_once(self, theta: Array) -> float:
        """Return loss and log error of rows that all others of them foretell, not near ones alone.

        Of many rows some: near rows do not see what varies slowly.
        """
        most = 2 * self.settings.effort.exact_judged
        some = self.take(sampled(len(self.X), most, self.settings.seed + 2))
        groups = Groups.of(some.inputs, some.weights)
        return sum(some.judged(RegressionLoss(some.scales, groups, some.targets), theta))

    def _subsample(self, number: int) -> "MetricSearch":
        """Return the search on as many rows as are all left out."""
        seed = self.settings.seed + _FIRST_SUBSAMPLE + number
        return self.take(sampled(len(self.X), self.settings.effort.exact_judged, seed))

    def objective(
        self, theta: Array, level: int, *, fresh: bool = False
    ) -> RegressionLoss | LocalLoss:
        """Return the loss of (log scales, log noise) without any price.

        Of many rows some are judged; ``fresh`` takes others than a search.
        """
        effort, n_jobs = self.settings.effort, self.settings.n_jobs
        if self.exact:
            groups = Groups.of(self.inputs, self.weights)
            return RegressionLoss(self.scales, groups, self.targets)
        seed = self.settings.seed + (2 if fresh else level)
        judged = sampled(len(self.X), effort.local_judged[level], seed)
        coordinates = metric_coordinates(self.scales.kernel(theta[:-1]), self.inputs)
        k = min(effort.local_neighbours[level], len(self.X) - 1)
        hoods = Neighbourhoods.of(coordinates, judged, k, n_jobs)
        return LocalLoss(self.scales, self.inputs, self.targets, hoods, n_jobs=n_jobs)

    def shared(self, objective: Objective, start: Array) -> tuple[float, Array]:
        """Return what a common factor of all scales and the noise reach."""

        def tied(pair: Array) -> tuple[float, Array]:
            value, slope = objective(np.append(start[:-1] + pair[0], pair[1]))
            return value, np.array([slope[:-1].sum(), slope[-1]])

        bounds = [_SCALE_REACH, LOG_NOISE_RANGE]
        steps = self.settings.effort.metric_steps[0]
        pair, value = minimise(tied, np.array([0.0, start[-1]]), bounds, steps, GOOD_ENOUGH)
        return value + self.shared_price, np.append(start[:-1] + pair[0], pair[1])

    @property
    def shared_price(self) -> float:
        """The price of one scale for all columns, in nats per row."""
        return _SHARED_PRICE / self._count

    def free(self, objective: Objective, start: Array, steps: int) -> tuple[float, Array]:
        """Return what scales of their own reach, each column at its price."""
        theta, value = minimise(self.priced(objective), start, self.bounds, steps, GOOD_ENOUGH)
        return value, theta

    def judged(self, objective: RegressionLoss | LocalLoss, theta: Array) -> tuple[float, float]:
        """Return the loss with the price of the columns, and the log mean absolute error.

        A metric can gain likelihood by what it says of its own errors: rows in a long tail of an
        input are far from all others, and get a wide variance. Smaller errors are what a metric
        is for, so that metrics are compared by the sum of the two.
        """
        loss, error = objective.judged(theta)
        return loss + self._price(theta)[0], float(np.log(max(error, 1e-12)))

    def priced(self, objective: Objective) -> Objective:
        """Return a loss with the price of each column that counts."""

        def loss(theta: Array) -> tuple[float, Array]:
            value, slope = objective(theta)
            price, price_slope = self._price(theta)
            return value + price, slope + price_slope

        return loss

    def _price(self, theta: Array) -> tuple[float, Array]:
        """Return the price of all columns and its slope: half-Cauchy about no effect.

        Long scales are free.
        """
        ratio = np.exp(2.0 * np.minimum(self.middle - theta[:-1], 300.0))
        price = _COLUMN_PRICE / self._count
        slope = np.append(-2.0 * price * ratio / (1.0 + ratio), 0.0)
        return price * float(np.sum(np.log1p(ratio))), slope

    @property
    def bounds(self) -> Bounds:
        """Bounds of log scales and log noise."""
        return [(m + _SCALE_REACH[0], m + _SCALE_REACH[1]) for m in self.middle] + [LOG_NOISE_RANGE]

    @property
    def _count(self) -> float:
        n = float(self.weights.sum())
        return n if self.exact else min(n, self.settings.effort.local_judged[1])

    def metric(self, loss: float, theta: Array) -> Metric:
        """Return the metric of all features that parameters stand for."""
        template, n_features, columns = self.template, self.X.shape[1], self.columns
        noise = float(np.exp(theta[-1]))
        if len(columns) == n_features:
            kernel = self.scales.kernel(theta[:-1])
            return Metric(template, kernel, noise, loss, raw=self.log_units is not None)
        return Metric(template, self.kernel(theta), noise, loss, columns=columns)

    def kernel(self, theta: Array) -> Kernel:
        """Return the kernel of all features, where those that it does not see do not count."""
        return _embedded(self.template, theta[:-1], self.columns, self.X.shape[1])
