"""``selection="auto"``: mean, location and scale, plain density, near rows, weights."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from kcdo.components import (
    ChainModel,
    ChainModelParameters,
    Mixture,
    ModelParameters,
    Univariate,
    UnivariateParameters,
)
from kcdo.errors import InvalidInputError
from kcdo.fitting.densities import nearest_rows, plain_density
from kcdo.fitting.folds import fit_by_folds
from kcdo.fitting.linear import linear_regression
from kcdo.fitting.location import location_and_scale
from kcdo.fitting.means import mean_choices
from kcdo.fitting.output_side import check_output
from kcdo.fitting.problem import ChosenComponent, Problem, SoFar
from kcdo.fitting.smoothed import smoothed_rows
from kcdo.fitting.spec import ModelSpec
from kcdo.fitting.tails import fit_heuristic, marginal_tail
from kcdo.fitting.univariate import fit_seen_through, fit_univariate
from kcdo.fitting.weighing import InnerFit, gate_of, judgement, mixture_of, weighed
from kcdo.rows import Rows, outliers_drawn_in
from kcdo.systems import System

Chooser = Callable[[Problem, SoFar], list[ChosenComponent]]

# The components of a mixture: one more is one more line. Each chooser sees what the ones before it
# chose, and returns nothing where its component is not wanted or not worth its time.
CHOOSERS: tuple[Chooser, ...] = (
    location_and_scale,
    plain_density,
    smoothed_rows,
    linear_regression,
    marginal_tail,
)
CHOOSERS_BESIDE: tuple[Chooser, ...] = (nearest_rows,)  # judged beside the others and their weights


@dataclass(frozen=True, eq=False)
class AutomaticFit:
    """A model and what was chosen on the way."""

    model: Mixture | Univariate | ChainModel
    parameters: ModelParameters | UnivariateParameters | ChainModelParameters
    loss: float | None

    @property
    def system(self) -> System:
        """The ridge system of the plain density, which a report describes."""
        training = self.model.primary.training
        assert training is not None
        return training.system


def automatic_fit(spec: ModelSpec, rows: Rows) -> AutomaticFit:
    """Choose everything that is open and fit the model.

    Of a handful of rows, or of outputs that do not vary, nothing can be learnt: the heuristic
    rule then fits the plain density. So it does when the time is over; each stage looks at it.
    """
    check_output(spec, rows.Y)
    problem = replace(Problem.of(spec, rows), rows=rows.of_effective_weight())
    if not problem.learns or not problem.in_time("every search"):
        return _told(fit_heuristic(problem))
    if problem.univariate and rows.kin is None:
        return AutomaticFit(*fit_univariate(problem, _fit_mixture))
    fit_mixture = _fit_mixture if rows.kin is None else fit_by_folds
    if problem.open_output and not problem.has_atoms:
        return AutomaticFit(*fit_seen_through(problem, fit_mixture))
    problem = replace(problem, rows=outliers_drawn_in(problem.rows))
    return _told(fit_mixture(problem), draws_in_outliers=True)


def _told(fitted: InnerFit, *, draws_in_outliers: bool = False) -> AutomaticFit:
    """Return a mixture with the loss that held-out rows tell, if any were held out."""
    model, parameters, judged = fitted
    parameters = replace(parameters, draws_in_outliers=draws_in_outliers)
    return AutomaticFit(model, parameters, None if judged is None else judged.loss())


def _fit_mixture(problem: Problem) -> InnerFit:
    """Choose and fit the components one after the other, then their weights."""
    stage = problem.spec.progress.stage
    if not problem.learns or not problem.in_time("a mixture of components"):
        return fit_heuristic(problem)
    with stage("conditional mean"):
        so_far = SoFar(tuple(mean_choices(problem)))
    for choose in CHOOSERS:
        so_far = so_far.plus(choose(problem, so_far))
    with stage("weights"):
        so_far = weighed(problem, so_far)
    for choose in CHOOSERS_BESIDE:
        found = choose(problem, so_far)
        so_far = weighed(problem, so_far.plus(found)) if found else so_far
    if not so_far.weights:
        raise InvalidInputError(
            "Combination: all weight is on the nearest rows, which are a component for more than "
            f"{problem.effort.weighed_rows} rows on Nyström centres, with kernels of scaled "
            "columns."
        )
    gate = gate_of(problem, so_far)
    return mixture_of(so_far, gate, judgement(problem, so_far, gate))
