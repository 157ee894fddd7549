"""A model of one output: a recalibrated mixture of transformed outputs, and atoms beside it."""

from dataclasses import dataclass, replace

import numpy as np

from kcdo.arrays import Array, Integers
from kcdo.components.atoms import Atoms, AtomShares
from kcdo.components.base import Component, ComponentParameters, points_of
from kcdo.components.density import DensityOperator
from kcdo.components.likeness import Bandwidths
from kcdo.components.mixture import Mixture, ModelParameters
from kcdo.components.settings import Settings
from kcdo.components.smoothed import SmoothedParameters
from kcdo.components.twins import Twins
from kcdo.consistency import need, shape
from kcdo.distributions import (
    Batch,
    GroupedBatch,
    MixtureBatch,
    RecalibratedBatch,
    SpikesBatch,
    TransformedBatch,
    uniforms_of_three,
)
from kcdo.inputs import GaussianInput, SampleInput
from kcdo.kernels import FeatureMap
from kcdo.rows import Rows, row_keys
from kcdo.systems import Queries
from kcdo.transforms import Tabulated

_FEWEST_CONTINUOUS = 20


@dataclass(frozen=True, eq=False)
class Univariate:
    """x ↦ Σ_a q_a(x) of atoms + (1 - Σ q_a(x)) p(T(y) | φ(x)) T'(y), p recalibrated."""

    mixture: Mixture  # of T(y), given φ(x)
    transform: Tabulated  # T
    features: FeatureMap  # φ
    atoms: AtomShares | None = None
    recalibration: Array | None = None  # shares of least, middle and greatest of three draws
    twins: Twins | None = None

    def __post_init__(self) -> None:
        need(self.mixture.dim == 1, "a transform of several outputs")
        narrow = self.twins is not None and self.twins.width == 0
        need(self.atoms is not None or not narrow, "twins without atoms or width")
        _check_recalibration(self.recalibration)

    @property
    def weights(self) -> dict[str, float]:
        """Weights of the components of the mixture."""
        return self.mixture.weights

    @property
    def components(self) -> tuple[Component, ...]:
        """Components of the mixture."""
        return self.mixture.components

    @property
    def primary(self) -> DensityOperator:
        """The conditional density operator: what a report describes."""
        return self.mixture.primary

    @property
    def n_inputs(self) -> int | None:
        """Number of columns of the inputs."""
        return self.features.n_inputs or self.mixture.n_inputs

    @property
    def nbytes(self) -> int:
        """Memory of the mixture."""
        return self.mixture.nbytes

    def batch(self, queries: Queries) -> Batch:
        """Return the distributions of the queries."""
        if isinstance(queries, SampleInput) and self._mixes:
            mapped = queries.replace(self.features(queries.points))
            return self.seen_through(self.mixture.batch(mapped))
        kept = self._mixes and not self.features.features
        if isinstance(queries, GaussianInput | SampleInput) and not kept:
            points, starts, weights = points_of(queries)
            return GroupedBatch(self._at_points(points), starts, weights)
        return self._at_points(queries)

    @property
    def _mixes(self) -> bool:
        """Whether the mixture answers for uncertain inputs; all that is beside it is of points."""
        return self.atoms is None and self.recalibration is None and self.twins is None

    def _at_points(self, queries: Queries) -> Batch:
        seen = self.features(queries) if isinstance(queries, np.ndarray) else queries
        continuous = self.seen_through(self.mixture.batch(seen))
        if self.atoms is None and self.twins is None:
            return continuous
        assert isinstance(seen, np.ndarray)
        assert isinstance(queries, np.ndarray)
        if self.atoms is None:
            assert self.twins is not None
            return self.twins.beside(continuous, queries)
        probabilities = self.atoms.predict(seen, continuous)
        if self.twins is not None:
            probabilities = self.twins.drawn(probabilities, self.atoms.atoms, queries)
        return beside_atoms(continuous, self.atoms, probabilities)

    def seen_through(self, mixed: Batch) -> Batch:
        """Return distributions of the mixture, recalibrated, as those of the output."""
        if self.recalibration is not None:
            mixed = RecalibratedBatch(mixed, self.recalibration)
        return TransformedBatch(mixed, self.transform)

    def marginal_batch(self) -> Batch:
        """Return the distribution of the output in the training rows, as that of one query."""
        continuous = TransformedBatch(self.mixture.primary.marginal_batch(), self.transform)
        if self.atoms is None:
            return continuous
        known = (1.0 - self.atoms.unseen) * self.atoms.prior[None, :-1]
        return beside_atoms(continuous, self.atoms, known)

    def without_training(self) -> "Univariate":
        """Return what predictions need, without what only held-out ones do."""
        return replace(self, mixture=self.mixture.without_training())

    def width(self, queries: Queries) -> int:
        """Return the numbers held for each query."""
        atoms = 0 if self.atoms is None else len(self.atoms.atoms.places)
        return self.mixture.width(queries) + atoms

    @property
    def uniforms(self) -> int:
        """Uniform numbers that a draw is made of: of three and a choice, where levels are bent."""
        of_one = self.mixture.uniforms
        return of_one if self.recalibration is None else uniforms_of_three(of_one)

    @property
    def dim(self) -> int:
        """Number of outputs: 1."""
        return 1

    @property
    def signed(self) -> bool:
        """Whether densities may be negative: never."""
        return False

    @property
    def n_jobs(self) -> int | None:
        """Threads to use."""
        return self.mixture.n_jobs


