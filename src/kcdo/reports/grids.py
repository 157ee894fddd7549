"""Which combinations of inputs a report knows: all of some inputs, and of any two, one for each.

Curves are computed beforehand, so a reader cannot have every combination of ten inputs. The plan is
a list of grids through anchors: the usual inputs, and some rows of the data. From the usual inputs,
the most important inputs combine freely and any two inputs do; from a row, any one input moves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from kcdo.reports.columns import Column
from kcdo.reports.inputs import Control, controls, fixed

_FINENESSES = (2.5, 2.0, 1.5, 1.0, 0.9, 0.8, 0.7, 0.6)
_COARSE = (0.4, 0.3, 0.2, 0.1, 0.05)
_FINE_CURVES = 10_000  # sliders finer than usual must not make a large file
_MOST_FREE = 6


@dataclass(frozen=True)
class Grid:
    """All combinations of the values of some inputs, by position among the controls.

    Other inputs are at the anchor: 0 is the usual inputs, 1 the first row, and so on.
    """

    anchor: int
    inputs: tuple[int, ...]

    def shape(self, made: Sequence[Control]) -> tuple[int, ...]:
        """Return the number of values of each input."""
        return tuple(len(made[i].values) for i in self.inputs)

    def size(self, made: Sequence[Control]) -> int:
        """Return the number of combinations."""
        return int(np.prod(self.shape(made), dtype=float))


@dataclass(frozen=True, eq=False)
class Plan:
    """The controls of the inputs and the grids of what can be combined."""

    controls: list[Control]
    grids: list[Grid]

    @property
    def n_curves(self) -> int:
        """Number of combinations in all grids."""
        return sum(grid.size(self.controls) for grid in self.grids)

    @property
    def n_rows(self) -> int:
        """Number of rows of the data that are anchors."""
        return max(grid.anchor for grid in self.grids)


def plan_grids(columns: Sequence[Column], order: Sequence[int], n_rows: int, most: int) -> Plan:
    """Return a plan of at most so many curves for inputs in order of their importance.

    As many inputs as possible combine freely, and all pairs; if that is too much, sliders get
    coarser, then fewer combine, then the least important are held.
    """

    def within(plan: Plan, fineness: float) -> bool:
        return plan.n_curves <= (min(most, _FINE_CURVES) if fineness > 1 else most)

    made = {fineness: controls(columns, order, fineness) for fineness in (*_FINENESSES, *_COARSE)}
    for free in range(min(len(order), _MOST_FREE), 1, -1):
        for fineness in _FINENESSES:
            plan = Plan(made[fineness], _grids(made[fineness], free, n_rows, pairs=True))
            if within(plan, fineness):
                return plan
    for fineness in (*_FINENESSES, *_COARSE):
        for rows in (n_rows, 0):
            plan = Plan(made[fineness], _grids(made[fineness], 1, rows, pairs=False))
            if within(plan, fineness):
                return _with_pairs(plan, most)
    return _held(columns, order, most)


def _grids(made: Sequence[Control], free: int, n_rows: int, *, pairs: bool) -> list[Grid]:
    moving = [i for i, control in enumerate(made) if len(control.values) > 1]
    together = tuple(moving[:free])
    grids = [Grid(0, together)]
    if pairs:
        grids += [Grid(0, pair) for pair in _pairs(moving) if not set(pair) <= set(together)]
    else:
        grids += [Grid(0, (i,)) for i in moving[free:]]
    for row in range(1, n_rows + 1):
        grids += [Grid(row, ()), *(Grid(row, (i,)) for i in moving)]
    return grids


def _pairs(moving: Sequence[int]) -> list[tuple[int, int]]:
    """Return all pairs, those of important inputs first."""
    return sorted(combinations(moving, 2), key=lambda pair: (sum(pair), pair))


def _with_pairs(plan: Plan, most: int) -> Plan:
    """Return a plan with as many pairs of inputs as there is room for."""
    grids, left = list(plan.grids), most - plan.n_curves
    moving = [i for i, control in enumerate(plan.controls) if len(control.values) > 1]
    for pair in _pairs(moving):
        grid = Grid(0, pair)
        if grid.size(plan.controls) <= left:
            grids.append(grid)
            left -= grid.size(plan.controls)
    return Plan(plan.controls, grids)


def _held(columns: Sequence[Column], order: Sequence[int], most: int) -> Plan:
    """Return a plan in which only the most important inputs move, one at a time."""
    for n_moving in range(len(order) - 1, -1, -1):
        made = controls(columns, order[:n_moving], _COARSE[-1])
        made += [fixed(columns[i], i) for i in order[n_moving:]]
        plan = Plan(made, _grids(made, 1, 0, pairs=False))
        if plan.n_curves <= most:
            return plan
    raise AssertionError("a plan of fixed inputs has one curve")
