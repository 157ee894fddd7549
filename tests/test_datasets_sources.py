"""The data folder, downloads, and what is refused: from a server of this test, no real network."""

import dataclasses
import functools
import gzip
import hashlib
import http.server
import sys
import threading
import zipfile

import numpy as np
import pytest

import kcdo
from kcdo.datasets import bundles, data_folder
from kcdo.datasets.sources import Source, fingerprint, open_text

CONTENT = b"a,b\n1,2\n"


class Server(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, and at /cut a file whose connection breaks off."""

    def do_GET(self):
        if self.path != "/cut":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"only this")
        self.close_connection = True
        return None

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Address of a server with one file."""
    pytest.importorskip("pooch")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    served = tmp_path / "served"
    served.mkdir()
    (served / "original.csv").write_bytes(CONTENT)
    handler = functools.partial(Server, directory=str(served))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


def source(url, **options):
    return Source("Test", ("one/known.csv.gz", "one/original.csv"), url, "about", **options)


def files_below(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


# --- the folder


def test_the_argument_goes_before_the_variable(monkeypatch, tmp_path):
    monkeypatch.setenv("KCDO_DATA", "elsewhere")
    assert data_folder(tmp_path) == tmp_path
    assert data_folder().as_posix() == "elsewhere"
    monkeypatch.setenv("KCDO_DATA", "~/shelf")
    assert "~" not in str(data_folder())


@pytest.mark.parametrize("value", [None, ""])
def test_the_cache_comes_last(monkeypatch, value):
    pooch = pytest.importorskip("pooch")
    monkeypatch.delenv("KCDO_DATA", raising=False)
    if value is not None:
        monkeypatch.setenv("KCDO_DATA", value)
    assert data_folder() == pooch.os_cache("kcdo")


def test_without_pooch_and_without_a_folder_the_extra_is_named(monkeypatch):
    monkeypatch.delenv("KCDO_DATA", raising=False)
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(kcdo.DataNotFoundError, match=r'pip install "kcdo\[data\]"'):
        data_folder()
    with pytest.raises(kcdo.DataNotFoundError, match=r"known.csv.gz.* not in any folder.*http://x"):
        source("http://x").locate(None, download=True)


# --- finding and downloading


def test_a_file_in_the_folder_is_taken_without_a_download(home):
    (home / "one").mkdir(parents=True)
    original = home / "one/original.csv"
    original.write_bytes(CONTENT)
    assert source("http://127.0.0.1:9/no").locate(home, download=True) == original
    known = home / "one/known.csv.gz"
    known.write_bytes(gzip.compress(CONTENT))
    assert source("http://127.0.0.1:9/no").locate(home, download=True) == known


@pytest.mark.parametrize("sha256", [None, hashlib.sha256(CONTENT).hexdigest()])
def test_a_missing_file_is_downloaded_once(server, home, sha256):
    wanted = source(f"{server}/original.csv", sha256=sha256)
    path = wanted.locate(home, download=True)
    assert path == home / "one/original.csv"
    assert path.read_bytes() == CONTENT
    assert files_below(home) == [path]
    moved = dataclasses.replace(wanted, url="http://127.0.0.1:9/gone")
    assert moved.locate(home, download=True) == path


def assert_refused(wanted, home, match, **options):
    with pytest.raises(kcdo.DataNotFoundError, match=match) as caught:
        wanted.locate(home, **{"download": True, **options})
    message = str(caught.value)
    for part in ("one/known.csv.gz or one/original.csv", str(home), wanted.url, "KCDO_DATA"):
        assert part in message
    assert caught.value.__cause__ is None
    assert isinstance(caught.value, FileNotFoundError)
    assert files_below(home) == []


def test_without_network_one_error_names_file_folder_and_source(home, monkeypatch):
    pytest.importorskip("pooch")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert_refused(source("http://127.0.0.1:9/original.csv"), home, "The download failed")


def test_other_failures_of_a_download_leave_nothing_behind(server, home):
    assert_refused(source(f"{server}/absent"), home, "404")
    assert_refused(source(f"{server}/cut"), home, "The download failed")
    wrong = source(f"{server}/original.csv", sha256="0" * 64)
    assert_refused(wrong, home, "does not match the known hash")


def test_downloads_can_be_switched_off_or_lack_their_extra(home, monkeypatch):
    assert_refused(source("http://x"), home, "download_if_missing=False", download=False)
    monkeypatch.setitem(sys.modules, "pooch", None)
    assert_refused(source("http://x"), home, r"kcdo\[data\]")


# --- what a file holds


def test_the_fingerprint_depends_on_numbers_and_shapes_alone():
    numbers = np.arange(6.0).reshape(2, 3)
    assert fingerprint(numbers) == fingerprint(numbers.astype(int))
    assert fingerprint(numbers) == fingerprint(np.asfortranarray(numbers))
    assert fingerprint([0.0]) == fingerprint([-0.0])
    assert fingerprint(numbers) != fingerprint(numbers.T.reshape(2, 3))
    assert fingerprint(numbers) != fingerprint(numbers.ravel())
    assert fingerprint([1.0], [2.0]) != fingerprint([1.0, 2.0])


def test_other_numbers_are_refused(tmp_path):
    checked = source("http://x", values_sha256=fingerprint([1.0, 2.0]))
    checked.check(tmp_path, [1, 2])
    source("http://x").check(tmp_path, [5, 5])
    with pytest.raises(kcdo.InvalidInputError, match=r"does not hold the numbers of Test.*Remove"):
        checked.check(tmp_path, [1, 2.5])


def test_text_is_read_plain_from_gzip_and_from_archives(tmp_path):
    (tmp_path / "t.csv").write_bytes(CONTENT)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(CONTENT))
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("folder/inner.csv.gz", gzip.compress(CONTENT))
        archive.writestr("plain.csv", CONTENT)
    for name, member in [
        ("t.csv", None),
        ("t.csv.gz", None),
        ("t.zip", "inner.csv.gz"),
        ("t.zip", "plain.csv"),
    ]:
        with open_text(tmp_path / name, member) as text:
            assert text.read() == CONTENT.decode()
    with (
        pytest.raises(kcdo.DataNotFoundError, match=r"no member x.txt; it has folder/inner"),
        open_text(tmp_path / "t.zip", "x.txt"),
    ):
        pass


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv.gz", b"not gzip"),
        ("t.csv.gz", gzip.compress(CONTENT * 99, mtime=0)[:-12]),
        ("t.zip", b"not a zip"),
        ("t.csv", b"\xff\xfe\xff"),
    ],
)
def test_damaged_files_are_named(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with (
        pytest.raises(kcdo.InvalidInputError, match=rf"{name} cannot be read .* remove it"),
        open_text(tmp_path / name) as text,
    ):
        text.read()


def test_tables_are_read_by_name(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('"","a","b"\n"1",2,"x, y"\n\n"2",3,z\n')
    with open_text(path) as text:
        table = bundles.read_table(text)
    assert table == {"": ["1", "2"], "a": ["2", "3"], "b": ["x, y", "z"]}
    np.testing.assert_array_equal(bundles.number_columns(table, ["a"]), [[2.0], [3.0]])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n1,2\n3\n", r"row 2 has 1 cells, the header 2"),
        ("a,c\n1,2\n", r"no column 'b' among a, c"),
        ("a,b\n1,two\n", r"could not convert string to float"),
        ("", r"no column 'a'"),
    ],
)
def test_what_is_wrong_with_a_table_is_said_with_its_file(tmp_path, content, message):
    path = tmp_path / "t.csv"
    path.write_text(content)
    with (
        pytest.raises(kcdo.InvalidInputError, match=rf"t.csv cannot be read.*{message}"),
        open_text(path) as text,
    ):
        bundles.number_columns(bundles.read_table(text), ["a", "b"])


