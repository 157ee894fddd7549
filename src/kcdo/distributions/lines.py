"""The shape of densities of one output: where they peak, and where they are at least so high.

Densities are looked at over a coordinate t in which they are smooth, y = T⁻¹(t), and by their
logarithms: beside a bound of y a piece of t is a hair of y.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array, Integers
from kcdo.distributions.integration import is_shared, with_edges
from kcdo.distributions.layouts import RegionShape
from kcdo.distributions.roots import monotone_roots
from kcdo.transforms import Identity, Transform

PROMINENCE = 0.1  # by which a peak stands out that a reader names, also in pictures and reports
_LOOK = np.array([1e-9, 0.25, 0.5, 0.75, 1.0 - 1e-9])  # in each piece
_GOLDEN_STEPS = 40  # to 1e-8 of the distance of places: no maximum is known better
_GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)
_LOWEST, _HIGHEST = -1000.0, 700.0  # logarithms of densities: in place of those of 0 and ∞
_COVERAGE_ERROR = 1e-12
_HEIGHT_ERROR = 1e-13
_SAME = Identity()


class OneOutput(Protocol):
    """What is asked of a batch of one output."""

    @property
    def linear(self) -> bool:
        """Whether densities are linear on each of their pieces."""

    def __len__(self) -> int:
        """Return the number of distributions."""

    def take(self, rows: Integers) -> Any:
        """Return some of the distributions."""

    def pieces(self) -> Array:
        """Return the edges of the pieces on which densities are smooth."""

    def logpdf_each(self, points: Array) -> Array:
        """Log density of each distribution at its own points."""

    def cdf_each(self, points: Array) -> Array:
        """Cdf of each distribution at its own points."""

    def quantile(self, levels: Array) -> Array:
        """Quantiles of each distribution."""


@dataclass(frozen=True)
class Modes:
    """The peaks of one density of one output.

    Attributes
    ----------
    places, heights : (n,) arrays
        Where the peaks are and the density there, the highest first.
    """

    places: Array
    heights: Array


@dataclass(frozen=True)
class Line:
    """Densities of y = T⁻¹(t), with t distributed as a batch says."""

    batch: OneOutput
    transform: Transform = _SAME

    @property
    def linear(self) -> bool:
        """Whether densities are linear on each piece, so that they peak at edges."""
        return self.batch.linear and isinstance(self.transform, Identity)

    def take(self, rows: Integers) -> "Line":
        """Return some of the densities."""
        same = len(rows) == len(self.batch)
        return self if same else Line(self.batch.take(rows), self.transform)

    def heights(self, t: Array) -> Array:
        """Log densities of y at T⁻¹(t) for t (Q, G), as numbers that are finite."""
        points = t[:, :, None]
        with np.errstate(invalid="ignore"):  # a signed density may be negative
            logs = self.batch.logpdf_each(points) + self.transform.log_slope(points)[:, :, 0]
        return np.clip(np.nan_to_num(logs, nan=_LOWEST), _LOWEST, _HIGHEST)

    def cdf(self, t: Array) -> Array:
        """P(T(Y) <= t) for t (Q, G)."""
        return self.batch.cdf_each(t[:, :, None])

    def places(self, t: Array) -> Array:
        """T⁻¹(t)."""
        return self.transform.inverse(t[..., None])[..., 0]

    def seen(self) -> tuple[Array, Array]:
        """Return places t (Q, K) that show every rise and fall, and the heights there."""
        edges = with_edges(self.batch.pieces(), self.transform.kinks())
        if self.linear:
            return edges, self.heights(edges)
        t = _looks(edges[:1] if is_shared(edges) else edges)
        t = np.broadcast_to(t, (len(edges), t.shape[1]))
        return t, self.heights(t)


def _looks(edges: Array) -> Array:
    """Return places all over each piece: not its edges, where a density may jump."""
    width = np.diff(edges, axis=1)[:, :, None]
    places = np.where(width > 0, edges[:, :-1, None] + width * _LOOK, -np.inf)
    return np.maximum.accumulate(places.reshape(len(edges), -1), axis=1).clip(edges[:, :1])


def peaks(line: Line, least: float, prominence: float = 0.0) -> list[Modes]:
    """Return the peaks of each density that are high enough and stand out enough.

    Both are shares of its greatest height; how far a peak stands out is its height above the lowest
    place on the way to the nearest higher peak. A plateau has one peak, in its middle.
    """
    t, heights = line.seen()
    first, last = _tops(heights, least)
    best, top = _climbed(line, t, heights, first, last)
    found = []
    for row, (places, logs) in enumerate(zip(best, top, strict=True)):
        logs = logs[: np.count_nonzero(first[row] >= 0)]
        order = np.argsort(-logs, kind="stable")
        order = order[logs[order] >= logs.max() + np.log(least)]
        if prominence > 0:
            seen, tops = (np.exp(h - logs.max()) for h in (heights[row], logs[order]))
            order = order[_apart(t[row], seen, places[order], tops, prominence)]
        found.append(Modes(line.places(places[order]), np.exp(logs[order])))
    return found


def _apart(t: Array, heights: Array, places: Array, tops: Array, depth: float) -> list[int]:
    """Return which peaks, the highest first, are parted by valleys of some depth from those before.

    Peaks that are passed over need not be asked: from them it is less deep to one that was taken.
    """
    at = np.searchsorted(t, places)
    taken: list[int] = []
    for i, (place, top) in enumerate(zip(at, tops, strict=True)):
        ways = (slice(*sorted((place, at[j]))) for j in taken)
        if all(heights[way].min(initial=np.inf) <= top - depth for way in ways):
            taken.append(i)
    return taken


def _tops(heights: Array, least: float) -> tuple[Integers, Integers]:
    """Return the first and the last place of each local maximum, (Q, C); -1 where there is none."""
    n_rows, n = heights.shape
    low = np.full((n_rows, 1), -np.inf)
    with np.errstate(invalid="ignore"):
        rise = np.sign(np.diff(np.hstack([low, heights, low]), axis=1))  # before each, and at last
    # what follows a plateau is the next rise or fall
    later = np.where(rise != 0, np.arange(n + 1), n)
    later = np.minimum.accumulate(later[:, ::-1], axis=1)[:, ::-1]
    follows = later[:, 1:]  # the next change after each place
    top = (rise[:, :-1] > 0) & (np.take_along_axis(rise, follows, axis=1) < 0)
    if least > 0:  # a peak may be a little higher than its place
        top &= heights >= heights.max(axis=1, keepdims=True) + np.log(0.9 * least)
    row, place = np.nonzero(top)
    counts = top.sum(axis=1)
    column = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    first = np.full((n_rows, counts.max()), -1)
    last = first.copy()
    first[row, column], last[row, column] = place, follows[row, place] - 1
    return first, last


def _climbed(
    line: Line,
    t: Array,
    heights: Array,
    first: Integers,
    last: Integers,
) -> tuple[Array, Array]:
    """Return the highest place near each local maximum and its height, (Q, C): golden section."""

    def at(table: Array, place: Integers) -> Array:
        return np.take_along_axis(table, np.clip(place, 0, table.shape[1] - 1), axis=1)

    middle = 0.5 * (at(t, first) + at(t, last))
    best, top = np.where(first == last, at(t, first), middle), at(heights, first)
    if line.linear:
        return best, top
    low, high = at(t, first - 1), at(t, last + 1)
    low, high = (np.where(first == last, end, middle) for end in (low, high))  # plateaus are known
    a, b = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    f_a, f_b = line.heights(a), line.heights(b)
    for _ in range(_GOLDEN_STEPS):
        left = f_a >= f_b
        low, high = np.where(left, low, a), np.where(left, b, high)
        new = np.where(left, high - _GOLDEN * (high - low), low + _GOLDEN * (high - low))
        f_new = line.heights(new)
        a, b, f_a, f_b = (
            np.where(left, new, b),
            np.where(left, a, new),
            np.where(left, f_new, f_b),
            np.where(left, f_a, f_new),
        )
    place, height = np.where(f_a >= f_b, a, b), np.maximum(f_a, f_b)
    better = height > top  # a kink at a place is its own peak
    return np.where(better, place, best), np.where(better, height, top)


def regions(line: Line, coverage: float) -> list[RegionShape]:
    """Return the region of highest density of each distribution, exact to rounding."""
    t, heights = _with_peaks(line)
    top = heights.max(axis=1, keepdims=True) + 1.0  # levels are seen from above: none is near 0
    masses = np.diff(line.cdf(t), axis=1)
    low, high = _bracket(heights - top, masses, coverage)

    def missing(rows: Integers, level: Array) -> Array:
        ends = _Ends.of(line.take(rows), t[rows], heights[rows] - top[rows], level, top[rows])
        return coverage - ends.mass()[:, None]

    level = monotone_roots(missing, low, high, np.full(low.shape, _COVERAGE_ERROR))
    ends = _Ends.of(line, t, heights - top, level, top)
    return ends.shapes(np.exp(level + top)[:, 0])


def _with_peaks(line: Line) -> tuple[Array, Array]:
    """Return places t (Q, K) between which every density only rises or only falls, and heights."""
    t, heights = line.seen()
    more, tops = _climbed(line, t, heights, *_tops(heights, 0.0))
    t, heights = np.hstack([t, more]), np.hstack([heights, tops])
    order = np.argsort(t, axis=1, kind="stable")
    return np.take_along_axis(t, order, axis=1), np.take_along_axis(heights, order, axis=1)


def _bracket(heights: Array, masses: Array, coverage: float) -> tuple[Array, Array]:
    """Return log levels (Q, 1) above which there is surely enough, and surely not enough."""
    bottom = np.minimum(heights[:, 1:], heights[:, :-1])
    top = np.maximum(heights[:, 1:], heights[:, :-1])
    low = _level_of(bottom, masses, coverage)
    return low, np.maximum(_level_of(top, masses, coverage), low)


def _level_of(heights: Array, masses: Array, coverage: float) -> Array:
    """Return the height of the piece with which the highest pieces have enough probability."""
    order = np.argsort(-heights, axis=1)
    total = np.cumsum(np.take_along_axis(masses, order, axis=1), axis=1)
    place = np.minimum(np.sum(total < coverage, axis=1), total.shape[1] - 1)
    return np.take_along_axis(np.take_along_axis(heights, order, axis=1), place[:, None], axis=1)


@dataclass(frozen=True)
class _Ends:
    """Where densities cross a level of their own, and which ends of the line are above it."""

    line: Line
    t: Array  # (Q, E), in order; columns beyond ``count`` mean nothing
    count: Integers  # (Q,)
    first: NDArray[np.bool_]  # (Q,)
    outer: Array  # (Q, 2) the ends of the line

    @classmethod
    def of(cls, line: Line, t: Array, heights: Array, level: Array, top: Array) -> "_Ends":
        """Find the crossings; heights and levels are logarithms below ``top``."""
        above = heights >= level
        change = above[:, 1:] != above[:, :-1]
        count = change.sum(axis=1)
        row, piece = np.nonzero(change)
        column = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
        low = np.zeros((len(t), max(1, count.max())))
        high = low.copy()
        low[row, column], high[row, column] = t[row, piece], t[row, piece + 1]

        def excess(rows: Integers, places: Array) -> Array:
            logs = line.take(rows).heights(places) - (level + top)[rows]
            return np.expm1(np.clip(logs, -50.0, 50.0))

        found = monotone_roots(excess, low, high, np.full(low.shape, _HEIGHT_ERROR))
        return cls(line, found, count, above[:, 0], t[:, [0, -1]])

    def mass(self) -> Array:
        """Return the probability above the levels, (Q,)."""
        column = np.arange(self.t.shape[1])
        enters = column % 2 == self.first[:, None]
        sign = np.where(column < self.count[:, None], np.where(enters, -1.0, 1.0), 0.0)
        last = (self.count % 2 == 1) != self.first
        return np.sum(sign * self.line.cdf(self.t), axis=1) + last

    def shapes(self, levels: Array) -> list[RegionShape]:
        """Return the regions above the levels."""
        out = []
        for t, n, first, outer, level in zip(
            self.t, self.count, self.first, self.outer, levels, strict=True
        ):
            ends = [*([outer[0]] if first else []), *t[:n]]
            ends += [outer[1]] if len(ends) % 2 else []
            intervals = self.line.places(np.array(ends)).reshape(-1, 2)
            out.append(RegionShape(float(level), float(np.diff(intervals).sum()), intervals))
        return out
