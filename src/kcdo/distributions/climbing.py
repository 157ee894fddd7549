"""The highest place of densities of several outputs: climb from the best of many places."""

from collections.abc import Callable

import numpy as np
from scipy.stats import ortho_group

from kcdo.arrays import Array

_STARTS = 8  # the best places, from which to climb
_STEPS = 60
_FIRST_STEP = 0.5  # in standard deviations


def climb(density: Callable[[Array], Array], places: Array, sds: Array) -> Array:
    """Return the highest place that is found, (Q, d).

    From each of the best places steps go along axes that turn at random; those that lead nowhere
    become shorter.

    Parameters
    ----------
    density : function
        Densities, or their logarithms, (Q, C) at points of each distribution, (Q, C, d).
    places : (Q, C, d)
        Where to look first.
    sds : (Q, d)
        Standard deviations: how long steps are.
    """
    heights = density(places)
    best = np.argsort(-heights, axis=1)[:, :_STARTS]
    heights = np.take_along_axis(heights, best, axis=1)
    places = np.take_along_axis(places, best[:, :, None], axis=1)
    size = np.full(heights.shape, _FIRST_STEP)
    n_rows, n, d = places.shape
    turns = ortho_group.rvs(d, size=_STEPS, random_state=0)
    for axes in turns:
        ways = np.concatenate([axes, -axes]) * sds[:, None, None, :]  # (Q, 1, 2d, d)
        tried = places[:, :, None, :] + size[:, :, None, None] * ways
        found = density(tried.reshape(n_rows, -1, d)).reshape(n_rows, n, 2 * d)
        way = np.argmax(found, axis=2)[:, :, None]
        top = np.take_along_axis(found, way, axis=2)[:, :, 0]
        higher = top > heights
        there = np.take_along_axis(tried, way[:, :, :, None], axis=2)[:, :, 0]
        places = np.where(higher[:, :, None], there, places)
        heights = np.where(higher, top, heights)
        size = np.where(higher, size, 0.5 * size)
    return places[np.arange(n_rows), np.argmax(heights, axis=1)]
