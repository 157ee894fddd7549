"""What a conformal calibration gives: intervals and regions of queries."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from kcdo.arrays import Array
from kcdo.conformal.regions import ConformalRegion, joint_region, regions_on_a_line
from kcdo.conformal.scores import HeldOut
from kcdo.errors import InvalidInputError
from kcdo.frames import take_rows

Method = Literal["split", "jackknife+"]

_ELEMENTS = 1 << 20  # ends of intervals held at a time
_QUERIES = 64  # whose densities are held at a time
_DENSITIES = 2048  # the same, of all models together
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class ConformalPredictor:
    """A calibrated model, made by :func:`~kcdo.conformalize`.

    Attributes
    ----------
    model : ConditionalDensityOperator
        The model, as it was.
    method : {"split", "jackknife+"}
    held_out : tuple of HeldOut
        For each model, how typical it finds the rows it has not seen; the split has one.
    """

    model: Any
    method: Method
    held_out: tuple[HeldOut, ...]

    def interval(self, X: Any, level: float) -> Array:
        """Interval of each query, (Q, 2); (Q, 2, d) for joint outputs, each with its own guarantee.

        Infinite where the model gives too many calibration outputs no probability at all.
        """
        return self.conditional(X).interval(level)

    def hpd(self, X: Any, level: float) -> list[ConformalRegion]:
        """Region of highest density of each query, one of all outputs jointly."""
        return self.conditional(X).hpd(level)

    def conditional(self, X: Any) -> "ConformalPrediction":
        """Return the queries as the metrics take them, see :class:`ConformalPrediction`."""
        return ConformalPrediction(self, X)

    def __len__(self) -> int:
        """Return the number of calibration rows."""
        return sum(len(fold) for fold in self.held_out)

    def __repr__(self) -> str:
        models = f", {len(self.held_out)} folds" if self.method == "jackknife+" else ""
        return f'ConformalPredictor(method="{self.method}", {len(self)} rows{models})'

    def _needed(self, level: float) -> tuple[tuple[HeldOut, ...], int]:
        """Return what was held out, and the rank r = ⌈(n + 1) level⌉ of the threshold.

        Of one model only the r-th most typical row matters, so that is all of it.
        """
        n, rank = len(self), _rank(level, len(self))
        if len(self.held_out) > 1:
            return self.held_out, rank
        return (self.held_out[0].only(n - rank),), 1


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
        held_out, rank = self._predictor._needed(level)
        ends = sum(fold.tails.size for fold in held_out)
        parts = [_intervals(held_out, rank, X) for X in self._chunks(_ELEMENTS // (2 * ends))]
        limits = np.concatenate(parts)
        return limits[:, :, 0] if self.flat else limits

    def hpd(self, level: float) -> list[ConformalRegion]:
        """Region of highest density of each query, one of all outputs jointly."""
        held_out, rank = self._predictor._needed(level)
        if held_out[0].dim > 1:
            return [joint_region(held_out, rank, X, level) for X in self._chunks(1)]
        model = self._predictor.model
        step = min(_QUERIES, _DENSITIES // len(held_out))
        parts = [regions_on_a_line(model, held_out, rank, X, level) for X in self._chunks(step)]
        return [region for part in parts for region in part]

    def __getitem__(self, index: Any) -> "ConformalPrediction":
        rows = np.atleast_1d(np.arange(len(self))[index])
        return ConformalPrediction(self._predictor, take_rows(self._X, rows))

    def __len__(self) -> int:
        return len(self._dist)

    def __repr__(self) -> str:
        return f"ConformalPrediction({len(self)} queries, {self._predictor!r})"

    def _chunks(self, size: int) -> Iterator[Any]:
        size = max(1, size)
        for start in range(0, len(self), size):
            yield take_rows(self._X, slice(start, start + size))


def _rank(level: float, n: int) -> int:
    """Return ⌈(n + 1) level⌉, the rank of the threshold among n scores."""
    if not 0 < level < 1:
        raise InvalidInputError(f"level must lie between 0 and 1; got {level!r}.")
    rank = int(np.ceil((n + 1) * level - _ROUNDING))
    if rank > n:
        least = int(np.ceil(level / (1.0 - level) - _ROUNDING))
        raise InvalidInputError(
            f"level {level} needs at least {least} calibration rows, here are {n}: give more rows, "
            f"or ask for a level of at most {n}/{n + 1}."
        )
    return max(rank, 1)


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
