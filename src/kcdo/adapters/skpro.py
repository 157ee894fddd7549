"""kcdo in skpro: a probabilistic regressor, and its predictions as a distribution of skpro."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from kcdo.arrays import Array
from kcdo.distributions import ConditionalDistribution
from kcdo.errors import InvalidInputError
from kcdo.estimators import ConditionalDensityOperator
from kcdo.extras import import_extra
from kcdo.metrics.predictive import by_chunks

import_extra("skpro", extra="skpro", what="The regressor and distribution of skpro")

import pandas as pd  # noqa: E402 - skpro brings it, and the error above comes first
from skpro.distributions.base import BaseDistribution  # noqa: E402
from skpro.regression.base import BaseProbaRegressor  # noqa: E402
from skpro.utils.sklearn import prep_skl_df  # noqa: E402

__all__ = ["KernelCDE", "KernelDistribution"]

_TOGETHER = 32  # queries whose own points are all asked of all of them


class KernelDistribution(BaseDistribution):
    """Distributions of kcdo as one of skpro: exact, and entry by entry.

    skpro asks for marginals of each output; draws come from the joint distribution of the
    outputs of a row. Energies of several outputs are sums over them, as elsewhere in skpro.

    Parameters
    ----------
    dist : ConditionalDistribution
        One row of skpro's table for each query, one column for each output.
    index, columns : pandas.Index, optional
        Names of rows and columns. Without either, the distribution of one query and output is a
        scalar in skpro's sense.

    Examples
    --------
    >>> import kcdo
    >>> from kcdo.adapters.skpro import KernelDistribution
    >>> X, Y = kcdo.make_donut(40, random_state=0)
    >>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    >>> distr = KernelDistribution(model.conditional(X[:3]), columns=["y", "z"])
    >>> distr.shape
    (3, 2)
    >>> distr.cdf(distr.ppf(0.25)).round(6)
          y     z
    0  0.25  0.25
    1  0.25  0.25
    2  0.25  0.25
    """

    _tags: ClassVar[dict[str, Any]] = {
        "capabilities:approx": [],
        "capabilities:exact": [
            *("mean", "var", "energy", "pdf", "log_pdf", "cdf", "ppf", "pdfnorm")
        ],
        "distr:measuretype": "continuous",
        "distr:paramtype": "nonparametric",
    }

    def __init__(
        self, dist: ConditionalDistribution, index: Any = None, columns: Any = None
    ) -> None:
        self.dist = dist
        if len(dist) > 1 or dist.n_outputs > 1 or index is not None or columns is not None:
            index = pd.RangeIndex(len(dist)) if index is None else index
            columns = pd.RangeIndex(dist.n_outputs) if columns is None else columns
            if (len(index), len(columns)) != (len(dist), dist.n_outputs):
                raise InvalidInputError(
                    f"index and columns must name {len(dist)} queries and {dist.n_outputs} "
                    f"outputs; got {len(index)} and {len(columns)} names."
                )
        super().__init__(index=index, columns=columns)

    def pdfnorm(self, a: float = 2) -> Any:
        """Return ∫ p(y)ᵃ dy of every entry."""
        return self._boilerplate("_pdfnorm", a=a)

    # --- what skpro asks of a distribution: arrays of the shape of its table, in and out

    def _pdf(self, x: Array) -> Array:
        return np.exp(self._log_pdf(x))

    def _log_pdf(self, x: Array) -> Array:
        return self._columnwise(lambda line, y: line.logpdf_pairs(y), x)

    def _cdf(self, x: Array) -> Array:
        return self._columnwise(lambda line, y: _own(line, "cdf", y), x)

    def _ppf(self, p: Array) -> Array:
        return self._columnwise(lambda line, levels: _own(line, "quantile", levels), p)

    def _mean(self) -> Array:
        return self._shaped(self.dist.mean())

    def _var(self) -> Array:
        return self._shaped(self.dist.var())

    def _energy_self(self) -> Array:
        return self._row_sums(self._columnwise(lambda line, _: _mean_difference(line)))

    def _energy_x(self, x: Array) -> Array:
        # CRPS = E|Y - x| - E|Y - Y'| / 2
        return self._row_sums(
            self._columnwise(lambda line, y: line.crps(y) + 0.5 * _mean_difference(line), x)
        )

    def _pdfnorm(self, a: Array) -> Array:
        return self._columnwise(lambda line, powers: _power_integrals(line, powers[0]), a)

    def _sample(self, n_samples: int | None = None) -> Any:
        n = 1 if n_samples is None else n_samples
        seed = np.random.randint(2**31)  # noqa: NPY002 - as skpro draws, so that its seeds count
        draws = np.asarray(self.dist.sample(n, random_state=int(seed)))
        draws = draws.reshape(len(self.dist), n, self.dist.n_outputs)
        if self.ndim == 0:
            return float(draws[0, 0, 0]) if n_samples is None else pd.DataFrame(draws[0])
        if n_samples is None:
            return pd.DataFrame(draws[:, 0], index=self.index, columns=self.columns)
        tables = [pd.DataFrame(t, self.index, self.columns) for t in np.swapaxes(draws, 0, 1)]
        return pd.concat(tables, keys=range(n))

    def _iloc(self, rowidx: Any = None, colidx: Any = None) -> "KernelDistribution":
        rows = np.arange(len(self.dist)) if rowidx is None else np.atleast_1d(rowidx)
        columns = np.arange(self.dist.n_outputs) if colidx is None else np.atleast_1d(colidx)
        dist = self.dist[rows]
        if colidx is not None:
            dist = dist.marginal([int(c) for c in columns])
        if np.ndim(rowidx) == np.ndim(colidx) == 0 and rowidx is not None and colidx is not None:
            return type(self)(dist)
        return type(self)(dist, index=self.index.take(rows), columns=self.columns.take(columns))

    def _iat(self, rowidx: Any = None, colidx: Any = None) -> "KernelDistribution":
        return self._iloc(int(rowidx), int(colidx))

    def _columnwise(
        self, answer: Callable[[ConditionalDistribution, Array], Array], x: ArrayLike = 0.0
    ) -> Array:
        """Return answers for each output with its column of x, in the shape of the table."""
        table = np.broadcast_to(np.asarray(x, dtype=float), self.shape or (1, 1))
        lines = [self.dist.marginal(j) for j in range(self.dist.n_outputs)]
        columns = [answer(line, y) for line, y in zip(lines, table.T, strict=True)]
        return self._shaped(np.column_stack(columns))

    def _shaped(self, values: Array) -> Array:
        return np.asarray(values).reshape(self.shape)

    def _row_sums(self, energies: Array) -> Array:
        return energies if self.ndim == 0 else energies.sum(axis=1, keepdims=True)

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return what skpro's checks make distributions of."""
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, (40, 1))
        Y = np.hstack([X, -X]) + 0.1 * rng.standard_normal((40, 2))
        queries = np.linspace(-0.8, 0.8, 5)[:, None]
        quick = ConditionalDensityOperator(selection="heuristic")
        one = clone(quick).fit(X, Y[:, 0]).conditional(queries)
        two = clone(quick).fit(X, Y).conditional(queries)
        names = {"index": pd.Index(list("abcde")), "columns": pd.Index(["u", "v"])}
        return [{"dist": one}, {"dist": two, **names}, {"dist": one[0]}]


