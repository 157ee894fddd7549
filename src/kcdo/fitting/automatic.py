"""``selection="auto"``: mean, location and scale, plain density, near rows, weights."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.components import (
    ChainModel,
    ChainModelParameters,
    Component,
    ComponentParameters,
    DensityOperator,
    Gate,
    MarginalTailParameters,
    Mixture,
    ModelParameters,
    OperatorParameters,
    PlainDensity,
    Univariate,
    UnivariateParameters,
)
from kcdo.distributions import Batch, MixtureBatch, join
from kcdo.errors import InvalidInputError
from kcdo.fitting.densities import choose_nearest, choose_plain, plain_component
from kcdo.fitting.folds import fit_by_folds
from kcdo.fitting.linear import choose_linear
from kcdo.fitting.location import choose_location_scale, rival_densities
from kcdo.fitting.means import mean_choices, residual_sds
from kcdo.fitting.metric import Metric
from kcdo.fitting.output_side import check_output, output_side
from kcdo.fitting.problem import ChosenComponent, Problem, ValidationRows
from kcdo.fitting.rules import held_out_residual_sd, heuristic
from kcdo.fitting.smoothed import choose_smoothed
from kcdo.fitting.spec import ModelSpec
from kcdo.fitting.univariate import InnerFit, fit_univariate
from kcdo.fitting.weights import choose_gate, combined_weights
from kcdo.kernels import weighted_mean_sd
from kcdo.parallel import blas_limit, ordered_map
from kcdo.rows import Rows, fold_numbers
from kcdo.systems import Exact, Groups, Nystrom, System

Batches = dict[str, Batch]

_TAIL_ROWS = 8.0  # that a tail about the mean counts as, beside a handful of rows


@dataclass(frozen=True, eq=False)
class AutomaticFit:
    """A model and what was chosen on the way."""

    model: Mixture | Univariate | ChainModel
    parameters: ModelParameters | UnivariateParameters | ChainModelParameters
    loss: float | None

    @property
    def system(self) -> System:
        """The ridge system of the plain density, which a report describes."""
        training = self.model.primary.training
        assert training is not None
        return training.system


def automatic_fit(spec: ModelSpec, rows: Rows) -> AutomaticFit:
    """Choose everything that is open and fit the model.

    Of a handful of rows, or of outputs that do not vary, nothing can be learnt: the heuristic
    rule then fits the plain density. So it does when the time is over; each stage looks at it.
    """
    check_output(spec, rows.Y)
    problem = replace(Problem.of(spec, rows), rows=rows.of_effective_weight())
    if not problem.learns or not _in_time(problem, "every search"):
        return AutomaticFit(*_fit_heuristic(problem))
    if rows.kin is not None:
        return AutomaticFit(*fit_by_folds(problem))
    if problem.univariate:
        return AutomaticFit(*fit_univariate(problem, _fit_mixture))
    return AutomaticFit(*_fit_mixture(problem))


def _fit_mixture(problem: Problem) -> InnerFit:
    """Choose and fit the components one after the other, then their weights."""
    stage, wants = problem.spec.progress.stage, problem.spec.combination.wants
    rows, settings, effort = problem.rows, problem.spec.settings, problem.effort
    if not problem.learns or not _in_time(problem, "a mixture of components"):
        return _fit_heuristic(problem)
    with stage("conditional mean"):
        means = mean_choices(problem)
    with stage("location and scale"):
        located = _located(problem, means[-1:] if problem.metrics else means)
    plain = None
    if _in_time(problem, "the search for a plain density"):
        with stage("plain density"):
            rival = _rival(problem, located)
            starts = means[:1] if problem.metrics else means
            plain = choose_plain(problem, starts, residual_sds(means[0], problem), rival)
    chosen = [_quick_plain(problem) if plain is None else plain_component(plain), *located]
    if problem.metrics and wants("smoothed") and _in_time(problem, "smoothed rows"):
        with stage("smoothed rows"):
            chosen.append(choose_smoothed(rows, problem.metrics[0], settings))
    if problem.line is not None and wants("linear"):
        chosen.append(choose_linear(rows, problem.line))
    chosen += _marginal_tail(problem, located)
    with stage("weights"):
        judged = problem.judged_rows(effort.weighed_rows)
        every = _held_out(problem, chosen, judged)
        held_out = {name: batch for name, batch in every.items() if wants(name)}
        weights = _weights(problem, held_out, judged) if held_out else {}
    near = not problem.every_input and len(rows) > effort.weighed_rows and wants("nearest")
    if near and plain is not None and _in_time(problem, "nearest rows"):
        with stage("nearest rows"):
            judges = _beside(problem, judged, held_out, weights)
            nearest = choose_nearest(problem, plain, means, judges)
        if nearest is not None:
            chosen.append(nearest)
            held_out |= nearest.light_component.held_out(judged)
            weights = _weights(problem, held_out, judged)
    if not weights:
        raise InvalidInputError(
            "Combination: all weight is on the nearest rows, which are a component for more than "
            f"{effort.weighed_rows} rows on Nyström centres, with kernels of scaled columns."
        )
    gate = None
    if problem.metrics and not problem.spec.combination.fixed and _in_time(problem, "gate"):
        kernel, judged_rows = problem.metrics[0].kernel, rows.take(judged)
        gate = choose_gate(held_out, weights, judged_rows, kernel, effort.fewest_gated)
    return _fitted(chosen, weights, gate)


def _quick_plain(problem: Problem) -> ChosenComponent:
    """Return the plain density that the heuristic rule fits; many rows take the rule of some."""
    rows, spec, settings = problem.rows, problem.spec, problem.spec.settings
    some = rows
    if isinstance(settings.solver, Nystrom):
        some = rows.sample(problem.effort.rows, spec.seed)
        spec = replace(spec, settings=replace(settings, solver=Exact()))
    system, output = heuristic(spec, Groups.of(some.X, some.weights), some.Y)
    if len(some) < len(rows):
        open_scales = spec.kernel_y is None or not spec.kernel_y.fitted
        sd = held_out_residual_sd(system, some.Y, spec) if open_scales else None
        output = output_side(spec, rows.Y, rows.weights, sd)
        parameters = OperatorParameters(system.kernel, system.alpha, output)
        plain = parameters.operator(rows, settings)
    else:
        parameters = OperatorParameters(system.kernel, system.alpha, output)
        plain = DensityOperator.solved(system, output, rows.Y, settings.positivity)
    component = PlainDensity(plain)
    return ChosenComponent(parameters, component, parameters, component, np.nan)


def _fit_heuristic(problem: Problem) -> InnerFit:
    rows, spec, settings = problem.rows, problem.spec, problem.spec.settings
    plain = _quick_plain(problem)
    components: list[Component] = [plain.component]
    parameters: list[ComponentParameters] = [plain.parameters]
    weights, tail = {"plain": 1.0}, MarginalTailParameters()
    _, spread = weighted_mean_sd(rows.Y, rows.weights)
    if spec.combination.wants("marginal_tail") and np.all(spread > 0):
        share = _TAIL_ROWS / (len(rows) + _TAIL_ROWS)
        weights = {"plain": 1.0 - share, "marginal_tail": share}
        components = [*components, tail.fit(rows, settings)]
        parameters = [*parameters, tail]
        line = _line_of_few(problem)
        if line is not None:
            components, parameters = [*components, line.component], [*parameters, line.parameters]
            held_out: Batches = {}
            for component in components:
                held_out |= component.held_out(np.arange(len(rows)))
            weights = _weights(problem, held_out, np.arange(len(rows)))
    model = Mixture(tuple(components), weights)
    chosen = ModelParameters(tuple(parameters), weights)
    return model, chosen, None


def _line_of_few(problem: Problem) -> ChosenComponent | None:
    """Return a linear regression of a handful of rows, if these are more than its slopes."""
    rows, spec = problem.rows, problem.spec
    open_line = problem.univariate and spec.kernel_x.family_open and not spec.combination.fixed
    least, most = rows.X.shape[1] + problem.effort.line_rows, problem.effort.fewest_rows
    if not open_line or not least <= len(rows) <= most:
        return None
    return choose_linear(rows, np.arange(rows.X.shape[1]))


def _located(problem: Problem, means: list[Metric]) -> list[ChosenComponent]:
    """Return location and scale, if any distribution about them is wanted."""
    wants = problem.spec.combination.wants
    if not any(map(wants, ("location_scale", "residual_tail", "normal"))):
        return []
    if not _in_time(problem, "location and scale"):
        return []
    return [choose_location_scale(problem, means)]


def _in_time(problem: Problem, stage: str) -> bool:
    """Whether there is time for a stage; always, where the user gave weights of components."""
    return bool(problem.spec.combination.fixed) or problem.spec.progress.deadline.allows(stage)


def _rival(problem: Problem, located: list[ChosenComponent]) -> Array | None:
    """Return the held-out densities that a plain density must add to, where its weight is open."""
    if not located or {"plain", "location_scale"} & set(problem.spec.combination.fixed):
        return None
    return rival_densities(problem, located[0])


def _marginal_tail(problem: Problem, located: list[ChosenComponent]) -> list[ChosenComponent]:
    """Return the tail about the mean of all outputs where only it gives every output a density.

    The one about the location does so too, and does not widen distributions that are far narrower
    than that of all outputs.
    """
    combination = problem.spec.combination
    fixed = set(combination.fixed)
    others = {"plain", "location_scale", "residual_tail"}
    given = "marginal_tail" in fixed or others <= fixed  # the rest goes to it
    if not (given or not located or not combination.wants("residual_tail")):
        return []
    parameters = MarginalTailParameters()
    tail = parameters.fit(problem.rows, problem.spec.settings)
    return [ChosenComponent(parameters, tail, parameters, tail, np.nan)]


def _held_out(
    problem: Problem, chosen: list[ChosenComponent], judged: NDArray[np.integer]
) -> Batches:
    """Return held-out distributions of some rows: closed form for many rows, K-fold for few.

    The leave-one-out of location and scale is not exact, as the residuals of the other rows have
    seen the one left out. Of thousands of rows, one does not move them.
    """
    few = len(judged) == len(problem.rows)
    inexact = few and not all(each.component.exact_held_out for each in chosen)
    inexact = inexact and _in_time(problem, "folds")
    # to be weighed against one that is folded, the linear ones are folded too
    folded = [
        each
        for each in chosen
        if inexact and (each.component.linear or not each.component.exact_held_out)
    ]
    by_folds = _cross_validated(problem, folded) if folded else {}
    found: Batches = {}
    for each in chosen:
        in_closed_form = each.light_component.held_out(judged) if each not in folded else {}
        found |= in_closed_form or {name: by_folds[name] for name in each.component.names}
    return found


def _cross_validated(problem: Problem, chosen: list[ChosenComponent]) -> Batches:
    """Return held-out distributions of all rows by K-fold, at fixed parameters."""
    rows, effort, settings = problem.rows, problem.effort, problem.spec.settings
    folds = effort.many_folds if len(rows) <= effort.few_rows else effort.folds
    fold_of = fold_numbers(len(rows), folds, problem.spec.seed + 2)

    def held_out(fold: int) -> Batches:
        train, test = rows.take(np.flatnonzero(fold_of != fold)), rows.X[fold_of == fold]
        found: Batches = {}
        for each in chosen:
            found |= each.light_parameters.fit(train, settings).predict(test)
        return found

    with blas_limit(1):
        parts = list(ordered_map(held_out, range(folds), problem.spec.n_jobs))
    back = np.argsort(np.argsort(fold_of, kind="stable"))
    return {name: join([part[name] for part in parts]).take(back) for name in parts[0]}


def _weights(problem: Problem, held_out: Batches, judged: NDArray[np.integer]) -> dict[str, float]:
    rows, spec = problem.rows, problem.spec
    Y, weights = rows.Y[judged], rows.weights[judged]
    return combined_weights(held_out, Y, weights, spec.combination, spec.n_jobs)


def _beside(
    problem: Problem, judged: NDArray[np.integer], others: Batches, weights: dict[str, float]
) -> ValidationRows:
    """Return rows that judge one more component, in a mixture with the others."""
    if not others:
        return ValidationRows(judged)
    mixture = MixtureBatch(list(others.values()), np.array([weights[name] for name in others]))
    some = np.linspace(0, len(judged) - 1, min(len(judged), problem.effort.held_out)).astype(int)
    beside = mixture.take(some).pdf_pairs(problem.rows.Y[judged[some]])
    return ValidationRows(judged[some], beside)


def _fitted(
    chosen: list[ChosenComponent], weights: dict[str, float], gate: Gate | None
) -> InnerFit:
    model = Mixture(tuple(each.component for each in chosen), weights, gate)
    parameters = ModelParameters(tuple(each.parameters for each in chosen), weights, gate)
    loss = chosen[0].loss
    return model, parameters, None if np.isnan(loss) else loss
