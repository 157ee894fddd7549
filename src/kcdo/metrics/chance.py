"""What chance alone does to a calibrated model: bands, and verdicts that follow from them.

A picture and the sentence beside it must agree, so both come from one test: the band that is drawn
holds the whole curve of a calibrated model in 95 of 100 cases, and the verdict is whether it does.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln
from scipy.stats import binom

from kcdo.arrays import Array, Integers
from kcdo.errors import InvalidInputError
from kcdo.validation import check_weights

__all__ = ["CalibrationTest", "HistogramTest", "calibration_test", "pit_histogram_test"]

Verdict = Literal["calibrated", "too wide", "too narrow", "mixed"]

CONFIDENCE = 0.95
_LEVELS = tuple((np.arange(1, 40) / 40).tolist())
_MOST_ROWS = 4000  # beyond, the tail of one level no longer depends on the number of rows
_STEPS = 14  # of a bisection


@dataclass(frozen=True, eq=False)
class CalibrationTest:
    """Coverage of intervals at several levels, with the band that chance allows.

    Attributes
    ----------
    levels, coverage : array of shape (L,)
        Nominal levels, and the share of outputs inside intervals of that level.
    low, high : array of shape (L,)
        The band: a calibrated model has all its coverages inside in 95 of 100 samples.
    """

    levels: Array
    coverage: Array
    low: Array
    high: Array

    @property
    def above(self) -> NDArray[np.bool_]:
        """Where intervals hold more outputs than chance explains."""
        return self.coverage > self.high + 1e-12

    @property
    def below(self) -> NDArray[np.bool_]:
        """Where intervals hold fewer outputs than chance explains."""
        return self.coverage < self.low - 1e-12

    @property
    def verdict(self) -> Verdict:
        """What the band says of the intervals."""
        if self.above.any():
            return "mixed" if self.below.any() else "too wide"
        return "too narrow" if self.below.any() else "calibrated"


@dataclass(frozen=True, eq=False)
class HistogramTest:
    """Shares of PIT values in bins of equal width, with the band that chance allows.

    Attributes
    ----------
    shares : array of shape (B,)
        Share of the values in each bin.
    low, high : float
        The band: a calibrated model has all its shares inside in at least 95 of 100 samples.
    """

    shares: Array
    low: float
    high: float

    @property
    def outside(self) -> Integers:
        """The bins whose share chance does not explain."""
        return np.flatnonzero((self.shares > self.high + 1e-12) | (self.shares < self.low - 1e-12))


def calibration_test(
    pit: ArrayLike, levels: ArrayLike | None = None, *, sample_weight: ArrayLike | None = None
) -> CalibrationTest:
    """Test whether central intervals hold what they promise, at all levels at once.

    The band has the same chance of error at every level, which is set so that all of the curve
    stays inside with probability 0.95 if the PIT values are uniform (Säilynoja, Bürkner and
    Vehtari, 2022); found exactly, from the Markov chain of counts.

    Parameters
    ----------
    pit : array of shape (Q,)
        PIT values of one output, of :func:`~kcdo.metrics.pit_values`.
    levels : array of shape (L,), optional
        Ascending levels between 0 and 1; by default 0.025, 0.05, ..., 0.975.
    sample_weight : array of shape (Q,), optional
        Weights of the rows; the band is that of as many rows as they are worth.

    Returns
    -------
    CalibrationTest

    Examples
    --------
    >>> import numpy as np
    >>> calibration_test((np.arange(200) + 0.5) / 200).verdict
    'calibrated'
    >>> calibration_test(np.linspace(0.3, 0.7, 200)).verdict
    'too wide'
    """
    values, weights = _checked(pit, sample_weight)
    nominal = np.asarray(_LEVELS if levels is None else levels, dtype=float)
    inside = nominal.ndim == 1 and nominal.size > 0 and np.all((nominal > 0) & (nominal < 1))
    if not inside or np.any(np.diff(nominal) <= 0):
        raise InvalidInputError(f"levels must ascend between 0 and 1; got {levels!r}.")
    own = np.abs(2.0 * values - 1.0)  # the level of the smallest interval that holds the output
    coverage = (own[:, None] <= nominal).T @ weights
    n = _n_effective(weights)
    tail = 0.5 * _pointwise_error(min(n, _MOST_ROWS), tuple(nominal.tolist()))
    low, high = _counts(n, nominal, tail)
    return CalibrationTest(nominal, coverage, low / n, high / n)


def pit_histogram_test(
    pit: ArrayLike, bins: int = 10, *, sample_weight: ArrayLike | None = None
) -> HistogramTest:
    """Test whether PIT values are uniform, by a histogram whose bars may all be looked at.

    Parameters
    ----------
    pit, sample_weight
        As in :func:`calibration_test`.
    bins : int
        Number of bars; each is tested at 5 % divided by it.

    Returns
    -------
    HistogramTest

    Examples
    --------
    >>> import numpy as np
    >>> pit_histogram_test(np.linspace(0, 1, 500) ** 2, bins=5).outside
    array([0, 2, 3, 4])
    """
    values, weights = _checked(pit, sample_weight)
    shares = np.histogram(values, bins=bins, range=(0.0, 1.0), weights=weights)[0]
    n, tail = _n_effective(weights), 0.5 * (1.0 - CONFIDENCE) / bins
    low, high = _counts(n, np.array([1.0 / bins]), tail)
    return HistogramTest(shares, float(low[0] / n), float(high[0] / n))


def _checked(pit: ArrayLike, sample_weight: ArrayLike | None) -> tuple[Array, Array]:
    """Return PIT values of one output, and weights that sum to 1."""
    values = np.asarray(pit, dtype=float)
    if values.ndim != 1 or not values.size or not np.all((values >= 0) & (values <= 1)):
        raise InvalidInputError(
            "pit must be a vector of numbers in [0, 1], of one output; got an array of shape "
            f"{values.shape}."
        )
    weights = check_weights(sample_weight, len(values), least=1)
    return values, weights / weights.sum()


def _n_effective(weights: Array) -> int:
    return max(1, round(float(weights.sum() ** 2 / (weights**2).sum())))


def _counts(n: int, share: Array, tail: float) -> tuple[Array, Array]:
    """Return the counts beyond which either tail has at most the given probability."""
    low, high = binom.ppf(tail, n, share), binom.ppf(1.0 - tail, n, share)
    return np.asarray(low), np.asarray(high)


@lru_cache(maxsize=64)
def _pointwise_error(n: int, levels: tuple[float, ...]) -> float:
    """Return the largest error at each level with which all levels together err in 5 %."""
    low, high = (1.0 - CONFIDENCE) / len(levels), 1.0 - CONFIDENCE  # Bonferroni's is always safe
    if _probability_inside(n, levels, high) >= CONFIDENCE:
        return high
    for _ in range(_STEPS):
        middle = float(np.sqrt(low * high))
        if _probability_inside(n, levels, middle) >= CONFIDENCE:
            low = middle
        else:
            high = middle
    return low


def _probability_inside(n: int, levels: tuple[float, ...], error: float) -> float:
    """Return the probability that the counts of n uniforms below all levels are in their bands.

    The counts are a Markov chain: of those above a level, each lies below the next one with the
    same probability.
    """
    first, last = (ends.astype(int) for ends in _counts(n, np.array(levels), error / 2))
    log_factorial = gammaln(np.arange(n + 1) + 1.0)
    counts, chance = np.zeros(1, dtype=int), np.ones(1)
    before = 0.0
    for level, start, end in zip(levels, first, last, strict=True):
        share = (level - before) / (1.0 - before)
        later = np.arange(start, end + 1)
        new, left = later - counts[:, None], n - counts[:, None]
        valid = new >= 0
        new = np.where(valid, new, 0)
        log_chance = (
            log_factorial[left]
            - log_factorial[new]
            - log_factorial[left - new]
            + new * np.log(share)
            + (left - new) * np.log1p(-share)
        )
        chance = chance @ np.where(valid, np.exp(log_chance), 0.0)
        counts, before = later, level
    return float(chance.sum())
