"""A batch: Q distributions of d outputs, and the answers that follow from a few of them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.stats import qmc

from kcdo.arrays import Array, Integers
from kcdo.distributions import events, lines
from kcdo.distributions.climbing import climb, climb_after_look
from kcdo.distributions.draw_errors import DRAW_SETS
from kcdo.distributions.integration import NO_CUTS, between, densely_at_ends, split_for, with_edges
from kcdo.distributions.layouts import RegionShape
from kcdo.distributions.lines import Line, Modes

Rows = slice | Integers
Function = Callable[[Array], Array]  # maps points (G, d) to values (G, k)

_BLOCK_ELEMENTS = 1 << 17  # numbers of one array of points
_LOOKS = 1000  # points at which a function is asked whether it is an event
_DRAWS = 4096  # for integrals over several outputs
_STARTS = 1024  # draws among which the highest are near the mode of several outputs
_NEAR_HIGHEST = 0.8  # peaks that may turn out to be the highest
_RANKED = 32, 128  # draws at which densities that are means are asked: at least, at most
_RANKED_TIMES_AVERAGED = 1 << 15  # so many distributions of chains, if that is enough draws
_RANKED_SEED = 1 << 40  # of these draws: no other has it
FEWEST_DRAWS = 16  # that stand for a distribution of several outputs: two in each set


class Batch(ABC):
    """Q distributions of d outputs.

    ``points`` (G, d) are shared by all distributions; methods ``*_each`` take points of each
    distribution, (Q, G, d). Answers have the Q axis first.
    """

    @property
    @abstractmethod
    def dim(self) -> int:
        """Number of outputs d."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Numbers held for each distribution."""

    @property
    def uniforms(self) -> int:
        """Uniform numbers that :meth:`sample` makes a draw of."""
        return self.dim + 1

    @property
    def by_draws(self) -> bool:
        """Whether a density costs much: a chain's asks for a distribution of every link."""
        return False

    @property
    def averaged(self) -> int:
        """Distributions of chains that a density is a mean over; 1 where it is no mean."""
        return 1

    @property
    def draw_seed(self) -> int:
        """Seed of the draws that answers are made of; 0 where there are none."""
        return 0

    @property
    def n_draws(self) -> int:
        """Draws that stand for a distribution of several outputs where there is no closed form."""
        return _DRAWS

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of distributions Q."""

    @abstractmethod
    def take(self, rows: Rows) -> "Batch":
        """Return some of the distributions."""

    @abstractmethod
    def joined(self, others: Sequence[Any]) -> "Batch":
        """Return these distributions followed by others of the same kind."""

    @abstractmethod
    def marginal(self, dims: Sequence[int]) -> "Batch":
        """Return the distributions of some outputs."""

    @abstractmethod
    def pdf_each(self, points: Array) -> Array:
        """Density of each distribution at its own points (Q, G, d): (Q, G)."""

    @abstractmethod
    def cdf_each(self, points: Array) -> Array:
        """P(every output <= the point's) at each distribution's own points (Q, G, d): (Q, G)."""

    @abstractmethod
    def moments(self) -> tuple[Array, Array]:
        """Mean (Q, d) and covariance (Q, d, d)."""

    @abstractmethod
    def quantile(self, levels: Array) -> Array:
        """Quantiles of each marginal, (Q, len(levels), d)."""

    @abstractmethod
    def sample(self, uniforms: Array) -> Array:
        """Draws (Q, n, d) made of independent uniforms (Q, n, ``uniforms``).

        The first uniform of a draw chooses its component and its node, the others its place.
        """

    @abstractmethod
    def support(self) -> Array:
        """Least and greatest place of positive density in each marginal, (Q, 2, d)."""

    def atoms(self) -> tuple[Array, Array] | None:
        """For d = 1: values (A,) of positive probability, and that probability (Q, A); or None."""
        return None

    @property
    def has_moment_points(self) -> bool:
        """Whether points give moments: :meth:`moment_points`, of mixtures those of all parts."""
        return False

    def moment_points(self) -> tuple[Array, Array]:
        """For d = 1, points and masses (Q, K) that give means of nearly linear functions.

        The error for a function with second derivative g'' is of fourth order in the distance of
        the points where g'' is smooth.
        """
        raise NotImplementedError(f"{type(self).__name__} has no moment points")

    @abstractmethod
    def knots(self) -> Array:
        """For d = 1: sorted places (Q, K) between which the cdf is nearly linear."""

    @abstractmethod
    def pieces(self) -> Array:
        """For d = 1: edges (Q, K) of pieces on which the density is smooth.

        So smooth that five Gauss points on each integrate it and its square; what lies beyond adds
        nothing, not even to the variance.
        """

    # --- what follows from the above; kinds that know better override it

    def given(self, dims: Sequence[int], values: Array) -> "Batch":
        """Return the distributions of the other outputs, given values (Q, k) of outputs ``dims``.

        For kinds that may have several outputs.
        """
        raise NotImplementedError(f"{type(self).__name__} has one output")

    def with_mapped_parts(self, mapped: Callable[["Batch"], "Batch"]) -> "Batch | None":
        """Return the mixture whose parts are mapped; None where there are no parts."""
        return None

    def with_draws(self, n_draws: int, seed: int) -> "Batch":
        """Return the same distributions; what is computed from draws then uses other draws."""
        return self

    def for_many_places(self) -> "Batch":
        """Return the same distributions, whose densities may be rough: to look at many places.

        Densities that are means over draws, or over the points of an uncertain input, and cost
        much are then means over fewer of them: for pictures, and for the first steps to a mode.
        Levels, entropies and heights that are compared in the end are not made of them.
        """
        return self

    def ranked_draws(self) -> Array:
        """Return draws (Q, n, d) at which densities are asked, for levels and entropies.

        Where a density is a mean over draws, these are others: those would find it too high.
        """
        if self.averaged == 1:
            return self._draws(self.n_draws)
        least = max(_RANKED[0], self.n_draws // 4)
        wished = min(_RANKED_TIMES_AVERAGED // self.averaged, _RANKED[1])
        return self.other_draws(1 << (max(least, wished).bit_length() - 1))

    def other_draws(self, n: int) -> Array:
        """Return n even draws (Q, n, d) of each distribution, other ones than answers are by."""
        uniforms = even_uniforms(n, self.uniforms, _RANKED_SEED + self.draw_seed)
        return self.sample(np.broadcast_to(uniforms, (len(self), *uniforms.shape)))

    def fixed_draws(self) -> Array | None:
        """Return the draws (Q, n, d) that answers are made of, where that is how they come about.

        None for kinds that need none, or weigh them.
        """
        return None

    def pair_picture(self, pair: tuple[int, int], across: Array, up: Array) -> Array:
        """Return the joint density of two outputs on the grid of two lines (n,), (m,): (Q, n, m).

        For pictures: a kind whose exact one asks for many draws at every point returns a smooth
        one.
        """
        grid = np.stack(np.meshgrid(across, up, indexing="ij"), axis=-1).reshape(-1, 2)
        densities = self.marginal(pair).pdf(grid)
        return densities.reshape(len(self), len(across), len(up))

    def draw_error(self, g: Function | None) -> Array:
        """Return the standard error of E g(Y), (Q, k), as far as it is by draws at random.

        Without g that of the mean, some of whose outputs may be exact.
        """
        squares = np.sum(self.draw_deviations(g) ** 2, axis=1)
        return np.sqrt(squares / (DRAW_SETS * (DRAW_SETS - 1)))

    def draw_deviations(self, g: Function | None) -> Array:
        """Return E g(Y) by each independent set of draws, less that by all, (Q, DRAW_SETS, k).

        A mixture adds these numbers set by set, so that errors of parts that share their uniforms
        go together, and those of independent parts do not. 0 as far as nothing is by draws.
        """
        k = self.dim if g is None else g(np.zeros((1, self.dim))).shape[1]
        return np.zeros((len(self), DRAW_SETS, k))

    def pdf(self, points: Array) -> Array:
        """Density of each distribution at shared points (G, d): (Q, G)."""
        return self._at_shared(points, lambda batch, each: batch.pdf_each(each))

    def logpdf(self, points: Array) -> Array:
        """Logarithm of :meth:`pdf`."""
        return log(self.pdf(points))

    def logpdf_each(self, points: Array) -> Array:
        """Logarithm of :meth:`pdf_each`."""
        return log(self.pdf_each(points))

    def pdf_pairs(self, Y: Array) -> Array:
        """Density of distribution q at Y[q], (Q,)."""
        return self.pdf_each(Y[:, None, :])[:, 0]

    def logpdf_pairs(self, Y: Array) -> Array:
        """Logarithm of :meth:`pdf_pairs`."""
        return self.logpdf_each(Y[:, None, :])[:, 0]

    def cdf(self, points: Array) -> Array:
        """Joint cdf of each distribution at shared points (G, d): (Q, G)."""
        return self._at_shared(points, lambda batch, each: batch.cdf_each(each))

    @property
    def linear(self) -> bool:
        """For d = 1: whether the density is linear on each of the pieces."""
        return False

    def line(self) -> Line:
        """For d = 1: return the densities over a coordinate in which they are smooth."""
        return Line(self)

    def mode(self) -> Array:
        """Place of the highest density, (Q, d)."""
        if self.dim == 1:
            return np.array([found.places[:1] for found in self.peaks(_NEAR_HIGHEST)])

        def highest(batch: Batch, _: slice) -> Array:
            sd = np.sqrt(np.abs(np.einsum("qdd->qd", batch.moments()[1])))
            rough = batch.for_many_places()
            if rough is batch:
                return climb(batch.pdf_each, batch.candidates(), sd)
            return climb_after_look(rough.pdf_each, batch.pdf_each, batch.candidates(), sd)

        return self._in_blocks(highest, _STARTS * self.dim)

    def candidates(self) -> Array:
        """For d > 1: places of which some are near the highest density, (Q, C, d)."""
        return self._draws(min(_STARTS, self.n_draws))

    def peaks(self, least: float, prominence: float = 0.0) -> list[Modes]:
        """For d = 1: return peaks so high, and that stand out so far, as shares of the highest."""
        blocks = (self.take(rows) for rows in self._blocks())
        return [modes for batch in blocks for modes in lines.peaks(batch.line(), least, prominence)]

    def regions(self, coverage: float) -> list[RegionShape]:
        """Return the region of highest density: exact for d = 1, else by draws."""
        if self.dim == 1:
            blocks = (self.take(rows) for rows in self._blocks())
            return [s for batch in blocks for s in lines.regions(batch.line(), coverage)]
        blocks = (self.take(rows) for rows in self._blocks(self.n_draws * self.dim))
        return [shape for batch in blocks for shape in _regions_by_draws(batch, coverage)]

    def entropy(self) -> Array:
        """-∫ p log p, (Q,)."""

        def of_block(batch: Batch, _: slice) -> Array:
            if batch.dim > 1:
                return -batch.logpdf_each(batch.ranked_draws()).mean(axis=1)
            points, weights = densely_at_ends(batch.pieces())
            p = batch.pdf_each(points[:, :, None])
            return -np.einsum("qk,qk,qk->q", weights, p, log(np.where(p > 0, p, 1.0)))

        return self._in_blocks(of_block, None if self.dim == 1 else self.n_draws * self.dim)

    def square_integral(self) -> Array:
        """∫ p², (Q,)."""

        def of_block(batch: Batch, _: slice) -> Array:
            points, masses = batch.quadrature()
            return np.einsum("qk,qk->q", masses, batch.pdf_each(points))

        return self._in_blocks(of_block)

    def crps(self, Y: Array) -> Array:
        """∫ (cdf(t) - 1{y <= t})² dt of distribution q at Y[q], (Q,), for d = 1."""

        def of_block(batch: Batch, rows: slice) -> Array:
            y = Y[rows]
            points, weights = between(np.sort(np.hstack([batch.pieces(), y]), axis=1))
            gap = batch.cdf_each(points[:, :, None]) - (points > y)
            return np.einsum("qk,qk->q", weights, gap**2)

        return self._in_blocks(of_block)

    def quadrature(self) -> tuple[Array, Array]:
        """Points (Q, K, d) and masses (Q, K) with E g(Y) ≈ Σ_k mass_k g(point_k) for smooth g."""
        if self.dim > 1:
            draws = self._draws(self.n_draws)
            return draws, np.full(draws.shape[:2], 1.0 / self.n_draws)
        points, weights = between(self.pieces())
        return points[:, :, None], weights * self.pdf_each(points[:, :, None])

    def expectation(self, g: Callable[[Array], Array]) -> Array:
        """E g(Y), (Q, k), for g that maps (G, d) to (G, k); by the cdf if g is an event."""
        if self.dim > 1:
            return self.expect(g)

        def of_block(batch: Batch, _: slice) -> Array:
            exact = events.on_lines(
                lambda y: g(y[:, None]), batch.knots(), lambda y: batch.cdf_each(y[:, :, None])
            )
            return batch.expect(g) if exact is None else exact

        return self._in_blocks(of_block, max(3 * self.width, _LOOKS))

    def expect(self, g: Callable[[Array], Array], cuts: Array = NO_CUTS) -> Array:
        """E g(Y) by points, (Q, k), for g that maps (G, d) to (G, k).

        For d = 1 g may have jumps and kinks, and those that are known may be given as ``cuts``,
        (C,); for d > 1 that is so for events that are boxes.
        """

        def on_a_line(batch: Batch, _: slice) -> Array:
            edges = with_edges(batch.pieces(), cuts)
            masses = np.abs(np.diff(batch.cdf_each(edges[:, :, None]), axis=1))
            points, weights = between(split_for(lambda y: g(y[:, None]), edges, masses))
            masses = weights * batch.pdf_each(points[:, :, None])
            values = g(points.reshape(-1, 1))
            return np.einsum("qk,qkv->qv", masses, values.reshape(*masses.shape, -1))

        def in_space(batch: Batch, _: slice) -> Array:
            points, masses = batch.quadrature()
            points = np.ascontiguousarray(points).reshape(-1, self.dim)
            values = g(points)
            found = np.einsum("qk,qkv->qv", masses, values.reshape(*masses.shape, -1))
            return batch._with_events(found, g, points, values)

        return self._in_blocks(on_a_line if self.dim == 1 else in_space)

    def _with_events(
        self, found: Array, g: Callable[[Array], Array], points: Array, values: Array
    ) -> Array:
        """Return expectations (Q, k), made exact where a column of g indicates a box."""
        for column in range(values.shape[1]):
            exact = events.probability(
                lambda y, k=column: g(y)[:, k],  # type: ignore[misc]
                points,
                values[:, column],
                self.cdf,
            )
            if exact is not None:
                found[:, column] = exact
        return found

    def _draws(self, n: int) -> Array:
        """Return draws (Q, n, d) that are spread evenly: a quadrature."""
        uniforms = even_uniforms(n, self.uniforms)
        return self.sample(np.broadcast_to(uniforms, (len(self), *uniforms.shape)))

    def _at_shared(self, points: Array, answer: Callable[["Batch", Array], Array]) -> Array:
        def of_block(batch: Batch, _: slice) -> Array:
            return answer(batch, np.broadcast_to(points, (len(batch), *points.shape)))

        return self._in_blocks(of_block, points.size)

    def _in_blocks(
        self, answer: Callable[["Batch", slice], Array], width: int | None = None
    ) -> Array:
        """Return answers for blocks of distributions: arrays of points of each are large."""
        return np.concatenate([answer(self.take(rows), rows) for rows in self._blocks(width)])

    def _blocks(self, width: int | None = None) -> list[slice]:
        step = max(1, _BLOCK_ELEMENTS // max(1, 3 * self.width if width is None else width))
        return [slice(start, start + step) for start in range(0, max(1, len(self)), step)]


def join(batches: Sequence[Batch]) -> Batch:
    """Return the distributions of batches of one kind as one batch."""
    return batches[0] if len(batches) == 1 else batches[0].joined(batches[1:])


def log(values: Array) -> Array:
    """Return the logarithm; -inf at 0."""
    with np.errstate(divide="ignore"):
        return np.log(values)


def _regions_by_draws(batch: Batch, coverage: float) -> list[RegionShape]:
    """Rank draws by their density: volume = E 1/p(Y) inside."""
    draws = batch.ranked_draws()
    n = draws.shape[1]
    heights = np.sort(batch.pdf_each(draws), axis=1)[:, ::-1]
    count = int(np.ceil(coverage * n))
    volumes = np.sum(1.0 / heights[:, :count], axis=1) / n
    return [
        RegionShape(float(level), float(volume), None)
        for level, volume in zip(heights[:, count - 1], volumes, strict=True)
    ]


@lru_cache(maxsize=8)
def even_uniforms(n: int, dim: int, seed: int = 0) -> Array:
    """Return n points of low discrepancy in the unit cube."""
    return qmc.Sobol(dim, rng=seed).random(n)
