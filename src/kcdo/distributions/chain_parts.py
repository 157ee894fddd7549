"""Some outputs of a chain, given others that need not come first: by weighted draws."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kcdo.arrays import Array, Integers
from kcdo.distributions.batch import (
    FEWEST_DRAWS,
    Batch,
    Function,
    Rows,
    even_uniforms,
)
from kcdo.distributions.chain_lines import by_its_link, on_a_line
from kcdo.distributions.draw_errors import DRAW_SETS
from kcdo.distributions.layouts import choose_nodes
from kcdo.distributions.weighted_draws import (
    HELD_NUMBERS,
    WeightedDraws,
    as_one,
    deviations,
    log_mean,
    warn_of_few,
)
from kcdo.parallel import shared_property

if TYPE_CHECKING:
    from kcdo.distributions.chain import ChainBatch

_MANY_PLACES = 4  # a rough density is a mean over so many times fewer draws
PICTURE_WIDTH = 0.25  # of the kernel over draws, in standard deviations
_WEIGHTED_EACH, _MOST_WEIGHTED = 4, 4096  # weighted draws for each one that is asked for
_LEAST_RANKED = 128  # chosen of weighted draws, for levels and entropies
_EFFECTIVE = 64  # weighted draws that shall carry the weight
_PICTURE_DRAWS = 2048  # weighted ones, that are smoothed for a picture


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
            return deviations(draws, weights)
        values = g(np.ascontiguousarray(draws).reshape(-1, self.dim))
        return deviations(values, weights)

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
        return by_its_link(part) if set(fixed) <= set(before) else on_a_line(part)

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
        return 1 if self.n_links(held) == len(held) else self.n_draws

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
        if self.n_links(held := (*self.fixed, *both)) == len(held):
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
        return log_mean(self.log_joint(points)) - self._log_given()[:, None]

    def log_joint(self, points: Array) -> Array:
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
        if self.n_links(self.fixed) == len(self.fixed):
            return self._log_held(self.fixed, self.values[:, None])[:, 0, 0]
        return self._given_draws.log_mean()

    def _log_held(self, held: tuple[int, ...], values: Array) -> Array:
        """Return log p(y_S | x) of outputs that are held at values (Q, G, |S|).

        By each set of draws, (Q, G, DRAW_SETS); exact, (Q, G, 1), where no others come before.
        """
        last = self.n_links(held)
        alone = last == len(held)
        n = 1 if alone else self.n_draws
        _, logs = self._held_draws(held, values, self._fixed_uniforms(n), last)
        return log_mean(logs.reshape(*values.shape[:2], 1 if alone else DRAW_SETS, -1))

    def n_links(self, held: tuple[int, ...]) -> int:
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
    def _given_draws(self) -> WeightedDraws:
        """Draws of the chain with what is given held, as many as it takes."""
        return self.enough_draws(self.n_draws, self.chain.dim)

    def enough_draws(self, n: int, last: int, shift: Array | None = None) -> WeightedDraws:
        """Return draws of the first links, with what is given held: n, or as many as it takes.

        Fixed ones, or even ones that are shifted, (Q, 1, k). A query's do not hang on others.
        """
        step = max(1, HELD_NUMBERS // (n * self.chain.dim))
        parts = [slice(a, a + step) for a in range(0, len(self), step)]
        shifts = [None if shift is None else shift[rows] for rows in parts]
        found = [
            self.take(rows)._more_draws(n, last, own)
            for rows, own in zip(parts, shifts, strict=True)
        ]
        every = as_one(found)
        if self.chain.warns:
            warn_of_few(every)
        return every

    def _more_draws(self, n: int, last: int, shift: Array | None) -> WeightedDraws:
        assert self.values is not None
        uniforms = self._even_uniforms(n, shift)
        points, logs = self._held_draws(self.fixed, self.values[:, None], uniforms, last)
        found = WeightedDraws(points, logs, np.full(len(self), n))
        counts = self._wanted_draws(found, n)
        parts = [(found.take(counts == n), np.flatnonzero(counts == n))]
        for count in np.unique(counts[counts > n]):
            rows = np.flatnonzero(counts == count)
            own = None if shift is None else shift[rows]
            parts.append((self.take(rows)._more_draws(int(count), last, own), rows))
        there = [(part, rows) for part, rows in parts if len(rows)]
        back = np.argsort(np.concatenate([rows for _, rows in there]))
        return as_one([part for part, _ in there]).take(back)

    def _wanted_draws(self, found: WeightedDraws, n: int) -> Integers:
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
        made = self.enough_draws(count, self.chain.dim, uniforms[:, :1])
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

    def knots(self) -> Array:
        """Of several outputs there are none."""
        raise NotImplementedError

    def pieces(self) -> Array:
        """Of several outputs there are none."""
        raise NotImplementedError


def share_below(draws: Array, points: Array, weights: Array | None = None) -> Array:
    """Return the share of weighted draws (Q, n, d) below points (Q, G, d), (Q, G)."""
    out = np.empty(points.shape[:2])
    for g in range(points.shape[1]):
        below = np.all(draws <= points[:, g, None, :], axis=2)
        out[:, g] = np.average(below, axis=1, weights=weights)
    return out
