"""Calibration: whether regions of the predictions hold the share of outputs that they promise."""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError
from kcdo.metrics.predictive import (
    Predictive,
    Score,
    averaged,
    by_chunks,
    checked_outputs,
    densities_at_points,
    like,
)

_LEVELS = np.linspace(0.05, 0.95, 19)


def interval_coverage(
    dist: Predictive,
    Y: Any,
    level: float = 0.9,
    *,
    sample_weight: ArrayLike | None = None,
    average: bool = True,
) -> Score:
    """Share of outputs inside ``dist.interval(level)``; for joint outputs of each one, (d,).

    Where it is not the level, :func:`~kcdo.conformalize` sets that right.

    Parameters
    ----------
    dist, Y, sample_weight, average
        As in :func:`~kcdo.metrics.log_score`; ``dist`` may also be ``conditional(X)`` of a
        :class:`~kcdo.ConformalPredictor`.
    level : float
        The share that should be inside.

    Returns
    -------
    float or array of shape (d,); with ``average=False`` booleans, (Q,) or (Q, d)

    Examples
    --------
    >>> import kcdo
    >>> X, Y = kcdo.make_donut(4, random_state=0)
    >>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    >>> dist = model.conditional(X[:10])
    >>> kcdo.metrics.interval_coverage(dist, Y[:10], level=0.9).shape  # of each output
    (2,)
    """
    outputs = like(dist, checked_outputs(dist, Y))
    limits = dist.interval(_checked_level(level))
    inside = (limits[:, 0] <= outputs) & (outputs <= limits[:, 1])
    return averaged(inside, sample_weight, average)


def interval_width(
    dist: Predictive,
    level: float = 0.9,
    *,
    sample_weight: ArrayLike | None = None,
    average: bool = True,
) -> Score:
    """Width of ``dist.interval(level)``; for joint outputs of each one, (d,).

    Of two predictions with the right coverage, the one with narrower intervals knows more.

    Parameters
    ----------
    dist, sample_weight, average
        As in :func:`~kcdo.metrics.log_score`.
    level : float
        The share that the intervals should hold.

    Returns
    -------
    float or array of shape (d,); with ``average=False`` (Q,) or (Q, d)

    Examples
    --------
    >>> import kcdo
    >>> X, Y = kcdo.make_donut(4, random_state=0)
    >>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    >>> dist = model.conditional(X[:10])
    >>> kcdo.metrics.interval_width(dist, 0.9) > kcdo.metrics.interval_width(dist, 0.5)
    array([ True,  True])
    """
    limits = dist.interval(_checked_level(level))
    return averaged(limits[:, 1] - limits[:, 0], sample_weight, average)


def pit_values(dist: Predictive, Y: Any) -> Array:
    """Probability integral transform ``F(y_i | x_i)``, uniform on [0, 1] for a calibrated model.

    Parameters
    ----------
    dist, Y
        As in :func:`~kcdo.metrics.log_score`.

    Returns
    -------
    array of shape (Q,), or (Q, d) for joint outputs: that of each marginal

    Examples
    --------
    >>> import kcdo
    >>> X, Y = kcdo.make_donut(4, random_state=0)
    >>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    >>> dist = model.conditional(X[:10])
    >>> kcdo.metrics.pit_values(dist, Y[:10]).shape
    (10, 2)
    """
    outputs = checked_outputs(dist, Y)
    if dist.flat:
        return _cdf_pairs(dist, outputs[:, 0])
    columns = [_cdf_pairs(dist.marginal(j), y) for j, y in enumerate(outputs.T)]
    return np.stack(columns, axis=1)


def _cdf_pairs(dist: Predictive, y: Array) -> Array:
    exact = getattr(dist, "cdf_pairs", None)
    if exact is not None:
        return np.asarray(exact(y))
    return by_chunks(dist, lambda part, rows: np.diagonal(part.cdf(y[rows])))


