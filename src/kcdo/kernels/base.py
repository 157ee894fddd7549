"""What a kernel is: an immutable value that fills blocks of a Gram matrix, and their algebra.

A kernel may be made of others, its ``children``. What is done to every kernel inside another is
done by the walkers of :mod:`kcdo.kernels.parts`, which ask each kernel for its children, for what
they see of the rows, and to be rebuilt around others. So a new kernel is one class: it overrides
those of the methods of :class:`Kernel` in which it differs, and no other module knows of it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError, InvalidTypeError
from kcdo.inputs import Expectation, GaussianInput
from kcdo.kernels.gram import evaluate

#: takes dL/dK of a loss L of a Gram matrix K, returns dL/d(log s) of every free scale s in order
Pullback = Callable[[Array], list[float]]
#: a Gram matrix with its pullback
Differentiable = tuple[Array, Pullback]
Parts = Sequence[Differentiable]
#: takes a child, returns E k(x_i, x') on what the child sees of the rows and of the inputs
PartExpectation = Callable[["Kernel"], Expectation]


class Kernel(ABC):
    """A positive definite function k(x, x') on rows of arrays.

    Kernels compose: ``k1 + k2``, ``k1 * k2`` and ``k.on(columns)``, e.g.
    ``Gaussian(2.0).on([0, 1]) * Periodic(24.0, 3.0).on([2])``.
    """

    #: whether blocks may be filled by several threads at once
    thread_safe = True
    #: order of magnitude of the largest values
    peak = 1.0
    #: whether k(x, x') depends on x - x' alone
    stationary = False
    #: whether rows must be vectors of numbers
    vectors_only = True
    #: whether the columns are categories
    categorical = False
    #: whether the family (Gaussian, Matérn, ...) is left to ``selection="auto"``
    family_open = False
    #: whether k(x, x') is the product of the values of the children
    multiplies = False
    #: whether an input is also like itself alone
    has_nugget = False
    #: scales beyond which k is below 1e-15 of its peak; None where that is not known
    reach: ClassVar[float | None] = None

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

    @property
    def fitted(self) -> bool:
        """Whether every scale is set (``None`` asks for the median heuristic)."""
        return True

    # --- the kernels that this one is made of

    @property
    def children(self) -> "tuple[Kernel, ...]":
        """The kernels that this one is made of; none if it is elementary."""
        return ()

    def rebuild(self, children: "Sequence[Kernel]") -> "Kernel":
        """Return the same kernel made of other children, as many as there are."""
        return self

    def inner_columns(self, columns: Sequence[int]) -> list[int]:
        """Return the columns that the children see, of those given."""
        return list(columns)

    def inner_rows(self, X: NDArray) -> NDArray:
        """Return what the children see of rows."""
        return X

    def inner_inputs(self, inputs: GaussianInput) -> GaussianInput | None:
        """Return what the children see of uncertain inputs; None if that is not Gaussian."""
        return inputs

    def gram_of_parts(self, parts: Parts, A: NDArray, B: NDArray) -> Differentiable:
        """Return k(A, B) and its pullback, from Gram matrices and pullbacks of the children."""
        raise NotImplementedError(
            f"{type(self).__name__} does not say how it changes with its children: define "
            "gram_of_parts, or give every scale."
        )

    # --- uncertain inputs

    def gaussian_expectation(self, X: Array, inputs: GaussianInput) -> Array | None:
        """E k(x_i, x') for x' ~ N(mean_q, cov_q), (Q, N); None where no closed form is known."""
        return None

    def expectation_of_parts(
        self, part: PartExpectation, inputs: GaussianInput
    ) -> Expectation | None:
        """Return E k(x_i, x') from ``part(child)`` of each child; None if these do not suffice."""
        return None

    # --- columns and scales

    def with_positions(self, names: Sequence[str] | None) -> "Kernel":
        """Return the kernel with column names turned into positions."""
        return self.rebuild([child.with_positions(names) for child in self.children])

    def with_median_scale(self, X: NDArray, weights: Array | None, seed: int) -> "Kernel":
        """Return the elementary kernel with its missing scale set by the median heuristic."""
        raise InvalidInputError(f"do not know how to choose scales for {self!r}; give them.")

    def column_periods(self, p: int) -> Array | None:
        """Return the periods of ``p`` columns, None if they have none."""
        return None

    def on(self, columns: int | str | Sequence[int | str]) -> "OnColumns":
        """Return this kernel applied to some columns only, by position or name."""
        return OnColumns(self, columns)

    def __add__(self, other: "Kernel") -> "Sum":
        return Sum((self, other))

    def __mul__(self, other: "Kernel") -> "Product":
        return Product((self, other))


@dataclass(frozen=True)
class Wrapper(Kernel):
    """A kernel made of one other: as stationary, as safe for threads and as fitted as that one.

    A subclass is a dataclass that defines ``block``, ``diag`` unless k(x, x) = 1, and
    ``gram_of_parts`` if scales of the inner kernel are to be learnt; ``stationary``, if it is not
    as stationary as the inner kernel.
    """

    kernel: Kernel

    @property
    def children(self) -> tuple[Kernel, ...]:
        """The inner kernel."""
        return (self.kernel,)

    def rebuild(self, children: Sequence[Kernel]) -> Kernel:
        """Return the same wrapper around another kernel."""
        (kernel,) = children
        return replace(self, kernel=kernel)

    @property
    def thread_safe(self) -> bool:  # type: ignore[override]
        """Whether several threads may fill blocks of the inner kernel."""
        return self.kernel.thread_safe

    @property
    def stationary(self) -> bool:  # type: ignore[override]
        """Whether the inner kernel depends on x - x' alone."""
        return self.kernel.stationary

    @property
    def fitted(self) -> bool:
        """Whether every scale of the inner kernel is set."""
        return self.kernel.fitted


@dataclass(frozen=True)
class OnColumns(Wrapper):
    """A kernel that looks at some columns only, given by position or by name.

    Names are turned into positions when an estimator is fitted to a data frame.
    """

    columns: tuple[int | str, ...]
    multiplies = True

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

    def with_positions(self, names: Sequence[str] | None) -> Kernel:
        """Return the kernel on the positions of its columns."""
        if names is None:
            return self
        for column in self.columns:
            if isinstance(column, str) and column not in names:
                raise InvalidInputError(
                    f"the kernel names column {column!r}, but the columns are {list(names)}."
                )
        places = [list(names).index(c) if isinstance(c, str) else c for c in self.columns]
        return OnColumns(self.kernel, places)

    def inner_columns(self, columns: Sequence[int]) -> list[int]:
        """Return the chosen ones of the columns."""
        return [columns[i] for i in self.indices(len(columns))]

    def inner_rows(self, X: NDArray) -> NDArray:
        """Return the chosen columns of rows."""
        return X[:, self.indices(X.shape[1])]

    def inner_inputs(self, inputs: GaussianInput) -> GaussianInput:
        """Return the marginal distribution of the chosen columns."""
        return inputs.columns(self.indices(inputs.mean.shape[1]))

    def block(self, A: Array, B: Array) -> Array:
        """Return one block of kernel values."""
        return self.kernel.block(self.inner_rows(A), self.inner_rows(B))

    def diag(self, A: Array) -> Array:
        """Return k(a_i, a_i)."""
        return self.kernel.diag(self.inner_rows(A))

    def gram_of_parts(self, parts: Parts, A: NDArray, B: NDArray) -> Differentiable:
        """Return the Gram matrix and the pullback of the inner kernel."""
        return parts[0]

    def expectation_of_parts(self, part: PartExpectation, inputs: GaussianInput) -> Expectation:
        """Return E k of the inner kernel: an integral over the chosen columns alone."""
        return part(self.kernel)


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

    #: whether one inside another of the same class is as good as its parts
    flattens: ClassVar[bool] = True

    def __post_init__(self) -> None:
        parts: list[Kernel] = []
        for kernel in self.kernels:  # nested sums and products are flattened
            checked_part(kernel, type(self).__name__)
            if self.flattens and isinstance(kernel, _Composite) and type(kernel) is type(self):
                parts.extend(kernel.kernels)
            else:
                parts.append(kernel)
        if not parts:
            raise InvalidInputError(f"{type(self).__name__} needs at least one kernel.")
        object.__setattr__(self, "kernels", tuple(parts))

    @property
    def children(self) -> tuple[Kernel, ...]:
        """The terms or factors."""
        return self.kernels

    def rebuild(self, children: Sequence[Kernel]) -> Kernel:
        """Return the sum or product of other kernels."""
        return type(self)(tuple(children))

    @property
    def thread_safe(self) -> bool:  # type: ignore[override]
        """Whether several threads may fill blocks of every part."""
        return all(k.thread_safe for k in self.kernels)

    @property
    def stationary(self) -> bool:  # type: ignore[override]
        """Whether every part depends on x - x' alone."""
        return all(k.stationary for k in self.kernels)

    @property
    def fitted(self) -> bool:
        """Whether every scale of every part is set."""
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

    multiplies = True

    def block(self, A: Array, B: Array) -> Array:
        """Return one block of kernel values."""
        values = self.kernels[0].block(A, B)
        for kernel in self.kernels[1:]:
            values *= kernel.block(A, B)
        return values

    def diag(self, A: Array) -> Array:
        """Return k(a_i, a_i)."""
        return np.prod([k.diag(A) for k in self.kernels], axis=0)

    def gram_of_parts(self, parts: Parts, A: NDArray, B: NDArray) -> Differentiable:
        """Return the product of the factors; the slope by one is the product of the others."""

        def pullback(W: Array) -> list[float]:
            found: list[float] = []
            for i, (_, pull) in enumerate(parts):
                others = [value for j, (value, _) in enumerate(parts) if j != i]
                found += pull(W * np.prod(others, axis=0) if others else W)
            return found

        return np.prod([value for value, _ in parts], axis=0), pullback

    def expectation_of_parts(
        self, part: PartExpectation, inputs: GaussianInput
    ) -> Expectation | None:
        """Return the product of E k of the factors, where their columns are independent."""
        everything = range(inputs.mean.shape[1])
        if not inputs.independent([factor.inner_columns(everything) for factor in self.kernels]):
            return None
        return reduce(Expectation.times, [part(kernel) for kernel in self.kernels])


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

    def gram_of_parts(self, parts: Parts, A: NDArray, B: NDArray) -> Differentiable:
        """Return the sum of the terms."""
        values = np.sum([value for value, _ in parts], axis=0)
        return values, lambda W: [slope for _, pull in parts for slope in pull(W)]

    def expectation_of_parts(self, part: PartExpectation, inputs: GaussianInput) -> Expectation:
        """Return the sum of E k of the terms, and the sum of their errors."""
        return reduce(Expectation.plus, [part(kernel) for kernel in self.kernels])
