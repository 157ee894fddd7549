"""Distributions seen through a monotone map of each output: how bounded outputs are predicted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from kcdo.arrays import Array
from kcdo.distributions.batch import Batch, Function, Rows, join
from kcdo.distributions.climbing import climb, climb_after_look
from kcdo.distributions.integration import NO_CUTS, between, split_for, with_edges
from kcdo.distributions.lines import Line
from kcdo.transforms import Transform

_MIDDLE = np.array([0.25, 0.75])
_MOST = np.array([1e-3, 1.0 - 1e-3])
_FELT = 1e-3
_NARROWEST = 1e-300


@dataclass(frozen=True, eq=False)
class TransformedBatch(Batch):
    """y = T⁻¹(t) of each output, with t distributed as ``inner`` says.

    Parameters
    ----------
    inner : Batch
        Q distributions of T(y).
    transform : Transform
        T; one for all outputs, or :class:`~kcdo.transforms.Columns`.
    exact : bool
        Whether moments are integrals, also where points of the inner distributions would do.
    """

    inner: Batch
    transform: Transform
    exact: bool = False

    @property
    def dim(self) -> int:
        """Number of outputs."""
        return self.inner.dim

    @property
    def width(self) -> int:
        """Numbers held for each distribution."""
        return self.inner.width

    @property
    def uniforms(self) -> int:
        """Uniform numbers that a draw is made of."""
        return self.inner.uniforms

    @property
    def n_draws(self) -> int:
        """Draws that stand for a distribution of several outputs."""
        return self.inner.n_draws

    def __len__(self) -> int:
        return len(self.inner)

    def take(self, rows: Rows) -> "TransformedBatch":
        """Return some of the distributions."""
        return replace(self, inner=self.inner.take(rows))

    def joined(self, others: Sequence["TransformedBatch"]) -> "TransformedBatch":
        """Return these distributions followed by others."""
        return replace(self, inner=join([self.inner, *(o.inner for o in others)]))

    def marginal(self, dims: Sequence[int]) -> "TransformedBatch":
        """Return the distributions of some outputs."""
        return TransformedBatch(self.inner.marginal(dims), self.transform.of_columns(dims))

    def given(self, dims: Sequence[int], values: Array) -> "TransformedBatch":
        """Return the distributions of the other outputs, given values of outputs ``dims``."""
        others = [i for i in range(self.dim) if i not in dims]
        known = self.transform.of_columns(dims)
        inner = self.inner.given(dims, known.forward(known.off_bounds(values)))
        return TransformedBatch(inner, self.transform.of_columns(others))

    def fixed_draws(self) -> Array | None:
        """Return the draws of the inner distributions, mapped."""
        inner = self.inner.fixed_draws()
        return None if inner is None else self.transform.inverse(inner)

    def pair_picture(self, pair: tuple[int, int], across: Array, up: Array) -> Array:
        """Return the inner picture of two outputs times the slopes of their maps."""
        (t, across_slope), (s, up_slope) = map(self._mapped_line, pair, (across, up))
        return self.inner.pair_picture(pair, t, s) * across_slope[:, None] * up_slope

    def _mapped_line(self, output: int, line: Array) -> tuple[Array, Array]:
        """Return T(y) and T'(y) of one output along a line (n,); slope 0 beyond the bounds."""
        column = self.transform.of_columns([output])
        y = column.off_bounds(line[:, None])
        inside = column.inside(y)
        safe = np.where(inside, y, column.inverse(np.zeros(1)))
        slope = np.where(inside, _exp(column.log_derivative(safe)), 0.0)
        return column.forward(safe)[:, 0], slope[:, 0]

    def with_draws(self, n_draws: int, seed: int) -> "TransformedBatch":
        """Return the same distributions; what is computed from draws then uses other draws."""
        return replace(self, inner=self.inner.with_draws(n_draws, seed))

    def draw_deviations(self, g: Function | None) -> Array:
        """Return expectations by each set of draws, less those by all."""
        back = self.transform.inverse
        if g is not None:
            return self.inner.draw_deviations(lambda t: g(back(t)))
        if self.dim == 1:
            return self.inner.draw_deviations(back)
        # means are those of the marginals
        lines = [self.marginal([i]).draw_deviations(None) for i in range(self.dim)]
        return np.concatenate(lines, axis=2)

    def pdf_each(self, points: Array) -> Array:
        """Density of each distribution at its own points; 0 beyond the bounds."""
        return _exp(self.logpdf_each(points))

    def logpdf(self, points: Array) -> Array:
        """Log density at shared points."""
        return self._with_jacobian(points, self.inner.logpdf)

    def logpdf_each(self, points: Array) -> Array:
        """Log density of each distribution at its own points; -inf beyond the bounds."""
        return self._with_jacobian(points, self.inner.logpdf_each)

    def pdf(self, points: Array) -> Array:
        """Density at shared points."""
        return _exp(self.logpdf(points))

    def cdf(self, points: Array) -> Array:
        """Joint cdf at shared points."""
        return self.inner.cdf(self.transform.forward(points))

    def cdf_each(self, points: Array) -> Array:
        """Joint cdf of each distribution at its own points."""
        return self.inner.cdf_each(self.transform.forward(points))

    def moments(self) -> tuple[Array, Array]:
        """Mean and covariance, by quadrature, once: means are asked for first, spreads then."""
        return self._moments

    @cached_property
    def _moments(self) -> tuple[Array, Array]:
        if self.dim == 1:
            parts = self._as_mixture()
            if parts is not None:  # a part has fewer pieces than all of them
                return parts.moments()
            return self._moments_at_points() or self._moments_on_a_line()
        lines = [self.marginal([i]).moments() for i in range(self.dim)]
        mean = np.hstack([line_mean for line_mean, _ in lines])
        sd = np.sqrt(np.hstack([variance[:, 0] for _, variance in lines]))

        def of_block(batch: Batch, rows: slice) -> Array:
            points, masses = batch.quadrature()
            gap = points - mean[rows, None, :]
            cov = np.einsum("qk,qkd,qke->qde", masses, gap, gap)
            scale = np.sqrt(np.einsum("qdd->qd", cov))
            return cov / (scale[:, :, None] * scale[:, None, :])

        return mean, self._in_blocks(of_block) * sd[:, :, None] * sd[:, None, :]

    def with_mapped_parts(self, mapped: Callable[[Batch], Batch]) -> Batch | None:
        """Return the mixture of parts that are mapped once more."""
        mixture = self._as_mixture()
        return None if mixture is None else mixture.with_mapped_parts(mapped)

    def _as_mixture(self) -> Batch | None:
        """Return the mixture of mapped distributions, where the inner ones are a mixture."""
        exact = self.exact or not self.inner.has_moment_points  # all of them, or none
        return self.inner.with_mapped_parts(
            lambda part: TransformedBatch(part, self.transform, exact)
        )

    def _moments_at_points(self) -> tuple[Array, Array] | None:
        """Return mean and covariance by the inner moment points; None if they do not suffice."""
        if self.exact or not self.transform.nearly_linear or not self.inner.has_moment_points:
            return None

        def of_block(batch: Any, _: slice) -> Array:
            t, masses = batch.inner.moment_points()
            y = self.transform.inverse(t)
            mean = np.einsum("qk,qk->q", masses, y)
            return np.stack([mean, np.einsum("qk,qk->q", masses, (y - mean[:, None]) ** 2)], axis=1)

        both = self._in_blocks(of_block)
        return both[:, :1], both[:, 1:, None]

    def _moments_on_a_line(self) -> tuple[Array, Array]:
        def of_block(batch: Any, _: slice) -> Array:
            inner = batch.inner
            edges = with_edges(inner.pieces(), self.transform.kinks())
            masses = np.abs(np.diff(inner.cdf_each(edges[:, :, None]), axis=1))
            inverse = self.transform.inverse
            split = split_for(lambda t: inverse(t[:, None]), edges, masses, batch._widths())
            t, weights = between(split)
            masses = weights * inner.pdf_each(t[:, :, None])
            masses /= masses.sum(axis=1, keepdims=True)
            y = self.transform.inverse(t[:, :, None])[:, :, 0]
            mean = np.einsum("qk,qk->q", masses, y)
            return np.stack([mean, np.einsum("qk,qk->q", masses, (y - mean[:, None]) ** 2)], axis=1)

        both = self._in_blocks(of_block)
        return both[:, :1], both[:, 1:, None]

    def atoms(self) -> tuple[Array, Array] | None:
        """Atoms of the inner distributions, at the mapped values."""
        inner = self.inner.atoms()
        return inner and (self.transform.inverse(inner[0][:, None])[:, 0], inner[1])

    def _widths(self) -> Array:
        """Return what errors of moments are seen relative to, (Q, 1).

        Where all but a few draws lie on a bound, the few decide: they are not lost in the middle.
        """
        middle, most = (np.diff(self.quantile(q)[:, :, 0], axis=1) for q in (_MIDDLE, _MOST))
        return np.maximum(np.maximum(middle, _FELT * most), _NARROWEST)

    def quantile(self, levels: Array) -> Array:
        """Quantiles of each marginal, mapped."""
        return self.transform.inverse(self.inner.quantile(levels))

    def sample(self, uniforms: Array) -> Array:
        """Draws of the inner distributions, mapped."""
        return self.transform.inverse(self.inner.sample(uniforms))

    def support(self) -> Array:
        """Ends of the inner distributions, mapped."""
        return self.transform.inverse(self.inner.support())

    def ranked_draws(self) -> Array:
        """Draws of the inner distributions at which densities are asked, mapped."""
        return self.transform.inverse(self.inner.ranked_draws())

    def quadrature(self) -> tuple[Array, Array]:
        """Points of the inner distributions, mapped."""
        points, masses = self.inner.quadrature()
        return self.transform.inverse(points), masses

    def expect(self, g: Callable[[Array], Array], cuts: Array = NO_CUTS) -> Array:
        """E g(Y), of the function g(T⁻¹(t)) of the inner distributions."""
        if self.dim == 1:
            there = self.transform.forward(cuts[:, None])[:, 0]
            cuts = np.concatenate([there[np.isfinite(there)], self.transform.kinks()])
        return self.inner.expect(lambda t: g(self.transform.inverse(t)), cuts)

    def knots(self) -> Array:
        """Knots of the inner distributions, mapped."""
        return self.transform.inverse(self.inner.knots()[:, :, None])[:, :, 0]

    def pieces(self) -> Array:
        """Pieces of the inner distributions, mapped."""
        edges = with_edges(self.inner.pieces(), self.transform.kinks())
        return self.transform.inverse(edges[:, :, None])[:, :, 0]

    def line(self) -> Line:
        """Return the densities over t, in which they are smooth beside a bound."""
        return Line(self.inner, self.transform)

    def mode(self) -> Array:
        """Place of the highest density."""
        if self.dim == 1:
            return super().mode()

        def highest(batch: Any, _: slice) -> Array:
            inner, rough = batch.inner, batch.inner.for_many_places()

            def height(t: Array, inner: Batch = inner) -> Array:
                return inner.logpdf_each(t) + self.transform.log_slope(t).sum(axis=2)

            sd = np.sqrt(np.einsum("qdd->qd", inner.moments()[1]))
            # beside a bound a density may be highest between the nodes, or at the edge of a grid
            places = np.concatenate([inner.candidates(), Batch.candidates(inner)], axis=1)
            if rough is inner:
                return self.transform.inverse(climb(height, places, sd))
            found = climb_after_look(lambda t: height(t, rough), height, places, sd)
            return self.transform.inverse(found)

        return self._in_blocks(highest)

    def square_integral(self) -> Array:
        """∫ p², over t in 1-D: ∫ p_t² T' dt."""
        if self.dim > 1:
            return super().square_integral()

        def of_block(batch: Any, _: slice) -> Array:
            t, weights = between(with_edges(batch.inner.pieces(), self.transform.kinks()))
            p = batch.inner.pdf_each(t[:, :, None])
            slope = _exp(self.transform.log_slope(t[:, :, None])[:, :, 0])
            return np.einsum("qk,qk->q", weights * p, np.where(p > 0, p * slope, 0.0))

        return self._in_blocks(of_block)

    def entropy(self) -> Array:
        """-∫ p log p = that of the inner distribution - E log T'(Y)."""
        slopes = self.inner.expect(
            lambda t: self.transform.log_slope(t).sum(axis=1, keepdims=True),
            self.transform.kinks() if self.dim == 1 else NO_CUTS,
        )
        return self.inner.entropy() - slopes[:, 0]

    def _with_jacobian(self, points: Array, inner: Callable[[Array], Array]) -> Array:
        points = self.transform.off_bounds(points)  # where training outputs on a bound were moved
        inside = np.all(self.transform.inside(points), axis=-1)
        middle = self.transform.inverse(np.zeros(self.dim))
        safe = np.where(inside[..., None], points, middle)
        slope = self.transform.log_derivative(safe).sum(axis=-1)
        return np.where(inside, inner(self.transform.forward(safe)) + slope, -np.inf)


def _exp(logs: Array) -> Array:
    """Return the exponential; infinite beyond the largest number."""
    with np.errstate(over="ignore"):
        return np.exp(logs)
