"""The public data sets themselves, where KCDO_DATA names a folder that has them."""

import numpy as np
import pytest

from kcdo.datasets import (
    fetch_bone,
    fetch_caltrans_hourly,
    fetch_dodgers_loop,
    fetch_geyser,
    fetch_lidar,
    fetch_mcycle,
    fetch_metro_interstate,
    fetch_mount_st_helens,
    fetch_pems_sf,
    fetch_uci_regression,
)


def scaled_errors(data, target, train):
    """Mean |estimate/truth - 1| over distinct inputs, of training mean and sd for held-out ones."""
    _, group = np.unique(data, axis=0, return_inverse=True)
    errors = []
    for moment in (np.mean, np.std):
        ratios = [
            moment(target[train & (group == k)]) / moment(target[~train & (group == k)])
            for k in range(group.max() + 1)
        ]
        errors.append(np.mean(np.abs(np.array(ratios) - 1.0)))
    return errors


def test_mount_st_helens(real):
    found = real(fetch_mount_st_helens)
    assert found.data.shape == (14040, 2)
    assert found.grid_shape == (117, 120)
    assert (found.target.min(), found.target.max()) == pytest.approx((764.83, 2521.31), abs=0.01)
    picture = found.data.reshape(*found.grid_shape, 2)
    assert np.ptp(picture[..., 0], axis=0).max() == 0.0
    assert np.ptp(picture[..., 1], axis=1).max() == 0.0


def test_metro_interstate(real):
    found = real(fetch_metro_interstate)
    assert found.data.shape == (40575, 2)
    assert len(np.unique(found.data, axis=0)) == 168
    assert found.train.sum() == 25329
    errors = scaled_errors(found.data, found.target, found.train)
    assert errors == pytest.approx([0.0345, 0.316], abs=5e-4)


def test_caltrans_hourly(real):
    found = real(fetch_caltrans_hourly)
    assert found.target.shape == (17544, 2)
    assert len(np.unique(found.data, axis=0)) == 168
    first = scaled_errors(found.data, found.target[:, 0], found.train)
    last = scaled_errors(found.data, found.target[:, 1], found.train)
    assert first == pytest.approx([0.044, 0.40], abs=5e-3)
    assert last == pytest.approx([0.016, 0.18], abs=5e-3)


def test_dodgers_loop(real):
    found = real(fetch_dodgers_loop)
    assert found.data.shape == (158 * 288 - 337, 2)
    assert len(np.unique(found.data, axis=0)) == 7 * 288
    assert len(np.unique(found.day[found.train])) == 78
    assert len(np.unique(found.day[~found.train])) == 80
    assert found.target.min() == 0
    assert found.target.max() == 90
    # Mornings are quiet on Saturday (5) and Sunday (6) alone: days are numbered rightly.
    morning = (found.data[:, 1] >= 6) & (found.data[:, 1] < 8)
    busy = [found.target[morning & (found.data[:, 0] == day)].mean() for day in range(7)]
    assert max(busy[5:]) < min(busy[:5])


def test_pems_sf(real):
    found = real(fetch_pems_sf)
    assert found.data.shape == (440 * 144, 2)
    assert len(np.unique(found.data, axis=0)) == 1008


@pytest.mark.parametrize(
    ("name", "shape", "mean", "sd", "n_test"),
    [
        ("energy", (768, 8), 22.307, 10.084, 77),
        ("naval-propulsion-plant", (11934, 16), 0.975, 0.0147, 1193),
        ("protein", (45730, 9), 7.749, 6.118, 4573),
        ("wine-quality-red", (1599, 11), 5.636, 0.807, 160),
        ("yacht", (308, 6), 10.495, 15.136, 31),
    ],
)
def test_uci_regression(real, name, shape, mean, sd, n_test):
    found = real(fetch_uci_regression, name)
    assert found.data.shape == shape
    assert found.target.mean() == pytest.approx(mean, abs=6e-4)
    assert found.target.std() == pytest.approx(sd, rel=2e-3)
    assert {len(test) for _, test in found.splits} == {n_test}


@pytest.mark.parametrize(
    ("fetch", "n_rows"),
    [(fetch_geyser, 299), (fetch_mcycle, 133), (fetch_lidar, 221), (fetch_bone, 485)],
)
def test_classics(real, fetch, n_rows):
    found = real(fetch)
    assert len(found.data) == len(found.target) == n_rows
    assert np.isfinite(found.data).all()


def test_frames_of_real_data(real):
    pd = pytest.importorskip("pandas")
    found = real(fetch_bone, as_frame=True)
    assert isinstance(found.frame, pd.DataFrame)
    assert set(found.data["male"]) == {0.0, 1.0}
    assert len(np.unique(found.child)) == 261
