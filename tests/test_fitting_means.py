"""The search for a conditional mean: its likelihood by plain algebra, known truths, families."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcdo.components import Effort
from kcdo.fitting.families import FAMILIES, families
from kcdo.fitting.means import search_mean
from kcdo.fitting.objectives import MarginalLikelihood
from kcdo.kernels import (
    Adapter,
    Automatic,
    Categorical,
    FreeScales,
    Gaussian,
    Laplace,
    Matern,
    Periodic,
)
from kcdo.rows import Rows
from kcdo.systems import ExactRows, Groups
from tests.differences import assert_gradient

FREE = FreeScales(Matern(smoothness=2.5), 2)
THETAS = [np.array([0.0, 0.3, -2.0]), np.array([-0.5, 1.0, -4.0]), np.array([0.7, -0.2, 0.5])]


def repeated_rows(seed=0, d=2):
    """Twelve rows on eight inputs, centred outputs."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(12, 2))
    X[[3, 7]] = X[0]
    X[9:11] = X[5]
    Y = np.sin(X[:, :1] + np.arange(d)) + 0.3 * rng.normal(size=(12, d))
    return X, Y - Y.mean(axis=0)


# --- marginal likelihood


def plain_likelihood(theta, X, Y):
    """-log p(Y | X) / (N d) with the signal variance at its best, from the N x N system."""
    n = len(Y)
    C = FREE.kernel(theta[:-1])(X) + np.exp(theta[-1]) * np.eye(n)
    variance = np.sum(Y * np.linalg.solve(C, Y), axis=0) / n
    return 0.5 * np.mean(np.log(variance)) + 0.5 * np.linalg.slogdet(C)[1] / n


def test_without_repeats_it_is_the_plain_formula():
    X, Y = repeated_rows()
    X = X + 0.1 * np.arange(12)[:, None]
    likelihood = MarginalLikelihood(FREE, Groups.of(X), Y)
    for theta in THETAS:
        assert likelihood(theta)[0] == pytest.approx(plain_likelihood(theta, X, Y), abs=1e-7)


def test_with_repeats_it_differs_by_a_constant():
    """The determinant of the group means lacks Σ log n_u, whatever the parameters."""
    X, Y = repeated_rows()
    groups = Groups.of(X)
    likelihood = MarginalLikelihood(FREE, groups, Y)
    constant = 0.5 * np.log(groups.totals).sum() / len(X)
    for theta in THETAS:
        expected = plain_likelihood(theta, X, Y)
        assert likelihood(theta)[0] + constant == pytest.approx(expected, abs=1e-6)


