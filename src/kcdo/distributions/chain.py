"""Joint distributions by the chain rule: each output given the inputs and the outputs before it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array, Integers
from kcdo.distributions.batch import Batch, Function, Rows, even_uniforms, join
from kcdo.distributions.chain_parts import PICTURE_WIDTH, ByDraws, PartBatch, share_below
from kcdo.distributions.draw_errors import DRAW_SETS
from kcdo.distributions.grouped import GroupedBatch
from kcdo.parallel import ordered_map, shared_property

_NUMBERS = 1 << 20  # held at a time by a thread
_KEPT_NUMBERS = 1 << 24  # of all links at the draws, where these are kept: 128 MiB
_LINK_DRAWS = 512  # draws times links of one distribution, by default
_FEWEST, _MOST = 64, 512
_NORMAL_QUARTERS = 1.349  # standard deviations between the quartiles of a normal
_NARROWEST = 1e-300


class Link(Protocol):
    """A model of one output, given the inputs and the outputs before it."""

    @property
    def uniforms(self) -> int:
        """Uniform numbers that a draw of any of its distributions is made of."""

    def batch(self, queries: NDArray) -> Batch:
        """Return the distributions of the queries."""

    def width(self, queries: NDArray) -> int:
        """Return the numbers held for each query."""


def default_draws(d: int) -> int:
    """Return how many draws stand for a chain of d outputs, unless told otherwise.

    >>> [default_draws(d) for d in (2, 3, 8, 16)]
    [512, 256, 64, 64]
    """
    wished = _LINK_DRAWS // max(1, d - 1)
    return int(np.clip(1 << (wished.bit_length() - 1), _FEWEST, _MOST))


@dataclass(frozen=True, eq=False)
class _Drawing:
    """Draws of chains, and the distributions that they were drawn from."""

    values: Array  # (Q, n, d + 1): draws, with their log densities behind them
    links: dict[int, Batch]  # of each link, Q · n distributions; none where these are too many

    def take(self, rows: Rows) -> "_Drawing":
        """Return those of some queries."""
        n_queries, n = self.values.shape[:2]
        places = np.arange(n_queries * n).reshape(n_queries, n)[rows].ravel()
        return _Drawing(self.values[rows], {j: b.take(places) for j, b in self.links.items()})

    def joined(self, others: Sequence["_Drawing"]) -> "_Drawing":
        """Return those of these queries, followed by those of others."""
        every = [self, *others]
        known = [j for j in self.links if all(j in each.links for each in every)]
        held = sum(len(each.links[j]) * each.links[j].width for each in every for j in known)
        few = known if held <= _KEPT_NUMBERS else []
        links = {j: join([each.links[j] for each in every]) for j in few}
        return _Drawing(np.concatenate([each.values for each in every]), links)


@dataclass(frozen=True, eq=False)
class ChainBatch(ByDraws):
    """∏_j p(y_o(j) | x, y_o(1), …, y_o(j-1)) for one order o of the outputs.

    Log densities are sums over the links, and draws are made link after link: both are exact. Of
    the output that is first in the order, everything is; moments, marginals and regions of the
    others are by ``draws_each`` fixed quasi-random draws, so that they are the same at every call.

    Parameters
    ----------
    inputs : (Q, p)
        Inputs of the queries.
    links : sequence of Link
        Link j takes the inputs with the outputs ``order[:j]`` appended, in this order.
    order : tuple of int
        The outputs, in the order of the links.
    draws_each, seed : int
        Draws of each distribution, in eight independent sets, and their seed.
    n_jobs : int, optional
        Threads.
    warns : bool
        Whether to warn of values given that are very unlikely: not at points of uncertain inputs,
        most of which may matter little.
    """

    inputs: NDArray
    links: tuple[Link, ...]
    order: tuple[int, ...]
    draws_each: int
    seed: int = 0
    n_jobs: int | None = None
    warns: bool = True

    @property
    def dim(self) -> int:
        """Number of outputs."""
        return len(self.order)

    @property
    def width(self) -> int:
        """Numbers held for each distribution: its inputs, its draws and their log densities."""
        return self.inputs.shape[1] + self.n_draws * (self.dim + 1)

    @property
    def n_draws(self) -> int:
        """Draws of each distribution."""
        return self.draws_each

    @property
    def uniforms(self) -> int:
        """Uniform numbers of each link, after one that chooses among orders."""
        return 1 + sum(link.uniforms for link in self.links)

    def __len__(self) -> int:
        return len(self.inputs)

    def take(self, rows: Rows) -> "ChainBatch":
        """Return some of the distributions, with the draws that are known."""
        some = replace(self, inputs=self.inputs[rows])
        if "_drawing" in vars(self):
            vars(some)["_drawing"] = self._drawing.take(rows)
        return some

    def joined(self, others: Sequence["ChainBatch"]) -> "ChainBatch":
        """Return these distributions followed by others."""
        every = [self, *others]
        both = replace(self, inputs=np.concatenate([each.inputs for each in every]))
        if all("_drawing" in vars(each) for each in every):
            vars(both)["_drawing"] = self._drawing.joined([other._drawing for other in others])
        return both

    def with_draws(self, n_draws: int, seed: int) -> "ChainBatch":
        """Return the same distributions, with other draws."""
        return replace(self, draws_each=n_draws, seed=seed)

    # --- exact: densities and draws

    def logpdf_each(self, points: Array) -> Array:
        """Sum of the log densities of the links."""
        total = np.zeros(points.shape[:2])
        for j in range(self.dim):
            total += self.log_link(j, points)
        return total

    def logpdf(self, points: Array) -> Array:
        """Log density at shared points."""
        return self._at_shared(points, lambda batch, each: batch.logpdf_each(each))

    def sample(self, uniforms: Array) -> Array:
        """Draws: each output given the outputs before it."""
        draws = np.empty((*uniforms.shape[:2], self.dim))
        for j, output in enumerate(self.order):
            draws[:, :, output] = self.draw_link(j, draws, uniforms)
        return draws

    def log_link(self, j: int, points: Array) -> Array:
        """Return log p(y_o(j) | x, y_o(1..j-1)) at points (Q, n, d), (Q, n)."""
        y = points[:, :, self.order[j]].reshape(-1, 1)
        return self._along(j, points, lambda batch, rows: batch.logpdf_pairs(y[rows]))

    def draw_link(self, j: int, points: Array, uniforms: Array) -> Array:
        """Return draws of output ``order[j]``, given the outputs before it in points (Q, n, d).

        Uniforms (Q, m, k) serve every m points in turn.
        """
        u = self._uniforms_of_link(j, uniforms, points.shape[1] // uniforms.shape[1])
        return self._along(j, points, lambda batch, rows: batch.sample(u[rows])[:, 0, 0])

    def _uniforms_of_link(self, j: int, uniforms: Array, times: int = 1) -> Array:
        """Return the uniform numbers that draws of link j are made of, (Q · n · times, 1, k)."""
        first, size = 1 + sum(link.uniforms for link in self.links[:j]), self.links[j].uniforms
        part = uniforms[:, :, first : first + size]
        return np.tile(part, (1, times, 1)).reshape(-1, 1, size)

    def link_at_draws(self, j: int) -> Batch:
        """Return the distributions of link j at the draws, as a batch of Q · n."""
        drawing = self._drawing
        return drawing.links[j] if j in drawing.links else self.new_link_batch(j, self.drawn)

    def new_link_batch(self, j: int, points: Array) -> Batch:
        """Return the distributions of link j at points (Q, n, d), computed a part at a time."""
        rows = self._link_inputs(j, points)
        step = max(1, _NUMBERS // self.links[j].width(rows[:1]))
        parts = [rows[start : start + step] for start in range(0, len(rows), step)]
        return join(list(ordered_map(self.links[j].batch, parts, self.n_jobs)))

    def _link_inputs(self, j: int, points: Array) -> NDArray:
        n = points.shape[1]
        before = points[:, :, list(self.order[:j])].reshape(len(self) * n, j)
        return np.hstack([np.repeat(self.inputs, n, axis=0), before])

    def _along(self, j: int, points: Array, answer: Callable[[Batch, Integers], Array]) -> Array:
        """Return the answers of link j at points (Q, n, d), (Q, n) or more, a part at a time.

        Points that agree in all that the link sees are asked once: those of a grid mostly do.
        """
        rows = self._link_inputs(j, points)
        order = np.lexsort(rows.T[::-1])
        step = max(1, _NUMBERS // self.links[j].width(rows[:1]))
        parts = [order[start : start + step] for start in range(0, len(order), step)]

        def work(part: Integers) -> Array:
            distinct, place = np.unique(rows[part], axis=0, return_inverse=True)
            return answer(self.links[j].batch(distinct).take(place.ravel()), part)

        answers = np.concatenate(list(ordered_map(work, parts, self.n_jobs)))
        found = np.empty_like(answers)
        found[order] = answers
        return found.reshape(*points.shape[:2], *answers.shape[1:])

    # --- by draws, but for what is first in the order

    @property
    def drawn(self) -> Array:
        """Draws (Q, n, d) that are spread evenly, the same uniforms for every query."""
        return self._drawing.values[:, :, :-1]

    @shared_property
    def _drawing(self) -> _Drawing:
        """These draws, their log densities, and the distributions of links where they are few."""
        fixed = self.fixed_uniforms()
        uniforms = np.broadcast_to(fixed, (len(self), *fixed.shape))
        found = np.zeros((*uniforms.shape[:2], self.dim + 1))
        kept: dict[int, Batch] = {}
        keeps = self._keeps_links()

        for j, output in enumerate(self.order):
            u = self._uniforms_of_link(j, uniforms)

            def both(batch: Batch, rows: Integers, u: Array = u) -> Array:
                y = batch.sample(u[rows])[:, 0]
                return np.hstack([y, batch.logpdf_pairs(y)[:, None]])

            if j and keeps:
                kept[j] = self.new_link_batch(j, found)
                link = both(kept[j], np.arange(len(u))).reshape(*found.shape[:2], 2)
            else:
                link = self._along(j, found, both)
            found[:, :, output] = link[:, :, 0]
            found[:, :, -1] += link[:, :, 1]
        return _Drawing(found, kept)

    def _keeps_links(self) -> bool:
        """Whether the distributions of links at all draws are few enough to be kept."""
        widths = [
            link.width(np.zeros((1, self.inputs.shape[1] + j))) for j, link in enumerate(self.links)
        ]
        return len(self) * self.n_draws * sum(widths[1:]) <= _KEPT_NUMBERS

    def fixed_draws(self) -> Array:
        """Return the draws that answers are made of."""
        return self.drawn

    def entropy(self) -> Array:
        """-E log p, by the draws."""
        return -self._drawing.values[:, :, -1].mean(axis=1)

    def square_integral(self) -> Array:
        """∫ p² = E p, by the draws."""
        return np.exp(self._drawing.values[:, :, -1]).mean(axis=1)

    def fixed_uniforms(self) -> Array:
        """Return the uniforms (n, k) of the draws: independent sets of even ones."""
        size = max(1, self.n_draws // DRAW_SETS)
        sets = [
            even_uniforms(size, self.uniforms, DRAW_SETS * self.seed + r) for r in range(DRAW_SETS)
        ]
        return np.concatenate(sets)[: self.n_draws]

    def moments(self) -> tuple[Array, Array]:
        """Mean and covariance of the draws; exact for the output that is first."""
        draws, first = self.drawn, self.order[0]
        mean = draws.mean(axis=1)
        gap = draws - mean[:, None]
        cov = np.einsum("qnd,qne->qde", gap, gap) / draws.shape[1]
        mean_first, var_first = self.links[0].batch(self.inputs).moments()
        mean[:, first] = mean_first[:, 0]
        stretch = np.sqrt(var_first[:, 0, 0] / np.maximum(cov[:, first, first], 1e-300))
        cov[:, first, :] *= stretch[:, None]
        cov[:, :, first] *= stretch[:, None]
        return mean, cov

    def draw_deviations(self, g: Function | None) -> Array:
        """Return E g(Y) by each set of draws, less that by all; 0 for the mean that is exact."""
        found = super().draw_deviations(g)
        if g is None:
            found[:, :, self.order[0]] = 0.0
        return found

    def quadrature(self) -> tuple[Array, Array]:
        """Return the draws, of equal mass."""
        return self.drawn, np.full(self.drawn.shape[:2], 1.0 / self.drawn.shape[1])

    @property
    def draw_seed(self) -> int:
        """Seed of the draws."""
        return self.seed

    def _draws(self, n: int) -> Array:
        return self.drawn if n >= self.n_draws else self.drawn[:, :n]

    def cdf_each(self, points: Array) -> Array:
        """Share of the draws that lie below, at each distribution's own points."""
        return share_below(self.drawn, points)

    def knots(self) -> Array:
        """Return the knots of the one output there is."""
        return self.links[0].batch(self.inputs).knots()

    def pieces(self) -> Array:
        """Return the pieces of the one output there is."""
        return self.links[0].batch(self.inputs).pieces()

    # --- some outputs, or some given others

    def marginal(self, dims: Sequence[int]) -> Batch:
        """Return the distributions of some outputs: exact for the first ones of the order."""
        dims, leading = list(dims), set(self.order[: len(dims)])
        if set(dims) == leading:
            if len(dims) == 1:
                return self.links[0].batch(self.inputs)
            order = tuple(dims.index(output) for output in self.order[: len(dims)])
            return replace(self, links=self.links[: len(dims)], order=order)
        if len(dims) > 1:
            return PartBatch(self, tuple(dims))
        inner = self.link_at_draws(self.order.index(dims[0]))
        return GroupedBatch.of_draws(inner, self.n_draws)

    def pair_picture(self, pair: tuple[int, int], across: Array, up: Array) -> Array:
        """Return the joint density of two outputs on the grid of two lines.

        Exact for the first two of the order. Else it is p(a | x) of the earlier output a times the
        density of the later one given draws near a, the more so the nearer (a kernel regression on
        the draws): no draws of the others at every point of the grid.
        """
        first, second = sorted(pair, key=self.order.index)
        if set(self.order[:2]) == {first, second}:
            return super().pair_picture(pair, across, up)
        lines = dict(zip(pair, (across, up), strict=True))

        def of_block(chain: Any, _: slice) -> Array:
            return chain._smoothed_pair(first, second, lines[first], lines[second])

        found = self._in_blocks(of_block, self.n_draws * (len(across) + len(up)))
        return found if pair[0] == first else found.transpose(0, 2, 1)

    def _smoothed_pair(self, first: int, second: int, a: Array, b: Array) -> Array:
        """Return p(a) Σ_m K(a - a_m) p(b | draw m) / Σ_m K(a - a_m), (Q, len(a), len(b))."""
        draws = self.drawn[:, :, first]
        later = self.link_at_draws(self.order.index(second)).pdf(b[:, None])
        quarters = np.quantile(draws, [0.25, 0.75], axis=1)
        spread = np.minimum(draws.std(axis=1), (quarters[1] - quarters[0]) / _NORMAL_QUARTERS)
        width = np.maximum(PICTURE_WIDTH * spread, _NARROWEST)[:, None, None]
        logs = -0.5 * ((a[None, :, None] - draws[:, None, :]) / width) ** 2
        near = np.exp(logs - logs.max(axis=2, keepdims=True))
        near /= near.sum(axis=2, keepdims=True)
        density = self.marginal([first]).pdf(a[:, None])
        return density[:, :, None] * (near @ later.reshape(*draws.shape, len(b)))

    def given(self, dims: Sequence[int], values: Array) -> Batch:
        """Return the distributions of the other outputs: exact if the given outputs come first."""
        dims, k = list(dims), len(dims)
        others = [i for i in range(self.dim) if i not in dims]
        if set(dims) != set(self.order[:k]):
            return PartBatch.of(self, tuple(others), tuple(dims), values)
        known = values[:, [dims.index(output) for output in self.order[:k]]]
        order = tuple(others.index(output) for output in self.order[k:])
        inputs = np.hstack([self.inputs, known])
        if len(others) == 1:
            return self.links[k].batch(inputs)
        return replace(self, inputs=inputs, links=self.links[k:], order=order)
