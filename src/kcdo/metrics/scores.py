"""Proper scores: the whole distribution against the output that came true."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError
from kcdo.metrics.predictive import (
    POINTS,
    Predictive,
    Score,
    averaged,
    by_chunks,
    checked_outputs,
    densities_at_points,
    like,
    middles,
    scoringrules,
)


def log_score(
    dist: Predictive,
    Y: Any,
    *,
    sample_weight: ArrayLike | None = None,
    average: bool = True,
) -> Score:
    """Log density of the outputs, ``log p(y_i | x_i)``; the higher, the better.

    It is -inf where the density is 0, so one output outside the support decides the mean.

    Parameters
    ----------
    dist : ConditionalDistribution
        Predictions of Q queries.
    Y : array of shape (Q,) or (Q, d)
        The outputs, one row per query.
    sample_weight : array of shape (Q,), optional
        Weights of the mean.
    average : bool
        False for the value of every query.

    Returns
    -------
    float, or array of shape (Q,)

    Examples
    --------
    >>> import kcdo
    >>> X, Y = kcdo.make_donut(4, random_state=0)
    >>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    >>> dist = model.conditional(X[:10])
    >>> kcdo.metrics.log_score(dist, Y[:10], average=False).shape
    (10,)
    """
    outputs = checked_outputs(dist, Y)
    return averaged(dist.logpdf_pairs(like(dist, outputs)), sample_weight, average)


def crps(
    dist: Predictive,
    Y: Any,
    *,
    sample_weight: ArrayLike | None = None,
    average: bool = True,
) -> Score:
    """Continuous ranked probability score of one output, ``∫ (F(z) - 1{y <= z})² dz``.

    In the units of the output; the lower, the better; for a point forecast the absolute error.
    Exact where the distributions have a method ``crps``. Else it is twice the mean pinball loss of
    512 evenly spaced quantiles, by the package scoringrules (``kcdo[metrics]``), whose relative
    error is about 1e-5 for a Gaussian (Gneiting and Raftery, 2007; Laio and Tamea, 2007).

    Parameters
    ----------
    dist, Y, sample_weight, average
        As in :func:`log_score`, for one output.

    Returns
    -------
    float, or array of shape (Q,)

    Examples
    --------
    >>> import kcdo
    >>> X, Y = kcdo.make_donut(4, random_state=0)
    >>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    >>> dist = model.conditional(X[:10])
    >>> kcdo.metrics.crps(dist.marginal(0), Y[:10, 0]) < 1.0
    True
    """
    outputs = checked_outputs(dist, Y)
    dist, y = _single(dist, "crps"), outputs[:, 0]
    exact = getattr(dist, "crps", None)
    values = exact(y) if exact is not None else _crps_by_quantiles(dist, y)
    return averaged(values, sample_weight, average)


def _crps_by_quantiles(dist: Predictive, y: Array) -> Array:
    rules = scoringrules()
    levels = middles(POINTS)

    def score(part: Predictive, rows: slice) -> Array:
        return rules.crps_quantile(y[rows], part.quantile(levels), levels, backend="numpy")

    return by_chunks(dist, score)


def cde_loss(
    dist: Predictive,
    Y: Any,
    *,
    sample_weight: ArrayLike | None = None,
    average: bool = True,
) -> Score:
    """Loss of conditional density estimation, ``∫ p(z|x)² dz - 2 p(y|x)``; the lower, the better.

    Up to a constant the mean is the integrated squared error of the density (Izbicki and Lee,
    2017). The integral is exact where the distributions have a method ``square_integral``; else it
    is the mean density at points of equal mass: 512 quantiles of one output, 1024 draws of several.

    Parameters
    ----------
    dist, Y, sample_weight, average
        As in :func:`log_score`.

    Returns
    -------
    float, or array of shape (Q,)

    Examples
    --------
    >>> import kcdo
    >>> X, Y = kcdo.make_donut(4, random_state=0)
    >>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    >>> dist = model.conditional(X[:10])
    >>> kcdo.metrics.cde_loss(dist, Y[:10]) < 0.0  # a density of zero has loss 0
    True
    """
    outputs = checked_outputs(dist, Y)
    density = np.exp(dist.logpdf_pairs(like(dist, outputs)))
    exact = getattr(dist, "square_integral", None)
    if exact is not None:
        square = np.asarray(exact())
    else:
        square = by_chunks(dist, lambda part, _: densities_at_points(part).mean(axis=1))
    return averaged(square - 2.0 * density, sample_weight, average)


def _single(dist: Predictive, what: str) -> Predictive:
    """The distribution of one output, without a trailing axis."""
    if dist.flat:
        return dist
    d = dist.n_outputs
    if d > 1:
        raise InvalidInputError(
            f"{what} is for one output; these distributions have {d}. Use energy_score, or "
            f"{what}(dist.marginal(0), Y[:, 0]) for each."
        )
    return dist.marginal(0)
