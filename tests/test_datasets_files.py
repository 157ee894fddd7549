"""Each loader on small files of its format, written here: our layout and the public original."""

import dataclasses
import gzip
import zipfile
from datetime import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.io import savemat

import kcdo
from kcdo.datasets import (
    classic,
    fetch_bone,
    fetch_caltrans_hourly,
    fetch_dodgers_loop,
    fetch_geyser,
    fetch_lidar,
    fetch_mcycle,
    fetch_metro_interstate,
    fetch_mount_st_helens,
    fetch_uci_regression,
    regression,
    standard_splits,
    terrain,
    traffic,
)

SOURCES = [
    *((classic, name) for name in ("_GEYSER", "_MCYCLE", "_LIDAR", "_BONE")),
    *((traffic, name) for name in ("_METRO", "_DODGERS", "_CALTRANS")),
    (terrain, "_MOUNT_ST_HELENS"),
]


@pytest.fixture
def any_numbers(monkeypatch):
    """Accept made-up numbers, which lack the known fingerprint."""
    for module, name in SOURCES:
        unchecked = dataclasses.replace(getattr(module, name), values_sha256=None)
        monkeypatch.setattr(module, name, unchecked)
    for name, table in regression._TABLES.items():
        unchecked = dataclasses.replace(table.source, values_sha256=None)
        monkeypatch.setitem(regression._TABLES, name, dataclasses.replace(table, source=unchecked))


def write(home, name, text):
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())


def write_archive(home, name, members):
    (home / name).parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(home / name, "w") as archive:
        for member, content in members.items():
            archive.writestr(member, content)


# --- every loader


@pytest.mark.parametrize(
    ("fetch", "file", "address"),
    [
        (fetch_mount_st_helens, "MtSH.mat", "github.com/ericlee0803"),
        (fetch_metro_interstate, "Metro_Interstate", "archive.ics.uci.edu"),
        (fetch_dodgers_loop, "dodger_loop_day", "timeseriesclassification.com"),
        (fetch_caltrans_hourly, "caltrans_occupancy", "laiguokun"),
        (fetch_geyser, "geyser.csv", "Rdatasets"),
        (fetch_mcycle, "mcycle.csv", "Rdatasets"),
        (fetch_lidar, "lidar.csv", "all-of-nonpar"),
        (fetch_bone, "bone.csv", "ElemStatLearn"),
        (lambda **options: fetch_uci_regression("yacht", **options), "data.txt.gz", "yaringal"),
    ],
)
def test_absent_data_are_named_with_their_source(tmp_path, fetch, file, address):
    with pytest.raises(kcdo.DataNotFoundError, match=rf"{file}.*{address}") as caught:
        fetch(data_home=tmp_path, download_if_missing=False)
    assert str(tmp_path) in str(caught.value)


def test_edited_copies_are_refused(tmp_path):
    write(tmp_path, "classic/geyser.csv", "waiting,duration\n80,4\n")
    with pytest.raises(kcdo.InvalidInputError, match=r"geyser.csv .* edited copy"):
        fetch_geyser(data_home=tmp_path)


# --- terrain


