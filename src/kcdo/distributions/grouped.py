"""Mixtures of as many distributions as there are points: uncertain inputs, and draws before."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kcdo.arrays import Array, Integers
from kcdo.distributions.batch import Batch, Function, Rows, join
from kcdo.distributions.draw_errors import set_deviations
from kcdo.distributions.integration import NO_CUTS
from kcdo.distributions.roots import monotone_roots

_NUMBERS = 1 << 20  # densities held at a time
_PIECES = 96  # of a mixture of many: where they begin and end no longer shows
_ACCURACY = 1e-9  # of the probability below a quantile
_DOUBLINGS = 60
_NEGLIGIBLE = 1e-7  # weight of a member that costs much, relative to the greatest
_FEW_MEMBERS = 64  # stand for all where costly densities may be rough


@dataclass(frozen=True, eq=False)
class GroupedBatch(Batch):
    """Distribution q is a mixture of members ``starts[q]`` to ``starts[q + 1]`` of one batch.

    Parameters
    ----------
    inner : Batch
        S distributions, those of one group after the other.
    starts : (Q + 1,)
        Where the groups begin; none is empty.
    weights : (S,)
        Not negative, of sum 1 in each group.
    drawn : bool
        Whether the members of each group are draws: independent sets of equal size, one after the
        other. Groups may differ in size.
    """

    inner: Batch
    starts: Integers
    weights: Array
    drawn: bool = False

    @classmethod
    def of_draws(cls, inner: Batch, size: int) -> "GroupedBatch":
        """Mix every ``size`` distributions that follow one another, equally: draws."""
        starts = np.arange(0, len(inner) + 1, size)
        return cls(inner, starts, np.full(len(inner), 1.0 / size), drawn=True)

    @property
    def dim(self) -> int:
        """Number of outputs."""
        return self.inner.dim

    @property
    def width(self) -> int:
        """Numbers held for each distribution."""
        return self.inner.width * max(1, len(self.inner) // max(1, len(self)))

    @property
    def uniforms(self) -> int:
        """Uniform numbers that a draw is made of."""
        return self.inner.uniforms

    @property
    def by_draws(self) -> bool:
        """Whether a density of the members costs much."""
        return self.inner.by_draws

    @property
    def averaged(self) -> int:
        """Distributions of chains that a density is a mean over: those of all members."""
        each = len(self.inner) // max(1, len(self))
        return max(1, each) * self.inner.averaged if self.by_draws else 1

    @property
    def draw_seed(self) -> int:
        """Seed of the members' draws."""
        return self.inner.draw_seed

    @property
    def n_draws(self) -> int:
        """Draws that stand for a distribution of several outputs."""
        return self.inner.n_draws

    def __len__(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def _group_of(self) -> Integers:
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def take(self, rows: Rows) -> "GroupedBatch":
        """Return some of the distributions."""
        chosen = np.arange(len(self))[rows]
        sizes = np.diff(self.starts)[chosen]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        within = np.arange(starts[-1]) - np.repeat(starts[:-1], sizes)
        members = np.repeat(self.starts[chosen], sizes) + within
        return GroupedBatch(self.inner.take(members), starts, self.weights[members], self.drawn)

    def joined(self, others: Sequence["GroupedBatch"]) -> "GroupedBatch":
        """Return these distributions followed by others."""
        every = [self, *others]
        sizes = np.concatenate([np.diff(each.starts) for each in every])
        return GroupedBatch(
            join([each.inner for each in every]),
            np.concatenate([[0], np.cumsum(sizes)]),
            np.concatenate([each.weights for each in every]),
            self.drawn,
        )

    def marginal(self, dims: Sequence[int]) -> "GroupedBatch":
        """Return the mixtures of the marginals."""
        return replace(self, inner=self.inner.marginal(dims))

    def given(self, dims: Sequence[int], values: Array) -> "GroupedBatch":
        """Return mixtures of the conditionals: each weighs by the likelihood of the values.

        Without members of hardly any weight, where each costs much: of a value that is unlikely
        for them they would take many draws.
        """
        own = values[self._group_of]
        logs = self.inner.marginal(dims).logpdf_pairs(own)
        top = np.maximum.reduceat(logs, self.starts[:-1])[self._group_of]
        weights = self.weights * np.exp(logs - np.where(np.isfinite(top), top, 0.0))
        total = self._sums(weights[:, None])[:, 0]
        weights = np.where(total[self._group_of] > 0, weights, self.weights)
        total = np.where(total > 0, total, 1.0)
        weights = weights / total[self._group_of]
        most = np.maximum.reduceat(weights, self.starts[:-1])[self._group_of]
        kept = np.flatnonzero(weights >= (_NEGLIGIBLE * most if self.by_draws else 0.0))
        starts = np.searchsorted(kept, self.starts)
        weights = weights[kept] / np.add.reduceat(weights[kept], starts[:-1])[self._group_of[kept]]
        return GroupedBatch(self.inner.take(kept).given(dims, own[kept]), starts, weights)

    def with_mapped_parts(self, mapped: Callable[[Batch], Batch]) -> "GroupedBatch":
        """Return the mixtures of mapped members."""
        return replace(self, inner=mapped(self.inner))

    def for_many_places(self) -> "GroupedBatch":
        """Return the same distributions: of few members, if their densities cost much."""
        if not self.by_draws or len(self.inner) <= _FEW_MEMBERS * len(self):
            rough = self.inner.for_many_places()
            return self if rough is self.inner else replace(self, inner=rough)
        bounds = zip(self.starts[:-1], self.starts[1:], strict=True)
        even = (np.arange(_FEW_MEMBERS) + 0.5) / _FEW_MEMBERS
        chosen = [a + np.searchsorted(np.cumsum(self.weights[a : b - 1]), even) for a, b in bounds]
        members = self.inner.take(np.concatenate(chosen)).for_many_places()
        return GroupedBatch.of_draws(members, _FEW_MEMBERS)

    def with_draws(self, n_draws: int, seed: int) -> "GroupedBatch":
        """Return the same distributions; what is computed from draws then uses other draws."""
        return replace(self, inner=self.inner.with_draws(n_draws, seed))

    def draw_deviations(self, g: Function | None) -> Array:
        """Return expectations by each set of draws, less those by all.

        Members that are no draws share their uniforms: their errors do not average out.
        """
        if not self.drawn:
            inner = self.inner.draw_deviations(g)
            flat = self._sums(self.weights[:, None] * inner.reshape(len(inner), -1))
            return flat.reshape(len(self), *inner.shape[1:])
        values = self.inner.moments()[0] if g is None else self.inner.expect(g)
        return set_deviations(values, self.weights, self.starts)

    def atoms(self) -> tuple[Array, Array] | None:
        """Atoms of the members: their probabilities, averaged over each group."""
        inner = self.inner.atoms()
        return inner and (inner[0], self._sums(self.weights[:, None] * inner[1]))

    def pdf(self, points: Array) -> Array:
        """Density at shared points."""
        return self._mixed(lambda inner, _: inner.pdf(points), len(points))

    def cdf(self, points: Array) -> Array:
        """Joint cdf at shared points."""
        return self._mixed(lambda inner, _: inner.cdf(points), len(points))

    def pdf_each(self, points: Array) -> Array:
        """Density of each distribution at its own points."""
        return self._mixed(lambda inner, group: inner.pdf_each(points[group]), points[0].size)

    def cdf_each(self, points: Array) -> Array:
        """Joint cdf of each distribution at its own points."""
        return self._mixed(lambda inner, group: inner.cdf_each(points[group]), points[0].size)

    def pair_picture(self, pair: tuple[int, int], across: Array, up: Array) -> Array:
        """Return the joint density of two outputs: of costly members the mean of their pictures."""
        if not self.by_draws:
            return super().pair_picture(pair, across, up)
        few = self.for_many_places()
        pictures = few.inner.pair_picture(pair, across, up)
        flat = few._sums(few.weights[:, None] * pictures.reshape(len(pictures), -1))
        return flat.reshape(len(self), len(across), len(up))

    def logpdf(self, points: Array) -> Array:
        """Log density at shared points: finite where that of any member is."""
        return self._log_mixed(lambda inner, _: inner.logpdf(points), len(points))

    def logpdf_each(self, points: Array) -> Array:
        """Log density of each distribution at its own points."""
        return self._log_mixed(
            lambda inner, group: inner.logpdf_each(points[group]), points[0].size
        )

    def moments(self) -> tuple[Array, Array]:
        """Mean and covariance, by the law of total variance."""
        means, covs = self.inner.moments()
        mean = self._sums(self.weights[:, None] * means)
        gap = means - mean[self._group_of]
        covs = covs + gap[:, :, None] * gap[:, None, :]
        flat = self._sums(self.weights[:, None] * covs.reshape(len(covs), -1))
        return mean, flat.reshape(-1, self.dim, self.dim)

    def expect(self, g: Callable[[Array], Array], cuts: Array = NO_CUTS) -> Array:
        """E g(Y): the weighted mean of E g(Y) of the members."""
        return self._sums(self.weights[:, None] * self.inner.expect(g, cuts))

    @property
    def has_moment_points(self) -> bool:
        """Whether the members have some."""
        return self.inner.has_moment_points

    def sample(self, uniforms: Array) -> Array:
        """Draws: the first uniform chooses the member, and its remainder serves that member."""
        n_rows, n, k = uniforms.shape
        group = np.repeat(np.arange(n_rows), n)
        edges = np.cumsum(self.weights)
        before = np.concatenate([[0.0], edges])
        low, high = before[self.starts[:-1]], before[self.starts[1:]]
        wanted = low[group] + uniforms[:, :, 0].ravel() * (high - low)[group]
        member = np.searchsorted(edges, wanted, side="right")
        member = np.clip(member, self.starts[group], self.starts[group + 1] - 1)
        inner = uniforms.reshape(-1, 1, k).copy()
        left = (wanted - before[member]) / np.where(
            self.weights[member] > 0, self.weights[member], 1
        )
        inner[:, 0, 0] = np.clip(left, 0.0, np.nextafter(1.0, 0.0))
        step = max(1, _NUMBERS // self.inner.width)
        parts = [slice(start, start + step) for start in range(0, len(inner), step)]
        draws = [self.inner.take(member[part]).sample(inner[part])[:, 0] for part in parts]
        return np.concatenate(draws).reshape(n_rows, n, self.dim)

    def quantile(self, levels: Array) -> Array:
        """Quantiles of each marginal: roots of the distribution function."""
        lines = [self] if self.dim == 1 else [self.marginal([i]) for i in range(self.dim)]
        return np.stack([line._line_quantile(levels) for line in lines], axis=2)

    def _line_quantile(self, levels: Array) -> Array:
        places = self.knots()
        below = self.cdf_each(places[:, :, None])
        wanted = np.broadcast_to(levels, (len(self), len(levels)))
        upper = np.sum(below[:, None, :] < wanted[:, :, None], axis=2)
        last = places.shape[1] - 1
        low = np.take_along_axis(places, np.clip(upper - 1, 0, last), axis=1)
        high = np.take_along_axis(places, np.clip(upper, 0, last), axis=1)
        low, high = self._widened(low, high, wanted)
        ends = self.support()[:, :, 0]
        low = np.where(levels <= 0, ends[:, :1], np.where(levels >= 1, ends[:, 1:], low))
        high = np.where(levels <= 0, ends[:, :1], np.where(levels >= 1, ends[:, 1:], high))

        def excess(rows: Integers, y: Array) -> Array:
            some = self if len(rows) == len(self) else self.take(rows)
            return some.cdf_each(y[:, :, None]) - wanted[rows]

        accuracy = 2e-15 + _ACCURACY * np.minimum(wanted, 1.0 - wanted)
        return monotone_roots(excess, low, high, accuracy)

    def _widened(self, low: Array, high: Array, wanted: Array) -> tuple[Array, Array]:
        """Return brackets that hold the quantiles, also those beyond all knots."""
        step = np.maximum(np.ptp(self.knots(), axis=1), 1e-300)[:, None]
        inner = (wanted > 0) & (wanted < 1)
        for _ in range(_DOUBLINGS):
            above = inner & (self.cdf_each(low[:, :, None]) > wanted)
            under = inner & (self.cdf_each(high[:, :, None]) < wanted)
            if not (above.any() or under.any()):
                break
            low, high = np.where(above, low - step, low), np.where(under, high + step, high)
            step = 2.0 * step
        return low, high

    def support(self) -> Array:
        """Least and greatest place of positive density in any member that has a weight."""
        ends, present = self.inner.support(), (self.weights > 0)[:, None]
        first = self.starts[:-1]
        low = np.minimum.reduceat(np.where(present, ends[:, 0], np.inf), first, axis=0)
        high = np.maximum.reduceat(np.where(present, ends[:, 1], -np.inf), first, axis=0)
        return np.stack([low, high], axis=1)

    def knots(self) -> Array:
        """Return some of the knots of all members, evenly chosen."""
        return self._thinned(self.inner.knots())

    def pieces(self) -> Array:
        """Return some of the pieces of all members, evenly chosen; all, where members agree."""
        return self._thinned(self.inner.pieces())

    def _thinned(self, places: Array) -> Array:
        bounds = zip(self.starts[:-1], self.starts[1:], strict=True)
        present = self.weights > 0
        every = [np.unique(places[a:b][present[a:b]]) for a, b in bounds]
        agree = max(len(each) for each in every) <= places.shape[1]
        n = places.shape[1] if agree else _PIECES + 1
        return np.stack([e[np.linspace(0, len(e) - 1, n).round().astype(int)] for e in every])

    def candidates(self) -> Array:
        """For d > 1: draws."""
        return self.ranked_draws()

    def _sums(self, values: Array) -> Array:
        """Return the sum of the values (S, k) of each group, (Q, k)."""
        return np.add.reduceat(values, self.starts[:-1], axis=0)

    def _mixed(self, answer: Callable[[Batch, Integers], Array], width: int) -> Array:
        """Return the mean of the members' answers, a part of the members at a time."""
        step = max(1, _NUMBERS // max(1, width))
        out: Array | None = None
        for start in range(0, len(self.inner), step):
            part, group = slice(start, start + step), self._group_of[start : start + step]
            values = self.weights[part, None] * answer(self.inner.take(part), group)
            first = np.flatnonzero(np.diff(group, prepend=-1))
            out = np.zeros((len(self), values.shape[1])) if out is None else out
            out[group[first]] += np.add.reduceat(values, first, axis=0)
        assert out is not None
        return out

    def _log_mixed(self, answer: Callable[[Batch, Integers], Array], width: int) -> Array:
        """Return the log of the mean of exponentials of the members' answers."""
        log_weights = np.log(np.maximum(self.weights, 1e-300))[:, None]
        step = max(1, _NUMBERS // max(1, width))
        out: Array | None = None
        for start in range(0, len(self.inner), step):
            part, group = slice(start, start + step), self._group_of[start : start + step]
            logs = log_weights[part] + answer(self.inner.take(part), group)
            first = np.flatnonzero(np.diff(group, prepend=-1))
            found = _log_sums(logs, first)
            out = np.full((len(self), logs.shape[1]), -np.inf) if out is None else out
            out[group[first]] = np.logaddexp(out[group[first]], found)
        assert out is not None
        return out


def _log_sums(logs: Array, first: Integers) -> Array:
    """Return log Σ exp of groups of rows that begin at ``first``."""
    top = np.maximum.reduceat(logs, first, axis=0)
    top = np.where(np.isfinite(top), top, 0.0)
    size = np.diff([*first, len(logs)])
    with np.errstate(divide="ignore"):
        total = np.log(np.add.reduceat(np.exp(logs - np.repeat(top, size, axis=0)), first, axis=0))
    return np.asarray(total + top)
