"""Questions by the names that :mod:`scipy.stats` gives them."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike

from kcdo.arrays import Array

RandomState = int | np.random.Generator | np.random.RandomState | None


class ScipyNames(ABC):
    """Methods of ``scipy.stats`` distributions that are others by another name.

    ``pdf``, ``logpdf``, ``cdf``, ``mean``, ``var``, ``std``, ``entropy``, ``expect`` and
    ``interval`` have the same name in both.

    Examples
    --------
    >>> import kcdo
    >>> X, Y = kcdo.make_donut(4, random_state=0)
    >>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y[:, 0])
    >>> dist = model.conditional([[0.0], [1.0]])
    >>> bool((dist.ppf([0.1, 0.9]) == dist.quantile([0.1, 0.9])).all())
    True
    >>> dist.rvs(3, random_state=0).shape
    (2, 3)
    """

    @abstractmethod
    def cdf(self, y: ArrayLike) -> Array:
        """P(Y <= y) of every query at every y."""

    @abstractmethod
    def quantile(self, q: ArrayLike) -> Array:
        """Quantiles of each marginal."""

    @abstractmethod
    def sample(self, n: int, random_state: RandomState = None) -> Array:
        """Draws of each query."""

    @abstractmethod
    def _need_one_output(self, what: str) -> None:
        """Raise unless there is one output."""

    def ppf(self, q: ArrayLike) -> Array:
        """Percent point function: :meth:`quantile`."""
        return self.quantile(q)

    def median(self) -> Array:
        """Median of each marginal, (Q,) or (Q, d); of chains by draws."""
        return self.quantile(0.5)

    def sf(self, y: ArrayLike) -> Array:
        """Survival function P(Y > y) = 1 - cdf of one output, (Q, G)."""
        self._need_one_output("sf")
        return 1.0 - self.cdf(y)

    def logsf(self, y: ArrayLike) -> Array:
        """Logarithm of :meth:`sf`, of which 1e-16 is rounding."""
        self._need_one_output("logsf")
        with np.errstate(divide="ignore"):
            return np.log1p(-self.cdf(y))

    def rvs(self, size: int = 1, random_state: RandomState = None) -> Array:
        """Random variates: :meth:`sample`."""
        return self.sample(size, random_state)