def test_terrain_is_a_map(tmp_path, any_numbers):
    nx, ny = 4, 3
    x, y = np.meshgrid(8 * np.arange(1, nx + 1), 8 * np.arange(1, ny + 1))
    points = np.column_stack([x.ravel(), y.ravel()]).astype(np.uint16)
    heights = points[:, 0] + 1000.0 * points[:, 1]
    (tmp_path / "mount_st_helens").mkdir()
    variables = {
        "nx": np.uint8(nx),
        "ny": np.uint8(ny),
        "mth_points": points,
        "mth_verts": heights[:, None],
        "mth_grads": np.ones((12, 2)),
    }
    savemat(tmp_path / "mount_st_helens/MtSH.mat", variables)
    found = fetch_mount_st_helens(data_home=tmp_path)
    assert found.data.dtype == np.float64
    np.testing.assert_array_equal(found.data, points)
    picture = found.target.reshape(found.grid_shape)
    np.testing.assert_array_equal(np.diff(picture, axis=1), 8.0)
    np.testing.assert_array_equal(np.diff(picture, axis=0), 8000.0)
    assert found.gradients.shape == (12, 2)
    X, elevation = fetch_mount_st_helens(data_home=tmp_path, return_X_y=True)
    assert X.shape == (12, 2)
    np.testing.assert_array_equal(elevation, heights)

    del variables["mth_verts"], variables["nx"]
    savemat(tmp_path / "mount_st_helens/MtSH.mat", variables)
    with pytest.raises(kcdo.InvalidInputError, match=r"MtSH.mat lacks .* mth_verts, nx"):
        fetch_mount_st_helens(data_home=tmp_path)
    write(tmp_path, "mount_st_helens/MtSH.mat", "no matrix here, but enough bytes to look" * 9)
    with pytest.raises(kcdo.InvalidInputError, match=r"MtSH.mat cannot be read"):
        fetch_mount_st_helens(data_home=tmp_path)


# --- curves


@pytest.mark.parametrize(
    ("fetch", "file", "text"),
    [
        (fetch_geyser, "geyser.csv", "waiting,duration\n80.0,4.5\n71,2.15\n"),
        (fetch_geyser, "geyser.csv", '"","waiting","duration"\n"1",80,4.5\n"2",71,2.15\n'),
        (fetch_mcycle, "mcycle.csv", "rownames,times,accel\n1,80,4.5\n2,71,2.15\n"),
        (fetch_lidar, "lidar.csv", "range,logratio\n80,4.5\n71,2.15\n"),
        (fetch_lidar, "lidar.dat", "range  logratio\r\n  80  4.5\r\n  71  2.15\r\n"),
    ],
)
def test_curves(tmp_path, any_numbers, fetch, file, text):
    write(tmp_path, f"classic/{file}", text)
    found = fetch(data_home=tmp_path)
    np.testing.assert_array_equal(found.data, [[80.0], [71.0]])
    np.testing.assert_array_equal(found.target, [4.5, 2.15])
    assert found.data.flags.c_contiguous
    assert found.target.flags.c_contiguous
    assert len(found.feature_names) == len(found.target_names) == 1
    assert "GPL" in found.DESCR


@pytest.mark.parametrize(("file", "mark"), [("bone.csv", ","), ("bone.data", "\t")])
def test_bone_has_gender_and_child(tmp_path, any_numbers, file, mark):
    rows = ["idnum age gender spnbmd", "1 11.7 male 0.5", "1 12.7 male 0.25", "2 9.5 female 0"]
    write(tmp_path, f"classic/{file}", "\n".join(rows).replace(" ", mark))
    found = fetch_bone(data_home=tmp_path)
    np.testing.assert_array_equal(found.data, [[11.7, 1], [12.7, 1], [9.5, 0]])
    np.testing.assert_array_equal(found.target, [0.5, 0.25, 0.0])
    np.testing.assert_array_equal(found.child, [1, 1, 2])


# --- traffic

METRO = """holiday,temp,weather_description,date_time,traffic_volume
None,288.28,"clouds, few",2016-12-31 23:00:00,10
None,288.28,mist,2016-12-31 23:00:00,11
Day,0,rain,2017-01-01 00:00:00,12
None,1,rain,2017-01-02 13:00:00,13
"""


@pytest.mark.parametrize("packed", ["csv", "zip"])
def test_metro_takes_the_first_row_of_a_time(tmp_path, any_numbers, packed):
    folder, name = "traffic/metro_interstate", "Metro_Interstate_Traffic_Volume.csv.gz"
    if packed == "csv":
        write(tmp_path, f"{folder}/{name}", METRO)
    else:
        content = {name: gzip.compress(METRO.encode())}
        write_archive(tmp_path, f"{folder}/metro+interstate+traffic+volume.zip", content)
    found = fetch_metro_interstate(data_home=tmp_path)
    np.testing.assert_array_equal(found.data, [[5, 23], [6, 0], [0, 13]])  # a Saturday came first
    np.testing.assert_array_equal(found.target, [10, 12, 13])
    np.testing.assert_array_equal(found.train, [True, False, False])
    assert found.time[1] == np.datetime64("2017-01-01")


