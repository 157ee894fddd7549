"""Whether the parts of an object fit one another: what constructors ask of their arguments.

What users give is checked, in words of its own, where it comes in. These checks are for objects
that are made of others, by a fit or from a file: one that exists is consistent. They look at
shapes, signs and ranges, and cost little beside what made the parts.
"""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kcdo.errors import InvalidInputError


class _Kernel(Protocol):
    def block(self, A: NDArray, B: NDArray) -> NDArray:
        """Return kernel values."""


def need(condition: Any, what: str) -> None:
    """Raise, saying what does not fit, unless the condition holds.

    >>> need(2 > 3, "two and three")
    Traceback (most recent call last):
        ...
    kcdo.errors.InvalidInputError: parts do not fit: two and three.
    """
    if not condition:
        raise InvalidInputError(f"parts do not fit: {what}.")


def shape(array: NDArray, *sizes: int | None) -> None:
    """Need an array of these sizes; None is any."""
    fits = array.ndim == len(sizes) and all(
        size is None or size == n for size, n in zip(sizes, array.shape, strict=True)
    )
    if not fits:
        raise InvalidInputError(
            f"parts do not fit: an array of shape {array.shape} where {sizes} is needed."
        )


def kernel_fits(kernel: _Kernel, rows: NDArray) -> None:
    """Need a kernel that gives a finite value on such rows: scales and columns in number."""
    if rows.dtype == object:  # anything that a function compares
        return
    shape(rows, None, None)
    value = kernel.block(rows[:1], rows[:1])
    if value.shape != (1, 1) or not np.isfinite(value).all():
        raise InvalidInputError(f"parts do not fit: {kernel} and its inputs.")
