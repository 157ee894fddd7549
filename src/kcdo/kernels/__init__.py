"""Kernels: immutable value objects, scales in the units of the data."""

from kcdo.kernels.average import Average
from kcdo.kernels.base import Kernel, OnColumns, Product, Sum, Wrapper
from kcdo.kernels.columnwise import Categorical, Laplace, Periodic
from kcdo.kernels.density import DensityKernel, with_output_sds
from kcdo.kernels.expectation import expectation, gaussian_draws
from kcdo.kernels.features import Feature, FeatureMap
from kcdo.kernels.foreign import Adapter, as_kernel
from kcdo.kernels.gradients import FreeScales
from kcdo.kernels.gram import cross_gram, gram, lower_gram
from kcdo.kernels.metric import after_warps, has_metric, metric_coordinates, without_warps
from kcdo.kernels.nugget import Nugget
from kcdo.kernels.parts import leaves, transformed, walk
from kcdo.kernels.radial import Automatic, Gaussian, Matern, Radial
from kcdo.kernels.scaled import ScaledKernel
from kcdo.kernels.scales import median_scales, weighted_mean_sd, weighted_median, with_median_scales
from kcdo.kernels.warped import Mapped, Warped, warped, warped_columns

__all__ = [
    "Adapter",
    "Automatic",
    "Average",
    "Categorical",
    "DensityKernel",
    "Feature",
    "FeatureMap",
    "FreeScales",
    "Gaussian",
    "Kernel",
    "Laplace",
    "Mapped",
    "Matern",
    "Nugget",
    "OnColumns",
    "Periodic",
    "Product",
    "Radial",
    "ScaledKernel",
    "Sum",
    "Warped",
    "Wrapper",
    "after_warps",
    "as_kernel",
    "cross_gram",
    "expectation",
    "gaussian_draws",
    "gram",
    "has_metric",
    "leaves",
    "lower_gram",
    "median_scales",
    "metric_coordinates",
    "transformed",
    "walk",
    "warped",
    "warped_columns",
    "weighted_mean_sd",
    "weighted_median",
    "with_median_scales",
    "with_output_sds",
    "without_warps",
]
