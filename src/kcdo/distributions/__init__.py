"""What a prediction is: batches of distributions, of several kinds, and the questions."""

from kcdo.arrays import Array
from kcdo.distributions.affine import AffineBatch
from kcdo.distributions.batch import Batch, join
from kcdo.distributions.chain import ChainBatch, Link, default_draws
from kcdo.distributions.conditional import ConditionalDistribution
from kcdo.distributions.grid import GridLayout
from kcdo.distributions.grouped import GroupedBatch
from kcdo.distributions.layouts import Layout, as_points
from kcdo.distributions.lines import Modes
from kcdo.distributions.mixtures import MixtureBatch
from kcdo.distributions.nodes import NodeBatch
from kcdo.distributions.picture import small_html, small_svg
from kcdo.distributions.positivity import (
    POSITIVITY,
    Positivity,
    make_positive,
    positive_density,
    positive_parts,
)
from kcdo.distributions.recalibrated import (
    RecalibratedBatch,
    bent,
    level_density,
    uniforms_of_three,
)
from kcdo.distributions.regions import HighestDensityRegion
from kcdo.distributions.scattered import ScatteredLayout
from kcdo.distributions.sources import BatchSource
from kcdo.distributions.spikes import SpikesBatch
from kcdo.distributions.student import StudentTail
from kcdo.distributions.transformed import TransformedBatch
from kcdo.measures import Grid, Measure


def layout_of(measure: Measure, scales: Array) -> Layout:
    """Return the layout of densities on the nodes of a measure, for an output kernel's scales."""
    return GridLayout(measure) if isinstance(measure, Grid) else ScatteredLayout.of(measure, scales)


__all__ = [
    "POSITIVITY",
    "AffineBatch",
    "Batch",
    "BatchSource",
    "ChainBatch",
    "ConditionalDistribution",
    "GridLayout",
    "GroupedBatch",
    "HighestDensityRegion",
    "Layout",
    "Link",
    "MixtureBatch",
    "Modes",
    "NodeBatch",
    "Positivity",
    "RecalibratedBatch",
    "ScatteredLayout",
    "SpikesBatch",
    "StudentTail",
    "TransformedBatch",
    "as_points",
    "bent",
    "default_draws",
    "join",
    "layout_of",
    "level_density",
    "make_positive",
    "positive_density",
    "positive_parts",
    "small_html",
    "small_svg",
    "uniforms_of_three",
]
