"""Shared by the tests and the examples of docstrings: figures do not outlive them."""

import sys

import pytest


@pytest.fixture(autouse=True)
def close_figures():
    """Close the figures that a test leaves open: pyplot keeps them and warns beyond twenty."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
