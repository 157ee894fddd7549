"""Standard errors of answers by draws: independent sets of them, and what few weights leave."""

import numpy as np

from kcdo.arrays import Array, Integers

DRAW_SETS = 8  # independent sets of draws, whose means tell a standard error
_SIGNS = np.tile([1.0, -1.0], DRAW_SETS // 2)  # deviations of sets of which nothing is known
FEW_EFFECTIVE = 10.0  # weighted draws that carry the weight: fewer make rough answers


def set_deviations(values: Array, weights: Array, starts: Integers) -> Array:
    """Return means of values (S, k) over each set of draws, less those over all: (Q, sets, k).

    Draws ``starts[q]`` to ``starts[q + 1]`` of query q are :data:`DRAW_SETS` independent sets of
    equal size, one after the other, with weights (S,) of sum 1. To first order, for weights that
    are likelihoods: the sets then have unequal shares of the whole. Where a few draws have nearly
    all the weight, sets agree by chance, and deviations are enlarged: see :func:`_least_variance`.
    """
    first, sizes = starts[:-1], np.diff(starts)
    mean = np.add.reduceat(weights[:, None] * values, first, axis=0)
    gaps = values - np.repeat(mean, sizes, axis=0)
    sets = first[:, None] + (sizes // DRAW_SETS)[:, None] * np.arange(DRAW_SETS)
    sums = DRAW_SETS * np.add.reduceat(weights[:, None] * gaps, sets.ravel().astype(int), axis=0)
    found = sums.reshape(len(first), DRAW_SETS, -1)
    return _enlarged(found, _least_variance(gaps, weights, first))


def _least_variance(gaps: Array, weights: Array, first: Integers) -> Array:
    """Return the least variance of weighted means, (Q, k): 0 unless few draws have the weight.

    (v + v₀ / m) / m, where m = 1 / Σ w² draws carry the weight, v = Σ w g² and v₀ is the mean of
    g² without weights, for gaps g (S, k) from the mean: of one draw with all the weight, v₀.
    """
    shares = np.add.reduceat(weights**2, first)[:, None]
    sizes = np.diff([*first, len(weights)])[:, None]
    squares = gaps**2
    spread = np.add.reduceat(weights[:, None] * squares, first, axis=0)
    spread += shares * np.add.reduceat(squares, first, axis=0) / sizes
    return np.where(shares * FEW_EFFECTIVE > 1.0, shares * spread, 0.0)


def _enlarged(deviations: Array, least: Array) -> Array:
    """Return deviations (Q, sets, k) that state at least these variances (Q, k)."""
    stated = np.sum(deviations**2, axis=1) / (DRAW_SETS * (DRAW_SETS - 1))
    plain = np.sqrt((DRAW_SETS - 1) * least)[:, None] * _SIGNS[:, None]
    factor = np.sqrt(np.maximum(least / np.where(stated > 0, stated, 1.0), 1.0))
    return np.where((stated < 1e-8 * least)[:, None], plain, deviations * factor[:, None])
