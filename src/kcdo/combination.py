"""Combine rather than choose: densities of several forms in one mixture."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from kcdo.arrays import Array
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

_ROWS_AT_A_TIME = 128
TAIL_FREEDOM = 3.0  # degrees of freedom of the heavy tails: a mean and a variance exist
_POINTS = 64  # quasi-random points of an uncertain input, where its mixture is no closed form


@dataclass(frozen=True)
class Combination:
    """Weights of the components; None leaves a weight to the held-out scores.

    Parameters
    ----------
    plain : float, optional
        The conditional density operator itself.
    location_scale : float, optional
        The operator of the residuals of a location and a scale that vary with x.
    residual_tail : float, optional
        A Student t about that location.
    marginal_tail : float, optional
        A Student t about the mean of all outputs. None: only where there is no residual tail, or
        the other weights are given and sum to less than 1.
    nearest : float, optional
        The conditional density operator of the rows next to each query, for more rows than an
        exact system holds: Nyström centres do not follow what varies between neighbours. None,
        with a plain weight that is given: 0. With fewer rows its weight goes to the others.
    normal : float, optional
        A normal distribution about the location: the shape of residuals that few rows do not
        tell from it. None, with a location-scale weight that is given: 0.

    Examples
    --------
    >>> Combination(location_scale=0.0, residual_tail=0.0).fixed
    {'location_scale': 0.0, 'residual_tail': 0.0}
    """

    plain: float | None = None
    location_scale: float | None = None
    residual_tail: float | None = None
    marginal_tail: float | None = None
    nearest: float | None = None
    normal: float | None = None

    def __post_init__(self) -> None:
        values = list(self.fixed.values())
        if any(not 0 <= value <= 1 for value in values) or sum(values) > 1 + 1e-12:
            raise InvalidInputError(
                f"Combination: weights must lie in [0, 1] and sum to at most 1; got {self.fixed}."
            )
        if not any(map(self.leaves_open, NAMES)) and abs(sum(values) - 1) > 1e-12:
            raise InvalidInputError(f"Combination: all weights given must sum to 1; {self.fixed}.")

    @property
    def fixed(self) -> dict[str, float]:
        """The weights that the user set."""
        every = {name: getattr(self, name) for name in NAMES}
        return {name: float(value) for name, value in every.items() if value is not None}

    def leaves_open(self, name: str) -> bool:
        """Whether the weight of a component is left to the held-out scores."""
        companion = _COMPANIONS.get(name, name)
        return getattr(self, name) is None and getattr(self, companion) is None

    def wants(self, name: str) -> bool:
        """Whether a component may have a weight above 0."""
        return bool(getattr(self, name)) or self.leaves_open(name)


_COMPANIONS = {"nearest": "plain", "normal": "location_scale"}
NAMES = tuple(f.name for f in fields(Combination))


def combined_weights(
    held_out: dict[str, Batch], Y: Array, row_weights: Array, combination: Combination
) -> dict[str, float]:
    """Return weights of small held-out log score and CRPS, with the user's kept.

    What is made small is -mean log p + log(mean CRPS), the CRPS for one output only: both change
    by a constant when the unit does. Every open component is given one row of its own beside the
    data: a weight of exactly 0 would leave an output that only this component foresees without a
    density.
    """
    names = list(held_out)
    fixed = {name: combination.fixed[name] for name in names if name in combination.fixed}
    free = np.array([name not in fixed for name in names])
    if not free.any():
        total = sum(fixed.values())
        return {name: weight / total for name, weight in fixed.items()}
    table = np.column_stack([batch.pdf_pairs(Y) for batch in held_out.values()])
    share = row_weights / row_weights.sum()
    crps = _pairwise_crps(list(held_out.values()), Y[:, 0], share) if Y.shape[1] == 1 else None
    given = np.array([fixed.get(name, 0.0) for name in names])
    weights = _least_loss(table, share, crps, given, free)
    n = float(row_weights.sum())
    left, k = 1.0 - given.sum(), int(free.sum())
    weights[free] = left * (weights[free] / left * n + 1.0) / (n + k) if left > 0 else 0.0
    return dict(zip(names, weights.tolist(), strict=True))


def _least_loss(
    table: Array, share: Array, crps: Array | None, given: Array, free: NDArray[np.bool_]
) -> Array:
    """Return the weights of least loss; the free ones are a softmax of the search's vector."""
    left = 1.0 - given.sum()

    def weights_of(logits: Array) -> Array:
        weights = given.copy()
        powers = np.exp(logits - logits.max())
        weights[free] = left * powers / powers.sum()
        return weights

    def loss(logits: Array) -> tuple[float, Array]:
        weights = weights_of(logits)
        density = np.maximum(table @ weights, 1e-300)
        value = -float(share @ np.log(density))
        slope = -(share / density) @ table
        if crps is not None:
            mean = float(weights @ crps @ weights)
            value += np.log(mean)
            slope = slope + 2.0 * (crps @ weights) / mean
        part = weights[free]
        return value, part * slope[free] - part * (part @ slope[free]) / max(left, 1e-300)

    start = np.zeros(int(free.sum()))
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(-30.0, 30.0)] * len(start))
    return weights_of(found.x)


