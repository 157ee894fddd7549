"""What a conformal calibration gives: intervals and regions of queries."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from kcdo.arrays import Array, Integers
from kcdo.conformal.regions import ConformalRegion, joint_region, regions_on_a_line
from kcdo.conformal.scores import HeldOut
from kcdo.conformal.thresholds import Folds, Part, Split
from kcdo.consistency import need
from kcdo.frames import take_rows
from kcdo.persistence.models import SavedModel

Method = Literal["split", "jackknife+"]

_ELEMENTS = 1 << 20  # ends of intervals held at a time
_QUERIES = 64  # whose densities are held at a time
_DENSITIES = 2048  # the same, of all models together
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class ConformalPredictor(SavedModel):
    """A calibrated model, made by :func:`~kcdo.conformalize`.

    ``predictor.save(path)`` writes it to a file that :func:`kcdo.load` reads, as models are.

    Attributes
    ----------
    model : ConditionalDensityOperator
        The model, as it was.
    calibration : Split or Folds
        How typical the model, or for the jackknife+ the models of the folds, find the rows they
        have not seen.
    """

    model: Any
    calibration: Split | Folds

    def __post_init__(self) -> None:
        model, calibration = self.model, self.calibration
        folds = (
            (HeldOut(model, calibration.values),)
            if isinstance(calibration, Split)
            else calibration.held_out
        )
        for fold in folds:
            outputs = fold.dim == fold.model.n_outputs == model.n_outputs
            need(outputs, "outputs of a calibration")
            inputs = {getattr(each, "n_features_in_", None) for each in (model, fold.model)}
            need(len(inputs) == 1, "inputs of a calibration")

    @property
    def method(self) -> str:
        """Which of the two calibrations it is, "split" or "jackknife+"."""
        return self.calibration.method

    def interval(self, X: Any, level: float) -> Array:
        """Interval of each query, (Q, 2); (Q, 2, d) for joint outputs, each with its own guarantee.

        Infinite where the model gives too many calibration outputs no probability at all, or where
        a density ratio says that calibration rows say too little about the query.
        """
        return self.conditional(X).interval(level)

    def hpd(self, X: Any, level: float) -> list[ConformalRegion]:
        """Region of highest density of each query, one of all outputs jointly."""
        return self.conditional(X).hpd(level)

    def conditional(self, X: Any) -> "ConformalPrediction":
        """Return the queries as the metrics take them, see :class:`ConformalPrediction`."""
        return ConformalPrediction(self, X)

    def _described(self) -> Any:
        return self.model

    def _told(self) -> dict[str, Any]:
        groups = getattr(self.calibration, "groups", None)
        calibration = {"method": self.method, "rows": len(self), "groups": groups}
        return {**self.model._told(), "calibration": calibration}

    def _without_sums(self) -> Any:
        return replace(self, model=self.model._without_sums())

    def __len__(self) -> int:
        """Return the number of calibration rows."""
        return len(self.calibration)

    def __repr__(self) -> str:
        return f'ConformalPredictor(method="{self.method}", {self.calibration})'


class ConformalPrediction:
    """Intervals and regions of some queries: what :mod:`kcdo.metrics` needs to score them.

    ``kcdo.metrics.interval_coverage``, ``interval_width`` and ``hpd_coverage`` take it in place of
    distributions.
    """

    def __init__(self, predictor: ConformalPredictor, X: Any) -> None:
        self._predictor = predictor
        self._dist = predictor.model.conditional(X)
        self._X = deepcopy(X)  # answers come later: what happens to X must not change them

    @property
    def n_outputs(self) -> int:
        """Number of outputs d."""
        return self._dist.n_outputs

    @property
    def flat(self) -> bool:
        """Whether the one output has no axis."""
        return self._dist.flat

    def mean(self) -> Array:
        """Conditional mean of the model, (Q,) or (Q, d)."""
        return self._dist.mean()

    def interval(self, level: float) -> Array:
        """Interval of each query, (Q, 2); (Q, 2, d) for joint outputs."""
        limits = np.empty((len(self), 2, self.n_outputs))
        for part in self._parts(level):
            ends = sum(fold.tails.size for fold in part.held_out)
            for rows in _chunks(part.queries, _ELEMENTS // (2 * ends)):
                limits[rows] = _intervals(part.held_out, part.rank, take_rows(self._X, rows))
        return limits[:, :, 0] if self.flat else limits

    def hpd(self, level: float) -> list[ConformalRegion]:
        """Region of highest density of each query, one of all outputs jointly."""
        found: dict[int, ConformalRegion] = {}
        for part in self._parts(level):
            joint = part.held_out[0].dim > 1
            step = 1 if joint else min(_QUERIES, _DENSITIES // len(part.held_out))
            for rows in _chunks(part.queries, step):
                found |= zip(rows.tolist(), self._regions(part, rows, level), strict=True)
        return [found[row] for row in range(len(self))]

    def _regions(self, part: Part, rows: Integers, level: float) -> list[ConformalRegion]:
        X = take_rows(self._X, rows)
        if part.held_out[0].dim > 1:
            return [joint_region(part.held_out, part.rank, X, level)]
        return regions_on_a_line(self._predictor.model, part.held_out, part.rank, X, level)

    def _parts(self, level: float) -> Iterator[Part]:
        predictor = self._predictor
        return predictor.calibration.parts(predictor.model, self._X, len(self), level)

    def __getitem__(self, index: Any) -> "ConformalPrediction":
        rows = np.atleast_1d(np.arange(len(self))[index])
        return ConformalPrediction(self._predictor, take_rows(self._X, rows))

    def __len__(self) -> int:
        return len(self._dist)

    def __repr__(self) -> str:
        return f"ConformalPrediction({len(self)} queries, {self._predictor!r})"


def _chunks(rows: Integers, size: int) -> Iterator[Integers]:
    size = max(1, size)
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def _intervals(held_out: tuple[HeldOut, ...], rank: int, X: Any) -> Array:
    """Return order statistics of the ends of all rows' intervals, (Q, 2, d).

    The (n + 1 - rank)-th smallest lower end and the rank-th smallest upper end (Barber, Candès,
    Ramdas, Tibshirani 2021).
    """
    n = sum(len(fold) for fold in held_out)
    ends = np.concatenate([_ends(fold, X) for fold in held_out], axis=1)
    lower = np.partition(ends[:, :, 0], n - rank, axis=1)[:, n - rank]
    upper = np.partition(ends[:, :, 1], rank - 1, axis=1)[:, rank - 1]
    return np.stack([lower, upper], axis=1)


def _ends(fold: HeldOut, X: Any) -> Array:
    """Return the central intervals of each query at the levels of the held-out rows, (Q, n, 2, d).

    A hair wider than these levels: rounding must not leave out the row that a level is from.
    """
    dist = fold.model.conditional(X)
    lines = [dist] if fold.dim == 1 else [dist.marginal(j) for j in range(fold.dim)]
    ends = np.empty((len(dist), len(fold), 2, len(lines)))
    for j, line in enumerate(lines):
        tails = fold.tails[:, j] * (1.0 - _ROUNDING) - 1e-14
        possible = np.maximum(tails, 0.0)
        places = line.quantile(np.concatenate([possible, 1.0 - possible]))
        places = places.reshape(len(dist), 2, len(fold))
        for side, limit in enumerate((-np.inf, np.inf)):
            ends[:, :, side, j] = np.where(tails > 0, places[:, side], limit)
    return ends
