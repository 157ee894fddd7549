"""Data in delayed chunks, and passes that kill the worker that is at them."""

import os
import signal
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import kcdo
from kcdo.distributed import Task

N = 600
CUTS = (0, 100, 220, 221, 221, 400, 600)  # with a chunk of one row and one of none


def waves(n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    return X, np.sin(2 * X[:, 0]) + 0.3 * rng.standard_normal(n)


def quick(**options):
    """A model that chooses by the rule, on few centres."""
    given = dict(solver=kcdo.Nystrom(20, chunk_rows=64), selection="heuristic")
    return kcdo.ConditionalDensityOperator(**given | options)


def cut(*arrays, at=CUTS):
    return [tuple(array[i:j] for array in arrays) for i, j in pairwise(at)]


def counted(folder, name):
    """Return how often this was called before, across all processes."""
    for count in range(1000):
        try:
            Path(folder, f"{name}-{count}").touch(exist_ok=False)
        except FileExistsError:
            continue
        return count
    raise AssertionError("called too often")


def noted(folder, chunk, name="read"):
    """Return a chunk, and count that it was read."""
    counted(folder, name)
    return chunk


def die_once(folder, name):
    """Kill this worker, by its own process id, the first time that any worker comes here."""
    if counted(folder, name) == 0:
        time.sleep(0.3)  # what it said of itself is on its way
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Deadly(Task):
    """A task that kills the worker that does it first."""

    task: Any
    folder: str
    name: str

    def split(self, number, chunk):
        return self.task.split(number, chunk)

    def __call__(self, item):
        die_once(self.folder, self.name)
        return self.task(item)


@dataclass(frozen=True)
class DeadlyAdd:
    """An addition that kills the worker that does it first."""

    add: Any
    folder: str
    name: str

    def __call__(self, first, second):
        die_once(self.folder, self.name)
        return self.add(first, second)


def same_bits(found, expected):
    for name in ("cross", "targets", "ones", "target_totals", "weight"):
        one, other = (np.asarray(getattr(model.sums_, name)) for model in (found, expected))
        np.testing.assert_array_equal(one, other)
    queries = np.random.default_rng(1).uniform(-1.5, 1.5, (9, 2))
    y = np.linspace(-2, 2, 30)
    one, other = (model.conditional(queries).pdf(y) for model in (found, expected))
    np.testing.assert_array_equal(one, other)
