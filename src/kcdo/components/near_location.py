"""The location of smoothed rows: regressions on all rows, or on the rows near each query."""

from collections.abc import Sequence
from dataclasses import dataclass, field

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


@dataclass(frozen=True, eq=False)
class Location:
    """Inputs ↦ location and predictive variance: an average of regressions on all or near rows.

    The first regression says which rows are near a query, and how sure the location is.
    """

    near: NearestSystem  # of the first regression, of all rows
    targets: Array  # (N, 1), centred
    offset: float
    regression: Regression | None  # the first, where rows are few enough for one system
    signal: float
    others: tuple[Regression | NearestSystem, ...] = ()
    shares: Array = field(default_factory=lambda: np.ones(1))  # of the first and the others

    def __post_init__(self) -> None:
        shape(self.targets, self.near.n_centres, 1)
        shape(self.shares, 1 + len(self.others))
        need(self.signal > 0, "a variance that is not positive")

    @classmethod
    def fit(
        cls, regressors: Sequence[Regressor], X: Array, rows: Rows, settings: Settings
    ) -> tuple["Location", Array, Array]:
        """Return the model, and held-out locations and variances of all rows."""
        offset = float(np.average(rows.Y[:, 0], weights=rows.weights))
        targets, n_jobs = rows.Y - offset, settings.n_jobs
        near = regressors[0].near(X, rows, n_jobs)
        first, ratio = near.held_out_and_variance(targets)
        regression, others = None, []
        if len(rows) <= settings.effort.exact_rows:
            found = [each.fit(X, rows, targets, n_jobs) for each in regressors]
            (regression, *others), held_out = zip(*found, strict=True)
        else:
            others = [each.near(X, rows, n_jobs) for each in regressors[1:]]
            places = near.rows.near_others(np.arange(len(X)))
            held_out = first, *(_among(other, X, places, targets) for other in others)
        shares = np.array([each.share for each in regressors])
        located = _averaged(shares, held_out)
        squares = (targets - located)[:, 0] ** 2 / ratio
        counted = without_outliers(squares[:, None], rows.weights)[:, 0]
        signal = max(float(np.average(counted, weights=rows.weights)), LEAST_SIGNAL)
        kept = tuple(
            other.without_factor() if isinstance(other, NearestSystem) else other
            for other in others
        )
        own = near.without_factor()
        made = cls(own, targets, offset, regression, signal, kept, shares)
        return made, offset + located[:, 0], made.signal * ratio

    def __call__(self, X: Array) -> tuple[Array, Array]:
        """Return location and variance at inputs, (Q,) each."""
        weights, ratio = self.near.weights_and_variance(X)
        first = weights @ self.targets if self.regression is None else self.regression(X)
        places = weights.indices.reshape(len(X), -1)
        others = [
            _among(other, X, places, self.targets) if isinstance(other, NearestSystem) else other(X)
            for other in self.others
        ]
        centred = _averaged(self.shares, [first, *others])
        return self.offset + centred[:, 0], self.signal * ratio


def _averaged(shares: Array, values: Sequence[Array]) -> Array:
    found: Array = sum(s * v for s, v in zip(shares, values, strict=True))
    return found


def _among(system: NearestSystem, X: NDArray, places: NDArray, targets: Array) -> Array:
    """Return what near rows that are known foretell of inputs, thousands at a time."""
    starts = range(0, len(X), _ROWS_AT_A_TIME)
    parts = [slice(start, start + _ROWS_AT_A_TIME) for start in starts]
    found = [system.weights_among(X[part], places[part]) @ targets for part in parts]
    return np.concatenate(found)
