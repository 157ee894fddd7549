"""How much memory there is, and saying no before it runs out."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from kcdo.errors import NotEnoughMemoryError

resource: ModuleType | None
try:
    import resource
except ImportError:  # Windows has no such limits
    resource = None

_GIB = 1 << 30
_NO_LIMIT = 1 << 62
# Address space of each thread for its stack and the buffers of BLAS, which ends the process where
# it gets none: it is kept free below ``ulimit -v``.
_OF_A_THREAD = 64 << 20
_GROUPS = Path("/sys/fs/cgroup")
# how version 2 and version 1 of control groups name the limit and what is used of it
_NAMES = (
    ("memory.max", "memory.current"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes"),
)


def available_memory() -> int:
    """Return the bytes that can be allocated without swapping, as the system sees it."""
    limit = min(_container_limit(), _process_limit())
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return min(int(line.split()[1]) * 1024, limit)
    except OSError:
        pass
    try:  # other Unix systems
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        there = 4 * _GIB  # unknown: assume a small machine
    return min(there, limit)


def _container_limit() -> int:
    """Return what the groups of this process leave to it; a huge number where they set no limit."""
    return min((_left(folder) for folder in _group_folders()), default=_NO_LIMIT)


def _group_folders() -> Iterator[Path]:
    """Yield the folders of the control groups of this process, and of the groups around them.

    The root of either version comes always: inside a container it is the container's own group,
    whatever the process is told about where it stands outside.
    """
    yield from (_GROUPS, _GROUPS / "memory")
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:  # such as 0::/user/work or 9:memory:/user/work
        _, _, rest = line.partition(":")
        controllers, _, place = rest.partition(":")
        if controllers and "memory" not in controllers.split(","):
            continue
        top = _GROUPS / "memory" if controllers else _GROUPS
        parts = [part for part in place.split("/") if part not in ("", "..")]
        for depth in range(1, len(parts) + 1):
            yield top.joinpath(*parts[:depth])


def _left(folder: Path) -> int:
    """Return what is left of the allowance of one group; a huge number where there is none."""
    for most, used in _NAMES:
        try:
            there = int((folder / most).read_text()) - int((folder / used).read_text())
        except (OSError, ValueError):  # no such group, or "max": no limit
            continue
        return max(there, 0)
    return _NO_LIMIT


def _process_limit() -> int:
    """Return what ``ulimit -v`` leaves to this process; a huge number where there is none."""
    if resource is None:
        return _NO_LIMIT
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    if most == resource.RLIM_INFINITY:
        return _NO_LIMIT
    try:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        used = 0
    return max(most - used - _OF_A_THREAD * (os.cpu_count() or 1), 0)


def require_memory(needed: float, what: str, instead: str) -> None:
    """Raise, before anything is allocated, if ``needed`` bytes are more than there are.

    >>> require_memory(1e18, "a matrix", "use less")
    Traceback (most recent call last):
        ...
    kcdo.errors.NotEnoughMemoryError: a matrix needs 931322574.6 GiB ...
    """
    there = available_memory()
    if needed > there:
        raise NotEnoughMemoryError(
            f"{what} needs {_size(needed)} of memory, but {_size(there)} are available: {instead}"
        )


def _size(n_bytes: float) -> str:
    return f"{n_bytes / _GIB:.1f} GiB" if n_bytes >= 0.1 * _GIB else f"{n_bytes / 2**20:.0f} MiB"


@contextmanager
def memory_told(instead: str) -> Iterator[None]:
    """Say what to do where memory ran out in spite of all planning.

    >>> with memory_told("use less"):
    ...     raise MemoryError("no room for an array")
    Traceback (most recent call last):
        ...
    kcdo.errors.NotEnoughMemoryError: memory ran out (no room for an array): use less
    """
    try:
        yield
    except NotEnoughMemoryError:
        raise
    except (MemoryError, RuntimeError) as error:
        # a thread needs memory of its own
        if isinstance(error, RuntimeError) and "start new thread" not in str(error):
            raise
        raise NotEnoughMemoryError(f"memory ran out ({error}): {instead}") from error
