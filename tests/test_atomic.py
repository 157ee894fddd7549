"""Files that appear whole or not at all."""

import errno
import os
import subprocess
import sys
import threading
import time

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


KILLED = """
import os, sys
from kcdo.atomic import atomic_file

with atomic_file(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    sys.stdin.read()
"""


def writer(path):
    """A process that is in the middle of a file."""
    command = [sys.executable, "-c", KILLED, str(path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"writing\n"
    return process


def aged(folder):
    """The drafts in a folder, as if they were an hour old."""
    drafts = list(folder.glob(".*.kcdo-draft"))
    for draft in drafts:
        os.utime(draft, (time.time() - 3600,) * 2)
    return drafts


def ended(process):
    process.kill()
    process.communicate()


@unix
def test_what_a_killed_process_left_is_removed_at_the_next_write(tmp_path):
    process = writer(tmp_path / "model.kcdo")
    ended(process)
    (draft,) = tmp_path.iterdir()
    assert draft.read_bytes() == b"half"
    write(tmp_path / "other.csv", b"new")  # too fresh to be sure of
    assert draft.exists()
    assert aged(tmp_path) == [draft]
    others = [tmp_path / name for name in (".notes.0123456789abcdef", ".x.kcdo-draft", "y.csv")]
    for other in others:
        other.touch()
        os.utime(other, (0, 0))
    write(tmp_path / "other.csv", b"new")
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "other.csv", *others])


@unix
def test_the_draft_of_a_living_process_is_left_alone(tmp_path):
    process = writer(tmp_path / "model.kcdo")
    (draft,) = aged(tmp_path)
    write(tmp_path / "other.csv", b"new")
    assert draft.exists()
    process.communicate(b"")
    assert process.returncode == 0
    assert (tmp_path / "model.kcdo").read_bytes() == b"half"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.kcdo", "other.csv"]


def test_without_locks_old_drafts_are_removed_too(tmp_path, monkeypatch):
    monkeypatch.setattr("kcdo.atomic._locks", None)
    draft = tmp_path / ".model.kcdo.0123456789abcdef.kcdo-draft"
    draft.touch()
    aged(tmp_path)
    write(tmp_path / "new.csv", b"new")
    assert not draft.exists()


def test_drafts_that_cannot_be_removed_are_no_trouble(tmp_path, monkeypatch):
    (tmp_path / ".model.kcdo.0123456789abcdef.kcdo-draft").mkdir()
    aged(tmp_path)
    write(tmp_path / "new.csv", b"new")
    assert (tmp_path / "new.csv").read_bytes() == b"new"
