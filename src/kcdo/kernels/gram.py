"""Gram matrices, filled in blocks that fit the cache, on all cores."""

from collections.abc import Callable
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError
from kcdo.linalg import mirrored
from kcdo.parallel import run_threaded

_BLOCK_ROWS = 256
_BLOCK_COLUMNS = 1024
# Values below this, beside the largest, multiply to denormal numbers, which slow a factorisation
# tenfold.
_FLUSH = {np.dtype(np.float64): 1e-150, np.dtype(np.float32): 1e-18}


class BlockFunction(Protocol):
    """What filling a Gram matrix needs to know of a kernel."""

    @property
    def thread_safe(self) -> bool:
        """Whether blocks may be filled by several threads at once."""

    @property
    def peak(self) -> float:
        """Order of magnitude of the largest values."""

    def filler(self, B: NDArray) -> Callable[[NDArray, Array], None]:
        """Return a function (A, out) that writes k(a_i, b_j) into ``out``."""


def cross_gram(
    kernel: BlockFunction,
    A: NDArray,
    B: NDArray,
    *,
    out: Array | None = None,
    n_jobs: int | None = None,
) -> Array:
    """Return k(a_i, b_j), (len(A), len(B))."""
    if A.ndim == B.ndim == 2 and A.shape[1] != B.shape[1]:
        raise InvalidInputError(
            f"a kernel compares rows of one width; got {A.shape[1]} and {B.shape[1]} columns."
        )
    out = np.empty((len(A), len(B)), dtype=_dtype(A)) if out is None else out
    blocks = [(r, c) for r in _cuts(len(A), _BLOCK_ROWS) for c in _cuts(len(B), _BLOCK_COLUMNS)]
    _fill(kernel, A, B, out, blocks, n_jobs)
    return out


def lower_gram(
    kernel: BlockFunction, A: NDArray, *, out: Array | None = None, n_jobs: int | None = None
) -> Array:
    """Return an (n, n) array whose lower triangle is k(a_i, a_j); the rest is arbitrary.

    Half the kernel evaluations, and all that a Cholesky factorisation reads.
    """
    out = np.empty((len(A), len(A)), dtype=_dtype(A)) if out is None else out
    blocks = [
        (r, slice(c.start, min(c.stop, r.stop)))
        for r in _cuts(len(A), _BLOCK_ROWS)
        for c in _cuts(len(A), _BLOCK_COLUMNS)
        if c.start < r.stop
    ]
    _fill(kernel, A, A, out, blocks, n_jobs)
    return out


def gram(kernel: BlockFunction, A: NDArray, *, n_jobs: int | None = None) -> Array:
    """Return the symmetric matrix k(a_i, a_j)."""
    return mirrored(lower_gram(kernel, A, n_jobs=n_jobs))


def as_points(points: ArrayLike) -> NDArray:
    """Return points as a 2-D floating array; a vector becomes one column, objects stay."""
    array = np.asarray(points)
    if array.dtype.kind in "biu":
        array = array.astype(float)
    return array[:, None] if array.ndim == 1 and array.dtype.kind == "f" else array


def evaluate(kernel: BlockFunction, A: ArrayLike, B: ArrayLike | None = None) -> Array:
    """Return k(A, B), or the symmetric k(A, A)."""
    points = as_points(A)
    return gram(kernel, points) if B is None else cross_gram(kernel, points, as_points(B))


def _fill(
    kernel: BlockFunction,
    A: NDArray,
    B: NDArray,
    out: Array,
    blocks: list[tuple[slice, slice]],
    n_jobs: int | None,
) -> None:
    threshold = _FLUSH[out.dtype] * kernel.peak
    fillers = {c.start: (c.stop, kernel.filler(B[c])) for _, c in blocks[::-1]}

    def fill(block: tuple[slice, slice]) -> None:
        rows, columns = block
        values = out[rows, columns]
        stop, filler = fillers[columns.start]
        if stop != columns.stop:  # a block cut by the diagonal
            filler = kernel.filler(B[columns])
        filler(A[rows], values)
        if values.size and values.min() < threshold:  # rarely, so that the mask is seldom made
            values[np.abs(values) < threshold] = 0.0

    run_threaded(fill, blocks, n_jobs if kernel.thread_safe else 1)


def _cuts(n: int, size: int) -> list[slice]:
    edges = [*range(0, n, size), n]
    return [slice(a, b) for a, b in pairwise(edges)]


def _dtype(A: NDArray) -> DTypeLike:
    return A.dtype if A.dtype == np.float32 else np.dtype(float)
