"""Shared by all tests: a fixed stream of random numbers, and repeatable hypothesis examples."""

import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("kcdo", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("kcdo")


@pytest.fixture
def rng():
    """A random generator that starts at the same place in every test."""
    return np.random.default_rng(20200826)
