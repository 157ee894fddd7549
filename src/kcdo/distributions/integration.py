"""E g(Y) of one output: the line is cut into pieces on which g and the density are smooth.

A density is smooth on the pieces that its batch gives. Of g nothing is known, so pieces are halved
until five points of each tell what g is in between: a jump ends up in a piece of no probability.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.polynomial.legendre import leggauss

from kcdo.arrays import Array, Integers
from kcdo.errors import AccuracyWarning

Cuts = tuple[Integers, Array]  # rows, and places in them

ORDER = 5  # Gauss points on a piece
_CROWDED = 10
NO_CUTS = np.empty(0)
_LARGEST = 0.01  # probability of a piece on which g is first looked at
_TOLERANCE = 1e-11  # error of a piece, in E |g|
_MOST_ROUGH = 8  # pieces that are halved at a time, for each of the first ones
_COARSE = 1e-6  # error of the whole that is worth a warning
_EDGE = 1e-12  # the ends of a piece are looked at from inside, in widths


def between(edges: Array, order: int = ORDER) -> tuple[Array, Array]:
    """Return Gauss points between edges (Q, K) and their weights, (Q, order (K - 1)) each."""
    return _on_pieces(edges, *leggauss(order))


def densely_at_ends(edges: Array) -> tuple[Array, Array]:
    """Return points between edges that crowd at the edges, where p log p is steep if p is 0."""
    places, weights = leggauss(_CROWDED)
    return _on_pieces(edges, 0.5 * places * (3.0 - places**2), 1.5 * weights * (1.0 - places**2))


def _on_pieces(edges: Array, places: Array, weights: Array) -> tuple[Array, Array]:
    """Return points and weights of a rule on [-1, 1] on every piece."""
    rows = edges[:1] if is_shared(edges) else edges
    half = 0.5 * np.diff(rows, axis=1)[:, :, None]
    middle = 0.5 * (rows[:, 1:] + rows[:, :-1])[:, :, None]
    both = (part.reshape(len(rows), -1) for part in (middle + half * places, half * weights))
    points, shares = (np.broadcast_to(part, (len(edges), part.shape[1])) for part in both)
    return points, shares


def with_edges(edges: Array, more: Array) -> Array:
    """Return edges (Q, K) together with others (C,) that all rows share."""
    if not len(more):
        return edges
    rows = edges[:1] if is_shared(edges) else edges
    every = np.sort(np.hstack([rows, np.broadcast_to(more, (len(rows), len(more)))]), axis=1)
    return np.broadcast_to(every, (len(edges), every.shape[1]))


def is_shared(table: Array) -> bool:
    """Whether all rows of a table are one and the same, in memory too."""
    return len(table) > 1 and table.strides[0] == 0


def split_for(
    g: Callable[[Array], Array], edges: Array, masses: Array, scale: Array | None = None
) -> Array:
    """Return edges (R, K + more) of pieces on which g is smooth, for g of points (G,) to (G, k).

    Edges (R, K) are those of the pieces on which the density is; masses (R, K - 1) are the
    probability of each. Rows that need fewer edges repeat their last one. Errors are seen relative
    to ``scale``, (R, 1), by default E |g|.
    """
    pieces, cuts = _Pieces.of(edges, masses).fine()
    most = _MOST_ROUGH * len(pieces.left)
    while len(pieces.left):
        values = g(pieces.points().ravel()).reshape(len(pieces.left), len(_LOOK), -1)
        if scale is None:
            scale = pieces.mean_size(values, len(edges))
        error = pieces.errors(values, scale)
        rough = np.flatnonzero(error > _TOLERANCE)
        if len(rough) > most:
            _warn(float(np.bincount(pieces.row, error).max()))
            break
        pieces = pieces.only(rough)
        cuts.append((pieces.row, pieces.middle))
        pieces = pieces.halved()
    return _with_cuts(edges, cuts)


@dataclass(frozen=True)
class _Pieces:
    """Pieces of several lines: whose they are, where they begin and end, their probability."""

    row: Integers
    left: Array
    right: Array
    mass: Array

    @classmethod
    def of(cls, edges: Array, masses: Array) -> "_Pieces":
        """Return the pieces that have a width and a probability."""
        row = np.repeat(np.arange(len(edges)), edges.shape[1] - 1)
        every = cls(row, edges[:, :-1].ravel(), edges[:, 1:].ravel(), masses.ravel())
        return every.only(np.flatnonzero((every.right > every.left) & (every.mass > 0)))

    def only(self, chosen: Integers) -> "_Pieces":
        """Return some of the pieces."""
        left, right, mass = (part[chosen] for part in (self.left, self.right, self.mass))
        return _Pieces(self.row[chosen], left, right, mass)

    def fine(self) -> tuple["_Pieces", list[Cuts]]:
        """Return pieces of little probability each, and where others were cut for that.

        What g does in a small part of a piece is not seen.
        """
        pieces = self
        cuts: list[Cuts] = []
        while True:
            large = pieces.mass > _LARGEST
            if not large.any():
                return pieces, cuts
            cut = pieces.only(np.flatnonzero(large))
            cuts.append((cut.row, cut.middle))
            pieces = pieces.only(np.flatnonzero(~large)).and_also(cut.halved())

    def and_also(self, others: "_Pieces") -> "_Pieces":
        """Return these pieces and others."""
        pairs = zip(vars(self).values(), vars(others).values(), strict=True)
        return _Pieces(*(np.concatenate(pair) for pair in pairs))

    @property
    def middle(self) -> Array:
        """Where each piece is halved."""
        return self.left + 0.5 * (self.right - self.left)

    def halved(self) -> "_Pieces":
        """Return both halves of every piece that is wide enough to have some."""
        middle, mass = self.middle, 0.5 * self.mass
        both = _Pieces(self.row, self.left, middle, mass).and_also(
            _Pieces(self.row, middle, self.right, mass)
        )
        return both.only(np.flatnonzero(both.left < both.right))

    def points(self) -> Array:
        """Return where g is looked at, (n, 17)."""
        return self.left[:, None] + (self.right - self.left)[:, None] * _LOOK

    def mean_size(self, values: Array, n_rows: int) -> Array:
        """Return E |g| of each line and column, (R, k)."""
        sizes = self.mass[:, None] * np.abs(values).mean(axis=1)
        out = np.zeros((n_rows, values.shape[2]))
        np.add.at(out, self.row, sizes)
        return np.maximum(out, np.finfo(float).tiny)

    def errors(self, values: Array, scale: Array) -> Array:
        """Return how much E g may be wrong for each piece, in E |g|; 0 where g is not finite."""
        with np.errstate(invalid="ignore", over="ignore"):
            gaps = np.abs(np.einsum("fl,nlk->nfk", _TESTS, values)).max(axis=1)
            relative = (gaps * self.mass[:, None] / scale[self.row]).max(axis=1)
        return np.where(np.isfinite(relative), relative, 0.0)


def _looks() -> tuple[Array, Array]:
    """Return where on a piece [0, 1] g is looked at, and tests that vanish for smooth g.

    Five Gauss points of the whole and of its halves must have the same mean and slope (a jump in
    the very middle changes the slope only), and the halves must foresee the ends: what lies there
    is beyond all Gauss points.
    """
    places, weights = leggauss(ORDER)
    whole, weights = 0.5 * (1 + places), 0.5 * weights
    look = np.concatenate([whole, 0.5 * whole, 0.5 + 0.5 * whole, [_EDGE, 1.0 - _EDGE]])
    n = ORDER
    tests = np.zeros((4, len(look)))
    for test, power in zip(tests, (0, 1), strict=False):
        test[:n] = weights * (whole - 0.5) ** power
        test[n : 3 * n] = -0.5 * np.tile(weights, 2) * (look[n : 3 * n] - 0.5) ** power
    foreseen = [np.prod([x / (x - y) for x in whole if x != y]) for y in whole]
    unseen = 0.5 * whole[0]  # share of the piece beyond the outermost points
    tests[2, n : 2 * n], tests[2, -2] = unseen * np.array(foreseen), -unseen
    tests[3, 2 * n : 3 * n], tests[3, -1] = unseen * np.array(foreseen)[::-1], -unseen
    return look, tests


_LOOK, _TESTS = _looks()


def _with_cuts(edges: Array, cuts: list[Cuts]) -> Array:
    """Return edges of each row with more of them where it was cut."""
    row = np.concatenate([rows for rows, _ in cuts] or [np.empty(0, int)])
    place = np.concatenate([places for _, places in cuts] or [np.empty(0)])
    if not len(row):
        return edges
    order = np.argsort(row, kind="stable")
    row, place = row[order], place[order]
    counts = np.bincount(row, minlength=len(edges))
    more = np.repeat(edges[:, -1:], counts.max(), axis=1)
    more[row, np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)] = place
    return np.sort(np.hstack([edges, more]), axis=1)


def _warn(error: float) -> None:
    if error > _COARSE:
        warnings.warn(
            f"expect: the function is too rough to be followed everywhere; its expectation may be "
            f"wrong by {error:.0e} of that of its size. Average it over sample(n) instead.",
            AccuracyWarning,
            stacklevel=2,
        )
