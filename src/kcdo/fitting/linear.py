"""The linear regression of a mixture, with a ridge that foretells held-out rows best."""

from dataclasses import replace

import numpy as np

from kcdo.arrays import Integers
from kcdo.components import LinearParameters, LinearSystem
from kcdo.fitting.problem import ChosenComponent, Problem, SoFar
from kcdo.kernels import weighted_mean_sd
from kcdo.rows import Rows

_RIDGES = np.logspace(-6, 4, 21)  # over the number of rows


def linear_regression(problem: Problem, so_far: SoFar) -> list[ChosenComponent]:
    """Choose a line beside the other components, where it may know better than a kernel."""
    if problem.line is None or not problem.spec.combination.wants("linear"):
        return []
    return [choose_linear(problem.rows, problem.line)]


def choose_linear(rows: Rows, columns: Integers) -> ChosenComponent:
    """Choose the ridge by the mean log density of rows that are left out, in closed form."""
    seen = rows.X[:, columns]
    mean, sd = weighted_mean_sd(seen, rows.weights)
    sd = np.where(sd > 0, sd, 1.0)
    lower, upper = (seen.min(axis=0) - mean) / sd, (seen.max(axis=0) - mean) / sd
    parameters = LinearParameters(rows.X.shape[1], columns, mean, sd, lower, upper, 1.0)
    system, every = LinearSystem.of(parameters, rows), np.arange(len(rows))

    def loss(share: float) -> float:
        held_out = system.factor(share * rows.total).held_out(every)["linear"]
        return -float(np.average(held_out.logpdf_pairs(rows.Y), weights=rows.weights))

    component = system.factor(float(min(_RIDGES, key=loss)) * rows.total)
    parameters = replace(parameters, ridge=component.parameters.ridge)
    return ChosenComponent.of(parameters, component)
