"""Outputs counted on a fine grid, so that N embeddings cost as much as a few per bin."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from kcdo.arrays import Array
from kcdo.consistency import need
from kcdo.kernels import cross_gram
from kcdo.measures import Grid
from kcdo.reconstruction import Reconstruction

_REACH = 8.0  # scales beyond the box after which an output no longer matters in it
_LARGEST_SUMS = 1 << 28  # bytes of the sums over bins and centres
_LARGEST_ERROR = 1e-2


@dataclass(frozen=True, eq=False)
class OutputBins:
    """Linear binning: an output is shared by the bins around it, ℓ(y, ·) ≈ Σ_b share_b ℓ(b, ·).

    The interpolation errs by at most :attr:`error` times the peak of ℓ.
    """

    output: Reconstruction
    grid: Grid

    def __post_init__(self) -> None:
        need(isinstance(self.output.measure, Grid), "bins of scattered nodes")
        need(self.grid.dim == self.output.measure.dim, "bins and reference measure")
        need(self.output.kernel.factors() is not None, "bins of a kernel that is no product")

    @classmethod
    def of(cls, output: Reconstruction, n_centres: int, finest: int) -> "OutputBins | None":
        """Return the finest bins whose sums stay small; None where none are fine enough.

        ``finest`` bins for each scale of the output kernel are tried, then half and a quarter.
        """
        measure, scales = output.measure, output.kernel.scales
        if not isinstance(measure, Grid) or output.kernel.factors() is None:
            return None
        lower, upper = measure.lower - _REACH * scales, measure.upper + _REACH * scales
        for per_scale in (finest, finest // 2, finest // 4):
            counts = np.ceil((upper - lower) * per_scale / scales)
            if 8.0 * np.prod(counts) * n_centres <= _LARGEST_SUMS:
                bins = cls(output, Grid(lower, upper, tuple(counts.astype(int).tolist())))
                if bins.error <= _LARGEST_ERROR:
                    return bins
        return None

    @property
    def n_bins(self) -> int:
        """Number of bins."""
        return self.grid.n_nodes

    @property
    def error(self) -> float:
        """Bound on |binned ℓ - ℓ| / max ℓ: the sum over the axes of that of interpolation."""
        ratios = self.grid.spacing / self.output.kernel.scales
        factors = self.output.kernel.factors() or []
        parts = [part for factor in factors for part, _ in factor.parts()]
        pairs = zip(parts, ratios, strict=True)
        return sum(part.interpolation_error(float(ratio)) for part, ratio in pairs)

    def shares(self, Y: Array) -> csr_matrix:
        """Return the shares of the bins, (N, bins)."""
        return self.grid.interpolation(Y)

    def embed(self, sums: Array) -> Array:
        """Return sums (bins, k) over bins as sums of embeddings on the nodes, (k, M)."""
        factors = self.output.kernel.factors()
        measure = self.output.measure
        assert factors is not None
        assert isinstance(measure, Grid)
        tensor = sums.T
        for factor, bins, nodes in zip(factors, self.grid.axes, measure.axes, strict=True):
            matrix = cross_gram(factor, bins[:, None], nodes[:, None])
            tensor = np.swapaxes(tensor.reshape(sums.shape[1], len(bins), -1), 1, 2) @ matrix
        return tensor.reshape(sums.shape[1], -1)
