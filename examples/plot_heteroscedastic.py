"""
Noise that depends on the input
===============================

Bands of a conditional density widen where the data scatter and narrow where they do not. Nothing
has to be declared for it.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

import kcdo

rng = np.random.default_rng(1)


def middle(x):
    return np.sin(1.5 * x)


def noise(x):
    return 0.08 + 0.5 * (x / 4) ** 2


x = rng.uniform(0, 4, 150)
y = middle(x) + noise(x) * rng.normal(size=150)

model = kcdo.ConditionalDensityOperator().fit(x[:, None], y)
display = kcdo.DensityHeatmapDisplay.from_estimator(model, x[:, None], y)

# %%
# The quantiles of the model beside the true ones.

grid = np.linspace(0.05, 3.95, 100)
levels = [0.05, 0.25, 0.5, 0.75, 0.95]
estimated = model.conditional(grid[:, None]).quantile(levels)

fig, ax = plt.subplots(layout="constrained")
for level, line in zip(levels, estimated.T, strict=True):
    (drawn,) = ax.plot(grid, line, label=f"{level:.0%}")
    truth = middle(grid) + noise(grid) * norm.ppf(level)
    ax.plot(grid, truth, "--", color=drawn.get_color(), linewidth=1)
ax.set(xlabel="x", ylabel="y", title="quantiles: estimated (solid) and true (dashed)")
ax.legend(title="quantile", fontsize="small")
