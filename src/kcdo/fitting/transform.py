"""The map through which one output is seen: straight, or to normal scores."""

from dataclasses import replace

import numpy as np

from kcdo.components import Settings, student_tail
from kcdo.distributions import MixtureBatch, TransformedBatch
from kcdo.fitting.averages import averaged
from kcdo.fitting.metric import Metric
from kcdo.fitting.metric_choice import (
    choose_metrics,
    feature_map,
    last_word,
    roughly_same,
    same_metric,
)
from kcdo.fitting.problem import Problem
from kcdo.fitting.rotation import rotated
from kcdo.fitting.smoothed import choose_smoothers, located_rows
from kcdo.fitting.spec import ModelSpec
from kcdo.fitting.stacking import stacked
from kcdo.kernels import FeatureMap
from kcdo.parallel import ordered_map
from kcdo.rows import Rows
from kcdo.systems import Exact
from kcdo.transforms import Tabulated, normal_scores, standardised

TRANSFORM_GAIN = 0.005  # nats per row that normal scores must gain over no transform
SURE_GAIN = 6.0  # and nats of all rows: the map has seen the outputs that judge it
_STRAIGHT = 0.995  # correlation of outputs and normal scores, beyond which these are no use
_LARGEST_SCORE = 5.0


def choose_transform(
    rows: Rows, spec: ModelSpec, features: FeatureMap
) -> tuple[Tabulated, list[Metric]]:
    """Return the map of outputs through which they are foretold better, and metrics there.

    Straight, or to normal scores: judged by the held-out log score and CRPS, in units of the
    outputs, of rows that are smoothed in a metric learnt for each.
    """
    settings, progress = spec.settings, spec.progress
    chosen = standardised(rows.Y[:, 0], rows.weights)
    mapped = rows.with_outputs(chosen.forward(rows.Y))
    metrics = choose_metrics(mapped, settings, spec.kernel_x, features, progress)
    with progress.stage("transform"):
        if spec.transforms:
            if not progress.deadline.allows("normal scores"):
                return chosen, metrics
            chosen, metrics = _or_normal_scores(chosen, metrics, rows, settings)
        return chosen, metrics


def refined(
    features: FeatureMap, metrics: list[Metric], mapped: Rows, spec: ModelSpec
) -> tuple[FeatureMap, list[Metric]]:
    """Return features and metrics after all that only the chosen ones are worth.

    Directions beside the columns, averages of kernels, the word of all rows on the noise, and
    averages of regressions. The rows have these features, and outputs as the transform maps them.
    """
    settings, deadline = spec.settings, spec.progress.deadline
    with spec.progress.stage("regression"):
        if not deadline.allows("the last word on the noise"):
            return features, metrics[:2]
        if deadline.allows("directions of features"):
            features, metrics = rotated(features, metrics, mapped, settings)
            mapped = replace(mapped, X=features.beside(mapped.X))
        if deadline.allows("averages of kernels"):
            metrics = [*averaged(metrics[:2], mapped, settings), *metrics[2:]]
        metrics = [last_word(metrics[0], mapped, settings), *metrics[1:]]
        if not deadline.allows("averages of regressions"):
            return features, metrics[:2]
        return features, stacked(metrics, mapped, settings)


def sample_transform(spec: ModelSpec, rows: Rows) -> Tabulated | None:
    """Return normal scores of the output of a stream, if rows of a sample gain by them, or None."""
    problem = Problem.of(replace(spec, settings=replace(spec.settings, solver=Exact())), rows)
    if not (spec.transforms and problem.learns and problem.univariate):
        return None
    settings = problem.spec.settings
    features = feature_map(rows.X, spec.kernel_x, settings.effort)
    seen = replace(rows.of_effective_weight(), X=features(rows.X))
    straight = standardised(seen.Y[:, 0], seen.weights)
    mapped = seen.with_outputs(straight.forward(seen.Y))
    metrics = choose_metrics(mapped, settings, spec.kernel_x, features, spec.progress)
    chosen, _ = _or_normal_scores(straight, metrics[:1], seen, settings)
    return None if chosen is straight else chosen


def _or_normal_scores(
    straight: Tabulated, metrics: list[Metric], rows: Rows, settings: Settings
) -> tuple[Tabulated, list[Metric]]:
    """Return a map and its metrics, or normal scores with theirs where rows gain by them."""
    scores = normal_scores(rows.Y[:, 0], rows.weights)
    if straightness(scores, rows) > _STRAIGHT:
        return straight, metrics
    mapped = rows.with_outputs(scores.forward(rows.Y))
    others = [same_metric(metrics[0], mapped, settings)]
    pairs = ((straight, metrics[0]), (scores, others[0]))
    losses = list(
        ordered_map(lambda pair: _loss(pair[0], pair[1], rows, settings), pairs, settings.n_jobs)
    )
    if losses[1] < losses[0] - TRANSFORM_GAIN - SURE_GAIN / rows.total:
        others += [same_metric(each, mapped, settings) for each in metrics[1:2]]
        return scores, others + [roughly_same(each, mapped, settings) for each in metrics[2:]]
    return straight, metrics


def straightness(scores: Tabulated, rows: Rows) -> float:
    """Return the correlation of outputs with their normal scores, bounded: outliers are not."""
    bounded = np.clip(scores.forward(rows.Y)[:, 0], -_LARGEST_SCORE, _LARGEST_SCORE)
    return float(np.corrcoef(rows.Y[:, 0], bounded)[0, 1])


def _loss(transform: Tabulated, metric: Metric, rows: Rows, settings: Settings) -> float:
    """Return the held-out log score + log CRPS of smoothed rows, in units of the outputs."""
    rows = rows.sample(settings.effort.rows, settings.seed)
    mapped = rows.with_outputs(transform.forward(rows.Y))
    smoothed = choose_smoothers(located_rows(mapped, metric, settings), settings)
    judged = rows.sampled(settings.effort.transform_rows, settings.seed + 1)
    Y, weights = rows.Y[judged], rows.weights[judged]
    held_out = smoothed.held_out(judged)["smoothed"]
    tail = student_tail(*smoothed.location_and_scale(judged))
    batch = TransformedBatch(MixtureBatch([held_out, tail], np.array([0.98, 0.02])), transform)
    log_score = -np.average(batch.logpdf_pairs(Y), weights=weights)
    return float(log_score + np.log(np.average(batch.crps(Y), weights=weights)))
