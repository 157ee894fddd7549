"""Components that are weighed: held-out rows of all of them, and what one more is judged beside."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kcdo.arrays import Integers
from kcdo.components import Gate, Mixture, ModelParameters
from kcdo.distributions import MixtureBatch, join
from kcdo.fitting.problem import Batches, ChosenComponent, Problem, SoFar, ValidationRows
from kcdo.fitting.recalibration import HeldOut
from kcdo.fitting.weights import choose_gate, combined_weights
from kcdo.parallel import blas_limit, ordered_map

InnerFit = tuple[Mixture, ModelParameters, HeldOut | None]


def weighed(problem: Problem, so_far: SoFar) -> SoFar:
    """Return what was chosen with its weights; components that were held out before stay so."""
    rows, spec, judged = problem.rows, problem.spec, so_far.judged
    if judged is None:
        judged = problem.judged_rows(problem.effort.weighed_rows)
    new = [each for each in so_far.chosen if not so_far.held_out.keys() & each.component.names]
    found = held_out_of(problem, new, judged)
    wanted = {name: batch for name, batch in found.items() if spec.combination.wants(name)}
    held_out, weights = so_far.held_out | wanted, {}
    if held_out:
        Y, row_weights = rows.Y[judged], rows.weights[judged]
        weights = combined_weights(held_out, Y, row_weights, spec.combination, spec.n_jobs)
    return replace(so_far, judged=judged, held_out=held_out, weights=weights)


def held_out_of(problem: Problem, chosen: Sequence[ChosenComponent], judged: Integers) -> Batches:
    """Return held-out distributions of some rows: closed form for many rows, K-fold for few.

    The leave-one-out of location and scale is not exact, as the residuals of the other rows have
    seen the one left out. Of a thousand rows, one does not move them.
    """
    few = len(judged) == len(problem.rows) <= problem.effort.folded_rows
    inexact = few and not all(each.component.exact_held_out for each in chosen)
    inexact = inexact and problem.in_time("folds")
    # to be weighed against one that is folded, the linear ones are folded too
    folded = [
        each
        for each in chosen
        if inexact and (each.component.linear or not each.component.exact_held_out)
    ]
    by_folds = _cross_validated(problem, folded) if folded else {}
    found: Batches = {}
    for each in chosen:
        in_closed_form = each.light_component.held_out(judged) if each not in folded else {}
        found |= in_closed_form or {name: by_folds[name] for name in each.component.names}
    return found


def _cross_validated(problem: Problem, chosen: Sequence[ChosenComponent]) -> Batches:
    """Return held-out distributions of all rows by K-fold, at fixed parameters."""
    rows, effort, settings = problem.rows, problem.effort, problem.spec.settings
    count = effort.many_folds if len(rows) <= effort.few_rows else effort.folds
    folds = rows.folds(count, problem.spec.seed + 2)

    def held_out(fold: tuple[Integers, Integers]) -> Batches:
        train = rows.take(fold[0])
        found: Batches = {}
        for each in chosen:
            found |= each.light_parameters.fit(train, settings).predict(rows.X[fold[1]])
        return found

    with blas_limit(1):
        parts = list(ordered_map(held_out, folds, problem.spec.n_jobs))
    back = np.argsort(np.concatenate([test for _, test in folds]))
    return {name: join([part[name] for part in parts]).take(back) for name in parts[0]}


def rows_beside(problem: Problem, so_far: SoFar) -> ValidationRows:
    """Return rows that judge one more component, in a mixture with those that are weighed."""
    assert so_far.judged is not None, "weights come first"
    judged, others, weights = so_far.judged, so_far.held_out, so_far.weights
    if not others:
        return ValidationRows(judged)
    mixture = MixtureBatch(list(others.values()), np.array([weights[name] for name in others]))
    some = np.linspace(0, len(judged) - 1, min(len(judged), problem.effort.held_out)).astype(int)
    beside = mixture.take(some).pdf_pairs(problem.rows.Y[judged[some]])
    return ValidationRows(judged[some], beside)


def gate_of(problem: Problem, so_far: SoFar) -> Gate | None:
    """Return weights that vary with x, where they are open and held-out rows ask for it."""
    if not problem.metrics or problem.spec.combination.fixed or not problem.in_time("gate"):
        return None
    assert so_far.judged is not None, "weights come first"
    rows, kernel = problem.rows.take(so_far.judged), problem.metrics[0].kernel
    fewest = problem.effort.fewest_gated
    return choose_gate(so_far.held_out, so_far.weights, rows, kernel, fewest)


def mixture_of(so_far: SoFar, gate: Gate | None = None, judged: HeldOut | None = None) -> InnerFit:
    """Return the mixture of all components, its parameters, and what held-out rows say of it."""
    chosen, weights = so_far.chosen, so_far.weights
    model = Mixture(tuple(each.component for each in chosen), weights, gate)
    parameters = ModelParameters(tuple(each.parameters for each in chosen), weights, gate)
    return model, parameters, judged


def judgement(problem: Problem, so_far: SoFar, gate: Gate | None) -> HeldOut | None:
    """Return what held-out rows say of the mixture; None of densities that may be negative."""
    assert so_far.judged is not None, "weights come first"
    if problem.spec.settings.positivity == "signed":
        return None
    names = [name for name in so_far.held_out if so_far.weights[name] > 0]
    if gate is None:
        weights = np.array([so_far.weights[name] for name in names])
    else:
        weights = gate.held_out()[:, [gate.names.index(name) for name in names]]
    mixed = MixtureBatch([so_far.held_out[name] for name in names], weights)
    rows = problem.rows.take(so_far.judged)
    return HeldOut.of(mixed, rows.Y, rows.weights)
