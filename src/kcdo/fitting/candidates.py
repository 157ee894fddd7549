"""Near rows of a few judged rows among all rows of a stream, and the metric that they teach.

Each chunk returns the rows nearest to the judged rows; merged, they are the nearest among all rows.
Local learning (:mod:`kcdo.fitting.local`) then sees the density of all rows, at a cost that does
not grow with them. Candidates are collected in the metric of the pilot sample, and once more in
ones in which a single column counts for more: a column that acts as a label looks like noise to
a sample. They are ranked again as scales move, and found again in the metric that was learnt.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.components import Settings
from kcdo.fitting.local import LocalLoss, Neighbourhoods
from kcdo.fitting.metric import Metric, MetricSearch
from kcdo.fitting.metric_choice import LARGEST_TARGET
from kcdo.fitting.pilot import Chunk, Pilot
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
from kcdo.rows import Rows
from kcdo.systems import Finder

_SHORTER = 4.0  # of log scales: about 1/50
_APART, _ALIKE = 1.0, 0.05  # in scales: rows that differ much, and rows that hardly do
_WORTH = 0.01  # nats per row, with the log error, that other scales must gain
_TIED = 0.05  # losses of families between which near rows do not decide
_BLOCK_NUMBERS = 1 << 20  # distances held at a time
_MOST_NUMBERS = 1 << 23  # of all candidates of one pass


@dataclass(frozen=True, eq=False)
class NearRowJudges:
    """Rows whose near rows are sought in one metric or several, and how far to look.

    Parameters
    ----------
    X : (J, p)
        Inputs of the judged rows.
    kernels : tuple of Kernel
        Their scales say what is near.
    count : int
        Near rows of each judged row in each metric.
    reach : (len(kernels), J)
        Squared distances within which so many rows are to be expected: by those of the sample.
    """

    X: NDArray
    kernels: tuple[Kernel, ...]
    count: int
    reach: Array

    @classmethod
    def of(
        cls, kernels: tuple[Kernel, ...], pilot: Pilot, judges: int, count: int
    ) -> "NearRowJudges":
        """Take the first rows of a sample, whose other rows say how far away near rows are."""
        numbers = len(kernels) * judges * (pilot.X.shape[1] + pilot.Y.shape[1] + 3)
        count = max(1, min(count, _MOST_NUMBERS // numbers, pilot.n_rows - 1))
        expected = count * len(pilot.X) / pilot.n_rows
        place = int(np.ceil(expected + 3.0 * np.sqrt(expected) + 3.0))
        rows = np.arange(min(judges, len(pilot.X)))
        reach = [_reach(kernel, pilot.X, rows, place) for kernel in kernels]
        return cls(pilot.X[rows], kernels, count, np.array(reach))

    def nearest(self, chunk: Chunk) -> "NearRows":
        """Return the rows of a chunk that may be among the nearest."""
        X, Y, weights = chunk
        groups, rows, squared = [], [], []
        for number, kernel in enumerate(self.kernels):
            judge, row, gap = _within(kernel, self.X, X, self.reach[number])
            groups.append(judge + number * len(self.X))
            rows.append(row)
            squared.append(gap)
        row = np.concatenate(rows)
        found = NearRows(
            np.concatenate(groups), np.concatenate(squared), X[row], Y[row], weights[row]
        )
        return found.nearest(self.count)

    def merged(self, first: "NearRows", second: "NearRows") -> "NearRows":
        """Return the nearest of the rows of both, those of earlier chunks first."""
        parts = zip(vars(first).values(), vars(second).values(), strict=True)
        return NearRows(*(np.concatenate(pair) for pair in parts)).nearest(self.count)


@dataclass(frozen=True, eq=False)
class NearRows:
    """Near rows of judged rows: for each its group (metric and judge), squared distance, values."""

    group: NDArray[np.integer]
    squared: Array
    X: NDArray
    Y: Array
    weights: Array

    def nearest(self, count: int) -> "NearRows":
        """Return the nearest of each group, so many at most; of equals the first ones."""
        order = np.lexsort((self.squared, self.group))
        group = self.group[order]
        starts = np.flatnonzero(np.diff(group, prepend=-1))
        rank = np.arange(len(group)) - np.repeat(starts, np.diff(np.append(starts, len(group))))
        kept = order[rank < count]
        return NearRows(*(values[kept] for values in vars(self).values()))


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """Judged rows and all their candidates as one table of different rows, the judged ones first.

    Parameters
    ----------
    rows : Rows
        The table.
    lists : (J, C)
        Places of the candidates of each judged row, -1 where it has fewer.
    """

    rows: Rows
    lists: NDArray[np.integer]

    @classmethod
    def of(cls, judges: NearRowJudges, near: NearRows, pilot: Pilot) -> "Neighbourhood":
        """Give every row one place: a judged row may be near another one."""
        n = len(judges.X)
        both = Rows(
            np.concatenate([pilot.X[:n], near.X]),
            np.concatenate([pilot.Y[:n], near.Y]),
            np.concatenate([pilot.weights[:n], near.weights]),
        )
        table = np.ascontiguousarray(np.column_stack([both.X, both.Y, both.weights]))
        keys = table.view(np.dtype((np.void, table.itemsize * table.shape[1]))).ravel()
        _, first, place = np.unique(keys, return_index=True, return_inverse=True)
        order = np.argsort(first)  # in the order in which they come: judged rows first
        back = np.empty(len(order), dtype=np.intp)
        back[order] = np.arange(len(order))
        return cls(both.take(first[order]), _lists(near.group % n, back[place[n:]], n))

    @property
    def judged(self) -> int:
        """Number of judged rows."""
        return len(self.lists)


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

    lists: NDArray[np.integer]
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


def _reach(kernel: Kernel, X: NDArray, rows: NDArray[np.integer], place: int) -> Array:
    """Return the squared distance of rows to their so-manieth neighbour among all."""
    coordinates = _coordinates(kernel, X)
    near = Finder(coordinates).nearest_distinct(rows, min(place, len(X) - 1))
    return _squared(coordinates[rows], coordinates[near[:, -1]])


def _within(
    kernel: Kernel, judges: NDArray, X: NDArray, reach: Array
) -> tuple[NDArray[np.integer], NDArray[np.integer], Array]:
    """Return pairs of judges and rows with other inputs within reach, and squared distances."""
    ours, theirs = _coordinates(kernel, judges), _coordinates(kernel, X)
    middle = np.median(ours, axis=0)
    about, others = ours - middle, theirs - middle
    lengths = np.einsum("ij,ij->i", others, others)
    # products round: a little more is looked at, and distances are then taken of differences
    own = np.einsum("ij,ij->i", about, about)
    most = reach * (1.0 + 1e-9) + 1e-9 * own - own
    found = []
    step = max(1, _BLOCK_NUMBERS // max(len(X), 1))
    lengths *= 1.0 - 1e-9
    for start in range(0, len(judges), step):
        part = slice(start, start + step)
        squared = about[part] @ (-2.0 * others.T)
        squared += lengths
        judge, row = np.nonzero(squared <= most[part, None])
        found.append(np.stack([judge + start, row]))
    judge, row = np.concatenate(found, axis=1) if found else np.zeros((2, 0), dtype=np.intp)
    gaps = _squared(ours[judge], theirs[row])
    kept = (gaps <= reach[judge]) & np.any(judges[judge] != X[row], axis=1)
    return judge[kept], row[kept], gaps[kept]


def _coordinates(kernel: Kernel, X: NDArray) -> Array:
    return metric_coordinates(without_warps(kernel), after_warps(kernel, X))


def _squared(first: Array, second: Array) -> Array:
    """Return squared distances of pairs, the same bits for any number of pairs."""
    total = np.zeros(len(first))
    for column in range(first.shape[1]):
        total += (first[:, column] - second[:, column]) ** 2
    return total


def _lists(judge: NDArray[np.integer], place: NDArray[np.integer], n: int) -> NDArray[np.integer]:
    """Return the different places of each judge, (n, C), filled up with -1."""
    pairs = np.unique(np.stack([judge, place], axis=1), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    counts = np.bincount(pairs[:, 0], minlength=n)
    lists = np.full((n, max(int(counts.max(initial=0)), 1)), -1, dtype=np.intp)
    within = np.arange(len(pairs)) - np.repeat(np.cumsum(counts) - counts, counts)
    lists[pairs[:, 0], within] = pairs[:, 1]
    return lists
