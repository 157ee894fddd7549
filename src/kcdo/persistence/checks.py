"""Whether the parts of a loaded object fit one another.

Types and finite values have been checked before: here are shapes, ranges and signs.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcdo.components import (
    NAMES,
    DensityOperator,
    LocationParameters,
    LocationScale,
    LocationScaleMap,
    LocationScaleParameters,
    MarginalTail,
    MarginalTailParameters,
    MatrixValues,
    MeanOperator,
    Mixture,
    ModelParameters,
    NearestDensity,
    NearestParameters,
    OperatorParameters,
    PlainDensity,
    Regression,
    Spread,
)
from kcdo.distributions import GridLayout, ScatteredLayout
from kcdo.embeddings import SampleEmbedding
from kcdo.errors import ModelFileError
from kcdo.fitting import StreamPlan
from kcdo.kernels import Kernel, OnColumns, has_metric, metric_coordinates
from kcdo.linalg import CholeskyFactor, ConjugateGradients, GridToeplitz
from kcdo.measures import Grid, Scattered
from kcdo.parallel import thread_count
from kcdo.reconstruction import Reconstruction
from kcdo.systems import (
    BlockProduct,
    Centres,
    ExactSystem,
    Groups,
    NearestSystem,
    NystromSums,
    System,
)
from kcdo.transforms import Columns
from kcdo.validation import InputEncoder

Numbers = NDArray[Any]

_MOST_NODES = 1 << 40  # far from where 64-bit products overflow


def need(condition: Any, what: str) -> None:
    """Raise, saying what does not fit, unless the condition holds."""
    if not condition:
        raise ModelFileError(f"its parts do not fit: {what}.")


def shape(array: Numbers, *sizes: int | None) -> None:
    """Need an array of these sizes; None is any."""
    fits = array.ndim == len(sizes) and all(
        size is None or size == n for size, n in zip(sizes, array.shape, strict=True)
    )
    need(fits, f"an array of shape {array.shape} is not {sizes}")


def kernel_fits(kernel: Kernel, rows: Numbers) -> None:
    """Need a kernel that gives a finite value on such rows: scales and columns in number."""
    value = kernel.block(rows[:1], rows[:1])
    need(value.shape == (1, 1) and np.isfinite(value).all(), f"{kernel} and its inputs")


def on_columns(kernel: OnColumns) -> None:
    """Check the columns of a kernel."""
    need(kernel.columns, "a kernel on no columns")


def grid(grid: Grid) -> None:
    """Check the corners and the number of nodes of a grid."""
    shape(grid.lower, len(grid.shape))
    shape(grid.upper, len(grid.shape))
    need(grid.shape and min(grid.shape) >= 1, "a grid without nodes")
    need(math.prod(grid.shape) < _MOST_NODES, "a grid of too many nodes")
    need(np.all(grid.upper > grid.lower), "a box without width")


def scattered(measure: Scattered) -> None:
    """Check nodes and weights."""
    shape(measure.nodes, None, None)
    shape(measure.weights, len(measure.nodes))
    need(measure.nodes.size, "a measure without nodes")
    need(np.all(measure.weights > 0), "weights of nodes that are not positive")


def reconstruction(output: Reconstruction) -> None:
    """Check that kernel and measure are of one dimension."""
    need(output.kernel.dim == output.measure.dim, "output kernel and reference measure")
    kernel_fits(output.kernel, np.zeros((1, output.measure.dim)))


def bumps(layout: ScatteredLayout) -> None:
    """Check the bumps."""
    shape(layout.sds, *layout.nodes.shape)
    need(layout.sds.ndim == 2 and np.all(layout.sds > 0), "widths that are not positive")


def groups(groups: Groups) -> None:
    """Check that every observation belongs to a group and every group has one."""
    n = len(groups.points)
    shape(groups.points, None, None)
    shape(groups.member_of, None)
    shape(groups.weights, len(groups.member_of))
    need(np.array_equal(np.unique(groups.member_of), np.arange(n)), "groups of equal inputs")
    need(np.all(groups.weights > 0), "weights that are not positive")


def centres(centres: Centres) -> None:
    """Check the centres, and the kernel on them."""
    shape(centres.centres, None, None)
    need(centres.centres.size, "no centres")
    kernel_fits(centres.kernel, centres.centres)
    thread_count(centres.n_jobs)


def nearest_system(system: NearestSystem) -> None:
    """Check that every row has a weight, and that the kernel says what is near."""
    centres(system)
    weights = system.row_weights
    shape(weights, system.n_centres)
    need(np.all(weights > 0) and 0 < system.alpha < np.inf, "ridges that are not positive")
    need(has_metric(system.kernel, system.centres), "a kernel without a metric")
    coordinates = metric_coordinates(system.rows.inner, system.rows.points)
    need(np.isfinite(coordinates).all(), "inputs that are infinitely far apart")


def exact_system(system: ExactSystem) -> None:
    """Check that groups, ridge and factor are of one size."""
    centres(system)
    n = system.n_centres
    shape(system.groups.points, n, system.centres.shape[1])
    shape(system.ridge, n)
    need(np.all(system.ridge > 0) and system.alpha > 0, "ridges that are not positive")
    need(len(system.factor) == n, "the factor and its inputs")


def factor(factor: CholeskyFactor) -> None:
    """Check that the factor can be divided by."""
    need(np.all(np.diagonal(factor._upper) > 0), "a factor that is not positive")


def gradients(solver: ConjugateGradients) -> None:
    """Check the preconditioner; the product was checked when the solver was made."""
    shape(solver._ridge, None)
    shape(solver._low_rank, len(solver), None)
    rank = solver._low_rank.shape[1]
    shape(solver._small[0], rank, rank)
    need(np.all(solver._ridge > 0), "ridges that are not positive")


def block_product(product: BlockProduct) -> None:
    """Check the kernel on the points."""
    shape(product.points, None, None)
    kernel_fits(product.kernel, product.points)


def toeplitz(product: GridToeplitz) -> None:
    """Check the places on the grid and the transform of the kernel."""
    sizes = product._shape
    need(sizes and min(sizes) >= 1, "a grid without sites")
    shape(product._spectrum, *sizes[:-1], sizes[-1] // 2 + 1)
    shape(product._index, None)
    sites = np.prod(sizes, dtype=float)
    need(np.all((product._index >= 0) & (product._index < sites)), "places outside the grid")


def sums(sums: NystromSums) -> None:
    """Check that the sums are over the same centres and targets."""
    n_targets, m = sums.targets.shape
    shape(sums.cross, m, m)
    shape(sums.ones, m)
    shape(sums.target_totals, n_targets)
    need(sums.weight >= 0 and sums.squared_weight >= 0 and sums.n_rows >= 0, "negative sums")


def plan(plan: StreamPlan) -> None:
    """Check the centres of a streamed fit."""
    shape(plan.centres, None, None)
    kernel_fits(plan.kernel, plan.centres)
    need(plan.chunk_rows >= 1, "chunks without rows")


def density_operator(operator: DensityOperator) -> None:
    """Check that sections, node values, marginal and layout are of one size."""
    n, output, layout = operator.system.n_centres, operator.output, operator.layout
    n_nodes, values = output.measure.n_nodes, operator.values
    shape(operator.marginal, n_nodes)
    need(layout.n_nodes == n_nodes and layout.dim == output.measure.dim, "layout and measure")
    if isinstance(layout, GridLayout):
        need(isinstance(output.measure, Grid), "a grid layout and scattered nodes")
    if isinstance(values, MatrixValues):
        need(not isinstance(operator.system, NearestSystem), "near rows")
        width = n_nodes if values.second is None else len(values.second)
        shape(values.first, n, width + 1)
        if values.second is not None:
            shape(values.second, None, n_nodes)
        return
    system: Any = operator.system
    need(isinstance(system, System), "weights of rows without their system")
    need(values.output is output, "two output sides")
    shape(values.Y, len(system.row_weights), output.measure.dim)


def columns(transform: Columns) -> None:
    """Check that there is one map per output."""
    need(transform.parts, "a transform of no outputs")
    need(not any(isinstance(part, Columns) for part in transform.parts), "transforms in transforms")


def regression(regression: Regression) -> None:
    """Check that coefficients are those of the centres."""
    shape(regression.offset, None)
    shape(regression.coefficients, regression.centres.n_centres, len(regression.offset))


def predictive_spread(spread: Spread) -> None:
    """Check that noise and signal are variances."""
    shape(spread.signal, None)
    need(spread.noise > 0 and np.all(spread.signal >= 0), "variances that are negative")


def location_scale(model: LocationScaleMap) -> None:
    """Check that location and scale are of the same inputs and outputs."""
    p, d = model.location.centres.centres.shape[1], len(model.location.offset)
    shape(model.spread.centres.centres, None, p)
    shape(model.spread.signal, d)
    if model.log_noise is not None:
        shape(model.log_noise.centres.centres, None, p)
        shape(model.log_noise.offset, d)
    for least in (model.factor, model.floor):
        shape(least, d)
        need(np.all(least >= 0), "scales that are negative")
    need(np.all(model.factor + model.floor > 0), "scales that are not positive")


def located(located: LocationScale) -> None:
    """Check that residuals are of the same inputs and outputs as location and scale."""
    shape(located.residual.system.centres, None, located.map.location.centres.centres.shape[1])
    need(located.residual.dim == len(located.map.location.offset), "residuals and locations")


def marginal_tail(tail: MarginalTail) -> None:
    """Check that the tail has a width."""
    shape(tail.centre, None)
    shape(tail.spread, len(tail.centre))
    need(np.all(tail.spread > 0), "a tail without width")


_COMPONENTS = (PlainDensity, LocationScale, NearestDensity, MarginalTail)
_PARAMETERS = (
    OperatorParameters,
    LocationScaleParameters,
    NearestParameters,
    MarginalTailParameters,
)


def mixture_of_components(mixture: Mixture) -> None:
    """Check that the components are of the same inputs and outputs, and that weights have one."""
    parts = mixture.components
    need(parts and isinstance(parts[0], PlainDensity), "a mixture without its density operator")
    p, d = mixture.primary.system.centres.shape[1], mixture.dim
    for part in parts:
        need(isinstance(part, _COMPONENTS), "a component of no known kind")
        need(part.dim == d, "outputs of the components of a mixture")
        if isinstance(part, LocationScale):
            shape(part.map.location.centres.centres, None, p)
        if isinstance(part, NearestDensity):
            shape(part.operator.system.centres, None, p)
            need(isinstance(part.operator.system, NearestSystem), "near rows")
    component_weights(mixture.weights, {name for part in parts for name in part.names})


def component_weights(weights: dict[str, float], there: set[str]) -> None:
    """Check the weights of a mixture, none of which may be of a component that is missing."""
    need(set(weights) <= set(NAMES), "weights of unknown components")
    values = np.array(list(weights.values()), dtype=float)
    need(np.all(values >= 0) and abs(values.sum() - 1.0) < 1e-6, "weights that do not sum to 1")
    missing = [name for name, weight in weights.items() if weight > 0 and name not in there]
    need(not missing, "the weight of a component that is missing")


def location_parameters(parameters: LocationParameters) -> None:
    """Check the ratios of noise."""
    need(parameters.noise > 0 and parameters.noise_of_noise > 0, "noise that is not positive")


def operator_parameters(parameters: OperatorParameters) -> None:
    """Check the ridge."""
    need(parameters.alpha > 0, "ridges that are not positive")


def model_parameters(parameters: ModelParameters) -> None:
    """Check that the parameters of all components are of the same outputs."""
    parts: tuple[Any, ...] = parameters.components
    there: set[str] = set()
    need(parts and type(parts[0]) is OperatorParameters, "parameters without those of the density")
    d = parts[0].output.measure.dim
    for part in parts:
        need(isinstance(part, _PARAMETERS), "parameters of no known kind")
        if isinstance(part, LocationScaleParameters):
            shape(part.floor, d)
            need(np.all(part.floor >= 0), "scales that are negative")
            there |= set(LocationScale.names)
        output = part.residual.output if isinstance(part, LocationScaleParameters) else None
        output = part.output if isinstance(part, OperatorParameters) else output
        need(output is None or output.measure.dim == d, "outputs of the components of a mixture")
        if isinstance(part, OperatorParameters):
            there |= {"nearest" if isinstance(part, NearestParameters) else "plain"}
        if isinstance(part, MarginalTailParameters):
            there |= {"marginal_tail"}
    component_weights(parameters.weights, there)


def mean_operator(operator: MeanOperator) -> None:
    """Check outputs, and the kernel on them."""
    shape(operator.outputs, len(operator.system.groups.member_of), None)
    kernel_fits(operator.kernel, operator.outputs)


def embedding(embedding: SampleEmbedding) -> None:
    """Check points, weights and the kernel on them."""
    shape(embedding.points, None, None)
    shape(embedding.weights, len(embedding.points))
    kernel_fits(embedding.kernel, embedding.points)


def encoder(encoder: InputEncoder) -> None:
    """Check the codes of categories."""
    need(not encoder.objects, "inputs that are not numbers")
    for codes in encoder.categories.values():
        need(list(codes.values()) == list(range(len(codes))), "codes of categories")
