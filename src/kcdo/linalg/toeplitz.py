"""Products with stationary kernel matrices on regular grids, by FFT."""

from collections.abc import Callable

import numpy as np
from scipy import fft

from kcdo.arrays import Array, Integers

_BLOCK_ELEMENTS = 1 << 23
_LEAST_FILLED = 0.25  # of the sites of a grid, so that the FFT wins


class GridToeplitz:
    """K @ P for points on a (partly filled) regular grid: embed, convolve, pick.

    Parameters
    ----------
    values : function
        Kernel value of each difference, (G, p) -> (G,).
    spacing : (p,)
        Distance of neighbouring grid lines.
    places : (n, p) integers
        Grid position of each point.
    workers : int
        Threads of the transforms.
    """

    def __init__(
        self,
        values: Callable[[Array], Array],
        spacing: Array,
        places: Integers,
        workers: int = 1,
    ) -> None:
        self._workers = workers
        extent = places.max(axis=0) + 1
        self._shape = tuple(fft.next_fast_len(int(2 * e - 1), real=True) for e in extent)
        self._index = np.ravel_multi_index(tuple(places.T), self._shape)
        steps = [
            np.where(np.arange(size) < e, np.arange(size), np.arange(size) - size)
            for size, e in zip(self._shape, extent, strict=True)
        ]
        lattice = np.stack(np.meshgrid(*steps, indexing="ij"), axis=-1).reshape(-1, len(extent))
        column = values(lattice * spacing).reshape(self._shape)
        self._spectrum = fft.rfftn(column)

    def product(self, P: Array) -> Array:
        """Return K @ P for P (n, k), in blocks of columns."""
        out = np.empty(P.shape)
        step = max(1, _BLOCK_ELEMENTS // int(np.prod(self._shape)))
        for start in range(0, P.shape[1], step):
            block = slice(start, start + step)
            out[:, block] = self._convolved(P[:, block])
        return out

    def _convolved(self, P: Array) -> Array:
        k = P.shape[1]
        padded = np.zeros((k, int(np.prod(self._shape))))
        padded[:, self._index] = P.T
        axes = tuple(range(1, 1 + len(self._shape)))
        wave = fft.rfftn(padded.reshape(k, *self._shape), axes=axes, workers=self._workers)
        wave *= self._spectrum
        out = fft.irfftn(wave, s=self._shape, axes=axes, workers=self._workers)
        return out.reshape(k, -1)[:, self._index].T


def grid_places(X: Array) -> tuple[Array, Integers] | None:
    """Return spacing and grid positions of points on a regular grid, or None if they are not.

    A grid counts when at least a quarter of its sites are taken.
    """
    spacings = np.empty(X.shape[1])
    places = np.empty(X.shape, dtype=int)
    for i, column in enumerate(X.T):
        lines = np.unique(column)
        extent = lines[-1] - lines[0]
        gap = np.diff(lines).min() if len(lines) > 1 else 1.0
        if extent > 4 * len(X) * gap:
            return None
        # from the whole extent: the rounding of one gap would add up along the axis
        spacings[i] = extent / max(np.round(extent / gap), 1.0) or gap
        position = (column - lines[0]) / spacings[i]
        places[:, i] = np.round(position)
        if np.abs(position - places[:, i]).max() > 1e-6:
            return None
    sites = np.prod(places.max(axis=0) + 1.0)
    return (spacings, places) if len(X) >= _LEAST_FILLED * sites else None
