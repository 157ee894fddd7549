"""The classes below the estimators that model files may hold, by the names that files use."""

from inspect import signature
from typing import Any, get_type_hints

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs

from kcdo import (
    automatic,
    binning,
    combination,
    distributions,
    embeddings,
    kernels,
    linalg,
    location,
    measures,
    operators,
    reconstruction,
    regularisation,
    selection,
    streaming,
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
from kcdo.systems.exact import _BlockProduct

Numbers = NDArray[Any]
_CENTRES = {"kernel": kernels.Kernel, "centres": Array, "n_jobs": int | None}


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


def _spread_state(spread: location.Spread) -> dict[str, Any]:
    return vars(spread) | {"whitener": _packed(spread.whitener)}


def _spread(centres: systems.Centres, whitener: Array, **others: Any) -> location.Spread:
    upper = np.triu(_unpacked(centres.n_centres, whitener))
    return location.Spread(centres, upper, **others)


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
    *("Remembering", "Warped"),
):
    register(_name, getattr(kernels, _name))
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
register("Combination", combination.Combination)

# --- what a fit makes of it

register("Groups", systems.Groups, check=checks.groups)
register("Centres", systems.Centres, fields=_CENTRES, check=checks.centres)
register(
    "NearestRows",
    systems.NearestRows,
    fields=_CENTRES | {"row_weights": Array, "alpha": float, "neighbours": int},
    check=checks.nearest_rows,
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
        "product": _BlockProduct | linalg.GridToeplitz,
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
register("BlockProduct", _BlockProduct, check=checks.block_product)
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
register("OutputBins", binning.OutputBins)
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

register("MatrixValues", operators._Matrix)
register("WeightedValues", operators._Weights)
register("NearRows", operators._NearRows)
register("DensityOperator", operators.DensityOperator, check=checks.density_operator)
register("MeanOperator", operators.MeanOperator, check=checks.mean_operator)

for _name in ("Identity", "Above", "Below", "Between"):
    register(_name, getattr(transforms, _name))
register("Columns", transforms.Columns, check=checks.columns)

register("Regression", location.Regression, check=checks.regression)
register(
    "Spread", location.Spread, state=_spread_state, make=_spread, check=checks.predictive_spread
)
register("LocationScale", location.LocationScale, check=checks.location_scale)
register("Located", combination.Located, check=checks.located)
register("CombinedOperator", combination.CombinedOperator, check=checks.combined_operator)
register("LocationParameters", location.LocationParameters, check=checks.location_parameters)
register("Side", automatic.Side, check=checks.side)
register("Chosen", automatic.Chosen, check=checks.chosen)

register(
    "Progress",
    Progress,
    fields={"verbose": bool},
    state=lambda progress: {"verbose": progress._verbose},
    make=Progress,
)
register("Wishes", selection.Wishes)
register("StreamPlan", streaming.StreamPlan, check=checks.plan)
register("InputEncoder", validation.InputEncoder, check=checks.encoder)
register(
    "Labels",
    Labels,
    fields={"library": str | None, "outputs": tuple[str, ...] | None},
    make=Labels,
)
