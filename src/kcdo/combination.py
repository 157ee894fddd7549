"""Combine rather than choose: plain, location-scale and heavy-tailed densities in one mixture."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from kcdo.distributions import (
    AffineBatch,
    Batch,
    MixtureBatch,
    StudentTail,
)
from kcdo.errors import InvalidInputError
from kcdo.inputs import GaussianInput, SampleInput
from kcdo.kernels import gaussian_draws
from kcdo.location import LocationScale
from kcdo.operators import DensityOperator
from kcdo.systems import Queries

Array = NDArray[np.floating]

TAIL_FREEDOM = 3.0  # degrees of freedom of the heavy tails: a mean and a variance exist
_POINTS = 64  # quasi-random points of an uncertain input, where its mixture is no closed form
_EM_STEPS = 500


@dataclass(frozen=True)
class Combination:
    """Weights of the components; None leaves a weight to the held-out log densities.

    Parameters
    ----------
    plain : float, optional
        The conditional density operator itself.
    location_scale : float, optional
        The operator of the residuals of a location and a scale that vary with x.
    residual_tail : float, optional
        A Student t about that location.
    marginal_tail : float, optional
        A Student t about the mean of all outputs: outputs far from all others keep a density.

    Examples
    --------
    >>> Combination(location_scale=0.0, residual_tail=0.0).fixed
    {'location_scale': 0.0, 'residual_tail': 0.0}
    """

    plain: float | None = None
    location_scale: float | None = None
    residual_tail: float | None = None
    marginal_tail: float | None = None

    def __post_init__(self) -> None:
        values = list(self.fixed.values())
        if any(not 0 <= value <= 1 for value in values) or sum(values) > 1 + 1e-12:
            raise InvalidInputError(
                f"Combination: weights must lie in [0, 1] and sum to at most 1; got {self.fixed}."
            )
        if len(values) == len(NAMES) and abs(sum(values) - 1) > 1e-12:
            raise InvalidInputError(f"Combination: all weights given must sum to 1; {self.fixed}.")

    @property
    def fixed(self) -> dict[str, float]:
        """The weights that the user set."""
        every = {name: getattr(self, name) for name in NAMES}
        return {name: float(value) for name, value in every.items() if value is not None}

    def wants(self, name: str) -> bool:
        """Whether a component may have a weight above 0."""
        return getattr(self, name) != 0.0


NAMES = tuple(f.name for f in fields(Combination))


def combined_weights(
    densities: dict[str, Array], row_weights: Array, combination: Combination
) -> dict[str, float]:
    """Return weights by EM on held-out densities (rows,), with the user's kept.

    Every open component is given one row of its own beside the data: a weight of exactly 0 would
    leave an output that only this component foresees without a density.

    Examples
    --------
    >>> good, bad = np.full(98, 2.0), np.full(98, 1.0)
    >>> held_out = {"plain": good, "marginal_tail": bad}
    >>> found = combined_weights(held_out, np.ones(98), Combination())
    >>> {name: round(weight, 2) for name, weight in found.items()}
    {'plain': 0.99, 'marginal_tail': 0.01}
    """
    names = list(densities)
    fixed = {name: combination.fixed[name] for name in names if name in combination.fixed}
    free = [name for name in names if name not in fixed]
    left = 1.0 - sum(fixed.values())
    if not free:
        total = sum(fixed.values())
        return {name: weight / total for name, weight in fixed.items()}
    table = np.column_stack([densities[name] for name in names])
    weights = np.array([fixed.get(name, left / len(free)) for name in names])
    is_free = np.array([name in free for name in names])
    n = float(row_weights.sum())
    for _ in range(_EM_STEPS):
        part = table * weights
        total = part.sum(axis=1, keepdims=True)
        part /= np.where(total > 0, total, 1.0)
        counts = row_weights @ part + 1.0
        new = np.where(is_free, left * counts / counts[is_free].sum(), weights)
        if np.max(np.abs(new - weights)) < 1e-6 / n:
            break
        weights = new
    return dict(zip(names, weights.tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class Located:
    """The location-scale component: a density operator of residuals, mapped back."""

    map: LocationScale
    residual: DensityOperator

    def batches(self, queries: NDArray) -> tuple[Batch, Batch]:
        """Return the distributions at points, and the Student tails about their locations."""
        location, scale = self.map(queries)
        inner = self.residual.batch(queries)
        return AffineBatch(inner, location, scale), _tail(location, scale)


@dataclass(frozen=True, eq=False)
class CombinedOperator:
    """x ↦ Σ_k π_k p_k(· | x), components by name as in :class:`Combination`."""

    plain: DensityOperator
    located: Located | None
    centre: Array  # (d,) of the marginal tail
    spread: Array  # (d,)
    weights: dict[str, float]

    @property
    def nbytes(self) -> int:
        """Memory of the node values' sources, in bytes."""
        return self.plain.nbytes + (0 if self.located is None else self.located.residual.nbytes)

    def batch(self, queries: Queries) -> Batch:
        """Return the distributions of the queries."""
        made: dict[str, Batch] = {}
        if self._weight("plain") > 0:
            made["plain"] = self.plain.batch(queries)
        if self.located is not None:
            made["location_scale"], made["residual_tail"] = self._located(queries)
        if self._weight("marginal_tail") > 0:
            shape = (len(queries), 1)
            made["marginal_tail"] = _tail(np.tile(self.centre, shape), np.tile(self.spread, shape))
        used = {name: part for name, part in made.items() if self._weight(name) > 0}
        if list(used) == ["plain"]:
            return used["plain"]
        return MixtureBatch(list(used.values()), np.array([self._weight(name) for name in used]))

    def width(self, queries: Queries) -> int:
        """Return the numbers held for each query."""
        plain = self.plain.width(queries)
        if self.located is None:
            return plain
        return plain + _n_points(queries) * self.located.residual.width(queries)

    @property
    def dim(self) -> int:
        """Number of outputs d."""
        return self.plain.dim

    @property
    def signed(self) -> bool:
        """Whether densities may be negative."""
        return self.plain.signed

    @property
    def n_jobs(self) -> int | None:
        """Threads to use."""
        return self.plain.n_jobs

    def _weight(self, name: str) -> float:
        return self.weights.get(name, 0.0)

    def _located(self, queries: Queries) -> tuple[Batch, Batch]:
        assert self.located is not None
        if not isinstance(queries, GaussianInput | SampleInput):
            return self.located.batches(queries)
        points, weights = _points_of(queries)  # (S, Q, p), (Q, S)
        pairs = [self.located.batches(each) for each in points]
        return (
            MixtureBatch([pair[0] for pair in pairs], weights),
            MixtureBatch([pair[1] for pair in pairs], weights),
        )


