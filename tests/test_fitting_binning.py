"""Outputs counted on a fine grid: errors within their bounds, and what has no bins."""

import numpy as np
import pytest

import kcdo
from kcdo.components import StreamEffort
from kcdo.fitting import OutputBins
from kcdo.kernels import DensityKernel
from kcdo.measures import Grid, Scattered
from kcdo.reconstruction import Reconstruction

FINEST = StreamEffort().bins_per_scale


def grid_side(kernel, shape):
    d = len(shape)
    grid = Grid(np.full(d, -2.0), np.full(d, 2.0), shape)
    return Reconstruction(grid, DensityKernel(kernel, d), 0.1)


def binning_error(side, bins, Y):
    """Largest error of an embedding, relative to the kernel's peak."""
    binned = bins.embed(bins.shares(Y).toarray().T)
    return np.abs(binned - side.embed(Y)).max() / side.kernel.diag(Y[:1])[0]


@pytest.mark.parametrize(
    ("kernel", "shape", "per_scale"),
    [
        (kcdo.Gaussian(0.5), (41,), 32),
        (kcdo.Gaussian(0.5), (41,), 8),
        (kcdo.Matern(0.5, smoothness=1.5), (41,), 32),
        (kcdo.Matern(0.5, smoothness=2.5), (41,), 16),
        (kcdo.Gaussian((0.5, 0.9)), (21, 17), 8),
        (kcdo.Gaussian(0.8).on([1]) * kcdo.Matern(0.9, smoothness=2.5).on([0]), (21, 17), 8),
    ],
)
def test_binned_embeddings_err_less_than_their_bound(kernel, shape, per_scale):
    side = grid_side(kernel, shape)
    bins = OutputBins.of(side, 3, per_scale)
    n = 3000 if len(shape) == 1 else 200
    Y = np.random.default_rng(0).uniform(-6.5, 6.5, (n, len(shape)))  # many outside the box
    Y[: n // 2] /= 3.0
    error = binning_error(side, bins, Y)
    assert 0.3 * bins.error < error <= bins.error < 0.01
    assert bins.n_bins == np.prod(bins.grid.shape)


@pytest.mark.parametrize("kernel", [kcdo.Laplace(0.5), kcdo.Matern(0.5, smoothness=0.5)])
def test_a_kernel_with_a_kink_is_not_binned(monkeypatch, kernel):
    side = grid_side(kernel, (41,))
    assert OutputBins.of(side, 3, FINEST) is None
    monkeypatch.setattr("kcdo.fitting.binning._LARGEST_ERROR", 1.0)
    bins = OutputBins.of(side, 3, FINEST)  # 1.6 % at the kink
    Y = np.random.default_rng(0).uniform(-2, 2, (3000, 1))
    error = binning_error(side, bins, Y)
    assert 0.8 * bins.error < error <= bins.error


def test_bins_get_coarser_before_they_are_given_up(monkeypatch):
    side = grid_side(kcdo.Gaussian(0.5), (41,))
    fine = OutputBins.of(side, 100, FINEST)
    assert fine.error == pytest.approx(1 / 32**2 / 8, rel=0.02)
    monkeypatch.setattr("kcdo.fitting.binning._LARGEST_SUMS", 8 * 100 * fine.n_bins // 3)
    assert OutputBins.of(side, 100, FINEST).error == pytest.approx(1 / 8**2 / 8, rel=0.02)
    monkeypatch.setattr("kcdo.fitting.binning._LARGEST_SUMS", 1000)
    assert OutputBins.of(side, 100, FINEST) is None


def test_what_has_no_bins():
    radial = grid_side(kcdo.Matern(0.5), (9, 9))
    nodes = np.random.default_rng(0).normal(size=(9, 1))
    sample = Reconstruction(Scattered(nodes, np.ones(9)), DensityKernel(kcdo.Gaussian(0.5), 1), 0.1)
    assert OutputBins.of(radial, 3, FINEST) is None
    assert OutputBins.of(sample, 3, FINEST) is None
