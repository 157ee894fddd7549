"""Data in delayed chunks, some of which kill the worker that reads them."""

import os
import signal
from itertools import pairwise
from pathlib import Path

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


def killing(folder, number, at, chunk):
    """Return a chunk; at its ``at``-th reading kill the worker, by its own process id."""
    if counted(folder, f"read-{number}") == at:
        os.kill(os.getpid(), signal.SIGKILL)
    return chunk


class Count(Task):
    """Sums the outputs of a chunk."""

    def __call__(self, item):
        return float(item[1][1].sum()) if len(item[1][1]) else None


class KillingAdd:
    """Adds two numbers; the first time it kills the worker instead."""

    def __init__(self, folder):
        self.folder = str(folder)

    def __call__(self, first, second):
        if counted(self.folder, "added") == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return first + second


def same_bits(found, expected):
    for name in ("cross", "targets", "ones", "target_totals", "weight"):
        one, other = (np.asarray(getattr(model.sums_, name)) for model in (found, expected))
        np.testing.assert_array_equal(one, other)
    queries = np.random.default_rng(1).uniform(-1.5, 1.5, (9, 2))
    y = np.linspace(-2, 2, 30)
    one, other = (model.conditional(queries).pdf(y) for model in (found, expected))
    np.testing.assert_array_equal(one, other)
