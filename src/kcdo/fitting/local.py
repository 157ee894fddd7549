"""Local learning: scales and noise by rows that are predicted from their near rows among all.

A leave-one-out pseudo-likelihood (docs/theory.md): judged row i with its k nearest rows n(i) of
other inputs has, for targets centred and k(x, x) = 1,

    r_i = y_i - k_iᵀ(K_n + λI)⁻¹ y_n ,   v_i = 1 + λ - k_iᵀ(K_n + λI)⁻¹ k_i
    loss = ½ log mean(r_i² / v_i) + ½ mean log v_i          (amplitude profiled out)

Every row is held out, and the cost does not depend on the number of rows but for the search for
neighbours: one principle from 20 rows to 10⁷.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kcdo.arrays import Array, Integers
from kcdo.kernels import FreeScales, Radial
from kcdo.parallel import ordered_map
from kcdo.systems import Finder

_LEAST_VARIANCE = 1e-12
_BLOCK_NUMBERS = 1 << 21  # of one array of kernel values
LOG_NOISE_RANGE = (-16.0, 3.0)


@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    """Judged rows, each with its near rows, which stay the same while scales move."""

    rows: Integers  # (J,)
    places: Integers  # (J, k): their near rows

    @classmethod
    def of(
        cls, coordinates: Array, rows: Integers, k: int, n_jobs: int | None = None
    ) -> "Neighbourhoods":
        """Find the rows nearest to some of them, in coordinates scaled by a kernel."""
        return cls(rows, Finder(coordinates).nearest_distinct(rows, k, n_jobs))

    def blocks(self, columns: int) -> list["Neighbourhoods"]:
        """Return the neighbourhoods a few at a time: arrays of all pairs are large."""
        k = self.places.shape[1]
        step = max(1, _BLOCK_NUMBERS // (k * k * max(columns, 1)))
        step = min(step, -(-len(self.rows) // 2))  # something for a second thread
        starts = range(0, len(self.rows), step)
        return [Neighbourhoods(self.rows[s : s + step], self.places[s : s + step]) for s in starts]


@dataclass(frozen=True, eq=False)
class LocalLoss:
    """The loss of judged rows as a function of (log scales, log λ), with its gradient.

    Parameters
    ----------
    scales : FreeScales
        Open scales of a stationary kernel with k(x, x) = 1.
    X : (N, p)
        Inputs.
    targets : (N, T)
        Centred targets; their losses are averaged, each with an amplitude of its own.
    neighbourhoods : Neighbourhoods
        Judged rows and their near rows.
    """

    scales: FreeScales
    X: Array
    targets: Array
    neighbourhoods: Neighbourhoods
    n_jobs: int | None = None

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Return the loss and its gradient."""
        solved = self._solved(theta)
        r, v, variance, value = _scored(solved)
        n, n_targets = r.shape
        r_slope = r / (v[:, None] * variance) / (n * n_targets)
        v_slope = 0.5 / (n * v) - 0.5 * np.sum(r * r_slope, axis=1) / v
        starts = np.cumsum([0, *(len(each.v) for each in solved)])
        pulled = ordered_map(
            lambda i: solved[i].pullback(
                r_slope[starts[i] : starts[i + 1]], v_slope[starts[i] : starts[i + 1]]
            ),
            range(len(solved)),
            self.n_jobs,
        )
        return value, sum(pulled, np.zeros(len(theta)))

    def judged(self, theta: Array) -> tuple[float, float]:
        """Return the loss, and the mean absolute error of the judged rows."""
        r, _, _, value = _scored(self._solved(theta))
        return value, float(np.mean(np.abs(r)))

    def _solved(self, theta: Array) -> list["_Solved"]:
        log_scales, ridge = theta[:-1], float(np.exp(theta[-1]))
        found = ordered_map(
            lambda block: block.solved(log_scales, ridge), self._blocks, self.n_jobs
        )
        return list(found)

    @cached_property
    def _blocks(self) -> list["_Block"]:
        blocks = self.neighbourhoods.blocks(self.X.shape[1])
        return [_Block.of(self.scales, self.X, self.targets, block) for block in blocks]


