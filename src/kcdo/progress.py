"""Progress of long work, on standard error, when asked, and the time that it may take."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Timer

_LONG = 5.0  # seconds after which work without a terminal says what it is at
_TELLING = 0.05  # share of the work after which the rest can be told


@dataclass
class _Stage:
    name: str
    started: float
    detail: str = ""
    percent: int = -1  # that was shown last
    announced: bool = False
    left: str = ""  # time that this stage and those after it take, in words

    @property
    def title(self) -> str:
        """What is shown of it."""
        return f"{self.name}, {self.detail}" if self.detail else self.name


@dataclass(eq=False)
class Deadline:
    """A time limit after which a fit leaves out stages that it can do without, and which.

    >>> moments = iter([0.0, 1.0, 3.0])
    >>> deadline = Deadline(2.0, clock=lambda: next(moments))
    >>> deadline.allows("first"), deadline.allows("second"), deadline.left_out
    (True, False, ['second'])
    """

    seconds: float | None = None  # from its making; None for any time
    clock: Callable[[], float] = time.perf_counter
    left_out: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._started = self.clock()

    def allows(self, stage: str) -> bool:
        """Whether there is time left for a stage that can be left out; if not, it is noted."""
        if self.seconds is None or self.clock() - self._started < self.seconds:
            return True
        self.left_out.append(stage)
        return False

    def share(self, part: float) -> "Deadline":
        """Return the limit of a piece of the work: a part of the time that is left.

        It has its own list of what is left out.
        """
        if self.seconds is None:
            return Deadline()
        left = max(0.0, self.seconds - (self.clock() - self._started))
        return Deadline(part * left, self.clock)


@dataclass(eq=False)
class Progress:
    """Tells what is being done, how far it is and how long it will take; silent unless ``verbose``.

    On a terminal a line changes with the work. Elsewhere each stage that takes longer than five
    seconds gets one line: its name, and at its end its time. A stage within a stage belongs to it.

    Attributes
    ----------
    verbose : bool
        Whether to say anything.
    shares : mapping of str to float
        Stages that follow one another, and the shares of the time that they usually take: what the
        first ones took then tells about how long the rest will.
    """

    verbose: bool | int = False
    shares: Mapping[str, float] = field(default_factory=dict)
    deadline: Deadline = field(default_factory=Deadline)

    def __post_init__(self) -> None:
        self.verbose = bool(self.verbose)
        self._stages: list[_Stage] = []
        self._taken: dict[str, float] = {}  # seconds of stages that are over

    @contextmanager
    def stage(self, name: str, detail: str = "") -> Iterator[None]:
        """Announce a stage and, when it ends, how long it took; ``detail`` is shown too."""
        if not self.verbose:
            yield
            return
        stage = _Stage(name, time.perf_counter(), detail, left=self._rest(name))
        self._stages.append(stage)
        try:
            with self._on_terminal(stage) if sys.stderr.isatty() else self._in_one_line(stage):
                yield
        finally:
            self._stages.pop()
            if name in self.shares:
                self._taken[name] = time.perf_counter() - stage.started

    def _rest(self, name: str, elapsed: float = 0.0, part: float = 0.0) -> str:
        """Return about how long the rest of a stage and those after it take, if that can be told.

        ``part`` of the stage is done, which took ``elapsed`` seconds.
        """
        if name not in self.shares:
            return ""
        own, names = self.shares[name] * part, list(self.shares)
        done = sum(self.shares[other] for other in self._taken) + own
        if done < _TELLING:
            return ""
        to_come = sum(self.shares[other] for other in names[names.index(name) :]) - own
        taken = sum(self._taken.values()) + elapsed
        return f", about {duration(taken * to_come / done)} left"

    def update(self, done: float, total: float) -> None:
        """Say how much of the innermost stage is done, in steps of five per cent."""
        if not self._stages or not sys.stderr.isatty():
            return
        stage = self._stages[-1]
        percent = int(20 * done / total) * 5
        if percent > stage.percent:
            stage.percent = percent
            self._rewrite(f"{stage.title}: {percent} %{self._left(stage, done / total)}")

    def _left(self, stage: _Stage, part: float) -> str:
        """Return how long the rest takes if it goes on as before; nothing until that can be told.

        Where it is known which stages follow, they are counted in.
        """
        if not 0.05 <= part < 1:
            return ""
        elapsed = time.perf_counter() - stage.started
        if stage.name in self.shares:
            return self._rest(stage.name, elapsed, part)
        return f", {duration(elapsed * (1 - part) / part)} left"

    @contextmanager
    def _on_terminal(self, stage: _Stage) -> Iterator[None]:
        self._rewrite(f"{stage.title}{stage.left} ...")
        try:
            yield
        finally:
            self._rewrite(f"{stage.title}: {duration(time.perf_counter() - stage.started)}")
            if len(self._stages) == 1:
                sys.stderr.write("\n")

    @contextmanager
    def _in_one_line(self, stage: _Stage) -> Iterator[None]:
        if len(self._stages) > 1:
            yield
            return
        timer = Timer(_LONG, _announce, [stage])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()
            if stage.announced:
                sys.stderr.write(f" {duration(time.perf_counter() - stage.started)}\n")

    def _rewrite(self, text: str) -> None:
        sys.stderr.write(f"\rkcdo  {text:<70s}")
        sys.stderr.flush()


SILENT = Progress()


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it.

    >>> duration(0.26), duration(75.0), duration(400.0), duration(9000.0)
    ('0.3 s', '75 s', '7 min', '2.5 h')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _announce(stage: _Stage) -> None:
    stage.announced = True
    sys.stderr.write(f"kcdo  {stage.title}{stage.left} ...")
    sys.stderr.flush()
