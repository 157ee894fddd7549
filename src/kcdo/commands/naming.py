"""Names of columns: which a command asks for, and whether they exist."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import Enum
from math import isfinite

from kcdo.commands.console import listed
from kcdo.commands.errors import UsageError
from kcdo.errors import InvalidInputError

Bounds = tuple[float | None, float | None]


class Role(Enum):
    """How a column is read."""

    NUMBER = "number"
    TARGET = "target"  # a number that a fit is to predict
    CATEGORY = "category"
    AUTO = "auto"  # categories if no value is a number
    MOMENT = "moment"  # numbers or dates, of which the order matters

    @property
    def numeric(self) -> bool:
        """Whether every value must be a number."""
        return self in (Role.NUMBER, Role.TARGET)


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
    bounds : dict
        Targets with the values that they cannot cross, None where there is none.
    group, time : str or None
        Columns that say which rows belong together, and which came first.
    """

    targets: list[str]
    given: list[str]
    weights: str | None = None
    categorical: list[str] = field(default_factory=list)
    periods: dict[str, float] = field(default_factory=dict)
    bounds: dict[str, Bounds] = field(default_factory=dict)
    group: str | None = None
    time: str | None = None

    @classmethod
    def of_options(
        cls,
        target: str,
        given: str | None,
        categorical: list[str] | None,
        periodic: list[str] | None,
        support: list[str] | None,
        group: str | None,
        time: str | None,
        weights: str | None = None,
    ) -> Wanted:
        """Return what the options of a command ask for, each as it was written."""
        return cls(
            names(target),
            names(given),
            weights,
            [name for text in categorical or [] for name in names(text)],
            periods(periodic or []),
            supports(support or []),
            group,
            time,
        )

    def checked(self, there: list[str], where: str) -> Wanted:
        """Return the columns of the fit, ``given`` filled in, after a check that all are there."""
        check_names(self.targets, there, where, "--target")
        check_names(self.given, there, where, "--given")
        for option in ("weights", "group", "time"):
            name = getattr(self, option)
            check_names([name] if name else [], there, where, f"--{option}")
        if not self.targets:
            raise UsageError("--target names no column.")
        taken = {*self.targets, self.weights, self.group, self.time}
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
        every = self.bounds.get("")
        bounds = dict.fromkeys(self.targets, every) if every else {}
        bounds |= {name: pair for name, pair in self.bounds.items() if name}
        check_names(list(bounds), self.targets, "--target", "--support")
        return replace(self, given=given, bounds=bounds)

    def roles(self) -> dict[str, Role]:
        """Return how to read each column."""
        roles: dict[str, Role] = {}
        if self.group:
            roles[self.group] = Role.CATEGORY
        if self.time:
            roles[self.time] = Role.MOMENT
        roles |= dict.fromkeys(self.given, Role.AUTO)
        roles |= dict.fromkeys(self.categorical, Role.CATEGORY)
        numeric = [*self.periods, *([self.weights] if self.weights else [])]
        roles |= dict.fromkeys(numeric, Role.NUMBER)
        return roles | dict.fromkeys(self.targets, Role.TARGET)


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


def supports(texts: list[str]) -> dict[str, Bounds]:
    """Return bounds in texts such as ``0,100``, or ``speed:0,`` for one target; "" is every one.

    >>> supports(["0,", "share:0,1"])
    {'': (0.0, None), 'share': (0.0, 1.0)}
    """
    found: dict[str, Bounds] = {}
    for text in texts:
        name, _, numbers = text.rpartition(":")
        lower, comma, upper = numbers.partition(",")
        try:
            bounds = tuple(float(x) if x.strip() else None for x in (lower, upper))
        except ValueError:
            bounds = (None, None)
        known = [x for x in bounds if x is not None]
        if not comma or not known or known != sorted(set(known)) or not all(map(isfinite, known)):
            raise UsageError(
                "--support takes the values that a target cannot cross, as in 0,100 or 0, or "
                f"speed:0,100; got {text!r}."
            )
        found[name.strip()] = bounds[0], bounds[1]
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
