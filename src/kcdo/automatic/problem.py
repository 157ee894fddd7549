"""The rows, what the user asked for, and what is chosen of it."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.combination import (
    Combination,
    CombinedOperator,
)
from kcdo.distributions import Positivity
from kcdo.errors import DiscreteOutputWarning
from kcdo.kernels import (
    Kernel,
    Nugget,
    leaves,
    weighted_mean_sd,
)
from kcdo.location import LocationParameters
from kcdo.measures import UniformBox
from kcdo.reconstruction import Reconstruction
from kcdo.selection import Wishes
from kcdo.systems import ExactSystem, Groups, NearestRows, Nystrom, NystromRows, Solver
from kcdo.tuning import (
    BalancedScore,
    Effort,
    LogScore,
    Loss,
    Rows,
    families,
)

RowSystem = ExactSystem | NystromRows
DensitySystem = RowSystem | NearestRows
Kept = TypeVar("Kept")

_FEW_VALUES = 200
_MEMORIES = (0.5, 0.8, 0.95, 0.99, 0.998)  # shares of the ridge that are memory of an input


@dataclass
class Lowest(Generic[Kept]):
    """The candidate of the lowest loss so far; of the others nothing is kept."""

    loss: float = np.inf
    kept: Kept | None = None

    def offer(self, loss: float, candidate: Kept) -> float:
        """Keep the candidate if it is the best or the first; return its loss."""
        if self.kept is None or loss < self.loss or np.isnan(self.loss):
            self.loss, self.kept = loss, candidate
        return loss

    def best(self) -> Kept:
        """Return the candidate that was kept."""
        assert self.kept is not None, "nothing was offered"
        return self.kept


@dataclass(frozen=True, eq=False)
class Side:
    """Parameters of one density operator: input kernel, α, and the whole output side."""

    kernel: Kernel
    alpha: float
    output: Reconstruction


@dataclass(frozen=True, eq=False)
class Chosen:
    """All that was chosen: enough to fit the same model to other rows."""

    plain: Side
    location: LocationParameters | None
    residual: Side | None
    weights: dict[str, float]
    floor: Array
    nearest: Side | None = None


@dataclass(frozen=True, eq=False)
class AutomaticFit:
    """A combined model and what was chosen on the way."""

    operator: CombinedOperator
    system: RowSystem
    importances: Array
    loss: float | None
    chosen: Chosen


@dataclass(frozen=True, eq=False)
class Problem:
    """The rows and what the user asked for."""

    wishes: Wishes
    rows: Rows
    solver: Solver
    combination: Combination
    positivity: Positivity
    floor: Array
    effort: Effort = field(default_factory=Effort)
    remembers: bool = True  # whether kernels may know inputs that come back
    drawn_in: Kernel | None = None  # the input kernel with long tails of inputs drawn in

    @property
    def loss(self) -> Loss:
        """The held-out loss that chooses: log score, and CRPS where it is defined."""
        on_grid = isinstance(self.wishes.reference, UniformBox | None)
        return BalancedScore() if self.rows.Y.shape[1] == 1 and on_grid else LogScore()

    @property
    def exact(self) -> bool:
        """Whether the ridge systems know every input, not some centres alone."""
        return not isinstance(self.solver, Nystrom)

    @property
    def seed(self) -> int:
        """Seed of every subsample."""
        return self.wishes.seed

    def systems(self, kernel: Kernel, rows: Rows) -> Callable[[float], RowSystem]:
        """Return the ridge systems of some rows, as a function of α."""
        n_jobs = self.wishes.n_jobs
        if isinstance(self.solver, Nystrom):
            rng = np.random.default_rng(self.seed)
            m = self.solver.n_centres(len(rows))
            some = rows.X[rng.permutation(len(rows))[: 20 * m]]
            centres = self.solver.choose(kernel, some, m, rng)
            return NystromRows(kernel, centres, rows.X, rows.weights, 1.0, n_jobs=n_jobs).with_alpha
        groups, solver = Groups.of(rows.X, rows.weights), self.solver
        return lambda alpha: ExactSystem(kernel, groups, alpha, solver, n_jobs=n_jobs)

    def nearest_systems(self, kernel: Kernel, rows: Rows) -> Callable[[float], NearestRows]:
        """Return the systems of the rows near a query, as a function of α."""
        near = NearestRows(kernel, rows.X, rows.weights, 1.0, n_jobs=self.wishes.n_jobs)
        return near.with_alpha

    def may_remember(self, rows: Rows) -> bool:
        """Whether inputs come back, so that a kernel may know them from themselves.

        Not if it is to see some of the columns only.
        """
        if not self.remembers or not self.exact or rows.X.dtype == object:
            return False
        p, kernel = rows.X.shape[1], self.wishes.kernel_x
        seen = {column for _, columns in leaves(kernel, range(p)) for column in columns}
        return len(seen) == p and not isinstance(kernel, Nugget) and rows.share_repeated > 0

    @cached_property
    def templates(self) -> list[list[Kernel]]:
        """The kernel families as the user left them open, and with long tails drawn in."""
        kernel = self.wishes.kernel_x
        both = [kernel] if self.drawn_in in (None, kernel) else [kernel, self.drawn_in]
        return [families(each) for each in both]

    def variants(self, template: Kernel) -> list[Kernel]:
        """Return a template, and the one that differs from it in drawing in long tails, if any."""
        places = [each.index(template) for each in self.templates if template in each]
        others = [each[place] for place in places for each in self.templates]
        return [template, *(other for other in others if other != template)]

    @property
    def least_noise(self) -> float:
        """Least noise ratio of a conditional mean: that of the floor of discrete outputs."""
        _, sd = weighted_mean_sd(self.rows.Y, self.rows.weights)
        return float(np.min(self.floor / sd)) ** 2

    def few(self) -> Rows:
        """Return the rows on which scales are learnt."""
        return self.rows.sample(self.effort.rows, self.seed)

    def judges(self, most: int) -> NDArray[np.integer]:
        """Return the rows whose held-out loss judges the fit to all rows: all up to ``most``.

        Of more rows as many as cost little: the loss of few of them is noisy.
        """
        n, effort = len(self.rows), self.effort
        if n <= most:
            return np.arange(n)
        count = max(effort.held_out, min(int(effort.judged_entries / n), most))
        rng = np.random.default_rng(self.seed + 1)
        return np.sort(rng.choice(n, count, replace=False))


def search_memory(
    judge: Callable[[Kernel, float], float], kernel: Kernel, noise: float, least: float
) -> None:
    """Judge ever larger shares of the ridge as memory of the input, while that helps.

    ``noise`` is the ridge of a single row, ``least`` the loss without memory. The diagonal of
    inputs that come once stays; those that come often count for less at other inputs.
    """
    for memory in _MEMORIES:
        own = memory * noise
        loss = judge(Nugget(kernel, own / (1.0 + own)), (1.0 - memory) * noise / (1.0 + own))
        if loss >= least:
            return
        least = loss


def may_combine(wishes: Wishes, positivity: Positivity) -> bool:
    """Whether other forms make sense: not with signed densities, ratios, or a box of the user."""
    return positivity != "signed" and wishes.reference is None


def discrete_floor(Y: Array) -> Array:
    """Return gap/√12 for each output whose values repeat, 0 for the others, (d,).

    The density of a discrete output grows without limit as its kernel narrows; the sd of a value
    rounded to multiples of a gap is where that stops meaning anything. Warns where the output is
    plainly discrete.
    """
    floors = np.zeros(Y.shape[1])
    for i, column in enumerate(Y.T):
        values, counts = np.unique(column, return_counts=True)
        if len(values) < 2 or counts[counts > 1].sum() < 0.5 * len(column):
            continue
        floors[i] = float(np.diff(values).min()) / np.sqrt(12.0)
        if len(values) < _FEW_VALUES and len(values) < 0.1 * len(column):
            warnings.warn(
                f"output {i} has only {len(values)} distinct values: its density is blurred by "
                f"{floors[i]:.3g} (gap/√12), and its log score means little. Compare models by "
                "the CRPS.",
                DiscreteOutputWarning,
                stacklevel=2,
            )
    return floors
