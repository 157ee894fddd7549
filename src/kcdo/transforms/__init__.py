"""Strictly increasing maps of outputs: onto the whole line, or to normal scores.

A model of T(y) on the whole line is a model of y between its bounds. Arrays are (..., d), one
column per output.
"""

from kcdo.transforms.base import Columns, Identity, Transform
from kcdo.transforms.bounded import Above, Below, Between
from kcdo.transforms.support import Support, strictly_inside, transform_for
from kcdo.transforms.tabulated import Tabulated, normal_scores, standardised

__all__ = [
    "Above",
    "Below",
    "Between",
    "Columns",
    "Identity",
    "Support",
    "Tabulated",
    "Transform",
    "normal_scores",
    "standardised",
    "strictly_inside",
    "transform_for",
]
