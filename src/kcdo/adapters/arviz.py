"""Predictions as data sets of xarray, and as what ArviZ draws its plots from."""

from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kcdo.arrays import Array
from kcdo.distributions import ConditionalDistribution
from kcdo.distributions.scipy_names import RandomState
from kcdo.extras import import_extra
from kcdo.metrics.predictive import checked_outputs, like

__all__ = ["to_arviz", "to_xarray"]


def to_xarray(
    dist: ConditionalDistribution, levels: ArrayLike = (0.05, 0.25, 0.5, 0.75, 0.95)
) -> Any:
    """Return means, standard deviations and quantiles as an ``xarray.Dataset``.

    Dimensions are ``query``, with the index of a pandas input, ``quantile`` for the levels, and
    ``output`` for several outputs, with their names.

    Examples
    --------
    >>> import kcdo
    >>> X, Y = kcdo.make_donut(40, random_state=0)
    >>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    >>> data = model.conditional(X[:3]).to_xarray(levels=[0.1, 0.9])
    >>> dict(data.sizes)
    {'query': 3, 'output': 2, 'quantile': 2}
    """
    xarray = import_extra("xarray", extra="arviz", what="Data sets of xarray")
    levels = np.atleast_1d(np.asarray(levels, dtype=float))
    outputs = () if dist.flat else ("output",)
    columns = {
        "mean": (("query", *outputs), dist.mean()),
        "sd": (("query", *outputs), dist.std()),
        "quantiles": (("query", "quantile", *outputs), dist.quantile(levels)),
    }
    return xarray.Dataset(columns, coords={**_coordinates(dist), "quantile": levels})


def to_arviz(
    dist: ConditionalDistribution,
    Y: Any = None,
    draws: int = 1000,
    random_state: RandomState = None,
) -> Any:
    """Return predictive draws, and for outputs Y the observed data and their log likelihood.

    The model has no posterior draws: every draw has the same log likelihood, log p(Y[i] | x_i).
    Of held-out rows it is their log score as it is; leave-one-out weights are for other models.

    Parameters
    ----------
    dist : ConditionalDistribution
        Predictions, of held-out rows where they are to be judged.
    Y : array, optional
        Outputs, one row for each query.
    draws : int
        Draws of each query, in one chain.
    random_state : int or Generator, optional
        Seed of the draws.

    Returns
    -------
    xarray.DataTree or arviz.InferenceData
        As the installed ArviZ has it. Groups ``posterior_predictive`` and, with Y,
        ``observed_data`` and ``log_likelihood``; one variable, called like the one output if it
        has a name, else ``y``.

    Examples
    --------
    >>> import kcdo
    >>> X, Y = kcdo.make_donut(40, random_state=0)
    >>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y[:, 0])
    >>> data = model.conditional(X[:3]).to_arviz(Y[:3, 0], draws=50, random_state=0)
    >>> data["posterior_predictive"]["y"].shape
    (1, 50, 3)
    """
    arviz = import_extra("arviz", extra="arviz", what="Data for ArviZ")
    names = dist.target_names
    name = names[0] if names is not None and len(names) == 1 else "y"
    made = np.swapaxes(dist.sample(draws, random_state), 0, 1)[None]
    groups = {"posterior_predictive": {name: made}}
    if Y is not None:
        outputs = like(dist, checked_outputs(dist, Y))
        scores = np.broadcast_to(dist.logpdf_pairs(outputs), (1, draws, len(dist)))
        groups["observed_data"] = {name: outputs}
        groups["log_likelihood"] = {name: np.array(scores)}
    return _assembled(arviz, groups, dist, name)


def _assembled(
    arviz: Any, groups: dict[str, dict[str, Array]], dist: ConditionalDistribution, name: str
) -> Any:
    options = {"dims": {name: ["query"] if dist.flat else ["query", "output"]}}
    coordinates = _coordinates(dist)
    if "posterior_predictive" in signature(arviz.from_dict).parameters:  # before ArviZ 1.0
        return arviz.from_dict(**groups, **options, coords=coordinates)
    joint = groups.pop("log_likelihood", None) if not dist.flat else None
    tree = arviz.from_dict(groups, **options, coords=coordinates)
    if joint is not None:  # of all outputs together: without their dimension
        dims = {name: ["query"]}
        other = arviz.from_dict({"log_likelihood": joint}, dims=dims, coords=coordinates)
        tree["log_likelihood"] = other["log_likelihood"]
    return tree


def _coordinates(dist: ConditionalDistribution) -> dict[str, Any]:
    """Return the names of queries and outputs: those of the data, or numbers."""
    queries = np.arange(len(dist)) if dist.index is None else np.asarray(dist.index)
    if dist.flat:
        return {"query": queries}
    outputs = dist.target_names or [f"y{i}" for i in range(dist.n_outputs)]
    return {"query": queries, "output": list(outputs)}
