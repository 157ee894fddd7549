"""The tail about the mean of all outputs, and the fit of a handful of rows that needs it."""

from dataclasses import replace

import numpy as np

from kcdo.components import MarginalTailParameters
from kcdo.fitting.linear import choose_linear
from kcdo.fitting.problem import ChosenComponent, Problem, SoFar
from kcdo.fitting.rules import plain_by_rule
from kcdo.fitting.weighing import InnerFit, mixture_of, weighed
from kcdo.kernels import weighted_mean_sd

_TAIL_ROWS = 8.0  # that a line, or a tail about the mean, counts as beside a handful of rows


def marginal_tail(problem: Problem, so_far: SoFar) -> list[ChosenComponent]:
    """Return the tail about the mean of all outputs where only it gives every output a density.

    The one about the location does so too, and does not widen distributions that are far narrower
    than that of all outputs.
    """
    combination = problem.spec.combination
    fixed = set(combination.fixed)
    others = {"plain", "location_scale", "residual_tail"}
    given = "marginal_tail" in fixed or others <= fixed  # the rest goes to it
    located = so_far.offering("residual_tail") is not None
    if located and combination.wants("residual_tail") and not given:
        return []
    return [_tail(problem)]


def fit_heuristic(problem: Problem) -> InnerFit:
    """Fit the plain density of the heuristic rule, with a tail, and a line where it is open."""
    rows, so_far = problem.rows, SoFar(chosen=(plain_by_rule(problem),), weights={"plain": 1.0})
    _, spread = weighted_mean_sd(rows.Y, rows.weights)
    if not problem.spec.combination.wants("marginal_tail") or not np.all(spread > 0):
        return mixture_of(so_far)
    plain = len(rows) / (len(rows) + _TAIL_ROWS)
    if _may_have_line(problem):  # a Student t of as many degrees of freedom as rows: a tail too
        line = choose_linear(rows, np.arange(rows.X.shape[1]))
        so_far = weighed(problem, so_far.plus([line]))
        plain, other = plain * so_far.weights["plain"], "linear"
    else:
        so_far, other = so_far.plus([_tail(problem)]), "marginal_tail"
    return mixture_of(replace(so_far, weights={"plain": plain, other: 1.0 - plain}))


def _tail(problem: Problem) -> ChosenComponent:
    parameters = MarginalTailParameters()
    tail = parameters.fit(problem.rows, problem.spec.settings)
    return ChosenComponent.of(parameters, tail)


def _may_have_line(problem: Problem) -> bool:
    """Whether a linear regression is open to a handful of rows, and these are more than slopes."""
    rows, spec = problem.rows, problem.spec
    if not problem.univariate or not spec.kernel_x.family_open or spec.combination.fixed:
        return False
    least = rows.X.shape[1] + problem.effort.line_rows
    return least <= len(rows) <= problem.effort.fewest_rows
