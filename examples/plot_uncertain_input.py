"""
An input that is not known exactly
==================================

A sensor reads x = 1.0 with an error of a known size. Conditioning on the reading alone is too sure
of itself; conditioning on its distribution gives the mixture that the error implies.
"""

import numpy as np

import kcdo

rng = np.random.default_rng(0)
x = rng.uniform(-2, 3, 150)
y = np.tanh(4 * (x - 1)) + 0.12 * rng.normal(size=150)  # a switch at x = 1
model = kcdo.ConditionalDensityOperator().fit(x[:, None], y)

kcdo.DensityHeatmapDisplay.from_estimator(model, x[:, None], y)

# %%
# The same reading with errors of growing size. From some size on, y is either low or high, seldom
# between.

errors = [0.0, 0.1, 0.3, 0.6]
queries = kcdo.GaussianInput([[1.0]] * len(errors), cov=[[sd**2] for sd in errors])
kcdo.RidgelineDisplay.from_distribution(
    model.conditional(queries), labels=[f"1.0 ± {sd}" for sd in errors], output_name="y"
)

# %%
# What is known about x may also be a sample, say from a forecast or a filter.

forecast = rng.choice([0.6, 1.4], 200, p=[0.8, 0.2]) + 0.05 * rng.normal(size=200)
dist = model.conditional(kcdo.SampleInput([forecast[:, None]]))
print("P(y > 0) =", (1 - dist.cdf([0.0])).round(2)[0, 0])
