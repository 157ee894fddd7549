"""``selection="auto"``: every open parameter by held-out losses, then a combination."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from kcdo.combination import (
    Combination,
    CombinedOperator,
    Located,
    combined_weights,
    marginal_tail,
    student_tail,
)
from kcdo.distributions import AffineBatch, Batch, NodeBatch, Positivity, join
from kcdo.errors import DiscreteOutputWarning
from kcdo.kernels import (
    FreeScales,
    Gaussian,
    Kernel,
    weighted_mean_sd,
    with_median_scales,
)
from kcdo.linalg import Tikhonov
from kcdo.location import (
    LocationParameters,
    Residuals,
    fit_location_scale,
    log_squares,
)
from kcdo.measures import MAX_NODES, UniformBox
from kcdo.operators import DensityOperator
from kcdo.reconstruction import Reconstruction
from kcdo.selection import Wishes, default_reference, heuristic, output_side
from kcdo.systems import Exact, ExactSystem, Groups, Nystrom, NystromRows, Solver
from kcdo.tuning import (
    BalancedScore,
    DensityChoice,
    Effort,
    LogScore,
    Loss,
    MeanChoice,
    OutputFamily,
    Rows,
    families,
    ridge_above,
    search_alpha,
    search_density,
    search_filter,
    search_mean,
    shortest_length,
)

Array = NDArray[np.floating]
RowSystem = ExactSystem | NystromRows

_COARSE_NODES = {1: 80, 2: 32, 3: 12}  # per axis, while the scales are learnt
_FINE_NODES = {1: 256, 2: 48, 3: 16}
_NODES_PER_LENGTH = 3.4  # final node spacing: a quarter of the bandwidth, 1.18 lengths
_LARGEST_RESIDUAL = 7.0
_FACTORISATIONS = 4  # of the system of all rows, in the search for α
_FOLDS = 10
_MANY_FOLDS = 20
_FEW_ROWS = 600
_FEWEST_ROWS = 20
_FEW_VALUES = 200
_ALL_ROWS = 2000  # up to here every row is held out for the weights
_WIDE_NOISE = 0.5  # least noise ratio of the log squared residuals: they are noisy
_ROUGH = 3  # place of Matérn 1/2 among the families


@dataclass(frozen=True, eq=False)
class AutomaticFit:
    """A combined model and what was chosen on the way."""

    operator: CombinedOperator
    system: RowSystem
    importances: Array
    loss: float | None
    chosen: "Chosen"


@dataclass(frozen=True, eq=False)
class Side:
    """Parameters of one density operator: input kernel, α, and the whole output side."""

    kernel: Kernel
    alpha: float
    output: Reconstruction


@dataclass(frozen=True, eq=False)
class Chosen:
    """All that was chosen: enough to fit the same model to other rows."""

    plain: Side
    location: LocationParameters | None
    residual: Side | None
    weights: dict[str, float]
    floor: Array


@dataclass(frozen=True, eq=False)
class Problem:
    """The rows and what the user asked for."""

    wishes: Wishes
    rows: Rows
    solver: Solver
    combination: Combination
    positivity: Positivity
    floor: Array
    effort: Effort = field(default_factory=Effort)

    @property
    def loss(self) -> Loss:
        """The held-out loss that chooses: log score, and CRPS where it is defined."""
        return BalancedScore() if self.rows.Y.shape[1] == 1 else LogScore()

    @property
    def seed(self) -> int:
        """Seed of every subsample."""
        return self.wishes.seed

    def systems(self, kernel: Kernel, rows: Rows) -> Callable[[float], RowSystem]:
        """Return the ridge systems of some rows, as a function of α."""
        n_jobs = self.wishes.n_jobs
        if isinstance(self.solver, Nystrom):
            rng = np.random.default_rng(self.seed)
            m = self.solver.n_centres(len(rows))
            some = rows.X[rng.permutation(len(rows))[: 20 * m]]
            centres = self.solver.choose(kernel, some, m, rng)
            return NystromRows(kernel, centres, rows.X, rows.weights, 1.0, n_jobs=n_jobs).with_alpha
        groups, solver = Groups.of(rows.X, rows.weights), self.solver
        return lambda alpha: ExactSystem(kernel, groups, alpha, solver, n_jobs=n_jobs)

    def few(self) -> Rows:
        """Return the rows on which scales are learnt."""
        n = len(self.rows)
        if n <= self.effort.rows:
            return self.rows
        rng = np.random.default_rng(self.seed)
        return self.rows.take(np.sort(rng.choice(n, self.effort.rows, replace=False)))

    def judges(self) -> NDArray[np.integer]:
        """Return the rows whose held-out loss judges the fit to all rows."""
        n = len(self.rows)
        if n <= _ALL_ROWS:
            return np.arange(n)
        rng = np.random.default_rng(self.seed + 1)
        return np.sort(rng.choice(n, self.effort.held_out, replace=False))


def automatic_fit(
    wishes: Wishes,
    rows: Rows,
    solver: Solver,
    combination: Combination,
    positivity: Positivity,
) -> AutomaticFit:
    """Choose everything that is open and fit the combination.

    Of a handful of rows, or of outputs that do not vary, nothing can be learnt: the heuristic
    rule then fits the plain form.
    """
    floor = discrete_floor(rows.Y, rows.weights)
    if not _may_combine(wishes, positivity):
        combination = Combination(1.0, 0.0, 0.0, 0.0)
    problem = Problem(wishes, rows, solver, combination, positivity, floor)
    if len(rows) < _FEWEST_ROWS or np.any(np.ptp(rows.Y, axis=0) == 0):
        return _fit_heuristic(problem)
    return _fit(problem)


def tuned_wishes(wishes: Wishes, rows: Rows, positivity: Positivity) -> Wishes:
    """Return the wishes for a streamed fit, with what a pilot sample can choose: all but α.

    A stream keeps sums, and those of the location-scale form do not merge: it fits the plain form.
    """
    if len(rows) < _FEWEST_ROWS or np.any(np.ptp(rows.Y, axis=0) == 0):
        return wishes
    floor = discrete_floor(rows.Y, rows.weights)
    problem = Problem(wishes, rows, Exact(), Combination(), positivity, floor)
    means = _mean_choices(problem)
    tuned = _tuned_plain(problem, means, _residual_sds(means[0], problem))
    output = tuned.operator.output
    return replace(
        wishes,
        kernel_x=tuned.choice.kernel,
        kernel_y=output.kernel.kernel,
        alpha_prime=output.ridge,
    )


def discrete_floor(Y: Array, weights: Array) -> Array:
    """Return gap/√12 for each output whose values repeat, 0 for the others, (d,).

    The density of a discrete output grows without limit as its kernel narrows; the sd of a value
    rounded to multiples of a gap is where that stops meaning anything. Warns where the output is
    plainly discrete.
    """
    floors = np.zeros(Y.shape[1])
    for i, column in enumerate(Y.T):
        values, counts = np.unique(column, return_counts=True)
        if len(values) < 2 or counts[counts > 1].sum() < 0.5 * len(column):
            continue
        floors[i] = float(np.diff(values).min()) / np.sqrt(12.0)
        if len(values) < _FEW_VALUES and len(values) < 0.1 * len(column):
            warnings.warn(
                f"output {i} has only {len(values)} distinct values: its density is blurred by "
                f"{floors[i]:.3g} (gap/√12), and its log score means little. Compare models by "
                "the CRPS.",
                DiscreteOutputWarning,
                stacklevel=2,
            )
    return floors


def _may_combine(wishes: Wishes, positivity: Positivity) -> bool:
    """Whether other forms make sense: not with signed densities, ratios, or a box of the user."""
    return positivity != "signed" and wishes.reference is None


def _fit_heuristic(problem: Problem) -> AutomaticFit:
    rows, wishes = problem.rows, problem.wishes
    groups = Groups.of(rows.X, rows.weights)
    solver = Exact() if isinstance(problem.solver, Nystrom) else problem.solver
    sides = heuristic(replace(wishes, solver=solver), groups, rows.Y)
    plain = DensityOperator.exact(sides.system, sides.output, rows.Y, problem.positivity)
    centre, width = weighted_mean_sd(rows.Y, rows.weights)
    weights = {"plain": 1.0}
    if problem.combination.wants("marginal_tail") and np.all(width > 0):
        share = 1.0 / (len(rows) + 1.0)
        weights = {"plain": 1.0 - share, "marginal_tail": share}
    operator = CombinedOperator(plain, None, centre, width, weights)
    side = Side(sides.system.kernel, sides.system.alpha, sides.output)
    chosen = Chosen(side, None, None, weights, problem.floor)
    return AutomaticFit(operator, sides.system, _importances(operator, rows), None, chosen)


def _fit(problem: Problem) -> AutomaticFit:
    rows, wants = problem.rows, problem.combination.wants
    stage = problem.wishes.progress.stage
    with stage("conditional mean"):
        means = _mean_choices(problem)
    with stage("plain density"):
        plain = _tuned_plain(problem, means, _residual_sds(means[0], problem))
    located = None
    if wants("location_scale") or wants("residual_tail"):
        with stage("location and scale"):
            located = _located(problem, means)
    centre, spread = weighted_mean_sd(rows.Y, rows.weights)
    with stage("weights"):
        judged = problem.judges()
        held_out = _held_out(problem, plain, located, judged)
        held_out["marginal_tail"] = marginal_tail(len(judged), centre, spread)
        wanted = {name: batch for name, batch in held_out.items() if wants(name)}
        weights = combined_weights(
            wanted, rows.Y[judged], rows.weights[judged], problem.combination
        )
    model = None if located is None else located.model
    operator = CombinedOperator(plain.operator, model, centre, spread, weights)
    chosen = Chosen(
        plain.side,
        None if located is None else located.parameters,
        None if located is None else located.inner.side,
        weights,
        problem.floor,
    )
    importances = _importances(operator, rows)
    return AutomaticFit(operator, plain.system, importances, plain.choice.loss, chosen)


def fit_chosen(
    chosen: Chosen, wishes: Wishes, rows: Rows, solver: Solver, positivity: Positivity
) -> CombinedOperator:
    """Fit rows at parameters that were chosen before, on others."""
    problem = Problem(wishes, rows, solver, Combination(), positivity, chosen.floor)
    located = None
    if chosen.location is not None and chosen.residual is not None:
        located = _refitted_located(problem, chosen.location, chosen.residual, rows)
    centre, spread = weighted_mean_sd(rows.Y, rows.weights)
    plain = _refitted(problem, chosen.plain, rows)
    return CombinedOperator(plain, located, centre, spread, chosen.weights)


def _held_out(
    problem: Problem, plain: "Tuned", located: "TunedLocated | None", judged: NDArray[np.integer]
) -> dict[str, Batch]:
    """Return held-out distributions of some rows: closed form for many rows, K-fold for few.

    The leave-one-out of the location-scale form is not exact, as the residuals of the other rows
    have seen the one left out. Of thousands of rows, one does not move them.
    """
    if len(judged) == len(problem.rows) and located is not None:
        return _cross_validated(problem, plain, located)
    found: dict[str, Batch] = {"plain": plain.held_out(judged)}
    if located is not None:
        location = located.residuals.location[judged]
        scale = located.residuals.scale[judged]
        found["location_scale"] = AffineBatch(located.inner.held_out(judged), location, scale)
        found["residual_tail"] = student_tail(location, scale)
    return found


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


def _mean_choices(problem: Problem) -> list[MeanChoice]:
    templates = families(problem.wishes.kernel_x)
    _, sd = weighted_mean_sd(problem.rows.Y, problem.rows.weights)
    least = float(np.min(problem.floor / sd)) ** 2
    return search_mean(templates, problem.rows, problem.effort, least, problem.seed)


def _residual_sds(choice: MeanChoice, problem: Problem) -> Array:
    """Return the sd of held-out residuals of the conditional mean, from a few hundred rows."""
    some = problem.few()
    centred = some.Y - np.average(some.Y, axis=0, weights=some.weights)
    alpha = choice.noise / some.weights.sum()
    system = ExactSystem(choice.kernel, Groups.of(some.X, some.weights), alpha)
    errors = centred - system.held_out(centred)
    return np.sqrt(np.average(errors**2, axis=0, weights=some.weights))


def _tuned_plain(problem: Problem, means: list[MeanChoice], shape: Array) -> Tuned:
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
    return _tuned(problem, problem.rows, problem.wishes, starts, guess, shape, problem.floor)


def _tuned(
    problem: Problem,
    rows: Rows,
    wishes: Wishes,
    starts: list[tuple[Kernel, Kernel]],
    alpha: float,
    shape: Array,
    floor: Array,
) -> Tuned:
    """Learn the scales on some rows, then α and the output filter on all of them."""
    floor_ratio = float(np.max(floor / shape))
    least = shortest_length(floor_ratio)
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
    )
    judged = problem.judges()
    tried: dict[float, tuple[DensityChoice, RowSystem]] = {}
    fine = _family(wishes, rows, shape, _FINE_NODES)

    systems = problem.systems(choice.kernel, rows)

    def judge(candidate: float) -> float:
        system = systems(candidate)
        weights = system.held_out_weights(judged)
        found = search_filter(choice, weights, rows, judged, fine, problem.loss, least)
        if not tried or found.loss < min(known.loss for known, _ in tried.values()):
            tried.clear()  # at most one system is kept
            tried[candidate] = (replace(found, alpha=candidate), system)
        return found.loss

    few = min(len(rows), problem.effort.rows)
    if wishes.alpha is None and few < len(rows):
        search_alpha(judge, choice.alpha, _FACTORISATIONS, few / len(rows))
    else:
        judge(choice.alpha)
    ((chosen, system),) = tried.values()
    chosen = replace(
        chosen, log_ridge=ridge_above(floor_ratio, chosen.log_length, chosen.log_ridge)
    )
    output = _output(wishes, rows, chosen, shape)
    operator = DensityOperator.of_rows(system, output, rows.Y, problem.positivity)
    return Tuned(rows, chosen, system, operator)


def _family(wishes: Wishes, rows: Rows, shape: Array, nodes: dict[int, int]) -> OutputFamily:
    """Return output sides on a grid of so many nodes per axis, or on scattered points."""
    d = rows.Y.shape[1]
    box = UniformBox(nodes=nodes[d]) if d in nodes else None
    reference = wishes.reference or box or default_reference(rows.Y, rows.weights, shape, 0)
    kernel = wishes.kernel_y or Gaussian()
    return OutputFamily(reference.realise(rows.Y), kernel, shape, wishes.filter or Tikhonov())


def _output(wishes: Wishes, rows: Rows, choice: DensityChoice, shape: Array) -> Reconstruction:
    """Return the final output side: nodes as fine as the chosen filter is sharp."""
    family = _family(wishes, rows, shape, {})
    kernel = family.density_kernel(choice.log_length, choice.log_ridge).kernel
    d = rows.Y.shape[1]
    reference = wishes.reference
    if reference is None and d in MAX_NODES:
        sds = family.sds(choice.log_length, choice.log_ridge)
        lower, upper = UniformBox().corners(rows.Y, sds)
        wanted = _NODES_PER_LENGTH * (upper - lower) / (np.exp(choice.log_length) * shape)
        counts = np.clip(np.ceil(wanted), 32, MAX_NODES[d]).astype(int)
        reference = UniformBox(tuple(lower), tuple(upper), nodes=tuple(counts.tolist()))
    tuned = replace(
        wishes,
        kernel_y=kernel,
        alpha_prime=float(np.exp(choice.log_ridge)),
        reference=reference,
    )
    return output_side(tuned, rows.Y, rows.weights, None)


@dataclass(frozen=True, eq=False)
class TunedLocated:
    """The location-scale component with its parameters and held-out residuals."""

    parameters: LocationParameters
    residuals: Residuals
    inner: Tuned
    model: Located


def _located(problem: Problem, means: list[MeanChoice]) -> TunedLocated:
    rows = problem.rows
    parameters, system = _location_parameters(problem, means[0])
    model, residuals = fit_location_scale(
        parameters, system, (rows.X, rows.Y, rows.weights), problem.floor, problem.seed
    )
    inner = _tuned_residual(problem, means, residuals)
    return TunedLocated(parameters, residuals, inner, Located(model, inner.operator))


def _location_parameters(
    problem: Problem, best: MeanChoice
) -> tuple[LocationParameters, RowSystem]:
    """Return the parameters of location and scale; the noise is judged on all rows."""
    rows = problem.rows
    total = float(rows.weights.sum())
    few = min(len(rows), problem.effort.mean_rows)
    judged = problem.judges()
    centred = rows.Y - np.average(rows.Y, axis=0, weights=rows.weights)
    tried: dict[float, tuple[float, RowSystem]] = {}
    systems = problem.systems(best.kernel, rows)

    def judge(noise: float) -> float:
        """Return the held-out Gaussian log score, each output's variance at its best."""
        system = systems(noise / total)
        errors = (centred[judged] - system.held_out(centred, judged)) ** 2
        kept = system.kept(judged)[:, None]
        loss = float(np.sum(np.log(np.mean(errors * kept, axis=0)) - np.mean(np.log(kept))))
        if not tried or loss < min(known for known, _ in tried.values()):
            tried.clear()
            tried[noise] = (loss, system)
        return loss

    if few < len(rows):
        search_alpha(judge, best.noise, _FACTORISATIONS - 1, few / len(rows))
    else:
        judge(best.noise)
    ((noise, (_, system)),) = tried.items()
    parameters = LocationParameters(best.kernel, noise)
    return _with_varying_noise(problem, parameters, best), system


