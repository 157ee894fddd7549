"""The classes below the estimators that model files may hold, by the names that files use."""

from inspect import signature
from typing import Any

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
from kcdo.arrays import Array, Integers
from kcdo.frames import Labels
from kcdo.persistence.forms import register, register_later
from kcdo.progress import Progress

_CENTRES = {"kernel": kernels.Kernel, "centres": Array, "n_jobs": int | None}


def _register_sklearn_kernels() -> None:
    from sklearn.gaussian_process import kernels as theirs  # a long import, for few models

    for name in (
        *("ConstantKernel", "WhiteKernel", "RBF", "Matern", "RationalQuadratic", "ExpSineSquared"),
        *("DotProduct", "PairwiseKernel", "Sum", "Product", "Exponentiation", "CompoundKernel"),
    ):
        kernel = getattr(theirs, name)
        fields = dict.fromkeys(signature(kernel).parameters, Any)
        register(f"sklearn.{name}", kernel, fields=fields, nests=True)


# --- what users choose: kernels, measures, filters, schemes, solvers

for _room, _names in (
    (
        kernels,
        "Automatic Average Gaussian Laplace Matern Periodic Categorical Product Sum Nugget Warped",
    ),
    (kernels, "OnColumns DensityKernel Adapter Feature FeatureMap"),
    (measures, "Grid Scattered UniformBox QuasiRandomBox"),
    (linalg, "Tikhonov IteratedTikhonov SpectralCutoff PrintedForm"),
    (regularisation, "PowerScheme PrintedScheme CorrectedScheme"),
    (systems, "Exact Iterative"),
    (transforms, "Identity Above Below Between Columns Tabulated"),
    (components, "Combination"),
):
    for _name in _names.split():
        register(_name, getattr(_room, _name), nests=_room is kernels)
register_later("sklearn", _register_sklearn_kernels)
register("Sample", measures.Sample, fields={"measure": measures.Scattered})
register(
    "Nystrom",
    systems.Nystrom,
    more={"centers": int | Array | tuple[tuple[float, ...], ...] | None},
)

# --- what a fit makes of it

register("Groups", systems.Groups)
register("Centres", systems.Centres, fields=_CENTRES)
register(
    "NearestRows",
    systems.NearestSystem,
    fields=_CENTRES | {"alpha": float, "row_weights": Array, "neighbours": int},
)
register(
    "ExactSystem",
    systems.ExactSystem,
    fields=_CENTRES
    | {"alpha": float, "groups": systems.Groups, "solver": systems.Exact | systems.Iterative},
    former={"factor": "solver", "ridge": None, "jitter": None, "method": None},
)
register(
    "NystromSums",
    systems.NystromSums,
    more={"rows": Integers, "n_targets": int},
    cost=1000,  # targets that are 0 are not in the file: a small one may hold large sums
)
register("Reconstruction", reconstruction.Reconstruction)
register("GridLayout", distributions.GridLayout, fields={"grid": measures.Grid})
register(
    "MixtureLayout",  # what files called it first
    distributions.ScatteredLayout,
    fields={"nodes": Array, "sds": Array},
)
register("SampleEmbedding", embeddings.SampleEmbedding)

register("MatrixValues", components.MatrixValues)
register("SolvedValues", components.SolvedValues)
register("RowValues", components.RowValues)
register(
    "DensityOperator",
    components.DensityOperator,
    fields={
        "system": systems.Centres,
        "output": reconstruction.Reconstruction,
        "values": components.MatrixValues | components.SolvedValues | components.RowValues,
        "marginal": Array,
        "layout": distributions.Layout,
        "positivity": distributions.Positivity,
    },
)
register("MeanOperator", components.MeanOperator)
register("PlainDensity", components.PlainDensity)
register("NearestDensity", components.NearestDensity)
register("KeptRows", systems.KeptRows)
register("KeptNearest", components.KeptNearest)
register("Regression", components.Regression)
register("RidgeSpread", components.Spread)
register("LocationScale", components.LocationScaleMap)
register(
    "Located",
    components.LocationScale,
    fields={"map": components.LocationScaleMap, "residual": components.DensityOperator},
)
for _name in ("Chain", "ChainModel"):
    register(_name, getattr(components, _name))
register("MarginalTail", components.MarginalTail)
register(
    "LinearRegression",
    components.LinearRegression,
    fields={
        "parameters": components.LinearParameters,
        "mean": Array,
        "level": float,
        "slopes": Array,
        "right": Array,
        "powers": Array,
        "squares": float,
        "all_squares": float,
        "total": float,
    },
)
register("Mixture", components.Mixture)
for _name in [
    "Bandwidths",
    "Smoother",
    "RowTable",
    "Regressor",
    "Location",
    "SmoothedRows",
    "Atoms",
    "AtomShares",
    "Twins",
    "Univariate",
    "Gate",
]:
    register(_name, getattr(components, _name))

# --- what another fit would need

register("LocationParameters", components.LocationParameters)
register("Side", components.OperatorParameters)
register("NearestParameters", components.NearestParameters)
register("LocationScaleParameters", components.LocationScaleParameters)
register("MarginalTailParameters", components.MarginalTailParameters)
register("ModelParameters", components.ModelParameters)
for _name in (
    *("LinearParameters", "SmoothedParameters", "AtomParameters", "UnivariateParameters"),
    *("ChainParameters", "ChainModelParameters"),
):
    register(_name, getattr(components, _name))

register("Progress", Progress, fields={"verbose": bool})
register(
    "Settings",
    components.Settings,
    fields={
        "solver": systems.Solver,
        "positivity": distributions.Positivity,
        "n_jobs": int | None,
        "seed": int,
    },
)
register("ModelSpec", fitting.ModelSpec)
register("OutputBins", fitting.OutputBins)
register("StreamPlan", fitting.StreamPlan, former={"wishes": "spec"})
register("InputEncoder", validation.InputEncoder)
register("Labels", Labels, fields={"library": str | None, "outputs": tuple[str, ...] | None})
