"""A kernel with a nugget: an input is also like itself alone."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array, Integers
from kcdo.errors import InvalidInputError
from kcdo.inputs import Expectation, GaussianInput
from kcdo.kernels.base import Differentiable, PartExpectation, Parts, Wrapper, checked_part


@dataclass(frozen=True)
class Nugget(Wrapper):
    """(1 - share) k(x, x') + share 1{x = x'}: a kernel with a nugget.

    Where an input comes back, its own observations count for more than those of its neighbours:
    each input has an effect of its own, which says nothing about other inputs.

    Parameters
    ----------
    kernel : Kernel
        k, of which k(x, x) = 1.
    share : float
        The nugget, as a share of the variance: how much an input is like itself alone, in [0, 1).

    Examples
    --------
    >>> from kcdo import Gaussian
    >>> Nugget(Gaussian(1.0), 0.5)([[0.0], [1.0]]).round(4)
    array([[1.    , 0.3033],
           [0.3033, 1.    ]])
    """

    share: float
    has_nugget = True

    def __post_init__(self) -> None:
        checked_part(self.kernel, "Nugget")
        if not 0 <= self.share < 1:
            raise InvalidInputError(f"Nugget: share must lie in [0, 1); got {self.share!r}.")

    def block(self, A: Array, B: Array) -> Array:
        """Return one block of kernel values."""
        out = np.empty((len(A), len(B)), dtype=A.dtype)
        self.filler(B)(A, out)
        return out

    def filler(self, B: Array) -> Callable[[Array, Array], None]:
        """Return a function (A, out) that writes k(A, B); rows of B are found by their hashes."""
        inner, equal_rows = self.kernel.filler(B), _finder(B)

        def fill(A: Array, out: Array) -> None:
            inner(A, out)
            out *= 1.0 - self.share
            out[equal_rows(A)] += self.share

        return fill

    def diag(self, A: Array) -> Array:
        """Return k(a_i, a_i)."""
        return (1.0 - self.share) * self.kernel.diag(A) + self.share

    def gram_of_parts(self, parts: Parts, A: NDArray, B: NDArray) -> Differentiable:
        """Return (1 - share) times the Gram matrix of the inner kernel, plus the nugget."""
        ((inner, pull),) = parts
        rest = 1.0 - self.share
        values = rest * inner
        values[_finder(B)(A)] += self.share
        return values, lambda W: pull(rest * W)

    def expectation_of_parts(self, part: PartExpectation, inputs: GaussianInput) -> Expectation:
        """Return (1 - share) times that of the inner kernel: an uncertain input equals no other."""
        return part(self.kernel).scaled(1.0 - self.share)


def _finder(B: Array) -> Callable[[Array], tuple[Integers, Integers]]:
    """Return a function of A that finds all pairs (i, j) of equal rows a_i = b_j, by hashes."""
    hashes = _hashes(B)
    order = np.argsort(hashes, kind="stable")
    sorted_hashes = hashes[order]

    def pairs(A: Array) -> tuple[Integers, Integers]:
        own = _hashes(A)
        first = np.searchsorted(sorted_hashes, own, side="left")
        counts = np.searchsorted(sorted_hashes, own, side="right") - first
        rows = np.repeat(np.arange(len(A)), counts)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        columns = order[np.repeat(first, counts) + within]
        same = np.all(A[rows] == B[columns], axis=1)  # hashes may collide
        return rows[same], columns[same]

    return pairs


def _hashes(rows: NDArray) -> NDArray[np.uint64]:
    """Return one number for each row: equal for equal rows, and hardly ever for others."""
    bits = (np.ascontiguousarray(rows, dtype=np.float64) + 0.0).view(np.uint64)  # -0.0 is 0.0
    mixed = bits ^ (bits >> np.uint64(29))
    odd = np.random.default_rng(0).integers(2**63, size=bits.shape[1], dtype=np.uint64)
    return mixed @ (2 * odd + np.uint64(1))  # wraps around
