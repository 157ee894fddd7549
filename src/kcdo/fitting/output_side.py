"""The output side that a spec leaves open: nodes, kernel scales and ridge from the outputs."""

import warnings
from dataclasses import replace

import numpy as np

from kcdo.arrays import Array
from kcdo.errors import AccuracyWarning, SupportWarning
from kcdo.fitting.spec import ModelSpec, Ridge
from kcdo.kernels import (
    DensityKernel,
    Gaussian,
    weighted_mean_sd,
    with_output_sds,
)
from kcdo.linalg import Tikhonov
from kcdo.measures import MAX_NODES, Grid, Measure, Reference, Sample, UniformBox
from kcdo.reconstruction import Reconstruction
from kcdo.regularisation import PowerScheme, Scheme
from kcdo.systems import Groups, effective_size

_LARGEST_GRID_DIM = 3
DEFAULT_ALPHA = PowerScheme(0.1, 0.5)
DEFAULT_ALPHA_PRIME = 0.1
_FEW_OUTSIDE = 0.01


def output_side(
    spec: ModelSpec, Y: Array, weights: Array, residual_sd: Array | None, n: float | None = None
) -> Reconstruction:
    """Return the output side for outputs whose spread about their mean is ``residual_sd``.

    ``n`` is the number of observations, where Y is only a sample of them.
    """
    d = Y.shape[1]
    n = effective_size(weights) if n is None else n
    kernel_y = spec.kernel_y or Gaussian()
    if residual_sd is None:
        scales = DensityKernel(kernel_y, d).scales
    else:
        scales = resolvable_sds(2.0 * residual_sd * n ** (-1.0 / (d + 5)), Y)
    reference = spec.reference or default_reference(
        Y, weights, scales, spec.seed, spec.settings.effort.reference_points
    )
    measure = reference.realise(Y, scales)
    warn_outside(measure, Y)
    if residual_sd is not None:
        if isinstance(measure, Grid):  # a grid the user fixed must still resolve the kernel
            scales = np.maximum(scales, measure.spacing)
        kernel_y = with_output_sds(kernel_y, scales)
    density = DensityKernel(kernel_y, d)
    _warn_unresolved(measure, density)
    return _with_ridge(spec, measure, density, Y, n)


def check_output(spec: ModelSpec, Y: Array) -> None:
    """Raise, before any work, if kernel or reference do not fit the outputs."""
    d = Y.shape[1]
    kernel = DensityKernel(with_output_sds(spec.kernel_y or Gaussian(), np.ones(d)), d)
    assert len(kernel.scales) == d  # asking for them checks their number
    if spec.reference is not None:
        spec.reference.realise(Y)


def ridge_value(given: Ridge, default: Ridge, n: float, n_nodes: int) -> float:
    """Return a ridge as a number: as asked, or the default; schemes are evaluated."""
    chosen = default if given is None else given
    return chosen(n, n_nodes) if isinstance(chosen, Scheme) else float(chosen)  # type: ignore[arg-type]


def resolvable_sds(sds: Array, Y: Array) -> Array:
    """Return kernel sds that a grid can resolve; a constant output gets a narrow bump."""
    extent = np.ptp(Y, axis=0)
    floor = 5.0 * extent / MAX_NODES.get(Y.shape[1], np.inf)
    size = np.abs(Y).max(axis=0)
    narrow = np.where(size > 0, 1e-3 * size, 1.0)
    return np.where(extent > 1e-12 * size, np.maximum(sds, floor), narrow)


def unconditional_sd(Y: Array, weights: Array) -> Array:
    """Return the sd of each output column: the residual when there is no input."""
    return weighted_mean_sd(Y, weights)[1]


def _with_ridge(
    spec: ModelSpec, measure: Measure, kernel: DensityKernel, Y: Array, n: float
) -> Reconstruction:
    chosen = spec.filter or Tikhonov()
    ridge = ridge_value(spec.alpha_prime, DEFAULT_ALPHA_PRIME, n, measure.n_nodes)
    side = Reconstruction(measure, kernel, ridge, chosen, spec.n_jobs)
    if spec.alpha_prime is not None or isinstance(measure, Grid):
        return side
    return replace(side, ridge=ridge * side.mean_density(np.unique(Y, axis=0)))


def planned_nodes(reference: Reference | None, Y: Array) -> int:
    """Return M where the reference fixes it, else N; only schemes ask."""
    if reference is None or (isinstance(reference, UniformBox) and reference.nodes is None):
        return len(Y)
    return reference.realise(Y).n_nodes


def default_reference(
    Y: Array, weights: Array, scales: Array, seed: int, n_points: int
) -> Reference:
    """Return Lebesgue measure on a grid, or beyond three dimensions on points near the outputs.

    The points are outputs plus kernel noise, drawn from a density q, and weigh 1 / (M q): an
    importance-weighted sample of Lebesgue measure where the mass is.
    """
    if Y.shape[1] <= _LARGEST_GRID_DIM:
        return UniformBox()
    groups = Groups.of(Y, weights)  # sorted: the row order does not matter
    rng = np.random.default_rng(seed)
    share = groups.totals / groups.totals.sum()
    chosen = rng.choice(len(share), n_points, p=share)
    noise = DensityKernel(Gaussian(tuple(scales.tolist())), Y.shape[1])
    points = groups.points[chosen] + noise.sample(len(chosen), rng)
    return Sample.importance(points, 1.0 / (noise(points, groups.points) @ share))


def warn_outside(measure: Measure, Y: Array) -> None:
    """Warn where a visible share of the outputs lies outside the support of ρ."""
    outside = measure.outside(Y)
    if outside.sum() > _FEW_OUTSIDE * len(Y):
        warnings.warn(
            f"{outside.sum()} of {len(Y)} outputs lie outside the support of the reference "
            "measure, where the density is 0: widen the box, or sample the reference there too.",
            SupportWarning,
            stacklevel=2,
        )


def _warn_unresolved(measure: Measure, kernel: DensityKernel) -> None:
    if isinstance(measure, Grid) and np.any(measure.spacing > kernel.scales):
        needed = np.ceil(4 * (measure.upper - measure.lower) / kernel.scales).astype(int)
        warnings.warn(
            f"the grid spacing {measure.spacing} exceeds the output scale {kernel.scales}: use "
            f"about {needed} nodes, or a larger scale.",
            AccuracyWarning,
            stacklevel=2,
        )
