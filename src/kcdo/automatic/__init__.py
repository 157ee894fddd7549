"""``selection="auto"``: every open parameter by held-out losses, then a combination."""

from kcdo.automatic.fit import automatic_fit, fit_chosen, tuned_wishes
from kcdo.automatic.problem import AutomaticFit, Chosen, Problem, Side, discrete_floor

__all__ = [
    "AutomaticFit",
    "Chosen",
    "Problem",
    "Side",
    "automatic_fit",
    "discrete_floor",
    "fit_chosen",
    "tuned_wishes",
]
