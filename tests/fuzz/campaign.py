"""Random problems against everything that must hold of a fit.

``python -m tests.fuzz.campaign --minutes 10`` looks at the problems of one seed after the other and
prints how many checks held; ``--seed 1234 --count 1`` looks at one problem again. What fails is
made smaller, as long as it fails in the same way, and printed as code to paste.
"""

import argparse
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import kcdo
from kcdo.estimators import conditional
from tests.conftest import SHORT
from tests.fuzz.invariants import INVARIANTS, Case, Skipped
from tests.fuzz.problems import SELECTIONS, Problem

_ATTEMPTS = 60  # at a smaller problem
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

    def __str__(self) -> str:
        checks = sum(self.checks.values())
        failed = Counter(failure.invariant for failure in self.failures)
        lines = [
            f"{self.problems} problems, {sum(self.refused.values())} refused, "
            f"{checks} checks, {len(self.failures)} failed"
        ]
        lines += [f"  refused: {text[:150]}" for text, _ in self.refused.most_common(5)]
        lines += [f"  {name}: {count} of {self.checks[name]}" for name, count in failed.items()]
        return "\n".join(lines)


@contextmanager
def short_searches():
    """Let every fit do little work: what must hold does not depend on how good a choice is."""
    before = conditional.EFFORT
    conditional.EFFORT = SHORT
    try:
        yield
    finally:
        conditional.EFFORT = before


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


def campaign(
    seeds: Sequence[int],
    *,
    minutes: float = float("inf"),
    checks: float = float("inf"),
    selections: Sequence[str] = SELECTIONS,
    shrink: bool = True,
    verbose: bool = False,
) -> Tally:
    """Look at the problems of some seeds, until the time is over or enough was checked."""
    tally, end = Tally(), time.monotonic() + 60 * minutes
    with short_searches(), suppress(KeyboardInterrupt):  # what was checked by then is told
        for seed in seeds:
            if time.monotonic() > end or tally.checks.total() >= checks:
                break
            problem = Problem.random(seed)
            if problem.selection not in selections:
                continue
            checked = check(problem)
            tally.problems += 1
            tally.checks.update(checked.names)
            if checked.refused:
                tally.refused[checked.refused] += 1
            for failure in checked.failures:
                tally.failures.append(shrunk(failure) if shrink else failure)
                if verbose:
                    print(f"seed {seed}", tally.failures[-1], sep="\n", flush=True)
    return tally


def main() -> int:
    """Run the campaign that the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=0, help="of the first problem")
    parser.add_argument("--count", type=int, default=10**9)
    parser.add_argument("--checks", type=float, default=float("inf"), help="that are enough")
    parser.add_argument("--selections", nargs="+", default=SELECTIONS, help="of which problems")
    parser.add_argument("--no-shrink", action="store_true")
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.count)
    tally = campaign(
        seeds,
        minutes=options.minutes,
        checks=options.checks,
        selections=options.selections,
        shrink=not options.no_shrink,
        verbose=True,
    )
    print(tally)
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