def _pairwise_crps(batches: list[Batch], y: Array, share: Array) -> Array:
    """Return the mean of ∫ (F_k - 1)(F_l - 1) dt, (k, k): the CRPS of a mixture is its form."""
    total = np.zeros((len(batches), len(batches)))
    for start in range(0, len(y), _ROWS_AT_A_TIME):
        rows = np.arange(start, min(start + _ROWS_AT_A_TIME, len(y)))
        parts = [batch.take(rows) for batch in batches]
        knots = np.hstack([y[rows, None], *(part.knots() for part in parts)])
        knots.sort(axis=1)
        middle = 0.5 * (knots[:, 1:] + knots[:, :-1])
        step = np.diff(knots, axis=1) * share[rows, None]
        above = middle >= y[rows, None]
        excess = [part.cdf_each(middle[:, :, None]) - above for part in parts]
        total += [[float(np.sum(a * b * step)) for b in excess] for a in excess]
    return total


@dataclass(frozen=True, eq=False)
class Located:
    """The location-scale component: a density operator of residuals, mapped back."""

    map: LocationScale
    residual: DensityOperator

    def batches(self, queries: NDArray) -> dict[str, Batch]:
        """Return the distributions at points, of each form that has a location, by name."""
        return located_forms(self.residual.batch(queries), *self.map(queries))


def located_forms(residuals: Batch, location: Array, scale: Array) -> dict[str, Batch]:
    """Return the forms that have a location and a scale, by name."""
    return {
        "location_scale": AffineBatch(residuals, location, scale),
        "residual_tail": student_tail(location, scale),
        "normal": StudentTail(location, scale, np.inf),
    }


@dataclass(frozen=True, eq=False)
class CombinedOperator:
    """x ↦ Σ_k π_k p_k(· | x), components by name as in :class:`Combination`."""

    plain: DensityOperator
    located: Located | None
    centre: Array  # (d,) of the marginal tail
    spread: Array  # (d,)
    weights: dict[str, float]
    nearest: DensityOperator | None = None

    @property
    def nbytes(self) -> int:
        """Memory of the node values' sources, in bytes."""
        located = 0 if self.located is None else self.located.residual.nbytes
        return self.plain.nbytes + located + (0 if self.nearest is None else self.nearest.nbytes)

    def batch(self, queries: Queries) -> Batch:
        """Return the distributions of the queries."""
        made: dict[str, Batch] = {}
        if self._weight("plain") > 0:
            made["plain"] = self.plain.batch(queries)
        if self.located is not None:
            made |= self._located(queries)
        if self.nearest is not None and self._weight("nearest") > 0:
            made["nearest"] = self._nearest(queries)
        if self._weight("marginal_tail") > 0:
            made["marginal_tail"] = marginal_tail(len(queries), self.centre, self.spread)
        used = {name: part for name, part in made.items() if self._weight(name) > 0}
        if list(used) == ["plain"]:
            return used["plain"]
        return MixtureBatch(list(used.values()), np.array([self._weight(name) for name in used]))

    def width(self, queries: Queries) -> int:
        """Return the numbers held for each query."""
        by_points = [] if self.located is None else [self.located.residual]
        by_points += [] if self.nearest is None else [self.nearest]
        widths = [_n_points(queries) * operator.width(queries) for operator in by_points]
        return self.plain.width(queries) + sum(widths)

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

    def _located(self, queries: Queries) -> dict[str, Batch]:
        assert self.located is not None
        if not isinstance(queries, GaussianInput | SampleInput):
            return self.located.batches(queries)
        points, weights = _points_of(queries)  # (S, Q, p), (Q, S)
        each = [self.located.batches(point) for point in points]
        return {
            name: MixtureBatch([forms[name] for forms in each], weights)
            for name in each[0]
            if self._weight(name) > 0
        }

    def _nearest(self, queries: Queries) -> Batch:
        assert self.nearest is not None
        if not isinstance(queries, GaussianInput | SampleInput):
            return self.nearest.batch(queries)
        points, weights = _points_of(queries)
        return MixtureBatch([self.nearest.batch(each) for each in points], weights)


def student_tail(location: Array, scale: Array) -> StudentTail:
    """Return Student distributions whose sd is the scale."""
    return StudentTail(location, scale * np.sqrt(1.0 - 2.0 / TAIL_FREEDOM), TAIL_FREEDOM)


def marginal_tail(n: int, centre: Array, spread: Array) -> StudentTail:
    """Return the same Student distribution n times."""
    return student_tail(np.tile(centre, (n, 1)), np.tile(spread, (n, 1)))


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
