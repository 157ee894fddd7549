"""Traffic problems: day of week and time of day as inputs, statistics of each input as truth."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from experiments.runner import Options
from kcdo.arrays import Array
from kcdo.datasets import (
    fetch_caltrans_hourly,
    fetch_dodgers_loop,
    fetch_metro_interstate,
    fetch_pems_sf,
)
from kcdo.errors import DataNotFoundError

JOINT = "Caltrans, both sensors"
SHAPE = "generated, PEMS-SF shape"
_QUICK_WEEKS, _QUICK_JOINT_WEEKS = 12, 6
_TRAIN_DAYS, _TEST_DAYS = 32, 20  # of each day of the week, as in the paper


@dataclass(frozen=True)
class Traffic:
    """Training and test rows."""

    X: Array
    Y: Array
    X_test: Array
    Y_test: Array


@dataclass(frozen=True)
class Statistics:
    """Mean and sd of the outputs of each distinct input."""

    inputs: Array
    counts: NDArray[np.integer]
    mean: Array
    sd: Array

    @classmethod
    def of(cls, X: Array, y: Array) -> "Statistics":
        """Statistics of one output."""
        inputs, member = np.unique(X, axis=0, return_inverse=True)
        member = member.ravel()
        counts = np.bincount(member)
        mean = np.bincount(member, y) / counts
        sd = np.sqrt(np.bincount(member, (y - mean[member]) ** 2) / counts)
        return cls(inputs, counts, mean, sd)


def problems(options: Options) -> dict[str, Callable[[], Traffic]]:
    """The problems that can be run here, each with a function that loads it."""
    found = {name: load for name, load in _loaders(options).items() if _is_there(load)}
    if options.quick:
        return {name: found[name] for name in ("Caltrans, sensor_861", JOINT) if name in found}
    return found


def missing(options: Options) -> list[str]:
    """What cannot be run here, and why."""
    reasons = []
    for load in _loaders(options).values():
        try:
            load()
        except DataNotFoundError as error:
            reasons.append(str(error))
    return list(dict.fromkeys(reasons))


def _is_there(load: Callable[[], Traffic]) -> bool:
    try:
        load()
    except DataNotFoundError:
        return False
    return True


def _loaders(options: Options) -> dict[str, Callable[[], Traffic]]:
    home = options.data
    weeks, joint_weeks = (_QUICK_WEEKS, _QUICK_JOINT_WEEKS) if options.quick else (None, None)
    return {
        "Caltrans, sensor_0": lambda: _caltrans(home, 0, weeks),
        "Caltrans, sensor_861": lambda: _caltrans(home, 1, weeks),
        "Metro Interstate": lambda: _whole(_read(fetch_metro_interstate, home)),
        "Dodgers loop": lambda: _whole(_read(fetch_dodgers_loop, home)),
        "PEMS-SF": lambda: balanced(_read(fetch_pems_sf, home, download_if_missing=False)),
        JOINT: lambda: _caltrans(home, slice(None), joint_weeks),
    }


@lru_cache(maxsize=8)
def _read(fetch: Callable[..., Any], home: Path | None, **options: Any) -> Any:
    return fetch(data_home=home, **options)


def _caltrans(home: Path | None, sensor: Any, weeks: int | None) -> Traffic:
    data = _read(fetch_caltrans_hourly, home)
    n = None if weeks is None else weeks * 7 * 24
    return _halves(data.data[:n], data.target[:n, sensor], data.train[:n])


def _whole(data: Any) -> Traffic:
    return _halves(data.data, data.target, data.train)


def _halves(X: Array, Y: Array, train: NDArray[np.bool_]) -> Traffic:
    return Traffic(X[train], Y[train], X[~train], Y[~train])


def balanced(data: Any) -> Traffic:
    """The paper's numbers of days: 32 of each day of the week to train, 20 to test."""
    parts = []
    for train, most in ((True, _TRAIN_DAYS), (False, _TEST_DAYS)):
        days, first = np.unique(data.day[data.train == train], return_index=True)
        weekday = data.data[data.train == train][first, 0]
        kept = np.concatenate([days[weekday == d][:most] for d in np.unique(weekday)])
        rows = np.isin(data.day, kept)
        parts += [data.data[rows], data.target[rows]]
    return Traffic(*parts)


def pems_shape(days: int = _TRAIN_DAYS, slots: int = 144, seed: int = 0) -> tuple[Traffic, Array]:
    """Generated occupancies of PEMS-SF's shape, 7 x 144 inputs, and the true mean and sd.

    Beta distributed around two rush hours on working days and one swell at the week-end; not
    real data: for the time of a fit, and against a truth that is known.
    """
    weekday, slot = np.divmod(np.arange(7 * slots), slots)
    hour = 24.0 * slot / slots
    rush = np.exp(-(((hour - 8) / 1.5) ** 2)) + 0.8 * np.exp(-(((hour - 17.5) / 2.0) ** 2))
    leisure = 0.5 * np.exp(-(((hour - 14) / 4.0) ** 2))
    mean = 0.02 + 0.2 * np.where(weekday < 5, rush * (1 + 0.05 * weekday), leisure)
    inputs = np.column_stack([weekday, hour]).astype(float)
    law = beta(60 * mean, 60 * (1 - mean))
    rng = np.random.default_rng(seed)
    Y = law.rvs((days, len(mean)), random_state=rng)
    X = np.tile(inputs, (days, 1))
    traffic = Traffic(X, Y.ravel(), inputs, mean)
    return traffic, np.column_stack([mean, law.std()])
