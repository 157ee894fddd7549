"""A kernel of inputs whose long tails are drawn in."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError
from kcdo.kernels.base import Kernel, OnColumns, Product, Sum, Wrapper, checked_part
from kcdo.kernels.memory import Remembering
from kcdo.kernels.stationary import Automatic

_LONG = 3.0
_LEVELS = (0.0, 0.005, 0.25, 0.5, 0.75, 0.995, 1.0)
_LEAST_VALUES = 10


@dataclass(frozen=True)
class Warped(Wrapper):
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

    @property
    def stationary(self) -> bool:  # type: ignore[override]
        """Differences of inputs do not tell those of T."""
        return False

    def flat(self, X: Array) -> Array:
        """Return T(x) of every row."""
        out = X.copy()
        for column, origin, width in zip(self.columns, self.origins, self.widths, strict=True):
            if not -X.shape[1] <= column < X.shape[1]:
                raise InvalidInputError(
                    f"a kernel warps column {column}, but the data have {X.shape[1]} columns."
                )
            out[:, column] = np.arcsinh((X[:, column] - origin) / width)
        return out

    def inner_kernels(self, columns: Sequence[int]) -> list[tuple[Kernel, list[int]]]:
        """Return the inner kernel with all columns."""
        return [(self.kernel, list(columns))]

    def block(self, A: Array, B: Array) -> Array:
        """Return one block of kernel values."""
        return self.kernel.block(self.flat(A), self.flat(B))

    def filler(self, B: Array) -> Callable[[Array, Array], None]:
        """Return a function (A, out) that writes k(A, B) into ``out``."""
        inner = self.kernel.filler(self.flat(B))

        def fill(A: Array, out: Array) -> None:
            inner(self.flat(A), out)

        return fill

    def diag(self, A: Array) -> Array:
        """Return k(a_i, a_i)."""
        return self.kernel.diag(self.flat(A))


def warped(kernel: Kernel, X: NDArray) -> Kernel:
    """Return the kernel with its :class:`Automatic` parts warped where columns have a long tail."""
    if X.dtype == object:
        return kernel
    if isinstance(kernel, Product | Sum):
        return type(kernel)(tuple(warped(part, X) for part in kernel.kernels))
    if isinstance(kernel, Remembering):
        return replace(kernel, kernel=warped(kernel.kernel, X))
    if isinstance(kernel, OnColumns):
        return OnColumns(warped(kernel.kernel, X[:, kernel.indices(X.shape[1])]), kernel.columns)
    if not isinstance(kernel, Automatic) or kernel.fitted:
        return kernel
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
    """Yield those of the columns that a kernel, or a part of it, warps."""
    if isinstance(kernel, Warped):
        yield from (columns[column] for column in kernel.columns)
    for part, inside in kernel.inner_kernels(columns):
        yield from warped_columns(part, inside)


def without_warps(kernel: Kernel) -> Kernel:
    """Return the kernel of the columns after all warps."""
    if isinstance(kernel, Warped):
        return without_warps(kernel.kernel)
    if isinstance(kernel, Product | Sum):
        return type(kernel)(tuple(without_warps(part) for part in kernel.kernels))
    if isinstance(kernel, OnColumns):
        return OnColumns(without_warps(kernel.kernel), kernel.columns)
    return kernel


def after_warps(kernel: Kernel, X: Array) -> Array:
    """Return the inputs after all warps of a kernel, each column of which one part sees at most."""
    if isinstance(kernel, Warped):
        return after_warps(kernel.kernel, kernel.flat(X))
    if isinstance(kernel, Product | Sum):
        for part in kernel.kernels:
            X = after_warps(part, X)
    elif isinstance(kernel, OnColumns):
        columns = kernel.indices(X.shape[1])
        X = X.copy()
        X[:, columns] = after_warps(kernel.kernel, X[:, columns])
    return X