@given(st.datetimes(min_value=datetime(1970, 1, 5)))
def test_time_features_agree_with_the_calendar(moment):
    ((weekday, hour),) = traffic._time_features(np.array([moment], dtype="datetime64[s]"))
    assert weekday == moment.weekday()
    seconds = 3600 * moment.hour + 60 * moment.minute + moment.second
    assert hour == pytest.approx(seconds / 3600)


DODGERS = "split,day,t000,t001,t002\ntest,1,5,,7\ntrain,2,1,2,3\ntrain,7,4,0,\n"


def test_dodgers_drops_missing_cells(tmp_path, any_numbers):
    write(tmp_path, "traffic/dodger_loop_day/dodger_loop_day.csv.gz", DODGERS)
    found = fetch_dodgers_loop(data_home=tmp_path)
    np.testing.assert_array_equal(found.target, [5, 7, 1, 2, 3, 4, 0])
    np.testing.assert_array_equal(found.data[:, 0], [6, 6, 0, 0, 0, 5, 5])  # 1 is Sunday
    np.testing.assert_array_equal(found.data[:, 1], [0, 16, 0, 8, 16, 0, 8])
    np.testing.assert_array_equal(found.day, [0, 0, 1, 1, 1, 2, 2])
    np.testing.assert_array_equal(found.train, found.day > 0)


def test_dodgers_in_the_archive_of_the_collection(tmp_path, monkeypatch):
    table, archive = tmp_path / "table", tmp_path / "archive"
    write(table, "traffic/dodger_loop_day/dodger_loop_day.csv.gz", DODGERS)
    halves = {
        "DodgerLoopDay_TRAIN.txt": "  7.0e+00  4.0  0.0  NaN\n  2.0  1  2  3\n",
        "DodgerLoopDay_TEST.txt": "1.0 5 ? 7\n",
    }
    write_archive(archive, "traffic/dodger_loop_day/DodgerLoopDay.zip", halves)
    # The same days in another order have the same fingerprint.
    seen = []
    monkeypatch.setattr(traffic.Source, "check", lambda self, path, *values: seen.append(values[0]))
    one, two = fetch_dodgers_loop(data_home=table), fetch_dodgers_loop(data_home=archive)
    np.testing.assert_array_equal(*seen)
    assert len(one.target) == len(two.target) == 7
    np.testing.assert_array_equal(two.target, [4, 0, 1, 2, 3, 5, 7])
    np.testing.assert_array_equal(two.train, two.day < 2)

    halves["DodgerLoopDay_TEST.txt"] = "1.0 5 6\n"
    write_archive(archive, "traffic/dodger_loop_day/DodgerLoopDay.zip", halves)
    with pytest.raises(kcdo.InvalidInputError, match=r"DodgerLoopDay.zip cannot be read"):
        fetch_dodgers_loop(data_home=archive)


def caltrans_columns(n_hours):
    return np.round(np.random.default_rng(0).uniform(size=(n_hours, 2)), 4)


def test_caltrans_splits_by_weeks(tmp_path, any_numbers):
    occupancy = caltrans_columns(15 * 24)
    times = np.datetime64("2015-01-01", "s") + np.arange(15 * 24) * np.timedelta64(3600, "s")
    stamps = [str(time).replace("T", " ") for time in times]
    lines = [f"{t},{a},{b}" for t, (a, b) in zip(stamps, occupancy, strict=True)]
    text = "\n".join(["datetime,sensor_0,sensor_861", *lines])
    name = "traffic/caltrans_hourly/caltrans_occupancy_hourly_2sensors.csv.gz"
    write(tmp_path, name, text)
    found = fetch_caltrans_hourly(data_home=tmp_path)
    np.testing.assert_array_equal(found.target, occupancy)
    np.testing.assert_array_equal(found.time, times)
    np.testing.assert_array_equal(found.data[:25:8], [[3, 0], [3, 8], [3, 16], [4, 0]])
    week = np.arange(15 * 24) // 168
    np.testing.assert_array_equal(found.train, week != 1)
    assert found.target_names == ["sensor_0", "sensor_861"]


