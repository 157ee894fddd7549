"""Kernels from elsewhere: scikit-learn's, or any function of two arrays."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError, InvalidTypeError
from kcdo.kernels.base import Kernel


@dataclass(frozen=True)
class Adapter(Kernel):
    """Any scikit-learn kernel or callable ``k(A, B) -> (len(A), len(B))`` as a kernel.

    Rows may be of any kind (strings, graphs, ...) that the callable understands.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RationalQuadratic
    >>> Adapter(RationalQuadratic())([[0.0]], [[1.0]]).round(4)
    array([[0.6667]])
    """

    function: Callable[[Any, Any], Any]
    thread_safe = False  # foreign code may keep state

    def __hash__(self) -> int:
        try:
            return hash(self.function)
        except TypeError:  # scikit-learn kernels compare by value but have no hash
            return hash(type(self.function))

    @property
    def vectors_only(self) -> bool:  # type: ignore[override]
        """Whether the inputs must be numeric vectors (scikit-learn kernels say so)."""
        return bool(getattr(self.function, "requires_vector_input", False))

    def block(self, A: NDArray, B: NDArray) -> Array:
        """Return one block of kernel values."""
        values = np.array(self.function(A, B), dtype=float)
        if values.shape != (len(A), len(B)):
            raise InvalidInputError(
                f"the kernel function returned shape {values.shape} for {len(A)} and {len(B)} "
                f"rows; it must return {(len(A), len(B))}."
            )
        return values

    def diag(self, A: NDArray) -> Array:
        """Return k(a_i, a_i)."""
        if hasattr(self.function, "diag"):
            return np.asarray(self.function.diag(A), dtype=float)
        return np.array([self.block(A[i : i + 1], A[i : i + 1])[0, 0] for i in range(len(A))])


def as_kernel(kernel: Any) -> Kernel:
    """Return a kernel as it is, and anything callable as an :class:`Adapter`."""
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, type) or not callable(kernel):
        raise InvalidTypeError(
            f"a kernel must be a kcdo kernel such as kcdo.Gaussian(), a scikit-learn kernel or a "
            f"function of two arrays; got {kernel!r}."
        )
    return Adapter(kernel)
