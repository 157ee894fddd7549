"""The scikit-learn face of the operators."""

from kcdo.estimators import files  # noqa: F401  (registers the estimators for kcdo.load)
from kcdo.estimators.conditional import ConditionalDensityOperator
from kcdo.estimators.density import DensityReconstruction, ReconstructedDensity, reconstruct
from kcdo.estimators.mean import ConditionalMeanOperator
from kcdo.estimators.report import FitReport

__all__ = [
    "ConditionalDensityOperator",
    "ConditionalMeanOperator",
    "DensityReconstruction",
    "FitReport",
    "ReconstructedDensity",
    "reconstruct",
]