def test_caltrans_from_the_file_of_all_sensors(tmp_path, any_numbers):
    occupancy = caltrans_columns(30)
    lines = [",".join([str(a), *["0.5"] * 860, str(b)]) for a, b in occupancy]
    write(tmp_path, "traffic/caltrans_hourly/traffic.txt.gz", "\n".join(lines))
    found = fetch_caltrans_hourly(data_home=tmp_path)
    np.testing.assert_array_equal(found.target, occupancy)
    np.testing.assert_array_equal(found.data[[0, 29]], [[3, 0], [4, 5]])
    write(tmp_path, "traffic/caltrans_hourly/traffic.txt.gz", "0.1,0.2\n")
    with pytest.raises(kcdo.InvalidInputError, match=r"traffic.txt.gz cannot be read"):
        fetch_caltrans_hourly(data_home=tmp_path)


# --- UCI regression

N_COLUMNS = {
    "energy": (8, 9),
    "naval-propulsion-plant": (16, 18),
    "protein": (9, 10),
    "wine-quality-red": (11, 12),
    "yacht": (6, 7),
}


@pytest.mark.parametrize("name", N_COLUMNS)
@pytest.mark.parametrize("file", ["data.txt.gz", "data.txt"])
def test_regression_tables(tmp_path, any_numbers, name, file):
    n_features, n_columns = N_COLUMNS[name]
    values = np.random.default_rng(0).normal(size=(20, n_columns))
    lines = ["\t ".join(map(str, row)) + " " for row in values]
    write(tmp_path, f"uci/{name}/{file}", "\n".join([*lines, "", ""]))
    found = fetch_uci_regression(name, data_home=tmp_path)
    np.testing.assert_array_equal(found.data, values[:, :n_features])
    np.testing.assert_array_equal(found.target, values[:, n_features])
    assert len(set(found.feature_names)) == n_features
    assert len(found.splits) == (5 if name == "protein" else 20)
    assert [len(part) for part in found.splits[0]] == [18, 2]
    assert "CC BY 4.0" in found.DESCR


def test_regression_tables_need_their_columns(tmp_path):
    write(tmp_path, "uci/yacht/data.txt", "1 2 3\n4 5 6\n")
    with pytest.raises(kcdo.InvalidInputError, match=r"data.txt .*7 columns expected, got 3"):
        fetch_uci_regression("yacht", data_home=tmp_path)


def test_unknown_sets_are_answered_with_the_known_ones(tmp_path):
    with pytest.raises(kcdo.InvalidInputError, match=r"one of energy, .*yacht; got 'boston'"):
        fetch_uci_regression("boston", data_home=tmp_path)


@given(st.integers(2, 60), st.integers(1, 4))
def test_splits_are_partitions_drawn_one_after_another(n_rows, n_splits):
    splits = standard_splits(n_rows, n_splits)
    stream = np.random.RandomState(1)
    for train, test in splits:
        order = stream.choice(range(n_rows), n_rows, replace=False)
        np.testing.assert_array_equal(np.concatenate([train, test]), order)
        assert len(train) == round(0.9 * n_rows)
        assert sorted(order) == list(range(n_rows))


def test_the_first_standard_split_stays_what_it_is():
    """NumPy freezes its legacy streams, on which published tables rest."""
    train, test = standard_splits(308)[0]
    assert train[:5].tolist() == [73, 304, 228, 238, 259]
    assert test[:5].tolist() == [121, 115, 286, 216, 264]
