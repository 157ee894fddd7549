"""The location of smoothed rows: regressions on all rows, or on the rows near each query."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.components.location_map import LEAST_SIGNAL, Regression, without_outliers
from kcdo.components.settings import Settings
from kcdo.consistency import need, shape
from kcdo.kernels import Kernel
from kcdo.rows import Rows
from kcdo.systems import ExactRows, Groups, NearestRows, NearestSystem

_ROWS_AT_A_TIME = 1 << 16


@dataclass(frozen=True)
class Regressor:
    """Kernel and noise ratio of a regression, and its share of the average of several."""

    kernel: Kernel
    noise: float
    share: float = 1.0

    def __post_init__(self) -> None:
        need(0 < self.noise < np.inf and self.share > 0, "noise or a share that is not positive")

    def fit(
        self, X: Array, rows: Rows, targets: Array, n_jobs: int | None
    ) -> tuple[Regression, Array]:
        """Return the regression of targets on all rows, and what it foretells of each held out."""
        groups = Groups.of(X, rows.weights)
        system = ExactRows(self.kernel, groups, n_jobs=n_jobs).factor(self.noise / rows.total)
        coefficients = system.coefficients(targets)
        regression = Regression(system.without_factor(), coefficients, np.zeros(1))
        return regression, system.held_out(targets)

    def near(self, X: Array, rows: Rows, n_jobs: int | None) -> NearestSystem:
        """Return the systems of the rows near each query."""
        near = NearestRows(self.kernel, X, rows.weights, n_jobs=n_jobs)
        return near.factor(self.noise / rows.total)


def with_the_rest(
    kernel: Kernel, noise: float, beside: Sequence[Regressor]
) -> tuple[Regressor, ...]:
    """Return a regression that has the rest of the shares, and those it is averaged with."""
    return Regressor(kernel, noise, 1.0 - sum(each.share for each in beside)), *beside


@dataclass(frozen=True, eq=False)
class Location:
    """Inputs ↦ location and predictive variance: an average of regressions on all or near rows.

    The first regression says which rows are near a query, and how sure the location is. Of
    regressions on near rows each counts as much as it is sure.
    """

    near: NearestSystem  # of the first regression, of all rows
    targets: Array  # (N, 1), centred
    offset: float
    regression: Regression | None  # the first, where rows are few enough for one system
    signal: float
    others: tuple[Regression, ...] = ()  # on all rows
    near_others: tuple[NearestSystem, ...] = ()
    shares: Array = field(default_factory=lambda: np.ones(1))  # of the first and the others

    def __post_init__(self) -> None:
        shape(self.targets, self.near.n_centres, 1)
        others = self.near_others if self.regression is None else self.others
        shape(self.shares, 1 + len(others))
        for other in self.near_others:
            shape(other.centres, *self.near.centres.shape)
        inputs = {each.centres.n_inputs for each in self.others}
        need(inputs <= {self.near.n_inputs}, "regressions of other inputs")
        need(self.signal > 0, "a variance that is not positive")
        need(self.shares.min() >= 0 and self.shares.max() > 0, "shares of regressions")

    @classmethod
    def fit(
        cls, regressors: Sequence[Regressor], X: Array, rows: Rows, settings: Settings
    ) -> tuple["Location", Array, Array]:
        """Return the model, and held-out locations and variances of all rows."""
        offset = float(np.average(rows.Y[:, 0], weights=rows.weights))
        targets, n_jobs = rows.Y - offset, settings.n_jobs
        shares = np.array([each.share for each in regressors])
        near = regressors[0].near(X, rows, n_jobs)
        held_out, ratio = near.held_out_and_variance(targets)
        if len(rows) <= settings.effort.exact_rows:
            found = [each.fit(X, rows, targets, n_jobs) for each in regressors]
            (regression, *others), each_held_out = zip(*found, strict=True)
            held_out = averaged(shares, np.hstack(each_held_out))[:, None]
            made = cls(near, targets, offset, regression, 1.0, tuple(others), shares=shares)
        else:
            near_others = tuple(each.near(X, rows, n_jobs) for each in regressors[1:])
            made = cls(near, targets, offset, None, 1.0, near_others=near_others, shares=shares)
            places = near.rows.near_others(np.arange(len(X)))
            held_out = made._near_average(X, places, held_out, ratio)
        squares = (targets - held_out)[:, 0] ** 2 / ratio
        counted = without_outliers(squares[:, None], rows.weights)[:, 0]
        signal = max(float(np.average(counted, weights=rows.weights)), LEAST_SIGNAL)
        own = near.without_factor()
        # all see one copy of the rows
        kept = tuple(
            replace(own.rows, kernel=other.kernel).factor(other.alpha) for other in made.near_others
        )
        made = replace(made, near=own, near_others=kept, signal=signal)
        return made, offset + held_out[:, 0], signal * ratio

    def __call__(self, X: Array) -> tuple[Array, Array]:
        """Return location and variance at inputs, (Q,) each."""
        weights, ratio = self.near.weights_and_variance(X)
        if self.regression is None:
            places = weights.indices.reshape(len(X), -1)
            centred = self._near_average(X, places, weights @ self.targets, ratio)[:, 0]
        else:
            each = [self.regression(X), *(other(X) for other in self.others)]
            centred = averaged(self.shares, np.hstack(each))
        return self.offset + centred, self.signal * ratio

    def _near_average(self, X: Array, places: NDArray, first: Array, ratio: Array) -> Array:
        """Return the average of what near rows that are known foretell, (Q, 1)."""
        if not self.near_others:
            return first
        values, precision = [first], [1.0 / ratio]
        for other in self.near_others:
            value, variance = foretold_among(other, X, places, self.targets)
            values.append(value)
            precision.append(1.0 / variance)
        return averaged(self.shares, np.hstack(values), np.column_stack(precision))[:, None]


def averaged(shares: Array, values: Array, precision: Array | None = None) -> Array:
    """Return averages of values (Q, K), each counting as much as its share and how sure it is."""
    if precision is None:
        return values @ (shares / shares.sum())
    weights = shares * precision
    return np.einsum("qk,qk->q", weights, values) / weights.sum(axis=1)


def foretold_among(
    system: NearestSystem, X: NDArray, places: NDArray, targets: Array
) -> tuple[Array, Array]:
    """Return predictions (Q, 1) by near rows that are known, and their variance ratios (Q,)."""
    values, variance = np.empty((len(X), 1)), np.empty(len(X))
    for start in range(0, len(X), _ROWS_AT_A_TIME):
        part = slice(start, start + _ROWS_AT_A_TIME)
        weights, variance[part] = system.weights_and_variance_among(X[part], places[part])
        values[part] = weights @ targets
    return values, variance
