"""What the metrics ask of distributions, and what they share: chunks of queries, checks, means."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError
from kcdo.extras import import_extra
from kcdo.validation import check_outputs, check_weights

Score = Any  # a float, or an array with one value per query for average=False

POINTS = 512  # of equal mass, for integrals over a 1-D distribution
_DRAWS = 1024  # the same for joint outputs
_QUERIES = 256  # at a time: their cdf at each other's outputs is a small matrix


class Predictive(Protocol):
    """What the metrics ask of distributions: a part of ``ConditionalDistribution``.

    Where there are also ``cdf_pairs(Y)``, ``crps(Y)``, ``square_integral()`` and ``cov()``, exact
    and one value per query, these are used instead of all pairs, quadrature or draws.
    """

    @property
    def n_outputs(self) -> int:
        """Number of outputs d."""

    @property
    def flat(self) -> bool:
        """Whether the one output has no axis: answers are (Q,), not (Q, 1)."""

    def __len__(self) -> int:
        """Return the number of queries."""

    def __getitem__(self, index: Any) -> "Predictive":
        """Return some queries."""

    def __iter__(self) -> Iterator["Predictive"]:
        """Return the queries one by one."""

    def pdf(self, y: ArrayLike) -> Array:
        """Density of every query at every point."""

    def cdf(self, y: ArrayLike) -> Array:
        """P(Y <= y) of every query at every point."""

    def logpdf_pairs(self, Y: ArrayLike) -> Array:
        """Log density of query i at Y[i]."""

    def mean(self) -> Array:
        """Conditional means."""

    def quantile(self, q: ArrayLike) -> Array:
        """Quantiles of every marginal."""

    def interval(self, level: float) -> Array:
        """Equal-tailed intervals."""

    def hpd(self, level: float) -> list[Any]:
        """Regions of highest density, with a method ``contains``."""

    def sample(self, n: int, random_state: Any = None) -> Array:
        """Draws."""

    def marginal(self, dims: int) -> "Predictive":
        """Distribution of one output."""


def checked_outputs(dist: Predictive, Y: Any) -> Array:
    """Outputs as (Q, d), checked against the distributions."""
    outputs, _ = check_outputs(Y)
    if len(outputs) != len(dist):
        raise InvalidInputError(
            f"Y must have one row per query: {len(dist)} queries, {len(outputs)} rows."
        )
    d = dist.n_outputs
    if outputs.shape[1] != d:
        raise InvalidInputError(
            f"Y must have as many columns as the distributions have outputs, {d}; got "
            f"{outputs.shape[1]}."
        )
    return outputs


def like(dist: Predictive, outputs: Array) -> Array:
    """Outputs with the axes that the distributions use."""
    return outputs[:, 0] if dist.flat else outputs


def by_chunks(
    dist: Predictive, answer: Callable[[Predictive, slice], NDArray], size: int = _QUERIES
) -> NDArray:
    """Answers of consecutive chunks of queries, joined."""
    parts = [slice(start, start + size) for start in range(0, len(dist), size)]
    return np.concatenate([answer(dist[rows], rows) for rows in parts])


def averaged(values: ArrayLike, sample_weight: Any, average: bool) -> Score:
    """Return the weighted mean over the queries, or the values themselves."""
    values = np.asarray(values)
    if not average:
        if sample_weight is not None:
            raise InvalidInputError(
                "sample_weight weights the mean: with average=False there is none to weight."
            )
        return values
    weights = check_weights(sample_weight, len(values), least=1)
    used = weights > 0  # 0 times an infinite score would be NaN
    mean = np.average(values[used], axis=0, weights=weights[used])
    return float(mean) if np.ndim(mean) == 0 else mean


def densities_at_points(part: Predictive) -> Array:
    """Density of every query at points of equal mass of its own, (Q, n): a quadrature of E."""
    if part.n_outputs == 1:
        points = part.quantile(middles(POINTS))
    else:
        points = part.sample(_DRAWS, random_state=0)
    return np.concatenate([one.pdf(own) for one, own in zip(part, points, strict=True)])


def middles(n: int) -> Array:
    """Return the middles of n equal parts of [0, 1]."""
    return (np.arange(n) + 0.5) / n


def scoringrules() -> Any:
    """Return the package scoringrules, or say how to install it."""
    return import_extra("scoringrules", extra="metrics", what="CRPS and scores from draws")
