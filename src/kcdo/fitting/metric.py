"""The metric of the inputs: kernel family, scales and noise of a regression on features.

Few rows are all left out exactly, one after the other; of many rows some are, given their
neighbours among all rows (:mod:`kcdo.fitting.local`). Each column that counts has a price:
scales of many columns would fit the chance of few rows. Where rows are few, folds that learn scales
anew judge whether columns have scales of their own, and how much wider predictions must be than the
rows that chose them say.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.components import LocationParameters, Settings
from kcdo.fitting.families import families
from kcdo.fitting.local import LOG_NOISE_RANGE, LocalLoss, Neighbourhoods
from kcdo.fitting.objectives import RegressionLoss, normal_loss
from kcdo.fitting.search import BestSoFar, Bounds, Objective, minimise
from kcdo.kernels import (
    FeatureMap,
    FreeScales,
    Gaussian,
    Kernel,
    Matern,
    Radial,
    metric_coordinates,
    with_median_scales,
)
from kcdo.parallel import blas_limit, ordered_map
from kcdo.progress import Deadline
from kcdo.rows import Rows, fold_numbers, sampled
from kcdo.systems import ExactRows, Groups

# Of features, rough to smooth; a kernel of the user may become any of fitting/families.py.
_FAMILIES: tuple[Kernel, ...] = (
    Matern(smoothness=0.5),
    Matern(smoothness=1.5),
    Gaussian(),
)
_LARGEST_TARGET = 4.5  # of standardised outputs: outliers do not rule the metric
_MOST_SCORED = 24  # columns up to which ranks come beside the columns
_GOOD_ENOUGH = 1e-4  # gain of a step, in nats per row, that is not worth another one
_COLUMN_PRICE = 2.0  # of log(1 + (middle / s)²) of each scale s, in nats for all judged rows
_SHARED_PRICE = 1.0  # of one scale for all columns
_CLEARLY_BEHIND = 0.02  # nats per row by which one scale for all columns is not worth a search
_FIRST_NOISE = 0.1
_SCALE_REACH = (-6.0, 7.0)  # of log scales, about where a column begins to count
_UNUSED = 16.0  # log scale of a column that does not count
_FOLDS = 5
_SUBSAMPLES = 2  # of many rows, that learn a metric by themselves
_FIRST_SUBSAMPLE = 10  # its seed, beside those of judged rows
_LARGEST_SQUARE = 25.0  # of a standardised error that folds count
_MOST_INFLATION = 9.0


@dataclass(frozen=True)
class Metric:
    """A kernel of the features, and the noise ratio of a regression with it.

    Its scales say which rows are near one another. ``inflation`` is how much larger squared errors
    of new rows are than the rows that chose the scales say.
    """

    template: Kernel
    kernel: Kernel
    noise: float
    loss: float  # in nats per row, with the price of the columns that count
    inflation: float = 1.0
    shared: bool = False  # whether all columns have one scale
    columns: NDArray[np.integer] | None = None  # the features it sees; None: all

    @property
    def location(self) -> LocationParameters:
        """A regression with this kernel and noise, which does not vary."""
        return LocationParameters(self.kernel, self.noise, inflation=self.inflation)

    def theta(self, columns: int) -> Array:
        """Return log scales and log noise on so many columns: where a search begins."""
        log_scales = FreeScales(self.template, columns).log_scales_of(self.kernel)
        return np.append(log_scales, np.log(self.noise))

    def on(self, kept: NDArray[np.integer], n_features: int) -> "Metric":
        """Return the metric of rows that keep some of the features, all those it sees among them.

        A metric that sees all features stays as it is.
        """
        if self.columns is None:
            return self
        log_scales = FreeScales(self.template, n_features).log_scales_of(self.kernel)[kept]
        kernel = FreeScales(self.template, len(kept)).kernel(log_scales)
        return replace(self, kernel=kernel, columns=np.searchsorted(kept, self.columns))


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
    """

    X: Array
    targets: Array
    weights: Array
    template: Kernel
    columns: NDArray[np.integer]
    settings: Settings

    @property
    def scales(self) -> FreeScales:
        """The open scales."""
        return FreeScales(self.template, len(self.columns))

    @cached_property
    def middle(self) -> Array:
        """Log scales at which a column begins to count: one for all, or medians."""
        if isinstance(self.template, Radial):
            return np.full(len(self.scales), 0.5 * np.log(len(self.columns)) + 0.7)
        filled = with_median_scales(self.template, self._inputs[:1000])
        return self.scales.log_scales_of(filled)

    @property
    def first(self) -> Array:
        """Where a search begins that knows nothing: log scales and log noise."""
        return np.append(self.middle, np.log(_FIRST_NOISE))

    @cached_property
    def _inputs(self) -> Array:
        return self.X[:, self.columns]

    @property
    def exact(self) -> bool:
        """Whether to leave out every row costs little."""
        return len(self.X) <= self.settings.effort.exact_judged

    def take(self, rows: NDArray[np.integer]) -> "MetricSearch":
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

    def learners(self, *, thorough: bool = True) -> list["MetricSearch"]:
        """Return the searches that refine the scales, each by itself; the best is taken.

        Few rows are all left out. Of many, some learn given their neighbours among all rows, and
        two subsamples learn by themselves. Which is best depends on the data: neighbours know the
        density of all rows, a subsample knows distant rows. If not ``thorough``, one subsample
        learns.
        """
        if self.exact:
            return [self]
        return (
            [self, *map(self._subsample, range(_SUBSAMPLES))] if thorough else [self._subsample(0)]
        )

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
            groups = Groups.of(self._inputs, self.weights)
            return RegressionLoss(self.scales, groups, self.targets)
        seed = self.settings.seed + (2 if fresh else level)
        judged = sampled(len(self.X), effort.local_judged[level], seed)
        coordinates = metric_coordinates(self.scales.kernel(theta[:-1]), self._inputs)
        k = min(effort.local_neighbours[level], len(self.X) - 1)
        hoods = Neighbourhoods.of(coordinates, judged, k, n_jobs)
        return LocalLoss(self.scales, self._inputs, self.targets, hoods, n_jobs=n_jobs)

    def shared(self, objective: Objective, start: Array) -> tuple[float, Array]:
        """Return what a common factor of all scales and the noise reach."""

        def tied(pair: Array) -> tuple[float, Array]:
            value, slope = objective(np.append(start[:-1] + pair[0], pair[1]))
            return value, np.array([slope[:-1].sum(), slope[-1]])

        bounds = [_SCALE_REACH, LOG_NOISE_RANGE]
        steps = self.settings.effort.metric_steps[0]
        pair, value = minimise(tied, np.array([0.0, start[-1]]), bounds, steps, _GOOD_ENOUGH)
        return value + self.shared_price, np.append(start[:-1] + pair[0], pair[1])

    @property
    def shared_price(self) -> float:
        """The price of one scale for all columns, in nats per row."""
        return _SHARED_PRICE / self._count

    def free(self, objective: Objective, start: Array, steps: int) -> tuple[float, Array]:
        """Return what scales of their own reach, each column at its price."""
        theta, value = minimise(self.priced(objective), start, self.bounds, steps, _GOOD_ENOUGH)
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
            return Metric(template, self.scales.kernel(theta[:-1]), noise, loss)
        log_scales = np.full(n_features, _UNUSED)
        log_scales[columns] = theta[:-1]
        kernel = FreeScales(template, n_features).kernel(log_scales)
        return Metric(template, kernel, noise, loss, columns=columns)


