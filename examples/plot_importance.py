"""
Which inputs matter
===================

The default selection gives every input a scale of its own, which grows until the input is as
good as switched off if it does not help to predict. Here one input moves the output, one sets its
noise, and three do nothing.
"""

import numpy as np
import pandas as pd

import kcdo

rng = np.random.default_rng(0)
X = pd.DataFrame(
    rng.uniform(-1, 1, (150, 5)), columns=["mover", "shaker", "idle 1", "idle 2", "idle 3"]
)
y = np.sin(3 * X["mover"]) + (0.05 + 0.3 * (X["shaker"] + 1)) * rng.normal(size=150)
model = kcdo.ConditionalDensityOperator().fit(X, y)

# %%
# The importance of an input is how far predictions move when its values are shuffled among the
# rows, from 0 to 1 (:func:`kcdo.metrics.importances`). Effects on the mean and on the spread both
# count; inputs that say the same share what they tell. So look at the densities too.

display = kcdo.ImportanceDisplay.from_estimator(model)
display.ax_.set_xlim(0, 1.2 * max(display.importances.values()))

# %%
# The density over the first input, with the others at typical values.

kcdo.DensityHeatmapDisplay.from_estimator(model, X, feature="mover")

# %%
# And over the second, where the mean stays and the width changes.

kcdo.DensityHeatmapDisplay.from_estimator(model, X, feature="shaker", at={"mover": 0.5})
