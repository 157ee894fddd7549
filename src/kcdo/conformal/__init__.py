"""Conformal calibration: intervals and regions that hold outputs at the rate they promise.

Whatever the model, right or wrong: all that is asked is that calibration rows and queries are
exchangeable, as rows drawn independently from one source are.
"""

from kcdo.conformal import files  # noqa: F401  (registers the predictor for kcdo.load)
from kcdo.conformal.calibrate import conformalize
from kcdo.conformal.predictor import ConformalPrediction, ConformalPredictor
from kcdo.conformal.regions import ConformalRegion

__all__ = ["ConformalPrediction", "ConformalPredictor", "ConformalRegion", "conformalize"]
