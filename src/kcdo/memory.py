"""How much memory there is, and saying no before it runs out."""

import os
from pathlib import Path
from types import ModuleType

from kcdo.errors import NotEnoughMemoryError

resource: ModuleType | None
try:
    import resource
except ImportError:  # Windows has no such limits
    resource = None

_GIB = 1 << 30


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
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 4 * _GIB  # unknown: assume a small machine


def _container_limit() -> int:
    """Return what is left of a container's allowance; a huge number where there is none."""
    group = Path("/sys/fs/cgroup")
    try:
        most = (group / "memory.max").read_text().strip()
        used = (group / "memory.current").read_text().strip()
        return int(most) - int(used)
    except (OSError, ValueError):  # no such group, or "max": no limit
        return 1 << 62


def _process_limit() -> int:
    """Return what ``ulimit -v`` leaves to this process; a huge number where there is none."""
    if resource is None:
        return 1 << 62
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    if most == resource.RLIM_INFINITY:
        return 1 << 62
    try:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        used = 0
    return max(most - used, 0)


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
            f"{what} needs {needed / _GIB:.1f} GiB of memory, but {there / _GIB:.1f} GiB are "
            f"available: {instead}"
        )
