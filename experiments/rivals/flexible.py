"""FlexCode (Izbicki, Lee 2017), by the package flexcode, with random forests.

A random forest of scikit-learn's defaults for each of 31 cosine coefficients of the density; which
of them serve is tuned on a fifth of the rows, then the forests are fitted to all. The density lives
between the smallest and the largest training output; 1 % of tail is added as for kernel methods.
"""

import numpy as np
from scipy.special import ndtr

from kcdo.arrays import Array
from kcdo.rivals.base import NotApplicable, Rival, held_out_split
from kcdo.rivals.mixtures import crps_of_table

_BASIS, _CELLS = 31, 1000
_BEYOND = 8.0  # standard deviations of the outputs that the table goes on on either side
_TAIL, _TAIL_SD = 0.01, 2.0


class FlexCode(Rival):
    """Cosine coefficients of the density by regression."""

    name = "flexcode"

    def __init__(self, seed: int = 0, gap: float = 0.0, basis: int = _BASIS) -> None:
        super().__init__(seed, gap)
        self.basis = basis

    def _fit(self, X: Array, Y: Array) -> None:
        from flexcode import FlexCodeModel
        from flexcode.regression_models import RandomForest

        if Y.shape[1] > 1:
            raise NotApplicable("one output only")
        y, (held, rest) = Y[:, 0], held_out_split(len(X), self.seed)
        self._model = FlexCodeModel(
            RandomForest, self.basis, z_min=y.min(), z_max=y.max(),
            regression_params={"random_state": self.seed},
        )  # fmt: skip
        self._model.model.models.n_jobs = 1
        self._model.fit(X[rest], y[rest])
        self._model.tune(X[held], y[held])
        self._model.fit(X, y)

    def _conditional(self, X: Array) -> "Histogram":
        density, _ = self._model.predict(X, _CELLS)
        return Histogram(density, self._model.z_min, self._model.z_max)


class Histogram:
    """Equal cells between two ends, (Q, cells), each uniform, and 1 % of a wide normal."""

    def __init__(self, density: Array, low: float, high: float) -> None:
        step = (high - low) / density.shape[1]
        more = int(np.ceil(_BEYOND / step))
        self._step = step
        self._edges = low + step * np.arange(-more, density.shape[1] + more + 1)
        masses = np.maximum(density, 0)
        masses = np.pad(masses / masses.sum(axis=1, keepdims=True), ((0, 0), (more, more)))
        tail = np.diff(ndtr(self._edges / _TAIL_SD))
        self._masses = (1 - _TAIL) * masses + _TAIL * tail / tail.sum()
        self._cdf = np.pad(np.cumsum(self._masses, axis=1), ((0, 0), (1, 0)))

    def pdf(self, y: Array) -> Array:
        """Density of every query at every point, (Q, G)."""
        cells, inside = self._cells(y[:, 0])
        return self._masses[:, cells] / self._step * inside

    def logpdf_pairs(self, Y: Array) -> Array:
        """Log density of query i at Y[i], (Q,)."""
        cells, inside = self._cells(Y[:, 0])
        with np.errstate(divide="ignore"):
            return np.log(self._masses[np.arange(len(cells)), cells] / self._step * inside)

    def cdf(self, y: Array) -> Array:
        """P(Y <= y), (Q, G)."""
        return np.stack([np.interp(y[:, 0], self._edges, row) for row in self._cdf])

    def quantile(self, levels: Array) -> Array:
        """Quantiles, (Q, L)."""
        return np.stack([np.interp(levels, row, self._edges) for row in self._cdf])

    def crps(self, Y: Array) -> Array:
        """CRPS, (Q,)."""
        return crps_of_table(self._edges, self._cdf, Y[:, 0])

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws of each query, (Q, n, 1)."""
        levels = rng.random((len(self._cdf), n))
        rows = zip(levels, self._cdf, strict=True)
        return np.stack([np.interp(u, row, self._edges) for u, row in rows])[..., None]

    def mean(self) -> Array:
        """Means, (Q, 1)."""
        return (self._masses @ self._middles())[:, None]

    def std(self) -> Array:
        """Standard deviations, (Q, 1)."""
        middles, mean = self._middles(), self.mean()
        return np.sqrt(np.maximum((self._masses @ middles**2)[:, None] - mean**2, 0))

    def _middles(self) -> Array:
        return 0.5 * (self._edges[1:] + self._edges[:-1])

    def _cells(self, y: Array) -> tuple[Array, Array]:
        """Return the cell of each point, and whether it is inside the table."""
        cells = np.floor((y - self._edges[0]) / self._step).astype(int)
        last = len(self._edges) - 2
        return np.clip(cells, 0, last), (cells >= 0) & (cells <= last)
