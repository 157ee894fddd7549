"""The average of kernels of the same columns: a smooth trend and what is rough about it."""

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.inputs import Expectation, GaussianInput
from kcdo.kernels.base import Differentiable, PartExpectation, Parts, Sum
from kcdo.kernels.radial import Radial


class Average(Sum):
    """Average of kernels, each with scales of its own.

    A regression with it adds functions of different smoothness that depend on different columns.

    Examples
    --------
    >>> from kcdo import Gaussian, Matern
    >>> kernel = Average((Gaussian((1.0, 9.0)), Matern((9.0, 1.0), smoothness=0.5)))
    >>> kernel([[0.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]).round(4)
    array([[0.7507, 0.6809]])
    """

    flattens = False

    def block(self, A: Array, B: Array) -> Array:
        """Return one block of kernel values."""
        values = super().block(A, B)
        values /= len(self.kernels)
        return values

    def diag(self, A: Array) -> Array:
        """Return k(a_i, a_i)."""
        return super().diag(A) / len(self.kernels)

    def gram_of_parts(self, parts: Parts, A: NDArray, B: NDArray) -> Differentiable:
        """Return the average of the parts."""
        values, pullback = super().gram_of_parts(parts, A, B)
        return values / len(parts), lambda W: pullback(W / len(parts))

    def expectation_of_parts(self, part: PartExpectation, inputs: GaussianInput) -> Expectation:
        """Return the average of E k of the parts, and that of their errors."""
        return super().expectation_of_parts(part, inputs).scaled(1.0 / len(self.kernels))

    @property
    def radial(self) -> tuple[Radial, ...] | None:
        """The parts, if all of them are kernels of a scaled distance."""
        parts = tuple(part for part in self.kernels if isinstance(part, Radial))
        return parts if len(parts) == len(self.kernels) else None

    def metric_coordinates(self, X: NDArray) -> list[Array]:
        """Return coordinates whose squared distance is the sum of those of radial parts."""
        assert self.radial is not None, "the parts have a metric each"
        squares = sum(part.scales(X.shape[1]) ** -2.0 for part in self.radial)
        return [X * np.sqrt(squares)]
