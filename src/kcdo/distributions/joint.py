"""Questions to the distributions of several outputs: some given others, and how draws err."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from kcdo.arrays import Array, Integers
from kcdo.distributions.batch import FEWEST_DRAWS, Batch
from kcdo.distributions.lazy import LazyBatches
from kcdo.distributions.sources import BatchSource
from kcdo.errors import InvalidInputError
from kcdo.frames import Labels

_MOST_DRAWS = 1 << 16


class JointQuestions(LazyBatches):
    """What joint distributions are asked besides what one output is asked."""

    _labels: Labels

    @property
    def index(self) -> Any:
        """Names of the queries: the index of the frame that they came in, None of an array.

        >>> import numpy as np, pandas as pd, kcdo
        >>> x = pd.DataFrame({"x": np.arange(9.0)}, index=list("abcdefghi"))
        >>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(x, x["x"] ** 2)
        >>> list(model.conditional(x)[2:4].index)
        ['c', 'd']
        """
        return None if self._labels.index is None else self._labels.index[self._rows]

    def given(self, values: Mapping[int | str, ArrayLike]) -> Self:
        """Distribution of the other outputs, where some have known values.

        Of densities on a grid it is exact. Of chains of outputs it is exact where the outputs that
        are given come first in every order; else densities and draws are by weighted draws (see
        :meth:`with_draws`), as a mixture of orders, each weighted by the likelihood of the values.
        The less likely the values, the more draws it takes for some to have a weight: they are
        taken, up to 4,096 of each query, beyond which a warning says that answers are rough.

        Parameters
        ----------
        values : dict
            Values of some outputs, by position or name: one number for all queries, or one for
            each, (Q,).

        Examples
        --------
        >>> import numpy as np, kcdo
        >>> rng = np.random.default_rng(0)
        >>> X, y = rng.uniform(size=(25, 1)), rng.standard_normal(25)
        >>> Y = np.stack([y, y + 0.1 * rng.standard_normal(25)], axis=1)
        >>> model = kcdo.ConditionalDensityOperator(joint="chain").fit(X, Y)
        >>> model.conditional([[0.0]]).given({0: 1.0}).mean().round(0)
        array([1.])
        """
        self._need_positive("given")
        places, known = self._given_values(values)
        others = [i for i in range(self.n_outputs) if i not in places]
        if not others:
            raise InvalidInputError("given: all outputs are given, none is left to be foretold.")
        source = _GivenSource(self._source, self._rows, tuple(places), known)
        # a query may come several times, each time with other values: rows are counted anew
        labels = replace(self._labels.only(others), index=self.index)
        new: Any = type(self)(source, flat=len(others) == 1)
        return new.labelled(labels)

    def with_draws(self, n_draws: int, random_state: int = 0) -> Self:
        """Return the same distributions; what is computed from draws then uses other draws.

        Chains of outputs answer ``mean``, ``cov``, ``quantile``, ``marginal``, ``cdf``, ``expect``,
        ``hpd``, ``mode``, ``entropy`` and ``summary`` by fixed quasi-random draws of each query;
        log densities and :meth:`sample` are exact. More draws cost in proportion;
        :meth:`standard_error` tells what they leave. Grids need no draws.

        Parameters
        ----------
        n_draws : int
            Draws of each query, rounded up to a power of two; several orders share them.
        random_state : int
            Their seed.
        """
        if not FEWEST_DRAWS <= n_draws <= _MOST_DRAWS:
            raise InvalidInputError(
                f"n_draws must lie between {FEWEST_DRAWS} and {_MOST_DRAWS}; got {n_draws}."
            )
        if not isinstance(random_state, int | np.integer) or random_state < 0:
            raise InvalidInputError(
                "random_state must be a whole number >= 0 here: the same draws answer every "
                f"question; got {random_state!r}."
            )
        count = 1 << (int(n_draws) - 1).bit_length()
        source = _DrawnSource(self._source, count, int(random_state))
        new: Any = type(self)(source, flat=self._flat, rows=self._rows)
        return new.labelled(self._labels)

    def fixed_draws(self) -> Array | None:
        """Quasi-random draws (Q, n, d) that a chain answers by, the same at every call.

        Of several orders they are draws of each, as many as its weight. None where answers need no
        draws, or weigh them: grids, some outputs given others. For scores: they cost nothing once
        anything else was asked.
        """
        parts = self.each_batch(lambda batch, _: batch.fixed_draws())
        known = [part for part in parts if part is not None]
        return np.concatenate(known) if len(known) == len(parts) else None

    def pair_picture(self, pair: tuple[int, int], across: ArrayLike, up: ArrayLike) -> Array:
        """Joint density of two outputs on the grid of two lines (n,) and (m,): (Q, n, m).

        For pictures. It is the density of ``marginal(pair)``, but for chains of outputs where
        others come before the pair in an order: there it is smoothed over the earlier output, by a
        quarter of its standard deviation, which saves draws of the others at every point.
        """
        self._need_positive("pair_picture")
        lines = [np.asarray(line, dtype=float).ravel() for line in (across, up)]
        return self._map(lambda batch: batch.pair_picture(pair, *lines))

    def standard_error(self, g: Callable[[Array], ArrayLike] | None = None) -> Array:
        """Standard error of the answers that are by draws: of :meth:`mean`, or of ``expect(g)``.

        0 where there are none: one output, grids. Of a probability p by n draws it is at most
        ``sqrt(p (1 - p) / n)``: also that of the coverage of ``hpd(p)``. Given values so unlikely
        that less than ten draws carry the weight, of which there is a warning, it is no more than
        their spread: the error may be several times larger.

        Parameters
        ----------
        g : function, optional
            As in :meth:`expect`.

        Returns
        -------
        array of the shape of the answer: (Q, d), or (Q,) or (Q, k) for g
        """
        scalar = False

        def values(points: Array) -> Array:
            nonlocal scalar
            assert g is not None
            found = np.asarray(g(points[:, 0] if self._flat else points), dtype=float)
            scalar = found.ndim == 1
            return found.reshape(len(points), -1)

        errors = self._map(lambda batch: batch.draw_error(None if g is None else values))
        return errors[:, 0] if scalar or (g is None and self._flat) else errors

    def _given_values(self, values: Mapping[int | str, ArrayLike]) -> tuple[list[int], Array]:
        """Return the places of outputs and their values (Q, k), checked."""
        d, names = self.n_outputs, self._labels.outputs
        places = [_place(key, d, names) for key in values]
        if not places or len(set(places)) < len(places):
            raise InvalidInputError(
                f"given needs at least one output, and each one once; got {list(values)}."
            )
        columns = []
        for key, value in values.items():
            column = np.asarray(value, dtype=float)
            if column.shape not in ((), (len(self),)) or not np.all(np.isfinite(column)):
                raise InvalidInputError(
                    f"given: output {key!r} needs one finite number, or one for each of the "
                    f"{len(self)} queries; got {value!r}."
                )
            columns.append(np.broadcast_to(column, len(self)))
        return places, np.stack(columns, axis=1)


def _place(key: int | str, d: int, names: tuple[str, ...] | None) -> int:
    if isinstance(key, str) and names is not None and key in names:
        return names.index(key)
    if isinstance(key, bool | str) or not isinstance(key, int | np.integer) or not -d <= key < d:
        known = "" if names is None else f" or one of {list(names)}"
        raise InvalidInputError(f"given: outputs are numbers below {d}{known}; got {key!r}.")
    return int(key) % d


@dataclass(frozen=True, eq=False)
class _GivenSource:
    """Distributions of some outputs given others."""

    source: BatchSource
    rows: Integers  # of the source, one for each query
    places: tuple[int, ...]
    values: Array  # (Q, k)

    @property
    def dim(self) -> int:
        """Number of outputs that are left."""
        return self.source.dim - len(self.places)

    @property
    def signed(self) -> bool:
        """Whether densities may be negative."""
        return self.source.signed

    @property
    def width(self) -> int:
        """Numbers held for each query."""
        return self.source.width

    @property
    def n_jobs(self) -> int | None:
        """Threads to use."""
        return self.source.n_jobs

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, rows: Integers) -> Batch:
        """Return the conditionals of some queries."""
        return self.source.batch(self.rows[rows]).given(self.places, self.values[rows])


@dataclass(frozen=True, eq=False)
class _DrawnSource:
    """The same distributions with other draws."""

    source: BatchSource
    n_draws: int
    seed: int

    @property
    def dim(self) -> int:
        """Number of outputs."""
        return self.source.dim

    @property
    def signed(self) -> bool:
        """Whether densities may be negative."""
        return self.source.signed

    @property
    def width(self) -> int:
        """Numbers held for each query."""
        return self.source.width + self.n_draws * self.dim

    @property
    def marginal_width(self) -> int:
        """Numbers held for each query where one output is asked."""
        return self.source.width * self.n_draws

    @property
    def n_jobs(self) -> int | None:
        """Threads to use."""
        return self.source.n_jobs

    def __len__(self) -> int:
        return len(self.source)

    def batch(self, rows: Integers) -> Batch:
        """Return the distributions of some queries."""
        return self.source.batch(rows).with_draws(self.n_draws, self.seed)
