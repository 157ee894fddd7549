"""What a model remembers of the table that it was fitted to: how unlike it other rows are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError

_KEPT_ROWS = 1000
_TYPICAL_SHARE = 0.95
_FARTHEST = 1e6  # of a column that never varied: further is not told apart


@dataclass(frozen=True, eq=False)
class TrainingTable:
    """Inputs of a fit, or some of them, with what makes distances between them comparable.

    A distance is that of numbers in units of their spread, along the circle for periodic columns,
    and 1 between two categories; squares of the columns are added, each times its weight.

    Attributes
    ----------
    files : tuple of str
        Where the table came from.
    n_rows, n_held_out : int
        Rows that were fitted, and rows of the same table that were kept back for a test.
    split : str
        How these were chosen, in words.
    points : (m, p) array
        Distinct rows, at most 1000 of them drawn at random; of a category its number.
    lower, upper : (p,) arrays
        Smallest and largest value of each column.
    scales : (p,) array
        Standard deviations; 1 for a category, and period / √12 for a periodic column.
    turns : (p,) array
        Periods of periodic columns, 0 for other numbers, -1 for categories.
    weights : (p,) array
        How much each column counts.
    typical : float
        Distance within which 95 % of the points have their nearest other point.
    n_calibration : int
        Rows that were kept back to calibrate the model.
    test : dict
        Scores on the rows that were kept back for a test.
    """

    files: tuple[str, ...]
    n_rows: int
    n_held_out: int
    split: str
    points: Array
    lower: Array
    upper: Array
    scales: Array
    turns: Array
    weights: Array
    typical: float = 1.0
    n_calibration: int = 0
    test: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        p = len(self.scales)
        columns = (self.lower, self.upper, self.scales, self.turns, self.weights)
        if self.points.ndim != 2 or self.points.shape[1] != p or len(self.points) == 0:
            raise InvalidInputError("the points of a training table need one value per column.")
        if any(column.shape != (p,) for column in columns):
            raise InvalidInputError("the columns of a training table differ in number.")
        if not (np.all(self.scales > 0) and np.all(self.weights >= 0) and self.typical > 0):
            raise InvalidInputError("the distances of a training table must be positive.")

    @classmethod
    def of(
        cls,
        files: Sequence[str],
        X: Array,
        *,
        categorical: Sequence[int] = (),
        periods: Mapping[int, float] | None = None,
        weights: Sequence[float] | None = None,
        held_out: tuple[int, str] = (0, ""),
        n_calibration: int = 0,
        seed: int = 0,
    ) -> "TrainingTable":
        """Remember inputs (N, p), in which categories are numbers.

        Examples
        --------
        >>> seen = TrainingTable.of(["line.csv"], np.linspace(0, 1, 101)[:, None])
        >>> seen.novelty(np.array([[0.5], [1.02], [2.0]])).round(1)
        array([  0.,   2., 100.])
        """
        turns = np.zeros(X.shape[1])
        turns[list(categorical)] = -1.0
        for column, period in (periods or {}).items():
            turns[column] = period
        spread = np.where(turns > 0, turns / np.sqrt(12.0), np.where(turns < 0, 1.0, X.std(axis=0)))
        least = np.maximum(np.abs(X[0]), 1.0) / _FARTHEST
        distinct = np.unique(X, axis=0)
        kept = np.random.default_rng(seed).permutation(len(distinct))[:_KEPT_ROWS]
        counted = np.ones(X.shape[1]) if weights is None else np.asarray(weights, dtype=float)
        table = cls(
            tuple(files),
            len(X),
            *held_out,
            points=distinct[np.sort(kept)],
            lower=X.min(axis=0),
            upper=X.max(axis=0),
            scales=np.maximum(spread, least),
            turns=turns,
            weights=counted if counted.any() else np.ones(X.shape[1]),
            n_calibration=n_calibration,
        )
        return replace(table, typical=table._typical())

    def novelty(self, X: Array) -> Array:
        """Return how far each row is from the nearest point, over the typical distance, (Q,).

        1 or less is as near as 95 % of the training rows are to one another; 10 is ten times that.
        """
        if X.shape[1] != len(self.scales):
            raise InvalidInputError(
                f"X has {X.shape[1]} columns, but the model was fitted to {len(self.scales)}."
            )
        distances, _ = KDTree(self._placed(self.points)).query(self._placed(X))
        return np.asarray(distances) / self.typical

    def _typical(self) -> float:
        if len(self.points) < 2:
            return 1.0
        placed = self._placed(self.points)
        nearest, _ = KDTree(placed).query(placed, k=[2])  # the first is the point itself
        found = float(np.quantile(nearest, _TYPICAL_SHARE))
        return found if found > 0 else 1.0  # only columns of no weight tell the points apart

    def _placed(self, X: Array) -> Array:
        """Return rows where plain distances are ours: categories in corners, periods in circles."""
        parts = []
        for j, (turn, scale) in enumerate(zip(self.turns, self.scales, strict=True)):
            if turn < 0:
                same = X[:, [j]] == np.unique(self.points[:, j])
                columns = np.column_stack([same, ~same.any(axis=1)]) / np.sqrt(2.0)
            elif turn > 0:
                angle = 2.0 * np.pi * X[:, j] / turn
                radius = turn / (2.0 * np.pi * scale)
                columns = radius * np.column_stack([np.cos(angle), np.sin(angle)])
            else:
                columns = X[:, [j]] / scale
            parts.append(np.sqrt(self.weights[j]) * columns)
        return np.hstack(parts)
