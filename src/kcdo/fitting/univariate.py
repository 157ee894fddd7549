"""What surrounds the mixture of one output: atoms, rounding that is undone, a transform."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from kcdo.arrays import Array
from kcdo.components import (
    AtomParameters,
    Atoms,
    AtomShares,
    Mixture,
    ModelParameters,
    Settings,
    SmoothedRows,
    Univariate,
    UnivariateParameters,
    class_shares,
    continuous_rows,
    student_tail,
)
from kcdo.distributions import MixtureBatch, TransformedBatch
from kcdo.fitting.problem import Metric, Problem
from kcdo.fitting.smoothed import (
    best_located,
    choose_metric,
    choose_smoothers,
    every_bandwidth,
    mixing_shares,
    smoothed_parameters,
)
from kcdo.kernels import Kernel
from kcdo.rows import Rows, sampled
from kcdo.transforms import Tabulated, normal_scores, standardised

_TRANSFORM_GAIN = 0.005  # nats per row that normal scores must gain over no transform
_LEAST_SHARE = 2e-3

InnerFit = tuple[Mixture, ModelParameters, float | None]


def fit_univariate(
    problem: Problem,
    fit_mixture: Callable[[Problem], InnerFit],
    fit_simple: Callable[[Problem], InnerFit],
) -> tuple[Univariate, UnivariateParameters, float | None]:
    """Fit a mixture to one output as it is best seen, with atoms beside it.

    ``fit_simple`` fits what hardly counts: the outputs between atoms where there are none so far.
    """
    spec, settings, y = problem.spec, problem.spec.settings, problem.rows.Y[:, 0]
    atoms = Atoms.of(y)
    rows = problem.rows.with_outputs(_unrounded(problem, atoms))
    with spec.progress.stage("transform"):
        transform, metric = choose_transform(rows, problem.spec.kernel_x, settings)
    mapped, inner_fit = rows.with_outputs(transform.forward(rows.Y)), fit_mixture
    shares: AtomShares | None = None
    parameters: AtomParameters | None = None
    if atoms is not None:
        with spec.progress.stage("atoms"):
            _, located = best_located(mapped, [metric], settings)
            shares = choose_atom_shares(atoms, y, located, settings)
            parameters = AtomParameters(
                atoms, smoothed_parameters(metric, located), shares.bandwidths, shares.shares
            )
        mapped = mapped.take(continuous_rows(atoms, shares.labels))
        inner_fit = fit_simple if atoms.every_value else fit_mixture
    inner = replace(problem, rows=mapped, floor=np.zeros(1), metric=metric)
    mixture, chosen, loss = inner_fit(inner)
    model = Univariate(mixture, transform, shares)
    return model, UnivariateParameters(chosen, transform, parameters), loss


def _unrounded(problem: Problem, atoms: Atoms | None) -> Array:
    """Return outputs with the rounding undone at random, but for atoms.

    Equal outputs of different rows would otherwise reward bumps that are too narrow.
    """
    Y, gap = problem.rows.Y, np.sqrt(12.0) * problem.floor
    if atoms is not None and atoms.every_value:
        return Y
    noise = np.random.default_rng(problem.spec.seed).uniform(-0.5, 0.5, Y.shape)
    if atoms is not None:
        noise[atoms.labels(Y[:, 0]) < len(atoms.places)] = 0.0
    return Y + gap * noise


def choose_transform(rows: Rows, kernel: Kernel, settings: Settings) -> tuple[Tabulated, Metric]:
    """Return the map of outputs through which they are foretold better, and the metric there.

    Straight, or to normal scores: judged by the held-out log score and CRPS, in units of the
    outputs, of rows that are smoothed in a metric learnt for each.
    """
    y, weights = rows.Y[:, 0], rows.weights
    template = None if kernel.family_open else kernel
    found: list[tuple[float, Tabulated, Metric]] = []
    for transform in (standardised(y, weights), normal_scores(y, weights)):
        mapped = rows.with_outputs(transform.forward(rows.Y))
        like = found[0][2] if found else None  # the same features and family serve both
        metric = choose_metric(mapped, settings, template, like=like)
        _, located = best_located(mapped, [metric], settings)
        smoothed = choose_smoothers(located, settings)
        found.append((_loss(smoothed, transform, rows, settings), transform, metric))
    better = found[1][0] < found[0][0] - _TRANSFORM_GAIN
    return found[int(better)][1:]


def _loss(smoothed: SmoothedRows, transform: Tabulated, rows: Rows, settings: Settings) -> float:
    """Return the held-out log score + log CRPS of smoothed rows, in units of the outputs."""
    judged = rows.sampled(settings.effort.transform_rows, settings.seed + 1)
    Y, weights = rows.Y[judged], rows.weights[judged]
    held_out = smoothed.held_out(judged)["smoothed"]
    tail = student_tail(*smoothed.location_and_scale(judged))
    batch = TransformedBatch(MixtureBatch([held_out, tail], np.array([0.98, 0.02])), transform)
    log_score = -np.average(batch.logpdf_pairs(Y), weights=weights)
    return float(log_score + np.log(np.average(batch.crps(Y), weights=weights)))


def choose_atom_shares(
    atoms: Atoms, y: Array, rows: SmoothedRows, settings: Settings
) -> AtomShares:
    """Choose how rows are smoothed into probabilities of atoms, by held-out rows."""
    labels, n_atoms = atoms.labels(y), len(atoms.places)
    judged = sampled(len(y), settings.effort.weighed_rows, settings.seed + 1)
    likeness = rows.table.likeness_left_out(judged, rows.n_jobs)
    bandwidths = every_bandwidth()
    each = np.arange(len(judged))
    table = np.stack(
        [
            class_shares(rows.table, likeness, b, labels, n_atoms)[each, labels[judged]]
            for b in bandwidths
        ],
        axis=1,
    )
    prior = np.bincount(labels, rows.table.weights, n_atoms + 1)
    few = 1.0 / (prior.sum() + 1.0)
    table = (1.0 - few) * table + few * (prior / prior.sum())[labels[judged], None]
    shares = mixing_shares(table, rows.table.weights[judged])
    kept = shares >= _LEAST_SHARE
    chosen = tuple(b for b, keep in zip(bandwidths, kept, strict=True) if keep)
    return AtomShares(atoms, rows, labels, chosen, shares[kept] / shares[kept].sum())
