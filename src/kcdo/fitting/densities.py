"""Density operators whose parameters are chosen: scales from some rows, α and filter from all."""

from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np

from kcdo.arrays import Array
from kcdo.components import (
    DensityOperator,
    NearestDensity,
    NearestParameters,
    OperatorParameters,
    PlainDensity,
)
from kcdo.fitting.filter_search import FilterSearch
from kcdo.fitting.left_out import Leave
from kcdo.fitting.means import residual_sds
from kcdo.fitting.metric import Metric
from kcdo.fitting.open_outputs import OpenOutputs
from kcdo.fitting.pilot import MOST_REPEAT
from kcdo.fitting.problem import (
    ChosenComponent,
    Problem,
    SoFar,
    Unfactored,
    ValidationRows,
)
from kcdo.fitting.races import DensityChoice, DensitySearch, Start
from kcdo.fitting.rules import plain_by_rule
from kcdo.fitting.search import BestSoFar, search_alpha, search_nugget
from kcdo.fitting.weighing import rows_beside
from kcdo.kernels import FreeScales, Kernel, has_metric, weighted_mean_sd, with_median_scales
from kcdo.reconstruction import Reconstruction
from kcdo.rows import Rows
from kcdo.systems import System

_FIRST_NEAR_NOISE = 0.1
_TAIL_SHARE = 0.01  # so that no single row decides


@dataclass(frozen=True, eq=False)
class ChosenOperator:
    """A density operator of all rows at chosen parameters, and the same on fewer nodes."""

    choice: DensityChoice
    operator: DensityOperator
    light_operator: DensityOperator
    on_centres: bool = False

    @property
    def parameters(self) -> OperatorParameters:
        """Input kernel, α and output side."""
        return self._parameters(self.operator.output)

    @property
    def light_parameters(self) -> OperatorParameters:
        """The parameters, with fewer nodes."""
        return self._parameters(self.light_operator.output)

    def _parameters(self, output: Reconstruction) -> OperatorParameters:
        choice = self.choice
        return OperatorParameters(choice.kernel, choice.alpha, output, self.on_centres)


@dataclass(frozen=True, eq=False)
class ChosenPlain(ChosenComponent):
    """The plain density as a component, with what a search for other densities begins at."""

    choice: DensityChoice


def plain_density(problem: Problem, so_far: SoFar) -> list[ChosenComponent]:
    """Choose the plain density beside location and scale; the one of a rule after the deadline."""
    if not problem.in_time("the search for a plain density"):
        return [plain_by_rule(problem)]
    with problem.spec.progress.stage("plain density"):
        means = list(so_far.means)
        rival = _rival(problem, so_far.offering("location_scale"))
        sds = residual_sds(means[0], problem)
        chosen = choose_plain(problem, means[:1] if problem.metrics else means, sds, rival)
        return [plain_component(chosen)]


def nearest_rows(problem: Problem, so_far: SoFar) -> list[ChosenComponent]:
    """Choose the density of near rows beside weighed components, where centres are far apart."""
    rows, plain = problem.rows, so_far.offering("plain")
    many = not problem.every_input and len(rows) > problem.effort.weighed_rows
    wanted = many and problem.spec.combination.wants("nearest")
    if not wanted or not isinstance(plain, ChosenPlain) or not problem.in_time("nearest rows"):
        return []
    with problem.spec.progress.stage("nearest rows"):
        judges = rows_beside(problem, so_far)
        found = choose_nearest(problem, plain.choice, so_far.means[0], judges)
        return [] if found is None else [found]


def _rival(problem: Problem, located: ChosenComponent | None) -> Array | None:
    """Return the held-out densities that a plain density must add to, where its weight is open."""
    if located is None or {"plain", "location_scale"} & set(problem.spec.combination.fixed):
        return None
    return rival_densities(problem, located)


def rival_densities(problem: Problem, located: ChosenComponent) -> Array:
    """Return held-out densities of location and scale, with a little tail, at rows of a race."""
    judged = problem.rows.sampled(problem.effort.race_rows, problem.spec.seed)
    Y = problem.rows.Y[judged]
    parts = located.light_component.held_out(judged)
    density, tail = (parts[name].pdf_pairs(Y) for name in ("location_scale", "residual_tail"))
    return (1.0 - _TAIL_SHARE) * density + _TAIL_SHARE * tail


