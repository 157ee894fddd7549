"""What a kernel is: an immutable value that fills blocks of a Gram matrix, and their algebra."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError, InvalidTypeError
from kcdo.inputs import GaussianInput
from kcdo.kernels.gram import evaluate

Scale = float | tuple[float, ...] | None


class Kernel(ABC):
    """A positive definite function k(x, x') on rows of arrays.

    Kernels compose: ``k1 + k2``, ``k1 * k2`` and ``k.on(columns)``, e.g.
    ``Gaussian(2.0).on([0, 1]) * Periodic(24.0, 3.0).on([2])``.
    """

    #: whether blocks may be filled by several threads at once
    thread_safe = True
    #: whether k(x, x') depends on x - x' alone
    stationary = False

    @abstractmethod
    def block(self, A: Array, B: Array) -> Array:
        """Return the new array k(a_i, b_j), (len(A), len(B)), computed by one thread."""

    def filler(self, B: Array) -> Callable[[Array, Array], None]:
        """Return a function (A, out) that writes k(A, B) into ``out``; B is prepared once."""

        def fill(A: Array, out: Array) -> None:
            out[...] = self.block(A, B)

        return fill

    def __call__(self, A: ArrayLike, B: ArrayLike | None = None) -> Array:
        """Return the Gram matrix k(A, B), or the symmetric k(A, A); a vector is one column."""
        return evaluate(self, A, B)

    def diag(self, A: Array) -> Array:
        """Return k(a_i, a_i)."""
        return np.ones(len(A))

    def gaussian_expectation(self, X: Array, inputs: GaussianInput) -> Array | None:
        """E k(x_i, x') for x' ~ N(mean_q, cov_q), (Q, N); None where no closed form is known."""
        return None

    @property
    def fitted(self) -> bool:
        """Whether every scale is set (``None`` asks for the median heuristic)."""
        return True

    def inner_kernels(self, columns: Sequence[int]) -> "list[tuple[Kernel, list[int]]]":
        """Return the kernels that this one is made of, each with those of the columns it sees."""
        return []

    def on(self, columns: int | str | Sequence[int | str]) -> "OnColumns":
        """Return this kernel applied to some columns only, by position or name."""
        return OnColumns(self, columns)

    def __add__(self, other: "Kernel") -> "Sum":
        return Sum((self, other))

    def __mul__(self, other: "Kernel") -> "Product":
        return Product((self, other))


@dataclass(frozen=True)
class ScaledKernel(Kernel):
    """A kernel with one scale, or one per column, in the units of the data.

    Parameters
    ----------
    scale : float, sequence of floats or None
        ``None`` leaves the choice to the estimator that uses the kernel.
    """

    scale: Scale = None
    stationary = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", checked_scale(self.scale, type(self).__name__))

    @property
    def fitted(self) -> bool:
        """Whether the scale is set."""
        return self.scale is not None

    def scales(self, p: int) -> Array:
        """Return the scale of each of ``p`` columns."""
        if self.scale is None:
            raise InvalidInputError(
                f"{type(self).__name__}() has no scale yet: give one, or fit it to data with "
                "kcdo.with_median_scales(kernel, X)."
            )
        return per_column(self.scale, p, type(self).__name__, "scales")


def per_column(value: float | tuple[float, ...], p: int, owner: str, what: str) -> Array:
    """Return one number for all columns, or one each, as one for each of ``p`` columns."""
    values = np.asarray(value, dtype=float)
    if values.ndim and len(values) != p:
        raise InvalidInputError(f"{owner} has {len(values)} {what} but the data have {p} columns.")
    return np.broadcast_to(values, (p,))


def checked_scale(scale: Any, owner: str, what: str = "scale") -> Scale:
    """Return a scale (or period) as float or tuple of floats; positive and finite, or None."""
    if scale is None:
        return None
    try:
        values = np.asarray(scale, dtype=float)
    except (TypeError, ValueError):
        raise InvalidTypeError(f"{owner}: {what} must be numbers; got {scale!r}.") from None
    if values.ndim > 1 or values.size == 0 or not np.all(np.isfinite(values) & (values > 0)):
        raise InvalidInputError(f"{owner}: {what}s must be positive and finite; got {scale!r}.")
    return float(values) if values.ndim == 0 else tuple(values.tolist())


@dataclass(frozen=True)
class Wrapper(Kernel):
    """A kernel made of one other, whose nature it shares."""

    kernel: Kernel

    @property
    def thread_safe(self) -> bool:  # type: ignore[override]
        """Whether the inner kernel is."""
        return self.kernel.thread_safe

    @property
    def stationary(self) -> bool:  # type: ignore[override]
        """Whether the inner kernel is."""
        return self.kernel.stationary

    @property
    def fitted(self) -> bool:
        """Whether the inner kernel is."""
        return self.kernel.fitted


@dataclass(frozen=True)
class OnColumns(Wrapper):
    """A kernel that looks at some columns only, given by position or by name.

    Names are turned into positions when an estimator is fitted to a data frame.
    """

    columns: tuple[int | str, ...]

    def __init__(self, kernel: Kernel, columns: int | str | Sequence[int | str]) -> None:
        chosen = (columns,) if np.ndim(columns) == 0 else tuple(columns)  # type: ignore[arg-type]
        if not chosen:
            raise InvalidInputError("a kernel needs at least one column; got none.")
        object.__setattr__(self, "kernel", checked_part(kernel, "on(columns)"))
        object.__setattr__(self, "columns", tuple(_checked_column(c) for c in chosen))

    def indices(self, p: int) -> list[int]:
        """Return the positions of the columns, checked against a data width of ``p``."""
        for c in self.columns:
            if isinstance(c, str):
                raise InvalidInputError(
                    f"kernel on column {c!r}: names work with data frames; give its position."
                )
            if not -p <= c < p:
                raise InvalidInputError(f"kernel on column {c}, but the data have {p} columns.")
        return [int(c) % p for c in self.columns]

    def inner_kernels(self, columns: Sequence[int]) -> list[tuple[Kernel, list[int]]]:
        """Return the inner kernel with its columns."""
        return [(self.kernel, [columns[i] for i in self.indices(len(columns))])]

    def block(self, A: Array, B: Array) -> Array:
        """Return one block of kernel values."""
        c = self.indices(A.shape[1])
        return self.kernel.block(A[:, c], B[:, c])

    def diag(self, A: Array) -> Array:
        """Return k(a_i, a_i)."""
        return self.kernel.diag(A[:, self.indices(A.shape[1])])

    def gaussian_expectation(self, X: Array, inputs: GaussianInput) -> Array | None:
        """Return the inner closed form, under the marginal of its columns."""
        c = self.indices(X.shape[1])
        return self.kernel.gaussian_expectation(X[:, c], inputs.columns(c))


def _checked_column(column: Any) -> int | str:
    if isinstance(column, str):
        return column
    if isinstance(column, bool) or not isinstance(column, int | np.integer):
        raise InvalidTypeError(f"a column is a position or a name; got {column!r}.")
    return int(column)


def checked_part(kernel: Any, owner: str) -> Kernel:
    """Return a part of a composed kernel; what is not a kernel of ours is refused."""
    if not isinstance(kernel, Kernel):
        raise InvalidTypeError(
            f"{owner} needs kcdo kernels; got {kernel!r}. Wrap a scikit-learn kernel or a function "
            "of two arrays in kcdo.Adapter."
        )
    return kernel


@dataclass(frozen=True)
class _Composite(Kernel):
    kernels: tuple[Kernel, ...]

    def __post_init__(self) -> None:
        parts: list[Kernel] = []
        for kernel in self.kernels:  # nested sums and products are flattened
            checked_part(kernel, type(self).__name__)
            parts.extend(kernel.kernels if type(kernel) is type(self) else (kernel,))
        if not parts:
            raise InvalidInputError(f"{type(self).__name__} needs at least one kernel.")
        object.__setattr__(self, "kernels", tuple(parts))

    def inner_kernels(self, columns: Sequence[int]) -> list[tuple[Kernel, list[int]]]:
        """Return the terms or factors, each with all columns."""
        return [(kernel, list(columns)) for kernel in self.kernels]

    @property
    def thread_safe(self) -> bool:  # type: ignore[override]
        """Whether every part is."""
        return all(k.thread_safe for k in self.kernels)

    @property
    def stationary(self) -> bool:  # type: ignore[override]
        """Whether every part is."""
        return all(k.stationary for k in self.kernels)

    @property
    def fitted(self) -> bool:
        """Whether every part is."""
        return all(k.fitted for k in self.kernels)


class Product(_Composite):
    """Product of kernels, usually each on its own group of columns.

    Examples
    --------
    >>> from kcdo import Gaussian, Periodic
    >>> kernel = Gaussian(1.0).on([0]) * Periodic(7.0, 1.0).on([1])
    >>> kernel([[0.0, 6.5]], [[0.0, 0.0]]).round(4)
    array([[0.8843]])
    """

    def block(self, A: Array, B: Array) -> Array:
        """Return one block of kernel values."""
        values = self.kernels[0].block(A, B)
        for kernel in self.kernels[1:]:
            values *= kernel.block(A, B)
        return values

    def diag(self, A: Array) -> Array:
        """Return k(a_i, a_i)."""
        return np.prod([k.diag(A) for k in self.kernels], axis=0)

    def gaussian_expectation(self, X: Array, inputs: GaussianInput) -> Array | None:
        """Return the product of the parts' forms, where their columns are independent."""
        if not independent_groups(self, inputs):
            return None
        values = np.ones((len(inputs), len(X)))
        for kernel in self.kernels:
            part = kernel.gaussian_expectation(X, inputs)
            if part is None:
                return None
            values *= part
        return values


class Sum(_Composite):
    """Sum of kernels.

    Examples
    --------
    >>> from kcdo import Gaussian
    >>> (Gaussian(1.0) + Gaussian(2.0))([[0.0]], [[0.0]])
    array([[2.]])
    """

    def block(self, A: Array, B: Array) -> Array:
        """Return one block of kernel values."""
        values = self.kernels[0].block(A, B)
        for kernel in self.kernels[1:]:
            values += kernel.block(A, B)
        return values

    def diag(self, A: Array) -> Array:
        """Return k(a_i, a_i)."""
        return np.sum([k.diag(A) for k in self.kernels], axis=0)

    def gaussian_expectation(self, X: Array, inputs: GaussianInput) -> Array | None:
        """Return the sum of the parts' forms, if every part has one."""
        parts = [k.gaussian_expectation(X, inputs) for k in self.kernels]
        closed = [p for p in parts if p is not None]
        return np.sum(closed, axis=0) if len(closed) == len(parts) else None


def leaves(kernel: Kernel, columns: Sequence[int]) -> Iterator[tuple[Kernel, list[int]]]:
    """Yield the elementary kernels that a kernel is made of, each with the columns it acts on.

    Examples
    --------
    >>> from kcdo import Gaussian, Laplace
    >>> [columns for _, columns in leaves(Gaussian().on([0, 2]) * Laplace().on([1]), range(3))]
    [[0, 2], [1]]
    """
    parts = kernel.inner_kernels(columns)
    if not parts:
        yield kernel, list(columns)
    for part, inside in parts:
        yield from leaves(part, inside)


def independent_groups(kernel: Product, inputs: GaussianInput) -> bool:
    """Whether the factors of ``kernel`` look at disjoint, independent groups of columns."""
    p = inputs.mean.shape[1]
    group_of = np.full(p, -1)
    for number, factor in enumerate(kernel.kernels):
        columns = factor.indices(p) if isinstance(factor, OnColumns) else list(range(p))
        if np.any(group_of[columns] >= 0):
            return False
        group_of[columns] = number
    if inputs.diagonal:
        return True
    across = group_of[:, None] != group_of[None, :]
    return not np.any(inputs.cov[:, across])
