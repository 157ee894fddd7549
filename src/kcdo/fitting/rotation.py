"""Features that are rotated: sums and differences of columns along which outputs vary.

Scales of columns stretch inputs along their axes alone. Where outputs follow sums of columns, the
average gradient outer product of the regression, E ∇m ∇mᵀ, says which: along its eigenvectors,
which are orthogonal and so leave all distances as they are, scales are learnt anew
(Radhakrishnan, Beaglehole, Pandit and Belkin, Science 383, 2024).
"""

from dataclasses import dataclass, replace

import numpy as np

from kcdo.arrays import Array
from kcdo.components import Settings
from kcdo.fitting.metric import Metric, MetricSearch
from kcdo.fitting.metric_choice import score_of_others, search_from
from kcdo.kernels import FeatureMap, FreeScales, Radial, metric_coordinates
from kcdo.parallel import blas_limit, ordered_map
from kcdo.rows import Rows, sampled
from kcdo.systems import ExactRows, Groups

# of rows that did not learn, nats per row and log mean error together; of few rows they are few
_CLEAR_GAIN, _CLEAR_GAIN_OF_FEW = 0.03, 0.1
_SPLITS = 2  # into rows that learn and others, each of which must gain
_LEAST_SPREAD = 1e-6  # beside that of the widest direction: else a direction is constant


@dataclass(frozen=True, eq=False)
class Directions:
    """Linear combinations of features, of unit spread, and log scales that keep all distances."""

    matrix: Array  # (F, R)
    log_scales: Array  # (R,)

    @classmethod
    def of(cls, search: MetricSearch, theta: Array) -> "Directions":
        """Return the eigenvectors of the average gradient outer product of a regression."""
        coordinates = metric_coordinates(search.scales.kernel(theta[:-1]), search.inputs)
        _, vectors = np.linalg.eigh(_outer_product(search, coordinates, float(np.exp(theta[-1]))))
        spread = (coordinates @ vectors).std(axis=0)
        kept = spread > _LEAST_SPREAD * spread.max()
        matrix = np.zeros((search.X.shape[1], int(kept.sum())))
        along = vectors[:, kept] / spread[kept]
        matrix[search.columns] = along * np.exp(-theta[:-1])[:, None]
        return cls(matrix, -np.log(spread[kept]))

    def search(self, search: MetricSearch) -> MetricSearch:
        """Return the search for scales along these directions alone."""
        return replace(search, X=search.X @ self.matrix, columns=np.arange(len(self.log_scales)))

    def start(self, theta: Array) -> Array:
        """Return scales along the directions that make the same kernel, and the same noise."""
        return np.append(self.log_scales, theta[-1])


def _outer_product(search: MetricSearch, coordinates: Array, noise: float) -> Array:
    """Return Σ ω ∇m ∇mᵀ of the regression, its gradients taken at all rows."""
    n_columns = coordinates.shape[1]
    kernel = FreeScales(search.template, n_columns).kernel(np.zeros(n_columns))
    assert isinstance(kernel, Radial)
    groups = Groups.of(coordinates, search.weights)
    system = ExactRows(kernel, groups, n_jobs=1).factor(noise / search.weights.sum())
    coefficients = system.coefficients(search.targets)[:, 0]
    gradients = kernel.input_gradients(groups.points, groups.points, coefficients)
    counts = np.bincount(groups.member_of, search.weights)
    found: Array = (gradients * counts[:, None]).T @ gradients
    return found


def rotated(
    features: FeatureMap, metrics: list[Metric], rows: Rows, settings: Settings
) -> tuple[FeatureMap, list[Metric]]:
    """Return features and metrics, some of which see directions where rows clearly gain by them.

    The rows have these features. Where the first metric does not gain, no other one is tried; more
    than two never are.
    """
    found: list[tuple[Directions, Metric]] = []
    with blas_limit(1):
        for metric in metrics[:2]:
            turned = _turned(metric, rows, settings)
            if turned is None:
                break
            found.append(turned)
    if not found:
        return features, metrics
    every = [np.eye(rows.X.shape[1]), *(directions.matrix for directions, _ in found)]
    ends = np.cumsum([matrix.shape[1] for matrix in every])
    columns = np.split(np.arange(ends[-1]), ends[:-1])
    owners = [*(metric for _, metric in found), *metrics[len(found) :]]
    places = [*columns[1:], *[columns[0]] * (len(metrics) - len(found))]
    seen = [metric.among(own, ends[-1]) for metric, own in zip(owners, places, strict=True)]
    return features.with_directions(np.hstack(every[1:])), seen


def _turned(metric: Metric, rows: Rows, settings: Settings) -> tuple[Directions, Metric] | None:
    """Return directions and the metric along them, or None where other rows do not clearly gain.

    Not where rows are so few that folds judge scales.
    """
    if metric.raw or not isinstance(metric.template, Radial):
        return None
    search, theta = search_from(metric, rows, settings)
    if search.cross_fits or len(search.columns) < 2 or not _gains(search, theta):
        return None
    most = settings.effort.last_rows
    some = search.take(sampled(len(search.X), most, settings.seed))
    directions = Directions.of(some, theta)
    if not len(directions.log_scales):
        return None
    along, start = directions.search(search), directions.start(theta)
    learners = along.learners(thorough=True)
    learnt = list(ordered_map(lambda each: each.learnt(start), learners, settings.n_jobs))
    _, loss, best = along.best(learnt if along.exact else [start, *learnt])
    return directions, along.metric(loss, best)


def _gains(search: MetricSearch, theta: Array) -> bool:
    """Whether directions and scales that some rows learn foretell others clearly better, twice."""
    least = _CLEAR_GAIN_OF_FEW if search.exact else _CLEAR_GAIN
    return all(_gain(search, theta, split) > least for split in range(_SPLITS))


def _gain(search: MetricSearch, theta: Array, split: int) -> float:
    """Return what other rows gain by directions that some rows learn."""
    effort, n, seed = search.settings.effort, len(search.X), search.settings.seed + split
    most = effort.average_rows if search.exact else effort.exact_judged
    learning = sampled(n, min(most, 2 * n // 3), seed)
    others = np.setdiff1d(np.arange(n), learning)
    others = others[sampled(len(others), effort.exact_judged, seed + 1)]
    search = search.take(np.concatenate([learning, others]))
    learning, others = np.split(np.arange(len(search.X)), [len(learning)])
    some = search.take(learning)
    before, directions = score_of_others(some, theta, search, others), Directions.of(some, theta)
    if not len(directions.log_scales):  # of these rows all features are constant
        return -np.inf
    along, start = directions.search(search), directions.start(theta)
    some = along.take(learning)
    _, found = some.free(some.objective(start, 1), start, effort.metric_steps[0])
    return before - score_of_others(some, found, along, others)
