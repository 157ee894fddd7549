"""The type of the numbers that everything here computes with."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]


def in_bits(numbers: Array, bits: int) -> Array:
    """Return numbers of so many significant bits; those behind are 0.

    >>> in_bits(np.array([1.0, 0.1, 1000.1]), 8).tolist()
    [1.0, 0.10009765625, 1000.0]
    """
    mantissa, exponent = np.frexp(numbers)
    return np.ldexp(np.round(np.ldexp(mantissa, bits)), exponent - bits)
