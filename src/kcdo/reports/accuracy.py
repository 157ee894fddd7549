"""How good the predictions are on given rows: scores, coverage, calibration."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from kcdo.arrays import Array
from kcdo.consistency import need, shape
from kcdo.distributions import ConditionalDistribution
from kcdo.metrics import (
    CalibrationTest,
    HistogramTest,
    calibration_test,
    crps,
    joint_scores,
    pit_histogram_test,
    pit_values,
)
from kcdo.metrics.nearness import place_and_width
from kcdo.metrics.several import for_scores, rows_at_once

LEVELS = (0.5, 0.8, 0.9, 0.95)
_AT_ONCE = 500  # rows whose distributions fit into what is kept of them


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
    answers : dict
        What was predicted for every row: mean, place, width, and quantiles such as q5, (N,) each.
    """

    crps: float
    crps_without_inputs: float
    rmse: float
    pit: Array
    widths: tuple[float, ...]
    answers: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shape(self.pit, None)
        need(len(self.widths) == len(LEVELS), "the widths of the intervals")
        for values in self.answers.values():
            shape(values, len(self.pit))

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
    """Accuracy on some rows: the joint log densities, and the accuracy of every output.

    ``joint`` has the scores of several outputs at once, by name, ``rank_shares`` the share of their
    multivariate ranks in each part of equal size.
    """

    log_densities: Array
    outputs: tuple[OutputAccuracy, ...]
    joint: dict[str, float] = field(default_factory=dict)
    rank_shares: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        shape(self.log_densities, None)
        need(all(len(o.pit) == len(self.log_densities) for o in self.outputs), "rows of outputs")

    @property
    def log_score(self) -> float:
        """Mean log density over the rows whose outputs the model thinks possible."""
        possible = np.isfinite(self.log_densities)
        return float(self.log_densities[possible].mean()) if possible.any() else -np.inf

    @property
    def rank_histogram(self) -> HistogramTest | None:
        """Shares of multivariate ranks, with what chance allows; None of one output."""
        bins = len(self.rank_shares)
        if not bins:
            return None
        counts = np.rint(np.array(self.rank_shares) * len(self.log_densities)).astype(int)
        return pit_histogram_test(np.repeat((np.arange(bins) + 0.5) / bins, counts), bins)

    @classmethod
    def joined(cls, parts: Sequence["Accuracy"]) -> "Accuracy":
        """Return the accuracy on the rows of all parts, in their order."""
        if len(parts) == 1:
            return parts[0]
        counts = [len(part.log_densities) for part in parts]
        return cls(
            np.concatenate([part.log_densities for part in parts]),
            tuple(_joined(each, counts) for each in zip(*(p.outputs for p in parts), strict=True)),
            {
                name: float(np.average([part.joint[name] for part in parts], weights=counts))
                for name in parts[0].joint
            },
            tuple(np.average([part.rank_shares for part in parts], axis=0, weights=counts)),
        )

    @property
    def n_impossible(self) -> int:
        """Number of the other rows, whose density is 0."""
        return int(np.count_nonzero(~np.isfinite(self.log_densities)))


def measure_in_parts(
    dist: ConditionalDistribution,
    Y: Array,
    flat: bool,
    marginal: ConditionalDistribution,
    show: Callable[[int], None] | None = None,
) -> Accuracy:
    """Return the accuracy of predictions, one per row of Y (N, d), some rows at a time.

    ``show`` is told how many more rows are done.
    """
    step, unit, parts = _AT_ONCE if flat else rows_at_once(Y.shape[1]), Y.std(axis=0), []
    for start in range(0, len(Y), step):
        rows = slice(start, start + step)
        parts.append(measure_accuracy(dist[rows], Y[rows], flat, marginal, unit))
        if show is not None:
            show(len(Y[rows]))
    return Accuracy.joined(parts)


def measure_accuracy(
    dist: ConditionalDistribution,
    Y: Array,
    flat: bool,
    marginal: ConditionalDistribution,
    unit: Array | None = None,
) -> Accuracy:
    """Return the accuracy of predictions, one per row of Y (N, d).

    ``marginal`` is the distribution of the training outputs, which a model without inputs predicts;
    joint scores are in units (d,), by default the spread of these outputs.
    """
    log_densities = dist.logpdf_pairs(Y[:, 0] if flat else Y)
    if flat:
        return Accuracy(log_densities, (_output_accuracy(dist, Y[:, 0], marginal),))
    dist = for_scores(dist)
    scores = joint_scores(dist, Y, unit=unit)
    shares = tuple(scores.pop("rank_histogram"))
    outputs = [
        _output_accuracy(dist.marginal(k), y, marginal.marginal(k)) for k, y in enumerate(Y.T)
    ]
    return Accuracy(log_densities, tuple(outputs), scores, shares)


def _output_accuracy(
    dist: ConditionalDistribution, y: Array, marginal: ConditionalDistribution
) -> OutputAccuracy:
    tails = _tails(LEVELS)
    columns = [f"q{100 * tail:g}" for tail in tails]
    answers = dist.summary(["mean", "q50", *columns])
    ends = np.stack([answers[name] for name in columns])
    n = len(LEVELS)
    place, width = place_and_width(dist)
    return OutputAccuracy(
        crps=crps(dist, y),
        crps_without_inputs=crps(marginal[np.zeros(len(y), dtype=int)], y),
        rmse=float(np.sqrt(np.mean((answers["mean"] - y) ** 2))),
        pit=pit_values(dist, y),
        widths=tuple((ends[n:] - ends[:n]).mean(axis=1).tolist()),
        answers=answers | {"place": place[:, 0], "width": width[:, 0]},
    )


def _joined(parts: Sequence[OutputAccuracy], counts: Sequence[int]) -> OutputAccuracy:
    """Return the accuracy of one output on the rows of all parts."""

    def mean(values: Sequence[float]) -> float:
        return float(np.average(values, weights=counts))

    return OutputAccuracy(
        crps=mean([part.crps for part in parts]),
        crps_without_inputs=mean([part.crps_without_inputs for part in parts]),
        rmse=float(np.sqrt(mean([part.rmse**2 for part in parts]))),
        pit=np.concatenate([part.pit for part in parts]),
        widths=tuple(mean(each) for each in zip(*(part.widths for part in parts), strict=True)),
        answers={
            name: np.concatenate([part.answers[name] for part in parts])
            for name in parts[0].answers
        },
    )


def _tails(levels: Sequence[float]) -> list[float]:
    return [0.5 - level / 2 for level in levels] + [0.5 + level / 2 for level in levels]
