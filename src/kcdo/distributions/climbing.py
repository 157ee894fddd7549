"""The highest place of densities of several outputs: climb from the best of many places."""

from collections.abc import Callable

import numpy as np
from scipy.stats import ortho_group

from kcdo.arrays import Array

_STARTS = 8  # the best places, from which to climb
_LOOKED = 4  # the same, where a rough density tells them
_RANKED, _BEST = 16, 2  # places that the right density ranks, and from which it climbs
_STEPS = 60
_HALVED_AFTER = 6  # steps, the lower half of the places is given up
_FIRST_STEP, _LAST_STEP = 0.5, 1e-4  # in standard deviations
_ROUGH_STEP, _NEAR_STEP = 0.1, 0.01  # where a rough density no longer serves; the last ones then


Density = Callable[[Array], Array]


def climb_after_look(rough: Density, density: Density, places: Array, sds: Array) -> Array:
    """Return the highest place (Q, d) of a density that costs much, to 0.01 standard deviations.

    A rough density ranks the places and climbs from the best. The right one then chooses between
    where that led and the best of the places, and climbs on from the highest.
    """
    places, heights, _ = _highest(_RANKED, places, rough(places))
    near, _, _ = _highest(_LOOKED, places, heights)
    led = climb(rough, near, sds, (_FIRST_STEP, _ROUGH_STEP))
    places = np.concatenate([led[:, None], places], axis=1)
    best, _, _ = _highest(_BEST, places, density(places))
    return climb(density, best, sds, (4.0 * _ROUGH_STEP, _NEAR_STEP))


def climb(
    density: Density,
    places: Array,
    sds: Array,
    steps: tuple[float, float] = (_FIRST_STEP, _LAST_STEP),
) -> Array:
    """Return the highest place that is found, (Q, d).

    From each of the best places steps go along axes that turn at random; those that lead nowhere
    become shorter. Every few steps only the higher half of the places goes on.

    Parameters
    ----------
    density : function
        Densities, or their logarithms, (Q, C) at points of each distribution, (Q, C, d).
    places : (Q, C, d)
        Where to look first.
    sds : (Q, d)
        Standard deviations.
    steps : pair of float
        How long steps are in standard deviations: the first ones, and when to end.
    """
    first, last = steps
    n_rows, _, d = places.shape
    heights = density(places)
    places, heights, size = _highest(_STARTS, places, heights, np.full(heights.shape, first))
    turns = ortho_group.rvs(d, size=_STEPS, random_state=0)
    for step, axes in enumerate(turns):
        if step and step % _HALVED_AFTER == 0:
            places, heights, size = _highest(-(-size.shape[1] // 2), places, heights, size)
        if size.max() < last:
            break
        n = size.shape[1]
        ways = np.concatenate([axes, -axes]) * sds[:, None, None, :]  # (Q, 1, 2d, d)
        tried = places[:, :, None, :] + size[:, :, None, None] * ways
        found = density(tried.reshape(n_rows, -1, d)).reshape(n_rows, n, 2 * d)
        way = np.argmax(found, axis=2)[:, :, None]
        top = np.take_along_axis(found, way, axis=2)[:, :, 0]
        # a place that has ended stays, so that answers do not hang on what else is asked at once
        higher = (top > heights) & (size >= last)
        there = np.take_along_axis(tried, way[:, :, :, None], axis=2)[:, :, 0]
        places = np.where(higher[:, :, None], there, places)
        heights = np.where(higher, top, heights)
        size = np.where(higher, size, 0.5 * size)
    return places[np.arange(n_rows), np.argmax(heights, axis=1)]


def _highest(
    count: int, places: Array, heights: Array, size: Array | None = None
) -> tuple[Array, Array, Array]:
    """Return the highest of the places (Q, C, d), their heights, and how long steps there are."""
    best = np.argsort(-heights, axis=1)[:, :count]
    size = np.full(heights.shape, _FIRST_STEP) if size is None else size
    return (
        np.take_along_axis(places, best[:, :, None], axis=1),
        np.take_along_axis(heights, best, axis=1),
        np.take_along_axis(size, best, axis=1),
    )
