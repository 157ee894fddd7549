"""Draws of chains with some outputs held at values, and how many of them carry the weight."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kcdo.arrays import Array, Integers
from kcdo.distributions.batch import Rows
from kcdo.distributions.draw_errors import DRAW_SETS, FEW_EFFECTIVE, set_deviations
from kcdo.distributions.layouts import choose_nodes
from kcdo.errors import AccuracyWarning

HELD_NUMBERS = 1 << 22  # of draws, made at a time


@dataclass(frozen=True, eq=False)
class WeightedDraws:
    """Draws of chains with some outputs held, and the logs of their weights.

    Of a query with fewer draws than another each set of draws comes again, without weight.
    """

    points: Array  # (Q, n, d)
    logs: Array  # (Q, n)
    counts: Integers  # of draws that were made, (Q,)

    @property
    def weights(self) -> Array:
        """Weights of sum 1, (Q, n)."""
        return of_sum_one(relative(self.logs))

    @property
    def effective(self) -> Array:
        """Draws that carry the weight, (Q,): 1 / Σ w²; 0 where what is given is impossible."""
        possible = np.isfinite(self.logs.max(axis=1))
        return np.where(possible, 1.0 / np.sum(self.weights**2, axis=1), 0.0)

    def log_mean(self) -> Array:
        """Return the log of the mean weight of the draws that were made, (Q,)."""
        return log_mean(self.logs) + np.log(self.logs.shape[1] / self.counts)

    def take(self, rows: Rows) -> "WeightedDraws":
        """Return those of some queries."""
        return WeightedDraws(self.points[rows], self.logs[rows], self.counts[rows])

    def widened(self, n: int) -> "WeightedDraws":
        """Return the same in n columns."""
        n_rows, old, d = self.points.shape
        if n == old:
            return self
        sets, times = (n_rows, DRAW_SETS, old // DRAW_SETS), n // old
        points = np.tile(self.points.reshape(*sets, d), (1, 1, times, 1))
        unlikely = np.full((*sets[:2], n // DRAW_SETS - sets[2]), -np.inf)
        logs = np.concatenate([self.logs.reshape(sets), unlikely], axis=2)
        return WeightedDraws(points.reshape(n_rows, n, d), logs.reshape(n_rows, n), self.counts)

    def members(self, q: int, most: int) -> tuple[Integers, Array]:
        """Return places of draws of one query, and their weights: at most so many.

        Of more draws each set keeps some, chosen evenly by weight, that share the set's weight,
        and fills up with others of weight 0, which show how far draws spread.
        """
        sets = self.weights[q].reshape(DRAW_SETS, -1)
        size = int(self.counts[q]) // DRAW_SETS
        offsets = sets.shape[1] * np.arange(DRAW_SETS)[:, None]
        if size * DRAW_SETS <= most:
            return (offsets + np.arange(size)).ravel(), sets[:, :size].ravel()
        made, size = size, most // DRAW_SETS
        even = np.broadcast_to((np.arange(size) + 0.5) / size, (DRAW_SETS, size))
        chosen = choose_nodes(of_sum_one(sets), even)
        times = np.stack([np.bincount(row, minlength=made) for row in chosen])[:, :made]
        places = np.argsort(-times, axis=1, kind="stable")[:, :size]
        weights = np.take_along_axis(times, places, axis=1) * (sets.sum(axis=1)[:, None] / size)
        return (offsets + places).ravel(), weights.ravel()


def as_one(parts: "Sequence[WeightedDraws]") -> WeightedDraws:
    """Return the draws of several parts of the queries, one part after the other."""
    n = max(part.logs.shape[1] for part in parts)
    wide = [part.widened(n) for part in parts]
    return WeightedDraws(
        np.concatenate([part.points for part in wide]),
        np.concatenate([part.logs for part in wide]),
        np.concatenate([part.counts for part in wide]),
    )


def warn_of_few(found: WeightedDraws) -> None:
    """Warn of queries given values so unlikely that hardly any draw has a weight."""
    effective = found.effective
    least = int(np.argmin(effective))
    if effective[least] < FEW_EFFECTIVE:
        warnings.warn(
            f"given: the values are very unlikely under the model: of {found.counts[least]} draws "
            f"about {effective[least]:.0f} carry the weight, and answers are rough. Ask for more "
            "draws by with_draws, or fit with the given outputs as the first columns of Y, which "
            "a chain in that order needs no draws for.",
            AccuracyWarning,
            stacklevel=2,
        )


def deviations(values: Array, weights: Array) -> Array:
    """Return means by each set of draws, less those by all, of values of weighted draws (Q, n)."""
    n_rows, n = weights.shape
    starts = np.arange(0, n_rows * n + 1, n)
    return set_deviations(values.reshape(n_rows * n, -1), weights.ravel(), starts)


def relative(logs: Array) -> Array:
    """Return exponentials of logs (Q, …), relative to the largest of each row."""
    top = logs.max(axis=tuple(range(1, logs.ndim)), keepdims=True)
    return np.asarray(np.exp(logs - np.where(np.isfinite(top), top, 0.0)))


def of_sum_one(masses: Array) -> Array:
    """Return masses (Q, n) divided by their sum; equal ones where it is 0."""
    total = masses.sum(axis=1, keepdims=True)
    return np.where(total > 0, masses / np.where(total > 0, total, 1.0), 1.0 / masses.shape[1])


def log_mean(logs: Array) -> Array:
    """Return the log of the mean of exponentials over the last axis."""
    top = logs.max(axis=-1)
    safe = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(safe + np.log(np.exp(logs - safe[..., None]).mean(axis=-1)))
