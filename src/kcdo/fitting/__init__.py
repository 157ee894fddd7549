"""How the parameters of a model come about: rules, searches, and the story of a default fit."""

from kcdo.fitting.automatic import AutomaticFit, automatic_fit
from kcdo.fitting.binning import OutputBins
from kcdo.fitting.chain import joint_fit
from kcdo.fitting.learning import Learnt, LocalLearning, PilotChoice, pilot_choice
from kcdo.fitting.metric import Metric
from kcdo.fitting.near_rows import NearRowJudges, NearRows, Neighbourhood
from kcdo.fitting.output_side import (
    DEFAULT_ALPHA,
    output_side,
    ridge_value,
    unconditional_sd,
    warn_outside,
)
from kcdo.fitting.pilot import Chunk, Pilot, pilot_size
from kcdo.fitting.problem import ONLY_PLAIN
from kcdo.fitting.rules import RULES
from kcdo.fitting.spec import ModelSpec
from kcdo.fitting.streamed import ResidualPlan, StreamedMixture
from kcdo.fitting.streamed_location import LocationPlan, StreamedLocation
from kcdo.fitting.streaming import StreamPlan, best_plain, same_plan, stream
from kcdo.fitting.transform import sample_transform

__all__ = [
    "DEFAULT_ALPHA",
    "ONLY_PLAIN",
    "RULES",
    "AutomaticFit",
    "Chunk",
    "Learnt",
    "LocalLearning",
    "LocationPlan",
    "Metric",
    "ModelSpec",
    "NearRowJudges",
    "NearRows",
    "Neighbourhood",
    "OutputBins",
    "Pilot",
    "PilotChoice",
    "ResidualPlan",
    "StreamPlan",
    "StreamedLocation",
    "StreamedMixture",
    "automatic_fit",
    "best_plain",
    "joint_fit",
    "output_side",
    "pilot_choice",
    "pilot_size",
    "ridge_value",
    "same_plan",
    "sample_transform",
    "stream",
    "unconditional_sd",
    "warn_outside",
]
