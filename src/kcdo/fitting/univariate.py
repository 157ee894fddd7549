"""What surrounds the mixture of one output: rounding undone, transform, recalibration, atoms."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from kcdo.arrays import Array
from kcdo.components import (
    AtomParameters,
    Atoms,
    AtomShares,
    Mixture,
    ModelParameters,
    Twins,
    Univariate,
    UnivariateParameters,
    continuous_rows,
    unrounded,
)
from kcdo.distributions import level_density
from kcdo.fitting.atoms import foretold_below_rounding, shares_beside
from kcdo.fitting.metric import Metric
from kcdo.fitting.metric_choice import feature_map, used_features
from kcdo.fitting.problem import Problem
from kcdo.fitting.recalibration import HeldOut
from kcdo.fitting.smoothed import located_rows, smoothed_parameters
from kcdo.fitting.spec import ModelSpec
from kcdo.fitting.transform import (
    SURE_GAIN,
    TRANSFORM_GAIN,
    choose_transform,
    refined,
    straightness,
)
from kcdo.fitting.twins import choose_twins, without_copies
from kcdo.fitting.weighing import InnerFit
from kcdo.kernels import FeatureMap
from kcdo.rows import Rows, outliers_drawn_in
from kcdo.transforms import Tabulated, normal_scores, standardised

_ABOUT_STRAIGHT = 0.97  # correlation with normal scores, beyond which they are not worth whole fits
_TRIAL_TIME = 0.3  # of the time that the user allows


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
    if (
        atoms is None
        and gap > 0
        and foretold_below_rounding(mapped, transform, metrics[0], gap, settings)
    ):
        atoms = Atoms.of_every_value(y)
    continuous = mapped
    if atoms is not None:
        continuous = mapped.take(continuous_rows(atoms, atoms.labels(y))).of_effective_weight()
    mixture, chosen, judged = fit_mixture(_inner_problem(problem, continuous, metrics, features))
    recalibration = None
    # where folds that learn anew find larger errors, held-out rows do not tell those of new ones
    if judged is not None and all(metric.inflation == 1.0 for metric in metrics):
        recalibration = judged.recalibration(settings.effort.shares_steps)
    shares, parameters = None, None
    if atoms is not None:
        shares, parameters = _beside(atoms, mixture, transform, mapped, y, metrics[0], spec)
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


def _beside(
    atoms: Atoms,
    mixture: Mixture,
    transform: Tabulated,
    mapped: Rows,
    y: Array,
    metric: Metric,
    spec: ModelSpec,
) -> tuple[AtomShares, AtomParameters]:
    """Return the shares of atoms beside a mixture of the continuous rows, and their parameters."""
    with spec.progress.stage("atoms"):
        located = located_rows(mapped, metric, spec.settings)
        shares = shares_beside(mixture, transform, atoms, y, located, spec.settings)
        return shares, AtomParameters.of(shares, smoothed_parameters(metric, located))


def _best_seen(rows: Rows, spec: ModelSpec) -> tuple[Tabulated, list[Metric], FeatureMap]:
    """Return the map of outputs, metrics of the inputs, and the features that these see."""
    features = feature_map(rows.X, spec.kernel_x, spec.settings.effort)
    seen = replace(rows, X=features(rows.X))
    transform, metrics = choose_transform(seen, spec, features)
    n_features = seen.X.shape[1]
    used = used_features(metrics, n_features)
    metrics = [metric.on(used, n_features) for metric in metrics]
    features = features.take(used) if features.features else features
    mapped = replace(seen, X=seen.X[:, used], Y=transform.forward(seen.Y))
    features, metrics = refined(features, metrics, mapped, spec)
    return transform, metrics, features


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
    if straightness(scores, rows) > _ABOUT_STRAIGHT:
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
    least = TRANSFORM_GAIN + SURE_GAIN / independent
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
