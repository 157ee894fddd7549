"""The output side by every way of computing it equals the dense filter."""

import numpy as np
import pytest

import kcdo
from kcdo.kernels import DensityKernel
from kcdo.linalg import IteratedTikhonov, PrintedForm, SpectralCutoff, SpectralInverse, Tikhonov
from kcdo.measures import Grid, Scattered
from kcdo.reconstruction import Reconstruction

RATIONAL = [Tikhonov(), IteratedTikhonov(1), IteratedTikhonov(4), PrintedForm()]


def box(shape):
    d = len(shape)
    return Grid(np.full(d, -2.0), np.full(d, 3.0), shape)


def scattered(n, d):
    rng = np.random.default_rng(8)
    return Scattered(rng.uniform(-2, 3, (n, d)), rng.uniform(0.5, 1.5, n) / n)


SIDES = {
    "line": (box((30,)), kcdo.Gaussian(0.5)),
    "fine line": (box((400,)), kcdo.Gaussian(0.05)),
    "plane": (box((8, 11)), kcdo.Laplace((0.8, 1.1))),
    "space": (box((5, 4, 6)), kcdo.Gaussian((1.4, 1.5, 1.6))),
    "radial plane": (box((8, 11)), kcdo.Matern(0.9)),
    "scattered line": (scattered(25, 1), kcdo.Gaussian(0.5)),
    "scattered plane": (scattered(25, 2), kcdo.Matern(0.9, smoothness=2.5)),
}


def side_of(name, filter=None, ridge=0.1):
    measure, kernel = SIDES[name]
    return Reconstruction(measure, DensityKernel(kernel, measure.dim), ridge, filter or Tikhonov())


def dense_inverse(side, slope=False):
    v = side.measure.weights
    S = np.sqrt(v)[:, None] * side.kernel(side.measure.nodes) * np.sqrt(v)
    values, vectors = np.linalg.eigh(S)
    values = np.maximum(values, 0.0)
    function = side.filter.slope if slope else side.filter.gain
    return (vectors * function(values, side.ridge)) @ vectors.T


@pytest.mark.parametrize("name", SIDES)
def test_embeddings_are_kernel_values(name):
    side = side_of(name)
    Y = np.random.default_rng(0).uniform(-3, 4, (13, side.measure.dim))
    Y.setflags(write=False)
    expected = side.kernel(Y, side.measure.nodes)
    np.testing.assert_allclose(side.embed(Y), expected, rtol=1e-11, atol=1e-15)


def test_embeddings_on_the_nodes_near_each_output():
    side = side_of("fine line")
    Y = np.r_[np.random.default_rng(0).uniform(-2, 3, 40), -2.0, 3.0, -2.3, 3.2, 9.0, -40.0]
    near = side.near_embeddings(Y[:, None])
    assert near.getnnz(axis=1).max() < 400 / 3
    peak = side.kernel.diag(Y[:1, None])[0]
    np.testing.assert_allclose(near.toarray(), side.embed(Y[:, None]), atol=1e-14 * peak)
    for name in set(SIDES) - {"fine line"}:
        assert side_of(name).near_width is None


@pytest.mark.parametrize("block", [1, 50, 1 << 23])
@pytest.mark.parametrize("name", SIDES)
def test_combining_equals_weights_times_embeddings(monkeypatch, name, block):
    monkeypatch.setattr("kcdo.reconstruction._BLOCK_ELEMENTS", block)
    side = side_of(name)
    rng = np.random.default_rng(0)
    Y, weights = rng.uniform(-3, 4, (13, side.measure.dim)), rng.normal(size=(4, 13))
    Y.setflags(write=False)
    weights.setflags(write=False)
    found = side.combine(weights, Y)
    np.testing.assert_allclose(found, weights @ side.embed(Y), rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("filter", [*RATIONAL, SpectralCutoff()], ids=repr)
@pytest.mark.parametrize("name", SIDES)
@pytest.mark.parametrize("largest", [8192, 10])
def test_reconstruction_by_every_way_equals_the_dense_filter(monkeypatch, name, filter, largest):
    """With ``largest`` 10 the grids use FFT products and conjugate gradients."""
    monkeypatch.setattr("kcdo.reconstruction._LARGEST_FACTOR", largest)
    side = side_of(name, filter)
    rows = side.embed(np.random.default_rng(0).uniform(-1.5, 2.5, (6, side.measure.dim)))
    rows.setflags(write=False)
    root = np.sqrt(side.measure.weights)
    expected = (rows * root) @ dense_inverse(side) / root
    np.testing.assert_allclose(side.reconstruct(rows), expected, atol=1e-8)
    expected = (rows * root) @ dense_inverse(side, slope=True) * root
    np.testing.assert_allclose(side.expansion(rows), expected, atol=1e-8)


def test_large_grids_are_solved_by_fft(monkeypatch):
    monkeypatch.setattr("kcdo.reconstruction.lower_gram", None)  # no dense matrix
    grid = Grid(np.zeros(1), np.ones(1), (9001,))
    side = Reconstruction(grid, DensityKernel(kcdo.Gaussian(0.05), 1), 0.1)
    u = side.reconstruct(side.embed(np.array([[0.5]])))
    assert u @ grid.weights == pytest.approx(1 / 1.1, rel=1e-6)


def test_a_radial_kernel_on_a_large_plane():
    grid = box((95, 90))
    side = Reconstruction(grid, DensityKernel(kcdo.Matern(0.3), 2), 0.1)
    u = side.reconstruct(side.embed(np.array([[0.5, 0.4]])))
    again = side.kernel(grid.nodes[::50], grid.nodes) @ u[0] * grid.cell_volume + 0.1 * u[0, ::50]
    np.testing.assert_allclose(again, side.embed(np.array([[0.5, 0.4]]))[0, ::50], atol=1e-9)


def test_a_ridge_below_rounding_falls_back_on_eigenvalues():
    side = Reconstruction(box((120,)), DensityKernel(kcdo.Gaussian(1.5), 1), 1e-19)
    u = side.reconstruct(side.embed(np.array([[0.5]])))
    assert np.all(np.isfinite(u))
    assert isinstance(side._inverse, SpectralInverse)
