"""Progress of long work, on standard error, when asked."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Progress:
    """Tells what is being done and how far it is; silent unless ``verbose``."""

    def __init__(self, verbose: bool | int = False) -> None:
        self.verbose = bool(verbose)
        self._name = ""
        self._shown = -1

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Announce a stage and, when it ends, how long it took."""
        self._name, self._shown = name, -1
        started = time.perf_counter()
        if self.verbose:
            self._write(f"{name} ...")
        yield
        if self.verbose:
            self._write(f"{name}: {time.perf_counter() - started:.1f} s")
            sys.stderr.write("\n")

    def update(self, done: float, total: float) -> None:
        """Say how much of the stage is done, in steps of five per cent."""
        percent = int(20 * done / total) * 5
        if self.verbose and percent > self._shown:
            self._shown = percent
            self._write(f"{self._name}: {percent} %")

    def _write(self, text: str) -> None:
        sys.stderr.write(f"\rkcdo  {text:<60s}")
        sys.stderr.flush()


SILENT = Progress()
