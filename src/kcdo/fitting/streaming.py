"""Fits that read the data once, in chunks, and keep sums only."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.components import DensityOperator
from kcdo.consistency import kernel_fits, need, shape
from kcdo.errors import InvalidInputError, SupportWarning
from kcdo.fitting.binning import OutputBins
from kcdo.fitting.losses import LogScore, Scoring
from kcdo.fitting.output_side import DEFAULT_ALPHA, check_output, output_side, ridge_value
from kcdo.fitting.pilot import Chunk, Pilot
from kcdo.fitting.rules import held_out_residual_sd
from kcdo.fitting.search import lowest_alpha
from kcdo.fitting.spec import ModelSpec
from kcdo.kernels import Gaussian, Kernel, cross_gram, with_median_scales
from kcdo.memory import require_memory
from kcdo.progress import Progress
from kcdo.reconstruction import Reconstruction
from kcdo.systems import (
    Condensed,
    ExactRows,
    Groups,
    Nystrom,
    NystromSums,
    NystromSystem,
    WhitenedSums,
    effective_size,
    whitened_basis,
)

_FAR, _FEW_FAR = 0.01, 0.05  # of k(x, x) to the nearest centre; of the rows
_ALPHA_RANGE = (-20.0, 0.0)  # of log α
_EMBEDDED_ELEMENTS = 1 << 23  # rows x nodes embedded at a time where outputs are not binned


@dataclass(frozen=True, eq=False)
class StreamPlan:
    """What a streamed fit fixes before it reads the data: centres, kernels, output grid."""

    kernel: Kernel
    centres: NDArray
    output: Reconstruction
    bins: OutputBins | None
    spec: ModelSpec
    chunk_rows: int
    judges: Chunk | None = None  # rows whose held-out loss chooses α; None for the rule

    def __post_init__(self) -> None:
        kernel_fits(self.kernel, self.centres)
        need(self.chunk_rows >= 1, "chunks without rows")
        need(self.bins is None or self.bins.output is self.output, "bins of another output side")
        if self.judges is not None:
            X, Y, weights = self.judges
            shape(X, len(X), *self.centres.shape[1:])
            shape(Y, len(X), self.output.measure.dim)
            shape(weights, len(X))

    @classmethod
    def of(
        cls, spec: ModelSpec, options: Nystrom, pilot: Pilot, *, judge_alpha: bool = False
    ) -> "StreamPlan":
        """Choose from the pilot sample by the heuristic rule, with the N of all rows."""
        check_output(spec, pilot.Y)
        kernel = with_median_scales(spec.kernel_x, pilot.X, pilot.weights, seed=spec.seed)
        output = output_of_all(replace(spec, kernel_x=kernel), pilot)
        centres = pilot.centres(kernel, options, spec.seed)
        effort = spec.settings.effort.streamed
        bins = OutputBins.of(output, len(centres), effort.bins_per_scale)
        few = slice(0, effort.alpha_judges)
        judges = (pilot.X[few], pilot.Y[few], pilot.weights[few]) if judge_alpha else None
        plan = cls(kernel, centres, output, bins, spec, options.chunk_rows, judges)
        plan.require_memory()
        return plan

    def alone(self) -> "StreamPlan":
        """Return the plan for one of several tasks: it computes on one thread."""
        settings = replace(self.spec.settings, n_jobs=1)
        return replace(self, spec=replace(self.spec, settings=settings))

    @property
    def n_targets(self) -> int:
        """Columns of the summed targets: bins, or nodes where binning does not pay."""
        return self.bins.n_bins if self.bins is not None else self.output.measure.n_nodes

    @property
    def step(self) -> int:
        """Rows added at a time: ``chunk_rows``, fewer where each is embedded on many nodes."""
        if self.bins is not None:
            return self.chunk_rows
        return max(1, min(self.chunk_rows, _EMBEDDED_ELEMENTS // self.n_targets))

    def require_memory(self) -> None:
        """Refuse a plan whose sums and model do not fit, with the numbers."""
        m, n_nodes = len(self.centres), self.output.measure.n_nodes
        require_memory(
            8.0 * (m * self.n_targets + 3 * m * n_nodes + 4 * m * m + m * self.chunk_rows),
            f"a streamed fit of {m} centres on {n_nodes} output nodes",
            "use fewer centres or nodes, or solver=kcdo.Exact() for few rows, which keeps weights "
            "instead of one (centres x nodes) matrix.",
        )

    def warn_far(self, X: NDArray) -> None:
        """Warn where a visible share of further inputs is far from all centres."""
        looked_at = self.spec.settings.effort.streamed.looked_at
        some = X[:: max(1, -(-len(X) // looked_at))]
        near = np.abs(cross_gram(self.kernel, some, self.centres)).max(axis=1)
        far = np.sum(near < _FAR * self.kernel.diag(some)) / max(len(some), 1)
        if far > _FEW_FAR:
            warnings.warn(
                f"about {100 * far:.0f} % of these inputs are far from all centres, which the "
                "first call of partial_fit chose: what the model says there does not follow the "
                "rows. Begin with rows from everywhere.",
                SupportWarning,
                stacklevel=4,  # partial_fit hands rows on to add_rows, and that to this plan
            )

    def empty_sums(self) -> NystromSums:
        """Return sums over no rows."""
        return NystromSums.empty(len(self.centres), self.n_targets)

    def add(
        self,
        sums: NystromSums,
        chunk: Chunk,
        tell: Callable[[int], None] | None = None,
    ) -> None:
        """Add rows to the sums, a few at a time: never an (N, m) or (N, M) array."""
        X, Y, weights = chunk
        step = self.step
        buffer = np.empty((min(step, len(X)), len(self.centres)))
        for start in range(0, len(X), step):
            rows = slice(start, start + step)
            section = buffer[: len(X[rows])]
            cross_gram(self.kernel, X[rows], self.centres, out=section, n_jobs=self.spec.n_jobs)
            targets = self.output.embed(Y[rows]) if self.bins is None else self.bins.shares(Y[rows])
            sums.add(section, targets, weights[rows])
            if tell is not None:
                tell(len(section))

    def system(self, sums: NystromSums) -> NystromSystem:
        """Return the ridge system of the sums; α follows the number of rows, or is judged."""
        if sums.n_effective == 0:
            raise InvalidInputError("every row so far has the weight 0: there is nothing to fit.")
        whitened = WhitenedSums.of(
            self.kernel, self.centres, self.whitening, sums, n_jobs=self.spec.n_jobs
        )
        if self.judges is not None and self.spec.alpha is None:
            loss = self._judged(whitened, sums)
            tried = self.spec.settings.effort.streamed.alphas
            return whitened.factor(lowest_alpha(loss, _ALPHA_RANGE, tried))
        n_nodes = self.output.measure.n_nodes
        alpha = ridge_value(self.spec.alpha, DEFAULT_ALPHA, sums.n_effective, n_nodes)
        return whitened.factor(alpha)

    def judged_loss(self, system: NystromSystem, sums: NystromSums) -> float:
        """Return the held-out log score of the judges at the α of a system."""
        return self._judged(system.sums, sums)(system.alpha)

    def _judged(self, whitened: WhitenedSums, sums: NystromSums) -> Callable[[float], float]:
        """Return the held-out log score of the judges, which are among the rows, by α."""
        assert self.judges is not None
        X, Y, weights = self.judges
        embedded = self.output.embed(Y)
        scoring = Scoring(self.output.measure, Y, weights, self.output.kernel.scales)
        targets = self.embedded_targets(sums)

        def loss(alpha: float) -> float:
            held_out = whitened.factor(alpha).held_out_at(X, weights, embedded, targets)
            return LogScore()(scoring, self.output.reconstruct(held_out))[0]

        return loss

    def embedded_targets(self, sums: NystromSums) -> Array:
        """Return the summed embeddings on the nodes, (m, M)."""
        return sums.targets.T if self.bins is None else self.bins.embed(sums.targets)

    @cached_property
    def whitening(self) -> Array:
        """The whitened basis of the centres: the same for all sums."""
        return whitened_basis(self.kernel, self.centres, self.spec.n_jobs)

    def operator(self, system: NystromSystem, sums: NystromSums) -> DensityOperator:
        """Return the model of the sums and their system."""
        targets, total = self.embedded_targets(sums), sums.target_totals
        if self.bins is not None:
            total = self.bins.embed(total[:, None])[0]
        condensed = Condensed(targets, sums.ones, total)
        positivity = self.spec.settings.positivity
        return DensityOperator.of_condensed(system, self.output, condensed, positivity)


def best_plain(
    plans: list[StreamPlan], sums: tuple[NystromSums, ...]
) -> tuple[StreamPlan, NystromSums]:
    """Return the plan whose model foretells its judges best, and its sums."""
    if len(plans) == 1:
        return plans[0], sums[0]
    pairs = list(zip(plans, sums, strict=True))
    return min(pairs, key=lambda pair: pair[0].judged_loss(pair[0].system(pair[1]), pair[1]))


def same_plan(first: StreamPlan, second: StreamPlan) -> bool:
    """Whether sums of two plans may be added."""
    return first is second or (
        first.kernel == second.kernel
        and np.array_equal(first.centres, second.centres)
        and first.n_targets == second.n_targets
        and np.array_equal(first.output.measure.nodes, second.output.measure.nodes)
        and first.output.kernel == second.output.kernel
    )


def stream(
    plan: StreamPlan, chunks: Iterator[Chunk], n_rows: int, progress: Progress
) -> NystromSums:
    """Return the sums over all chunks."""
    sums = plan.empty_sums()
    done = 0

    def tell(rows: int) -> None:
        nonlocal done
        done += rows
        progress.update(done, n_rows)

    with progress.stage(f"Nyström, {len(plan.centres)} centres, {n_rows} rows"):
        for chunk in chunks:
            plan.add(sums, chunk, tell)
    return sums


def output_of_all(spec: ModelSpec, pilot: Pilot) -> Reconstruction:
    """Return the output side from an exact fit of a few pilot rows, with the N of all rows."""
    share = pilot.n_rows / len(pilot.X)
    some = pilot.rows(spec.settings.effort.streamed.side_rows)
    groups, Y = Groups.of(some.X, some.weights), some.Y
    kernel_y = spec.kernel_y or Gaussian()
    spread = None
    if not kernel_y.fitted:
        alpha = ridge_value(spec.alpha, DEFAULT_ALPHA, groups.n_effective, len(Y))
        system = ExactRows(spec.kernel_x, groups, n_jobs=spec.n_jobs).factor(alpha)
        spread = held_out_residual_sd(system, Y, spec)
    weights = pilot.weights
    n = effective_size(weights) * share
    ranged = np.concatenate([pilot.Y, [pilot.lower, pilot.upper]])  # the box must hold all rows
    return output_side(spec, ranged, np.append(weights, [1e-9, 1e-9]), spread, n)
