"""What an input side is: ridge regression on inputs, whatever the targets are.

    prediction(x') = section(x') @ coefficients(B) = weights(x') @ B

Targets B = Y give the conditional mean, B = 1 the sum of the embedding weights, B = ℓ(Y, Z) the
conditional embedding on the nodes of a reference measure. Two kinds of objects, both immutable:

* rows with a kernel, or sums over them, which know no α yet: ``rows.factor(alpha) -> System``;
* systems, factored once for one α, which solve, predict and leave out many times.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array, Integers
from kcdo.consistency import kernel_fits, need
from kcdo.errors import InvalidInputError
from kcdo.inputs import Expectation, GaussianInput, SampleInput
from kcdo.kernels import Kernel, cross_gram, expectation
from kcdo.parallel import scratch, thread_count

Queries = NDArray | GaussianInput | SampleInput
Weights = Any  # (Q, N): an array, or a sparse array where a query has few rows
Embed = Callable[[NDArray], Any]  # outputs (b, d) -> embeddings (b, M), dense or sparse


@dataclass(frozen=True)
class SolverFacts:
    """What a system says of itself, for the report of a fit.

    ``method`` is "exact", "iterative", "nystrom" or "nearest"; ``jitter`` was added to the diagonal
    beyond the ridge; ``iterations`` and ``residual`` are those of conjugate gradients.
    """

    method: str
    alpha: float
    n_centres: int
    condition: float
    nbytes: int
    jitter: float = 0.0
    iterations: int = 0
    residual: float = 0.0


class Condensed(NamedTuple):
    """Targets of all rows, summed up as far as a system needs them."""

    targets: Array  # (n, M)
    ones: Array  # (n,): the same of targets 1
    total: Array  # (M,): Σ ω b over all rows


@dataclass(frozen=True, eq=False)
class Centres:
    """What predictions need of a system: its kernel at its centres."""

    kernel: Kernel
    centres: NDArray
    n_jobs: int | None
    near_rows_alone: ClassVar[bool] = False  # whether a query sees only the rows next to it

    def __post_init__(self) -> None:
        need(self.centres.size, "no centres")
        kernel_fits(self.kernel, self.centres)
        thread_count(self.n_jobs)

    @property
    def n_inputs(self) -> int | None:
        """Number of columns of the inputs; None where they are objects."""
        return None if self.centres.dtype == object else self.centres.shape[1]

    @property
    def n_centres(self) -> int:
        """Number of columns of a section."""
        return len(self.centres)

    @property
    def width(self) -> int:
        """Numbers that the section of one query takes."""
        return self.n_centres

    def section(self, queries: Queries) -> Array:
        """Return k(x', centres), (Q, n), or its expectation for uncertain queries."""
        return self.section_with_error(queries).values

    def section_with_error(self, queries: Queries) -> Expectation:
        """Return the section and the standard error of its expectation."""
        if isinstance(queries, GaussianInput | SampleInput):
            return expectation(self.kernel, self.centres, queries, n_jobs=self.n_jobs)
        if self.centres.dtype == np.float32:
            queries = queries.astype(np.float32)
            return Expectation(
                cross_gram(self.kernel, queries, self.centres, n_jobs=self.n_jobs), 0.0
            )
        out = scratch((len(queries), len(self.centres)))
        values = cross_gram(self.kernel, queries, self.centres, out=out, n_jobs=self.n_jobs)
        return Expectation(values, 0.0)


@dataclass(frozen=True, eq=False)
class System(Centres, ABC):
    """A ridge system that is factored for one α."""

    alpha: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (np.isfinite(self.alpha) and self.alpha > 0):
            raise InvalidInputError(f"alpha must be positive; got {self.alpha!r}.")

    @property
    @abstractmethod
    def row_weights(self) -> Array:
        """Weights ω of all rows, (N,)."""

    @abstractmethod
    def condensed(self, embed: Embed, Y: NDArray, step: int) -> Condensed:
        """Return the targets embed(Y), summed up; ``step`` rows are embedded at a time."""

    @abstractmethod
    def solve(self, condensed: Array) -> Array:
        """Return the coefficients (n, k) of condensed targets (n, k)."""

    @abstractmethod
    def weights_of(self, section: Array) -> Weights:
        """Return the embedding weights of all rows, (Q, N), that belong to sections (Q, n)."""

    @abstractmethod
    def held_out_weights(self, rows: Integers) -> Weights:
        """Return S, (len(rows), N), with S @ B the leave-one-out predictions of some rows.

        One solve for each: for few rows of many, and targets that change.
        """

    @abstractmethod
    def one_minus_leverage(self, rows: Integers | None = None) -> Array:
        """Return 1 - leverage of each row, or of some: residual over held-out residual."""

    @abstractmethod
    def held_out(
        self, B: Array, rows: Integers | None = None, one_minus_leverage: Array | None = None
    ) -> Array:
        """Return the leave-one-out predictions of targets B (N, k), of all rows or of some.

        ``one_minus_leverage`` of these rows is computed unless it is given.
        """

    @abstractmethod
    def describe(self) -> SolverFacts:
        """Return what the report of a fit says of the system."""

    @abstractmethod
    def without_factor(self) -> Centres:
        """Return what predictions by coefficients need: no factor and no sums."""

    def unfactored(self) -> "System | None":
        """Return the system in little memory, to be factored again; None where sums are gone."""
        return None

    def with_own_rows(self) -> "System":
        """Return the system for predictions by weights, which share no array with the user."""
        return self

    def applies_weights(self, n_nodes: int, *, product_grid: bool) -> bool:
        """Whether densities on so many nodes come from weights, query by query.

        Otherwise one matrix (centres, nodes) is solved for, which all queries share.
        """
        return False

    def coefficients(self, B: Array) -> Array:
        """Return the coefficients (n, k) for targets B (N, k)."""
        return self.solve(self.condensed(lambda rows: rows, B, len(B)).targets)

    def weights(self, queries: Queries) -> Weights:
        """Return the embedding weights w(x') of all rows, (Q, N)."""
        return self.weights_of(self.section(queries))


class RegressionSystem(Protocol):
    """What a regression asks of a system: one of all rows, or one that a sample of them sees."""

    def without_factor(self) -> Centres:
        """Return what predictions by coefficients need."""

    def coefficients(self, B: Array) -> Array:
        """Return the coefficients (n, k) for targets B (N, k)."""

    def held_out(self, B: Array) -> Array:
        """Return the leave-one-out predictions of targets B (N, k)."""

    def one_minus_leverage(self) -> Array:
        """Return 1 - leverage of each row."""


class Factorable(Protocol):
    """Rows with a kernel, or sums over them, before α is known."""

    def factor(self, alpha: float) -> System:
        """Return the system for one α."""


def stacked(embed: Embed, Y: NDArray, step: int) -> Array:
    """Return embed(Y) as one array, made in blocks."""
    parts = [dense(embed(Y[start : start + step])) for start in range(0, len(Y), step)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def dense(values: Any) -> Array:
    """Return values as an array, which may be sparse."""
    return values if isinstance(values, np.ndarray) else values.toarray()