def _with_varying_noise(
    problem: Problem, parameters: LocationParameters, best: MeanChoice
) -> LocationParameters:
    """Learn, on some rows, how the log squared residuals vary with x."""
    some = problem.few()
    alpha = parameters.noise / some.weights.sum()
    system = ExactSystem(best.kernel, Groups.of(some.X, some.weights), alpha)
    _, residuals = fit_location_scale(
        parameters, system, (some.X, some.Y, some.weights), problem.floor, problem.seed
    )
    logs = some.with_outputs(log_squares(residuals.values**2))
    (choice,) = search_mean([best.template], logs, problem.effort, _WIDE_NOISE, problem.seed)
    return replace(parameters, noise_kernel=choice.kernel, noise_of_noise=choice.noise)


def _tuned_residual(problem: Problem, means: list[MeanChoice], residuals: Residuals) -> Tuned:
    """Tune the operator of the residuals, whose density varies slowly with x."""
    best = means[0]
    rows = problem.rows.with_outputs(_clipped(residuals))
    scales = FreeScales(best.template, rows.X.shape[-1])
    middle = with_median_scales(best.template, problem.few().X)
    wide = scales.kernel(scales.log_scales_of(middle) + 1.0) if len(scales) else best.kernel
    wishes = replace(
        problem.wishes, kernel_y=None, reference=None, alpha=None, alpha_prime=None, filter=None
    )
    floor = np.max(problem.floor / residuals.scale, axis=0)
    shape = np.ones(rows.Y.shape[1])
    return _tuned(problem, rows, wishes, [(best.template, wide)], 1e-2, shape, floor)


