"""The scikit-learn face of the operators."""

from kcdo.estimators.conditional import ConditionalDensityOperator, FitReport
from kcdo.estimators.density import DensityReconstruction, ReconstructedDensity, reconstruct
from kcdo.estimators.mean import ConditionalMeanOperator

__all__ = [
    "ConditionalDensityOperator",
    "ConditionalMeanOperator",
    "DensityReconstruction",
    "FitReport",
    "ReconstructedDensity",
    "reconstruct",
]
