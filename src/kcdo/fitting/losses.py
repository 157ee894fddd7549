"""Losses of held-out node densities, with their derivatives.

Node values u (N, M) are normalised, made positive as a prediction is, and scored at the output of
their own row. Each loss returns its weighted mean and dL/du.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_matrix

from kcdo.arrays import Array
from kcdo.distributions import layout_of, positive_density
from kcdo.errors import InvalidInputError
from kcdo.measures import Grid, Measure

_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Scoring:
    """Where and how held-out densities are scored.

    Parameters
    ----------
    measure : Measure
        Nodes of ρ.
    Y : (N, d)
        The outputs that were held out.
    weights : (N,)
        Weights of the rows.
    scales : (d,)
        Scales of the output kernel, for layouts on scattered nodes.
    beside : (N,), optional
        Densities of another model at the outputs: the log score is that of an even mixture with it.
    """

    measure: Measure
    Y: Array
    weights: Array
    scales: Array
    beside: Array | None = None

    @cached_property
    def share(self) -> Array:
        """Weights that sum to 1."""
        return self.weights / self.weights.sum()

    @cached_property
    def readout(self) -> csr_matrix:
        """Row i takes the density at y_i from the node densities of row i, (N, M)."""
        bumps = layout_of(self.measure, self.scales).pdf_matrix(self.Y)
        return csr_matrix(csr_matrix(bumps).T.multiply(self.measure.weights))

    def part(self, rows: slice) -> "Scoring":
        """Return the scoring of some of the rows."""
        beside = None if self.beside is None else self.beside[rows]
        return Scoring(self.measure, self.Y[rows], self.weights[rows], self.scales, beside)

    def at_outputs(self, density: Array) -> Array:
        """Return p_i(y_i), (N,)."""
        return np.asarray(self.readout.multiply(density).sum(axis=1)).ravel()


class Loss(ABC):
    """A loss of densities (N, M) on the nodes, to be made small."""

    by_rows: ClassVar[bool] = False  # whether the loss of a row does not depend on the others

    @abstractmethod
    def of_density(self, scoring: Scoring, density: Array) -> tuple[Array, Array]:
        """Return the loss of each row, (N,), and its derivative, (N, M)."""

    def __call__(self, scoring: Scoring, values: Array) -> tuple[float, Array]:
        """Return the mean loss of signed node values and dL/d(values)."""
        density, back = positive_density(values, scoring.measure.weights)
        rows, gradient = self.of_density(scoring, density)
        return float(scoring.share @ rows), back(scoring.share[:, None] * gradient)


@dataclass(frozen=True)
class LogScore(Loss):
    """-log[(1 - ε) p(y) + ε q(y)], q uniform on the range of the nodes.

    ε keeps a single row that no other predicts from ruling the choice. Beside another model q is
    its density, and ε a half.
    """

    by_rows: ClassVar[bool] = True

    epsilon: float = 0.01

    def of_density(self, scoring: Scoring, density: Array) -> tuple[Array, Array]:
        """Return the loss of each row and its derivative."""
        epsilon, other = self._other(scoring)
        mixed = (1.0 - epsilon) * scoring.at_outputs(density) + epsilon * other
        slope = -(1.0 - epsilon) / mixed
        pulled: Any = scoring.readout.multiply(slope[:, None])
        return -np.log(mixed), pulled.toarray()

    def _other(self, scoring: Scoring) -> tuple[float, Array]:
        """Return ε and q at the outputs."""
        if scoring.beside is not None:
            return 0.5, np.maximum(scoring.beside, _TINY)
        ranges = np.maximum(np.ptp(scoring.measure.nodes, axis=0), _TINY)
        return self.epsilon, 1.0 / np.prod(ranges, keepdims=True)


@dataclass(frozen=True)
class CrpsLoss(Loss):
    """∫ (F(t) - 1{y <= t})² dt on the nodes of a 1-D grid."""

    by_rows: ClassVar[bool] = True

    def of_density(self, scoring: Scoring, density: Array) -> tuple[Array, Array]:
        """Return the loss of each row and its derivative."""
        grid = scoring.measure
        if not isinstance(grid, Grid) or grid.dim != 1:
            raise InvalidInputError("the CRPS needs one output on a grid: use the log score.")
        h = grid.cell_volume
        cdf = h * (np.cumsum(density, axis=1) - 0.5 * density)
        excess = cdf - (grid.nodes[:, 0] >= scoring.Y)
        rows = h * np.sum(excess**2, axis=1)
        pulled = 2.0 * h * excess
        after = np.cumsum(pulled[:, ::-1], axis=1)[:, ::-1] - 0.5 * pulled
        return rows, h * after


@dataclass(frozen=True)
class BalancedScore(Loss):
    """Mean log score + log(mean CRPS), for one output: neither is bought at the other's cost.

    Both parts change by a constant when the unit of the output does.
    """

    log_score: LogScore = LogScore()
    crps: CrpsLoss = CrpsLoss()

    def of_density(self, scoring: Scoring, density: Array) -> tuple[Array, Array]:
        """Return the loss of each row, of which the mean is taken, and its derivative."""
        logs, log_gradient = self.log_score.of_density(scoring, density)
        crps, crps_gradient = self.crps.of_density(scoring, density)
        mean = float(scoring.share @ crps)
        return logs + np.log(mean), log_gradient + crps_gradient / mean
