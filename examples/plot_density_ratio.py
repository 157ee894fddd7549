"""
How a sample differs from another
=================================

With a sample as reference measure, the reconstruction is the ratio of two densities. It says how
much more often a value occurs in one sample than in the other, and so re-weights rows when
the inputs of tomorrow are not those of yesterday.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

import kcdo

rng = np.random.default_rng(0)
before = rng.normal(0.0, 1.0, (1500, 1))
after = rng.normal(0.7, 0.6, (1500, 1))

ratio = kcdo.DensityReconstruction(reference=kcdo.Sample(before)).fit(after)

grid = np.linspace(-3, 3, 200)[:, None]
truth = norm.pdf(grid[:, 0], 0.7, 0.6) / norm.pdf(grid[:, 0])

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.hist([before[:, 0], after[:, 0]], bins=40, histtype="step", label=["before", "after"])
left.set(xlabel="x", ylabel="rows")
left.legend(frameon=False)
right.plot(grid, ratio.pdf(grid), label="estimated")
right.plot(grid, truth, "--", color="black", linewidth=1, label="true")
right.set(xlabel="x", title="p(after) / p(before)")
right.legend(frameon=False)

# %%
# Weighted by the ratio, averages over the old rows become averages under the new distribution.

weights = ratio.pdf(before)
print("mean of x² before  ", np.mean(before**2).round(2))
print("re-weighted        ", np.average(before[:, 0] ** 2, weights=weights).round(2))
print("true mean after    ", round(0.7**2 + 0.6**2, 2))
