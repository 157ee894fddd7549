"""What model files keep of a calibration."""

from typing import Any

from kcdo.arrays import Array, Integers
from kcdo.conformal.predictor import ConformalPredictor
from kcdo.conformal.scores import HeldOut
from kcdo.conformal.thresholds import Folds, Split
from kcdo.estimators import ConditionalDensityOperator, DensityReconstruction
from kcdo.persistence.forms import register

_SPLIT = {
    "values": Array,
    "groups": str | int | None,
    "labels": tuple[Any, ...],
    "member_of": Integers,
    "density_ratio": DensityReconstruction | None,
    "weights": Array,
}
register("ConformalHeldOut", HeldOut, more={"model": ConditionalDensityOperator})
register("ConformalFolds", Folds)
register("ConformalSplit", Split, fields=_SPLIT)
register("ConformalPredictor", ConformalPredictor, more={"model": ConditionalDensityOperator})
