"""Some outputs of a chain, given others that need not come first: by weighted draws."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kcdo.arrays import Array
from kcdo.distributions.affine import AffineBatch
from kcdo.distributions.batch import (
    DRAW_SETS,
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
from kcdo.measures import Grid
from kcdo.parallel import shared_property

if TYPE_CHECKING:
    from kcdo.distributions.chain import ChainBatch

_COARSE, _FINE = 64, 128  # nodes of a density on a line: first to find where it is, then for good
_FEW_DRAWS = 16  # are enough to find where it is
_LINE_DRAWS = 64  # at each node of a line
_MANY_PLACES = 4  # a density at very many places is a mean over so many times fewer draws
PICTURE_WIDTH = 0.25  # of the kernel over draws, in standard deviations
_WEIGHTED_EACH, _MOST_WEIGHTED = 4, 4096  # weighted draws for each one that is asked for
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
            return set_deviations(draws, weights)
        values = g(np.ascontiguousarray(draws).reshape(-1, self.dim))
        return set_deviations(values.reshape(*weights.shape, -1), weights)

    def _with_events(
        self, found: Array, g: Callable[[Array], Array], points: Array, values: Array
    ) -> Array:
        return found  # the cdf is by the same draws


@dataclass(frozen=True, eq=False)
class PartBatch(ByDraws):
    """The outputs ``kept`` of a chain, where the outputs ``fixed`` have known values.

    Where other outputs come before those in the order, their density is a mean over draws of the
    others: p(y_S | x) = E ∏_{j in S} p(y_j | x, what comes before), with S held and the others
    drawn (likelihood weighting). So are draws: those of the chain, weighted.

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

    def for_many_places(self) -> "PartBatch":
        """Return the same distributions, whose densities are means over fewer draws."""
        return self.with_draws(max(FEWEST_DRAWS, self.n_draws // _MANY_PLACES), self.chain.seed)

    def mode(self) -> Array:
        """Place of the highest density, as few draws have it."""
        few = self.with_draws(_FEW_DRAWS * _MANY_PLACES, self.chain.seed)
        return super(PartBatch, few).mode()

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
        return _log_mean(self._log_held(self.fixed, self.values[:, None]))[:, 0]

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
        return self._weighted(self._fixed_uniforms(self.n_draws))

    def _weighted(self, uniforms: Array) -> tuple[Array, Array]:
        """Return draws (Q, n, d) made of uniforms (Q, n, k), and their weights, given others."""
        assert self.values is not None
        known = self.values[:, None]
        draws, logs = self._held_draws(self.fixed, known, uniforms, self.chain.dim)
        return draws[:, :, list(self.kept)], _of_sum_one(_relative(logs))

    def sample(self, uniforms: Array) -> Array:
        """Draws of the chain; given others, chosen of weighted ones, so that some may come again.

        These are other ones at every call: even ones, shifted by the first uniforms of each query.
        """
        if self.values is None:
            return self.chain.sample(uniforms)[:, :, list(self.kept)]
        n = max(self.n_draws, min(_MOST_WEIGHTED, _WEIGHTED_EACH * uniforms.shape[1]))
        even = even_uniforms(1 << (n - 1).bit_length(), self.uniforms)
        draws, weights = self._weighted((even + uniforms[:, :1]) % 1.0)
        chosen = choose_nodes(weights, uniforms[:, :, 0])
        return np.take_along_axis(draws, chosen[:, :, None], axis=1)

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
        assert self.values is not None
        j = self.chain.order.index(self.kept[0])
        uniforms = self._fixed_uniforms(self.n_draws)
        points, logs = self._held_draws(self.fixed, self.values[:, None], uniforms, j)
        links = self.chain.new_link_batch(j, points)
        starts = np.arange(0, len(links) + 1, self.n_draws)
        weights = _of_sum_one(_relative(logs))
        return GroupedBatch(links, starts, weights.ravel(), drawn=True)

    def on_a_line(self) -> Batch:
        """Return the distributions of the one output that is kept, by densities at many nodes."""
        draws = self.chain.drawn[:, :, self.kept[0]]
        low, high = draws.min(axis=1), draws.max(axis=1)
        margin = _BEYOND * np.maximum(high - low, 1e-12 * (1.0 + np.abs(low)))
        low, high = low - margin, high + margin
        places = _places(low, high, _COARSE)
        look = self.with_draws(min(self.n_draws, _FEW_DRAWS), self.chain.seed)
        logs = _log_mean(look._log_joint(places[:, :, None]))
        likely = logs >= logs.max(axis=1, keepdims=True) + np.log(_UNLIKELY)
        first = np.argmax(likely, axis=1)
        last = likely.shape[1] - 1 - np.argmax(likely[:, ::-1], axis=1)
        cell = (high - low) / _COARSE
        low, high = low + first * cell - cell, low + (last + 1) * cell + cell
        fine = self.with_draws(min(self.n_draws, _LINE_DRAWS), self.chain.seed)
        logs = fine._log_joint(_places(low, high, _FINE)[:, :, None])
        return _lines_of_sets(logs.transpose(0, 2, 1), low, high)

    def knots(self) -> Array:
        """Of several outputs there are none."""
        raise NotImplementedError

    def pieces(self) -> Array:
        """Of several outputs there are none."""
        raise NotImplementedError


def _places(low: Array, high: Array, n: int) -> Array:
    """Return the middles of n cells between ends of their own, (Q, n)."""
    return low[:, None] + (high - low)[:, None] * (np.arange(n) + 0.5) / n


def _lines_of_sets(logs: Array, low: Array, high: Array) -> Batch:
    """Return densities between two ends, given up to a factor by each set of draws, (Q, S, n).

    One line for each set, weighted by its total, so that sets tell the standard error.
    """
    n_rows, n_sets, n = logs.shape
    masses = _relative(logs)
    shares = _of_sum_one(masses.sum(axis=2))
    unit = NodeBatch(
        GridLayout(Grid(np.zeros(1), np.ones(1), (n,))), _of_sum_one(masses.reshape(-1, n))
    )
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
