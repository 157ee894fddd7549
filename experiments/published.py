"""The estimator of the paper to the letter: printed β, Σβ = 1, moments in closed form.

p̂(·|x') = Σ_j β_j ℓ(z_j, ·) with β ∝ (L_Z + α'I)⁻² L_ZY (K_X + NαI)⁻¹ k(X, x'), nodes evenly from
edge to edge, α = α' = max(M^{-1/2}, N^{-1}), β divided by its sum. What the bumps carry beyond the
box is lost, and β has both signs, so that p̂ is in general no density on the box. With ``on_box``
the values at the nodes are normalised instead, as ``selection="paper"`` does, and stay signed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

import kcdo
from kcdo.arrays import Array
from kcdo.kernels import DensityKernel, Kernel, median_scales
from kcdo.linalg import PrintedForm
from kcdo.measures import Grid
from kcdo.reconstruction import Reconstruction
from kcdo.regularisation import PrintedScheme, Scheme
from kcdo.systems import ExactRows, Groups

_MOST_NODES = 2000  # along a single output; more change no digit of the quadrature
_QUERIES = 2000


def laplace_median(X: Array) -> kcdo.Laplace:
    """Laplace, scales median distance / √2."""
    return kcdo.Laplace(tuple((median_scales(X) / np.sqrt(2.0)).tolist()))


def node_median(grid: Grid) -> Array:
    """The median distance of the nodes, for each output."""
    return median_scales(grid.nodes)


@dataclass
class Published:
    """The published estimator.

    Parameters
    ----------
    box : pair of corners, optional
        The square of the reference measure; by default from the least to the greatest output.
    input_kernel : function of X
        The input kernel with its scales.
    output_scale : function of the grid of N nodes
        The scale of the Gaussian output kernel.
    scheme : Scheme
        α from the numbers of rows and nodes; α' is always the printed one.
    on_box : bool
        Normalise on the box rather than the sum of β; moments only.
    """

    box: tuple[ArrayLike, ArrayLike] | None = None
    input_kernel: Callable[[Array], Kernel] = laplace_median
    output_scale: Callable[[Grid], Array] = node_median
    scheme: Scheme = field(default_factory=PrintedScheme)
    on_box: bool = False

    def fit(self, X: Array, Y: Array) -> Self:
        """Learn from rows of inputs and outputs."""
        self._flat = Y.ndim == 1
        Y = Y.reshape(len(Y), -1)
        side = int(len(X) ** (1 / Y.shape[1]) + 1e-9)
        printed = self._grid(Y, side)
        scale = tuple(np.atleast_1d(self.output_scale(printed)).tolist())
        kernel = DensityKernel(kcdo.Gaussian(scale), Y.shape[1])
        alpha, alpha_prime = (
            scheme(len(X), printed.n_nodes) for scheme in (self.scheme, PrintedScheme())
        )
        # the paper's L_Z has no weights and its ℓ no constant
        ridge = alpha_prime * printed.cell_volume / kernel.integral
        grid = self._grid(Y, min(side, _MOST_NODES)) if Y.shape[1] == 1 else printed
        self._output = Reconstruction(grid, kernel, ridge, PrintedForm())
        self._system = ExactRows(self.input_kernel(X), Groups.of(X)).factor(alpha)
        self._coefficients = self._system.coefficients(self._output.embed(Y))
        return self

    def _grid(self, Y: Array, side: int) -> Grid:
        lower, upper = self.box or (Y.min(axis=0), Y.max(axis=0))
        corners = (tuple(np.atleast_1d(corner).tolist()) for corner in (lower, upper))
        return kcdo.UniformBox(*corners, nodes=side, edge_nodes=True).realise(Y)

    def conditional(self, X: Array) -> "PublishedPredictive":
        """The estimates given each row."""
        parts = [self._expanded(X[i : i + _QUERIES]) for i in range(0, len(X), _QUERIES)]
        return PublishedPredictive(np.concatenate(parts), self._output, self._flat, self.on_box)

    def _expanded(self, X: Array) -> Array:
        """β, or with ``on_box`` the masses of the nodes, (Q, M), with sum 1."""
        embedded = self._system.section(X) @ self._coefficients
        expand = self._output.reconstruct if self.on_box else self._output.expansion
        found = expand(embedded)
        return found / found.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class PublishedPredictive:
    """Σ_j β_j ℓ(z_j, ·) for every query; with ``on_box`` β are masses of the nodes."""

    beta: Array  # (Q, M)
    output: Reconstruction
    flat: bool
    on_box: bool

    def pdf(self, y: ArrayLike) -> Array:
        """Values of every estimate at every point, (Q, G); they may be negative."""
        points = np.asarray(y, dtype=float).reshape(-1, self.output.measure.dim)
        step = max(1, (1 << 24) // self.output.measure.n_nodes)
        blocks = [points[i : i + step] for i in range(0, len(points), step)]
        return np.hstack([self.beta @ self.output.embed(block).T for block in blocks])

    def mean(self) -> Array:
        """Σβz, (Q,) or (Q, d)."""
        return self._shaped(self.beta @ self.output.measure.nodes)

    def std(self) -> Array:
        """Square roots of Σβz² - mean² + the kernel's variance; NaN where that is negative."""
        second = self.beta @ self.output.measure.nodes**2
        mean = self.beta @ self.output.measure.nodes
        variance = second - mean**2 + (0.0 if self.on_box else self.output.kernel.scales**2)
        return self._shaped(np.sqrt(np.where(variance > 0, variance, np.nan)))

    def _shaped(self, values: Array) -> Array:
        return values[:, 0] if self.flat else values
