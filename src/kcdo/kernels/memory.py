"""A kernel that also knows an input from itself alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError
from kcdo.inputs import GaussianInput
from kcdo.kernels.base import Kernel, Wrapper, checked_part


@dataclass(frozen=True)
class Remembering(Wrapper):
    """(1 - share) k(x, x') + share 1{x = x'}.

    Where an input comes back, its own observations count for more than those of its neighbours.
    Like k with an effect of each input's own, which says nothing about others.

    Parameters
    ----------
    kernel : Kernel
        k, of which k(x, x) = 1.
    share : float
        How much an input is like itself alone, in [0, 1).

    Examples
    --------
    >>> from kcdo import Gaussian
    >>> Remembering(Gaussian(1.0), 0.5)([[0.0], [1.0]]).round(4)
    array([[1.    , 0.3033],
           [0.3033, 1.    ]])
    """

    share: float

    def __post_init__(self) -> None:
        checked_part(self.kernel, "Remembering")
        if not 0 <= self.share < 1:
            raise InvalidInputError(f"Remembering: share must lie in [0, 1); got {self.share!r}.")

    def inner_kernels(self, columns: Sequence[int]) -> list[tuple[Kernel, list[int]]]:
        """Return the inner kernel with all columns."""
        return [(self.kernel, list(columns))]

    def block(self, A: Array, B: Array) -> Array:
        """Return one block of kernel values."""
        out = np.empty((len(A), len(B)), dtype=A.dtype)
        self.filler(B)(A, out)
        return out

    def filler(self, B: Array) -> Callable[[Array, Array], None]:
        """Return a function (A, out) that writes k(A, B); rows of B are found by their hashes."""
        inner, hashes = self.kernel.filler(B), _hashes(B)
        order = np.argsort(hashes, kind="stable")
        sorted_hashes = hashes[order]

        def fill(A: Array, out: Array) -> None:
            inner(A, out)
            out *= 1.0 - self.share
            own = _hashes(A)
            first = np.searchsorted(sorted_hashes, own, side="left")
            counts = np.searchsorted(sorted_hashes, own, side="right") - first
            rows = np.repeat(np.arange(len(A)), counts)
            within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
            columns = order[np.repeat(first, counts) + within]
            same = np.all(A[rows] == B[columns], axis=1)  # hashes may collide
            out[rows[same], columns[same]] += self.share

        return fill

    def diag(self, A: Array) -> Array:
        """Return k(a_i, a_i)."""
        return (1.0 - self.share) * self.kernel.diag(A) + self.share

    def gaussian_expectation(self, X: Array, inputs: GaussianInput) -> Array | None:
        """Return that of the inner kernel: an uncertain input equals no other."""
        values = self.kernel.gaussian_expectation(X, inputs)
        return None if values is None else (1.0 - self.share) * values


def _hashes(rows: NDArray) -> NDArray[np.uint64]:
    """Return one number for each row: equal for equal rows, and hardly ever for others."""
    bits = (np.ascontiguousarray(rows, dtype=np.float64) + 0.0).view(np.uint64)  # -0.0 is 0.0
    mixed = bits ^ (bits >> np.uint64(29))
    odd = np.random.default_rng(0).integers(2**63, size=bits.shape[1], dtype=np.uint64)
    return mixed @ (2 * odd + np.uint64(1))  # wraps around
