"""Random problems against everything that must hold of a fit.

``python -m tests.fuzz.campaign --minutes 10`` looks at the problems of one seed after the other and
prints how many checks held; ``--seed 1234 --count 1`` looks at one problem again; ``--jobs 2`` are
two processes that share the seeds. What fails is made smaller, as long as it fails in the same way,
and printed as code to paste.
"""

import argparse
import multiprocessing
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from typing import Any
from unittest.mock import patch

import kcdo
from kcdo.estimators import conditional
from tests.efforts import SHORT
from tests.fuzz.invariants import INVARIANTS, Case, Skipped
from tests.fuzz.problems import SELECTIONS, Problem

_ATTEMPTS = 60  # at a smaller problem
_REPORTS = 180.0  # seconds between two lines about how far it is
# What must hold does not depend on how good a choice is: a step of every search, few nodes.
BRIEF = replace(
    SHORT,
    race_steps=1,
    steps=1,
    filter_steps=1,
    factorisations=1,
    residual_factorisations=1,
    near_judgements=1,
    leaders=(1, 1),
    coarse_nodes={1: 24, 2: 8, 3: 5},
    fine_nodes={1: 60, 2: 12, 3: 6},
    metric_steps=(1, 1),
    rough_rows=30,
    importance_rows=2,
    reference_points=128,
)
REFUSED = (kcdo.InvalidInputError, kcdo.InvalidTypeError, kcdo.NotEnoughMemoryError)


@dataclass
class Failure:
    """What went wrong, with which problem."""

    problem: Problem
    invariant: str
    error: str

    def __str__(self) -> str:
        return f"--- {self.invariant}: {self.error}\n{self.problem.code()}\n"


@dataclass
class Checked:
    """What was looked at of one problem; why it was refused, if it was."""

    names: list[str]
    failures: list[Failure]
    refused: str = ""


@dataclass
class Tally:
    """How many checks were made, and what failed."""

    problems: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    died: list[str] = field(default_factory=list)
    interrupted: bool = False

    def add(self, checked: Checked) -> None:
        """Count what was found of one problem."""
        self.problems += 1
        self.checks.update(checked.names)
        self.failures += checked.failures
        if checked.refused:
            self.refused[checked.refused] += 1

    def line(self) -> str:
        """Return the numbers."""
        return (
            f"{self.problems} problems, {self.refused.total()} refused, "
            f"{self.checks.total()} checks, {len(self.failures)} failed"
        )

    def __str__(self) -> str:
        failed = Counter(failure.invariant for failure in self.failures)
        lines = [self.line() + (", interrupted" if self.interrupted else "")]
        lines += [f"  refused: {text[:150]}" for text, _ in self.refused.most_common(5)]
        lines += [f"  {name}: {count} of {self.checks[name]}" for name, count in failed.items()]
        return "\n".join([*lines, *self.died])


@contextmanager
def brief_searches() -> Iterator[None]:
    """Let every fit do little work."""
    with patch.object(conditional, "EFFORT", BRIEF):
        yield


