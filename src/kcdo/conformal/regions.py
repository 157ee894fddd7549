"""Conformal regions: which outputs enough of the held-out rows do not speak against."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kcdo.arrays import Array
from kcdo.conformal.scores import DensityRanks, HeldOut
from kcdo.distributions import as_points
from kcdo.metrics.predictive import middles

Booleans = NDArray[np.bool_]

_QUANTILES = 64
_EVEN = 256
_BEYOND = 4.0 ** np.arange(-2, 16)  # in widths of what holds nearly all probability
_EDGE = 1e-3
_STEPS, _ZOOMS = 32, 3  # an edge is found to 1/32768 of the distance of knots
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class ConformalRegion:
    """A set of outputs that holds the output of a query at a promised rate.

    Attributes
    ----------
    level : float
        The level that was asked for.
    intervals : (n, 2) array or None
        Its intervals for one output, infinite where no row speaks against any output; None for
        several outputs.
    volume : float or None
        Their length.
    """

    level: float
    intervals: Array | None
    volume: float | None
    _dim: int
    _inside: Callable[[Array], Booleans]

    def contains(self, y: ArrayLike) -> Booleans:
        """Whether each point, (G,) or (G, d), lies in the region."""
        return self._inside(as_points(y, self._dim))


class Membership:
    """Which points belong to the regions of some queries x.

    Row i speaks against y where y is less typical of x, by the model that has not seen row i, than
    row i's own output was of its input: ``share(x, y) < share_i``. A point that fewer than ``rank``
    rows speak against belongs to the region.
    """

    def __init__(self, held_out: Sequence[HeldOut], rank: int, X: Any) -> None:
        self._rank = rank
        self._parts = []
        for fold in held_out:
            dist = fold.model.conditional(X)
            self._parts.append((dist, DensityRanks.of(dist, fold.dim).height_at(fold.shares)))

    def everywhere(self) -> Booleans:
        """Whether every point belongs, even where all densities are 0, (Q,)."""
        against = sum(np.count_nonzero(least > 0, axis=1) for _, least in self._parts)
        return np.asarray(against < self._rank)

    def __call__(self, points: Array) -> Booleans:
        """Whether points (Q, G, d), of each query its own, belong to its region, (Q, G)."""
        against = np.zeros(points.shape[:2], dtype=np.int64)
        for dist, least in self._parts:
            heights = dist.pdf_each(points) * (1.0 + _ROUNDING)
            for row, (needed, height) in enumerate(zip(least, heights, strict=True)):
                against[row] += len(needed) - np.searchsorted(needed, height, side="right")
        return against < self._rank


def regions_on_a_line(
    model: Any, held_out: Sequence[HeldOut], rank: int, X: Any, level: float
) -> list[ConformalRegion]:
    """Return the regions of one output: from knots, edges refined, and rounded outwards."""
    inside = Membership(held_out, rank, X)
    knots = _knots(model.conditional(X))
    regions = []
    edges = _edges(lambda points: inside(points[:, :, None]), knots)
    for intervals, everywhere in zip(edges, inside.everywhere(), strict=True):
        found = np.array([[-np.inf, np.inf]]) if everywhere else intervals
        volume = float(np.diff(found, axis=1).sum())
        regions.append(ConformalRegion(level, found, volume, 1, _within(found)))
    return regions


def joint_region(held_out: Sequence[HeldOut], rank: int, X: Any, level: float) -> ConformalRegion:
    """Return the region of joint outputs of one query: computed when asked what it contains."""

    def inside(points: Array) -> Booleans:
        return Membership(held_out, rank, X)(points[None])[0]

    return ConformalRegion(level, None, None, held_out[0].dim, inside)


def _within(intervals: Array) -> Callable[[Array], Booleans]:
    def inside(points: Array) -> Booleans:
        return np.any((intervals[:, 0] <= points) & (points <= intervals[:, 1]), axis=1)

    return inside


def _knots(dist: Any) -> Array:
    """Return places (Q, K): of equal mass, evenly spaced, and beyond at growing distances."""
    levels = np.concatenate([[_EDGE], middles(_QUANTILES), [1.0 - _EDGE]])
    places = dist.quantile(levels).reshape(len(dist), -1)
    first, last = places[:, :1], places[:, -1:]
    width = np.maximum(last - first, np.finfo(float).tiny)
    even = first + width * middles(_EVEN)
    return np.sort(np.hstack([places, even, first - width * _BEYOND, last + width * _BEYOND]))


def _edges(inside: Callable[[Array], Booleans], knots: Array) -> list[Array]:
    """Return the intervals (n, 2) of each row of knots that are inside."""
    there = inside(knots)
    crossings = [np.flatnonzero(row[1:] != row[:-1]) for row in there]
    most = max(1, *(len(places) for places in crossings))
    # rows with fewer crossings repeat a place, which does no harm
    places = np.stack([np.resize(p, most) if len(p) else np.zeros(most, int) for p in crossings])
    left, right = (np.take_along_axis(knots, places + side, axis=1) for side in (0, 1))
    left_inside = np.take_along_axis(there, places, axis=1)
    ends = np.where(left_inside, right, left), np.where(left_inside, left, right)
    for _ in range(_ZOOMS):
        ends = _zoomed(inside, *ends)
    return [
        np.concatenate(
            [[-np.inf] if row[0] else [], edges[: len(own)], [np.inf] if row[-1] else []]
        ).reshape(-1, 2)
        for row, edges, own in zip(there, ends[0], crossings, strict=True)
    ]


def _zoomed(inside: Callable[[Array], Booleans], outer: Array, inner: Array) -> tuple[Array, Array]:
    """Return nearer places, (Q, E) each, outside and inside of an edge between two places."""
    steps = np.arange(1, _STEPS) / _STEPS
    between = outer[:, :, None] + (inner - outer)[:, :, None] * steps
    found = inside(between.reshape(len(outer), -1)).reshape(between.shape)
    path = np.concatenate([outer[:, :, None], between, inner[:, :, None]], axis=2)
    found = np.concatenate([found, np.ones((*outer.shape, 1), dtype=bool)], axis=2)
    first = np.argmax(found, axis=2)[:, :, None]
    before, after = (np.take_along_axis(path, first + side, axis=2)[:, :, 0] for side in (0, 1))
    return before, after
