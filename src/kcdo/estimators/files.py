"""What model files keep of the estimators."""

from typing import Any

from numpy.typing import NDArray

from kcdo.components import (
    ChainModel,
    ChainModelParameters,
    DensityOperator,
    MeanOperator,
    Mixture,
    ModelParameters,
    Univariate,
    UnivariateParameters,
)
from kcdo.estimators.conditional import ConditionalDensityOperator
from kcdo.estimators.density import DensityReconstruction, ReconstructedDensity
from kcdo.estimators.mean import ConditionalMeanOperator
from kcdo.estimators.report import FitReport
from kcdo.fitting import StreamPlan
from kcdo.frames import Labels
from kcdo.missing import PlausibleInputs
from kcdo.persistence.forms import register
from kcdo.persistence.models import register_model
from kcdo.reports.accuracy import Accuracy, OutputAccuracy
from kcdo.reports.foretold import Foretold
from kcdo.systems import NystromSums
from kcdo.training import TrainingTable
from kcdo.transforms import Columns
from kcdo.validation import InputEncoder

_COLUMNS = {"n_features_in_": int, "feature_names_in_": NDArray[Any]}
_CONDITIONAL = _COLUMNS | {
    "_encoder": InputEncoder,
    "_flat": bool,
    "_n_outputs": int,
    "target_names_": tuple[str, ...] | None,
    "training_": TrainingTable,
    "foretold_": Foretold,
    "_plausible": PlausibleInputs,
}

register("FitReport", FitReport)
register("TrainingTable", TrainingTable)
register("OutputAccuracy", OutputAccuracy)
register("Accuracy", Accuracy)
register("Foretold", Foretold)
register("PlausibleInputs", PlausibleInputs)
register("ReconstructedDensity", ReconstructedDensity)
register_model(
    "ConditionalDensityOperator",
    ConditionalDensityOperator,
    _CONDITIONAL
    | {
        "_operator": DensityOperator | Mixture | Univariate | ChainModel,
        "_parameters": ModelParameters | UnivariateParameters | ChainModelParameters,
        "_transform": Columns | None,
        "_plan": StreamPlan,
        "sums_": NystromSums,
        "report_": FitReport,
    },
    former={"_chosen": "_parameters"},
)
register_model(
    "ConditionalMeanOperator", ConditionalMeanOperator, _CONDITIONAL | {"_operator": MeanOperator}
)
register_model(
    "DensityReconstruction",
    DensityReconstruction,
    _COLUMNS | {"density_": ReconstructedDensity, "_labels": Labels},
)
