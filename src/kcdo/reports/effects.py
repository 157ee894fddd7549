"""Partial dependence: what one input does to the predictions, all others as in the data."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.distributions import ConditionalDistribution
from kcdo.metrics.several import quantiles
from kcdo.reports.columns import Column
from kcdo.reports.inputs import even_values, number_texts, usual_categories
from kcdo.reports.shown import Shown
from kcdo.tables import table_like

_STEPS, _FEW_STEPS = 15, 7  # values of an input; the fewer where a model answers slowly
_CATEGORIES = 8
_MOST_ROWS = 60
_FEWEST_ROWS = 8
_MOST_EFFECTS, _FEW = 24, 4  # inputs whose effects are measured
_DRAWS = 32  # of each query of several outputs: averages over rows follow
STATISTICS = ("mean", "q05", "q25", "q50", "q75", "q95")


@dataclass(frozen=True, eq=False)
class Effect:
    """Averages over rows of what is predicted when one input has some value.

    Attributes
    ----------
    column : int
        The input.
    values, texts : (V,) array, tuple of str
        Its values.
    averages : dict of str to (V, d) array
        By statistic: mean and quantiles.
    n_rows : int
        Rows averaged over.
    """

    column: int
    values: NDArray
    texts: tuple[str, ...]
    averages: dict[str, Array]
    n_rows: int


def measure_effects(
    shown: Shown, order: Sequence[int], most_queries: int
) -> tuple[list[Effect], int]:
    """Return the effects of the first inputs of an order, and how many are left out.

    They ask about so many queries: where that is not much, fewer values of each input, then fewer
    inputs.
    """
    varied = [i for i in order if len(_values(shown.inputs[i], _STEPS)) > 1]
    for steps, most in ((_STEPS, _MOST_EFFECTS), (_FEW_STEPS, _MOST_EFFECTS), (_FEW_STEPS, _FEW)):
        measured = varied[:most]
        choices = [_values(shown.inputs[i], steps) for i in measured]
        asked = sum(len(values) for values in choices)
        if asked * _FEWEST_ROWS <= most_queries:
            break
    n_rows = int(np.clip(most_queries // max(asked, 1), _FEWEST_ROWS, _MOST_ROWS))
    rows = shown.some_rows(n_rows)
    base = [column.values[rows] for column in shown.inputs]
    pairs = zip(measured, choices, strict=True)
    return [_effect(shown, i, values, base) for i, values in pairs], len(varied) - len(measured)


def predicted_statistics(dist: ConditionalDistribution) -> dict[str, Array]:
    """Return :data:`STATISTICS` of every query, of a chain of outputs those of its draws.

    Averages over rows need no more, and marginals would be asked for as many predictions again.
    """
    few = dist if dist.n_outputs == 1 else dist.with_draws(_DRAWS)
    draws = None if dist.n_outputs == 1 else few.fixed_draws()
    if draws is None:
        return dist.summary(STATISTICS)
    found = quantiles(few, [0.01 * float(name[1:]) for name in STATISTICS[1:]])
    return dict(zip(STATISTICS, [draws.mean(axis=1), *found], strict=True))


def _effect(shown: Shown, place: int, values: NDArray, base: Sequence[NDArray]) -> Effect:
    n_rows, n_values = len(base[0]), len(values)
    columns = [np.tile(column, n_values) for column in base]
    columns[place] = np.repeat(values, n_rows)
    answers = predicted_statistics(shown.model.conditional(table_like(shown.X, columns)))
    averages = {
        name: found.reshape(n_values, n_rows, -1).mean(axis=1) for name, found in answers.items()
    }
    texts = _texts(shown.inputs[place], values)
    return Effect(place, values, texts, averages, n_rows)


def _values(column: Column, steps: int) -> NDArray:
    if column.kind == "category":
        return usual_categories(column, _CATEGORIES)
    return even_values(column, steps)


def _texts(column: Column, values: NDArray) -> tuple[str, ...]:
    return tuple(map(str, values)) if column.kind == "category" else number_texts(values)
