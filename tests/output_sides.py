"""Outputs and reference measures that tests of losses and of filters share."""

import numpy as np
import pytest

from kcdo.measures import QuasiRandomBox, Sample, UniformBox


def outputs(d, n=12, seed=0):
    """Normal outputs, (n, d)."""
    return np.random.default_rng(seed).normal(size=(n, d))


def measures():
    """Return a few nodes of every kind."""
    return {
        "line": UniformBox(nodes=15).realise(outputs(1)),
        "plane": UniformBox(nodes=(6, 5)).realise(outputs(2)),
        "scattered": QuasiRandomBox(-3.0, 3.0, n_nodes=32).realise(outputs(2)),
        "sample": Sample(outputs(1, 20, 7)).realise(outputs(1)),
    }


EACH_MEASURE = pytest.mark.parametrize("measure", measures().values(), ids=measures())
