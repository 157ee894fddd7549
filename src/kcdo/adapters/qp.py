"""Distributions of one output as ensembles of qp, and back."""

from collections.abc import Callable
from typing import Any

import numpy as np

from kcdo.adapters.normals import Normals, exact_normals, fitted_normals
from kcdo.arrays import Array, Integers
from kcdo.distributions import (
    Batch,
    ConditionalDistribution,
    GridLayout,
    MixtureBatch,
    NodeBatch,
    StudentTail,
)
from kcdo.errors import InvalidInputError
from kcdo.extras import import_extra
from kcdo.measures import Grid

__all__ = ["from_qp", "to_qp"]

_OUTSIDE = 1e-5  # probability on either side of the places that are chosen
_N_PLACES = 301  # RAIL's number
_N_NORMALS = 10
_TAIL_LEVELS = (1e-4, 1e-3, 5e-3)


def to_qp(dist: ConditionalDistribution, kind: str = "interp", nodes: Any = None) -> Any:
    """Return distributions of one output as a ``qp.Ensemble``.

    Parameters
    ----------
    dist : ConditionalDistribution
        Of one output.
    kind : {"interp", "mixmod", "quant"}
        ``"interp"``: densities at places that all share, exact there and linear in between.
        ``"mixmod"``: normals, exact where the distributions are mixtures of such; where not, a
        fit of ``nodes`` normals to each, with its mean and variance. ``"quant"``: quantiles,
        exact.
    nodes : int or array, optional
        ``"interp"``: the places, or how many; by default 301 where all but 1e-5 of the
        probability on either side lies. ``"mixmod"``: how many normals, 10 by default.
        ``"quant"``: the levels, or how many; by default 0.01, 0.02, ..., 0.99 and three more
        at either end, up to 1e-4.

    Returns
    -------
    qp.Ensemble
        One distribution for each query.

    Examples
    --------
    >>> import numpy as np, kcdo
    >>> X, Y = kcdo.make_donut(40, random_state=0)
    >>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y[:, 0])
    >>> dist = model.conditional(X[:3])
    >>> ensemble = dist.to_qp("quant", nodes=[0.1, 0.5, 0.9])
    >>> bool(np.allclose(ensemble.ppf(0.5)[:, 0], dist.median()))
    True
    """
    qp = _package()
    if dist.n_outputs > 1:
        raise InvalidInputError(
            f"qp knows distributions of one output, here are {dist.n_outputs}: take a marginal."
        )
    line = dist if dist.flat else dist.marginal(0)
    kinds: dict[str, Callable[[Any, ConditionalDistribution, Any], Any]]
    kinds = {"interp": _interp, "mixmod": _mixmod, "quant": _quant}
    if kind not in kinds:
        raise InvalidInputError(f"kind must be one of {list(kinds)}; got {kind!r}.")
    return kinds[kind](qp, line, nodes)


def from_qp(ensemble: Any, nodes: Any = None) -> ConditionalDistribution:
    """Return an ensemble of qp as distributions of kcdo, of one output.

    Mixtures of normals stay exact. Densities of others are read at even places, are linear in
    between, and are scaled to integrate to 1.

    Parameters
    ----------
    ensemble : qp.Ensemble
        Distributions of any kind.
    nodes : array, optional
        Even places; by default those of the ensemble if they are even, else 1001 where all but
        1e-5 of the probability on either side lies.
    """
    qp = _package()
    data = ensemble.objdata
    if ensemble.gen_class is qp.mixmod_gen and nodes is None:
        normals = Normals(*(np.atleast_2d(data[key]) for key in ("weights", "means", "stds")))
        return _as_distribution(_normal_batch(normals))
    places = _even_places(ensemble, nodes)
    step = places[1] - places[0]
    heights = np.atleast_2d(ensemble.pdf(places))
    masses = np.maximum(heights, 0.0)
    lower, upper = (np.array([end]) for end in (places[0] - 0.5 * step, places[-1] + 0.5 * step))
    box = Grid(lower, upper, (len(places),))
    batch = NodeBatch(GridLayout(box), masses / masses.sum(axis=1, keepdims=True))
    return _as_distribution(batch)