def _cross_validated(problem: Problem, plain: Tuned, located: TunedLocated) -> dict[str, Batch]:
    """Return held-out distributions of all rows by K-fold, at fixed parameters."""
    rows, n = problem.rows, len(problem.rows)
    folds = _MANY_FOLDS if n <= _FEW_ROWS else _FOLDS
    fold_of = np.random.default_rng(problem.seed + 2).permutation(n) % folds
    parts: dict[str, list[Batch]] = {"plain": [], "location_scale": [], "residual_tail": []}
    for fold in range(folds):
        train, test = rows.take(np.flatnonzero(fold_of != fold)), rows.X[fold_of == fold]
        parts["plain"].append(_refitted(problem, plain.side, train).batch(test))
        inner = located.inner.side
        there = _refitted_located(problem, located.parameters, inner, train).batches(test)
        parts["location_scale"].append(there[0])
        parts["residual_tail"].append(there[1])
    back = np.argsort(np.argsort(fold_of, kind="stable"))
    return {name: join(batches).take(back) for name, batches in parts.items()}


def _refitted(problem: Problem, side: Side, rows: Rows) -> DensityOperator:
    """Return the operator of other rows, at the same parameters."""
    system = problem.systems(side.kernel, rows)(side.alpha)
    return DensityOperator.of_rows(system, side.output, rows.Y, problem.positivity)


