"""Figures in the manner of scikit-learn's displays; they need ``kcdo[plots]`` when drawn.

A display is made by ``from_estimator`` or ``from_distribution``, keeps the numbers it shows, and
can be drawn again with ``plot``. It has ``ax_`` and ``figure_``, and never calls ``show``.
"""

from kcdo.plotting.calibration import CalibrationDisplay
from kcdo.plotting.distribution import plot_distribution
from kcdo.plotting.heatmap import DensityHeatmapDisplay
from kcdo.plotting.importance import ImportanceDisplay
from kcdo.plotting.joint import JointDensityDisplay
from kcdo.plotting.pairs import plot_pairs
from kcdo.plotting.report import ReportDisplay
from kcdo.plotting.ridgeline import RidgelineDisplay
from kcdo.plotting.violins import ViolinDisplay

__all__ = [
    "CalibrationDisplay",
    "DensityHeatmapDisplay",
    "ImportanceDisplay",
    "JointDensityDisplay",
    "ReportDisplay",
    "RidgelineDisplay",
    "ViolinDisplay",
    "plot_distribution",
    "plot_pairs",
]
