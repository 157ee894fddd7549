"""The types of the numbers that everything here computes with, their bits and their order."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
Integers = NDArray[np.integer]  # most often numbers of rows, to index an array with


def in_bits(numbers: Array, bits: int) -> Array:
    """Return numbers of so many significant bits; those behind are 0.

    >>> in_bits(np.array([1.0, 0.1, 1000.1]), 8).tolist()
    [1.0, 0.10009765625, 1000.0]
    """
    mantissa, exponent = np.frexp(numbers)
    return np.ldexp(np.round(np.ldexp(mantissa, bits)), exponent - bits)


def in_order(keys: list[Array]) -> Integers:
    """Return the places of rows by the first key, then the second, and so on; NaN come last.

    >>> in_order([np.array([1.0, np.nan, 1.0, np.nan]), np.array([5.0, 4.0, 3.0, 2.0])]).tolist()
    [2, 0, 3, 1]
    """
    order = np.argsort(keys[0], kind="stable")
    first = keys[0][order]
    same = (first[1:] == first[:-1]) | np.isnan(first[:-1])
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    if len(tied):  # most rows differ in the first column: only the others are looked at further
        rows = order[tied]
        order[tied] = rows[np.lexsort([key[rows] for key in reversed(keys)])]
    return order
