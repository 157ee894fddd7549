"""Which features, kernel families and scales make the metric of a fit.

All families are searched roughly, of many rows further, the best of them thoroughly. Where rows are
few, folds that learn scales anew judge whether columns have scales of their own, and how much wider
predictions must be than the rows that chose them say.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array, Integers
from kcdo.components import LARGEST_SQUARE, Effort, Settings
from kcdo.fitting.families import families
from kcdo.fitting.metric import Metric, MetricSearch, by_distance
from kcdo.fitting.objectives import normal_loss
from kcdo.fitting.search import BestSoFar
from kcdo.kernels import FeatureMap, FreeScales, Gaussian, Kernel, Matern
from kcdo.parallel import blas_limit, ordered_map
from kcdo.progress import SILENT, Progress
from kcdo.rows import Rows
from kcdo.systems import ExactRows, Groups

# Of features, rough to smooth; a kernel of the user may become any of fitting/families.py.
_FAMILIES: tuple[Kernel, ...] = (
    Matern(smoothness=0.5),
    Matern(smoothness=1.5),
    Gaussian(),
)
LARGEST_TARGET = 4.5  # of standardised outputs: outliers do not rule the metric
_CLEARLY_BEHIND = 0.02  # nats per row by which one scale for all columns is not worth a search
_MOST_INFLATION = 9.0
_CLEARLY_BETTER = 0.05  # nats per row and log error: of features that were behind at first

Trial = tuple[float, Array, MetricSearch]  # loss, log scales and log noise, of a family


def feature_map(X: NDArray, kernel: Kernel, effort: Effort) -> FeatureMap:
    """Return inputs with ranks of their columns beside them, for a user's kernel inputs alone."""
    if not kernel.family_open:
        return FeatureMap(())
    return FeatureMap.of(X, scores=X.shape[1] <= effort.most_ranked)


def choose_metrics(
    rows: Rows,
    settings: Settings,
    kernel: Kernel,
    features: FeatureMap,
    progress: Progress = SILENT,
) -> list[Metric]:
    """Choose family, scales and noise of rows of features: the best two metrics, and all others.

    Families are compared on some rows. The best of those that see ranks and the best of the others
    are learnt on all rows, or the best two: components of a mixture that err in different ways.
    After the deadline of the progress they stay as some rows found them. So do the others:
    regressions may be averaged with theirs, unless rows are so few that columns share one scale.
    """
    views = features.views() if kernel.family_open else []
    views = views or [np.arange(rows.X.shape[1])]
    n_usual = len({len(view) for view in views})
    usual, drawn_out = views[:n_usual], views[n_usual:]
    raw, templates = not kernel.family_open, _FAMILIES if kernel.family_open else families(kernel)
    with blas_limit(1), progress.stage("families"):
        rough = _rough_searches(rows, settings, list(product(usual, templates)), raw, progress)
        if drawn_out:  # heavy tails as they are, for the best families
            best = {len(each.columns): each.template for *_, each in reversed(rough)}
            pairs = [(view, best[len(view)]) for view in drawn_out]
            rough += _rough_searches(rows, settings, pairs, raw)
            rough.sort(key=lambda each: each[0])
    if not progress.deadline.allows("the refined metric"):
        return [search.metric(loss, theta) for loss, theta, search in _best_two(rough)]
    with blas_limit(1), progress.stage("metric"):
        if not rough[0][2].exact:
            rough = _learnt_further(rough, settings)
        two = _best_two(rough)
        found = _settled_each([each[1:] for each in two], settings)
    found.sort(key=lambda metric: metric.loss)
    if found[0].shared:
        return found
    others = [each for each in rough if all(each is not one for one in two)]
    return found + [search.metric(loss, theta) for loss, theta, search in others]


def _best_two(found: list[Trial]) -> list[Trial]:
    """Return the best trial, and the best that sees ranks if it does not, or the reverse."""
    others = [each for each in found[1:] if len(each[2].columns) != len(found[0][2].columns)]
    return [found[0], *(others or found[1:])[:1]]


def _learnt_further(found: list[Trial], settings: Settings) -> list[Trial]:
    """Learn the scales of all trials further; fresh rows judge.

    Of many rows, which family is best after few steps given few near rows says little about which
    is in the end. Features other than those of the best two must be clearly better: they are
    columns with long tails as they are instead of drawn in, or the reverse.
    """
    ahead = {tuple(search.columns) for _, _, search in _best_two(found)}

    def further(each: Trial) -> Trial:
        _, start, search = each
        score, _, theta = search.best([start, search.learnt(start)])
        behind = tuple(search.columns) not in ahead
        return score + _CLEARLY_BETTER * behind, theta, search

    return sorted(ordered_map(further, found, settings.n_jobs), key=lambda each: each[0])


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
        return _settled(search, found if search.exact else [start, *found])

    return list(ordered_map(settled, range(len(chosen)), settings.n_jobs))


def _rough_searches(
    rows: Rows,
    settings: Settings,
    pairs: Sequence[tuple[Integers, Kernel]],
    raw: bool,
    progress: Progress = SILENT,
) -> list[Trial]:
    """Return loss, parameters and search of features with families, the best first."""
    searches = [_search(rows, settings, template, columns, raw) for columns, template in pairs]
    found = []
    for each in ordered_map(lambda each: (*each.rough(), each), searches, settings.n_jobs):
        found.append(each)
        progress.update(len(found), len(searches))
    return sorted(found, key=lambda each: each[0])


