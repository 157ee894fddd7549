"""Inputs as a metric sees them: columns of unit spread, long tails drawn in, normal scores."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from kcdo.arrays import Array, Integers
from kcdo.consistency import need, shape

_HEAVY = 6.0  # kurtosis beyond which a column is drawn in
_FEWEST_VALUES = 10  # of a column that is drawn in
_MOST_KNOTS = 256


@dataclass(frozen=True, eq=False)
class Feature:
    """One column, mapped by knots (linear between and beyond them) to zero mean and unit sd.

    A "column" has a long tail drawn in; "raw" is such a column as it is, and "rank" its ranks.
    """

    column: int
    places: Array
    values: Array
    kind: Literal["column", "raw", "rank"] = "column"

    def __post_init__(self) -> None:
        shape(self.places, None)
        shape(self.values, len(self.places))
        increase = all(np.all(np.diff(knots) > 0) for knots in (self.places, self.values))
        need(len(self.places) >= 2 and increase, "knots that do not increase")

    def __call__(self, x: Array) -> Array:
        """Return the feature of values x (N,)."""
        i = np.clip(np.searchsorted(self.places, x, side="right") - 1, 0, len(self.places) - 2)
        slopes = np.diff(self.values) / np.diff(self.places)
        return self.values[i] + (x - self.places[i]) * slopes[i]


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """x ↦ its features, (Q, p) -> (Q, F); without any, x itself.

    Parameters
    ----------
    features : tuple of Feature
        What is taken of the columns; a column may come twice, a constant one does not come.
    n_inputs : int, optional
        Number of columns p; None for any.
    directions : (F, R), optional
        Sums of the features that stand behind them, one a column.
    """

    features: tuple[Feature, ...]
    n_inputs: int | None = None
    directions: Array | None = None

    def __post_init__(self) -> None:
        if self.directions is not None:
            shape(self.directions, len(self.features), None)

    @classmethod
    def of(cls, X: NDArray, *, scores: bool) -> "FeatureMap":
        """Look at inputs (N, p): each column standardised, with ``scores`` its ranks beside it.

        Columns with a long tail come drawn in and as they are.
        """
        varying = [j for j in range(X.shape[1]) if np.ptp(X[:, j]) > 0]
        long = [j for j in varying if _has_long_tail(X[:, j])]
        found = [(_drawn_in if j in long else _straight)(j, X[:, j]) for j in varying]
        if scores:
            found += [_scored(j, X[:, j]) for j in varying]
        found += [replace(_straight(j, X[:, j]), kind="raw") for j in long]
        return cls(tuple(found), X.shape[1])

    def views(self) -> list[Integers]:
        """Return places of features that are seen together: each column once, with ranks or not.

        Where columns have long tails, the second half of the views has them as they are.
        """
        if not self.features:
            return []
        places: dict[str, dict[int, int]] = {"column": {}, "raw": {}, "rank": {}}
        for place, feature in enumerate(self.features):
            places[feature.kind][feature.column] = place
        bases = [places["column"]]
        if places["raw"]:
            bases.append(places["column"] | places["raw"])
        ranks = [[], list(places["rank"].values())] if places["rank"] else [[]]
        return [np.array([*base.values(), *more]) for base in bases for more in ranks]

    @property
    def without_ranks(self) -> Integers:
        """Places of the features that are no ranks: each column at least once."""
        return np.array([k for k, feature in enumerate(self.features) if feature.kind != "rank"])

    def take(self, places: Integers) -> "FeatureMap":
        """Return the map to some of the features, without directions."""
        return FeatureMap(tuple(self.features[k] for k in places), self.n_inputs)

    def with_directions(self, directions: Array) -> "FeatureMap":
        """Return the map to the features and sums of them (F, R)."""
        return replace(self, directions=directions)

    def __call__(self, X: NDArray) -> Array:
        """Return the features of rows."""
        if not self.features:
            return X
        found = np.empty((len(X), len(self.features)))
        places, columns, slopes, knots, values = self._lines
        found[:, places] = values + (X[:, columns] - knots) * slopes
        for place, feature in enumerate(self.features):
            if len(feature.places) > 2:
                found[:, place] = feature(X[:, feature.column])
        return self.beside(found)

    def beside(self, found: Array) -> Array:
        """Return features (N, F) with the directions beside them, if there are any."""
        return found if self.directions is None else np.hstack([found, found @ self.directions])

    @cached_property
    def _lines(self) -> tuple[Integers, Integers, Array, Array, Array]:
        """Places, columns, slopes, first knots and values there of features that are straight."""
        straight = [(k, f) for k, f in enumerate(self.features) if len(f.places) == 2]
        places = np.array([k for k, _ in straight], dtype=np.intp)
        columns = np.array([f.column for _, f in straight], dtype=np.intp)
        slopes = np.array([np.diff(f.values)[0] / np.diff(f.places)[0] for _, f in straight])
        knots = np.array([f.places[0] for _, f in straight])
        return places, columns, slopes, knots, np.array([f.values[0] for _, f in straight])


def _has_long_tail(x: Array) -> bool:
    kurtosis = np.mean(((x - x.mean()) / x.std()) ** 4)
    return bool(kurtosis > _HEAVY) and len(np.unique(x)) >= _FEWEST_VALUES


def _straight(column: int, x: Array) -> Feature:
    mean, sd = x.mean(), x.std()
    return Feature(column, np.array([mean - sd, mean + sd]), np.array([-1.0, 1.0]))


def _drawn_in(column: int, x: Array) -> Feature:
    quarter, middle, upper = np.quantile(x, [0.25, 0.5, 0.75])
    spread = (upper - quarter) / 1.349 or x.std()
    least, most = np.arcsinh((np.array([x.min(), x.max()]) - middle) / spread)
    knots = np.linspace(least, most, _MOST_KNOTS)
    values = _unit(np.arcsinh((x - middle) / spread), knots)
    return _increasing(column, middle + spread * np.sinh(knots), values)


def _scored(column: int, x: Array) -> Feature:
    places, counts = np.unique(x, return_counts=True)
    middle = (np.cumsum(counts) - 0.5 * counts) / len(x)
    scores = ndtri(middle * (1.0 - 1.0 / len(x)) + 0.5 / len(x))
    every = np.interp(x, places, scores)
    if len(places) > _MOST_KNOTS:
        some = np.unique(np.searchsorted(middle, np.linspace(0.0, 1.0, _MOST_KNOTS)))
        some = np.unique(np.clip(np.r_[0, some, len(places) - 1], 0, len(places) - 1))
        places, scores = places[some], scores[some]
    return replace(_increasing(column, places, _unit(every, scores)), kind="rank")


def _unit(every: Array, values: Array) -> Array:
    return (values - every.mean()) / (every.std() or 1.0)


def _increasing(column: int, places: Array, values: Array) -> Feature:
    kept = np.append(True, (np.diff(places) > 0) & (np.diff(values) > 0))
    return Feature(column, places[kept], values[kept])
