"""A model of one output: a mixture of transformed outputs, and atoms beside it."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.components.atoms import Atoms, AtomShares
from kcdo.components.base import ComponentParameters, points_of
from kcdo.components.density import DensityOperator
from kcdo.components.mixture import Mixture, ModelParameters
from kcdo.components.settings import Settings
from kcdo.components.smoothed import Bandwidths, SmoothedParameters
from kcdo.consistency import need, shape
from kcdo.distributions import Batch, GroupedBatch, MixtureBatch, SpikesBatch, TransformedBatch
from kcdo.inputs import GaussianInput, SampleInput
from kcdo.rows import Rows
from kcdo.systems import Queries
from kcdo.transforms import Tabulated

_FEWEST_CONTINUOUS = 20


@dataclass(frozen=True, eq=False)
class Univariate:
    """x ↦ Σ_a q_a(x) of atoms + (1 - Σ q_a(x)) p(T(y) | x) T'(y)."""

    mixture: Mixture  # of T(y)
    transform: Tabulated
    atoms: AtomShares | None = None

    def __post_init__(self) -> None:
        need(self.mixture.dim == 1, "a transform of several outputs")

    @property
    def weights(self) -> dict[str, float]:
        """Weights of the components of the mixture."""
        return self.mixture.weights

    @property
    def primary(self) -> DensityOperator:
        """The conditional density operator: what a report describes."""
        return self.mixture.primary

    @property
    def n_inputs(self) -> int | None:
        """Number of columns of the inputs."""
        return self.mixture.n_inputs

    @property
    def nbytes(self) -> int:
        """Memory of the mixture."""
        return self.mixture.nbytes

    def batch(self, queries: Queries) -> Batch:
        """Return the distributions of the queries."""
        if self.atoms is None:
            return TransformedBatch(self.mixture.batch(queries), self.transform)
        if isinstance(queries, GaussianInput | SampleInput):
            points, starts, weights = points_of(queries)
            return GroupedBatch(self._at_points(points), starts, weights)
        return self._at_points(queries)

    def _at_points(self, X: NDArray) -> Batch:
        assert self.atoms is not None
        continuous = TransformedBatch(self.mixture.batch(X), self.transform)
        return beside_atoms(continuous, self.atoms, self.atoms.predict(X))

    def without_training(self) -> "Univariate":
        """Return what predictions need, without what only held-out ones do."""
        return replace(self, mixture=self.mixture.without_training())

    def width(self, queries: Queries) -> int:
        """Return the numbers held for each query."""
        atoms = 0 if self.atoms is None else len(self.atoms.atoms.places)
        return self.mixture.width(queries) + atoms

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
    return MixtureBatch([continuous, spikes], np.hstack([1.0 - total, total]))


@dataclass(frozen=True, eq=False)
class AtomParameters:
    """Atoms, the rows that are smoothed into their probabilities, and how."""

    atoms: Atoms
    located: SmoothedParameters
    bandwidths: tuple[Bandwidths, ...]
    shares: Array

    def __post_init__(self) -> None:
        shape(self.shares, len(self.bandwidths))

    def fit(self, y: Array, rows: Rows, settings: Settings) -> AtomShares:
        """Return the probabilities by outputs y (N,) and rows of mapped outputs."""
        located = self.located.located(rows, settings)
        return AtomShares(self.atoms, located, self.atoms.labels(y), self.bandwidths, self.shares)


@dataclass(frozen=True, eq=False)
class UnivariateParameters:
    """Parameters of a model of one output: enough to fit the same model to other rows."""

    mixture: ModelParameters
    transform: Tabulated
    atoms: AtomParameters | None = None

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
        rows = rows.of_effective_weight()
        mapped = rows.with_outputs(self.transform.forward(rows.Y))
        if self.atoms is None:
            return Univariate(self.mixture.fit(mapped, settings), self.transform)
        shares = self.atoms.fit(rows.Y[:, 0], mapped, settings)
        continuous = mapped.take(continuous_rows(shares.atoms, shares.labels))
        return Univariate(self.mixture.fit(continuous, settings), self.transform, shares)


def continuous_rows(atoms: Atoms, labels: NDArray[np.integer]) -> NDArray[np.integer]:
    """Return the rows that are no atoms; all of them where there are hardly any others."""
    found = np.flatnonzero(labels == len(atoms.places))
    few = atoms.every_value or len(found) < _FEWEST_CONTINUOUS
    return np.arange(len(labels)) if few else found
