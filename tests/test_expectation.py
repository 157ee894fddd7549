"""E k(X, x') for uncertain x': closed forms, samples, and an honest error where neither helps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from sklearn.gaussian_process.kernels import RBF

from kcdo.errors import InvalidInputError
from kcdo.inputs import GaussianInput, SampleInput
from kcdo.kernels import (
    Adapter,
    Average,
    Categorical,
    DensityKernel,
    Gaussian,
    Laplace,
    Matern,
    Periodic,
    Sum,
    expectation,
    gaussian_draws,
)
from kcdo.kernels.columnwise import laplace_gaussian_mean
from kcdo.kernels.expectation import _quasi_random

FULL = np.array([[0.6, -0.35], [-0.35, 0.4]])
POINTS = np.array([[0.0, 0.0], [1.0, -0.5], [-2.0, 1.5], [4.0, 3.0]])
MEANS = np.array([[0.2, -0.1], [1.5, 1.0], [-3.0, 0.5]])

# kernels with a closed form for a diagonal, and for any, covariance
DIAGONAL = {
    "gaussian": Gaussian((0.8, 1.5)),
    "laplace": Laplace((0.8, 1.5)),
    "product": Gaussian(0.8).on(0) * Laplace(1.5).on(1),
    "sum": Gaussian(0.8) + Laplace(1.5).on(1) + Gaussian(2.0).on(0),
    "average": Average((Gaussian(0.8), Laplace(1.5).on(1), Gaussian(2.0).on(0))),
    "sum in product": (Gaussian(0.8) + Laplace(0.3)).on(0) * Laplace(1.5).on(1),
    "density": DensityKernel(Laplace(0.5).on(1) * Gaussian(0.3).on(0), 2),
}
ANY = {
    "gaussian": Gaussian((0.8, 1.5)),
    "column": Laplace(0.5).on(1),
    "sum": Gaussian(0.8) + Gaussian(0.4).on(1),
    "density": DensityKernel(Gaussian((0.3, 0.5)), 2),
}
# no closed form
OPEN = {
    "matern 1/2": Matern(0.8, smoothness=0.5),
    "matern 5/2": Matern((0.8, 1.5), smoothness=2.5),
    "periodic": Periodic((3.0, 4.0), 0.7),
    "laplace, correlated": Laplace(0.8),
    "product over correlated columns": Gaussian(0.8).on(0) * Gaussian(1.5).on(1),
    "overlapping product": Gaussian(0.8) * Laplace(1.5).on(1),
    "sum": Gaussian(0.8) + Matern(0.5).on(1),
    "foreign": Adapter(RBF(0.8)),
}


def monte_carlo(kernel, X, mean, cov, rng, n=60_000):
    """Plain draws: the mean and its standard error, (N,)."""
    draws = rng.multivariate_normal(mean, cov, size=n)
    values = kernel.block(draws, X)
    return values.mean(axis=0), values.std(axis=0) / np.sqrt(n)


def assert_agrees_with_monte_carlo(kernel, inputs, rng):
    found = expectation(kernel, POINTS, inputs)
    for q, (mean, cov) in enumerate(zip(inputs.mean, inputs.full_cov(), strict=True)):
        value, error = monte_carlo(kernel, POINTS, mean, cov, rng)
        # far in a tail few draws count, and their spread understates the error
        error = np.maximum(error, 0.1 * error.max())
        assert np.all(np.abs(found.values[q] - value) < 4.5 * (error + found.error))
    return found


@pytest.mark.parametrize("kernel", DIAGONAL.values(), ids=DIAGONAL)
def test_closed_forms_with_independent_columns(rng, kernel):
    inputs = GaussianInput(MEANS, [0.5, 0.2], n_points=1 << 13)
    found = assert_agrees_with_monte_carlo(kernel, inputs, rng)
    assert found.error == 0.0
    quasi = _quasi_random(kernel, POINTS, inputs, None)
    assert 0 < quasi.error < 2e-3
    assert np.abs(quasi.values - found.values).max() < 5 * quasi.error


@pytest.mark.parametrize("kernel", ANY.values(), ids=ANY)
def test_closed_forms_with_any_covariance(rng, kernel):
    inputs = GaussianInput(MEANS, FULL, n_points=1 << 13)
    found = assert_agrees_with_monte_carlo(kernel, inputs, rng)
    if not isinstance(kernel, type(Laplace(1.0).on(1))):
        assert found.error == 0.0
    quasi = _quasi_random(kernel, POINTS, inputs, None)
    assert np.abs(quasi.values - found.values).max() < 5 * (quasi.error + found.error)


@pytest.mark.parametrize("kernel", OPEN.values(), ids=OPEN)
def test_the_rest_states_an_error(rng, kernel):
    inputs = GaussianInput(MEANS, FULL)
    found = assert_agrees_with_monte_carlo(kernel, inputs, rng)
    assert 0 < found.error < 0.02
    fine = expectation(kernel, POINTS, GaussianInput(MEANS, FULL, n_points=1 << 15))
    assert fine.error < found.error / 4
    assert np.abs(found.values - fine.values).max() < 5 * found.error


def test_a_full_covariance_that_is_diagonal_changes_nothing():
    variances = np.array([0.5, 0.2])
    for kernel in (Gaussian((0.8, 1.5)), Gaussian(0.8).on(0) * Gaussian(1.5).on(1)):
        diagonal = expectation(kernel, POINTS, GaussianInput(MEANS, variances))
        full = expectation(kernel, POINTS, GaussianInput(MEANS, np.diag(variances)))
        np.testing.assert_allclose(full.values, diagonal.values, rtol=1e-12)
        assert full.error == 0.0


def test_gaussian_form_against_the_printed_formula(rng):
    p, scales = 4, np.array([0.5, 1.0, 2.0, 0.7])
    root = rng.normal(size=(3, p, p))
    cov = root @ np.swapaxes(root, 1, 2)
    X, mean = rng.normal(size=(6, p)), rng.normal(size=(3, p))
    found = expectation(Gaussian(scales), X, GaussianInput(mean, cov)).values
    for q in range(3):
        total = np.diag(scales**2) + cov[q]
        gain = np.sqrt(np.prod(scales**2) / np.linalg.det(total))
        for i in range(6):
            d = X[i] - mean[q]
            expected = gain * np.exp(-0.5 * d @ np.linalg.solve(total, d))
            assert found[q, i] == pytest.approx(expected, rel=1e-11)


@given(distance=st.floats(0.0, 30.0), sd=st.floats(1e-3, 20.0))
def test_laplace_form_against_quadrature(distance, sd):
    def integrand(z):
        return np.exp(-abs(distance + sd * z) - 0.5 * z * z) / np.sqrt(2 * np.pi)

    kink = -distance / sd
    expected = sum(
        quad(integrand, a, b, epsabs=1e-14, epsrel=1e-12, limit=200)[0]
        for a, b in ((-12.0, np.clip(kink, -12, 12)), (np.clip(kink, -12, 12), 12.0))
    )
    found = laplace_gaussian_mean(np.array([distance]), np.array([sd]))[0]
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize(
    "kernel",
    [Gaussian(0.8), Laplace(0.8), Matern(0.8), Periodic(3.0, 0.7), Categorical(1.0)],
    ids=repr,
)
@pytest.mark.parametrize("cov", [0.0, np.zeros((2, 2))], ids=["diagonal", "full"])
def test_no_uncertainty_is_the_kernel_itself(kernel, cov):
    X = np.vstack([POINTS, MEANS])
    found = expectation(kernel, X, GaussianInput(MEANS, cov))
    np.testing.assert_allclose(found.values, kernel(MEANS, X), rtol=1e-13)
    assert found.error < 1e-15


@pytest.mark.parametrize("kernel", [Laplace(1.0), Gaussian(1.0)], ids=repr)
@pytest.mark.parametrize("sd", [1e-14, 1e-9, 1e-6])
def test_small_uncertainty_is_first_order_exact(kernel, sd):
    # E exp(-|t|) = 1 - sd √(2/π) and E exp(-t²/2) = 1 - sd²/2, to leading order
    found = expectation(kernel, np.zeros((1, 1)), GaussianInput([[0.0]], sd**2)).values[0, 0]
    drop = sd * np.sqrt(2 / np.pi) if isinstance(kernel, Laplace) else sd**2 / 2
    assert 1 - found == pytest.approx(drop, rel=1e-6, abs=3e-16)


@pytest.mark.parametrize("unit", [1e-12, 1e12])
@pytest.mark.parametrize("family", [Gaussian, Laplace, Matern], ids=lambda f: f.__name__)
def test_extreme_units(family, unit):
    for cov in (np.array([0.5, 0.2]), FULL):
        plain = expectation(family(0.8), POINTS, GaussianInput(MEANS, cov))
        other = expectation(
            family(0.8 * unit), POINTS * unit, GaussianInput(MEANS * unit, cov * unit**2)
        )
        np.testing.assert_allclose(other.values, plain.values, rtol=1e-9)


@pytest.mark.parametrize("family", [Gaussian, Matern, Laplace], ids=lambda f: f.__name__)
def test_columns_of_extremely_different_units(family):
    units = np.array([1e-12, 1e12])
    inputs = GaussianInput(MEANS * units, FULL * np.outer(units, units))
    found = expectation(family(tuple(0.8 * units)), POINTS * units, inputs)
    plain = expectation(family(0.8), POINTS, GaussianInput(MEANS, FULL))
    np.testing.assert_allclose(found.values, plain.values, rtol=1e-9)


def test_singular_covariance(rng):
    line = np.array([1.0, -0.5])
    inputs = GaussianInput(MEANS, np.outer(line, line))
    for kernel in (Gaussian(0.8), Matern(0.8)):
        found = expectation(kernel, POINTS, inputs)
        for q, mean in enumerate(MEANS):
            for i, x in enumerate(POINTS):
                expected = quad(
                    lambda z, x=x, mean=mean, kernel=kernel: (
                        kernel.block((mean + z * line)[None], x[None])[0, 0]
                        * np.exp(-0.5 * z * z)
                        / np.sqrt(2 * np.pi)
                    ),
                    -9,
                    9,
                    epsabs=1e-12,
                    limit=200,
                )[0]
                assert abs(found.values[q, i] - expected) < 5 * found.error + 1e-10


def test_singular_covariance_far_wider_than_the_scale():
    found = expectation(
        Gaussian(1e-9), np.zeros((1, 2)), GaussianInput([[0.0, 0.0]], np.ones((2, 2)))
    )
    assert np.all(np.isfinite(found.values))
    assert 0 <= found.values[0, 0] < 1e-6


def test_wide_uncertainty_tends_to_zero():
    for kernel in (Gaussian(1.0), Laplace(1.0)):
        wide = expectation(kernel, np.zeros((1, 1)), GaussianInput([[0.0]], 1e24)).values[0, 0]
        area = np.sqrt(2 * np.pi) if isinstance(kernel, Gaussian) else 2.0
        assert wide == pytest.approx(area / np.sqrt(2 * np.pi) / 1e12, rel=1e-9)


class TestStatedError:
    def test_covers_the_truth_at_the_stated_rate(self):
        # the Gaussian form is known: the error over many queries behaves like a standard error
        rng = np.random.default_rng(5)
        ratios = []
        for _ in range(40):
            inputs = GaussianInput(
                rng.normal(size=(1, 2)), FULL * rng.uniform(0.2, 3.0), n_points=128
            )
            X = rng.normal(size=(1, 2))
            quasi = _quasi_random(Gaussian(0.7), X, inputs, 1)
            truth = expectation(Gaussian(0.7), X, inputs).values
            ratios.append(float(np.abs(quasi.values - truth).max() / quasi.error))
        assert np.max(ratios) < 6  # Student's t with 7 degrees of freedom
        assert 0.3 < np.sqrt(np.mean(np.square(ratios))) < 2.0

    def test_of_products_covers_factors_above_one(self):
        product = Sum([Matern(0.5)] * 6).on(0) * Sum([Matern(0.6)] * 2).on(1)
        inputs = GaussianInput([[0.0, 0.1]], 0.5, n_points=64)
        found = expectation(product, POINTS[:1], inputs)
        first = expectation(Matern(0.5).on(0), POINTS[:1], inputs)
        second = expectation(Matern(0.6).on(1), POINTS[:1], inputs)
        np.testing.assert_allclose(found.values, 12 * first.values * second.values, rtol=1e-12)
        least = 12 * (first.error * second.values + second.error * first.values)
        assert found.error >= least[0, 0]
        assert found.error < 1.2 * least[0, 0]

    def test_of_products_is_that_of_the_open_factor(self):
        inputs = GaussianInput(MEANS, [0.5, 0.2], n_points=64)
        both = expectation(Gaussian(0.8).on(0) * Matern(0.6).on(1), POINTS, inputs)
        closed = expectation(Gaussian(0.8).on(0), POINTS, inputs)
        open_ = expectation(Matern(0.6).on(1), POINTS, inputs)
        np.testing.assert_allclose(both.values, closed.values * open_.values, rtol=1e-13)
        assert both.error == pytest.approx(closed.values.max() * open_.error, rel=1e-12)

    def test_is_the_same_at_every_call(self):
        inputs = GaussianInput(MEANS, FULL)
        first, second = (expectation(Matern(1.0), POINTS, inputs, n_jobs=n) for n in (1, 2))
        np.testing.assert_array_equal(first.values, second.values)
        assert first.error == second.error

    def test_a_query_does_not_depend_on_the_others(self):
        inputs = GaussianInput(MEANS, FULL)
        every = expectation(Matern(1.0), POINTS, inputs).values
        for q in range(len(MEANS)):
            alone = expectation(Matern(1.0), POINTS, inputs[q : q + 1]).values
            np.testing.assert_allclose(alone[0], every[q], rtol=1e-12)


@pytest.mark.parametrize("cov", [0.7, FULL], ids=["diagonal", "full"])
def test_draws_have_the_moments_of_the_gaussian(cov):
    inputs = GaussianInput(MEANS, cov, n_points=1 << 12)
    draws = gaussian_draws(inputs)
    assert draws.shape == (3, 1 << 12, 2)
    np.testing.assert_allclose(draws.mean(axis=1), MEANS, atol=2e-3)
    for q in range(3):
        np.testing.assert_allclose(np.cov(draws[q].T), inputs.full_cov()[q], atol=1e-2)


def test_the_number_of_draws_is_rounded_up():
    for n_points, expected in ((8, 8), (9, 16), (100, 128)):
        assert gaussian_draws(GaussianInput([[0.0]], 1.0, n_points=n_points)).shape[1] == expected


class TestCategories:
    def test_have_no_variance(self):
        with pytest.raises(InvalidInputError, match="categorical column must have variance 0"):
            expectation(Categorical(1.0), POINTS, GaussianInput(MEANS, 0.1))

    def test_beside_uncertain_columns(self, rng):
        X = np.column_stack([rng.normal(size=(6, 2)), rng.integers(0, 3, size=6)])
        mean = np.array([[0.1, 0.2, 2.0], [0.3, -1.0, 0.0]])
        cov = np.zeros((3, 3))
        cov[:2, :2] = FULL
        inputs = GaussianInput(mean, cov)
        same = np.where(mean[:, 2:] == X[:, 2], 1.0, np.exp(-1 / 0.5))
        for kernel in (Gaussian(0.8), Matern(0.8)):
            both = expectation(kernel.on([0, 1]) * Categorical(0.5).on(2), X, inputs)
            part = expectation(kernel, X[:, :2], inputs.columns([0, 1]))
            np.testing.assert_allclose(both.values, part.values * same, rtol=1e-12)

    def test_draws_leave_them_exactly_in_place(self, rng):
        cov = np.zeros((4, 4))
        root = rng.normal(size=(3, 3))
        cov[np.ix_([0, 1, 3], [0, 1, 3])] = root @ root.T
        draws = gaussian_draws(GaussianInput([[0.1, 0.2, 2.0, 0.3]], cov))
        np.testing.assert_array_equal(draws[:, :, 2], 2.0)


class TestSamples:
    def test_any_kernel_is_a_weighted_mean(self, rng):
        samples = [rng.normal(size=(s, 2)) for s in (3, 1, 300)]
        weights = [rng.random(len(s)) for s in samples]
        for kernel in (Matern(0.8), Adapter(RBF(0.8)), Gaussian(1.0).on(0) + Laplace(1.0)):
            found = expectation(kernel, POINTS, SampleInput(samples, weights))
            assert found.error == 0.0
            for q, (sample, weight) in enumerate(zip(samples, weights, strict=True)):
                expected = weight / weight.sum() @ kernel.block(sample, POINTS)
                np.testing.assert_allclose(found.values[q], expected, rtol=1e-13)

    def test_of_texts(self):
        kernel = Adapter(
            lambda A, B: np.array([[float(len(set(a) & set(b))) for b in B] for a in A])
        )
        texts = np.array(["abc", "bx"], dtype=object)
        found = expectation(kernel, texts, SampleInput([["ab", "bc"], ["x"]], [[1.0, 3.0], [1.0]]))
        np.testing.assert_allclose(found.values, [[2.0, 1.0], [0.0, 1.0]])


def test_inputs_and_data_of_different_width():
    with pytest.raises(InvalidInputError, match="the uncertain inputs have 1 columns, the data 2"):
        expectation(Gaussian(1.0), POINTS, GaussianInput([[0.0]], 1.0))
    with pytest.raises(InvalidInputError, match="rows of one width; got 1 and 2 columns"):
        expectation(Gaussian(1.0), POINTS, SampleInput([[0.0, 1.0]]))
