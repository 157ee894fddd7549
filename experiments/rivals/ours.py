"""The library behind the interface of the rivals."""

from typing import Any, Self

import kcdo
from kcdo.arrays import Array


class CDO:
    """``kcdo.ConditionalDensityOperator`` with one way of choosing its parameters.

    It recognises discrete outputs by itself: ``gap`` is not passed on.
    """

    def __init__(
        self, seed: int = 0, gap: float = 0.0, *, selection: str = "auto", **options: Any
    ) -> None:
        self.name = "kcdo" if selection == "auto" else f"kcdo-{selection}"
        self._options = {"selection": selection, "random_state": seed, **options}

    def fit(self, X: Array, Y: Array) -> Self:
        """Learn from rows of inputs and outputs."""
        self.model = kcdo.ConditionalDensityOperator(**self._options).fit(X, Y)
        return self

    def conditional(self, X: Array) -> kcdo.ConditionalDistribution:
        """Distributions of the outputs given each row."""
        return self.model.conditional(X)
