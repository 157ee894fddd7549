"""The density of one output of a chain, where others have known values."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kcdo.arrays import Array
from kcdo.distributions.affine import AffineBatch
from kcdo.distributions.batch import Batch
from kcdo.distributions.draw_errors import DRAW_SETS
from kcdo.distributions.grid import GridLayout
from kcdo.distributions.grouped import GroupedBatch
from kcdo.distributions.layouts import choose_nodes
from kcdo.distributions.nodes import NodeBatch
from kcdo.distributions.weighted_draws import (
    HELD_NUMBERS,
    WeightedDraws,
    of_sum_one,
    relative,
)
from kcdo.measures import Grid

if TYPE_CHECKING:
    from kcdo.distributions.chain_parts import PartBatch

_COARSE, _FINE = 64, 128  # nodes of a density on a line: first to find where it is, then for good
_FEW_EACH = 2  # draws of each set are enough to find where it is
_COMMON = 0.25  # of draws carry the weight where values that are given are common
_LINE_DRAWS = 64  # at which a line is known at all nodes
_WIDENINGS = 12  # tries to find where it is, each twice as far as the one before
_LINK_MEMBERS = 512  # draws at which distributions of a link are mixed, at most by default
_UNLIKELY = 1e-7  # density, relative to the highest, beyond which a line ends
_BEYOND = 0.5  # of the extent of draws, where densities on a line begin and end


def by_its_link(part: "PartBatch") -> Batch:
    """Return the distributions of an output that comes after all that are fixed.

    Its own link at weighted draws of what comes before it, exact where all of these are fixed.
    """
    j = part.chain.order.index(part.kept[0])
    made = part.enough_draws(part.n_draws, j)
    most = max(_LINK_MEMBERS, part.n_draws)
    chosen, weights = zip(*(made.members(q, most) for q in range(len(part))), strict=True)
    sizes = [len(rows) for rows in chosen]
    points = np.concatenate([made.points[q, rows] for q, rows in enumerate(chosen)])
    chain = replace(part.chain, inputs=np.repeat(part.chain.inputs, sizes, axis=0))
    links = chain.new_link_batch(j, points[:, None])
    starts = np.concatenate([[0], np.cumsum(sizes)])
    return GroupedBatch(links, starts, np.concatenate(weights), drawn=True)


def on_a_line(part: "PartBatch") -> Batch:
    """Return the distributions of the one output that is kept, by densities at many nodes.

    Of common values ∝ p(y | x) E p(given | y, others), over draws of the others at each node.
    Of unlikely ones, which these draws would miss, E p(y | given, others) over weighted draws
    of the others, up to the last output that is given.
    """
    last = part.n_links(part.fixed)
    if last == len(part.fixed) + 1:
        points, shares, common = *_held_alone(part), np.ones(len(part), dtype=bool)
    else:
        made = part.enough_draws(part.n_draws, last)
        points, shares = _thinned(part, made)
        common = made.effective >= _COMMON * made.counts
    low, high = _where_likely(part, points[:, :, :_FEW_EACH], shares)
    places = _places(low, high, _FINE)
    masses = np.empty((*shares.shape, _FINE))
    if np.any(common):
        some = part.take(common).with_draws(min(part.n_draws, _LINE_DRAWS), part.chain.seed)
        logs = some.log_joint(places[common, :, None]).transpose(0, 2, 1)
        masses[common] = relative(logs)
        shares[common] = of_sum_one(masses[common].sum(axis=2))
    if not np.all(common):
        lines = _lines_at(part.take(~common), points[~common], places[~common], last)
        masses[~common] = lines.mean(axis=2)
    return _lines_of_sets(masses, shares, low, high)


def _held_alone(part: "PartBatch") -> tuple[Array, Array]:
    """Return what is given as the one point of one set, (Q, 1, 1, d), and its share."""
    assert part.values is not None
    points = np.zeros((len(part), 1, 1, part.chain.dim))
    points[..., list(part.fixed)] = part.values[:, None, None]
    return points, np.ones((len(part), 1))


def _thinned(part: "PartBatch", made: WeightedDraws) -> tuple[Array, Array]:
    """Return a few draws of each set, (Q, S, n, d), of equal weight, and the sets' shares."""
    size = min(part.n_draws, _LINE_DRAWS) // DRAW_SETS
    sets = made.weights.reshape(len(part), DRAW_SETS, -1)
    flat = sets.reshape(-1, sets.shape[2])
    even = np.broadcast_to((np.arange(size) + 0.5) / size, (len(flat), size))
    chosen = choose_nodes(of_sum_one(flat), even).reshape(*sets.shape[:2], size, 1)
    points = made.points.reshape(*sets.shape, part.chain.dim)
    return np.take_along_axis(points, chosen, axis=2), sets.sum(axis=2)


