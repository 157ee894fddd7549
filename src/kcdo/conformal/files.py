"""What model files keep of a calibration."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.conformal.predictor import ConformalPredictor
from kcdo.conformal.scores import HeldOut
from kcdo.conformal.thresholds import Folds, Split
from kcdo.errors import InvalidTypeError
from kcdo.estimators import ConditionalDensityOperator, DensityReconstruction
from kcdo.persistence import register
from kcdo.persistence.checks import need, shape


def _split_state(split: Split) -> dict[str, Any]:
    for what, hint in (
        ("groups", "name a column of the inputs"),
        ("density_ratio", "use a kcdo.DensityReconstruction"),
    ):
        if callable(getattr(split, what)):
            raise InvalidTypeError(
                f"a model file cannot hold {what} that are a function, since it holds no code: "
                f"{hint}, or pickle or joblib instead."
            )
    return dict(vars(split))


def _check_values(values: Array) -> None:
    shape(values, None, None)
    need(len(values) and np.all((values >= 0) & (values <= 1)), "the ranks of calibration rows")


def _check_split(split: Split) -> None:
    _check_values(split.values)
    shape(split.member_of, len(split))
    shape(split.weights, len(split))
    need(len(set(split.labels)) == len(split.labels), "groups of one label")
    inside = (split.member_of >= 0) & (split.member_of < len(split.labels))
    need(np.all(inside), "groups of calibration rows")
    need(np.all(split.weights >= 0) and split.weights.any(), "weights of calibration rows")
    need(split.groups is not None or split.labels == (None,), "groups without a rule")
    unweighted = np.all(split.weights == 1)
    need(split.density_ratio is not None or unweighted, "weights without a density ratio")


def _check_folds(folds: Folds) -> None:
    need(folds.held_out, "a jackknife+ without folds")
    for fold in folds.held_out:
        _check_values(fold.values)
        need(np.all(np.diff(fold.values, axis=0) >= 0), "ranks that are not sorted")


def _check_predictor(predictor: ConformalPredictor) -> None:
    model, calibration = predictor.model, predictor.calibration
    held_out = (
        [HeldOut(model, calibration.values)]
        if isinstance(calibration, Split)
        else calibration.held_out
    )
    for each in held_out:
        need(isinstance(each.model, ConditionalDensityOperator), "a calibration without a model")
        need(each.dim == each.model._n_outputs == model._n_outputs, "outputs of a calibration")
        need(each.model.n_features_in_ == model.n_features_in_, "inputs of a calibration")


_SPLIT = {
    "values": Array,
    "groups": str | int | None,
    "labels": tuple[Any, ...],
    "member_of": NDArray[np.integer],
    "density_ratio": DensityReconstruction | None,
    "weights": Array,
}
register("ConformalHeldOut", HeldOut)
register("ConformalFolds", Folds, check=_check_folds)
register("ConformalSplit", Split, fields=_SPLIT, state=_split_state, check=_check_split)
register("ConformalPredictor", ConformalPredictor, check=_check_predictor)
