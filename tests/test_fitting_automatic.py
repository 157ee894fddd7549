"""How an automatic fit goes about many rows: few learn, some judge, none foretells itself."""

from dataclasses import replace

import numpy as np
import pytest

import kcdo
from kcdo.components import Combination, Effort, LocationScale, MarginalTail, Settings
from kcdo.errors import InvalidInputError
from kcdo.fitting import ModelSpec, automatic_fit
from kcdo.fitting.densities import (
    choose_nearest,
    choose_plain,
    plain_component,
    rival_densities,
)
from kcdo.fitting.location import choose_location_scale
from kcdo.fitting.means import mean_choices, residual_sds
from kcdo.fitting.problem import ONLY_PLAIN, Problem, ValidationRows
from kcdo.fitting.weighing import held_out_of
from kcdo.rows import Rows
from kcdo.systems import Exact, Nystrom
from tests.efforts import SHORT


def rows_of(n, d=1, seed=2):
    """y = 2 sin x₀ + noise that doubles for x₀ > 0; x₁ does not matter."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    y = 2 * np.sin(X[:, 0]) + np.where(X[:, 0] > 0, 0.4, 0.2) * rng.standard_normal(n)
    return Rows(X, np.column_stack([y, X[:, 0] + 0.3 * y])[:, :d], np.ones(n))


def problem_of(n, solver=None, effort=SHORT, d=1, **options):
    settings = Settings(solver=solver or Exact(), effort=effort)
    spec = ModelSpec(kcdo.Matern(smoothness=1.5), settings=settings, **options)
    return Problem.of(spec, rows_of(n, d))


def chosen_plain(problem, **options):
    means = mean_choices(problem)
    return choose_plain(problem, means, residual_sds(means[0], problem), **options)


MANY = replace(SHORT, race_rows=30, rows=40, last_rows=50, held_out=30, judged_entries=0.0)
EACH_SOLVER = pytest.mark.parametrize("solver", [Exact(), Nystrom(60)], ids=["exact", "nystrom"])


def test_few_rows_learn_and_some_judge():
    problem = problem_of(120, effort=MANY)
    assert len(problem.learning_rows()) == 40
    judged = problem.judged_rows(100)
    assert len(judged) == len(set(judged)) == 30
    np.testing.assert_array_equal(judged, problem.judged_rows(100))
    np.testing.assert_array_equal(problem.judged_rows(120), np.arange(120))
    cheap = problem_of(120, effort=replace(MANY, judged_entries=7200.0))
    assert len(cheap.judged_rows(100)) == 60  # times 120 rows
    assert len(cheap.judged_rows(50)) == 50


@EACH_SOLVER
def test_what_few_rows_learn_foretells_the_others(solver):
    problem = problem_of(120, solver, replace(MANY, race_steps=5, steps=5))
    judged = problem.judged_rows(100)
    means = mean_choices(problem)
    plain = choose_plain(problem, means, residual_sds(means[0], problem))
    located = choose_location_scale(problem, means)
    assert len(plain.operator.training.Y) == 120
    held_out = held_out_of(problem, [plain_component(plain), located], judged)
    Y = problem.rows.Y[judged]
    assert set(held_out) == {"plain", "location_scale", "residual_tail", "normal"}
    for batch in held_out.values():
        assert len(batch) == 30
        assert np.mean(batch.logpdf_pairs(Y)) > -1.2
    location, _ = located.component.map(problem.rows.X)
    assert np.abs(location[:, 0] - 2 * np.sin(problem.rows.X[:, 0])).mean() < 0.2
    rival = rival_densities(problem, located)
    assert rival.shape == (30,)
    assert np.all(rival > 0)


def test_a_plain_density_that_adds_nothing_is_not_refined(monkeypatch):
    problem = problem_of(120, effort=replace(MANY, last_rows=60, race_steps=6, factorisations=4))
    made = []
    unfactored = Problem.unfactored_for_density

    class Counted:
        def __init__(self, rows):
            self.rows = rows

        def factor(self, alpha):
            made.append(alpha)
            return self.rows.factor(alpha)

    monkeypatch.setattr(
        Problem,
        "unfactored_for_density",
        lambda self, kernel, rows: Counted(unfactored(self, kernel, rows)),
    )
    early = chosen_plain(problem, rival=np.full(30, 1e3))
    assert early.choice.dispensable
    assert len(made) == 1  # α is scaled to all rows and judged once
    assert made[0] < 0.5  # from 30 rows to 120
    made.clear()
    refined = chosen_plain(problem, rival=np.full(30, 1e-9))
    assert not refined.choice.dispensable
    assert len(made) > 1
    assert np.isfinite(early.operator.batch(problem.rows.X).masses).all()


def test_weights_are_found_on_fewer_nodes():
    problem = problem_of(40, effort=replace(SHORT, many_nodes=600), d=2)
    plain = chosen_plain(problem)
    full, light = (each.output.measure for each in (plain.operator, plain.light_operator))
    assert full.n_nodes > 600 > light.n_nodes
    assert plain.parameters.output.measure is full
    assert plain.light_parameters.output.measure is light
    judged = np.array([4, 17, 29])
    found, expected = (
        each.held_out(judged).pdf_pairs(problem.rows.Y[judged])
        for each in (plain.light_operator, plain.operator)
    )
    np.testing.assert_allclose(found, expected, rtol=0.2)
    line = chosen_plain(problem_of(40))
    assert line.light_operator is line.operator


def test_folds_hold_out_every_row_once():
    """K-fold densities of a row do not know its output: changing it changes nothing."""
    problem = problem_of(30, effort=replace(SHORT, many_folds=5))
    means = mean_choices(problem)
    plain = choose_plain(problem, means, residual_sds(means[0], problem))
    chosen, every = [plain_component(plain), choose_location_scale(problem, means)], np.arange(30)
    first = held_out_of(problem, chosen, every)
    outputs = problem.rows.Y.copy()
    outputs[11] += 3.0
    moved = replace(problem, rows=problem.rows.with_outputs(outputs))
    second = held_out_of(moved, chosen, every)
    y = np.linspace(-3, 3, 30)[:, None]
    for name, batch in first.items():
        difference = np.abs(batch.pdf(y) - second[name].pdf(y)).max(axis=1)
        assert difference[11] < 1e-12
        assert difference.max() > 1e-3


def test_near_rows_are_chosen_beside_the_others():
    problem = problem_of(120, Nystrom(20), MANY)
    means = mean_choices(problem)
    plain = choose_plain(problem, means, residual_sds(means[0], problem))
    judged = problem.judged_rows(100)
    losses = [
        choose_nearest(problem, plain.choice, means[0], ValidationRows(judged, beside)).loss
        for beside in (None, np.full(30, 1e-3), np.full(30, 1e3))
    ]
    assert losses[2] < losses[1] < losses[0] + 1.0  # beside one that knows, little is lost
    objects = replace(problem, rows=replace(problem.rows, X=problem.rows.X.astype(object)))
    assert choose_nearest(objects, plain.choice, means[0], ValidationRows(judged)) is None


def test_the_fit_is_a_function_of_rows_and_a_spec():
    spec = ModelSpec(kcdo.Gaussian(), settings=Settings(effort=SHORT))
    fit = automatic_fit(spec, rows_of(30))
    plain, located, _ = fit.parameters.components
    assert fit.parameters.weights == fit.model.weights
    assert plain.alpha == fit.system.alpha
    np.testing.assert_array_equal(located.floor, [0.0])
    again = fit.parameters.fit(rows_of(30), spec.settings)
    y = np.linspace(-3, 3, 9)[:, None]
    np.testing.assert_allclose(
        again.batch(rows_of(9, seed=3).X).pdf(y), fit.model.batch(rows_of(9, seed=3).X).pdf(y)
    )


@pytest.mark.parametrize(
    ("combination", "located", "tail"),
    [
        (Combination(), True, False),
        (Combination(residual_tail=0.0), True, True),
        (Combination(marginal_tail=0.1), True, True),
        (Combination(location_scale=0.0, residual_tail=0.0), False, True),
        (ONLY_PLAIN, False, True),
    ],
)
def test_only_what_is_wanted_is_fitted(combination, located, tail):
    spec = ModelSpec(kcdo.Gaussian(1.0), settings=Settings(effort=SHORT), combination=combination)
    kinds = {type(part) for part in automatic_fit(spec, rows_of(30)).model.components}
    assert (LocationScale in kinds) == located
    assert (MarginalTail in kinds) == tail


def test_a_mixture_of_near_rows_alone_needs_many_rows():
    alone = Combination(0, 0, 0, 0, nearest=1.0)
    settings = Settings(solver=Nystrom(10), effort=replace(SHORT, weighed_rows=77))
    spec = ModelSpec(kcdo.Gaussian(1.0), settings=settings, combination=alone)
    with pytest.raises(InvalidInputError, match="a component for more than 77 rows on Nyström"):
        automatic_fit(spec, rows_of(40))


@pytest.mark.parametrize("solver", [Exact(), Nystrom(4)], ids=["exact", "nystrom"])
def test_a_handful_of_rows_is_fitted_exactly_by_the_rule(solver):
    settings = Settings(solver=solver, effort=SHORT)
    fit = automatic_fit(ModelSpec(kcdo.Gaussian(), settings=settings), rows_of(9))
    assert fit.loss is None
    assert fit.system.describe().method == "exact"
    assert fit.model.weights == pytest.approx({"plain": 9 / 17, "marginal_tail": 8 / 17})


def test_a_fit_may_do_less_work():
    """Every count of steps is in one object: with fewer of them a fit asks fewer times."""
    assert SHORT.steps < Effort().steps
    means = [mean_choices(problem_of(60, effort=effort)) for effort in (SHORT, Effort())]
    assert means[0][0].loss > means[1][0].loss


def test_a_refit_of_a_handful_of_weighted_rows_is_the_fit():
    X, y, weights = np.array([[0.1], [1.3]]), np.array([0.3, 0.1]), np.array([1.0, 2.0])
    model = kcdo.ConditionalDensityOperator().fit(X, y, weights)
    again = model.refit(X, y, weights)
    places = np.array([0.0, 0.2])
    np.testing.assert_allclose(model.conditional(X).pdf(places), again.conditional(X).pdf(places))


def test_a_refit_of_weighted_rows_with_atoms_is_the_fit(short_searches, rng):
    X, weights = rng.normal(size=(60, 1)), rng.integers(1, 4, 60)
    y = rng.gamma(1.0, 1.0, 60) * (rng.random(60) < 0.6)
    model = kcdo.ConditionalDensityOperator(support=(0, None)).fit(X, y, weights)
    again = model.refit(X, y, weights)
    found, expected = (each.conditional(X[:5]).quantile([0.5, 0.9]) for each in (again, model))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("n", "expected"), [(1000, 500), (10_000, 500), (200_000, 500), (10**6, 125), (2 * 10**6, 100)]
)
def test_held_out_rows_of_a_million_fit_into_memory(n, expected):
    rows = Rows(np.zeros((n, 1)), np.zeros((n, 1)), np.ones(n))
    judged = replace(problem_of(20, effort=Effort()), rows=rows).judged_rows(500)
    assert len(judged) == expected
