"""Held-out predictions of the input side in closed form, with their derivatives.

A smoother is linear in the targets B (N, k): ``predict(B)`` returns what each row is predicted to
be without itself (or without its group of equal inputs), and ``pullback(G)``, for G = dL/dP,
returns dL/dB, dL/d(log scales) and dL/d(log α).
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kcdo.arrays import Array
from kcdo.kernels import FreeScales
from kcdo.linalg import symmetric_inverse, weighted_square
from kcdo.systems import Groups

Leave = Literal["row", "group"]

_JITTER = 1e-10
_LEAST_KEPT = 1e-12


class Pulled(NamedTuple):
    """Derivatives of a loss that a smoother passes back."""

    targets: Array
    log_scales: Array
    log_alpha: float


class ExactSmoother:
    """Held-out predictions of the exact system A = K + (Σω) α diag(ω)⁻¹ on distinct inputs.

    One factorisation and one inverse serve all targets. With b̄ the group means, a = A⁻¹b̄ and
    λ the ridge, row i of group u is predicted as b_i - [(b_i - b̄_u) + λ_u a_u] / kept_i with
    kept_i = (1 - share_i) + share_i λ_u (A⁻¹)_uu; a group as b̄_u - a_u / (A⁻¹)_uu.
    """

    def __init__(
        self, scales: FreeScales, log_scales: Array, alpha: float, groups: Groups, leave: Leave
    ) -> None:
        self.groups, self.leave = groups, leave
        matrix, self._gram_pullback = scales.gram(log_scales, groups.points)
        self.ridge = groups.weights.sum() * alpha / groups.totals
        np.einsum("ii->i", matrix)[:] += self.ridge + _JITTER
        self.inverse, _ = symmetric_inverse(matrix)
        self.diagonal = self.inverse.diagonal().copy()

    def predict(self, B: Array) -> Array:
        """Return the held-out predictions, (N, k)."""
        g = self.groups
        self._means = g.means(B)
        self._solved = self.inverse @ self._means
        if self.leave == "group":
            return (self._means - self._solved / self.diagonal[:, None])[g.member_of]
        u, share = g.member_of, self._row_share()
        self._residual = (B - self._means[u]) + (self.ridge[:, None] * self._solved)[u]
        kept = (1.0 - share) + share * (self.ridge * self.diagonal)[u]
        self._kept = np.maximum(kept, _LEAST_KEPT)[:, None]
        return B - self._residual / self._kept

    def pullback(self, G: Array) -> Pulled:
        """Return the derivatives for dL/dP = G."""
        back = self._group_back(G) if self.leave == "group" else self._row_back(G)
        targets, means, solved, diagonal, ridge = back
        through = self.inverse @ solved
        # a = A⁻¹b̄ and diag(A⁻¹): d(A⁻¹) = -A⁻¹ dA A⁻¹
        system = -(through @ self._solved.T)
        system = 0.5 * (system + system.T) - weighted_square(self.inverse, diagonal)
        share, u = self.groups.share, self.groups.member_of
        targets = targets + share[:, None] * (means + through)[u]
        ridge = ridge + system.diagonal()
        return Pulled(targets, self._gram_pullback(system), float(self.ridge @ ridge))

    def _row_share(self) -> Array:
        g = self.groups
        return g.share / g.weights if g.are_counts else g.share

    def _group_back(self, G: Array) -> tuple[Array, Array, Array, Array, Array]:
        total = self._sum_groups(G)
        d = self.diagonal[:, None]
        diagonal = np.sum(total * self._solved, axis=1) / self.diagonal**2
        return np.zeros_like(G), total, -total / d, diagonal, np.zeros(len(d))

    def _row_back(self, G: Array) -> tuple[Array, Array, Array, Array, Array]:
        u, share = self.groups.member_of, self._row_share()
        R = G / self._kept
        summed = self._sum_groups(R)
        pull = np.sum(R * self._residual, axis=1) / self._kept[:, 0] * share
        per_group = np.bincount(u, weights=pull, minlength=len(self.ridge))
        ridge = per_group * self.diagonal - np.sum(summed * self._solved, axis=1)
        solved = -self.ridge[:, None] * summed
        return G - R, summed, solved, per_group * self.ridge, ridge

    def _sum_groups(self, rows: Array) -> Array:
        if self.groups.all_distinct:
            return self.groups.means(rows)
        out = np.zeros((len(self.ridge), rows.shape[1]))
        np.add.at(out, self.groups.member_of, rows)
        return out


@dataclass(frozen=True, eq=False)
class NystromPoints:
    """Rows with weights, and the centres of a low-rank system."""

    X: NDArray
    centres: NDArray
    weights: Array


class NystromSmoother:
    """Held-out predictions of the system KᵀΩK + (Σω) α K_cc on m centres, K = k(X, centres).

    F = K A⁻¹ KᵀΩ B and h_i = ω_i k_iᵀ A⁻¹ k_i give the prediction (F - hB) / (1 - h).
    """

    def __init__(
        self, scales: FreeScales, log_scales: Array, alpha: float, points: NystromPoints
    ) -> None:
        self.weights = points.weights[:, None]
        self._cross, self._cross_pullback = scales.gram(log_scales, points.X, points.centres)
        self._inner, self._inner_pullback = scales.gram(log_scales, points.centres)
        self._ridge = float(points.weights.sum() * alpha)
        system = self._cross.T @ (self.weights * self._cross) + self._ridge * self._inner
        np.einsum("ii->i", system)[:] += _JITTER * np.trace(system) / len(system)
        self.inverse, _ = symmetric_inverse(system)
        self._scaled = self._cross @ self.inverse
        self.leverage = self.weights[:, 0] * np.einsum("ij,ij->i", self._scaled, self._cross)

    def predict(self, B: Array) -> Array:
        """Return the held-out predictions, (N, k)."""
        self._targets = B
        self._solved = self._scaled.T @ (self.weights * B)
        self._kept = np.maximum(1.0 - self.leverage, _LEAST_KEPT)[:, None]
        self._predicted = (self._cross @ self._solved - self.leverage[:, None] * B) / self._kept
        return self._predicted

    def pullback(self, G: Array) -> Pulled:
        """Return the derivatives for dL/dP = G."""
        R = G / self._kept
        leverage = np.sum(R * (self._predicted - self._targets), axis=1)
        solved = self.inverse @ (self._cross.T @ R)
        weighted = self.weights * self._cross
        targets = weighted @ solved - self.leverage[:, None] * R
        cross = R @ self._solved.T + (self.weights * self._targets) @ solved.T
        pull = (leverage * self.weights[:, 0])[:, None]
        cross += 2.0 * pull * self._scaled
        system = -(solved @ self._solved.T)
        system = 0.5 * (system + system.T) - self._scaled.T @ (pull * self._scaled)
        cross += 2.0 * weighted @ system
        log_scales = self._cross_pullback(cross) + self._inner_pullback(self._ridge * system)
        return Pulled(targets, log_scales, self._ridge * float(np.sum(system * self._inner)))


class FixedSmoother:
    """Held-out predictions S @ B with given weights S (Q, N), for tuning the output side alone."""

    def __init__(self, weights: Array | csr_array) -> None:
        self.weights = weights

    def predict(self, B: Array) -> Array:
        """Return the held-out predictions, (Q, k)."""
        return self.weights @ B

    def pullback(self, G: Array) -> Pulled:
        """Return the derivatives for dL/dP = G; there is no other parameter."""
        return Pulled(self.weights.T @ G, np.zeros(0), 0.0)


Smoother = ExactSmoother | NystromSmoother | FixedSmoother
