"""The search for the output filter, at held-out weights that are known."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array, csr_matrix

from kcdo.arrays import Array, Integers
from kcdo.fitting.filters import OutputFamily, node_shares
from kcdo.fitting.left_out import fixed_smoother
from kcdo.fitting.losses import Loss, Scoring
from kcdo.fitting.objectives import FilterLoss, HeldOutLoss
from kcdo.fitting.races import OPEN, RIDGE_RANGE, DensityChoice, Fixed, bounds_of, length_bounds
from kcdo.fitting.search import GOOD_ENOUGH, Objective, minimise
from kcdo.measures import Grid
from kcdo.parallel import blas_limit
from kcdo.rows import Rows
from kcdo.systems import rows_used


@dataclass(frozen=True, eq=False)
class FilterSearch:
    """The search for the output filter alone, by the loss of some rows with all others in the fit.

    Parameters
    ----------
    rows : Rows
        All rows.
    held_out : array of int
        Those that are judged.
    outputs : OutputFamily
        The output sides of a choice, perhaps on other nodes.
    loss : Loss
        What is made small.
    fixed : Fixed
        Ridges that are given.
    beside : (n,), optional
        Densities of another model at the rows that are judged, as in :class:`Scoring`.
    steps : int
        Steps of the search.
    n_jobs : int, optional
        Threads; None: all cores.
    """

    rows: Rows
    held_out: Integers
    outputs: OutputFamily
    loss: Loss
    fixed: Fixed = OPEN
    beside: Array | None = None
    steps: int = 12
    n_jobs: int | None = None

    def best(self, choice: DensityChoice, weights: Array | csr_array) -> DensityChoice:
        """Return the choice with the filter tuned to given held-out weights, (rows judged, N)."""
        start = np.append(choice.log_lengths, choice.log_ridge)
        lengths = length_bounds(self.outputs, choice.start.least_length)
        bounds = [*lengths, bounds_of(self.fixed.ridge, RIDGE_RANGE)]
        with blas_limit(1):
            objective = self._objective(weights)
            theta, value = minimise(objective, start, bounds, self.steps, GOOD_ENOUGH)
        return replace(choice, log_lengths=theta[:-1], log_ridge=float(theta[-1]), loss=value)

    def _objective(self, weights: Array | csr_array) -> Objective:
        """Return the loss as a function of the filter; on a grid it costs the same for any N."""
        rows, outputs = self.rows, self.outputs
        scored, row_weights = rows.Y[self.held_out], rows.weights[self.held_out]
        if self._shares is not None:
            scoring = Scoring(outputs.measure, scored, row_weights, outputs.shape, self.beside)
            shared: Any = weights @ self._shares
            node_weights = shared if isinstance(shared, np.ndarray) else shared.toarray()
            return FilterLoss(node_weights, outputs, scoring, self.loss, self.n_jobs)
        Y = rows.Y
        if isinstance(weights, csr_array):
            used, weights = rows_used(weights)
            Y = Y[used]
        smoother = fixed_smoother(weights)
        objective = HeldOutLoss(
            lambda log_scales, alpha: smoother,
            outputs,
            Y,
            row_weights,
            self.loss,
            scored,
            self.beside,
        )

        def of_filter(theta: Array) -> tuple[float, Array]:
            value, gradient = objective(np.concatenate([[0.0], theta]))
            return value, gradient[1:]

        return of_filter

    @cached_property
    def _shares(self) -> csr_matrix | None:
        """What each output gives to each node of a grid."""
        measure = self.outputs.measure
        if not isinstance(measure, Grid) or not self.outputs.separable:
            return None
        return node_shares(measure, self.rows.Y)
