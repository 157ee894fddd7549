"""ConditionalDistribution: what a prediction is. Condition, then query."""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kcdo.arrays import Array
from kcdo.distributions.batch import Batch, join
from kcdo.distributions.layouts import as_points
from kcdo.distributions.picture import small_html
from kcdo.distributions.summary import Summary
from kcdo.errors import InvalidInputError, KcdoWarning, SignedDensityError
from kcdo.frames import NO_LABELS, Labels
from kcdo.parallel import ordered_map, thread_count

Result = TypeVar("Result")

_CHUNK_ELEMENTS = 1 << 20  # numbers held at a time by a thread: 8 MiB
_CACHE_ELEMENTS = 1 << 22


class BatchSource(Protocol):
    """Where the distributions of queries come from."""

    @property
    def dim(self) -> int:
        """Number of outputs."""

    @property
    def signed(self) -> bool:
        """Whether densities may be negative."""

    @property
    def width(self) -> int:
        """Numbers held for each query while its distribution is computed."""

    @property
    def n_jobs(self) -> int | None:
        """Threads to use."""

    def __len__(self) -> int:
        """Return the number of queries."""

    def batch(self, rows: NDArray[np.integer]) -> Batch:
        """Return the distributions of some queries."""


@dataclass(frozen=True)
class HighestDensityRegion:
    """The smallest region that holds ``coverage`` of the probability.

    Attributes
    ----------
    coverage, density_level, volume : float
        The region is where the density is at least ``density_level``.
    intervals : (n, 2) array or None
        Its intervals, for 1-D outputs on a grid.
    """

    coverage: float
    density_level: float
    volume: float
    intervals: Array | None
    _pdf: Callable[[ArrayLike], Array]

    def contains(self, y: ArrayLike) -> NDArray[np.bool_]:
        """Whether each point, (G,) or (G, d), lies in the region."""
        return self._pdf(y)[0] >= self.density_level * (1 - 1e-12)


