"""Mixtures of distributions of any kind."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array, Integers
from kcdo.distributions.batch import FEWEST_DRAWS, Batch, Function, Rows, join, log
from kcdo.distributions.integration import NO_CUTS
from kcdo.distributions.roots import monotone_roots
from kcdo.errors import InvalidInputError

_MOST_KNOTS = 4096


class MixtureBatch(Batch):
    """Σ_k w_qk p_qk: distribution q mixes distribution q of every part.

    Parameters
    ----------
    parts : sequence of Batch
        k batches of Q distributions; they may be mixtures too.
    weights : (Q, k) or (k,)
        Not negative, of sum 1.
    """

    def __init__(self, parts: Sequence[Batch], weights: Array) -> None:
        if not parts or len({(len(part), part.dim) for part in parts}) > 1:
            sizes = [(len(part), part.dim) for part in parts]
            raise InvalidInputError(
                f"a mixture needs parts of as many distributions and outputs each; got {sizes}."
            )
        shape = (len(parts[0]), len(parts))
        weights = np.asarray(weights, dtype=float)
        if weights.shape not in (shape, shape[1:]):
            raise InvalidInputError(
                f"the weights of a mixture must be {shape} or {shape[1:]}; got {weights.shape}."
            )
        self.parts = tuple(parts)
        self.weights = np.broadcast_to(weights, shape)

    @property
    def dim(self) -> int:
        """Number of outputs."""
        return self.parts[0].dim

    @property
    def width(self) -> int:
        """Numbers held for each distribution."""
        return sum(part.width for part in self.parts) + len(self.parts)

    @property
    def uniforms(self) -> int:
        """Uniform numbers that a draw of any part is made of."""
        return max(part.uniforms for part in self.parts)

    @property
    def by_draws(self) -> bool:
        """Whether a density of any part costs much."""
        return any(part.by_draws for part in self.parts)

    @property
    def averaged(self) -> int:
        """Distributions of chains that the density of a part is a mean over, at most."""
        return max(part.averaged for part in self.parts)

    @property
    def draw_seed(self) -> int:
        """Seed of the draws of the first part."""
        return self.parts[0].draw_seed

    @property
    def n_draws(self) -> int:
        """Draws that stand for a distribution of several outputs."""
        return min(part.n_draws for part in self.parts)

    def __len__(self) -> int:
        return len(self.weights)

    def take(self, rows: Rows) -> "MixtureBatch":
        """Return some of the distributions."""
        return MixtureBatch([part.take(rows) for part in self.parts], self.weights[rows])

    def joined(self, others: Sequence["MixtureBatch"]) -> "MixtureBatch":
        """Return these distributions followed by others."""
        every = [self, *others]
        parts = [join(same) for same in zip(*(b.parts for b in every), strict=True)]
        return MixtureBatch(parts, np.concatenate([b.weights for b in every]))

    def marginal(self, dims: Sequence[int]) -> "MixtureBatch":
        """Return the mixture of the parts' marginals."""
        return MixtureBatch([part.marginal(dims) for part in self.parts], self.weights)

    def given(self, dims: Sequence[int], values: Array) -> "MixtureBatch":
        """Return mixtures of the conditionals: each weighs by the likelihood of the values."""
        logs = [part.marginal(dims).logpdf_pairs(values) for part in self.parts]
        scores = log(self.weights) + np.stack(logs, axis=1)
        top = scores.max(axis=1, keepdims=True)
        weights = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
        total = weights.sum(axis=1, keepdims=True)
        weights = np.where(total > 0, weights / np.where(total > 0, total, 1.0), self.weights)
        return MixtureBatch([part.given(dims, values) for part in self.parts], weights)

    def with_mapped_parts(self, mapped: Callable[[Batch], Batch]) -> "MixtureBatch":
        """Return the mixture of mapped parts."""
        return MixtureBatch([mapped(part) for part in self.parts], self.weights)

    def for_many_places(self) -> "MixtureBatch":
        """Return the mixture of the parts, as far as their densities may be rough."""
        parts = [part.for_many_places() for part in self.parts]
        same = all(a is b for a, b in zip(parts, self.parts, strict=True))
        return self if same else MixtureBatch(parts, self.weights)

    def with_draws(self, n_draws: int, seed: int) -> "MixtureBatch":
        """Return the same distributions; what is computed from draws then uses other draws.

        Parts share them, each with draws of its own.
        """
        k = len(self.parts)
        each = max(FEWEST_DRAWS, 1 << ((n_draws // k).bit_length() - 1))
        parts = [part.with_draws(each, k * seed + i) for i, part in enumerate(self.parts)]
        return MixtureBatch(parts, self.weights)

    def fixed_draws(self) -> Array | None:
        """Return draws of the parts, of each as many as its weight, where all queries agree."""
        drawn = [part.fixed_draws() for part in self.parts]
        known = [draws for draws in drawn if draws is not None]
        if len(known) < len(drawn) or np.any(self.weights != self.weights[:1]):
            return None
        shares = np.maximum(self.weights[0], 1e-12)
        n = min(draws.shape[1] / share for draws, share in zip(known, shares, strict=True))
        sizes = np.rint(n * shares).astype(int)
        parts = [draws[:, :size] for draws, size in zip(known, sizes, strict=True)]
        return np.concatenate(parts, axis=1)

    def pair_picture(self, pair: tuple[int, int], across: Array, up: Array) -> Array:
        """Return the mixture of the parts' pictures of two outputs."""
        each = [part.pair_picture(pair, across, up) for part in self.parts]
        return np.einsum("qp,pqnm->qnm", self.weights, each)

    def draw_deviations(self, g: Function | None) -> Array:
        """Return expectations by each set of draws, less those by all."""
        each = np.stack([part.draw_deviations(g) for part in self.parts], axis=1)
        return np.einsum("qp,qpsk->qsk", self.weights, each)

    def pdf(self, points: Array) -> Array:
        """Density at shared points."""
        return self._mixed(lambda part: part.pdf(points))

    def cdf(self, points: Array) -> Array:
        """Joint cdf at shared points."""
        return self._mixed(lambda part: part.cdf(points))

    def pdf_each(self, points: Array) -> Array:
        """Density of each distribution at its own points."""
        return self._mixed(lambda part: part.pdf_each(points))

    def cdf_each(self, points: Array) -> Array:
        """Joint cdf of each distribution at its own points."""
        return self._mixed(lambda part: part.cdf_each(points))

    def logpdf(self, points: Array) -> Array:
        """Log density at shared points: finite where that of any part is."""
        return self._log_mixed(lambda part: part.logpdf(points))

    def logpdf_each(self, points: Array) -> Array:
        """Log density of each distribution at its own points."""
        return self._log_mixed(lambda part: part.logpdf_each(points))

    def moments(self) -> tuple[Array, Array]:
        """Mean and covariance, by the law of total variance."""
        moments = [part.moments() for part in self.parts]
        mean = sum(w[:, None] * m for w, (m, _) in zip(self.weights.T, moments, strict=True))
        cov = np.zeros((len(self), self.dim, self.dim))
        for w, (m, c) in zip(self.weights.T, moments, strict=True):
            gap = m - mean
            cov += w[:, None, None] * (c + gap[:, :, None] * gap[:, None, :])
        return np.asarray(mean), cov

    @property
    def has_moment_points(self) -> bool:
        """Whether all parts have some."""
        return all(part.has_moment_points for part in self.parts)

    def atoms(self) -> tuple[Array, Array] | None:
        """Atoms of all parts, at the same values: their probabilities times the weights."""
        found = [(part.atoms(), w) for part, w in zip(self.parts, self.weights.T, strict=True)]
        there = [(atoms, w[:, None]) for atoms, w in found if atoms is not None]
        if not there:
            return None
        places = np.unique(np.concatenate([atoms[0] for atoms, _ in there]))
        total = np.zeros((len(self), len(places)))
        for atoms, w in there:
            total[:, np.searchsorted(places, atoms[0])] += w * atoms[1]
        return places, total

    def quantile(self, levels: Array) -> Array:
        """Quantiles of each marginal: roots between the least and the largest of the parts."""
        out = np.empty((len(self), len(levels), self.dim))
        for i in range(self.dim):
            line = self if self.dim == 1 else self.marginal([i])
            out[:, :, i] = line._line_quantile(levels)
        return out

    def _line_quantile(self, levels: Array) -> Array:
        places = np.stack([part.quantile(levels)[:, :, 0] for part in self.parts])
        present = (self.weights.T > 0)[:, :, None]
        low = np.where(present, places, np.inf).min(axis=0)
        high = np.where(present, places, -np.inf).max(axis=0)
        # the ends of the support are those of the parts
        low, high = np.where(levels >= 1, high, low), np.where(levels <= 0, low, high)
        wanted = np.broadcast_to(levels, low.shape)

        def excess(rows: Integers, y: Array) -> Array:
            some = self if len(rows) == len(self) else self.take(rows)
            return some.cdf_each(y[:, :, None]) - wanted[rows]

        return monotone_roots(excess, low, high, 2e-15 + 1e-12 * np.minimum(wanted, 1.0 - wanted))

    def sample(self, uniforms: Array) -> Array:
        """Draws: the first uniform chooses the part, and its remainder serves that part."""
        edges = np.cumsum(self.weights, axis=1)
        edges = np.hstack([np.zeros((len(self), 1)), edges / edges[:, -1:]])
        first = uniforms[:, :, 0]
        chosen = np.sum(first[:, :, None] >= edges[:, None, 1:-1], axis=2)
        low, high = (np.take_along_axis(e, chosen, axis=1) for e in (edges[:, :-1], edges[:, 1:]))
        inner = uniforms.copy()
        share = (first - low) / np.where(high > low, high - low, 1.0)
        inner[:, :, 0] = np.clip(share, 0.0, np.nextafter(1.0, 0.0))
        draws = np.empty((*first.shape, self.dim))
        for k, part in enumerate(self.parts):
            _fill(draws, part, inner, chosen == k)
        return draws

    def support(self) -> Array:
        """Least and greatest place of positive density in any part that has a weight."""
        ends = np.stack([part.support() for part in self.parts])
        present = (self.weights.T > 0)[:, :, None]
        low = np.where(present, ends[:, :, 0], np.inf).min(axis=0)
        high = np.where(present, ends[:, :, 1], -np.inf).max(axis=0)
        return np.stack([low, high], axis=1)

    def quadrature(self) -> tuple[Array, Array]:
        """For d > 1, the points of all parts, their masses times the weights."""
        if self.dim == 1:
            return super().quadrature()
        rules = [part.quadrature() for part in self.parts]
        masses = [w[:, None] * m for w, (_, m) in zip(self.weights.T, rules, strict=True)]
        return np.concatenate([p for p, _ in rules], axis=1), np.concatenate(masses, axis=1)

    def expect(self, g: Callable[[Array], Array], cuts: Array = NO_CUTS) -> Array:
        """E g(Y): the weighted mean of E g(Y) of the parts."""
        return self._mixed(lambda part: part.expect(g, cuts))

    def knots(self) -> Array:
        """Return the knots of all parts, thinned out where they are very many."""
        return _joined([part.knots() for part in self.parts])

    def pieces(self) -> Array:
        """Return the pieces of all parts, thinned out where they are very many."""
        return _joined([part.pieces() for part in self.parts])

    def candidates(self) -> Array:
        """For d > 1: draws, and where each part is highest, roughly where that costs much."""
        modes = [part.for_many_places().mode()[:, None, :] for part in self.parts]
        return np.concatenate([super().candidates(), *modes], axis=1)

    def square_integral(self) -> Array:
        """∫ p²; for d > 1 each part's own integral, and quadratures of one part in another."""
        if self.dim == 1:
            return super().square_integral()
        out = np.zeros(len(self))
        for k, part in enumerate(self.parts):
            others = [i for i in range(len(self.parts)) if i != k]
            out += self.weights[:, k] ** 2 * part.square_integral()
            if others:
                rest = MixtureBatch([self.parts[i] for i in others], self.weights[:, others])
                out += self.weights[:, k] * rest._mean_density(part)
        return out

    def _mean_density(self, under: Batch) -> Array:
        """Return E p(Y) for Y of another batch, (Q,); of draws of Y by half of them."""

        def of_some(rows: Rows) -> Array:
            points, masses = under.take(rows).quadrature()
            if under.fixed_draws() is not None and not isinstance(under, MixtureBatch):
                # the first sets of even draws: each costs a distribution of every link
                points = points[:, : max(FEWEST_DRAWS, points.shape[1] // 2)]
                masses = np.full(points.shape[:2], 1.0 / points.shape[1])
            return np.einsum("qk,qk->q", masses, self.take(rows).pdf_each(points))

        return np.concatenate([of_some(rows) for rows in self._blocks()])

    def _mixed(self, answer: Callable[[Batch], Array]) -> Array:
        out = self.weights[:, :1] * answer(self.parts[0])
        for k, part in enumerate(self.parts[1:], 1):
            out += self.weights[:, k, None] * answer(part)
        return out

    def _log_mixed(self, answer: Callable[[Batch], Array]) -> Array:
        weights = log(self.weights)
        out = weights[:, :1] + answer(self.parts[0])
        for k, part in enumerate(self.parts[1:], 1):
            np.logaddexp(out, weights[:, k, None] + answer(part), out=out)
        return out


def _joined(places: list[Array]) -> Array:
    """Return sorted places (Q, K) of all parts, every so many where they are very many."""
    every = np.sort(np.hstack(places), axis=1)
    n = every.shape[1]
    if n <= _MOST_KNOTS:
        return every
    return every[:, np.linspace(0, n - 1, _MOST_KNOTS).astype(int)]


def _fill(draws: Array, part: Batch, uniforms: Array, mine: NDArray[np.bool_]) -> None:
    """Draw from a part what is its own, (Q, n): as many columns as the busiest query needs."""
    count = int(mine.sum(axis=1).max())
    if count == 0:
        return
    order = np.argsort(~mine, axis=1, kind="stable")[:, :count, None]
    made = part.sample(np.take_along_axis(uniforms, order, axis=1)[:, :, : part.uniforms])
    keep = np.take_along_axis(mine[:, :, None], order, axis=1)
    old = np.take_along_axis(draws, order, axis=1)
    np.put_along_axis(draws, order, np.where(keep, made, old), axis=1)