def _refitted_located(
    problem: Problem, parameters: LocationParameters, inner: Side, rows: Rows
) -> Located:
    system = problem.systems(parameters.kernel, rows)(parameters.noise / rows.weights.sum())
    model, residuals = fit_location_scale(
        parameters, system, (rows.X, rows.Y, rows.weights), problem.floor, problem.seed
    )
    clipped = rows.with_outputs(_clipped(residuals))
    return Located(model, _refitted(problem, inner, clipped))


def _clipped(residuals: Residuals) -> Array:
    return np.clip(residuals.values, -_LARGEST_RESIDUAL, _LARGEST_RESIDUAL)


def _importances(operator: CombinedOperator, rows: Rows) -> Array:
    """Return how much each input column matters, in [0, 1]: 1 - E k_j of two random rows.

    k_j is the kernel with all columns but j equal; the components count by their weights.
    """
    pairs = np.random.default_rng(0).integers(len(rows), size=(2, 300))
    first, second = rows.X[pairs[0]], rows.X[pairs[1]]
    kernels = [(operator.weights.get("plain", 0.0), operator.plain.system.kernel)]
    if operator.located is not None:
        share = 1.0 - kernels[0][0]
        kernels.append((share, operator.located.map.location.centres.kernel))
    if rows.X.dtype == object:
        return np.ones(1)
    found = np.zeros(rows.X.shape[1])
    for weight, kernel in kernels:
        for j in range(len(found)):
            moved = first.copy()
            moved[:, j] = second[:, j]
            values = np.diagonal(kernel.block(first, moved))
            found[j] += weight * (1.0 - values.mean() / float(np.mean(kernel.diag(first))))
    return np.clip(found, 0.0, 1.0)