def hpd_values(dist: Predictive, Y: Any) -> Array:
    """Probability of a density above that of the output, ``P(p(Z|x_i) > p(y_i|x_i))``.

    It is the level of the smallest region of highest density that holds the output, and uniform on
    [0, 1] for a calibrated model, whatever the number of outputs. Found to about 1/512 from
    quantiles for one output; for several from 1024 draws, with a standard error below 0.02.

    Parameters
    ----------
    dist, Y
        As in :func:`~kcdo.metrics.log_score`.

    Returns
    -------
    array of shape (Q,)

    Examples
    --------
    >>> import kcdo
    >>> X, Y = kcdo.make_donut(4, random_state=0)
    >>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    >>> dist = model.conditional(X[:10])
    >>> kcdo.metrics.hpd_values(dist, Y[:10]).shape
    (10,)
    """
    outputs = like(dist, checked_outputs(dist, Y))

    def share_above(part: Predictive, rows: slice) -> Array:
        at_outputs = np.exp(part.logpdf_pairs(outputs[rows]))
        return (densities_at_points(part) > at_outputs[:, None]).mean(axis=1)

    return by_chunks(dist, share_above)


def hpd_coverage(
    dist: Predictive,
    Y: Any,
    level: float = 0.9,
    *,
    sample_weight: ArrayLike | None = None,
    average: bool = True,
) -> Score:
    """Share of outputs inside the region of highest density, ``dist.hpd(level)``.

    Parameters
    ----------
    dist, Y, sample_weight, average
        As in :func:`~kcdo.metrics.log_score`.
    level : float
        The share that should be inside.

    Returns
    -------
    float; with ``average=False`` booleans, (Q,)

    Examples
    --------
    >>> import kcdo
    >>> X, Y = kcdo.make_donut(4, random_state=0)
    >>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    >>> dist = model.conditional(X[:10])
    >>> 0.5 < kcdo.metrics.hpd_coverage(dist, Y[:10], level=0.9) <= 1.0
    True
    """
    outputs = checked_outputs(dist, Y)
    level = _checked_level(level)

    def inside(part: Predictive, rows: slice) -> NDArray[np.bool_]:
        regions = zip(part.hpd(level), outputs[rows], strict=True)
        return np.array([bool(region.contains(y[None])[0]) for region, y in regions])

    return averaged(by_chunks(dist, inside), sample_weight, average)


def calibration_curve(
    dist: Predictive,
    Y: Any,
    levels: ArrayLike | None = None,
    *,
    region: Literal["interval", "hpd"] = "interval",
    sample_weight: ArrayLike | None = None,
) -> tuple[Array, Array]:
    """Nominal levels, and the share of outputs that regions of these levels hold.

    Parameters
    ----------
    dist, Y, sample_weight
        As in :func:`~kcdo.metrics.log_score`.
    levels : array of shape (L,), optional
        Nominal levels; by default 0.05, 0.10, ..., 0.95.
    region : {"interval", "hpd"}
        Equal-tailed intervals, one curve per output, or regions of highest density.

    Returns
    -------
    levels : array of shape (L,)
    coverage : array of shape (L,), or (L, d) for intervals of joint outputs

    Examples
    --------
    >>> import kcdo
    >>> X, Y = kcdo.make_donut(4, random_state=0)
    >>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    >>> dist = model.conditional(X[:10])
    >>> levels, shares = kcdo.metrics.calibration_curve(dist.marginal(0), Y[:10, 0])
    >>> levels.shape == shares.shape == (19,)
    True
    """
    nominal = np.atleast_1d(np.asarray(_LEVELS if levels is None else levels, dtype=float))
    if nominal.ndim != 1 or not np.all((nominal > 0) & (nominal < 1)):
        raise InvalidInputError(f"levels must be numbers between 0 and 1; got {levels!r}.")
    if region not in ("interval", "hpd"):
        raise InvalidInputError(f'region must be "interval" or "hpd"; got {region!r}.')
    # each output's own level: that of the smallest interval or region which holds it
    own = hpd_values(dist, Y) if region == "hpd" else np.abs(2.0 * pit_values(dist, Y) - 1.0)
    shares = [averaged(own <= level, sample_weight, True) for level in nominal]
    return nominal, np.array(shares)


def _checked_level(level: float) -> float:
    if not 0 < level < 1:
        raise InvalidInputError(f"level must lie between 0 and 1; got {level!r}.")
    return float(level)
