"""How parameters that the user leaves open are chosen."""

import warnings
from dataclasses import dataclass, field, replace

import numpy as np

from kcdo.arrays import Array
from kcdo.errors import AccuracyWarning, SupportWarning
from kcdo.kernels import (
    DensityKernel,
    Gaussian,
    Kernel,
    weighted_mean_sd,
    with_median_scales,
    with_output_sds,
)
from kcdo.linalg import Filter, PrintedForm, Tikhonov
from kcdo.measures import MAX_NODES, Grid, Measure, Reference, Sample, UniformBox
from kcdo.progress import SILENT, Progress
from kcdo.reconstruction import Reconstruction
from kcdo.regularisation import PowerScheme, PrintedScheme, Scheme
from kcdo.systems import Exact, ExactSystem, Groups, Iterative, effective_size

Ridge = float | Scheme | None

_HELD_OUT_GROUPS = 300
_ALL_HELD_OUT = 2000  # up to this many distinct inputs every row is held out
_LARGEST_GRID_DIM = 3
_REFERENCE_POINTS = 1000
DEFAULT_ALPHA = PowerScheme(0.1, 0.5)
DEFAULT_ALPHA_PRIME = 0.1
_FEW_OUTSIDE = 0.01


@dataclass(frozen=True)
class Wishes:
    """What the user asked for; ``None`` leaves the choice to the rule."""

    kernel_x: Kernel = field(default_factory=Gaussian)
    kernel_y: Kernel | None = None
    reference: Reference | None = None
    alpha: Ridge = None
    alpha_prime: Ridge = None
    filter: Filter | None = None
    n_jobs: int | None = None
    seed: int = 0
    solver: Exact | Iterative = field(default_factory=Exact)
    progress: Progress = SILENT


@dataclass(frozen=True, eq=False)
class Sides:
    """Input and output side, ready to meet."""

    system: ExactSystem
    output: Reconstruction


def heuristic(wishes: Wishes, groups: Groups, Y: Array) -> Sides:
    """Choose by one factorisation (docs/theory.md).

    Input scale by the median, α = 0.1 N^{-1/2}; s_r = sd of the leave-one-out residuals of the
    conditional mean, from the same factorisation; σ_y = 2 s_r N^{-1/(d+5)}; α' = 0.1; node
    spacing σ_y / 4.
    """
    check_output(wishes, Y)
    system = _system(wishes, groups, DEFAULT_ALPHA, planned_nodes(wishes.reference, Y))
    kernel_y = wishes.kernel_y or Gaussian()
    residual_sd = None if kernel_y.fitted else held_out_residual_sd(system, Y, wishes.seed)
    output = output_side(wishes, Y, groups.weights, residual_sd)
    return Sides(system, output)


def paper(wishes: Wishes, groups: Groups, Y: Array) -> Sides:
    """Choose as the paper does: medians for both kernels, its printed scheme and filter.

    About as many nodes as observations, on a grid from the least to the greatest output; the
    output scale is the median distance of the nodes, α = α' = max(M^{-1/2}, N^{-1}).
    """
    d, n = Y.shape[1], groups.n_effective
    reference = wishes.reference or UniformBox(margin=0.0)
    if isinstance(reference, UniformBox) and reference.nodes is None:
        side = max(2, int(n ** (1.0 / d) + 1e-9))
        reference = replace(reference, nodes=side, edge_nodes=True)
    measure = reference.realise(Y)
    system = _system(wishes, groups, PrintedScheme(), measure.n_nodes)
    kernel_y = with_median_scales(wishes.kernel_y or Gaussian(), measure.nodes, seed=wishes.seed)
    density = DensityKernel(kernel_y, d)
    # the paper's ridge belongs to L_Z without weights and to an unnormalised kernel
    unit = measure.total / measure.n_nodes / density.integral
    printed = PrintedScheme()(n, measure.n_nodes) * unit
    ridge = ridge_value(wishes.alpha_prime, printed, n, measure.n_nodes)
    chosen = wishes.filter or PrintedForm()
    return Sides(system, Reconstruction(measure, density, ridge, chosen, wishes.n_jobs))


RULES = {"heuristic": heuristic, "paper": paper}


