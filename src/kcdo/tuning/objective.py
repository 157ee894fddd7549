"""The held-out loss of a plain conditional density operator as a function of its parameters."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kcdo.arrays import Array
from kcdo.linalg import NotPositiveDefiniteError
from kcdo.parallel import ordered_map
from kcdo.tuning.losses import Loss, Scoring, positive_density
from kcdo.tuning.outputs import FilteredOutputs, OutputFamily
from kcdo.tuning.smoothers import Smoother

_CACHED_VALUES = 200_000
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
        log_scales, log_alpha, log_lengths, log_ridge = self.split(theta)
        try:
            smoother = self.smoother(log_scales, float(np.exp(log_alpha)))
        except NotPositiveDefiniteError:
            return _REFUSED, np.zeros(len(theta))
        side = self.outputs.at(self.Y, log_lengths, log_ridge)
        value, G = self.loss(self.scoring, self._held_out(smoother, side))
        pulled = smoother.pullback(side.pull_embeddings(G))
        lengths, ridge = side.pull_parameters(pulled.targets)
        return value, np.concatenate([pulled.log_scales, [pulled.log_alpha], lengths, [ridge]])

    def split(self, theta: Array) -> tuple[Array, float, Array, float]:
        """Return log scales, log α, log cut-off lengths and log α'."""
        k = self.outputs.n_lengths
        return theta[: -k - 2], float(theta[-k - 2]), theta[-k - 1 : -1], float(theta[-1])

    def densities(self, theta: Array) -> Array:
        """Return the signed held-out node values, (N, M)."""
        log_scales, log_alpha, log_lengths, log_ridge = self.split(theta)
        smoother = self.smoother(log_scales, float(np.exp(log_alpha)))
        return self._held_out(smoother, self.outputs.at(self.Y, log_lengths, log_ridge))

    def at_outputs(self, theta: Array) -> Array:
        """Return the held-out density of each row at its output, (Q,)."""
        density, _ = positive_density(self.outputs.measure, self.densities(theta))
        return self.scoring.at_outputs(density)

    def _held_out(self, smoother: Smoother, side: FilteredOutputs) -> Array:
        return side.reconstruct(smoother.predict(side.embeddings))

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
            side = self.outputs.binned(theta[:-1], theta[-1])
            value, G = self.loss(scoring, side.densities(node_weights))
            lengths, ridge = side.pull(G)
            return share * np.concatenate([[value], lengths, [ridge]])

        total = sum(ordered_map(of_part, self._parts, self.n_jobs), np.zeros(len(theta) + 1))
        return float(total[0]), total[1:]

    @cached_property
    def _parts(self) -> list[tuple[Array, Scoring, float]]:
        """Rows that fit into the cache, with their share in the loss, if it is their mean."""
        n, m = self.node_weights.shape
        step = max(1, _CACHED_VALUES // m) if self.loss.by_rows else n
        rows = [slice(start, start + step) for start in range(0, n, step)]
        return [
            (self.node_weights[r], self.scoring.part(r), float(self.scoring.share[r].sum()))
            for r in rows
        ]
