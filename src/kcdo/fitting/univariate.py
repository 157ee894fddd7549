"""What surrounds the mixture of one output: rounding undone, transform, recalibration, atoms."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.components import (
    AtomParameters,
    Atoms,
    AtomShares,
    Mixture,
    ModelParameters,
    Settings,
    SmoothedRows,
    Twins,
    Univariate,
    UnivariateParameters,
    class_shares,
    continuous_rows,
    interval_masses,
    student_tail,
    unrounded,
)
from kcdo.distributions import Batch, MixtureBatch, TransformedBatch, level_density
from kcdo.fitting.averages import averaged
from kcdo.fitting.metric import Metric
from kcdo.fitting.metric_choice import (
    choose_metrics,
    feature_map,
    last_word,
    same_metric,
    used_features,
)
from kcdo.fitting.problem import Problem
from kcdo.fitting.recalibration import HeldOut
from kcdo.fitting.smoothed import (
    choose_smoothers,
    every_bandwidth,
    located_rows,
    mixing_shares,
    smoothed_parameters,
)
from kcdo.fitting.spec import ModelSpec
from kcdo.fitting.twins import choose_twins, without_copies
from kcdo.fitting.weighing import InnerFit
from kcdo.kernels import FeatureMap
from kcdo.parallel import ordered_map
from kcdo.rows import Rows, outliers_drawn_in, sampled
from kcdo.systems import Exact
from kcdo.transforms import Tabulated, normal_scores, standardised

_TRANSFORM_GAIN = 0.005  # nats per row that normal scores must gain over no transform
_SURE_GAIN = 6.0  # and nats of all rows: the map has seen the outputs that judge it
_STRAIGHT = 0.995  # correlation of outputs and normal scores, beyond which these are no use
_ABOUT_STRAIGHT = 0.97  # beyond which they are not worth whole fits
_LARGEST_SCORE = 5.0
_TRIAL_TIME = 0.3  # of the time that the user allows
_LEAST_SHARE = 2e-3
_EXACT = 0.3  # median error, in gaps of rounding; that of the rounding itself is 0.25
_MOST_VALUES = 200


def fit_univariate(
    problem: Problem,
    fit_mixture: Callable[[Problem], InnerFit],
) -> tuple[Univariate, UnivariateParameters, float | None]:
    """Fit a mixture to one output as it is best seen, with atoms beside it."""
    spec, settings, every_row = problem.spec, problem.spec.settings, problem.rows
    atoms = Atoms.of(every_row.Y[:, 0])
    problem, copy_of = without_copies(problem) if atoms is None else (problem, None)
    y = problem.rows.Y[:, 0]
    gap = float(np.sqrt(12.0) * problem.floor[0])
    rows = problem.rows.with_outputs(unrounded(problem.rows.Y, gap, atoms, spec.seed))
    transform, metrics, features = _best_seen(rows, spec)
    mapped = replace(rows, X=features(rows.X), Y=transform.forward(rows.Y))
    if atoms is None and gap > 0 and _below_rounding(mapped, transform, metrics[0], gap, settings):
        atoms = Atoms.of_every_value(y)
    continuous = mapped
    if atoms is not None:
        continuous = mapped.take(continuous_rows(atoms, atoms.labels(y))).of_effective_weight()
    mixture, chosen, judged = fit_mixture(_inner_problem(problem, continuous, metrics, features))
    recalibration = None
    # where folds that learn anew find larger errors, held-out rows do not tell those of new ones
    if judged is not None and all(metric.inflation == 1.0 for metric in metrics):
        recalibration = judged.recalibration(settings.effort.shares_steps)
    shares: AtomShares | None = None
    parameters: AtomParameters | None = None
    if atoms is not None:
        with spec.progress.stage("atoms"):
            located = located_rows(mapped, metrics[0], settings)
            shares = _shares_beside(mixture, transform, atoms, y, located, settings)
            parameters = AtomParameters.of(shares, smoothed_parameters(metrics[0], located))
    model = Univariate(mixture, transform, features, shares, recalibration)
    twins: Twins | None = None
    if spec.twins and (atoms is None or atoms.every_value):
        twins = choose_twins(model, every_row, copy_of, settings)
        model = replace(model, twins=twins)
    of_twins = None if twins is None else (twins.prior, twins.width)
    every = UnivariateParameters(
        chosen,
        transform,
        features,
        parameters,
        gap,
        recalibration,
        of_twins,
        without_copies=copy_of is not None,
    )
    loss = None if atoms is not None or judged is None else _loss_in_units(judged, model)
    return model, every, loss


def _best_seen(rows: Rows, spec: ModelSpec) -> tuple[Tabulated, list[Metric], FeatureMap]:
    """Return the map of outputs, metrics of the inputs, and the features that these see."""
    features = feature_map(rows.X, spec.kernel_x, spec.settings.effort)
    seen = replace(rows, X=features(rows.X))
    transform, metrics = choose_transform(seen, spec, features)
    n_features = seen.X.shape[1]
    used = used_features(metrics, n_features)
    metrics = [metric.on(used, n_features) for metric in metrics]
    return transform, metrics, features.take(used) if features.features else features


def _shares_beside(
    mixture: Mixture,
    transform: Tabulated,
    atoms: Atoms,
    y: Array,
    located: SmoothedRows,
    settings: Settings,
) -> AtomShares:
    """Choose the probabilities of atoms beside a mixture of outputs that are seen through a map."""
    held_out = None
    if atoms.every_value:  # a continuous distribution knows their order
        held_out = TransformedBatch(mixture.held_out(_judging(y, settings)), transform)
    return choose_atom_shares(atoms, y, located, settings, held_out)


def fit_seen_through(
    problem: Problem, fit_mixture: Callable[[Problem], InnerFit]
) -> tuple[Univariate, UnivariateParameters, float | None]:
    """Fit a mixture to one output as it is best seen, where no metric of the inputs is learnt.

    Fits to some rows tell whether normal scores help.
    """
    spec, every_row = problem.spec, problem.rows
    gap = float(np.sqrt(12.0) * problem.floor[0])
    rows = every_row.with_outputs(unrounded(every_row.Y, gap, None, spec.seed))
    transform = standardised(rows.Y[:, 0], rows.weights)
    if spec.transforms and spec.progress.deadline.allows("normal scores"):
        with spec.progress.stage("transform"):
            transform = _tried_scores(problem, rows, transform, fit_mixture)
    model, chosen, loss = _fit_through(problem, rows, transform, fit_mixture)
    parameters = UnivariateParameters(
        chosen, transform, model.features, gap=gap, recalibration=model.recalibration
    )
    return model, parameters, loss


def _tried_scores(
    problem: Problem, rows: Rows, straight: Tabulated, fit_mixture: Callable[[Problem], InnerFit]
) -> Tabulated:
    """Return normal scores if fits to some rows gain by them, else the straight map.

    What a share of the time does not suffice for is left out: fits that were stopped tell little.
    """
    scores, spec = normal_scores(rows.Y[:, 0], rows.weights), problem.spec
    if _straightness(scores, rows) > _ABOUT_STRAIGHT:
        return straight
    some = rows.sample(spec.settings.effort.transform_rows // 2, spec.seed).of_effective_weight()
    if some.kin is not None and some.kin.count < 2:
        return straight
    share = spec.progress.deadline.share(_TRIAL_TIME)
    quiet = replace(problem, spec=spec.in_silence(share))
    each = [_fit_through(quiet, some, t, fit_mixture)[2] for t in (straight, scores)]
    if share.left_out:
        spec.progress.deadline.left_out.append("normal scores")
        return straight
    independent = some.total if some.kin is None else some.kin.count
    least = _TRANSFORM_GAIN + _SURE_GAIN / independent
    losses = [np.inf if loss is None else loss for loss in each]
    return scores if losses[1] < losses[0] - least else straight


def _fit_through(
    problem: Problem, rows: Rows, transform: Tabulated, fit_mixture: Callable[[Problem], InnerFit]
) -> tuple[Univariate, ModelParameters, float | None]:
    """Fit a mixture to outputs that are seen through a map, and recalibrate it."""
    mapped = outliers_drawn_in(rows.with_outputs(transform.forward(rows.Y)))
    inner = replace(problem, rows=mapped, floor=np.zeros(1))
    mixture, chosen, judged = fit_mixture(inner)
    recalibration = None
    if judged is not None:
        recalibration = judged.recalibration(problem.effort.shares_steps)
    model = Univariate(mixture, transform, FeatureMap(()), recalibration=recalibration)
    loss = None if judged is None else _loss_in_units(judged, model)
    return model, replace(chosen, draws_in_outliers=True), loss


def _loss_in_units(judged: HeldOut, model: Univariate) -> float:
    """Return the held-out loss of a model without atoms, in units of the output."""
    more = model.transform.log_derivative(model.transform.inverse(judged.Y))[:, 0]
    if model.recalibration is not None:
        assert judged.levels is not None
        more = more + np.log(level_density(judged.levels, model.recalibration))
    return judged.loss(more)


def _below_rounding(
    rows: Rows, transform: Tabulated, metric: Metric, gap: float, settings: Settings
) -> bool:
    """Whether outputs are foretold more exactly than they are rounded, and take not many values.

    Undoing the rounding at random would then be most of what is left to foretell.
    """
    if len(np.unique(np.rint(transform.inverse(rows.Y) / gap))) > _MOST_VALUES:
        return False
    located = SmoothedRows.located(metric.of_mean, metric.noise, rows, settings).table
    both = (transform.inverse(each[:, None])[:, 0] for each in (located.output, located.location))
    errors = np.abs(np.subtract(*both))
    return float(np.median(errors)) < _EXACT * gap


def _inner_problem(
    problem: Problem, mapped: Rows, metrics: list[Metric], features: FeatureMap
) -> Problem:
    """Return the fit of a mixture to mapped rows, whose metrics are learnt already.

    A kernel of the user sees the inputs as they are, and may know better than a line.
    """
    spec = problem.spec
    if spec.kernel_x.family_open:
        spec = replace(spec, kernel_x=metrics[0].template)
    return replace(
        problem,
        spec=spec,
        rows=mapped,
        floor=np.zeros(1),
        warped_kernel=spec.kernel_x,
        metrics=tuple(metrics),
        line=features.without_ranks if features.features else None,
    )


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
            if not progress.deadline.allows("the last word on the noise"):
                return chosen, metrics
        mapped = rows.with_outputs(chosen.forward(rows.Y))
        if progress.deadline.allows("averages of kernels"):
            metrics = averaged(metrics, mapped, settings)
        return chosen, [last_word(metrics[0], mapped, settings), *metrics[1:]]


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
    if _straightness(scores, rows) > _STRAIGHT:
        return straight, metrics
    mapped = rows.with_outputs(scores.forward(rows.Y))
    others = [same_metric(metrics[0], mapped, settings)]
    pairs = ((straight, metrics[0]), (scores, others[0]))
    losses = list(
        ordered_map(lambda pair: _loss(pair[0], pair[1], rows, settings), pairs, settings.n_jobs)
    )
    if losses[1] < losses[0] - _TRANSFORM_GAIN - _SURE_GAIN / rows.total:
        return scores, others + [same_metric(each, mapped, settings) for each in metrics[1:]]
    return straight, metrics


def _straightness(scores: Tabulated, rows: Rows) -> float:
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


def _judging(y: Array, settings: Settings) -> NDArray[np.integer]:
    """Return the rows that judge the probabilities of atoms."""
    return sampled(len(y), settings.effort.weighed_rows, settings.seed + 1)


def choose_atom_shares(
    atoms: Atoms, y: Array, rows: SmoothedRows, settings: Settings, continuous: Batch | None = None
) -> AtomShares:
    """Choose how rows are smoothed into probabilities of atoms, by held-out rows.

    ``continuous`` are held-out distributions of the same rows, where intervals about atoms may have
    a share.
    """
    labels, n_atoms, table = atoms.labels(y), len(atoms.places), rows.table
    judged = _judging(y, settings)
    likeness = table.likeness_left_out(judged, rows.n_jobs)
    bandwidths = every_bandwidth()
    prior = np.bincount(labels, table.weights, n_atoms + 1)
    few = 1.0 / (prior.sum() + 1.0)
    each = few * prior / prior.sum() + (1.0 - few) * np.stack(
        [class_shares(table, likeness, b, labels, n_atoms) for b in bandwidths]
    )  # (B, n, A + 1)
    own, weights = labels[judged], table.weights[judged]
    steps = settings.effort.shares_steps
    shares = mixing_shares(each[:, np.arange(len(judged)), own].T, weights, steps)
    shares = np.where(shares >= _LEAST_SHARE, shares, 0.0)
    shares /= shares.sum()
    of_intervals = 0.0
    if continuous is not None:
        by_rows = np.einsum("b,bna->na", shares, each)[:, :n_atoms]
        masses = interval_masses(atoms, continuous)
        of_intervals = _share_of_intervals(atoms, by_rows, masses, own, weights)
    chosen = tuple(b for b, share in zip(bandwidths, shares, strict=True) if share > 0)
    kept = (1.0 - of_intervals) * shares[shares > 0]
    return AtomShares(atoms, rows, labels, chosen, kept, of_intervals)


def _share_of_intervals(
    atoms: Atoms, by_rows: Array, masses: Array, labels: NDArray[np.integer], weights: Array
) -> float:
    """Return the share of the second of two kinds of probabilities (n, A) that foretells best.

    By log score and CRPS alike: -mean log p + log(mean CRPS).
    """
    gaps = np.diff(atoms.places)
    below = labels[:, None] <= np.arange(len(atoms.places) - 1)

    def loss(share: float) -> float:
        p = (1.0 - share) * by_rows + share * masses
        crps = ((np.cumsum(p, axis=1)[:, :-1] - below) ** 2) @ gaps
        logs = np.log(np.maximum(p[np.arange(len(p)), labels], 1e-12))
        return float(np.log(np.average(crps, weights=weights)) - np.average(logs, weights=weights))

    return float(min(np.linspace(0.0, 1.0, 21), key=loss))