def used_features(metrics: list[Metric], n_features: int) -> Integers:
    """Return places of the features that any of the metrics sees."""
    if any(metric.columns is None for metric in metrics):
        return np.arange(n_features)
    return np.unique(np.concatenate([metric.columns for metric in metrics]))


def same_metric(metric: Metric, rows: Rows, settings: Settings) -> Metric:
    """Learn scales and noise again for other outputs, with family and features of a metric."""
    search, start = search_from(metric, rows, settings)
    with blas_limit(1):
        if metric.shared:
            found = search.metric(*search.shared(search.objective(start, 1), start))
        else:
            learnt = [each.learnt(start) for each in search.learners(thorough=False)]
            _, loss, theta = search.best(learnt if search.exact else [start, *learnt])
            found = search.metric(loss, theta)
    return replace(found, inflation=metric.inflation, shared=metric.shared)


def roughly_same(metric: Metric, rows: Rows, settings: Settings) -> Metric:
    """Learn scales and noise again for other outputs, by a few steps on some rows."""
    search, start = search_from(metric, rows, settings)
    some = search.some_rows() if search.exact else search
    with blas_limit(1):
        _, theta = some.free(some.objective(start, 0), start, settings.effort.metric_steps[0])
    return search.metric(metric.loss, theta)


def search_from(metric: Metric, rows: Rows, settings: Settings) -> tuple[MetricSearch, Array]:
    """Return the search of a metric's family on its features, and its scales and noise there."""
    n_features = rows.X.shape[1]
    columns: Integers = np.arange(n_features)
    start = metric.theta(n_features)
    if metric.columns is not None:
        columns, start = metric.columns, start[np.append(metric.columns, n_features)]
    return _search(rows, settings, metric.template, columns, metric.raw), start


def _search(
    rows: Rows, settings: Settings, template: Kernel, columns: Integers, raw: bool
) -> MetricSearch:
    log_units = None
    if raw and by_distance(template):
        sds = rows.X[:, columns].std(axis=0)
        log_units = np.log(np.where(sds > 0, sds, 1.0))
    return MetricSearch(
        rows.X, scaled_targets(rows), rows.weights, template, columns, settings, log_units
    )


def scaled_targets(rows: Rows) -> Array:
    """Return outputs for a regression, outliers cut, of mean 0 and sd 1."""
    targets = np.clip(rows.Y, -LARGEST_TARGET, LARGEST_TARGET)
    return (targets - targets.mean(axis=0)) / np.maximum(targets.std(axis=0), 1e-12)


def _settled(search: MetricSearch, found: list[Array]) -> Metric:
    """Take the best of what was found; where rows are few, folds judge if scales are shared."""
    score, loss, free = search.best(found)
    if not search.exact:
        return search.metric(score, free)
    if not search.cross_fits:
        shared_loss, shared = _shared_if_likely(search, loss)
        if not shared_loss < loss:
            return search.metric(score, free)
        log_error = search.judged(search.objective(shared, 1), shared)[1]
        return replace(search.metric(shared_loss + log_error, shared), shared=True)
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
    effort, rows = search.settings.effort, Rows(search.X, search.targets, search.weights)
    squares, logs = np.empty((2, 2, *search.targets.shape))
    for train, test in rows.folds(effort.crossed_folds, search.settings.seed):
        some = search.take(train)
        objective = some.objective(search.first, 1)
        _, shared = some.shared(objective, search.first)
        _, free = some.free(objective, shared, effort.metric_steps[1])
        for place, theta in enumerate((free, shared)):
            squares[place, test], logs[place, test] = _standard_errors(some, theta, search, test)
    return [_folded_score(*each) for each in zip(squares, logs, strict=True)]


def _folded_score(squares: Array, logs: Array) -> tuple[float, float]:
    """Return log score + log error, and the inflation, of standardised errors of folds."""
    counted = np.minimum(squares, LARGEST_SQUARE)
    inflation = float(np.clip(counted.mean(), 1.0, _MOST_INFLATION))
    score = 0.5 * (logs + np.log(inflation) + squares / inflation).mean()
    error = np.sqrt(squares * np.exp(logs)).mean()
    return float(score + np.log(max(error, 1e-12))), inflation


def score_of_others(
    some: MetricSearch, theta: Array, search: MetricSearch, others: Integers
) -> float:
    """Return log score + log error of other rows of a search, as some of its rows foretell them."""
    return _folded_score(*_standard_errors(some, theta, search, others))[0]


def _standard_errors(
    some: MetricSearch, theta: Array, search: MetricSearch, test: Integers
) -> tuple[Array, Array]:
    """Return squared errors of other rows over their predictive variance, and log variances."""
    kernel, noise = some.scales.kernel(theta[:-1]), float(np.exp(theta[-1]))
    system = ExactRows(kernel, Groups.of(some.inputs, some.weights), n_jobs=1).factor(
        noise / some.weights.sum()
    )
    squares = (some.targets - system.held_out(some.targets)) ** 2
    squares *= system.one_minus_leverage()[:, None]
    signal = np.average(squares, axis=0, weights=some.weights) / noise
    weights = system.weights(search.inputs[test])  # (n, N)
    own = kernel(search.inputs[test], some.inputs)
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
    targets = scaled_targets(rows)
    scales = FreeScales(metric.template_of_mean, rows.X.shape[1])
    log_scales = scales.log_scales_of(metric.of_mean)
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
    return metric.with_mean(scales.kernel(log_scales + factor), float(np.exp(log_noise)))
