"""Compare methods on one table by cross-validation: which predicts held-out rows best."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kcdo.arrays import Array, Integers
from kcdo.errors import InvalidInputError
from kcdo.estimators.kin import check_kin
from kcdo.rivals.base import log_probability
from kcdo.rows import Fold, in_folds

__all__ = ["Comparison", "Difference", "Result", "compare", "folds_of"]

_LEVEL = 0.9
_REPEATED = 0.05  # a value that more rows share has probability by itself: densities say little
_SURE, _LIKELY = 2.6, 2.0  # standard errors: 99 and 95 in a hundred
_QUANTILES = (np.arange(999) + 0.5) / 999

Fitter = Callable[[Integers, int], Any]  # rows and fold -> something with ``conditional(rows)``


@dataclass(frozen=True, eq=False)
class Result:
    """What one method is worth on held-out rows.

    Attributes
    ----------
    name : str
    log_scores, crps : (N,) arrays
        Of every row, predicted by a fit that had not seen it.
    coverage : float
        Share of the rows inside their central 90 % intervals.
    width : float
        Mean width of these.
    fit_seconds, predict_seconds : float
        Of all folds together.
    """

    name: str
    log_scores: Array
    crps: Array
    coverage: float
    width: float
    fit_seconds: float
    predict_seconds: float


@dataclass(frozen=True)
class Difference:
    """How much better one method is than another, row by row: mean and standard error."""

    mean: float
    error: float

    @property
    def words(self) -> str:
        """How sure one can be that the difference is not chance."""
        if not np.isfinite(self.mean):
            return "surely"
        ratio = abs(self.mean) / self.error if self.error > 0 else np.inf
        return "surely" if ratio > _SURE else "probably" if ratio > _LIKELY else "perhaps"


@dataclass(frozen=True, eq=False)
class Comparison:
    """Results of several methods on the same folds, the best first.

    Attributes
    ----------
    results : tuple of Result
    failed : dict
        Methods that could not be fitted, with the reason.
    groups : (N,) array or None
        Rows that belong together count as one where errors are estimated.
    by_crps : bool
        Whether they are ordered by CRPS: outputs that repeat have no density.
    """

    results: tuple[Result, ...]
    failed: Mapping[str, str]
    groups: Array | None
    by_crps: bool

    def difference(self, first: Result, second: Result, *, crps: bool = False) -> Difference:
        """Return by how much the first is better than the second."""
        if crps:
            values = second.crps - first.crps
        else:
            with np.errstate(invalid="ignore"):  # of two infinite scores
                values = first.log_scores - second.log_scores
        return _difference(np.where(np.isnan(values), 0.0, values), self.groups)

    def verdict(self) -> str:
        """Return which method to take, and how sure that is."""
        best, *others = self.results
        if not others:
            return f"Only {best.name} was compared."
        score = "CRPS" if self.by_crps else "log score"
        second = others[0]
        found = self.difference(best, second, crps=self.by_crps)
        margin = f"{found.mean:.3g} ± {found.error:.2g} ({score} per row, one standard error)"
        if found.words == "perhaps":
            equal = [r for r in others if self._close(best, r)]
            quick = min([best, *equal], key=lambda r: r.fit_seconds + r.predict_seconds)
            names = ", ".join(r.name for r in equal)
            return (
                f"{best.name} scores best, but its lead on {names} may be chance: {margin} on "
                f"{second.name}. Take any of these; {quick.name} is the quickest."
            )
        text = f"Take {best.name}: it is {found.words} better than {second.name}, by {margin}."
        return text + self._by_the_other(best, others)

    def _close(self, best: Result, other: Result) -> bool:
        return self.difference(best, other, crps=self.by_crps).words == "perhaps"

    def _by_the_other(self, best: Result, others: Sequence[Result]) -> str:
        """Return a sentence if the other score prefers another method."""
        if self.by_crps:
            return ""
        nearest = min(others, key=lambda r: float(np.mean(r.crps)))
        found = self.difference(nearest, best, crps=True)
        if found.mean <= 0 or found.words == "perhaps":
            return ""
        return (
            f" By CRPS, {nearest.name} is {found.words} better, by {found.mean:.3g} ± "
            f"{found.error:.2g}: its middle is nearer, its tails are worse."
        )


def compare(
    methods: Mapping[str, Fitter],
    y: Array,
    folds: Sequence[Fold],
    *,
    groups: Array | None = None,
    gap: float = 0.0,
    show: Callable[[str, int], None] = lambda name, done: None,
) -> Comparison:
    """Fit every method without each fold in turn, and score the fold.

    Parameters
    ----------
    methods : mapping
        Names, and functions that take the rows to fit to and the number of the fold, and return
        something with a method ``conditional(rows)``.
    y : (N,) array
        The output of every row.
    folds : sequence of pairs of arrays
        Rows to fit to, and rows to score.
    groups : (N,) array, optional
        Rows of one group count as one where standard errors are estimated.
    gap : float, default=0.0
        Distance between the values of a rounded output. Its log scores are those of the
        probability of the interval that was rounded, which rewards no spikes.
    show : function
        Is told the method, and how many fits are done.
    """
    results, failed = [], {}
    judged = np.concatenate([held_out for _, held_out in folds])
    for place, (name, fit) in enumerate(methods.items()):
        try:
            results.append(_result(name, fit, y, folds, gap, lambda k: show(name, k), place))  # noqa: B023
        except (InvalidInputError, ValueError, ImportError, np.linalg.LinAlgError) as error:
            failed[name] = str(error)
    if not results:
        raise InvalidInputError(f"no method could be fitted: {next(iter(failed.values()))}")
    by_crps = bool(np.unique(y, return_counts=True)[1].max() > _REPEATED * len(y))
    key = (lambda r: r.crps.mean()) if by_crps else (lambda r: -r.log_scores.mean())
    of_rows = None if groups is None else groups[judged]
    return Comparison(tuple(sorted(results, key=key)), failed, of_rows, by_crps)


def _result(
    name: str,
    fit: Fitter,
    y: Array,
    folds: Sequence[Fold],
    gap: float,
    show: Callable[[int], None],
    place: int,
) -> Result:
    scores: list[tuple[Array, Array, Array, Array]] = []
    fitting = predicting = 0.0
    for k, (rows, held_out) in enumerate(folds):
        show(place * len(folds) + k)
        started = time.perf_counter()
        fitted = fit(rows, k)
        fitting += time.perf_counter() - started
        started = time.perf_counter()
        scores.append(_scores(fitted.conditional(held_out), y[held_out], gap))
        predicting += time.perf_counter() - started
    logs, crps, inside, width = (np.concatenate(part) for part in zip(*scores, strict=True))
    return Result(name, logs, crps, inside.mean(), width.mean(), fitting, predicting)


def _scores(dist: Any, y: Array, gap: float) -> tuple[Array, Array, Array, Array]:
    low, high = dist.quantile([(1 - _LEVEL) / 2, (1 + _LEVEL) / 2]).T
    inside = (low <= y) & (y <= high)
    crps = dist.crps(y) if hasattr(dist, "crps") else _crps(dist.quantile(_QUANTILES), y)
    logs = _log_probabilities(dist, y, gap) if gap else dist.logpdf_pairs(y)
    return logs, crps, inside.astype(float), high - low


def _log_probabilities(dist: Any, y: Array, gap: float) -> Array:
    """Log probabilities that the outputs of the rows round to what they are."""
    values, which = np.unique(y, return_inverse=True)
    rows = np.arange(len(y))
    below, above = (dist.cdf(values + side * gap)[rows, which] for side in (-0.5, 0.5))
    return log_probability(below, above)


def _crps(values: Array, y: Array) -> Array:
    """CRPS of quantiles as equally likely values."""
    n = values.shape[1]
    ranks = 2 * np.arange(1, n + 1) - n - 1
    return np.abs(values - y[:, None]).mean(axis=1) - values @ ranks / n**2


def _difference(values: Array, groups: Array | None) -> Difference:
    with np.errstate(invalid="ignore"):  # infinitely better in one row, worse in another
        mean = float(values.mean())
    if np.isnan(mean):
        return Difference(0.0, float("inf"))
    if not np.isfinite(mean):
        return Difference(mean, 0.0)
    n = len(values)
    if groups is not None:  # the sums of groups are independent, their rows are not
        _, member = np.unique(groups, return_inverse=True)
        sums = np.bincount(member, values - mean)
        n_groups = len(sums)
        scale = n_groups / max(n_groups - 1, 1)
        return Difference(mean, float(np.sqrt(scale * (sums**2).sum()) / n))
    with np.errstate(over="ignore"):  # of a row that was predicted absurdly
        return Difference(mean, float(values.std(ddof=1) / np.sqrt(n)) if n > 1 else 0.0)


def folds_of(
    n: int, count: int, *, groups: Array | None = None, time: Array | None = None, seed: int = 0
) -> list[Fold]:
    """Return the rows of each fold.

    At random; or whole groups; or by time, where each fold is predicted from all that came before
    it, and the first part of all rows from nothing. Rows of one moment stay together: very many of
    one make fewer folds.

    >>> [held_out.tolist() for _, held_out in folds_of(6, 2, time=np.arange(6.0))]
    [[2, 3], [4, 5]]
    """
    kin = check_kin(groups, time)
    if time is not None and kin is not None and kin.count < 2:
        raise InvalidInputError("folds by time need at least two moments, here is one.")
    if groups is not None and kin is not None and kin.count < count:
        raise InvalidInputError(f"{count} folds need as many groups, here are {kin.count}.")
    return in_folds(n, count, seed, kin)