@dataclass(frozen=True, eq=False)
class _Block:
    """Pairs of rows of some neighbourhoods: kernel values from differences of inputs."""

    gram: Callable[[Array], tuple[Array, Callable[[Array], Array]]]  # log scales -> k, pullback
    targets: Array  # (J, k + 1, T), the judged row first
    pairs: tuple[Integers, Integers]

    @classmethod
    def of(cls, scales: FreeScales, X: Array, targets: Array, hoods: Neighbourhoods) -> "_Block":
        """Take the differences of all pairs of rows in each neighbourhood."""
        members = np.concatenate([hoods.rows[:, None], hoods.places], axis=1)
        i, j = np.tril_indices(members.shape[1], -1)
        differences = (X[members[:, i]] - X[members[:, j]]).reshape(-1, X.shape[1])
        return cls(_gram_of(scales, differences), targets[members], (i, j))

    def solved(self, log_scales: Array, ridge: float) -> "_Solved":
        """Solve the system of each neighbourhood without its judged row."""
        n, size, _ = self.targets.shape
        i, j = self.pairs
        values, pullback = self.gram(log_scales)
        matrix = np.ones((n, size, size))
        matrix[:, i, j] = matrix[:, j, i] = values.reshape(n, -1)
        inner = matrix[:, 1:, 1:].copy()
        np.einsum("qii->qi", inner)[:] += ridge + 1e-10
        own, near = matrix[:, 1:, 0], self.targets[:, 1:]
        found = np.linalg.solve(inner, np.concatenate([own[:, :, None], near], axis=2))
        w, a = found[:, :, 0], found[:, :, 1:]
        r = self.targets[:, 0] - np.einsum("qk,qkt->qt", w, near)
        v = 1.0 + ridge - np.einsum("qk,qk->q", w, own)
        return _Solved(r, v, w, a, ridge, self.pairs, pullback)


@dataclass(frozen=True, eq=False)
class _Solved:
    """Held-out errors r and variance ratios v of some judged rows, and how they move."""

    r: Array
    v: Array
    w: Array  # (J, k) weights of the near rows
    a: Array  # (J, k, T): (K + λ)⁻¹ targets
    ridge: float
    pairs: tuple[Integers, Integers]
    gram_pullback: Callable[[Array], Array]

    def pullback(self, r_slope: Array, v_slope: Array) -> Array:
        """Return dL/d(log scales), dL/d(log λ): dr = uᵀ dK a and dv = uᵀ dK u, u = (-1, w)."""
        n = len(self.w)
        u = np.concatenate([-np.ones((n, 1)), self.w], axis=1)
        pulled = np.einsum("qkt,qt->qk", self.a, r_slope)
        right = np.concatenate([np.zeros((n, 1)), pulled], axis=1) + v_slope[:, None] * u
        i, j = self.pairs
        of_pairs = u[:, i] * right[:, j] + u[:, j] * right[:, i]
        noise = np.sum(self.w * right[:, 1:]) + np.sum(v_slope)
        return np.append(self.gram_pullback(of_pairs.ravel()), self.ridge * noise)


def _scored(solved: list[_Solved]) -> tuple[Array, Array, Array, float]:
    """Return errors (J, T), variance ratios (J,), amplitudes (T,) and the loss of judged rows."""
    r = np.concatenate([each.r for each in solved])
    v = np.maximum(np.concatenate([each.v for each in solved]), _LEAST_VARIANCE)
    amplitude = np.mean(r * r / v[:, None], axis=0)
    loss = 0.5 * float(np.mean(np.log(amplitude))) + 0.5 * float(np.mean(np.log(v)))
    return r, v, amplitude, loss


def _gram_of(
    scales: FreeScales, differences: Array
) -> Callable[[Array], tuple[Array, Callable[[Array], Array]]]:
    """Return log scales -> kernel values of differences (L, p), and the pullback."""
    template = scales.template
    if isinstance(template, Radial) and not template.fitted:
        squares = differences**2

        def radial(log_scales: Array) -> tuple[Array, Callable[[Array], Array]]:
            inverse = np.exp(-2.0 * log_scales)
            values, h = template.profile(squares @ inverse)
            return values, lambda W: ((W * h) @ squares) * inverse

        return radial
    origin = np.zeros((1, differences.shape[1]))

    def any_kernel(log_scales: Array) -> tuple[Array, Callable[[Array], Array]]:
        values, pullback = scales.gram(log_scales, differences, origin)
        return values[:, 0], lambda W: pullback(W[:, None])

    return any_kernel
