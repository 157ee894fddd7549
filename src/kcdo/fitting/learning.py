"""What a sample of a stream chooses, and what near rows among all rows teach beyond it."""

from dataclasses import dataclass, replace

from kcdo.arrays import Array, Integers
from kcdo.components import (
    KeptNearest,
    LocationScaleParameters,
    NearestParameters,
    Settings,
)
from kcdo.fitting.candidates import first_judges, first_metric, last_judges, last_metrics
from kcdo.fitting.densities import choose_nearest, choose_plain
from kcdo.fitting.location import choose_location_scale
from kcdo.fitting.means import log_noise_bounds, mean_choices, residual_sds
from kcdo.fitting.metric import Metric
from kcdo.fitting.near_rows import NearRowJudges, NearRows, Neighbourhood
from kcdo.fitting.objectives import normal_loss
from kcdo.fitting.pilot import Pilot
from kcdo.fitting.problem import ChosenComponent, Problem, ValidationRows
from kcdo.fitting.races import DensityChoice
from kcdo.fitting.search import lowest_alpha
from kcdo.fitting.spec import ModelSpec
from kcdo.fitting.streaming import output_of_all
from kcdo.kernels import after_warps, metric_coordinates, without_warps
from kcdo.rows import Rows
from kcdo.systems import (
    Exact,
    KeptRows,
    Nystrom,
    WhitenedSums,
)


@dataclass(frozen=True, eq=False)
class PilotChoice:
    """What a pilot sample chooses: the plain density, and location and scale if they are wanted."""

    spec: ModelSpec
    located: LocationScaleParameters | None = None
    problem: Problem | None = None  # of the sample
    metric: Metric | None = None  # of its conditional mean
    plain: DensityChoice | None = None


def pilot_choice(spec: ModelSpec, rows: Rows) -> PilotChoice:
    """Choose all that a sample can choose: everything but noise, α and weights."""
    exact = replace(spec, settings=replace(spec.settings, solver=Exact()), transforms=False)
    # a stream keeps centres, not inputs
    problem = Problem.of(exact, rows, allows_nugget=False)
    if not problem.learns:
        return PilotChoice(spec)
    problem = replace(problem, rows=rows.of_effective_weight())
    means = mean_choices(problem)
    operator = choose_plain(problem, means, residual_sds(means[0], problem))
    output = operator.parameters
    side = output.output
    plain = replace(
        spec, kernel_x=output.kernel, kernel_y=side.kernel.kernel, alpha_prime=side.ridge
    )
    wants = problem.spec.combination.wants
    if not any(map(wants, LocationScaleParameters.names)):
        return PilotChoice(plain)
    parameters = choose_location_scale(problem, means).parameters
    assert isinstance(parameters, LocationScaleParameters)
    return PilotChoice(plain, parameters, problem, means[0], operator.choice)


