"""Files that appear whole or not at all."""

import errno
import os
import sys
import threading

import pytest

from kcdo.atomic import atomic_file

unix = pytest.mark.skipif(sys.platform == "win32", reason="links, modes and pipes of Unix")


def write(path, content, error=None):
    with atomic_file(path) as file:
        file.write(content)
        if error is not None:
            raise error


def test_the_file_is_there_when_it_is_complete(tmp_path):
    path = tmp_path / "new.txt"
    with atomic_file(path) as file:
        file.write(b"one, ")
        assert not path.exists()
        file.write(b"two")
        file.seek(0)
        assert file.read() == b"one, two"  # what was written can be read back, for a checksum
    assert path.read_bytes() == b"one, two"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [RuntimeError("no"), KeyboardInterrupt(), OSError(28, "full")])
def test_after_trouble_all_is_as_before(error, tmp_path):
    path = tmp_path / "old.txt"
    path.write_bytes(b"old")
    with pytest.raises(type(error)) as caught:
        write(path, b"half", error)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    assert getattr(caught.value, "filename", str(path)) == str(path)


def test_errors_keep_the_names_of_other_files(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"input\.csv"):
        write(tmp_path / "out", b"", FileNotFoundError(errno.ENOENT, "no file", "input.csv"))
    with pytest.raises(FileNotFoundError, match=r"nowhere.out'"):
        write(tmp_path / "nowhere" / "out", b"")
    with pytest.raises(OSError, match=r"^input\.gz is damaged$"):
        write(tmp_path / "out", b"", OSError("input.gz is damaged"))
    with pytest.raises(IsADirectoryError, match="Is a directory"):
        write(tmp_path, b"")
    assert list(tmp_path.iterdir()) == []


@unix
def test_links_are_followed(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write(link, b"new")
    assert (link.is_symlink(), target.read_bytes()) == (True, b"new")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "target"]


@unix
def test_modes_are_those_of_open(tmp_path):
    plain, made, secret = (tmp_path / name for name in ("plain", "made", "secret"))
    plain.write_bytes(b"")
    write(made, b"")
    assert made.stat().st_mode == plain.stat().st_mode
    secret.write_bytes(b"")
    secret.chmod(0o600)
    write(secret, b"more")
    assert secret.stat().st_mode & 0o777 == 0o600


@unix
def test_pipes_and_devices_are_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write(pipe, b"all of it")
    reader.join(timeout=10)
    assert read == [b"all of it"]
    assert list(tmp_path.iterdir()) == [pipe]
    write(os.devnull, b"gone")
    assert not os.path.isfile(os.devnull)
