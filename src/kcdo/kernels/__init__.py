"""Kernels: immutable value objects, scales in the units of the data."""

from kcdo.kernels.base import Kernel, OnColumns, Product, ScaledKernel, Sum, leaves
from kcdo.kernels.density import DensityKernel, with_output_sds
from kcdo.kernels.expectation import expectation, gaussian_draws
from kcdo.kernels.foreign import Adapter, as_kernel
from kcdo.kernels.gradients import FreeScales
from kcdo.kernels.gram import cross_gram, gram, lower_gram
from kcdo.kernels.memory import Remembering
from kcdo.kernels.scales import median_scales, weighted_mean_sd, weighted_median, with_median_scales
from kcdo.kernels.stationary import Automatic, Categorical, Gaussian, Laplace, Matern, Periodic
from kcdo.kernels.warped import Warped, after_warps, warped, warped_columns, without_warps

__all__ = [
    "Adapter",
    "Automatic",
    "Categorical",
    "DensityKernel",
    "FreeScales",
    "Gaussian",
    "Kernel",
    "Laplace",
    "Matern",
    "OnColumns",
    "Periodic",
    "Product",
    "Remembering",
    "ScaledKernel",
    "Sum",
    "Warped",
    "after_warps",
    "as_kernel",
    "cross_gram",
    "expectation",
    "gaussian_draws",
    "gram",
    "leaves",
    "lower_gram",
    "median_scales",
    "warped",
    "warped_columns",
    "weighted_mean_sd",
    "weighted_median",
    "with_median_scales",
    "with_output_sds",
    "without_warps",
]
