"""Regressions that add two functions of the inputs: a smooth one and a rough one.

Outputs may follow some columns smoothly and jump along others. One kernel is as rough everywhere as
its roughest column asks for; the average of two kernels, each with scales of its own, is not.
"""

from dataclasses import replace

import numpy as np

from kcdo.components import Settings
from kcdo.fitting.metric import Metric
from kcdo.fitting.metric_choice import search_from
from kcdo.kernels import Average, Kernel, Matern, Radial
from kcdo.parallel import blas_limit, ordered_map
from kcdo.rows import Rows

# twice as many scales fit more chance; in nats per row and log mean error together
_CLEAR_GAIN = 0.03
_CLEAR_GAIN_OF_LEARNT = 0.1  # by the rows that chose the scales, and 1/N for each column
_FIRST_SHARE = 0.25  # of that gain, which the scales of some rows must have for all rows


def averaged(metrics: list[Metric], rows: Rows, settings: Settings) -> list[Metric]:
    """Return metrics whose regressions average two kernels, where rows clearly gain by it."""
    with blas_limit(1):
        return list(ordered_map(lambda m: _averaged(m, rows, settings), metrics, settings.n_jobs))


def _averaged(metric: Metric, rows: Rows, settings: Settings) -> Metric:
    """Learn scales of a second kernel beside those of a metric, and judge both at once.

    Some rows learn first: where their scales do not serve all rows, the second kernel fits chance.
    Not where rows are so few that folds judge scales, nor where a location sees near rows alone:
    a smooth function is about constant there.
    """
    if metric.raw or metric.shared or not isinstance(metric.template, Radial):
        return metric
    single, theta = search_from(metric, rows, settings)
    effort = settings.effort
    if single.cross_fits or len(rows) > effort.exact_rows:
        return metric
    search = replace(single, template=Average((metric.template, _partner(metric.template))))
    before = single.judged_at_once(theta)
    most = min(effort.average_rows, 2 * len(rows) // 3)
    some = search.take(rows.sampled(most, settings.seed))
    found = some.learnt(np.concatenate([theta[:-1], single.middle, theta[-1:]]))
    least = _CLEAR_GAIN
    if single.exact:
        least = _CLEAR_GAIN_OF_LEARNT + len(single.columns) / len(rows)
    if search.judged_at_once(found) > before - _FIRST_SHARE * least:
        return metric
    (learner,) = search.learners(thorough=False)
    found = learner.free(learner.objective(found, 1), found, effort.metric_steps[0])[1]
    loss = search.judged_at_once(found)
    if loss > before - least:
        return metric
    return replace(metric.with_mean(search.kernel(found), float(np.exp(found[-1]))), loss=loss)


def _partner(kernel: Kernel) -> Kernel:
    """Return a family that is one step rougher; a smoother one beside the roughest."""
    beside_rough = kernel == Matern(smoothness=1.5)
    return Matern(smoothness=0.5) if beside_rough else Matern(smoothness=1.5)
