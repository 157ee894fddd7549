"""Heteroscedastic Gaussian process, by GPJax: a second process is the log noise variance.

Lázaro-Gredilla and Titsias (2011), with sparse variational posteriors for both processes on at
most 60 inducing inputs (k-means, then learnt), per-dimension scales, Adam on minibatches with a
decreasing rate. The posteriors are whitened and start as shrunken priors: the package's family has
the values at the inducing inputs themselves, and with inducing inputs close together Adam is then
far from the optimum after 2,000 steps.
"""

from functools import lru_cache

import numpy as np
from sklearn.cluster import KMeans

from kcdo.arrays import Array
from kcdo.rivals.base import Rival
from kcdo.rivals.mixtures import Mixture

_INDUCING, _BATCH = 60, 250
_LOG_NOISE = np.log(0.1)  # where the log noise variance starts
_SHRUNKEN = 0.3  # sds of the first posterior, in those of the prior
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(15)


class HeteroscedasticGP(Rival):
    """Independent heteroscedastic GPs for the outputs.

    The predictive integrates the normal over the posterior of the log noise by quadrature: a
    mixture of 15 normals with one mean.
    """

    name = "hgp"

    def __init__(self, seed: int = 0, gap: float = 0.0, steps: int = 2000) -> None:
        super().__init__(seed, gap)
        self.steps = steps

    def _fit(self, X: Array, Y: Array) -> None:
        import jax

        with jax.enable_x64(True):
            self._fitted = [_learn(X, y, self.steps, self.seed) for y in Y.T]

    def _conditional(self, X: Array) -> Mixture:
        import jax

        with jax.enable_x64(True):
            parts = [_predict(fitted, X) for fitted in self._fitted]
        mean, variance, log_mean, log_sd = (np.stack(p, axis=-1) for p in zip(*parts, strict=True))
        noise = np.exp(log_mean[:, None] + log_sd[:, None] * _NODES[:, None])  # (Q, K, d)
        sds = np.sqrt(variance[:, None] + noise)
        means = np.repeat(mean[:, None], len(_NODES), axis=1)
        weights = np.repeat(_WEIGHTS[None] / _WEIGHTS.sum(), len(X), axis=0)
        return Mixture(weights, means, sds)


def _learn(X: Array, y: Array, steps: int, seed: int):
    import gpjax
    import jax
    import jax.numpy as jnp
    import optax

    p = X.shape[1]
    centres = np.unique(X, axis=0)
    if len(centres) > _INDUCING:
        centres = KMeans(_INDUCING, n_init=1, random_state=seed).fit(X).cluster_centers_

    def prior(constant: float) -> object:
        kernel = gpjax.kernels.RBF(lengthscale=jnp.full(p, 0.7 * np.sqrt(p)))
        mean = gpjax.mean_functions.Constant(jnp.array([constant]))
        return gpjax.gps.Prior(mean_function=mean, kernel=kernel)

    model = gpjax.gps.HeteroscedasticModel(
        prior=prior(0.0),
        likelihood=gpjax.likelihoods.HeteroscedasticGaussian(),
        noise_prior=prior(_LOG_NOISE),
    )
    fitted, _ = gpjax.fit(
        model=_whitened(model, jnp.asarray(centres)),
        objective=lambda q, data: -gpjax.objectives.heteroscedastic_elbo(q, data),
        train_data=gpjax.Dataset(X=jnp.asarray(X), y=jnp.asarray(y)[:, None]),
        optim=optax.adam(optax.cosine_decay_schedule(0.02, steps, alpha=0.05)),
        num_iters=steps,
        batch_size=min(_BATCH, len(X)),
        key=jax.random.key(seed),
        verbose=False,
    )
    return fitted


def _whitened(model, centres):
    """The variational family of both processes, each in units of its prior at the centres."""
    import equinox
    import jax.numpy as jnp
    from gpjax.variational_families import (
        HeteroscedasticVariationalFamily,
        WhitenedVariationalGaussian,
    )

    def start(process):
        root = _SHRUNKEN * jnp.eye(len(centres))
        return WhitenedVariationalGaussian(process, centres, variational_root_covariance=root)

    return equinox.tree_at(
        lambda family: (family.signal_variational, family.noise_variational),
        HeteroscedasticVariationalFamily(model, centres),
        (start(model), start(model.noise_model)),
    )


def _predict(fitted, X: Array) -> tuple[Array, Array, Array, Array]:
    """Mean and variance of the function, mean and sd of the log noise variance, (Q,) each."""
    import jax.numpy as jnp

    padded = np.pad(X, ((0, -len(X) % _BATCH), (0, 0)))  # blocks of one size: compiled once
    predict = _predictor()
    parts = [predict(fitted, jnp.asarray(b)) for b in np.split(padded, len(padded) // _BATCH)]
    found = np.concatenate(
        [np.stack([np.asarray(v)[:, 0] for v in part]) for part in parts], axis=1
    )
    mean, variance, log_mean, log_variance = found[:, : len(X)]
    return mean, np.maximum(variance, 0), log_mean, np.sqrt(np.maximum(log_variance, 0))


@lru_cache(maxsize=1)
def _predictor():
    import equinox

    return equinox.filter_jit(lambda family, x: tuple(family.predict(x)))
