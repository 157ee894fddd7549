"""
Two outputs on a ring
=====================

The Gaussian donut is the example of the paper: points scatter about a tilted circle. A plane of
given x cuts it in two places, which come together as x nears the edge of the ring.
The scale of the input kernel was chosen by hand.
"""

import matplotlib.pyplot as plt

import kcdo

X, Y = kcdo.make_donut(n_per_mean=25, random_state=0)
model = kcdo.ConditionalDensityOperator(kcdo.Gaussian(0.1), selection="heuristic").fit(X, Y)

fig, axes = plt.subplots(1, 3, figsize=(11, 4), layout="constrained")
for ax, x in zip(axes, [0.0, 0.5, 0.9], strict=True):
    kcdo.JointDensityDisplay.from_estimator(model, [[x]], ax=ax)
    ax.set(xlim=(-1.5, 1.5), ylim=(-1.0, 0.4))

# %%
# The lines are the edges of the regions of highest density that hold half and nine tenths of the
# probability. A region knows its area and which points it contains.

region = model.conditional([[0.0]]).hpd(0.9)[0]
print("area", round(region.volume, 2))
print("contains (1, 0), (0, 0):", region.contains([[1.0, 0.0], [0.0, 0.0]]))