def feature_map(X: NDArray, kernel: Kernel) -> FeatureMap:
    """Return the features of inputs: their ranks beside them; a user's kernel sees them as such."""
    if not kernel.family_open:
        return FeatureMap(())
    return FeatureMap.of(X, scores=X.shape[1] <= _MOST_SCORED)


def choose_metrics(
    rows: Rows,
    settings: Settings,
    kernel: Kernel,
    features: FeatureMap,
    deadline: Deadline | None = None,
) -> list[Metric]:
    """Choose family, scales and noise of rows of features: two metrics, the better one first.

    Families are compared on some rows. The best of those that see ranks and the best of the others
    are learnt on all rows, or the best two: components of a mixture that err in different ways.
    After the deadline they stay as some rows found them.
    """
    views = features.views() if kernel.family_open else []
    views = views or [np.arange(rows.X.shape[1])]
    n_usual = len({len(view) for view in views})
    usual, drawn_out = views[:n_usual], views[n_usual:]
    templates = _FAMILIES if kernel.family_open else families(kernel)
    with blas_limit(1):
        rough = _rough_searches(rows, settings, product(usual, templates))
        if drawn_out:  # heavy tails as they are, for the best families
            best = {len(each.columns): each.template for *_, each in reversed(rough)}
            pairs = [(view, best[len(view)]) for view in drawn_out]
            rough = sorted(rough + _rough_searches(rows, settings, pairs), key=lambda each: each[0])
        others = [each for each in rough[1:] if len(each[2].columns) != len(rough[0][2].columns)]
        chosen = [rough[0], *(others or rough[1:])[:1]]
        if deadline is not None and not deadline.allows("the refined metric"):
            return [search.metric(loss, theta) for loss, theta, search in chosen]
        found = _settled_each([each[1:] for each in chosen], settings)
    return sorted(found, key=lambda metric: metric.loss)


