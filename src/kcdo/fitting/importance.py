"""How much each input column matters to the predictions of a model."""

import numpy as np

from kcdo.arrays import Array
from kcdo.components import Conditioner
from kcdo.rows import Rows


def shuffling_importances(operator: Conditioner, rows: Rows, n_shuffled: int) -> Array:
    """Return how much predictions change, in [0, 1), when one input column is shuffled.

    1 - exp(-D), with D the mean over rows and outputs of ½ (Δm)²/(s s') + ½ (Δ log s)², the
    divergence of two Gaussians to second order: effects on the mean and on the spread both count.
    """
    if rows.X.dtype == object:
        return np.ones(1)
    rng = np.random.default_rng(0)
    X = rows.X[rng.integers(len(rows), size=n_shuffled)]
    mean, log_sd = _mean_and_log_sd(operator, X)
    order = rng.permutation(len(X))
    found = np.empty(X.shape[1])
    for j in range(len(found)):
        shuffled = X.copy()
        shuffled[:, j] = X[order, j]
        other_mean, other_log_sd = _mean_and_log_sd(operator, shuffled)
        moved = (mean - other_mean) ** 2 * np.exp(-log_sd - other_log_sd)
        found[j] = 0.5 * np.mean(moved + (log_sd - other_log_sd) ** 2)
    return 1.0 - np.exp(-found)


def _mean_and_log_sd(operator: Conditioner, X: Array) -> tuple[Array, Array]:
    mean, covariance = operator.batch(X).moments()
    variance = np.einsum("qdd->qd", covariance)
    return mean, 0.5 * np.log(np.maximum(variance, 1e-300))
