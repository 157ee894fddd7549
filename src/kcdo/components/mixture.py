"""Combine rather than choose: the components of a model in one mixture."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from kcdo.arrays import Array, Integers
from kcdo.components.base import (
    Component,
    ComponentParameters,
    points_of,
    predict_anywhere,
    width_anywhere,
)
from kcdo.components.density import PLAIN, DensityOperator, OperatorParameters, PlainDensity
from kcdo.components.gate import Gate
from kcdo.components.settings import Settings
from kcdo.consistency import need
from kcdo.distributions import Batch, GroupedBatch, MixtureBatch
from kcdo.errors import InvalidInputError
from kcdo.inputs import GaussianInput, SampleInput
from kcdo.rows import Rows, outliers_drawn_in
from kcdo.systems import Queries


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
    smoothed : float, optional
        Rows that are like the query, by a learnt metric and by their predictions, smoothed with
        many bandwidths; for one output. None, with a plain or location-scale weight that is
        given: 0.
    linear : float, optional
        A linear regression with normal noise, for one output and inputs without a kernel of the
        user. None, with a plain or location-scale weight that is given: 0.

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
    smoothed: float | None = None
    linear: float | None = None

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
        companions = _COMPANIONS.get(name, ())
        return all(getattr(self, each) is None for each in (name, *companions))

    def wants(self, name: str) -> bool:
        """Whether a component may have a weight above 0."""
        return bool(getattr(self, name)) or self.leaves_open(name)


_COMPANIONS = {
    "nearest": ("plain",),
    "normal": ("location_scale",),
    "smoothed": ("plain", "location_scale"),
    "linear": ("plain", "location_scale"),
}
NAMES = tuple(f.name for f in fields(Combination))


@dataclass(frozen=True, eq=False)
class Mixture:
    """x ↦ Σ_k π_k(x) p_k(· | x), weights by name as in :class:`Combination`.

    The first component is the conditional density operator itself.
    """

    components: tuple[Component, ...]
    weights: dict[str, float]
    gate: Gate | None = None  # where weights vary with x

    def __post_init__(self) -> None:
        parts = self.components
        need(self.gate is None or set(self.gate.names) <= set(self.weights), "a gate's components")
        need(parts and isinstance(parts[0], PlainDensity), "a mixture without its density operator")
        need(len({part.dim for part in parts}) == 1, "outputs of the components of a mixture")
        need(len({part.n_inputs for part in parts} - {None}) <= 1, "inputs of the components")
        _check_weights(self.weights, parts)

    @property
    def primary(self) -> DensityOperator:
        """The conditional density operator: what a report describes."""
        first = self.components[0]
        assert isinstance(first, PlainDensity)
        return first.operator

    @property
    def nbytes(self) -> int:
        """Memory of all components, in bytes."""
        return sum(component.nbytes for component in self.components)

    def batch(self, queries: Queries) -> Batch:
        """Return the distributions of the queries."""
        if self.gate is not None and isinstance(queries, GaussianInput | SampleInput):
            points, starts, shares = points_of(queries)
            return GroupedBatch(self.batch(points), starts, shares)
        made: dict[str, Batch] = {}
        for component in self._used:
            made |= predict_anywhere(component, queries)
        used = {name: part for name, part in made.items() if self.weights.get(name, 0.0) > 0}
        if list(used) == ["plain"]:
            return used["plain"]
        return MixtureBatch(list(used.values()), self._weights_at(queries, list(used)))

    def held_out(self, rows: Integers) -> Batch:
        """Return the distributions of some training rows without themselves.

        With the weights of all rows: what a gate knows near a row has seen that row.
        """
        made: dict[str, Batch] = {}
        for component in self._used:
            made |= component.held_out(rows)
        weights = np.array([self.weights.get(name, 0.0) for name in made])
        return MixtureBatch(list(made.values()), weights / weights.sum())

    def marginal_batch(self) -> Batch:
        """Return the distribution of Y in the training rows, as that of one query."""
        return self.primary.marginal_batch()

    def _weights_at(self, queries: Queries, names: list[str]) -> Array:
        """Return the weights of components, for all queries or for each."""
        if self.gate is None:
            return np.array([self.weights[name] for name in names])
        assert isinstance(queries, np.ndarray)
        return self.gate(queries)[:, [self.gate.names.index(name) for name in names]]

    def without_training(self) -> "Mixture":
        """Return what predictions need, without what only held-out ones do."""
        kept = tuple(component.without_training() for component in self.components)
        return replace(self, components=kept)

    def width(self, queries: Queries) -> int:
        """Return the numbers held for each query."""
        return sum(width_anywhere(component, queries) for component in self.components)

    @property
    def uniforms(self) -> int:
        """Uniform numbers that a draw is made of: one that chooses, one for each output."""
        return self.dim + 1

    @property
    def n_inputs(self) -> int | None:
        """Number of columns of the inputs."""
        return self.primary.n_inputs

    @property
    def dim(self) -> int:
        """Number of outputs d."""
        return self.primary.dim

    @property
    def signed(self) -> bool:
        """Whether densities may be negative."""
        return self.primary.signed

    @property
    def n_jobs(self) -> int | None:
        """Threads to use."""
        return self.primary.n_jobs

    @property
    def _used(self) -> Sequence[Component]:
        """The components that have any weight."""
        return [
            component
            for component in self.components
            if any(self.weights.get(name, 0.0) > 0 for name in component.names)
        ]


@dataclass(frozen=True, eq=False)
class ModelParameters:
    """All that was chosen: enough to fit the same model to other rows."""

    components: tuple[ComponentParameters, ...]
    weights: dict[str, float]
    gate: Gate | None = None
    draws_in_outliers: bool = False  # whether outputs absurdly far from all others are drawn near

    def __post_init__(self) -> None:
        parts = self.components
        first = parts and isinstance(parts[0], OperatorParameters) and parts[0].names == PLAIN
        need(first, "parameters without those of the density operator")
        need(len({part.dim for part in parts} - {None}) == 1, "outputs of the components")
        _check_weights(self.weights, parts)

    def fit(self, rows: Rows, settings: Settings) -> Mixture:
        """Return the model of these rows; nothing is chosen."""
        rows = rows.of_effective_weight()
        if self.draws_in_outliers:
            rows = outliers_drawn_in(rows)
        fitted = tuple(parameters.fit(rows, settings) for parameters in self.components)
        return Mixture(fitted, self.weights, self.gate)


def _check_weights(
    weights: dict[str, float], parts: Sequence[Component] | Sequence[ComponentParameters]
) -> None:
    """Need weights that sum to 1, none of them of a component that is missing."""
    there = {name for part in parts for name in part.names}
    need(set(weights) <= {*NAMES, *there}, "weights of unknown components")
    values = np.array(list(weights.values()), dtype=float)
    need(np.all(values >= 0) and abs(values.sum() - 1.0) < 1e-6, "weights that do not sum to 1")
    missing = [name for name, weight in weights.items() if weight > 0 and name not in there]
    need(not missing, "the weight of a component that is missing")
