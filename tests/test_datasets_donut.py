"""The donut: its densities are densities, they agree with each other and with its samples."""

import dataclasses

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from kcdo.datasets import Donut, make_donut

BOTH_TILTS = pytest.mark.parametrize("axis", ["y", "x"])


def square_grid(side=240, half_width=2.5):
    """Cell centres of a regular grid over a square that holds all the mass, and the cell area."""
    spacing = 2 * half_width / side
    axis = -half_width + spacing * (np.arange(side) + 0.5)
    return np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2), spacing**2


@BOTH_TILTS
def test_means_lie_evenly_on_a_tilted_unit_circle(axis):
    means = Donut(n_means=12, axis=axis).means
    assert means.shape == (12, 3)
    np.testing.assert_allclose(np.linalg.norm(means, axis=1), 1.0)
    gaps = np.linalg.norm(np.diff(means, axis=0, append=means[:1]), axis=1)
    np.testing.assert_allclose(gaps, gaps[0])
    normal = np.cross(means[0], means[3])
    np.testing.assert_allclose(means @ normal, 0.0, atol=1e-12)
    assert np.arccos(abs(normal[2])) == pytest.approx(0.5)


def test_the_axis_of_rotation_stays_in_place():
    flat = Donut(tilt=0.0).means
    np.testing.assert_allclose(Donut(axis="y").means[:, 1], flat[:, 1])
    np.testing.assert_allclose(Donut(axis="x").means[:, 0], flat[:, 0])
    assert np.ptp(Donut(axis="y").means[:, 0]) == pytest.approx(2 * np.cos(0.5))
    assert np.ptp(Donut(axis="x").means[:, 1]) < 2 * np.cos(0.5) + 1e-12


@BOTH_TILTS
@pytest.mark.parametrize("x", [0.0, 1.0, -0.3])
def test_conditional_density_integrates_to_one(axis, x):
    grid, area = square_grid()
    assert Donut(axis=axis).conditional_pdf(x, grid).sum() * area == pytest.approx(1.0, abs=1e-9)


@BOTH_TILTS
def test_marginal_and_joint_densities_integrate_to_one(axis):
    donut = Donut(axis=axis)
    x, spacing = np.linspace(-2.0, 2.0, 201, retstep=True)
    grid, area = square_grid(side=80)
    assert donut.pdf_x(x).sum() * spacing == pytest.approx(1.0, abs=1e-9)
    assert donut.joint_pdf(x, grid).sum() * spacing * area == pytest.approx(1.0, abs=1e-6)


@BOTH_TILTS
def test_densities_equal_the_plain_mixture_formula(axis):
    donut = Donut(n_means=7, noise=0.3, axis=axis)
    x = np.array([0.0, 0.4, -1.1])
    points = np.random.default_rng(0).normal(size=(5, 2))
    for i, j in np.ndindex(3, 5):
        xyz = [x[i], *points[j]]
        joint = np.mean([multivariate_normal.pdf(xyz, mean, 0.09) for mean in donut.means])
        marginal = np.mean([multivariate_normal.pdf(x[i], m, 0.09) for m in donut.means[:, 0]])
        assert donut.joint_pdf(x, points)[i, j] == pytest.approx(joint, rel=1e-10)
        assert donut.pdf_x(x)[i] == pytest.approx(marginal, rel=1e-10)
        assert donut.conditional_pdf(x, points)[i, j] == pytest.approx(joint / marginal, rel=1e-10)


def test_scalar_x_drops_the_query_axis():
    donut, points = Donut(), np.zeros((4, 2))
    assert donut.pdf_x(0.5).shape == ()
    assert donut.conditional_pdf(0.5, points).shape == (4,)
    assert donut.conditional_pdf([0.5], points).shape == (1, 4)
    assert donut.joint_pdf([0.5, 0.6], points).shape == (2, 4)
    np.testing.assert_allclose(donut.joint_pdf(0.5, points), donut.joint_pdf([0.5], points)[0])


