"""PEMS-SF: its text format, on files of any size written here, from a folder or an archive."""

import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import kcdo
from kcdo.datasets import fetch_pems_sf, pems, read_pems_sf


def as_text(days):
    """Days (days, sensors, slots) as lines of matrices."""
    rows = [[" ".join(map(repr, row)) for row in day] for day in days.tolist()]
    return "".join(f"[{';'.join(day)}]\n" for day in rows)


def pems_files_of(days, labels, n_train):
    """The four files of the format, for days (days, sensors, slots)."""
    return {
        "PEMS_train": as_text(days[:n_train]),
        "PEMS_test": as_text(days[n_train:]),
        "PEMS_trainlabels": f"[{' '.join(map(str, labels[:n_train]))}]\n",
        "PEMS_testlabels": f"[{' '.join(map(str, labels[n_train:]))}]\n",
    }


def write_folder(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def write_archive(path, files, below=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(below + name, text)
    return path


@pytest.fixture
def days(rng):
    return np.round(rng.uniform(size=(5, 4, 6)), 4)


@pytest.fixture
def files(days):
    return pems_files_of(days, [1, 7, 3, 2, 5], n_train=3)


# --- the format


@given(data=st.data())
def test_what_is_written_is_read(tmp_path_factory, data):
    shape = data.draw(st.tuples(*[st.integers(1, 5)] * 3))
    numbers = st.floats(allow_nan=False, allow_infinity=False)
    days = data.draw(hnp.arrays(np.float64, shape, elements=numbers))
    n_train = data.draw(st.integers(0, shape[0]))
    folder = tmp_path_factory.mktemp("pems")
    labels = [1 + k % 7 for k in range(shape[0])]
    found = read_pems_sf(write_folder(folder, pems_files_of(days, labels, n_train)))
    np.testing.assert_array_equal(found.values, days.transpose(0, 2, 1))
    assert found.labels.tolist() == labels
    assert found.train.sum() == n_train
    assert found.n_sensors == shape[1]


@pytest.mark.parametrize("below", ["", "PEMS-SF/"])
def test_an_archive_reads_like_a_folder(tmp_path, days, files, below):
    folder = read_pems_sf(write_folder(tmp_path / "folder", files))
    archive = read_pems_sf(write_archive(tmp_path / "pems+sf.zip", files, below))
    np.testing.assert_array_equal(archive.values, folder.values)
    np.testing.assert_array_equal(archive.labels, folder.labels)
    np.testing.assert_array_equal(archive.train, [True, True, True, False, False])
    assert archive.stations is archive.calendar_order is None


def test_some_sensors_in_the_order_asked_for(tmp_path, days, files):
    found = read_pems_sf(write_folder(tmp_path, files), sensors=[3, 1])
    np.testing.assert_array_equal(found.values, days[:, [3, 1]].transpose(0, 2, 1))
    assert (found.sensors, found.n_sensors) == ([3, 1], 4)


def test_spaces_and_blank_lines_do_not_matter(tmp_path, days, files):
    loose = {name: text.replace(";", " ;  ").replace("[", "[ ") for name, text in files.items()}
    loose["PEMS_train"] = loose["PEMS_train"].replace("\n", "\r\n\n") + "\n"
    loose["PEMS_test"] = loose["PEMS_test"].rstrip("\n")
    found = read_pems_sf(write_folder(tmp_path, loose))
    np.testing.assert_array_equal(found.values, days.transpose(0, 2, 1))


def test_names_and_calendar_order_are_read_where_given(tmp_path, days, files):
    more = {"stations_list": "[400000 400001 400002 400003]\n", "randperm": "[3 1 5 2 4]\n"}
    found = read_pems_sf(write_folder(tmp_path, files | more))
    assert found.stations == ["400000", "400001", "400002", "400003"]
    # The first day in the files is the third of the calendar.
    np.testing.assert_array_equal(found.values[found.calendar_order][2], found.values[0])
    assert found.calendar_order.tolist() == [1, 3, 0, 4, 2]


@pytest.mark.parametrize(
    ("name", "line", "text", "message"),
    [
        ("PEMS_train", 2, "1 2; 3 4", r"PEMS_train, line 2: a day must be a matrix \[a b"),
        ("PEMS_train", 2, "[1 2; 3 4", r"PEMS_train, line 2: a day must be a matrix"),
        ("PEMS_test", 1, "[1 2 3 4 5 6; 1 2 3 4 5 6]", r"PEMS_test, line 1: .* 2 rows, .* has 4"),
        ("PEMS_test", 2, "[1 2;1 2;1 2;1 2]", r"test, line 2: sensor 0 has 2 values, .* has 6"),
        (
            "PEMS_train",
            3,
            "[1 2 3 4 5 6;1 2 3 4 5 6;1 2 3 4 5;1 2 3 4 5 6]",
            r"line 3: sensor 2 has 5 values, the first has 6",
        ),
        (
            "PEMS_train",
            1,
            "[1 2 3 4 5 6;1 2 3 4 5 6;1 x 3 4 5 6;1 2 3 4 5 6]",
            r"PEMS_train, line 1: sensor 2 has 'x' where a finite number should be",
        ),
        (
            "PEMS_train",
            1,
            "[1 2 3 4 5 6;1 2 nan 4 5 6;1 2 3 4 5 6;1 2 3 4 5 6]",
            r"line 1: sensor 1 has 'nan' where",
        ),
        (
            "PEMS_train",
            2,
            "[1 2 3 4 5 6;;1 2 3 4 5 6;1 2 3 4 5 6]",
            r"line 2: sensor 1 has 0 values",
        ),
        (
            "PEMS_train",
            2,
            "[1 2 3 4 5 6;1 2 3 4 5 1_0;1 2 3 4 5 6;1 2 3 4 5 6]",
            r"line 2: not a matrix of numbers",
        ),
        ("PEMS_train", 2, "", r"PEMS_train has 2 days, but PEMS_trainlabels has 3 labels"),
        ("PEMS_trainlabels", 1, "[1 2]", r"PEMS_train has 3 days, .* 2 labels"),
        ("PEMS_testlabels", 1, "[1 2 3]", r"PEMS_test has 2 days, .* 3 labels"),
        ("PEMS_trainlabels", 1, "[1 2 Mo]", r"trainlabels, line 1: whole numbers .*'Mo'"),
        ("PEMS_trainlabels", 1, "[1 2 8]", r"PEMS_trainlabels: labels must be from 1 to 7"),
        ("PEMS_trainlabels", 1, "1 2 3", r"PEMS_trainlabels, line 1: \[1 2 ...\] expected"),
        ("randperm", 1, "[1 2 3 3 5]", r"randperm: not a permutation of 1 to 5"),
        ("randperm", 1, "[1 2 3]", r"randperm: not a permutation of 1 to 5"),
        ("stations_list", 1, "[a b c]", r"stations_list has 3 names for 4 sensors"),
    ],
)
def test_malformed_files_are_refused_with_file_and_line(tmp_path, files, name, line, text, message):
    lines = files.get(name, "\n").splitlines()
    lines[line - 1] = text
    files[name] = "\n".join(lines) + "\n"
    with pytest.raises(kcdo.InvalidInputError, match=message):
        read_pems_sf(write_folder(tmp_path / "folder", files))
    with pytest.raises(kcdo.InvalidInputError, match=message):
        read_pems_sf(write_archive(tmp_path / "a.zip", files))


@pytest.mark.parametrize("sensors", [[4], [-1], []])
def test_sensors_must_exist(tmp_path, files, sensors):
    with pytest.raises(kcdo.InvalidInputError, match=r"sensors must be some of 0 to 3, got"):
        read_pems_sf(write_folder(tmp_path, files), sensors)


def test_missing_files_are_named(tmp_path, files):
    del files["PEMS_test"]
    with pytest.raises(kcdo.DataNotFoundError, match=r"no file PEMS_test in"):
        read_pems_sf(write_folder(tmp_path / "folder", files))
    with pytest.raises(kcdo.DataNotFoundError, match=r"no member PEMS_test"):
        read_pems_sf(write_archive(tmp_path / "a.zip", files))


def test_files_without_days_are_refused(tmp_path):
    files = {"PEMS_train": "", "PEMS_test": "", "PEMS_trainlabels": "[]", "PEMS_testlabels": "[]"}
    with pytest.raises(kcdo.InvalidInputError, match="has no days"):
        read_pems_sf(write_folder(tmp_path, files))


def test_too_many_sensors_are_refused_before_anything_is_allocated(tmp_path, files, monkeypatch):
    monkeypatch.setattr("kcdo.memory.available_memory", lambda: 100)
    with pytest.raises(kcdo.NotEnoughMemoryError, match=r"5 days of 4 sensors .* fewer sensors"):
        read_pems_sf(write_folder(tmp_path, files))


def test_memory_is_that_of_the_result_and_a_few_lines(tmp_path, rng):
    days = np.round(rng.uniform(size=(60, 50, 24)), 4)
    labels = [1 + k % 7 for k in range(60)]
    folder = write_folder(tmp_path, pems_files_of(days, labels, 40))
    read_pems_sf(folder)  # what Python keeps for good is not part of the peak
    peaks = []
    for sensors in ([0], None):
        tracemalloc.start()
        found = read_pems_sf(folder, sensors)
        peaks.append(tracemalloc.get_traced_memory()[1] - found.values.nbytes)
        tracemalloc.stop()
    line = (folder / "PEMS_train").stat().st_size / 40
    assert max(peaks) < 20 * line  # 60 days are in the files


# --- the data set


@pytest.fixture
def home(tmp_path, monkeypatch, files):
    """A data folder whose PEMS-SF is small, and the loader told so."""
    monkeypatch.setattr(pems, "_SHAPE", (5, 6, 4))
    write_folder(tmp_path / "pems_sf", files)
    return tmp_path


def test_rows_are_days_and_slots(home, days):
    found = fetch_pems_sf(2, data_home=home)
    assert found.data.shape == (30, 2)
    np.testing.assert_array_equal(found.target, days[:, 2].ravel())
    np.testing.assert_array_equal(found.data[:, 0], np.repeat([0, 6, 2, 1, 4], 6))  # 1 is Monday
    np.testing.assert_array_equal(found.data[:6, 1], [0, 4, 8, 12, 16, 20])
    np.testing.assert_array_equal(found.day, np.repeat(range(5), 6))
    np.testing.assert_array_equal(found.train, found.day < 3)
    assert found.target_names == ["sensor_2"]


def test_several_sensors_are_columns_named_by_station(home, days):
    (home / "pems_sf/stations_list").write_text("[a b c d]")
    all_of_them = fetch_pems_sf(None, data_home=home)
    np.testing.assert_array_equal(all_of_them.target, days.transpose(0, 2, 1).reshape(30, 4))
    assert all_of_them.target.base is not None  # a view: half a gigabyte is not copied
    some = fetch_pems_sf([3, 0], data_home=home)
    assert some.target_names == ["sensor_d", "sensor_a"]
    np.testing.assert_array_equal(some.target, all_of_them.target[:, [3, 0]])
    X, y = fetch_pems_sf([3], data_home=home, return_X_y=True)
    assert (X.shape, y.shape) == ((30, 2), (30, 1))


@pytest.mark.parametrize("name", ["PEMS-SF.zip", "pems+sf.zip"])
def test_the_archive_in_the_data_folder_will_do(tmp_path, monkeypatch, files, days, name):
    monkeypatch.setattr(pems, "_SHAPE", (5, 6, 4))
    write_archive(tmp_path / "pems_sf" / name, files)
    _, occupancy = fetch_pems_sf(data_home=tmp_path, return_X_y=True)
    np.testing.assert_array_equal(occupancy, days[:, 0].ravel())


def test_other_data_are_not_taken_for_pems_sf(tmp_path, home, days):
    with pytest.raises(kcdo.DataNotFoundError, match=r"pems\+sf.zip of PEMS-SF is not in .*204"):
        fetch_pems_sf(data_home=tmp_path / "empty", download_if_missing=False)
    write_folder(home / "pems_sf", pems_files_of(days + 1.0, [1] * 5, 3))
    with pytest.raises(kcdo.InvalidInputError, match=r"not PEMS-SF: occupancies must be from 0"):
        fetch_pems_sf(data_home=home)
    write_folder(home / "pems_sf", pems_files_of(days[:, :3], [1] * 5, 3))
    with pytest.raises(kcdo.InvalidInputError, match=r"not PEMS-SF: \(5, 6, 3\) .*read_pems_sf"):
        fetch_pems_sf(data_home=home)


def test_the_real_size_is_what_the_archive_says():
    assert pems._SHAPE == (440, 144, 963)
