"""The held-out loss of a plain conditional density operator as a function of its parameters."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kcdo.linalg import NotPositiveDefiniteError
from kcdo.tuning.losses import Loss, Scoring
from kcdo.tuning.outputs import FilteredOutputs, OutputFamily
from kcdo.tuning.smoothers import Smoother

Array = NDArray[np.floating]

_REFUSED = 1e6  # the loss where the system cannot be factored: the line search turns back


@dataclass(frozen=True, eq=False)
class HeldOutLoss:
    """L(θ), θ = (log scales of the input kernel, log α, log cut-off length, log α').

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
    """

    smoother: Callable[[Array, float], Smoother]
    outputs: OutputFamily
    Y: Array
    weights: Array
    loss: Loss
    scored: Array | None = None

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Return L(θ) and its gradient."""
        try:
            smoother = self.smoother(theta[:-3], float(np.exp(theta[-3])))
        except NotPositiveDefiniteError:
            return _REFUSED, np.zeros(len(theta))
        side = self.outputs.at(self.Y, theta[-2], theta[-1])
        value, G = self.loss(self.scoring, self._held_out(smoother, side))
        pulled = smoother.pullback(side.pull_embeddings(G))
        filter_gradient = side.pull_parameters(pulled.targets)
        return value, np.concatenate([pulled.log_scales, [pulled.log_alpha, *filter_gradient]])

    def densities(self, theta: Array) -> Array:
        """Return the signed held-out node values, (N, M)."""
        smoother = self.smoother(theta[:-3], float(np.exp(theta[-3])))
        return self._held_out(smoother, self.outputs.at(self.Y, theta[-2], theta[-1]))

    def _held_out(self, smoother: Smoother, side: FilteredOutputs) -> Array:
        return side.reconstruct(smoother.predict(side.embeddings))

    @cached_property
    def scoring(self) -> Scoring:
        """Where the held-out densities are scored, whatever the parameters."""
        Y = self.Y if self.scored is None else self.scored
        return Scoring(self.outputs.measure, Y, self.weights, self.outputs.shape)