def _interp(qp: Any, line: ConditionalDistribution, nodes: Any) -> Any:
    if nodes is None or np.ndim(nodes) == 0:
        ends = line.quantile([_OUTSIDE, 1.0 - _OUTSIDE])
        places = np.linspace(ends.min(), ends.max(), _count(nodes, _N_PLACES))
    else:
        places = _increasing(nodes, "places")
    # with norm=True the values at the places would no longer be those of the density
    data = {"xvals": places, "yvals": line.pdf(places), "norm": False}
    return qp.Ensemble(qp.interp, data=data)


def _mixmod(qp: Any, line: ConditionalDistribution, nodes: Any) -> Any:
    exact = exact_normals(line) if nodes is None else None
    normals = exact or fitted_normals(line, _count(nodes, _N_NORMALS, least=1))
    data = {"weights": normals.weights, "means": normals.means, "stds": normals.sds}
    return qp.Ensemble(qp.mixmod, data=data)


def _quant(qp: Any, line: ConditionalDistribution, nodes: Any) -> Any:
    if nodes is None:
        tail = np.array(_TAIL_LEVELS)
        levels = np.concatenate([tail, np.arange(1, 100) / 100.0, 1.0 - tail[::-1]])
    elif np.ndim(nodes) == 0:
        n = _count(nodes, 0)
        levels = (np.arange(n) + 0.5) / n
    else:
        levels = _increasing(nodes, "levels")
    return qp.Ensemble(qp.quant, data={"quants": levels, "locs": line.quantile(levels)})


def _count(nodes: Any, default: int, least: int = 2) -> int:
    n = default if nodes is None else nodes
    if isinstance(n, bool) or n != int(n) or n < least:
        raise InvalidInputError(f"the number of nodes must be at least {least}; got {nodes!r}.")
    return int(n)


def _increasing(nodes: Any, what: str) -> Array:
    values = np.asarray(nodes, dtype=float)
    if values.ndim != 1 or len(values) < 2 or not np.all(np.diff(values) > 0):
        raise InvalidInputError(f"nodes must be {what} in increasing order; got {nodes!r}.")
    return values


def _even_places(ensemble: Any, nodes: Any) -> Array:
    if nodes is not None:
        places = _increasing(nodes, "places")
        if not _even(places):
            raise InvalidInputError("nodes of from_qp must be as far from each other everywhere.")
        return places
    own = ensemble.metadata.get("xvals")
    if own is not None and np.ndim(np.squeeze(own)) == 1 and _even(np.squeeze(own)):
        return np.squeeze(own)
    ends = np.asarray(ensemble.ppf([_OUTSIDE, 1.0 - _OUTSIDE]))
    return np.linspace(ends.min(), ends.max(), 1001)


def _even(places: Array) -> bool:
    steps = np.diff(places)
    return bool(np.ptp(steps) <= 1e-6 * steps.mean())


def _normal_batch(normals: Normals) -> Batch:
    weights = normals.weights / normals.weights.sum(axis=1, keepdims=True)
    columns = zip(normals.means.T, normals.sds.T, strict=True)
    parts = [StudentTail(mean[:, None], sd[:, None], np.inf) for mean, sd in columns]
    return MixtureBatch(parts, weights)


class _Given:
    """Distributions that are there already."""

    signed, n_jobs, dim = False, 1, 1

    def __init__(self, batch: Batch) -> None:
        self._batch, self.width = batch, batch.width

    def __len__(self) -> int:
        return len(self._batch)

    def batch(self, rows: Integers) -> Batch:
        return self._batch.take(rows)


def _as_distribution(batch: Batch) -> ConditionalDistribution:
    return ConditionalDistribution(_Given(batch), flat=True)


def _package() -> Any:
    return import_extra("qp", extra="rail", what="Ensembles of qp")
