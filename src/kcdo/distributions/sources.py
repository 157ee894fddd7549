"""Where the distributions of queries come from."""

from typing import Protocol

import numpy as np

from kcdo.arrays import Integers
from kcdo.distributions.batch import Batch


class BatchSource(Protocol):
    """Where the distributions of queries come from."""

    @property
    def dim(self) -> int:
        """Number of outputs."""

    @property
    def signed(self) -> bool:
        """Whether densities may be negative."""

    @property
    def width(self) -> int:
        """Numbers held for each query while its distribution is computed."""

    @property
    def n_jobs(self) -> int | None:
        """Threads to use."""

    def __len__(self) -> int:
        """Return the number of queries."""

    def batch(self, rows: Integers) -> Batch:
        """Return the distributions of some queries."""


class MarginalSource:
    """Distributions of the columns that are asked for."""

    def __init__(self, source: BatchSource, dims: list[int]) -> None:
        self._source, self._dims = source, dims
        self.dim = len(dims)
        self.signed, self.n_jobs = source.signed, source.n_jobs
        # a marginal of a chain mixes as many distributions as there are draws
        self.width = getattr(source, "marginal_width", source.width)

    def __len__(self) -> int:
        return len(self._source)

    def batch(self, rows: Integers) -> Batch:
        """Return the marginals of some queries."""
        return self._source.batch(rows).marginal(self._dims)


class KeptSource:
    """Distributions of queries that were computed before, under the numbers they had."""

    def __init__(self, source: BatchSource, kept: Batch, rows: Integers) -> None:
        self.dim, self.signed, self.n_jobs = source.dim, source.signed, source.n_jobs
        self.width = source.width
        self.marginal_width = getattr(source, "marginal_width", source.width)
        self._kept, self._n = kept, len(source)
        self._place_of = np.zeros(len(source), dtype=int)
        self._place_of[rows] = np.arange(len(rows))

    def __len__(self) -> int:
        return self._n

    def batch(self, rows: Integers) -> Batch:
        """Return some of the distributions."""
        return self._kept.take(self._place_of[rows])
