"""Roots of monotone functions, many at once."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array, Integers

_MOST_STEPS = 200
_RELATIVE = 4e-15


def monotone_roots(
    function: Callable[[Integers, Array], Array],
    low: Array,
    high: Array,
    accuracy: Array,
) -> Array:
    """Return x (Q, k) between ``low`` and ``high`` where monotone functions are 0.

    Inverse quadratic interpolation where that is safe, else bisection (Chandrupatla 1997). A root
    is found when the function is within ``accuracy`` of 0, or its bracket has no width: where the
    function jumps over 0, the lower end. Ends that are equal, finite or not, are the root.

    Parameters
    ----------
    function : callable
        ``function(rows, x)`` gives the values of some rows at x (len(rows), k).
    low, high, accuracy : (Q, k) arrays
    """
    found, known = high.copy(), ~(low < high)
    rows = np.flatnonzero(~known.all(axis=1))
    if not len(rows):
        return found
    accuracy = np.where(known, np.inf, accuracy)[rows]
    new, old = np.where(known, 0.0, low)[rows], np.where(known, 0.0, high)[rows]
    f_new, f_old = function(rows, new), function(rows, old)
    third, f_third = old, f_old
    for _ in range(_MOST_STEPS):
        best, close = _best(new, old, f_new, f_old, accuracy)
        found[rows] = best
        narrow = np.abs(new - old) <= _RELATIVE * np.abs(best)
        done = close | narrow
        open_rows = ~np.all(done, axis=1)
        if not open_rows.any():
            break
        if 2 * np.count_nonzero(open_rows) < len(rows):  # most are done: go on with the others
            rows, accuracy, done = rows[open_rows], accuracy[open_rows], done[open_rows]
            new, old, third = new[open_rows], old[open_rows], third[open_rows]
            f_new, f_old, f_third = f_new[open_rows], f_old[open_rows], f_third[open_rows]
        share = _share(new, old, third, f_new, f_old, f_third)
        x = new + np.where(done, 0.0, share) * (old - new)
        f = function(rows, x)
        same = np.sign(f) == np.sign(f_new)
        third, f_third = np.where(same, new, old), np.where(same, f_new, f_old)
        old, f_old = np.where(same, old, new), np.where(same, f_old, f_new)
        new, f_new = x, f
    return np.where(known, high, found)


def _best(
    new: Array, old: Array, f: Array, f_old: Array, accuracy: Array
) -> tuple[Array, NDArray[np.bool_]]:
    """Return the better end of each bracket, and whether it is good enough."""
    nearer = np.abs(f) <= np.abs(f_old)
    close = np.where(nearer, np.abs(f), np.abs(f_old)) <= accuracy
    return np.where(close, np.where(nearer, new, old), np.minimum(new, old)), close


def _share(new: Array, old: Array, third: Array, f: Array, f_old: Array, f_third: Array) -> Array:
    """Return how far to go from ``new`` towards ``old``, as a share of the bracket."""
    with np.errstate(divide="ignore", invalid="ignore"):
        xi, phi = (new - old) / (third - old), (f - f_old) / (f_third - f_old)
        ratio = (third - new) / (old - new)
        share = f / (f_old - f) * f_third / (f_old - f_third)
        share += ratio * f / (f_third - f) * f_old / (f_third - f_old)
        least = _RELATIVE * np.abs(new) / np.abs(old - new)
        safe = (phi**2 < xi) & ((1.0 - phi) ** 2 < 1.0 - xi) & np.isfinite(share) & (least < 0.5)
    least = np.where(safe, least, 0.0)
    return np.where(safe, np.clip(share, least, 1.0 - least), 0.5)
