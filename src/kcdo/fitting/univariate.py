"""The story of a default fit of one output: atoms, transform, metric, components, weights."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.components import (
    Atoms,
    AtomShares,
    Mixture,
    PlainDensity,
    Settings,
    SmoothedParameters,
    SmoothedRows,
    Univariate,
    UnivariateParameters,
    class_shares,
    continuous_rows,
)
from kcdo.fitting.densities import ChosenOperator, choose_plain_at
from kcdo.fitting.problem import Problem
from kcdo.fitting.smoothed import (
    ChosenMetric,
    choose_metric,
    choose_smoothers,
    every_bandwidth,
    local_loss,
    located_rows,
    mixing_shares,
)
from kcdo.fitting.weights import combined_weights
from kcdo.kernels import Kernel, OnFeatures
from kcdo.rows import Rows
from kcdo.transforms import Tabulated, normal_scores, standardised

_TRANSFORM_GAIN = 0.005  # nats per row that normal scores must gain over no transform
_LEAST_SHARE = 2e-3


@dataclass(frozen=True, eq=False)
class UnivariateFit:
    """A model of one output and what was chosen on the way."""

    model: Univariate
    parameters: UnivariateParameters
    loss: float


def fit_univariate(problem: Problem) -> UnivariateFit:
    """Choose everything that is open and fit the model of one output."""
    spec, settings, y = problem.spec, problem.spec.settings, problem.rows.Y[:, 0]
    stage, atoms = spec.progress.stage, Atoms.of(y)
    rows = problem.rows.with_outputs(_unrounded(problem, atoms))
    with stage("transform"):
        transform = choose_transform(rows, settings)
    mapped = _mapped(rows, transform)
    with stage("metric"):
        metric = choose_metric(mapped, settings, _template(problem))
        located = located_rows(mapped, metric, settings)
    shares: AtomShares | None = None
    continuous: NDArray[np.integer] = np.arange(len(rows))
    if atoms is not None:
        with stage("atoms"):
            judged = rows.sampled(settings.effort.weighed_rows, settings.seed + 1)
            shares = choose_atom_shares(atoms, y, located, judged)
            continuous = continuous_rows(atoms, shares.labels)
    with stage("smoothers"):
        smoothed = choose_smoothers(located.of_rows(continuous), settings)
    inner = replace(
        problem,
        rows=mapped.take(continuous),
        floor=problem.floor / np.diff(transform.inverse(np.array([-0.5, 0.5]))),
    )
    with stage("plain density"):
        plain = _plain(inner, metric, smoothed)
    with stage("weights"):
        weights, loss = _weights(inner, plain, smoothed)
    mixture = Mixture((PlainDensity(plain.operator), smoothed), weights)
    parameters = UnivariateParameters(
        plain.parameters,
        SmoothedParameters(
            metric.scores,
            metric.kernel,
            metric.noise,
            smoothed.smoothers,
            _shares_of(smoothed),
            located.spread,
        ),
        weights,
        transform,
        atoms,
        () if shares is None else shares.bandwidths,
        None if shares is None else shares.shares,
    )
    return UnivariateFit(Univariate(mixture, transform, shares), parameters, loss)


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


def _template(problem: Problem) -> Kernel | None:
    """Return the kernel that the user left open, where it is more than a family."""
    kernel = problem.spec.kernel_x
    return None if kernel.family_open else problem.warped_kernel


def _plain(problem: Problem, metric: ChosenMetric, smoothed: SmoothedRows) -> ChosenOperator:
    kernel = metric.kernel
    if metric.scores is not None:
        kernel = OnFeatures(kernel, smoothed.features)
    sd = float(np.exp(np.median(smoothed.table.log_scale)))
    return choose_plain_at(problem, kernel, metric.noise, sd)


def _weights(
    problem: Problem, plain: ChosenOperator, smoothed: SmoothedRows
) -> tuple[dict[str, float], float]:
    """Return the weights of all distributions, by held-out rows, and the held-out log score."""
    rows, settings = problem.rows, problem.spec.settings
    judged = rows.sampled(settings.effort.judged_rows, settings.seed + 1)
    held_out = {"plain": plain.light_operator.held_out(judged)} | smoothed.held_out(judged)
    combination = problem.spec.combination
    wanted = {name: batch for name, batch in held_out.items() if combination.wants(name)}
    Y, row_weights = rows.Y[judged], rows.weights[judged]
    weights = combined_weights(wanted, Y, row_weights, combination)
    density = np.sum([weights[name] * wanted[name].pdf_pairs(Y) for name in wanted], axis=0)
    loss = -float(np.average(np.log(np.maximum(density, 1e-300)), weights=row_weights))
    return weights, loss


def _shares_of(smoothed: SmoothedRows) -> Array:
    assert smoothed.shares is not None
    return smoothed.shares


def choose_transform(rows: Rows, settings: Settings) -> Tabulated:
    """Return the map of outputs whose regression foretells them better: straight or scores."""
    y, weights = rows.Y[:, 0], rows.weights
    straight, scores = standardised(y, weights), normal_scores(y, weights)
    losses = []
    for transform in (straight, scores):
        slopes = np.average(transform.log_derivative(y), weights=weights)
        losses.append(local_loss(_mapped(rows, transform), settings) - float(slopes))
    return scores if losses[1] < losses[0] - _TRANSFORM_GAIN else straight


def _mapped(rows: Rows, transform: Tabulated) -> Rows:
    return rows.with_outputs(transform.forward(rows.Y))


def choose_atom_shares(atoms: Atoms, y: Array, rows: SmoothedRows, judged: NDArray) -> AtomShares:
    """Choose how rows are smoothed into probabilities of atoms, by held-out rows."""
    labels, n_atoms = atoms.labels(y), len(atoms.places)
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