@dataclass(frozen=True, eq=False)
class LocalLearning:
    """Scales and noise learnt at the density of all rows, in two passes over them."""

    choice: PilotChoice
    pilot: Pilot
    options: Nystrom

    def judges(self) -> NearRowJudges | None:
        """Return the judges of the first pass; None where there is nothing to learn by it."""
        problem, metric = self.choice.problem, self.choice.metric
        if problem is None or metric is None or self.pilot.n_rows <= len(problem.rows):
            return None  # the sample is all there is
        return first_judges(metric, self.pilot, self._settings)

    def first(self, judges: NearRowJudges, near: NearRows) -> Metric:
        """Return the metric in which near rows are found again."""
        hood = Neighbourhood.of(judges, near, self.pilot)
        return first_metric(self._metric, hood, self.pilot, self._settings)

    def again(self, metric: Metric) -> NearRowJudges:
        """Return the judges of the second pass."""
        return last_judges(metric, self.pilot, self._settings)

    def last(self, metric: Metric, judges: NearRowJudges, near: NearRows) -> "Learnt":
        """Return the metric that near rows of all rows teach, with those."""
        assert self.choice.problem is not None
        hood = Neighbourhood.of(judges, near, self.pilot)
        templates = next(
            (each for each in self.choice.problem.templates if metric.template in each),
            [metric.template],
        )
        found = last_metrics(metric, hood, self.pilot, self._settings, templates)
        if len(found) > 1:  # near rows do not say which of them centres far apart follow
            found.sort(key=self._loss_on_centres)
        return Learnt(found[0], hood, self.choice, self.pilot)

    def _loss_on_centres(self, metric: Metric) -> float:
        """Return the held-out loss of a regression of the whole sample on centres."""
        pilot, spec = self.pilot, self.choice.spec
        centres = pilot.centres(metric.kernel, self.options, spec.seed)
        rows = pilot.rows(len(pilot.X))
        whitened = WhitenedSums.of_rows(
            metric.kernel, centres, rows.X, rows.weights, n_jobs=spec.n_jobs
        )
        effort = spec.settings.effort.streamed
        judged, centred = rows.sampled(effort.family_judges, spec.seed), rows.centred()

        def loss(noise: float) -> float:
            return normal_loss(whitened.factor(noise / rows.total), centred, judged)

        return loss(lowest_alpha(loss, log_noise_bounds(0.0), effort.family_noises))

    @property
    def _metric(self) -> Metric:
        assert self.choice.metric is not None
        return self.choice.metric

    @property
    def _settings(self) -> Settings:
        return self.choice.spec.settings


@dataclass(frozen=True, eq=False)
class Learnt:
    """A metric that was learnt from near rows among all rows, and these near rows."""

    metric: Metric
    near: Neighbourhood
    choice: PilotChoice
    pilot: Pilot

    @property
    def new(self) -> bool:
        """Whether the metric is another one than that of the sample."""
        return self.metric is not self.choice.metric

    def kept(self, folder: str) -> KeptRows:
        """Return where all rows are to be kept, to be found in this metric."""
        X, Y = self.pilot.X, self.pilot.Y
        kernel = self.metric.kernel
        inner = metric_coordinates(without_warps(kernel), after_warps(kernel, X[:1]))
        return KeptRows(folder, self.pilot.n_rows, X.shape[1], Y.shape[1], inner.shape[1])

    def nearest(self, judged: Integers, beside: Array) -> ChosenComponent | None:
        """Choose the density of near rows by judged rows, beside other components."""
        problem, plain = self.choice.problem, self.choice.plain
        assert problem is not None
        assert plain is not None
        rows = self.near.rows
        rows = replace(rows, weights=self.unit * rows.weights)
        some = replace(problem, rows=rows)
        start = replace(plain, kernel=self.metric.kernel)
        judges = ValidationRows(judged, beside)
        return choose_nearest(some, start, self.metric, judges)

    def component(
        self, chosen: ChosenComponent, rows: KeptRows
    ) -> tuple[KeptNearest, NearestParameters]:
        """Return the component of all rows, on an output box that holds all of them."""
        parameters, spec, pilot = chosen.parameters, self.choice.spec, self.pilot
        assert isinstance(parameters, NearestParameters)
        side, noise = parameters.output, parameters.alpha * self.unit * self.near.rows.total
        sharp = replace(spec, kernel_y=side.kernel.kernel, alpha_prime=side.ridge)
        output = output_of_all(sharp, pilot)
        total = output.combine(pilot.weights[None], pilot.Y)[0]
        marginal = total / float(total @ output.measure.weights)
        positivity, n_jobs = spec.settings.positivity, spec.n_jobs
        kept = KeptNearest(
            rows, parameters.kernel, noise, self.unit, output, marginal, positivity, n_jobs=n_jobs
        )
        everything = self.unit * pilot.weights.mean() * pilot.n_rows
        return kept, replace(parameters, alpha=noise / everything, output=output)

    @property
    def unit(self) -> float:
        """What weights are multiplied by to sum to the number of equal rows they amount to."""
        weights = self.pilot.weights
        return float(weights.sum() / (weights @ weights))
