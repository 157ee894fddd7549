"""Adam with early stopping for several runs at once, in JAX: what the neural rivals share.

The runs differ in their first parameters or learning rates and are trained side by side; the
best parameters of each on the held-out tenth of the rows are kept.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from kcdo.arrays import Array

Loss = Callable[[Any, Any, Any], Any]  # parameters, inputs, outputs -> mean negative log density

_ADAM = optax.chain(optax.clip_by_global_norm(5.0), optax.scale_by_adam())


def train(
    loss: Loss,
    parameters: Any,
    rates: Array,
    X: Array,
    Y: Array,
    *,
    seed: int,
    epochs: int,
    patience: int,
    batch: int,
) -> tuple[Any, Array]:
    """Return the best parameters of each run, stacked, and their held-out losses (R,).

    ``parameters`` have a leading axis of R runs; ``loss`` must be the same object for problems of
    the same shape, so that it is compiled once.
    """
    rng = np.random.default_rng(seed)
    held, rest = np.split(rng.permutation(len(X)), [max(1, len(X) // 10)])
    x, y, x_out, y_out = (jnp.asarray(a, jnp.float32) for a in (X[rest], Y[rest], X[held], Y[held]))
    batch = min(batch, len(x))
    rates = jnp.asarray(rates, jnp.float32)
    states = jax.vmap(_ADAM.init)(parameters)
    best, lowest, since = parameters, np.full(len(rates), np.inf), np.zeros(len(rates), int)
    for _ in range(epochs):
        order = rng.permutation(len(x))[: len(x) // batch * batch].reshape(-1, batch)
        parameters, states = _epoch(loss, parameters, states, rates, x, y, order)
        losses = np.asarray(_losses(loss, parameters, x_out, y_out))
        better = losses < lowest
        lowest, since = np.where(better, losses, lowest), np.where(better, 0, since + 1)
        if better.any():
            best = _chosen(jnp.asarray(better), parameters, best)
        if since.min() >= patience:
            break
    return best, lowest


@partial(jax.jit, static_argnums=0)
def _epoch(loss: Loss, parameters: Any, states: Any, rates: Any, x: Any, y: Any, order: Any) -> Any:
    def step(carry: Any, rows: Any) -> tuple[Any, None]:
        return jax.vmap(update, in_axes=(0, 0, 0, None))(*carry, rates, rows), None

    def update(parameters: Any, state: Any, rate: Any, rows: Any) -> tuple[Any, Any]:
        gradient = jax.grad(loss)(parameters, x[rows], y[rows])
        gradient = jax.tree.map(lambda g: jnp.nan_to_num(g, posinf=0.0, neginf=0.0), gradient)
        change, state = _ADAM.update(gradient, state)
        return jax.tree.map(lambda p, c: p - rate * c, parameters, change), state

    return jax.lax.scan(step, (parameters, states), order)[0]


@partial(jax.jit, static_argnums=0)
def _losses(loss: Loss, parameters: Any, x: Any, y: Any) -> Any:
    return jax.vmap(loss, in_axes=(0, None, None))(parameters, x, y)


@jax.jit
def _chosen(better: Any, new: Any, old: Any) -> Any:
    def choose(a: Any, b: Any) -> Any:
        return jnp.where(better.reshape((-1,) + (1,) * (a.ndim - 1)), a, b)

    return jax.tree.map(choose, new, old)
