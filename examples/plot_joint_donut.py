"""
Two outputs on a ring
=====================

The Gaussian donut is the example of the paper: given x, the outputs (y, z) lie on a ring whose radius
depends on x. The marginals say nothing of the hole; the joint density shows it.
"""

import matplotlib.pyplot as plt

import kcdo

X, Y = kcdo.make_donut(n_per_mean=20, random_state=0)
model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, Y)

fig, axes = plt.subplots(1, 3, figsize=(11, 4), layout="constrained", sharex=True, sharey=True)
for ax, x in zip(axes, [0.0, 0.5, 0.9], strict=True):
    kcdo.JointDensityDisplay.from_estimator(model, [[x]], ax=ax)

# %%
# The lines are the edges of the regions of highest density that hold half and nine tenths of the
# probability. A region knows its area and which points it contains.

region = model.conditional([[0.0]]).hpd(0.9)[0]
print("area", round(region.volume, 2))
print("contains (1, 0), (0, 0):", region.contains([[1.0, 0.0], [0.0, 0.0]]))
