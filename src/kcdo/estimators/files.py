"""What model files keep of the estimators."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcdo.components import (
    DensityOperator,
    LocationScaleParameters,
    MeanOperator,
    Mixture,
    ModelParameters,
    OperatorParameters,
)
from kcdo.estimators.conditional import ConditionalDensityOperator
from kcdo.estimators.density import DensityReconstruction, ReconstructedDensity
from kcdo.estimators.mean import ConditionalMeanOperator
from kcdo.estimators.report import FitReport
from kcdo.fitting import StreamPlan
from kcdo.frames import Labels
from kcdo.kernels import Kernel
from kcdo.persistence import register, register_model
from kcdo.persistence.checks import kernel_fits, need, shape
from kcdo.systems import Centres, NystromSums
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
}


def _check_columns(model: Any, n_inputs: int) -> None:
    need(model.n_features_in_ == n_inputs, "the number of input columns")
    if hasattr(model, "feature_names_in_"):
        need(model.feature_names_in_.dtype == object, "names of input columns")
        shape(model.feature_names_in_, n_inputs)


def _check_conditional(model: Any, system: Centres, n_outputs: int) -> None:
    _check_columns(model, system.centres.shape[1])
    need(model._n_outputs == n_outputs, "the number of outputs")
    need(n_outputs == 1 or not model._flat, "several outputs without an axis")
    names = model.target_names_
    need(names is None or len(names) == n_outputs, "names of outputs")
    if hasattr(model, "training_"):
        need(len(model.training_.scales) == model.n_features_in_, "the training table")


def _check_density_operator(model: ConditionalDensityOperator) -> None:
    model._check_parameters()
    operator = model._operator
    plain = operator.primary
    _check_conditional(model, plain.system, plain.dim)
    if model._transform is not None:
        need(len(model._transform.parts) == plain.dim, "the bounds of the outputs")
    if hasattr(model, "_parameters"):
        _check_parameters(model._parameters, plain)
    else:
        need(isinstance(operator, DensityOperator), "a mixture without its parameters")
    if hasattr(model, "_plan"):
        m, p = model._plan.centres.shape
        need(p == model.n_features_in_, "the centres of the streamed fit")
        need(model._plan.output.measure.dim == plain.dim, "the outputs of the streamed fit")
        shape(model.sums_.targets, model._plan.n_targets, m)


def _check_parameters(parameters: ModelParameters, plain: DensityOperator) -> None:
    """Check what another fit at the same parameters would use."""
    kernels: list[Kernel | None] = []
    for part in parameters.components:
        if isinstance(part, OperatorParameters):
            need(part.output.measure.dim == plain.dim, "the outputs of the chosen parameters")
            kernels.append(part.kernel)
        if isinstance(part, LocationScaleParameters):
            kernels += [part.residual.kernel, part.location.kernel, part.location.noise_kernel]
    for kernel in kernels:
        if kernel is not None:
            kernel_fits(kernel, plain.system.centres)


def _check_mean_operator(model: ConditionalMeanOperator) -> None:
    _check_conditional(model, model._operator.system, model._operator.outputs.shape[1])


def _check_density(density: ReconstructedDensity) -> None:
    measure = density.output.measure
    shape(density.signed_values, measure.n_nodes)
    shape(density.values, measure.n_nodes)
    need(density.integral > 0 and np.isfinite(density.integral), "the integral of a density")
    points = density.embedding.candidates()
    need(points.shape[1] == measure.dim, "embedding and reference measure")


def _check_reconstruction(model: DensityReconstruction) -> None:
    _check_columns(model, model.density_.output.measure.dim)


register("FitReport", FitReport)
register("TrainingTable", TrainingTable)
register("ReconstructedDensity", ReconstructedDensity, check=_check_density)
register_model(
    "ConditionalDensityOperator",
    ConditionalDensityOperator,
    _CONDITIONAL
    | {
        "_operator": DensityOperator | Mixture,
        "_parameters": ModelParameters,
        "_transform": Columns | None,
        "_plan": StreamPlan,
        "sums_": NystromSums,
        "report_": FitReport,
    },
    check=_check_density_operator,
    former={"_chosen": "_parameters"},
)
register_model(
    "ConditionalMeanOperator",
    ConditionalMeanOperator,
    _CONDITIONAL | {"_operator": MeanOperator},
    check=_check_mean_operator,
)
register_model(
    "DensityReconstruction",
    DensityReconstruction,
    _COLUMNS | {"density_": ReconstructedDensity, "_labels": Labels},
    check=_check_reconstruction,
)