# --- bundles

X, Y1, Y2 = np.arange(6.0).reshape(3, 2), np.arange(3.0), np.arange(6.0).reshape(3, 2)


def bundled(y, names, **options):
    options = {"return_X_y": False, "as_frame": False, **options}
    return bundles.bundle(X, y, ("a", "b"), names, "about", **options)


def test_a_bunch_has_what_scikit_learn_gives():
    found = bundled(Y1, ("t",), extra=7)
    assert found.data is X
    assert found.target is Y1
    assert (found.feature_names, found.target_names) == (["a", "b"], ["t"])
    assert (found.DESCR, found.frame, found.extra) == ("about", None, 7)
    data, target = bundled(Y1, ("t",), return_X_y=True)
    assert data is X
    assert target is Y1


def test_frames_have_names():
    pd = pytest.importorskip("pandas")
    one, two = bundled(Y1, ("t",), as_frame=True), bundled(Y2, ("s", "t"), as_frame=True)
    assert isinstance(one.target, pd.Series)
    assert one.target.name == "t"
    assert list(two.target.columns) == ["s", "t"]
    assert list(two.frame.columns) == ["a", "b", "s", "t"]
    np.testing.assert_array_equal(two.data, X)
    np.testing.assert_array_equal(two.target, Y2)
    np.testing.assert_array_equal(bundled(Y1, ("t",), as_frame=True, return_X_y=True)[1], Y1)


def test_frames_without_pandas_name_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r'needs pandas: pip install "kcdo\[all\]"'):
        bundled(Y1, ("t",), as_frame=True)
