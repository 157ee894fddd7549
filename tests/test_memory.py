"""Memory asked for before it is taken."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

import kcdo
from kcdo.errors import NotEnoughMemoryError
from kcdo.memory import available_memory, require_memory
from tests.fuzz.lives import in_little_memory


def files(monkeypatch, contents):
    """Let the system have these files alone, by their paths."""

    def read_text(self):
        if str(self) not in contents:
            raise FileNotFoundError
        return contents[str(self)]

    monkeypatch.setattr(Path, "read_text", read_text)
    return contents


MUCH = {"/proc/meminfo": "MemTotal: 9 kB\nMemAvailable: 99999999 kB\nSwapFree: 5 kB\n"}
GROUPS = "/sys/fs/cgroup"


def test_memory_as_linux_says(monkeypatch):
    files(monkeypatch, MUCH)
    assert available_memory() == 99999999 * 1024


@pytest.mark.parametrize(
    ("told", "folder", "names"),
    [
        ("", GROUPS, ("memory.max", "memory.current")),
        ("0::/\n", GROUPS, ("memory.max", "memory.current")),
        ("0::/work/job\n", f"{GROUPS}/work/job", ("memory.max", "memory.current")),
        ("0::/work/job\n", f"{GROUPS}/work", ("memory.max", "memory.current")),  # of a parent
        ("0::/../job\n", f"{GROUPS}/job", ("memory.max", "memory.current")),
        (
            "8:cpu:/other\n9:hugetlb,memory:/work/job\n0::/\n",
            f"{GROUPS}/memory/work/job",
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ),
        (
            "9:memory:/docker/abc\n",  # seen from outside: inside, the root is the container
            f"{GROUPS}/memory",
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ),
    ],
)
def test_memory_left_to_a_container(monkeypatch, told, folder, names):
    limit = {f"{folder}/{name}": f"{n}\n" for name, n in zip(names, (5000, 2000), strict=True)}
    found = files(monkeypatch, MUCH | {"/proc/self/cgroup": told} | limit)
    assert available_memory() == 3000
    found[f"{folder}/{names[1]}"] = "6000\n"
    assert available_memory() == 0
    found[f"{folder}/{names[0]}"] = "max\n"
    assert available_memory() == 99999999 * 1024


def test_the_tightest_of_nested_groups_counts(monkeypatch):
    contents = {"/proc/self/cgroup": "0::/a/b/c\n"}
    for place, most in (("a", 9000), ("a/b", 4000), ("a/b/c", 7000)):
        contents |= {f"{GROUPS}/{place}/memory.max": str(most)}
        contents |= {f"{GROUPS}/{place}/memory.current": "1000"}
    files(monkeypatch, MUCH | contents)
    assert available_memory() == 3000


def test_memory_left_by_ulimit(monkeypatch):
    limits = pytest.importorskip("resource")
    page = limits.getpagesize()
    monkeypatch.setattr("kcdo.memory._OF_A_THREAD", page)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    found = files(monkeypatch, MUCH | {"/proc/self/statm": "3 2 1\n"})
    monkeypatch.setattr(limits, "getrlimit", lambda kind: (10 * page, -1))
    assert available_memory() == 5 * page  # two threads have theirs
    found["/proc/self/statm"] = "none"
    assert available_memory() == 8 * page
    monkeypatch.setattr(limits, "getrlimit", lambda kind: (limits.RLIM_INFINITY, -1))
    assert available_memory() == 99999999 * 1024
    monkeypatch.setattr("kcdo.memory.resource", None)
    assert available_memory() == 99999999 * 1024


@pytest.mark.parametrize("contents", [{}, {"/proc/meminfo": "MemTotal: 9 kB\n"}])
def test_memory_as_other_systems_say(monkeypatch, contents):
    found = files(monkeypatch, contents)
    values = {"SC_PAGE_SIZE": 4096, "SC_AVPHYS_PAGES": 10}
    monkeypatch.setattr(os, "sysconf", values.__getitem__, raising=False)
    assert available_memory() == 40_960
    found |= {f"{GROUPS}/memory.max": "5000", f"{GROUPS}/memory.current": "1000"}
    assert available_memory() == 4000


def test_memory_that_nobody_knows(monkeypatch):
    files(monkeypatch, {})
    monkeypatch.delattr(os, "sysconf", raising=False)
    assert available_memory() == 4 << 30


def test_memory_is_asked_for_before_it_is_taken(monkeypatch):
    monkeypatch.setattr("kcdo.memory.available_memory", lambda: 3 << 30)
    require_memory(3 << 30, "a matrix", "use less")
    message = r"^a matrix needs 3\.5 GiB of memory, but 3\.0 GiB are available: use less$"
    with pytest.raises(NotEnoughMemoryError, match=message) as caught:
        require_memory(3.5 * (1 << 30), "a matrix", "use less")
    assert isinstance(caught.value, MemoryError)


@pytest.mark.parametrize("error", [MemoryError("no room"), RuntimeError("can't start new thread")])
def test_memory_that_runs_out_in_a_fit_is_told_with_what_to_do(error, monkeypatch, rng):
    def full(*_):
        raise error

    model = kcdo.ConditionalDensityOperator(selection="heuristic")
    monkeypatch.setattr(model, "_fit", full)
    message = rf"memory ran out \({error}\): fit fewer rows, or fewer centres as solver="
    with pytest.raises(NotEnoughMemoryError, match=message):
        model.fit(rng.normal(size=(9, 1)), np.arange(9.0))


def test_other_errors_of_a_fit_are_left_as_they_are(monkeypatch, rng):
    for error in (RuntimeError("of another kind"), NotEnoughMemoryError("planned")):
        model = kcdo.ConditionalDensityOperator(selection="heuristic")
        monkeypatch.setattr(model, "_fit", lambda *_, error=error: (_ for _ in ()).throw(error))
        with pytest.raises(type(error), match=str(error)) as caught:
            model.fit(rng.normal(size=(9, 1)), np.arange(9.0))
        assert caught.value is error


@pytest.mark.skipif(sys.platform != "linux", reason="/proc and limits of Linux")
@pytest.mark.parametrize("selection", ["heuristic", "auto"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_a_fit_below_a_limit_of_memory_is_done_or_refused(selection, outputs):
    told = in_little_memory(60_000_000, rows=4000, outputs=outputs, selection=selection)
    assert told.returncode == 0, told.stderr[-2000:]
    assert told.stdout.startswith(("fitted", "refused")), told.stdout
