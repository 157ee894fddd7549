"""Shared by all tests: a fixed stream of random numbers, repeatable examples, real data."""

import os
import signal
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import settings

from kcdo.errors import DataNotFoundError
from tests.efforts import SHORT

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
