"""
Does it hold what it promises?
==============================

Is an interval of 90 % right nine times out of ten? Measured on rows the model has not seen: the
diabetes data that come with scikit-learn.
"""

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

import kcdo
from kcdo import metrics

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X_fit, X_rest, y_fit, y_rest = train_test_split(X, y, train_size=0.5, random_state=0)
X_new, X_test, y_new, y_test = train_test_split(X_rest, y_rest, train_size=0.5, random_state=0)

model = kcdo.ConditionalDensityOperator(selection="heuristic", support=(0, None))
model.fit(X_fit, y_fit)

# %%
# Left, the places of the outputs within their predicted distributions: flat, if these are right.
# Right, the share of outputs inside intervals of each level. In the grey bands 95 % of calibrated
# models lie by chance.

kcdo.CalibrationDisplay.from_estimator(model, X_test, y_test)

# %%
# Conformal calibration on other rows makes the coverage hold whatever the model.

conformal = kcdo.conformalize(model, X_new, y_new)
for name, dist in [
    ("model    ", model.conditional(X_test)),
    ("conformal", conformal.conditional(X_test)),
]:
    inside = metrics.interval_coverage(dist, y_test, level=0.9)
    width = np.mean(metrics.interval_width(dist, level=0.9))
    print(f"{name}  coverage {inside:.2f}, mean width {width:.0f}")
