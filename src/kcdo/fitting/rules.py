"""Rules that choose whatever a spec leaves open by one factorisation: ours and the paper's."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kcdo.arrays import Array
from kcdo.components import DensityOperator, OperatorParameters, PlainDensity
from kcdo.fitting.output_side import (
    DEFAULT_ALPHA,
    check_output,
    output_side,
    planned_nodes,
    ridge_value,
)
from kcdo.fitting.problem import ChosenComponent, Problem
from kcdo.fitting.spec import ModelSpec, Ridge
from kcdo.kernels import DensityKernel, Gaussian, with_median_scales
from kcdo.linalg import PrintedForm
from kcdo.measures import UniformBox
from kcdo.reconstruction import Reconstruction
from kcdo.regularisation import PrintedScheme
from kcdo.systems import Exact, ExactRows, ExactSystem, Groups


class Sides(NamedTuple):
    """Input and output side, ready to meet."""

    system: ExactSystem
    output: Reconstruction


def heuristic(spec: ModelSpec, groups: Groups, Y: Array) -> Sides:
    """Choose by one factorisation (docs/theory.md).

    Input scale by the median, α = 0.1 N^{-1/2}; s_r = sd of the leave-one-out residuals of the
    conditional mean, from the same factorisation; σ_y = 2 s_r N^{-1/(d+5)}; α' = 0.1; node
    spacing σ_y / 4.
    """
    check_output(spec, Y)
    system = _system(spec, groups, DEFAULT_ALPHA, planned_nodes(spec.reference, Y))
    kernel_y = spec.kernel_y or Gaussian()
    residual_sd = None if kernel_y.fitted else held_out_residual_sd(system, Y, spec)
    output = output_side(spec, Y, groups.weights, residual_sd)
    return Sides(system, output)


def paper(spec: ModelSpec, groups: Groups, Y: Array) -> Sides:
    """Choose as the paper does: medians for both kernels, its printed scheme and filter.

    About as many nodes as observations, on a grid from the least to the greatest output; the
    output scale is the median distance of the nodes, α = α' = max(M^{-1/2}, N^{-1}).
    """
    d, n = Y.shape[1], groups.n_effective
    reference = spec.reference or UniformBox(margin=0.0)
    if isinstance(reference, UniformBox) and reference.nodes is None:
        side = max(2, int(n ** (1.0 / d) + 1e-9))
        reference = replace(reference, nodes=side, edge_nodes=True)
    measure = reference.realise(Y)
    system = _system(spec, groups, PrintedScheme(), measure.n_nodes)
    kernel_y = with_median_scales(spec.kernel_y or Gaussian(), measure.nodes, seed=spec.seed)
    density = DensityKernel(kernel_y, d)
    # the paper's ridge belongs to L_Z without weights and to an unnormalised kernel
    unit = measure.total / measure.n_nodes / density.integral
    printed = PrintedScheme()(n, measure.n_nodes) * unit
    ridge = ridge_value(spec.alpha_prime, printed, n, measure.n_nodes)
    chosen = spec.filter or PrintedForm()
    return Sides(system, Reconstruction(measure, density, ridge, chosen, spec.n_jobs))


RULES = {"heuristic": heuristic, "paper": paper}


def held_out_residual_sd(system: ExactSystem, Y: Array, spec: ModelSpec) -> Array:
    """Return the sd of leave-one-out residuals of the conditional mean, (d,).

    From every row, or from those of a few hundred inputs when there are many.
    """
    groups, effort = system.groups, spec.settings.effort
    rows = np.arange(len(Y))
    if system.n_centres > effort.rule_inputs:
        rng = np.random.default_rng(spec.seed)
        chosen = rng.choice(system.n_centres, effort.rule_judged, replace=False)
        rows = np.flatnonzero(np.isin(groups.member_of, chosen))
    centred = Y - np.average(Y, axis=0, weights=groups.weights)  # ridge shrinks towards 0
    residuals = centred[rows] - system.held_out(centred, rows)
    return np.sqrt(np.average(residuals**2, axis=0, weights=groups.weights[rows]))


def plain_by_rule(problem: Problem) -> ChosenComponent:
    """Return the plain density that the heuristic rule fits; many rows take the rule of some."""
    rows, spec, settings = problem.rows, problem.spec, problem.spec.settings
    some = rows
    if not problem.every_input:  # rules factor all rows
        some = rows.sample(problem.effort.rows, spec.seed)
        spec = replace(spec, settings=replace(settings, solver=Exact()))
    system, output = heuristic(spec, Groups.of(some.X, some.weights), some.Y)
    if len(some) == len(rows):
        parameters = OperatorParameters(system.kernel, system.alpha, output)
        plain = DensityOperator.solved(system, output, rows.Y, settings.positivity)
    else:
        open_scales = spec.kernel_y is None or not spec.kernel_y.fitted
        sd = held_out_residual_sd(system, some.Y, spec) if open_scales else None
        output = output_side(spec, rows.Y, rows.weights, sd)
        parameters = OperatorParameters(system.kernel, system.alpha, output)
        plain = parameters.operator(rows, settings)
    return ChosenComponent.of(parameters, PlainDensity(plain))


def _system(spec: ModelSpec, groups: Groups, default: Ridge, n_nodes: int) -> ExactSystem:
    kernel_x = with_median_scales(spec.kernel_x, groups.points, groups.totals, seed=spec.seed)
    alpha = ridge_value(spec.alpha, default, groups.n_effective, n_nodes)
    solver = spec.settings.solver
    assert solver.every_input, "rules factor all rows; streams have their own plan"
    return ExactRows(kernel_x, groups, solver, spec.n_jobs, spec.progress).factor(alpha)
