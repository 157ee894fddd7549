"""
Which inputs matter
===================

The default selection gives every input a scale of its own, and switches off inputs that do not help
to predict. Friedman's first function has ten inputs, of which five are used.
"""

import pandas as pd
from sklearn.datasets import make_friedman1

import kcdo

X, y = make_friedman1(150, n_features=10, noise=1.0, random_state=0)
X = pd.DataFrame(X, columns=[f"x{j}" for j in range(10)])
model = kcdo.ConditionalDensityOperator().fit(X, y)

kcdo.ImportanceDisplay.from_estimator(model)

# %%
# The density over the fourth input, with the others at a typical row: a straight line in truth.

kcdo.DensityHeatmapDisplay.from_estimator(model, X, feature="x3")

# %%
# The other things that the fit chose.

kcdo.ReportDisplay.from_estimator(model)
