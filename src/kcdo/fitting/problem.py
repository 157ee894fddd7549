"""One fit that chooses: its rows, what the user fixed, and which rows learn and which judge."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from kcdo.arrays import Array, Integers
from kcdo.components import Atoms, Combination, Component, ComponentParameters, Effort
from kcdo.distributions import Batch
from kcdo.fitting.families import families
from kcdo.fitting.losses import BalancedScore, LogScore, Loss
from kcdo.fitting.metric import Metric
from kcdo.fitting.pilot import MOST_REPEAT
from kcdo.fitting.spec import ModelSpec
from kcdo.kernels import (
    Kernel,
    has_metric,
    leaves,
    warped,
    weighted_mean_sd,
    with_median_scales,
)
from kcdo.measures import UniformBox
from kcdo.rows import Rows, sampled
from kcdo.systems import Factorable

Batches = dict[str, Batch]
Unfactored = Callable[[Kernel, Rows], Factorable]

ONLY_PLAIN = Combination(plain=1.0, location_scale=0.0, residual_tail=0.0, marginal_tail=0.0)


@dataclass(frozen=True, eq=False)
class ChosenComponent:
    """A component whose parameters were chosen, fitted to all rows.

    The light ones have fewer output nodes: enough to find weights by.
    """

    parameters: ComponentParameters
    component: Component
    light_parameters: ComponentParameters
    light_component: Component
    loss: float

    @classmethod
    def of(cls, parameters: ComponentParameters, component: Component) -> "ChosenComponent":
        """Return a component that is as light as it can be, and has no loss of its own."""
        return cls(parameters, component, parameters, component, np.nan)


@dataclass(frozen=True, eq=False)
class SoFar:
    """What a fit of a mixture has chosen so far.

    Parameters
    ----------
    means : tuple of Metric
        Kernels and noises of the conditional mean, the best first.
    chosen : tuple of ChosenComponent
        The components, the plain density first.
    judged : array of int, optional
        Places of the rows that weigh them; None before there are weights.
    held_out, weights : dict
        Held-out distributions of these rows, and weights, by name.
    """

    means: tuple[Metric, ...] = ()
    chosen: tuple[ChosenComponent, ...] = ()
    judged: Integers | None = None
    held_out: Batches = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)

    def plus(self, found: Iterable[ChosenComponent]) -> "SoFar":
        """Return what is chosen with more components; a report describes the first of them."""
        every = (*self.chosen, *found)
        ordered = sorted(every, key=lambda each: "plain" not in each.component.names)
        return replace(self, chosen=tuple(ordered))

    def offering(self, name: str) -> ChosenComponent | None:
        """Return the component that offers a distribution of this name, if it was chosen."""
        return next((each for each in self.chosen if name in each.component.names), None)


@dataclass(frozen=True, eq=False)
class Problem:
    """The rows and what the user asked for.

    Parameters
    ----------
    spec : ModelSpec
        What the user fixed.
    rows : Rows
        All rows.
    floor : (d,)
        Least scale of each output, 0 where it is not discrete.
    warped_kernel : Kernel
        The input kernel with long tails of inputs drawn in; the kernel itself where none are long.
    allows_nugget : bool
        Whether kernels may know inputs that come back from themselves.
    metrics : tuple of Metric
        Kernels and noises of the conditional mean, where they have been learnt; the best first.
    line : array of int, optional
        Columns that a linear regression sees; None: there is none.
    """

    spec: ModelSpec
    rows: Rows
    floor: Array
    warped_kernel: Kernel
    allows_nugget: bool = True
    metrics: tuple[Metric, ...] = ()
    line: Integers | None = None

    @classmethod
    def of(cls, spec: ModelSpec, rows: Rows, *, allows_nugget: bool = True) -> "Problem":
        """Look at rows: which outputs are discrete, which inputs have long tails."""
        if not spec.may_combine:
            spec = replace(spec, combination=ONLY_PLAIN)
        floor = discrete_floor(rows.Y)
        return cls(spec, rows, floor, warped(spec.kernel_x, rows.X), allows_nugget)

    @property
    def learns(self) -> bool:
        """Whether there is anything to learn: not from a handful of rows or constant outputs."""
        varies = np.all(np.ptp(self.rows.Y, axis=0) > 0)
        return bool(len(self.rows) >= self.effort.fewest_rows and varies)

    def in_time(self, stage: str) -> bool:
        """Whether there is time for a stage; always, where the user gave weights of components."""
        return bool(self.spec.combination.fixed) or self.spec.progress.deadline.allows(stage)

    @property
    def univariate(self) -> bool:
        """Whether the model is one of one output: with a transform, atoms and smoothed rows.

        Not if the user chose a kernel or a ridge of the output side, in units of the outputs, or
        inputs have no metric, or come back as a rule: neighbours of a row would be its twins, which
        say nothing about new inputs. Atoms count near rows, twins too.
        """
        if not self.open_output or self.rows.X.dtype == object:
            return False
        if self.rows.share_repeated > MOST_REPEAT and not self.has_atoms:
            return False
        return has_metric(with_median_scales(self.spec.kernel_x, self.rows.X[:2]), self.rows.X)

    @property
    def open_output(self) -> bool:
        """Whether there is one output, of which the user chose neither kernel nor ridge."""
        chosen = self.spec.kernel_y is not None or self.spec.alpha_prime is not None
        return self.rows.Y.shape[1] == 1 and self.spec.may_combine and not chosen

    @cached_property
    def has_atoms(self) -> bool:
        """Whether values of the one output come again and again."""
        return self.rows.Y.shape[1] == 1 and Atoms.of(self.rows.Y[:, 0]) is not None

    @property
    def few_per_column(self) -> bool:
        """Whether a search for the scales of all columns would fit chance."""
        if not self.metrics:
            return False
        return len(self.rows) < self.effort.crossed_per_column * self.rows.X.shape[1]

    @property
    def effort(self) -> Effort:
        """How much work the searches may do."""
        return self.spec.settings.effort

    @property
    def loss(self) -> Loss:
        """The held-out loss that chooses: log score, and CRPS where it is defined."""
        on_grid = isinstance(self.spec.reference, UniformBox | None)
        return BalancedScore() if self.rows.Y.shape[1] == 1 and on_grid else LogScore()

    @property
    def every_input(self) -> bool:
        """Whether the ridge systems know every input, not some centres alone."""
        return self.spec.settings.solver.every_input

    @property
    def densities_on_centres(self) -> bool:
        """Whether densities take centres: smoothed rows know the others, in a learnt metric."""
        many = len(self.rows) > self.effort.exact_density_rows
        return bool(self.metrics) and many and self.spec.settings.solver_is_open

    def unfactored(self, kernel: Kernel, rows: Rows) -> Factorable:
        """Return rows with an input kernel, to be factored for any α."""
        return self.spec.settings.unfactored(kernel, rows)

    def unfactored_for_density(self, kernel: Kernel, rows: Rows) -> Factorable:
        """Return rows of a density with an input kernel, to be factored for any α."""
        settings = self.spec.settings
        if self.densities_on_centres:
            settings = settings.on_centres()
        return settings.unfactored(kernel, rows)

    def may_have_nugget(self, rows: Rows) -> bool:
        """Whether inputs come back, so that a kernel may know them from themselves.

        Not if it is to see some of the columns only.
        """
        if not self.allows_nugget or not self.every_input or rows.X.dtype == object:
            return False
        p, kernel = rows.X.shape[1], self.spec.kernel_x
        seen = {column for _, columns in leaves(kernel, range(p)) for column in columns}
        return len(seen) == p and not kernel.has_nugget and rows.share_repeated > 0

    @cached_property
    def templates(self) -> list[list[Kernel]]:
        """The kernel families as the user left them open, and with long tails drawn in."""
        kernel = self.spec.kernel_x
        both = [kernel] if self.warped_kernel == kernel else [kernel, self.warped_kernel]
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

    def learning_rows(self) -> Rows:
        """Return the rows on which scales are learnt."""
        return self.rows.sample(self.effort.rows, self.spec.seed)

    def judged_rows(self, most: int) -> Integers:
        """Return the rows whose held-out loss judges the fit to all rows: all up to ``most``.

        Of more rows as many as cost little: the loss of few of them is noisy.
        """
        n, effort = len(self.rows), self.effort
        if n <= most:
            return np.arange(n)
        least = min(effort.held_out, max(effort.fewest_judged, int(effort.most_judged_entries / n)))
        count = max(least, min(int(effort.judged_entries / n), most))
        return sampled(n, count, self.spec.seed + 1)


@dataclass(frozen=True, eq=False)
class ValidationRows:
    """Rows by whose held-out loss a fit to all rows is judged.

    ``beside`` (n,) are the held-out densities of the other components at the outputs of these rows,
    where a component is judged in a mixture with them.
    """

    rows: Integers
    beside: Array | None = None


def discrete_floor(Y: Array) -> Array:
    """Return gap/√12 for each output whose values repeat, 0 for the others, (d,).

    The density of a discrete output grows without limit as its kernel narrows; the sd of a value
    rounded to multiples of a gap is where that stops meaning anything.
    """
    floors = np.zeros(Y.shape[1])
    for i, column in enumerate(Y.T):
        values, counts = np.unique(column, return_counts=True)
        if len(values) < 2 or counts[counts > 1].sum() < 0.5 * len(column):
            continue
        floors[i] = float(np.diff(values).min()) / np.sqrt(12.0)
    return floors
