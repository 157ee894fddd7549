"""The location of smoothed rows: a regression on all rows, or on the rows near each query."""

from dataclasses import dataclass

import numpy as np

from kcdo.arrays import Array
from kcdo.components.location_map import LEAST_SIGNAL, Regression, without_outliers
from kcdo.components.settings import Settings
from kcdo.consistency import need, shape
from kcdo.kernels import Kernel
from kcdo.rows import Rows
from kcdo.systems import ExactRows, Groups, NearestRows, NearestSystem


@dataclass(frozen=True, eq=False)
class Location:
    """Inputs ↦ location and predictive variance, by a regression on all rows or on near ones."""

    near: NearestSystem  # of all rows
    targets: Array  # (N, 1), centred
    offset: float
    regression: Regression | None  # where rows are few enough for one system
    signal: float

    def __post_init__(self) -> None:
        shape(self.targets, self.near.n_centres, 1)
        need(self.signal > 0, "a variance that is not positive")

    @classmethod
    def fit(
        cls, kernel: Kernel, noise: float, X: Array, rows: Rows, settings: Settings
    ) -> tuple["Location", Array, Array]:
        """Return the model, and held-out locations and variances of all rows."""
        offset = float(np.average(rows.Y[:, 0], weights=rows.weights))
        targets, alpha, n_jobs = rows.Y - offset, noise / rows.total, settings.n_jobs
        near = NearestRows(kernel, X, rows.weights, n_jobs=n_jobs).factor(alpha)
        regression = None
        held_out, ratio = near.held_out_and_variance(targets)
        if len(rows) <= settings.effort.exact_rows:
            system = ExactRows(kernel, Groups.of(X, rows.weights), n_jobs=n_jobs).factor(alpha)
            held_out = system.held_out(targets)
            coefficients = system.coefficients(targets)
            regression = Regression(system.without_factor(), coefficients, np.zeros(1))
        errors = targets[:, 0] - held_out[:, 0]
        squares = errors**2 / ratio
        counted = without_outliers(squares[:, None], rows.weights)[:, 0]
        signal = float(np.average(counted, weights=rows.weights))
        made = cls(near.without_factor(), targets, offset, regression, max(signal, LEAST_SIGNAL))
        return made, offset + held_out[:, 0], made.signal * ratio

    def __call__(self, X: Array) -> tuple[Array, Array]:
        """Return location and variance at inputs, (Q,) each."""
        weights, ratio = self.near.weights_and_variance(X)
        centred = weights @ self.targets if self.regression is None else self.regression(X)
        return self.offset + centred[:, 0], self.signal * ratio
