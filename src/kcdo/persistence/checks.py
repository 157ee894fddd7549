"""Whether the parts of a loaded object fit one another.

Types and finite values have been checked before: here are shapes, ranges and signs.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcdo.automatic import Chosen, Side
from kcdo.combination import NAMES, CombinedOperator, Located
from kcdo.distributions import GridLayout, ScatteredLayout
from kcdo.embeddings import SampleEmbedding
from kcdo.errors import ModelFileError
from kcdo.kernels import Kernel, OnColumns
from kcdo.linalg import CholeskyFactor, ConjugateGradients, GridToeplitz
from kcdo.location import LocationParameters, LocationScale, Regression, Spread
from kcdo.measures import Grid, Scattered
from kcdo.operators import DensityOperator, MeanOperator, _Matrix, _NearRows
from kcdo.parallel import thread_count
from kcdo.reconstruction import Reconstruction
from kcdo.streaming import StreamPlan
from kcdo.systems import (
    Centres,
    ExactSystem,
    Groups,
    NearestRows,
    NystromSums,
    has_metric,
    metric_coordinates,
)
from kcdo.systems.exact import _BlockProduct
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


def nearest_rows(rows: NearestRows) -> None:
    """Check that every row has a weight, and that the kernel says what is near."""
    centres(rows)
    shape(rows.row_weights, rows.n_centres)
    need(np.all(rows.row_weights > 0) and 0 < rows.alpha < np.inf, "ridges that are not positive")
    need(0 < rows.neighbours <= rows.n_centres, "the number of neighbours")
    need(has_metric(rows.kernel, rows.centres), "a kernel without a metric")
    coordinates = metric_coordinates(rows._inner, rows._points)
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


def block_product(product: _BlockProduct) -> None:
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
    need(isinstance(values, _NearRows) == isinstance(operator.system, NearestRows), "near rows")
    if isinstance(values, _Matrix):
        width = n_nodes if values.second is None else len(values.second)
        shape(values.first, n, width + 1)
        if values.second is not None:
            shape(values.second, None, n_nodes)
        return
    if isinstance(values, _NearRows):
        need(values.output is output, "two output sides")
        shape(values.Y, n, output.measure.dim)
        return
    need(values.system.n_centres == n and values.output.measure.n_nodes == n_nodes, "weights")
    shape(values.weight_sums, n)
    shape(values.Y, len(values.system.groups.member_of), output.measure.dim)


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


def location_scale(model: LocationScale) -> None:
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


def located(located: Located) -> None:
    """Check that residuals are of the same inputs and outputs as location and scale."""
    shape(located.residual.system.centres, None, located.map.location.centres.centres.shape[1])
    need(located.residual.dim == len(located.map.location.offset), "residuals and locations")


def combined_operator(operator: CombinedOperator) -> None:
    """Check that the forms are of the same inputs and outputs, and that all weights have one."""
    p, d = operator.plain.system.centres.shape[1], operator.dim
    if operator.located is not None:
        shape(operator.located.map.location.centres.centres, None, p)
        need(operator.located.residual.dim == d, "outputs of the forms of a combination")
    shape(operator.centre, d)
    shape(operator.spread, d)
    if operator.nearest is not None:
        shape(operator.nearest.system.centres, None, p)
        need(operator.nearest.dim == d, "outputs of the forms of a combination")
    form_weights(operator.weights, operator.located is not None, operator.nearest is not None)
    if operator.weights.get("marginal_tail", 0.0) > 0:
        need(np.all(operator.spread > 0), "a tail without width")


def form_weights(weights: dict[str, float], located: bool, nearest: bool) -> None:
    """Check the weights of a combination."""
    need(set(weights) <= set(NAMES), "weights of unknown forms")
    values = np.array(list(weights.values()), dtype=float)
    need(np.all(values >= 0) and abs(values.sum() - 1.0) < 1e-6, "weights that do not sum to 1")
    there = dict.fromkeys(("location_scale", "residual_tail", "normal"), located)
    for name, made in (there | {"nearest": nearest}).items():
        need(made or weights.get(name, 0.0) == 0.0, "the weight of a form that is missing")


def location_parameters(parameters: LocationParameters) -> None:
    """Check the ratios of noise."""
    need(parameters.noise > 0 and parameters.noise_of_noise > 0, "noise that is not positive")


def side(side: Side) -> None:
    """Check the ridge."""
    need(side.alpha > 0, "ridges that are not positive")


def chosen(chosen: Chosen) -> None:
    """Check that the parameters of all forms are of the same outputs."""
    d = chosen.plain.output.measure.dim
    shape(chosen.floor, d)
    need(np.all(chosen.floor >= 0), "scales that are negative")
    need((chosen.location is None) == (chosen.residual is None), "a form without its parameters")
    if chosen.residual is not None:
        need(chosen.residual.output.measure.dim == d, "outputs of the forms of a combination")
    if chosen.nearest is not None:
        need(chosen.nearest.output.measure.dim == d, "outputs of the forms of a combination")
    form_weights(chosen.weights, chosen.residual is not None, chosen.nearest is not None)


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
