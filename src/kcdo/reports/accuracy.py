"""How good the predictions are on given rows: scores, coverage, calibration."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kcdo.arrays import Array
from kcdo.distributions import ConditionalDistribution
from kcdo.metrics import (
    CalibrationTest,
    HistogramTest,
    calibration_test,
    crps,
    pit_histogram_test,
    pit_values,
)

LEVELS = (0.5, 0.8, 0.9, 0.95)


@dataclass(frozen=True, eq=False)
class OutputAccuracy:
    """Accuracy of one output.

    Attributes
    ----------
    crps, crps_without_inputs : float
        Mean continuous ranked probability score, of the model and of the distribution of the
        training outputs, which ignores the inputs.
    rmse : float
        Root of the mean squared error of the conditional mean.
    pit : (N,) array
        F(y_i | x_i), uniform if the model is calibrated.
    widths : tuple of float
        Mean width of the central intervals of :data:`LEVELS`.
    """

    crps: float
    crps_without_inputs: float
    rmse: float
    pit: Array
    widths: tuple[float, ...]

    @property
    def calibration(self) -> CalibrationTest:
        """Coverage of central intervals, with what chance allows."""
        return calibration_test(self.pit)

    @property
    def histogram(self) -> HistogramTest:
        """Shares of PIT values, with what chance allows."""
        return pit_histogram_test(self.pit)

    def coverage(self, level: float) -> float:
        """Return the share of rows inside their central interval of a level."""
        return float(np.mean(np.abs(self.pit - 0.5) <= level / 2))


@dataclass(frozen=True, eq=False)
class Accuracy:
    """Accuracy on some rows: the joint log score, and that of every output.

    ``log_score`` is the mean log density over the rows whose outputs the model thinks possible,
    ``n_impossible`` the number of the others, whose density is 0.
    """

    n_rows: int
    log_score: float
    n_impossible: int
    outputs: tuple[OutputAccuracy, ...]


def measure_accuracy(
    dist: ConditionalDistribution, Y: Array, flat: bool, marginal: ConditionalDistribution
) -> Accuracy:
    """Return the accuracy of predictions, one per row of Y (N, d).

    ``marginal`` is the distribution of the training outputs, which a model without inputs predicts.
    """
    densities = dist.logpdf_pairs(Y[:, 0] if flat else Y)
    possible = np.isfinite(densities)
    outputs = [
        _output_accuracy(dist, Y[:, 0], marginal)
        if flat
        else _output_accuracy(dist.marginal(k), Y[:, k], marginal.marginal(k))
        for k in range(Y.shape[1])
    ]
    return Accuracy(
        n_rows=len(Y),
        log_score=float(densities[possible].mean()) if possible.any() else -np.inf,
        n_impossible=int(np.count_nonzero(~possible)),
        outputs=tuple(outputs),
    )


def _output_accuracy(
    dist: ConditionalDistribution, y: Array, marginal: ConditionalDistribution
) -> OutputAccuracy:
    tails = _tails(LEVELS)
    columns = [f"q{100 * tail:g}" for tail in tails]
    answers = dist.summary(["mean", *columns])
    ends = np.stack([answers[name] for name in columns])
    n = len(LEVELS)
    return OutputAccuracy(
        crps=crps(dist, y),
        crps_without_inputs=crps(marginal[np.zeros(len(y), dtype=int)], y),
        rmse=float(np.sqrt(np.mean((answers["mean"] - y) ** 2))),
        pit=pit_values(dist, y),
        widths=tuple((ends[n:] - ends[:n]).mean(axis=1).tolist()),
    )


def _tails(levels: Sequence[float]) -> list[float]:
    return [0.5 - level / 2 for level in levels] + [0.5 + level / 2 for level in levels]
