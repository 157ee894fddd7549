"""The two calibrations: which rows speak against an output, and how many of them may.

A calibration answers with parts: queries that are judged by the same rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kcdo.arrays import Array, Integers
from kcdo.conformal.queries import GroupRule, Ratio, group_labels, shift_weights
from kcdo.conformal.scores import HeldOut, typicality
from kcdo.consistency import need, shape
from kcdo.errors import InvalidInputError, InvalidTypeError

_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Part:
    """Queries, by their places, and the rows that judge their outputs.

    An output that fewer than ``rank`` of the rows speak against belongs to the region.
    """

    queries: Integers
    held_out: tuple[HeldOut, ...]
    rank: int


@dataclass(frozen=True, eq=False)
class Folds:
    """For each fold of the jackknife+: a model fitted without it, and how typical its rows are."""

    held_out: tuple[HeldOut, ...]
    method = "jackknife+"

    def __post_init__(self) -> None:
        need(self.held_out, "a jackknife+ without folds")
        for fold in self.held_out:
            _check_values(fold.values)
            need(np.all(np.diff(fold.values, axis=0) >= 0), "ranks that are not sorted")

    def parts(self, model: Any, X: Any, n_queries: int, level: float) -> Iterator[Part]:
        """Yield one part: every row judges every query, by the model of its fold."""
        yield Part(np.arange(n_queries), self.held_out, rank(level, len(self)))

    def __len__(self) -> int:
        return sum(len(fold) for fold in self.held_out)

    def __str__(self) -> str:
        return f"{len(self)} rows, {len(self.held_out)} folds"


@dataclass(frozen=True, eq=False)
class Split:
    """Rows that the model was not fitted to.

    Of one model only the row matters that just may be outside: the threshold. It depends on the
    group of the query, and on its weight.

    Attributes
    ----------
    values : (n, d + 1) array
        How typical the model finds the rows.
    groups : column, function or None
        Which group an input belongs to.
    labels : tuple
        Of the groups.
    member_of : (n,) array
        The group of each row, by its place among the labels.
    density_ratio : DensityReconstruction, function or None
        How much more frequent an input is among the queries than among the rows.
    weights : (n,) array
        The ratio at the rows.
    """

    values: Array
    groups: GroupRule | None
    labels: tuple[Any, ...]
    member_of: Integers
    density_ratio: Ratio | None
    weights: Array
    method = "split"

    def __post_init__(self) -> None:
        n, member_of = len(self.values), self.member_of
        _check_values(self.values)
        shape(member_of, n)
        shape(self.weights, n)
        need(len(set(self.labels)) == len(self.labels), "groups of one label")
        inside = member_of.min() >= 0 and member_of.max() < len(self.labels)
        need(inside, "groups of calibration rows")
        need(self.weights.min() >= 0 and self.weights.any(), "weights of calibration rows")
        need(self.groups is not None or self.labels == (None,), "groups without a rule")
        unweighted = np.all(self.weights == 1)
        need(self.density_ratio is not None or unweighted, "weights without a density ratio")

    def to_state(self) -> dict[str, Any]:
        """Return what a file keeps: all fields; raise if one of them is a function."""
        for what, hint in (
            ("groups", "name a column of the inputs"),
            ("density_ratio", "use a kcdo.DensityReconstruction"),
        ):
            if callable(getattr(self, what)):
                raise InvalidTypeError(
                    f"a model file cannot hold {what} that are a function, since it holds no code: "
                    f"{hint}, or pickle or joblib instead."
                )
        return dict(vars(self))

    @classmethod
    def of(
        cls, model: Any, X: Any, y: Any, groups: GroupRule | None, density_ratio: Ratio | None
    ) -> "Split":
        """Return how typical the model finds rows, and their groups and weights."""
        values = typicality(model, X, y)
        labels, member_of = _groups_of(X, len(values), groups)
        weights = _weights_of(X, len(values), density_ratio)
        if not weights.any():
            raise InvalidInputError(
                "density_ratio is 0 at every calibration row: they have nothing to do with queries."
            )
        return cls(values, groups, tuple(labels), member_of, density_ratio, weights)

    def parts(self, model: Any, X: Any, n_queries: int, level: float) -> Iterator[Part]:
        """Yield queries that share one threshold."""
        thresholds, which = np.unique(
            self.thresholds(X, n_queries, level), axis=0, return_inverse=True
        )
        for place, threshold in enumerate(thresholds):
            queries = np.flatnonzero(which.ravel() == place)
            yield Part(queries, (HeldOut(model, threshold[None]),), 1)

    def thresholds(self, X: Any, n_queries: int, level: float) -> Array:
        """Return how typical an output must be to belong to the region of each query, (Q, d + 1).

        0 where no output can be left out.
        """
        labels, asked_for = _groups_of(X, n_queries, self.groups)
        own = _weights_of(X, n_queries, self.density_ratio)
        found = np.zeros((n_queries, self.values.shape[1]))
        for group, label in enumerate(labels):
            if label not in self.labels:
                raise InvalidInputError(
                    f"a query is of the group {label!r}, of which there were no calibration rows; "
                    f"known are {list(self.labels)[:10]}."
                )
            rows = self.member_of == self.labels.index(label)
            here = asked_for == group
            if self.density_ratio is None:
                where = "" if self.groups is None else f" in the group {label!r}"
                needed = np.full(here.sum(), float(rank(level, rows.sum(), where)))
            else:
                _check_level(level)
                needed = level * (self.weights[rows].sum() + own[here]) * (1.0 - _ROUNDING)
            found[here] = _weighted_quantiles(self.values[rows], self.weights[rows], needed)
        return found

    def __len__(self) -> int:
        return len(self.values)

    def __str__(self) -> str:
        groups = "" if self.groups is None else f", {len(self.labels)} groups"
        return f"{len(self)} rows{groups}{', weighted' if self.density_ratio is not None else ''}"


def _check_values(values: Array) -> None:
    shape(values, None, None)
    inside = len(values) and values.min() >= 0 and values.max() <= 1
    need(inside, "the ranks of calibration rows")


def _groups_of(X: Any, n_rows: int, groups: GroupRule | None) -> tuple[list[Any], Integers]:
    """Return the labels of all groups, and the group of each row; without a rule all are in one."""
    if groups is None:
        return [None], np.zeros(n_rows, dtype=int)
    labels = group_labels(X, groups)
    places = {label: place for place, label in enumerate(dict.fromkeys(labels))}
    return list(places), np.array([places[label] for label in labels], dtype=int)


def _weights_of(X: Any, n_rows: int, density_ratio: Ratio | None) -> Array:
    return np.ones(n_rows) if density_ratio is None else shift_weights(X, density_ratio)


def _weighted_quantiles(values: Array, weights: Array, needed: Array) -> Array:
    """Return the largest values (Q, k) that rows of at least the needed weight (Q,) reach.

    0 where all rows together do not have it.
    """
    found = np.zeros((len(needed), values.shape[1]))
    if not weights.any():  # a query of weight 0 needs none: but nothing is known of its group
        return found
    for j, column in enumerate(values.T):
        order = np.argsort(-column, kind="stable")
        reached = np.searchsorted(np.cumsum(weights[order]), needed)
        found[:, j] = np.append(column[order], 0.0)[reached]
    return found


def rank(level: float, n: int, where: str = "") -> int:
    """Return ⌈(n + 1) level⌉, the rank of the threshold among n scores."""
    _check_level(level)
    found = int(np.ceil((n + 1) * level - _ROUNDING))
    if found > n:
        raise InvalidInputError(
            f"level {level} needs at least {least_rows(level)} calibration rows{where}, here are "
            f"{n}: give more rows, or ask for a level of at most {n}/{n + 1}."
        )
    return max(found, 1)


def least_rows(level: float) -> int:
    """Return how many calibration rows an interval or region of some level needs.

    >>> least_rows(0.9)
    9
    """
    return int(np.ceil(level / (1.0 - level) - _ROUNDING))


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise InvalidInputError(f"level must lie between 0 and 1; got {level!r}.")