@pytest.mark.parametrize("x", [-1e6, 40.0])
def test_far_from_the_circle_the_conditional_density_is_still_a_density(x):
    grid, area = square_grid()
    assert Donut().conditional_pdf(x, grid).sum() * area == pytest.approx(1.0, abs=1e-9)


@BOTH_TILTS
def test_conditional_moments_agree_with_quadrature(axis):
    donut = Donut(axis=axis)
    x = [0.0, 1.0, 0.3]
    grid, area = square_grid()
    density = donut.conditional_pdf(x, grid) * area
    mean = density @ grid
    np.testing.assert_allclose(donut.conditional_mean(x), mean, atol=1e-9)
    np.testing.assert_allclose(
        donut.conditional_std(x), np.sqrt(density @ grid**2 - mean**2), atol=1e-9
    )
    np.testing.assert_allclose(donut.conditional_std(0.3), donut.conditional_std(x)[2])


@BOTH_TILTS
def test_samples_have_the_moments_of_the_mixture(axis):
    donut = Donut(axis=axis)
    X, Y = donut.sample(2000, random_state=3)
    points = np.hstack([X, Y])
    n = len(points)
    expected = np.cov(donut.means.T, bias=True) + 0.01 * np.eye(3)
    # five standard errors; the fourth moment of each coordinate is below 1
    np.testing.assert_allclose(points.mean(axis=0), 0.0, atol=5 / np.sqrt(n))
    np.testing.assert_allclose(np.cov(points.T), expected, atol=5 / np.sqrt(n))


def test_samples_near_an_x_follow_the_conditional_moments():
    donut = Donut()
    X, Y = donut.sample(4000, random_state=0)
    near = Y[np.abs(X[:, 0] - 0.6) < 0.01]
    tolerance = 5 / np.sqrt(len(near))
    np.testing.assert_allclose(near.mean(axis=0), donut.conditional_mean(0.6), atol=tolerance)
    np.testing.assert_allclose(near.std(axis=0), donut.conditional_std(0.6), atol=tolerance)


def test_make_donut_is_reproducible_and_equals_the_method():
    X, Y = make_donut(3, n_means=5, noise=0.2, tilt=0.1, axis="x", random_state=7)
    assert X.shape == (15, 1)
    assert Y.shape == (15, 2)
    same_X, same_Y = Donut(5, 0.2, 0.1, "x").sample(3, random_state=7)
    np.testing.assert_array_equal(X, same_X)
    np.testing.assert_array_equal(Y, same_Y)


def test_every_mean_gets_its_share_in_random_order():
    donut = Donut(n_means=6, noise=1e-6)
    X, Y = donut.sample(10, random_state=0)
    distance = np.linalg.norm(np.hstack([X, Y])[:, None] - donut.means, axis=2)
    nearest = distance.argmin(axis=1)
    np.testing.assert_array_equal(np.bincount(nearest), 10)
    assert not np.array_equal(nearest, np.sort(nearest))


def test_donut_is_immutable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Donut().noise = 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_means": 0}, "n_means must be an integer of at least 1, got 0"),
        ({"n_means": 2.5}, "n_means must be an integer"),
        ({"n_means": True}, "n_means must be an integer"),
        ({"noise": 0.0}, "noise must be a positive number, got 0.0"),
        ({"noise": float("nan")}, "noise must be a positive number"),
        ({"noise": "loud"}, "noise must be a positive number, got 'loud'"),
        ({"tilt": float("inf")}, "tilt must be a finite angle in radians"),
        ({"axis": "z"}, 'axis must be "y" or "x", got \'z\''),
        ({"n_per_mean": 0}, "n_per_mean must be an integer of at least 1"),
    ],
)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        make_donut(**options)


def test_bad_queries_and_points_are_named():
    with pytest.raises(ValueError, match=r"x must be a number or have shape \(Q,\)"):
        Donut().pdf_x([[0.0]])
    with pytest.raises(ValueError, match="x must be finite"):
        Donut().conditional_pdf([0.0, np.nan], [[0.0, 0.0]])
    with pytest.raises(ValueError, match=r"YZ must have shape \(G, 2\), got \(2,\)"):
        Donut().joint_pdf(0.0, [0.0, 0.0])
