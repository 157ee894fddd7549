"""Choosing parameters: held-out losses in closed form, their gradients, and the search."""

from kcdo.tuning.densities import (
    DensityChoice,
    DensitySearch,
    FilterSearch,
    Fixed,
    Start,
    ridge_above,
    shortest_length,
)
from kcdo.tuning.descent import lowest_alpha, minimise, search_alpha
from kcdo.tuning.families import FAMILIES, families
from kcdo.tuning.likelihood import MarginalLikelihood
from kcdo.tuning.losses import BalancedScore, CdeLoss, CrpsLoss, LogScore, Loss, Scoring
from kcdo.tuning.means import MeanChoice, log_noise_bounds, search_mean
from kcdo.tuning.objective import FilterLoss, HeldOutLoss
from kcdo.tuning.outputs import OutputFamily, node_shares, scale_per_length
from kcdo.tuning.rows import Effort, Rows
from kcdo.tuning.smoothers import (
    ExactSmoother,
    FixedSmoother,
    Leave,
    NystromPoints,
    NystromSmoother,
)

__all__ = [
    "FAMILIES",
    "BalancedScore",
    "CdeLoss",
    "CrpsLoss",
    "DensityChoice",
    "DensitySearch",
    "Effort",
    "ExactSmoother",
    "FilterLoss",
    "FilterSearch",
    "Fixed",
    "FixedSmoother",
    "HeldOutLoss",
    "Leave",
    "LogScore",
    "Loss",
    "MarginalLikelihood",
    "MeanChoice",
    "NystromPoints",
    "NystromSmoother",
    "OutputFamily",
    "Rows",
    "Scoring",
    "Start",
    "families",
    "log_noise_bounds",
    "lowest_alpha",
    "minimise",
    "node_shares",
    "ridge_above",
    "scale_per_length",
    "search_alpha",
    "search_mean",
    "shortest_length",
]
