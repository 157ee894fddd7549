"""
Two answers to one question
===========================

The same input can lead to two different outputs, and then the mean lies where nothing happens. A
conditional density shows both.

The scales of the kernels are given here; without them the model chooses its own.
"""

import numpy as np

import kcdo

rng = np.random.default_rng(0)
x = rng.uniform(-3, 3, 800)
branch = np.where(rng.uniform(size=800) < 0.65, 1, -1)
y = branch * (1 + np.sin(x)) + 0.15 * rng.normal(size=800)

model = kcdo.ConditionalDensityOperator(
    kcdo.Gaussian(0.3), kernel_y=kcdo.Gaussian(0.15), selection="heuristic"
).fit(x[:, None], y)

# %%
# The heat map shows p(y|x); red dots mark its modes. Where the branches meet, at x = -π/2, there is
# one; elsewhere there are two, and the interval spans the empty space between them.

kcdo.DensityHeatmapDisplay.from_estimator(model, x[:, None], y)

# %%
# Some of the densities by themselves.

kcdo.RidgelineDisplay.from_estimator(model, [[-2.5], [-1.6], [-0.5], [0.5], [1.5], [2.5]])

# %%
# A region of highest density is the smallest set that holds a given probability. Here it is two
# intervals, together much shorter than the central one.

dist = model.conditional([[1.5]])
print("mean            ", dist.mean().round(2))
print("central 90 %    ", dist.interval(0.9).round(2)[0])
region = dist.hpd(0.9)[0]
print("highest density ", region.intervals.round(2).tolist(), "length", round(region.volume, 2))
