"""Training rows as their neighbours see them: which of them are like a query, and how much.

A regression gives each row a held-out location m_i and scale s_i. A query x with m(x) and s(x) is
like row j as far as the learnt metric and the two numbers say,

    log w_j = -½ ((m(x) - m_j) / (b_m s(x)))² - d(x, x_j) / (b_d d_20(x)) - ½ (log s(x)/s_j / b_s)².
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array, Integers
from kcdo.consistency import need, shape
from kcdo.systems import Finder

EVERY = np.inf  # a bandwidth that does not tell rows apart

_NEAR = 20  # the near row whose distance is the unit of distances
_DIFFERENCES = 1 << 18  # of coordinates, held at a time
_LEVEL = 0.05  # of a scale: locations that differ by less are in no order


@dataclass(frozen=True)
class Bandwidths:
    """How alike rows must be to count; ``EVERY`` is no condition."""

    location: float  # b_m
    distance: float  # b_d
    scale: float  # b_s

    def __post_init__(self) -> None:
        need(min(self.location, self.distance, self.scale) > 0, "bandwidths that are not positive")


@dataclass(frozen=True, eq=False)
class Likeness:
    """Near rows of some queries, by distance and by location, with what tells them apart."""

    location: Array  # (Q,) of the queries
    scale: Array  # (Q,)
    near: Integers  # (Q, K) rows near by distance
    distance: Array  # (Q, K), in units of that of the 20th
    alike: Integers  # (Q, K) rows of near locations

    def places(self, bandwidths: Bandwidths) -> Integers:
        """Return the rows among which these bandwidths choose."""
        return self.alike if bandwidths.distance == EVERY else self.near

    def take(self, rows: slice) -> "Likeness":
        """Return those of some queries."""
        return Likeness(*(values[rows] for values in vars(self).values()))

    def __len__(self) -> int:
        return len(self.location)


@dataclass(frozen=True, eq=False)
class RowTable:
    """Training rows as their neighbours see them."""

    coordinates: Array  # (N, F) in the learnt metric
    location: Array  # (N,) held-out
    log_scale: Array  # (N,)
    residual: Array  # (N,) standardised
    output: Array  # (N,)
    weights: Array  # (N,)
    neighbours: int

    def __post_init__(self) -> None:
        n = len(self.location)
        shape(self.coordinates, n, None)
        for values in (self.location, self.log_scale, self.residual, self.output, self.weights):
            shape(values, n)
        need(n >= 2 and self.neighbours >= 1, "rows without neighbours")
        need(np.all(self.weights > 0), "weights that are not positive")

    def __len__(self) -> int:
        return len(self.location)

    @cached_property
    def _finder(self) -> Finder:
        return Finder(self.coordinates)

    @cached_property
    def _order(self) -> Integers:
        """The rows by location, in no order where locations hardly differ.

        A held-out location moves a little away from the output of its own row: in the order of
        these numbers, neighbours would tell that output.
        """
        chance = np.random.default_rng(0).permutation(len(self))
        return np.lexsort((chance, self._level(self.location)))

    def _level(self, location: Array) -> Array:
        return np.round(location / (_LEVEL * np.exp(np.median(self.log_scale))))

    def __getstate__(self) -> dict[str, object]:
        found_again = ("_finder", "_order")
        return {name: value for name, value in vars(self).items() if name not in found_again}

    def likeness(
        self, coordinates: Array, location: Array, scale: Array, n_jobs: int | None
    ) -> Likeness:
        """Find the rows that are like queries."""
        k = min(self.neighbours, len(self))
        near = self._finder.nearest(coordinates, k, n_jobs)
        return self._likeness(coordinates, location, scale, near, self._alike(location, k))

    def likeness_left_out(self, rows: Integers, n_jobs: int | None) -> Likeness:
        """Find the rows that are like some of them, but for each itself."""
        k = min(self.neighbours, len(self) - 1)
        near = self._finder.nearest_others(rows, k, n_jobs)
        alike = _without(self._alike(self.location[rows], k + 1), rows)
        location, scale = self.location[rows], np.exp(self.log_scale[rows])
        return self._likeness(self.coordinates[rows], location, scale, near, alike)

    def _likeness(
        self, coordinates: Array, location: Array, scale: Array, near: NDArray, alike: NDArray
    ) -> Likeness:
        distance = np.empty(near.shape)
        step = max(1, _DIFFERENCES // max(1, near.shape[1] * coordinates.shape[1]))
        for start in range(0, len(near), step):
            part = slice(start, start + step)
            gaps = self.coordinates[near[part]] - coordinates[part, None]
            distance[part] = np.sqrt(np.einsum("qkf,qkf->qk", gaps, gaps))
        unit = distance[:, min(_NEAR, near.shape[1]) - 1, None]
        return Likeness(location, scale, near, distance / np.maximum(unit, 1e-12), alike)

    def _alike(self, location: Array, k: int) -> Integers:
        """Return the k rows about the place of each location among all, (Q, k)."""
        ordered, level = self._level(self.location[self._order]), self._level(location)
        ends = [np.searchsorted(ordered, level, side=side) for side in ("left", "right")]
        first = np.clip((ends[0] + ends[1]) // 2 - k // 2, 0, len(self) - k)
        return self._order[first[:, None] + np.arange(k)]

    def log_likeness(self, likeness: Likeness, bandwidths: Bandwidths) -> Array:
        """Return log w of the rows that bandwidths choose among, (Q, K), 0 for the likest."""
        places = likeness.places(bandwidths)
        logs = np.log(self.weights[places])
        if bandwidths.location != EVERY:
            unit = bandwidths.location * likeness.scale[:, None]
            logs -= 0.5 * ((likeness.location[:, None] - self.location[places]) / unit) ** 2
        if bandwidths.distance != EVERY:
            logs -= likeness.distance / bandwidths.distance
        if bandwidths.scale != EVERY:
            gap = np.log(likeness.scale)[:, None] - self.log_scale[places]
            logs -= 0.5 * (gap / bandwidths.scale) ** 2
        return logs - logs.max(axis=1, keepdims=True)

    def shares(self, likeness: Likeness, bandwidths: Bandwidths) -> Array:
        """Return the weights w, which sum to 1, of the rows that bandwidths choose among."""
        w = np.exp(self.log_likeness(likeness, bandwidths))
        return w / w.sum(axis=1, keepdims=True)


def _without(places: Integers, rows: Integers) -> Integers:
    """Return (Q, k) of places (Q, k + 1) without the row itself, or without the last."""
    itself = places == rows[:, None]
    itself[~itself.any(axis=1), -1] = True
    return places[~itself].reshape(len(rows), -1)