def output_side(
    wishes: Wishes, Y: Array, weights: Array, residual_sd: Array | None, n: float | None = None
) -> Reconstruction:
    """Return the output side for outputs whose spread about their mean is ``residual_sd``.

    ``n`` is the number of observations, where Y is only a sample of them.
    """
    d = Y.shape[1]
    n = effective_size(weights) if n is None else n
    kernel_y = wishes.kernel_y or Gaussian()
    if residual_sd is None:
        scales = DensityKernel(kernel_y, d).scales
    else:
        scales = resolvable_sds(2.0 * residual_sd * n ** (-1.0 / (d + 5)), Y)
    reference = wishes.reference or default_reference(Y, weights, scales, wishes.seed)
    measure = reference.realise(Y, scales)
    warn_outside(measure, Y)
    if residual_sd is not None:
        if isinstance(measure, Grid):  # a grid the user fixed must still resolve the kernel
            scales = np.maximum(scales, measure.spacing)
        kernel_y = with_output_sds(kernel_y, scales)
    density = DensityKernel(kernel_y, d)
    _warn_unresolved(measure, density)
    return _with_ridge(wishes, measure, density, Y, n)


def check_output(wishes: Wishes, Y: Array) -> None:
    """Raise, before any work, if kernel or reference do not fit the outputs."""
    d = Y.shape[1]
    kernel = DensityKernel(with_output_sds(wishes.kernel_y or Gaussian(), np.ones(d)), d)
    assert len(kernel.scales) == d  # asking for them checks their number
    if wishes.reference is not None:
        wishes.reference.realise(Y)


def ridge_value(wish: Ridge, default: Ridge, n: float, n_nodes: int) -> float:
    """Return a ridge as a number: as asked, or the default; schemes are evaluated."""
    chosen = default if wish is None else wish
    return chosen(n, n_nodes) if isinstance(chosen, Scheme) else float(chosen)  # type: ignore[arg-type]


def held_out_residual_sd(system: ExactSystem, Y: Array, seed: int) -> Array:
    """Return the sd of leave-one-out residuals of the conditional mean, (d,).

    From every row, or from those of a few hundred inputs when there are many.
    """
    groups = system.groups
    rows = np.arange(len(Y))
    if system.n_centres > _ALL_HELD_OUT:
        rng = np.random.default_rng(seed)
        chosen = rng.choice(system.n_centres, _HELD_OUT_GROUPS, replace=False)
        rows = np.flatnonzero(np.isin(groups.member_of, chosen))
    centred = Y - np.average(Y, axis=0, weights=groups.weights)  # ridge shrinks towards 0
    residuals = centred[rows] - system.held_out(centred, rows)
    return np.sqrt(np.average(residuals**2, axis=0, weights=groups.weights[rows]))


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


def _system(wishes: Wishes, groups: Groups, default: Ridge, n_nodes: int) -> ExactSystem:
    kernel_x = with_median_scales(wishes.kernel_x, groups.points, groups.totals, seed=wishes.seed)
    alpha = ridge_value(wishes.alpha, default, groups.n_effective, n_nodes)
    return ExactSystem(
        kernel_x, groups, alpha, wishes.solver, n_jobs=wishes.n_jobs, progress=wishes.progress
    )


def _with_ridge(
    wishes: Wishes, measure: Measure, kernel: DensityKernel, Y: Array, n: float
) -> Reconstruction:
    chosen = wishes.filter or Tikhonov()
    ridge = ridge_value(wishes.alpha_prime, DEFAULT_ALPHA_PRIME, n, measure.n_nodes)
    side = Reconstruction(measure, kernel, ridge, chosen, wishes.n_jobs)
    if wishes.alpha_prime is not None or isinstance(measure, Grid):
        return side
    return replace(side, ridge=ridge * side.mean_density(np.unique(Y, axis=0)))


def planned_nodes(reference: Reference | None, Y: Array) -> int:
    """Return M where the reference fixes it, else N; only schemes ask."""
    if reference is None or (isinstance(reference, UniformBox) and reference.nodes is None):
        return len(Y)
    return reference.realise(Y).n_nodes


def default_reference(Y: Array, weights: Array, scales: Array, seed: int) -> Reference:
    """Return Lebesgue measure on a grid, or beyond three dimensions on points near the outputs.

    The points are outputs plus kernel noise, drawn from a density q, and weigh 1 / (M q): an
    importance-weighted sample of Lebesgue measure where the mass is.
    """
    if Y.shape[1] <= _LARGEST_GRID_DIM:
        return UniformBox()
    groups = Groups.of(Y, weights)  # sorted: the row order does not matter
    rng = np.random.default_rng(seed)
    share = groups.totals / groups.totals.sum()
    chosen = rng.choice(len(share), _REFERENCE_POINTS, p=share)
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