def choose_plain(
    problem: Problem, means: list[Metric], residual_sd: Array, rival: Array | None = None
) -> ChosenOperator:
    """Choose the plain density, all families from the scales of the mean and one from the medians.

    The mean says little where the distribution varies with x and its mean does not: the widths of
    several outputs begin at those of their residuals, and once of the outputs themselves. A density
    that adds nothing to the held-out densities of a rival, at the rows of the first race, is not
    refined.
    """
    rows, best = problem.rows, means[0]
    if problem.metrics:  # one component of several, from scales that all rows have learnt
        problem = _with_last_rows(problem, problem.effort.race_rows)
    kernels = [(best.template, best.kernel)]
    if problem.few_per_column:  # scales that the regression has learnt, at a price
        kernels = [(best.kernel, best.kernel)]
    elif len(FreeScales(best.template, rows.X.shape[-1])) and not problem.densities_on_centres:
        kernels += [(choice.template, choice.kernel) for choice in means[1:]]
        middle = with_median_scales(best.template, problem.learning_rows().X)
        kernels.append((best.template, middle))
    outputs = OpenOutputs(problem.spec, rows, problem.floor)
    starts = [outputs.start(*pair, residual_sd) for pair in kernels]
    if rows.Y.shape[1] > 1:
        _, sd = weighted_mean_sd(rows.Y, rows.weights)
        starts.append(outputs.start(*kernels[0], sd))
    guess = max(best.noise, 1e-4) / min(len(rows), problem.effort.race_rows)
    return _chosen(problem, outputs, starts, guess, problem.effort.factorisations, rival)


def choose_residual(
    problem: Problem, rows: Rows, kernels: list[tuple[Kernel, Kernel]], floor: Array
) -> ChosenOperator:
    """Choose the density of residuals, all of which are about 1, from templates and kernels."""
    effort = problem.effort
    # they vary slowly with x; in a learnt metric, smoothed rows know the rest
    problem = _with_last_rows(problem, effort.race_rows if problem.metrics else effort.rows)
    open_spec = replace(
        problem.spec, kernel_y=None, reference=None, alpha=None, alpha_prime=None, filter=None
    )
    outputs = OpenOutputs(open_spec, rows, floor)
    starts = [outputs.start(*pair, np.ones(rows.Y.shape[1])) for pair in kernels]
    return _chosen(problem, outputs, starts, 1e-2, effort.residual_factorisations)


def _with_last_rows(problem: Problem, n: int) -> Problem:
    """Return the problem with so many rows at most for the last searches of scales."""
    settings = problem.spec.settings
    effort = replace(settings.effort, last_rows=n, rows=min(n, settings.effort.rows))
    settings = replace(settings, effort=effort)
    return replace(problem, spec=replace(problem.spec, settings=settings))


def choose_nearest(
    problem: Problem, plain: DensityChoice, mean: Metric, judges: ValidationRows
) -> ChosenComponent | None:
    """Choose the density of the rows near each query, in the metric of a kernel found before.

    It is judged beside the other components: what they say well it need not say. None where no
    kernel has a metric.
    """
    rows = problem.rows
    outputs = OpenOutputs(problem.spec, rows, problem.floor)
    alpha = outputs.fixed.alpha or _FIRST_NEAR_NOISE / rows.total
    near, best = problem.spec.settings.near, BestSoFar[tuple[DensityChoice, System]]()
    kernels = [mean.kernel, plain.kernel]
    for kernel in kernels[: 1 if kernels[0] == kernels[1] else 2]:
        if has_metric(kernel, rows.X):
            start = replace(plain, kernel=kernel, alpha=alpha, dispensable=False)
            judgements = problem.effort.near_judgements
            found = _judged_on_all(problem, near, outputs, start, judgements, judges)
            best.offer(found[0].loss, found)
    if best.kept is None:
        return None
    chosen = _settled(problem, outputs, *best.kept)
    full, light = chosen.parameters, chosen.light_parameters
    return ChosenComponent(
        NearestParameters(full.kernel, full.alpha, full.output),
        NearestDensity(chosen.operator),
        NearestParameters(light.kernel, light.alpha, light.output),
        NearestDensity(chosen.light_operator),
        chosen.choice.loss,
    )


def plain_component(chosen: ChosenOperator) -> ChosenPlain:
    """Return a chosen operator as a component."""
    return ChosenPlain(
        chosen.parameters,
        PlainDensity(chosen.operator),
        chosen.light_parameters,
        PlainDensity(chosen.light_operator),
        chosen.choice.loss,
        chosen.choice,
    )


