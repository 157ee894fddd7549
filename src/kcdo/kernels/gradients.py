"""Derivatives of Gram matrices with respect to log scales, as pullbacks.

For a loss L(K), ``pullback(dL/dK)`` returns dL/d(log s) of every free scale: a kernel's scale is
free where its template leaves it open (``None``).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.kernels.base import Differentiable, Kernel
from kcdo.kernels.parts import leaves, transformed
from kcdo.kernels.scaled import ScaledKernel


@dataclass(frozen=True)
class FreeScales:
    """The open scales of a kernel as one vector: one per column of each open part.

    Examples
    --------
    >>> from kcdo import Gaussian, Periodic
    >>> free = FreeScales(Gaussian().on([0, 1]) * Periodic(24.0).on([2]), p=3)
    >>> free.columns
    (0, 1, 2)
    >>> free.kernel(np.log([1.0, 2.0, 3.0]))([[0.0, 0, 0]], [[0.0, 0, 24.0]]).round(4)
    array([[1.]])
    """

    template: Kernel
    p: int

    @property
    def columns(self) -> tuple[int, ...]:
        """Column of the data that each free scale belongs to."""
        open_leaves = self._open_leaves(self.template)
        return tuple(column for _, columns in open_leaves for column in columns)

    def __len__(self) -> int:
        return len(self.columns)

    def kernel(self, log_scales: Array) -> Kernel:
        """Return the template with its open scales set."""
        scales = iter(np.exp(log_scales).tolist())
        widths = iter([len(columns) for _, columns in self._open_leaves(self.template)])

        def filled(part: Kernel) -> Kernel | None:
            if not _is_open(part):
                return None
            return replace(part, scale=tuple(next(scales) for _ in range(next(widths))))

        return transformed(self.template, filled)

    def log_scales_of(self, kernel: Kernel) -> Array:
        """Return the log scales that a filled kernel has where the template is open."""
        found = [leaf.scales(len(columns)) for leaf, columns in self._open_leaves(kernel)]
        return np.log(np.concatenate(found)) if found else np.zeros(0)

    def _open_leaves(self, kernel: Kernel) -> Iterator[tuple[ScaledKernel, list[int]]]:
        """Yield the parts of a kernel made from the template where that one is open."""
        everything = range(self.p)
        both = zip(leaves(self.template, everything), leaves(kernel, everything), strict=True)
        for (part, _), (leaf, columns) in both:
            if _is_open(part):
                assert isinstance(leaf, ScaledKernel)
                yield leaf, columns

    def gram(
        self, log_scales: Array, A: NDArray, B: NDArray | None = None
    ) -> tuple[Array, Callable[[Array], Array]]:
        """Return k(A, B), by default k(A, A), and the pullback dL/dK -> dL/d(log scales).

        The matrix is the caller's, to be overwritten: the pullback keeps one of its own.
        """
        other = A if B is None else B
        values, pullback = _gram(self.template, self.kernel(log_scales), A, other)
        return values.copy(), lambda W: np.array(pullback(W))


def _is_open(part: Kernel) -> TypeGuard[ScaledKernel]:
    return isinstance(part, ScaledKernel) and not part.fitted


def _gram(template: Kernel, kernel: Kernel, A: NDArray, B: NDArray) -> Differentiable:
    if _is_open(template):
        assert isinstance(kernel, ScaledKernel)
        return kernel.block_with_pullback(A, B)
    if template.fitted or not template.children:
        return kernel(A, B), lambda W: []
    inside = kernel.inner_rows(A), kernel.inner_rows(B)
    both = zip(template.children, kernel.children, strict=True)
    return kernel.gram_of_parts([_gram(open_, set_, *inside) for open_, set_ in both], A, B)
