"""Fits that keep sums: chunks, partial_fit, workers and their merge."""

import time
import warnings
from abc import abstractmethod
from collections.abc import Iterator
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from kcdo.automatic import tuned_wishes
from kcdo.combination import CombinedOperator
from kcdo.distributions import Positivity
from kcdo.errors import InvalidInputError, KcdoWarning
from kcdo.estimators.base import ConditionalEstimator
from kcdo.operators import DensityOperator
from kcdo.progress import Progress
from kcdo.selection import Wishes, warn_outside
from kcdo.streaming import Chunk, Pilot, StreamPlan, pilot_size, same_plan, stream
from kcdo.systems import (
    Exact,
    Iterative,
    Nystrom,
    NystromSums,
    System,
)
from kcdo.tuning import Rows

_PILOT_ROWS = 2000  # of a stream, that parameters are chosen on


class StreamedFits(ConditionalEstimator):
    """What a conditional density operator does with data that it sees once, piece by piece."""

    selection: str
    solver: Any
    positivity: Positivity
    verbose: bool | int
    _operator: DensityOperator | CombinedOperator
    _plan: StreamPlan
    sums_: NystromSums

    @abstractmethod
    def _check_parameters(self) -> None:
        """Raise unless the parameters are of the right kinds."""

    @abstractmethod
    def _seed(self) -> int:
        """Return the seed of every subsample."""

    @abstractmethod
    def _wishes(self) -> Wishes:
        """Return what the user asked for."""

    @abstractmethod
    def _finish(
        self, system: System, operator: DensityOperator, n_samples: int, started: float
    ) -> None:
        """Keep a solved model and its report."""

    def partial_fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Add rows to the fit; the first call fixes centres, box, scaling and kernels.

        The sums are those of one :meth:`fit` by the same centres; the model is solved anew.
        """
        self._check_parameters()
        options = self._stream_options()
        started = time.perf_counter()
        if not hasattr(self, "_plan"):
            if hasattr(self, "_operator"):
                warnings.warn(
                    "partial_fit starts anew: the fit before it kept no sums. Begin with "
                    'partial_fit, or fit with solver=kcdo.Nystrom() and selection="heuristic".',
                    KcdoWarning,
                    stacklevel=2,
                )
            chunk = self._encode(X, y, sample_weight)
            seed = self._seed()
            pilot = Pilot.of_chunks(iter([chunk]), pilot_size(options, len(chunk[0])), seed)
            plan = self._stream_plan(pilot, options)
            before = plan.empty_sums()
        else:
            chunk = self._encode_more(X, y, sample_weight)
            plan, before = self._plan, self.sums_
            warn_outside(plan.output.measure, chunk[1])
        sums = plan.empty_sums()  # its own: an interrupted call leaves no half of its rows behind
        plan.add(sums, chunk)
        self._solve_sums(plan, before.merged(sums), started)
        return self

    def merge(self, *others: "StreamedFits") -> Self:
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
        other = copy(self)
        for name in ("_operator", "report_"):
            other.__dict__.pop(name, None)
        other._plan, other.sums_ = self._plan, self._plan.empty_sums()
        return other

    def _fit_arrays_streamed(self, data: Chunk, options: Nystrom, started: float) -> None:
        self._stream_options()
        n = len(data[0])
        rng = np.random.default_rng(self._seed())
        size = min(n, pilot_size(options, n))
        rows = rng.choice(n, size, replace=False)  # in random order: its head is a sample too
        X, Y, weights = (part[rows] for part in data)
        pilot = Pilot(X, Y, weights, data[1].min(axis=0), data[1].max(axis=0), n)
        self._stream(pilot, iter([data]), options, started)

    def _fit_chunks(self, source: Any, started: float) -> None:
        options = self._stream_options()
        seed = self._seed()
        first = next((part for part in source if len(part[0])), None)
        if first is None:
            raise InvalidInputError("Found 0 sample(s) in the chunks; 2 are required.")
        self._encode(first[0], first[1], None, least=1)  # learns the columns

        def chunks(learn: bool = False) -> Iterator[Chunk]:
            for part in source:
                X, Y, *weight = part
                if len(X):
                    yield self._encode_more(X, Y, weight[0] if weight else None, learn=learn)

        pilot = Pilot.of_chunks(chunks(learn=True), pilot_size(options, 1 << 20), seed)
        self._stream(pilot, chunks(), options, started)

    def _stream(
        self, pilot: Pilot, chunks: Iterator[Chunk], options: Nystrom, started: float
    ) -> None:
        plan = self._stream_plan(pilot, options)
        sums = stream(plan, chunks, pilot.n_rows, Progress(self.verbose))
        self._solve_sums(plan, sums, started)

    def _stream_plan(self, pilot: Pilot, options: Nystrom) -> StreamPlan:
        wishes, automatic = self._wishes(), self.selection == "auto"
        if automatic:
            few = slice(0, _PILOT_ROWS)
            rows = Rows(pilot.X[few], pilot.Y[few], pilot.weights[few])
            wishes = tuned_wishes(wishes, rows, self.positivity)
        return StreamPlan.of(wishes, options, pilot, judge_alpha=automatic)

    def _solve_sums(self, plan: StreamPlan, sums: NystromSums, started: float) -> None:
        system = plan.system(sums)
        operator = plan.operator(system, sums, self.positivity)
        self._plan, self.sums_ = plan, sums
        self._finish(system, operator, sums.n_rows, started)

    def _stream_options(self) -> Nystrom:
        if self.selection == "paper":
            raise InvalidInputError(
                'selection="paper" has no streamed form: it needs as many nodes as rows. Use '
                'selection="heuristic".'
            )
        if isinstance(self.solver, Exact | Iterative):
            raise InvalidInputError(
                f"{type(self.solver).__name__}() needs all rows at once, its sums do not merge: "
                "use solver=kcdo.Nystrom() for partial_fit, merge and chunks."
            )
        return self.solver if isinstance(self.solver, Nystrom) else Nystrom()

    def _need_sums(self) -> None:
        if not hasattr(self, "_plan"):
            check_is_fitted(self)
            raise InvalidInputError(
                "this model keeps no sums to merge: fit with solver=kcdo.Nystrom() and "
                'selection="heuristic", or by partial_fit.'
            )
