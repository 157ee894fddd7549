"""The classes below the estimators that model files may hold, by the names that files use."""

from inspect import signature
from typing import Any, get_type_hints

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs

from kcdo import (
    components,
    distributions,
    embeddings,
    fitting,
    kernels,
    linalg,
    measures,
    reconstruction,
    regularisation,
    systems,
    transforms,
    validation,
)
from kcdo.arrays import Array
from kcdo.frames import Labels
from kcdo.memory import require_memory
from kcdo.parallel import thread_count
from kcdo.persistence import checks
from kcdo.persistence.forms import register, register_later
from kcdo.progress import Progress

Numbers = NDArray[Any]
_CENTRES = {"kernel": kernels.Kernel, "centres": Array, "n_jobs": int | None}

_SPEC = {
    "kernel_x": kernels.Kernel,
    "kernel_y": kernels.Kernel | None,
    "reference": measures.Reference | None,
    "alpha": float | regularisation.Scheme | None,
    "alpha_prime": float | regularisation.Scheme | None,
    "filter": linalg.Filter | None,
    "progress": Progress,
}
_PLAN = {
    "kernel": kernels.Kernel,
    "centres": Array,
    "output": reconstruction.Reconstruction,
    "bins": fitting.OutputBins | None,
    "chunk_rows": int,
    "judges": tuple[Numbers, Array, Array] | None,
}

# --- objects that need more than their fields


def _packed(upper: Array) -> Array:
    """Return the upper triangle of a matrix, column by column: half of the file."""
    pack: Any = get_lapack_funcs("trttp", (upper,))
    return pack(upper, uplo="U")[0]