def _chosen(
    problem: Problem,
    outputs: OpenOutputs,
    starts: list[Start],
    alpha: float,
    factorisations: int,
    rival: Array | None = None,
) -> ChosenOperator:
    """Learn the scales on some rows, then α and the output filter on all of them.

    ``alpha`` is a first guess; the system of all rows is factored so many times at most.
    """
    rows, least, effort = outputs.rows, starts[0].least_length, problem.effort
    length = max(0.5 * len(rows) ** (-1 / 6), float(least.max()), 1e-3)
    search = DensitySearch(
        rows,
        problem.loss,
        effort,
        _leave(rows),
        problem.spec.seed,
        outputs.fixed,
        rival,
        problem.spec.n_jobs,
    )
    choice = search.best(starts, alpha, float(np.log(length)))
    most = 1 if choice.dispensable else factorisations
    if outputs.fixed.alpha is None:  # α falls at least with the number of rows
        few = effort.race_rows if choice.dispensable else effort.last_rows
        choice = replace(choice, alpha=choice.alpha * min(few / len(rows), 1.0))
    # in a learnt metric it is one component of several: what hundreds of rows say is enough
    judges = ValidationRows(
        problem.judged_rows(effort.held_out if problem.metrics else effort.last_rows)
    )
    found = _judged_on_all(problem, problem.unfactored_for_density, outputs, choice, most, judges)
    chosen = _settled(problem, outputs, *found)
    return replace(chosen, on_centres=problem.densities_on_centres)


def _settled(
    problem: Problem, outputs: OpenOutputs, choice: DensityChoice, system: System
) -> ChosenOperator:
    """Return the operator of all rows at a choice, above its floor and on nodes of its own."""
    rows, chosen, effort = outputs.rows, outputs.above_floor(choice), problem.effort
    side = outputs.final(chosen)
    positivity = problem.spec.settings.positivity
    operator = light = DensityOperator.solved(system, side, rows.Y, positivity)
    if side.measure.n_nodes > effort.many_nodes:
        measure = outputs.family(chosen.shape, effort.fine_nodes).measure
        if measure.n_nodes < side.measure.n_nodes:
            assert operator.training is not None
            fewer = replace(side, measure=measure)
            light = DensityOperator.by_weights(operator.training, fewer, positivity)
    return ChosenOperator(chosen, operator, light)


def _leave(rows: Rows) -> Leave:
    """Return what is held out while scales are learnt: single rows, if most inputs repeat.

    Where a few inputs repeat, their twins would reward scales that remember and do not generalise;
    a nugget of repeated inputs is found on all rows.
    """
    return "row" if rows.share_repeated > MOST_REPEAT else "group"


def _judged_on_all(
    problem: Problem,
    unfactored: Unfactored,
    outputs: OpenOutputs,
    choice: DensityChoice,
    judgements: int,
    judges: ValidationRows,
) -> tuple[DensityChoice, System]:
    """Return the choice with α and filter judged by held-out rows, all others in the fit."""
    rows, fixed, effort = outputs.rows, outputs.fixed, problem.effort
    filters = FilterSearch(
        rows,
        judges.rows,
        outputs.family(choice.shape, effort.fine_nodes),
        problem.loss,
        fixed,
        judges.beside,
        max(1, effort.filter_steps // 3) if choice.dispensable else effort.filter_steps,
        problem.spec.n_jobs,
    )
    of_kernel = lru_cache(maxsize=1)(lambda kernel: unfactored(kernel, rows))
    best: BestSoFar[tuple[DensityChoice, System]] = BestSoFar()

    def judge(kernel: Kernel, alpha: float) -> float:
        system = of_kernel(kernel).factor(alpha)
        start = choice if best.kept is None else best.kept[0]
        found = filters.best(start, system.held_out_weights(judges.rows))
        return best.offer(found.loss, (replace(found, kernel=kernel, alpha=alpha), system))

    if fixed.alpha is None and len(rows) > effort.last_rows:
        search_alpha(partial(judge, choice.kernel), choice.alpha, judgements)
    else:
        judge(choice.kernel, choice.alpha)
    if fixed.alpha is None and not choice.dispensable and problem.may_have_nugget(rows):
        found = best.best()[0]
        search_nugget(
            lambda kernel, noise: judge(kernel, noise / rows.total),
            found.kernel,
            found.alpha * rows.total,
            best.loss,
        )
    return best.best()
