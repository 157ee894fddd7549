"""Mixtures of Gaussians with independent outputs: what most rivals predict."""

from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp, ndtr

from kcdo.arrays import Array

_ELEMENTS = 1 << 22  # numbers in one temporary array
_LOG_2PI = np.log(2 * np.pi)


class Mixture:
    """Σ_k w_qk N(means_qk, diag sds_qk²) for queries q; components may be shared by all queries.

    Parameters
    ----------
    weights : (Q, K) array
        Sums to 1 over the components.
    means : (Q, K, d) or (1, K, d) array
    sds : array that broadcasts to ``means``
    """

    def __init__(self, weights: Array, means: Array, sds: Array) -> None:
        self.weights, self.means = weights, means
        self.sds = np.broadcast_to(sds, means.shape)
        self._table: tuple[Array, Array] | None = None

    @classmethod
    def normal(cls, mean: Array, sd: Array) -> "Mixture":
        """One Gaussian for each query, from (Q, d) arrays."""
        return cls(np.ones((len(mean), 1)), mean[:, None, :], sd[:, None, :])

    @classmethod
    def on_centres(cls, weights: Array, centres: Array, sd: Array) -> "Mixture":
        """Non-negative weights (Q, K) on shared centres (K, d) of one width, plus a wide tail.

        1 % is the normal of the training outputs with twice their sd (they are standardised), so
        that a single row outside the reach of the kernels does not decide a mean log score. Where
        all weights vanish, the tail is all there is.
        """
        share = 0.99 * (total := weights.sum(axis=1, keepdims=True)) / np.where(total > 0, total, 1)
        weights = weights * (share / np.where(total > 0, total, 1))
        means = np.vstack([centres, np.zeros(centres.shape[1])])
        sds = np.vstack([np.broadcast_to(sd, centres.shape), np.full(centres.shape[1], 2.0)])
        return cls(np.hstack([weights, 1 - share]), means[None], sds[None])

    @property
    def shared(self) -> bool:
        """Whether all queries have the same components, many enough to be worth a table."""
        return len(self.means) == 1 and self.means.shape[1] > (1 if len(self.weights) > 1 else 50)

    def logpdf_pairs(self, Y: Array) -> Array:
        """Log density of query i at Y[i], (Q,)."""
        return np.concatenate([self._log_density(rows, Y[rows]) for rows in self._chunks()])

    def _log_density(self, rows: slice, Y: Array) -> Array:
        means, sds = self._of(rows)
        exponent = np.zeros(self.weights[rows].shape)
        for k in range(means.shape[-1]):
            exponent -= 0.5 * ((Y[:, k, None] - means[..., k]) / sds[..., k]) ** 2
            exponent -= np.log(sds[..., k]) + 0.5 * _LOG_2PI
        with np.errstate(divide="ignore"):
            return logsumexp(exponent + np.log(self.weights[rows]), axis=1)

    def pdf(self, y: Array) -> Array:
        """Density of every query at every point, (Q, G)."""
        return self._at(y, lambda z, sd: np.exp(-0.5 * z**2) / (sd * np.sqrt(2 * np.pi)))

    def cdf(self, y: Array) -> Array:
        """P(Y <= y), (Q, G)."""
        return self._at(y, lambda z, sd: ndtr(z))

    def cdf_pairs(self, Y: Array) -> Array:
        """P(Y_i <= Y[i]) of query i for one output, (Q,)."""
        parts = []
        for rows in self._chunks():
            means, sds = (part[..., 0] for part in self._of(rows))
            parts.append((self.weights[rows] * ndtr((Y[rows] - means) / sds)).sum(axis=1))
        return np.concatenate(parts)

    def _at(self, y: Array, factor: Callable[[Array, Array], Array]) -> Array:
        """Σ_k w_qk Π_j factor(z_kj), a block of points, or a query, at a time."""

        def terms(means: Array, sds: Array, points: Array) -> Array:
            values = np.ones((len(means), len(points)))
            for k in range(points.shape[1]):
                values *= factor(
                    (points[:, k] - means[:, k, None]) / sds[:, k, None], sds[:, k, None]
                )
            return values

        if not self.shared:
            means, sds = (
                np.broadcast_to(a, (len(self.weights), *a.shape[1:]))
                for a in (self.means, self.sds)
            )
            parts = [w @ terms(m, s, y) for w, m, s in zip(self.weights, means, sds, strict=True)]
            return np.stack(parts)
        step = max(1, _ELEMENTS // self.means.shape[1])
        blocks = [y[i : i + step] for i in range(0, len(y), step)]
        return np.hstack([self.weights @ terms(self.means[0], self.sds[0], b) for b in blocks])

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws of each query, (Q, n, d)."""
        Q, d = len(self.weights), self.means.shape[-1]
        cumulated = np.cumsum(self.weights, axis=1)
        uniforms = rng.random((Q, n)) * cumulated[:, -1:]
        chosen = np.stack([np.searchsorted(c, u) for c, u in zip(cumulated, uniforms, strict=True)])
        rows = np.zeros((Q, 1), int) if len(self.means) == 1 else np.arange(Q)[:, None]
        noise = rng.standard_normal((Q, n, d))
        return self.means[rows, chosen] + self.sds[rows, chosen] * noise

    def mean(self) -> Array:
        """Means, (Q, d)."""
        return self._average(self.means)

    def std(self) -> Array:
        """Standard deviations, (Q, d)."""
        square = self._average(self.means**2 + self.sds**2)
        return np.sqrt(np.maximum(square - self.mean() ** 2, 0))

    def _average(self, values: Array) -> Array:
        if len(values) == 1:
            return self.weights @ values[0]
        return np.einsum("qk,qkd->qd", self.weights, values)

    def quantile(self, levels: Array) -> Array:
        """Quantiles of one output, (Q, L): by bisection, or from a fine table of the cdf."""
        if self.shared:
            nodes, cdf = self._cdf_table()
            return np.stack([np.interp(levels, row, nodes) for row in cdf])
        means, sds = self.means[..., 0, None], self.sds[..., 0, None]
        low = np.repeat((means - 9 * sds).min(axis=1), len(levels), axis=1)
        high = np.repeat((means + 9 * sds).max(axis=1), len(levels), axis=1)
        for _ in range(50):
            middle = 0.5 * (low + high)
            F = (self.weights[:, :, None] * ndtr((middle[:, None, :] - means) / sds)).sum(axis=1)
            low, high = np.where(levels > F, middle, low), np.where(levels > F, high, middle)
        return 0.5 * (low + high)

    def crps(self, Y: Array) -> Array:
        """CRPS of one output, (Q,): closed form (Grimit et al. 2006), or the table's integral."""
        if self.shared:
            return crps_of_table(*self._cdf_table(), Y[:, 0])
        scores = [self._closed_crps(rows, Y[rows]) for rows in self._chunks(self.means.shape[1])]
        return np.concatenate(scores)

    def _closed_crps(self, rows: slice, Y: Array) -> Array:
        w, (means, sds) = self.weights[rows], (part[..., 0] for part in self._of(rows))
        distance = (w * _absolute(Y - means, sds)).sum(axis=1)
        differences = means[:, :, None] - means[:, None, :]
        spread = _absolute(differences, np.sqrt(sds[:, :, None] ** 2 + sds[:, None, :] ** 2))
        return distance - 0.5 * np.einsum("qi,qij,qj->q", w, spread, w)

    def _cdf_table(self) -> tuple[Array, Array]:
        """Nodes (G,) and cdf (Q, G), a quarter of the narrowest width apart if that is feasible."""
        if self._table is None:
            means, sds = self.means[0, :, 0], self.sds[0, :, 0]
            low, high = (means - 6 * sds).min(), (means + 6 * sds).max()
            G = int(np.clip((high - low) / (0.25 * sds.min()), 1000, 6000))
            nodes = np.linspace(low, high, G)
            self._table = nodes, self.cdf(nodes[:, None])
        return self._table

    def _of(self, rows: slice) -> tuple[Array, Array]:
        return (
            (self.means, self.sds) if len(self.means) == 1 else (self.means[rows], self.sds[rows])
        )

    def _chunks(self, factor: int = 1) -> list[slice]:
        step = max(1, _ELEMENTS // (self.means.shape[1] * factor))
        return [slice(i, i + step) for i in range(0, len(self.weights), step)]


def _absolute(mean: Array, sd: Array) -> Array:
    """E|X| of X ~ N(mean, sd²)."""
    z = mean / sd
    return 2 * sd * np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi) + mean * (2 * ndtr(z) - 1)


def crps_of_table(nodes: Array, cdf: Array, y: Array) -> Array:
    """∫ (F(t) - 1{t >= y})² dt for F linear between its values (Q, G) at equidistant nodes (G,)."""

    def square(a: Array, b: Array) -> Array:
        """The mean of the squares of a line from a to b."""
        return (a**2 + a * b + b**2) / 3

    step = nodes[1] - nodes[0]
    inside = np.clip(y, nodes[0], nodes[-1])
    cell = np.minimum(((inside - nodes[0]) / step).astype(int), len(nodes) - 2)
    left, right = (np.take_along_axis(cdf, (cell + i)[:, None], axis=1)[:, 0] for i in (0, 1))
    share = (inside - nodes[cell]) / step
    at_y = left + share * (right - left)
    before, after = (
        np.arange(len(nodes) - 1) < cell[:, None],
        np.arange(len(nodes) - 1) > cell[:, None],
    )
    lower, upper = cdf[:, :-1], cdf[:, 1:]
    whole = (square(lower, upper) * before + square(1 - lower, 1 - upper) * after).sum(axis=1)
    part = share * square(left, at_y) + (1 - share) * square(1 - at_y, 1 - right)
    return step * (whole + part) + np.abs(y - inside)