def beside_atoms(continuous: Batch, atoms: AtomShares, probabilities: Array) -> Batch:
    """Return continuous distributions with atoms of given probabilities (Q, A) beside them."""
    total = probabilities.sum(axis=1, keepdims=True)
    spikes = SpikesBatch(
        atoms.atoms.places, atoms.atoms.width, probabilities / np.maximum(total, 1e-300)
    )
    total = np.minimum(total, 1.0)  # but for rounding
    return MixtureBatch([continuous, spikes], np.hstack([1.0 - total, total]))


@dataclass(frozen=True, eq=False)
class AtomParameters:
    """Atoms, the rows that are smoothed into their probabilities, and how."""

    atoms: Atoms
    located: SmoothedParameters
    bandwidths: tuple[Bandwidths, ...]
    shares: Array
    of_intervals: float = 0.0

    def __post_init__(self) -> None:
        shape(self.shares, len(self.bandwidths))

    @classmethod
    def of(cls, chosen: AtomShares, located: SmoothedParameters) -> "AtomParameters":
        """Return the parameters of probabilities that were chosen."""
        return cls(chosen.atoms, located, chosen.bandwidths, chosen.shares, chosen.of_intervals)

    def fit(self, y: Array, rows: Rows, settings: Settings) -> AtomShares:
        """Return the probabilities by outputs y (N,) and rows of mapped outputs."""
        located, labels = self.located.located(rows, settings), self.atoms.labels(y)
        return AtomShares(
            self.atoms, located, labels, self.bandwidths, self.shares, self.of_intervals
        )


@dataclass(frozen=True, eq=False)
class UnivariateParameters:
    """Parameters of a model of one output: enough to fit the same model to other rows."""

    mixture: ModelParameters
    transform: Tabulated
    features: FeatureMap
    atoms: AtomParameters | None = None
    gap: float = 0.0  # between outputs that are rounded
    recalibration: Array | None = None
    twins: tuple[float, float] | None = None  # prior and width
    without_copies: bool = False  # whether one of each copies of rows is fitted

    def __post_init__(self) -> None:
        need(0 <= self.gap < np.inf, "a gap that is negative")
        _check_recalibration(self.recalibration)

    @property
    def weights(self) -> dict[str, float]:
        """Weights of the components of the mixture."""
        return self.mixture.weights

    @property
    def components(self) -> tuple[ComponentParameters, ...]:
        """Parameters of the components of the mixture."""
        return self.mixture.components

    def fit(self, rows: Rows, settings: Settings) -> Univariate:
        """Return the model of these rows; nothing is chosen."""
        rows, shares, twins = rows.of_effective_weight(), None, None
        if self.twins is not None:
            twins = Twins(row_keys(rows.X), rows.Y[:, 0], rows.weights, *self.twins)
        if self.without_copies:
            rows = rows.without_copies()[0]
        places = None if self.atoms is None else self.atoms.atoms
        Y = unrounded(rows.Y, self.gap, places, settings.seed)
        mapped = Rows(self.features(rows.X), self.transform.forward(Y), rows.weights)
        if self.atoms is not None:
            shares = self.atoms.fit(rows.Y[:, 0], mapped, settings)
            mapped = mapped.take(continuous_rows(shares.atoms, shares.labels))
        fitted = self.mixture.fit(mapped, settings)
        return Univariate(fitted, self.transform, self.features, shares, self.recalibration, twins)


def _check_recalibration(shares: Array | None) -> None:
    """Need three positive shares of sum 1, if any."""
    if shares is not None:
        shape(shares, 3)
        need(np.all(shares > 0) and abs(shares.sum() - 1.0) < 1e-6, "shares of a recalibration")


def unrounded(Y: Array, gap: float, atoms: Atoms | None, seed: int) -> Array:
    """Return outputs with their rounding undone at random, but for atoms among other values.

    Equal outputs of different rows would otherwise reward bumps that are too narrow.
    """
    noise = np.random.default_rng(seed).uniform(-0.5, 0.5, Y.shape)
    if atoms is not None and not atoms.every_value:
        noise[atoms.labels(Y[:, 0]) < len(atoms.places)] = 0.0
    return Y + gap * noise


def continuous_rows(atoms: Atoms, labels: Integers) -> Integers:
    """Return the rows that are no atoms; all of them where there are hardly any others."""
    found = np.flatnonzero(labels == len(atoms.places))
    few = atoms.every_value or len(found) < _FEWEST_CONTINUOUS
    return np.arange(len(labels)) if few else found
