"""The automatic fit: the forms one after the other, then their weights."""

from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.automatic.located import (
    TunedLocated,
    held_out_densities,
    refitted_located,
    tuned_located,
)
from kcdo.automatic.plain import (
    Judges,
    Tuned,
    mean_choices,
    refitted,
    residual_sds,
    tuned_nearest,
    tuned_plain,
)
from kcdo.automatic.problem import (
    AutomaticFit,
    Chosen,
    Problem,
    RowSystem,
    Side,
    discrete_floor,
    may_combine,
)
from kcdo.combination import (
    Combination,
    CombinedOperator,
    combined_weights,
    marginal_tail,
)
from kcdo.distributions import Batch, MixtureBatch, Positivity, join
from kcdo.errors import InvalidInputError
from kcdo.kernels import warped, weighted_mean_sd
from kcdo.operators import DensityOperator
from kcdo.parallel import blas_limit, ordered_map
from kcdo.selection import Wishes, check_output, heuristic
from kcdo.systems import Exact, Groups, Nystrom, Solver
from kcdo.tuning import (
    Effort,
    Rows,
)

_ALL_ROWS = 2000  # up to here every row is held out for the weights
_FOLDS = 10
_MANY_FOLDS = 20
_FEW_ROWS = 600
_FEWEST_ROWS = 20
_SHUFFLED_ROWS = 200


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
    check_output(wishes, rows.Y)
    floor = discrete_floor(rows.Y)
    if not may_combine(wishes, positivity):
        combination = Combination(1.0, 0.0, 0.0, 0.0)
    effort = Effort(n_jobs=wishes.n_jobs)
    drawn_in = warped(wishes.kernel_x, rows.X)
    problem = Problem(
        wishes, rows, solver, combination, positivity, floor, effort, drawn_in=drawn_in
    )
    if len(rows) < _FEWEST_ROWS or np.any(np.ptp(rows.Y, axis=0) == 0):
        return _fit_heuristic(problem)
    return _fit(replace(problem, rows=rows.of_effective_weight()))


def fit_chosen(
    chosen: Chosen, wishes: Wishes, rows: Rows, solver: Solver, positivity: Positivity
) -> CombinedOperator:
    """Fit rows at parameters that were chosen before, on others."""
    rows = rows.of_effective_weight()
    problem = Problem(wishes, rows, solver, Combination(), positivity, chosen.floor)
    located = None
    if chosen.location is not None and chosen.residual is not None:
        located = refitted_located(problem, chosen.location, chosen.residual, rows)
    centre, spread = weighted_mean_sd(rows.Y, rows.weights)
    plain, nearest = refitted(problem, chosen.plain, rows), None
    if chosen.nearest is not None:
        nearest = refitted(problem, chosen.nearest, rows, problem.nearest_systems)
    return CombinedOperator(plain, located, centre, spread, chosen.weights, nearest)


def tuned_wishes(wishes: Wishes, rows: Rows, positivity: Positivity) -> Wishes:
    """Return the wishes for a streamed fit, with what a pilot sample can choose: all but α.

    A stream keeps sums, and those of the location-scale form do not merge: it fits the plain form.
    """
    if len(rows) < _FEWEST_ROWS or np.any(np.ptp(rows.Y, axis=0) == 0):
        return wishes
    rows = rows.of_effective_weight()
    floor, effort = discrete_floor(rows.Y), Effort(n_jobs=wishes.n_jobs)
    # a stream keeps centres, not inputs
    problem = Problem(
        wishes,
        rows,
        Exact(),
        Combination(),
        positivity,
        floor,
        effort,
        remembers=False,
        drawn_in=warped(wishes.kernel_x, rows.X),
    )
    means = mean_choices(problem)
    tuned = tuned_plain(problem, means, residual_sds(means[0], problem))
    output = tuned.operator.output
    return replace(
        wishes,
        kernel_x=tuned.choice.kernel,
        kernel_y=output.kernel.kernel,
        alpha_prime=output.ridge,
    )


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
        means = mean_choices(problem)
    located, rival = None, None
    if any(map(wants, ("location_scale", "residual_tail", "normal"))):
        with stage("location and scale"):
            located = tuned_located(problem, means)
            if not {"plain", "location_scale"} & set(problem.combination.fixed):
                rival = held_out_densities(problem, located)
    with stage("plain density"):
        plain = tuned_plain(problem, means, residual_sds(means[0], problem), rival)
    centre, spread = weighted_mean_sd(rows.Y, rows.weights)
    with stage("weights"):
        judged = problem.judges(_ALL_ROWS)
        held_out = _held_out(problem, plain, located, judged)
        if _needs_marginal_tail(problem.combination, located):
            held_out["marginal_tail"] = marginal_tail(len(judged), centre, spread)
        wanted = {name: batch for name, batch in held_out.items() if wants(name)}
        weights = _weights(problem, wanted, judged) if wanted else {}
    nearest = None
    if not problem.exact and len(rows) > _ALL_ROWS and wants("nearest"):
        with stage("nearest rows"):
            nearest = tuned_nearest(
                problem, plain, means, _judges(problem, judged, wanted, weights)
            )
            if nearest is not None:
                wanted["nearest"] = nearest.held_out(judged)
                weights = _weights(problem, wanted, judged)
    if not wanted:
        raise InvalidInputError(
            "Combination: all weight is on the nearest rows, which are a form for more than "
            f"{_ALL_ROWS} rows on Nyström centres, with kernels of scaled columns."
        )
    operator = CombinedOperator(
        plain.operator,
        None if located is None else located.model,
        centre,
        spread,
        weights,
        None if nearest is None else nearest.operator,
    )
    chosen = Chosen(
        plain.side,
        None if located is None else located.parameters,
        None if located is None else located.inner.side,
        weights,
        problem.floor,
        None if nearest is None else nearest.side,
    )
    importances = _importances(operator, rows)
    system = cast(RowSystem, plain.system)  # never that of the nearest rows
    return AutomaticFit(operator, system, importances, plain.choice.loss, chosen)


