"""Derivatives of Gram matrices with respect to log scales, as pullbacks.

For a loss L(K), ``pullback(dL/dK)`` returns dL/d(log s) of every free scale: a kernel's scale is
free where its template leaves it open (``None``).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.kernels.base import Kernel, OnColumns, Product, ScaledKernel, Sum
from kcdo.kernels.memory import Remembering
from kcdo.kernels.stationary import (
    Categorical,
    Gaussian,
    Laplace,
    Matern,
    Periodic,
    scaled_squared_distances,
)
from kcdo.kernels.warped import Warped

Pullback = Callable[[Array], list[float]]


@dataclass(frozen=True)
class FreeScales:
    """The open scales of a kernel as one vector: one per column of each open part.

    Examples
    --------
    >>> free = FreeScales(Gaussian().on([0, 1]) * Periodic(24.0).on([2]), p=3)
    >>> free.columns
    (0, 1, 2)
    >>> free.kernel(np.log([1.0, 2.0, 3.0]))([[0.0, 0, 0]], [[0.0, 0, 24.0]]).round(4)
    array([[1.]])
    """

    template: Kernel
    p: int

    @property
    def columns(self) -> tuple[int, ...]:
        """Column of the data that each free scale belongs to."""
        return tuple(_columns(self.template, range(self.p)))

    def __len__(self) -> int:
        return len(self.columns)

    def kernel(self, log_scales: Array) -> Kernel:
        """Return the template with its open scales set."""
        return _filled(self.template, iter(np.exp(log_scales).tolist()), self.p)

    def log_scales_of(self, kernel: Kernel) -> Array:
        """Return the log scales that a filled kernel has where the template is open."""
        return np.log(np.array(list(_read(self.template, kernel, self.p))))

    def gram(
        self, log_scales: Array, A: NDArray, B: NDArray | None = None
    ) -> tuple[Array, Callable[[Array], Array]]:
        """Return k(A, B), by default k(A, A), and the pullback dL/dK -> dL/d(log scales).

        The matrix is the caller's, to be overwritten: the pullback keeps one of its own.
        """
        other = A if B is None else B
        values, pullback = _gram(self.template, self.kernel(log_scales), A, other)
        return values.copy(), lambda W: np.array(pullback(W))


def _columns(kernel: Kernel, columns: Sequence[int]) -> Iterator[int]:
    if isinstance(kernel, Remembering | Warped):
        yield from _columns(kernel.kernel, columns)
    elif isinstance(kernel, Product | Sum):
        for part in kernel.kernels:
            yield from _columns(part, columns)
    elif isinstance(kernel, OnColumns):
        yield from _columns(kernel.kernel, [columns[i] for i in kernel.indices(len(columns))])
    elif isinstance(kernel, ScaledKernel) and not kernel.fitted:
        yield from columns


def _filled(kernel: Kernel, scales: Iterator[float], p: int) -> Kernel:
    if isinstance(kernel, Remembering | Warped):
        return replace(kernel, kernel=_filled(kernel.kernel, scales, p))
    if isinstance(kernel, Product | Sum):
        return type(kernel)(tuple(_filled(part, scales, p) for part in kernel.kernels))
    if isinstance(kernel, OnColumns):
        return OnColumns(_filled(kernel.kernel, scales, len(kernel.columns)), kernel.columns)
    if isinstance(kernel, ScaledKernel) and not kernel.fitted:
        return replace(kernel, scale=tuple(next(scales) for _ in range(p)))
    return kernel


def _read(template: Kernel, kernel: Kernel, p: int) -> Iterator[float]:
    if isinstance(template, Remembering | Warped):
        assert isinstance(kernel, Remembering | Warped)
        yield from _read(template.kernel, kernel.kernel, p)
    elif isinstance(template, Product | Sum):
        assert isinstance(kernel, Product | Sum)
        for inner, part in zip(template.kernels, kernel.kernels, strict=True):
            yield from _read(inner, part, p)
    elif isinstance(template, OnColumns):
        assert isinstance(kernel, OnColumns)
        yield from _read(template.kernel, kernel.kernel, len(template.columns))
    elif isinstance(template, ScaledKernel) and not template.fitted:
        assert isinstance(kernel, ScaledKernel)
        yield from kernel.scales(p).tolist()


def _gram(template: Kernel, kernel: Kernel, A: NDArray, B: NDArray) -> tuple[Array, Pullback]:
    if isinstance(template, Remembering):
        assert isinstance(kernel, Remembering)
        _, pull = _gram(template.kernel, kernel.kernel, A, B)
        rest = 1.0 - kernel.share
        return kernel.block(A, B), lambda W: pull(rest * W)
    if isinstance(template, Warped):
        assert isinstance(kernel, Warped)
        return _gram(template.kernel, kernel.kernel, template.flat(A), template.flat(B))
    if isinstance(template, Product | Sum):
        assert isinstance(kernel, Product | Sum)
        parts = [_gram(t, k, A, B) for t, k in zip(template.kernels, kernel.kernels, strict=True)]
        return _product(parts) if isinstance(template, Product) else _sum(parts)
    if isinstance(template, OnColumns):
        assert isinstance(kernel, OnColumns)
        c = template.indices(A.shape[1])
        return _gram(template.kernel, kernel.kernel, A[:, c], B[:, c])
    if isinstance(template, ScaledKernel) and not template.fitted:
        assert isinstance(kernel, ScaledKernel)
        leaf = _radial if isinstance(kernel, Gaussian | Matern) else _columnwise
        return leaf(kernel, A, B)
    return kernel(A, B), lambda W: []


def _product(parts: list[tuple[Array, Pullback]]) -> tuple[Array, Pullback]:
    values = np.prod([value for value, _ in parts], axis=0)

    def pullback(W: Array) -> list[float]:
        found: list[float] = []
        for i, (_, pull) in enumerate(parts):
            others = [value for j, (value, _) in enumerate(parts) if j != i]
            found += pull(W * np.prod(others, axis=0) if others else W)
        return found

    return values, pullback


def _sum(parts: list[tuple[Array, Pullback]]) -> tuple[Array, Pullback]:
    values = np.sum([value for value, _ in parts], axis=0)
    return values, lambda W: [g for _, pull in parts for g in pull(W)]


def _radial(kernel: ScaledKernel, A: Array, B: Array) -> tuple[Array, Pullback]:
    """Kernels of r² = Σ (Δ_j/s_j)²: ∂k/∂log s_j = h(r) (Δ_j/s_j)², h = -k'(r)/r.

    Σ_kl F_kl (a_kj - b_lj)² is formed by products, without a (n, m, p) array.
    """
    scales = kernel.scales(A.shape[1])
    values, h = _profile(kernel, scaled_squared_distances(A, B, scales))
    centre = B.mean(axis=0)
    a, b = (A - centre) / scales, (B - centre) / scales

    def pullback(W: Array) -> list[float]:
        F = W * h
        gradient = F.sum(axis=1) @ a**2 + F.sum(axis=0) @ b**2
        return (gradient - 2.0 * np.einsum("ij,ij->j", a, F @ b)).tolist()

    return values, pullback


def _profile(kernel: ScaledKernel, squared: Array) -> tuple[Array, Array]:
    """Return k and h = -k'(r)/r as functions of r², whose memory is used."""
    if not isinstance(kernel, Matern):
        squared *= -0.5
        values = np.exp(squared, out=squared)
        return values, values
    squared *= 2 * kernel.smoothness
    t = np.sqrt(squared, out=squared)
    decay = np.negative(t)
    np.exp(decay, out=decay)
    if kernel.smoothness == 0.5:
        with np.errstate(divide="ignore", invalid="ignore"):
            return decay, np.where(t > 0, decay / t, 0.0)
    rising = t + 1.0
    if kernel.smoothness == 1.5:
        values = np.multiply(rising, decay, out=rising)
        decay *= 3.0
        return values, decay
    t *= t
    t *= 1.0 / 3.0
    t += rising
    t *= decay
    rising *= decay
    rising *= 5.0 / 3.0
    return t, rising


def _columnwise(kernel: ScaledKernel, A: NDArray, B: NDArray) -> tuple[Array, Pullback]:
    """Kernels exp(-Σ_j e_j): ∂k/∂log s_j = k · (-∂e_j/∂log s_j), column by column."""
    values = kernel.block(A, B)

    def pullback(W: Array) -> list[float]:
        F = W * values
        return [float(np.sum(F * _log_slope(kernel, A, B, j))) for j in range(A.shape[1])]

    return values, pullback


def _log_slope(kernel: ScaledKernel, A: NDArray, B: NDArray, j: int) -> Array:
    scale = kernel.scales(A.shape[1])[j]
    a, b = A[:, j, None], B[None, :, j]
    if isinstance(kernel, Laplace):
        return np.abs(a - b) / scale
    if isinstance(kernel, Categorical):
        return (a != b) / scale
    assert isinstance(kernel, Periodic)
    period = kernel.periods(A.shape[1])[j]
    return (period / (np.pi * scale) * np.sin((a - b) * (np.pi / period))) ** 2
