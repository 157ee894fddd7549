"""Where the distributions of queries come from."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

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

    def batch(self, rows: NDArray[np.integer]) -> Batch:
        """Return the distributions of some queries."""


class MarginalSource:
    """Distributions of the columns that are asked for."""

    def __init__(self, source: BatchSource, dims: list[int]) -> None:
        self._source, self._dims = source, dims
        self.dim = len(dims)
        self.signed, self.width, self.n_jobs = source.signed, source.width, source.n_jobs

    def __len__(self) -> int:
        return len(self._source)

    def batch(self, rows: NDArray[np.integer]) -> Batch:
        """Return the marginals of some queries."""
        return self._source.batch(rows).marginal(self._dims)