def _unpacked(size: int, triangle: Array) -> Array:
    checks.shape(triangle, size * (size + 1) // 2)
    unpack: Any = get_lapack_funcs("tpttr", (triangle,))
    return unpack(size, triangle, uplo="U")[0]


def _factor_state(factor: linalg.CholeskyFactor) -> dict[str, Any]:
    return {"size": len(factor), "triangle": _packed(factor._upper)}


def _factor(size: int, triangle: Array) -> linalg.CholeskyFactor:
    new = object.__new__(linalg.CholeskyFactor)
    new._upper = _unpacked(size, triangle)
    return new


def _spread_state(spread: components.Spread) -> dict[str, Any]:
    return vars(spread) | {"whitener": _packed(spread.whitener)}


def _spread(centres: systems.Centres, whitener: Array, **others: Any) -> components.Spread:
    upper = np.triu(_unpacked(centres.n_centres, whitener))
    return components.Spread(centres, upper, **others)


def _gradients_state(solver: linalg.ConjugateGradients) -> dict[str, Any]:
    state = dict(vars(solver))
    product = state.pop("_product")
    # the FFT product is a method: its object is what is written
    return {"product": getattr(product, "__self__", product), **state}


def _gradients(product: Any, **state: Any) -> linalg.ConjugateGradients:
    by_fft = isinstance(product, linalg.GridToeplitz)
    n_points = len(product._index if by_fft else product.points)
    checks.need(n_points == len(state["_ridge"]), "a product and its ridge")
    new = object.__new__(linalg.ConjugateGradients)
    vars(new).update(state, _product=product.product if by_fft else product)
    return new


def _toeplitz(**state: Any) -> linalg.GridToeplitz:
    new = object.__new__(linalg.GridToeplitz)
    vars(new).update(state, _workers=thread_count(None))  # of this machine, not of that of the fit
    return new


def _sums_state(sums: systems.NystromSums) -> dict[str, Any]:
    """Leave out bins that no output has met: most of them where outputs have several columns."""
    met = (sums.targets != 0.0).any(axis=1) | (sums.target_totals != 0.0)
    rows = np.flatnonzero(met)
    return vars(sums) | {
        "rows": rows,
        "n_targets": len(met),
        "targets": sums.targets[rows],
        "target_totals": sums.target_totals[rows],
    }


def _sums(
    rows: NDArray[np.integer], n_targets: int, targets: Array, target_totals: Array, **others: Any
) -> systems.NystromSums:
    checks.shape(targets, len(rows), None)
    checks.shape(target_totals, len(rows))
    checks.shape(rows, None)
    inside = np.all((rows >= 0) & (rows < n_targets)) and np.all(rows[1:] > rows[:-1])
    checks.need(inside, "rows of sums")
    m = targets.shape[1]
    require_memory(8.0 * n_targets * (m + 1), "the sums of this model", "load it elsewhere.")
    all_targets, all_totals = np.zeros((n_targets, m)), np.zeros(n_targets)
    all_targets[rows], all_totals[rows] = targets, target_totals
    return systems.NystromSums(targets=all_targets, target_totals=all_totals, **others)


def _nearest_state(system: systems.NearestSystem) -> dict[str, Any]:
    return {
        "kernel": system.kernel,
        "centres": system.centres,
        "n_jobs": system.n_jobs,
        "row_weights": system.rows.weights,
        "alpha": system.alpha,
        "neighbours": system.rows.count,
    }


def _nearest(
    kernel: kernels.Kernel,
    centres: Numbers,
    n_jobs: int | None,
    row_weights: Array,
    alpha: float,
    neighbours: int,
) -> systems.NearestSystem:
    checks.need(0 < neighbours <= len(centres), "the number of neighbours")
    rows = systems.NearestRows(kernel, centres, row_weights, neighbours, n_jobs)
    return rows.factor(alpha)


def _exact_state(system: systems.ExactSystem) -> dict[str, Any]:
    return vars(system) | {"method": system.describe().method}


def _exact(method: str, **state: Any) -> systems.ExactSystem:
    return systems.ExactSystem(**state)


def _row_values(output: Any, Y: Array, **earlier: Any) -> components.RowValues:
    return components.RowValues(output, Y)


def _combined_operator(
    plain: components.DensityOperator,
    located: components.LocationScale | None,
    centre: Array,
    spread: Array,
    weights: dict[str, float],
    nearest: components.DensityOperator | None,
) -> components.Mixture:
    parts: list[components.Component] = [components.PlainDensity(plain)]
    parts += [] if located is None else [located]
    parts += [] if nearest is None else [components.NearestDensity(nearest)]
    if weights.get("marginal_tail", 0.0) > 0:
        parts.append(components.MarginalTail(centre, spread))
    return components.Mixture(tuple(parts), weights)


def _chosen(
    plain: components.OperatorParameters,
    location: components.LocationParameters | None,
    residual: components.OperatorParameters | None,
    weights: dict[str, float],
    floor: Array,
    nearest: components.OperatorParameters | None,
) -> components.ModelParameters:
    checks.need((location is None) == (residual is None), "a component without its parameters")
    parts: list[components.ComponentParameters] = [plain]
    if location is not None and residual is not None:
        parts.append(components.LocationScaleParameters(location, residual, floor))
    if nearest is not None:
        parts.append(components.NearestParameters(**vars(nearest)))
    if weights.get("marginal_tail", 0.0) > 0:
        parts.append(components.MarginalTailParameters())
    return components.ModelParameters(tuple(parts), weights)


def _wishes(n_jobs: int | None, seed: int, solver: Any, **others: Any) -> fitting.ModelSpec:
    settings = components.Settings(solver=solver, n_jobs=n_jobs, seed=seed)
    return fitting.ModelSpec(settings=settings, **others)


def _plan_state(plan: fitting.StreamPlan) -> dict[str, Any]:
    state = {name: getattr(plan, name) for name in _PLAN}
    return state | {"wishes": plan.spec}


def _plan(wishes: fitting.ModelSpec, **others: Any) -> fitting.StreamPlan:
    return fitting.StreamPlan(spec=wishes, **others)


def _density_kernel(kernel: kernels.Kernel, dim: int) -> kernels.DensityKernel:
    checks.need(0 < dim < 1000, "the dimension of an output kernel")  # it lists the columns
    return kernels.DensityKernel(kernel, dim)


def _register_sklearn_kernels() -> None:
    from sklearn.gaussian_process import kernels as theirs

    for name in (
        *("ConstantKernel", "WhiteKernel", "RBF", "Matern", "RationalQuadratic", "ExpSineSquared"),
        *("DotProduct", "PairwiseKernel", "Sum", "Product", "Exponentiation", "CompoundKernel"),
    ):
        kernel = getattr(theirs, name)
        register(f"sklearn.{name}", kernel, fields=dict.fromkeys(signature(kernel).parameters, Any))


# --- what users choose: kernels, measures, filters, schemes, solvers

for _name in (
    *("Automatic", "Gaussian", "Laplace", "Matern", "Periodic", "Categorical", "Product", "Sum"),
    "Warped",
):
    register(_name, getattr(kernels, _name))
register("Remembering", kernels.Nugget)  # as files of version 0.1 call it
register("Nugget", kernels.Nugget)
register("OnColumns", kernels.OnColumns, check=checks.on_columns)
register("DensityKernel", kernels.DensityKernel, make=_density_kernel)
register("Adapter", kernels.Adapter)
register_later("sklearn", _register_sklearn_kernels)

register("Grid", measures.Grid, check=checks.grid)
register("Scattered", measures.Scattered, check=checks.scattered)
register("UniformBox", measures.UniformBox)
register("QuasiRandomBox", measures.QuasiRandomBox)
register("Sample", measures.Sample, fields={"measure": measures.Scattered})

for _name in ("Tikhonov", "IteratedTikhonov", "SpectralCutoff", "PrintedForm"):
    register(_name, getattr(linalg, _name))
for _name in ("PowerScheme", "PrintedScheme", "CorrectedScheme"):
    register(_name, getattr(regularisation, _name))
for _name in ("Exact", "Iterative", "Nystrom"):
    register(_name, getattr(systems, _name))
register("Combination", components.Combination)

# --- what a fit makes of it

register("Groups", systems.Groups, check=checks.groups)
register("Centres", systems.Centres, fields=_CENTRES, check=checks.centres)
register(
    "NearestRows",
    systems.NearestSystem,
    fields=_CENTRES | {"row_weights": Array, "alpha": float, "neighbours": int},
    state=_nearest_state,
    make=_nearest,
    check=checks.nearest_system,
)
register(
    "ExactSystem",
    systems.ExactSystem,
    fields=_CENTRES
    | {
        "groups": systems.Groups,
        "alpha": float,
        "ridge": Array,
        "jitter": float,
        "method": str,
        "factor": linalg.CholeskyFactor | linalg.ConjugateGradients,
    },
    state=_exact_state,
    make=_exact,
    check=checks.exact_system,
)
register(
    "CholeskyFactor",
    linalg.CholeskyFactor,
    fields={"size": int, "triangle": Array},
    state=_factor_state,
    make=_factor,
    check=checks.factor,
)
register(
    "ConjugateGradients",
    linalg.ConjugateGradients,
    fields={
        "product": systems.BlockProduct | linalg.GridToeplitz,
        "_ridge": Array,
        "_low_rank": Array,
        "_small": tuple[Array, bool],
        "_tolerance": float,
        "_max_iterations": int,
        "iterations": int,
        "residual": float,
    },
    state=_gradients_state,
    make=_gradients,
    check=checks.gradients,
)
register("BlockProduct", systems.BlockProduct, check=checks.block_product)
register(
    "GridToeplitz",
    linalg.GridToeplitz,
    fields={"_shape": tuple[int, ...], "_index": NDArray[np.integer], "_spectrum": Numbers},
    make=_toeplitz,
    check=checks.toeplitz,
)
register(
    "NystromSums",
    systems.NystromSums,
    fields=get_type_hints(systems.NystromSums) | {"rows": NDArray[np.integer], "n_targets": int},
    state=_sums_state,
    make=_sums,
    check=checks.sums,
)

register("Reconstruction", reconstruction.Reconstruction, check=checks.reconstruction)
register("OutputBins", fitting.OutputBins)
register(
    "GridLayout",
    distributions.GridLayout,
    fields={"grid": measures.Grid},
    make=distributions.GridLayout,
)
register(
    "MixtureLayout",  # what files called it first
    distributions.ScatteredLayout,
    fields={"nodes": Array, "sds": Array},
    make=distributions.ScatteredLayout,
    check=checks.bumps,
)
register("SampleEmbedding", embeddings.SampleEmbedding, check=checks.embedding)

register("MatrixValues", components.MatrixValues)
for _name, _fields in (
    ("WeightedValues", {"system": systems.ExactSystem, "weight_sums": Array}),  # before 0.2
    ("NearRows", {}),  # before 0.2
    ("RowValues", {}),
):
    register(
        _name,
        components.RowValues,
        fields={"output": reconstruction.Reconstruction, "Y": Array} | _fields,
        make=_row_values,
    )
register(
    "DensityOperator",
    components.DensityOperator,
    fields={
        "system": systems.Centres,
        "output": reconstruction.Reconstruction,
        "values": components.MatrixValues | components.RowValues,
        "marginal": Array,
        "layout": distributions.Layout,
        "positivity": distributions.Positivity,
    },
    make=components.DensityOperator,
    check=checks.density_operator,
)
register("MeanOperator", components.MeanOperator, check=checks.mean_operator)

for _name in ("Identity", "Above", "Below", "Between"):
    register(_name, getattr(transforms, _name))
register("Columns", transforms.Columns, check=checks.columns)

register("Regression", components.Regression, check=checks.regression)
register(
    "Spread", components.Spread, state=_spread_state, make=_spread, check=checks.predictive_spread
)
register("LocationScale", components.LocationScaleMap, check=checks.location_scale)
register(
    "Located",
    components.LocationScale,
    fields={"map": components.LocationScaleMap, "residual": components.DensityOperator},
    make=components.LocationScale,
    check=checks.located,
)
register("PlainDensity", components.PlainDensity)
register("NearestDensity", components.NearestDensity)
register("MarginalTail", components.MarginalTail, check=checks.marginal_tail)
register(
    "CombinedOperator",  # before 0.2
    components.Mixture,
    fields={
        "plain": components.DensityOperator,
        "located": components.LocationScale | None,
        "centre": Array,
        "spread": Array,
        "weights": dict[str, float],
        "nearest": components.DensityOperator | None,
    },
    make=_combined_operator,
    absent={"nearest": None},
    check=checks.mixture_of_components,
)
register("Mixture", components.Mixture, check=checks.mixture_of_components)

register("LocationParameters", components.LocationParameters, check=checks.location_parameters)
register("Side", components.OperatorParameters, check=checks.operator_parameters)
register("NearestParameters", components.NearestParameters, check=checks.operator_parameters)
register("LocationScaleParameters", components.LocationScaleParameters)
register("MarginalTailParameters", components.MarginalTailParameters)
register(
    "Chosen",  # before 0.2
    components.ModelParameters,
    fields={
        "plain": components.OperatorParameters,
        "location": components.LocationParameters | None,
        "residual": components.OperatorParameters | None,
        "weights": dict[str, float],
        "floor": Array,
        "nearest": components.OperatorParameters | None,
    },
    make=_chosen,
    absent={"nearest": None},
    check=checks.model_parameters,
)
register("ModelParameters", components.ModelParameters, check=checks.model_parameters)

register(
    "Progress",
    Progress,
    fields={"verbose": bool},
    state=lambda progress: {"verbose": progress._verbose},
    make=Progress,
)
register(
    "Settings",
    components.Settings,
    fields={
        "solver": systems.Solver,
        "positivity": distributions.Positivity,
        "n_jobs": int | None,
        "seed": int,
    },
    make=components.Settings,
)
register(
    "Wishes",  # before 0.2
    fitting.ModelSpec,
    fields=_SPEC | {"n_jobs": int | None, "seed": int, "solver": systems.Solver},
    make=_wishes,
)
register(
    "ModelSpec",
    fitting.ModelSpec,
    fields=_SPEC | {"settings": components.Settings, "combination": components.Combination},
    make=fitting.ModelSpec,
)
register(
    "StreamPlan",
    fitting.StreamPlan,
    fields=_PLAN | {"wishes": fitting.ModelSpec},
    absent={"judges": None},
    state=_plan_state,
    make=_plan,
    check=checks.plan,
)
register("InputEncoder", validation.InputEncoder, check=checks.encoder)
register(
    "Labels",
    Labels,
    fields={"library": str | None, "outputs": tuple[str, ...] | None},
    make=Labels,
)
