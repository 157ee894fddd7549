"""Gradients against central differences."""

import numpy as np


def numeric_gradient(value, theta, step=1e-5):
    """Return the central differences of ``value`` at a vector."""
    units = step * np.eye(len(theta))
    return np.array([(value(theta + e) - value(theta - e)) / (2 * step) for e in units])


def assert_gradient(objective, theta, rtol=1e-5, step=1e-5):
    """Check the gradient of theta -> (value, gradient), relative to its largest entry."""
    _, gradient = objective(theta)
    expected = numeric_gradient(lambda t: objective(t)[0], theta, step)
    assert gradient.shape == theta.shape
    size = np.abs(expected).max()
    assert size > 0
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=rtol * size)
