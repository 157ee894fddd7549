"""Outputs that were rounded, for methods that have no width of their own."""

import numpy as np

from kcdo.arrays import Array


def dequantised(Y: Array, gap: Array, seed: int) -> Array:
    """Outputs (N, d) plus uniform noise of one gap (d,)."""
    noise = np.random.default_rng(seed + 7919).uniform(-0.5, 0.5, Y.shape)
    return Y + noise * gap
