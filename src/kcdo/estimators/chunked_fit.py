"""A fit to chunks, wherever they are: what a sample chooses, and sums over all rows.

The chunks are passed over a few times (:mod:`kcdo.distributed.passes`): for near rows that say
which scales serve, for rows that are kept, and for sums. No pass holds more than a chunk per task.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from kcdo.components import LocationScaleParameters
from kcdo.distributed import Engine, FindNear, KeepRows, Overview, Sum
from kcdo.errors import InvalidInputError
from kcdo.estimators.chunks import ChunkReader
from kcdo.fitting import (
    Learnt,
    LocalLearning,
    LocationPlan,
    ModelSpec,
    Pilot,
    PilotChoice,
    ResidualPlan,
    StreamedLocation,
    StreamedMixture,
    StreamPlan,
    best_plain,
    pilot_choice,
)
from kcdo.rows import Rows
from kcdo.systems import KeptRows, Nystrom, NystromSums


@dataclass(frozen=True, eq=False)
class ChunkedFit:
    """What a fit to chunks is made from, once all chunks were looked at.

    Parameters
    ----------
    engine : Engine
        What passes over the chunks.
    reader : ChunkReader
        What checks and encodes them.
    overview : Overview
        What was found by looking at all of them.
    pilot : Pilot
        The sample that fixes centres, box and scales.
    spec : ModelSpec
        What the user fixed.
    options : Nystrom
        How many centres, and how they are chosen.
    """

    engine: Engine
    reader: ChunkReader
    overview: Overview
    pilot: Pilot
    spec: ModelSpec
    options: Nystrom

    def by_rule(self) -> tuple[StreamPlan, NystromSums]:
        """Fit the plain density, with what the heuristic rule finds in the sample."""
        return self._plain(self._plan(self.spec, judge_alpha=False))

    def automatic(
        self, rows: Rows, rows_at: str | PathLike[str] | None
    ) -> tuple[StreamPlan, NystromSums, StreamedMixture | None]:
        """Fit what ``rows`` of the sample choose: a mixture, or None where that is plain."""
        choice = pilot_choice(self.spec, rows)
        plan = self._plan(choice.spec, judge_alpha=True)
        if choice.located is None:
            return *self._plain(plan), None
        learnt = self._learnt(LocalLearning(choice, self.pilot, self.options))
        with self._kept(learnt, rows_at) as kept:
            return self._mixture(plan, choice, choice.located, learnt, kept)

    def _plan(self, spec: ModelSpec, *, judge_alpha: bool) -> StreamPlan:
        return StreamPlan.of(spec, self.options, self.pilot, judge_alpha=judge_alpha)

    def _plain(self, plan: StreamPlan) -> tuple[StreamPlan, NystromSums]:
        (sums,) = self._summed("sums", plan)
        return plan, sums

    def _mixture(
        self,
        plain: StreamPlan,
        choice: PilotChoice,
        chosen: LocationScaleParameters,
        learnt: Learnt | None,
        kept: KeptRows | None,
    ) -> tuple[StreamPlan, NystromSums, StreamedMixture]:
        """Add up the plain density and the location, then the residuals, and weigh them."""
        options, pilot, spec = self.options, self.pilot, plain.spec
        parameters, plains = [chosen.location], [plain]
        if learnt is not None and learnt.new:  # all rows say which metric serves better
            parameters.append(learnt.metric.location)
            plains.append(
                self._plan(replace(spec, kernel_x=learnt.metric.kernel), judge_alpha=True)
            )
        locations = [LocationPlan.of(each, options, pilot, spec) for each in parameters]
        found = self._summed("sums", *plains, *locations)
        plain, sums = best_plain(plains, found[: len(plains)])
        several = zip(locations, found[len(plains) :], parameters, strict=True)
        tried = [
            StreamedLocation.of(plan, summed, replace(chosen, location=each), pilot, spec)
            for plan, summed, each in several
        ]
        located = min(tried, key=lambda each: each.loss)
        if learnt is not None and located is not tried[0]:
            located, chosen = located.with_scale(choice, learnt.metric)
        residual = ResidualPlan.of(chosen.residual, located, options, pilot, spec)
        (residual_sums,) = self._summed("sums of residuals", residual)
        near = None if learnt is None or kept is None else (learnt, kept)
        return (
            plain,
            sums,
            StreamedMixture.of(plain, sums, located, residual, residual_sums, near),
        )

    def _learnt(self, learning: LocalLearning) -> Learnt | None:
        """Return scales learnt from near rows among all rows; None where the sample suffices."""
        judges = learning.judges()
        if judges is None:
            return None
        find = FindNear(self.reader, judges)
        metric = learning.first(judges, self.engine.total(find, find.add, "near rows"))
        judges = learning.again(metric)
        find = FindNear(self.reader, judges)
        return learning.last(metric, judges, self.engine.total(find, find.add, "near rows again"))

    @contextmanager
    def _kept(
        self, learnt: Learnt | None, rows_at: str | PathLike[str] | None
    ) -> Iterator[KeptRows | None]:
        """Keep all rows in a folder; a fit that fails deletes them again."""
        wanted = self.spec.combination.wants("nearest")
        if learnt is None or rows_at is None or not wanted:
            yield None
            return
        kept = learnt.kept(str(Path(rows_at).absolute()))
        kept.create()
        facts = self.engine.facts
        facts.kept_nbytes, facts.index_nbytes = kept.nbytes, kept.index_nbytes
        sizes = f"{kept.nbytes / 1e6:.0f} MB, index of at most {kept.index_nbytes / 1e6:.0f} MB"
        try:
            starts = tuple(self.overview.starts)
            keep = KeepRows(self.reader, starts, kept, learnt.metric.kernel)
            yield kept.written(self.engine.total(keep, keep.add, "keeping rows", sizes))
        except BaseException:
            kept.remove()
            raise

    def _summed(self, stage: str, *plans: Any) -> tuple[NystromSums, ...]:
        """Return the sums of plans over all rows."""
        centres = max(plan.empty_sums().cross.shape[0] for plan in plans)
        sizes = f"{centres} centres, {self.overview.n_rows} rows"
        found: tuple[NystromSums, ...] = self.engine.total(
            Sum.of(self.reader, *plans), Sum.add, stage, sizes
        )
        if found[0].n_rows != self.overview.n_rows:
            raise InvalidInputError(
                f"the chunks had {self.overview.n_rows} rows when they were first read, and "
                f"{found[0].n_rows} later: they must stay as they are during a fit."
            )
        return found
