"""Numbers as text: little-endian bytes in base 64, which the script of the page reads."""

import base64

import numpy as np
from numpy.typing import ArrayLike, NDArray


def packed(values: NDArray) -> str:
    """Return the bytes of an array as text."""
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")


def packed_floats(values: ArrayLike) -> str:
    """Return numbers as text, each in four bytes."""
    return packed(np.asarray(values, dtype="<f4"))
