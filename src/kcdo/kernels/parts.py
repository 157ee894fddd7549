"""Walks through the kernels that a kernel is made of: to read them, and to replace some."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

from numpy.typing import NDArray

from kcdo.kernels.base import Kernel


@overload
def walk(kernel: Kernel, columns: Sequence[int]) -> Iterator[tuple[Kernel, list[int]]]: ...
@overload
def walk(
    kernel: Kernel, columns: Sequence[int], rows: NDArray, /
) -> Iterator[tuple[Kernel, list[int], NDArray]]: ...
def walk(kernel: Kernel, columns: Sequence[int], *rows: NDArray) -> Iterator[tuple[Any, ...]]:
    """Yield a kernel and all kernels inside it, each with the columns that it acts on.

    If rows are given, what each kernel sees of them comes third.
    """
    yield (kernel, list(columns), *rows)
    if not kernel.children:
        return
    inside, seen = kernel.inner_columns(columns), [kernel.inner_rows(each) for each in rows]
    for child in kernel.children:
        yield from walk(child, inside, *seen)


@overload
def leaves(kernel: Kernel, columns: Sequence[int]) -> Iterator[tuple[Kernel, list[int]]]: ...
@overload
def leaves(
    kernel: Kernel, columns: Sequence[int], rows: NDArray, /
) -> Iterator[tuple[Kernel, list[int], NDArray]]: ...
def leaves(kernel: Kernel, columns: Sequence[int], *rows: NDArray) -> Iterator[tuple[Any, ...]]:
    """Yield the elementary kernels that a kernel is made of, each with the columns it acts on.

    If rows are given, what each elementary kernel sees of them comes third.

    Examples
    --------
    >>> from kcdo import Gaussian, Laplace
    >>> [columns for _, columns in leaves(Gaussian().on([0, 2]) * Laplace().on([1]), range(3))]
    [[0, 2], [1]]
    """
    return (found for found in walk(kernel, columns, *rows) if not found[0].children)


def transformed(kernel: Kernel, change: Callable[..., Kernel | None], *rows: NDArray) -> Kernel:
    """Return the kernel with some of the kernels inside it replaced.

    Parameters
    ----------
    kernel : Kernel
        The kernel itself is asked first, then its children.
    change : function
        Takes a kernel, and what this kernel sees of each of the ``rows``. Returns what takes its
        place; None leaves an elementary kernel as it is, and of another looks at the children.
    *rows : (N, p)
        Rows that ``change`` needs, if any.

    Examples
    --------
    >>> from kcdo import Gaussian, Laplace
    >>> kernel = Gaussian(1.0).on([0]) * Laplace(2.0).on([1])
    >>> transformed(kernel, lambda part: None if part.children else Gaussian(5.0)).kernels[1]
    OnColumns(kernel=Gaussian(scale=5.0), columns=(1,))
    """
    new = change(kernel, *rows)
    if new is not None or not kernel.children:
        return kernel if new is None else new
    seen = [kernel.inner_rows(each) for each in rows]
    return kernel.rebuild([transformed(child, change, *seen) for child in kernel.children])
