"""From an operator and queries to the distributions that users ask."""

from typing import Protocol

from kcdo.arrays import Integers
from kcdo.components.density import DensityOperator
from kcdo.distributions import Batch, ConditionalDistribution, TransformedBatch
from kcdo.systems import Queries
from kcdo.transforms import Transform


class Conditioner(Protocol):
    """An operator that turns queries into distributions."""

    @property
    def dim(self) -> int:
        """Number of outputs d."""

    @property
    def signed(self) -> bool:
        """Whether densities may be negative."""

    @property
    def n_jobs(self) -> int | None:
        """Threads to use."""

    @property
    def nbytes(self) -> int:
        """Memory of the model, in bytes."""

    @property
    def primary(self) -> DensityOperator:
        """The density operator that a report describes."""

    def batch(self, queries: Queries) -> Batch:
        """Return the distributions of the queries."""

    def marginal_batch(self) -> Batch:
        """Return the distribution of Y in the training rows, as that of one query."""

    def width(self, queries: Queries) -> int:
        """Return the numbers held for each query while its distribution is computed."""


def condition(
    operator: Conditioner, queries: Queries, *, flat: bool, transform: Transform | None = None
) -> ConditionalDistribution:
    """Return the distributions of the queries, computed when asked.

    ``flat`` drops the output axis; a transform maps the operator's outputs to the user's.
    """
    return ConditionalDistribution(_QuerySource(operator, queries, transform), flat=flat)


def unconditional(
    operator: Conditioner, *, flat: bool, transform: Transform | None = None
) -> ConditionalDistribution:
    """Return the distribution of Y in the training rows, as that of one query."""
    return ConditionalDistribution(_MarginalSource(operator, transform), flat=flat)


class _QuerySource:
    """Distributions of queries, computed when asked."""

    def __init__(
        self, operator: Conditioner, queries: Queries, transform: Transform | None
    ) -> None:
        self._operator, self._queries, self._transform = operator, queries, transform
        self.dim, self.signed, self.n_jobs = operator.dim, operator.signed, operator.n_jobs
        self.width = operator.width(queries)
        marginal_width = getattr(operator, "marginal_width", operator.width)
        self.marginal_width = marginal_width(queries)

    def __len__(self) -> int:
        return len(self._queries)

    def batch(self, rows: Integers) -> Batch:
        """Return the distributions of some queries."""
        batch = self._operator.batch(self._queries[rows])
        return batch if self._transform is None else TransformedBatch(batch, self._transform)


class _MarginalSource:
    """The distribution of Y, the same for every query."""

    signed = False

    def __init__(self, operator: Conditioner, transform: Transform | None) -> None:
        batch = operator.marginal_batch()
        self._batch = batch if transform is None else TransformedBatch(batch, transform)
        self.dim, self.n_jobs, self.width = operator.dim, operator.n_jobs, batch.width

    def __len__(self) -> int:
        return 1

    def batch(self, rows: Integers) -> Batch:
        """Return the distribution as often as it is asked for."""
        return self._batch.take(rows)
