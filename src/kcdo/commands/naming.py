"""Names of columns: which a command asks for, and whether they exist."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum

from kcdo.commands.console import listed
from kcdo.commands.errors import UsageError
from kcdo.errors import InvalidInputError


class Role(Enum):
    """How a column is read."""

    NUMBER = "number"
    CATEGORY = "category"
    AUTO = "auto"  # categories if no value is a number


@dataclass(frozen=True)
class Wanted:
    """The columns of a fit.

    Attributes
    ----------
    targets, given : list of str
        Outputs and inputs.
    weights : str or None
        Column of weights.
    categorical : list of str
        Inputs whose values are names.
    periods : dict
        Periodic inputs with their periods.
    """

    targets: list[str]
    given: list[str]
    weights: str | None
    categorical: list[str]
    periods: dict[str, float]

    def checked(self, there: list[str], where: str) -> Wanted:
        """Return the wish with ``given`` filled in, after comparing it with the columns."""
        check_names(self.targets, there, where, "--target")
        check_names(self.given, there, where, "--given")
        check_names([self.weights] if self.weights else [], there, where, "--weights")
        if not self.targets:
            raise UsageError("--target names no column.")
        taken = {*self.targets, self.weights}
        given = self.given or [name for name in there if name and name not in taken]
        if not given:
            raise UsageError(f"{where} has no column left to predict {listed(self.targets)} from.")
        used = [*self.targets, *given, *([self.weights] if self.weights else [])]
        twice = next((name for name in used if used.count(name) > 1), None)
        if twice is not None:
            raise UsageError(
                f"column {twice!r} is asked for twice by --target, --given, --weights."
            )
        check_names(self.categorical, given, "--given", "--categorical")
        check_names(list(self.periods), given, "--given", "--periodic")
        both = [name for name in self.categorical if name in self.periods]
        if both:
            raise UsageError(f"column {both[0]!r} cannot be both --categorical and --periodic.")
        return Wanted(self.targets, given, self.weights, self.categorical, self.periods)

    def roles(self) -> dict[str, Role]:
        """Return how to read each column."""
        roles = dict.fromkeys(self.given, Role.AUTO)
        roles |= dict.fromkeys(self.categorical, Role.CATEGORY)
        numeric = [*self.periods, *self.targets, *([self.weights] if self.weights else [])]
        return roles | dict.fromkeys(numeric, Role.NUMBER)


def names(text: str | None) -> list[str]:
    """Return the names in a list such as ``flow,hour``.

    >>> names('flow, "a,b"')
    ['flow', 'a,b']
    """
    fields = next(csv.reader([text or ""], skipinitialspace=True), [])
    return [name.strip() for name in fields if name.strip()]


def periods(texts: list[str]) -> dict[str, float]:
    """Return the columns and periods in texts such as ``hour:24``.

    >>> periods(["hour:24", "weekday:7"])
    {'hour': 24.0, 'weekday': 7.0}
    """
    found: dict[str, float] = {}
    for text in (part for line in texts for part in names(line)):
        name, _, number = text.rpartition(":")
        try:
            found[name] = float(number)
        except ValueError:
            found[name] = float("nan")
        if not (name and 0 < found[name] < float("inf")):
            raise UsageError(
                f"--periodic takes a column and a period, as in hour:24; got {text!r}."
            )
    return found


def check_names(wanted: list[str], there: list[str], where: str, option: str = "") -> None:
    """Raise for the first name that is not among the columns, and mention near ones."""
    for name in wanted:
        if name not in there:
            near = get_close_matches(name, there, n=3, cutoff=0.5)
            hint = f"did you mean {' or '.join(map(_listable, near))}?" if near else ""
            intro = f"{option} {name}: " if option else ""
            raise UsageError(
                f"{intro}{where} has no column {name!r}; {hint or f'it has {listed(there)}.'}"
            )


def _listable(name: str) -> str:
    """Return a name as it goes into a list of names: in quotes if it has a comma."""
    return f"""'"{name}"'""" if "," in name else name


def check_distinct(columns: list[str], where: str) -> None:
    """Raise if two columns share a name; those without a name may."""
    seen: set[str] = set()
    for name in columns:
        if name and name in seen:
            raise InvalidInputError(f"{where} has two columns named {name!r}: rename one.")
        seen.add(name)
