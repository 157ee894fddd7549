"""One density operator: scales from some rows, α and the output filter from all."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.automatic.problem import DensitySystem, Lowest, Problem, Side, search_memory
from kcdo.distributions import NodeBatch, layout_of
from kcdo.kernels import (
    DensityKernel,
    FreeScales,
    Gaussian,
    Kernel,
    weighted_mean_sd,
    with_median_scales,
    with_output_sds,
)
from kcdo.linalg import Tikhonov
from kcdo.measures import MAX_NODES, UniformBox
from kcdo.operators import DensityOperator, node_masses
from kcdo.reconstruction import Reconstruction
from kcdo.selection import (
    Wishes,
    default_reference,
    output_side,
    planned_nodes,
    ridge_value,
)
from kcdo.systems import (
    ExactSystem,
    Groups,
    NearestRows,
    effective_size,
    has_metric,
    rows_used,
)
from kcdo.tuning import (
    DensityChoice,
    DensitySearch,
    FilterSearch,
    Fixed,
    Leave,
    MeanChoice,
    OutputFamily,
    Rows,
    Start,
    ridge_above,
    scale_per_length,
    search_alpha,
    search_mean,
    shortest_length,
)

Systems = Callable[[Kernel, Rows], Callable[[float], DensitySystem]]

_COARSE_NODES = {1: 80, 2: 28, 3: 10}  # per axis, while the scales are learnt
_FINE_NODES = {1: 256, 2: 56, 3: 20}
_MANY_NODES = 2048
_NODES_PER_LENGTH = 3.4  # final node spacing: a quarter of the bandwidth, 1.18 lengths
_MOST_REPEAT = 0.5  # share of rows beyond which inputs come back as a rule
_FEW_FACTORISATIONS = 2
_FACTORISATIONS = 4  # of the system of all rows, in the search for α
_NEAR_JUDGEMENTS = 6  # of the systems of near rows, which cost little
_FIRST_NEAR_NOISE = 0.1


@dataclass(frozen=True, eq=False)
class Judges:
    """Rows by whose held-out loss a fit to all is judged, perhaps in a mixture with other forms."""

    rows: NDArray[np.integer]
    beside: Array | None = None  # their densities at the outputs of these rows


@dataclass(frozen=True, eq=False)
class Tuned:
    """A density operator with chosen parameters, and the system it was solved with."""

    rows: Rows
    choice: DensityChoice
    system: DensitySystem
    operator: DensityOperator
    fewer: Reconstruction  # the output side on fewer nodes, which weights of forms are found with

    @property
    def side(self) -> Side:
        """The parameters."""
        return Side(self.choice.kernel, self.choice.alpha, self.operator.output)

    @property
    def light_side(self) -> Side:
        """The parameters, with fewer nodes."""
        return Side(self.choice.kernel, self.choice.alpha, self.fewer)

    def held_out(self, judged: NDArray[np.integer]) -> NodeBatch:
        """Return the leave-one-out distributions of some rows."""
        measure, Y = self.fewer.measure, self.rows.Y
        weights: Any = self.system.held_out_weights(judged)
        sums = weights.sum(axis=1)
        if isinstance(self.system, NearestRows):
            used, weights = rows_used(weights)
            Y = Y[used]
        values = self.fewer.reconstruct(weights @ self.fewer.embed(Y))
        marginal = self.fewer.combine(self.rows.weights[None], self.rows.Y)[0]
        marginal /= marginal @ measure.weights
        positivity = self.operator.positivity
        masses = node_masses(values, sums, measure, marginal, positivity)
        return NodeBatch(layout_of(measure, self.fewer.kernel.scales), masses)


def mean_choices(problem: Problem) -> list[MeanChoice]:
    """Return kernels of the conditional mean, one of each family, the likeliest first.

    Where inputs have long tails, those of kernels that draw them in, or not, whichever are
    likelier; the same family of the others comes last.
    """
    found = [
        search_mean(each, problem.rows, problem.effort, problem.least_noise, problem.seed)
        for each in problem.templates
    ]
    found.sort(key=lambda choices: choices[0].loss)
    counterparts = problem.variants(found[0][0].template)[1:]
    others = [choice for choices in found[1:] for choice in choices]
    return found[0] + [choice for choice in others if choice.template in counterparts]


def residual_sds(choice: MeanChoice, problem: Problem) -> Array:
    """Return the sd of held-out residuals of the conditional mean, from a few hundred rows."""
    some = problem.few()
    centred = some.Y - np.average(some.Y, axis=0, weights=some.weights)
    alpha = choice.noise / some.weights.sum()
    groups, n_jobs = Groups.of(some.X, some.weights), problem.wishes.n_jobs
    system = ExactSystem(choice.kernel, groups, alpha, n_jobs=n_jobs)
    errors = centred - system.held_out(centred)
    sds = np.sqrt(np.average(errors**2, axis=0, weights=some.weights))
    _, all_sds = weighted_mean_sd(problem.rows.Y, problem.rows.weights)
    return np.maximum(sds, 1e-6 * all_sds)  # some rows may all be equal


def tuned_plain(
    problem: Problem, means: list[MeanChoice], residual_sd: Array, rival: Array | None = None
) -> Tuned:
    """Tune the plain form, all families from the scales of the mean and one from the medians.

    The mean says little where the distribution varies with x and its mean does not: the widths of
    several outputs begin at those of their residuals, and once of the outputs themselves. A form
    that adds nothing to the held-out densities of a rival, at the rows of the first race, is not
    refined.
    """
    rows, best = problem.rows, means[0]
    kernels = [(best.template, best.kernel)]
    if len(FreeScales(best.template, rows.X.shape[-1])):
        kernels += [(choice.template, choice.kernel) for choice in means[1:]]
        kernels.append((best.template, with_median_scales(best.template, problem.few().X)))
    output = _Outputs(problem.wishes, rows, problem.floor)
    starts = [output.start(*pair, residual_sd) for pair in kernels]
    if rows.Y.shape[1] > 1:
        _, sd = weighted_mean_sd(rows.Y, rows.weights)
        starts.append(output.start(*kernels[0], sd))
    guess = max(best.noise, 1e-4) / min(len(rows), problem.effort.race_rows)
    return tuned(problem, output, starts, guess, _FACTORISATIONS, rival)


def tuned_residual(
    problem: Problem, rows: Rows, kernels: list[tuple[Kernel, Kernel]], floor: Array
) -> Tuned:
    """Tune the operator of residuals, all of which are about 1, from templates and kernels."""
    wishes = replace(
        problem.wishes, kernel_y=None, reference=None, alpha=None, alpha_prime=None, filter=None
    )
    output = _Outputs(wishes, rows, floor)
    starts = [output.start(*pair, np.ones(rows.Y.shape[1])) for pair in kernels]
    effort = replace(problem.effort, last_rows=problem.effort.rows)  # they vary slowly with x
    return tuned(replace(problem, effort=effort), output, starts, 1e-2, _FEW_FACTORISATIONS)


def tuned(
    problem: Problem,
    output: "_Outputs",
    starts: list[Start],
    alpha: float,
    factorisations: int,
    rival: Array | None = None,
) -> Tuned:
    """Learn the scales on some rows, then α and the output filter on all of them.

    ``alpha`` is a first guess; the system of all rows is factored so many times at most.
    """
    rows, least = output.rows, starts[0].least_length
    length = max(0.5 * len(rows) ** (-1 / 6), float(least.max()), 1e-3)
    search = DensitySearch(
        rows, problem.loss, problem.effort, _leave(rows), problem.seed, output.fixed, rival
    )
    choice = search.best(starts, alpha, float(np.log(length)))
    most = 1 if choice.dispensable else factorisations
    if output.fixed.alpha is None:  # α falls at least with the number of rows
        effort = problem.effort
        few = effort.race_rows if choice.dispensable else effort.last_rows
        choice = replace(choice, alpha=choice.alpha * min(few / len(rows), 1.0))
    judges = Judges(problem.judges(problem.effort.last_rows))
    found = _judged_on_all(problem, problem.systems, output, choice, most, judges)
    return _settled(problem, output, *found)


def tuned_nearest(
    problem: Problem, plain: Tuned, means: list[MeanChoice], judges: Judges
) -> Tuned | None:
    """Tune the operator of the rows near each query, whose metric is that of a kernel found before.

    It is judged beside the other forms: what they say well it need not say. None where no kernel
    has a metric.
    """
    rows = problem.rows
    output = _Outputs(problem.wishes, rows, problem.floor)
    alpha = output.fixed.alpha or _FIRST_NEAR_NOISE / rows.weights.sum()
    systems, lowest = problem.nearest_systems, Lowest[tuple[DensityChoice, DensitySystem]]()
    kernels = [means[0].kernel, plain.choice.kernel]
    for kernel in kernels[: 1 if kernels[0] == kernels[1] else 2]:
        if has_metric(kernel, rows.X):
            start = replace(plain.choice, kernel=kernel, alpha=alpha, dispensable=False)
            found = _judged_on_all(problem, systems, output, start, _NEAR_JUDGEMENTS, judges)
            lowest.offer(found[0].loss, found)
    return None if lowest.kept is None else _settled(problem, output, *lowest.kept)


def _settled(
    problem: Problem, output: "_Outputs", choice: DensityChoice, system: DensitySystem
) -> Tuned:
    """Return the operator of all rows at a choice, above its floor and on nodes of its own."""
    rows, chosen = output.rows, output.above_floor(choice)
    side = output.final(chosen)
    operator = DensityOperator.of_rows(system, side, rows.Y, problem.positivity)
    fewer = side
    if side.measure.n_nodes > _MANY_NODES:
        measure = output.family(chosen.shape, _FINE_NODES).measure
        fewer = replace(side, measure=measure) if measure.n_nodes < side.measure.n_nodes else side
    return Tuned(rows, chosen, system, operator, fewer)


def _leave(rows: Rows) -> Leave:
    """Return what is held out while scales are learnt: single rows, if most inputs repeat.

    Where a few inputs repeat, their twins would reward scales that remember and do not generalise;
    how much to remember is found on all rows.
    """
    return "row" if rows.share_repeated > _MOST_REPEAT else "group"


def _judged_on_all(
    problem: Problem,
    systems: Systems,
    output: "_Outputs",
    choice: DensityChoice,
    judgements: int,
    judges: Judges,
) -> tuple[DensityChoice, DensitySystem]:
    """Return the choice with α and filter judged by held-out rows, all others in the fit."""
    rows, fixed = output.rows, output.fixed
    judged = judges.rows
    fine = output.family(choice.shape, _FINE_NODES)
    n_jobs = problem.wishes.n_jobs
    filters = FilterSearch(rows, judged, fine, problem.loss, fixed, judges.beside, n_jobs)
    of_kernel = lru_cache(maxsize=1)(lambda kernel: systems(kernel, rows))
    lowest: Lowest[tuple[DensityChoice, DensitySystem]] = Lowest()

    def judge(kernel: Kernel, alpha: float) -> float:
        system = of_kernel(kernel)(alpha)
        start = choice if lowest.kept is None else lowest.kept[0]
        weights = system.held_out_weights(judged)
        found = filters.best(start, weights)
        return lowest.offer(found.loss, (replace(found, kernel=kernel, alpha=alpha), system))

    if fixed.alpha is None and len(rows) > problem.effort.last_rows:
        search_alpha(partial(judge, choice.kernel), choice.alpha, judgements)
    else:
        judge(choice.kernel, choice.alpha)
    if fixed.alpha is None and not choice.dispensable and problem.may_remember(rows):
        total, best = float(rows.weights.sum()), lowest.best()[0]
        search_memory(
            lambda kernel, noise: judge(kernel, noise / total),
            best.kernel,
            best.alpha * total,
            lowest.loss,
        )
    return lowest.best()


@dataclass(frozen=True, eq=False)
class _Outputs:
    """The output sides that the wishes leave open, for the outputs of some rows."""

    wishes: Wishes
    rows: Rows
    floor: Array  # least sd of the output kernel

    @cached_property
    def fixed(self) -> Fixed:
        """The ridges that the user gave, as numbers."""
        wishes, rows = self.wishes, self.rows
        n, m = effective_size(rows.weights), planned_nodes(wishes.reference, rows.Y)
        given = wishes.alpha, wishes.alpha_prime
        values = (None if ridge is None else ridge_value(ridge, None, n, m) for ridge in given)
        return Fixed(*values)

    def start(self, template: Kernel, kernel: Kernel, shape: Array) -> Start:
        """Return where a search begins; ``shape`` are the relative sds of the outputs."""
        least = shortest_length(self._resolvable / shape, self.fixed.ridge)
        return Start(template, kernel, self.family(shape, _COARSE_NODES), least)

    def family(self, shape: Array, nodes: dict[int, int]) -> OutputFamily:
        """Return output sides on a grid of at most so many nodes per axis, or on points."""
        wishes, rows, d = self.wishes, self.rows, self.rows.Y.shape[1]
        reference = wishes.reference or default_reference(rows.Y, rows.weights, shape, 0)
        if isinstance(reference, UniformBox) and d in nodes:
            fewer = np.minimum(nodes[d] if reference.nodes is None else reference.nodes, nodes[d])
            reference = replace(reference, nodes=fewer.tolist())
        kernel = wishes.kernel_y or Gaussian()
        return OutputFamily(reference.realise(rows.Y), kernel, shape, wishes.filter or Tikhonov())

    def above_floor(self, choice: DensityChoice) -> DensityChoice:
        """Return the choice with α' so small that the kernel is not below its floor."""
        given = self.wishes.kernel_y is not None and self.wishes.kernel_y.fitted
        if given or self.fixed.ridge is not None:
            return choice
        ratio = self._resolvable / choice.shape
        return replace(choice, log_ridge=ridge_above(ratio, choice.log_lengths, choice.log_ridge))

    def final(self, choice: DensityChoice) -> Reconstruction:
        """Return the final output side: nodes as fine as the chosen filter is sharp."""
        wishes, rows, d = self.wishes, self.rows, self.rows.Y.shape[1]
        family = self.family(choice.shape, {})
        kernel = family.density_kernel(choice.log_lengths, choice.log_ridge).kernel
        reference = wishes.reference
        if reference is None and d in MAX_NODES:
            sds = np.sqrt(DensityKernel(kernel, d).covariance().diagonal())
            lower, upper = UniformBox().corners(rows.Y, sds)
            lengths = sds / scale_per_length(float(np.exp(choice.log_ridge)))
            wanted = _NODES_PER_LENGTH * (upper - lower) / lengths
            counts = np.clip(np.ceil(wanted), 32, MAX_NODES[d]).astype(int)
            reference = UniformBox(tuple(lower), tuple(upper), nodes=tuple(counts.tolist()))
        ridge = float(np.exp(choice.log_ridge))
        chosen = replace(wishes, kernel_y=kernel, alpha_prime=ridge, reference=reference)
        return output_side(chosen, rows.Y, rows.weights, None)

    @cached_property
    def _resolvable(self) -> Array:
        """Least sds of the output kernel: the floor, and what a grid of the user resolves."""
        reference = self.wishes.reference
        if not isinstance(reference, UniformBox) or reference.nodes is None:
            return self.floor
        d = len(self.floor)
        unit = DensityKernel(with_output_sds(self.wishes.kernel_y or Gaussian(), np.ones(d)), d)
        return np.maximum(self.floor, 1.001 * reference.realise(self.rows.Y).spacing / unit.scales)


def refitted(
    problem: Problem, side: Side, rows: Rows, systems: Systems | None = None
) -> DensityOperator:
    """Return the operator of other rows, at the same parameters; by other systems if given."""
    system = (systems or problem.systems)(side.kernel, rows)(side.alpha)
    return DensityOperator.of_rows(system, side.output, rows.Y, problem.positivity)
