"""Fits to rows that belong together: every choice is judged by folds that keep them together.

Leave-one-out in closed form leaves the kin of a row behind, which foretell it, and the marginal
likelihood takes their agreement for little noise. So nothing here is chosen by either: each
candidate is fitted to the rows of a fold that learn, and judged by those that are left out, which
are whole groups, or rows later than all that learn. The candidates are simpler than those of other
fits: one factor of all input scales, the noise and the widths of bumps.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from kcdo.arrays import Array, Integers
from kcdo.components import (
    Component,
    ComponentParameters,
    LocationParameters,
    LocationScaleParameters,
    MarginalTailParameters,
    Mixture,
    ModelParameters,
    OperatorParameters,
    fit_map,
    without_outliers,
)
from kcdo.distributions import Batch, MixtureBatch, StudentTail, join
from kcdo.fitting.means import search_mean
from kcdo.fitting.output_side import output_side
from kcdo.fitting.problem import Problem
from kcdo.fitting.recalibration import HeldOut
from kcdo.fitting.rules import held_out_residual_sd, heuristic
from kcdo.fitting.weights import combined_weights
from kcdo.kernels import FreeScales, Kernel, with_median_scales
from kcdo.parallel import blas_limit, ordered_map
from kcdo.rows import Fold, Rows
from kcdo.systems import Exact, Groups

_STEPS = ((0.7, 1.5, 0.5), (0.35, 0.75, 0.25))  # of log scales, log noise, log widths
_TAIL_SHARE = 0.02  # so that no single row decides
_INFLATION = (0.25, 1e8)
_FIRST_NOISE, _LEAST_NOISE, _MOST_NOISE = 0.5, 1e-6, 1e3

Maker = Callable[[Rows], ComponentParameters]


class Start(NamedTuple):
    """A kernel with the scales and the noise that a search begins with."""

    template: Kernel
    kernel: Kernel
    noise: float

    def moved(self, moves: Array, columns: int) -> tuple[Kernel, float, float]:
        """Return kernel, noise and width after moves of their logarithms."""
        scales, kernel = FreeScales(self.template, columns), self.kernel
        if len(scales) and moves[0]:
            kernel = scales.kernel(scales.log_scales_of(kernel) + moves[0])
        noise = float(np.clip(self.noise * np.exp(moves[1]), _LEAST_NOISE, _MOST_NOISE))
        return kernel, noise, float(np.exp(moves[2]))


@dataclass(frozen=True, eq=False)
class FoldJudge:
    """Rows with folds: for each fold the places of rows that learn, and of those that judge."""

    problem: Problem
    rows: Rows
    folds: list[Fold]

    @classmethod
    def of(cls, problem: Problem) -> "FoldJudge":
        """Take some of the rows, if there are many."""
        rows = problem.rows.sample(problem.effort.rows, problem.spec.seed)
        if rows.kin is not None and rows.kin.count < 2:  # nearly all rows are of one group
            rows = problem.rows
        return cls(problem, rows, rows.folds(problem.effort.kin_folds, problem.spec.seed + 2))

    @property
    def judged(self) -> Integers:
        """Places of the rows that judge, fold after fold."""
        return np.concatenate([test for _, test in self.folds])

    @property
    def outputs(self) -> Array:
        """Outputs of the rows that judge."""
        return self.rows.Y[self.judged]

    @property
    def weights(self) -> Array:
        """Weights of the rows that judge."""
        return self.rows.weights[self.judged]

    def predictions(self, of_rows: Maker) -> dict[str, Batch]:
        """Return the distributions of rows that judge, by parameters that may depend on rows."""
        settings = self.problem.spec.settings

        def one(fold: Fold) -> dict[str, Batch]:
            train = self.rows.take(fold[0])
            return of_rows(train).fit(train, settings).predict(self.rows.X[fold[1]])

        with blas_limit(1):
            parts = list(ordered_map(one, self.folds, self.problem.spec.n_jobs))
        return {name: join([part[name] for part in parts]) for name in parts[0]}

    def squared_error(self, kernel: Kernel, noise: float) -> float:
        """Return the log of the mean squared error of a regression, summed over the outputs."""
        settings, rows = self.problem.spec.settings, self.rows

        def one(fold: Fold) -> Array:
            train = rows.take(fold[0])
            system = settings.unfactored(kernel, train).factor(noise / train.total)
            mean = np.average(train.Y, axis=0, weights=train.weights)
            predicted = mean + system.weights(rows.X[fold[1]]) @ (train.Y - mean)
            return (rows.Y[fold[1]] - predicted) ** 2

        with blas_limit(1):
            squares = np.concatenate(list(ordered_map(one, self.folds, self.problem.spec.n_jobs)))
        means = np.average(squares, axis=0, weights=self.weights)
        return float(np.log(np.maximum(means, 1e-300)).sum())


def fit_by_folds(problem: Problem) -> tuple[Mixture, ModelParameters, HeldOut | None]:
    """Choose a plain density and location and scale by folds, weigh them, and fit all rows.

    Held-out rows count as many as there are groups or moments: rows of one err alike.
    """
    judge, wants = FoldJudge.of(problem), problem.spec.combination.wants
    stage = problem.spec.progress.stage
    with stage("conditional mean"):
        starts = _starts(problem, judge.rows)
    with stage("plain density"):
        makers = [_plain(judge, starts)]
    located = any(map(wants, ("location_scale", "residual_tail", "normal")))
    if located and problem.in_time("location and scale"):
        with stage("location and scale"):
            makers.append(_located(judge, starts))
    with stage("weights"):
        held_out: dict[str, Batch] = {}
        for maker in makers:
            held_out |= judge.predictions(maker)
        tail = MarginalTailParameters()
        held_out |= tail.fit(judge.rows, problem.spec.settings).predict(judge.outputs)
        held_out = {name: batch for name, batch in held_out.items() if wants(name)}
        combination = problem.spec.combination
        weights = combined_weights(held_out, judge.outputs, judge.weights, combination)
    mixed = MixtureBatch(list(held_out.values()), np.array([*weights.values()]))
    kin = judge.rows.kin
    share = 1.0 if kin is None else kin.count / len(judge.rows)
    judged = None
    if problem.spec.settings.positivity != "signed":  # whose densities have no logarithm
        judged = HeldOut.of(mixed, judge.outputs, share * judge.weights)
    chosen: list[ComponentParameters] = [maker(problem.rows) for maker in makers]
    if "marginal_tail" in weights:
        chosen.append(tail)
    fitted: list[Component] = [each.fit(problem.rows, problem.spec.settings) for each in chosen]
    return Mixture(tuple(fitted), weights), ModelParameters(tuple(chosen), weights), judged


def _starts(problem: Problem, rows: Rows) -> list[Start]:
    """Return kernels with their noise to begin with: medians, and scales of high likelihood.

    The likelihood sees one row of each group.
    """
    spec, effort, templates = problem.spec, problem.effort, problem.templates[0]
    some = rows.one_of_each(spec.seed).sample(effort.race_rows, spec.seed)
    middle = with_median_scales(templates[0], rows.X, rows.weights, seed=spec.seed)
    found = [Start(templates[0], middle, _FIRST_NOISE)]
    if len(some) >= effort.fewest_rows and np.all(np.ptp(some.Y, axis=0) > 0):
        best, *_ = search_mean(templates, some, effort, problem.least_noise, spec.seed, spec.n_jobs)
        found.append(Start(best.template, best.kernel, best.noise))
    return found


def _plain(judge: FoldJudge, starts: list[Start]) -> Maker:
    """Choose the plain density: a kernel, its noise, and the widths of bumps."""
    problem, rows = judge.problem, judge.rows
    spec = problem.spec
    exact = replace(spec, settings=replace(spec.settings, solver=Exact()))
    system, _ = heuristic(exact, Groups.of(rows.X, rows.weights), rows.Y)
    open_widths = spec.kernel_y is None or not spec.kernel_y.fitted
    sd = held_out_residual_sd(system, rows.Y, spec) if open_widths else None
    tail = MarginalTailParameters().fit(rows, spec.settings).predict(judge.outputs)

    def maker(kernel: Kernel, noise: float, width: float) -> Maker:
        side = output_side(
            spec, problem.rows.Y, problem.rows.weights, None if sd is None else sd * width
        )
        return lambda train: OperatorParameters(kernel, noise / train.total, side)

    def loss(kernel: Kernel, noise: float, width: float) -> float:
        plain = judge.predictions(maker(kernel, noise, width))["plain"]
        shares = np.array([1.0 - _TAIL_SHARE, _TAIL_SHARE])
        return _log_score([plain, tail["marginal_tail"]], shares, judge)

    return maker(*_walked(loss, starts, judge, 3 if open_widths else 2))


def _located(judge: FoldJudge, starts: list[Start]) -> Maker:
    """Choose location and scale: the mean of least squared error, as wide as folds ask for.

    Its own rows tell it too small an error; ``inflation`` is what their kin hid.
    """
    problem, rows = judge.problem, judge.rows
    spec, floor = problem.spec, problem.floor
    kernel, noise, _ = _walked(lambda k, n, _: judge.squared_error(k, n), starts, judge, 2)
    location = LocationParameters(kernel, noise)
    system = spec.settings.unfactored(kernel, rows).factor(noise / rows.total)
    _, residuals = fit_map(location, system, rows, floor, spec.settings)
    open_spec = replace(
        spec,
        settings=replace(spec.settings, solver=Exact()),
        kernel_y=None,
        reference=None,
        alpha=None,
        alpha_prime=None,
        filter=None,
    )
    sides = heuristic(open_spec, Groups.of(rows.X, rows.weights), residuals.clipped)
    inner = OperatorParameters(sides.system.kernel, sides.system.alpha, sides.output)
    parameters = LocationScaleParameters(location, inner, floor)
    normal = judge.predictions(lambda _: parameters)["normal"]
    assert isinstance(normal, StudentTail)
    squares = (((judge.outputs - normal.location) / normal.scale) ** 2).mean(axis=1)
    counted = without_outliers(squares[:, None], judge.weights)[:, 0]
    inflation = float(np.average(counted, weights=judge.weights))
    wider = replace(location, inflation=float(np.clip(inflation, *_INFLATION)))
    parameters = replace(parameters, location=wider)
    return lambda _: parameters


def _walked(
    loss: Callable[[Kernel, float, float], float],
    starts: list[Start],
    judge: FoldJudge,
    free: int,
) -> tuple[Kernel, float, float]:
    """Return kernel, noise and width of least loss along one coordinate after the other."""
    columns, moves = judge.rows.X.shape[-1], np.zeros(3)
    losses = [loss(*start.moved(moves, columns)) for start in starts]
    best, least = starts[int(np.argmin(losses))], min(losses)
    for steps in _STEPS:
        for axis in range(free):
            if not judge.problem.in_time("the search by folds"):
                return best.moved(moves, columns)
            for sign in (1.0, -1.0):
                gained = 0
                while gained < judge.problem.effort.kin_steps:
                    there = moves.copy()
                    there[axis] += sign * steps[axis]
                    found = loss(*best.moved(there, columns))
                    if not found < least - 1e-4:
                        break
                    least, moves, gained = found, there, gained + 1
                if gained:
                    break
    return best.moved(moves, columns)


def _log_score(batches: list[Batch], shares: Array, judge: FoldJudge) -> float:
    """Return minus the mean log density of a mixture at the rows that judge."""
    density = sum(
        share * batch.pdf_pairs(judge.outputs) for share, batch in zip(shares, batches, strict=True)
    )
    logs = np.log(np.maximum(density, 1e-300))
    return -float(np.average(logs, weights=judge.weights))
