"""Mixture density networks (Bishop 1994), in JAX.

Two hidden layers of 50 tanh units, five components, Adam, early stopping on a tenth of the rows:
the usual small network of the UCI comparisons. Three restarts, whose mixtures are averaged, as
in deep ensembles (Lakshminarayanan et al. 2017): better than the best of them.
"""

from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from kcdo.arrays import Array
from kcdo.rivals.base import Rival
from kcdo.rivals.mixtures import Mixture

_RUNS, _WIDTH, _COMPONENTS = 3, 50, 5
_RATE, _DECAY, _PATIENCE = 3e-3, 1e-4, 30
_LEAST_SD = 1e-3  # of a component, in standard deviations of the output


class MixtureDensityNetwork(Rival):
    """A mixture whose weights, means and sds are the outputs of a network."""

    name = "mdn"

    def __init__(self, seed: int = 0, gap: float = 0.0, epochs: int = 400) -> None:
        super().__init__(seed, gap)
        self.epochs = epochs

    def _fit(self, X: Array, Y: Array) -> None:
        import jax

        from experiments.rivals.training import train

        rng = np.random.default_rng(self.seed)
        starts = [_start(rng, X.shape[1], Y.shape[1]) for _ in range(_RUNS)]
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *starts)
        self._least = (_LEAST_SD,) * Y.shape[1]
        self._parameters, self.losses = train(
            _loss(self._least), stacked, np.full(_RUNS, _RATE), X, Y,
            seed=self.seed, epochs=self.epochs, patience=_PATIENCE, batch=_batch(len(X)),
        )  # fmt: skip

    def _conditional(self, X: Array) -> Mixture:
        import jax

        forward = jax.vmap(_components, in_axes=(0, None, None))
        parts = forward(self._parameters, X.astype(np.float32), np.array(self._least, np.float32))
        log_weights, means, sds = (np.asarray(part, float) for part in parts)
        weights = np.concatenate(np.exp(log_weights), axis=1) / _RUNS
        weights /= weights.sum(axis=1, keepdims=True)
        return Mixture(weights, np.concatenate(means, axis=1), np.concatenate(sds, axis=1))


def _batch(n: int) -> int:
    return int(np.clip(n // 20, 32, 512))


def _start(rng: np.random.Generator, p: int, d: int) -> list[tuple[Array, Array]]:
    sizes = [p, _WIDTH, _WIDTH, _COMPONENTS * (1 + 2 * d)]
    layers = [(rng.standard_normal((a, b)) / np.sqrt(a), np.zeros(b)) for a, b in pairwise(sizes)]
    W, b = layers[-1]
    b[_COMPONENTS : _COMPONENTS * (1 + d)] = rng.standard_normal(_COMPONENTS * d)
    layers[-1] = 0.1 * W, b
    return [(W.astype(np.float32), b.astype(np.float32)) for W, b in layers]


def _components(layers: Any, X: Any, least: Any) -> tuple[Any, Any, Any]:
    """Log weights (Q, K), means and sds (Q, K, d)."""
    import jax
    import jax.numpy as jnp

    for W, b in layers[:-1]:
        X = jnp.tanh(X @ W + b)
    W, b = layers[-1]
    out, d = X @ W + b, len(least)
    logits, means, raw = jnp.split(out, [_COMPONENTS, _COMPONENTS * (1 + d)], axis=1)
    shape = (len(X), _COMPONENTS, d)
    sds = least + jax.nn.softplus(raw.reshape(shape))
    return jax.nn.log_softmax(logits), means.reshape(shape), sds


@lru_cache(maxsize=64)
def _loss(least: tuple[float, ...]) -> Any:
    import jax
    import jax.numpy as jnp

    def loss(layers: Any, X: Any, Y: Any) -> Any:
        log_weights, means, sds = _components(layers, X, jnp.array(least))
        z = (Y[:, None, :] - means) / sds
        log_normal = -0.5 * z**2 - jnp.log(sds) - 0.5 * jnp.log(2 * jnp.pi)
        fit = jax.scipy.special.logsumexp(log_weights + log_normal.sum(axis=2), axis=1).mean()
        return _DECAY * sum((W**2).sum() for W, _ in layers) - fit

    return loss
