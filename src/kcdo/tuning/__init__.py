"""Choosing parameters: held-out losses in closed form, their gradients, and the search."""

from kcdo.tuning.likelihood import MarginalLikelihood
from kcdo.tuning.losses import BalancedScore, CdeLoss, CrpsLoss, LogScore, Loss, Scoring
from kcdo.tuning.objective import FilterLoss, HeldOutLoss
from kcdo.tuning.outputs import OutputFamily, node_shares, scale_per_length
from kcdo.tuning.search import (
    DensityChoice,
    Effort,
    Fixed,
    MeanChoice,
    Rows,
    Start,
    families,
    lowest_alpha,
    minimise,
    ridge_above,
    search_alpha,
    search_density,
    search_filter,
    search_mean,
    shortest_length,
)
from kcdo.tuning.smoothers import (
    ExactSmoother,
    FixedSmoother,
    Leave,
    NystromPoints,
    NystromSmoother,
)

__all__ = [
    "BalancedScore",
    "CdeLoss",
    "CrpsLoss",
    "DensityChoice",
    "Effort",
    "ExactSmoother",
    "FilterLoss",
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
    "lowest_alpha",
    "minimise",
    "node_shares",
    "ridge_above",
    "scale_per_length",
    "search_alpha",
    "search_density",
    "search_filter",
    "search_mean",
    "shortest_length",
]