def _tail(location: Array, scale: Array) -> StudentTail:
    """Return Student distributions whose sd is the scale."""
    return StudentTail(location, scale * np.sqrt(1.0 - 2.0 / TAIL_FREEDOM), TAIL_FREEDOM)


def tail_density(Y: Array, location: Array, scale: Array) -> Array:
    """Return the density of the Student tails at one output per row, (N,)."""
    return _tail(location, scale).pdf_pairs(Y)


def _points_of(queries: GaussianInput | SampleInput) -> tuple[NDArray, Array]:
    """Return points (S, Q, p) and weights (Q, S) that stand for uncertain inputs."""
    if isinstance(queries, GaussianInput):
        few = GaussianInput._make(queries.mean, queries.cov, min(queries.n_points, _POINTS))
        draws = gaussian_draws(few)
        return np.moveaxis(draws, 1, 0), np.full(draws.shape[:2], 1.0 / draws.shape[1])
    sizes = np.diff(queries.starts)
    longest = int(sizes.max())
    # shorter samples repeat their last point with weight 0
    place = np.minimum(np.arange(longest), sizes[:, None] - 1) + queries.starts[:-1, None]
    weights = np.where(np.arange(longest) < sizes[:, None], queries.weights[place], 0.0)
    return np.moveaxis(queries.points[place], 1, 0), weights


def _n_points(queries: Queries) -> int:
    """Return the points that stand for each query."""
    if isinstance(queries, GaussianInput):
        return min(queries.n_points, _POINTS)
    return int(np.diff(queries.starts).max()) if isinstance(queries, SampleInput) else 1
