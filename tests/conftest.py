"""Shared by all tests: a fixed stream of random numbers, repeatable examples, real data."""

import os
import signal
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import settings

from kcdo.components import Effort
from kcdo.errors import DataNotFoundError

# The same examples in every run; the campaigns of tests/fuzz look for new ones.
settings.register_profile("kcdo", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("kcdo")

# A shell that starts the tests in the background lets them, and all they start, ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def rng():
    """A random generator that starts at the same place in every test."""
    return np.random.default_rng(20200826)


@pytest.fixture(scope="session")
def real():
    """Fetch a public data set from the folder that KCDO_DATA names; skip where it is not there."""
    if not os.environ.get("KCDO_DATA"):
        pytest.skip("KCDO_DATA does not name a folder of public data, see docs/datasets.md")

    def fetch(function, *arguments, **options):
        try:
            return function(*arguments, download_if_missing=False, **options)
        except DataNotFoundError as error:
            pytest.skip(str(error))

    return fetch


collect_ignore = ["conftest.py"]  # it has no doctests, and src/ has a module of this name


# Manners do not depend on how good the choice is: two or three steps of every search, few folds.
SHORT = Effort(
    race_steps=3,
    steps=2,
    filter_steps=2,
    factorisations=2,
    near_judgements=2,
    leaders=(2, 1),
    folds=2,
    many_folds=2,
    coarse_nodes={1: 40, 2: 12, 3: 6},
    fine_nodes={1: 100, 2: 24, 3: 10},
    local_judged=(30, 40),
    local_neighbours=(12, 12),
    metric_steps=(2, 2),
    crossed_rows=0,
    crossed_per_column=0,
    rough_rows=60,
    importance_rows=8,
)


@pytest.fixture
def give_effort(monkeypatch):
    """Set how much work every fit of an estimator may do: little, but for what is named."""

    def give(**fields):
        effort = replace(SHORT, **fields)
        monkeypatch.setattr("kcdo.estimators.conditional.EFFORT", effort)
        return effort

    return give


@pytest.fixture
def short_searches(give_effort):
    """Let every fit of an estimator do little work."""
    return give_effort()
