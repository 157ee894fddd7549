"""What searches make small, as functions θ -> (value, gradient)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kcdo.arrays import Array, Integers
from kcdo.distributions import positive_density
from kcdo.fitting.filters import OutputFamily
from kcdo.fitting.left_out import Smoother
from kcdo.fitting.losses import Loss, Scoring
from kcdo.kernels import FreeScales
from kcdo.linalg import NotPositiveDefiniteError, symmetric_inverse, weighted_square
from kcdo.parallel import ordered_map
from kcdo.systems import Groups, System, group_errors

_CACHED_VALUES = 200_000
_LEAST_AMPLITUDE = 1e-300
_JITTER = 1e-10
_REFUSED = 1e6  # the loss where the system cannot be factored: the line search turns back


@dataclass(frozen=True, eq=False)
class HeldOutLoss:
    """L(θ), θ = (log scales of the input kernel, log α, log cut-off lengths, log α').

    Parameters
    ----------
    smoother : callable
        (log scales, α) -> smoother; one factorisation.
    outputs : OutputFamily
        Output sides to choose from.
    Y : (N, d)
        The outputs that the smoother smooths.
    weights : (Q,)
        Weights of the rows that it predicts.
    loss : Loss
        What is made small.
    scored : (Q, d), optional
        Outputs of the rows that it predicts, where these are not all.
    beside : (Q,), optional
        As in :class:`Scoring`.
    """

    smoother: Callable[[Array, float], Smoother]
    outputs: OutputFamily
    Y: Array
    weights: Array
    loss: Loss
    scored: Array | None = None
    beside: Array | None = None

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Return L(θ) and its gradient."""
        try:
            values, pullback = self._held_out(theta)
        except NotPositiveDefiniteError:
            return _REFUSED, np.zeros(len(theta))
        value, G = self.loss(self.scoring, values)
        return value, pullback(G)

    def at_outputs(self, theta: Array) -> Array:
        """Return the held-out density of each row at its output, (Q,)."""
        values, _ = self._held_out(theta)
        density, _ = positive_density(values, self.outputs.measure.weights)
        return self.scoring.at_outputs(density)

    def _held_out(self, theta: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Return the signed held-out node values (Q, M), and the pullback dL/d(values) -> dL/dθ."""
        log_scales, log_alpha, log_lengths, log_ridge = self.split(theta)
        smoother = self.smoother(log_scales, float(np.exp(log_alpha)))
        side = self.outputs.at(self.Y, log_lengths, log_ridge)
        smoothed, smoother_pullback = smoother(side.embeddings)
        values, filter_pullback = side.densities(smoothed)

        def pullback(G: Array) -> Array:
            back, through_filter = filter_pullback(G)
            pulled = smoother_pullback(back)
            lengths, ridge = side.slopes(through_filter, pulled.targets)
            return np.concatenate([pulled.log_scales, [pulled.log_alpha], lengths, [ridge]])

        return values, pullback

    def split(self, theta: Array) -> tuple[Array, float, Array, float]:
        """Return log scales, log α, log cut-off lengths and log α'."""
        k = self.outputs.n_lengths
        return theta[: -k - 2], float(theta[-k - 2]), theta[-k - 1 : -1], float(theta[-1])

    @cached_property
    def scoring(self) -> Scoring:
        """Where the held-out densities are scored, whatever the parameters."""
        Y = self.Y if self.scored is None else self.scored
        outputs = self.outputs
        return Scoring(outputs.measure, Y, self.weights, outputs.shape, self.beside)


@dataclass(frozen=True, eq=False)
class FilterLoss:
    """L(log cut-off lengths, log α') of given held-out weights, for outputs shared among nodes.

    Parameters
    ----------
    node_weights : (Q, M)
        What each held-out density gives to each node.
    outputs : OutputFamily
        Output sides to choose from, on a grid.
    scoring : Scoring
        The rows that are predicted.
    loss : Loss
        What is made small.
    n_jobs : int, optional
        Threads; None: all cores.
    """

    node_weights: Array
    outputs: OutputFamily
    scoring: Scoring
    loss: Loss
    n_jobs: int | None = None

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Return L(θ) and its gradient."""

        def of_part(part: tuple[Array, Scoring, float]) -> Array:
            node_weights, scoring, share = part
            values, pullback = self.outputs.binned(theta[:-1], theta[-1]).densities(node_weights)
            value, G = self.loss(scoring, values)
            lengths, ridge = pullback(G)
            return share * np.concatenate([[value], lengths, [ridge]])

        total = sum(ordered_map(of_part, self._parts, self.n_jobs), np.zeros(len(theta) + 1))
        return float(total[0]), total[1:]

    @cached_property
    def _parts(self) -> list[tuple[Array, Scoring, float]]:
        """Blocks of rows that fit into the cache, each with its share in the loss.

        A loss that is no mean over rows takes all rows as one block.
        """
        n, m = self.node_weights.shape
        step = max(1, _CACHED_VALUES // m) if self.loss.by_rows else n
        rows = [slice(start, start + step) for start in range(0, n, step)]
        return [
            (self.node_weights[r], self.scoring.part(r), float(self.scoring.share[r].sum()))
            for r in rows
        ]


@dataclass(frozen=True, eq=False)
class MarginalLikelihood:
    """-log p(Y | X) / (N d), up to a constant, as a function of (log scales, log noise ratio η).

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
        noise = float(np.exp(theta[-1]))
        try:
            inverse, log_det, gram_pullback = self._inverse(theta)
        except NotPositiveDefiniteError:
            return _REFUSED, np.zeros(len(theta))
        value, slope, noise_slope = self._loss(inverse, log_det, noise)
        noise_slope += float(slope.diagonal() @ (noise / self.groups.totals))
        return value, np.append(gram_pullback(slope), noise_slope)

    def _inverse(self, theta: Array) -> tuple[Array, float, Callable[[Array], Array]]:
        """Return (K + η/n)⁻¹, the log determinant before, and the pullback of K."""
        matrix, gram_pullback = self.scales.gram(theta[:-1], self.groups.points)
        np.einsum("ii->i", matrix)[:] += np.exp(theta[-1]) / self.groups.totals + _JITTER
        return *symmetric_inverse(matrix), gram_pullback

    def _loss(self, inverse: Array, log_det: float, noise: float) -> tuple[float, Array, float]:
        """Return the loss, its slope in K, and in log η apart from that."""
        solved = inverse @ self._of_groups[0]
        total, d = float(self.groups.totals.sum()), solved.shape[1]
        value, amplitude, rest = self._value(solved, log_det, noise)
        slope = (0.5 / total) * (inverse - (solved / (amplitude * d)) @ solved.T)
        noise_slope = 0.5 * (total - len(solved) - float(np.mean(rest / amplitude))) / total
        return value, slope, noise_slope

    def _value(self, solved: Array, log_det: float, noise: float) -> tuple[float, Array, Array]:
        """Return the loss, the amplitude of each output, and what groups spread about means."""
        means, within = self._of_groups
        total = float(self.groups.totals.sum())
        rest = within.sum(axis=0) / noise
        amplitude = np.maximum(np.sum(means * solved, axis=0) + rest, _LEAST_AMPLITUDE) / total
        log_det += (total - len(means)) * float(np.log(noise))
        return 0.5 * float(np.mean(np.log(amplitude)) + log_det / total), amplitude, rest

    @cached_property
    def _of_groups(self) -> tuple[Array, Array]:
        """Mean outputs of the groups, and sums of squares about them, (G, d) each."""
        g = self.groups
        means = g.means(self.Y)
        squares = g.weights[:, None] * (self.Y - means[g.member_of]) ** 2
        within: Array = np.zeros_like(means)
        np.add.at(within, g.member_of, squares)
        return means, within


@dataclass(frozen=True, eq=False)
class RegressionLoss(MarginalLikelihood):
    """The mean of two losses of a Gaussian process, of (log scales, log noise ratio η).

    One is -mean log p(y_i | the other rows), which finds what foretells rows best however wrong the
    model is, but of few rows per column fits their chance. The other is the marginal likelihood,
    which believes the model and is steadier. Rows of equal input go together: with P = (K + η/n)⁻¹
    of group means ȳ, the mean of group g without itself is off by e_g = (Pȳ)_g / P_gg, and a row of
    it has the variance v_g = 1/P_gg + η (1 - 1/n_g).
    """

    def _loss(self, inverse: Array, log_det: float, noise: float) -> tuple[float, Array, float]:
        value, slope, noise_slope = super()._loss(inverse, log_det, noise)
        other, other_slope, other_noise = self._left_out(inverse, noise)
        slope += other_slope
        return 0.5 * (value + other), 0.5 * slope, 0.5 * (noise_slope + other_noise)

    def judged(self, theta: Array) -> tuple[float, float]:
        """Return the loss, and the mean absolute error of rows foretold by those of other inputs.

        Without slopes, this is half the work of a step.
        """
        g, noise, means = self.groups, float(np.exp(theta[-1])), self._of_groups[0]
        try:
            inverse, log_det, _ = self._inverse(theta)
        except NotPositiveDefiniteError:
            return _REFUSED, _REFUSED
        solved = inverse @ means
        errors, variance = self._errors(solved, inverse, noise)
        value = self._value(solved, log_det, noise)[0] + self._scored(errors, variance)[0]
        off = np.abs(self.Y - (means - errors)[g.member_of]).mean(axis=1)
        return 0.5 * value, float(np.average(off, weights=g.weights))

    def _left_out(self, inverse: Array, noise: float) -> tuple[float, Array, float]:
        """Return the leave-one-out loss, its slope in K, and in log η apart from that."""
        solved, diagonal = inverse @ self._of_groups[0], inverse.diagonal()[:, None]
        errors, variance = self._errors(solved, inverse, noise)
        value, e_slope, v_slope = self._scored(errors, variance)
        # dP = -P dK P, and e = Pȳ/P_gg
        p_slope = -np.sum(e_slope * errors, axis=1, keepdims=True) / diagonal
        p_slope -= v_slope / diagonal**2
        left = inverse @ (e_slope / diagonal)
        slope = weighted_square(inverse, -p_slope[:, 0])
        slope -= 0.5 * (left @ solved.T + solved @ left.T)
        return value, slope, float(np.sum(v_slope * (variance - 1.0 / diagonal)))

    def _errors(self, solved: Array, inverse: Array, noise: float) -> tuple[Array, Array]:
        """Return what means of groups are off by without themselves, and variances of rows."""
        diagonal = inverse.diagonal()
        own = noise * (1.0 - 1.0 / self.groups.totals)
        return group_errors(solved, diagonal), (1.0 / diagonal + own)[:, None]

    def _scored(self, errors: Array, variance: Array) -> tuple[float, Array, Array]:
        """Return the score, and its slopes in errors (G, d) and variances (G, 1)."""
        n = self.groups.totals[:, None]
        total, d = float(n.sum()), errors.shape[1]
        squares = n * errors**2 + self._of_groups[1]
        amplitude = np.maximum(np.sum(squares / variance, axis=0) / total, _LEAST_AMPLITUDE)
        value = 0.5 * np.mean(np.log(amplitude)) + 0.5 * float(np.sum(n * np.log(variance))) / total
        e_slope = n * errors / (variance * amplitude * (total * d))
        v_slope = 0.5 * n / (variance * total)
        v_slope -= (
            0.5 * np.sum(squares / amplitude, axis=1, keepdims=True) / (variance**2 * total * d)
        )
        return float(value), e_slope, v_slope


def normal_loss(system: System, targets: Array, rows: Integers) -> float:
    """Return the held-out normal log score of some rows, in nats per row and output.

    Up to a constant, with the variance of each column of the centred targets (N, d) at its best:
    held-out errors have the variance noise / (1 - leverage).
    """
    one_minus_leverage = system.one_minus_leverage(rows)
    errors = targets[rows] - system.held_out(targets, rows, one_minus_leverage)
    return normal_loss_of(errors, one_minus_leverage, system.row_weights[rows])


def normal_loss_of(errors: Array, one_minus_leverage: Array, weights: Array) -> float:
    """Return the :func:`normal_loss` of held-out errors (n, d) of rows with their weights."""
    shrunk = errors**2 * one_minus_leverage[:, None]
    variance = np.average(shrunk, axis=0, weights=weights)
    leverage = float(np.average(np.log(one_minus_leverage), weights=weights))
    return 0.5 * (float(np.mean(np.log(np.maximum(variance, 1e-300)))) - leverage)
