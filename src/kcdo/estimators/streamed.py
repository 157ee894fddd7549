"""Fits that keep sums over the rows: of parts that come one after the other, and of chunks.

These are the ways of a conditional density on Nyström centres, whose sums add up.
"""

import time
import warnings
from abc import ABC, abstractmethod
from dataclasses import replace
from os import PathLike
from typing import Any, Self

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from kcdo.components import Effort
from kcdo.distributed import Engine
from kcdo.errors import InvalidInputError, KcdoWarning
from kcdo.estimators.chunked_fit import ChunkedFit
from kcdo.estimators.chunks import ChunkReader, looked_through
from kcdo.estimators.fitted import FittedDensity
from kcdo.estimators.parameters import check_parameters
from kcdo.fitting import (
    ONLY_PLAIN,
    Chunk,
    ModelSpec,
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


class StreamedDensity(FittedDensity, ABC):
    """An estimator of conditional densities that may keep its plan and its sums over the rows."""

    solver: Any
    verbose: bool | int
    max_seconds: float | None

    @property
    @abstractmethod
    def _effort(self) -> Effort:
        """How much work a fit may do."""

    @abstractmethod
    def _spec(self, solver: Solver) -> ModelSpec:
        """Return what the user fixed, as the functions that fit take it."""

    def partial_fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Add rows to the fit; the first call fixes centres, box, scaling and kernels.

        The sums are those of one :meth:`fit` by the same centres; the model is solved anew.
        """
        check_parameters(self)
        self._refuse_a_deadline("partial_fit")
        self._add_rows(X, y, sample_weight)
        return self

    def merge(self, *others: Self) -> Self:
        """Add the sums of models made by :meth:`worker`, which saw other rows in partial_fit."""
        self._need_sums()
        started = time.perf_counter()
        sums = self.sums_
        for other in others:
            if getattr(other, "_plan", None) is None or not same_plan(self._plan, other._plan):
                raise InvalidInputError(
                    "merge takes models made by worker(): they must share centres, kernels and "
                    "output grid."
                )
            sums = sums.merged(other.sums_)
        self._solve_sums(self._plan, sums, started)
        return self

    def worker(self) -> Self:
        """Return a model with the same centres, kernels and grid, and no data yet."""
        self._need_sums()
        other = self._without("_operator", "_parameters", "report_", "stream_")
        other._plan, other.sums_ = self._plan, self._plan.empty_sums()
        return other

    def _add_rows(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> None:
        """Add rows to the sums, whose first rows fix the plan, and solve the model anew."""
        options = self._stream_options()
        started = time.perf_counter()
        if hasattr(self, "_plan"):
            chunk = self._encode_more(X, y, sample_weight)
            plan, before = self._plan, self.sums_
            warn_outside(plan.output.measure, chunk[1])
            plan.warn_far(chunk[0])
        else:
            if hasattr(self, "_operator"):
                warnings.warn(
                    "partial_fit starts anew: the fit before it kept no sums. Begin with "
                    'partial_fit, or fit with solver=kcdo.Nystrom() and selection="heuristic".',
                    KcdoWarning,
                    stacklevel=3,
                )
            plan, chunk = self._begun(self._encode(X, y, sample_weight), options)
            before = plan.empty_sums()
        sums = plan.empty_sums()  # its own: an interrupted call leaves no half of its rows behind
        plan.add(sums, chunk)
        total = before.merged(sums)
        collects = hasattr(self, "_plan") and not hasattr(self, "_operator")
        try:
            self._solve_sums(plan, total, started)
        except InvalidInputError:
            if not collects:
                raise
            self.sums_ = total  # a worker may have seen nothing that counts: others will have

    def _begun(self, first: Chunk, options: Nystrom) -> tuple[StreamPlan, Chunk]:
        """Return the plan that the first rows fix, and these rows as the fit sees them."""
        inputs, outputs, weights = first
        size = pilot_size(options, len(inputs), self._effort.streamed)
        pilot = Pilot.of_chunks(iter([first]), size, self._seed())
        if self._choose_transform(pilot):
            pilot, outputs = pilot.seen_through(self._to_unbounded), self._to_unbounded(outputs)
        return self._plan_of(pilot, options), (inputs, outputs, weights)

    def _fit_chunks(
        self, engine: Engine, started: float, rows_at: str | PathLike[str] | None
    ) -> None:
        """Fit to chunks wherever they are: look at all, draw a sample, plan, add up, solve."""
        if self.missing == "marginalise":
            raise InvalidInputError(
                'missing="marginalise" takes missing values from near rows, and chunks do not see '
                "those of others: fit all rows at once, or use partial_fit."
            )
        options = self._stream_options()
        overview, pilot = looked_through(self, engine, options, self._effort.streamed)
        if self._choose_transform(pilot):
            pilot = pilot.seen_through(self._to_unbounded)
        rows = pilot.rows(self._effort.streamed.sample_rows)
        engine.facts.sample = rows.X  # a streamed fit shows the inputs that chose
        spec = self._spec(Exact())
        fit = ChunkedFit(engine, ChunkReader(self), overview, pilot, spec, options)
        mixture = None
        if self.selection == "auto":
            plan, sums, mixture = fit.automatic(rows, rows_at)
        else:
            plan, sums = fit.by_rule()
        if mixture is None:
            self._solve_sums(plan, sums, started)
        else:
            self._plan, self.sums_ = plan, sums
            self._finish(mixture.system, mixture.model, sums.n_rows, started)
            self._parameters = mixture.parameters
            self.report_ = replace(self.report_, weights=mixture.parameters.weights)
        if rows_at is not None and not engine.facts.kept_nbytes:
            warnings.warn(
                "rows_at was not used: near rows are a component where there are more rows than "
                "the sample has, inputs have a metric and do not come back, and Combination "
                "leaves a weight for them.",
                KcdoWarning,
                stacklevel=4,
            )
        self.stream_ = engine.facts

    def _fit_sums(self, rows: Rows, options: Nystrom, started: float) -> None:
        """Fit the plain density by sums over rows that are at hand."""
        self._stream_options()  # or an error says why not
        data = rows.X, rows.Y, rows.weights
        size = pilot_size(options, len(rows), self._effort.streamed)
        pilot = Pilot.of_arrays(data, size, self._seed())
        plan = self._plan_of(pilot, options)
        sums = stream(plan, iter([data]), pilot.n_rows, Progress(self.verbose))
        self._solve_sums(plan, sums, started)

    def _stream_options(self) -> Nystrom:
        """Return how centres are chosen; raise where there is no fit by sums."""
        if self.selection == "paper":
            raise InvalidInputError(
                'selection="paper" has no streamed form: it needs as many nodes as rows. Use '
                'selection="heuristic".'
            )
        solver: Solver = Nystrom() if self.solver == "auto" else self.solver
        if solver.every_input:
            raise InvalidInputError(
                f"{type(solver).__name__}() needs all rows at once, its sums do not merge: "
                "use solver=kcdo.Nystrom() for partial_fit, merge and chunks."
            )
        return solver

    def _need_sums(self) -> None:
        """Raise where a model keeps no sums."""
        if not hasattr(self, "_plan"):
            check_is_fitted(self)
            raise InvalidInputError(
                "this model keeps no sums to merge: fit with solver=kcdo.Nystrom() and "
                'selection="heuristic", or by partial_fit.'
            )

    def _choose_transform(self, pilot: Pilot) -> bool:
        """Let a sample choose a transform of the output, for all rows to come; return if it did.

        A declared support has a transform of its own, and wins.
        """
        if self.selection != "auto" or self._transform is not None:
            return False
        rows = pilot.rows(self._effort.streamed.sample_rows)
        chosen = sample_transform(self._spec(Exact()), rows)
        if chosen is not None:
            self._transform = Columns((chosen,))
        return chosen is not None

    def _plan_of(self, pilot: Pilot, options: Nystrom) -> StreamPlan:
        """Return the plan of a plain density: sums of location and scale would not merge."""
        spec, automatic = self._spec(Exact()), self.selection == "auto"
        if automatic:
            plain = replace(spec, combination=ONLY_PLAIN)
            spec = pilot_choice(plain, pilot.rows(self._effort.streamed.sample_rows)).spec
        return StreamPlan.of(spec, options, pilot, judge_alpha=automatic)

    def _solve_sums(self, plan: StreamPlan, sums: NystromSums, started: float) -> None:
        """Solve the plain density anew, and keep the sums for rows to come."""
        system = plan.system(sums)
        operator = plan.operator(system, sums)
        self._plan, self.sums_ = plan, sums
        self.__dict__.pop("_parameters", None)  # of a mixture, whose other components do not merge
        self._finish(system, operator, sums.n_rows, started)

    def _refuse_a_deadline(self, what: str) -> None:
        if self.max_seconds is not None:
            raise InvalidInputError(
                f"max_seconds= is for rows in memory: {what} passes over all rows, however long "
                'that takes. Leave it out; selection="heuristic" is the fastest.'
            )
