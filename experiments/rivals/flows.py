"""Conditional normalising flows, by flowjax: RealNVP, MAF and MAF with splines.

Dinh et al. (2017), Papamakarios et al. (2017), Durkan et al. (2019). Hidden layers of 100 units,
as in the paper's comparison, the number of flow layers a parameter. Adam; the learning rate is
the one of three with the best likelihood on a held-out tenth of the training rows, which also
stops the training. With one output, affine flows are conditional Gaussians; splines are not.
Discrete outputs are dequantised: uniform noise of one gap is added to the training outputs.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from experiments.rivals.rounding import dequantised
from kcdo.arrays import Array
from kcdo.rivals.base import Rival

_RATES = np.array([3e-4, 1e-3, 3e-3])
_WIDTH, _PATIENCE = 100, 20
_SAMPLES = 2000  # for the moments, as in the paper
_BLOCK = 1 << 15


class ConditionalFlow(Rival):
    """A conditional flow of one kind: "realnvp", "maf" or "spline"."""

    def __init__(
        self, seed: int = 0, gap: float = 0.0, *, kind: str = "maf", layers: int = 5,
        hidden_layers: int = 1, epochs: int = 200,
    ) -> None:  # fmt: skip
        super().__init__(seed, gap)
        self.name = {"spline": "spline-flow"}.get(kind, kind)
        self.kind, self.layers, self.hidden_layers, self.epochs = (
            kind,
            layers,
            hidden_layers,
            epochs,
        )

    def _fit(self, X: Array, Y: Array) -> None:
        import jax

        from experiments.rivals.training import train

        Y = dequantised(Y, self._gap, self.seed)
        self._shape = self.kind, self.layers, self.hidden_layers, X.shape[1], Y.shape[1]
        start = _skeleton(*self._shape)[0](self.seed)
        stacked = jax.tree.map(lambda leaf: np.stack([leaf] * len(_RATES)), start)
        runs, self.losses = train(
            _loss(*self._shape), stacked, _RATES, X, Y, seed=self.seed, epochs=self.epochs,
            patience=_PATIENCE, batch=int(np.clip(len(X) // 20, 32, 512)),
        )  # fmt: skip
        best = int(np.nanargmin(self.losses))
        self.rate = float(_RATES[best])
        self._parameters = jax.tree.map(lambda leaf: leaf[best], runs)

    def _conditional(self, X: Array) -> "_FlowPredictive":
        return _FlowPredictive(self._parameters, self._shape, X, self.seed)


class _FlowPredictive:
    """Densities exact; moments from 2000 samples; quantiles of one output exact."""

    def __init__(self, parameters: Any, shape: tuple, X: Array, seed: int) -> None:
        self._parameters, self._shape, self._X, self._seed = parameters, shape, X, seed
        self._draws: Array | None = None

    def logpdf_pairs(self, Y: Array) -> Array:
        """Log density of query i at Y[i], (Q,)."""
        return self._blocks(_functions(*self._shape)[0], Y, self._X)

    def pdf(self, y: Array) -> Array:
        """Density of every query at every point, (Q, G)."""
        rows = [self.logpdf_at(x, y) for x in self._X]
        return np.exp(np.stack(rows))

    def logpdf_at(self, x: Array, y: Array) -> Array:
        """Log density at points (G, d) of one query."""
        return self._blocks(_functions(*self._shape)[0], y, np.broadcast_to(x, (len(y), len(x))))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws of each query, (Q, n, d)."""
        Q, d = len(self._X), self._shape[-1]
        return self._forward(rng.standard_normal((Q * n, d)), n).reshape(Q, n, d)

    def quantile(self, levels: Array) -> Array:
        """Quantiles of one output, (Q, L): flows are increasing."""
        z = np.tile(ndtri(levels), len(self._X))[:, None]
        return self._forward(z, len(levels)).reshape(len(self._X), len(levels))

    def cdf(self, y: Array) -> Array:
        """P(Y <= y) of one output, (Q, G): of the normal number that becomes y."""
        values, n = np.tile(y, (len(self._X), 1)), len(y)
        z = self._blocks(_functions(*self._shape)[2], values, np.repeat(self._X, n, axis=0))
        return ndtr(z).reshape(len(self._X), n)

    def crps(self, Y: Array) -> Array:
        """CRPS of one output from 999 quantiles, (Q,)."""
        K = 999
        values = self.quantile((np.arange(K) + 0.5) / K)
        ranks = 2 * np.arange(1, K + 1) - K - 1
        return np.abs(values - Y).mean(axis=1) - values @ ranks / K**2

    def mean(self) -> Array:
        """Means, (Q, d)."""
        return self._kept().mean(axis=1)

    def std(self) -> Array:
        """Standard deviations, (Q, d)."""
        return self._kept().std(axis=1)

    def _kept(self) -> Array:
        if self._draws is None:
            self._draws = self.sample(_SAMPLES, np.random.default_rng(self._seed))
        return self._draws

    def _forward(self, z: Array, n: int) -> Array:
        return self._blocks(_functions(*self._shape)[1], z, np.repeat(self._X, n, axis=0))

    def _blocks(self, function: Any, values: Array, X: Array) -> Array:
        """Apply a compiled function to padded blocks of one size, so that it is compiled once."""
        size = min(_BLOCK, 1 << (len(values) - 1).bit_length())
        parts = []
        for i in range(0, len(values), size):
            v, x = values[i : i + size].astype(np.float32), X[i : i + size].astype(np.float32)
            missing = ((0, size - len(v)), (0, 0))
            out = function(self._parameters, np.pad(v, missing), np.pad(x, missing))
            parts.append(np.asarray(out, float)[: len(v)])
        return np.concatenate(parts)


