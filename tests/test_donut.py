"""The published donut figures, and how far better parameters go."""

import numpy as np
import pytest

import kcdo
from experiments import donut as experiment


@pytest.mark.slow
def test_as_published_lies_in_the_published_range():
    """Tilt about x, joint target, N = 3750: the box plot's whiskers are 0.027 and 0.050."""
    _, joint = experiment.errors(kcdo.Donut(axis="x"), experiment.as_published, 75, seed=0)
    assert np.all((joint > 0.027) & (joint < 0.050))


@pytest.mark.slow
def test_parameters_from_the_data_beat_the_published_ones():
    """Tilt about y, true conditional density, N = 2500; the zero function scores 0.0625."""
    chosen = experiment.ESTIMATES["parameters of the leave-one-out log score"]
    conditional, _ = experiment.errors(kcdo.Donut(), chosen, 50, seed=0)
    assert np.all(conditional < 0.022)
    zero, _ = experiment.errors(kcdo.Donut(), experiment.ESTIMATES["the zero function"], 50, 0)
    np.testing.assert_allclose(zero, 0.0625, atol=1e-3)
