"""Fits that read the data once, in chunks, and keep sums only."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.binning import OutputBins
from kcdo.distributions import Positivity
from kcdo.errors import InvalidInputError
from kcdo.kernels import Gaussian, Kernel, cross_gram, with_median_scales
from kcdo.memory import require_memory
from kcdo.operators import DensityOperator
from kcdo.progress import Progress
from kcdo.reconstruction import Reconstruction
from kcdo.selection import (
    DEFAULT_ALPHA,
    Wishes,
    check_output,
    held_out_residual_sd,
    output_side,
    ridge_value,
)
from kcdo.systems import (
    Exact,
    ExactSystem,
    Groups,
    Nystrom,
    NystromSums,
    NystromSystem,
    effective_size,
    whitened_basis,
)
from kcdo.tuning import LogScore, Scoring, lowest_alpha

Chunk = tuple[NDArray, Array, Array]  # inputs, outputs (N, d), weights

_PILOT_ROWS = 2000
_JUDGES = 500
_ALPHAS_TRIED = 10
_ALPHA_RANGE = (-20.0, 0.0)  # of log α
_ROWS_PER_CENTRE = 20
_EMBEDDED_ELEMENTS = 1 << 23  # rows x nodes embedded at a time where outputs are not binned


@dataclass(frozen=True, eq=False)
class Pilot:
    """What is known of the data before the pass: a subsample, the range of Y and the size."""

    X: NDArray
    Y: Array
    weights: Array
    lower: Array
    upper: Array
    n_rows: int

    @classmethod
    def of_chunks(cls, chunks: Iterator[Chunk], n_pilot: int, seed: int) -> "Pilot":
        """Collect a uniform subsample, the range and the number of rows in one pass."""
        rng = np.random.default_rng(seed)
        kept: list[NDArray] | None = None
        lower, upper, n_rows = np.array(np.inf), np.array(-np.inf), 0
        for X, Y, weights in chunks:
            if not len(X):  # every weight was 0
                continue
            n_rows += len(X)
            lower, upper = np.minimum(lower, Y.min(axis=0)), np.maximum(upper, Y.max(axis=0))
            new = [X, Y, weights, rng.random(len(X))]
            # the rows of the smallest random keys are a uniform subsample
            kept = new if kept is None else [np.concatenate(p) for p in zip(kept, new, strict=True)]
            if len(kept[3]) > n_pilot:
                smallest = np.argpartition(kept[3], n_pilot)[:n_pilot]
                kept = [part[smallest] for part in kept]
        if kept is None or n_rows < 2:
            raise InvalidInputError(f"Found {n_rows} sample(s) in the chunks; 2 are required.")
        order = np.argsort(kept[3])
        X, Y, weights = (part[order] for part in kept[:3])
        return cls(X, Y, weights, lower, upper, n_rows)


@dataclass(frozen=True, eq=False)
class StreamPlan:
    """What a streamed fit fixes before it reads the data: centres, kernels, output grid."""

    kernel: Kernel
    centres: NDArray
    output: Reconstruction
    bins: OutputBins | None
    wishes: Wishes
    chunk_rows: int
    judges: Chunk | None = None  # rows whose held-out loss chooses α; None for the rule

    @classmethod
    def of(
        cls, wishes: Wishes, options: Nystrom, pilot: Pilot, *, judge_alpha: bool = False
    ) -> "StreamPlan":
        """Choose from the pilot sample by the heuristic rule, with the N of all rows."""
        check_output(wishes, pilot.Y)
        kernel = with_median_scales(wishes.kernel_x, pilot.X, pilot.weights, seed=wishes.seed)
        output = _output_side(replace(wishes, kernel_x=kernel), pilot)
        rng = np.random.default_rng(wishes.seed)
        centres = options.choose(kernel, pilot.X, options.n_centres(pilot.n_rows), rng)
        bins = OutputBins.of(output, len(centres))
        few = slice(0, _JUDGES)
        judges = (pilot.X[few], pilot.Y[few], pilot.weights[few]) if judge_alpha else None
        plan = cls(kernel, centres, output, bins, wishes, options.chunk_rows, judges)
        plan.require_memory()
        return plan

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
            cross_gram(self.kernel, X[rows], self.centres, out=section, n_jobs=self.wishes.n_jobs)
            targets = self.output.embed(Y[rows]) if self.bins is None else self.bins.shares(Y[rows])
            sums.add(section, targets, weights[rows])
            if tell is not None:
                tell(len(section))

    def system(self, sums: NystromSums) -> NystromSystem:
        """Return the ridge system of the sums; α follows the number of rows."""
        alpha = ridge_value(
            self.wishes.alpha, DEFAULT_ALPHA, sums.n_effective, self.output.measure.n_nodes
        )
        system = NystromSystem(
            self.kernel, self.centres, self.whitening, sums, alpha, n_jobs=self.wishes.n_jobs
        )
        if self.judges is not None and self.wishes.alpha is None:
            return system.with_alpha(self._judged_alpha(system, sums))
        return system

    def _judged_alpha(self, first: NystromSystem, sums: NystromSums) -> float:
        """Return the α of least held-out log score of the judges, which are among the rows.

        With the prediction f and the leverage h of a row, it is predicted as (f - hb)/(1 - h)
        without itself: no second pass over the data.
        """
        assert self.judges is not None
        X, Y, weights = self.judges
        section = cross_gram(self.kernel, X, self.centres, n_jobs=self.wishes.n_jobs)
        embedded = self.output.embed(Y)
        scoring = Scoring(self.output.measure, Y, weights, self.output.kernel.scales)
        targets = self._embedded_targets(sums)

        def loss(alpha: float) -> float:
            system = first.with_alpha(alpha)
            leverage = system.squared_norms(section)
            leverage = np.minimum(leverage * (1.0 if sums.counts else weights), 1.0 - 1e-9)
            fitted = section @ system.coefficients(targets)
            held_out = (fitted - leverage[:, None] * embedded) / (1.0 - leverage)[:, None]
            return LogScore()(scoring, self.output.reconstruct(held_out))[0]

        return lowest_alpha(loss, _ALPHA_RANGE, _ALPHAS_TRIED)

    def _embedded_targets(self, sums: NystromSums) -> Array:
        """Return the summed embeddings on the nodes, (m, M)."""
        return sums.targets.T if self.bins is None else self.bins.embed(sums.targets)

    @cached_property
    def whitening(self) -> Array:
        """The whitened basis of the centres: the same for all sums."""
        return whitened_basis(self.kernel, self.centres, self.wishes.n_jobs)

    def operator(
        self, system: NystromSystem, sums: NystromSums, positivity: Positivity
    ) -> DensityOperator:
        """Return the model of the sums and their system."""
        targets, marginal = self._embedded_targets(sums), sums.target_totals
        if self.bins is not None:
            marginal = self.bins.embed(marginal[:, None])[0]
        return DensityOperator.streamed(system, self.output, sums, targets, marginal, positivity)


def same_plan(first: StreamPlan, second: StreamPlan) -> bool:
    """Whether sums of two plans may be added."""
    return first is second or (
        first.kernel == second.kernel
        and np.array_equal(first.centres, second.centres)
        and first.n_targets == second.n_targets
        and np.array_equal(first.output.measure.nodes, second.output.measure.nodes)
        and first.output.kernel == second.output.kernel
    )


def pilot_size(options: Nystrom, n_rows: int) -> int:
    """Return how many rows to choose centres and parameters from."""
    return max(_PILOT_ROWS, _ROWS_PER_CENTRE * options.n_centres(n_rows))


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


def _output_side(wishes: Wishes, pilot: Pilot) -> Reconstruction:
    """Return the output side from an exact fit of a few pilot rows, with the N of all rows."""
    share = pilot.n_rows / len(pilot.X)
    groups = Groups.of(pilot.X[:_PILOT_ROWS], pilot.weights[:_PILOT_ROWS])
    Y = pilot.Y[:_PILOT_ROWS]
    kernel_y = wishes.kernel_y or Gaussian()
    spread = None
    if not kernel_y.fitted:
        alpha = ridge_value(wishes.alpha, DEFAULT_ALPHA, groups.n_effective, len(Y))
        system = ExactSystem(wishes.kernel_x, groups, alpha, Exact(), n_jobs=wishes.n_jobs)
        spread = held_out_residual_sd(system, Y, wishes.seed)
    weights = pilot.weights
    n = effective_size(weights) * share
    ranged = np.concatenate([pilot.Y, [pilot.lower, pilot.upper]])  # the box must hold all rows
    return output_side(wishes, ranged, np.append(weights, [1e-9, 1e-9]), spread, n)
