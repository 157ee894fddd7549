"""kcdo: conditional densities as kernel operators.

Names are loaded when first used, so that ``import kcdo`` and ``kcdo --help`` are instant.
"""

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kcdo._version import __version__

if TYPE_CHECKING:
    from kcdo import metrics
    from kcdo.components import Combination
    from kcdo.conformal import (
        ConformalPrediction,
        ConformalPredictor,
        ConformalRegion,
        conformalize,
    )
    from kcdo.datasets import Donut, make_donut
    from kcdo.distributions import ConditionalDistribution, HighestDensityRegion
    from kcdo.embeddings import GaussianEmbedding, MeanEmbedding, SampleEmbedding, mmd
    from kcdo.errors import (
        AccuracyWarning,
        DataNotFoundError,
        DiscreteOutputWarning,
        InvalidInputError,
        InvalidTypeError,
        KcdoError,
        KcdoWarning,
        MissingExtraError,
        ModelFileError,
        NotEnoughMemoryError,
        SignedDensityError,
        SupportWarning,
    )
    from kcdo.estimators import (
        ConditionalDensityOperator,
        ConditionalMeanOperator,
        DensityReconstruction,
        FitReport,
        ReconstructedDensity,
        load,
        reconstruct,
    )
    from kcdo.inputs import GaussianInput, SampleInput
    from kcdo.kernels import (
        Adapter,
        Automatic,
        Categorical,
        DensityKernel,
        Gaussian,
        Kernel,
        Laplace,
        Matern,
        Nugget,
        Periodic,
        Product,
        Sum,
        Warped,
        with_median_scales,
    )
    from kcdo.linalg import IteratedTikhonov, PrintedForm, SpectralCutoff, Tikhonov
    from kcdo.measures import QuasiRandomBox, Sample, UniformBox
    from kcdo.plotting import (
        CalibrationDisplay,
        DensityHeatmapDisplay,
        ImportanceDisplay,
        JointDensityDisplay,
        ReportDisplay,
        RidgelineDisplay,
        plot_distribution,
    )
    from kcdo.regularisation import (
        CorrectedScheme,
        PowerScheme,
        PrintedScheme,
        finite_sample_bound,
    )
    from kcdo.reports import write_report
    from kcdo.systems import Exact, Iterative, Nystrom

_HOMES = {
    "components": ("Combination",),
    "conformal": ("ConformalPrediction", "ConformalPredictor", "ConformalRegion", "conformalize"),
    "datasets": ("Donut", "make_donut"),
    "distributions": ("ConditionalDistribution", "HighestDensityRegion"),
    "embeddings": ("GaussianEmbedding", "MeanEmbedding", "SampleEmbedding", "mmd"),
    "errors": (
        "AccuracyWarning",
        "DataNotFoundError",
        "DiscreteOutputWarning",
        "InvalidInputError",
        "InvalidTypeError",
        "KcdoError",
        "KcdoWarning",
        "MissingExtraError",
        "ModelFileError",
        "NotEnoughMemoryError",
        "SignedDensityError",
        "SupportWarning",
    ),
    "estimators": (
        "ConditionalDensityOperator",
        "ConditionalMeanOperator",
        "DensityReconstruction",
        "FitReport",
        "ReconstructedDensity",
        "load",
        "reconstruct",
    ),
    "inputs": ("GaussianInput", "SampleInput"),
    "kernels": (
        "Adapter",
        "Automatic",
        "Categorical",
        "DensityKernel",
        "Gaussian",
        "Kernel",
        "Laplace",
        "Matern",
        "Nugget",
        "Periodic",
        "Product",
        "Sum",
        "Warped",
        "with_median_scales",
    ),
    "linalg": ("IteratedTikhonov", "PrintedForm", "SpectralCutoff", "Tikhonov"),
    "measures": ("QuasiRandomBox", "Sample", "UniformBox"),
    "metrics": (),  # used through the module: kcdo.metrics.crps
    "plotting": (
        "CalibrationDisplay",
        "DensityHeatmapDisplay",
        "ImportanceDisplay",
        "JointDensityDisplay",
        "ReportDisplay",
        "RidgelineDisplay",
        "plot_distribution",
    ),
    "reports": ("write_report",),
    "systems": ("Exact", "Iterative", "Nystrom"),
    "regularisation": ("CorrectedScheme", "PowerScheme", "PrintedScheme", "finite_sample_bound"),
}
_RENAMED = {"Remembering": "Nugget"}  # the old names work for one more version
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AccuracyWarning",
    "Adapter",
    "Automatic",
    "CalibrationDisplay",
    "Categorical",
    "Combination",
    "ConditionalDensityOperator",
    "ConditionalDistribution",
    "ConditionalMeanOperator",
    "ConformalPrediction",
    "ConformalPredictor",
    "ConformalRegion",
    "CorrectedScheme",
    "DataNotFoundError",
    "DensityHeatmapDisplay",
    "DensityKernel",
    "DensityReconstruction",
    "DiscreteOutputWarning",
    "Donut",
    "Exact",
    "FitReport",
    "Gaussian",
    "GaussianEmbedding",
    "GaussianInput",
    "HighestDensityRegion",
    "ImportanceDisplay",
    "InvalidInputError",
    "InvalidTypeError",
    "IteratedTikhonov",
    "Iterative",
    "JointDensityDisplay",
    "KcdoError",
    "KcdoWarning",
    "Kernel",
    "Laplace",
    "Matern",
    "MeanEmbedding",
    "MissingExtraError",
    "ModelFileError",
    "NotEnoughMemoryError",
    "Nugget",
    "Nystrom",
    "Periodic",
    "PowerScheme",
    "PrintedForm",
    "PrintedScheme",
    "Product",
    "QuasiRandomBox",
    "ReconstructedDensity",
    "ReportDisplay",
    "RidgelineDisplay",
    "Sample",
    "SampleEmbedding",
    "SampleInput",
    "SignedDensityError",
    "SpectralCutoff",
    "Sum",
    "SupportWarning",
    "Tikhonov",
    "UniformBox",
    "Warped",
    "__version__",
    "conformalize",
    "finite_sample_bound",
    "load",
    "make_donut",
    "metrics",
    "mmd",
    "plot_distribution",
    "reconstruct",
    "with_median_scales",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return import_module(f"kcdo.{name}")
    if name in _RENAMED:
        new = _RENAMED[name]
        warnings.warn(
            f"kcdo.{name} is now called kcdo.{new}; the old name will go in the next version.",
            DeprecationWarning,
            stacklevel=2,
        )
        return __getattr__(new)
    if name not in _HOME_OF:
        raise AttributeError(f"module 'kcdo' has no attribute {name!r}")
    value = getattr(import_module(f"kcdo.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
