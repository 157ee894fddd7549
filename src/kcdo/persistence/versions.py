"""What earlier versions wrote: names that are no longer written, and what became of them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs

from kcdo import (
    components,
    fitting,
    kernels,
    linalg,
    measures,
    reconstruction,
    regularisation,
    systems,
)
from kcdo.arrays import Array, Integers
from kcdo.consistency import need, shape
from kcdo.persistence.forms import register_former
from kcdo.progress import Progress

Ridge = float | regularisation.Scheme | None

# --- before 0.2: factors of ridge systems, which are now found again; what solves is enough


def _cholesky(size: int, triangle: Array) -> systems.Exact:
    return systems.Exact("float32" if triangle.dtype == np.float32 else "float64")


def _gradients(
    _low_rank: Array, _tolerance: float, _max_iterations: int, **others: Any
) -> systems.Iterative:
    return systems.Iterative(_low_rank.shape[-1], _tolerance, _max_iterations)


def _product(**others: Any) -> None:
    return None


register_former("CholeskyFactor", {"size": int, "triangle": Array}, _cholesky)
register_former(
    "ConjugateGradients",
    {
        "product": None,
        "_ridge": Array,
        "_low_rank": Array,
        "_small": tuple[Array, bool],
        "_tolerance": float,
        "_max_iterations": int,
        "iterations": int,
        "residual": float,
    },
    _gradients,
)
register_former(
    "BlockProduct",
    {"kernel": kernels.Kernel, "points": Array, "n_jobs": int | None},
    _product,
)
register_former(
    "GridToeplitz",
    {"_shape": tuple[int, ...], "_index": Integers, "_spectrum": NDArray},
    _product,
)


def _spread(
    centres: systems.Centres, whitener: Array, noise: float, signal: Array
) -> components.Spread:
    """Recover the ridge from W, W Wᵀ = (K + diag(ridge) + 1e-10)⁻¹, its upper triangle packed."""
    n = centres.n_centres
    need(n <= 1000, "a spread of too many inputs")  # it never had more
    shape(whitener, n * (n + 1) // 2)
    routines: Any = get_lapack_funcs(("tpttr", "trtri"), (whitener,))
    unpack, invert = routines
    upper = invert(unpack(n, whitener, uplo="U")[0], lower=0)[0]
    squares = np.einsum("ij,ij->j", np.triu(upper), np.triu(upper))
    return components.Spread(
        centres, squares - centres.kernel.diag(centres.centres) - 1e-10, noise, signal
    )


register_former(
    "Spread",
    {"centres": systems.Centres, "whitener": Array, "noise": float, "signal": Array},
    _spread,
    cost=2000,
)

# --- before 0.2: each kind of values had a class, and a mixture and its parameters a field for each
# component


def _row_values(output: Any, Y: Array, **others: Any) -> components.RowValues:
    return components.RowValues(output, Y)


_ROWS = {"output": reconstruction.Reconstruction, "Y": Array}
register_former("NearRows", _ROWS, _row_values)
register_former(
    "WeightedValues", _ROWS | {"system": systems.ExactSystem, "weight_sums": Array}, _row_values
)


def _combined_operator(
    plain: components.DensityOperator,
    located: components.LocationScale | None,
    centre: Array,
    spread: Array,
    weights: dict[str, float],
    nearest: components.DensityOperator | None,
) -> components.Mixture:
    shape(centre, plain.dim)
    shape(spread, plain.dim)
    parts: list[components.Component] = [components.PlainDensity(plain)]
    parts += [] if located is None else [located]
    parts += [] if nearest is None else [components.NearestDensity(nearest)]
    if weights.get("marginal_tail", 0.0) > 0:
        parts.append(components.MarginalTail(centre, spread))
    return components.Mixture(tuple(parts), weights)


register_former(
    "CombinedOperator",
    {
        "plain": components.DensityOperator,
        "located": components.LocationScale | None,
        "centre": Array,
        "spread": Array,
        "weights": dict[str, float],
        "nearest": components.DensityOperator | None,
    },
    _combined_operator,
    absent={"nearest": None},
)


def _chosen(
    plain: components.OperatorParameters,
    location: components.LocationParameters | None,
    residual: components.OperatorParameters | None,
    weights: dict[str, float],
    floor: Array,
    nearest: components.OperatorParameters | None,
) -> components.ModelParameters:
    need((location is None) == (residual is None), "a component without its parameters")
    parts: list[components.ComponentParameters] = [plain]
    if location is not None and residual is not None:
        parts.append(components.LocationScaleParameters(location, residual, floor))
    if nearest is not None:
        parts.append(components.NearestParameters(nearest.kernel, nearest.alpha, nearest.output))
    if weights.get("marginal_tail", 0.0) > 0:
        parts.append(components.MarginalTailParameters())
    return components.ModelParameters(tuple(parts), weights)


register_former(
    "Chosen",
    {
        "plain": components.OperatorParameters,
        "location": components.LocationParameters | None,
        "residual": components.OperatorParameters | None,
        "weights": dict[str, float],
        "floor": Array,
        "nearest": components.OperatorParameters | None,
    },
    _chosen,
    absent={"nearest": None},
)

# --- before 0.2: other names


def _wishes(n_jobs: int | None, seed: int, solver: Any, **others: Any) -> fitting.ModelSpec:
    settings = components.Settings(solver=solver, n_jobs=n_jobs, seed=seed)
    return fitting.ModelSpec(settings=settings, **others)


register_former(
    "Wishes",
    {
        "kernel_x": kernels.Kernel,
        "kernel_y": kernels.Kernel | None,
        "reference": measures.Reference | None,
        "alpha": Ridge,
        "alpha_prime": Ridge,
        "filter": linalg.Filter | None,
        "n_jobs": int | None,
        "seed": int,
        "solver": systems.Solver,
        "progress": Progress,
    },
    _wishes,
    absent={"seed": 0},
)
register_former("Remembering", {"kernel": kernels.Kernel, "share": float}, kernels.Nugget)