@lru_cache(maxsize=32)
def _skeleton(kind: str, layers: int, hidden: int, p: int, d: int) -> tuple[Any, Any]:
    """Functions from a seed to parameters, and from parameters to the flow.

    The static part is made once: flowjax puts fresh functions into it, which would compile anew.
    """
    import equinox
    import jax
    from flowjax.bijections import RationalQuadraticSpline
    from flowjax.distributions import Normal
    from flowjax.flows import coupling_flow, masked_autoregressive_flow

    make = coupling_flow if kind == "realnvp" else masked_autoregressive_flow
    transformer = RationalQuadraticSpline(knots=8, interval=4) if kind == "spline" else None

    def build(seed: int) -> Any:
        return make(
            jax.random.key(seed), base_dist=Normal(jax.numpy.zeros(d)), transformer=transformer,
            cond_dim=p, flow_layers=layers, nn_width=_WIDTH, nn_depth=hidden,
        )  # fmt: skip

    arrays, static = equinox.partition(build(0), equinox.is_inexact_array)
    structure = jax.tree.structure(arrays)

    def start(seed: int) -> list[Any]:
        return jax.tree.leaves(equinox.filter(build(seed), equinox.is_inexact_array))

    def flow(leaves: list[Any]) -> Any:
        return equinox.combine(jax.tree.unflatten(structure, leaves), static)

    return start, flow


@lru_cache(maxsize=32)
def _loss(*shape: Any) -> Any:
    flow = _skeleton(*shape)[1]
    return lambda leaves, X, Y: -flow(leaves).log_prob(Y, X).mean()


@lru_cache(maxsize=32)
def _functions(*shape: Any) -> tuple[Any, Any, Any]:
    """Compiled log density, transport of normal draws, and its inverse."""
    import jax
    import paramax

    flow = _skeleton(*shape)[1]

    def parts(leaves: list[Any]) -> tuple[Any, Any]:
        """The learnt base, itself shifted and scaled, and the layers above it."""
        whole = paramax.unwrap(flow(leaves))
        return whole.base_dist.bijection, whole.bijection

    def transport(leaves: list[Any], z: Any, X: Any) -> Any:
        base, layers = parts(leaves)
        return jax.vmap(lambda z, x: layers.transform(base.transform(z), x))(z, X)

    def inverse(leaves: list[Any], y: Any, X: Any) -> Any:
        base, layers = parts(leaves)
        return jax.vmap(lambda y, x: base.inverse(layers.inverse(y, x)))(y, X)

    density = jax.jit(lambda leaves, Y, X: flow(leaves).log_prob(Y, X))
    return density, jax.jit(transport), jax.jit(inverse)
