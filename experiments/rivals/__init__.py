"""Rivals of the library behind one small interface: fit, condition, query.

``METHODS`` maps a name to a constructor with the arguments ``seed`` and ``gap``. Packages of the
extra ``rivals`` are imported when a method is fitted.
"""

from collections.abc import Callable
from functools import partial

from experiments.rivals.bart import BART
from experiments.rivals.boosted_quantiles import CatBoostQuantiles
from experiments.rivals.conformal import ConformalForest
from experiments.rivals.flexible import FlexCode
from experiments.rivals.flows import ConditionalFlow
from experiments.rivals.hgp import HeteroscedasticGP
from experiments.rivals.kcef import KCEF
from experiments.rivals.kde import ConditionalKDE, StatsmodelsKDE
from experiments.rivals.lscde import LSCDE
from experiments.rivals.lss import BoostedNormal
from experiments.rivals.mdn import MixtureDensityNetwork
from experiments.rivals.ours import CDO
from experiments.rivals.vecchia import VecchiaGP
from kcdo.rivals import (
    CatBoost,
    ExactGP,
    Method,
    NGBoost,
    NotApplicable,
    Predictive,
    QuantileForest,
    Rescaled,
    Rival,
)

METHODS: dict[str, Callable[..., Method]] = {
    "kcdo": CDO,
    "kcdo-heuristic": partial(CDO, selection="heuristic"),
    "kcdo-paper": partial(CDO, selection="paper"),
    "gp": ExactGP,
    "hgp": HeteroscedasticGP,
    "ngboost": NGBoost,
    "catboost": CatBoost,
    "catboost-quantiles": CatBoostQuantiles,
    "lightgbmlss": BoostedNormal,
    "gpboost": VecchiaGP,
    "qrf": QuantileForest,
    "crepes": ConformalForest,
    "flexcode": FlexCode,
    "bart": BART,
    "bart-hetero": partial(BART, varying=True),
    "ckde": ConditionalKDE,
    "ckde-statsmodels": StatsmodelsKDE,
    "lscde": LSCDE,
    "mdn": MixtureDensityNetwork,
    "realnvp": partial(ConditionalFlow, kind="realnvp"),
    "maf": partial(ConditionalFlow, kind="maf"),
    "spline-flow": partial(ConditionalFlow, kind="spline", layers=2),
    "kcef": KCEF,
}

__all__ = [
    "BART",
    "CDO",
    "KCEF",
    "LSCDE",
    "METHODS",
    "BoostedNormal",
    "CatBoost",
    "CatBoostQuantiles",
    "ConditionalFlow",
    "ConditionalKDE",
    "ConformalForest",
    "ExactGP",
    "FlexCode",
    "HeteroscedasticGP",
    "Method",
    "MixtureDensityNetwork",
    "NGBoost",
    "NotApplicable",
    "Predictive",
    "QuantileForest",
    "Rescaled",
    "Rival",
    "StatsmodelsKDE",
    "VecchiaGP",
]
