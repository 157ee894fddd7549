"""How typical an output is of its predicted distribution: what conformal calibration ranks.

Both numbers are small for unusual outputs and lie in [0, 1]:

- ``tail = min(F(y|x), 1 - F(y|x))``: the central interval that just holds y has level 1 - 2 tail
  (Chernozhukov, Wüthrich, Zhu 2021, whose score is |F - 1/2| = 1/2 - tail);
- ``share = P(p(Z|x) < p(y|x))`` for Z of that distribution: the region of highest density that just
  holds y has level 1 - share.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kcdo.arrays import Array
from kcdo.distributions import ConditionalDistribution
from kcdo.metrics import pit_values
from kcdo.metrics.predictive import by_chunks, checked_outputs, middles

_POINTS = 128  # of equal mass, on a line
_DRAWS = 512  # the same for joint outputs
_QUERIES = 64  # at a time: few enough that their distributions are kept between two questions
_LARGEST = 1e300


@dataclass(frozen=True, eq=False)
class HeldOut:
    """A model, and how typical it finds rows that it was not fitted to.

    Attributes
    ----------
    model : ConditionalDensityOperator
    values : (n, d + 1) array
        What :func:`typicality` says of the rows, every column sorted by itself.
    """

    model: Any
    values: Array

    @classmethod
    def of(cls, model: Any, X: Any, y: Any) -> "HeldOut":
        """Return the model, and how typical it finds these rows."""
        return cls(model, np.sort(typicality(model, X, y), axis=0))

    @property
    def tails(self) -> Array:
        """Tails of each marginal, (n, d)."""
        return self.values[:, :-1]

    @property
    def shares(self) -> Array:
        """Shares of the joint density, (n,)."""
        return self.values[:, -1]

    @property
    def dim(self) -> int:
        """Number of outputs."""
        return self.values.shape[1] - 1

    def __len__(self) -> int:
        return len(self.values)


def typicality(model: Any, X: Any, y: Any) -> Array:
    """Return how typical a model finds rows, (n, d + 1): tails of each marginal, then the share."""
    dist = model.conditional(X)
    outputs = checked_outputs(dist, y)
    pit = pit_values(dist, y).reshape(outputs.shape)

    def shares(part: Any, rows: slice) -> Array:
        heights = part.pdf_each(outputs[rows, None, :])
        return DensityRanks.of(part, outputs.shape[1]).share_below(heights)

    return np.hstack([np.minimum(pit, 1.0 - pit), by_chunks(dist, shares, size=_QUERIES)])


@dataclass(frozen=True, eq=False)
class DensityRanks:
    """The share of each distribution where its density is below a height, and the inverse.

    Both are linear between ``heights``, the sorted densities at points of equal mass, (Q, R). So
    one is the inverse of the other to the last digit, however few the points: the coverage does
    not depend on them.
    """

    heights: Array

    @classmethod
    def of(cls, dist: ConditionalDistribution, d: int) -> "DensityRanks":
        """Return the ranks of some distributions of d outputs."""
        if d == 1:
            points = dist.quantile(middles(_POINTS))
        else:
            dist.mean()  # so that the distributions are kept, not computed one by one
            # the same random numbers for every query: its ranks do not depend on the others
            points = np.concatenate([one.sample(_DRAWS, random_state=0) for one in dist])
        return cls(np.minimum(np.sort(dist.pdf_each(points), axis=1), _LARGEST))

    def share_below(self, heights: Array) -> Array:
        """Return the share below heights (Q, G): 0 at 0."""
        pairs = zip(heights, self._corners(), strict=True)
        return np.stack([np.interp(height, row, self._shares) for height, row in pairs])

    def height_at(self, shares: Array) -> Array:
        """Return the heights that these shares (n,) of each distribution are below, (Q, n)."""
        return np.stack([np.interp(shares, self._shares, row) for row in self._corners()])

    def _corners(self) -> Array:
        return np.hstack([np.zeros((len(self.heights), 1)), self.heights])

    @property
    def _shares(self) -> Array:
        return np.concatenate([[0.0], middles(self.heights.shape[1])])
