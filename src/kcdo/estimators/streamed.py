"""Fits that keep sums over the rows: of parts that come one after the other, and of chunks.

These are the ways of a conditional density on Nyström centres, whose sums add up; ``model`` is the
estimator, which keeps its plan, its sums and what is solved from them.
"""

import time
import warnings
from dataclasses import replace
from os import PathLike
from typing import Any

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from kcdo.distributed import Engine
from kcdo.errors import InvalidInputError, KcdoWarning
from kcdo.estimators.chunked_fit import ChunkedFit
from kcdo.estimators.chunks import ChunkReader, looked_through
from kcdo.fitting import (
    ONLY_PLAIN,
    Pilot,
    StreamPlan,
    pilot_choice,
    pilot_size,
    same_plan,
    sample_transform,
    stream,
    warn_outside,
)
from kcdo.progress import Progress
from kcdo.rows import Rows
from kcdo.systems import Exact, Nystrom, NystromSums, Solver
from kcdo.transforms import Columns


def add_rows(model: Any, X: Any, y: Any, sample_weight: ArrayLike | None) -> None:
    """Add rows to the sums of a model, whose first rows fix the plan, and solve it anew."""
    options = stream_options(model)
    started = time.perf_counter()
    if hasattr(model, "_plan"):
        chunk = model._encode_more(X, y, sample_weight)
        plan, before = model._plan, model.sums_
        warn_outside(plan.output.measure, chunk[1])
        plan.warn_far(chunk[0])
    else:
        if hasattr(model, "_operator"):
            warnings.warn(
                "partial_fit starts anew: the fit before it kept no sums. Begin with "
                'partial_fit, or fit with solver=kcdo.Nystrom() and selection="heuristic".',
                KcdoWarning,
                stacklevel=3,
            )
        inputs, outputs, weights = model._encode(X, y, sample_weight)
        size = pilot_size(options, len(inputs), model._effort.streamed)
        pilot = Pilot.of_chunks(iter([(inputs, outputs, weights)]), size, model._seed())
        if _choose_transform(model, pilot):
            pilot, outputs = pilot.seen_through(model._to_unbounded), model._to_unbounded(outputs)
        chunk = inputs, outputs, weights
        plan = _plan_of(model, pilot, options)
        before = plan.empty_sums()
    sums = plan.empty_sums()  # its own: an interrupted call leaves no half of its rows behind
    plan.add(sums, chunk)
    total = before.merged(sums)
    collects = hasattr(model, "_plan") and not hasattr(model, "_operator")
    try:
        _solve_sums(model, plan, total, started)
    except InvalidInputError:
        if not collects:
            raise
        model.sums_ = total  # a worker may have seen nothing that counts: others will have


def add_models(model: Any, others: tuple[Any, ...]) -> None:
    """Add the sums of models of the same plan, and solve the model anew."""
    need_sums(model)
    started = time.perf_counter()
    sums = model.sums_
    for other in others:
        if getattr(other, "_plan", None) is None or not same_plan(model._plan, other._plan):
            raise InvalidInputError(
                "merge takes models made by worker(): they must share centres, kernels and "
                "output grid."
            )
        sums = sums.merged(other.sums_)
    _solve_sums(model, model._plan, sums, started)


