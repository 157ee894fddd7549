"""The map that bounds declared by the user ask for."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError
from kcdo.transforms.base import Columns, Identity, Transform
from kcdo.transforms.bounded import FELT, NUDGE, SHARE_NUDGE, Above, Below, Between

_HAIR_SHARE = 0.25  # of the distance of the nearest output from a bound: where a hair begins
_WIDEST_HAIR = 0.25  # in units of how near a bound is felt

Bounds = tuple[float | None, float | None]
Support = Bounds | Sequence[Bounds]


def transform_for(
    support: Support, Y: Array, weights: Array | None = None, ends: Array | None = None
) -> Columns:
    """Return the map that declared bounds ask for; outputs tell how near a bound is felt.

    The hair beside a bound ends before the nearest output, so that what a fit knows nothing about
    has no density to speak of; ``ends`` (2, d) are the smallest and largest outputs, where Y is but
    a sample. A bound that outputs lie on has a margin, and a probability of its own.

    Examples
    --------
    >>> transform_for((0.0, None), np.array([[0.0], [1.0], [3.0]])).parts[0].lower
    0.0
    """
    pairs = _bounds(support, Y.shape[1])
    weights = np.ones(len(Y)) if weights is None else weights
    sds = (_sd_in_any_order(y, weights) or 1.0 for y in Y.T)
    ends = np.stack([Y.min(axis=0), Y.max(axis=0)]) if ends is None else ends
    each = zip(pairs, sds, ends.T, strict=True)
    return Columns(tuple(_part(pair, FELT * sd, *nearest) for pair, sd, nearest in each))


def _sd_in_any_order(y: Array, weights: Array) -> float:
    """Return the standard deviation, to the last bit the same for permuted rows."""
    order = np.lexsort((weights, y))
    y, share = y[order], weights[order] / weights[order].sum()
    return float(np.sqrt(share @ (y - share @ y) ** 2))


def _part(bounds: Bounds, scale: float, least: float, greatest: float) -> Transform:
    """Return the map of one output, by the smallest and the largest there is."""
    lower, upper = bounds
    if lower is not None and upper is not None:
        width = float(upper) - float(lower)
        below = _hair_start((least - lower) / width, SHARE_NUDGE, FELT * _WIDEST_HAIR)
        above = _hair_start((upper - greatest) / width, SHARE_NUDGE, FELT * _WIDEST_HAIR)
        margins = (SHARE_NUDGE if on else 0.0 for on in (least == lower, greatest == upper))
        return Between(float(lower), float(upper), below, above, *margins)
    if lower is not None:
        start = _hair_start((least - lower) / scale, NUDGE, _WIDEST_HAIR)
        return Above(float(lower), scale, start, NUDGE if least == lower else 0.0)
    if upper is not None:
        start = _hair_start((upper - greatest) / scale, NUDGE, _WIDEST_HAIR)
        return Below(float(upper), scale, start, NUDGE if greatest == upper else 0.0)
    return Identity()


def _hair_start(nearest: float, least: float, most: float) -> float:
    """Return where a hair begins, by the distance of the nearest output from the bound."""
    return float(np.clip(_HAIR_SHARE * nearest, least, most))


def strictly_inside(transform: Columns, Y: Array) -> Array:
    """Return outputs with those on a bound without margin moved inside; raise if any lies beyond.

    Examples
    --------
    >>> strictly_inside(Columns((Above(0.0, scale=0.1),)), np.array([[0.0], [2.0]]))
    array([[1.e-04],
           [2.e+00]])
    """
    for i, part in enumerate(transform.parts):
        low, high = getattr(part, "lower", -np.inf), getattr(part, "upper", np.inf)
        beyond = int(np.sum((Y[:, i] < low) | (Y[:, i] > high)))
        if beyond:
            raise InvalidInputError(
                f"{beyond} values of output {i} lie outside its support [{low:g}, {high:g}]."
            )
    return transform.off_bounds(Y)


def _bounds(support: Support, d: int) -> list[Bounds]:
    """Return one pair of bounds per output; infinite bounds count as none."""
    given = support.tolist() if isinstance(support, np.ndarray) else support
    nested = isinstance(given, Sequence) and any(isinstance(part, Sequence) for part in given)
    pairs: Any = given if nested else [given] * d
    if len(pairs) != d or not all(isinstance(p, Sequence) and len(p) == 2 for p in pairs):
        raise InvalidInputError(
            f"support must be (lower, upper), or one such pair for each of {d} outputs; got "
            f"{support!r}."
        )
    return [(None if a == -np.inf else a, None if b == np.inf else b) for a, b in pairs]
