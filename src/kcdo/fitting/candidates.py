"""The metric that near rows of a few judged rows teach, found among all rows of a stream.

Local learning (:mod:`kcdo.fitting.local`) then sees the density of all rows, at a cost that does
not grow with them. Candidates are collected in the metric of the pilot sample, and once more in
ones in which a single column counts for more: a column that acts as a label looks like noise to
a sample. They are ranked again as scales move, and found again in the metric that was learnt.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array, Integers
from kcdo.components import Settings
from kcdo.fitting.local import LocalLoss, Neighbourhoods
from kcdo.fitting.metric import Metric, MetricSearch
from kcdo.fitting.metric_choice import LARGEST_TARGET
from kcdo.fitting.near_rows import NearRowJudges, Neighbourhood
from kcdo.fitting.pilot import Pilot
from kcdo.fitting.search import GOOD_ENOUGH, BestSoFar, minimise
from kcdo.kernels import (
    FreeScales,
    Kernel,
    after_warps,
    has_metric,
    metric_coordinates,
    weighted_mean_sd,
    with_median_scales,
    without_warps,
)
from kcdo.parallel import blas_limit, ordered_map

_SHORTER = 4.0  # of log scales: about 1/50
_APART, _ALIKE = 1.0, 0.05  # in scales: rows that differ much, and rows that hardly do
_WORTH = 0.01  # nats per row, with the log error, that other scales must gain
_TIED = 0.05  # losses of families between which near rows do not decide


def first_judges(metric: Metric, pilot: Pilot, settings: Settings) -> NearRowJudges | None:
    """Return judges in the pilot's metric and in ones that take columns for labels, one each.

    None where the kernel has no metric, or rows come back as a rule: neighbours would be twins.
    """
    effort = settings.effort
    if not has_metric(metric.kernel, pilot.X) or pilot.repeats(effort.streamed.pilot_rows):
        return None
    scales = FreeScales(metric.template, pilot.X.shape[1])
    start = metric.theta(pilot.X.shape[1])
    some = pilot.rows(effort.streamed.looked_at).X
    middle = scales.log_scales_of(with_median_scales(metric.template, some))
    starts = _starts(start, middle, effort.streamed.most_labels)
    kernels = [_filled(metric.template, theta, scales.p) for theta in starts]
    return NearRowJudges.of(
        tuple(kernels), pilot, 2 * effort.local_judged[0], 3 * effort.local_neighbours[0]
    )


def last_judges(metric: Metric, pilot: Pilot, settings: Settings) -> NearRowJudges:
    """Return judges in the metric that was learnt; as many learn as judge."""
    effort = settings.effort
    count = max(2 * effort.local_neighbours[1], 65)  # those of near rows as a component too
    return NearRowJudges.of((metric.kernel,), pilot, 2 * effort.local_judged[1], count)


def first_metric(metric: Metric, near: Neighbourhood, pilot: Pilot, settings: Settings) -> Metric:
    """Return the metric of the pilot, or one with shorter scales if candidates gain by them."""
    search = _StreamedSearch.of(metric, near, pilot, settings, level=0)
    if search is None:
        return metric
    with blas_limit(1):
        starts = _starts(search.start(metric), search.middle, settings.effort.streamed.most_labels)
        found = list(ordered_map(search.taught, starts, settings.n_jobs))
    least, short = found[0][0] - _WORTH, starts[0][:-1] - 1.0
    gained = {
        place: (loss, theta)
        for place, (loss, theta) in enumerate(found[1:])
        if loss < least and theta[place] < short[place]  # near rows do not tell long scales apart
    }
    if not gained:
        return metric
    best = min(gained.values(), key=lambda each: each[0])
    if len(gained) > 1:
        both = best[1].copy()
        for place, (_, theta) in gained.items():
            both[place] = theta[place]
        best = min(best, search.taught(both), key=lambda each: each[0])
    return search.as_metric(metric, *best)


def last_metrics(
    metric: Metric,
    near: Neighbourhood,
    pilot: Pilot,
    settings: Settings,
    families: list[Kernel],
) -> list[Metric]:
    """Return scales and noise of those families that foretell judged rows from near ones best.

    All whose losses are about the least, the metric itself perhaps among them.
    """
    start, found = metric.theta(pilot.X.shape[1]), []
    for template in families:
        rival = Metric(template, _filled(template, start, pilot.X.shape[1]), metric.noise, np.nan)
        if not has_metric(rival.kernel, pilot.X):
            continue
        search = _StreamedSearch.of(rival, near, pilot, settings, level=1)
        if search is None:
            return [metric]
        with blas_limit(1):
            theta, best = search.start(rival), BestSoFar[Array]()
            if template == metric.template:
                found.append((search.score(theta), metric))
            for _ in range(2):  # near rows of the scales so far
                loss, theta = search.taught(theta)
                best.offer(loss, theta)
        found.append((best.loss, search.as_metric(rival, best.loss, best.best())))
    least = min(loss for loss, _ in found)
    return [each for loss, each in found if loss <= least + _TIED]


@dataclass(frozen=True, eq=False)
class _StreamedSearch(MetricSearch):
    """The search for scales and noise by judged rows and their candidates.

    Half of the judged rows learn, the other half judge.
    """

    lists: Integers
    level: int

    @classmethod
    def of(
        cls, metric: Metric, near: Neighbourhood, pilot: Pilot, settings: Settings, level: int
    ) -> "_StreamedSearch | None":
        """Take the judged rows that have candidates enough; None of a handful."""
        rows, p = near.rows, pilot.X.shape[1]
        enough = np.sum(near.lists >= 0, axis=1) >= settings.effort.local_neighbours[level]
        if np.count_nonzero(enough) < settings.effort.streamed.fewest_judges:
            return None
        mean, sd = weighted_mean_sd(pilot.Y, pilot.weights)
        targets = (rows.Y - mean) / np.where(sd > 0, sd, 1.0)
        targets = np.clip(targets, -LARGEST_TARGET, LARGEST_TARGET)
        lists = np.where(enough[:, None], near.lists, -1)
        return cls(
            after_warps(metric.kernel, rows.X),
            targets,
            rows.weights,
            without_warps(metric.template),
            np.arange(p),
            settings,
            None,
            lists,
            level,
        )

    @property
    def exact(self) -> bool:
        """Whether to leave out every row costs little: never, as most rows are elsewhere."""
        return False

    @cached_property
    def middle(self) -> Array:
        """Log scales of the median heuristic."""
        most = min(len(self.lists), self.settings.effort.streamed.looked_at)
        filled = with_median_scales(self.template, self.X[:most])
        return self.scales.log_scales_of(filled)

    def start(self, metric: Metric) -> Array:
        """Return log scales and log noise of a metric."""
        return metric.theta(self.X.shape[1])

    def taught(self, start: Array) -> tuple[float, Array]:
        """Return what the judging half says of the scales that the other half learns."""
        theta = self.about(start)
        return self.score(theta), theta

    def about(self, start: Array) -> Array:
        """Return scales that near rows at those of the start teach, each column at its price.

        They say nothing of a scale by which they do not differ although others do, as of a label
        that they share: it stays where it is.
        """
        objective = self.objective(start, self.level)
        held = self._untold(start, objective.neighbourhoods)
        free = np.append(~held, True)

        def of_free(values: Array) -> tuple[float, Array]:
            theta = start.copy()
            theta[free] = values
            value, slope = self.priced(objective)(theta)
            return value, slope[free]

        bounds = [bound for bound, is_free in zip(self.bounds, free, strict=True) if is_free]
        steps = self.settings.effort.metric_steps[self.level]
        theta = start.copy()
        theta[free] = minimise(of_free, start[free], bounds, steps, GOOD_ENOUGH)[0]
        return theta

    def _untold(self, theta: Array, hoods: Neighbourhoods) -> NDArray[np.bool_]:
        """Return whether each scale tells rows apart, but no judged row from its near ones."""
        scaled = self.X[:, list(self.scales.columns)] * np.exp(-theta[:-1])
        gaps = scaled[hoods.places] - scaled[hoods.rows][:, None]
        near = np.sqrt(np.mean(gaps**2, axis=(0, 1)))
        return (scaled[: len(self.lists)].std(axis=0) > _APART) & (near < _ALIKE)

    def score(self, theta: Array) -> float:
        """Return what the judging half says of scales and noise: log score and log error."""
        return sum(self.judged(self.objective(theta, self.level, fresh=True), theta))

    def objective(self, theta: Array, level: int, *, fresh: bool = False) -> LocalLoss:
        """Return the loss given the candidates that are nearest at these scales."""
        judges = np.flatnonzero(self.lists[:, 0] >= 0)
        judges = judges[len(judges) // 2 :] if fresh else judges[: len(judges) // 2]
        coordinates = metric_coordinates(self.scales.kernel(theta[:-1]), self.X)
        lists = self.lists[judges]
        gaps = coordinates[lists] - coordinates[judges][:, None]
        squared = np.einsum("jcf,jcf->jc", gaps, gaps)
        squared[lists < 0] = np.inf
        count = min(self.settings.effort.local_neighbours[level], lists.shape[1])
        nearest = np.argsort(squared, axis=1, kind="stable")[:, :count]
        hoods = Neighbourhoods(judges, np.take_along_axis(lists, nearest, axis=1))
        n_jobs = self.settings.n_jobs
        return LocalLoss(self.scales, self.X, self.targets, hoods, n_jobs=n_jobs)

    def as_metric(self, metric: Metric, loss: float, theta: Array) -> Metric:
        """Return a metric with other scales and noise, warps included."""
        kernel = _filled(metric.template, theta, self.X.shape[1])
        return replace(metric, kernel=kernel, noise=float(np.exp(theta[-1])), loss=loss)


def _filled(template: Kernel, theta: Array, p: int) -> Kernel:
    return FreeScales(template, p).kernel(theta[:-1])


def _starts(theta: Array, middle: Array, most_labels: int) -> list[Array]:
    """Return scales and noise, and such with one scale that is short, as that of a label."""
    found = [theta]
    for place in range(len(middle) if len(middle) <= most_labels else 0):
        shorter = theta.copy()
        shorter[place] = min(theta[place], middle[place]) - _SHORTER
        found.append(shorter)
    return found
