"""Shared by all tests: a fixed stream of random numbers, repeatable examples, real data."""

import os

import numpy as np
import pytest
from hypothesis import settings

from kcdo.errors import DataNotFoundError
from kcdo.tuning import minimise

settings.register_profile("kcdo", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("kcdo")


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


@pytest.fixture
def short_searches(monkeypatch):
    """Two steps of every search, few folds: manners do not depend on how good the choice is."""

    def two_steps(objective, start, bounds, steps, tolerance=0.0):
        return minimise(objective, start, bounds, 2)

    monkeypatch.setattr("kcdo.tuning.means.minimise", two_steps)
    monkeypatch.setattr("kcdo.tuning.densities.minimise", two_steps)
    monkeypatch.setattr("kcdo.automatic.fit._MANY_FOLDS", 2)
