"""Some outputs of a chain, given others that need not come first: by weighted draws."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kcdo.arrays import Array, Integers
from kcdo.distributions.affine import AffineBatch
from kcdo.distributions.batch import (
    DRAW_SETS,
    FEW_EFFECTIVE,
    FEWEST_DRAWS,
    Batch,
    Function,
    Rows,
    even_uniforms,
    set_deviations,
)
from kcdo.distributions.grid import GridLayout
from kcdo.distributions.grouped import GroupedBatch
from kcdo.distributions.layouts import choose_nodes
from kcdo.distributions.nodes import NodeBatch
from kcdo.errors import AccuracyWarning
from kcdo.measures import Grid
from kcdo.parallel import shared_property

if TYPE_CHECKING:
    from kcdo.distributions.chain import ChainBatch

_COARSE, _FINE = 64, 128  # nodes of a density on a line: first to find where it is, then for good
_FEW_EACH = 2  # draws of each set are enough to find where it is
_COMMON = 0.25  # of draws carry the weight where values that are given are common
_LINE_DRAWS = 64  # at which a line is known at all nodes
_WIDENINGS = 12  # tries to find where it is, each twice as far as the one before
_MANY_PLACES = 4  # a rough density is a mean over so many times fewer draws
PICTURE_WIDTH = 0.25  # of the kernel over draws, in standard deviations
_WEIGHTED_EACH, _MOST_WEIGHTED = 4, 4096  # weighted draws for each one that is asked for
_LEAST_RANKED = 128  # chosen of weighted draws, for levels and entropies
_EFFECTIVE = 64  # weighted draws that shall carry the weight
_LINK_MEMBERS = 512  # draws at which distributions of a link are mixed, at most by default
_HELD_NUMBERS = 1 << 22  # of draws, made at a time
_PICTURE_DRAWS = 2048  # weighted ones, that are smoothed for a picture
_UNLIKELY = 1e-7  # density, relative to the highest, beyond which a line ends
_BEYOND = 0.5  # of the extent of draws, where densities on a line begin and end


class ByDraws(Batch):
    """Several outputs whose log density is known, and of which the rest is by draws."""

    @property
    def by_draws(self) -> bool:
        """Whether a density costs much: yes."""
        return True

    def pdf_each(self, points: Array) -> Array:
        """Density of each distribution at its own points."""
        return np.exp(self.logpdf_each(points))

    def quantile(self, levels: Array) -> Array:
        """Quantiles of each marginal."""
        lines = [self.marginal([i]).quantile(levels) for i in range(self.dim)]
        return np.concatenate(lines, axis=2)

    def support(self) -> Array:
        """Least and greatest place of positive density in each marginal."""
        ends = [self.marginal([i]).support() for i in range(self.dim)]
        return np.concatenate(ends, axis=2)

    def draw_deviations(self, g: Function | None) -> Array:
        """Return E g(Y) by each set of draws, less that by all."""
        draws, weights = self.quadrature()
        if g is None:
            return _deviations(draws, weights)
        values = g(np.ascontiguousarray(draws).reshape(-1, self.dim))
        return _deviations(values, weights)

    def _with_events(
        self, found: Array, g: Callable[[Array], Array], points: Array, values: Array
    ) -> Array:
        return found  # the cdf is by the same draws


@dataclass(frozen=True, eq=False)
class PartBatch(ByDraws):
    """The outputs ``kept`` of a chain, where the outputs ``fixed`` have known values.

    Where other outputs come before those in the order, their density is a mean over draws of the
    others: p(y_S | x) = E ∏_{j in S} p(y_j | x, what comes before), with S held and the others
    drawn (likelihood weighting). So are draws: those of the chain, weighted. The less likely what
    is given, the fewer of them carry the weight: of each query so many are made that these are
    enough, up to a limit, beyond which there is a warning.

    Parameters
    ----------
    chain : ChainBatch
        The joint distributions.
    kept, fixed : tuple of int
        Outputs of the chain.
    values : (Q, len(fixed)), optional
        Of the fixed outputs.
    """

    chain: "ChainBatch"
    kept: tuple[int, ...]
    fixed: tuple[int, ...] = ()
    values: Array | None = None

    @classmethod
    def of(
        cls, chain: "ChainBatch", kept: tuple[int, ...], fixed: tuple[int, ...], values: Array
    ) -> Batch:
        """Return the distributions of some outputs given others; of one output, with a density."""
        part = cls(chain, kept, fixed, values)
        if len(kept) > 1:
            return part
        before = chain.order[: chain.order.index(kept[0])]
        return part.by_its_link() if set(fixed) <= set(before) else part.on_a_line()

    @property
    def dim(self) -> int:
        """Number of outputs that are kept."""
        return len(self.kept)

    @property
    def width(self) -> int:
        """Numbers held for each distribution."""
        return self.chain.width

    @property
    def uniforms(self) -> int:
        """Uniform numbers that a draw is made of."""
        return self.chain.uniforms

    @property
    def n_draws(self) -> int:
        """Draws of each distribution."""
        return self.chain.n_draws

    def __len__(self) -> int:
        return len(self.chain)

    def take(self, rows: Rows) -> "PartBatch":
        """Return some of the distributions."""
        values = None if self.values is None else self.values[rows]
        return replace(self, chain=self.chain.take(rows), values=values)

    def joined(self, others: Sequence["PartBatch"]) -> "PartBatch":
        """Return these distributions followed by others."""
        chain = self.chain.joined([other.chain for other in others])
        if self.values is None:
            return replace(self, chain=chain)
        values = [self.values, *(other.values for other in others if other.values is not None)]
        return replace(self, chain=chain, values=np.concatenate(values))

    def with_draws(self, n_draws: int, seed: int) -> "PartBatch":
        """Return the same distributions, by other draws."""
        return replace(self, chain=self.chain.with_draws(n_draws, seed))

    @property
    def averaged(self) -> int:
        """Draws that a density is a mean over; 1 where no other outputs come before."""
        held = (*self.fixed, *self.kept)
        return 1 if self._last(held) == len(held) else self.n_draws

    @property
    def draw_seed(self) -> int:
        """Seed of the draws."""
        return self.chain.seed

    def ranked_draws(self) -> Array:
        """Return draws at which densities are asked: chosen of others, where draws are weighted."""
        if self.values is None or self.averaged > 1:
            return super().ranked_draws()
        return self.other_draws(max(self.n_draws, _LEAST_RANKED))

    def for_many_places(self) -> "PartBatch":
        """Return the same distributions, whose densities are means over fewer draws."""
        if self.averaged <= FEWEST_DRAWS:
            return self
        return self.with_draws(max(FEWEST_DRAWS, self.n_draws // _MANY_PLACES), self.chain.seed)

    def marginal(self, dims: Sequence[int]) -> Batch:
        """Return the distributions of some of the outputs."""
        kept = tuple(self.kept[i] for i in dims)
        if self.values is None:
            return self.chain.marginal(kept)
        return PartBatch.of(self.chain, kept, self.fixed, self.values)

    def pair_picture(self, pair: tuple[int, int], across: Array, up: Array) -> Array:
        """Return the joint density of two outputs: where none is fixed, as the chain draws it.

        Else of weighted draws, smoothed, unless no draws of others are needed.
        """
        both = self.kept[pair[0]], self.kept[pair[1]]
        if self.values is None:
            return self.chain.pair_picture(both, across, up)
        if self._last(held := (*self.fixed, *both)) == len(held):
            return super().pair_picture(pair, across, up)
        more = self.with_draws(_PICTURE_DRAWS, self.chain.seed)
        return more._in_blocks(
            lambda part, _: part._smoothed_pair(pair, (across, up)),  # type: ignore[attr-defined]
            _PICTURE_DRAWS * (len(across) + len(up)),
        )

    def _smoothed_pair(self, pair: tuple[int, int], lines: tuple[Array, Array]) -> Array:
        """Return Σ_m w_m K(a - a_m) K(b - b_m) on the grid of two lines, (Q, len(a), len(b))."""
        draws, weights = self.weighted
        bumps = []
        for output, line in zip(pair, lines, strict=True):
            values = draws[:, :, output]
            mean = np.sum(weights * values, axis=1, keepdims=True)
            sd = np.sqrt(np.sum(weights * (values - mean) ** 2, axis=1))
            width = np.maximum(PICTURE_WIDTH * sd, 1e-300)[:, None, None]
            gaps = (line[None, :, None] - values[:, None, :]) / width
            bumps.append(np.exp(-0.5 * gaps**2) / (width * np.sqrt(2.0 * np.pi)))
        found: Array = (bumps[0] * weights[:, None, :]) @ bumps[1].transpose(0, 2, 1)
        return found

    def given(self, dims: Sequence[int], values: Array) -> Batch:
        """Return the distributions of the remaining outputs, given values of more outputs."""
        more = tuple(self.kept[i] for i in dims)
        kept = tuple(output for output in self.kept if output not in more)
        known = values if self.values is None else np.hstack([self.values, values])
        return PartBatch.of(self.chain, kept, (*self.fixed, *more), known)

    # --- densities

    def logpdf_each(self, points: Array) -> Array:
        """Log density: that of all that is held, less that of what is given."""
        return _log_mean(self._log_joint(points)) - self._log_given()[:, None]

    def _log_joint(self, points: Array) -> Array:
        """Return log p of what is given and points (Q, G, k), by each set of draws."""
        parts = self._blocks(points[0].size * self.n_draws)
        return np.concatenate([self.take(rows)._log_some(points[rows]) for rows in parts])

    def _log_some(self, points: Array) -> Array:
        if self.values is None:
            return self._log_held(self.kept, points)
        known = np.broadcast_to(self.values[:, None], (*points.shape[:2], len(self.fixed)))
        return self._log_held((*self.fixed, *self.kept), np.concatenate([known, points], axis=2))

    def _log_given(self) -> Array:
        """Return log p of what is given, (Q,)."""
        if self.values is None:
            return np.zeros(len(self))
        if self._last(self.fixed) == len(self.fixed):
            return self._log_held(self.fixed, self.values[:, None])[:, 0, 0]
        return self._given_draws.log_mean()

    def _log_held(self, held: tuple[int, ...], values: Array) -> Array:
        """Return log p(y_S | x) of outputs that are held at values (Q, G, |S|).

        By each set of draws, (Q, G, DRAW_SETS); exact, (Q, G, 1), where no others come before.
        """
        last = self._last(held)
        alone = last == len(held)
        n = 1 if alone else self.n_draws
        _, logs = self._held_draws(held, values, self._fixed_uniforms(n), last)
        return _log_mean(logs.reshape(*values.shape[:2], 1 if alone else DRAW_SETS, -1))

    def _last(self, held: tuple[int, ...]) -> int:
        """Return how many links there are up to the last of some outputs: they alone, or more."""
        return 1 + max(self.chain.order.index(output) for output in held)

    def _fixed_uniforms(self, n: int) -> Array:
        """Return the uniforms of the first n draws, the same for every query, (Q, n, k)."""
        fixed = self.chain.fixed_uniforms()[:n]
        return np.broadcast_to(fixed, (len(self), *fixed.shape))

    def _held_draws(
        self, held: tuple[int, ...], values: Array, uniforms: Array, last: int
    ) -> tuple[Array, Array]:
        """Return draws (Q, G · n, d) with some outputs held, and their log weights (Q, G · n).

        Held at values (Q, G, |held|), each with draws of the same uniforms (Q, n, k).
        """
        n_rows, n_points = values.shape[:2]
        n = uniforms.shape[1]
        points = np.zeros((n_rows, n_points * n, self.chain.dim))
        points[:, :, list(held)] = np.repeat(values, n, axis=1)
        logs = np.zeros(points.shape[:2])
        for j, output in enumerate(self.chain.order[:last]):
            if output in held:
                logs += self.chain.log_link(j, points)
            else:
                points[:, :, output] = self.chain.draw_link(j, points, uniforms)
        return points, logs

    # --- by weighted draws

    @shared_property
    def weighted(self) -> tuple[Array, Array]:
        """Draws (Q, n, d) of the outputs that are kept, and their weights (Q, n)."""
        if self.values is None:
            draws = self.chain.drawn
            return draws[:, :, list(self.kept)], np.full(draws.shape[:2], 1.0 / draws.shape[1])
        return self._given_draws.points[:, :, list(self.kept)], self._given_draws.weights

    @shared_property
    def _given_draws(self) -> "_Weighted":
        """Draws of the chain with what is given held, as many as it takes."""
        return self._enough_draws(self.n_draws, self.chain.dim)

    def _enough_draws(self, n: int, last: int, shift: Array | None = None) -> "_Weighted":
        """Return draws of the first links, with what is given held: n, or as many as it takes.

        Fixed ones, or even ones that are shifted, (Q, 1, k). A query's do not hang on others.
        """
        step = max(1, _HELD_NUMBERS // (n * self.chain.dim))
        parts = [slice(a, a + step) for a in range(0, len(self), step)]
        shifts = [None if shift is None else shift[rows] for rows in parts]
        found = [
            self.take(rows)._more_draws(n, last, own)
            for rows, own in zip(parts, shifts, strict=True)
        ]
        every = _as_one(found)
        if self.chain.warns:
            _warn_of_few(every)
        return every

    def _more_draws(self, n: int, last: int, shift: Array | None) -> "_Weighted":
        assert self.values is not None
        uniforms = self._even_uniforms(n, shift)
        points, logs = self._held_draws(self.fixed, self.values[:, None], uniforms, last)
        found = _Weighted(points, logs, np.full(len(self), n))
        counts = self._wanted_draws(found, n)
        parts = [(found.take(counts == n), np.flatnonzero(counts == n))]
        for count in np.unique(counts[counts > n]):
            rows = np.flatnonzero(counts == count)
            own = None if shift is None else shift[rows]
            parts.append((self.take(rows)._more_draws(int(count), last, own), rows))
        there = [(part, rows) for part, rows in parts if len(rows)]
        back = np.argsort(np.concatenate([rows for _, rows in there]))
        return _as_one([part for part, _ in there]).take(back)

    def _wanted_draws(self, found: "_Weighted", n: int) -> Integers:
        """Return how many draws each query needs: n, or a greater power of two, (Q,)."""
        enough = min(self.n_draws, _EFFECTIVE)
        short = enough / np.maximum(found.effective, 1.0)
        most = max(min(_MOST_WEIGHTED, self.n_draws**2), n)  # fewer at each point of many
        wished = n * 2 ** np.ceil(np.log2(np.maximum(short, 1.0))).astype(int)
        return np.minimum(wished, most)

    def _even_uniforms(self, n: int, shift: Array | None) -> Array:
        """Return the uniforms of n draws: the fixed ones, or even ones that are shifted."""
        if shift is not None:
            return (even_uniforms(n, self.uniforms) + shift) % 1.0
        fixed = self.chain.with_draws(n, self.chain.seed).fixed_uniforms()
        return np.broadcast_to(fixed, (len(self), *fixed.shape))

    def sample(self, uniforms: Array) -> Array:
        """Draws of the chain; given others, chosen of weighted ones, so that some may come again.

        These are other ones at every call: even ones, shifted by the first uniforms of each query.
        """
        if self.values is None:
            return self.chain.sample(uniforms)[:, :, list(self.kept)]
        n = max(self.n_draws, min(_MOST_WEIGHTED, _WEIGHTED_EACH * uniforms.shape[1]))
        count = 1 << (n - 1).bit_length()
        made = self._enough_draws(count, self.chain.dim, uniforms[:, :1])
        chosen = choose_nodes(made.weights, uniforms[:, :, 0])
        draws = np.take_along_axis(made.points, chosen[:, :, None], axis=1)
        return draws[:, :, list(self.kept)]

    def moments(self) -> tuple[Array, Array]:
        """Mean and covariance of the draws."""
        if self.values is None:
            mean, cov = self.chain.moments()
            kept = np.array(self.kept)
            return mean[:, kept], cov[:, kept[:, None], kept[None, :]]
        draws, weights = self.weighted
        mean = np.einsum("qn,qnd->qd", weights, draws)
        gap = draws - mean[:, None]
        return mean, np.einsum("qn,qnd,qne->qde", weights, gap, gap)

    def draw_deviations(self, g: Function | None) -> Array:
        """Return E g(Y) by each set of draws, less that by all; of means as the chain has them."""
        if g is None and self.values is None:
            return self.chain.draw_deviations(None)[:, :, list(self.kept)]
        return super().draw_deviations(g)

    def quadrature(self) -> tuple[Array, Array]:
        """Return the draws and their weights."""
        return self.weighted

    def _draws(self, n: int) -> Array:
        draws, weights = self.weighted
        if self.values is None:
            return draws[:, :n]
        even = (np.arange(n) + 0.5) / n
        chosen = choose_nodes(weights, np.broadcast_to(even, (len(self), n)))
        return np.take_along_axis(draws, chosen[:, :, None], axis=1)

    def cdf_each(self, points: Array) -> Array:
        """Weight of the draws that lie below, at each distribution's own points."""
        draws, weights = self.weighted
        return share_below(draws, points, weights)

    # --- one output, with a density of its own

    def by_its_link(self) -> Batch:
        """Return the distributions of an output that comes after all that are fixed.

        Its own link at weighted draws of what comes before it, exact where all of these are fixed.
        """
        j = self.chain.order.index(self.kept[0])
        made = self._enough_draws(self.n_draws, j)
        most = max(_LINK_MEMBERS, self.n_draws)
        chosen, weights = zip(*(made.members(q, most) for q in range(len(self))), strict=True)
        sizes = [len(rows) for rows in chosen]
        points = np.concatenate([made.points[q, rows] for q, rows in enumerate(chosen)])
        chain = replace(self.chain, inputs=np.repeat(self.chain.inputs, sizes, axis=0))
        links = chain.new_link_batch(j, points[:, None])
        starts = np.concatenate([[0], np.cumsum(sizes)])
        return GroupedBatch(links, starts, np.concatenate(weights), drawn=True)

    def on_a_line(self) -> Batch:
        """Return the distributions of the one output that is kept, by densities at many nodes.

        Of common values ∝ p(y | x) E p(given | y, others), over draws of the others at each node.
        Of unlikely ones, which these draws would miss, E p(y | given, others) over weighted draws
        of the others, up to the last output that is given.
        """
        last = self._last(self.fixed)
        if last == len(self.fixed) + 1:
            points, shares, common = *self._held_alone(), np.ones(len(self), dtype=bool)
        else:
            made = self._enough_draws(self.n_draws, last)
            points, shares = self._thinned(made)
            common = made.effective >= _COMMON * made.counts
        low, high = self._where_likely(points[:, :, :_FEW_EACH], shares)
        places = _places(low, high, _FINE)
        masses = np.empty((*shares.shape, _FINE))
        if np.any(common):
            some = self.take(common).with_draws(min(self.n_draws, _LINE_DRAWS), self.chain.seed)
            logs = some._log_joint(places[common, :, None]).transpose(0, 2, 1)
            masses[common] = _relative(logs)
            shares[common] = _of_sum_one(masses[common].sum(axis=2))
        if not np.all(common):
            lines = self.take(~common)._lines_at(points[~common], places[~common], last)
            masses[~common] = lines.mean(axis=2)
        return _lines_of_sets(masses, shares, low, high)

    def _held_alone(self) -> tuple[Array, Array]:
        """Return what is given as the one point of one set, (Q, 1, 1, d), and its share."""
        assert self.values is not None
        points = np.zeros((len(self), 1, 1, self.chain.dim))
        points[..., list(self.fixed)] = self.values[:, None, None]
        return points, np.ones((len(self), 1))

    def _thinned(self, made: "_Weighted") -> tuple[Array, Array]:
        """Return a few draws of each set, (Q, S, n, d), of equal weight, and the sets' shares."""
        size = min(self.n_draws, _LINE_DRAWS) // DRAW_SETS
        sets = made.weights.reshape(len(self), DRAW_SETS, -1)
        flat = sets.reshape(-1, sets.shape[2])
        even = np.broadcast_to((np.arange(size) + 0.5) / size, (len(flat), size))
        chosen = choose_nodes(_of_sum_one(flat), even).reshape(*sets.shape[:2], size, 1)
        points = made.points.reshape(*sets.shape, self.chain.dim)
        return np.take_along_axis(points, chosen, axis=2), sets.sum(axis=2)

    def _where_likely(self, points: Array, shares: Array) -> tuple[Array, Array]:
        """Return ends (Q,) between which nearly all the probability of the kept output lies.

        Looked for about the draws of the chain, and farther out where a peak is at an end.
        """
        draws = self.chain.drawn[:, :, self.kept[0]]
        low, high = draws.min(axis=1), draws.max(axis=1)
        margin = _BEYOND * np.maximum(high - low, 1e-12 * (1.0 + np.abs(low)))
        low, high = low - margin, high + margin
        rows = np.arange(len(self))
        density = np.empty((len(self), _COARSE))
        for _ in range(_WIDENINGS):
            some = self.take(rows)
            places = _places(low[rows], high[rows], _COARSE)
            found = some._lines_at(points[rows], places, self._last(self.fixed))
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

    def _lines_at(self, points: Array, places: Array, last: int) -> Array:
        """Return shares (Q, S, m, n) of places (Q, n) of the kept output, at each of S m points."""
        step = max(1, _HELD_NUMBERS // (points[0].size * places.shape[1]))
        parts = [slice(a, a + step) for a in range(0, len(self), step)]
        return np.concatenate(
            [self.take(rows)._lines_of_some(points[rows], places[rows], last) for rows in parts]
        )

    def _lines_of_some(self, points: Array, places: Array, last: int) -> Array:
        n_rows, n = places.shape
        flat = points.reshape(n_rows, -1, self.chain.dim)
        every = np.repeat(flat, n, axis=1)
        every[:, :, self.kept[0]] = np.tile(places, (1, flat.shape[1]))
        j = self.chain.order.index(self.kept[0])
        logs = sum(self.chain.log_link(i, every) for i in range(j, last))
        masses = _relative(np.asarray(logs).reshape(-1, n))
        return _of_sum_one(masses).reshape(*points.shape[:3], n)

    def knots(self) -> Array:
        """Of several outputs there are none."""
        raise NotImplementedError

    def pieces(self) -> Array:
        """Of several outputs there are none."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class _Weighted:
    """Draws of chains with some outputs held, and the logs of their weights.

    Of a query with fewer draws than another each set of draws comes again, without weight.
    """

    points: Array  # (Q, n, d)
    logs: Array  # (Q, n)
    counts: Integers  # of draws that were made, (Q,)

    @property
    def weights(self) -> Array:
        """Weights of sum 1, (Q, n)."""
        return _of_sum_one(_relative(self.logs))

    @property
    def effective(self) -> Array:
        """Draws that carry the weight, (Q,): 1 / Σ w²; 0 where what is given is impossible."""
        possible = np.isfinite(self.logs.max(axis=1))
        return np.where(possible, 1.0 / np.sum(self.weights**2, axis=1), 0.0)

    def log_mean(self) -> Array:
        """Return the log of the mean weight of the draws that were made, (Q,)."""
        return _log_mean(self.logs) + np.log(self.logs.shape[1] / self.counts)

    def take(self, rows: Rows) -> "_Weighted":
        """Return those of some queries."""
        return _Weighted(self.points[rows], self.logs[rows], self.counts[rows])

    def widened(self, n: int) -> "_Weighted":
        """Return the same in n columns."""
        n_rows, old, d = self.points.shape
        if n == old:
            return self
        sets, times = (n_rows, DRAW_SETS, old // DRAW_SETS), n // old
        points = np.tile(self.points.reshape(*sets, d), (1, 1, times, 1))
        unlikely = np.full((*sets[:2], n // DRAW_SETS - sets[2]), -np.inf)
        logs = np.concatenate([self.logs.reshape(sets), unlikely], axis=2)
        return _Weighted(points.reshape(n_rows, n, d), logs.reshape(n_rows, n), self.counts)

    def members(self, q: int, most: int) -> tuple[Integers, Array]:
        """Return places of draws of one query, and their weights: at most so many.

        Of more draws each set keeps some, chosen evenly by weight, that share the set's weight,
        and fills up with others of weight 0, which show how far draws spread.
        """
        sets = self.weights[q].reshape(DRAW_SETS, -1)
        size = int(self.counts[q]) // DRAW_SETS
        offsets = sets.shape[1] * np.arange(DRAW_SETS)[:, None]
        if size * DRAW_SETS <= most:
            return (offsets + np.arange(size)).ravel(), sets[:, :size].ravel()
        made, size = size, most // DRAW_SETS
        even = np.broadcast_to((np.arange(size) + 0.5) / size, (DRAW_SETS, size))
        chosen = choose_nodes(_of_sum_one(sets), even)
        times = np.stack([np.bincount(row, minlength=made) for row in chosen])[:, :made]
        places = np.argsort(-times, axis=1, kind="stable")[:, :size]
        weights = np.take_along_axis(times, places, axis=1) * (sets.sum(axis=1)[:, None] / size)
        return (offsets + places).ravel(), weights.ravel()


def _as_one(parts: "Sequence[_Weighted]") -> _Weighted:
    """Return the draws of several parts of the queries, one part after the other."""
    n = max(part.logs.shape[1] for part in parts)
    wide = [part.widened(n) for part in parts]
    return _Weighted(
        np.concatenate([part.points for part in wide]),
        np.concatenate([part.logs for part in wide]),
        np.concatenate([part.counts for part in wide]),
    )


def _warn_of_few(found: _Weighted) -> None:
    """Warn of queries given values so unlikely that hardly any draw has a weight."""
    effective = found.effective
    least = int(np.argmin(effective))
    if effective[least] < FEW_EFFECTIVE:
        warnings.warn(
            f"given: the values are very unlikely under the model: of {found.counts[least]} draws "
            f"about {effective[least]:.0f} carry the weight, and answers are rough. Ask for more "
            "draws by with_draws, or fit with the given outputs as the first columns of Y, which "
            "a chain in that order needs no draws for.",
            AccuracyWarning,
            stacklevel=2,
        )


def _deviations(values: Array, weights: Array) -> Array:
    """Return means by each set of draws, less those by all, of values of weighted draws (Q, n)."""
    n_rows, n = weights.shape
    starts = np.arange(0, n_rows * n + 1, n)
    return set_deviations(values.reshape(n_rows * n, -1), weights.ravel(), starts)


def _places(low: Array, high: Array, n: int) -> Array:
    """Return the middles of n cells between ends of their own, (Q, n)."""
    return low[:, None] + (high - low)[:, None] * (np.arange(n) + 0.5) / n


def _lines_of_sets(masses: Array, shares: Array, low: Array, high: Array) -> Batch:
    """Return densities between two ends, at nodes up to a factor by each set of draws, (Q, S, n).

    One line for each set, weighted by its share, so that sets tell the standard error.
    """
    n_rows, n_sets, n = masses.shape
    layout = GridLayout(Grid(np.zeros(1), np.ones(1), (n,)))
    unit = NodeBatch(layout, _of_sum_one(masses.reshape(-1, n)))
    shift, scale = (np.repeat(each, n_sets)[:, None] for each in (low, high - low))
    lines = AffineBatch(unit, shift, scale)
    if n_sets == 1:
        return lines
    starts = np.arange(0, n_rows * n_sets + 1, n_sets)
    return GroupedBatch(lines, starts, shares.ravel(), drawn=True)


def _relative(logs: Array) -> Array:
    """Return exponentials of logs (Q, …), relative to the largest of each row."""
    top = logs.max(axis=tuple(range(1, logs.ndim)), keepdims=True)
    return np.asarray(np.exp(logs - np.where(np.isfinite(top), top, 0.0)))


def _of_sum_one(masses: Array) -> Array:
    """Return masses (Q, n) divided by their sum; equal ones where it is 0."""
    total = masses.sum(axis=1, keepdims=True)
    return np.where(total > 0, masses / np.where(total > 0, total, 1.0), 1.0 / masses.shape[1])


def _log_mean(logs: Array) -> Array:
    """Return the log of the mean of exponentials over the last axis."""
    top = logs.max(axis=-1)
    safe = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(safe + np.log(np.exp(logs - safe[..., None]).mean(axis=-1)))


def share_below(draws: Array, points: Array, weights: Array | None = None) -> Array:
    """Return the share of weighted draws (Q, n, d) below points (Q, G, d), (Q, G)."""
    out = np.empty(points.shape[:2])
    for g in range(points.shape[1]):
        below = np.all(draws <= points[:, g, None, :], axis=2)
        out[:, g] = np.average(below, axis=1, weights=weights)
    return out