class KernelCDE(BaseProbaRegressor):
    """Conditional densities of kcdo as a probabilistic regressor of skpro.

    Parameters
    ----------
    estimator : ConditionalDensityOperator, optional
        The model to fit, with its options; by default one with its defaults.

    Attributes
    ----------
    estimator_ : ConditionalDensityOperator
        The fitted model.

    Examples
    --------
    >>> import kcdo
    >>> from kcdo.adapters.skpro import KernelCDE
    >>> from kcdo.datasets import make_donut
    >>> X, Y = make_donut(40, random_state=0)
    >>> rule = kcdo.ConditionalDensityOperator(selection="heuristic")
    >>> KernelCDE(rule).fit(X, Y[:, 0]).predict_quantiles(X[:3], alpha=[0.1, 0.9]).shape
    (3, 2)
    """

    _tags: ClassVar[dict[str, Any]] = {
        "authors": ["The kcdo developers"],
        "capability:multioutput": True,
        "capability:missing": False,
    }

    def __init__(self, estimator: ConditionalDensityOperator | None = None) -> None:
        self.estimator = estimator
        super().__init__()

    def _fit(self, X: Any, y: Any) -> "KernelCDE":
        model = ConditionalDensityOperator() if self.estimator is None else clone(self.estimator)
        self.estimator_ = model.fit(
            prep_skl_df(X, copy_df=True), y
        )  # names of columns may be of any kind
        self._outputs = y.columns
        return self

    def _predict(self, X: Any) -> Any:
        return self._table(X, self._given(X).mean())

    def _predict_var(self, X: Any) -> Any:
        return self._table(X, self._given(X).var())

    def _predict_proba(self, X: Any) -> KernelDistribution:
        return KernelDistribution(self._given(X), index=X.index, columns=self._outputs)

    def _predict_quantiles(self, X: Any, alpha: list[float]) -> Any:
        columns = pd.MultiIndex.from_product([self._get_varnames(), alpha])
        return self._quantile_table(X, alpha, columns)

    def _predict_interval(self, X: Any, coverage: list[float]) -> Any:
        sides = [0.5 + 0.5 * sign * c for c in coverage for sign in (-1, 1)]
        names = [self._get_varnames(), coverage, ["lower", "upper"]]
        return self._quantile_table(X, sides, pd.MultiIndex.from_product(names))

    def _quantile_table(self, X: Any, levels: list[float], columns: Any) -> Any:
        values = self._given(X).quantile(levels)  # (Q, levels, d)
        values = np.swapaxes(values, 1, 2).reshape(len(X), len(columns))
        return pd.DataFrame(values, index=X.index, columns=columns)

    def _given(self, X: Any) -> ConditionalDistribution:
        return self.estimator_.conditional(_named(X))

    def _table(self, X: Any, values: Array) -> Any:
        return pd.DataFrame(values, index=X.index, columns=self._outputs)

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return what skpro's checks make regressors of."""
        quick = ConditionalDensityOperator(selection="heuristic")
        return [{"estimator": quick}, {"estimator": clone(quick).set_params(alpha=1e-2)}]


