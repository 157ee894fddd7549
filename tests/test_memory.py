"""Memory asked for before it is taken."""

import os
from pathlib import Path

import pytest

from kcdo.errors import NotEnoughMemoryError
from kcdo.memory import available_memory, require_memory


def meminfo(monkeypatch, text):
    def read_text(self):
        if str(self) != "/proc/meminfo" or text is None:
            raise FileNotFoundError
        return text

    monkeypatch.setattr(Path, "read_text", read_text)


def test_memory_as_linux_says(monkeypatch):
    meminfo(monkeypatch, "MemTotal: 9 kB\nMemAvailable:    1234 kB\nSwapFree: 5 kB\n")
    assert available_memory() == 1234 * 1024


def test_memory_left_to_a_container(monkeypatch):
    files = {"meminfo": "MemAvailable: 9999 kB\n", "memory.max": "5000\n", "memory.current": "2000"}
    monkeypatch.setattr(Path, "read_text", lambda self: files[self.name])
    assert available_memory() == 3000


def test_memory_left_by_ulimit(monkeypatch):
    limits = pytest.importorskip("resource")
    page = limits.getpagesize()
    files = {"meminfo": "MemAvailable: 99999999 kB\n", "statm": "3 2 1\n", "memory.max": "max"}
    monkeypatch.setattr(Path, "read_text", lambda self: files.get(self.name, "0"))
    monkeypatch.setattr(limits, "getrlimit", lambda kind: (10 * page, -1))
    assert available_memory() == 7 * page
    files["statm"] = "none"
    assert available_memory() == 10 * page
    monkeypatch.setattr(limits, "getrlimit", lambda kind: (limits.RLIM_INFINITY, -1))
    assert available_memory() == 99999999 * 1024
    monkeypatch.setattr("kcdo.memory.resource", None)
    assert available_memory() == 99999999 * 1024


@pytest.mark.parametrize("text", [None, "MemTotal: 9 kB\n"])
def test_memory_as_other_systems_say(monkeypatch, text):
    meminfo(monkeypatch, text)
    values = {"SC_PAGE_SIZE": 4096, "SC_AVPHYS_PAGES": 10}
    monkeypatch.setattr(os, "sysconf", values.__getitem__, raising=False)
    assert available_memory() == 40_960


def test_memory_that_nobody_knows(monkeypatch):
    meminfo(monkeypatch, None)
    monkeypatch.delattr(os, "sysconf", raising=False)
    assert available_memory() == 4 << 30


def test_memory_is_asked_for_before_it_is_taken(monkeypatch):
    monkeypatch.setattr("kcdo.memory.available_memory", lambda: 3 << 30)
    require_memory(3 << 30, "a matrix", "use less")
    message = r"^a matrix needs 3\.5 GiB of memory, but 3\.0 GiB are available: use less$"
    with pytest.raises(NotEnoughMemoryError, match=message) as caught:
        require_memory(3.5 * (1 << 30), "a matrix", "use less")
    assert isinstance(caught.value, MemoryError)