def _settled_each(chosen: list[tuple[Array, MetricSearch]], settings: Settings) -> list[Metric]:
    """Refine starts of searches, the first of them thoroughly, all learners side by side."""
    tasks = [
        (place, start, learner)
        for place, (start, search) in enumerate(chosen)
        for learner in search.learners(thorough=place == 0)
    ]
    thetas = list(ordered_map(lambda task: task[2].learnt(task[1]), tasks, settings.n_jobs))

    def settled(place: int) -> Metric:
        start, search = chosen[place]
        found = [theta for theta, task in zip(thetas, tasks, strict=True) if task[0] == place]
        return _settled(search, found if search.exact or place == 0 else [start, *found])

    return list(ordered_map(settled, range(len(chosen)), settings.n_jobs))


def _rough_searches(
    rows: Rows, settings: Settings, pairs: Iterable[tuple[NDArray[np.integer], Kernel]]
) -> list[tuple[float, Array, MetricSearch]]:
    """Return loss, parameters and search of features with families, the best first."""
    searches = [_search(rows, settings, template, columns) for columns, template in pairs]
    found = ordered_map(lambda each: (*each.rough(), each), searches, settings.n_jobs)
    return sorted(found, key=lambda each: each[0])


def used_features(metrics: list[Metric], n_features: int) -> NDArray[np.integer]:
    """Return places of the features that any of the metrics sees."""
    if any(metric.columns is None for metric in metrics):
        return np.arange(n_features)
    return np.unique(np.concatenate([metric.columns for metric in metrics]))


def same_metric(metric: Metric, rows: Rows, settings: Settings) -> Metric:
    """Learn scales and noise again for other outputs, with family and features of a metric."""
    n_features = rows.X.shape[1]
    columns: NDArray[np.integer] = np.arange(n_features)
    start = metric.theta(n_features)
    if metric.columns is not None:
        columns, start = metric.columns, start[np.append(metric.columns, n_features)]
    search = _search(rows, settings, metric.template, columns)
    with blas_limit(1):
        if metric.shared:
            found = search.metric(*search.shared(search.objective(start, 1), start))
        else:
            learnt = [each.learnt(start) for each in search.learners(thorough=False)]
            _, loss, theta = search.best(learnt if search.exact else [start, *learnt])
            found = search.metric(loss, theta)
    return replace(found, inflation=metric.inflation, shared=metric.shared)


def _search(
    rows: Rows, settings: Settings, template: Kernel, columns: NDArray[np.integer]
) -> MetricSearch:
    return MetricSearch(rows.X, _targets(rows), rows.weights, template, columns, settings)


def _targets(rows: Rows) -> Array:
    """Return outputs for a regression, outliers cut, of mean 0 and sd 1."""
    targets = np.clip(rows.Y, -_LARGEST_TARGET, _LARGEST_TARGET)
    return (targets - targets.mean(axis=0)) / np.maximum(targets.std(axis=0), 1e-12)


def _settled(search: MetricSearch, found: list[Array]) -> Metric:
    """Take the best of what was found; where rows are few, folds judge if scales are shared."""
    effort, n = search.settings.effort, len(search.X)
    score, loss, free = search.best(found)
    if not search.exact:
        return search.metric(score, free)
    if n > max(effort.crossed_rows, effort.crossed_per_column * len(search.columns)):
        shared_loss, shared = _shared_if_likely(search, loss)
        if shared_loss >= loss:
            return search.metric(score, free)
        return replace(search.metric(search.best([shared])[0], shared), shared=True)
    _, shared = search.shared(search.objective(search.first, 1), search.first)
    scores = _cross_fitted(search)
    tied = scores[1][0] < scores[0][0]
    (score, inflation), theta = (scores[1], shared) if tied else (scores[0], free)
    return replace(search.metric(score, theta), inflation=inflation, shared=tied)


