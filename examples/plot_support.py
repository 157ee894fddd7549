"""
Outputs that cannot be negative
===============================

Waiting times, prices and concentrations stop at zero. Smoothing does not know that, unless it is
told: ``support=(0, None)`` puts no mass outside.

The scales of the kernels were chosen by hand for this picture. With those that the model chooses by
itself, a narrow spike can stand at the bound.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import gamma

import kcdo

rng = np.random.default_rng(0)
x = rng.uniform(0, 2, 600)
wait = rng.gamma(3, 0.2 + x / 2)

options = {"kernel_x": kcdo.Gaussian(0.5), "kernel_y": kcdo.Gaussian(0.6)}
free = kcdo.ConditionalDensityOperator(**options, selection="heuristic")
free.fit(x[:, None], wait)
bounded = kcdo.ConditionalDensityOperator(**options, selection="heuristic", support=(0, None))
bounded.fit(x[:, None], wait)

grid = np.linspace(-1, 7, 400)
fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained", sharey=True)
for ax, value in zip(axes, [0.1, 1.5], strict=True):
    ax.plot(grid, free.conditional([[value]]).pdf(grid)[0], label="no bound declared")
    ax.plot(grid, bounded.conditional([[value]]).pdf(grid)[0], label="support=(0, None)")
    ax.plot(grid, gamma.pdf(grid, 3, scale=0.2 + value / 2), "--k", linewidth=1, label="truth")
    ax.set(xlabel="wait", title=f"x = {value}")
axes[0].set_ylabel("density")
axes[1].legend(frameon=False)

# %%
# The mass below zero:

queries = [[0.1], [1.5]]
print("no bound:", free.conditional(queries).cdf([0.0])[:, 0].round(3))
print("bounded: ", bounded.conditional(queries).cdf([0.0])[:, 0].round(3))
