"""Output kernels are probability densities: mass, cdf, draws and covariance agree."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import kstest

from kcdo.errors import InvalidInputError, InvalidTypeError
from kcdo.kernels import (
    Categorical,
    DensityKernel,
    Gaussian,
    Laplace,
    Matern,
    Periodic,
    with_output_sds,
)

FAMILIES = {
    "gaussian": Gaussian(),
    "laplace": Laplace(),
    "matern 1/2": Matern(smoothness=0.5),
    "matern 3/2": Matern(smoothness=1.5),
    "matern 5/2": Matern(smoothness=2.5),
}
PLANE = {
    "gaussian": DensityKernel(Gaussian((0.5, 1.5)), 2),
    "laplace": DensityKernel(Laplace((0.5, 1.5)), 2),
    "matern 1/2": DensityKernel(Matern((0.5, 1.5), smoothness=0.5), 2),
    "matern 3/2": DensityKernel(Matern((0.5, 1.5), smoothness=1.5), 2),
    "matern 5/2": DensityKernel(Matern(0.8, smoothness=2.5), 2),
    "product": DensityKernel(Matern(0.5, smoothness=2.5).on(1) * Gaussian(1.5).on(0), 2),
}
EACH_FAMILY = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
EACH_PLANE = pytest.mark.parametrize("kernel", PLANE.values(), ids=PLANE)


def on_line(family, scale):
    return DensityKernel(with_output_sds(family, np.array([scale])), 1)


@EACH_FAMILY
@pytest.mark.parametrize("sd", [1e-12, 0.3, 1e12])
def test_integrates_to_one_on_the_line(family, sd):
    kernel = on_line(family, sd)

    def density(t):
        return kernel.block(np.zeros((1, 1)), np.array([[t * sd]]))[0, 0] * sd

    mass = quad(density, 0, 40, epsabs=1e-13, limit=200)[0]
    assert 2 * mass == pytest.approx(1.0, abs=1e-10)
    assert kernel.integral == pytest.approx(1 / kernel.diag(np.zeros((1, 1)))[0], rel=1e-12)


@EACH_PLANE
def test_integrates_to_one_on_the_plane(kernel):
    # polar coordinates after scaling: the radius by Gauss-Legendre pieces, the angle evenly
    nodes, weights = np.polynomial.legendre.leggauss(60)
    radii = np.concatenate([(nodes + 1) / 2 + k for k in range(45)])
    rule = np.tile(weights / 2, 45)
    mass = 0.0
    corners = np.polynomial.legendre.leggauss(40)
    for quarter in range(4):  # |x| has a kink on the axes: integrate between them
        for node, weight in zip(*corners, strict=True):
            angle = (quarter + (node + 1) / 2) * np.pi / 2
            ray = radii[:, None] * [np.cos(angle), np.sin(angle)] * kernel.scales
            values = kernel.block(np.zeros((1, 2)), ray)[0]
            mass += weight * np.pi / 4 * np.sum(rule * radii * values)
    assert mass * np.prod(kernel.scales) == pytest.approx(1.0, abs=1e-9)


@EACH_PLANE
def test_slope_in_all_scales_by_differences(rng, kernel):
    A, B = rng.normal(size=(5, 2)), rng.normal(size=(4, 2))
    A[0] = B[0]

    def grown(t):
        """A density whose scales are e^t times as large, in units that are e^t times as large."""
        return np.exp(-2.0 * t) * kernel.block(A * np.exp(-t), B * np.exp(-t))

    step = 1e-6
    expected = (grown(step) - grown(-step)) / (2 * step)
    found = kernel.scale_slope(A, B)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
    assert found[0, 0] == pytest.approx(-2.0 * kernel.block(A[:1], B[:1])[0, 0])


@EACH_FAMILY
def test_cdf_is_the_integral_of_the_density(family):
    kernel = on_line(family, 0.7)
    centre = np.array([[0.4]])
    for y in (-4.0, 0.1, 0.4, 0.9, 5.0):
        below = quad(
            lambda t: kernel.block(centre, np.array([[t]]))[0, 0],
            -30,
            y,
            points=[0.4] if y > 0.4 else None,
            epsabs=1e-13,
            limit=200,
        )[0]
        assert kernel.cdf(centre, np.array([[y]]))[0, 0] == pytest.approx(below, abs=1e-11)


@EACH_FAMILY
def test_cdf_is_monotone_from_zero_to_one(family):
    values = on_line(family, 1.0).cdf(np.zeros((1, 1)), np.linspace(-80, 80, 999)[:, None])[0]
    assert np.all(np.diff(values) >= 0)
    assert values[0] < 1e-40
    assert values[-1] == pytest.approx(1.0, abs=1e-15)
    np.testing.assert_allclose(values + values[::-1], 1.0, atol=1e-15)


def test_joint_cdf_multiplies_over_columns(rng):
    kernel = PLANE["product"]
    centres, points = rng.normal(size=(3, 2)), rng.normal(size=(4, 2))
    first, second = kernel.factors()
    expected = first.cdf(centres[:, :1], points[:, :1]) * second.cdf(centres[:, 1:], points[:, 1:])
    np.testing.assert_allclose(kernel.cdf(centres, points), expected, rtol=1e-14)


@pytest.mark.parametrize("name", ["gaussian", "laplace", "product"])
def test_factors_multiply_to_the_density(rng, name):
    kernel = PLANE[name]
    A, B = rng.normal(size=(5, 2)), rng.normal(size=(6, 2))
    first, second = kernel.factors()
    np.testing.assert_allclose(
        kernel(A, B), first(A[:, :1], B[:, :1]) * second(A[:, 1:], B[:, 1:]), rtol=1e-13
    )
    np.testing.assert_array_equal([first.scales[0], second.scales[0]], kernel.scales)


def test_a_radial_density_has_no_factors():
    kernel = PLANE["matern 3/2"]
    assert kernel.factors() is None
    with pytest.raises(InvalidTypeError, match="joint cdf of a radial Matérn density is not avail"):
        kernel.cdf(np.zeros((1, 2)), np.zeros((1, 2)))


@EACH_PLANE
def test_draws_have_the_stated_covariance(rng, kernel):
    n = 40_000
    draws = kernel.sample(n, rng)
    assert draws.shape == (n, 2)
    covariance = kernel.covariance()
    sds = np.sqrt(np.diag(covariance))
    standard = draws / sds
    products = standard[:, :, None] * standard[:, None, :]
    error = products.std(axis=0) / np.sqrt(n)
    assert np.all(np.abs(standard.mean(axis=0)) < 4.5 / np.sqrt(n))
    assert np.all(np.abs(products.mean(axis=0) - covariance / np.outer(sds, sds)) < 4.5 * error)


@EACH_FAMILY
def test_draws_follow_the_cdf(rng, family):
    kernel = on_line(family, 2.0)
    draws = kernel.sample(4000, rng)[:, 0]
    test = kstest(draws, lambda y: kernel.cdf(np.zeros((1, 1)), y[:, None])[0])
    assert test.pvalue > 1e-3


@pytest.mark.parametrize("smoothness", [0.5, 1.5, 2.5])
def test_radial_draws_follow_their_density(rng, smoothness):
    # the mean of 1/density over draws inside a set is the area of that set over its probability
    kernel = DensityKernel(Matern(1.0, smoothness=smoothness), 2)
    draws = kernel.sample(20_000, rng)
    inside = np.linalg.norm(draws, axis=1) < 1.5
    inverse = inside / np.maximum(kernel.block(np.zeros((1, 2)), draws)[0], 1e-300)
    error = inverse.std() / np.sqrt(len(draws))
    assert abs(inverse.mean() - np.pi * 1.5**2) < 4.5 * error


@EACH_FAMILY
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_missing_scales_are_set_from_wanted_sds(family, dim):
    sds = np.linspace(0.5, 2.0, dim)
    kernel = DensityKernel(with_output_sds(family, sds), dim)
    np.testing.assert_allclose(kernel.covariance(), np.diag(sds**2), rtol=1e-13, atol=0)


def test_wanted_sds_reach_into_products_and_leave_set_scales():
    kernel = Laplace().on(2) * Gaussian(9.0).on(0) * Matern(smoothness=0.5).on(1)
    found = DensityKernel(with_output_sds(kernel, np.array([1.0, 2.0, 3.0])), 3)
    np.testing.assert_allclose(np.sqrt(np.diag(found.covariance())), [9.0, 2.0, 3.0])
    done = Gaussian(1.0)
    assert with_output_sds(done, np.array([5.0])) is done


def test_each_output_column_once():
    for kernel, dim, columns in [
        (Gaussian(1.0).on(0), 2, r"\[0\]"),
        (Gaussian(1.0) * Laplace(1.0).on(0), 2, r"\[0, 0, 1\]"),
        (Gaussian(1.0).on(0) * Laplace(1.0).on(0), 1, r"\[0, 0\]"),
    ]:
        with pytest.raises(
            InvalidInputError, match=f"each of the {dim} output.* once; got {columns}"
        ):
            DensityKernel(kernel, dim)


@pytest.mark.parametrize(
    "kernel",
    [
        Periodic(1.0, 1.0),
        Categorical(1.0),
        Gaussian(1.0) + Laplace(1.0),
        Categorical(1.0).on(0),
        Categorical(1.0).on(0) * Gaussian(1.0).on(1),
    ],
    ids=repr,
)
def test_what_is_no_density(kernel):
    with pytest.raises(InvalidTypeError, match="is not a probability density; output kernels are"):
        DensityKernel(kernel, 2)
    with pytest.raises(InvalidTypeError, match="is not a probability density"):
        with_output_sds(Periodic(1.0), np.array([1.0]))


def test_densities_in_any_unit_are_not_taken_for_zero():
    """Small values are flushed beside the largest, not beside 1: densities have a unit."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(5, 4))
    expected = DensityKernel(Gaussian(1.0), 4)(points)
    for unit in (1e57, 1e-57):
        found = DensityKernel(Gaussian(unit), 4)(points * unit)
        np.testing.assert_allclose(found * unit**4, expected, rtol=1e-9)