def check(problem: Problem, names: Sequence[str] = tuple(INVARIANTS)) -> "Checked":
    """Return what was looked at of a problem, and what does not hold."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kcdo.KcdoWarning)
        warnings.simplefilter("error", RuntimeWarning)  # of numpy: overflow, invalid values
        try:
            case = Case(problem)
        except REFUSED as error:
            return Checked([], [], str(error))
        except Exception as error:
            return Checked(["fit"], [Failure(problem, "fit", _told(error))])
        checked = Checked(["fit"], [])
        for name in names:
            if name == "fit":
                continue
            try:
                INVARIANTS[name](case)
            except Skipped:
                continue
            except Exception as error:
                checked.failures.append(Failure(problem, name, _told(error)))
            checked.names.append(name)
        return checked


def _told(error: Exception) -> str:
    text = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {text[0][:200]}"


def shrunk(failure: Failure) -> Failure:
    """Return the failure of a smaller problem, if there is one that fails in the same way."""
    attempts = _ATTEMPTS
    progress = True
    while progress and attempts > 0:
        progress = False
        for smaller in failure.problem.smaller():
            attempts -= 1
            found = check(smaller, [failure.invariant])
            same = [each for each in found.failures if _kind(each) == _kind(failure)]
            if same:
                failure, progress = same[0], True
                break
            if attempts <= 0:
                break
    return failure


def _kind(failure: Failure) -> tuple[str, str]:
    return failure.invariant, failure.error.split(":")[0]


@dataclass(frozen=True)
class Plan:
    """Which problems are looked at, and when that is enough."""

    seeds: range
    minutes: float = float("inf")
    checks: float = float("inf")
    selections: Sequence[str] = SELECTIONS
    shrink: bool = True

    def part(self, job: int, jobs: int) -> "Plan":
        """Return the share of one of several processes: every N-th seed."""
        return replace(self, seeds=self.seeds[job::jobs], checks=self.checks / jobs)


Tell = Callable[[int, Checked], None]


def look(plan: Plan, tell: Tell) -> None:
    """Look at the problems of a plan, and tell what was found of each."""
    made, end = 0, time.monotonic() + 60 * plan.minutes
    with brief_searches():
        for seed in plan.seeds:
            if time.monotonic() > end or made >= plan.checks:
                break
            problem = Problem.random(seed)
            if problem.selection not in plan.selections:
                continue
            checked = check(problem)
            if plan.shrink:
                checked.failures = [shrunk(failure) for failure in checked.failures]
            made += len(checked.names)
            tell(seed, checked)


def campaign(plan: Plan, jobs: int = 1, verbose: bool = False) -> Tally:
    """Carry out a plan, by several processes if asked; after Ctrl-C, tell what was found."""
    tally, told = Tally(), time.monotonic()

    def tell(seed: int, checked: Checked) -> None:
        nonlocal told
        tally.add(checked)
        if not verbose:
            return
        for failure in checked.failures:
            print(f"seed {seed}", failure, sep="\n", flush=True)
        if time.monotonic() - told > _REPORTS:
            told = time.monotonic()
            print(f"at seed {seed}: {tally.line()}", flush=True)

    try:
        if jobs == 1:
            look(plan, tell)
        else:
            _look_in_processes(plan, jobs, tell, tally)
    except KeyboardInterrupt:
        tally.interrupted = True
    return tally


def _look_in_processes(plan: Plan, jobs: int, tell: Tell, tally: Tally) -> None:
    """Share a plan among processes; one that dies is a failure, and the others go on."""
    context = multiprocessing.get_context("spawn")
    workers = {}
    for job in range(jobs):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(plan.part(job, jobs), sender), daemon=True)
        process.start()
        sender.close()  # else nobody would see that the process has ended
        workers[receiver] = process
    try:
        while workers:
            for receiver in wait(list(workers)):
                try:
                    tell(*receiver.recv())  # type: ignore[union-attr]
                except EOFError:
                    process = workers.pop(receiver)
                    process.join()
                    if process.exitcode:
                        tally.died.append(f"a process ended with exit code {process.exitcode}")
    finally:
        for process in workers.values():
            process.terminate()


def _work(plan: Plan, sender: Connection) -> None:
    """Look at problems in a process of its own."""

    def tell(*found: Any) -> None:
        sender.send(found)

    try:
        look(plan, tell)
    except KeyboardInterrupt:  # the process that counts says so
        sys.exit(0)


def main() -> int:
    """Run the campaign that the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=0, help="of the first problem")
    parser.add_argument("--count", type=int, default=10**9)
    parser.add_argument("--checks", type=float, default=float("inf"), help="that are enough")
    parser.add_argument("--selections", nargs="+", default=SELECTIONS, help="of which problems")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the seeds")
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.count)
    plan = Plan(seeds, options.minutes, options.checks, options.selections, not options.no_shrink)
    tally = campaign(plan, options.jobs, verbose=True)
    print(tally)
    return 1 if tally.failures or tally.died or tally.interrupted else 0


if __name__ == "__main__":
    sys.exit(main())
