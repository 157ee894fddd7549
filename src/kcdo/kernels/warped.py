"""Kernels of mapped inputs, and the map that draws in long tails."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError
from kcdo.inputs import GaussianInput
from kcdo.kernels.base import Differentiable, Kernel, Parts, Wrapper, checked_part
from kcdo.kernels.parts import transformed, walk

_LONG = 3.0
_LEVELS = (0.0, 0.005, 0.25, 0.5, 0.75, 0.995, 1.0)
_LEAST_VALUES = 10


class Mapped(Wrapper):
    """k(T(x), T(x')), T a map of rows that maps each column by itself.

    A subclass is a dataclass that defines T as ``inner_rows``.
    """

    @property
    def stationary(self) -> bool:  # type: ignore[override]
        """Differences of inputs do not tell those of T."""
        return False

    @abstractmethod
    def inner_rows(self, X: NDArray) -> NDArray:
        """Return T(x) of every row, as a new array of the same columns."""

    def inner_inputs(self, inputs: GaussianInput) -> None:
        """Return None: T of a Gaussian need not be Gaussian."""

    def block(self, A: Array, B: Array) -> Array:
        """Return one block of kernel values."""
        return self.kernel.block(self.inner_rows(A), self.inner_rows(B))

    def filler(self, B: Array) -> Callable[[Array, Array], None]:
        """Return a function (A, out) that writes k(A, B) into ``out``."""
        inner = self.kernel.filler(self.inner_rows(B))

        def fill(A: Array, out: Array) -> None:
            inner(self.inner_rows(A), out)

        return fill

    def diag(self, A: Array) -> Array:
        """Return k(a_i, a_i)."""
        return self.kernel.diag(self.inner_rows(A))

    def gram_of_parts(self, parts: Parts, A: NDArray, B: NDArray) -> Differentiable:
        """Return the Gram matrix and the pullback of the inner kernel."""
        return parts[0]


@dataclass(frozen=True)
class Warped(Mapped):
    """k(T(x), T(x')) with T(x) = asinh((x - origin) / width) on some columns.

    Near the origin T is linear, far from it logarithmic: incomes and populations differ by
    factors, not by sums. Scales are those of T(x).

    Parameters
    ----------
    kernel : Kernel
        k.
    columns : tuple of int
        The columns that T acts on; the others stay.
    origins, widths : tuple of float
        One for each of these columns; widths are positive.

    Examples
    --------
    >>> from kcdo import Gaussian
    >>> kernel = Warped(Gaussian(1.0), (0,), (0.0,), (1.0,))
    >>> kernel([[100.0]], [[200.0], [1000.0]]).round(3)
    array([[0.786, 0.071]])
    """

    columns: tuple[int, ...]
    origins: tuple[float, ...]
    widths: tuple[float, ...]

    def __post_init__(self) -> None:
        checked_part(self.kernel, "Warped")
        if not len(self.columns) == len(self.origins) == len(self.widths):
            raise InvalidInputError("Warped: columns, origins and widths must be as many.")
        if not (np.isfinite(self.origins).all() and np.isfinite(self.widths).all()):
            raise InvalidInputError("Warped: origins and widths must be finite.")
        if not all(width > 0 for width in self.widths):
            raise InvalidInputError(f"Warped: widths must be positive; got {self.widths!r}.")

    def inner_rows(self, X: NDArray) -> NDArray:
        """Return T(x) of every row."""
        out = X.copy()
        for column, origin, width in zip(self.columns, self.origins, self.widths, strict=True):
            if not -X.shape[1] <= column < X.shape[1]:
                raise InvalidInputError(
                    f"a kernel warps column {column}, but the data have {X.shape[1]} columns."
                )
            out[:, column] = np.arcsinh((X[:, column] - origin) / width)
        return out


def warped(kernel: Kernel, X: NDArray) -> Kernel:
    """Return the kernel with its :class:`Automatic` parts warped where columns have a long tail."""
    if X.dtype == object:
        return kernel

    def drawn_in(part: Kernel, rows: NDArray) -> Kernel | None:
        if isinstance(part, Warped):  # once is enough
            return part
        return _with_warp(part, rows) if part.family_open else None

    return transformed(kernel, drawn_in, X)


def _with_warp(kernel: Kernel, X: NDArray) -> Kernel:
    found = {j: tail for j in range(X.shape[1]) if (tail := _tail(X[:, j])) is not None}
    if not found:
        return kernel
    origins, widths = zip(*found.values(), strict=True)
    return Warped(kernel, tuple(found), origins, widths)


def _tail(values: Array) -> tuple[float, float] | None:
    """Return where the long tail of a column begins and how wide its body is; None without one.

    Long is an end, but for the last 1/200, that is three times as far from the median as the other.
    """
    if len(np.unique(values)) < _LEAST_VALUES:
        return None
    least, low, quarter, middle, upper, high, most = np.quantile(values, _LEVELS)
    if high - middle > _LONG * (middle - low):
        origin, width = least, quarter - least
    elif middle - low > _LONG * (high - middle):
        origin, width = most, most - upper
    else:
        return None
    return (float(origin), float(width)) if width > 0 else None


def warped_columns(kernel: Kernel, columns: Sequence[int]) -> Iterator[int]:
    """Yield the columns, of those given, that a kernel or a kernel inside it warps."""
    for part, inside in walk(kernel, columns):
        if isinstance(part, Warped):
            yield from (inside[column] for column in part.columns)
