"""Marginal likelihood of Gaussian process regression, for the scales of a conditional mean."""

from dataclasses import dataclass

import numpy as np

from kcdo.arrays import Array
from kcdo.kernels import FreeScales
from kcdo.linalg import NotPositiveDefiniteError, symmetric_inverse
from kcdo.systems import Groups

_JITTER = 1e-10
_REFUSED = 1e6


@dataclass(frozen=True, eq=False)
class MarginalLikelihood:
    """-log p(Y | X) / (N d), up to a constant, as a function of (log scales, log noise ratio).

    The outputs are centred Gaussian processes with covariance s² (K + η I), s² of each output at
    its best value. Rows of equal input enter once: with group means ȳ, counts n and the sum of
    squares W within groups, the exponent is ȳᵀ(K + η/n)⁻¹ȳ + W/η and the determinant gains
    (N - n_groups) log η.

    Parameters
    ----------
    scales : FreeScales
        Open scales of the kernel.
    groups : Groups
        Inputs with weights.
    Y : (N, d)
        Centred outputs.
    """

    scales: FreeScales
    groups: Groups
    Y: Array

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Return the loss and its gradient; 0 where no output varies."""
        if not self.Y.shape[1]:
            return 0.0, np.zeros(len(theta))
        g, noise = self.groups, float(np.exp(theta[-1]))
        matrix, gram_pullback = self.scales.gram(theta[:-1], g.points)
        ridge = noise / g.totals
        np.einsum("ii->i", matrix)[:] += ridge + _JITTER
        try:
            inverse, log_det = symmetric_inverse(matrix)
        except NotPositiveDefiniteError:
            return _REFUSED, np.zeros(len(theta))
        means = g.means(self.Y)
        within = g.weights @ (self.Y - means[g.member_of]) ** 2
        solved = inverse @ means
        total, d = float(g.weights.sum()), self.Y.shape[1]
        variance = (np.sum(means * solved, axis=0) + within / noise) / total
        extra = total - len(ridge)
        value = 0.5 * total * np.sum(np.log(variance))
        value += 0.5 * d * (log_det + extra * np.log(noise))
        system = 0.5 * (d * inverse - (solved / variance) @ solved.T)
        noise_slope = float(system.diagonal() @ ridge) + 0.5 * d * extra
        noise_slope -= 0.5 * float(np.sum(within / variance)) / noise
        gradient = np.append(gram_pullback(system), noise_slope)
        return float(value) / (total * d), gradient / (total * d)