def _shared_if_likely(search: MetricSearch, free_loss: float) -> tuple[float, Array]:
    """Return one scale for all columns, learnt on some rows; on all, where it is not far behind."""
    some = search.some_rows()
    _, theta = some.shared(some.objective(search.first, 1), search.first)
    objective = search.objective(theta, 1)
    loss = objective.judged(theta)[0] + search.shared_price
    if loss > free_loss + _CLEARLY_BEHIND:
        return loss, theta
    return search.shared(objective, theta)


def _cross_fitted(search: MetricSearch) -> list[tuple[float, float]]:
    """Return score and inflation of folds whose scales the other rows chose: free, then shared."""
    n = len(search.X)
    fold_of = fold_numbers(n, min(_FOLDS, n), search.settings.seed)
    squares, logs = np.empty((2, 2, *search.targets.shape))
    for fold in range(min(_FOLDS, n)):
        train, test = np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)
        some = search.take(train)
        objective = some.objective(search.first, 1)
        _, shared = some.shared(objective, search.first)
        _, free = some.free(objective, shared, search.settings.effort.metric_steps[1])
        for place, theta in enumerate((free, shared)):
            squares[place, test], logs[place, test] = _standard_errors(some, theta, search, test)
    return [_folded_score(*each) for each in zip(squares, logs, strict=True)]


def _folded_score(squares: Array, logs: Array) -> tuple[float, float]:
    """Return log score + log error, and the inflation, of standardised errors of folds."""
    counted = np.minimum(squares, _LARGEST_SQUARE)
    inflation = float(np.clip(counted.mean(), 1.0, _MOST_INFLATION))
    score = 0.5 * (logs + np.log(inflation) + squares / inflation).mean()
    error = np.sqrt(squares * np.exp(logs)).mean()
    return float(score + np.log(max(error, 1e-12))), inflation


def _standard_errors(
    some: MetricSearch, theta: Array, search: MetricSearch, test: NDArray[np.integer]
) -> tuple[Array, Array]:
    """Return squared errors of other rows over their predictive variance, and log variances."""
    kernel, noise = some.scales.kernel(theta[:-1]), float(np.exp(theta[-1]))
    system = ExactRows(kernel, Groups.of(some._inputs, some.weights), n_jobs=1).factor(
        noise / some.weights.sum()
    )
    held_out, kept = system.held_out(some.targets), system.one_minus_leverage()[:, None]
    signal = np.average((some.targets - held_out) ** 2 * kept, axis=0, weights=some.weights) / noise
    weights = system.weights(search._inputs[test])  # (n, N)
    own = kernel(search._inputs[test], some._inputs)
    ratio = np.maximum(1.0 + noise - np.einsum("ij,ij->i", weights, own), 1e-12)
    variance = np.maximum(ratio[:, None] * signal, 1e-12)
    errors = search.targets[test] - weights @ some.targets
    return errors**2 / variance, np.log(variance)


def last_word(metric: Metric, rows: Rows, settings: Settings) -> Metric:
    """Let all rows judge the noise and one common factor of the scales, in both directions.

    Where every row was left out they have judged already.
    """
    effort = settings.effort
    if not effort.exact_judged < len(rows) <= effort.exact_rows:
        return metric
    targets = _targets(rows)
    scales = FreeScales(metric.template, rows.X.shape[1])
    log_scales = scales.log_scales_of(metric.kernel)
    groups = Groups.of(rows.X, rows.weights)
    judged = rows.sampled(effort.exact_judged, settings.seed + 1)
    best: BestSoFar[tuple[float, float]] = BestSoFar()

    def judge(factor: float, log_noise: float) -> float:
        kernel = scales.kernel(log_scales + factor)
        system = ExactRows(kernel, groups, n_jobs=settings.n_jobs).factor(
            np.exp(log_noise) / rows.total
        )
        return best.offer(normal_loss(system, targets, judged), (factor, log_noise))

    judge(0.0, np.log(metric.noise))
    for axis, step in ((1, 1.0), (0, 0.5), (1, 0.5)):
        for sign in (1.0, -1.0):
            before, here = best.loss, list(best.best())
            here[axis] += sign * step
            if judge(*here) < before:
                break
    factor, log_noise = best.best()
    kernel = scales.kernel(log_scales + factor)
    return replace(metric, kernel=kernel, noise=float(np.exp(log_noise)))
