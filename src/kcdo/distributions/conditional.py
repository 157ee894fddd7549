"""ConditionalDistribution: what a prediction is. Condition, then query."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kcdo.arrays import Array, Integers
from kcdo.distributions.exports import Exports
from kcdo.distributions.joint import JointQuestions
from kcdo.distributions.lines import PROMINENCE, Modes
from kcdo.distributions.picture import small_html
from kcdo.distributions.regions import HighestDensityRegion
from kcdo.distributions.scipy_names import RandomState, ScipyNames
from kcdo.distributions.sources import BatchSource, KeptSource, MarginalSource
from kcdo.distributions.summary import Summary
from kcdo.errors import InvalidInputError, KcdoWarning, SignedDensityError
from kcdo.frames import NO_LABELS, Labels


class ConditionalDistribution(JointQuestions, ScipyNames, Exports):
    """The distributions p(y | x_q) of Q queries, computed when asked, in chunks.

    Axes: Q queries, G points, d output dimensions; a trailing d axis is absent when the outputs
    were 1-D. On grids the density is 0 outside the box. Several methods also have the names of
    ``scipy.stats``: ppf, sf, logsf, median, rvs, support.
    """

    def __init__(self, source: BatchSource, *, flat: bool, rows: Integers | None = None) -> None:
        super().__init__(source, flat=flat, rows=rows)
        self._labels = NO_LABELS

    def pdf(self, y: ArrayLike) -> Array:
        """Density of every query at every y (G,) or (G, d): (Q, G)."""
        points = self._points(y)
        return self._map(lambda batch: batch.pdf(points))

    def logpdf(self, y: ArrayLike) -> Array:
        """Logarithm of :meth:`pdf`; -inf where the density is 0."""
        self._need_positive("logpdf")
        points = self._points(y)
        return self._map(lambda batch: batch.logpdf(points))

    def cdf(self, y: ArrayLike) -> Array:
        """P(Y <= y) of every query at every y, (Q, G); jointly for d > 1, of chains by draws."""
        self._need_positive("cdf")
        points = self._points(y)
        return np.clip(self._map(lambda batch: batch.cdf(points)), 0.0, 1.0)

    def logpdf_pairs(self, Y: ArrayLike) -> Array:
        """Log density of query i at Y[i], (Q,)."""
        self._need_positive("logpdf_pairs")
        return self.summary(["logpdf"], Y)["logpdf"]

    def cdf_pairs(self, Y: ArrayLike) -> Array:
        """P(Y <= Y[i]) of query i, (Q,); jointly for d > 1, of chains by draws."""
        self._need_positive("cdf_pairs")
        pairs = self._pairs(Y)
        found = self.each_batch(lambda batch, rows: batch.cdf_each(pairs[rows, None])[:, 0])
        return np.clip(np.concatenate(found), 0.0, 1.0)

    def pdf_each(self, points: ArrayLike) -> Array:
        """Density of query i at points[i], its own: (Q, G) for points (Q, G) or (Q, G, d)."""
        own = np.asarray(points, dtype=float)
        own = own[:, :, None] if own.ndim == 2 and self._source.dim == 1 else own
        if own.ndim != 3 or own.shape[::2] != (len(self), self._source.dim):
            raise InvalidInputError(
                f"points must be ({len(self)}, G, {self._source.dim}), one row per query; got "
                f"{np.shape(points)}."
            )
        return np.concatenate(self.each_batch(lambda batch, rows: batch.pdf_each(own[rows])))

    def mean(self) -> Array:
        """Conditional mean, (Q,) or (Q, d); of chains of outputs by draws (:meth:`with_draws`)."""
        return self.summary(["mean"])["mean"]

    def var(self) -> Array:
        """Conditional variance, (Q,) or (Q, d); of chains by draws (:meth:`with_draws`)."""
        return self.summary(["var"])["var"]

    def std(self) -> Array:
        """Conditional standard deviation, (Q,) or (Q, d); of chains by draws."""
        return self.summary(["sd"])["sd"]

    def mode(self) -> Array:
        """Place of the highest density, (Q,) or (Q, d).

        The density there is within 1e-8 of the highest for one output, within 1 % for several on
        grids or nodes. For a chain of outputs the search begins at its draws (:meth:`with_draws`):
        a peak that none of them is near is missed. Where densities are means over draws of other
        outputs, or over the points of an uncertain input, few of them serve for a first look; all
        of them tell the highest place in the end, to about 0.01 standard deviations.
        """
        return self.summary(["mode"])["mode"]

    def modes(self, prominence: float = PROMINENCE) -> list[Modes]:
        """Peaks of the density of one output, for each query: places and heights, highest first.

        Parameters
        ----------
        prominence : float
            How far a peak must stand out, as a share of the highest density: its height above the
            lowest place on the way to the nearest higher peak. Lesser ones, which no reader of the
            curve would name, are left out; a small value finds every ripple.

        Examples
        --------
        >>> import numpy as np, kcdo
        >>> noise = np.random.default_rng(0).standard_normal(300)
        >>> X, y = np.zeros((300, 1)), np.repeat([-1.0, 1.0], [100, 200]) + 0.1 * noise
        >>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, y)
        >>> model.conditional([[0.0]]).modes()[0].places.round(1)
        array([ 1., -1.])
        """
        self._need_one_output("modes")
        if not 0 < prominence <= 1:
            raise InvalidInputError(f"prominence must lie between 0 and 1; got {prominence!r}.")
        parts = self.each_batch(lambda batch, _: batch.peaks(prominence, prominence))
        return [found for part in parts for found in part]

    def atoms(self) -> tuple[Array, Array]:
        """Values (A,) of one output that have positive probability, and that probability (Q, A).

        A cap, zeros, or all values of an output that takes few. Each is held as a narrow uniform
        density about its place, so that density, distribution function and draws agree.

        Examples
        --------
        >>> import numpy as np, kcdo
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(size=(200, 1))
        >>> y = np.minimum(X[:, 0] + rng.uniform(size=200), 1.0)  # capped at 1
        >>> dist = kcdo.ConditionalDensityOperator().fit(X, y).conditional([[0.3], [0.9]])
        >>> places, probabilities = dist.atoms()
        >>> places, bool(probabilities[0, 0] < 0.5 < probabilities[1, 0])  # truth: 0.3 and 0.9
        (array([1.]), True)
        """
        self._need_one_output("atoms")
        parts = self.each_batch(lambda batch, _: batch.atoms())
        there = [part for part in parts if part is not None]
        if not there:
            return np.empty(0), np.empty((len(self), 0))
        return there[0][0], np.concatenate([part[1] for part in there])

    def support(self) -> Array:
        """Least and greatest y of positive density, (Q, 2); of each output (Q, 2, d).

        Infinite for densities with tails.
        """
        self._need_positive("support")
        ends = self._map(lambda batch: batch.support())
        return ends[..., 0] if self._flat else ends

    def cov(self) -> Array:
        """Conditional covariance matrix, (Q, d, d); of chains by draws."""
        return self._map(lambda batch: batch.moments()[1])

    def quantile(self, q: ArrayLike) -> Array:
        """Quantiles of each marginal: (Q, len(q)), scalar q -> (Q,); trailing d axis for d > 1.

        Those of a chain of outputs are by n draws (:meth:`with_draws`), but for the output that is
        first in the order: the standard error is at most ``sqrt(q (1 - q) / n)`` over the density.
        """
        self._need_positive("quantile")
        levels = np.atleast_1d(np.asarray(q, dtype=float))
        if levels.ndim != 1 or not np.all((levels >= 0) & (levels <= 1)):
            raise InvalidInputError(f"quantile levels must lie in [0, 1]; got {q!r}.")
        values = self._map(lambda batch: batch.quantile(levels))
        values = values[..., 0] if self._flat else values
        return values[:, 0] if np.ndim(q) == 0 else values

    def interval(self, level: float) -> Array:
        """Equal-tailed interval, (Q, 2); (Q, 2, d) for d > 1, of chains by draws."""
        level = _coverage(level)
        return self.quantile([0.5 - level / 2, 0.5 + level / 2])

    def hpd(self, level: float) -> list[HighestDensityRegion]:
        """Region of highest density of each query.

        Exact for one output. For several on a grid its coverage is within 0.01 of ``level`` and its
        volume within 5 %; for a chain the level of the density is by n draws (:meth:`with_draws`),
        with a standard error of the coverage of at most ``sqrt(level (1 - level) / n)``. Where
        densities cost much, means over draws of other outputs or over uncertain inputs, n is
        between 32 and 128, or a quarter of the draws if that is more.
        :meth:`~kcdo.HighestDensityRegion.contains` is exact at that level.
        """
        self._need_positive("hpd")
        level = _coverage(level)
        parts = self.each_batch(lambda batch, _: batch.regions(level))
        shapes = [shape for part in parts for shape in part]
        return [
            HighestDensityRegion(level, s.density_level, s.volume, s.intervals, self[i].pdf)
            for i, s in enumerate(shapes)
        ]

    def entropy(self) -> Array:
        """Differential entropy -E log p(Y | x), (Q,).

        To 1e-5 for one output, 0.02 for several on a grid; for a chain by n draws
        (:meth:`with_draws`), with the standard error of ``standard_error`` of -log p; as many as
        :meth:`hpd` takes.
        """
        self._need_positive("entropy")
        return self._map(lambda batch: batch.entropy())

    def square_integral(self) -> Array:
        """∫ p(y | x)² dy, (Q,); of chains by draws."""
        return self._map(lambda batch: batch.square_integral())

    def crps(self, Y: ArrayLike) -> Array:
        """Continuous ranked probability score of query i at Y[i], (Q,): ∫ (cdf - 1{Y[i] <= t})² dt.

        For 1-D outputs; lower is better.
        """
        self._need_positive("crps")
        self._need_one_output("crps")
        pairs = self._pairs(Y)
        return np.concatenate(self.each_batch(lambda batch, rows: batch.crps(pairs[rows])))

    def sample(self, n: int, random_state: RandomState = None) -> Array:
        """``n`` exact draws of each query, (Q, n) or (Q, n, d).

        Of a chain where outputs are given that are not first in the order they are chosen among
        weighted draws, about four for each, more for unlikely values: some may come again.
        """
        self._need_positive("sample")
        if n < 1:
            raise InvalidInputError(f"the number of draws must be >= 1; got {n}.")
        if isinstance(random_state, np.random.RandomState):
            random_state = int(random_state.randint(2**31))
        rng = np.random.default_rng(random_state)
        parts = self.each_batch(  # numbers are consumed query by query: chunking changes nothing
            lambda batch, _: batch.sample(rng.random((len(batch), n, batch.uniforms))),
            n_jobs=1,
        )
        draws = np.concatenate(parts)
        return draws[..., 0] if self._flat else draws

    def expect(self, g: Callable[[Array], ArrayLike]) -> Array:
        """E[g(Y) | x], (Q,) or (Q, k), for g that maps (G,) or (G, d) to (G,) or (G, k).

        The expectation of an event is its probability: for one output a sum of values of
        :meth:`cdf`, exact but for intervals that hold less than 1/1000 of it, which may be missed.
        Other functions of one output are integrated to 1e-9 of E |g| if they are smooth but for
        jumps and kinks; what they do on less than 1/1000 of the probability of a component of
        the mixture may be missed there. For several outputs, polynomials of degree 3 and events
        that are boxes are exact (for tails, to 1e-3), and other events have an error of about 0.01;
        for a chain of outputs all are by draws (:meth:`with_draws`), and ``standard_error(g)``
        states their error.

        Examples
        --------
        >>> import kcdo
        >>> X, Y = kcdo.make_donut(4, random_state=0)
        >>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y[:, 0])
        >>> dist = model.conditional([[0.0]])
        >>> event = dist.expect(lambda y: (y > -0.1) & (y < 0.3))
        >>> abs(event - (dist.cdf([0.3]) - dist.cdf([-0.1]))[:, 0]) < 1e-9
        array([ True])
        """
        scalar = False

        def matrix_valued(points: Array) -> Array:
            nonlocal scalar
            values = np.asarray(g(points[:, 0] if self._flat else points), dtype=float)
            scalar = values.ndim == 1
            if values.shape[:1] != points.shape[:1] or values.ndim > 2:
                raise InvalidInputError(
                    f"g must map {len(points)} points to ({len(points)},) or ({len(points)}, k) "
                    f"values; it returned shape {values.shape}."
                )
            return values.reshape(len(points), -1)

        values = self._map(lambda batch: batch.expectation(matrix_valued))
        return values[:, 0] if scalar else values

    def summary(self, columns: Sequence[str], Y: ArrayLike | None = None) -> dict[str, Array]:
        """Columns such as mean, sd, var, mode, q05, q50, logpdf, in one pass over the queries.

        ``qNN`` is the quantile of NN per cent (``q2.5`` works); ``logpdf`` needs ``Y``, one row
        per query. What of it is by draws for a chain is so here.
        """
        recipe = Summary(columns)
        if recipe.needs_positive:
            self._need_positive(", ".join(columns))
        pairs = None if Y is None else self._pairs(Y)
        if recipe.needs_outputs and pairs is None:
            raise InvalidInputError('summary of "logpdf" needs Y: one output per query.')
        parts = self.each_batch(
            lambda batch, rows: recipe.compute(batch, None if pairs is None else pairs[rows])
        )
        joined = {name: np.concatenate([p[name] for p in parts]) for name in columns}
        self._flag_negative_variance(joined)
        return {k: v[..., 0] if self._flat and v.ndim == 2 else v for k, v in joined.items()}

    def to_frame(self, columns: Sequence[str], Y: ArrayLike | None = None) -> Any:
        """Return :meth:`summary` as a table of pandas, polars, pyarrow or modin, as X was.

        Several outputs have their names in front, ``speed_mean`` (``y0_mean`` if they have none);
        the rows keep the index of a pandas input.

        Examples
        --------
        >>> import kcdo, pandas as pd
        >>> data = pd.DataFrame({"x": [0.0, 1.0, 2.0], "y": [0.0, 1.0, 2.0]}, index=list("abc"))
        >>> model = kcdo.ConditionalDensityOperator(selection="heuristic")
        >>> model.fit(data[["x"]], data["y"]).conditional(data[["x"]]).to_frame(["mean"]).round(0)
           mean
        a   0.0
        b   1.0
        c   2.0
        """
        return self._labels.frame(self.summary(columns, Y), self._rows)

    def labelled(self, labels: Labels) -> "ConditionalDistribution":
        """Return the same distributions with other labels for :meth:`to_frame`."""
        new = ConditionalDistribution(self._source, flat=self._flat, rows=self._rows)
        new._kept, new._labels = self._kept, labels
        return new

    @property
    def target_names(self) -> tuple[str, ...] | None:
        """Names of the outputs; None where the training data had none."""
        return self._labels.outputs

    def marginal(self, dims: int | Sequence[int]) -> "ConditionalDistribution":
        """Distribution of some output columns; an int gives a 1-D distribution without d axis.

        Of chains it is exact for the outputs that come first in every order, else by draws of the
        others (:meth:`with_draws`).
        """
        flat = isinstance(dims, int | np.integer)
        columns = [int(dims)] if flat else [int(i) for i in dims]  # type: ignore[arg-type,union-attr]
        d = self._source.dim
        if (
            not columns
            or any(not -d <= c < d for c in columns)
            or len({c % d for c in columns}) < len(columns)
        ):
            raise InvalidInputError(
                f"marginal: dims must be distinct columns below {d}; got {dims}."
            )
        known = self._source
        if self._kept is not None:  # marginals share what is kept, such as draws
            known = KeptSource(self._source, self._kept, self._rows)
        source = MarginalSource(known, [c % d for c in columns])
        new = ConditionalDistribution(source, flat=flat, rows=self._rows)
        return new.labelled(self._labels.only([c % d for c in columns]))

    def __getitem__(self, index: int | slice | NDArray) -> "ConditionalDistribution":
        rows = np.atleast_1d(self._rows[index])
        if not len(rows):
            raise InvalidInputError(f"no query is selected by {index!r} of {len(self)}.")
        new = ConditionalDistribution(self._source, flat=self._flat, rows=rows)
        if self._kept is not None:
            new._kept = self._kept.take(np.atleast_1d(np.arange(len(self))[index]))
        return new.labelled(self._labels)

    def __iter__(self) -> Iterator["ConditionalDistribution"]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"ConditionalDistribution({len(self)} queries, {self._source.dim} outputs)"

    def _repr_html_(self) -> str:
        try:
            return small_html(self)
        except SignedDensityError:  # without quantiles there is no table
            return f"<pre>{escape(repr(self))}</pre>"

    def _flag_negative_variance(self, joined: dict[str, Any]) -> None:
        if any(np.any(np.isnan(joined[name])) for name in ("var", "sd") if name in joined):
            warnings.warn(
                "a signed density has a negative variance here; it is returned as NaN. Use "
                'positivity="project" for a proper density.',
                KcdoWarning,
                stacklevel=4,
            )


def _coverage(level: float) -> float:
    if not 0 < level < 1:
        raise InvalidInputError(f"level must lie between 0 and 1; got {level!r}.")
    return float(level)