def test_counts_are_repeats():
    X, Y = repeated_rows()
    times = np.random.default_rng(1).integers(1, 4, 12)
    counted = MarginalLikelihood(FREE, Groups.of(X, times.astype(float)), Y)
    copied = MarginalLikelihood(
        FREE, Groups.of(np.repeat(X, times, axis=0)), np.repeat(Y, times, axis=0)
    )
    for theta in THETAS:
        assert counted(theta)[0] == pytest.approx(copied(theta)[0], rel=1e-10)
        np.testing.assert_allclose(counted(theta)[1], copied(theta)[1], rtol=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("template", [*FAMILIES, Matern().on([0]) * Periodic(9.0).on([1])])
@settings(max_examples=3)
@given(seed=st.integers(0, 2**32 - 1))
def test_its_gradient_by_differences(weighted, template, seed):
    rng = np.random.default_rng(seed)
    X, Y = repeated_rows(seed)
    weights = rng.uniform(0.5, 2.0, 12) if weighted else np.ones(12)
    likelihood = MarginalLikelihood(FreeScales(template, 2), Groups.of(X, weights), Y)
    assert_gradient(likelihood, rng.normal([0.0, 0.0, -1.5], 0.4))


def test_an_indefinite_kernel_is_refused_not_raised():
    X, Y = repeated_rows()
    free = FreeScales(Adapter(lambda a, b: -(a @ b.T)), 2)
    value, gradient = MarginalLikelihood(free, Groups.of(X), Y)(np.array([-9.0]))
    assert value >= 1e5
    np.testing.assert_array_equal(gradient, [0.0])


# --- what the search finds


def test_families_of_the_automatic_kernel():
    assert families(Automatic()) == list(FAMILIES)
    mixed = families(Automatic().on([0, 1]) * Categorical().on([2]))
    assert mixed == [family.on([0, 1]) * Categorical().on([2]) for family in FAMILIES]
    assert families(Automatic() + Periodic(3.0))[4] == Laplace() + Periodic(3.0)
    for kernel in (Gaussian(), Laplace(2.0), Periodic(24.0) * Categorical(), Automatic(1.0)):
        assert families(kernel) == [kernel]


def waves(n=80, seed=0):
    """A smooth function of the first of two inputs."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 2))
    return Rows(X, np.sin(X[:, :1]) + 0.1 * rng.normal(size=(n, 1)), np.ones(n))


def test_the_mean_finds_noise_and_switches_off_what_does_not_matter():
    (best,) = search_mean([Gaussian()], waves(), Effort(), 0.0, 0)
    relevant, irrelevant = best.kernel.scale
    assert 0.5 < relevant < 4.0
    assert irrelevant > 50.0
    system = ExactRows(best.kernel, Groups.of(waves().X)).factor(best.noise / 80)
    errors = waves().Y - system.held_out(waves().Y)
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(0.1, rel=0.3)


@pytest.mark.parametrize(
    ("truth", "rough"), [(Gaussian(0.7), False), (Matern(0.7, smoothness=0.5), True)]
)
def test_the_likelihood_tells_smooth_from_rough(truth, rough):
    rng = np.random.default_rng(3)
    X = np.sort(rng.uniform(0, 4, (70, 1)), axis=0)
    path = np.linalg.cholesky(truth(X) + 1e-9 * np.eye(70)) @ rng.normal(size=(70, 1))
    rows = Rows(X, path + 0.01 * rng.normal(size=(70, 1)), np.ones(70))
    found = search_mean(families(Automatic()), rows, Effort(), 0.0, 0)
    assert [choice.loss for choice in found] == sorted(choice.loss for choice in found)
    assert {choice.template for choice in found} == set(FAMILIES)
    assert (found[0].template in (Matern(smoothness=0.5), Laplace())) == rough


def test_the_noise_has_a_floor_and_constant_outputs_do_not_count():
    rows = waves()
    rows = rows.with_outputs(np.column_stack([np.sin(rows.X[:, 0]), np.ones(80)]))
    free, floored = (search_mean([Gaussian()], rows, Effort(), least, 0)[0] for least in (0, 0.3))
    assert free.noise < 1e-3
    assert floored.noise == pytest.approx(0.3, rel=1e-9)
    assert np.isfinite(floored.loss)


def test_a_noise_above_every_first_guess_is_searched_once_and_on_more_rows():
    found = search_mean([Gaussian()], waves(), Effort(race_rows=20, rows=30), 0.5, 0)
    assert len(found) == 1
    assert found[0].noise >= 0.5


def test_rows_of_which_none_varies_have_no_likelihood():
    rows = waves().with_outputs(np.ones((80, 1)))
    (best,) = search_mean([Gaussian()], rows, Effort(), 0.0, 0)
    assert best.loss == 0.0
    assert np.all(np.isfinite(best.kernel.scale))


def test_searches_on_a_subset_depend_on_the_seed_alone():
    rows, effort = waves(), Effort(race_rows=20, rows=30, steps=5)
    one, same, other = (search_mean([Gaussian()], rows, effort, 0.0, seed)[0] for seed in (1, 1, 2))
    assert one == same
    assert one.kernel != other.kernel