def _judges(
    problem: Problem,
    judged: NDArray[np.integer],
    others: dict[str, Batch],
    weights: dict[str, float],
) -> Judges:
    """Return rows that judge one more form, in a mixture with the others."""
    if not others:
        return Judges(judged)
    mixture = MixtureBatch(list(others.values()), np.array([weights[name] for name in others]))
    some = np.linspace(0, len(judged) - 1, min(len(judged), problem.effort.held_out)).astype(int)
    beside = mixture.take(some).pdf_pairs(problem.rows.Y[judged[some]])
    return Judges(judged[some], beside)


def _weights(
    problem: Problem, held_out: dict[str, Batch], judged: NDArray[np.integer]
) -> dict[str, float]:
    rows = problem.rows
    return combined_weights(held_out, rows.Y[judged], rows.weights[judged], problem.combination)


def _needs_marginal_tail(combination: Combination, located: TunedLocated | None) -> bool:
    """Whether only the tail about the mean of all outputs gives every output a density.

    The one about the location does so too, and does not widen distributions that are far narrower
    than that of all outputs.
    """
    fixed = set(combination.fixed)
    others = {"plain", "location_scale", "residual_tail"}
    given = "marginal_tail" in fixed or others <= fixed  # the rest goes to it
    return given or located is None or not combination.wants("residual_tail")


def _held_out(
    problem: Problem, plain: Tuned, located: TunedLocated | None, judged: NDArray[np.integer]
) -> dict[str, Batch]:
    """Return held-out distributions of some rows: closed form for many rows, K-fold for few.

    The leave-one-out of the location-scale form is not exact, as the residuals of the other rows
    have seen the one left out. Of thousands of rows, one does not move them.
    """
    if len(judged) == len(problem.rows) and located is not None:
        return _cross_validated(problem, plain, located)
    found: dict[str, Batch] = {"plain": plain.held_out(judged)}
    if located is not None:
        found |= located.held_out(judged)
    return found


def _cross_validated(problem: Problem, plain: Tuned, located: TunedLocated) -> dict[str, Batch]:
    """Return held-out distributions of all rows by K-fold, at fixed parameters."""
    rows, n = problem.rows, len(problem.rows)
    folds = _MANY_FOLDS if n <= _FEW_ROWS else _FOLDS
    fold_of = np.random.default_rng(problem.seed + 2).permutation(n) % folds

    def held_out(fold: int) -> dict[str, Batch]:
        train, test = rows.take(np.flatnonzero(fold_of != fold)), rows.X[fold_of == fold]
        inner = located.inner.light_side
        there = refitted_located(problem, located.parameters, inner, train).batches(test)
        return {"plain": refitted(problem, plain.light_side, train).batch(test)} | there

    with blas_limit(1):
        parts = list(ordered_map(held_out, range(folds), problem.wishes.n_jobs))
    back = np.argsort(np.argsort(fold_of, kind="stable"))
    return {name: join([part[name] for part in parts]).take(back) for name in parts[0]}


def _importances(operator: CombinedOperator, rows: Rows) -> Array:
    """Return how much predictions change, in [0, 1), when one input column is shuffled.

    1 - exp(-D), with D the mean over rows and outputs of ½ (Δm)²/(s s') + ½ (Δ log s)², the
    divergence of two Gaussians to second order: effects on the mean and on the spread both count.
    """
    if rows.X.dtype == object:
        return np.ones(1)
    rng = np.random.default_rng(0)
    chosen = rng.integers(len(rows), size=_SHUFFLED_ROWS)
    X = rows.X[chosen]
    mean, log_sd = _mean_and_log_sd(operator, X)
    order = rng.permutation(len(X))
    found = np.empty(X.shape[1])
    for j in range(len(found)):
        shuffled = X.copy()
        shuffled[:, j] = X[order, j]
        other_mean, other_log_sd = _mean_and_log_sd(operator, shuffled)
        moved = (mean - other_mean) ** 2 * np.exp(-log_sd - other_log_sd)
        found[j] = 0.5 * np.mean(moved + (log_sd - other_log_sd) ** 2)
    return 1.0 - np.exp(-found)


def _mean_and_log_sd(operator: CombinedOperator, X: Array) -> tuple[Array, Array]:
    mean, covariance = operator.batch(X).moments()
    variance = np.einsum("qdd->qd", covariance)
    return mean, 0.5 * np.log(np.maximum(variance, 1e-300))