def _named(X: Any) -> Any:
    """Return X with texts as names of its columns, which skpro allows to be anything."""
    return prep_skl_df(X, copy_df=True)


def _own(line: ConditionalDistribution, method: str, values: Array) -> Array:
    """Return the answer of query i of one output to values[i], (Q,)."""
    if np.ptp(values) == 0:
        return np.asarray(getattr(line, method)(values[:1]))[:, 0]
    return by_chunks(
        line, lambda part, rows: np.diagonal(getattr(part, method)(values[rows])), size=_TOGETHER
    )


def _mean_difference(line: ConditionalDistribution) -> Array:
    """Return E|Y - Y'| of two independent draws of each query, (Q,).

    It is 2 (E|Y - c| - CRPS(c)) for any c; one c for all queries takes one pass.
    """
    c = float(np.median(line.median()))
    spread = 2.0 * (line.expect(lambda y: np.abs(y - c)) - line.crps(np.full(len(line), c)))
    return np.maximum(spread, 0.0)


def _power_integrals(line: ConditionalDistribution, a: float) -> Array:
    """Return ∫ p(y)ᵃ dy of each query, (Q,)."""
    if a == 2:
        return line.square_integral()

    def integral(one: ConditionalDistribution) -> Array:
        return one.expect(lambda y: one.pdf(y)[0] ** (a - 1))

    return np.concatenate([integral(one) for one in line])