def fit_chunks(
    model: Any, engine: Engine, started: float, rows_at: str | PathLike[str] | None
) -> None:
    """Fit to chunks wherever they are: look at all, draw a sample, plan, add up, solve."""
    if model.missing == "marginalise":
        raise InvalidInputError(
            'missing="marginalise" takes missing values from near rows, and chunks do not see '
            "those of others: fit all rows at once, or use partial_fit."
        )
    options = stream_options(model)
    overview, pilot = looked_through(model, engine, options)
    if _choose_transform(model, pilot):
        pilot = pilot.seen_through(model._to_unbounded)
    rows = pilot.rows(model._effort.streamed.sample_rows)
    engine.facts.sample = rows.X  # a streamed fit shows the inputs that chose
    spec = model._spec(Exact())
    fit = ChunkedFit(engine, ChunkReader(model), overview, pilot, spec, options)
    mixture = None
    if model.selection == "auto":
        plan, sums, mixture = fit.automatic(rows, rows_at)
    else:
        plan, sums = fit.by_rule()
    if mixture is None:
        _solve_sums(model, plan, sums, started)
    else:
        model._plan, model.sums_ = plan, sums
        model._finish(mixture.system, mixture.model, sums.n_rows, started)
        model._parameters = mixture.parameters
        model.report_ = replace(model.report_, weights=mixture.parameters.weights)
    if rows_at is not None and not engine.facts.kept_nbytes:
        warnings.warn(
            "rows_at was not used: near rows are a component where there are more rows than "
            "the sample has, inputs have a metric and do not come back, and Combination "
            "leaves a weight for them.",
            KcdoWarning,
            stacklevel=4,
        )
    model.stream_ = engine.facts


def fit_sums(model: Any, rows: Rows, options: Nystrom, started: float) -> None:
    """Fit the plain density by sums over rows that are at hand."""
    stream_options(model)  # or an error says why not
    data = rows.X, rows.Y, rows.weights
    size = pilot_size(options, len(rows), model._effort.streamed)
    pilot = Pilot.of_arrays(data, size, model._seed())
    plan = _plan_of(model, pilot, options)
    sums = stream(plan, iter([data]), pilot.n_rows, Progress(model.verbose))
    _solve_sums(model, plan, sums, started)


def stream_options(model: Any) -> Nystrom:
    """Return how centres are chosen; raise where there is no fit by sums."""
    if model.selection == "paper":
        raise InvalidInputError(
            'selection="paper" has no streamed form: it needs as many nodes as rows. Use '
            'selection="heuristic".'
        )
    solver: Solver = Nystrom() if model.solver == "auto" else model.solver
    if solver.every_input:
        raise InvalidInputError(
            f"{type(solver).__name__}() needs all rows at once, its sums do not merge: "
            "use solver=kcdo.Nystrom() for partial_fit, merge and chunks."
        )
    return solver


def need_sums(model: Any) -> None:
    """Raise where a model keeps no sums."""
    if not hasattr(model, "_plan"):
        check_is_fitted(model)
        raise InvalidInputError(
            "this model keeps no sums to merge: fit with solver=kcdo.Nystrom() and "
            'selection="heuristic", or by partial_fit.'
        )


def _choose_transform(model: Any, pilot: Pilot) -> bool:
    """Let a sample choose a transform of the output, for all rows to come; return if it did.

    A declared support has a transform of its own, and wins.
    """
    if model.selection != "auto" or model._transform is not None:
        return False
    rows = pilot.rows(model._effort.streamed.sample_rows)
    chosen = sample_transform(model._spec(Exact()), rows)
    if chosen is not None:
        model._transform = Columns((chosen,))
    return chosen is not None


def _plan_of(model: Any, pilot: Pilot, options: Nystrom) -> StreamPlan:
    """Return the plan of a plain density: sums of location and scale would not merge."""
    spec, automatic = model._spec(Exact()), model.selection == "auto"
    if automatic:
        plain = replace(spec, combination=ONLY_PLAIN)
        spec = pilot_choice(plain, pilot.rows(model._effort.streamed.sample_rows)).spec
    return StreamPlan.of(spec, options, pilot, judge_alpha=automatic)


def _solve_sums(model: Any, plan: StreamPlan, sums: NystromSums, started: float) -> None:
    """Solve the plain density anew, and keep the sums for rows to come."""
    system = plan.system(sums)
    operator = plan.operator(system, sums)
    model._plan, model.sums_ = plan, sums
    vars(model).pop("_parameters", None)  # of a mixture, whose other components do not merge
    model._finish(system, operator, sums.n_rows, started)
