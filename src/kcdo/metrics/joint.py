"""Proper scores of several outputs at once, most of them estimated from draws."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kcdo.arrays import Array
from kcdo.errors import InvalidInputError
from kcdo.metrics.predictive import (
    Predictive,
    Score,
    averaged,
    by_chunks,
    checked_outputs,
    scoringrules,
)

_NUMBERS = 1 << 21  # held at a time: distances of pairs of draws, or of outputs


def energy_score(
    dist: Predictive,
    Y: Any,
    *,
    n_draws: int = 128,
    random_state: int = 0,
    sample_weight: ArrayLike | None = None,
    average: bool = True,
) -> Score:
    """Energy score, ``E|Z - y| - ½ E|Z - Z'|``: the CRPS of joint outputs; the lower, the better.

    Estimated without bias from draws, by the package scoringrules (``kcdo[metrics]``). Outputs of
    different units should be scaled first: the distance is Euclidean.

    Parameters
    ----------
    dist, Y, sample_weight, average
        As in :func:`~kcdo.metrics.log_score`.
    n_draws : int
        Draws per query, at least 2; time grows with their square.
    random_state : int
        Seed of the draws.

    Returns
    -------
    float, or array of shape (Q,)

    Examples
    --------
    >>> import kcdo
    >>> X, Y = kcdo.make_donut(4, random_state=0)
    >>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    >>> dist = model.conditional(X[:10])
    >>> kcdo.metrics.energy_score(dist, Y[:10]) < 1.0
    True
    """
    _check_draws(n_draws)
    outputs = checked_outputs(dist, Y)
    rules = scoringrules()
    rng = np.random.default_rng(random_state)

    def score(part: Predictive, rows: slice) -> Array:
        draws = _draws(part, n_draws, rng)
        return rules.es_ensemble(outputs[rows], draws, estimator="fair", backend="numpy")

    n_at_once = max(1, _NUMBERS // (n_draws**2 * outputs.shape[1]))
    return averaged(by_chunks(dist, score, n_at_once), sample_weight, average)


def variogram_score(
    dist: Predictive,
    Y: Any,
    *,
    p: float = 0.5,
    n_draws: int = 1024,
    random_state: int = 0,
    sample_weight: ArrayLike | None = None,
    average: bool = True,
) -> Score:
    """Variogram score, ``Σ_jk (E|Z_j - Z_k|^p - |y_j - y_k|^p)²``; the lower, the better.

    It notices wrong dependence between outputs, which the energy score hardly does, but no error
    that all outputs share: use it beside another score. Outputs should be of one unit and scale.
    Expectations are means over draws, by the package scoringrules (``kcdo[metrics]``; Scheuerer
    and Hamill, 2015).

    Parameters
    ----------
    dist, Y, sample_weight, average
        As in :func:`~kcdo.metrics.log_score`, for several outputs.
    p : float
        Order: differences are raised to this power.
    n_draws : int
        Draws per query.
    random_state : int
        Seed of the draws.

    Returns
    -------
    float, or array of shape (Q,)

    Examples
    --------
    >>> import kcdo
    >>> X, Y = kcdo.make_donut(4, random_state=0)
    >>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    >>> dist = model.conditional(X[:10])
    >>> kcdo.metrics.variogram_score(dist, Y[:10]) < 1.0
    True
    """
    _check_draws(n_draws)
    if not (np.isfinite(p) and p > 0):
        raise InvalidInputError(f"the order p of the variogram score must be positive; got {p!r}.")
    outputs = checked_outputs(dist, Y)
    d = outputs.shape[1]
    if d < 2:
        raise InvalidInputError(
            "the variogram score compares outputs with each other; there is one."
        )
    rules = scoringrules()
    rng = np.random.default_rng(random_state)

    def score(part: Predictive, rows: slice) -> Array:
        return rules.vs_ensemble(outputs[rows], _draws(part, n_draws, rng), p=p, backend="numpy")

    n_at_once = max(1, _NUMBERS // (n_draws * d**2))
    return averaged(by_chunks(dist, score, n_at_once), sample_weight, average)


def dawid_sebastiani_score(
    dist: Predictive,
    Y: Any,
    *,
    n_draws: int = 1024,
    random_state: int = 0,
    sample_weight: ArrayLike | None = None,
    average: bool = True,
) -> Score:
    """Dawid-Sebastiani score, ``log det Σ + (y - μ)ᵀ Σ⁻¹ (y - μ)``; the lower, the better.

    It sees mean μ and covariance Σ of the distribution, no more; for a normal distribution it is
    twice the negative log score, up to a constant (Dawid and Sebastiani, 1999). By the moments
    where the distributions have a method ``cov``, as those of kcdo (exact on grids, by their fixed
    draws of chains); else from those of draws, by the package scoringrules (``kcdo[metrics]``).

    Parameters
    ----------
    dist, Y, sample_weight, average
        As in :func:`~kcdo.metrics.log_score`.
    n_draws, random_state : int
        Draws per query and their seed, where there is no method ``cov``.

    Returns
    -------
    float, or array of shape (Q,)

    Examples
    --------
    >>> import kcdo
    >>> X, Y = kcdo.make_donut(4, random_state=0)
    >>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)
    >>> dist = model.conditional(X[:10])
    >>> kcdo.metrics.dawid_sebastiani_score(dist, Y[:10], average=False).shape
    (10,)
    """
    _check_draws(n_draws)
    outputs = checked_outputs(dist, Y)
    if hasattr(dist, "cov"):
        values = _dawid_sebastiani(outputs - dist.mean().reshape(outputs.shape), dist.cov())
        return averaged(values, sample_weight, average)
    rules = scoringrules()
    rng = np.random.default_rng(random_state)

    def score(part: Predictive, rows: slice) -> Array:
        draws = _draws(part, n_draws, rng)
        if outputs.shape[1] == 1:
            return rules.dssuv_ensemble(outputs[rows, 0], draws[..., 0], backend="numpy")
        return rules.dssmv_ensemble(outputs[rows], draws, backend="numpy")

    return averaged(by_chunks(dist, score), sample_weight, average)


def _dawid_sebastiani(errors: Array, covariances: Array) -> Array:
    signs, log_determinants = np.linalg.slogdet(covariances)
    if not np.all(signs > 0):
        raise InvalidInputError(
            "the Dawid-Sebastiani score needs positive definite covariances; query "
            f"{int(np.argmin(signs > 0))} has none."
        )
    whitened = np.linalg.solve(covariances, errors[:, :, None])[:, :, 0]
    return log_determinants + np.einsum("qd,qd->q", errors, whitened)


def _draws(part: Predictive, n: int, rng: np.random.Generator) -> Array:
    return part.sample(n, random_state=rng).reshape(len(part), n, -1)


def _check_draws(n_draws: int) -> None:
    if n_draws < 2:
        raise InvalidInputError(f"scores from draws need n_draws >= 2; got {n_draws}.")
