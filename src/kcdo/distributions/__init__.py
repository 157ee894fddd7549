"""What a prediction is: node masses, a layout that gives them meaning, and the questions."""

from kcdo.distributions.conditional import ConditionalDistribution, HighestDensityRegion
from kcdo.distributions.grid import GridLayout
from kcdo.distributions.layouts import Array, Layout, as_points
from kcdo.distributions.mixture import MixtureLayout
from kcdo.distributions.picture import small_html, small_svg
from kcdo.distributions.positivity import POSITIVITY, Positivity, make_positive
from kcdo.measures import Grid, Measure


def layout_of(measure: Measure, scales: Array) -> Layout:
    """Return the layout of densities on the nodes of a measure, for an output kernel's scales."""
    return GridLayout(measure) if isinstance(measure, Grid) else MixtureLayout.of(measure, scales)


__all__ = [
    "POSITIVITY",
    "ConditionalDistribution",
    "GridLayout",
    "HighestDensityRegion",
    "Layout",
    "MixtureLayout",
    "Positivity",
    "as_points",
    "layout_of",
    "make_positive",
    "small_html",
    "small_svg",
]
