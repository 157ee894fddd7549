"""Methods of others behind one small interface, fit, condition, query: to compare with.

What stands on a package of others imports it when it is fitted. The Gaussian process is our own.
"""

from kcdo.rivals.base import Method, NotApplicable, Predictive, Rescaled, Rival
from kcdo.rivals.boosting import CatBoost, NGBoost
from kcdo.rivals.forest import QuantileForest
from kcdo.rivals.gp import ExactGP

__all__ = [
    "CatBoost",
    "ExactGP",
    "Method",
    "NGBoost",
    "NotApplicable",
    "Predictive",
    "QuantileForest",
    "Rescaled",
    "Rival",
]