def _where_likely(part: "PartBatch", points: Array, shares: Array) -> tuple[Array, Array]:
    """Return ends (Q,) between which nearly all the probability of the kept output lies.

    Looked for about the draws of the chain, and farther out where a peak is at an end.
    """
    draws = part.chain.drawn[:, :, part.kept[0]]
    low, high = draws.min(axis=1), draws.max(axis=1)
    margin = _BEYOND * np.maximum(high - low, 1e-12 * (1.0 + np.abs(low)))
    low, high = low - margin, high + margin
    rows = np.arange(len(part))
    density = np.empty((len(part), _COARSE))
    for _ in range(_WIDENINGS):
        some = part.take(rows)
        places = _places(low[rows], high[rows], _COARSE)
        found = _lines_at(some, points[rows], places, part.n_links(part.fixed))
        density[rows] = np.einsum("qs,qsn->qn", shares[rows], found.mean(axis=2))
        top = np.argmax(density[rows], axis=1)
        extent = high[rows] - low[rows]
        low[rows] -= np.where(top == 0, extent, 0.0)
        high[rows] += np.where(top == _COARSE - 1, extent, 0.0)
        rows = rows[(top == 0) | (top == _COARSE - 1)]
        if not len(rows):
            break
    likely = density >= _UNLIKELY * density.max(axis=1, keepdims=True)
    first = np.argmax(likely, axis=1)
    last = _COARSE - 1 - np.argmax(likely[:, ::-1], axis=1)
    cell = (high - low) / _COARSE
    return low + (first - 1) * cell, low + (last + 2) * cell


def _lines_at(part: "PartBatch", points: Array, places: Array, last: int) -> Array:
    """Return shares (Q, S, m, n) of places (Q, n) of the kept output, at each of S m points."""
    step = max(1, HELD_NUMBERS // (points[0].size * places.shape[1]))
    parts = [slice(a, a + step) for a in range(0, len(part), step)]
    return np.concatenate(
        [_lines_of_some(part.take(rows), points[rows], places[rows], last) for rows in parts]
    )


def _lines_of_some(part: "PartBatch", points: Array, places: Array, last: int) -> Array:
    n_rows, n = places.shape
    flat = points.reshape(n_rows, -1, part.chain.dim)
    every = np.repeat(flat, n, axis=1)
    every[:, :, part.kept[0]] = np.tile(places, (1, flat.shape[1]))
    j = part.chain.order.index(part.kept[0])
    logs = sum(part.chain.log_link(i, every) for i in range(j, last))
    masses = relative(np.asarray(logs).reshape(-1, n))
    return of_sum_one(masses).reshape(*points.shape[:3], n)


def _places(low: Array, high: Array, n: int) -> Array:
    """Return the middles of n cells between ends of their own, (Q, n)."""
    return low[:, None] + (high - low)[:, None] * (np.arange(n) + 0.5) / n


def _lines_of_sets(masses: Array, shares: Array, low: Array, high: Array) -> Batch:
    """Return densities between two ends, at nodes up to a factor by each set of draws, (Q, S, n).

    One line for each set, weighted by its share, so that sets tell the standard error.
    """
    n_rows, n_sets, n = masses.shape
    layout = GridLayout(Grid(np.zeros(1), np.ones(1), (n,)))
    unit = NodeBatch(layout, of_sum_one(masses.reshape(-1, n)))
    shift, scale = (np.repeat(each, n_sets)[:, None] for each in (low, high - low))
    lines = AffineBatch(unit, shift, scale)
    if n_sets == 1:
        return lines
    starts = np.arange(0, n_rows * n_sets + 1, n_sets)
    return GroupedBatch(lines, starts, shares.ravel(), drawn=True)
