"""How good predicted distributions are: proper scores, coverage, calibration, importances.

Every function takes distributions and the outputs that came true, one row per query. Scores return
their mean, weighted by ``sample_weight``; with ``average=False`` the value of every query. Any
object with the public methods of :class:`~kcdo.ConditionalDistribution` will do.

Examples
--------
>>> import kcdo
>>> from kcdo.metrics import crps, hpd_values, interval_coverage
>>> X, Y = kcdo.make_donut(6, random_state=0)
>>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X[::2], Y[::2])
>>> dist = model.conditional(X[1::2])
>>> height = dist.marginal(0)
>>> 0.85 < interval_coverage(height, Y[1::2, 0], level=0.9) <= 1.0
True
>>> crps(height, Y[1::2, 0], average=False).shape
(150,)
>>> crps(height, Y[1::2, 0]) < 0.5
True
>>> hpd_values(dist, Y[1::2]).shape
(150,)
"""

from kcdo.metrics.calibration import (
    calibration_curve,
    hpd_coverage,
    hpd_values,
    interval_coverage,
    interval_width,
    pit_values,
)
from kcdo.metrics.chance import (
    CalibrationTest,
    HistogramTest,
    calibration_test,
    pit_histogram_test,
)
from kcdo.metrics.importance import importances
from kcdo.metrics.joint import dawid_sebastiani_score, energy_score, variogram_score
from kcdo.metrics.predictive import Predictive
from kcdo.metrics.ranks import multivariate_ranks
from kcdo.metrics.scorers import (
    Scorer,
    cde_loss_scorer,
    crps_scorer,
    dawid_sebastiani_score_scorer,
    energy_score_scorer,
    log_score_scorer,
    variogram_score_scorer,
)
from kcdo.metrics.scores import cde_loss, crps, log_score
from kcdo.metrics.several import joint_scores

__all__ = [
    "CalibrationTest",
    "HistogramTest",
    "Predictive",
    "Scorer",
    "calibration_curve",
    "calibration_test",
    "cde_loss",
    "cde_loss_scorer",
    "crps",
    "crps_scorer",
    "dawid_sebastiani_score",
    "dawid_sebastiani_score_scorer",
    "energy_score",
    "energy_score_scorer",
    "hpd_coverage",
    "hpd_values",
    "importances",
    "interval_coverage",
    "interval_width",
    "joint_scores",
    "log_score",
    "log_score_scorer",
    "multivariate_ranks",
    "pit_histogram_test",
    "pit_values",
    "variogram_score",
    "variogram_score_scorer",
]
