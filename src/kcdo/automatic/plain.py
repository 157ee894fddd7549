"""One density operator: scales from some rows, α and the output filter from all."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kcdo.automatic.problem import FACTORISATIONS, Lowest, Problem, RowSystem, Side
from kcdo.distributions import NodeBatch
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
from kcdo.operators import DensityOperator
from kcdo.reconstruction import Reconstruction
from kcdo.selection import (
    Wishes,
    default_reference,
    output_side,
    planned_nodes,
    ridge_value,
)
from kcdo.systems import ExactSystem, Groups, effective_size
from kcdo.tuning import (
    DensityChoice,
    Fixed,
    MeanChoice,
    OutputFamily,
    Rows,
    families,
    ridge_above,
    scale_per_length,
    search_alpha,
    search_density,
    search_filter,
    search_mean,
    shortest_length,
)

Array = NDArray[np.floating]

_COARSE_NODES = {1: 80, 2: 24, 3: 10}  # per axis, while the scales are learnt
_FINE_NODES = {1: 256, 2: 40, 3: 14}
_NODES_PER_LENGTH = 3.4  # final node spacing: a quarter of the bandwidth, 1.18 lengths
_ROUGH = 3  # place of Matérn 1/2 among the families


@dataclass(frozen=True, eq=False)
class Tuned:
    """A density operator with chosen parameters, and the system it was solved with."""

    rows: Rows
    choice: DensityChoice
    system: RowSystem
    operator: DensityOperator

    @property
    def side(self) -> Side:
        """The parameters."""
        return Side(self.choice.kernel, self.choice.alpha, self.operator.output)

    def held_out(self, judged: NDArray[np.integer]) -> NodeBatch:
        """Return the leave-one-out distributions of some rows."""
        output, Y = self.operator.output, self.rows.Y
        embedded = np.hstack([output.embed(Y), np.ones((len(Y), 1))])
        smoothed = self.system.held_out(embedded, judged)
        values = output.reconstruct(np.ascontiguousarray(smoothed[:, :-1]))
        masses = self.operator.masses_of(values, smoothed[:, -1])
        return NodeBatch(self.operator.layout, masses)


def mean_choices(problem: Problem) -> list[MeanChoice]:
    """Return kernels of the conditional mean, one of each family, the likeliest first."""
    templates = families(problem.wishes.kernel_x)
    _, sd = weighted_mean_sd(problem.rows.Y, problem.rows.weights)
    least = float(np.min(problem.floor / sd)) ** 2
    return search_mean(templates, problem.rows, problem.effort, least, problem.seed)


def residual_sds(choice: MeanChoice, problem: Problem) -> Array:
    """Return the sd of held-out residuals of the conditional mean, from a few hundred rows."""
    some = problem.few()
    centred = some.Y - np.average(some.Y, axis=0, weights=some.weights)
    alpha = choice.noise / some.weights.sum()
    system = ExactSystem(choice.kernel, Groups.of(some.X, some.weights), alpha)
    errors = centred - system.held_out(centred)
    return np.sqrt(np.average(errors**2, axis=0, weights=some.weights))


def tuned_plain(problem: Problem, means: list[MeanChoice], shape: Array) -> Tuned:
    """Tune the plain form from the scales of the mean, from the medians, and with a rough kernel.

    ``shape`` are the relative sds of the outputs.
    """
    best, p = means[0], problem.rows.X.shape[-1]
    starts = [(best.template, best.kernel)]
    scales = FreeScales(best.template, p)
    if len(scales):
        middle = with_median_scales(best.template, problem.few().X)
        starts.append((best.template, middle))
        rough = families(problem.wishes.kernel_x)[_ROUGH % len(families(problem.wishes.kernel_x))]
        if rough != best.template:
            filled = FreeScales(rough, p).kernel(scales.log_scales_of(best.kernel))
            starts.append((rough, filled))
    guess = max(best.noise, 1e-4) / min(len(problem.rows), problem.effort.rows)
    return tuned(problem, problem.rows, problem.wishes, starts, guess, shape, problem.floor)


def tuned(
    problem: Problem,
    rows: Rows,
    wishes: Wishes,
    starts: list[tuple[Kernel, Kernel]],
    alpha: float,
    shape: Array,
    floor: Array,
) -> Tuned:
    """Learn the scales on some rows, then α and the output filter on all of them."""
    floor_ratio = float(np.max(_resolvable(wishes, rows, floor) / shape))
    least = shortest_length(floor_ratio)
    fixed = _fixed(wishes, rows)
    coarse = _family(wishes, rows, shape, _COARSE_NODES)
    guess = (alpha, np.log(max(0.5 * len(rows) ** (-1 / 6), least, 1e-3)))
    choice = search_density(
        starts,
        rows,
        coarse,
        problem.loss,
        problem.effort,
        guess,
        least,
        "row",
        problem.seed,
        fixed,
    )
    chosen, system = _judged_on_all(problem, rows, wishes, choice, shape, (least, fixed))
    if fixed.ridge is None:
        ridge = ridge_above(floor_ratio, chosen.log_length, chosen.log_ridge)
        chosen = replace(chosen, log_ridge=ridge)
    output = _output(wishes, rows, chosen, shape)
    operator = DensityOperator.of_rows(system, output, rows.Y, problem.positivity)
    return Tuned(rows, chosen, system, operator)


def _judged_on_all(
    problem: Problem,
    rows: Rows,
    wishes: Wishes,
    choice: DensityChoice,
    shape: Array,
    limits: tuple[float, Fixed],
) -> tuple[DensityChoice, RowSystem]:
    """Return the choice with α and filter judged by held-out rows, all others in the fit."""
    judged = problem.judges()
    fine = _family(wishes, rows, shape, _FINE_NODES)
    systems = problem.systems(choice.kernel, rows)
    lowest: Lowest[tuple[DensityChoice, RowSystem]] = Lowest()

    def judge(alpha: float) -> float:
        system = systems(alpha)
        weights = system.held_out_weights(judged)
        found = search_filter(choice, weights, rows, judged, fine, problem.loss, *limits)
        return lowest.offer(found.loss, (replace(found, alpha=alpha), system))

    few = min(len(rows), problem.effort.rows)
    if wishes.alpha is None and few < len(rows):
        search_alpha(judge, choice.alpha, FACTORISATIONS, few / len(rows))
    else:
        judge(choice.alpha)
    return lowest.best()


def _fixed(wishes: Wishes, rows: Rows) -> Fixed:
    """Return the ridges that the user gave, as numbers."""
    n, m = effective_size(rows.weights), planned_nodes(wishes.reference, rows.Y)
    given = wishes.alpha, wishes.alpha_prime
    return Fixed(*(None if ridge is None else ridge_value(ridge, None, n, m) for ridge in given))


def _resolvable(wishes: Wishes, rows: Rows, floor: Array) -> Array:
    """Return least sds of the output kernel: the floor, and what a grid of the user resolves."""
    reference = wishes.reference
    if not isinstance(reference, UniformBox) or reference.nodes is None:
        return floor
    d = len(floor)
    unit = DensityKernel(with_output_sds(wishes.kernel_y or Gaussian(), np.ones(d)), d)
    return np.maximum(floor, 1.001 * reference.realise(rows.Y).spacing / unit.scales)


def _family(wishes: Wishes, rows: Rows, shape: Array, nodes: dict[int, int]) -> OutputFamily:
    """Return output sides on a grid of at most so many nodes per axis, or on scattered points."""
    d = rows.Y.shape[1]
    reference = wishes.reference or default_reference(rows.Y, rows.weights, shape, 0)
    if isinstance(reference, UniformBox) and d in nodes:
        fewer = np.minimum(nodes[d] if reference.nodes is None else reference.nodes, nodes[d])
        reference = replace(reference, nodes=fewer.tolist())
    kernel = wishes.kernel_y or Gaussian()
    return OutputFamily(reference.realise(rows.Y), kernel, shape, wishes.filter or Tikhonov())


def _output(wishes: Wishes, rows: Rows, choice: DensityChoice, shape: Array) -> Reconstruction:
    """Return the final output side: nodes as fine as the chosen filter is sharp."""
    family = _family(wishes, rows, shape, {})
    kernel = family.density_kernel(choice.log_length, choice.log_ridge).kernel
    d = rows.Y.shape[1]
    reference = wishes.reference
    if reference is None and d in MAX_NODES:
        sds = np.sqrt(DensityKernel(kernel, d).covariance().diagonal())
        lower, upper = UniformBox().corners(rows.Y, sds)
        lengths = sds / scale_per_length(float(np.exp(choice.log_ridge)))
        wanted = _NODES_PER_LENGTH * (upper - lower) / lengths
        counts = np.clip(np.ceil(wanted), 32, MAX_NODES[d]).astype(int)
        reference = UniformBox(tuple(lower), tuple(upper), nodes=tuple(counts.tolist()))
    tuned = replace(
        wishes,
        kernel_y=kernel,
        alpha_prime=float(np.exp(choice.log_ridge)),
        reference=reference,
    )
    return output_side(tuned, rows.Y, rows.weights, None)


def refitted(problem: Problem, side: Side, rows: Rows) -> DensityOperator:
    """Return the operator of other rows, at the same parameters."""
    system = problem.systems(side.kernel, rows)(side.alpha)
    return DensityOperator.of_rows(system, side.output, rows.Y, problem.positivity)