class ConditionalDistribution:
    """The distributions p(y | x_q) of Q queries, computed when asked, in chunks.

    Axes: Q queries, G points, d output dimensions; a trailing d axis is absent when the outputs
    were 1-D. On grids the density is 0 outside the box.
    """

    def __init__(
        self, source: BatchSource, *, flat: bool, rows: NDArray[np.integer] | None = None
    ) -> None:
        self._source = source
        self._flat = flat
        self._rows = np.arange(len(source)) if rows is None else rows
        self._kept: Batch | None = None
        self._labels = NO_LABELS

    @property
    def n_outputs(self) -> int:
        """Number of outputs d."""
        return self._source.dim

    @property
    def flat(self) -> bool:
        """Whether the one output has no axis: means are (Q,), not (Q, 1)."""
        return self._flat

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
        """P(Y <= y) of every query at every y, (Q, G); the joint cdf for d > 1."""
        self._need_positive("cdf")
        points = self._points(y)
        return np.clip(self._map(lambda batch: batch.cdf(points)), 0.0, 1.0)

    def logpdf_pairs(self, Y: ArrayLike) -> Array:
        """Log density of query i at Y[i], (Q,)."""
        self._need_positive("logpdf_pairs")
        return self.summary(["logpdf"], Y)["logpdf"]

    def pdf_each(self, points: ArrayLike) -> Array:
        """Density of query i at points[i], its own: (Q, G) for points (Q, G) or (Q, G, d)."""
        own = np.asarray(points, dtype=float)
        own = own[:, :, None] if own.ndim == 2 and self._source.dim == 1 else own
        if own.ndim != 3 or own.shape[::2] != (len(self), self._source.dim):
            raise InvalidInputError(
                f"points must be ({len(self)}, G, {self._source.dim}), one row per query; got "
                f"{np.shape(points)}."
            )
        return np.concatenate(self._each(lambda batch, rows: batch.pdf_each(own[rows])))

    def mean(self) -> Array:
        """Conditional mean, (Q,) or (Q, d)."""
        return self.summary(["mean"])["mean"]

    def var(self) -> Array:
        """Conditional variance, (Q,) or (Q, d)."""
        return self.summary(["var"])["var"]

    def std(self) -> Array:
        """Conditional standard deviation, (Q,) or (Q, d)."""
        return self.summary(["sd"])["sd"]

    def mode(self) -> Array:
        """Place of the highest density, (Q,) or (Q, d)."""
        return self.summary(["mode"])["mode"]

    def cov(self) -> Array:
        """Conditional covariance matrix, (Q, d, d)."""
        return self._map(lambda batch: batch.moments()[1])

    def quantile(self, q: ArrayLike) -> Array:
        """Quantiles of each marginal: (Q, len(q)), scalar q -> (Q,); trailing d axis for d > 1."""
        self._need_positive("quantile")
        levels = np.atleast_1d(np.asarray(q, dtype=float))
        if levels.ndim != 1 or not np.all((levels >= 0) & (levels <= 1)):
            raise InvalidInputError(f"quantile levels must lie in [0, 1]; got {q!r}.")
        values = self._map(lambda batch: batch.quantile(levels))
        values = values[..., 0] if self._flat else values
        return values[:, 0] if np.ndim(q) == 0 else values

    def interval(self, level: float) -> Array:
        """Equal-tailed interval, (Q, 2); (Q, 2, d) for d > 1."""
        level = _coverage(level)
        return self.quantile([0.5 - level / 2, 0.5 + level / 2])

    def hpd(self, level: float) -> list[HighestDensityRegion]:
        """Region of highest density of each query; exact in 1-D, else to the grid's resolution."""
        self._need_positive("hpd")
        level = _coverage(level)
        parts = self._each(lambda batch, _: batch.regions(level))
        shapes = [shape for part in parts for shape in part]
        return [
            HighestDensityRegion(level, s.density_level, s.volume, s.intervals, self[i].pdf)
            for i, s in enumerate(shapes)
        ]

    def entropy(self) -> Array:
        """Differential entropy -E log p(Y | x), (Q,)."""
        self._need_positive("entropy")
        return self._map(lambda batch: batch.entropy())

    def square_integral(self) -> Array:
        """∫ p(y | x)² dy, (Q,)."""
        return self._map(lambda batch: batch.square_integral())

    def crps(self, Y: ArrayLike) -> Array:
        """Continuous ranked probability score of query i at Y[i], (Q,): ∫ (cdf - 1{Y[i] <= t})² dt.

        For 1-D outputs; lower is better.
        """
        self._need_positive("crps")
        if self._source.dim > 1:
            raise InvalidInputError(
                f"crps is defined for one output, here are {self._source.dim}: take a marginal."
            )
        pairs = self._pairs(Y)
        return np.concatenate(self._each(lambda batch, rows: batch.crps(pairs[rows])))

    def sample(
        self, n: int, random_state: int | np.random.Generator | np.random.RandomState | None = None
    ) -> Array:
        """``n`` exact draws of each query, (Q, n) or (Q, n, d)."""
        self._need_positive("sample")
        if n < 1:
            raise InvalidInputError(f"the number of draws must be >= 1; got {n}.")
        if isinstance(random_state, np.random.RandomState):
            random_state = int(random_state.randint(2**31))
        rng = np.random.default_rng(random_state)
        uniforms = self._source.dim + 1  # consumed query by query: chunking changes nothing
        parts = self._each(
            lambda batch, _: batch.sample(rng.random((len(batch), n, uniforms))),
            n_jobs=1,
        )
        draws = np.concatenate(parts)
        return draws[..., 0] if self._flat else draws

    def expect(self, g: Callable[[Array], ArrayLike]) -> Array:
        """E[g(Y) | x], (Q,) or (Q, k), for g that maps (G,) or (G, d) to (G,) or (G, k)."""
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

        values = self._map(lambda batch: batch.expect(matrix_valued))
        return values[:, 0] if scalar else values

    def summary(self, columns: Sequence[str], Y: ArrayLike | None = None) -> dict[str, Array]:
        """Columns such as mean, sd, var, mode, q05, q50, logpdf, in one pass over the queries.

        ``qNN`` is the quantile of NN per cent (``q2.5`` works); ``logpdf`` needs ``Y``, one row
        per query.
        """
        recipe = Summary(columns)
        if recipe.needs_positive:
            self._need_positive(", ".join(columns))
        pairs = None if Y is None else self._pairs(Y)
        if recipe.needs_outputs and pairs is None:
            raise InvalidInputError('summary of "logpdf" needs Y: one output per query.')
        parts = self._each(
            lambda batch, rows: recipe.compute(batch, None if pairs is None else pairs[rows])
        )
        joined = {name: np.concatenate([p[name] for p in parts]) for name in columns}
        self._flag_negative_variance(joined)
        return {k: v[..., 0] if self._flat and v.ndim == 2 else v for k, v in joined.items()}

    def to_frame(self, columns: Sequence[str], Y: ArrayLike | None = None) -> Any:
        """Return :meth:`summary` as a pandas or polars table, as the inputs were.

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
        """Distribution of some output columns; an int gives a 1-D distribution without d axis."""
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
        source = _MarginalSource(self._source, [c % d for c in columns])
        new = ConditionalDistribution(source, flat=flat, rows=self._rows)
        return new.labelled(self._labels.only([c % d for c in columns]))

    def plot(self, ax: Any = None) -> Any:
        """Draw density curves, or contours of two outputs, as :func:`kcdo.plot_distribution`."""
        from kcdo.plotting import plot_distribution  # an optional extra, above this layer

        return plot_distribution(self, ax)

    def __getitem__(self, index: int | slice | NDArray) -> "ConditionalDistribution":
        rows = np.atleast_1d(self._rows[index])
        if not len(rows):
            raise InvalidInputError(f"no query is selected by {index!r} of {len(self)}.")
        new = ConditionalDistribution(self._source, flat=self._flat, rows=rows)
        if self._kept is not None:
            new._kept = self._kept.take(np.atleast_1d(np.arange(len(self))[index]))
        return new.labelled(self._labels)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator["ConditionalDistribution"]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"ConditionalDistribution({len(self)} queries, {self._source.dim} outputs)"

    def _repr_html_(self) -> str:
        try:
            return small_html(self)
        except SignedDensityError:  # without quantiles there is no table
            return f"<pre>{escape(repr(self))}</pre>"

    def _each(
        self, answer: Callable[[Batch, slice], Result], n_jobs: int | None = None
    ) -> list[Result]:
        """Return the answers for consecutive chunks of queries, given distributions and places.

        Chunks are worked on by several threads; the distributions of few queries are kept for the
        next question.
        """
        if self._kept is not None:
            return [answer(self._kept, slice(0, len(self)))]
        n_jobs = self._source.n_jobs if n_jobs is None else n_jobs
        parts = self._parts(thread_count(n_jobs))

        def work(part: slice) -> tuple[Result, Batch | None]:
            batch = self._source.batch(self._rows[part])
            small = len(self) * batch.width <= _CACHE_ELEMENTS
            return answer(batch, part), batch if small else None

        results = list(ordered_map(work, parts, n_jobs))
        batches = [batch for _, batch in results if batch is not None]
        if len(batches) == len(parts):
            self._kept = join(batches)
        return [result for result, _ in results]

    def _parts(self, threads: int) -> list[slice]:
        """Return consecutive chunks of queries, as many for each thread."""
        step = max(1, _CHUNK_ELEMENTS // self._source.width)
        if len(self) > step:
            rounds = math.ceil(len(self) / (step * threads))
            step = math.ceil(len(self) / (rounds * threads))
        return [slice(start, start + step) for start in range(0, len(self), step)]

    def _map(self, answer: Callable[[Batch], Array]) -> Array:
        return np.concatenate(self._each(lambda batch, _: answer(batch)))

    def _points(self, y: ArrayLike) -> Array:
        return as_points(y, self._source.dim)

    def _pairs(self, Y: ArrayLike) -> Array:
        points = self._points(Y)
        if len(points) != len(self):
            raise InvalidInputError(
                f"Y must have one row per query: {len(self)} queries, {len(points)} rows."
            )
        return points

    def _need_positive(self, what: str) -> None:
        if self._source.signed:
            raise SignedDensityError(
                f'{what} is not defined for positivity="signed", whose density may be negative: '
                'use positivity="project" or "clip".'
            )

    def _flag_negative_variance(self, joined: dict[str, Any]) -> None:
        if any(np.any(np.isnan(joined[name])) for name in ("var", "sd") if name in joined):
            warnings.warn(
                "a signed density has a negative variance here; it is returned as NaN. Use "
                'positivity="project" for a proper density.',
                KcdoWarning,
                stacklevel=4,
            )


class _MarginalSource:
    """Distributions of the columns that are asked for."""

    def __init__(self, source: BatchSource, dims: list[int]) -> None:
        self._source, self._dims = source, dims
        self.dim = len(dims)
        self.signed, self.width, self.n_jobs = source.signed, source.width, source.n_jobs

    def __len__(self) -> int:
        return len(self._source)

    def batch(self, rows: NDArray[np.integer]) -> Batch:
        """Return the marginals of some queries."""
        return self._source.batch(rows).marginal(self._dims)


def _coverage(level: float) -> float:
    if not 0 < level < 1:
        raise InvalidInputError(f"level must lie between 0 and 1; got {level!r}.")
    return float(level)
